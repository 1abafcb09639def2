//! Patterns of JavaScript, as far as an engine in linear time can run them.
//!
//! Claude Code tests matchers with `new RegExp(text)`, without flags. What is written alike but means another thing in
//! the `regex` crate (`\d`, `\s`, `.`, `\<`, `[a&&b]`, `x{`, `(?i)`, …) is written anew, and what that crate cannot run
//! (look-around, back-references) or JavaScript refuses is an error, never a pattern that means something else.

use std::{fmt::Write as _, iter::Peekable, str::Chars};

const DIGIT: &str = "0-9";
const WORD: &str = "0-9A-Za-z_";
/// White space and line terminators of ECMAScript.
const SPACE: &str = r"\t\n\x0b\x0c\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff";
const NOT_A_LINE_END: &str = r"[^\n\r\u2028\u2029]";

/// The pattern of the `regex` crate that matches what the JavaScript pattern `text` matches.
///
/// # Errors
/// Why there is none, on one line, lowercase.
pub(super) fn translate(text: &str) -> Result<String, String> {
    let mut translator = Translator { rest: text.chars().peekable(), pattern: String::new() };
    translator.all()?;
    Ok(translator.pattern)
}

/// A pattern of JavaScript as one of the native form, written as it was where that means the same.
///
/// # Errors
/// As for a matcher of Claude Code's files: why there is none, on one line, lowercase.
pub fn native(text: &str) -> Result<String, String> {
    Ok(readable(text, &translate(text)?))
}

/// `text`, if it means in the native form what its translation does, else the translation. That `.` matches line ends but
/// `\n` in the native form is no difference here: no name has them, and a guard that matched one would match too much, not
/// too little.
pub(crate) fn readable(text: &str, translation: &str) -> String {
    let meant = regex_syntax::parse(&translation.replace(NOT_A_LINE_END, "."));
    let is_same = meant.is_ok_and(|meant| regex_syntax::parse(text).is_ok_and(|text| text == meant));
    if is_same { text.to_owned() } else { translation.to_owned() }
}

struct Translator<'t> {
    rest: Peekable<Chars<'t>>,
    pattern: String,
}

/// What an escape stands for.
enum Escape {
    Char(char),
    /// The characters of this range list, or all others.
    Class(&'static str, bool),
    /// A word boundary, or its opposite.
    Boundary(&'static str),
}

impl Translator<'_> {
    fn all(&mut self) -> Result<(), String> {
        // Whether a quantifier may come next.
        let mut repeatable = false;
        while let Some(char) = self.rest.next() {
            repeatable = match char {
                '\\' => self.escape()?,
                '[' => self.class()?,
                '(' => self.group()?,
                ')' => self.push(")", true),
                '|' => self.push("|", false),
                '^' => self.push("^", false),
                '$' => self.push("$", false),
                '.' => self.push(NOT_A_LINE_END, true),
                '*' | '+' | '?' => self.quantifier(&char.to_string(), repeatable)?,
                '{' => match self.counts() {
                    Some(counts) => self.quantifier(&counts, repeatable)?,
                    None => self.literal('{'),
                },
                char => self.literal(char),
            };
        }
        Ok(())
    }

    fn push(&mut self, text: &str, repeatable: bool) -> bool {
        self.pattern.push_str(text);
        repeatable
    }

    fn literal(&mut self, char: char) -> bool {
        push_char(&mut self.pattern, char);
        true
    }

    fn quantifier(&mut self, text: &str, repeatable: bool) -> Result<bool, String> {
        if !repeatable {
            return Err(format!("there is nothing to repeat before `{text}`"));
        }
        self.pattern.push_str(text);
        if self.rest.next_if_eq(&'?').is_some() {
            self.pattern.push('?');
        }
        Ok(false)
    }

    /// The rest of `{n}`, `{n,}` or `{n,m}`; a brace that starts none of them stands for itself.
    fn counts(&mut self) -> Option<String> {
        let mut ahead = self.rest.clone();
        let mut text = "{".to_owned();
        let digits = |ahead: &mut Peekable<Chars<'_>>, text: &mut String| {
            let before = text.len();
            while let Some(digit) = ahead.next_if(char::is_ascii_digit) {
                text.push(digit);
            }
            text.len() > before
        };
        if !digits(&mut ahead, &mut text) {
            return None;
        }
        if ahead.next_if_eq(&',').is_some() {
            text.push(',');
            digits(&mut ahead, &mut text);
        }
        ahead.next_if_eq(&'}')?;
        text.push('}');
        self.rest = ahead;
        Some(text)
    }

