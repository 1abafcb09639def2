//! From the sources of the settings to a [`Catalog`].

mod memory;
mod run;

use std::path::{Path, PathBuf};

pub use self::memory::Memory;
use self::run::Run;
pub(crate) use self::run::problem;
use crate::{
    Catalog, Format, LoadSettings, Problem, Severity, Source, SourceSettings, Tier,
    file::{Context, Patterns, compile},
};

/// How many rules a catalog may hold. Those after it in evaluation order are refused.
const MAX_RULES: usize = 100_000;

/// What came of a load.
#[derive(Debug)]
pub struct Load {
    /// The catalog. `None`: the load is refused, the catalog in force has to stay (law 10).
    pub catalog: Option<Catalog>,
    /// Every error and warning, in evaluation order.
    pub problems: Vec<Problem>,
    /// Every source, in evaluation order, with its errors; `rules` counts those of this load, be it refused or not.
    pub sources: Vec<Source>,
    /// Every rule file that was found, in evaluation order.
    pub files: Vec<LoadedFile>,
}

/// A rule file, and how much of it is usable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedFile {
    /// Its tier.
    pub tier: Tier,
    /// Its path, absolute.
    pub path: PathBuf,
    /// How many rules it gave.
    pub rules: usize,
    /// How many defaults it gave.
    pub defaults: usize,
    /// How many rules of it are not in force, each named by an error. Of a file that is broken as a whole nobody can tell.
    pub refused: usize,
}

/// Reads every source and compiles what stands there. Blocks on the disk.
///
/// Managed and team sources are whole or not at all: an error in one refuses the load. Below, a broken rule is left
/// out, and of a broken file the last good text counts, which `memory` keeps from load to load (law 10).
#[must_use]
pub fn load(settings: &LoadSettings, memory: &mut Memory) -> Load {
    let mut run = Run::new(settings, memory);
    for tier in Tier::ALL {
        let tier_settings = settings.tiers.get(tier);
        if let Some(why) = run.why_off(tier) {
            run.switched_off(tier, &why);
            continue;
        }
        for source in &tier_settings.sources {
            run.source(tier, source);
        }
    }
    run.finish()
}

/// Loads `paths`, files and directories, as the only sources there are, all of `tier` and none optional. Everything
/// else is as `settings` say. Relative paths start at the process's directory.
#[must_use]
pub fn check_paths(paths: &[PathBuf], tier: Tier, settings: &LoadSettings) -> Load {
    let mut settings = settings.clone();
    for tier in Tier::ALL {
        settings.tiers.get_mut(tier).sources.clear();
    }
    settings.tiers.get_mut(tier).sources = paths
        .iter()
        .map(|path| SourceSettings {
            path: std::path::absolute(path).unwrap_or_else(|_| path.clone()),
            optional: false,
            selector: None,
        })
        .collect();
    load(&settings, &mut Memory::default())
}

/// Checks and compiles one text as the managed rule file `/rules`, without a disk. Gives its errors and warnings.
#[must_use]
pub fn parse_rules(text: &str, format: Format) -> Vec<Problem> {
    let settings = LoadSettings::default();
    let file = Path::new("/rules");
    let mut patterns = Patterns::default();
    let mut context = Context {
        settings: &settings,
        tier: Tier::Managed,
        file: file.into(),
        selector: None,
        patterns: &mut patterns,
    };
    let issues = compile(text, format, &mut context).issues;
    issues.into_iter().map(|issue| problem(issue, Tier::Managed, file)).collect()
}

impl Load {
    /// Whether anything was refused or left out.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.problems.iter().any(|problem| problem.severity == Severity::Error)
    }
}
