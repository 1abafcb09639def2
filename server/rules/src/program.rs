//! What the program of a command rule is started with, on hookd's machine or on the caller's.
//!
//! A rule that speaks Claude Code's protocol finds that agent's variables besides hookd's own:
//!
//! | Variable | Here |
//! | --- | --- |
//! | `CLAUDE_PROJECT_DIR` | the first workspace root that the caller names, or else its working directory; not set where it names neither |
//! | `CLAUDE_PLUGIN_ROOT` | the plugin's folder, for rules of the plugin tier and of a plugin's file in any tier |
//! | `CLAUDE_PLUGIN_DATA` | that plugin's data folder, where the plugin lies in the agent's own cache of plugins |
//! | `CLAUDE_CODE_SESSION_ID`, `CLAUDE_EFFORT`, `TRACEPARENT` | of the call |
//! | `CLAUDECODE`, `CLAUDE_CODE_CHILD_SESSION` | `1` |
//!
//! Not offered: `CLAUDE_ENV_FILE` (nothing would read it on the agent's side), `CLAUDE_PID`, `CLAUDE_CODE_REMOTE` and
//! the like, which say something of the agent's own process, and `CLAUDE_PLUGIN_OPTION_…`, which stand in the agent's
//! settings. On the caller's side they are there where the agent set them.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use hookd_json::Value;

use crate::{CommandHandler, Program, Protocol, Rule, Shell, plugin_root};

/// Longest value of a variable that holds something of the caller's, in bytes. One that is longer is left out, since
/// it would keep the program from starting; it stands in the input anyway.
const IDENTIFIER_BYTES: usize = 4096;

/// Variables of a program that belong to one call, by name.
pub type CallVariables = Vec<(OsString, OsString)>;

/// What of a call its programs find in their environment. Empty: not known.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallFacts<'a> {
    /// The event's name.
    pub event: &'a str,
    /// The tool's name.
    pub tool: &'a str,
    /// The agent's session.
    pub session_id: &'a str,
    /// hookd's id of the decision.
    pub decision_id: &'a str,
    /// The agent's working directory.
    pub cwd: &'a str,
    /// Root directories of the agent's workspace.
    pub workspace_roots: &'a [String],
    /// What else belongs to the event, a JSON object.
    pub payload: &'a str,
    /// The caller's trace.
    pub traceparent: &'a str,
}

impl Rule {
    /// The program of `handler`, which is this rule's, and the variables that are the event's, as the rule's protocol has
    /// them; those that the handler adds itself are not in it.
    ///
    /// # Errors
    /// A placeholder in the arguments stands for nothing here: a program is never started with a literal `${…}` or with a
    /// path that lost its beginning. One line.
    pub fn program(
        &self,
        handler: &CommandHandler,
        call: &CallFacts<'_>,
    ) -> Result<(Vec<OsString>, CallVariables), String> {
        let own = [
            ("HOOKD_EVENT", call.event),
            ("HOOKD_TOOL", call.tool),
            ("HOOKD_SESSION_ID", call.session_id),
            ("HOOKD_RULE_ID", &self.id),
            ("HOOKD_DECISION_ID", call.decision_id),
            ("HOOKD_CWD", call.cwd),
        ];
        let mut variables = set(&own);
        let argv = match (&handler.program, self.protocol) {
            (program, Protocol::Native) => program.words(),
            (program, Protocol::ClaudeCode) => {
                let agents = Variables::of(self, call);
                variables.extend(set(&agents.list()));
                match program {
                    Program::Argv(words) => words.iter().map(|word| agents.fill(word)).collect::<Result<_, _>>()?,
                    shell @ Program::Shell(..) => shell.words(),
                }
            }
        };
        Ok((argv, variables))
    }
}

impl Program {
    /// The program and its arguments, as they are written.
    #[must_use]
    pub fn words(&self) -> Vec<OsString> {
        match self {
            Self::Shell(shell, line) => {
                let shell = match shell {
                    Shell::Sh => "sh",
                    Shell::Bash => "bash",
                };
                vec![shell.into(), "-c".into(), line.into()]
            }
            Self::Argv(argv) => argv.iter().map(OsString::from).collect(),
        }
    }
}

