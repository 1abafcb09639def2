//! One load, source by source.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use hookd_condition::Condition;

use super::{Load, LoadedFile, MAX_RULES, Memory};
use crate::{
    Catalog, Format, Groups, LoadSettings, PerTier, Problem, Selector, Severity, Source, SourceSettings, SourceState,
    Tier,
    disk::{Found, RuleFile, overlooked, read_source},
    file::{Context, DefaultDraft, FileDraft, Patterns, RuleDraft, compile},
    groups::by_event,
    problem::{Issue, one_line},
    revision::revision,
    twins,
};

pub(super) struct Run<'s> {
    settings: &'s LoadSettings,
    memory: &'s mut Memory,
    patterns: Patterns,
    rules: Vec<RuleDraft>,
    defaults: Vec<DefaultDraft>,
    problems: Vec<Problem>,
    sources: Vec<Source>,
    files: Vec<LoadedFile>,
    /// The files of the managed and team sources that are there.
    central: HashMap<(Tier, PathBuf), BTreeSet<Arc<Path>>>,
    /// The tiers that a file of one above switches off, by which key of which file.
    off: HashMap<Tier, (&'static str, Arc<Path>)>,
    /// The sources that have a selector.
    selected: Vec<(Tier, PathBuf, Arc<Selector>)>,
    is_refused: bool,
}

/// What one file gave.
#[derive(Default)]
struct Counts {
    rules: usize,
    defaults: usize,
    refused: usize,
}

/// The source that is being read.
struct Reading<'s> {
    tier: Tier,
    settings: &'s SourceSettings,
    ids: HashSet<Arc<str>>,
    files: BTreeSet<PathBuf>,
    problems: Vec<Problem>,
    rules: usize,
    is_stale: bool,
}

impl<'s> Run<'s> {
    pub(super) fn new(settings: &'s LoadSettings, memory: &'s mut Memory) -> Self {
        Self {
            settings,
            memory,
            patterns: Patterns::default(),
            rules: Vec::new(),
            defaults: Vec::new(),
            problems: Vec::new(),
            sources: Vec::new(),
            files: Vec::new(),
            central: HashMap::new(),
            off: HashMap::new(),
            selected: Vec::new(),
            is_refused: false,
        }
    }

    /// Passes by the sources of a tier that the settings switch off.
    pub(super) fn switched_off(&mut self, tier: Tier, why: &str) {
        self.memory.good.retain(|(of, _), _| *of != tier);
        if self.settings.tiers.get(tier).sources.is_empty() {
            return;
        }
        let message = format!("{why}: no source of this tier is read");
        let issue = Issue { severity: Severity::Warning, place: None, key: String::new(), rule: None, message };
        self.problems.push(problem(issue, tier, Path::new("")));
    }

    /// What switches off a whole tier, if anything does: the settings, or a file of a tier above.
    pub(super) fn why_off(&self, tier: Tier) -> Option<String> {
        if !self.settings.tiers.get(tier).permits.enabled {
            return Some(format!("`tiers.{tier}.enabled` is false"));
        }
        self.off
            .get(&tier)
            .map(|(key, file)| format!("`{key}` in {} switches it off", one_line(&file.display().to_string())))
    }

    /// Reads one source and adds what it gives.
    pub(super) fn source(&mut self, tier: Tier, settings: &'s SourceSettings) {
        let (ids, files, problems) = (HashSet::new(), BTreeSet::new(), Vec::new());
        let mut reading = Reading { tier, settings, ids, files, problems, rules: 0, is_stale: false };
        let before = self.rules.len();
        let state = if self.sources.iter().any(|source| source.tier == tier && source.path == settings.path) {
            reading.error(&settings.path, "is named twice as a source of this tier");
            SourceState::Partial
        } else {
            if let Some(selector) = &settings.selector {
                self.selected.push((tier, settings.path.clone(), Arc::clone(selector)));
            }
            match read_source(&settings.path) {
                Found::Missing => self.missing(&mut reading),
                Found::Unreadable(message) => self.unreadable(&mut reading, message),
                Found::File(file) => self.found(&mut reading, vec![file]),
                Found::Directory(files) => {
                    reading.silence(&files);
                    self.found(&mut reading, files)
                }
            }
        };
        twins::mark(self.rules.iter_mut().skip(before).map(|draft| &mut draft.rule));
        let is_error = |problem: &&Problem| problem.severity == Severity::Error;
        let errors = reading.problems.iter().filter(is_error).map(Problem::to_string).collect::<Vec<_>>();
        self.is_refused |= tier.is_central() && !errors.is_empty();
        let (path, selector) = (settings.path.clone(), settings.selector.clone());
        let (rules, files) = (reading.rules, reading.files);
        self.sources.push(Source { tier, path, files, state, rules, errors, selector });
        self.problems.append(&mut reading.problems);
    }

