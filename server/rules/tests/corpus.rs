//! Hook files of real projects: each handler runs, or is refused by name with a reason.
//!
//! The files are no part of the project. They lie in `../shared/corpus` beside the checkout; where they do not, there is
//! nothing to read, and the test says so.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it did not read"
)]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use hookd_json::Value;
use hookd_rules::{Load, LoadSettings, Problem, Protocol, Severity, Tier, check_paths};

/// Of each file: rules that run, handlers that are refused, warnings.
#[rustfmt::skip]
const COUNTS: [(&str, [usize; 3]); 48] = [
    ("claude-code-001.json", [21, 0, 22]),
    ("claude-code-002.json", [2, 0, 1]),
    ("claude-code-003.json", [5, 0, 0]),
    ("claude-code-004.json", [7, 0, 1]),
    ("claude-code-005.json", [2, 0, 1]),
    ("claude-code-006.json", [5, 0, 0]),
    ("claude-code-007.json", [1, 0, 1]),
    ("claude-code-008.json", [7, 0, 1]),
    ("claude-code-009.json", [4, 0, 1]),
    ("claude-code-010.json", [0, 4, 0]),
    ("claude-code-011.json", [9, 0, 1]),
    ("claude-code-012.json", [15, 0, 1]),
    ("claude-code-013.json", [14, 0, 4]),
    ("claude-code-014.json", [10, 0, 0]),
    ("claude-code-015.json", [2, 0, 1]),
    ("claude-code-016.json", [1, 0, 0]),
    ("claude-code-017.json", [1, 0, 1]),
    ("claude-code-018.json", [4, 0, 1]),
    ("claude-code-019.json", [12, 0, 11]),
    ("claude-code-020.json", [3, 0, 0]),
    ("claude-code-021.json", [4, 0, 0]),
    ("claude-code-022.json", [10, 0, 0]),
    ("claude-code-023.json", [24, 0, 0]),
    ("claude-code-024.json", [8, 0, 0]),
    ("claude-code-025.json", [1, 0, 0]),
    ("claude-code-026.json", [3, 0, 1]),
    ("claude-code-027.json", [3, 0, 1]),
    ("claude-code-028.json", [2, 0, 0]),
    ("claude-code-029.json", [10, 0, 1]),
    ("claude-code-030.json", [3, 0, 4]),
    ("claude-code-031.json", [1, 0, 1]),
    ("claude-code-032.json", [2, 0, 0]),
    ("claude-code-033.json", [6, 0, 2]),
    ("claude-code-034.json", [52, 0, 19]),
    ("claude-code-035.json", [28, 0, 28]),
    ("claude-code-036.json", [7, 0, 6]),
    ("codex-001.json", [5, 0, 0]),
    ("codex-002.json", [4, 0, 0]),
    ("copilot-001.json", [0, 1, 0]),
    ("copilot-002.json", [0, 1, 0]),
    ("copilot-003.json", [0, 4, 0]),
    ("copilot-004.json", [0, 1, 0]),
    ("copilot-005.json", [0, 3, 0]),
    ("copilot-006.json", [0, 13, 0]),
    ("cursor-001.json", [0, 6, 0]),
    ("cursor-002.json", [0, 9, 0]),
    ("cursor-003.json", [0, 9, 0]),
    ("grok-001.json", [4, 0, 8]),
];

fn corpus() -> Option<Vec<PathBuf>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus");
    let Ok(entries) = fs::read_dir(&folder) else {
        eprintln!("not there, so nothing is read: {}", folder.display());
        return None;
    };
    Some(entries.map(|entry| entry.unwrap().path()).collect())
}

fn check(path: &Path, tier: Tier) -> Load {
    check_paths(std::slice::from_ref(&path.to_owned()), tier, &LoadSettings::default())
}

/// Rules that run, handlers that are refused, warnings.
fn counts(load: &Load) -> [usize; 3] {
    let [file] = load.files.as_slice() else { panic!("{:?}", load.files) };
    let is_warning = |problem: &&Problem| problem.severity == Severity::Warning && problem.file == file.path;
    [file.rules, file.refused, load.problems.iter().filter(is_warning).count()]
}

/// How many handlers the file has, counted without the loader: those in groups, and those without one.
fn handlers(path: &Path) -> usize {
    let value = hookd_json::parse(&fs::read_to_string(path).unwrap()).unwrap();
    let groups = value["hooks"].as_object().unwrap().values().filter_map(Value::as_array).flatten();
    groups.map(|group| group["hooks"].as_array().map_or(1, Vec::len)).sum()
}

#[test]
fn every_handler_of_the_corpus_runs_or_is_refused_by_name() {
    let Some(paths) = corpus() else { return };
    let mut found = BTreeMap::new();
    for path in &paths {
        let load = check(path, Tier::Shared);
        let [rules, refused, warnings] = counts(&load);
        assert_eq!(rules + refused, handlers(path), "{}: nothing is left out in silence", path.display());
        let errors = load.problems.iter().filter(|problem| problem.severity == Severity::Error).collect::<Vec<_>>();
        assert_eq!(errors.len(), refused, "{}: one reason for each", path.display());
        assert!(errors.iter().all(|problem| problem.rule.is_some() && problem.place.is_some()), "{errors:?}");
        assert_eq!(load.has_errors(), refused > 0, "the rest of the file works");
        let loaded = load.catalog.unwrap().rules;
        assert!(loaded.len() == rules && loaded.iter().all(|rule| rule.protocol == Protocol::ClaudeCode));
        found.insert(path.file_name().unwrap().to_str().unwrap().to_owned(), [rules, refused, warnings]);
    }
    assert_eq!(found, COUNTS.iter().map(|(name, counts)| ((*name).to_owned(), *counts)).collect::<BTreeMap<_, _>>());
}

#[test]
fn law_10_files_of_agents_are_whole_or_not_at_all_in_the_tiers_above() {
    for path in corpus().unwrap_or_default() {
        let below = check(&path, Tier::Local);
        for tier in [Tier::Managed, Tier::Team] {
            let load = check(&path, tier);
            assert_eq!(load.catalog.is_some(), !below.has_errors(), "{}: {:?}", path.display(), load.problems);
            assert_eq!(counts(&load), counts(&below), "{}", path.display());
        }
    }
}
