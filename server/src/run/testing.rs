//! What the tests of this room share.

use std::{path::Path, sync::Arc, time::Duration};

use hookd_rules::{CommandHandler, Handler, HttpHandler, Program, Shell, ValuePart};
use hookd_runner::{Capacity, Runner};
use tokio::sync::mpsc;

use super::{BulkheadSettings, Call, Handlers as _, Holding, Job, Pool, PoolSettings};
use crate::model::{
    Answer, Capabilities, Event, Failed, Failure, Form, Identity, Ran, Rule, Session, Tier, ToolCall, Trigger, Verdict,
};
use crate::telemetry::Secrets;

/// A limit that is never reached.
pub(super) const LONG: Duration = Duration::from_secs(120);

pub(super) fn trigger(event: &str, params: &str) -> Trigger {
    let event_name = Arc::from(event);
    let known = Event::known(event);
    let has_tool = known.is_some_and(Event::needs_tool);
    let tool_call =
        has_tool.then(|| ToolCall { tool: "Bash".to_owned(), tool_use_id: "u1".to_owned(), ..ToolCall::default() });
    Trigger {
        event_name,
        event: known.unwrap_or_else(|| Event::unknown(has_tool)),
        session_id: "s1".to_owned(),
        timestamp_ms: 1_700_000_000_000,
        tool_call,
        form: Form { params: Arc::from(params), result: None },
        payload: String::new(),
        subject: None,
        identity: Identity::anonymous(),
        caller: None,
        request_id: String::new(),
        cwd: "/".to_owned(),
        session: Session::default(),
        capabilities: Capabilities::ALL,
        expected_revision: String::new(),
        decision_id: "d1".to_owned(),
        traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned(),
    }
}

pub(super) fn rule(tier: Tier, handler: Handler) -> Rule {
    Rule { events: vec![Arc::from("PreToolUse")], ..Rule::plain("r1", tier, Path::new("/rules.yaml"), handler) }
}

pub(super) fn decide(tier: Tier, verdict: Verdict) -> Rule {
    rule(tier, Handler::Decide(Answer { verdict, ..Answer::default() }.into()))
}

pub(super) fn shell(tier: Tier, line: &str) -> Rule {
    command(tier, Program::Shell(Shell::Sh, line.to_owned()))
}

pub(super) fn command(tier: Tier, program: Program) -> Rule {
    rule(
        tier,
        Handler::Command(CommandHandler {
            program,
            timeout: LONG,
            env: Vec::new(),
            cwd: None,
            worker: None,
            allow: None,
        }),
    )
}

pub(super) fn http(tier: Tier, url: String, headers: Vec<(String, Vec<ValuePart>)>) -> Rule {
    rule(tier, Handler::Http(HttpHandler { url, headers, timeout: LONG, public_only: false }))
}

/// A pool with `PATH` and `environment` of the server, which tells its ends to the receiver.
pub(super) fn pool(
    path: &str,
    environment: &[(&str, &str)],
    async_in_flight: usize,
) -> (Pool, mpsc::UnboundedReceiver<Ran>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let settings = PoolSettings {
        commands_path: path.to_owned(),
        holding: Arc::new(Holding::none()),
        output_bytes: 1024 * 1024,
        async_in_flight,
        http_ca: None,
        bulkheads: BulkheadSettings {
            slots: 64,
            tenant_slots: 16,
            http_runs: 64,
            command_runs: 64,
            tenant_commands: 64,
            background_runs: 64,
            tenant_background: 64,
            queue: 64,
            breaker: None,
        },
        environment: environment.iter().map(|(name, value)| (name.into(), value.into())).collect(),
    };
    let ended = move |_: &Arc<Rule>, _: &Trigger, ran: &Ran| sender.send(ran.clone()).unwrap();
    (Pool::new(&settings, Runner::new(Capacity::default()), Secrets::default(), ended).unwrap(), receiver)
}

pub(super) const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

pub(super) async fn ask(pool: &Pool, rule: Rule, trigger: Trigger, granted: Duration) -> Ran {
    let (rule, trigger) = (Arc::new(rule), Arc::new(trigger));
    let form = trigger.form.clone();
    let call = Call { rule: &rule, trigger: &trigger, form: &form, recheck: false, granted };
    tokio::time::timeout(LONG, pool.run(call)).await.unwrap()
}

pub(super) fn job(rule: Rule, trigger: Trigger) -> Job {
    let form = trigger.form.clone();
    Job { rule: Arc::new(rule), trigger: Arc::new(trigger), form, decision: None }
}

/// What a run came to, without its times.
pub(super) fn gist(ran: Ran) -> Ran {
    Ran { elapsed: None, ..ran }
}

pub(super) fn gave(verdict: Verdict, reason: &str, output: &str) -> Ran {
    let answer = Answer { verdict, reason: reason.to_owned(), ..Answer::default() };
    let output = (!output.is_empty()).then(|| output.to_owned());
    Ran { output, ..Ran::said(Ok(Arc::new(answer))) }
}

pub(super) fn failed(kind: Failure, message: &str) -> Ran {
    Ran::said(Err(Failed::new(kind, message)))
}
