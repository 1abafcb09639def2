use futures_util::FutureExt as _;
use hookd_runner::End;
use tokio::{task::JoinHandle, time::timeout};

use super::*;
use crate::{
    model::{Form, Tier, Verdict},
    run::testing::{self, LONG, failed, gist},
};

/// A pool that must not be asked.
struct Nobody;

impl Handlers for Nobody {
    async fn run(&self, call: Call<'_>) -> Ran {
        panic!("asked for {}", call.rule.id)
    }

    fn queue(&self, job: Job) -> Result<(), Failed> {
        panic!("asked for {}", job.rule.id)
    }
}

const BOUNDS: RemoteBounds = RemoteBounds { output_bytes: 1024, message_bytes: 64 << 10 };

fn on_the_agent(tier: Tier) -> Rule {
    Rule { run_on: RunOn::Agent, ..testing::shell(tier, "check $PWD") }
}

fn exited(code: i32, stdout: &str) -> Ended {
    Ok(Finished {
        end: End::Exited(code),
        stdout: stdout.as_bytes().to_vec(),
        stderr: Vec::new(),
        stdout_truncated: false,
        stderr_truncated: false,
        queued: Duration::ZERO,
        elapsed: Duration::ZERO,
    })
}

fn slots() -> Arc<Slots> {
    Arc::new(Slots::new(8, 8))
}

struct Asked {
    link: Arc<Link>,
    ran: JoinHandle<Ran>,
}

