//! What can be said on the command line.

mod agents;
mod credentials;
mod event;

use std::{
    ffi::OsString,
    io::{self, IsTerminal as _},
    path::PathBuf,
    str::FromStr,
    time::Duration,
};

use clap::{Args as Group, CommandFactory as _, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use hookd_audit::Hash;
use hookd_client::{Address, AddressError, Client, Credentials, variables};
use hookd_rules::Tier;

pub(crate) use self::{
    agents::{ImportArgs, InstallArgs, OnUnavailable, Origin, RelayArgs, RelayOnly, Scope},
    credentials::{CredentialArgs, by_option, over, variables_set},
    event::{EventArgs, ExplainArgs},
};
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