    /// The catalog, unless something refuses it, and everything that there is to say.
    pub(super) fn finish(mut self) -> Load {
        if self.rules.is_empty() && self.defaults.is_empty() && !self.is_refused {
            self.problems.push(Problem {
                severity: Severity::Warning,
                tier: None,
                file: PathBuf::new(),
                place: None,
                key: String::new(),
                rule: None,
                message: "no rules are loaded: everything passes".to_owned(),
            });
        }
        let catalog = if self.is_refused { None } else { Some(self.catalog()) };
        Load { catalog, problems: self.problems, sources: self.sources, files: self.files }
    }

    fn catalog(&mut self) -> Catalog {
        self.memory.has_loaded = true;
        self.memory.central = std::mem::take(&mut self.central);
        share_patterns(&mut self.rules);
        let (rules, meanings): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.rules).into_iter().map(|draft| (draft.rule, draft.meaning)).unzip();
        let (defaults, default_meanings): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.defaults).into_iter().map(|draft| (draft.rule, draft.meaning)).unzip();
        let groups = Groups::new(&rules, &defaults, &self.selected);
        let for_everyone = (0..).zip(&rules).filter(|(_, rule)| rule.selector.is_none());
        // What a file switches off is so for the rules of callers too.
        let mut settings = self.settings.clone();
        for tier in self.off.keys() {
            settings.tiers.get_mut(*tier).permits.enabled = false;
        }
        Catalog {
            revision: revision(&meanings, &default_meanings, &groups.needed_labels(), &settings).into(),
            by_event: by_event(for_everyone),
            groups,
            rules,
            defaults,
            tiers: PerTier::from_fn(|tier| self.settings.tiers.get(tier).policy),
            fallbacks: self.settings.fallbacks,
            sources: self.sources.clone(),
            settings: Arc::new(settings),
        }
    }

    /// There is nothing at the path of the source.
    fn missing(&mut self, reading: &mut Reading<'_>) -> SourceState {
        let was_there = self.memory.central.contains_key(&reading.key());
        if reading.settings.optional && !was_there {
            self.memory.good.remove(&reading.key());
            return SourceState::Absent;
        }
        let message = if was_there {
            "is gone as a whole, its rules stay in force until it is back"
        } else {
            "is not there, and not marked as `optional` in the settings"
        };
        reading.error(&reading.settings.path, message);
        self.is_refused |= !self.memory.has_loaded;
        self.last_good(reading);
        SourceState::Stale
    }

    fn unreadable(&mut self, reading: &mut Reading<'_>, message: String) -> SourceState {
        reading.error(&reading.settings.path, message);
        self.last_good(reading);
        SourceState::Stale
    }

    /// Of a source below team that cannot be read, the last good text of each file counts.
    fn last_good(&mut self, reading: &mut Reading<'_>) {
        for (path, text) in self.memory.good.get(&reading.key()).cloned().unwrap_or_default() {
            self.file(reading, &path, text.as_ref(), true);
        }
    }

    fn found(&mut self, reading: &mut Reading<'_>, files: Vec<RuleFile>) -> SourceState {
        let key = reading.key();
        for path in files.iter().map(|file| &*file.path) {
            reading.files.extend([Some(path.to_owned()), fs::canonicalize(path).ok()].into_iter().flatten());
        }
        if reading.tier.is_central() {
            let paths = files.iter().map(|file| Arc::clone(&file.path)).collect::<BTreeSet<_>>();
            for gone in self.memory.central.get(&key).into_iter().flat_map(|before| before.difference(&paths)) {
                reading.push(Severity::Warning, gone, "is gone, and its rules with it".to_owned());
            }
            self.central.insert(key.clone(), paths);
        }
        let mut before = self.memory.good.remove(&key).unwrap_or_default();
        let mut good = BTreeMap::new();
        for RuleFile { path, text } in files {
            let is_good = match &text {
                Ok(text) => self.file(reading, &path, text, false),
                Err(message) => {
                    reading.error(&path, message.as_str());
                    self.loaded(reading, &path, Counts::default());
                    false
                }
            };
            match (is_good, text, before.remove(&path)) {
                (true, Ok(text), _) => {
                    good.insert(path, Arc::<str>::from(text));
                }
                (_, _, Some(text)) => {
                    reading.is_stale = true;
                    self.file(reading, &path, &text, true);
                    good.insert(path, text);
                }
                _ => {}
            }
        }
        if !reading.tier.is_central() {
            self.memory.good.insert(key, good);
        }
        let has_errors = reading.problems.iter().any(|problem| problem.severity == Severity::Error);
        match has_errors {
            false => SourceState::Loaded,
            true if reading.is_stale || reading.tier.is_central() => SourceState::Stale,
            true => SourceState::Partial,
        }
    }

    /// Adds what the text of one file gives. `false`: it is broken as a whole and gives nothing.
    ///
    /// `is_last_good`: it is not what stands in the file now; what it leaves out was said when it did.
    fn file(&mut self, reading: &mut Reading<'_>, path: &Arc<Path>, text: &str, is_last_good: bool) -> bool {
        let mut context = Context {
            settings: self.settings,
            tier: reading.tier,
            file: Arc::clone(path),
            selector: reading.settings.selector.clone(),
            patterns: &mut self.patterns,
        };
        let format = Format::of(path).unwrap_or(Format::Json);
        let FileDraft { mut rules, mut defaults, issues, mut refused, switches_off, broken } =
            compile(text, format, &mut context);
        if let Some(selector) = &reading.settings.selector {
            let meanings = rules.iter_mut().map(|draft| &mut draft.meaning);
            for meaning in meanings.chain(defaults.iter_mut().map(|draft| &mut draft.meaning)) {
                *meaning = meaning.within(selector);
            }
        }
        for (tier, key) in switches_off {
            self.off.entry(tier).or_insert((key, Arc::clone(path)));
        }
        let suffix = if is_last_good { " (in the last good version of the file)" } else { "" };
        for mut issue in issues {
            issue.message.push_str(suffix);
            reading.problems.push(problem(issue, reading.tier, path));
        }
        if broken {
            self.loaded(reading, path, Counts::default());
            return false;
        }
        let (mut added, defaults_added) = (0_usize, defaults.len());
        for draft in rules {
            if let Err(message) = self.add_rule(reading, &draft) {
                refused = refused.saturating_add(1);
                let key = draft.key;
                let rule = (!reading.tier.is_central()).then(|| draft.rule.id.to_string());
                let message = format!("{message}{suffix}");
                let issue = Issue { severity: Severity::Error, place: Some(draft.place), key, rule, message };
                reading.problems.push(problem(issue, reading.tier, path));
                continue;
            }
            added = added.saturating_add(1);
            self.rules.push(draft);
        }
        self.defaults.extend(defaults);
        reading.rules = reading.rules.saturating_add(added);
        self.loaded(reading, path, Counts { rules: added, defaults: defaults_added, refused });
        true
    }

    fn add_rule(&self, reading: &mut Reading<'_>, draft: &RuleDraft) -> Result<(), String> {
        if self.rules.len() >= MAX_RULES {
            return Err(format!("at most {MAX_RULES} rules can be loaded"));
        }
        if !reading.ids.insert(Arc::clone(&draft.rule.id)) {
            return Err(format!("the id `{}` stands twice in this source", draft.rule.id));
        }
        Ok(())
    }

    fn loaded(&mut self, reading: &Reading<'_>, path: &Path, counts: Counts) {
        let Counts { rules, defaults, refused } = counts;
        let file = LoadedFile { tier: reading.tier, path: path.to_owned(), rules, defaults, refused };
        match self.files.last_mut().filter(|last| last.tier == file.tier && last.path == file.path) {
            Some(last) => *last = file,
            None => self.files.push(file),
        }
    }
}