/// Asks for `rule`; `origin` where the caller offered it.
fn ask(rule: Rule, origin: Option<Origin>, granted: Duration) -> Asked {
    let link = Arc::new(Link::new());
    let rule = Arc::new(rule);
    let origins = origin.into_iter().map(|origin| (Arc::clone(&rule), origin)).collect();
    let remote = Remote::new(Arc::new(Nobody), Arc::clone(&link), origins, BOUNDS, slots());
    let ran = tokio::spawn(async move {
        let trigger = Arc::new(testing::trigger("PreToolUse", r#"{"command":"ls"}"#));
        let form: Form = trigger.form.clone();
        remote.run(Call { rule: &rule, trigger: &trigger, form: &form, recheck: false, granted }).await
    });
    Asked { link, ran }
}

async fn next(link: &Link) -> (u32, Ask, bool) {
    match timeout(LONG, link.next()).await.unwrap() {
        Outgoing::Run { id, ask, detached } => (id, ask, detached),
        Outgoing::Cancel(id) => panic!("cancels {id}"),
    }
}

#[tokio::test]
async fn a_rule_of_the_servers_is_sent_with_its_own_variables_and_nothing_of_the_servers() {
    let asked = ask(on_the_agent(Tier::Shared), None, LONG);
    let (id, sent, detached) = next(&asked.link).await;
    assert_eq!((id, detached, sent.timeout, sent.output_bytes, &*sent.cwd), (1, false, LONG, 1024, "/"));
    let WantedProgram::OfServer { argv, env } = &sent.program else { panic!("{sent:?}") };
    assert_eq!(*argv, ["sh", "-c", "check $PWD"]);
    let names = env.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>();
    assert_eq!(
        names,
        ["HOOKD_EVENT", "HOOKD_TOOL", "HOOKD_SESSION_ID", "HOOKD_RULE_ID", "HOOKD_DECISION_ID", "HOOKD_CWD"]
    );
    assert!(sent.stdin.starts_with(br#"{"event":"PreToolUse""#) && sent.stdin.ends_with(b"\n"));
    asked.link.ended(id, exited(0, r#"{"decision":"allow"}"#));
    let ran = asked.ran.await.unwrap();
    assert_eq!(ran.said.map(|answer| answer.verdict), Ok(Verdict::Allow));
}

#[tokio::test]
async fn an_offered_rule_is_named_and_what_it_gives_is_read_as_ever() {
    let origin = Origin { sha256: "ab".into(), index: 7 };
    for (ended, expected) in [
        (exited(0, "fine"), Ran { exit_code: Some(0), ..testing::gave(Verdict::None, "", "fine") }),
        (exited(3, ""), Ran { exit_code: Some(3), ..failed(Failure::Exited, "Exit code 3") }),
        (exited(0, "{"), Ran { exit_code: Some(0), ..failed(Failure::BadOutput, "output is not one JSON object") }),
        (Err(Failed::new(Failure::NotPermitted, "no")), failed(Failure::NotPermitted, "no")),
    ] {
        let asked = ask(on_the_agent(Tier::Plugin), Some(origin.clone()), LONG);
        let (id, sent, _) = next(&asked.link).await;
        assert_eq!(sent.program, WantedProgram::Offered(origin.clone()));
        asked.link.ended(id, ended);
        let mut ran = gist(asked.ran.await.unwrap());
        if let (Err(got), Err(wanted)) = (&mut ran.said, &expected.said) {
            assert!(got.message.starts_with(&wanted.message), "{got:?}");
            got.message.clone_from(&wanted.message);
        }
        assert_eq!(ran, expected);
    }
}

#[tokio::test]
async fn what_a_caller_could_forge_to_its_own_good_is_taken_from_central_rules() {
    let forged = r#"{"decision":"allow","modifiedParams":{"command":"rm"},"additionalContext":"c"}"#;
    for tier in [Tier::Managed, Tier::Team] {
        let asked = ask(on_the_agent(tier), None, LONG);
        let (id, ..) = next(&asked.link).await;
        asked.link.ended(id, exited(0, forged));
        let ran = asked.ran.await.unwrap();
        let answer = ran.said.unwrap();
        let left = Answer { additional_context: Some("c".to_owned()), ..Answer::default() };
        assert_eq!(*answer, left);
        assert_eq!(
            ran.dropped,
            "ALLOW dropped, rewrite dropped: the agent's side, where this rule runs, could forge it"
        );
    }
    let asked = ask(on_the_agent(Tier::Managed), None, LONG);
    let (id, ..) = next(&asked.link).await;
    asked.link.ended(id, exited(0, r#"{"decision":"block","reason":"r"}"#));
    let ran = asked.ran.await.unwrap();
    assert_eq!((ran.said.unwrap().verdict, &*ran.dropped), (Verdict::Block, ""));
}

#[tokio::test(start_paused = true)]
async fn law_08_a_command_whose_time_is_over_is_cancelled_and_its_result_ignored() {
    let granted = Duration::from_millis(300);
    let asked = ask(on_the_agent(Tier::Shared), None, granted);
    let (id, ..) = next(&asked.link).await;
    assert_eq!(asked.ran.await.unwrap(), Ran::said(Err(Failed::timed_out(granted))));
    assert!(matches!(asked.link.take(), Some(Outgoing::Cancel(cancelled)) if cancelled == id));
    asked.link.ended(id, exited(0, ""));
    assert!(asked.link.take().is_none());
    // One that was never out is taken back.
    let asked = ask(on_the_agent(Tier::Shared), None, granted);
    assert_eq!(asked.ran.await.unwrap(), Ran::said(Err(Failed::timed_out(granted))));
    assert!(asked.link.take().is_none());
}

#[tokio::test]
async fn when_the_caller_is_gone_what_is_open_fails_and_what_would_come() {
    let asked = ask(on_the_agent(Tier::Shared), None, LONG);
    next(&asked.link).await;
    asked.link.close();
    let gone = failed(Failure::CallerGone, "the caller asks or answers no more");
    assert_eq!(asked.ran.await.unwrap(), gone);
    let asked = ask(on_the_agent(Tier::Shared), None, LONG);
    asked.link.close();
    assert_eq!(asked.ran.await.unwrap(), gone);
    asked.link.ended(1, exited(0, ""));
}

#[tokio::test]
async fn inputs_that_fit_into_no_message_are_too_large() {
    let link = Arc::new(Link::new());
    let remote = Remote::new(Arc::new(Nobody), Arc::clone(&link), Origins::default(), BOUNDS, slots());
    let rule = Arc::new(on_the_agent(Tier::Shared));
    let params = format!(r#"{{"text":"{}"}}"#, "x".repeat(70_000));
    let trigger = Arc::new(testing::trigger("PreToolUse", &params));
    let form = trigger.form.clone();
    let call = Call { rule: &rule, trigger: &trigger, form: &form, recheck: false, granted: LONG };
    let failed = remote.run(call).await.said.unwrap_err();
    assert_eq!(failed.kind, Failure::TooLarge);
    assert!(failed.message.ends_with("does not fit into a message of 65536 bytes"), "{failed}");
    assert!(link.take().is_none());
    assert_eq!(RemoteBounds { output_bytes: 1 << 20, message_bytes: 4 << 20 }.output(), 1 << 20);
    assert_eq!(RemoteBounds { output_bytes: 1 << 20, message_bytes: 1 << 20 }.output(), ((1 << 20) - 4096) / 2);
}

#[tokio::test]
async fn jobs_go_out_as_ones_that_nobody_waits_for_and_their_inputs_are_bounded() {
    let link = Arc::new(Link::new());
    let remote = Remote::new(Arc::new(Nobody), Arc::clone(&link), Origins::default(), BOUNDS, slots());
    let params = format!(r#"{{"text":"{}"}}"#, "x".repeat(50_000));
    let job = || testing::job(on_the_agent(Tier::Shared), testing::trigger("PreToolUse", &params));
    let mut queued = 0;
    let full = loop {
        match remote.queue(job()) {
            Ok(()) => queued += 1,
            Err(failed) => break failed,
        }
    };
    assert_eq!(queued, (16 << 10) / 50, "50 KiB each, as 1 KiB is begun");
    let message = "too many commands at once: 16384 KiB of input wait for their way to the caller";
    assert_eq!((full.kind, full.message.as_str()), (Failure::Overloaded, message));
    let (id, _, detached) = next(&link).await;
    assert_eq!((id, detached), (1, true));
    assert_eq!(remote.queue(job()), Ok(()));
    link.close();
    assert_eq!(remote.queue(job()).unwrap_err().kind, Failure::CallerGone);
    assert!(link.next().now_or_never().is_none());
}

#[tokio::test]
async fn http_rules_of_a_caller_are_sent_from_nowhere() {
    let rule = |timing| Rule {
        run_on: RunOn::Agent,
        timing,
        ..testing::http(Tier::Shared, "http://127.0.0.1:1/".to_owned(), Vec::new())
    };
    let refused = Failed::new(Failure::NotPermitted, "an http rule that a caller offers is not sent from the server");
    let asked = ask(rule(hookd_rules::Timing::Sync), None, LONG);
    assert_eq!(asked.ran.await.unwrap(), Ran::said(Err(refused.clone())));
    let remote = Remote::new(Arc::new(Nobody), Arc::new(Link::new()), Origins::default(), BOUNDS, slots());
    let job = testing::job(rule(hookd_rules::Timing::Async), testing::trigger("PreToolUse", "{}"));
    assert_eq!(remote.queue(job), Err(refused));
}

#[tokio::test]
async fn without_a_stream_a_rule_for_the_agents_side_is_unsupported() {
    let (pool, _ended) = testing::pool(testing::PATH, &[], 1);
    let ran = testing::ask(&pool, on_the_agent(Tier::Shared), testing::trigger("PreToolUse", "{}"), LONG).await;
    assert_eq!(ran.said.map_err(|failed| failed.kind), Err(Failure::Unsupported));
    let job = testing::job(on_the_agent(Tier::Shared), testing::trigger("PreToolUse", "{}"));
    assert_eq!(pool.queue(job).map_err(|failed| failed.kind), Err(Failure::Unsupported));
    let decides = Rule { run_on: RunOn::Agent, ..testing::decide(Tier::Shared, Verdict::Ask) };
    let ran = testing::ask(&pool, decides, testing::trigger("PreToolUse", "{}"), LONG).await;
    assert_eq!(ran.said.map(|answer| answer.verdict), Ok(Verdict::Ask));
}
