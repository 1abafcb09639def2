//! What is about agents: their hooks, their settings, their hook files.

use std::{path::PathBuf, str::FromStr, time::Duration};

use clap::{Args as Group, Parser, ValueEnum};
use hookd_agents::Agent;
use hookd_rules::Tier;

use super::{Addresses, CredentialArgs, tier, timeout};

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

fn agent(name: &str) -> Result<Agent, String> {
    Agent::from_name(name).ok_or_else(|| {
        let names = Agent::ALL.map(Agent::name).join(", ");
        format!("no such agent is known, expected one of {names}")
    })
}
