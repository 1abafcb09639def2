use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::*;
use crate::{Handler, Tier};

fn rule(tier: Tier, file: &str, program: Program) -> Rule {
    let handler = Handler::Command(CommandHandler {
        program,
        timeout: Duration::from_secs(1),
        env: Vec::new(),
        cwd: None,
        worker: None,
        allow: None,
    });
    Rule {
        events: vec![Arc::from("PreToolUse")],
        protocol: Protocol::ClaudeCode,
        ..Rule::plain("r1", tier, Path::new(file), handler)
    }
}

fn started(rule: &Rule, call: &CallFacts<'_>) -> Result<(Vec<String>, BTreeMap<String, String>), String> {
    let Handler::Command(handler) = &rule.handler else { panic!("a command") };
    let (argv, variables) = rule.program(handler, call)?;
    let text = |text: OsString| text.into_string().unwrap();
    Ok((argv.into_iter().map(text).collect(), variables.into_iter().map(|(n, v)| (text(n), text(v))).collect()))
}

fn shell() -> Program {
    Program::Shell(Shell::Bash, "x".to_owned())
}

fn variable(rule: &Rule, call: &CallFacts<'_>, name: &str) -> Option<String> {
    started(rule, call).unwrap().1.remove(name)
}

#[test]
fn a_program_finds_hookds_variables_and_in_that_agents_protocol_the_agents_too() {
    let call = CallFacts {
        event: "PreToolUse",
        tool: "Bash",
        session_id: "s1",
        decision_id: "d1",
        cwd: "/w/deep",
        workspace_roots: &[],
        payload: r#"{"effort":{"level":"high"}}"#,
        traceparent: "00-1-2-01",
    };
    let own = [
        ("HOOKD_EVENT", "PreToolUse"),
        ("HOOKD_TOOL", "Bash"),
        ("HOOKD_SESSION_ID", "s1"),
        ("HOOKD_RULE_ID", "r1"),
        ("HOOKD_DECISION_ID", "d1"),
        ("HOOKD_CWD", "/w/deep"),
    ];
    let agents = [
        ("CLAUDE_PROJECT_DIR", "/w/deep"),
        ("CLAUDE_CODE_SESSION_ID", "s1"),
        ("CLAUDE_EFFORT", "high"),
        ("TRACEPARENT", "00-1-2-01"),
        ("CLAUDECODE", "1"),
        ("CLAUDE_CODE_CHILD_SESSION", "1"),
    ];
    let map = |all: &[(&str, &str)]| all.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
    let argv = ["bash", "-c", "x"].map(str::to_owned).to_vec();
    let mut rule = rule(Tier::Shared, "/w/.claude/settings.json", shell());
    assert_eq!(started(&rule, &call), Ok((argv.clone(), map(&[&own[..], &agents].concat()))));
    rule.protocol = Protocol::Native;
    assert_eq!(started(&rule, &call), Ok((argv, map(&own))));
    // Case 75: what is long stands in the input alone.
    let long = "x".repeat(5000);
    let call = CallFacts { cwd: &long, tool: "a\0b", event: "Stop", ..CallFacts::default() };
    let left = [("HOOKD_EVENT", "Stop"), ("HOOKD_RULE_ID", "r1")];
    assert_eq!(started(&rule, &call).unwrap().1, map(&left));
}

#[test]
fn the_project_is_the_first_workspace_root_or_the_working_directory() {
    let rule = rule(Tier::Shared, "/w/.claude/settings.json", shell());
    for (roots, cwd, expected) in [
        (&[][..], "", None),
        (&[], "/w/deep", Some("/w/deep")),
        (&["/w"], "/w/deep", Some("/w")),
        (&["relative", "/v"], "/w", Some("/v")),
        (&["relative"], "elsewhere", None),
    ] {
        let roots = roots.iter().map(|root| (*root).to_owned()).collect::<Vec<_>>();
        let call = CallFacts { workspace_roots: &roots, cwd, ..CallFacts::default() };
        assert_eq!(variable(&rule, &call, "CLAUDE_PROJECT_DIR").as_deref(), expected, "{roots:?} {cwd}");
    }
}

#[test]
fn case_055_each_plugin_has_its_own_root_and_data() {
    let cache = "/home/me/.claude/plugins/cache/acme.market/lint/1.2.0";
    let data = "/home/me/.claude/plugins/data/lint-acme-market";
    for (tier, file, root, data) in [
        (Tier::Plugin, "/plugins/a/hooks/hooks.json", Some("/plugins/a"), None),
        (Tier::Plugin, "/plugins/c/more.json", Some("/plugins/c"), None),
        (Tier::Plugin, &*format!("{cache}/hooks/hooks.json"), Some(cache), Some(data)),
        (Tier::Managed, "/etc/hookd/guards/hooks/hooks.json", Some("/etc/hookd/guards"), None),
        (Tier::Shared, "/w/.claude/settings.json", None, None),
    ] {
        let rule = rule(tier, file, shell());
        let find = |name: &str| variable(&rule, &CallFacts::default(), name);
        let found = (find("CLAUDE_PLUGIN_ROOT"), find("CLAUDE_PLUGIN_DATA"));
        assert_eq!(found, (root.map(str::to_owned), data.map(str::to_owned)), "{file}");
    }
}

#[test]
fn case_058_placeholders_of_arguments_are_plain_text() {
    let argv = |words: &[&str]| Program::Argv(words.iter().map(|word| (*word).to_owned()).collect());
    let call = CallFacts { cwd: "/tmp/a b", ..CallFacts::default() };
    let fill = |words: &[&str]| {
        let rule = rule(Tier::Plugin, "/plugins/${CLAUDE_PROJECT_DIR}/hooks/hooks.json", argv(words));
        started(&rule, &call).map(|(argv, _)| argv)
    };
    let filled = fill(&[
        "${CLAUDE_PROJECT_DIR}/h.sh",
        "a${CLAUDE_PROJECT_DIR}b${CLAUDE_PROJECT_DIR}",
        "${CLAUDE_PLUGIN_ROOT}",
        "${HOME} $CLAUDE_PROJECT_DIR ${open",
        "",
    ]);
    assert_eq!(
        filled.unwrap(),
        [
            "/tmp/a b/h.sh",
            "a/tmp/a bb/tmp/a b",
            "/plugins/${CLAUDE_PROJECT_DIR}",
            "${HOME} $CLAUDE_PROJECT_DIR ${open",
            "",
        ]
    );
    for name in ["CLAUDE_PLUGIN_DATA", "user_config.token"] {
        let message = format!("`${{{name}}}` in the arguments stands for nothing here");
        assert_eq!(fill(&["node", &format!("${{{name}}}/x.js")]), Err(message));
    }
    let native = Rule { protocol: Protocol::Native, ..rule(Tier::Shared, "/r.json", argv(&["${CLAUDE_PROJECT_DIR}"])) };
    assert_eq!(started(&native, &call).unwrap().0, ["${CLAUDE_PROJECT_DIR}"], "hookd's own protocol has none");
}

#[test]
fn the_level_of_effort_comes_from_the_payload() {
    for (payload, expected) in [
        ("", None),
        (r#"{"effort":{"level":"xhigh"}}"#, Some("xhigh")),
        (r#"{"effort":"high"}"#, None),
        (r#"{"text":"\"effort\""}"#, None),
    ] {
        assert_eq!(effort(payload).as_deref(), expected, "{payload}");
    }
}
