use super::*;
use crate::{LoadSettings, Memory, Policy, Requirement, SourceSettings, load};

fn selector(key: &str, value: &str) -> Arc<Selector> {
    let operator = Operator::In(BTreeSet::from([value.to_owned()]));
    Arc::new(Selector::new([Requirement { key: key.to_owned(), operator }], MissingLabel::Skip).unwrap())
}

/// A catalog with one rule for everyone, and one for each of these callers.
fn catalog(folder: &Path, callers: &[(&str, &str)]) -> Arc<crate::Catalog> {
    let mut settings = LoadSettings::default();
    let selectors = callers.iter().map(|(key, value)| Some(selector(key, value)));
    for (place, selector) in std::iter::once(None).chain(selectors).enumerate() {
        let path = folder.join(format!("{place}.json"));
        let text = r#"{"hooks":[{"event":"PreToolUse","handler":{"type":"decide","verdict":"ask"}}]}"#;
        std::fs::write(&path, text).unwrap();
        settings.tiers.team.sources.push(SourceSettings { path, optional: false, selector });
    }
    Arc::new(load(&settings, &mut Memory::default()).catalog.unwrap())
}

fn labels(text: &str) -> Vec<(String, String)> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn considered(catalog: &Arc<crate::Catalog>, text: &str, subject: &str) -> usize {
    let policy = Policy::of(Arc::clone(catalog), &labels(text)).unwrap();
    policy.matching("PreToolUse", Some(subject)).unwrap().1.rules.len()
}

fn callers(catalog: &crate::Catalog) -> usize {
    catalog.groups.known.shards.iter().map(|shard| shard.load().len()).sum()
}

#[test]
fn callers_that_differ_in_nothing_that_a_selector_names_are_one() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = catalog(folder.path(), &[("tenant", "a"), ("env", "x")]);
    for user in 0..100 {
        assert_eq!(considered(&catalog, &format!("tenant=a,user=u{user}"), "Bash"), 2);
        assert_eq!(considered(&catalog, &format!("tenant=b{user},user=u"), "Bash"), 1);
    }
    // Each other tenant is remembered, but what they have is one share.
    assert_eq!((callers(&catalog), catalog.groups.shares.lock().unwrap().len()), (101, 2));
}

#[test]
fn groups_are_found_by_the_label_that_the_fewest_ask_for() {
    let mut groups = Groups::default();
    let both = |tenant: &str| {
        let of = |key: &str, value: &str| Requirement {
            key: key.to_owned(),
            operator: Operator::In(BTreeSet::from([value.to_owned()])),
        };
        Arc::new(Selector::new([of("cluster", "prod"), of("tenant", tenant)], MissingLabel::Deny).unwrap())
    };
    let exists = Requirement { key: "tenant".to_owned(), operator: Operator::Exists };
    let selectors = [both("a"), both("b"), both("c"), Arc::new(Selector::new([exists], MissingLabel::Deny).unwrap())];
    groups.groups = selectors
        .into_iter()
        .map(|selector| Group { selector, by_event: HashMap::new(), defaults: Vec::new() })
        .collect();
    groups.index();
    let tenants = ["a", "b", "c"].map(|tenant| groups.by_label["tenant"][tenant].clone());
    assert_eq!((tenants, groups.by_label.len(), groups.others), ([vec![0], vec![1], vec![2]], 1, vec![3]));
}

#[test]
fn however_many_callers_come_they_are_judged_right_and_take_bounded_room() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = catalog(folder.path(), &[("tenant", "t7")]);
    for tenant in 0..(SHARDS * MAX_IN_A_SHARD / 8) {
        let expected = if tenant == 7 { 2 } else { 1 };
        assert_eq!(considered(&catalog, &format!("tenant=t{tenant}"), "Bash"), expected);
    }
    assert!(catalog.groups.known.shards.iter().all(|shard| shard.load().len() <= MAX_IN_A_SHARD));

    // A shard that is full begins anew.
    let known = Known::default();
    for hash in (0..).step_by(SHARDS).take(MAX_IN_A_SHARD + 1) {
        let missing = Lacking { label: "x".into(), tier: Tier::Team, source_path: Path::new("/").into() };
        known.put(hash, Caller { labels: Box::default(), share: Err(missing) });
    }
    assert_eq!(known.shards.iter().map(|shard| shard.load().len()).sum::<usize>(), 1);
}

#[test]
fn without_room_lists_are_made_anew_and_room_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = catalog(folder.path(), &[("tenant", "a")]);
    let room = Arc::clone(&catalog.groups.room);
    let before = room.left();
    let policy = Policy::of(Arc::clone(&catalog), &labels("tenant=a")).unwrap();
    let lists = |subject: &str| {
        let list = || policy.matching("PreToolUse", Some(subject)).unwrap().1;
        (list(), list())
    };
    let (one, again) = lists("Bash");
    assert!(Arc::ptr_eq(&one, &again) && room.left() < before);
    let left = room.left();
    assert!(room.take(left));
    let (one, again) = lists("Edit");
    assert!(!Arc::ptr_eq(&one, &again) && one.rules.len() == 2 && again.rules.len() == 2);
    let (one, again) = lists("Bash");
    assert!(Arc::ptr_eq(&one, &again), "what is remembered stays");
    drop((policy, one, again));
    drop(catalog);
    assert_eq!(room.left(), before - left);
}

#[test]
fn many_subjects_of_one_caller_are_bounded_too() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = catalog(folder.path(), &[("tenant", "a")]);
    let before = catalog.groups.room.left();
    for subject in 0..1000 {
        assert_eq!(considered(&catalog, "tenant=a", &format!("tool{subject}")), 2);
    }
    let taken = before - catalog.groups.room.left();
    assert!(taken < 256 * (128 + 16 + 2 * size_of::<Arc<Rule>>()), "{taken}");
}
