//! What a command finds in its environment, and what the placeholders of its arguments stand for.
//!
//! | Variable | Here |
//! | --- | --- |
//! | `CLAUDE_PROJECT_DIR` | the first workspace root that the caller names, or else its working directory; not set where it names neither |
//! | `CLAUDE_PLUGIN_ROOT` | the plugin's folder, for rules of the plugin tier and of a `hooks/hooks.json` in any tier |
//! | `CLAUDE_PLUGIN_DATA` | that plugin's data folder, where the plugin lies in the agent's own cache of plugins |
//! | `CLAUDE_CODE_SESSION_ID`, `CLAUDE_EFFORT`, `TRACEPARENT` | of the call |
//! | `CLAUDECODE`, `CLAUDE_CODE_CHILD_SESSION` | `1` |
//!
//! Not offered: `CLAUDE_ENV_FILE` (nothing would read it on the agent's side), `CLAUDE_PID`, `CLAUDE_CODE_REMOTE` and
//! the like, which say something of the agent's own process, and `CLAUDE_PLUGIN_OPTION_…`, which stand in the agent's
//! settings.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use hookd_json::Value;

use crate::model::{Failed, Failure, Rule, Tier, Trigger};

/// The variables of one rule, and of one call where there is one. Empty ones are not set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::run) struct Variables {
    project_dir: String,
    plugin_root: String,
    plugin_data: String,
    session_id: String,
    effort: String,
    traceparent: String,
}

impl Variables {
    /// Those that a rule has whatever the call.
    pub(in crate::run) fn of_rule(rule: &Rule) -> Self {
        let root = plugin_root(rule);
        let text = |path: PathBuf| path.into_os_string().into_string().unwrap_or_default();
        Self {
            plugin_data: root.as_deref().and_then(plugin_data).map(text).unwrap_or_default(),
            plugin_root: root.map(text).unwrap_or_default(),
            ..Self::default()
        }
    }

    /// Those of a call too.
    pub(in crate::run) fn of(rule: &Rule, trigger: &Trigger) -> Self {
        let absolute = |path: &&String| Path::new(path.as_str()).is_absolute();
        let roots = trigger.session.workspace_roots.iter().chain(std::iter::once(&trigger.cwd));
        Self {
            project_dir: roots.into_iter().find(absolute).cloned().unwrap_or_default(),
            session_id: trigger.session_id.clone(),
            effort: effort(&trigger.payload).unwrap_or_default(),
            traceparent: trigger.traceparent.clone(),
            ..Self::of_rule(rule)
        }
    }

