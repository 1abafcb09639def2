//! Known ways in which rule files are misread (section C of the cases, 94 and 97), through the whole service.

use std::fs;

use hookd_tests::{
    Hookd, Tier, TriggerRequestExt as _, decide, event, post_tool_use, pre_tool_use, rule, said, sh,
    v1::{ListRulesRequest, SourceState, SourceStatus},
    with,
};
use serde_json::{Value, json};

fn asks(id: &str, matcher: &str) -> Value {
    with(rule(id, "PreToolUse", decide(json!({ "verdict": "ask" }))), json!({ "matcher": matcher }))
}

/// The ids of the rules that were asked for a tool.
async fn asked(hookd: &Hookd, tool: &str) -> Vec<String> {
    let answer = hookd.trigger(pre_tool_use(tool, json!({}))).await;
    answer.results.into_iter().map(|result| result.rule_id).collect()
}

/// What came of the last load of a hookd's only source.
async fn source(hookd: &Hookd) -> SourceStatus {
    let status = hookd.admin().get_status(hookd_tests::v1::GetStatusRequest {}).await.unwrap().into_inner();
    let [source] = <[SourceStatus; 1]>::try_from(status.sources).unwrap();
    source
}

#[tokio::test]
async fn case_043_case_047_case_050_case_051_matchers_search_the_name_of_the_tool() {
    let hookd = Hookd::builder()
        .shared(json!([
            asks("star", "*"),
            asks("empty", ""),
            rule("absent", "PreToolUse", decide(json!({ "verdict": "ask" }))),
            asks("anchored", "^Bash$"),
            asks("anywhere", "ash"),
            asks("mcp", "^mcp__.*__get$"),
        ]))
        .start()
        .await;
    let all = ["star", "empty", "absent"];
    let with = |more: &[&str]| all.iter().chain(more).map(|id| (*id).to_owned()).collect::<Vec<_>>();
    assert_eq!(asked(&hookd, "Bash").await, with(&["anchored", "anywhere"]));
    assert_eq!(asked(&hookd, "BashOutput").await, with(&["anywhere"]));
    assert_eq!(asked(&hookd, "mcp__some_server__get").await, with(&["mcp"]));
    assert_eq!(asked(&hookd, "_get").await, with(&[]));
}

#[tokio::test]
async fn case_053_case_097_a_pattern_that_cannot_be_compiled_is_an_error_with_event_position_and_pattern() {
    for pattern in ["^(?!Read$).*", "("] {
        let rules = json!([asks("good", ""), asks("bad", pattern)]);
        let refused = Hookd::builder().managed(rules.clone()).start_refused().await;
        assert_eq!(refused.code, Some(64));
        for part in ["hooks[1].matcher", pattern, "`PreToolUse`"] {
            assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
        }
        // Below team the other rules still load, and what is left out is listed by name.
        let hookd = Hookd::builder().shared(rules).start().await;
        assert_eq!(asked(&hookd, "Read").await, ["good"]);
        let source = source(&hookd).await;
        assert_eq!((source.state(), source.rules, source.errors.len()), (SourceState::Partial, 1, 1), "{source:?}");
        assert!(source.errors[0].contains(pattern), "{source:?}");
    }
}

#[tokio::test]
async fn case_054_one_bad_entry_does_not_silence_the_others() {
    let flat = json!({ "event": "PreToolUse", "command": "true" });
    let object = json!({ "event": "PreToolUse", "matcher": { "toolName": "bash" }, "handler": sh("true") });
    let unknown = rule("odd", "BeforeTool", sh("true"));
    let hookd = Hookd::builder().local(json!([flat, asks("good", "Bash"), object, unknown])).start().await;
    assert_eq!(asked(&hookd, "Bash").await, ["good"]);
    let source = source(&hookd).await;
    assert_eq!((source.state(), source.rules), (SourceState::Partial, 1), "{source:?}");
    for key in ["hooks[0]", "hooks[2].matcher", "hooks[3].event"] {
        assert!(source.errors.iter().any(|error| error.contains(key)), "{key}: {:?}", source.errors);
    }
}

