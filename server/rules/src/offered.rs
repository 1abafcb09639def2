//! Rule files that a caller brings with its call (`deploy/agents/README.md`, "Commands beside the agent"): judged as
//! files of a lower tier, under tighter bounds, since whoever wrote them (a repository, say) need not be anyone whom
//! this server trusts.
//!
//! They run nothing on this machine: every rule has [`RunOn::Agent`], so commands go back to the caller, and http
//! handlers, which would use this machine's network, fail at their turn. Server variables and files stand in no list
//! for them.

use std::{path::Path, sync::Arc};

use hookd_json::{Node, Tree};
use regex::RegexBuilder;
use sha2::{Digest as _, Sha256};

use crate::{
    Decide, Format, Handler, LoadSettings, Problem, Rule, RunOn, Severity, Tier, claude,
    file::{Context, Patterns, compile},
    load::problem,
    matcher::Words,
    problem::shown,
    revision::{Meaning, hex},
    settings::{Environment, TierSettings},
    twins,
};

/// How many files a caller can offer with one call.
pub const MAX_OFFERED_FILES: usize = 64;

/// How large one of them may be, in bytes.
pub const MAX_OFFERED_FILE_BYTES: usize = 256 << 10;

/// How large they may be together, in bytes.
pub const MAX_OFFERED_BYTES: usize = 1 << 20;

/// How many rules they may hold together.
pub const MAX_OFFERED_RULES: usize = 256;

/// How long a pattern may be, in bytes.
const MAX_PATTERN_TEXT: usize = 1024;

/// How many regular expressions they may hold together, in matchers and conditions; names and lists of them are none.
const MAX_PATTERNS: usize = 64;

/// What most patterns take at most when they are compiled, and all of them, in bytes.
const SMALL_PATTERN: usize = 64 << 10;
const LARGE_PATTERN: usize = 1 << 20;

/// How much they may take together when they are compiled, in bytes: aliases and patterns make more of a file than it
/// is long.
const MAX_WEIGHT: usize = 16 << 20;

/// What a value becomes in rules, beside its text, in bytes, and how often its text stands there.
const VALUE: usize = 128;
const COPIES: usize = 4;

/// How many macros, each of which can walk through all of a call's data, their conditions may hold together.
const MAX_MACROS: usize = 16;

/// How many values that are computed, each of which can be as large as all of a call's data, they may hold together.
const MAX_EXPRESSIONS: usize = 16;

/// How many problems of one file are kept.
const MAX_PROBLEMS: usize = 16;

/// What a file of a caller is, beside its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OfferedFile<'a> {
    /// Its tier; below team.
    pub tier: Tier,
    /// Its path on the caller's machine: shown, and never opened here. The ending tells JSON from YAML.
    pub path: &'a Path,
    /// How it is to be read: `hookd`, `claude-code`, or empty: by its shape.
    pub format: &'a str,
}

/// What came of one file.
#[derive(Debug, Default)]
pub struct Offered {
    /// Its rules, in the order in which they stand there.
    pub rules: Vec<OfferedRule>,
    /// What is wrong or odd in it; rules with an error are left out. At most so many that nobody's log is flooded.
    pub problems: Vec<Problem>,
    meanings: Vec<Meaning>,
    total: OfferedTotal,
}

/// What the files of one call hold together. Each thing of these costs more than it is long.
#[derive(Debug, Clone, Copy, Default)]
pub struct OfferedTotal {
    rules: usize,
    patterns: usize,
    macros: usize,
    expressions: usize,
    /// Of the rules, with the patterns of matchers once they were needed, in bytes; the patterns of conditions are kept
    /// under a bound of their own.
    weight: usize,
}

/// A rule, and where its command is found again in the caller's own copy of the file.
#[derive(Debug, Clone)]
pub struct OfferedRule {
    /// The rule; its `run_on` is [`RunOn::Agent`] whatever its handler.
    pub rule: Arc<Rule>,
    /// Its place among all entries of the file, in their order there, those that are not in force included; from 0.
    pub index: u32,
}

impl OfferedFile<'_> {
    /// What stands in results for a file that is not taken, in the place of its rules.
    #[must_use]
    pub fn stand_in(&self) -> Rule {
        let name = self.path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        Rule { run_on: RunOn::Agent, ..Rule::plain(name, self.tier, self.path, Handler::Decide(Decide::default())) }
    }
}

