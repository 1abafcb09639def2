//! Callers that do it wrong: order, ids, ends of their side, time, and streams that break.

use std::time::Duration;

use hookd_tests::{
    Hookd, HookdBuilder, Process, RawHttp2, Signal, eventually, pre_tool_use, rule, said, sh,
    v1::{
        CommandResult, OfferedFile, RuleFiles, StreamStart, Tier, TriggerRequest, TriggerStreamRequest,
        trigger_stream_request::Message as Sent,
    },
    with,
};
use prost::Message as _;
use serde_json::{Value, json};
use tonic::{Code, Status};

use super::caller::{Caller, offer, place, printed, shared, start};

fn bash() -> TriggerRequest {
    pre_tool_use("Bash", json!({ "command": "ls" }))
}

fn on_the_agent(id: &str, more: Value) -> Value {
    with(rule(id, "PreToolUse", sh("./x.sh")), more)
}

/// A hookd that knows this file already.
async fn knowing(builder: HookdBuilder, file: &hookd_client::OfferedRules) -> Hookd {
    let hookd = builder.start().await;
    let mut caller = Caller::start(&hookd, hookd_tests::event("SessionEnd"), std::slice::from_ref(file)).await;
    assert_eq!(caller.need().await, [file.sha256()]);
    caller.send_files(std::slice::from_ref(file));
    caller.response().await;
    hookd
}

fn is_of_hookd(status: &Status) -> bool {
    status.metadata().get("hookd-decision-id").is_some_and(|id| id.len() == 36)
}

#[tokio::test]
async fn what_cannot_be_judged_is_a_status_after_the_headers() {
    let hookd = Hookd::builder().start().await;
    let file = shared(json!([]));
    let with_tier = |tier: Tier| {
        let offered = vec![OfferedFile { tier: tier.into(), ..offer(&file) }];
        Sent::Start(StreamStart { trigger: Some(bash()), offered })
    };
    let other_revision = TriggerRequest { expected_policy_revision: "other".to_owned(), ..bash() };
    let no_tool = hookd_tests::event("PreToolUse");
    for (first, code, message) in [
        (Sent::CommandResult(printed(1, "")), Code::InvalidArgument, "message: the first message must be `start`"),
        (Sent::Files(RuleFiles::default()), Code::InvalidArgument, "message: the first message must be `start`"),
        (Sent::Start(StreamStart::default()), Code::InvalidArgument, "start.trigger: is missing, the event is needed"),
        (
            with_tier(Tier::Managed),
            Code::InvalidArgument,
            "start.offered[0].tier: must be TIER_LOCAL, TIER_SHARED or TIER_PLUGIN: a caller can bring no others",
        ),
        (
            with_tier(Tier::Team),
            Code::InvalidArgument,
            "start.offered[0].tier: must be TIER_LOCAL, TIER_SHARED or TIER_PLUGIN: a caller can bring no others",
        ),
        (start(no_tool, &[]), Code::InvalidArgument, "tool_call: PreToolUse is about a tool call and needs one"),
        (start(other_revision, &[]), Code::FailedPrecondition, "policy revision is"),
    ] {
        let mut caller = Caller::open(&hookd).await;
        caller.say(first);
        let status = caller.status().await;
        assert_eq!(status.code(), code, "{status:?}");
        assert!(status.message().starts_with(message), "{status:?}");
        assert!(is_of_hookd(&status), "{status:?}");
    }
    let mut silent = Caller::open(&hookd).await;
    silent.half_close();
    let status = silent.status().await;
    assert_eq!(
        (status.code(), status.message()),
        (Code::InvalidArgument, "start: is missing, the stream ended before it")
    );

    let mut late = Caller::open_with(&hookd, |request| request.set_timeout(Duration::from_millis(4))).await;
    late.say(start(bash(), &[]));
    let status = late.status().await;
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status:?}");
    for (status, count) in [("invalid_argument", 7.0), ("failed_precondition", 1.0), ("deadline_exceeded", 1.0)] {
        let series = format!(r#"hookd_calls_total{{event="",verdict="",tier="",status="{status}"}}"#);
        eventually("statuses are counted", async || (hookd.metric(&series).await == count).then_some(())).await;
    }
}

