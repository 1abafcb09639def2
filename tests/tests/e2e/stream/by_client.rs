//! The real client, with real processes.

use std::{
    ffi::OsString,
    fs,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use hookd_client::{
    AgentCommands, AgentProgram, AgentSide, Client, Detached, Gate, OfferedCommand, OfferedRules, OnUnavailable,
    proto::TriggerRequest,
};
use hookd_tests::{Hookd, Process, TriggerRequestExt as _, eventually, pre_tool_use, rule, said, sh, with, within};
use serde_json::{Value, json};

use super::caller::shared;

/// Runs the `command` of the entry that is asked for, out of the file itself, as `sh -c`.
#[derive(Clone, Default)]
struct Commands {
    takes_detached: bool,
    detached: Arc<Mutex<Vec<Detached>>>,
    mark: OsString,
}

impl AgentCommands for Commands {
    fn program(&self, command: &OfferedCommand<'_>) -> Result<AgentProgram, String> {
        let file: Value = serde_json::from_slice(command.file.content()).unwrap();
        let line = file["hooks"][command.index as usize]["handler"]["command"].as_str().ok_or("no command")?;
        Ok(AgentProgram {
            argv: ["sh", "-c", line].map(OsString::from).to_vec(),
            env: vec![
                ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()),
                // By which the harness finds what a test has left running.
                ("TMPDIR".into(), self.mark.clone()),
            ],
            cwd: None,
        })
    }

    fn detach(&self, program: Detached) -> Result<(), Detached> {
        if !self.takes_detached {
            return Err(program);
        }
        self.detached.lock().unwrap().push(program);
        Ok(())
    }
}

fn commands(hookd: &Hookd) -> Commands {
    Commands { mark: hookd.path("tmp").into(), ..Commands::default() }
}

fn client(hookd: &Hookd) -> Client {
    Client::connect_lazy(&hookd.address().to_string(), OnUnavailable::Block).unwrap()
}

fn bash(cwd: &Path) -> TriggerRequest {
    pre_tool_use("Bash", json!({ "command": "ls" })).in_cwd(cwd)
}

fn on_the_agent(id: &str, line: &str, more: Value) -> Value {
    with(rule(id, "PreToolUse", sh(line)), more)
}

fn side(hookd: &Hookd, rules: Value) -> (OfferedRules, AgentSide<Commands>) {
    let file = shared(rules);
    (file.clone(), AgentSide::new(commands(hookd)).offer(file))
}

async fn runs(hookd: &Hookd, line: &str) {
    let is = |process: &Process| process.command == line;
    eventually("it runs", async || hookd.children().iter().any(is).then_some(())).await;
}

async fn nothing_runs(hookd: &Hookd) {
    eventually("nothing is left", async || hookd.children().is_empty().then_some(())).await;
}

#[tokio::test]
async fn commands_run_where_the_files_are_and_the_gate_says_what_to_do() {
    let hookd = Hookd::builder().start().await;
    let tree = tempfile::tempdir().unwrap();
    fs::write(tree.path().join("policy"), "no ls here").unwrap();
    let guard = "input=$(cat); case $input in *'\"ls\"'*) echo \"{\\\"blocked\\\":true,\\\"blockReason\\\":\\\"$(cat policy)\\\"}\";; esac";
    let (_, side) = side(&hookd, json!([on_the_agent("guard", guard, json!({}))]));
    let client = client(&hookd);
    for _round in 0..2 {
        let gate = client.trigger_with_commands(bash(tree.path()), &side).await;
        let Gate::Refuse { reason, decision, .. } = gate else { panic!("{gate:?}") };
        assert_eq!(reason, "no ls here");
        assert_eq!(decision.error(), None);
        let answer = decision.answer().unwrap();
        assert_eq!((answer.results[0].exit_code, answer.results[0].ok), (Some(0), true));
        assert!(answer.results[0].elapsed.is_some());
    }
    let request = pre_tool_use("Bash", json!({ "command": "pwd" })).in_cwd(tree.path());
    let gate = client.trigger_with_commands(request, &side).await;
    assert!(matches!(gate, Gate::Run { approved: false, params: None, .. }), "{gate:?}");
}

