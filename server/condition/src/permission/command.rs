//! `Bash(git push *)`: patterns over the simple commands of a shell text.

use super::wildcard::Wildcard;
use crate::functions::{ShellTexts, ShellWord};

/// A pattern over commands. `*` is any run of characters; at the end, ` *` (or `:*`) also none, but a whole word.
#[derive(Debug)]
pub(super) struct CommandPattern {
    whole: Wildcard,
    /// Without the ` *` at the end, where it has one.
    bare: Option<Wildcard>,
    /// It names more than a command: what the shell puts in when it runs could match it.
    specific: bool,
    /// It holds operators or assignments of the shell, so it may be meant for a text as a whole.
    compound: bool,
}

/// A command that runs the one after it.
struct Wrapper {
    name: &'static str,
    /// Flags that take the next word as their value.
    valued: &'static [&'static str],
    /// Words between the flags and the command.
    operands: usize,
    /// Its flags make it something else than a wrapper.
    flagless: bool,
}

const fn wrapper(name: &'static str, valued: &'static [&'static str], operands: usize, flagless: bool) -> Wrapper {
    Wrapper { name, valued, operands, flagless }
}

const WRAPPERS: [Wrapper; 9] = [
    wrapper("timeout", &["-k", "--kill-after", "-s", "--signal"], 1, false),
    wrapper("time", &["-f", "--format", "-o", "--output"], 0, false),
    wrapper("nice", &["-n", "--adjustment"], 0, false),
    wrapper("nohup", &[], 0, false),
    wrapper("stdbuf", &["-i", "--input", "-o", "--output", "-e", "--error"], 0, false),
    wrapper("command", &[], 0, false),
    wrapper("builtin", &[], 0, false),
    wrapper("noglob", &[], 0, false),
    wrapper("xargs", &[], 0, true),
];

impl CommandPattern {
    pub(super) fn new(text: &str) -> Self {
        let text = text.trim();
        let spaced = text.strip_suffix(":*").map(|start| format!("{start} *"));
        let text = spaced.as_deref().unwrap_or(text);
        let bare = text.strip_suffix(" *").map(str::trim_end).filter(|bare| !bare.is_empty());
        let mut words = text.split_whitespace();
        let name = words.next().unwrap_or_default();
        Self {
            whole: Wildcard::new(text),
            bare: bare.map(Wildcard::new),
            specific: words.any(|word| word != "*"),
            compound: text.contains(['&', '|', ';', '<', '>', '\n']) || name.contains('='),
        }
    }

    /// Whether `text` is one.
    pub(super) fn matches(&self, text: &str) -> bool {
        self.whole.matches(text) || self.bare.as_ref().is_some_and(|bare| bare.matches(text))
    }

    /// Whether the hook runs for the shell text `command`: it does where the text cannot be told.
    pub(super) fn runs(&self, command: &str, texts: &ShellTexts) -> bool {
        if self.compound && self.matches(command.trim()) {
            return true;
        }
        texts.told(command, |told| match told {
            Err(_) => true,
            Ok(told) if self.specific && told.expands => true,
            Ok(told) => told.commands.iter().any(|words| self.matches_command(words)),
        })
    }

    fn matches_command(&self, words: &[ShellWord]) -> bool {
        let mut rest = words;
        loop {
            let Some(name) = rest.first() else { return false };
            if only_known_when_it_runs(name) || self.matches_words(rest) {
                return true;
            }
            match unwrapped(rest) {
                Some(inner) => rest = inner,
                None => return false,
            }
        }
    }

    fn matches_words(&self, words: &[ShellWord]) -> bool {
        let texts = words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>();
        if self.matches(&texts.join(" ")) {
            return true;
        }
        if words.iter().all(|word| word.written.is_none()) {
            return false;
        }
        let written = words.iter().map(|word| word.written.as_deref().unwrap_or(&word.text)).collect::<Vec<_>>();
        self.matches(&written.join(" "))
    }
}

/// Whether the name of a command could be any: `$TOOL`, `{rm,-rf}`.
fn only_known_when_it_runs(name: &ShellWord) -> bool {
    let written = name.written.as_deref().unwrap_or(&name.text);
    let braces = written.contains('{') && (written.contains(',') || written.contains(".."));
    written.contains(['$', '`']) || braces
}

/// The command that the wrapper in `words` runs. `None`: there is no wrapper, or it runs nothing.
fn unwrapped(words: &[ShellWord]) -> Option<&[ShellWord]> {
    let (name, mut rest) = words.split_first()?;
    let wrapper = WRAPPERS.iter().find(|wrapper| wrapper.name == name.text)?;
    while let Some((flag, after)) = rest.split_first() {
        let flag = flag.text.as_str();
        if !flag.starts_with('-') || flag == "-" {
            break;
        }
        // `command -v` looks a command up and runs none.
        if wrapper.flagless || (wrapper.name == "command" && flag != "-p" && flag != "--") {
            return None;
        }
        rest = after;
        if flag == "--" {
            break;
        }
        if wrapper.valued.contains(&flag) {
            rest = rest.split_first().map(|(_, after)| after)?;
        }
    }
    rest.get(wrapper.operands..).filter(|rest| !rest.is_empty())
}