#[tokio::test]
async fn two_commands_are_open_and_their_results_come_in_any_order() {
    let file = shared(json!([
        on_the_agent("a", json!({ "concurrent": true })),
        on_the_agent("b", json!({ "concurrent": true })),
    ]));
    let hookd = knowing(Hookd::builder(), &file).await;
    let mut caller = Caller::start(&hookd, bash(), std::slice::from_ref(&file)).await;
    let (a, b) = (caller.command().await, caller.command().await);
    assert_eq!((place(&a).1, place(&b).1), (0, 1));
    caller.answer(b.command_id, json!({ "decision": "ask", "reason": "b" }));
    caller.answer(a.command_id, json!({ "decision": "ask", "reason": "a" }));
    assert_eq!(
        said(&caller.response().await),
        json!({ "verdict": "ask", "reason": "a", "decidedBy": "rule shared/a",
                "results": ["shared/a ask", "shared/b ask"], "considered": 2, "matched": 2 })
    );

    let mut caller = Caller::start(&hookd, bash(), &[file]).await;
    let (a, b) = (caller.command().await, caller.command().await);
    caller.answer(a.command_id, json!({ "blocked": true }));
    let mut next = caller.next().await;
    // The block cancels the one after it; whether its cancellation leaves before the answer is a matter of moments.
    if let hookd_tests::v1::trigger_stream_response::Message::CancelCommand(cancel) = &next {
        assert_eq!(cancel.command_id, b.command_id);
        next = caller.next().await;
    }
    let hookd_tests::v1::trigger_stream_response::Message::Response(answer) = next else { panic!("{next:?}") };
    assert_eq!(
        said(&answer),
        json!({ "verdict": "block", "reason": "Blocked by hook", "decidedBy": "rule shared/a",
                "results": ["shared/a block"], "considered": 2, "matched": 2 })
    );
}

#[tokio::test]
async fn results_that_are_not_due_are_ignored() {
    let file = shared(json!([
        on_the_agent("slow", json!({ "handler": { "type": "command", "command": "./x.sh", "timeout": 200 } })),
        on_the_agent("next", json!({})),
    ]));
    let hookd = knowing(Hookd::builder(), &file).await;
    let mut caller = Caller::start(&hookd, bash(), &[file]).await;
    let slow = caller.command().await;
    let block = json!({ "blocked": true, "blockReason": "forged" });
    for never_given in [0, 2, 77, u32::MAX] {
        caller.answer(never_given, &block);
    }
    assert_eq!(caller.cancelled().await, slow.command_id);
    caller.answer(slow.command_id, &block);
    let next = caller.command().await;
    assert_eq!(next.command_id, 2);
    caller.answer(slow.command_id, &block);
    caller.answer(next.command_id, "fine");
    caller.answer(next.command_id, &block);
    assert_eq!(
        said(&caller.response().await),
        json!({
            "verdict": "none", "decidedBy": "failure_policy shared/slow", "degraded": true,
            "results": ["shared/slow failed timed_out: Timed out after 200ms", "shared/next none"],
            "considered": 2, "matched": 2,
        })
    );
}

#[tokio::test]
async fn a_caller_that_ends_its_side_or_says_what_is_not_due_is_asked_no_more() {
    let file = shared(json!([on_the_agent("first", json!({})), on_the_agent("second", json!({})),]));
    let managed = rule("managed", "PreToolUse", sh("echo '{\"decision\":\"ask\",\"reason\":\"here\"}'"));
    let hookd = knowing(Hookd::builder().managed(json!([managed])), &file).await;
    let gone = "the caller asks or answers no more";
    let expected = json!({
        "verdict": "ask", "reason": "here", "decidedBy": "rule managed/managed", "degraded": true,
        "results": [
            "managed/managed ask", format!("shared/first failed caller_gone: {gone}"),
            format!("shared/second failed caller_gone: {gone}"),
        ],
        "considered": 3, "matched": 3,
    });
    let wrongs: [fn(&mut Caller); 4] = [
        Caller::half_close,
        |caller| caller.say(start(bash(), &[])),
        |caller| caller.say(Sent::Files(RuleFiles::default())),
        |caller| caller.say_nothing_known(),
    ];
    for wrong in wrongs {
        let mut caller = Caller::start(&hookd, bash(), std::slice::from_ref(&file)).await;
        caller.command().await;
        wrong(&mut caller);
        assert_eq!(said(&caller.response().await), expected);
    }
    // Before the first command as well: right after the start, and in the place of files.
    let mut caller = Caller::start(&hookd, bash(), std::slice::from_ref(&file)).await;
    caller.half_close();
    assert_eq!(said(&caller.response().await), expected);
    let unknown = shared(json!([on_the_agent("other", json!({}))]));
    let mut caller = Caller::start(&hookd, bash(), &[unknown]).await;
    caller.need().await;
    caller.answer(1, "");
    let answer = caller.response().await;
    assert_eq!(
        said(&answer)["results"],
        json!([
            "managed/managed ask",
            "shared/hooks.json failed not_permitted: the offered file is not taken: it was not sent in time, or its content is other than its hash says",
        ])
    );
}