    fn group(&mut self) -> Result<bool, String> {
        if self.rest.next_if_eq(&'?').is_none() {
            return Ok(self.push("(", false));
        }
        let mut ahead = self.rest.clone();
        let start = [ahead.next(), ahead.next()];
        match start {
            [Some(':'), _] => {
                self.rest.next();
                Ok(self.push("(?:", false))
            }
            [Some('=' | '!'), _] | [Some('<'), Some('=' | '!')] => {
                Err("look-around (`(?=`, `(?!`, `(?<=`, `(?<!`) is not supported".to_owned())
            }
            // A name: its text says no more than that the group has one.
            [Some('<'), _] => {
                let name = self.rest.by_ref().skip(1).take_while(|char| *char != '>').collect::<String>();
                let starts_well = name.starts_with(|char: char| char.is_alphabetic() || matches!(char, '_' | '$'));
                if !starts_well || !name.chars().all(|char| char.is_alphanumeric() || matches!(char, '_' | '$')) {
                    return Err("a group has a name that JavaScript refuses".to_owned());
                }
                Ok(self.push("(", false))
            }
            _ => Err("`(?` is followed by what JavaScript refuses".to_owned()),
        }
    }

    /// What follows a backslash outside of brackets.
    fn escape(&mut self) -> Result<bool, String> {
        if matches!(self.rest.peek(), Some('1'..='9' | 'k')) {
            return Err("back-references are not supported".to_owned());
        }
        Ok(match self.escaped(false)? {
            Escape::Char(char) => self.literal(char),
            Escape::Class(ranges, false) => self.push(&format!("[{ranges}]"), true),
            Escape::Class(ranges, true) => self.push(&format!("[^{ranges}]"), true),
            Escape::Boundary(boundary) => self.push(boundary, false),
        })
    }

    fn escaped(&mut self, in_class: bool) -> Result<Escape, String> {
        let Some(char) = self.rest.next() else { return Err("it ends with a backslash".to_owned()) };
        Ok(match char {
            'd' => Escape::Class(DIGIT, false),
            'D' => Escape::Class(DIGIT, true),
            'w' => Escape::Class(WORD, false),
            'W' => Escape::Class(WORD, true),
            's' => Escape::Class(SPACE, false),
            'S' => Escape::Class(SPACE, true),
            'b' if in_class => Escape::Char('\u{8}'),
            'b' => Escape::Boundary(r"(?-u:\b)"),
            'B' if !in_class => Escape::Boundary(r"(?-u:\B)"),
            'n' => Escape::Char('\n'),
            'r' => Escape::Char('\r'),
            't' => Escape::Char('\t'),
            'v' => Escape::Char('\u{b}'),
            'f' => Escape::Char('\u{c}'),
            '0' if !self.rest.peek().is_some_and(char::is_ascii_digit) => Escape::Char('\0'),
            '0'..='9' => return Err("octal escapes are not supported".to_owned()),
            'c' => return Err("control escapes (`\\c`) are not supported".to_owned()),
            'x' => Escape::Char(self.hex(2).unwrap_or('x')),
            'u' => Escape::Char(self.hex(4).unwrap_or('u')),
            char => Escape::Char(char),
        })
    }

    /// The character of the next `digits` hex digits; without them the letter before stands for itself.
    fn hex(&mut self, digits: usize) -> Option<char> {
        let mut ahead = self.rest.clone();
        let text = ahead.by_ref().take(digits).collect::<String>();
        if text.len() != digits || !text.chars().all(|char| char.is_ascii_hexdigit()) {
            return None;
        }
        let char = char::from_u32(u32::from_str_radix(&text, 16).ok()?)?;
        self.rest = ahead;
        Some(char)
    }

    fn class(&mut self) -> Result<bool, String> {
        let negated = self.rest.next_if_eq(&'^').is_some();
        let mut items = String::new();
        loop {
            match self.class_atom()? {
                None => break,
                Some(Escape::Char(first)) => match self.range_end()? {
                    Some(last) if last < first => return Err("a range in brackets is out of order".to_owned()),
                    Some(last) => {
                        push_char(&mut items, first);
                        items.push('-');
                        push_char(&mut items, last);
                    }
                    None => push_char(&mut items, first),
                },
                Some(Escape::Class(ranges, false)) => items.push_str(&format!("[{ranges}]")),
                Some(Escape::Class(ranges, true)) => items.push_str(&format!("[^{ranges}]")),
                Some(Escape::Boundary(_)) => return Err("a word boundary stands in brackets".to_owned()),
            }
        }
        Ok(match (items.as_str(), negated) {
            ("", false) => self.push(r"[^\s\S]", true),
            ("", true) => self.push(r"[\s\S]", true),
            (items, false) => self.push(&format!("[{items}]"), true),
            (items, true) => self.push(&format!("[^{items}]"), true),
        })
    }

