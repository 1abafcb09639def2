//! The text of one rule file: from tree to checked and compiled rules.

mod handler;
mod header;
mod value;
mod pattern;
mod rule;

use std::{path::Path, sync::Arc};

use hookd_json::{JsonError, Node, Place, Tree, Value};

pub(crate) use self::{
    handler::{millis, object, public_only, url},
    header::{header_name, is_reserved_header},
    pattern::{Patterns, reason},
    rule::meaning,
    value::can_stand_in_a_header,
};
use crate::{
    DefaultRule, LoadSettings, Mode, Rule, Selector, Tier, claude,
    problem::{Issue, Issues, KeyPath, Severity},
    revision::Meaning,
    settings::TierSettings,
    shape::{FILE, Fields},
    yaml,
};

/// How a rule file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Strict JSON.
    Json,
    /// YAML 1.2, less tags, keys that are no strings, and numbers that JSON does not have.
    Yaml,
}

impl Format {
    /// The format of the file at `path`, by its extension; `None` where it is not that of a rule file.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "json" => Some(Self::Json),
            "yaml" | "yml" => Some(Self::Yaml),
            _ => None,
        }
    }

    /// The value that `text` is in this format, as strictly as a rule file is read; for other files that people write.
    /// Nothing but white space is `null`.
    ///
    /// # Errors
    /// The first place that cannot be read.
    pub fn value(self, text: &str) -> Result<Value, JsonError> {
        let no_json = |node: &Node| JsonError {
            message: format!("{node} is not a number as JSON writes it"),
            line: node.place.line,
            column: node.place.column,
        };
        self.parse(text)?.to_value().map_err(no_json)
    }

    pub(crate) fn parse(self, text: &str) -> Result<Node, JsonError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if text.trim().is_empty() {
            return Ok(Node { value: Tree::Null, place: Place { line: 1, column: 1 } });
        }
        match self {
            Self::Json => hookd_json::parse_spanned(text),
            Self::Yaml => yaml::parse(text),
        }
    }
}

/// What the rules of a file are compiled with.
pub(crate) struct Context<'s> {
    pub(crate) settings: &'s LoadSettings,
    pub(crate) tier: Tier,
    /// Absolute.
    pub(crate) file: Arc<Path>,
    /// Which callers the file's source is for.
    pub(crate) selector: Option<Arc<Selector>>,
    pub(crate) patterns: &'s mut Patterns,
}

/// What came of one file.
#[derive(Default)]
pub(crate) struct FileDraft {
    pub(crate) rules: Vec<RuleDraft>,
    pub(crate) defaults: Vec<DefaultDraft>,
    pub(crate) issues: Vec<Issue>,
    /// How many rules are not in force, each for an error of its own.
    pub(crate) refused: usize,
    /// The tiers that it switches off, each below its own, by which of its keys.
    pub(crate) switches_off: Vec<(Tier, &'static str)>,
    /// The file as a whole cannot be used: it has no rules, and not because it says so.
    pub(crate) broken: bool,
}

/// A rule, and what of it counts for the revision.
pub(crate) struct RuleDraft {
    pub(crate) rule: Arc<Rule>,
    /// Its place among all entries of the file, those that are not in force included; from 0.
    pub(crate) index: usize,
    /// Its key, from the top of the file.
    pub(crate) key: String,
    pub(crate) place: Place,
    pub(crate) meaning: Meaning,
}

/// A default, and what of it counts for the revision.
pub(crate) struct DefaultDraft {
    pub(crate) rule: DefaultRule,
    pub(crate) meaning: Meaning,
}

impl Context<'_> {
    pub(crate) fn tier_settings(&self) -> &TierSettings {
        self.settings.tiers.get(self.tier)
    }

