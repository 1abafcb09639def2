//! Offered rules among the server's own: their order, what they may say, and who judges what they rewrite.

use std::time::Duration;

use hookd_client::OfferTier;
use hookd_tests::{
    Hookd, Tier, decide, event, pre_tool_use, rule, said, sh,
    v1::{Failure, RunCommand, run_command::Program},
    with,
};
use serde_json::{Value, json};

use super::caller::{Caller, of_tier, place, printed, shared};

fn bash(command: &str) -> hookd_tests::v1::TriggerRequest {
    pre_tool_use("Bash", json!({ "command": command }))
}

fn for_the_agent(id: &str, more: Value) -> Value {
    with(with(rule(id, "PreToolUse", sh("./on-the-agent.sh")), json!({ "runOn": "agent" })), more)
}

fn stdin(command: &RunCommand) -> Value {
    serde_json::from_slice(&command.stdin).unwrap()
}

#[tokio::test]
async fn a_file_is_sent_once_and_its_commands_come_back_by_hash_and_place() {
    let hookd = Hookd::builder().start().await;
    let off = with(rule("off", "PreToolUse", sh("false")), json!({ "disabled": true }));
    let guard = with(rule("guard", "PreToolUse", sh("./guard.sh")), json!({ "matcher": "^Bash$" }));
    let file = shared(json!([off, guard]));
    let request = || hookd_tests::v1::TriggerRequest { cwd: "/repo".to_owned(), ..bash("ls") };

    let mut caller = Caller::start(&hookd, request(), std::slice::from_ref(&file)).await;
    assert_eq!(caller.need().await, [file.sha256()]);
    caller.send_files(std::slice::from_ref(&file));
    let command = caller.command().await;
    assert_eq!(place(&command), (file.sha256().to_owned(), 1));
    assert_eq!((command.command_id, command.rule_id.as_str(), command.tier()), (1, "guard", Tier::Shared));
    assert_eq!((command.cwd.as_str(), command.detached, command.output_limit_bytes), ("/repo", false, 1 << 20));
    let timeout = Duration::try_from(command.timeout.unwrap()).unwrap();
    assert!(timeout > Duration::from_secs(9) && timeout <= Duration::from_secs(10), "{timeout:?}");
    assert_eq!(command.stdin.last(), Some(&b'\n'));
    let input = stdin(&command);
    assert_eq!(input["toolCall"], json!({ "tool": "Bash", "params": { "command": "ls" } }));
    assert_eq!((&input["ruleId"], &input["cwd"]), (&json!("guard"), &json!("/repo")));
    caller.answer(1, json!({ "blocked": true, "blockReason": "not here" }));
    let first = caller.response().await;
    let blocked = json!({
        "verdict": "block", "reason": "not here", "decidedBy": "rule shared/guard", "results": ["shared/guard block"],
        "considered": 1, "matched": 1,
    });
    assert_eq!(said(&first), blocked);
    assert_eq!(first.results[0].source, "/repo/.ling/hooks.json");
    assert_eq!(input["decisionId"], json!(first.decision_id));
    assert_eq!(first.offered_revision.len(), 32);

    let mut again = Caller::start(&hookd, request(), std::slice::from_ref(&file)).await;
    assert_eq!(again.command().await.command_id, 1);
    again.answer(1, json!({ "blocked": true, "blockReason": "not here" }));
    let second = again.response().await;
    assert_eq!(said(&second), blocked);
    assert_eq!(second.offered_revision, first.offered_revision);

    let mut other_tool = Caller::start(&hookd, pre_tool_use("Read", json!({})), &[file]).await;
    assert_eq!(said(&other_tool.response().await), json!({ "verdict": "none", "considered": 1, "matched": 0 }));
}

