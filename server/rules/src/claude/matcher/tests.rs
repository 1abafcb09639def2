use super::*;

#[track_caller]
fn matcher(event: &str, text: &str) -> Matcher {
    read(text, event, Event::known(event).unwrap_or(Event::unknown(true)), &mut Patterns::default()).unwrap()
}

#[track_caller]
fn check(event: &str, text: &str, hits: &[&str], misses: &[&str]) {
    let matcher = matcher(event, text);
    for (subjects, expected) in [(hits, true), (misses, false)] {
        for subject in subjects {
            assert_eq!(matcher.matches(Some(subject)), expected, "{event}: {text:?} on {subject:?}");
        }
    }
    assert!(matcher.matches(None), "a call without its subject matches");
    assert_eq!(matcher.as_str(), if matches!(matcher, Matcher::Any) { "" } else { text }, "as it was written");
}

#[test]
fn case_043_a_star_an_empty_text_and_none_match_everything() {
    for text in ["", "*"] {
        check("PreToolUse", text, &["Bash", "mcp__a__b", "x y"], &[]);
    }
}

#[test]
fn case_045_lists_are_names_and_all_else_is_searched() {
    check("PreToolUse", "Writ", &[], &["Write"]);
    check("PreToolUse", "rit", &[], &["Write"]);
    check("PreToolUse", "rit.", &["Write"], &[]);
    check("PreToolUse", "W(rit)e", &["Write"], &[]);
    check("PreToolUse", "mcp__[^_]+__[^_]+", &["mcp__git__log"], &["mcp__some_server__list"]);
}

#[test]
fn case_046_a_name_with_a_hyphen_is_a_name() {
    check("SubagentStop", "code-reviewer", &["code-reviewer"], &["senior-code-reviewer"]);
}

#[test]
fn case_047_patterns_are_no_substrings() {
    check("PreToolUse", "^Bash$", &["Bash"], &["BashOutput"]);
    check("PreToolUse", "mcp__.*", &["mcp__github__push"], &["Bash"]);
}

#[test]
fn case_049_former_names_of_a_tool_match_it() {
    check("PreToolUse", "Task", &["Task", "Agent"], &["TaskCreate"]);
    check("PreToolUse", "Agent|Bash", &["Task", "Agent", "Bash"], &["TaskStop"]);
    check("PreToolUse", "KillBash", &["TaskStop", "KillShell", "KillBash"], &["Bash"]);
    check("PreToolUse", "^Task$", &["Agent"], &["TaskStop"]);
    check("PreToolUse", "^Kill.*", &["TaskStop"], &["Agent"]);
    check("PreToolUse", "Tas.", &["Agent", "TaskGet"], &["Bash"]);
    // Tools of Codex.
    check("PreToolUse", "Edit|Write", &["apply_patch"], &["spawn_agent"]);
    check("PreToolUse", "Edi.", &["apply_patch"], &["Write"]);
    check("PreToolUse", "apply_patch", &["apply_patch"], &["Edit"]);
    check("PreToolUse", "Task", &["spawn_agent"], &[]);
    // Other subjects are no tools.
    check("SubagentStop", "Task", &["Task"], &["Agent"]);
    check("SubagentStop", "^Task$", &["Task"], &["Agent"]);
}

#[test]
fn case_050_names_of_other_agents_are_not_guessed() {
    check("PreToolUse", "^mcp__.*__get_node_types$", &["mcp__n8n__get_node_types"], &["_get_node_types"]);
}

#[test]
fn case_051_a_matcher_is_never_dropped() {
    check("PreToolUse", "Read", &["Read"], &["Edit", "NotebookRead"]);
}

#[test]
fn case_053_look_around_is_refused() {
    let event = Event::known("PreToolUse").unwrap();
    for text in ["^(?!Read$).*", "(?<=a)b", r"(a)\1"] {
        let error = read(text, "PreToolUse", event, &mut Patterns::default()).unwrap_err();
        assert!(error.ends_with("not supported"), "{error}");
    }
}

#[test]
fn lists_of_names_do_not_match_longer_names() {
    check("PreToolUse", "Write|Edit", &["Write", "Edit"], &["NotebookEdit", "MultiEdit", "TodoWrite", "write"]);
    check("PostToolUse", "Write,Edit, MultiEdit", &["Write", "Edit", "MultiEdit"], &["Write,Edit"]);
    check("PostToolUse", " Bash | Read ", &["Bash", "Read"], &[" Bash "]);
    check("PostToolUse", "Bash|", &["Bash"], &["", "Read"]);
    check("PostToolUse", "|", &[], &["", "Read"]);
    check("PostToolUse", "Bash|Edit|mcp__.*", &["NotebookEdit", "BashOutput", "mcp__a__b"], &["Read"]);
    check("PostToolUse", "Bücher|x", &["Bücherei", "ax"], &["Buch"]);
    check("PreDeploy", "Bash", &["Bash"], &["BashOutput"]);
}