#[tokio::test]
async fn what_fails_here_is_named_there() {
    let hookd = Hookd::builder().settings(json!({ "limits": { "output_bytes": "4KiB" } })).start().await;
    let (_, side) = side(
        &hookd,
        json!([
            on_the_agent("exits", "echo broken >&2; exit 3", json!({})),
            on_the_agent("missing", "./not-there", json!({})),
            on_the_agent("killed", "kill -9 $$", json!({})),
            on_the_agent(
                "endless",
                "yes",
                json!({ "handler": { "type": "command", "command": "yes", "timeout": 200 } })
            ),
            on_the_agent("much", "yes | head -c 5000", json!({})),
            rule("no-command", "PreToolUse", json!({ "type": "command", "argv": ["true"] })),
        ]),
    );
    let folder = tempfile::tempdir().unwrap();
    let answer = client(&hookd).call_with_commands(&bash(folder.path()), &side).await.unwrap();
    let mut seen = said(&answer);
    let missing = seen["results"][1].take();
    assert!(missing.as_str().unwrap().starts_with("shared/missing failed did_not_start"), "{missing}");
    assert_eq!(
        seen,
        json!({
            "verdict": "none", "decidedBy": "failure_policy shared/exits", "degraded": true,
            "results": [
                "shared/exits failed exited: broken", null, "shared/killed failed killed: killed by signal 9",
                "shared/endless failed timed_out: Timed out after 200ms",
                "shared/much failed too_large: output of more than 4096 bytes",
                "shared/no-command failed not_permitted: no command",
            ],
            "considered": 6, "matched": 6,
        })
    );
    nothing_runs(&hookd).await;
}

#[tokio::test]
async fn a_block_cancels_what_runs_beside_it_and_the_answer_ends_the_rest() {
    let hookd = Hookd::builder().start().await;
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("go");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    let beside = json!({ "concurrent": true });
    let (_, side) = side(
        &hookd,
        json!([on_the_agent("blocks", "cat go", beside.clone()), on_the_agent("sleeps", "exec sleep 2000", beside),]),
    );
    let client = client(&hookd);
    let request = bash(folder.path());
    let call = tokio::spawn(async move { client.call_with_commands(&request, &side).await });
    runs(&hookd, "sleep 2000").await;
    tokio::fs::write(&fifo, "{\"blocked\":true,\"blockReason\":\"first\"}").await.unwrap();
    let answer = within("an answer", call).await.unwrap().unwrap();
    assert_eq!(answer.reason, "first");
    nothing_runs(&hookd).await;
}

#[tokio::test]
async fn dropping_the_call_kills_everything_on_both_sides() {
    let hookd = Hookd::builder().start().await;
    let folder = tempfile::tempdir().unwrap();
    let (_, side) = side(&hookd, json!([on_the_agent("sleeps", "sleep 3000 & exec sleep 3001", json!({}))]));
    let client = client(&hookd);
    let request = bash(folder.path());
    let call = tokio::spawn(async move { client.call_with_commands(&request, &side).await });
    runs(&hookd, "sleep 3000").await;
    runs(&hookd, "sleep 3001").await;
    call.abort();
    nothing_runs(&hookd).await;
    eventually("its place is free", async || (hookd.metric("hookd_in_flight_calls").await == 0.0).then_some(())).await;
}

#[tokio::test]
async fn programs_of_the_server_run_only_where_the_caller_opted_in() {
    let rules = json!([with(
        rule(
            "version",
            "PreToolUse",
            json!({ "type": "command", "argv": ["sh", "-c", "echo \"$SAYS\"; cat >/dev/null"],
            "env": { "SAYS": "{\"additionalContext\":\"from the server\"}" } })
        ),
        json!({ "runOn": "agent" }),
    )]);
    let hookd = Hookd::builder().managed(rules).start().await;
    let folder = tempfile::tempdir().unwrap();
    let client = client(&hookd);
    let refuses = AgentSide::new(commands(&hookd));
    let answer = client.call_with_commands(&bash(folder.path()), &refuses).await.unwrap();
    assert_eq!(
        said(&answer)["results"],
        json!(["managed/version failed not_permitted blocked: this caller runs no programs of the server's"])
    );
    let agrees = AgentSide::new(commands(&hookd)).server_programs(true);
    let answer = client.call_with_commands(&bash(folder.path()), &agrees).await.unwrap();
    assert_eq!(
        said(&answer),
        json!({ "verdict": "none", "context": ["managed/version: from the server"],
                "results": ["managed/version none"], "considered": 1, "matched": 1 })
    );
}

