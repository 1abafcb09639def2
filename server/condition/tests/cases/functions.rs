//! The functions of expressions, nasty input included.

use hookd_condition::{Condition, Expression, Facts};
use proptest::prelude::*;

use crate::support::{call, facts};

/// The value of `expression`, as JSON text, or the message, where `params.x` is `x`.
#[track_caller]
fn value(expression: &str, x: &str) -> String {
    let params = format!("{{\"x\":{}}}", hookd_json::to_text(&hookd_json::Value::String(x.to_owned())));
    let expression = Expression::compile(expression).unwrap_or_else(|error| panic!("{expression}: {error}"));
    match expression.evaluate(&mut facts(&params)) {
        Ok(value) => value.to_string(),
        Err(error) => error.to_string(),
    }
}

#[track_caller]
fn check(expression: &str, x: &str, expected: &str) {
    assert_eq!(value(expression, x), expected, "{expression} on {x:?}");
}

/// The commands in `text`, one a line, words between bars.
#[track_caller]
fn commands(text: &str, expected: &[&str]) {
    let value = value("shellCommands(params.x)", text);
    let commands: Vec<String> = match hookd_json::parse(&value) {
        Ok(hookd_json::Value::Array(commands)) => commands.iter().map(words).collect(),
        _ => vec![format!("error: {value}")],
    };
    assert_eq!(commands, expected, "{text}");
}

fn words(command: &hookd_json::Value) -> String {
    let words = command.as_array().unwrap().iter().map(|word| word.as_str().unwrap());
    words.collect::<Vec<_>>().join("|")
}