#[tokio::test]
async fn a_stream_that_breaks_is_a_call_whose_caller_went_away() {
    let sleeps = rule("sleeps", "PreToolUse", sh("sleep 1000"));
    let hookd = Hookd::builder().managed(json!([sleeps])).start().await;
    let caller = Caller::start(&hookd, bash(), &[]).await;
    let sleeper = |process: &Process| process.command == "sleep 1000";
    eventually("the handler runs", async || hookd.children().iter().any(sleeper).then_some(())).await;
    assert_eq!(hookd.metric("hookd_in_flight_calls").await.to_string(), "1");
    drop(caller);
    eventually("no handler is left", async || hookd.children().is_empty().then_some(())).await;
    eventually("its place is free", async || (hookd.metric("hookd_in_flight_calls").await == 0.0).then_some(())).await;
    let cancelled = r#"hookd_calls_total{event="",verdict="",tier="",status="cancelled"}"#;
    assert_eq!(hookd.metric(cancelled).await.to_string(), "1");
}

#[tokio::test]
async fn a_stream_holds_its_place_to_its_end() {
    let file = shared(json!([on_the_agent("a", json!({}))]));
    let hookd = knowing(Hookd::builder().settings(json!({ "limits": { "in_flight": 1 } })), &file).await;
    let mut caller = Caller::start(&hookd, bash(), &[file]).await;
    let command = caller.command().await;
    let shed = hookd.try_trigger(bash()).await.unwrap_err();
    assert_eq!((shed.code(), shed.message()), (Code::ResourceExhausted, "too many calls in flight, try again"));
    caller.answer(command.command_id, "");
    caller.response().await;
    eventually("the place is free", async || hookd.try_trigger(bash()).await.ok().map(drop)).await;
}

#[tokio::test]
async fn outputs_are_bounded_whatever_the_caller_sends() {
    let file = shared(json!([on_the_agent("a", json!({}))]));
    let builder = Hookd::builder().settings(json!({ "limits": { "output_bytes": "1KiB" } }));
    let hookd = knowing(builder, &file).await;
    let mut caller = Caller::start(&hookd, bash(), &[file]).await;
    let command = caller.command().await;
    assert_eq!(command.output_limit_bytes, 1024);
    let stdout = vec![b'x'; 1_000_000];
    caller.say(Sent::CommandResult(CommandResult { stdout, ..printed(command.command_id, "") }));
    let answer = caller.response().await;
    assert_eq!(said(&answer)["results"], json!(["shared/a failed too_large: output of more than 1024 bytes"]));
    assert!(answer.results[0].truncated);
}

#[tokio::test]
async fn a_drain_waits_for_streams_and_cuts_them_at_its_limit() {
    let file = shared(json!([on_the_agent("a", json!({}))]));
    let settings = json!({ "drain": { "min_delay": "0s", "limit": "30s" } });
    let hookd = knowing(Hookd::builder().settings(settings.clone()), &file).await;
    let mut caller = Caller::start(&hookd, bash(), std::slice::from_ref(&file)).await;
    let command = caller.command().await;
    hookd.signal(Signal::TERM);
    caller.answer(command.command_id, json!({ "blocked": true, "blockReason": "to the end" }));
    assert_eq!(caller.response().await.reason, "to the end");
    assert_eq!(hookd.wait_exit().await.code(), Some(0));

    let settings = json!({ "limits": { "default_deadline": "1s" }, "drain": { "min_delay": "0s", "limit": "1s" } });
    let hookd = knowing(Hookd::builder().settings(settings), &file).await;
    let mut caller = Caller::open_with(&hookd, |request| request.set_timeout(Duration::from_secs(40))).await;
    caller.say(start(bash(), &[file]));
    caller.command().await;
    hookd.signal(Signal::TERM);
    let status = caller.status().await;
    assert_eq!((status.code(), status.message()), (Code::Unavailable, "the server is shutting down"));
    assert!(is_of_hookd(&status), "{status:?}");
    assert_eq!(hookd.wait_exit().await.code(), Some(0));
}

