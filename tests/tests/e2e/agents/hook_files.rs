//! Section C of the cases: hook files of Claude Code, from the file to what that agent gets through the relay.

use hookd_tests::Hookd;
use serde_json::{Value, json};

use crate::relay::{Relay, agents::shell_call};

/// A hook that adds `name` to the context.
fn tells(name: &str) -> Value {
    let said = json!({ "hookSpecificOutput": { "hookEventName": "PreToolUse", "additionalContext": name } });
    json!({ "type": "command", "command": format!("cat > /dev/null; printf %s '{said}'") })
}

/// What the hooks of the file have told of a call of `tool`, in their order.
async fn told(hookd: &Hookd, tool: &str) -> Vec<String> {
    let (mut input, _) = shell_call("claude-code");
    input["tool_name"] = tool.into();
    let ran = Relay::of("claude-code").at(hookd.address()).run(&input).await;
    assert_eq!((ran.exit, ran.err.as_str()), (0, ""), "{ran:?}");
    let said = if ran.out.is_empty() { json!({}) } else { ran.out.parse::<Value>().unwrap() };
    let context = said["hookSpecificOutput"]["additionalContext"].as_str().unwrap_or_default().to_owned();
    context.lines().map(str::to_owned).collect()
}

async fn with_file(file: Value) -> Hookd {
    let builder = Hookd::builder().file("project/.claude/settings.json", &file.to_string());
    let sources = json!([{ "path": builder.path("project/.claude/settings.json") }]);
    builder.settings(json!({ "tiers": { "shared": { "sources": sources } } })).start().await
}

#[tokio::test]
async fn case_043_case_045_case_046_case_047_case_049_case_050_case_051_a_file_matches_as_its_agent_does() {
    let matchers = [
        "*",
        "",
        "Writ",
        "rit",
        "rit.",
        "W(rit)e",
        "mcp__[^_]+__[^_]+",
        "mcp__.*",
        "^Bash$",
        "Task",
        "^mcp__.*__get_node_types$",
        "Read",
        "Write|Edit",
        "code-reviewer",
    ];
    let groups = matchers.iter().enumerate().map(|(index, matcher)| {
        // The same handler twice in one file would run once.
        json!({ "matcher": matcher, "hooks": [tells(&format!("{index} {matcher}"))] })
    });
    let unmatched = json!({ "hooks": [tells("none")] });
    let file = json!({ "hooks": { "PreToolUse": groups.chain([unmatched]).collect::<Vec<_>>() } });
    let hookd = with_file(file).await;
    for (tool, expected) in [
        ("Write", &["rit.", "W(rit)e", "Write|Edit"][..]),
        ("Edit", &["Write|Edit"]),
        ("NotebookEdit", &[]),
        ("Bash", &["^Bash$"]),
        ("BashOutput", &[]),
        ("Read", &["Read"]),
        ("Agent", &["Task"]),
        ("mcp__some_server__list", &["mcp__.*"]),
        ("mcp__n8n__get_node_types", &["mcp__[^_]+__[^_]+", "mcp__.*", "^mcp__.*__get_node_types$"]),
        ("_get_node_types", &[]),
        ("senior-code-reviewer", &[]),
    ] {
        let told = told(&hookd, tool).await;
        let told = told.iter().map(|line| line.split_once(' ').map_or(line.as_str(), |(_, matcher)| matcher));
        let mut all = vec!["*", ""];
        all.extend(expected);
        all.push("none");
        assert_eq!(told.collect::<Vec<_>>(), all, "{tool}");
    }
}

#[tokio::test]
async fn case_053_case_054_what_is_wrong_with_one_group_silences_no_other() {
    let file = json!({
        "$comment": "ours",
        "permissions": { "deny": ["Read(./.env)"] },
        "hooks": {
            "_note": "written by hand",
            "PreToolUse": [
                { "matcher": "Bash", "hooks": [tells("first")] },
                { "matcher": { "toolName": "bash" }, "hooks": [tells("object")] },
                { "matcher": "^(?!Read$).*", "hooks": [tells("look-around")] },
                { "matcher": "Bash", "type": "command", "command": tells("flat")["command"] },
                { "matcher": "Bash", "hooks": [{ "type": "mcp_tool", "server": "s", "tool": "t" }, tells("beside")] },
                { "matcher": "Bash", "hooks": [tells("last")] },
            ],
            "_disabled_PreToolUse": [{ "hooks": [tells("disabled")] }],
            "BeforeEverything": [{ "hooks": [tells("other")] }],
        },
    });
    let hookd = with_file(file).await;
    assert_eq!(told(&hookd, "Bash").await, ["first", "flat", "beside", "last"]);
    let log = hookd.log_text();
    let left_out =
        ["hooks.PreToolUse[1]", "hooks.PreToolUse[2]", "mcp_tool", "_disabled_PreToolUse", "BeforeEverything"];
    for name in left_out {
        assert!(log.contains(name), "{name} is not in\n{log}");
    }
}
