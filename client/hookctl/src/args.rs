//! What can be said on the command line.

mod credentials;

use std::{
    ffi::OsString,
    io::{self, IsTerminal as _},
    path::PathBuf,
    str::FromStr,
    time::Duration,
};

use clap::{Args as Group, CommandFactory as _, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use hookd_agents::Agent;
use hookd_audit::Hash;
use hookd_client::{Address, AddressError, Client, Credentials, variables};
use hookd_rules::Tier;

pub(crate) use self::credentials::{CredentialArgs, by_option, over, variables_set};
use crate::report::Failure;

/// Where hookd listens unless somebody says otherwise.
pub(crate) const DEFAULT_ADDRESS: &str = "127.0.0.1:50051";
/// Over the options of every subcommand, so that its own stand together.
const EVERYWHERE: &str = "For every subcommand";

/// Asks hookd whether anyone wants to step in, and looks at its rules.
#[derive(Debug, Parser)]
#[command(
    name = "hookctl",
    version,
    propagate_version = true,
    after_help = "Exit codes: 0 none or allow; 2 block or halt; 3 ask or defer; 1 hookd could not be asked, a reload was \
                  refused, a check or verification found errors, or something could not be written or carried over; 64 \
                  wrong usage."
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
    /// Where hookd listens: `host:port`, `https://host:port` (TLS) or `unix:/path`; or a list with commas, which are
    /// asked in turn from a random one on. A name stands for all of its addresses [default: HOOKD_ADDRESS, else 127.0.0.1:50051].
    #[arg(long, global = true, value_name = "ADDRESS,…", help_heading = EVERYWHERE)]
    pub(crate) address: Option<Addresses>,
    #[command(flatten)]
    pub(crate) credentials: CredentialArgs,
    /// How long hookd may take, such as `30s` or `500ms`. Handlers share this time.
    #[arg(long, global = true, value_name = "TIME", default_value = "30s", value_parser = timeout, help_heading = EVERYWHERE)]
    timeout: Duration,
    /// For whom to write.
    #[arg(long, global = true, value_enum, default_value_t = Output::Human, help_heading = EVERYWHERE)]
    pub(crate) output: Output,
    /// When to use colours. `auto`: on a terminal, unless NO_COLOR is set.
    #[arg(long, global = true, value_enum, default_value_t = Colour::Auto, help_heading = EVERYWHERE)]
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
    Explain(Box<ExplainArgs>),
    /// Says what runs: version, revision, sources.
    Status,
    /// Makes hookd read its rules again.
    Reload,
    /// Answers a hook of an agent: its input on standard input, its answer on standard output and in the exit code.
    Relay(RelayArgs),
    /// Writes the hooks that ask hookd into an agent's own settings. Shows what it would change, unless told to write.
    Install(Box<InstallArgs>),
    /// Writes an agent's hook file as native rules (YAML, or JSON with `--output json`) to standard output, and what could
    /// not be carried over to standard error.
    Import(ImportArgs),
    /// Trusts rule files of repositories, so that `hookctl relay` offers them to hookd and runs their commands.
    Trust(TrustArgs),
    /// Looks into the audit trail that hookd writes, without a server.
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Runs a program that nobody waits for to its end, or to that of its time. For `hookctl relay`.
    #[command(hide = true)]
    Detached(DetachedArgs),
    /// Writes a completion script.
    Completions {
        /// The shell that it is for.
        shell: Shell,
    },
}

/// What is done with an audit trail.
#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Says whether a record was removed, changed, put in or moved. Exits with 1 if so.
    Verify(VerifyArgs),
}