#[tokio::test]
async fn a_caller_that_reads_nothing_holds_its_place_no_longer_than_its_call_may_take() {
    let asks = with(on_the_agent("a", json!({})), json!({ "runOn": "agent" }));
    let settings = json!({ "limits": { "in_flight": 1, "default_deadline": "1s" } });
    let hookd = Hookd::builder().shared(json!([asks])).settings(settings).start().await;
    let mut connection = RawHttp2::idle(hookd.address()).await;
    let nothing_at_a_time = [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0];
    connection.send(&nothing_at_a_time).await;
    connection.begin_call(1, "/hookd.v1.HookService/TriggerStream").await;
    let message = TriggerStreamRequest { message: Some(start(bash(), &[])) }.encode_to_vec();
    let length = u8::try_from(message.len()).unwrap();
    connection.send(&[&[0, 0, length + 5, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, length], message.as_slice()].concat()).await;
    eventually("it holds the place", async || (hookd.metric("hookd_in_flight_calls").await == 1.0).then_some(())).await;
    eventually("the place is free", async || hookd.try_trigger(bash()).await.ok().map(drop)).await;
    drop(connection);
}

/// One caller's fate: what it does is drawn, and whatever that is, no call gets past the managed rule.
async fn draw_a_fate(hookd: &Hookd, seed: u64) -> Option<hookd_tests::v1::TriggerResponse> {
    use hookd_tests::v1::trigger_stream_response::Message as Came;
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut draw = move |choices: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % choices
    };
    let command = if draw(2) == 0 { "rm x" } else { "ls" };
    let soon = json!({ "type": "command", "command": "./x.sh", "timeout": 300 });
    let file = shared(json!([
        rule("a", "PreToolUse", soon.clone()),
        with(rule("b", "PreToolUse", soon), json!({ "onError": "block" })),
    ]));
    let request = pre_tool_use("Bash", json!({ "command": command }));
    let mut caller = Caller::start(hookd, request, std::slice::from_ref(&file)).await;
    for _step in 0..12 {
        let id = match caller.try_next().await {
            Ok(Some(Came::Response(answer))) => return Some(answer),
            Ok(Some(Came::NeedFiles(_))) if draw(8) > 0 => {
                caller.send_files(std::slice::from_ref(&file));
                continue;
            }
            Ok(Some(Came::RunCommand(command))) => command.command_id,
            Ok(Some(Came::NeedFiles(_) | Came::CancelCommand(_))) => 0,
            Ok(None) | Err(_) => return None,
        };
        match draw(12) {
            0 => return None,
            1 => caller.half_close(),
            2 => caller.say(start(bash(), &[])),
            3 => caller.say_nothing_known(),
            4 => caller.answer(id.wrapping_add(1), json!({ "decision": "allow" })),
            5 => caller.say(Sent::CommandResult(CommandResult { command_id: id, ..CommandResult::default() })),
            6 => caller.answer(id, "{ broken"),
            7 => caller.answer(id, "x".repeat(2 << 20)),
            8 | 9 => {
                caller.answer(id, json!({ "decision": "allow", "modifiedParams": { "command": "rm -rf /" } }));
            }
            _ => caller.answer(id, json!({ "decision": "allow" })),
        }
        if caller.is_half_closed() {
            return caller.try_next().await.ok().flatten().and_then(|last| match last {
                Came::Response(answer) => Some(answer),
                _ => None,
            });
        }
    }
    None
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_callers_do_nothing_gets_past_the_managed_tier_and_nothing_is_left() {
    let guard = with(
        rule("no-rm", "PreToolUse", hookd_tests::decide(json!({ "verdict": "block" }))),
        json!({ "when": "params.command.startsWith('rm')" }),
    );
    let hookd = std::sync::Arc::new(Hookd::builder().managed(json!([guard])).start().await);
    let places = std::sync::Arc::new(tokio::sync::Semaphore::new(32));
    let mut fates = tokio::task::JoinSet::new();
    for seed in 1..=300 {
        let (hookd, place) = (std::sync::Arc::clone(&hookd), std::sync::Arc::clone(&places).acquire_owned().await);
        fates.spawn(async move {
            let answer = draw_a_fate(&hookd, seed).await;
            drop(place);
            answer
        });
    }
    let answers = fates.join_all().await.into_iter().flatten().collect::<Vec<_>>();
    for answer in &answers {
        let seen = said(answer);
        let rewritten = answer.rewrites.iter().any(|rewrite| rewrite.patch_json.contains("rm -rf"));
        let blocked_first = answer.results.first().is_some_and(|first| first.rule_id == "no-rm");
        if rewritten || blocked_first {
            assert_eq!(seen["verdict"], "block", "{seen}");
        }
        assert!(seen.get("params").is_none(), "{seen}");
    }
    let blocked = answers.iter().filter(|answer| answer.verdict() == hookd_tests::v1::Verdict::Block).count();
    assert!(answers.len() > 150 && blocked > 100, "{} {blocked}", answers.len());
    eventually("no place is held", async || (hookd.metric("hookd_in_flight_calls").await == 0.0).then_some(())).await;
    assert_eq!(hookd.children(), []);
}
