use proptest::prelude::*;

use hookd_json::Value;

use super::*;
use crate::{Call, Claimed};

const CWD: &str = "/home/ann/project";

fn facts<'a>(tool: Option<&'a str>, params: &'a str, cwd: Option<&'a str>) -> Facts<'a> {
    Facts::new(Call {
        event: "PreToolUse",
        session_id: "s-1",
        tool,
        tool_kind: None,
        mcp_server: None,
        params,
        result: None,
        payload: None,
        cwd,
        timestamp_ms: 0,
        labels: &[],
        claimed: Claimed::default(),
    })
}

fn runs(rule: &str, tool: &str, params: &Value) -> bool {
    let params = params.to_string();
    PermissionRule::parse(rule).unwrap().runs(&facts(Some(tool), &params, Some(CWD)), None)
}

fn runs_bash(rule: &str, command: &str) -> bool {
    runs(rule, "Bash", &hookd_json::parse(&format!(r#"{{"command":{}}}"#, Value::from(command))).unwrap())
}

fn runs_path(rule: &str, tool: &str, path: &str, root: Option<&str>) -> bool {
    let key = if matches!(tool, "Grep" | "Glob") { "path" } else { "file_path" };
    let params = format!(r#"{{"{key}":{}}}"#, Value::from(path));
    PermissionRule::parse(rule).unwrap().runs(&facts(Some(tool), &params, Some(CWD)), root)
}

#[test]
fn shell_patterns_test_every_simple_command() {
    for (rule, command, expected) in [
        // The table of the contract.
        ("Bash(git *)", "FOO=bar git push", true),
        ("Bash(git *)", "npm test && git push", true),
        ("Bash(rm *)", "echo $(rm -rf /)", true),
        ("Bash(rm *)", "echo $(date)", false),
        ("Bash(cat *)", "echo before $(date) after", false),
        ("Bash(git *)", "$TOOL git push", true),
        ("Bash(git push *)", "echo $(date)", true),
        ("Bash(git push *)", "echo `date`", true),
        ("Bash(git push *)", "echo $HOME", true),
        ("Bash(git push *)", "echo '$HOME' \\`date\\`", false),
        ("Bash(rm *)", "{r..r}m x", true),
        ("Bash(git *push*main*)", "git push origin main x", true),
        ("Bash(git *push*main*)", "git checkout main push", false),
        // Separators and nesting.
        ("Bash(rm *)", "ls; rm x", true),
        ("Bash(rm *)", "ls || rm x", true),
        ("Bash(rm *)", "ls | rm x", true),
        ("Bash(rm *)", "ls |& rm x", true),
        ("Bash(rm *)", "ls & rm x", true),
        ("Bash(rm *)", "ls\nrm x", true),
        ("Bash(rm *)", "(cd /tmp && rm x)", true),
        ("Bash(rm *)", "{ rm x; }", true),
        ("Bash(rm *)", "for f in a b; do rm x; done", true),
        ("Bash(rm *)", "while true; do rm x; done", true),
        ("Bash(rm *)", "if true; then rm x; fi", true),
        ("Bash(rm *)", "case x in x) rm y;; esac", true),
        ("Bash(rm *)", "f() { rm x; }; f", true),
        ("Bash(rm *)", "diff <(rm x) y", true),
        ("Bash(rm *)", "echo \"`rm x`\"", true),
        ("Bash(rm *)", "cat > $(rm x)", true),
        ("Bash(rm *)", "! rm x", true),
        ("Bash(rm *)", "time rm x", true),
        ("Bash(rm *)", "A=$(rm x)", true),
        ("Bash(rm *)", "echo 'rm x; rm y' # rm z", false),
        ("Bash(rm *)", "cat <<'EOF'\nrm x\nEOF", false),
        ("Bash(rm *)", "cat <<EOF\n$(rm x)\nEOF", true),
        // Globs.
        ("Bash(ls *)", "ls", true),
        ("Bash(ls *)", "ls -la", true),
        ("Bash(ls *)", "lsof", false),
        ("Bash(ls*)", "lsof", true),
        ("Bash(ls:*)", "ls -la", true),
        ("Bash(ls:*)", "lsof", false),
        ("Bash(git:* push)", "git x push", false),
        ("Bash(npm run build)", "npm run build", true),
        ("Bash(npm run build)", "npm run build --watch", false),
        ("Bash(git * main)", "git push origin main", true),
        ("Bash(git * main)", "git log; echo main", false),
        ("Bash(* --version)", "node --version", true),
        ("Bash(* --help *)", "node --help all", true),
        ("Bash(* install)", "npm i && npm install", true),
        ("Bash", "anything at all", true),
        ("Bash(*)", "anything at all", true),
        ("Bash()", "anything at all", true),
        (r"Bash(echo \*)", "echo '*'", true),
        (r"Bash(echo \*)", "echo a", false),
        (r"Bash(echo \(a\))", "echo '(a)'", true),
        ("Bash(make && make test)", "make && make test", true),
        // Quotes and white space hide nothing, and a pattern may have them.
        ("Bash(rm *)", "'rm' -rf x", true),
        ("Bash(rm *)", "r\\m   -rf x", true),
        ("Bash(rm *)", "$'\\x72m' x", true),
        ("Bash(git commit -m \"a b\")", "git commit  -m \"a b\"", true),
        ("Bash(git commit -m a b)", "git commit -m \"a b\"", true),
        // Wrappers.
        ("Bash(npm test *)", "timeout 30 npm test", true),
        ("Bash(npm test *)", "timeout -k 5 --signal=KILL 30s npm test x", true),
        ("Bash(npm test *)", "timeout --preserve-status -- 30 npm test", true),
        ("Bash(timeout *)", "timeout 30 npm test", true),
        ("Bash(rm *)", "nice -n 10 rm x", true),
        ("Bash(rm *)", "nice -10 rm x", true),
        ("Bash(rm *)", "nohup nice rm x", true),
        ("Bash(rm *)", "stdbuf -o L rm x", true),
        ("Bash(rm *)", "stdbuf -oL rm x", true),
        ("Bash(rm *)", "command rm x", true),
        ("Bash(rm *)", "command -v rm x", false),
        ("Bash(rm *)", "builtin rm x", true),
        ("Bash(rm *)", "noglob rm x", true),
        ("Bash(grep *)", "ls | xargs grep a", true),
        ("Bash(grep *)", "ls | xargs -n1 grep a", false),
        ("Bash(rm *)", "sudo rm x", false),
        ("Bash(rm *)", "timeout 30", false),
        // What cannot be told runs.
        ("Bash(rm *)", "echo 'open", true),
        ("Bash(rm *)", "if true", true),
        ("Bash(rm *)", "{rm,-rf,x}", true),
        ("Bash(rm *)", "`which git` push", true),
        ("Bash(rm *)", "", false),
    ] {
        assert_eq!(runs_bash(rule, command), expected, "{rule} on {command:?}");
    }
    let long = format!("echo {}", "x".repeat(70_000));
    assert!(runs_bash("Bash(rm *)", &long));
    for params in ["{}", r#"{"command":1}"#, r#"{"command":"#] {
        let facts = facts(Some("Bash"), params, None);
        assert!(PermissionRule::parse("Bash(rm *)").unwrap().runs(&facts, None), "{params}");
    }
}

/// anthropics/claude-code 80140, 84925, 79675 and 62779: hooks for other commands ran on these.
#[test]
fn case_if_does_not_run_on_unrelated_substitutions_loops_and_braces() {
    for (rule, command) in [
        ("Bash(cat *)", "echo \"$(date +%Y)\" more"),
        ("Bash(cat *)", "echo `date`"),
        ("Bash(ls *)", "pwd && echo \"$(date +%Y)\""),
        ("Bash(git commit *)", "for name in a b c; do echo one; done"),
        ("Bash(git commit *)", "while read line; do echo one; done < list"),
        ("Bash(git push*)", "mkdir -p src/{one,two,three}"),
        ("Bash(git push *)", "echo {1..3} && { pwd; }"),
    ] {
        assert!(!runs_bash(rule, command), "{rule} on {command:?}");
    }
}

#[test]
fn paths_are_gitignore_patterns() {
    let root = Some("/home/ann/project");
    for (rule, path, expected) in [
        // Relative to the working directory.
        ("Edit(*.ts)", "/home/ann/project/a.ts", true),
        ("Edit(*.ts)", "/home/ann/project/deep/er/a.ts", true),
        ("Edit(*.ts)", "/home/ann/other/a.ts", false),
        ("Edit(*.ts)", "a.ts", true),
        ("Edit(*.ts)", "a.tsx", false),
        ("Edit(*.TS)", "a.ts", true),
        ("Edit(src/**)", "src/a.ts", true),
        ("Edit(src/**)", "vendor/pkg/src/lib.js", false),
        ("Edit(src/**)", "src", false),
        ("Edit(**/src/**)", "vendor/pkg/src/lib.js", true),
        ("Edit(**/src/**)", "src/app.ts", true),
        ("Edit(src)", "deep/src/a.ts", true),
        ("Edit(src/)", "deep/src/a.ts", true),
        ("Edit(src/)", "deep/src", false),
        ("Edit(./src/*.ts)", "src/a.ts", true),
        ("Edit(./src/*.ts)", "src/deep/a.ts", false),
        ("Edit(./.env)", ".env", true),
        ("Edit(./.env)", "sub/.env", true),
        ("Edit(docs/**/*.md)", "docs/a.md", true),
        ("Edit(docs/**/*.md)", "docs/a/b/c.md", true),
        ("Edit(docs/**/*.md)", "docs/a.mdx", false),
        ("Edit(a?c[0-9][!x])", "abc1y", true),
        ("Edit(a?c[0-9][!x])", "abc1x", false),
        ("Edit(a?c[0-9][!x])", "abcdy", false),
        (r"Edit(\[id\]/page.ts)", "[id]/page.ts", true),
        ("Edit(*.{ts,tsx})", "a.tsx", true),
        ("Edit(*.{ts,tsx})", "a.js", false),
        ("Edit({id}.ts)", "{id}.ts", true),
        ("Edit(.)", "a/b", true),
        ("Edit(../other/**)", "/home/ann/other/a", true),
        ("Edit(../other/**)", "/home/ann/project/other/a", false),
        // The path is worked out first.
        ("Edit(src/**)", "/home/ann/project/lib/../src/./a.ts", true),
        ("Edit(src/**)", "src/../lib/a.ts", false),
        // File systems may not tell letters apart, and then it is the same file.
        ("Edit(src/**)", "/home/Ann/PROJECT/Src/a.ts", true),
        // Relative to the settings, the root, a home.
        ("Edit(/src/**/*.ts)", "/home/ann/project/src/x/a.ts", true),
        ("Edit(/src/**/*.ts)", "/src/x/a.ts", false),
        ("Edit(/*.ts)", "/home/ann/project/a.ts", true),
        ("Edit(/*.ts)", "/home/ann/project/src/a.ts", false),
        ("Edit(//tmp/scratch.txt)", "/tmp/scratch.txt", true),
        ("Edit(//tmp/scratch.txt)", "/home/ann/project/tmp/scratch.txt", false),
        ("Edit(//**/.env)", "/anywhere/.env", true),
        ("Edit(~/.zshrc)", "/home/ann/.zshrc", true),
        ("Edit(~/.ssh/**)", "/home/ann/.ssh/id", true),
        ("Edit(~/.ssh/**)", "/home/ann/ssh/id", false),
        // Windows.
        ("Edit(//c/**/.env)", r"C:\Users\ann\.env", true),
        ("Edit(//c/**/.env)", r"D:\Users\ann\.env", false),
        // A home that is not known.
        ("Edit(src/**)", "~/a", true),
    ] {
        assert_eq!(runs_path(rule, "Edit", path, root), expected, "{rule} on {path}");
    }
}

#[test]
fn directories_that_nobody_named_are_any() {
    let rule = |rule: &str| PermissionRule::parse(rule).unwrap();
    for (text, path, expected) in [
        ("Edit(src/**)", "/any/where/src/a", true),
        ("Edit(src/**)", "/any/where/lib/a", false),
        ("Edit(src/**)", "src/a", true),
        ("Edit(/src/**)", "/any/where/src/a", true),
        ("Edit(/src/**)", "/any/where/lib/a", false),
    ] {
        let params = format!(r#"{{"file_path":"{path}"}}"#);
        assert_eq!(rule(text).runs(&facts(Some("Write"), &params, None), None), expected, "{text} on {path}");
    }
}

#[test]
fn searches_run_where_something_that_matches_may_lie() {
    for (rule, path, expected) in [
        ("Read(./secrets/**)", Some("/home/ann/project"), true),
        ("Read(./secrets/**)", Some("/home"), true),
        ("Read(./secrets/**)", Some("/HOME/ann"), true),
        ("Read(./secrets/**)", Some("secrets/deep"), true),
        ("Read(./secrets/**)", Some("src"), false),
        ("Read(./secrets/**)", None, true),
        ("Read(.env)", Some("src"), true),
        ("Read(.env)", Some("/etc"), false),
        ("Read(//etc/shadow)", None, false),
        ("Read(~/.ssh/**)", Some("/home"), true),
    ] {
        let params = path.map_or_else(|| "{}".to_owned(), |path| format!(r#"{{"path":"{path}"}}"#));
        let rule_ = PermissionRule::parse(rule).unwrap();
        assert_eq!(rule_.runs(&facts(Some("Grep"), &params, Some(CWD)), None), expected, "{rule} on {path:?}");
    }
}

#[test]
fn rules_are_for_their_tools() {
    for (rule, tool, params, expected) in [
        ("Edit(*.ts)", "Write", r#"{"file_path":"a.ts"}"#, true),
        ("Edit(*.ts)", "NotebookEdit", r#"{"notebook_path":"a.ts"}"#, true),
        ("Edit(*.ts)", "Read", r#"{"file_path":"a.ts"}"#, false),
        ("Edit(*.ts)", "Edit", "{}", true),
        ("Edit(*.ts)", "Edit", r#"{"file_path":["a.js"]}"#, true),
        ("Write(*.ts)", "Write", r#"{"file_path":"a.ts"}"#, true),
        ("Write(*.ts)", "Edit", r#"{"file_path":"a.ts"}"#, false),
        ("Read", "Grep", "{}", true),
        ("Bash(rm *)", "Monitor", r#"{"command":"rm x"}"#, true),
        ("Bash(rm *)", "bash", r#"{"command":"rm x"}"#, false),
        ("Bash(run_in_background:true)", "Bash", r#"{"command":"x","run_in_background":true}"#, true),
        ("Bash(run_in_background:true)", "Bash", r#"{"command":"x"}"#, false),
        ("Task", "Agent", "{}", true),
        ("Agent", "Task", "{}", true),
        ("Agent(Explore)", "Task", r#"{"subagent_type":"Explore"}"#, true),
        ("Agent(Explore)", "Agent", r#"{"subagent_type":"Explorer"}"#, false),
        ("Agent(model:opus)", "Agent", r#"{"model":"opus"}"#, true),
        ("Agent(model: op*)", "Agent", r#"{"model":"opus"}"#, true),
        ("Agent(model:*)", "Agent", "{}", false),
        ("Agent(plugin:reviewer)", "Agent", r#"{"subagent_type":"plugin:reviewer"}"#, true),
        ("Agent(Explore)", "Agent", "{}", true),
        ("Skill(plugin:deploy)", "Skill", r#"{"skill":"plugin:deploy"}"#, true),
        ("Read(limit:5)", "Read", r#"{"file_path":"a","limit":5}"#, true),
        ("Agent(isolation:*)", "Agent", r#"{"isolation":{"a":1}}"#, false),
        ("Skill(deploy *)", "Skill", r#"{"skill":"deploy"}"#, true),
        ("Skill(/deploy)", "Skill", r#"{"skill":"deploy"}"#, true),
        ("Skill(deploy *)", "Skill", r#"{"skill":"deploy","args":"prod"}"#, true),
        ("Skill(deploy *)", "Skill", r#"{"skill":"deployer"}"#, false),
        ("Skill(deploy *)", "Skill", r#"{"command":"/deploy prod"}"#, true),
        ("Skill(deploy *)", "Skill", "{}", true),
        ("mcp__puppeteer", "mcp__puppeteer__navigate", "{}", true),
        ("mcp__puppeteer", "mcp__puppeteer2__navigate", "{}", false),
        ("mcp__puppeteer__*", "mcp__puppeteer__navigate", "{}", true),
        ("mcp__puppeteer__navigate", "mcp__puppeteer__navigate", "{}", true),
        ("mcp__puppeteer__navigate", "mcp__puppeteer__navigate__x", "{}", false),
        ("mcp__github__get_*", "mcp__github__get_issue", "{}", true),
        ("mcp__*", "mcp__a__b", "{}", true),
        ("mcp__*", "Bash", "{}", false),
        ("*", "Bash", "{}", true),
        ("*(model:opus)", "Agent", r#"{"model":"opus"}"#, true),
        ("mcp__db__query(level:3)", "mcp__db__query", r#"{"level":3}"#, true),
        ("mcp__db__query(level:null)", "mcp__db__query", r#"{"level":null}"#, true),
        ("ExitPlanMode", "ExitPlanMode", "{}", true),
        ("PowerShell(Remove-Item *)", "PowerShell", r#"{"command":"ls; RM x"}"#, true),
        ("PowerShell(rm *)", "PowerShell", r#"{"command":"remove-item x"}"#, true),
        ("PowerShell(Remove-Item *)", "PowerShell", r#"{"command":"Get-ChildItem | select x"}"#, false),
        ("PowerShell(Remove-Item *)", "PowerShell", r#"{"command":"echo 'rm x; $(rm y)'"}"#, false),
        ("PowerShell(Remove-Item *)", "PowerShell", r#"{"command":"& { ls }"}"#, true),
        ("PowerShell(Remove-Item *)", "PowerShell", r#"{"command":"ls & rm x"}"#, true),
        ("PowerShell(Remove-Item *)", "PowerShell", r#"{"command":"echo \"open"}"#, true),
    ] {
        assert_eq!(runs(rule, tool, &hookd_json::parse(params).unwrap()), expected, "{rule} on {tool} {params}");
    }
    assert!(!PermissionRule::parse("Bash").unwrap().runs(&facts(None, "{}", None), None));
}

#[test]
fn hosts_are_compared_as_hosts() {
    for (rule, url, expected) in [
        ("WebFetch(domain:example.com)", "https://Example.com./x", true),
        ("WebFetch(domain:Example.com.)", "https://example.com:8443/x", true),
        ("WebFetch(domain:example.com)", "https://api.example.com/", false),
        ("WebFetch(domain:example.com)", "https://evil.org/example.com", false),
        ("WebFetch(domain:*.example.com)", "https://a.b.example.com/", true),
        ("WebFetch(domain:*.example.com)", "https://example.com/", false),
        ("WebFetch(domain:example.*)", "https://example.org/", true),
        ("WebFetch(domain:example.*)", "https://example.evil.com/", false),
        ("WebFetch(domain:*)", "https://any.where/", true),
        ("WebFetch(domain:example.com)", "not a url", true),
        ("WebFetch(prompt:*secret*)", "https://any.where/", false),
    ] {
        let params = hookd_json::parse(&format!(r#"{{"url":"{url}"}}"#)).unwrap();
        assert_eq!(runs(rule, "WebFetch", &params), expected, "{rule} on {url}");
    }
}

#[test]
fn what_has_no_known_form_is_refused_by_name() {
    let refused = |rule: &str| PermissionRule::parse(rule).unwrap_err().to_string();
    let one = "write `Tool` or `Tool(specifier)`";
    for (rule, why) in [
        ("", format!("`` is not the name of a tool, {one}")),
        ("Stop Task", format!("`Stop Task` is not the name of a tool, {one}")),
        ("(git *)", format!("`` is not the name of a tool, {one}")),
        ("Bash && Edit", format!("`Bash && Edit` is not the name of a tool, {one}")),
        ("Bash(git *", "it does not end with the `)` of its `(`".to_owned()),
        ("Bash(git *) x", "it does not end with the `)` of its `(`".to_owned()),
        ("Bash(git *) || Bash(npm *)", "it holds more than one rule, give each a hook of its own".to_owned()),
        ("Edit(*.ts), Write(*.ts)", "it holds more than one rule, give each a hook of its own".to_owned()),
        ("Edit(!*.ts)", "a pattern that begins with `!` names no file".to_owned()),
        ("Edit([a)", "its `[` is not closed".to_owned()),
        (
            "WebFetch(https://example.com)",
            "a rule for `WebFetch` names a host: `WebFetch(domain:example.com)`".to_owned(),
        ),
        ("WebFetch(example.com)", "a rule for `WebFetch` names a host: `WebFetch(domain:example.com)`".to_owned()),
        ("WebFetch(domain:)", "`` is no host, such as `example.com` or `*.example.com`".to_owned()),
        ("WebFetch(domain:a/b)", "`a/b` is no host, such as `example.com` or `*.example.com`".to_owned()),
        (
            "WebSearch(news)",
            "`WebSearch` takes no specifier but a parameter and its value: `WebSearch(param:value)`".to_owned(),
        ),
        (
            "Bash(command:rm *)",
            "`command` is what the tool's own form tests, such as `Bash(rm *)`, `Read(./path)` or `WebFetch(domain:host)`"
                .to_owned(),
        ),
    ] {
        assert_eq!(refused(rule), format!("the permission rule `{rule}` is refused: {why}"));
    }
    assert_eq!(PermissionRule::parse("  Bash(ls *) ").unwrap().as_str(), "Bash(ls *)");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// No text is a panic, as a rule or as what a rule is asked about.
    #[test]
    fn nothing_panics(rule in r"(Bash|Edit|WebFetch|PowerShell|Agent|mcp__a)(\([ -~é]{0,12}\))?", text in r"[ -~\né]{0,24}") {
        if let Ok(rule) = PermissionRule::parse(&rule) {
            let text = Value::from(text);
            let params = format!(r#"{{"command":{text},"file_path":{text},"url":{text}}}"#);
            for tool in ["Bash", "Edit", "WebFetch", "PowerShell", "Agent", "mcp__a__b"] {
                let _ = rule.runs(&facts(Some(tool), &params, Some("/a")), Some("/b"));
            }
        }
    }

    /// Words that are quoted or not, alone or between other commands: a command is found by its name.
    #[test]
    fn a_command_is_found_wherever_it_stands(
        before in prop::sample::select(vec!["", "ls; ", "ls && ", "cat a | ", "A=1 ", "timeout 3 ", "( ", "! "]),
        quote in prop::sample::select(vec!["", "'", "\""]),
        argument in "[a-z]{0,4}",
    ) {
        let after = if before == "( " { " )" } else { "" };
        let command = format!("{before}{quote}rm{quote} {argument}{after}");
        prop_assert!(runs_bash("Bash(rm *)", &command), "{}", command);
        let more = format!("Bash(rm {argument}*)");
        prop_assert!(runs_bash(&more, &command), "{} on {}", more, command);
        prop_assert!(!runs_bash("Bash(mv *)", &command), "{}", command);
    }

    /// A `*` matches what it was cut out of.
    #[test]
    fn wildcards_match_what_they_stand_for(parts in prop::collection::vec("[a-c ]{0,3}", 1..5), cut in "[a-d ]{0,3}") {
        let text = parts.join(&cut);
        prop_assert!(Wildcard::new(&parts.join("*")).matches(&text));
        prop_assert!(Wildcard::new(&text).matches(&text));
    }

    /// Without wildcards a path pattern is the path itself and all below it.
    #[test]
    fn plain_paths_match_themselves_and_what_is_below(names in prop::collection::vec("[a-z.]{1,4}x", 1..4), below in "[a-z]{1,3}") {
        let path = names.join("/");
        let rule = format!("Edit(//{path})");
        for (path, expected) in [
            (format!("/{path}"), true),
            (format!("/{path}/{below}"), true),
            (format!("/{path}{below}"), false),
            (format!("/up/{path}"), false),
        ] {
            prop_assert_eq!(runs_path(&rule, "Edit", &path, None), expected, "{} on {}", &rule, path);
        }
    }
}
