//! Native evaluation and cel's interpreter say the same.

use proptest::{prelude::*, strategy::ValueTree as _};

use super::{Test, lower};
use crate::{Call, Claimed, Condition, Facts, check::Wanted, interpret::Interpreted, parse::parse};

const KEYS: [&str; 6] = ["a", "b", "command", "file_path", "é", "deep"];

const TEXTS: [&str; 10] = ["", "a", "git push", "/etc/passwd", "../x", "é中", "AKIA1234", "a.b", "10.0.0.7", "true"];

const NUMBERS: [&str; 14] = [
    "0",
    "1",
    "-1",
    "2.5",
    "1.0",
    "1e3",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "-9223372036854775809",
    "1e400",
    "-0",
];

const PATTERNS: [&str; 8] = ["", "^git", "a$", "^a$", "[0-9]+", "é|中", "a.b", r"a\.b"];

fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("false".to_owned()),
        prop::sample::select(NUMBERS.to_vec()).prop_map(str::to_owned),
        prop::sample::select(TEXTS.to_vec()).prop_map(|text| format!("\"{text}\"")),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(","))),
            object(inner),
        ]
    })
}

fn object(value: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    prop::collection::btree_map(prop::sample::select(KEYS.to_vec()), value, 0..5).prop_map(|map| {
        let entries: Vec<String> = map.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
        format!("{{{}}}", entries.join(","))
    })
}

fn literal() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(TEXTS.to_vec()).prop_map(|text| format!("'{text}'")),
        prop::sample::select(vec!["0", "1", "-1", "2.5", "1.0", "1u", "18446744073709551615u", "9007199254740993"])
            .prop_map(str::to_owned),
        prop::sample::select(vec!["true", "false", "null"]).prop_map(str::to_owned),
    ]
}

fn path() -> impl Strategy<Value = String> {
    let root = prop::sample::select(vec!["params", "params", "params", "result", "payload"]);
    let step = prop_oneof![
        4 => prop::sample::select(vec!["a", "b", "command", "file_path", "deep"]).prop_map(|key| format!(".{key}")),
        1 => prop::sample::select(KEYS.to_vec()).prop_map(|key| format!("['{key}']")),
        1 => (0..3).prop_map(|index| format!("[{index}]")),
    ];
    (root, prop::collection::vec(step, 0..4)).prop_map(|(root, steps)| format!("{root}{}", steps.concat()))
}

fn field() -> impl Strategy<Value = String> {
    prop_oneof![
        path(),
        path().prop_map(|path| format!("{path}.a")),
        Just("caller.claimed.user".to_owned()),
        Just("caller.claimed['project']".to_owned()),
        Just("caller.labels.team".to_owned()),
        Just("caller.claimed.labels.x".to_owned()),
    ]
}

fn operand() -> impl Strategy<Value = String> {
    let variables = vec!["event", "sessionId", "tool", "toolKind", "mcpServer", "cwd", "timestamp"];
    prop_oneof![
        4 => field(),
        3 => literal(),
        1 => prop::sample::select(variables).prop_map(str::to_owned),
        1 => field().prop_map(|field| format!("size({field})")),
    ]
}

fn leaf() -> impl Strategy<Value = String> {
    let comparison = prop::sample::select(vec!["==", "!=", "<", "<=", ">", ">="]);
    let text = prop::sample::select(vec!["startsWith", "endsWith", "contains"]);
    let pattern = || prop::sample::select(PATTERNS.to_vec());
    prop_oneof![
        4 => (operand(), comparison, operand()).prop_map(|(left, operator, right)| format!("{left} {operator} {right}")),
        2 => (field(), text, operand()).prop_map(|(left, test, right)| format!("{left}.{test}({right})")),
        1 => (field(), pattern()).prop_map(|(field, pattern)| format!("{field}.matches(r'{pattern}')")),
        1 => (field(), pattern()).prop_map(|(field, pattern)| format!("matches({field}, r'{pattern}')")),
        1 => (field(), pattern()).prop_map(|(field, pattern)| format!("anyMatch({field}, r'{pattern}')")),
        1 => field().prop_map(|field| format!("glob({field}, '/e*/**')")),
        1 => (field(), operand()).prop_map(|(field, operand)| format!("under({field}, {operand})")),
        1 => field().prop_map(|field| format!("cidr({field}, '10.0.0.0/8')")),
        1 => (operand(), prop::collection::vec(literal(), 0..4))
            .prop_map(|(operand, list)| format!("{operand} in [{}]", list.join(", "))),
        1 => (operand(), path()).prop_map(|(operand, path)| format!("{operand} in {path}")),
        1 => (path(), prop::sample::select(vec!["a", "b", "deep"])).prop_map(|(path, key)| format!("has({path}.{key})")),
        1 => prop::sample::select(vec!["caller.claimed.user", "caller.claimed.project", "caller.labels.team",
            "caller.labels.x", "caller.claimed.labels.x", "caller.claimed", "caller.labels"])
            .prop_map(|path| format!("has({path})")),
        1 => field(),
        1 => prop::sample::select(vec!["true", "false"]).prop_map(str::to_owned),
    ]
}

/// Conditions of the lowered grammar.
fn condition() -> impl Strategy<Value = String> {
    leaf().prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(left, right)| format!("({left}) && ({right})")),
            (inner.clone(), inner.clone()).prop_map(|(left, right)| format!("({left}) || ({right})")),
            inner.clone().prop_map(|part| format!("!({part})")),
            (inner.clone(), inner.clone(), inner).prop_map(|(a, b, c)| format!("({a}) ? ({b}) : ({c})")),
        ]
    })
}