#[tokio::test]
async fn law_01_offered_rules_stand_after_the_servers_own_of_their_tier() {
    let names = |ids: &[&str]| ids.iter().map(|id| rule(id, "Stop", decide(json!({ "systemMessage": id })))).collect();
    let hookd = Hookd::builder()
        .managed(names(&["m"]))
        .local(names(&["l"]))
        .shared(names(&["s"]))
        .plugin(names(&["p"]))
        .start()
        .await;
    let offered = [
        of_tier(OfferTier::Plugin, names(&["op"])),
        of_tier(OfferTier::Shared, names(&["os1", "os2"])),
        of_tier(OfferTier::Local, names(&["ol"])),
        of_tier(OfferTier::Shared, names(&["os3"])),
    ];
    let mut caller = Caller::start(&hookd, event("Stop"), &offered).await;
    let need = caller.need().await;
    assert_eq!(need.len(), 4);
    caller.send_files(&offered);
    let answer = caller.response().await;
    let order = answer.system_messages.iter().map(|note| note.text.as_str()).collect::<Vec<_>>();
    assert_eq!(order, ["m", "l", "ol", "s", "os1", "os2", "os3", "p", "op"]);
    assert_eq!((answer.rules_considered, answer.rules_matched), (9, 9));
}

#[tokio::test]
async fn law_05_what_an_agents_command_rewrites_is_judged_by_the_managed_tier() {
    let guard = with(
        rule("no-rm", "PreToolUse", decide(json!({ "verdict": "block", "reason": "no rm" }))),
        json!({ "when": "params.command.contains('rm -rf')" }),
    );
    let hookd = Hookd::builder().managed(json!([guard])).start().await;
    let file = [shared(json!([rule("fixer", "PreToolUse", sh("./fix.sh"))]))];
    for (rewritten, expected) in [
        (
            "rm -rf /",
            json!({
                "verdict": "block", "reason": "no rm", "decidedBy": "rule managed/no-rm",
                "results": ["shared/fixer allow", "managed/no-rm block recheck"],
                "rewrites": [r#"shared/fixer params [{"op":"replace","path":"/command","value":"rm -rf /"}]"#],
                "considered": 2, "matched": 1,
            }),
        ),
        (
            "ls -l",
            json!({
                "verdict": "none", "params": { "command": "ls -l" }, "results": ["shared/fixer allow"],
                "rewrites": [r#"shared/fixer params [{"op":"replace","path":"/command","value":"ls -l"}]"#],
                "considered": 2, "matched": 1,
            }),
        ),
    ] {
        let mut caller = Caller::start(&hookd, bash("ls"), &file).await;
        let mut next = caller.next().await;
        if matches!(next, hookd_tests::v1::trigger_stream_response::Message::NeedFiles(_)) {
            caller.send_files(&file);
            next = caller.next().await;
        }
        assert!(matches!(next, hookd_tests::v1::trigger_stream_response::Message::RunCommand(_)), "{next:?}");
        caller.answer(1, json!({ "decision": "allow", "modifiedParams": { "command": rewritten } }));
        assert_eq!(said(&caller.response().await), expected);
    }
}

#[tokio::test]
async fn a_central_rule_that_runs_on_the_agents_side_can_block_and_neither_allow_nor_rewrite() {
    let hookd = Hookd::builder()
        .managed(json!([for_the_agent(
            "checks",
            json!({ "handler": { "type": "command", "argv": ["check", "--all"],
                                                                     "env": { "MODE": "strict" } } })
        )]))
        .start()
        .await;
    let forged = json!({ "decision": "allow", "modifiedParams": { "command": "rm -rf /" } });
    for (result, expected) in [
        (
            printed(1, forged),
            json!({ "verdict": "none", "results": ["managed/checks none"], "considered": 1, "matched": 1 }),
        ),
        (
            printed(1, json!({ "decision": "ask", "reason": "sure?" })),
            json!({ "verdict": "ask", "reason": "sure?", "decidedBy": "rule managed/checks",
                    "results": ["managed/checks ask"], "considered": 1, "matched": 1 }),
        ),
        (
            printed(1, json!({ "blocked": true, "blockReason": "dirty tree" })),
            json!({ "verdict": "block", "reason": "dirty tree", "decidedBy": "rule managed/checks",
                    "results": ["managed/checks block"], "considered": 1, "matched": 1 }),
        ),
        (
            hookd_tests::v1::CommandResult {
                command_id: 1,
                failure: Failure::NotPermitted.into(),
                ..Default::default()
            },
            json!({
                "verdict": "block", "reason": "hook `checks` failed: the agent's side does not run this",
                "decidedBy": "failure_policy managed/checks",
                "results": ["managed/checks failed not_permitted blocked: the agent's side does not run this"],
                "considered": 1, "matched": 1,
            }),
        ),
    ] {
        let mut caller = Caller::start(&hookd, bash("ls"), &[]).await;
        let command = caller.command().await;
        let Some(Program::ServerProgram(program)) = command.program else { panic!("{command:?}") };
        assert_eq!(program.argv, ["check", "--all"]);
        let env = |name: &str| program.env.get(name).map(String::as_str);
        assert_eq!(
            (env("MODE"), env("HOOKD_TOOL"), env("HOOKD_RULE_ID")),
            (Some("strict"), Some("Bash"), Some("checks"))
        );
        assert_eq!((env("PATH"), env("HOME"), env("TMPDIR")), (None, None, None));
        caller.say(hookd_tests::v1::trigger_stream_request::Message::CommandResult(result));
        let answer = caller.response().await;
        assert_eq!(said(&answer), expected);
        if answer.results[0].ok && answer.results[0].reason.contains("dropped") {
            assert_eq!(
                answer.results[0].reason,
                "ALLOW dropped, rewrite dropped: the agent's side, where this rule runs, could forge it"
            );
        }
    }
}

#[tokio::test]
async fn what_a_caller_makes_up_for_a_central_rule_keeps_neither_a_guard_nor_a_default_nor_a_block_from_counting() {
    let asks = || json!({ "decision": "ask", "reason": "sure?" });
    let listed = json!([{ "event": "PreToolUse", "verdict": "block", "reason": "not on the list" }]);
    let guard = rule("guard", "PreToolUse", decide(json!({ "verdict": "block", "reason": "no" })));
    let below_final = Hookd::builder()
        .managed(json!([for_the_agent("m", json!({ "final": true }))]))
        .team(json!([guard]))
        .start()
        .await;
    let before_default = Hookd::builder()
        .file(
            "managed/hooks.json",
            &json!({ "hooks": [for_the_agent("m", json!({}))], "defaults": listed }).to_string(),
        )
        .start()
        .await;
    let go_on = rule("go-on", "Stop", decide(json!({ "verdict": "block", "reason": "tests are red" })));
    let at_the_end = Hookd::builder()
        .managed(json!([with(for_the_agent("m", json!({})), json!({ "event": "Stop" })), go_on]))
        .start()
        .await;
    for (hookd, request, forged, expected) in [
        (
            below_final,
            bash("ls"),
            asks(),
            json!({ "verdict": "block", "reason": "no", "decidedBy": "rule team/guard",
                    "results": ["managed/m ask", "team/guard block"], "considered": 2, "matched": 2 }),
        ),
        (
            before_default,
            bash("ls"),
            asks(),
            json!({ "verdict": "block", "reason": "not on the list", "decidedBy": "default managed",
                    "results": ["managed/m ask"], "considered": 1, "matched": 1 }),
        ),
        (
            at_the_end,
            event("Stop"),
            json!({ "halt": true, "haltReason": "enough" }),
            json!({ "verdict": "block", "reason": "tests are red", "decidedBy": "rule managed/go-on",
                    "results": ["managed/m none", "managed/go-on block"], "considered": 2, "matched": 2 }),
        ),
    ] {
        let mut caller = Caller::start(&hookd, request, &[]).await;
        let command = caller.command().await;
        caller.answer(command.command_id, forged);
        assert_eq!(said(&caller.response().await), expected);
    }
}

#[tokio::test]
async fn on_plain_trigger_a_rule_for_the_agents_side_fails_unsupported() {
    let hookd = Hookd::builder()
        .managed(json!([for_the_agent("m", json!({ "onError": "allow" }))]))
        .shared(json!([for_the_agent("s", json!({})), for_the_agent("strict", json!({ "onError": "block" }))]))
        .start()
        .await;
    let why = "this rule runs on the agent's side, which `Trigger` does not reach: its caller would have to use `TriggerStream`";
    let answer = hookd.trigger(bash("ls")).await;
    assert_eq!(
        said(&answer),
        json!({
            "verdict": "block", "reason": format!("hook `strict` failed: {why}"),
            "decidedBy": "failure_policy shared/strict", "degraded": true,
            "results": [
                format!("managed/m failed unsupported: {why}"), format!("shared/s failed unsupported: {why}"),
                format!("shared/strict failed unsupported blocked: {why}"),
            ],
            "considered": 3, "matched": 3,
        })
    );
}

#[tokio::test]
async fn rules_that_nobody_waits_for_are_started_before_the_answer() {
    let hookd = Hookd::builder().start().await;
    let file = [shared(json!([
        with(rule("tell", "PreToolUse", sh("./tell.sh")), json!({ "async": true })),
        rule("guard", "PreToolUse", decide(json!({ "verdict": "block", "reason": "no" }))),
        with(rule("report", "PreToolUse", sh("./report.sh")), json!({ "async": true, "onVerdict": ["block"] })),
    ]))];
    let mut caller = Caller::start(&hookd, bash("ls"), &file).await;
    caller.need().await;
    caller.send_files(&file);
    let (tell, report) = (caller.command().await, caller.command().await);
    assert_eq!((tell.rule_id.as_str(), tell.detached), ("tell", true));
    assert_eq!((report.rule_id.as_str(), report.detached), ("report", true));
    let timeout = Duration::try_from(report.timeout.unwrap()).unwrap();
    assert_eq!(timeout, Duration::from_secs(10));
    assert_eq!(stdin(&report)["decision"]["verdict"], "block");
    assert_eq!(
        said(&caller.response().await),
        json!({
            "verdict": "block", "reason": "no", "decidedBy": "rule shared/guard",
            "results": ["shared/tell queued", "shared/guard block", "shared/report queued"],
            "considered": 3, "matched": 3,
        })
    );
}

#[tokio::test]
async fn a_claude_code_file_speaks_its_own_protocol() {
    let hookd = Hookd::builder().start().await;
    let content = json!({ "hooks": { "PreToolUse": [{ "matcher": "Write|Edit", "hooks": [
        { "type": "command", "command": "guard.sh" } ] }] } });
    let file = hookd_client::OfferedRules::new(
        OfferTier::Shared,
        "/repo/.claude/settings.json",
        "claude-code",
        content.to_string().into_bytes(),
    );
    let request = pre_tool_use("Edit", json!({ "file_path": "a" }));
    let mut caller = Caller::start(&hookd, request, std::slice::from_ref(&file)).await;
    caller.need().await;
    caller.send_files(&[file]);
    let command = caller.command().await;
    assert_eq!(place(&command).1, 0);
    assert_eq!(
        (&stdin(&command)["hook_event_name"], &stdin(&command)["tool_name"]),
        (&json!("PreToolUse"), &json!("Edit"))
    );
    let refused = hookd_tests::v1::CommandResult {
        command_id: 1,
        exit_code: Some(2),
        stderr: b"not this file".to_vec(),
        ..Default::default()
    };
    caller.say(hookd_tests::v1::trigger_stream_request::Message::CommandResult(refused));
    let answer = caller.response().await;
    assert_eq!((answer.verdict(), answer.reason.as_str()), (hookd_tests::v1::Verdict::Block, "not this file"));
}

#[tokio::test]
async fn as_many_rules_that_nobody_waits_for_as_there_are_go_out() {
    let hookd = Hookd::builder().start().await;
    let tells = |n| with(rule(&format!("t{n}"), "PreToolUse", sh("./tell.sh")), json!({ "async": true }));
    let file = [shared((0..40).map(tells).collect())];
    let mut caller = Caller::start(&hookd, bash("ls"), &file).await;
    caller.need().await;
    caller.send_files(&file);
    for n in 0..40 {
        let command = caller.command().await;
        assert_eq!((command.command_id, command.rule_id, command.detached), (n + 1, format!("t{n}"), true));
    }
    let answer = caller.response().await;
    assert!(answer.results.iter().all(|result| result.ok), "{:?}", said(&answer));
}