#[tokio::test]
async fn case_055_the_same_text_from_two_sources_runs_twice() {
    let file = json!({ "hooks": [rule("same", "SessionStart", sh("echo ran >>$TMPDIR/runs"))] }).to_string();
    let hookd = Hookd::builder()
        .file("plugins/one/hooks.json", &file)
        .file("plugins/two/hooks.json", &file)
        .settings(json!({ "tiers": { "plugin": { "sources": ["plugins/one", "plugins/two"] } } }))
        .start()
        .await;
    let answer = hookd.trigger(event("SessionStart")).await;
    assert_eq!(
        said(&answer),
        json!({
            "verdict": "none", "results": ["plugin/same none", "plugin/same none"], "considered": 2, "matched": 2,
        })
    );
    let sources = answer.results.iter().map(|result| result.source.rsplit('/').nth(1).unwrap()).collect::<Vec<_>>();
    assert_eq!(sources, ["one", "two"]);
    assert_eq!(fs::read_to_string(hookd.path("tmp/runs")).unwrap(), "ran\nran\n");
}

#[tokio::test]
async fn case_057_a_timeout_above_the_ceiling_is_cut_to_it_with_a_warning() {
    let slow = with(sh("sleep 600"), json!({ "timeout": 65_000_000 }));
    let hookd = Hookd::builder()
        .shared(json!([rule("slow", "PostToolUse", slow)]))
        .settings(json!({ "limits": { "max_handler_timeout": "500ms" } }))
        .start()
        .await;
    let answer = hookd.trigger(post_tool_use("Bash", json!({}), json!("ok"))).await;
    assert_eq!(said(&answer)["results"], json!(["shared/slow failed timed_out: Timed out after 500ms"]));
    let status = hookd.admin().get_status(hookd_tests::v1::GetStatusRequest {}).await.unwrap().into_inner();
    assert_eq!(status.warnings.len(), 1);
    assert!(status.warnings[0].contains("hooks[0].handler.timeout"), "{:?}", status.warnings);
}

#[tokio::test]
async fn case_058_a_space_in_a_path_breaks_no_central_rule_and_leaves_a_trace_elsewhere() {
    let unquoted = with(rule("unquoted", "PreToolUse", sh("$HOOKD_CWD/guard.sh")), json!({ "onError": "block" }));
    let guard = json!({ "hooks": [rule("guard", "PreToolUse", sh("sh ./guard.sh"))] }).to_string();
    let hookd = Hookd::builder()
        .file("house rules/rules.json", &guard)
        .file("house rules/guard.sh", "echo '{\"decision\":\"ask\",\"reason\":\"here\"}'")
        .settings(json!({ "tiers": { "managed": { "sources": ["house rules"] } } }))
        .shared(json!([unquoted]))
        .start()
        .await;
    let project = hookd.path("a b");
    fs::create_dir(&project).unwrap();
    let answer = hookd.trigger(pre_tool_use("Bash", json!({})).in_cwd(&project)).await;
    let result = &answer.results[1];
    assert_eq!(answer.results[0].reason, "here");
    assert_eq!((result.exit_code, result.failure()), (Some(127), hookd_tests::v1::Failure::DidNotStart), "{result:?}");
    assert_eq!(said(&answer)["decidedBy"], "failure_policy shared/unquoted");
}

