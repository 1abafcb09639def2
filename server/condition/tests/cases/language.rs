//! What expressions say of calls.

use crate::support::facts;
use hookd_condition::{Condition, Expression};

/// `condition` on `params`, as text: `true`, `false` or the message.
#[track_caller]
fn said(condition: &str, params: &str) -> String {
    let condition = Condition::compile(condition).unwrap_or_else(|error| panic!("{condition}: {error}"));
    match condition.evaluate(&mut facts(params)) {
        Ok(value) => value.to_string(),
        Err(error) => error.to_string(),
    }
}

#[track_caller]
fn check(condition: &str, params: &str, expected: &str) {
    let shown: String = params.chars().take(200).collect();
    assert_eq!(said(condition, params), expected, "{condition} on {shown}");
}

#[track_caller]
fn refused(text: &str, expected: &str) {
    assert_eq!(
        Condition::compile(text).map(drop).map_err(|error| error.to_string()),
        Err(expected.to_owned()),
        "{text}"
    );
}

#[track_caller]
fn value(expression: &str, params: &str, expected: &str) {
    let compiled = Expression::compile(expression).unwrap_or_else(|error| panic!("{expression}: {error}"));
    let given = match compiled.evaluate(&mut facts(params)) {
        Ok(value) => value.to_string(),
        Err(error) => error.to_string(),
    };
    assert_eq!(given, expected, "{expression} on {params}");
}

#[test]
fn variables_are_those_of_the_call() {
    for condition in [
        "event == 'PreToolUse'",
        "sessionId == 's-1'",
        "tool == 'Bash' && toolKind == 'execute'",
        "mcpServer == null",
        "cwd == '/home/ann/project'",
        "timestamp == 1700000000123",
        "timestamp / 3600000 % 24 == 22",
        "caller.claimed.agent == 'coder' && !has(caller.claimed.project)",
        "size(caller.labels) == 0 && caller.claimed.labels == {}",
        "result == null && payload == {}",
        "type(tool) == string && type(timestamp) == int",
    ] {
        check(condition, "{}", "true");
    }
    check("caller.claimed.project == 'x'", "{}", "no such key: `project`");
}

