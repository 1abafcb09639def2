//! Command handlers whose program stays: one line in, one line out.

use std::{ffi::OsString, sync::Arc, time::Duration};

use hookd_json::Kind;
use hookd_rules::{CommandHandler, Rule, Worker};
use hookd_runner::{Answered, Command, End, Finished, Said, Stray, WorkerSettings, Workers};
use tokio::time::Instant;

use super::{Commands, Started, class, cut, directory_of, message, overloaded};
use crate::{
    model::{Failed, Failure, Protocol, Ran},
    run::output::{self, Expect},
    telemetry::Secrets,
};

/// The workers of a rule that wants some. They end when the rule is in force no more.
///
/// # Errors
/// They cannot be started: what their environment is to hold cannot be read, or they cannot be held in.
pub(super) fn of<'a>(commands: &Commands, started: &Started<'a>) -> Result<Option<&'a Arc<Workers>>, Failed> {
    let Started { rule, handler, .. } = started;
    let Some(worker) = &handler.worker else { return Ok(None) };
    if let Some(workers) = worker.attached.get() {
        return Ok(Some(workers));
    }
    let env = commands.env(std::iter::once(("HOOKD_RULE_ID".into(), (*rule.id).into())), handler)?;
    let command = command(commands, rule, handler, env)?;
    Ok(worker.attached.get_or_attach(|| Arc::new(pool(commands, rule, worker, command))))
}

/// Asks one of them, and waits for its answer within `granted`, the wait for a free one included.
pub(super) async fn ask(workers: &Workers, started: Started<'_>, granted: Duration) -> Ran {
    let expect = Expect::of(started.rule, started.trigger);
    let asker = asker(&started).to_owned();
    match workers.call(one_line(started.stdin), &asker, deadline(granted)).await {
        Ok(answered) => said(answered, granted, &expect),
        Err(full) => Ran::said(Err(overloaded(&full))),
    }
}

/// As [`ask`], within the rule's own timeout and the places of the background.
pub(super) fn ask_in_background(
    workers: Arc<Workers>,
    started: Started<'_>,
) -> impl Future<Output = Ran> + Send + use<> {
    let expect = Expect::of(started.rule, started.trigger);
    let timeout = started.handler.timeout;
    let asker = asker(&started).to_owned();
    let line = one_line(started.stdin);
    async move {
        match workers.call_background(line, &asker, deadline(timeout)).await {
            Ok(answered) => said(answered, timeout, &expect),
            Err(full) => Ran::said(Err(overloaded(&full))),
        }
    }
}

/// Whoever's calls a worker may die of without that being the others' matter.
fn asker<'a>(started: &Started<'a>) -> &'a str {
    started.trigger.identity.tenant().unwrap_or_default()
}

/// A worker belongs to no event, so it knows none of an event's variables (nor placeholders in its arguments: that
/// agent has no workers), and it runs beside its rule file in every
/// tier: where the caller works stands in the input.
fn command(
    commands: &Commands,
    rule: &Rule,
    handler: &CommandHandler,
    env: Vec<(OsString, OsString)>,
) -> Result<Command, Failed> {
    let command = Command {
        argv: handler.program.words(),
        env,
        cwd: Some(handler.cwd.clone().unwrap_or_else(|| directory_of(&rule.file))),
        ..Command::default()
    };
    commands.hold(command, rule, handler)
}

fn pool(commands: &Commands, rule: &Rule, worker: &Worker, command: Command) -> Workers {
    let settings = WorkerSettings {
        pool: worker.pool,
        max_calls: worker.max_calls,
        limits: commands.limits,
        class: class(rule),
        accepts,
    };
    let (rule, tier, secrets) = (Arc::clone(&rule.id), rule.tier.name(), commands.secrets.clone());
    commands.runner.workers(command, settings, move |stray| tell(&rule, tier, &secrets, stray))
}

/// One line, without outputs; as with calls these are for whoever looks for a fault.
fn tell(rule: &str, tier: &str, secrets: &Secrets, stray: Stray) {
    match stray {
        Stray::Ended { end, stderr } => {
            tracing::warn!(rule, tier, ?end, "an idle worker ended");
            let last = String::from_utf8_lossy(&stderr);
            tracing::debug!(rule, tier, stderr = %secrets.mask(last.trim()), "what it said last");
        }
        Stray::Spoke => {
            tracing::warn!(rule, tier, "an idle worker said something, or closed its stdout; it is replaced");
        }
    }
}

/// Only what says an opinion or clearly none: other text, a greeting for instance, would be taken for the answer, and
/// the answer for the next one.
fn accepts(line: &[u8]) -> bool {
    match String::from_utf8_lossy(line).trim() {
        "" => true,
        text => hookd_json::check(text) == Ok(Kind::Object),
    }
}

/// With control characters, line breaks above all, as escapes.
fn on_one_line(text: &str) -> String {
    let escaped = |char: char| if char.is_control() { char.escape_debug().to_string() } else { char.into() };
    text.chars().map(escaped).collect()
}

/// The input with no line break but the last. Those in it stand between the tokens of JSON, where a space is as good.
fn one_line(mut input: Vec<u8>) -> Vec<u8> {
    if let Some((_, text)) = input.split_last_mut() {
        text.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
    }
    input
}

fn deadline(granted: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(granted).unwrap_or(now)
}

fn said(answered: Answered, granted: Duration, expect: &Expect) -> Ran {
    let Answered { said, stderr, queued, elapsed } = answered;
    let mut ran = Ran { elapsed: (!elapsed.is_zero()).then_some(elapsed), ..Ran::said(Ok(Default::default())) };
    let failed = match said {
        Said::Line(line) => {
            let mut expect = expect.clone();
            let text = expect.text(&line);
            return output::take(ran, text.trim().to_owned(), &expect);
        }
        Said::TooLong(bytes) => {
            ran.truncated = true;
            Failed::new(Failure::TooLarge, format!("a line of more than {bytes} bytes"))
        }
        Said::Noise(noise) => {
            let seen = on_one_line(String::from_utf8_lossy(&noise).trim());
            let message =
                format!("a worker answers with one line that is an object or empty, not with `{}`", cut(&seen, 64));
            Failed::new(Failure::BadOutput, message)
        }
        Said::Paused(why) => {
            // What it was asked has ended them, and that is no sign that it is broken for all.
            ran.kept_by_caller = true;
            Failed::new(Failure::DidNotStart, why)
        }
        Said::Ended(End::Exited(0)) => {
            ran.exit_code = Some(0);
            Failed::new(Failure::Exited, format!("the worker ended before it answered: {}", message(&stderr, 0)))
        }
        Said::Ended(end) => {
            let (stdout, stdout_truncated, stderr_truncated) = (Vec::new(), false, false);
            let finished = Finished { end, stdout, stderr, stdout_truncated, stderr_truncated, queued, elapsed };
            // It answers by lines: what code it leaves with instead is no answer in any protocol.
            return super::ran(finished, granted, &Expect { protocol: Protocol::Native, ..expect.clone() });
        }
    };
    ran.said = Err(failed);
    ran
}

#[cfg(test)]
mod tests;
