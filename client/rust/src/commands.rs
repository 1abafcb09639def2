//! The caller's side of rules whose commands run where the agent is (feature `agent-commands`).

mod run;

use std::{ffi::OsString, fmt, path::PathBuf, sync::Arc, time::Duration};

use hookd_runner::{Capacity, Runner};
use sha2::{Digest as _, Sha256};

pub(crate) use self::run::{Asked, run, run_detached};
use crate::proto::{OfferedFile, Tier, TriggerRequest};

/// What a caller brings to a call beside the event: rule files of its own, and what runs their commands on this
/// machine. Make one and keep it: files are hashed once, and all calls share the cap on programs at a time.
///
/// hookd is sent the hashes, and a file's content only where it does not know it yet. What it asks to run it names by
/// file and place: the program comes from this side's own copy, never from the server.
#[derive(Debug, Clone)]
pub struct AgentSide<C> {
    pub(crate) offers: Vec<Arc<OfferedRules>>,
    pub(crate) commands: C,
    pub(crate) server_programs: bool,
    pub(crate) runner: Runner,
}

/// A rule file to offer.
#[derive(Clone, PartialEq, Eq)]
pub struct OfferedRules {
    tier: OfferTier,
    path: String,
    format: String,
    content: Vec<u8>,
    sha256: String,
}

/// A tier that a caller can bring rules of. The ones above are never a caller's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OfferTier {
    /// A plugin's rules.
    Plugin,
    /// A project's rules.
    Shared,
    /// A person's rules.
    Local,
}

/// Knows the commands of offered files.
pub trait AgentCommands: Send + Sync {
    /// The program of a rule, out of this side's own copy of its file.
    ///
    /// # Errors
    /// Why there is none to run, in one line; the rule then fails with `FAILURE_NOT_PERMITTED`.
    fn program(&self, command: &OfferedCommand<'_>) -> Result<AgentProgram, String>;

    /// Starts a program that nobody waits for (an async rule). One that is given back runs in the background of this
    /// process, under its time limit, and is killed if the process ends first: a process that ends with its answer,
    /// as a relay does, has to hand it over to one that stays.
    ///
    /// # Errors
    /// The program, where this does not take it.
    fn detach(&self, program: Detached) -> Result<(), Detached> {
        Err(program)
    }
}

/// A command that hookd asks for.
#[derive(Debug, Clone, Copy)]
pub struct OfferedCommand<'a> {
    /// The file, as it was offered.
    pub file: &'a OfferedRules,
    /// The rule's place among all entries of the file, in their order there, those that are not in force included;
    /// from 0.
    pub index: u32,
    /// The rule's id as hookd has it, for messages.
    pub rule_id: &'a str,
    /// The event.
    pub request: &'a TriggerRequest,
}

/// A program to run, without its input.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct AgentProgram {
    /// The program and its arguments. A program without a slash is looked up in the `PATH` of `env`.
    pub argv: Vec<OsString>,
    /// The whole environment: nothing of this process is inherited.
    pub env: Vec<(OsString, OsString)>,
    /// The directory to run in. `None`: the event's `cwd`, or this process's own where it has none.
    pub cwd: Option<PathBuf>,
}

/// A program that nobody waits for.
#[derive(Clone, PartialEq, Eq)]
pub struct Detached {
    /// The program, with its directory.
    pub program: AgentProgram,
    /// What it reads on stdin, to its end.
    pub stdin: Vec<u8>,
    /// How long it may run.
    pub timeout: Duration,
}

impl<C: AgentCommands> AgentSide<C> {
    /// Offers nothing yet, and runs no program of the server's.
    #[must_use]
    pub fn new(commands: C) -> Self {
        Self { offers: Vec::new(), commands, server_programs: false, runner: Runner::new(Capacity::default()) }
    }

    /// Offers a rule file. Files of one tier are evaluated in the order in which they are offered, after the server's own
    /// of that tier.
    #[must_use]
    pub fn offer(mut self, file: OfferedRules) -> Self {
        self.offers.push(Arc::new(file));
        self
    }

    /// Lets hookd run programs of its *own* rules with `runOn: agent` here: it sends the command line. Off unless set,
    /// and to be set only where the server may run anything on this machine.
    #[must_use]
    pub fn server_programs(mut self, allowed: bool) -> Self {
        self.server_programs = allowed;
        self
    }

    /// There is nothing that hookd could want from this side: [`Client::call`](crate::Client::call) is enough, and cheaper.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.offers.is_empty() && !self.server_programs
    }

    /// Ends every program that still runs here, for good: SIGTERM, after `grace` SIGKILL. Returns when all are gone, with
    /// how many are not. For a process that ends with its answer, which has to wait for that before it does.
    pub async fn shutdown(&self, grace: Duration) -> usize {
        self.runner.shutdown(grace).await
    }
}

impl OfferedRules {
    /// The rule file at `path` (absolute; hookd names it in results and never opens it) with this content. `format` is
    /// `hookd`, `claude-code`, or empty: by its shape.
    #[must_use]
    pub fn new(tier: OfferTier, path: impl Into<String>, format: impl Into<String>, content: Vec<u8>) -> Self {
        let sha256 = Sha256::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect();
        Self { tier, path: path.into(), format: format.into(), content, sha256 }
    }

    /// Its tier.
    #[must_use]
    pub fn tier(&self) -> OfferTier {
        self.tier
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// How it is to be read.
    #[must_use]
    pub fn format(&self) -> &str {
        &self.format
    }

    /// Its bytes.
    #[must_use]
    pub fn content(&self) -> &[u8] {
        &self.content
    }

    /// SHA-256 of its bytes, lowercase hex.
    #[must_use]
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    pub(crate) fn to_message(&self) -> OfferedFile {
        OfferedFile {
            sha256: self.sha256.clone(),
            tier: self.tier.to_message().into(),
            path: self.path.clone(),
            format: self.format.clone(),
        }
    }
}

impl OfferTier {
    pub(crate) fn to_message(self) -> Tier {
        match self {
            Self::Plugin => Tier::Plugin,
            Self::Shared => Tier::Shared,
            Self::Local => Tier::Local,
        }
    }
}

impl fmt::Debug for OfferedRules {
    /// Without the content.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OfferedRules")
            .field("tier", &self.tier)
            .field("path", &self.path)
            .field("format", &self.format)
            .field("bytes", &self.content.len())
            .field("sha256", &self.sha256)
            .finish()
    }
}

impl fmt::Debug for AgentProgram {
    /// Names of variables only: their values can be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.env.iter().map(|(name, _)| name).collect::<Vec<_>>();
        f.debug_struct("AgentProgram").field("argv", &self.argv).field("env", &names).field("cwd", &self.cwd).finish()
    }
}

impl fmt::Debug for Detached {
    /// Without the input.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Detached")
            .field("program", &self.program)
            .field("stdin_bytes", &self.stdin.len())
            .field("timeout", &self.timeout)
            .finish()
    }
}
