//! `glob(string, pattern)`: shell-like patterns over a whole string.
//!
//! `*` is any run of characters but `/`, `**` any run with `/` too (`**/` also none), `?` one character but `/`,
//! `[a-z]` and `[!a-z]` one character of a class and never `/`, `{a,b}` one of several, and `\` takes the next
//! character as it is. Letters differ by case, and a leading dot is a character like any other.

use std::fmt::Write as _;

/// The regular expression that matches what the glob `pattern` matches.
///
/// # Errors
/// What is wrong with the pattern, on one line.
pub(crate) fn glob_pattern(pattern: &str) -> Result<String, String> {
    let mut regex = String::from("^(?s:");
    let mut open: usize = 0;
    let mut rest = pattern.chars().peekable();
    let bad = |why: &str| Err(format!("the glob `{pattern}` is refused: {why}"));
    while let Some(c) = rest.next() {
        match c {
            '*' if rest.peek() == Some(&'*') => {
                while rest.next_if_eq(&'*').is_some() {}
                let starts_part = regex.ends_with(['/', ':']);
                if starts_part && rest.next_if_eq(&'/').is_some() {
                    regex.push_str("(?:.*/)?");
                } else {
                    regex.push_str(".*");
                }
            }
            '*' => regex.push_str("[^/]*"),
            '?' => regex.push_str("[^/]"),
            '{' => {
                open = open.saturating_add(1);
                regex.push_str("(?:");
            }
            ',' if open > 0 => regex.push('|'),
            '}' if open > 0 => {
                open = open.saturating_sub(1);
                regex.push(')');
            }
            '[' => {
                let class = class(&mut rest);
                let Some(class) = class else { return bad("`[` is not closed") };
                regex.push_str(&class);
            }
            '\\' => match rest.next() {
                Some(c) => literal(&mut regex, c),
                None => return bad("nothing follows `\\`"),
            },
            c => literal(&mut regex, c),
        }
    }
    if open > 0 {
        return bad("`{` is not closed");
    }
    regex.push_str(")$");
    Ok(regex)
}

/// The regular expression of a class up to its `]`, which the bracket may start with. It matches no `/`.
pub(crate) fn class(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<String> {
    let negated = rest.next_if(|c| matches!(c, '!' | '^')).is_some();
    let mut class = String::from(if negated { "[^/" } else { "[[" });
    let mut first = true;
    loop {
        match rest.next()? {
            ']' if !first => break,
            '-' => class.push('-'),
            '\\' => literal(&mut class, rest.next()?),
            c => literal(&mut class, c),
        }
        first = false;
    }
    class.push_str(if negated { "]" } else { "]&&[^/]]" });
    Some(class)
}

/// Adds what matches just `c`.
pub(crate) fn literal(regex: &mut String, c: char) {
    if c.is_ascii_punctuation() && c != '/' {
        // Writing to a string cannot fail.
        let _ = write!(regex, "\\x{:02X}", u32::from(c));
    } else {
        regex.push(c);
    }
}
