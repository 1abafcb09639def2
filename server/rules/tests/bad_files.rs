//! What is wrong with a rule file is said with line, column, key, the value seen and what would be right.

use hookd_rules::{Format, parse_rules};
use proptest::prelude::*;

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    let problems = parse_rules(text, Format::Json).iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(problems, expected, "{text}");
}

/// A file of one rule with these keys besides event and handler.
#[track_caller]
fn check_rule(keys: &str, expected: &[&str]) {
    check(
        &format!(
            "{{\"hooks\": [{{\"event\": \"PreToolUse\", \"handler\": {{\"type\": \"command\", \"argv\": [\"true\"]}},\n{keys}}}]}}"
        ),
        expected,
    );
}

/// A file of one rule for `event` with this handler.
#[track_caller]
fn check_handler(event: &str, handler: &str, expected: &[&str]) {
    check(&format!("{{\"hooks\": [{{\"event\": \"{event}\", \"handler\":\n{handler}}}]}}"), expected);
}

#[test]
fn case_062_a_syntax_error_is_refused_with_its_place() {
    check("asd{\"hooks\":{}}", &["/rules:1:1: not valid JSON: expected value"]);
    check("{\"hooks\": [}", &["/rules:1:12: not valid JSON: expected value"]);
    check("{\"hooks\": [],\n \"hooks\": []}", &["/rules:2:10: not valid JSON: duplicate key `hooks`"]);
    let yaml = parse_rules("hooks:\n  - event: [Stop\n", Format::Yaml);
    assert_eq!(
        yaml.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["/rules:2:12: not valid YAML: unclosed bracket '['"]
    );
}

#[test]
fn the_top_of_a_file() {
    check("[]", &["/rules:1:1: a rule file must be an object, not an empty array"]);
    check("{\"hook\": []}", &["/rules:1:2: hook: unknown key `hook`, did you mean `hooks`"]);
    check("{\"hooks\": 5}", &["/rules:1:11: hooks: must be a list, not the number 5"]);
    check("{\"defaults\": {}}", &["/rules:1:14: defaults: must be a list, not an object"]);
    check(
        "{\"mode\": \"shadw\"}",
        &["/rules:1:10: mode: must be `enforce` or `shadow`, not the string \"shadw\", did you mean `shadow`"],
    );
    check("", &["/rules:1:1: the file is empty, one without rules is `{}`"]);
    check("{\"$schema\": \"rules.schema.json\", \"description\": \"d\", \"metadata\": [1], \"mode\": \"shadow\"}", &[]);
}

#[test]
fn every_error_of_a_file_is_found() {
    check(
        "{\"hooks\": [\n 1,\n {},\n {\"event\": \"PreToolUse\", \"handler\": {}, \"whem\": \"x\"},\n {\"event\": 1, \"handler\": {\"type\": \"http\"}},\n {\"event\": [], \"onVerdict\": [], \"async\": true, \"handler\": {\"type\": \"command\", \"command\": \"x\"}}\n]}",
        &[
            "/rules:2:2: hooks[0]: a rule must be an object, not the number 1",
            "/rules:3:2: hooks[1]: a rule needs the key `event`",
            "/rules:3:2: hooks[1]: a rule needs the key `handler`",
            "/rules:4:37: hooks[2].handler: a handler needs the key `type`: `command`, `http` or `decide`",
            "/rules:4:41: hooks[2].whem: unknown key `whem`, did you mean `when`",
            "/rules:5:12: hooks[3].event: must be a string or a list of at least one string, not the number 1",
            "/rules:5:26: hooks[3].handler: an http handler needs the key `url`",
            "/rules:6:12: hooks[4].event: must be a string or a list of at least one string, not an empty array",
            "/rules:6:29: hooks[4].onVerdict: must be a list of at least one word, not an empty array",
        ],
    );
}