impl Offered {
    /// Checks and compiles `content`. The caller's side of a call does the same to find a rule's command again by its
    /// [`OfferedRule::index`].
    ///
    /// # Errors
    /// Why the file as a whole is not taken: it is over a limit, broken, or not permitted by `settings`. One line.
    pub fn compile(content: &[u8], file: OfferedFile<'_>, settings: &LoadSettings) -> Result<Self, String> {
        if file.tier.is_central() {
            return Err(format!("no caller can bring {} rules", file.tier));
        }
        if !settings.tiers.get(file.tier).permits.enabled {
            return Err(format!("`tiers.{}.enabled` is false", file.tier));
        }
        if content.len() > MAX_OFFERED_FILE_BYTES {
            return Err(format!("has {} bytes, at most {MAX_OFFERED_FILE_BYTES} are taken", content.len()));
        }
        let text = std::str::from_utf8(content)
            .map_err(|error| format!("is not UTF-8 from byte {} on", error.valid_up_to()))?;
        let format = Format::of(file.path).unwrap_or(Format::Json);
        let node = format.parse(text).map_err(|error| {
            let (line, column, message) = (error.line, error.column, shown(&error.message));
            format!("cannot be read: line {line}, column {column}: {message}")
        })?;
        check_form(file.format, &node)?;
        let mut total = OfferedTotal::default();
        total.count(&node, "")?;

        let settings = for_offered(settings);
        let mut patterns = Patterns::default();
        let mut context = Context {
            settings: &settings,
            tier: file.tier,
            file: file.path.into(),
            selector: None,
            patterns: &mut patterns,
        };
        let draft = compile(text, format, &mut context);
        let mut problems =
            draft.issues.into_iter().map(|issue| problem(issue, file.tier, file.path)).collect::<Vec<_>>();
        if draft.broken {
            let first = problems.iter().find(|problem| problem.severity == Severity::Error);
            return Err(first.map_or_else(|| "is not a rule file".to_owned(), |first| first.message.clone()));
        }
        problems.truncate(MAX_PROBLEMS);
        total.rules = draft.rules.len();
        total.check()?;
        let mut offered = Self { rules: Vec::new(), problems, meanings: Vec::new(), total };
        for mut draft in draft.rules {
            // There is no other holder yet.
            let Some(rule) = Arc::get_mut(&mut draft.rule) else { continue };
            rule.run_on = RunOn::Agent;
            let index = u32::try_from(draft.index).unwrap_or(u32::MAX);
            offered.rules.push(OfferedRule { rule: draft.rule, index });
            offered.meanings.push(draft.meaning);
        }
        twins::mark(offered.rules.iter_mut().map(|offered| &mut offered.rule));
        Ok(offered)
    }

    /// About how much memory it takes at most, in bytes.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.total.weight
    }

    /// The revision of what these files mean together, in evaluation order. Empty: there are none.
    #[must_use]
    pub fn revision<'o>(all: impl IntoIterator<Item = &'o Self>) -> String {
        let mut all = all.into_iter().peekable();
        if all.peek().is_none() {
            return String::new();
        }
        let mut hash = Sha256::new();
        for Meaning(meaning) in all.flat_map(|offered| &offered.meanings) {
            hash.update(meaning);
        }
        hex(&hash.finalize())
    }
}

/// The settings as they hold for files of callers: nothing of this server's is theirs to name, and commands, which do
/// not run here, need no permission to; http rules, which are not sent from here, may name any address and fail one by
/// one.
fn for_offered(settings: &LoadSettings) -> LoadSettings {
    let mut settings = LoadSettings { environment: Environment::default(), ..settings.clone() };
    for tier in Tier::ALL {
        let tier = settings.tiers.get_mut(tier);
        *tier = TierSettings {
            sources: Vec::new(),
            server_commands: true,
            any_address: true,
            allow_env: Vec::new(),
            allow_files: Vec::new(),
            ..tier.clone()
        };
    }
    settings
}