#[test]
fn two_events_have_the_narrow_set() {
    check("StopFailure", "rate_limit|unknown", &["rate_limit", "unknown"], &["rate_limits"]);
    check("StopFailure", "rate_limit,unknown", &[], &["rate_limit", "unknown"]);
    check("StopFailure", "a-b", &["xa-bx"], &["a", "b"]);
    check("FileChanged", ".envrc|.env", &[".envrc", ".env.local", "xenv"], &["env"]);
    check("FileChanged", "Makefile|justfile", &["Makefile"], &["Makefile.am"]);
}

#[test]
fn matchers_on_events_without_a_subject_are_ignored() {
    for text in ["Stop", "(?!x)", "["] {
        check("Stop", text, &["anything"], &[]);
        check("UserPromptSubmit", text, &["anything"], &[]);
    }
}

#[test]
fn matchers_that_match_no_tool_are_told() {
    for (text, told) in [
        ("mcp__github", Some("`mcp__github` is a whole name and matches no tool, a server's are `mcp__github__.*`")),
        (
            "Bash|mcp__my-server",
            Some("`mcp__my-server` is a whole name and matches no tool, a server's are `mcp__my-server__.*`"),
        ),
        ("Bash AND Edit", Some("`Bash AND Edit` is a whole name and matches no tool")),
        (",", Some("`,` names no tool")),
        (
            "tools:Bash AND command:rm*",
            Some("`tools:Bash AND command:rm*` matches no tool: no tool has a space in its name"),
        ),
        (
            "Skill(plan-and-analyze.*)",
            Some(
                "`Skill(plan-and-analyze.*)` is read as a pattern and matches no tool, a permission rule goes into `if`",
            ),
        ),
        ("Bash(git)", Some("`Bash(git)` is read as a pattern and matches no tool, a permission rule goes into `if`")),
        ("mcp__github__push", None),
        ("mcp__github__.*", None),
        ("mcp__*", None),
        ("Task(Create|Update)", None),
        ("Notebook(Edit|Read)", None),
        ("mcp__plugin_x_y__(edit|read)", None),
        ("SomethingOfTomorrow", None),
        ("a b|Bash.*", None),
        ("*", None),
    ] {
        assert_eq!(dead(text, &matcher("PreToolUse", text)).as_deref(), told, "{text}");
    }
}

#[test]
fn the_same_text_is_compiled_once_and_means_another_thing_than_in_the_native_form() {
    let mut patterns = Patterns::default();
    let event = Event::known("PreToolUse").unwrap();
    let mut same = || match read("mcp__.*", "PreToolUse", event, &mut patterns).unwrap() {
        Matcher::Pattern(pattern) => pattern,
        other => panic!("{other:?}"),
    };
    assert!(Arc::ptr_eq(&same(), &same()));
    let native = patterns.matcher("Write|Edit").unwrap();
    let list = read("Write|Edit", "PreToolUse", event, &mut patterns).unwrap();
    assert!(native.matches(Some("NotebookEdit")) && !list.matches(Some("NotebookEdit")));
    assert_eq!((native.meaning().as_str(), list.meaning().as_str()), ("Write|Edit", "claude-code:Write|Edit"));
}

#[test]
fn a_native_pattern_matches_what_the_matcher_does() {
    let mut patterns = Patterns::default();
    let subjects = ["NotebookEdit", "mcp__git__log", "a.b", "spawn_agent", "apply_patch", "x y", ""];
    for event in ["PreToolUse", "SubagentStop", "FileChanged"] {
        for text in [
            "",
            "*",
            "Write|Edit",
            "Task",
            "Tas.",
            "^Kill.*",
            "Edi.",
            "^Task",
            "mcp__*",
            "a.b|c-d",
            ".*",
            " , |",
            r"\d\w",
        ] {
            let matcher = matcher(event, text);
            let native = patterns.matcher(&matcher.to_native()).unwrap();
            for subject in tools::known().chain(subjects) {
                let expected = matcher.matches(Some(subject));
                assert_eq!(
                    native.matches(Some(subject)),
                    expected,
                    "{event}: {text:?} {} on {subject}",
                    native.as_str()
                );
            }
        }
    }
    assert_eq!(matcher("PreToolUse", "Write|Bash").to_native(), "^(Write|apply_patch|Bash)$");
}
