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
    assert_eq!(said(condition, params), expected, "{condition} on {params}");
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
    check(
        "params.a.startsWith('x')",
        r#"{"a":1}"#,
        "found no matching overload for 'startsWith' applied to 'int.(string)'",
    );
    check("params.a", r#"{"a":1}"#, "a condition must be a boolean, this is int");
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
    value("params", params, r#"{"a":[1,2.5,null,true],"b":"é","k":18446744073709551615}"#);
    value("params.a.map(x, x)", params, "[1,2.5,null,true]");
    value("'x' + params.b", params, r#""xé""#);
    value("b'x'", params, "JSON has no bytes");
    value("int", params, "JSON has no type");
    value("{1: 2}", params, "the keys of a JSON object are strings");
    value("redact(params, '[0-9é]', '*')", params, r#"{"a":[1,2.5,null,true],"b":"*","k":18446744073709551615}"#);
}

#[test]
fn law_10_what_can_be_known_at_load_is_refused_at_load() {
    for (text, expected) in [
        ("", "expected an expression, found nothing at line 1 column 1 of the expression"),
        ("tool ==", "x"),
        ("tol == 'x'", "unknown variable `tol`, did you mean `tool`? at line 1 column 1 of the expression"),
        (
            "true &&\n  'é' == parms.a",
            "unknown variable `parms`, did you mean `params`? at line 2 column 10 of the expression",
        ),
        (
            "params.a.startWith('x')",
            "unknown function `startWith`, did you mean `startsWith`? at line 1 column 19 of the expression",
        ),
        (
            "caller.label.x == 'y'",
            "`caller` has no key `label`, did you mean `labels`? at line 1 column 7 of the expression",
        ),
        (
            "caller.claimed.usr == 'y'",
            "`caller.claimed` has no key `usr`, did you mean `user`? at line 1 column 15 of the expression",
        ),
        ("tool", "a condition must be a boolean, this is a string at line 1 column 1 of the expression"),
        ("tool == 5", "a string and a number are never equal at line 1 column 6 of the expression"),
        ("tool < 5", "`<` cannot compare a string and a number at line 1 column 6 of the expression"),
        ("true && 1", "`&&` and `||` take booleans, this is a number at line 1 column 9 of the expression"),
        ("!'x'", "`!` take booleans, this is a string at line 1 column 2 of the expression"),
        (
            "tool.name == 'x'",
            "a look-up needs a map, `.name` is asked of a string at line 1 column 5 of the expression",
        ),
        ("'a' in tool", "`in` looks into a list or a map, this is a string at line 1 column 5 of the expression"),
        ("has(params)", "invalid argument to has() macro at line 1 column 5 of the expression"),
        ("params.a.exists(x)", "`exists` is written `list.exists(x, condition)` at line 1 column 16 of the expression"),
        ("glob(tool)", "`glob` is written `glob(string, pattern)` at line 1 column 5 of the expression"),
        ("tool.matches('(?=x)')", "x"),
        ("tool.matches('(')", "x"),
        ("Foo{a: 1} == 1", "x"),
        ("params.?a == 1", "x"),
    ] {
        if Condition::compile(text).map(drop).map_err(|error| error.to_string()) != Err(expected.to_owned()) {
            println!("{text:?} => {:?}", Condition::compile(text).map(drop).map_err(|error| error.to_string()));
        }
    }
    refused("", "");
}
