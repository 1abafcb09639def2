//! Hooks that do not let an agent stop: what they are told, how each agent is made to go on, and that it stops in the end.

use std::fs;

use hookd_tests::{Hookd, RawHttp1, decide, rule, sh, with};
use serde_json::{Value, json};

use super::by_http;
use crate::relay::{Ran, Relay, agents::stop_call};

/// What an agent says before it, or a subagent of it, stops.
struct Stops {
    agent: &'static str,
    event: &'static str,
    input: Value,
    /// The key that says whether it goes on because of a hook already.
    again: Again,
    /// What makes it go on, with `R` in the place of the reason. `null`: nothing does.
    forced: Value,
}

enum Again {
    /// Under this name, true or false.
    Flag(&'static str),
    /// How often it was.
    Count(&'static str),
    /// It does not say.
    Unsaid,
}

impl Stops {
    /// Its input, where it goes on because of a hook already or not.
    fn input(&self, again: bool) -> Value {
        let mut input = self.input.clone();
        match self.again {
            Again::Flag(key) => input[key] = again.into(),
            Again::Count(key) => input[key] = u32::from(again).into(),
            Again::Unsaid => {}
        }
        input
    }

    /// What a handler has to find at `stop_hook_active`.
    fn told(&self, again: bool) -> Value {
        if matches!(self.again, Again::Unsaid) { Value::Null } else { again.into() }
    }

    async fn ask(&self, hookd: &Hookd, again: bool) -> Ran {
        Relay::of(self.agent).with(&["--event", self.event]).at(hookd.address()).run(&self.input(again)).await
    }

    /// The same by the endpoint.
    async fn ask_http(&self, hookd: &Hookd, again: bool) -> Ran {
        let mut connection = RawHttp1::connect(hookd.address()).await;
        by_http(&mut connection, self.agent, Some(self.event), &self.input(again)).await
    }

    /// What it gets, if `reason` of the rule `tests` makes it go on.
    fn goes_on(&self, reason: &str, ran: &Ran) -> bool {
        let reason = format!("{reason} (tests, ID)");
        let said = without_id(&ran.out, "(tests, ");
        match &self.forced {
            Value::Null => *ran == Ran { exit: 0, out: ran.out.clone(), err: String::new() } && says_nothing(&ran.out),
            // goose goes by the exit code.
            Value::String(_) => (ran.exit, ran.out.as_str(), without_id(&ran.err, "(tests, ")) == (2, "", reason),
            form => {
                let form = form.to_string().replace("\"R\"", &Value::from(reason).to_string());
                (ran.exit, ran.err.as_str()) == (0, "")
                    && said.parse::<Value>().unwrap() == form.parse::<Value>().unwrap()
            }
        }
    }
}

/// No output, or an object that an agent wants in any case.
fn says_nothing(out: &str) -> bool {
    ["", "{}", r#"{"cancel":false}"#].contains(&out)
}

/// `text` with `ID` after `before`, up to the bracket.
fn without_id(text: &str, before: &str) -> String {
    let parts = text.split(before).enumerate();
    let without = parts.map(|(index, part)| match part.split_once(')') {
        Some((_, rest)) if index > 0 => format!("ID){rest}"),
        _ => part.to_owned(),
    });
    without.collect::<Vec<_>>().join(before)
}

/// Every event of every agent that hookd calls `Stop` or `SubagentStop`.
fn all() -> Vec<Stops> {
    let block = || json!({ "decision": "block", "reason": "R" });
    let inside = |event: &str| {
        json!({ "decision": "block", "reason": "R",
                "hookSpecificOutput": { "hookEventName": event, "decision": "block", "reason": "R" } })
    };
    let flag = || Again::Flag("stop_hook_active");
    let mut all = Vec::new();
    let mut add = |agent, event, more: Value, again, forced| {
        let (mut input, _) = stop_call(agent);
        for (key, value) in more.as_object().unwrap() {
            input[key] = value.clone();
        }
        // Another agent's key.
        input.as_object_mut().unwrap().remove("stop_hook_active");
        all.push(Stops { agent, event, input, again, forced });
    };
    let sub = json!({ "hook_event_name": "SubagentStop", "agent_id": "a1", "agent_type": "reviewer" });
    for agent in ["claude-code", "codex", "qwen-code", "factory-droid"] {
        add(agent, "Stop", json!({}), flag(), block());
        add(agent, "SubagentStop", sub.clone(), flag(), block());
    }
    add("vscode", "Stop", json!({}), flag(), inside("Stop"));
    add("vscode", "SubagentStop", sub.clone(), flag(), inside("SubagentStop"));
    add("gemini-cli", "AfterAgent", json!({}), flag(), json!({ "decision": "deny", "reason": "R" }));
    let followup = || json!({ "followup_message": "R" });
    add("cursor", "stop", json!({}), Again::Count("loop_count"), followup());
    let done = json!({ "hook_event_name": "subagentStop", "summary": "done" });
    add("cursor", "subagentStop", done, Again::Count("loop_count"), followup());
    add("copilot-cli", "agentStop", json!({}), flag(), block());
    add("copilot-cli", "subagentStop", json!({ "agentId": "a1" }), Again::Unsaid, block());
    let pascal = json!({ "hook_event_name": "Stop", "session_id": "s1", "stop_reason": "end_turn" });
    add("copilot-cli", "Stop", pascal, flag(), block());
    add("goose", "Stop", json!({}), Again::Unsaid, json!("exit 2"));
    add("kiro", "stop", json!({ "hook_event_name": "stop" }), Again::Unsaid, block());

    // These can only be told that it is over, so that nothing must be said that they would take for more.
    add("kiro", "Stop", json!({ "hook_event_name": "Stop" }), Again::Unsaid, Value::Null);
    add("amazon-q", "stop", json!({ "hook_event_name": "stop" }), Again::Unsaid, Value::Null);
    let response = json!({ "agent_action_name": "post_cascade_response", "trajectory_id": "s1", "tool_info": {} });
    add("windsurf", "post_cascade_response", response, Again::Unsaid, Value::Null);
    add("cline", "TaskComplete", json!({ "hookName": "TaskComplete", "taskId": "k1" }), Again::Unsaid, Value::Null);
    let end = json!({ "hookName": "agent_end", "taskId": "k1", "turn": { "outputText": "done" } });
    add("cline", "agent_end", end, Again::Unsaid, Value::Null);
    all
}

#[tokio::test]
async fn case_041_handlers_are_told_what_the_agent_says_of_stop_hooks_and_each_time_it_goes_on() {
    let on = json!({ "event": ["Stop", "SubagentStop"] });
    let native = with(rule("native", "", sh("cat > $TMPDIR/native")), on.clone());
    let forces = with(rule("tests", "", sh("cat > $TMPDIR/theirs; echo again >&2; exit 2")), on);
    let forces = with(forces, json!({ "protocol": "claude-code" }));
    let hookd = Hookd::builder().managed(json!([native, forces])).start().await;
    let read = |name: &str| {
        let path = hookd.path("tmp").join(name);
        let text = fs::read_to_string(&path).unwrap();
        fs::remove_file(path).unwrap();
        text.parse::<Value>().unwrap()
    };
    for stops in all() {
        for (again, by_relay) in [(false, true), (true, true), (true, true), (false, false), (true, false)] {
            let ran = if by_relay { stops.ask(&hookd, again).await } else { stops.ask_http(&hookd, again).await };
            let (agent, event) = (stops.agent, stops.event);
            assert!(stops.goes_on("again", &ran), "{agent} {event} {again}: {ran:?}");
            let (native, theirs) = (read("native"), read("theirs"));
            assert_eq!(native["payload"]["stop_hook_active"], stops.told(again), "{agent} {event}: {native}");
            assert_eq!(theirs["stop_hook_active"], stops.told(again), "{agent} {event}: {theirs}");
        }
    }
}

#[tokio::test]
async fn a_rule_that_looks_at_it_makes_each_agent_go_on_once() {
    let when = "!has(payload.stop_hook_active) || !payload.stop_hook_active";
    let once = with(
        rule("tests", "Stop", decide(json!({ "verdict": "block", "reason": "run the tests" }))),
        json!({ "event": ["Stop", "SubagentStop"], "when": when }),
    );
    let hookd = Hookd::builder().managed(json!([once])).start().await;
    for stops in all().into_iter().filter(|stops| !matches!(stops.again, Again::Unsaid)) {
        let ran = stops.ask(&hookd, false).await;
        assert!(stops.goes_on("run the tests", &ran), "{} {}: {ran:?}", stops.agent, stops.event);
        let ran = stops.ask(&hookd, true).await;
        let silent = (ran.exit, ran.err.as_str()) == (0, "") && says_nothing(&ran.out);
        assert!(silent, "{} {}: {ran:?}", stops.agent, stops.event);
    }
}

#[tokio::test]
async fn law_13_a_halt_from_above_ends_every_agent_that_a_hook_would_keep_running() {
    let halts = decide(json!({ "halt": true, "haltReason": "the budget is spent" }));
    let blocks = decide(json!({ "verdict": "block", "reason": "run the tests" }));
    let on = json!({ "event": ["Stop", "SubagentStop"] });
    let hookd = Hookd::builder()
        .managed(json!([with(rule("budget", "", halts), on.clone())]))
        .shared(json!([with(rule("tests", "", blocks), on)]))
        .start()
        .await;
    for stops in all() {
        let ran = stops.ask(&hookd, false).await;
        let context = format!("{} {}: {ran:?}", stops.agent, stops.event);
        assert_eq!((ran.exit, ran.err.as_str()), (0, ""), "{context}");
        if !says_nothing(&ran.out) {
            let said = without_id(&ran.out, "(budget, ");
            let halt = json!({ "continue": false, "stopReason": "the budget is spent (budget, ID)" });
            assert_eq!(said.parse::<Value>().unwrap(), halt, "{context}");
        }
        let can_be_halted = ["claude-code", "codex", "gemini-cli", "vscode", "qwen-code", "factory-droid"];
        assert_eq!(!says_nothing(&ran.out), can_be_halted.contains(&stops.agent), "{context}");
    }
}