#[tokio::test]
async fn case_059_case_061_programs_are_looked_up_where_the_settings_say_and_a_missing_one_is_told_apart() {
    let rules = json!([rule("guard", "PreToolUse", sh("house-guard"))]);
    let without = Hookd::builder().managed(rules.clone()).start().await;
    let answer = without.trigger(pre_tool_use("Bash", json!({}))).await;
    let result = &answer.results[0];
    assert_eq!((result.exit_code, result.failure()), (Some(127), hookd_tests::v1::Failure::DidNotStart), "{result:?}");
    let value = said(&answer);
    assert_eq!((&value["verdict"], &value["decidedBy"]), (&json!("block"), &json!("failure_policy managed/guard")));

    let builder =
        Hookd::builder().managed(rules).file("programs/house-guard", "#!/bin/sh\necho '{\"blocked\":true}'\n");
    let programs = builder.path("programs");
    fs::set_permissions(programs.join("house-guard"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", programs.display());
    let with = builder.settings(json!({ "commands": { "path": path } })).start().await;
    let value = said(&with.trigger(pre_tool_use("Bash", json!({}))).await);
    assert_eq!((&value["verdict"], &value["decidedBy"]), (&json!("block"), &json!("rule managed/guard")));
}

#[tokio::test]
async fn case_062_a_file_with_a_syntax_error_is_refused_with_line_and_column() {
    let builder = Hookd::builder().file("team/rules.json", "asd{\"hooks\":[]}");
    let place = format!("{}:1:1: ", builder.path("team/rules.json").display());
    let refused = builder.start_refused().await;
    assert_eq!(refused.code, Some(64));
    assert!(refused.stderr.contains(&place), "{}", refused.stderr);
}

#[tokio::test]
async fn case_094_case_097_numbers_of_any_wrong_shape_are_refused_and_the_process_lives() {
    let hookd = Hookd::builder().shared(json!([])).start().await;
    let large = ["18446744073709551615", "99999999999999999999999999", "86400001", "1e308", "1e400"];
    for number in large.iter().chain(&["-1", "0", "\"5\"", "0.5", "1e3", "true", "null"]) {
        let text = format!(
            r#"{{"hooks":[{{"id":"odd","event":"PreToolUse","handler":{{"type":"command","command":"true","timeout":{number}}}}},
                {{"id":"good","event":"PreToolUse","handler":{{"type":"decide","verdict":"ask"}}}}]}}"#
        );
        hookd.replace_file("shared/rules.json", &text);
        let reloaded = hookd.reload().await;
        let [error] = reloaded.sources[0].errors.as_slice() else { panic!("{number}: {reloaded:?}") };
        let right = "hooks[0].handler.timeout: must be a whole number of milliseconds from 1 to 86400000, not ";
        assert!(error.contains(right) && error.ends_with("; rule `odd` is left out"), "{number}: {error}");
        assert_eq!(asked(&hookd, "Bash").await, ["good"], "{number}");
    }
    // NaN is no JSON; in YAML it is a number, and refused as one.
    for (file, text) in [
        (
            "shared/rules.json",
            r#"{"hooks":[{"event":"Stop","handler":{"type":"command","command":"true","timeout":NaN}}]}"#,
        ),
        ("shared/more.yaml", "hooks: [{event: Stop, handler: {type: command, command: 'true', timeout: .nan}}]"),
    ] {
        hookd.replace_file(file, text);
        assert!(!hookd.reload().await.ok, "{text}");
        assert_eq!(hookd.trigger(event("Stop")).await.rules_considered, 0, "{text}");
    }
}

#[tokio::test]
async fn rules_are_listed_in_the_order_in_which_they_are_asked() {
    let named = |id: &str| json!([rule(id, "Stop", decide(json!({ "systemMessage": id })))]);
    let hookd = Hookd::builder()
        .plugin(named("p"))
        .shared(named("s"))
        .local(named("l"))
        .team(named("t"))
        .managed(named("m"))
        .start()
        .await;
    let answer = hookd.trigger(event("Stop")).await;
    assert_eq!(
        said(&answer)["messages"],
        json!(["managed/m: m", "team/t: t", "local/l: l", "shared/s: s", "plugin/p: p"])
    );
    let listed = hookd.admin().list_rules(ListRulesRequest::default()).await.unwrap().into_inner();
    let listed = listed.rules.iter().map(|rule| (rule.tier(), rule.rule_id.as_str())).collect::<Vec<_>>();
    assert_eq!(
        listed,
        [(Tier::Managed, "m"), (Tier::Team, "t"), (Tier::Local, "l"), (Tier::Shared, "s"), (Tier::Plugin, "p")]
    );
}
