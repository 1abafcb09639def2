//! Tells a program that could not be launched from one that meant its exit code: interpreters leave with a code of
//! their own where the script is missing or cannot be parsed, and some of these codes mean "block" to an agent.

/// What stands in the first line of stderr then: all the parts of one of these, in their order. Programs that leave
/// with 2 and more among them.
const FIRST_LINE: &[&[&str]] = &[
    // Python
    &["python", ": can't open file "],
    &["python", ": No module named "],
    // Shells. `sh: 1: Syntax error`, `h.sh: line 3: syntax error near`, `sh: 0: cannot open h.sh: No such file`
    &[": Syntax error: "],
    &[": syntax error near "],
    &[": syntax error: "],
    &[": unexpected EOF while looking for matching "],
    &[": Illegal option "],
    &[": invalid option name"],
    &["sh: ", ": cannot open "],
    &["sh: ", ": No such file or directory"],
    &["sh: ", ": Can't open "],
    &[": bad interpreter: "],
    &[": cannot execute binary file"],
    &["Exec format error"],
    &["env: ", ": No such file or directory"],
    // Other interpreters and runners
    &["Can't open perl script "],
    &["ruby: No such file or directory -- "],
    &["Could not open input file: "],
    &["Unable to access jarfile "],
    &["error: Module not found "],
    &["error: Failed to spawn: "],
    &["make: *** No "],
    &["Makefile:", "*** "],
];

/// Tools that leave with 2 where they cannot read something, and start their message with their name.
const TOOLS_OF_TWO: [&str; 12] =
    ["grep: ", "egrep: ", "fgrep: ", "ls: ", "sort: ", "diff: ", "cmp: ", "tar: ", "jq: ", "awk: ", "gawk: ", "mawk: "];

/// What stands in some line of stderr when an interpreter leaves with 1.
const ANY_LINE_OF_ONE: [&str; 5] = [
    "Error: Cannot find module ",
    "ModuleNotFoundError: ",
    "(LoadError)",
    "SyntaxError: ",
    "Error [ERR_MODULE_NOT_FOUND]",
];

/// Whether a program that exited with `code` seems not to have got as far as deciding anything.
pub(super) fn looks_unlaunched(code: i32, stderr: &[u8]) -> bool {
    if code == 0 {
        return false;
    }
    if matches!(code, 126 | 127) {
        return true;
    }
    let text = String::from_utf8_lossy(stderr.get(..4096).unwrap_or(stderr));
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    FIRST_LINE.iter().any(|parts| stand_in(first, parts))
        || (code == 1 && text.lines().any(|line| ANY_LINE_OF_ONE.iter().any(|sign| line.contains(sign))))
        || (code == 2 && TOOLS_OF_TWO.iter().any(|tool| first.starts_with(tool)))
        // Options that the script does not know: the text is argparse's.
        || (code == 2 && first.starts_with("usage: ") && lines.any(|line| line.contains(": error: ")))
}

/// Whether all parts stand in `line`, one after another.
fn stand_in(line: &str, parts: &[&str]) -> bool {
    let mut rest = line;
    parts.iter().all(|part| match rest.split_once(part) {
        Some((_, after)) => {
            rest = after;
            true
        }
        None => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_018_what_interpreters_print_is_told_from_what_hooks_print() {
        for (code, stderr) in [
            (126, ""),
            (127, "sh: 1: nope: not found\n"),
            (2, "python3: can't open file '/nope/hook.py': [Errno 2] No such file or directory\n"),
            (2, "/usr/bin/python3: can't open file '/x.py': [Errno 13] Permission denied"),
            (1, "/usr/bin/python3: No module named nope"),
            (
                1,
                "Traceback (most recent call last):\n  File \"h.py\", line 1\nModuleNotFoundError: No module named 'x'",
            ),
            (1, "  File \"h.py\", line 1\n    if\n     ^\nSyntaxError: invalid syntax\n"),
            (2, "usage: hook.py [-h]\nhook.py: error: unrecognized arguments: --x\n"),
            (2, "sh: 1: Syntax error: \"then\" unexpected\n"),
            (2, "h.sh: 3: Syntax error: Unterminated quoted string"),
            (2, "\nbash: -c: line 1: unexpected EOF while looking for matching `\"'\nbash: -c: line 2: …"),
            (2, "h.sh: line 4: syntax error near unexpected token `fi'"),
            (2, "sh: 1: set: Illegal option -o pipefail"),
            (2, "sh: 0: cannot open /nope.sh: No such file"),
            (2, "Can't open perl script \"/nope.pl\": No such file or directory"),
            (1, "ruby: No such file or directory -- nope.rb (LoadError)"),
            (1, "node:internal/modules/cjs/loader:1210\n  throw err;\n  ^\n\nError: Cannot find module '/nope.js'\n"),
            (2, "grep: /nope: No such file or directory"),
            (2, "jq: error: Could not open file /nope: No such file or directory"),
            (2, "make: *** No rule to make target 'guard'.  Stop."),
        ] {
            assert!(looks_unlaunched(code, stderr.as_bytes()), "{code} {stderr}");
        }
        for (code, stderr) in [
            (0, "sh: 1: Syntax error: x"),
            (2, ""),
            (2, "no pushing to main"),
            (1, "no"),
            (2, "h.py does not parse: SyntaxError: invalid syntax"),
            (2, "refused\nsh: 1: Syntax error: x"),
            (2, "the file is missing: No such file or directory"),
            (1, "grep: /nope: No such file or directory"),
            (2, "usage: git push needs a branch"),
            (1, "usage: guard [-h]\nguard: error: no pushing to main\n"),
            (2, "no push: grep: is what this hook is about"),
            (2, "hook: No module named python may be installed"),
            (2, "\u{fffd}\u{fffd}"),
        ] {
            assert!(!looks_unlaunched(code, stderr.as_bytes()), "{code} {stderr}");
        }
    }
}
