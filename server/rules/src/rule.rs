//! One rule, checked and compiled.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use hookd_condition::{Condition, PermissionRule};
use hookd_json::{Map, Value};
use secrecy::SecretString;

use crate::{Attached, Event, Matcher, Selector, Template, Tier, Verdict};

/// A rule: events, an optional matcher, one handler, and how its answer counts.
#[derive(Debug)]
pub struct Rule {
    /// Unique within its tier and source.
    pub id: Arc<str>,
    /// Its tier.
    pub tier: Tier,
    /// The file that it stands in, absolute.
    pub file: Arc<Path>,
    /// Line in the file where it starts, from 1.
    pub line: usize,
    /// The events that it is for, as written; not empty.
    pub events: Vec<Arc<str>>,
    /// What its subject must look like.
    pub matcher: Matcher,
    /// What must hold of the call at its turn. `None`: nothing.
    pub when: Option<Condition>,
    /// The `if` of Claude Code's files: for which calls it runs, tested where `when` is. `None`: for all.
    pub permission: Option<PermissionRule>,
    /// What it does.
    pub handler: Handler,
    /// When it runs.
    pub timing: Timing,
    /// Whether its answer counts: the strictest of the tier's, the file's and its own `mode`.
    pub mode: Mode,
    /// What its failures count as, where the rule says so itself.
    pub on_error: Option<OnError>,
    /// What they count as on guarded events where it does not: the settings' `on_error` of its tier.
    pub tier_on_error: OnError,
    /// Its explicit ALLOW, ASK or DEFER keeps the lower tiers from being asked (law 4).
    pub is_final: bool,
    /// An answer without a decision is a failure.
    pub must_decide: bool,
    /// Neighbouring rules that are so run side by side. None of them may rewrite.
    pub concurrent: bool,
    /// What it is for. Empty: not said.
    pub description: String,
    /// What its handler reads and writes.
    pub protocol: Protocol,
    /// Where its command runs.
    pub run_on: RunOn,
    /// The number of the rules of its source that do the same: of those that match, one runs for each form of a call.
    /// `None`: there is no other.
    pub twins: Option<u64>,
    /// What keeps its runs within bounds.
    pub bulkhead: Attached,
    /// Which callers it is for: the selector of its source. `None`: everyone.
    pub selector: Option<Arc<Selector>>,
}

/// What a command or http handler reads and writes (`deploy/docs/rules.md`, "What a handler reads and answers").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Protocol {
    /// hookd's own input and output.
    #[default]
    Native,
    /// Those of Claude Code, exit codes and environment included: always so in that agent's files, and where a rule
    /// says `protocol: claude-code`.
    ClaudeCode,
}

/// Where a command runs (`deploy/docs/rules.md`, "Where commands run").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum RunOn {
    /// On hookd's machine.
    #[default]
    Server,
    /// On the caller's machine, by the client.
    Agent,
}

/// What a rule does.
#[derive(Debug)]
pub enum Handler {
    /// Runs a program.
    Command(CommandHandler),
    /// Posts to a URL.
    Http(HttpHandler),
    /// Answers in process.
    Decide(Decide),
}

/// An answer given in process.
#[derive(Debug, Default)]
pub struct Decide {
    /// The answer, without what depends on the call.
    pub answer: Arc<Answer>,
    /// Parameters to run with that depend on the call.
    pub params: Option<Template>,
    /// A result to show that depends on the call.
    pub result: Option<Template>,
}

impl Decide {
    /// Whether it rewrites parameters or result.
    #[must_use]
    pub fn rewrites(&self) -> bool {
        self.params.is_some()
            || self.result.is_some()
            || self.answer.modified_params.is_some()
            || self.answer.modified_result.is_some()
    }
}

impl From<Answer> for Decide {
    /// Always the same answer.
    fn from(answer: Answer) -> Self {
        Self { answer: Arc::new(answer), params: None, result: None }
    }
}

/// A program to run.
#[derive(Debug)]
pub struct CommandHandler {
    /// What to run.
    pub program: Program,
    /// Its own time limit, already under the settings' ceiling.
    pub timeout: Duration,
    /// Variables added to the filtered environment, with their values.
    pub env: Vec<(String, Vec<ValuePart>)>,
    /// Directory to run in, absolute. `None`: where the tier says (the rule file's directory for managed and team,
    /// the request's `cwd` below, but for workers too the rule file's directory).
    pub cwd: Option<PathBuf>,
    /// The program stays and is asked line by line. `None`: it is started for each call.
    pub worker: Option<Worker>,
    /// What it may reach on the server besides what every program needs. `None`: it is not held to a list of its own.
    pub allow: Option<Allow>,
}

/// The files and TCP ports that a command may reach on the server (issue 6: Landlock). What is not named is denied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allow {
    /// Files and directories, absolute, to be read and executed.
    pub read: Vec<PathBuf>,
    /// Files and directories, absolute, to be read, made, changed and removed.
    pub write: Vec<PathBuf>,
    /// TCP ports to connect to.
    pub connect: Vec<u16>,
    /// TCP ports to bind; 0: whichever port the system gives.
    pub bind: Vec<u16>,
}

/// How the workers of a command handler are kept.
#[derive(Debug)]
pub struct Worker {
    /// Calls at a time, and so programs; from 1 to 16.
    pub pool: usize,
    /// Answers after which a program is replaced. `None`: never.
    pub max_calls: Option<u64>,
    /// The programs themselves, while the rule is in force.
    pub attached: Attached,
}