#[test]
fn law_07_an_error_is_an_error_and_never_false() {
    check("params.a == 1", "{}", "no such key: `a`");
    check("!(params.a == 1)", "{}", "no such key: `a`");
    check("params.a.startsWith('x')", r#"{"a":1}"#, "startsWith takes a string, this is a number");
    check("params.a", r#"{"a":1}"#, "a condition takes a boolean, this is a number");
    check("has(params.a.b)", "{}", "no such key: `a`");
    check("1 / params.a == 1", r#"{"a":0}"#, "division by zero");
    check("params.a", "{", "`params`: EOF while parsing an object at line 1 column 1");
}

#[test]
fn and_and_or_forget_the_errors_of_the_other_side() {
    check("params.a == 1 || true", "{}", "true");
    check("true || params.a == 1", "{}", "true");
    check("params.a == 1 && false", "{}", "false");
    check("params.a == 1 || false", "{}", "no such key: `a`");
    check("has(params.a) && params.a == 1", "{}", "false");
}

#[test]
fn numbers_keep_their_digits_or_are_errors() {
    check("params.a == 9007199254740993", r#"{"a":9007199254740993}"#, "true");
    check("params.a == 9007199254740992", r#"{"a":9007199254740993}"#, "false");
    check("params.a == 18446744073709551615u", r#"{"a":18446744073709551615}"#, "true");
    let big = r#"{"a":18446744073709551616,"b":[18446744073709551616]}"#;
    let unfit = "the number 18446744073709551616 fits no CEL type (int and uint have 64 bits)";
    check("params.a == 1", big, unfit);
    check("params['a'] == 1", big, unfit);
    check("1 < params.b[0]", big, unfit);
    check("params.b.exists(x, x == 1)", big, unfit);
    check("has(params.a) && size(params.b) == 1", big, "true");
    check("params.b == params.b && 5 in params.b", big, "false");
    check("params.a > 1.0", r#"{"a":1e400}"#, "the number 1e400 fits no CEL type (int and uint have 64 bits)");
    check("params.a == 1.0 && params.a == 1", r#"{"a":1.0}"#, "true");
    value("params", big, big);
    value("{'x': params.b}", big, r#"{"x":[18446744073709551616]}"#);
}

#[test]
fn values_are_json() {
    let params = r#"{"b":"é","a":[1,2.5,null,true],"k":18446744073709551615}"#;
    value("params", params, params);
    value("dyn(params)", params, r#"{"a":[1,2.5,null,true],"b":"é","k":18446744073709551615}"#);
    value("params.a.map(x, x)", params, "[1,2.5,null,true]");
    value("'x' + params.b", params, r#""xé""#);
    value("b'x'", params, "JSON has no bytes");
    value("int", params, "JSON has no type");
    value("{1: 2}", params, "the keys of a JSON object are strings");
    value("redact(params, '[0-9é]', '*')", params, r#"{"b":"*","a":[1,2.5,null,true],"k":18446744073709551615}"#);
}

#[test]
fn law_10_what_can_be_known_at_load_is_refused_at_load() {
    for (text, expected) in [
        ("", "expected an expression, found nothing at line 1 column 1 of the expression"),
        ("tool ==", "expected expression, found the end at line 1 column 8 of the expression"),
        ("tool = 'x'", "expected the end, found `=` at line 1 column 6 of the expression"),
        ("tol == 'x'", "unknown variable `tol`, did you mean `tool` at line 1 column 1 of the expression"),
        (
            "true &&\n  'é' == parms.a",
            "unknown variable `parms`, did you mean `params` at line 2 column 10 of the expression",
        ),
        (
            "params.a.startWith('x')",
            "unknown function `startWith`, did you mean `startsWith` at line 1 column 19 of the expression",
        ),
        (
            "caller.label.x == 'y'",
            "`caller` has no key `label`, did you mean `labels` at line 1 column 7 of the expression",
        ),
        (
            "caller.claimed.usr == 'y'",
            "`caller.claimed` has no key `usr`, did you mean `user` at line 1 column 15 of the expression",
        ),
        ("tool", "a condition must be a boolean, this is a string at line 1 column 1 of the expression"),
        ("tool == 5", "a string and a number are never equal at line 1 column 6 of the expression"),
        ("tool < 5", "`<` cannot compare a string and a number at line 1 column 6 of the expression"),
        ("true && 1", "`&&` and `||` take booleans, this is a number at line 1 column 9 of the expression"),
        ("!'x'", "`!` takes booleans, this is a string at line 1 column 2 of the expression"),
        (
            "tool.name == 'x'",
            "a look-up needs a map, `.name` is asked of a string at line 1 column 5 of the expression",
        ),
        ("'a' in tool", "`in` looks into a list or a map, this is a string at line 1 column 5 of the expression"),
        ("has(params)", "invalid argument to has() macro at line 1 column 5 of the expression"),
        ("params.a.exists(x)", "`exists` is written `list.exists(x, condition)` at line 1 column 16 of the expression"),
        ("glob(tool)", "`glob` is written `glob(string, pattern)` at line 1 column 5 of the expression"),
        (
            "tool.matches('(?=x)')",
            "the pattern `(?=x)` is refused: look-around, including look-ahead and look-behind, is not supported at line 1 column 14 of the expression",
        ),
        ("tool.matches('(')", "the pattern `(` is refused: unclosed group at line 1 column 14 of the expression"),
        ("Foo{a: 1} == 1", "`Foo{…}`: there are no message types at line 1 column 4 of the expression"),
        ("params.?a == 1", "unsupported syntax `.?` at line 1 column 7 of the expression"),
    ] {
        refused(text, expected);
    }
}

#[test]
fn limits_hold_at_load() {
    let long = format!("tool == '{}'", "x".repeat(4096));
    refused(&long, "an expression has at most 4096 bytes, this one 4106 at line 1 column 1 of the expression");
    for text in [
        "(".repeat(4000),
        "[".repeat(4000),
        "!".repeat(4000),
        "-".repeat(4000),
        format!("{}true{}", "(".repeat(33), ")".repeat(33)),
        format!("params{} == 1", ".a".repeat(2000)),
        format!("params{} == 1", ".a()".repeat(1000)),
        format!("params{} == 1", "[0]".repeat(1000)),
        format!("1{} == 1", "+1".repeat(1000)),
        format!("true{}", "?true:true".repeat(300)),
        format!("{}true", "true?".repeat(800)),
        format!("{}true", "true?true:".repeat(400)),
        format!("{}x{}", "'a' in [".repeat(400), "]".repeat(400)),
        format!("tool in [{}]", "'a',".repeat(1000)),
        format!("'{}", "(".repeat(4000)),
        format!("r'\\'{}", "(".repeat(4000)),
        format!("xr'\\''{}", "(".repeat(4000)),
        format!("\"\"\"{}", "(".repeat(4000)),
        format!("//'\n{}", "(".repeat(4000)),
        "has(".repeat(1000),
        "[1].map(x, ".repeat(300),
        "{1:".repeat(1300),
    ] {
        assert!(Condition::compile(&text).is_err(), "{text}");
    }
    let wide = vec!["tool == 'x'"; 200].join(" || ");
    check(&wide, "{}", "false");
    let within = format!("{}true{}", "(".repeat(32), ")".repeat(32));
    check(&within, "{}", "true");
}

#[test]
fn an_evaluation_is_bounded() {
    let list = |size| format!("[{}]", vec!["1"; size].join(","));
    let params = format!("{{\"a\":{},\"b\":{},\"s\":\"{}\"}}", list(1000), list(6000), "x".repeat(1 << 20));
    let a = "params.a";
    let twenty = vec!["0"; 20].join(",");
    check(&format!("[{twenty}].all(x, params.a.exists(y, true))"), &params, "true");
    check(
        &format!("[{twenty}].all(x, params.b.exists(y, true))"),
        &params,
        "the macros walk more than 100000 elements",
    );
    check(&format!("{a}.exists(x, x == 1) && {a}.exists_one(x, x == 2)"), &params, "false");
    check(
        &format!("'x' == params.s{}", " + params.s".repeat(20)),
        &params,
        "the expression builds more than 16777216 bytes",
    );
    check(
        &format!("{a}.all(x, params.s + params.s != 'x')"),
        &params,
        "the expression builds more than 16777216 bytes",
    );
    for bomb in [
        "params.b.map(x, params.s).size() == 1".to_owned(),
        "params.b.map(x, redact(params.s, '^x', '-')).size() == 1".to_owned(),
        format!("[{}].size() == 1", vec!["params.s + ''"; 30].join(", ")),
        format!("{{{}}}.size() == 1", (0..30).map(|key| format!("{key}: params.s")).collect::<Vec<_>>().join(", ")),
        format!("params.b.map(x, '{}').size() == 1", "y".repeat(3900)),
        format!("params.b.map(x, [{}]).size() == 1", vec!["0"; 900].join(",")),
    ] {
        check(&bomb, &params, "the expression builds more than 16777216 bytes");
    }
    let slow = said(
        &format!(
            "{a}.all(x, params.s.contains('xxxxxxxxxxxxxxxxy') == false && params.s.endsWith(params.s) && params.s.matches('(x+x+)+y') == false)"
        ),
        &params,
    );
    assert_eq!(slow, "the macros take more than 1000 ms");
}

#[test]
fn macros_walk_lists_and_keys() {
    let params = r#"{"l":[{"k":1},{"k":"x"},{}],"n":["a","b"]}"#;
    check("params.l.exists(e, e.k == 'x')", params, "true");
    check("params.l.all(e, has(e.k))", params, "false");
    check("params.l.exists(e, e.k == 2)", params, "no such key: `k`");
    check("params.exists(key, key == 'n')", params, "true");
    check("params.n.map(e, e + '!') == ['a!', 'b!']", params, "true");
    check("params.n.filter(e, e != 'a') == ['b']", params, "true");
    check("params.n.exists_one(e, e == 'a') && tool == 'Bash'", params, "true");
    check("params.n + ['c'] == ['a', 'b', 'c']", params, "true");
    check("shellCommands('a; rm -rf x').exists(c, c[0] == 'rm' && '-rf' in c)", params, "true");
}
