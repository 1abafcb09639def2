//! Sources with selectors: what a load makes of them, and what of a catalog is for which caller.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{collections::BTreeSet, fs, sync::Arc};

use hookd_rules::{
    Catalog, Load, LoadSettings, Memory, MissingLabel, Operator, Policy, Requirement, Selector, SourceSettings, Tier,
    load,
};
use tempfile::TempDir;

struct Place {
    root: TempDir,
    settings: LoadSettings,
}

/// `tenant=a`, `tenant`, `!tenant`, or several of them with `&` between them.
fn selector(text: &str, missing_label: MissingLabel) -> Arc<Selector> {
    let requirements = text.split('&').map(|part| match (part.split_once('='), part.strip_prefix('!')) {
        (Some((key, value)), _) => {
            Requirement { key: key.to_owned(), operator: Operator::In(BTreeSet::from([value.to_owned()])) }
        }
        (_, Some(key)) => Requirement { key: key.to_owned(), operator: Operator::DoesNotExist },
        _ => Requirement { key: part.to_owned(), operator: Operator::Exists },
    });
    Arc::new(Selector::new(requirements, missing_label).unwrap())
}

fn labels(text: &str) -> Vec<(String, String)> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn hooks(id: &str, matcher: &str) -> String {
    format!(
        r#"{{"hooks":[{{"id":"{id}","event":"PreToolUse","matcher":"{matcher}","handler":{{"type":"decide","verdict":"ask"}}}}]}}"#
    )
}

impl Place {
    fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap(), settings: LoadSettings::default() }
    }

    fn source(&mut self, tier: Tier, name: &str, text: &str, selector: Option<Arc<Selector>>) {
        let path = self.root.path().join(name);
        if !text.is_empty() {
            fs::write(&path, text).unwrap();
        }
        let optional = text.is_empty();
        self.settings.tiers.get_mut(tier).sources.push(SourceSettings { path, optional, selector });
    }

    fn load(&self) -> Load {
        load(&self.settings, &mut Memory::default())
    }

    fn catalog(&self) -> Arc<Catalog> {
        Arc::new(self.load().catalog.unwrap())
    }

    /// What a caller with these labels lacks, with the place's own path left out.
    fn lacks(&self, text: &str) -> Option<String> {
        let root = format!("{}/", self.root.path().display());
        let refused = Policy::of(self.catalog(), &labels(text)).err()?;
        Some(refused.to_string().replace(&root, ""))
    }
}

fn matching(catalog: &Arc<Catalog>, text: &str, subject: Option<&str>) -> (usize, Vec<String>) {
    let policy = Policy::of(Arc::clone(catalog), &labels(text)).unwrap();
    let Some((considered, matching)) = policy.matching("PreToolUse", subject) else { return (0, Vec::new()) };
    (considered, matching.rules.iter().map(|rule| rule.id.to_string()).collect())
}

#[test]
fn law_01_rules_of_many_selectors_stand_in_configured_order() {
    let mut place = Place::new();
    let skip = MissingLabel::Skip;
    place.source(Tier::Shared, "f.json", &hooks("f", "Bash"), Some(selector("tenant=a", skip)));
    place.source(Tier::Managed, "a.json", &hooks("a", "Bash"), Some(selector("env=prod", skip)));
    place.source(Tier::Managed, "b.json", &hooks("b", "Bash"), None);
    place.source(Tier::Managed, "c.json", &hooks("c", "Bash"), Some(selector("tenant=a", skip)));
    place.source(Tier::Team, "d.json", &hooks("d", "Edit"), Some(selector("tenant=a&env=prod", skip)));
    place.source(Tier::Team, "e.json", &hooks("e", "Bash"), Some(selector("!tenant", skip)));
    let catalog = place.catalog();
    for (caller, considered, bash, all) in [
        ("env=prod,tenant=a", 5, "a b c f", "a b c d f"),
        ("env=test,tenant=a", 3, "b c f", "b c f"),
        ("env=prod", 3, "a b e", "a b e"),
        ("tenant=b", 1, "b", "b"),
        ("", 2, "b e", "b e"),
    ] {
        let expected = |ids: &str| (considered, ids.split(' ').map(str::to_owned).collect::<Vec<_>>());
        // Each twice: the second time it is remembered.
        for _ in 0..2 {
            assert_eq!(matching(&catalog, caller, Some("Bash")), expected(bash), "{caller}");
            assert_eq!(matching(&catalog, caller, None), expected(all), "{caller}");
        }
    }
    assert_eq!(catalog.rules_of("PreToolUse").count(), 6);
}