impl Reading<'_> {
    fn key(&self) -> (Tier, PathBuf) {
        (self.tier, self.settings.path.clone())
    }

    fn error(&mut self, file: &Path, message: impl Into<String>) {
        self.push(Severity::Error, file, message.into());
    }

    /// A directory that gives less than it may be meant to says so: nested ones and other extensions are not read.
    fn silence(&mut self, files: &[RuleFile]) {
        if files.is_empty() {
            let message = "holds no file that ends in .json, .yaml or .yml (directories in it are not read)";
            self.push(Severity::Warning, &self.settings.path, message.to_owned());
        }
        for file in overlooked(&self.settings.path) {
            self.push(Severity::Warning, &file, "is not read: its name has to end in lowercase".to_owned());
        }
    }

    fn push(&mut self, severity: Severity, file: &Path, message: String) {
        let issue = Issue { severity, place: None, key: String::new(), rule: None, message };
        self.problems.push(problem(issue, self.tier, file));
    }
}

/// Lets the conditions of rules for the same calls test their patterns in one pass.
fn share_patterns(rules: &mut [RuleDraft]) {
    let mut groups = HashMap::<_, Vec<&mut Condition>>::new();
    for rule in rules.iter_mut().filter_map(|draft| Arc::get_mut(&mut draft.rule)) {
        if let Some(when) = &mut rule.when {
            let calls = (rule.selector.clone(), rule.events.clone(), rule.matcher.as_str().to_owned());
            groups.entry(calls).or_default().push(when);
        }
    }
    for group in groups.into_values() {
        Condition::share_patterns(group);
    }
}

/// The issue as a problem of this file.
pub(crate) fn problem(issue: Issue, tier: Tier, file: &Path) -> Problem {
    let Issue { severity, place, key, rule, mut message } = issue;
    if let Some(rule) = &rule {
        message = format!("{message}; rule `{}` is left out", crate::problem::shown(rule));
    }
    Problem { severity, tier: Some(tier), file: file.to_owned(), place, key, rule, message }
}