/// Conditions of which parts have no native form.
fn mixed() -> impl Strategy<Value = String> {
    (condition(), path(), leaf(), operand()).prop_map(|(condition, path, leaf, operand)| {
        format!("({condition}) && {path}.exists(x, x == {operand} || ({leaf})) || {path}.all(x, {leaf})")
    })
}

fn has_foreign(test: &Test) -> bool {
    match test {
        Test::Interpreted(_) => true,
        Test::Not(test) => has_foreign(test),
        Test::All(tests) | Test::Any(tests) => tests.iter().any(has_foreign),
        Test::Choice(tests) => tests.iter().any(has_foreign),
        _ => false,
    }
}

fn facts<'a>(params: &'a str, result: &'a str, labels: &'a [(String, String)]) -> Facts<'a> {
    Facts::new(Call {
        event: "PreToolUse",
        session_id: "a",
        tool: Some("git push"),
        tool_kind: None,
        mcp_server: Some(""),
        params,
        result: Some(result),
        payload: None,
        cwd: Some("/etc"),
        timestamp_ms: 1,
        labels,
        claimed: Claimed { user: "é中", labels, ..Claimed::default() },
    })
}

/// What both say, errors without their words.
fn both(text: &str, facts: &Facts<'_>) -> Option<(Result<bool, String>, Result<bool, String>)> {
    let tree = parse(text, Wanted::Boolean).ok()?;
    let interpreted = Interpreted::new(tree.clone()).unwrap();
    let native = lower(tree).unwrap();
    let native = native.holds(facts).map_err(|fault| crate::EvaluationError::from(fault).to_string());
    Some((native, interpreted.boolean(facts).map_err(|error| error.to_string())))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn native_and_cel_say_the_same(text in condition(), params in object(json()), result in json()) {
        let labels = [("team".to_owned(), "a".to_owned()), ("x".to_owned(), "1".to_owned())];
        let facts = facts(&params, &result, &labels);
        if let Some((native, interpreted)) = both(&text, &facts) {
            prop_assert_eq!(native.clone().ok(), interpreted.clone().ok(), "{} on {}: {:?} {:?}", text, params, native, interpreted);
        }
    }

    #[test]
    fn parts_left_to_cel_say_the_same(text in mixed(), params in object(json()), result in json()) {
        let facts = facts(&params, &result, &[]);
        if let Some((native, interpreted)) = both(&text, &facts) {
            prop_assert_eq!(native.clone().ok(), interpreted.clone().ok(), "{} on {}: {:?} {:?}", text, params, native, interpreted);
        }
    }

    #[test]
    fn the_common_shapes_are_lowered(text in condition()) {
        if let Ok(tree) = parse(&text, Wanted::Boolean) {
            prop_assert!(!has_foreign(&lower(tree).unwrap()), "{}", text);
        }
    }

    #[test]
    fn any_text_compiles_or_is_refused(text in "\\PC{0,60}") {
        let _ = Condition::compile(&text);
    }

    #[test]
    fn any_text_of_tokens_compiles_or_is_refused(tokens in prop::collection::vec(prop::sample::select(vec![
        "params", ".", "a", "(", ")", "[", "]", "{", "}", "!", "-", "?", ":", "&&", "||", "==", "'x'", "r'\\", "\"\"\"", "1", "1u",
        "0x", "1e9", "has(", ".exists(", ".map(x,", "x", ",", " in ", "//", "\n", "é", "\\", "b'", "null", "true", "matches(", "<", "+",
        ".?", "[?", "`", "@meter", "@0", ".filter(", "size(", "return", "\u{0}",
    ]), 0..40)) {
        let _ = Condition::compile(&tokens.concat());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn shared_patterns_say_the_same(params in object(json()), patterns in prop::collection::vec("[a-c0-9.*+?|é^$]{1,8}", 4..9)) {
        let texts: Vec<String> = patterns.iter().flat_map(|pattern| {
            [format!("params.a.matches(r'{pattern}')"), format!("params.b.matches(r'{pattern}') || params.a.matches(r'{pattern}x*')")]
        }).filter(|text| Condition::compile(text).is_ok()).collect();
        let alone: Vec<Condition> = texts.iter().map(|text| Condition::compile(text).unwrap()).collect();
        let mut together: Vec<Condition> = texts.iter().map(|text| Condition::compile(text).unwrap()).collect();
        Condition::share_patterns(&mut together);
        let (mut facts_alone, mut facts_together) = (facts(&params, "1", &[]), facts(&params, "1", &[]));
        for (alone, together) in alone.iter().zip(&together) {
            prop_assert_eq!(alone.evaluate(&mut facts_alone), together.evaluate(&mut facts_together), "{}", alone.text());
        }
    }
}

/// Of how many random conditions both evaluations are asked, and what they say: the properties above must not be empty.
#[test]
fn random_conditions_are_worth_comparing() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut compared, mut held, mut failed) = (0, 0, 0);
    for _ in 0..2000 {
        let mut next = |strategy: BoxedStrategy<String>| strategy.new_tree(&mut runner).unwrap().current();
        let (text, params, result) = (next(condition().boxed()), next(object(json()).boxed()), next(json().boxed()));
        match both(&text, &facts(&params, &result, &[])) {
            Some((Ok(value), _)) => {
                compared += 1;
                held += usize::from(value);
            }
            Some((Err(_), _)) => failed += 1,
            None => {}
        }
    }
    assert!(compared > 200 && held > 50 && failed > 200, "{compared} compared, {held} held, {failed} failed");
}
