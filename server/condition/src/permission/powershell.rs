//! `PowerShell(Remove-Item *)`: patterns over the commands of a PowerShell text, whatever their case and alias.
//!
//! There is no parser for that language here: a text is cut at the operators between commands, and one with blocks,
//! subexpressions, variables or anything else that could hold a command runs the hook.

use super::command::CommandPattern;

/// A pattern over PowerShell commands.
#[derive(Debug)]
pub(super) struct PowerShellPattern(CommandPattern);

/// Aliases and the commands that they stand for, in lower case.
#[rustfmt::skip]
const ALIASES: [(&str, &str); 62] = [
    ("?", "where-object"), ("%", "foreach-object"), ("ac", "add-content"), ("cat", "get-content"),
    ("cd", "set-location"), ("chdir", "set-location"), ("clc", "clear-content"), ("cli", "clear-item"),
    ("clp", "clear-itemproperty"), ("copy", "copy-item"), ("cp", "copy-item"), ("cpi", "copy-item"),
    ("cpp", "copy-itemproperty"), ("curl", "invoke-webrequest"), ("del", "remove-item"), ("dir", "get-childitem"),
    ("echo", "write-output"), ("epcsv", "export-csv"), ("erase", "remove-item"), ("fl", "format-list"),
    ("foreach", "foreach-object"), ("ft", "format-table"), ("gc", "get-content"), ("gci", "get-childitem"),
    ("gcm", "get-command"), ("gi", "get-item"), ("gl", "get-location"), ("gm", "get-member"), ("gp", "get-itemproperty"),
    ("gps", "get-process"), ("group", "group-object"), ("gsv", "get-service"), ("h", "get-history"),
    ("icm", "invoke-command"), ("iex", "invoke-expression"), ("ii", "invoke-item"), ("irm", "invoke-restmethod"),
    ("iwr", "invoke-webrequest"), ("kill", "stop-process"), ("ls", "get-childitem"), ("md", "mkdir"),
    ("mi", "move-item"), ("move", "move-item"), ("mv", "move-item"), ("ni", "new-item"), ("ps", "get-process"),
    ("pwd", "get-location"), ("rd", "remove-item"), ("ren", "rename-item"), ("ri", "remove-item"), ("rm", "remove-item"),
    ("rmdir", "remove-item"), ("rni", "rename-item"), ("sajb", "start-job"), ("saps", "start-process"),
    ("sc", "set-content"), ("select", "select-object"), ("sl", "set-location"), ("sls", "select-string"),
    ("spps", "stop-process"), ("start", "start-process"), ("wget", "invoke-webrequest"),
];

impl PowerShellPattern {
    pub(super) fn new(text: &str) -> Self {
        Self(CommandPattern::new(&canonical(text)))
    }

    /// Whether the hook runs for `text`: it does where the text cannot be told.
    pub(super) fn runs(&self, text: &str) -> bool {
        commands(text).is_none_or(|commands| commands.iter().any(|command| self.0.matches(&canonical(command))))
    }
}

/// `text` in lower case, its first word without an alias.
fn canonical(text: &str) -> String {
    let text = text.trim().to_lowercase();
    let end = text.find(|c: char| c.is_whitespace() || matches!(c, '*' | ':')).unwrap_or(text.len());
    let (name, rest) = text.split_at_checked(end).unwrap_or((&text, ""));
    match ALIASES.iter().find(|(alias, _)| *alias == name) {
        Some((_, command)) => format!("{command}{rest}"),
        None => text,
    }
}

/// The commands of `text`; `None`: they cannot be told.
fn commands(text: &str) -> Option<Vec<String>> {
    let mut commands = vec![String::new()];
    let mut quote = None;
    for c in text.chars() {
        match (quote, c) {
            (Some('\''), '\'') | (Some('"'), '"') => quote = None,
            (Some('\''), _) => {}
            (_, '$' | '`' | '(' | '{' | '@' | '\u{2018}'..='\u{201f}') => return None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '|' | ';' | '&' | '\n' | '\r') => {
                commands.push(String::new());
                continue;
            }
            (None, _) => {}
        }
        if let Some(command) = commands.last_mut() {
            command.push(c);
        }
    }
    quote.is_none().then_some(commands)
}