    /// The next character or class in brackets; `None` at their end.
    fn class_atom(&mut self) -> Result<Option<Escape>, String> {
        match self.rest.next() {
            None => Err("a bracket is not closed".to_owned()),
            Some(']') => Ok(None),
            Some('\\') => self.escaped(true).map(Some),
            Some(char) => Ok(Some(Escape::Char(char))),
        }
    }

    /// The end of a range whose start was just read. A hyphen before a class or a closing bracket stands for itself.
    fn range_end(&mut self) -> Result<Option<char>, String> {
        let before = self.rest.clone();
        if self.rest.next_if_eq(&'-').is_none() {
            return Ok(None);
        }
        match self.class_atom()? {
            Some(Escape::Char(last)) => Ok(Some(last)),
            _ => {
                self.rest = before;
                Ok(None)
            }
        }
    }
}

/// `char` as it stands for itself inside and outside of brackets.
fn push_char(pattern: &mut String, char: char) {
    if char.is_ascii_alphanumeric() || !char.is_ascii() || matches!(char, '_' | ' ' | '/' | ',' | ':') {
        pattern.push(char);
    } else {
        // Writing to a string does not fail.
        let _ = write!(pattern, "\\x{:02x}", u32::from(char));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex::Regex;

    use super::*;

    #[test]
    fn patterns_match_what_they_match_in_javascript() {
        for (pattern, hits, misses) in [
            ("Edit.*", &["Edit", "NotebookEdit", "MultiEdit"][..], &["edit"][..]),
            ("^mcp__.*__(read|view|cat)(_file|_files)?$", &["mcp__fs__read_file"], &["mcp__fs__write_file"]),
            ("mcp__[^_]+__[^_]+", &["mcp__a__b"], &["mcp__some_server__list"]),
            (r"^\d+$", &["12"], &["١٢"]),
            (r"^\w+$", &["a_1"], &["é"]),
            (r"^\S$", &["\u{85}"], &["\u{feff}", "\u{3000}"]),
            (r"\bfile\b", &["a file", "éfile"], &["afile"]),
            ("^a.b$", &["a\u{85}b"], &["a\nb", "a\u{2028}b"]),
            (r"^\<a\/\-\_$", &["<a/-_"], &["a"]),
            ("^[a&&b~~[]$", &["&", "~", "[", "a"], &["c"]),
            (r"^[\w-.]$", &["-", ".", "z"], &[","]),
            ("^[a-c-e]$", &["b", "-", "e"], &["d"]),
            ("^[^]$", &["\n"], &[""]),
            ("^x[]$", &[], &["x", ""]),
            ("^a{2}b{,3}{$", &["aab{,3}{"], &["aab"]),
            ("^a{1,}?$", &["aaa"], &[""]),
            ("^(?:a|(?<n>b))$", &["a", "b"], &["n"]),
            (r"^\u0041\x42\0$", &["AB\0"], &["u0041"]),
            (r"^\p{L}$", &["p{L}"], &["é"]),
            (r"a\Bb", &["ab"], &["a b"]),
            ("mcp__*", &["mcp__", "mcp_", "mcp__a__b"], &["mcp"]),
            ("#", &["a#b"], &["a"]),
        ] {
            let regex = Regex::new(&translate(pattern).unwrap()).unwrap();
            for (subjects, expected) in [(hits, true), (misses, false)] {
                for subject in subjects {
                    assert_eq!(regex.is_match(subject), expected, "{pattern} on {subject:?}");
                }
            }
        }
    }

    #[test]
    fn what_javascript_refuses_or_no_linear_engine_runs_is_an_error() {
        for pattern in [
            "^(?!Read$).*",
            "(?=a)",
            "(?<=a)b",
            "(?<!a)b",
            r"(a)\1",
            r"(?<a>x)\k<a>",
            "(?i)bash",
            "(?P<a>b)",
            "(?x)a",
            "a++",
            "a**",
            "*",
            "+a",
            "(|?)",
            "^*",
            "[b-a]",
            "[a",
            r"a\",
            r"\07",
            r"\cA",
            r"\b+",
            "(?<1>a)",
        ] {
            let error = translate(pattern).unwrap_err();
            assert!(!error.is_empty() && !error.contains('\n'), "{pattern}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_translated_or_refused(text in r"[\\a-c(){}\[\]|^$.*+?<>=!:,\-dwsbkux0-9é&~ ]{0,16}") {
            if let Ok(pattern) = translate(&text) {
                // What is left to refuse is what both refuse: unbalanced groups, counts out of order or too large.
                if let Err(error) = Regex::new(&pattern) {
                    let error = error.to_string();
                    let known = ["group", "repetition", "size limit", "empty"].iter().any(|word| error.contains(word));
                    prop_assert!(known, "{text} → {pattern}: {error}");
                }
            }
        }
    }
}