/// What is verified.
#[derive(Debug, Group)]
pub(crate) struct VerifyArgs {
    /// The file, and those that were rotated out of it, in any order: they are one chain.
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// The hash that the last record has to have, as it was noted somewhere else: that the end was cut off can be seen
    /// by nothing else.
    #[arg(long, value_name = "HASH")]
    pub(crate) expect_last: Option<Hash>,
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

/// What to explain, and for whom.
#[derive(Debug, Group)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    pub(crate) event: EventArgs,
    /// A verified label of the caller to explain it for; with any, whoever asks does not count. May be given several
    /// times.
    #[arg(long = "as", value_name = "NAME=VALUE", value_parser = label)]
    pub(crate) labels: Vec<(String, String)>,
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

/// Answers a hook of an agent: its input on standard input, its answer on standard output and in the exit code.
// Alone: what an agent starts before each of its steps does not pay for the other subcommands.
#[derive(Debug, Parser)]
#[command(name = "hookctl relay", bin_name = "hookctl relay", version)]
pub(crate) struct RelayOnly {
    #[command(flatten)]
    pub(crate) relay: RelayArgs,
}

/// How an agent's hook is answered.
///
/// Where hookd is, and what is done without it, comes from here, then from the file, then (only where it is) from
/// HOOKD_ADDRESS: a repository's settings can set variables. Files of credentials come from here or from the file alone.
#[derive(Debug, Group)]
pub(crate) struct RelayArgs {
    /// Whose hook this is, such as claude-code.
    #[arg(long, value_name = "NAME", value_parser = agent)]
    pub(crate) agent: Agent,
    /// The agent's name of the event, for inputs that do not say it or cannot be read.
    #[arg(long, value_name = "NAME")]
    pub(crate) event: Option<String>,
    /// Where hookd listens, as everywhere in hookctl.
    #[arg(long, value_name = "ADDRESS,…")]
    pub(crate) address: Option<Addresses>,
    #[command(flatten)]
    pub(crate) credentials: CredentialArgs,
    /// The file that says the rest; only its owner (root or this user) may be able to write it and its folder
    /// [default: /etc/hookd/relay.yaml, else ~/.config/hookd/relay.yaml].
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// What happens on events that can block where hookd cannot be asked [default: block].
    #[arg(long, value_name = "block|allow")]
    pub(crate) on_unavailable: Option<OnUnavailable>,
    /// How long it may take in all, such as `10s`. Keep it a fifth below the time that the agent gives the hook: most
    /// agents go on where a hook is late [default: 30s, at most four fifths of the agent's own default].
    #[arg(long, value_name = "TIME", value_parser = timeout)]
    pub(crate) deadline: Option<Duration>,
    /// Hook files that the agent leaves to hookd instead of running them itself: `project`, `user`, `plugins`. Those of a
    /// project count once they are trusted (`hookctl trust`).
    #[arg(long, value_name = "WHOSE,…", value_delimiter = ',')]
    pub(crate) offer: Vec<Origin>,
    /// Say on standard error what was left out, and why.
    #[arg(long)]
    pub(crate) verbose: bool,
}

/// Whose settings get which hooks.
#[derive(Debug, Group)]
pub(crate) struct InstallArgs {
    /// The agent, such as claude-code.
    #[arg(value_name = "AGENT", value_parser = agent)]
    pub(crate) agent: Agent,
    /// Whose settings: those of the whole machine, of this person, or of the project in the current directory.
    #[arg(long, value_enum, default_value_t = Scope::User)]
    pub(crate) scope: Scope,
    /// The settings file, where it is not the usual one of the scope; of Cline the folder.
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Write it. Without this, nothing but the difference is shown.
    #[arg(long)]
    pub(crate) write: bool,
    /// Take out what this command has put in, and nothing else.
    #[arg(long)]
    pub(crate) remove: bool,
    /// Let the agent post its hooks to hookd itself, where it can and where a failure does not let the call run. The
    /// address is that of `--address`.
    #[arg(long)]
    pub(crate) http: bool,
    /// Ask on these events alone, by the agent's own names or by hookd's [default: all that hookd can say something on].
    #[arg(long, value_name = "EVENT,…", value_delimiter = ',')]
    pub(crate) events: Vec<String>,
    /// What `hookctl relay` does on events that can block where hookd cannot be asked. `allow` also leaves out the
    /// agent's own switch for hooks that fail.
    #[arg(long, value_name = "block|allow")]
    pub(crate) on_unavailable: Option<OnUnavailable>,
    /// How long `hookctl relay` may take; the agent's time limit is set to at least a quarter more.
    #[arg(long, value_name = "TIME", value_parser = timeout)]
    pub(crate) deadline: Option<Duration>,
    /// Leave the hooks in the agent's other files to hookd: the agent does not run them any more, `hookctl relay` offers
    /// them instead. Only where the agent has a switch for that which leaves this hook alone.
    #[arg(long)]
    pub(crate) take_over: bool,
    /// The absolute path of `hookctl` in the settings [default: the one that runs now].
    #[arg(long, value_name = "PATH")]
    pub(crate) program: Option<PathBuf>,
}

/// What is imported.
#[derive(Debug, Group)]
pub(crate) struct ImportArgs {
    /// The hook file. Exits with 1 if anything in it could not be carried over.
    pub(crate) file: PathBuf,
    /// Whose it is [default: told by its folder and by what is in it].
    #[arg(long, value_name = "NAME", value_parser = agent)]
    pub(crate) agent: Option<Agent>,
    /// The tier that the rules are for: managed, team, local, shared or plugin.
    #[arg(long, default_value = "shared", value_parser = tier)]
    pub(crate) tier: Tier,
}

/// Which files are trusted.
#[derive(Debug, Group)]
pub(crate) struct TrustArgs {
    /// Rule files; without any, those that `hookctl relay` would find in the current directory.
    pub(crate) files: Vec<PathBuf>,
    /// Shows what is trusted, and whether it still is what it was.
    #[arg(long, conflicts_with_all = ["files", "remove"])]
    pub(crate) list: bool,
    /// Trusts the files no more.
    #[arg(long, requires = "files")]
    pub(crate) remove: bool,
    /// The file of `hookctl relay`, where one is named to it.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// A program that nobody waits for. Its input comes on standard input, its environment and directory are this process's.
#[derive(Debug, Group)]
pub(crate) struct DetachedArgs {
    /// How long it may run.
    #[arg(long, value_name = "MS")]
    pub(crate) timeout_ms: u64,
    /// The program and its arguments.
    #[arg(last = true, required = true)]
    pub(crate) argv: Vec<OsString>,
}

/// What happens where hookd cannot be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnUnavailable {
    /// Events that can block do.
    Block,
    /// The agent goes on as if there were no hookd.
    Allow,
}

/// Whose hook files of an agent are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Those in the project.
    Project,
    /// The person's own.
    User,
    /// Those of plugins that are switched on.
    Plugins,
}

