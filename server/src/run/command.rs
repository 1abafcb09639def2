//! Command handlers: what a program is started with, and what its end means.

mod worker;

use std::{
    collections::HashMap,
    ffi::OsString,
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use hookd_rules::{CallFacts, CallVariables, CommandHandler, ValuePart};
use hookd_runner::{Class, Command, End, Finished, Limits, Overloaded, Runner};
use rustix::process::Signal;
use tokio::time::Instant;

use super::{
    Holding, claude, cut, launch,
    output::{self, Expect},
};
use crate::{
    model::{Failed, Failure, Protocol, Ran, Rule, Trigger},
    telemetry::Secrets,
};

/// Longest message that is taken from stderr, in bytes.
const MESSAGE_BYTES: usize = 4096;

/// Starts the programs of command handlers.
#[derive(Debug)]
pub(super) struct Commands {
    runner: Runner,
    holding: Arc<Holding>,
    limits: Limits,
    /// What every program finds in its environment.
    environment: Vec<(OsString, OsString)>,
    secrets: Secrets,
}

impl Commands {
    /// `path` is the `PATH` of programs and where they are looked up. A few of the variables in `server` are passed on;
    /// `output_bytes` caps each of the two outputs.
    pub(super) fn new(
        runner: Runner,
        path: &str,
        holding: Arc<Holding>,
        server: &HashMap<OsString, OsString>,
        output_bytes: usize,
        secrets: Secrets,
    ) -> Self {
        let limits = Limits { output_bytes, ..Limits::default() };
        let mut environment = base_environment(path, server);
        if let Some(home) = holding.home() {
            environment.retain(|(name, _)| name != "HOME");
            environment.push(("HOME".into(), home));
        }
        Self { runner, holding, limits, secrets, environment }
    }

    /// Runs the program and waits for its answer within `granted`, the wait for a place included. One that stays is
    /// asked instead.
    pub(super) async fn run(&self, started: Started<'_>, granted: Duration) -> Ran {
        match worker::of(self, &started) {
            Ok(Some(workers)) => return worker::ask(workers, started, granted).await,
            Ok(None) => {}
            Err(failed) => return Ran::said(Err(failed)),
        }
        let class = class(started.rule);
        let expect = Expect::of(started.rule, started.trigger);
        let now = Instant::now();
        let deadline = now.checked_add(granted).unwrap_or(now);
        let limits = Limits { timeout: granted, ..self.limits };
        let where_caller_is = runs_where_the_caller_is(started.rule, started.handler);
        let command = match self.command(started) {
            Ok(command) => command,
            Err(not_started) => return not_started.into(),
        };
        match self.runner.run(class, command, limits, deadline).await {
            Ok(finished) => ran_where(where_caller_is, ran(finished, granted, &expect)),
            Err(full) => Ran::said(Err(overloaded(&full))),
        }
    }

    /// Takes a place in the background at once; the run itself is the future. For a program that stays, the future
    /// takes the place.
    pub(super) fn run_background(&self, started: Started<'_>) -> Result<Running, Failed> {
        if let Some(workers) = worker::of(self, &started)? {
            return Ok(Box::pin(worker::ask_in_background(Arc::clone(workers), started)));
        }
        let timeout = started.handler.timeout;
        let expect = Expect::of(started.rule, started.trigger);
        let limits = Limits { timeout, ..self.limits };
        let where_caller_is = runs_where_the_caller_is(started.rule, started.handler);
        let command = self.command(started).map_err(|not_started| not_started.failed)?;
        let running = self.runner.run_background(command, limits).map_err(|full| overloaded(&full))?;
        Ok(Box::pin(async move { ran_where(where_caller_is, ran(running.await, timeout, &expect)) }))
    }

    /// Ends programs that stay, at most within `limit`; none is started any more.
    pub(super) async fn end_workers(&self, limit: Duration) {
        self.runner.end_workers(limit).await;
    }

    fn command(&self, started: Started<'_>) -> Result<Command, NotStarted> {
        let Started { rule, trigger, handler, stdin } = started;
        let by_caller = |failed| NotStarted { failed, by_caller: true };
        let (argv, own) = program(rule, trigger, handler).map_err(by_caller)?;
        let env = self.env(own.into_iter(), handler)?;
        let cwd = directory(rule, trigger, handler);
        Ok(self.hold(Command { argv, env, cwd, stdin, ..Command::default() }, rule, handler)?)
    }

    fn hold(&self, command: Command, rule: &Rule, handler: &CommandHandler) -> Result<Command, Failed> {
        let held = self.holding.hold(command, handler, &directory_of(&rule.file));
        held.map_err(|why| Failed::new(Failure::DidNotStart, why))
    }

    fn env(
        &self,
        variables: impl Iterator<Item = (OsString, OsString)>,
        handler: &CommandHandler,
    ) -> Result<Vec<(OsString, OsString)>, Failed> {
        let mut env = self.environment.clone();
        env.extend(variables);
        for (name, value) in &handler.env {
            let place = format!("variable `{name}`");
            let value = self.secrets.render(value, &place).map_err(|why| Failed::new(Failure::DidNotStart, why))?;
            env.push((name.into(), value.into()));
        }
        Ok(env)
    }
}

/// Why there is nothing to start.
struct NotStarted {
    failed: Failed,
    /// The caller does not say what the program needs of it.
    by_caller: bool,
}

impl From<Failed> for NotStarted {
    fn from(failed: Failed) -> Self {
        Self { failed, by_caller: false }
    }
}

impl From<NotStarted> for Ran {
    fn from(not_started: NotStarted) -> Self {
        Self { kept_by_caller: not_started.by_caller, ..Self::said(Err(not_started.failed)) }
    }
}

/// A run in the background.
pub(super) type Running = Pin<Box<dyn Future<Output = Ran> + Send>>;

/// One program to start.
#[derive(Debug)]
pub(super) struct Started<'a> {
    pub(super) rule: &'a Rule,
    pub(super) trigger: &'a Trigger,
    pub(super) handler: &'a CommandHandler,
    pub(super) stdin: Vec<u8>,
}