    /// The file's name, for derived ids.
    pub(crate) fn file_name(&self) -> String {
        self.file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// The directory that relative paths in the file start at.
    fn directory(&self) -> &Path {
        self.file.parent().unwrap_or(Path::new("/"))
    }
}

/// Checks and compiles the rules in `text`. Every error is found, not only the first one, where the syntax permits.
pub(crate) fn compile(text: &str, format: Format, context: &mut Context<'_>) -> FileDraft {
    let mut issues = Issues::default();
    let mut draft = FileDraft::default();
    match parse(text, format) {
        // Mostly a file that is being written: taken at its word, it would switch its guards off.
        Ok(node) if node.value == Tree::Null => {
            draft.broken = true;
            issues.error(node.place, KeyPath::Top, "the file is empty, one without rules is `{}`");
        }
        Ok(node) if claude::is_agents(&node) => claude::compile(&node, context, &mut draft, &mut issues),
        Ok(node) => match FILE.check(&node, KeyPath::Top, &mut issues) {
            Some(fields) if issues.errors() == 0 || can_be_used(fields, context) => {
                content(fields, context, &mut draft, &mut issues);
            }
            _ => draft.broken = true,
        },
        Err(issue) => {
            draft.broken = true;
            issues.list.push(issue);
        }
    }
    leave_out_what_is_not_permitted(&mut draft, context, &mut issues);
    issues.list.sort_by_key(|issue| issue.place);
    draft.issues = issues.list;
    draft
}

/// Whether the rules of a file count although something beside them is wrong: below team that is named, and no reason to
/// lose what they deny.
fn can_be_used(fields: Fields<'_>, context: &Context<'_>) -> bool {
    !context.tier.is_central() && fields.node("hooks").is_some_and(|hooks| matches!(hooks.value, Tree::List(_)))
}

/// Takes out the rules that the settings do not let the tier have.
fn leave_out_what_is_not_permitted(draft: &mut FileDraft, context: &Context<'_>, issues: &mut Issues) {
    let permits = &context.tier_settings().permits;
    let before = draft.rules.len();
    draft.rules.retain(|draft| {
        let Err(message) = permits.check(context.tier, &draft.rule) else { return true };
        let from = issues.list.len();
        issues.error_at(draft.place, draft.key.clone(), message);
        if !context.tier.is_central() {
            issues.leave_out(from, &draft.rule.id);
        }
        false
    });
    draft.refused = draft.refused.saturating_add(before.saturating_sub(draft.rules.len()));
}

fn parse(text: &str, format: Format) -> Result<Node, Issue> {
    let name = match format {
        Format::Json => "JSON",
        Format::Yaml => "YAML",
    };
    format.parse(text).map_err(|error| Issue {
        severity: Severity::Error,
        place: Some(Place { line: error.line, column: error.column }),
        key: String::new(),
        rule: None,
        message: format!("not valid {name}: {}", crate::problem::shown(&error.message)),
    })
}

fn content(fields: Fields<'_>, context: &mut Context<'_>, draft: &mut FileDraft, issues: &mut Issues) {
    let mode = mode(fields).max(context.tier_settings().mode);
    let hooks = KeyPath::Key(&KeyPath::Top, "hooks");
    for (index, node) in fields.items("hooks").iter().enumerate() {
        let before = issues.errors();
        draft.rules.extend(rule::compile(node, index, KeyPath::Index(&hooks, index), mode, context, issues));
        if issues.errors() != before {
            draft.refused = draft.refused.saturating_add(1);
        }
    }
    let defaults = KeyPath::Key(&KeyPath::Top, "defaults");
    match fields.node("defaults") {
        Some(node) if !context.tier.is_central() => {
            let message = format!("only managed and team files may have `defaults`, not {} ones", context.tier);
            issues.error(node.place, defaults, message);
        }
        _ => {
            for (index, node) in fields.items("defaults").iter().enumerate() {
                draft.defaults.extend(rule::defaults(node, KeyPath::Index(&defaults, index), mode, context, issues));
            }
        }
    }
}

/// The `mode` of a file or rule.
fn mode(fields: Fields<'_>) -> Mode {
    if fields.text("mode") == Some("shadow") { Mode::Shadow } else { Mode::Enforce }
}