/// Whose settings are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scope {
    /// Of the whole machine; people and projects cannot change them.
    Managed,
    /// Of this person.
    User,
    /// Of the project in the current directory.
    Project,
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

/// At least one address.
#[derive(Debug, Clone)]
pub(crate) struct Addresses(pub(crate) Vec<Address>);

impl Global {
    /// A client of the addresses, with the time limit.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        let addresses = self.addresses()?;
        // What is asked here is looked at, not acted on: nothing depends on what happens where hookd is not there.
        let builder = Client::builder(addresses, hookd_client::OnUnavailable::Block);
        // A person waits: better to say soon that nobody answers.
        let builder = builder.credentials(self.credentials.or_environment());
        builder.deadline(self.timeout).rounds(2).build().map_err(|error| Failure::usage(error.to_string()))
    }

    /// Where hookd listens: as the command line says it, else the environment, else the default.
    pub(crate) fn addresses(&self) -> Result<Vec<Address>, Failure> {
        match &self.address {
            Some(addresses) => Ok(addresses.0.clone()),
            None => addresses_of_environment(std::env::var(variables::ADDRESS).ok().as_deref()).map_err(Failure::usage),
        }
    }

    /// The files that an agent's own entry has to name: those of the command line, and of the environment only where
    /// the address may come from there too.
    pub(crate) fn credentials_of_entry(&self, is_filed: bool) -> Credentials {
        if is_filed { self.credentials.named() } else { self.credentials.or_environment() }
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
        Address::parse_list(list).map(Self)
    }
}

impl FromStr for OnUnavailable {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "block" => Ok(Self::Block),
            "allow" => Ok(Self::Allow),
            _ => Err(format!("`{word}` is not known, expected `block` or `allow`")),
        }
    }
}

impl FromStr for Origin {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "project" => Ok(Self::Project),
            "user" => Ok(Self::User),
            "plugins" => Ok(Self::Plugins),
            _ => Err(format!("`{word}` is not known, expected `project`, `user` or `plugins`")),
        }
    }
}

/// The addresses in `value`, which is what the variable holds, or the default one. A variable that is set to nothing is
/// as good as not set.
///
/// # Errors
/// One line: one of them is no address.
pub(crate) fn addresses_of_environment(value: Option<&str>) -> Result<Vec<Address>, String> {
    let value = value.map(str::trim).filter(|value| !value.is_empty());
    Address::parse_list(value.unwrap_or(DEFAULT_ADDRESS)).map_err(|error| format!("{}: {error}", variables::ADDRESS))
}

/// The completion script for `shell`.
pub(crate) fn completions(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "hookctl", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// A duration as a person writes it, longer than none.
///
/// # Errors
/// What is wrong with it and what would be right.
pub(crate) fn timeout(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(Duration::ZERO) => Err("no time at all, expected such as `30s` or `500ms`".to_owned()),
        Ok(timeout) => Ok(timeout),
        Err(error) => Err(format!("{error}, expected such as `30s` or `500ms`")),
    }
}

fn agent(name: &str) -> Result<Agent, String> {
    Agent::from_name(name).ok_or_else(|| {
        let names = Agent::ALL.map(Agent::name).join(", ");
        format!("no such agent is known, expected one of {names}")
    })
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