/// Those that are set, less what a program cannot be started with.
fn set(all: &[(&'static str, &str)]) -> Vec<(OsString, OsString)> {
    all.iter()
        .filter(|(_, value)| !value.is_empty() && value.len() <= IDENTIFIER_BYTES && !value.contains('\0'))
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

/// Claude Code's variables. Empty ones are not set.
#[derive(Debug, PartialEq, Eq, Default)]
struct Variables {
    project_dir: String,
    plugin_root: String,
    plugin_data: String,
    session_id: String,
    effort: String,
    traceparent: String,
}

impl Variables {
    fn of(rule: &Rule, call: &CallFacts<'_>) -> Self {
        let absolute = |path: &&str| Path::new(path).is_absolute();
        let roots = call.workspace_roots.iter().map(String::as_str).chain([call.cwd]);
        let text = |path: &Path| path.to_str().unwrap_or_default().to_owned();
        let root = root(rule);
        Self {
            project_dir: roots.into_iter().find(absolute).unwrap_or_default().to_owned(),
            plugin_root: root.map(text).unwrap_or_default(),
            plugin_data: root.and_then(data).as_deref().map(text).unwrap_or_default(),
            session_id: call.session_id.to_owned(),
            effort: effort(call.payload).unwrap_or_default(),
            traceparent: call.traceparent.to_owned(),
        }
    }

    fn list(&self) -> [(&'static str, &str); 8] {
        [
            ("CLAUDE_PROJECT_DIR", &self.project_dir),
            ("CLAUDE_PLUGIN_ROOT", &self.plugin_root),
            ("CLAUDE_PLUGIN_DATA", &self.plugin_data),
            ("CLAUDE_CODE_SESSION_ID", &self.session_id),
            ("CLAUDE_EFFORT", &self.effort),
            ("TRACEPARENT", &self.traceparent),
            ("CLAUDECODE", "1"),
            ("CLAUDE_CODE_CHILD_SESSION", "1"),
        ]
    }

    /// What `${name}` stands for. `None`: it is no placeholder, and stays as it is.
    fn placeholder(&self, name: &str) -> Option<&str> {
        match name {
            "CLAUDE_PROJECT_DIR" => Some(&self.project_dir),
            "CLAUDE_PLUGIN_ROOT" => Some(&self.plugin_root),
            "CLAUDE_PLUGIN_DATA" => Some(&self.plugin_data),
            _ if name.starts_with("user_config.") => Some(""),
            _ => None,
        }
    }

    /// A word with its placeholders filled in, as plain text: no shell reads it, and what stands for a placeholder is not
    /// looked through for others.
    fn fill(&self, word: &str) -> Result<OsString, String> {
        let mut filled = String::new();
        let mut rest = word;
        while let Some((before, (name, after))) =
            rest.split_once("${").and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
        {
            filled.push_str(before);
            rest = after;
            match self.placeholder(name) {
                None => filled.extend(["${", name, "}"]),
                Some("") => return Err(format!("`${{{name}}}` in the arguments stands for nothing here")),
                Some(value) if value.contains('\0') => {
                    return Err(format!("`${{{name}}}` in the arguments stands for text with a NUL in it"));
                }
                Some(value) => filled.push_str(value),
            }
        }
        filled.push_str(rest);
        Ok(filled.into())
    }
}

/// The folder of the plugin that a rule belongs to.
fn root(rule: &Rule) -> Option<&Path> {
    plugin_root(rule.tier, &rule.file)
}

/// The agent keeps a plugin in `plugins/cache/MARKETPLACE/PLUGIN/VERSION` and its data in
/// `plugins/data/PLUGIN-MARKETPLACE`.
fn data(root: &Path) -> Option<PathBuf> {
    let plugin = root.parent()?;
    let marketplace = plugin.parent()?;
    let cache = marketplace.parent()?;
    let plugins = cache.parent()?;
    let is_named = |path: &Path, name: &str| path.file_name() == Some(OsStr::new(name));
    if !is_named(cache, "cache") || !is_named(plugins, "plugins") {
        return None;
    }
    let id = format!("{}-{}", plugin.file_name()?.to_str()?, marketplace.file_name()?.to_str()?);
    let id = id.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '-' });
    Some(plugins.join("data").join(id.collect::<String>()))
}

/// The level of effort, where the agent tells it. Looked for only in payloads that hold the word.
fn effort(payload: &str) -> Option<String> {
    if !payload.contains("\"effort\"") {
        return None;
    }
    match hookd_json::parse(payload).ok()?.get("effort")?.get("level")? {
        Value::String(level) => Some(level.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