#[test]
fn a_label_that_a_source_needs_is_named_with_the_source_whatever_stands_in_it() {
    let mut place = Place::new();
    place.source(Tier::Team, "skips.json", &hooks("a", ""), Some(selector("user=u", MissingLabel::Skip)));
    place.source(Tier::Team, "team.json", &hooks("b", ""), Some(selector("tenant=a&!trial", MissingLabel::Deny)));
    place.source(Tier::Local, "absent.json", "", Some(selector("project", MissingLabel::Deny)));
    for (caller, lacks) in [
        ("", Some("the caller lacks the label `tenant`, which the selector of the team source team.json needs")),
        ("user=u", Some("the caller lacks the label `tenant`, which the selector of the team source team.json needs")),
        (
            "tenant=b",
            Some("the caller lacks the label `project`, which the selector of the local source absent.json needs"),
        ),
        ("project=p,tenant=b", None),
        ("project=,tenant=", None),
    ] {
        assert_eq!(place.lacks(caller).as_deref(), lacks, "{caller}");
    }
    place.settings.tiers.local.permits.enabled = false;
    assert_eq!(place.lacks("tenant=b"), None, "a tier that is off has no sources");
    // Nor is it different where there is no rule at all.
    let mut empty = Place::new();
    empty.source(Tier::Local, "absent.json", "", Some(selector("project", MissingLabel::Deny)));
    let lacks = "the caller lacks the label `project`, which the selector of the local source absent.json needs";
    assert_eq!(empty.lacks("tenant=b").as_deref(), Some(lacks));
    let source = |path: &str| place.load().sources.into_iter().find(|source| source.path.ends_with(path)).unwrap();
    assert_eq!(source("team.json").selector.unwrap().to_string(), "tenant=a,!trial");
}

#[test]
fn law_12_defaults_are_for_the_callers_of_their_source() {
    let mut place = Place::new();
    let default = |reason: &str| {
        format!(r#"{{"hooks":[],"defaults":[{{"event":"PreToolUse","verdict":"ask","reason":"{reason}"}}]}}"#)
    };
    place.source(Tier::Managed, "a.json", &default("a"), Some(selector("tenant=a", MissingLabel::Skip)));
    place.source(Tier::Managed, "b.json", &default("b"), None);
    place.source(Tier::Team, "c.json", &default("c"), Some(selector("tenant=a", MissingLabel::Skip)));
    let catalog = place.catalog();
    let reasons = |text: &str| {
        let policy = Policy::of(Arc::clone(&catalog), &labels(text)).unwrap();
        policy.defaults().map(|(place, default)| format!("{place}{}", default.reason)).collect::<Vec<_>>()
    };
    assert_eq!(reasons("tenant=a"), ["0a", "1b", "2c"]);
    assert_eq!(reasons("tenant=b"), ["1b"]);
    assert_eq!(reasons(""), ["1b"]);
}

#[test]
fn a_file_for_some_callers_cannot_switch_off_tiers_for_all() {
    let text = r#"{"hooks":{},"allowManagedHooksOnly":true}"#;
    let mut place = Place::new();
    place.source(Tier::Team, "a.json", text, Some(selector("tenant=a", MissingLabel::Deny)));
    let load = place.load();
    assert!(load.catalog.is_none());
    let problem = load.problems.first().unwrap().to_string();
    assert!(
        problem.ends_with(
            "/a.json:1:37: allowManagedHooksOnly: switches off whole tiers, for every caller, and the source of this file has \
             a selector: set it in a file of a source without one"
        ),
        "{problem}"
    );
    place.settings.tiers.team.sources.clear();
    place.source(Tier::Team, "a.json", text, None);
    assert!(place.load().catalog.is_some());
}

#[test]
fn law_09_for_whom_a_source_is_counts() {
    let revision = |selectors: [Option<(&str, MissingLabel)>; 2]| {
        let mut place = Place::new();
        for (name, given) in ["a.json", "b.json"].into_iter().zip(selectors) {
            let selector = given.map(|(text, missing_label)| selector(text, missing_label));
            place.source(Tier::Managed, name, &hooks(name, ""), selector);
        }
        place.catalog().revision.to_string()
    };
    let (deny, skip) = (MissingLabel::Deny, MissingLabel::Skip);
    let (a, b) = (Some(("tenant=a", deny)), Some(("tenant=b", deny)));
    let given = [[None, None], [a, None], [None, a], [a, a], [a, b], [b, a], [Some(("tenant=a", skip)), None]];
    let revisions = given.map(revision).into_iter().collect::<BTreeSet<_>>();
    assert_eq!(revisions.len(), given.len());
    let of_default = |text: &str| {
        let mut place = Place::new();
        let default = r#"{"hooks":[],"defaults":[{"event":"PreToolUse","verdict":"ask"}]}"#;
        place.source(Tier::Managed, "a.json", default, Some(selector(text, skip)));
        place.catalog().revision.to_string()
    };
    assert_ne!(of_default("tenant=a"), of_default("tenant=b"));
    let (one, other) = (Some(("tenant=a&env=b", deny)), Some(("env=b&tenant=a", deny)));
    assert_eq!(revision([one, None]), revision([other, None]), "how it is written does not count");
}
