//! Permission rules (`if`), handlers that stand twice, and settings that narrow a tier.

use std::{fs, path::Path};

use hookd_tests::{
    Hookd, Tier, TriggerRequestExt as _, decide, http, pre_tool_use, rule, sh, v1::ExplainRequest,
    v1::ListRulesRequest, with,
};
use serde_json::{Value, json};

/// A hook file of Claude Code with one group for each of these handlers, `PreToolUse`.
fn hook_file(groups: &[(&str, Value)]) -> String {
    let groups = groups.iter().map(|(matcher, hook)| json!({ "matcher": matcher, "hooks": [hook] }));
    json!({ "hooks": { "PreToolUse": groups.collect::<Vec<_>>() } }).to_string()
}

fn blocks_if(permission: &str) -> Value {
    json!({ "type": "command", "if": permission, "command": format!("echo '{permission}' >&2; exit 2") })
}

#[tokio::test]
async fn hooks_run_where_their_permission_rule_matches() {
    let groups = [
        ("Bash", blocks_if("Bash(rm *)")),
        ("Bash", blocks_if("Bash(git push *)")),
        ("Edit|Write", blocks_if("Edit(/src/**)")),
        ("WebFetch", blocks_if("WebFetch(domain:*.example.com)")),
    ];
    let project = ".claude/settings.json";
    let builder = Hookd::builder().file(project, &hook_file(&groups));
    let sources = json!([{ "path": builder.path(project) }]);
    let hookd = builder.settings(json!({ "tiers": { "shared": { "sources": sources } } })).start().await;
    let folder = hookd.path("");
    let root = folder.display().to_string();
    let root = root.trim_end_matches('/');
    for (tool, params, reason) in [
        ("Bash", json!({ "command": "cd /tmp && timeout 5 rm -rf x" }), "Bash(rm *)"),
        ("Bash", json!({ "command": "for f in a b; do echo one; done" }), ""),
        ("Bash", json!({ "command": "echo $(git push origin)" }), "Bash(git push *)"),
        ("Bash", json!({ "command": "echo 'open" }), "Bash(rm *)"),
        ("Edit", json!({ "file_path": format!("{root}/src/a.ts") }), "Edit(/src/**)"),
        ("Write", json!({ "file_path": format!("{root}/lib/a.ts") }), ""),
        ("WebFetch", json!({ "url": "https://api.example.com/x" }), "WebFetch(domain:*.example.com)"),
        ("WebFetch", json!({ "url": "https://example.com/x" }), ""),
    ] {
        let answer = hookd.trigger(pre_tool_use(tool, params.clone()).in_cwd(&folder)).await;
        assert_eq!(answer.reason, reason, "{params}");
    }
    let explain = async |command: &str| {
        let trigger = Some(pre_tool_use("Bash", json!({ "command": command })).in_cwd(&folder));
        let explained =
            hookd.admin().explain(ExplainRequest { trigger, ..Default::default() }).await.unwrap().into_inner();
        explained.rules.into_iter().map(|rule| (rule.would_run, rule.because)).take(2).collect::<Vec<_>>()
    };
    let matcher = "matcher `Bash` is found in `Bash`";
    assert_eq!(
        explain("rm x").await,
        [
            (true, format!("{matcher}; its `if` `Bash(rm *)` matches")),
            (false, "its `if` `Bash(git push *)` does not match the call".to_owned()),
        ]
    );
    let (would_run, because) = explain("echo 'open").await.swap_remove(0);
    assert!(would_run && because.contains("its `if` `Bash(rm *)` cannot be tested, so it runs: "), "{because}");
    let rules = hookd.admin().list_rules(ListRulesRequest::default()).await.unwrap().into_inner().rules;
    assert_eq!(
        rules.iter().map(|rule| rule.permission.as_str()).collect::<Vec<_>>()[..2],
        ["Bash(rm *)", "Bash(git push *)"]
    );
}

/// How often the handlers ran: each adds a line.
fn runs(folder: &Path) -> usize {
    fs::read_to_string(folder.join("runs")).map_or(0, |text| text.lines().count())
}

fn counts(folder: &Path) -> Value {
    json!({ "type": "command", "command": format!("echo run >> '{}'", folder.join("runs").display()) })
}

/// anthropics/claude-code 76297 and 16954: one stated rule. What stands twice in one source runs once, what stands in two
/// sources runs for both.
#[tokio::test]
async fn case_055_a_handler_runs_once_for_each_source() {
    let builder = Hookd::builder();
    let folder = builder.path("");
    let twice = hook_file(&[("Bash", counts(&folder)), ("Bash|Edit", counts(&folder)), ("*", counts(&folder))]);
    let once = hook_file(&[("Bash", counts(&folder))]);
    let hookd = builder
        .file("shared/one.json", &twice)
        .file("shared/two.json", &once)
        .file("plugins/a/hooks.json", &once)
        .file("plugins/b/hooks.json", &once);
    let sources = ["a", "b"].map(|name| json!({ "path": hookd.path(&format!("plugins/{name}/hooks.json")) }));
    let hookd = hookd.settings(json!({ "tiers": { "plugin": { "sources": sources } } })).start().await;
    for (tool, expected) in [("Bash", 3), ("Edit", 1), ("Read", 1)] {
        let before = runs(&hookd.path(""));
        hookd.trigger(pre_tool_use(tool, json!({ "command": "ls" }))).await;
        assert_eq!(runs(&hookd.path("")), before + expected, "{tool}");
    }
}

#[tokio::test]
async fn a_tier_can_be_narrowed_while_hookd_runs() {
    let rules = json!([
        rule("program", "PreToolUse", sh("echo '{\"decision\":\"block\"}'")),
        rule("answer", "PreToolUse", decide(json!({ "verdict": "ask" }))),
        with(rule("post", "PreToolUse", http("http://127.0.0.1:9/")), json!({ "mode": "shadow" })),
    ]);
    let hookd = Hookd::builder().managed(json!([])).shared(rules).start().await;
    let results = async || {
        let answer = hookd.trigger(pre_tool_use("Bash", json!({ "command": "ls" }))).await;
        answer.results.into_iter().map(|result| result.rule_id).collect::<Vec<_>>()
    };
    for (narrowed, expected, errors) in [
        (json!({}), &["program"][..], 0),
        (json!({ "handlers": ["decide"] }), &["answer"], 2),
        (json!({ "handlers": ["decide", "http"] }), &["answer", "post"], 1),
        (json!({ "handlers": ["decide", "http"], "http_hosts": ["example.com"] }), &["answer"], 2),
        (json!({ "events": ["Stop"] }), &[], 3),
        (json!({ "enabled": false }), &[], 0),
        (json!({ "enabled": true }), &["program"], 0),
    ] {
        let path = hookd.path("hookd.json");
        let mut settings: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        let shared = settings["tiers"]["shared"].as_object_mut().unwrap();
        for key in ["enabled", "handlers", "events", "http_hosts"] {
            shared.remove(key);
        }
        shared.extend(narrowed.as_object().unwrap().clone());
        hookd.replace_file("hookd.json", &settings.to_string());
        let reloaded = hookd.reload().await;
        let of_shared = reloaded.sources.iter().filter(|source| source.tier() == Tier::Shared);
        assert_eq!(of_shared.map(|source| source.errors.len()).sum::<usize>(), errors, "{narrowed}");
        assert_eq!(results().await, expected, "{narrowed}");
    }
}