#[tokio::test]
async fn async_rules_run_on_after_the_answer_or_are_handed_over() {
    let hookd = Hookd::builder().start().await;
    let folder = tempfile::tempdir().unwrap();
    let rules = json!([on_the_agent("tells", "cat > told.part && mv told.part told", json!({ "async": true }))]);
    let (file, side) = side(&hookd, rules);
    let client = client(&hookd);
    let answer = client.call_with_commands(&bash(folder.path()), &side).await.unwrap();
    assert_eq!(said(&answer)["results"], json!(["shared/tells queued"]));
    let told = folder.path().join("told");
    let input = eventually("it has run", async || fs::read(&told).ok()).await;
    let input: Value = serde_json::from_slice(&input).unwrap();
    assert_eq!(input["decisionId"], json!(answer.decision_id));

    let takes = Commands { takes_detached: true, ..commands(&hookd) };
    let taken = Arc::clone(&takes.detached);
    let side = AgentSide::new(takes).offer(file);
    client.call_with_commands(&bash(folder.path()), &side).await.unwrap();
    let taken = taken.lock().unwrap();
    let [Detached { program, stdin, timeout }] = taken.as_slice() else { panic!("{taken:?}") };
    assert_eq!((program.cwd.as_deref(), *timeout), (Some(folder.path()), Duration::from_secs(10)));
    assert_eq!(serde_json::from_slice::<Value>(stdin).unwrap()["event"], "PreToolUse");
}

#[tokio::test]
async fn large_inputs_and_outputs_go_both_ways() {
    let hookd = Hookd::builder().start().await;
    let folder = tempfile::tempdir().unwrap();
    let counts = "printf '{\"systemMessage\":\"%s\"}' $(wc -c)";
    let much = "head -c 1000000 /dev/zero | tr '\\0' x; cat > /dev/null";
    let (_, side) =
        side(&hookd, json!([on_the_agent("counts", counts, json!({})), on_the_agent("much", much, json!({}))]));
    let large = "x".repeat(3 << 20);
    let request = pre_tool_use("Write", json!({ "content": large })).in_cwd(folder.path());
    let answer = client(&hookd).call_with_commands(&request, &side).await.unwrap();
    let read = answer.system_messages[0].text.parse::<usize>().unwrap();
    assert!(read > large.len() && read < large.len() + 1000, "{read}");
    assert_eq!(answer.results[1].output.as_ref().map(String::len), Some(1_000_000));

    let too_large = pre_tool_use("Write", json!({ "content": "x".repeat((4 << 20) - 600) })).in_cwd(folder.path());
    let answer = client(&hookd).call_with_commands(&too_large, &side).await.unwrap();
    let results = said(&answer)["results"].as_array().unwrap().clone();
    assert!(results.iter().all(|line| line.as_str().unwrap().contains("failed too_large")), "{results:?}");
}

#[tokio::test]
async fn files_that_are_too_much_are_refused_by_name_and_the_others_count() {
    let hookd = Hookd::builder().start().await;
    let folder = tempfile::tempdir().unwrap();
    let padded = |id: &str, bytes: usize| {
        let says = json!({ "type": "decide", "systemMessage": id });
        shared(json!([with(rule(id, "PreToolUse", says), json!({ "description": "x".repeat(bytes) }))]))
    };
    let mut side = AgentSide::new(commands(&hookd)).offer(padded("huge", 5 << 20));
    for n in 0..6 {
        side = side.offer(padded(&format!("f{n}"), 200 << 10));
    }
    for round in 0..2 {
        let answer = client(&hookd).call_with_commands(&bash(folder.path()), &side).await.unwrap();
        let seen = said(&answer);
        let why = "it was not sent in time, or its content is other than its hash says";
        let refused = format!("shared/hooks.json failed not_permitted: the offered file is not taken: {why}");
        assert_eq!(
            seen["results"],
            json!([
                "shared/f0 none",
                "shared/f1 none",
                "shared/f2 none",
                "shared/f3 none",
                "shared/f4 none",
                refused,
                if round == 0 {
                    refused.clone()
                } else {
                    "shared/hooks.json failed not_permitted: the offered file is not taken: all together have more than 1048576 bytes".to_owned()
                }
            ])
        );
    }
}