/// Whether a file is in the form that its caller says.
fn check_form(said: &str, node: &Node) -> Result<(), String> {
    let is_empty = matches!(&node.value, Tree::Map(entries) if entries.is_empty());
    match (said, claude::is_agents(node)) {
        ("", _) | ("hookd", false) | ("claude-code", true) => Ok(()),
        ("claude-code", false) if is_empty => Ok(()),
        ("hookd" | "claude-code", _) => Err(format!("is not in the form `{said}`, as its format says")),
        _ => Err(format!("its format is `{}`, not `hookd` or `claude-code`", shown(said))),
    }
}

/// Functions whose argument is a pattern.
const PATTERN_FUNCTIONS: [&str; 4] = ["matches", "anyMatch", "redact", "glob"];

/// The macros of the language.
const MACROS: [&str; 5] = ["all", "exists", "exists_one", "filter", "map"];

impl OfferedTotal {
    /// Adds a file.
    ///
    /// # Errors
    /// What there is too much of with it, in one line; nothing is added then.
    pub fn add(&mut self, offered: &Offered) -> Result<(), String> {
        let other = offered.total;
        let sum = Self {
            rules: self.rules.saturating_add(other.rules),
            patterns: self.patterns.saturating_add(other.patterns),
            macros: self.macros.saturating_add(other.macros),
            expressions: self.expressions.saturating_add(other.expressions),
            weight: self.weight.saturating_add(other.weight),
        };
        sum.check().map_err(|why| format!("together with those before it, it {why}"))?;
        *self = sum;
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        for (count, most, what) in [
            (self.rules, MAX_OFFERED_RULES, "rules"),
            (self.patterns, MAX_PATTERNS, "regular expressions"),
            (self.macros, MAX_MACROS, "macros in its conditions"),
            (self.expressions, MAX_EXPRESSIONS, "values that are computed"),
        ] {
            if count > most {
                return Err(format!("holds more than {most} {what}"));
            }
        }
        if self.weight > MAX_WEIGHT {
            return Err(format!("takes more than about {MAX_WEIGHT} bytes when it is compiled"));
        }
        Ok(())
    }

    /// Counts before anything is compiled. Ends at the first thing too many: this itself must not cost much.
    fn count(&mut self, node: &Node, key: &str) -> Result<(), String> {
        self.weight = self.weight.saturating_add(VALUE);
        match &node.value {
            Tree::List(items) => items.iter().try_for_each(|item| self.count(item, key)),
            Tree::Map(entries) => entries.iter().try_for_each(|entry| self.count(&entry.node, &entry.key)),
            Tree::String(text) => self.count_text(text, key),
            _ => Ok(()),
        }
    }

    fn count_text(&mut self, text: &str, key: &str) -> Result<(), String> {
        self.weight = self.weight.saturating_add(text.len().saturating_mul(COPIES));
        match key {
            "matcher" => {
                if text.len() > MAX_PATTERN_TEXT {
                    let message = format!("a matcher has {} bytes, at most {MAX_PATTERN_TEXT} are taken", text.len());
                    return Err(message);
                }
                if !is_plain(text) && Words::of(text).is_none() {
                    self.patterns = self.patterns.saturating_add(1);
                    let is_small = RegexBuilder::new(text).size_limit(SMALL_PATTERN).build().is_ok();
                    let weight = if is_small { SMALL_PATTERN } else { LARGE_PATTERN };
                    self.weight = self.weight.saturating_add(weight);
                }
            }
            // The permission rules of files and hosts are patterns, those of shell commands are compared part by part.
            "if" if !text.trim_start().starts_with("Bash") => self.patterns = self.patterns.saturating_add(1),
            // Names count wherever they stand in an expression.
            "when" | "expr" => {
                self.expressions = self.expressions.saturating_add(usize::from(key == "expr"));
                let words = || text.split(|char: char| !(char.is_alphanumeric() || char == '_'));
                let count = |names: &[&str]| words().filter(|word| names.contains(word)).count();
                self.patterns = self.patterns.saturating_add(count(&PATTERN_FUNCTIONS));
                self.macros = self.macros.saturating_add(count(&MACROS));
            }
            _ => {}
        }
        self.check()
    }
}

/// A name, or a list of them.
fn is_plain(text: &str) -> bool {
    text.chars().all(|char| char.is_alphanumeric() || matches!(char, '_' | '-' | '|' | ',' | ' ' | '*'))
}

#[cfg(test)]
mod tests;
