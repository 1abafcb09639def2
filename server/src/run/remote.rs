//! Commands that the caller runs (`deploy/agents/README.md`, "Commands beside the agent"): what is asked of it, what is
//! open, and what came back.

mod link;

use std::{collections::HashMap, sync::Arc, time::Duration};

use hookd_rules::{CommandHandler, Handler, RunOn};
use hookd_runner::Finished;
use tokio::time::{Instant, timeout_at};

pub use self::link::{Ask, Link, Outgoing};
use super::{
    Call, Handlers, Job, Slots, command,
    input::{self, Asked},
    output::Expect,
};
use crate::model::{Answer, Event, Failed, Failure, Ran, Rule, Trigger, Verdict};

/// What is in a message beside input, directory, arguments and variables, in bytes; ids are shorter.
const MESSAGE_ROOM: usize = 4096;

/// Runs the handlers of one call: those that are the caller's through `link`, all others as ever.
#[derive(Debug)]
pub struct Remote<H> {
    inner: Arc<H>,
    link: Arc<Link>,
    origins: Origins,
    bounds: RemoteBounds,
    slots: Arc<Slots>,
}

/// Where the rules that the caller offered stand.
#[derive(Debug, Default)]
pub struct Origins(HashMap<usize, (Arc<Rule>, Origin)>);

/// Where a rule stands in what the caller offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The hash of its file.
    pub sha256: Arc<str>,
    /// Its place in that file.
    pub index: u32,
}

/// What a caller may be asked for.
#[derive(Debug, Clone, Copy)]
pub struct RemoteBounds {
    /// Size of one handler's output, in bytes.
    pub output_bytes: usize,
    /// Size of a message, in bytes.
    pub message_bytes: usize,
}

/// What the caller is to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WantedProgram {
    /// The command of a rule that it offered, out of its own copy of the file.
    Offered(Origin),
    /// The command of a rule of the server's.
    OfServer {
        /// The program and its arguments.
        argv: Vec<String>,
        /// Variables that are added to the caller's own.
        env: Vec<(String, String)>,
    },
}

/// How a command of the caller's ended, as it says itself.
pub type Ended = Result<Finished, Failed>;

impl RemoteBounds {
    /// How much of each output is kept: two of them have to fit into one message.
    #[must_use]
    pub fn output(self) -> usize {
        self.output_bytes.min(self.message_bytes.saturating_sub(MESSAGE_ROOM) / 2)
    }
}

impl FromIterator<(Arc<Rule>, Origin)> for Origins {
    fn from_iter<I: IntoIterator<Item = (Arc<Rule>, Origin)>>(rules: I) -> Self {
        Self(rules.into_iter().map(|(rule, origin)| (address(&rule), (rule, origin))).collect())
    }
}

impl Origins {
    fn of(&self, rule: &Arc<Rule>) -> Option<&Origin> {
        self.0.get(&address(rule)).map(|(_, origin)| origin)
    }
}

/// Tells rules apart: their ids can be the same in different files. It is good for as long as the rule lives.
fn address(rule: &Arc<Rule>) -> usize {
    Arc::as_ptr(rule).addr()
}

impl<H: Handlers> Remote<H> {
    /// Runs what is the caller's through `link`, and all else with `inner`. `origins` are the rules that the caller
    /// offered; all other rules are the server's. A call that waits for the caller takes one of `slots` as well.
    #[must_use]
    pub fn new(inner: Arc<H>, link: Arc<Link>, origins: Origins, bounds: RemoteBounds, slots: Arc<Slots>) -> Self {
        Self { inner, link, origins, bounds, slots }
    }

    async fn ask(&self, call: Call<'_>, handler: &CommandHandler) -> Result<Ran, Failed> {
        let Call { rule, trigger, form, recheck, granted } = call;
        let stdin = input::line(trigger, &Asked { rule, form, recheck, decision: None })?;
        let ask = self.wanted(rule, trigger, handler, stdin, granted)?;
        let expect = Expect::of(rule, trigger);
        let _slot = self.slots.take(&trigger.identity)?;
        let now = Instant::now();
        let deadline = now.checked_add(granted).unwrap_or(now);
        let ended = match timeout_at(deadline, self.link.run(ask)).await {
            Ok(ended) => ended,
            Err(_) => return Err(Failed::timed_out(granted)),
        };
        let mut ran = command::ran(ended?, granted, &expect);
        if rule.is_forgeable() {
            without_consent(&mut ran, trigger.event);
        }
        Ok(ran)
    }