/// What a command handler runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// A line for a shell: `sh -c LINE`.
    Shell(Shell, String),
    /// A program and its arguments, no shell. Not empty.
    Argv(Vec<String>),
}

/// A shell for [`Program::Shell`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shell {
    /// `sh`
    Sh,
    /// `bash`
    Bash,
}

/// A URL to post to.
#[derive(Debug)]
pub struct HttpHandler {
    /// The URL, http or https, parsed once at load.
    pub url: String,
    /// Header names (lowercase) and values, in file order.
    pub headers: Vec<(String, Vec<ValuePart>)>,
    /// Its own time limit, already under the settings' ceiling.
    pub timeout: Duration,
    /// Only addresses that are public may be reached: see [`crate::is_public`].
    pub public_only: bool,
}

/// A piece of the value of a header or of a variable.
#[derive(Debug)]
pub enum ValuePart {
    /// Text as it is.
    Text(String),
    /// The value that the variable had when the rules were loaded (`${env:NAME}`).
    Env {
        /// Name of the variable.
        name: String,
        /// Its value.
        value: SecretString,
    },
    /// The content of a file, without its last line break, read at each call (`${file:PATH}`).
    File(PathBuf),
}

impl ValuePart {
    /// The text of `parts` that stands in the rule file itself: all of it where nothing is put in.
    #[must_use]
    pub fn literal(parts: &[Self]) -> String {
        let text = |part: &Self| match part {
            Self::Text(text) => Some(text.clone()),
            Self::Env { .. } | Self::File(_) => None,
        };
        parts.iter().filter_map(text).collect()
    }
}

/// What a handler says, be it a `decide` handler of a rule file or a program.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    /// The decision; [`Verdict::None`] where it gives none.
    pub verdict: Verdict,
    /// Why. Empty: not said.
    pub reason: String,
    /// Parameters to run with, an object.
    pub modified_params: Option<Value>,
    /// Result to show.
    pub modified_result: Option<Value>,
    /// Text for the model.
    pub additional_context: Option<String>,
    /// Text for the person.
    pub system_message: Option<String>,
    /// Stops the agent, with this reason (it may be empty).
    pub halt: Option<String>,
    /// Outputs of the event that have no field of their own (`watchPaths`, `sessionTitle`, …), by their names in
    /// Claude Code's protocol. Of several answers the highest tier's counts, key by key.
    pub event_output: Map<String, Value>,
}

/// When a rule runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Timing {
    /// Its answer is waited for.
    Sync,
    /// It is queued when its turn comes and never decides (law 6).
    Async,
    /// It is queued once the verdict is known, if the verdict is one of these.
    AfterVerdict(Vec<Verdict>),
}

/// Whether a rule's answer counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Mode {
    /// It counts.
    #[default]
    Enforce,
    /// It is evaluated and recorded only.
    Shadow,
}

/// What a failure counts as (law 7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnError {
    /// NONE, named in the answer.
    Allow,
    /// BLOCK.
    Block,
}

impl Rule {
    /// A rule that says nothing but what it does: for no event yet, with the default of every other key.
    #[must_use]
    pub fn plain(id: impl Into<Arc<str>>, tier: Tier, file: impl Into<Arc<Path>>, handler: Handler) -> Self {
        Self {
            id: id.into(),
            tier,
            file: file.into(),
            line: 1,
            events: Vec::new(),
            matcher: Matcher::Any,
            when: None,
            permission: None,
            handler,
            timing: Timing::Sync,
            mode: Mode::Enforce,
            on_error: None,
            tier_on_error: OnError::Allow,
            is_final: false,
            must_decide: false,
            concurrent: false,
            description: String::new(),
            protocol: Protocol::Native,
            run_on: RunOn::Server,
            twins: None,
            bulkhead: Attached::default(),
            selector: None,
        }
    }

    /// What a failure of this rule counts as on `event`. On Stop-like events it never blocks: a broken hook must not
    /// keep an agent running (law 7).
    #[must_use]
    pub fn failure_policy(&self, event: &Event) -> OnError {
        if event.is_stop_like() {
            return OnError::Allow;
        }
        match self.on_error {
            Some(on_error) => on_error,
            None if event.guarded => self.tier_on_error,
            None => OnError::Allow,
        }
    }

    /// Whether its caller could forge what it gives to its own good: a central rule whose command the caller runs.
    #[must_use]
    pub fn is_forgeable(&self) -> bool {
        self.run_on == RunOn::Agent && self.tier.is_central()
    }

    /// Whether the rule is waited for and its answer counts.
    #[must_use]
    pub fn decides(&self) -> bool {
        self.timing == Timing::Sync && self.mode == Mode::Enforce
    }
}

impl Handler {
    /// The name of its kind in rule files, logs and metrics.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Command(_) => "command",
            Self::Http(_) => "http",
            Self::Decide(_) => "decide",
        }
    }
}

impl Mode {
    /// The name in rule files and settings.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Shadow => "shadow",
        }
    }
}

impl OnError {
    /// The name in rule files and settings.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Block => "block",
        }
    }
}

impl Protocol {
    /// The name in rule files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::ClaudeCode => "claude-code",
        }
    }
}

impl RunOn {
    /// The name in rule files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Agent => "agent",
        }
    }
}