#[test]
fn what_this_version_does_not_build_is_refused_by_name() {
    for kind in ["prompt", "agent", "grpc"] {
        check_handler(
            "Stop",
            &format!("{{\"type\": \"{kind}\", \"prompt\": \"x\"}}"),
            &[&format!(
                "/rules:2:10: hooks[0].handler.type: handlers of type `{kind}` are not supported by this version of hookd"
            )],
        );
    }
}

#[test]
fn what_a_handler_speaks_and_where_it_runs() {
    let forged = "the caller could forge what this rule gives: it never allows or rewrites";
    let at = |key: &str, column: usize, message: &str| vec![format!("/rules:2:{column}: hooks[0].{key}: {message}")];
    // A rule that cannot run there is also one whose answer the caller could forge.
    let never = |message: &str| [at("runOn", 10, message), at("runOn", 10, forged)].concat();
    let command = "{\"type\": \"command\", \"argv\": [\"x\"]}";
    let worker = "{\"type\": \"command\", \"argv\": [\"x\"], \"worker\": {}}";
    let http = "{\"type\": \"http\", \"url\": \"http://a/\"}";
    let decide = "{\"type\": \"decide\", \"verdict\": \"ask\"}";
    for (handler, key, value, problems) in [
        (command, "protocol", "native", vec![]),
        (command, "protocol", "claude-code", vec![]),
        (http, "protocol", "claude-code", vec![]),
        (worker, "protocol", "native", vec![]),
        (
            worker,
            "protocol",
            "claude-code",
            at("protocol", 13, "a worker reads and writes hookd's own form, `worker` goes with `native` alone"),
        ),
        (
            decide,
            "protocol",
            "claude-code",
            at("protocol", 13, "a `decide` handler answers in process and has no protocol"),
        ),
        (
            command,
            "protocol",
            "claude",
            at("protocol", 13, "must be `native` or `claude-code`, not the string \"claude\""),
        ),
        (command, "runOn", "server", vec![]),
        (http, "runOn", "server", vec![]),
        (command, "runOn", "agent", at("runOn", 10, forged)),
        (
            command,
            "runOn",
            "agents",
            at("runOn", 10, "must be `server` or `agent`, not the string \"agents\", did you mean `agent`"),
        ),
        (http, "runOn", "agent", never("only commands run on the agent's side, not `http` handlers")),
        (decide, "runOn", "agent", never("only commands run on the agent's side, not `decide` handlers")),
        (
            worker,
            "runOn",
            "agent",
            never("a worker is kept on the server, on the agent's side each call starts a program"),
        ),
    ] {
        let text =
            format!("{{\"hooks\": [{{\"event\": \"PreToolUse\", \"handler\": {handler},\n\"{key}\": \"{value}\"}}]}}");
        check(&text, &problems.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let last = at("final", 28, "`final` has no effect on a central rule that runs on the agent's side");
    let problems = [at("runOn", 10, forged), last].concat();
    check(
        &format!(
            "{{\"hooks\": [{{\"event\": \"PreToolUse\", \"handler\": {command},\n\"runOn\": \"agent\", \"final\": true}}]}}"
        ),
        &problems.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    check_handler(
        "Stop",
        "{\"type\": \"http\", \"url\": \"http://a/\", \"protocol\": \"native\"}",
        &[
            "/rules:2:38: hooks[0].handler.protocol: unknown key `protocol`, an http handler has `type`, `url`, `headers`, `timeout`",
        ],
    );
}

#[test]
fn what_a_command_may_reach() {
    for good in [
        "{}",
        "{\"read\": \"a\"}",
        "{\"read\": [\"/a\", \"b\"], \"write\": [\"c\"], \"connect\": [1, 65535], \"bind\": [0]}",
    ] {
        check_handler("Stop", &format!("{{\"type\": \"command\", \"argv\": [\"x\"], \"allow\": {good}}}"), &[]);
    }
    for (allow, problem) in [
        ("[]", "allow: an allow list must be an object, not an empty array"),
        ("{\"reads\": \"a\"}", "allow.reads: unknown key `reads`, did you mean `read`"),
        ("{\"read\": []}", "allow.read: must be a string or a list of at least one string, not an empty array"),
        (
            "{\"connect\": []}",
            "allow.connect: must be a list of at least one whole number from 1 to 65535, not an empty array",
        ),
        ("{\"write\": [\"\"]}", "allow.write[0]: must be a string that is not empty, not the string \"\""),
        ("{\"write\": [\"a\\u0000\"]}", "allow: must not hold a NUL character"),
        ("{\"connect\": [0]}", "allow.connect[0]: must be a whole number from 1 to 65535, not the number 0"),
        (
            "{\"connect\": 1}",
            "allow.connect: must be a list of at least one whole number from 1 to 65535, not the number 1",
        ),
        ("{\"bind\": [65536]}", "allow.bind[0]: must be a whole number from 0 to 65535, not the number 65536"),
    ] {
        let text = format!(
            "{{\"hooks\": [{{\"event\": \"Stop\", \"handler\": {{\"type\": \"command\", \"command\": \"x\", \"allow\": {allow}}}}}]}}"
        );
        let problems = parse_rules(&text, Format::Json).iter().map(ToString::to_string).collect::<Vec<_>>();
        let [only] = &problems[..] else { panic!("{allow}: {problems:?}") };
        assert_eq!(only.split_once(": hooks[0].handler.").unwrap().1, problem);
    }
    let on_the_agents_side = "{\"hooks\": [{\"event\": \"Stop\", \"runOn\": \"agent\", \"handler\": {\"type\": \"command\", \"command\": \"x\",\n\"allow\": {}}}]}";
    let problems = parse_rules(on_the_agents_side, Format::Json).iter().map(ToString::to_string).collect::<Vec<_>>();
    let refused = "/rules:2:10: hooks[0].handler.allow: what runs on the agent's side is not held in by the server";
    assert!(problems.iter().any(|problem| problem == refused), "{problems:?}");
}

#[test]
fn how_workers_are_kept() {
    for good in ["{}", "{\"pool\": 1}", "{\"pool\": 16, \"maxCalls\": 1}", "{\"maxCalls\": 1000000000}"] {
        check_handler("Stop", &format!("{{\"type\": \"command\", \"argv\": [\"x\"], \"worker\": {good}}}"), &[]);
    }
    for (worker, problem) in [
        ("true", "worker: a worker must be an object, not true"),
        ("{\"pool\": 0}", "worker.pool: must be a whole number from 1 to 16, not the number 0"),
        ("{\"pool\": 17}", "worker.pool: must be a whole number from 1 to 16, not the number 17"),
        ("{\"pool\": 1.5}", "worker.pool: must be a whole number from 1 to 16, not the number 1.5"),
        ("{\"pool\": \"2\"}", "worker.pool: must be a whole number from 1 to 16, not the string \"2\""),
        ("{\"maxCalls\": 0}", "worker.maxCalls: must be a whole number from 1 to 1000000000, not the number 0"),
        ("{\"maxcalls\": 1}", "worker.maxcalls: unknown key `maxcalls`, did you mean `maxCalls`"),
    ] {
        let problems = parse_rules(
            &format!(
                "{{\"hooks\": [{{\"event\": \"Stop\", \"handler\": {{\"type\": \"command\", \"command\": \"x\", \"worker\": {worker}}}}}]}}"
            ),
            Format::Json,
        );
        let problems = problems.iter().map(ToString::to_string).collect::<Vec<_>>();
        let [only] = &problems[..] else { panic!("{worker}: {problems:?}") };
        assert_eq!(only.split_once(": hooks[0].handler.").unwrap().1, problem);
    }
    check_handler(
        "Stop",
        "{\"type\": \"http\", \"url\": \"http://a/\", \"worker\": {}}",
        &[
            "/rules:2:38: hooks[0].handler.worker: unknown key `worker`, an http handler has `type`, `url`, `headers`, `timeout`",
        ],
    );
}

#[test]
fn a_condition_that_cannot_be_used_refuses_its_rule() {
    check_rule(
        "\"when\": \"\"",
        &["/rules:2:9: hooks[0].when: must be a string that is not empty, not the string \"\""],
    );
    check_rule(
        "\"when\": \"tol == 'Bash'\"",
        &[
            "/rules:2:9: hooks[0].when: unknown variable `tol`, did you mean `tool` at line 1 column 1 of the expression",
        ],
    );
}

#[test]
fn an_expression_that_cannot_be_used_is_named_where_it_stands() {
    check_handler(
        "PreToolUse",
        "{\"type\": \"decide\", \"modifiedParams\": {\"a\": [{\"expr\": \"parms.a\"}], \"b\": {\"expr\": 1}}}",
        &[
            "/rules:2:54: hooks[0].handler.modifiedParams.a[0].expr: unknown variable `parms`, did you mean `params` at line 1 column 1 of the expression",
        ],
    );
}

#[test]
fn a_concurrent_rule_may_not_rewrite() {
    check(
        "{\"hooks\": [{\"event\": \"PreToolUse\", \"concurrent\": true, \"handler\": {\"type\": \"decide\", \"modifiedParams\": {}}}]}",
        &["/rules:1:50: hooks[0].concurrent: this `decide` handler rewrites, which a concurrent rule may not"],
    );
}

#[test]
fn the_keys_of_a_rule() {
    check_rule("\"async\": \"yes\"", &["/rules:2:10: hooks[0].async: must be true or false, not the string \"yes\""]);
    check_rule("\"matcher\": null", &["/rules:2:12: hooks[0].matcher: must be a string, not null"]);
    check_rule(
        "\"matcher\": {\"toolName\": \"bash\"}",
        &["/rules:2:12: hooks[0].matcher: must be a string, not an object"],
    );
    check_rule("\"id\": \"\"", &["/rules:2:7: hooks[0].id: must be a string that is not empty, not the string \"\""]);
    check_rule(
        "\"onError\": \"deny\"",
        &["/rules:2:12: hooks[0].onError: must be `allow` or `block`, not the string \"deny\""],
    );
    check_rule("\"onVerdict\": [\"block\"]", &["/rules:2:14: hooks[0].onVerdict: `onVerdict` needs `async: true`"]);
    check_rule(
        "\"async\": true, \"onVerdict\": [\"block\", \"blok\", \"block\"]",
        &[
            "/rules:2:10: hooks[0].async: an async rule never decides, so it cannot block `PreToolUse`",
            "/rules:2:39: hooks[0].onVerdict[1]: must be `none` or `allow` or `ask` or `defer` or `block`, not the string \"blok\", did you mean `block`",
            "/rules:2:47: hooks[0].onVerdict[2]: `block` stands here twice",
        ],
    );
}

#[test]
fn case_053_a_pattern_that_cannot_be_compiled_names_event_place_and_pattern() {
    check_rule(
        "\"matcher\": \"^(?!Read$).*\"",
        &[
            "/rules:2:12: hooks[0].matcher: the pattern `^(?!Read$).*` for `PreToolUse`: look-around, including look-ahead and look-behind, is not supported",
        ],
    );
    check_rule(
        "\"matcher\": \"(a)\\\\1\"",
        &["/rules:2:12: hooks[0].matcher: the pattern `(a)\\1` for `PreToolUse`: backreferences are not supported"],
    );
    check_rule(
        "\"matcher\": \"(a{1000}){1000}\"",
        &[
            "/rules:2:12: hooks[0].matcher: the pattern `(a{1000}){1000}` for `PreToolUse`: it takes more than 1048576 bytes when compiled",
        ],
    );
}

#[test]
fn case_097_a_broken_pattern_is_an_error_and_not_a_pass() {
    check_rule(
        "\"matcher\": \"(\"",
        &["/rules:2:12: hooks[0].matcher: the pattern `(` for `PreToolUse`: unclosed group"],
    );
    let nan = "hooks:\n  - event: Stop\n    handler: {type: http, url: 'http://a/', timeout: .NaN}\n";
    let problems = parse_rules(nan, Format::Yaml).iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(
        problems,
        [
            "/rules:3:54: hooks[0].handler.timeout: must be a whole number of milliseconds from 1 to 86400000, not the number .NaN"
        ]
    );
}

#[test]
fn case_094_times_in_a_wrong_shape_are_refused_or_cut() {
    let right = "must be a whole number of milliseconds from 1 to 86400000";
    for (value, seen) in [
        ("18446744073709551615", "the number 18446744073709551615"),
        ("1e308", "the number 1e308"),
        ("-1", "the number -1"),
        ("0", "the number 0"),
        ("1.5", "the number 1.5"),
        ("\"5\"", "the string \"5\""),
        ("null", "null"),
        ("[5]", "an array"),
    ] {
        check_handler(
            "Stop",
            &format!("{{\"type\": \"command\", \"command\": \"x\", \"timeout\": {value}}}"),
            &[&format!("/rules:2:48: hooks[0].handler.timeout: {right}, not {seen}")],
        );
    }
    check_handler(
        "Stop",
        "{\"type\": \"command\", \"command\": \"x\", \"timeout\": 60001}",
        &["/rules:2:48: hooks[0].handler.timeout: 60001 ms is over `limits.max_handler_timeout`, 60000 ms count"],
    );
    check_handler("Stop", "{\"type\": \"command\", \"command\": \"x\", \"timeout\": 60000}", &[]);
}

#[test]
fn law_11_events_that_cannot_be_meant_are_refused() {
    let event =
        |name: &str, expected: &[&str]| check_handler(name, "{\"type\": \"decide\", \"verdict\": \"ask\"}", expected);
    event(
        "pre_tool_use",
        &["/rules:1:22: hooks[0].event: event `pre_tool_use` is not known, did you mean `PreToolUse`"],
    );
    event(
        "PreToolUsed",
        &[
            "/rules:1:22: hooks[0].event: event `PreToolUsed` is not known, did you mean `PreToolUse`; an event of your own needs `customEvent: true`",
        ],
    );
    event(
        "Deploy",
        &["/rules:1:22: hooks[0].event: event `Deploy` is not known; an event of your own needs `customEvent: true`"],
    );
    event(
        "a\\nb",
        &[
            "/rules:1:22: hooks[0].event: event \"a\\nb\" is not a name of 1 to 128 characters without control characters",
        ],
    );
    let custom = |name: &str| {
        format!(
            "{{\"hooks\": [{{\"event\": \"{name}\", \"customEvent\": true, \"handler\": {{\"type\": \"decide\", \"verdict\": \"ask\"}}}}]}}"
        )
    };
    check(&custom("Deploy"), &[]);
    check(&custom("STOP"), &["/rules:1:22: hooks[0].event: event `STOP` is not known, did you mean `Stop`"]);
}

#[test]
fn command_handlers() {
    let command =
        |keys: &str, expected: &[&str]| check_handler("Stop", &format!("{{\"type\": \"command\"{keys}}}"), expected);
    command("", &["/rules:2:1: hooks[0].handler: a command handler needs either `command` or `argv`"]);
    command(
        ", \"command\": \"x\", \"argv\": [\"x\"]",
        &["/rules:2:45: hooks[0].handler.argv: a command handler has either `command` or `argv`, not both"],
    );
    command(
        ", \"argv\": [\"x\"], \"shell\": \"sh\"",
        &["/rules:2:45: hooks[0].handler.shell: `shell` goes with `command`, `argv` runs without a shell"],
    );
    command(
        ", \"command\": \"x\", \"shell\": \"zsh\"",
        &["/rules:2:46: hooks[0].handler.shell: must be `sh` or `bash`, not the string \"zsh\", did you mean `sh`"],
    );
    command(
        ", \"argv\": []",
        &["/rules:2:29: hooks[0].handler.argv: must be a list of at least one string, not an empty array"],
    );
    command(", \"argv\": [\"\"]", &["/rules:2:29: hooks[0].handler.argv: the program must not be empty"]);
    command(
        ", \"command\": \" \"",
        &["/rules:2:32: hooks[0].handler.command: must be a string that is not empty, not the string \" \""],
    );
    command(", \"command\": \"a\\u0000b\"", &["/rules:2:32: hooks[0].handler.command: must not hold a NUL character"]);
    command(
        ", \"command\": \"x\", \"env\": {\"A\": 1}",
        &["/rules:2:50: hooks[0].handler.env.A: must be a string, not the number 1"],
    );
    command(
        ", \"command\": \"x\", \"env\": {\"A=B\": \"\"}",
        &["/rules:2:45: hooks[0].handler.env.A=B: `A=B` is not the name of a variable"],
    );
}

#[test]
fn http_handlers() {
    let url = |url: &str, expected: &str| {
        let expected = format!("/rules:2:25: hooks[0].handler.url: {expected}");
        check_handler("Stop", &format!("{{\"type\": \"http\", \"url\": \"{url}\"}}"), &[&expected]);
    };
    url("example.com/x", "must be an http or https URL: relative URL without a base");
    url("ftp://example.com/", "must be an http or https URL, not one of `ftp`");
    url("https://", "must be an http or https URL: empty host");
    url("https://u:p@example.com/", "must not hold credentials, put them into `headers`");
    url("https://:p@example.com/", "must not hold credentials, put them into `headers`");
    url("https://example.com/${env:X}", "nothing is put in for `${` in a URL");
    let header = |headers: &str, expected: &str| {
        let handler = format!("{{\"type\": \"http\", \"url\": \"http://a/\",\n\"headers\": {{{headers}}}}}");
        check_handler("Stop", &handler, &[&format!("/rules:{expected}")]);
    };
    header("\"a b\": \"x\"", "3:13: hooks[0].handler.headers.a b: `a b` is not the name of a header");
    header("\"Host\": \"x\"", "3:13: hooks[0].handler.headers.Host: the header `host` is set by hookd alone");
    header("\"A\": \"1\", \"a\": \"2\"", "3:23: hooks[0].handler.headers.a: the header `a` stands here twice");
    header("\"A\": \"x\\ny\"", "3:18: hooks[0].handler.headers.A: the value may hold printable ASCII characters only");
    header(
        "\"A\": \"${env:X}\"",
        "3:18: hooks[0].handler.headers.A: `${env:X}` is not in `tiers.managed.allow_env` of the settings",
    );
    header(
        "\"A\": \"${file:x}\"",
        "3:18: hooks[0].handler.headers.A: `${file:x}` is not in `tiers.managed.allow_files` of the settings",
    );
    header("\"A\": \"${file:../x}\"", "3:18: hooks[0].handler.headers.A: `${file:../x}` must name a file without `..`");
    header(
        "\"A\": \"${X}\"",
        "3:18: hooks[0].handler.headers.A: `${X}` is not known, write `${env:NAME}` or `${file:PATH}`",
    );
    header("\"A\": \"${env:X\"", "3:18: hooks[0].handler.headers.A: `${` has no end, write `${env:NAME}`");
}

#[test]
fn decide_handlers() {
    let decide = |event: &str, keys: &str, expected: &[&str]| {
        check_handler(event, &format!("{{\"type\": \"decide\", {keys}}}"), expected)
    };
    decide(
        "PostToolUse",
        "\"modifiedParams\": {}",
        &["/rules:2:38: hooks[0].handler.modifiedParams: the event `PostToolUse` cannot carry `modifiedParams`"],
    );
    decide(
        "PreToolUse",
        "\"modifiedResult\": null",
        &["/rules:2:38: hooks[0].handler.modifiedResult: the event `PreToolUse` cannot carry `modifiedResult`"],
    );
    decide(
        "PreToolUse",
        "\"modifiedParams\": []",
        &["/rules:2:38: hooks[0].handler.modifiedParams: must be an object, not an empty array"],
    );
    decide(
        "PreToolUse",
        "\"haltReason\": \"x\"",
        &[
            "/rules:2:1: hooks[0].handler: gives neither a verdict nor anything else",
            "/rules:2:34: hooks[0].handler.haltReason: `haltReason` needs `halt: true`",
        ],
    );
    decide(
        "PreToolUse",
        "\"verdict\": \"none\"",
        &[
            "/rules:2:31: hooks[0].handler.verdict: must be `allow` or `ask` or `defer` or `block`, not the string \"none\"",
        ],
    );
    check(
        "{\"hooks\": [{\"event\": \"PreToolUse\", \"mustDecide\": true, \"handler\": {\"type\": \"decide\", \"halt\": true}}]}",
        &["/rules:1:50: hooks[0].mustDecide: this `decide` handler has no `verdict`, so it can never decide"],
    );
    let yaml = "hooks:\n- event: PreToolUse\n  handler:\n    type: decide\n    modifiedParams: {a: [0x10]}\n";
    let problems = parse_rules(yaml, Format::Yaml).iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(
        problems,
        ["/rules:5:26: hooks[0].handler.modifiedParams: must hold values that JSON can hold, not the number 0x10"]
    );
}

#[test]
fn defaults_are_checked_like_rules() {
    check(
        "{\"defaults\": [{\"event\": \"PreTolUse\", \"verdict\": \"none\"}, {\"event\": \"Stop\", \"matcher\": \"(\", \"verdict\": \"ask\"}]}",
        &[
            "/rules:1:25: defaults[0].event: event `PreTolUse` is not known, did you mean `PreToolUse`; an event of your own needs `customEvent: true`",
            "/rules:1:49: defaults[0].verdict: must be `allow` or `ask` or `defer` or `block`, not the string \"none\"",
            "/rules:1:87: defaults[1].matcher: the pattern `(` for `Stop`: unclosed group",
        ],
    );
}

#[test]
fn what_may_not_be_meant_is_a_warning() {
    check_rule(
        "\"async\": true, \"mustDecide\": true",
        &[
            "/rules:2:10: hooks[0].async: an async rule never decides, so it cannot block `PreToolUse`",
            "/rules:2:30: hooks[0].mustDecide: `mustDecide` has no effect on an async rule, which never decides",
        ],
    );
    check_rule(
        "\"mode\": \"shadow\", \"onError\": \"block\"",
        &["/rules:2:30: hooks[0].onError: `onError` does not count while the rule is in shadow mode"],
    );
    check(
        "{\"hooks\": [{\"event\": \"Stop\", \"onError\": \"block\", \"handler\": {\"type\": \"command\", \"command\": \"x\"}}]}",
        &[
            "/rules:1:41: hooks[0].onError: failures never block on `Stop`: a broken hook must not keep an agent running",
        ],
    );
}

/// Rule-like text: tokens of rule files in any order, so that more than the first byte is read.
fn rule_like() -> impl Strategy<Value = String> {
    let tokens = [
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\n",
        "  ",
        "- ",
        "\"hooks\"",
        "\"event\"",
        "\"PreToolUse\"",
        "\"handler\"",
        "\"type\"",
        "\"decide\"",
        "\"command\"",
        "\"timeout\"",
        "1e999",
        "-0",
        "null",
        "true",
        "hooks:",
        "&a",
        "*a",
        "? ",
        "| ",
        "> ",
        "\"matcher\"",
        "\"(\"",
        "é",
        "\u{0}",
        "\u{feff}",
        "---",
        "%YAML 1.2",
        "!x",
        "<<: *a",
    ];
    proptest::collection::vec(proptest::sample::select(tokens.to_vec()), 0..40).prop_map(|tokens| tokens.concat())
}

proptest! {
    #[test]
    fn the_loader_never_panics_and_says_one_line(text in prop_oneof![rule_like(), any::<String>()]) {
        for format in [Format::Json, Format::Yaml] {
            for problem in parse_rules(&text, format) {
                let line = problem.to_string();
                prop_assert!(!line.chars().any(char::is_control), "{:?}", line);
            }
        }
    }
}