    fn start(&self, job: &Job, handler: &CommandHandler) -> Result<(), Failed> {
        let Job { rule, trigger, form, decision } = job;
        let stdin = input::line(trigger, &Asked { rule, form, recheck: false, decision: decision.as_ref() })?;
        let ask = self.wanted(rule, trigger, handler, stdin, handler.timeout)?;
        self.link.start(ask)
    }

    fn wanted(
        &self,
        rule: &Arc<Rule>,
        trigger: &Trigger,
        handler: &CommandHandler,
        stdin: Vec<u8>,
        timeout: Duration,
    ) -> Result<Ask, Failed> {
        let cwd = handler.cwd.as_ref().map_or_else(|| trigger.cwd.clone(), |cwd| cwd.display().to_string());
        let mut bytes = stdin.len().saturating_add(cwd.len()).saturating_add(MESSAGE_ROOM);
        let program = match self.origins.of(rule) {
            Some(origin) => WantedProgram::Offered(origin.clone()),
            None => {
                let (argv, env) = command::for_the_caller(rule, trigger, handler)?;
                let words = argv.iter().chain(env.iter().flat_map(|(name, value)| [name, value]));
                bytes = words.fold(bytes, |bytes, word| bytes.saturating_add(word.len()).saturating_add(16));
                WantedProgram::OfServer { argv, env }
            }
        };
        if bytes > self.bounds.message_bytes {
            let message = format!(
                "its input of {} bytes does not fit into a message of {} bytes",
                stdin.len(),
                self.bounds.message_bytes
            );
            return Err(Failed::new(Failure::TooLarge, message));
        }
        let output_bytes = self.bounds.output();
        Ok(Ask { rule: Arc::clone(rule), program, cwd, stdin, timeout, output_bytes })
    }
}

impl<H: Handlers> Handlers for Remote<H> {
    async fn run(&self, call: Call<'_>) -> Ran {
        match (call.rule.run_on, &call.rule.handler) {
            (RunOn::Server, _) | (_, Handler::Decide(_)) => self.inner.run(call).await,
            (RunOn::Agent, Handler::Command(handler)) => {
                self.ask(call, handler).await.unwrap_or_else(|failed| Ran::said(Err(failed)))
            }
            (RunOn::Agent, Handler::Http(_)) => Ran::said(Err(not_from_here())),
        }
    }

    fn queue(&self, job: Job) -> Result<(), Failed> {
        match (job.rule.run_on, &job.rule.handler) {
            (RunOn::Server, _) | (_, Handler::Decide(_)) => self.inner.queue(job),
            (RunOn::Agent, Handler::Command(handler)) => self.start(&job, handler),
            (RunOn::Agent, Handler::Http(_)) => Err(not_from_here()),
        }
    }
}

/// The failure of a rule of the caller's that is not one of those which are asked of the caller.
fn not_from_here() -> Failed {
    Failed::new(Failure::NotPermitted, "an http rule that a caller offers is not sent from the server")
}

/// The failure of a rule for the caller's side on a call whose caller runs nothing.
pub(super) fn unsupported() -> Failed {
    Failed::new(
        Failure::Unsupported,
        "this rule runs on the agent's side, which `Trigger` does not reach: its caller would have to use `TriggerStream`",
    )
}

/// Takes from a central rule's answer what its caller could forge to its own good: an ALLOW, any rewrite, and where a
/// block makes the agent go on, a halt, which would outrank it (law 13).
fn without_consent(ran: &mut Ran, event: &Event) {
    let Ok(said) = &mut ran.said else { return };
    let answer: &mut Answer = Arc::make_mut(said);
    let mut dropped = Vec::new();
    if answer.verdict == Verdict::Allow {
        answer.verdict = Verdict::None;
        dropped.push("ALLOW dropped");
    }
    if answer.modified_params.take().is_some() | answer.modified_result.take().is_some() {
        dropped.push("rewrite dropped");
    }
    if event.is_stop_like() && answer.halt.take().is_some() {
        dropped.push("halt dropped");
    }
    if !answer.event_output.is_empty() {
        answer.event_output.clear();
        dropped.push("outputs of the event dropped");
    }
    if dropped.is_empty() {
        return;
    }
    let dropped = format!("{}: the agent's side, where this rule runs, could forge it", dropped.join(", "));
    if ran.dropped.is_empty() {
        ran.dropped = dropped;
    } else {
        ran.dropped = format!("{}; {dropped}", ran.dropped);
    }
}

#[cfg(test)]
mod tests;