/// What a program wrote.
#[derive(Debug)]
pub(super) struct Printed<'a> {
    /// Its output without white space at the ends.
    pub(super) stdout: &'a str,
    /// At how many bytes its output was cut. `None`: it is whole.
    pub(super) cut: Option<usize>,
    /// What it wrote on stderr.
    pub(super) stderr: &'a [u8],
}

fn class(rule: &Rule) -> Class {
    if rule.tier.is_central() { Class::Central } else { Class::Other }
}

/// Central commands run where their rule file lies: the caller's directory is data to them, never a place where
/// code is looked up. The others run in the caller's directory, or in hookd's own where the caller names none.
fn directory(rule: &Rule, trigger: &Trigger, handler: &CommandHandler) -> Option<PathBuf> {
    if let Some(cwd) = &handler.cwd {
        return Some(cwd.clone());
    }
    if rule.tier.is_central() {
        return Some(directory_of(&rule.file));
    }
    let cwd = Path::new(&trigger.cwd);
    cwd.is_absolute().then(|| cwd.to_owned())
}

/// Whether [`directory`] is the caller's to say.
fn runs_where_the_caller_is(rule: &Rule, handler: &CommandHandler) -> bool {
    handler.cwd.is_none() && !rule.tier.is_central()
}

/// What came of a run `where_caller_is`: that there is no program, or no such directory, is that directory's matter.
fn ran_where(where_caller_is: bool, ran: Ran) -> Ran {
    let did_not_start = ran.said.as_ref().is_err_and(|failed| failed.kind == Failure::DidNotStart);
    Ran { kept_by_caller: where_caller_is && did_not_start, ..ran }
}

fn directory_of(file: &Path) -> PathBuf {
    file.parent().unwrap_or(Path::new("/")).to_owned()
}

/// The program of a rule and the variables that are the event's, as its protocol has them.
fn program(rule: &Rule, trigger: &Trigger, handler: &CommandHandler) -> Result<(Vec<OsString>, CallVariables), Failed> {
    let call = CallFacts {
        event: &trigger.event_name,
        tool: trigger.tool_call.as_ref().map_or("", |call| call.tool.as_str()),
        session_id: &trigger.session_id,
        decision_id: &trigger.decision_id,
        cwd: &trigger.cwd,
        workspace_roots: &trigger.session.workspace_roots,
        payload: &trigger.payload,
        traceparent: &trigger.traceparent,
    };
    rule.program(handler, &call).map_err(|why| Failed::new(Failure::DidNotStart, why))
}

/// Variables by name, as they travel.
type Texts = Vec<(String, String)>;

