//! What can be said on the command line.

use std::{
    io::{self, IsTerminal as _},
    path::PathBuf,
    str::FromStr,
    time::Duration,
};

use clap::{Args as Group, CommandFactory as _, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use hookd_client::{Address, AddressError, Client, OnUnavailable};
use hookd_rules::Tier;

use crate::report::Failure;

const DEFAULT_ADDRESS: &str = "127.0.0.1:50051";

/// Asks hookd whether anyone wants to step in, and looks at its rules.
#[derive(Debug, Parser)]
#[command(
    name = "hookctl",
    version,
    propagate_version = true,
    after_help = "Exit codes: 0 none or allow; 2 block or halt; 3 ask or defer; 1 hookd could not be asked, a reload was \
                  refused, or a check found errors; 64 wrong usage."
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every subcommand takes.
#[derive(Debug, Group)]
pub(crate) struct Global {
    /// Where hookd listens: `host:port`, `http://host:port` or `unix:/path`; or a list with commas, of which one is
    /// taken at random and the others in turn where it does not answer.
    #[arg(long, global = true, env = "HOOKD_ADDRESS", value_name = "ADDRESS,…", default_value = DEFAULT_ADDRESS)]
    address: Addresses,
    /// How long hookd may take, such as `30s` or `500ms`. Handlers share this time.
    #[arg(long, global = true, value_name = "TIME", default_value = "30s", value_parser = timeout)]
    timeout: Duration,
    /// For whom to write.
    #[arg(long, global = true, value_enum, default_value_t = Output::Human)]
    pub(crate) output: Output,
    /// When to use colours. `auto`: on a terminal, unless NO_COLOR is set.
    #[arg(long, global = true, value_enum, default_value_t = Colour::Auto)]
    color: Colour,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Asks hookd about one event and shows the decision.
    Trigger(Box<EventArgs>),
    /// Checks rule files without a server.
    Check(CheckArgs),
    /// Lists the loaded rules in evaluation order.
    Rules {
        /// Only the rules of this event.
        #[arg(long)]
        event: Option<String>,
    },
    /// Says for every rule of an event whether it would run, and why. Starts no handler.
    Explain(Box<EventArgs>),
    /// Says what runs: version, revision, sources.
    Status,
    /// Makes hookd read its rules again.
    Reload,
    /// Writes a completion script.
    Completions {
        /// The shell that it is for.
        shell: Shell,
    },
}

/// One event, from flags or from a file.
#[derive(Debug, Group)]
pub(crate) struct EventArgs {
    /// Name of the event, such as PreToolUse.
    #[arg(required_unless_present = "input")]
    pub(crate) event: Option<String>,
    /// The whole event as one JSON object, from a file or from standard input (`-`): {"event", "sessionId",
    /// "timestamp" (ms), "toolCall": {"tool", "params", "result", "toolUseId"}, "cwd", "payload", "caller",
    /// "requestId"}; only "event" is required.
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "event", "tool", "params", "result", "tool_use_id", "session", "payload", "request_id", "agent", "agent_type",
        "project", "user", "label",
    ])]
    pub(crate) input: Option<PathBuf>,
    /// The tool.
    #[arg(long)]
    pub(crate) tool: Option<String>,
    /// The tool's parameters, a JSON object.
    #[arg(long, value_name = "JSON", requires = "tool")]
    pub(crate) params: Option<String>,
    /// The tool's result, any JSON value.
    #[arg(long, value_name = "JSON", requires = "tool")]
    pub(crate) result: Option<String>,
    /// The agent's id of the tool call.
    #[arg(long, value_name = "ID", requires = "tool")]
    pub(crate) tool_use_id: Option<String>,
    /// The agent's session.
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// What else belongs to the event, a JSON object.
    #[arg(long, value_name = "JSON")]
    pub(crate) payload: Option<String>,
    /// The agent's working directory [default: the current one].
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// The caller's id of this request.
    #[arg(long, value_name = "ID")]
    pub(crate) request_id: Option<String>,
    /// Name of the agent program, as the agent claims.
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Type of the agent, as it claims.
    #[arg(long, value_name = "TYPE")]
    pub(crate) agent_type: Option<String>,
    /// Project, as the agent claims.
    #[arg(long)]
    pub(crate) project: Option<String>,
    /// Person, as the agent claims.
    #[arg(long)]
    pub(crate) user: Option<String>,
    /// A label, as the agent claims. May be given several times.
    #[arg(long, value_name = "NAME=VALUE", value_parser = label)]
    pub(crate) label: Vec<(String, String)>,
    /// The revision of the rules that has to be in force.
    #[arg(long, value_name = "REVISION")]
    pub(crate) expect_revision: Option<String>,
}

/// What to check.
#[derive(Debug, Group)]
pub(crate) struct CheckArgs {
    /// Rule files, and directories of which every .json, .yaml and .yml is read. Without any: where hookd looks without
    /// a configuration, each place in its own tier.
    pub(crate) paths: Vec<PathBuf>,
    /// The tier that the files are for: managed, team, local, shared or plugin.
    #[arg(long, default_value = "managed", value_parser = tier)]
    pub(crate) tier: Tier,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For a person.
    Human,
    /// One JSON object.
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Colour {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Clone)]
struct Addresses(Vec<Address>);

impl Global {
    /// A client of the addresses, with the time limit.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        // What is asked here is looked at, not acted on: nothing depends on what happens where hookd is not there.
        let builder = Client::builder(self.address.0.clone(), OnUnavailable::Block);
        // A person waits: better to say soon that nobody answers.
        builder.deadline(self.timeout).rounds(2).build().map_err(|error| Failure::usage(error.to_string()))
    }

    /// Whether to write colours.
    pub(crate) fn colour(&self) -> bool {
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        match self.color {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto => {
                let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
                io::stdout().is_terminal() && !set("NO_COLOR") && !dumb
            }
        }
    }
}

impl FromStr for Addresses {
    type Err = AddressError;

    fn from_str(list: &str) -> Result<Self, AddressError> {
        // A variable that is set to nothing is as good as not set.
        let list = if list.trim().is_empty() { DEFAULT_ADDRESS } else { list };
        Address::parse_list(list).map(Self)
    }
}

/// The completion script for `shell`.
pub(crate) fn completions(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "hookctl", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

fn timeout(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(Duration::ZERO) => Err("no time at all, expected such as `30s` or `500ms`".to_owned()),
        Ok(timeout) => Ok(timeout),
        Err(error) => Err(format!("{error}, expected such as `30s` or `500ms`")),
    }
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

fn tier(name: &str) -> Result<Tier, String> {
    Tier::from_name(name).ok_or_else(|| "expected managed, team, local, shared or plugin".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Args::command().debug_assert();
    }
}