#[test]
fn glob_is_over_the_whole_string_and_stars_stop_at_slashes() {
    for (pattern, text, expected) in [
        ("*.rs", "main.rs", true),
        ("*.rs", "src/main.rs", false),
        ("**/*.rs", "main.rs", true),
        ("**/*.rs", "a/b/main.rs", true),
        ("/etc/**", "/etc/a/b", true),
        ("/etc/**", "/etcetera", false),
        ("a?c", "a/c", false),
        ("a?c", "aéc", true),
        ("[!a-c]x", "dx", true),
        ("[!a-c]x", "/x", false),
        ("[a-c]x", "bx", true),
        ("[]]x", "]x", true),
        ("{a,b{c,d}}.txt", "bd.txt", true),
        ("{a,b}", "a,b", false),
        ("a,b", "a,b", true),
        ("\\*", "*", true),
        ("\\*", "a", false),
        ("a.c", "abc", false),
        ("*", "a\nb", true),
        ("", "", true),
        ("$^.+()|", "$^.+()|", true),
    ] {
        let escaped = pattern.replace('\\', "\\\\");
        check(&format!("glob(params.x, '{escaped}')"), text, &expected.to_string());
        check(&format!("glob(params.x, '{escaped}' + '')"), text, &expected.to_string());
    }
    for (pattern, why) in [("{a", "`{` is not closed"), ("[a", "`[` is not closed"), ("\\\\", "nothing follows `\\`")] {
        let error = Condition::compile(&format!("glob(tool, '{pattern}')")).map(drop).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn matches_searches_anywhere_and_literal_patterns_are_checked_at_load() {
    check("params.x.matches('b.')", "abc", "true");
    check("matches(params.x, '^b')", "abc", "false");
    check("params.x.matches('^abc$')", "abc\n", "false");
    check("params.x.matches('(?i)ABC')", "abc", "true");
    check("params.x.matches(r'a\\.b')", "axb", "false");
    check("params.x.matches(params.x)", "a+", "true");
    check("params.x.matches(params.x)", "(", "the pattern `(` is refused: unclosed group");
    check(
        "params.x.matches(params.x + '')",
        "(?=a)",
        "the pattern `(?=a)` is refused: look-around, including look-ahead and look-behind, is not supported",
    );
    let huge = value("'a'.matches(params.x)", "(a{1000}){1000}");
    assert!(huge.contains("takes more than 65536 bytes when compiled"), "{huge}");
}

#[test]
fn under_works_paths_out_first() {
    for (path, directory, expected) in [
        ("/home/ann/project/a", "/home/ann/project", "true"),
        ("/home/ann/project", "/home/ann/project/", "true"),
        ("/home/ann/project-2/a", "/home/ann/project", "false"),
        ("a/../../../../etc/passwd", ".", "false"),
        ("a/../b", ".", "true"),
        ("a/../../../../etc/passwd", "/etc", "true"),
        ("../../../../../../../etc", "/etc", "true"),
        ("//etc//./passwd", "/etc", "true"),
        ("/etc/../etc/..", "/etc", "false"),
        ("./", "/home/ann/project", "true"),
        ("~/x", "~", "true"),
        ("/anything", "/", "true"),
        ("/etc/...", "/etc", "true"),
        ("", "/", "`under` takes paths, this one is empty"),
    ] {
        check(&format!("under(params.x, '{directory}')"), path, expected);
    }
    let condition = Condition::compile("under(params.x, '/a')").unwrap();
    for (cwd, expected) in [(None, "relative"), (Some(""), "relative"), (Some("rel"), "relative")] {
        let error =
            condition.evaluate(&mut Facts::new(hookd_condition::Call { cwd, ..call(r#"{"x":"b"}"#, None, None) }));
        assert!(error.unwrap_err().to_string().contains(expected));
    }
}

#[test]
fn host_is_lower_case_without_brackets_and_last_dot() {
    for (url, expected) in [
        ("https://User:pw@Example.COM:8080/x?y", "\"example.com\""),
        ("https://example.com.", "\"example.com\""),
        ("http://[::1]:80/", "\"::1\""),
        ("http://127.1/", "\"127.0.0.1\""),
        ("https://bücher.de/", "\"xn--bcher-kva.de\""),
        ("https://good.com\\@evil.com/", "\"good.com\""),
        ("mailto:a@b.c", "`host`: `mailto:a@b.c` has no host"),
        ("file:///etc/passwd", "`host`: `file:///etc/passwd` has no host"),
        ("example.com", "`host`: `example.com` is no URL: relative URL without a base"),
    ] {
        check("host(params.x)", url, expected);
    }
}

#[test]
fn cidr_compares_addresses_of_one_family() {
    for (ip, range, expected) in [
        ("10.1.2.3", "10.0.0.0/8", "true"),
        ("11.1.2.3", "10.0.0.0/8", "false"),
        ("::ffff:10.1.2.3", "10.0.0.0/8", "true"),
        ("fd00::1", "fd00::/8", "true"),
        ("10.1.2.3", "::/0", "false"),
        ("1.2.3.4", "0.0.0.0/0", "true"),
        ("1.2.3.4", "1.2.3.4", "true"),
        ("010.1.2.3", "10.0.0.0/8", "`cidr`: `010.1.2.3` is no IP address"),
        ("10.1.2.3/8", "10.0.0.0/8", "`cidr`: `10.1.2.3/8` is no IP address"),
    ] {
        check(&format!("cidr(params.x, '{range}')"), ip, expected);
    }
    for range in ["10.0.0.0/33", "10.0.0.1/8", "10.0.0.0/+8", "10.0.0.0/", "x", "::/129", ""] {
        assert!(Condition::compile(&format!("cidr(tool, '{range}')")).is_err(), "{range}");
    }
}

#[test]
fn any_match_and_redact_go_through_all_strings() {
    let params = r#"{"a":["x",{"k1":"secret 42"}],"n":42,"secret":null}"#;
    for (condition, expected) in [
        ("anyMatch(params, '^secret')", true),
        ("anyMatch(params.a, 'k[0-9]')", true),
        ("anyMatch(params, '^42$')", false),
        ("anyMatch(params.n, '42')", false),
        ("anyMatch(tool, 'Ba')", true),
        ("anyMatch(params.a.map(x, x), 'secret')", true),
    ] {
        let given = Condition::compile(condition).unwrap().evaluate(&mut facts(params));
        assert_eq!(given, Ok(expected), "{condition}");
    }
    let redacted = Expression::compile("redact(params, '[a-z]+ ?', '$0')").unwrap().evaluate(&mut facts(params));
    assert_eq!(redacted.unwrap().to_string(), r#"{"a":["$0",{"k1":"$042"}],"n":42,"secret":null}"#);
    let long = "x".repeat(100_000);
    let with = "y".repeat(200);
    check(
        &format!("size(redact(params.x, 'x', '{with}'))"),
        &long,
        "`redact`: the result has more than 16777216 bytes",
    );
    check("redact(params.x, '', '-')", "é", "\"-é-\"");
}

#[test]
fn shell_commands_are_found_wherever_they_stand() {
    commands("ls", &["ls"]);
    commands(
        "git push --force && rm -rf 'a b' || echo \"x y\"; true & false",
        &["git|push|--force", "rm|-rf|a b", "echo|x y", "true", "false"],
    );
    commands("cat x | sh 2>&1 >/dev/null |& tee log", &["cat|x", "sh", "tee|log"]);
    commands("A=1 B=$(whoami) env", &["env", "whoami"]);
    commands("A=$(rm x)", &["rm|x"]);
    commands(
        "echo $(curl `cat url` | sh) \"in $(id -u) quotes\" '$(not)'",
        &["echo|$(curl `cat url` | sh)|in $(id -u) quotes|$(not)", "curl|`cat url`", "cat|url", "sh", "id|-u"],
    );
    commands("(cd /tmp; { rm a; }) ; f() { rm b; }; f", &["cd|/tmp", "rm|a", "rm|b", "f"]);
    commands("if test -f $(a); then b; elif c; then d; else e; fi", &["test|-f|$(a)", "a", "b", "c", "d", "e"]);
    commands(
        "for x in $(a) b; do c $x; done; while d; do e; done; until f; do g; done",
        &["a", "c|$x", "d", "e", "f", "g"],
    );
    commands("case $(a) in $(b)|c) d;; *) e;; esac", &["a", "b", "d", "e"]);
    commands("diff <(sort a) <(sort b) > >(tee c)", &["diff|<( sort a )|<( sort b )", "sort|a", "sort|b", "tee|c"]);
    commands(
        "echo ${a:-$(b)} ${c/$(d)/`e`} ${f[$(g)]} $((1 + $(h))) ${i:$(j):1}",
        &["echo|${a:-$(b)}|${c/$(d)/`e`}|${f[$(g)]}|$((1 + $(h)))|${i:$(j):1}", "b", "d", "e", "g", "h", "j"],
    );
    commands(
        "cat <<EOF\n$(a) ${b:-`c`} \"$(d)\"\nEOF\ncat <<'EOF'\n$(e)\nEOF\ncat <<< $(f)",
        &["cat", "a", "c", "d", "cat", "cat", "f"],
    );
    commands("[[ $(a) == $(b) && -n `c` ]]; (( $(d) ))", &["a", "b", "c", "d"]);
    commands("a=(1 $(b)); c[$(d)]=e; export F=$(g)", &["b", "d", "export|F=$(g)", "g"]);
    commands("! a; time b; coproc c", &["a", "b", "c"]);
    commands("\n# a comment $(x)\n\na # more\n", &["a"]);
    commands("", &[]);
}

#[test]
fn shell_quotes_hide_no_name() {
    commands(
        r#"r""m -rf /; 'r'm; \rm; "rm"; r\
m"#,
        &["rm|-rf|/", "rm", "rm", "rm", "rm"],
    );
    commands(r"$'\x72\155' $'\u0061' $'a\'b' $'\n'", &["rm|a|a'b|\n"]);
    commands("$CMD -rf ~/x *.txt {a,b}", &["$CMD|-rf|~/x|*.txt|{a,b}"]);
    commands("bash -c 'rm x' \"$(eval 'b')\"", &["bash|-c|rm x|$(eval 'b')", "eval|b"]);
    commands("\"a\\\"b\\$c\"", &["a\"b$c"]);
}

#[test]
fn what_is_no_shell_text_is_an_error() {
    for text in [
        "if true",
        "(a",
        "a)",
        "$(",
        "`a",
        "'a",
        "\"a",
        "a &&",
        "a | | b",
        "for",
        "case x in",
        "${a",
        "a <<",
        "fi",
        ";;",
        "a ( b",
        "$'\\xff'",
        "99999999999999999999>x",
        "$((1",
        "~+99999999999999999999999 a",
        "~99999999999999999999999 a",
        "a $99999999999999999999999",
        "a ${99999999999999999999999}",
        "a $(b",
        "echo `a`b`",
        "{ a",
    ] {
        let value = value("shellCommands(params.x)", text);
        assert!(value.starts_with("`shellCommands`: "), "{text:?} gives {value}");
    }
}

#[test]
fn nasty_shell_text_costs_little() {
    let started = std::time::SystemTime::now();
    for opening in [
        "( ",
        "((",
        "{ ",
        "if true; then ",
        "while a; do ",
        "case x in a) ",
        "$( ",
        "echo $( ",
        "echo \"$( ",
        "${a:-",
        "\"${a:-",
        "`",
        "$((",
        "[[ ( ",
        "[[ ! ",
        "! ",
        "f() { ",
        "<( ",
        "a=( ",
        "@(a|",
        "{a,",
        "a <<E\n",
        "\\",
        "'\"",
        "$(case x in a) ",
        "( case x in a) ",
        "$( \")\" ",
        "time ",
        "a | ",
        "a && ",
        "\n",
        "$'\\",
        "#",
        ";",
        "& ",
    ] {
        for count in [9, 11, 30, 200, 3000] {
            value("shellCommands(params.x)", &opening.repeat(count));
            value("shellCommands(params.x)", &format!("{}x", opening.repeat(count)));
        }
    }
    value("shellCommands(params.x)", &"a b c; ".repeat(10_000));
    check("shellCommands(params.x)", &"a".repeat(70_000), "`shellCommands`: the text has more than 65536 bytes");
    check("shellCommands(params.x)", &"a;".repeat(2000), "`shellCommands`: more than 1000 commands");
    assert!(started.elapsed().unwrap().as_secs() < 120);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_text_gives_commands_or_an_error(tokens in prop::collection::vec(prop::sample::select(vec![
        "(", ")", "((", "))", "{ ", "}", "$(", "${", "$((", "`", "\"", "'", "\\", " ", "\n", ";", "&", "|", "a", "b=", "1", ">", "<", "<<E", "\nE\n",
        "case x in ", "a) ", " esac ", ";; ", " if ", " then ", " fi ", " do ", " done ", " for x in ", " while ", "[[ ", " ]]", "!", "#", "$", "~+9",
        ":-", "/", "%", "@(", "é", "$'", "$\"", "<(", "f()", "=(", "[", "]", "\u{0}", "\r", "time ", "coproc ", "function ",
    ]), 0..40)) {
        value("shellCommands(params.x)", &tokens.concat());
    }
}