/// The program of a rule of the server's and the variables that go with it, for a caller that runs it on its side.
pub(super) fn for_the_caller(
    rule: &Rule,
    trigger: &Trigger,
    handler: &CommandHandler,
) -> Result<(Vec<String>, Texts), Failed> {
    let (argv, own) = program(rule, trigger, handler)?;
    let text = |text: OsString| text.to_string_lossy().into_owned();
    let env = own.into_iter().map(|(name, value)| (text(name), text(value)));
    // A rule that the caller runs has no secrets: that is an error of its file.
    let of_rule = handler.env.iter().map(|(name, value)| (name.clone(), ValuePart::literal(value)));
    Ok((argv.into_iter().map(text).collect(), env.chain(of_rule).collect()))
}

/// What does not depend on the event. Nothing else of the server's environment is passed on.
fn base_environment(path: &str, server: &HashMap<OsString, OsString>) -> Vec<(OsString, OsString)> {
    // A relative entry would be looked up in the directory that the program runs in.
    let path = path.split(':').filter(|entry| entry.starts_with('/')).collect::<Vec<_>>().join(":");
    let mut environment = vec![(OsString::from("PATH"), OsString::from(path)), ("PYTHONUTF8".into(), "1".into())];
    for name in ["HOME", "TMPDIR"] {
        if let Some(value) = server.get(std::ffi::OsStr::new(name)) {
            environment.push((name.into(), value.clone()));
        }
    }
    let lang = server.get(std::ffi::OsStr::new("LANG")).cloned().unwrap_or_else(|| "C.UTF-8".into());
    environment.push(("LANG".into(), lang));
    environment
}

fn overloaded(overloaded: &Overloaded) -> Failed {
    Failed::new(Failure::Overloaded, overloaded.to_string())
}

/// What the end of a program means.
pub(super) fn ran(finished: Finished, granted: Duration, expect: &Expect) -> Ran {
    let Finished { end, stdout, stderr, stdout_truncated, stderr_truncated, elapsed, .. } = finished;
    let mut ran = Ran {
        elapsed: (!elapsed.is_zero()).then_some(elapsed),
        truncated: stdout_truncated || stderr_truncated,
        ..Ran::said(Ok(Default::default()))
    };
    let failed = match end {
        End::Exited(code) => {
            let mut expect = expect.clone();
            let text = expect.text(&stdout);
            let cut = stdout_truncated.then_some(stdout.len());
            let printed = Printed { stdout: text.trim(), cut, stderr: &stderr };
            ran.exit_code = Some(code);
            // A program that printed an object has run.
            ran.looks_unlaunched = !printed.stdout.starts_with('{') && launch::looks_unlaunched(code, &stderr);
            return match expect.protocol {
                Protocol::Native => exited(ran, code, &printed, &expect),
                Protocol::ClaudeCode => claude::exited(ran, code, &printed, &expect),
            };
        }
        End::Signalled(signal) => {
            ran.signal = Some(signal);
            Failed::new(Failure::Killed, killed(signal))
        }
        End::TimedOut => Failed::timed_out(granted),
        End::Cancelled => super::cancelled(),
        End::DidNotStart(why) => Failed::new(Failure::DidNotStart, why),
        End::Lost(why) => Failed::new(Failure::Internal, why),
    };
    ran.said = Err(failed);
    ran
}

/// Names the limit where the signal is that of one (issue 6): nobody else sends them.
fn killed(signal: i32) -> String {
    let limit = match signal {
        _ if signal == Signal::XCPU.as_raw() => " (its limit of processor time)",
        _ if signal == Signal::XFSZ.as_raw() => " (its limit of file size)",
        _ => "",
    };
    format!("killed by signal {signal}{limit}")
}

fn exited(mut ran: Ran, code: i32, printed: &Printed<'_>, expect: &Expect) -> Ran {
    let failed = match (code, printed.cut) {
        (0, None) => return output::take(ran, printed.stdout.to_owned(), expect),
        (0, Some(bytes)) => Failed::new(Failure::TooLarge, format!("output of more than {bytes} bytes")),
        (126 | 127, _) => Failed::new(Failure::DidNotStart, message(printed.stderr, code)),
        _ => Failed::new(Failure::Exited, message(printed.stderr, code)),
    };
    ran.said = Err(failed);
    ran
}

/// What a program that failed said on stderr, or else its code.
pub(super) fn message(stderr: &[u8], code: i32) -> String {
    match String::from_utf8_lossy(stderr).trim() {
        "" => format!("Exit code {code}"),
        text => cut(text, MESSAGE_BYTES),
    }
}

#[cfg(test)]
mod tests;