    /// Names and values, those that are not set with an empty one.
    pub(in crate::run) fn list(&self) -> [(&'static str, &str); 8] {
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
}

/// A program and its arguments with their placeholders filled in, as plain text: no shell reads them. What stands for
/// a placeholder is not looked through for others.
///
/// # Errors
/// [`Failure::DidNotStart`] where one of them stands for nothing here: a program is never started with a literal
/// `${…}` or with a path that lost its beginning.
pub(in crate::run) fn argv(words: &[String], variables: &Variables) -> Result<Vec<OsString>, Failed> {
    words.iter().map(|word| fill(word, variables).map(OsString::from)).collect()
}

fn fill(word: &str, variables: &Variables) -> Result<String, Failed> {
    let mut filled = String::new();
    let mut rest = word;
    while let Some((before, (name, after))) =
        rest.split_once("${").and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
    {
        filled.push_str(before);
        rest = after;
        match variables.placeholder(name) {
            None => filled.extend(["${", name, "}"]),
            Some("") => {
                let message = format!("`${{{name}}}` in the arguments stands for nothing here");
                return Err(Failed::new(Failure::DidNotStart, message));
            }
            Some(value) if value.contains('\0') => {
                let message = format!("`${{{name}}}` in the arguments stands for text with a NUL in it");
                return Err(Failed::new(Failure::DidNotStart, message));
            }
            Some(value) => filled.push_str(value),
        }
    }
    filled.push_str(rest);
    Ok(filled)
}

/// A plugin keeps its hooks in `hooks/hooks.json` or in its manifest, `.claude-plugin/plugin.json`.
fn plugin_root(rule: &Rule) -> Option<PathBuf> {
    let folder = rule.file.parent()?;
    let is_in = |name: &str| folder.file_name() == Some(OsStr::new(name));
    let is_named = |name: &str| rule.file.file_name() == Some(OsStr::new(name));
    let inside = is_in("hooks") || is_in(".claude-plugin");
    let of_a_plugin = rule.tier == Tier::Plugin
        || (is_in("hooks") && is_named("hooks.json"))
        || (is_in(".claude-plugin") && is_named("plugin.json"));
    let root = if inside { folder.parent()? } else { folder };
    of_a_plugin.then(|| root.to_owned())
}

/// The agent keeps a plugin in `plugins/cache/MARKETPLACE/PLUGIN/VERSION` and its data in
/// `plugins/data/PLUGIN-MARKETPLACE`.
fn plugin_data(root: &Path) -> Option<PathBuf> {
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
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        model::Verdict,
        run::testing::{self, failed, trigger},
    };

    fn rule(tier: Tier, file: &str) -> Rule {
        Rule { file: Arc::from(Path::new(file)), ..testing::decide(tier, Verdict::Ask) }
    }

    #[test]
    fn the_project_is_the_first_workspace_root_or_the_working_directory() {
        let rule = rule(Tier::Shared, "/w/.claude/settings.json");
        for (roots, cwd, expected) in [
            (&[][..], "", ""),
            (&[], "/w/deep", "/w/deep"),
            (&["/w"], "/w/deep", "/w"),
            (&["relative", "/v"], "/w", "/v"),
            (&["relative"], "elsewhere", ""),
        ] {
            let mut trigger = trigger("PreToolUse", "{}");
            trigger.cwd = cwd.to_owned();
            trigger.session.workspace_roots = roots.iter().map(|root| (*root).to_owned()).collect();
            assert_eq!(Variables::of(&rule, &trigger).project_dir, expected, "{roots:?} {cwd}");
        }
    }

    #[test]
    fn case_055_each_plugin_has_its_own_root_and_data() {
        let cache = "/home/me/.claude/plugins/cache/acme.market/lint/1.2.0";
        let data = "/home/me/.claude/plugins/data/lint-acme-market";
        for (tier, file, root, data) in [
            (Tier::Plugin, "/plugins/a/hooks/hooks.json", "/plugins/a", ""),
            (Tier::Plugin, "/plugins/b/.claude-plugin/plugin.json", "/plugins/b", ""),
            (Tier::Plugin, "/plugins/c/more.json", "/plugins/c", ""),
            (Tier::Plugin, &*format!("{cache}/hooks/hooks.json"), cache, data),
            (Tier::Managed, "/etc/hookd/guards/hooks/hooks.json", "/etc/hookd/guards", ""),
            (Tier::Managed, "/etc/hookd/managed/hooks.json", "", ""),
            (Tier::Shared, "/w/.claude/settings.json", "", ""),
        ] {
            let expected =
                Variables { plugin_root: root.to_owned(), plugin_data: data.to_owned(), ..Variables::default() };
            assert_eq!(Variables::of_rule(&rule(tier, file)), expected, "{file}");
        }
    }

    #[test]
    fn case_058_placeholders_of_arguments_are_plain_text() {
        let variables = Variables {
            project_dir: "/tmp/a b".to_owned(),
            plugin_root: "/plugins/${CLAUDE_PROJECT_DIR}".to_owned(),
            ..Variables::default()
        };
        let fill = |words: &[&str]| argv(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>(), &variables);
        assert_eq!(
            fill(&[
                "${CLAUDE_PROJECT_DIR}/h.sh",
                "a${CLAUDE_PROJECT_DIR}b${CLAUDE_PROJECT_DIR}",
                "${CLAUDE_PLUGIN_ROOT}",
                "${HOME} $CLAUDE_PROJECT_DIR ${open",
                "",
            ]),
            Ok(["/tmp/a b/h.sh", "a/tmp/a bb/tmp/a b", "/plugins/${CLAUDE_PROJECT_DIR}"]
                .iter()
                .chain(&["${HOME} $CLAUDE_PROJECT_DIR ${open", ""])
                .map(OsString::from)
                .collect())
        );
        for name in ["CLAUDE_PLUGIN_DATA", "user_config.token"] {
            let message = format!("`${{{name}}}` in the arguments stands for nothing here");
            let expected = failed(Failure::DidNotStart, &message).said.unwrap_err();
            assert_eq!(fill(&["node", &format!("${{{name}}}/x.js")]), Err(expected));
        }
    }

    #[test]
    fn the_level_of_effort_comes_from_the_payload() {
        for (payload, expected) in [
            ("", None),
            (r#"{"effort":{"level":"xhigh"}}"#, Some("xhigh")),
            (r#"{"effort":"high"}"#, None),
            (r#"{"text":"\"effort\""}"#, None),
        ] {
            assert_eq!(effort(payload).as_deref(), expected, "{payload}");
        }
    }
}
