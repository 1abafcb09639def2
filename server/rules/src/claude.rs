//! Hook files of Claude Code as rule sources: its `settings.json`, and a plugin's `hooks.json` or manifest. Told by
//! their shape: `hooks` is an object there (event to groups of handlers) and a list in the native form. Codex and Grok
//! write the same shape, and their files are read as Claude Code's: where Codex searches any text as a pattern, a list
//! of names stays a list of names, to which Codex's own tools answer as they do there (`apply_patch` to `Edit` and
//! `Write`).
//!
//! # What becomes of what
//!
//! | In the file | Here |
//! | --- | --- |
//! | each handler of each group | a rule with the id `FILE#EVENT.GROUP.HANDLER`, positions counted from 0 |
//! | `matcher` | read as that agent does ([`matcher`]), former names of tools included; ignored on events that have nothing to test |
//! | `if` | [`crate::Rule::permission`]; only on the five events that have it |
//! | `type: command`, with `shell` | `bash -c`, that agent's default; with `args` the program itself, without a shell |
//! | `type: http` | a POST; `$NAME` in `headers` for the names in `allowedEnvVars` that the settings allow the tier too, all others are empty |
//! | `timeout` in seconds | under `limits.max_handler_timeout`; default 600 s, or that of the event |
//! | `async` | an async rule |
//! | `onFailure` | `onError`: `continue` is `allow`; anything unknown is `block`, as that agent has it |
//! | all other keys at the top | not hookd's, ignored; see [`switches`] for those that switch hooks off |
//!
//! # What is an error and what a warning
//!
//! An error is what keeps a handler from being in force: one that this version does not support (types `mcp_tool`,
//! `prompt` and `agent`, `asyncRewake`, `once`, `shell: powershell`), one that says nothing that could run, a matcher or
//! `if` that cannot be used, an event that is misspelt, a handler of another agent's form. Below team it leaves out that
//! handler by name and the rest of the file works; in managed and team files it refuses the reload, as every error does
//! (law 10).
//!
//! A warning is what is in force but may not be what was meant: unknown keys and events, comments, groups that are
//! switched off by their names, handlers without a group, a `timeout` that looks like milliseconds, a matcher that can
//! match no tool, a variable that is put in as empty text. In managed and team files an unknown key or event that is near
//! to a known one is an error, since a guard with a misspelt name would guard nothing.

mod foreign;
mod handler;
mod hooks;
mod http;
mod javascript;
mod matcher;
mod placeholder;
mod switches;
mod tools;

use hookd_json::{Entry, Node, Tree};

pub(crate) use self::javascript::readable;
#[cfg(test)]
pub(crate) use self::matcher::read as read_matcher;
pub(crate) use self::tools::{names_of, renamed};
use self::{hooks::Walk, switches::Switches};
pub use self::{javascript::native as javascript_pattern, placeholder::plugin_root};
use crate::{
    file::{Context, FileDraft},
    problem::{Issues, KeyPath, shown},
    shape::{Fields, did_you_mean},
};

/// Keys by which settings without `hooks` are told from a native file.
const SETTINGS: [&str; 8] = [
    "allowManagedHooksOnly",
    "cleanupPeriodDays",
    "disableAllHooks",
    "enabledPlugins",
    "extraKnownMarketplaces",
    "outputStyle",
    "permissions",
    "statusLine",
];

/// Whether this is the content of one of that agent's files.
pub(crate) fn is_agents(node: &Node) -> bool {
    let Tree::Map(entries) = &node.value else { return false };
    let fields = Fields::new(entries);
    match fields.node("hooks") {
        Some(hooks) => matches!(hooks.value, Tree::Map(_)),
        None => {
            let is_settings = |entry: &Entry| SETTINGS.contains(&entry.key.as_str());
            fields.node("defaults").is_none() && entries.iter().any(is_settings)
        }
    }
}

/// Compiles the hooks of one of that agent's files. The content is an object.
pub(crate) fn compile(node: &Node, context: &mut Context<'_>, draft: &mut FileDraft, issues: &mut Issues) {
    let Tree::Map(entries) = &node.value else { return };
    let top = Fields::new(entries);
    let hooks = match top.node("hooks").map(|node| &node.value) {
        Some(Tree::Map(hooks)) => hooks.as_slice(),
        _ => &[],
    };
    for entry in entries.iter().filter(|entry| entry.key != "hooks") {
        if !did_you_mean(&entry.key, ["hooks"].into_iter()).is_empty() {
            let message = format!("`{}` is not read, did you mean `hooks`", shown(&entry.key));
            doubtful(entry, KeyPath::Key(&KeyPath::Top, &entry.key), message, context, issues);
        }
    }
    if top.node("hooks").is_none() && context.tier.is_central() {
        issues.warning(node.place, KeyPath::Top, "has no `hooks`, so it gives no rules");
    }
    let switches = Switches::read(top, context, issues);
    Walk::new(top, hooks, &switches, context, draft, issues).all(hooks);
    switches.apply(draft);
}

/// What may not be what was meant: an error in managed and team files, a warning below.
fn doubtful(entry: &Entry, path: KeyPath<'_>, message: String, context: &Context<'_>, issues: &mut Issues) {
    if context.tier.is_central() {
        issues.error(entry.place, path, message);
    } else {
        issues.warning(entry.place, path, message);
    }
}

/// Names the keys of `entries` that are not among `known`, which are those of `what`.
fn unknown_keys(
    entries: &[Entry],
    known: &[&str],
    what: &str,
    path: KeyPath<'_>,
    context: &Context<'_>,
    issues: &mut Issues,
) {
    for entry in entries.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
        let path = KeyPath::Key(&path, &entry.key);
        let key = shown(&entry.key);
        let meant = did_you_mean(&entry.key, known.iter().copied());
        if is_comment(&entry.key) {
            issues.warning(entry.place, path, format!("`{key}` is taken for a comment"));
        } else if meant.is_empty() {
            issues.warning(entry.place, path, format!("`{key}` is no key of {what} and is ignored"));
        } else {
            doubtful(entry, path, format!("`{key}` is no key of {what} and is ignored{meant}"), context, issues);
        }
    }
}

/// Whether nobody can mean more than a comment by a key.
fn is_comment(key: &str) -> bool {
    key.starts_with("//") || key.starts_with('#') || key.starts_with("_comment")
}
