use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use hookd_rules::{SourceSettings, SourceState, Tier};

use super::*;

fn rule(event: &str, reason: &str) -> String {
    format!(
        r#"{{"hooks": [{{"event": "{event}", "handler": {{"type": "decide", "verdict": "block", "reason": "{reason}"}}}}]}}"#
    )
}

fn settings(tier: Tier, path: &Path) -> LoadSettings {
    let mut settings = LoadSettings::default();
    settings.tiers.get_mut(tier).sources =
        vec![SourceSettings { path: path.to_owned(), optional: false, selector: None }];
    settings
}

async fn start(tier: Tier, path: &Path) -> Result<Live, ReloadReport> {
    let path = path.to_owned();
    Live::start(move || Ok(settings(tier, &path))).await
}

#[tokio::test]
async fn law_10_a_broken_reload_leaves_the_catalog_in_force() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("rules.json");
    fs::write(&file, rule("Stop", "one")).unwrap();
    let live = start(Tier::Managed, &file).await.unwrap();
    let first = live.current();
    assert_eq!((first.rules.len(), live.stats().good, live.stats().bad), (1, 1, 0));

    fs::write(&file, "asd{\"hooks\":{}}").unwrap();
    let report = live.reload().await;
    assert!(report.is_refused && !report.changed && !report.is_ok());
    assert_eq!(report.sources[0].state, SourceState::Stale);
    assert_eq!(
        report.lines(Severity::Error).collect::<Vec<_>>(),
        [format!("{}:1:1: not valid JSON: expected value", file.display())]
    );
    assert!(Arc::ptr_eq(&first, &live.current()));
    assert_eq!((live.stats().good, live.stats().bad), (1, 1));

    fs::write(&file, rule("Stop", "two")).unwrap();
    let report = live.reload().await;
    assert!(!report.is_refused && report.changed && report.is_ok());
    assert_ne!(first.revision, live.current().revision);
    assert_eq!(report.revision, live.current().revision);
    assert_eq!((live.stats().good, live.stats().bad), (2, 1));
    assert_eq!(live.last_report().revision, live.current().revision);
}

#[tokio::test]
async fn law_10_of_a_refused_reload_every_source_is_told_as_it_is_in_force() {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    let sources = [(Tier::Managed, "managed.json"), (Tier::Local, "local.json"), (Tier::Shared, "shared.json")];
    let read_settings = {
        let sources = sources.map(|(tier, name)| (tier, path(name)));
        move || {
            let mut settings = LoadSettings::default();
            for (tier, path) in sources.clone() {
                let source = SourceSettings { path, optional: tier == Tier::Shared, selector: None };
                settings.tiers.get_mut(tier).sources = vec![source];
            }
            Ok(settings)
        }
    };
    fs::write(path("managed.json"), rule("Stop", "one")).unwrap();
    fs::write(path("local.json"), rule("Stop", "one")).unwrap();
    let live = Live::start(read_settings).await.unwrap();
    fs::write(path("managed.json"), "{").unwrap();
    fs::write(path("local.json"), r#"{"hooks": []}"#).unwrap();
    let told = |report: &ReloadReport| {
        let sources = report.sources.iter().map(|source| (source.state, source.rules, source.errors.len()));
        sources.collect::<Vec<_>>()
    };
    let stale = |errors| (SourceState::Stale, 1, errors);
    assert_eq!(told(&*live.reload().await), [stale(1), stale(0), (SourceState::Absent, 0, 0)]);
    fs::write(path("managed.json"), rule("Stop", "one")).unwrap();
    let loaded = |rules| (SourceState::Loaded, rules, 0);
    assert_eq!(told(&*live.reload().await), [loaded(1), loaded(0), (SourceState::Absent, 0, 0)]);
}

#[tokio::test]
async fn law_10_a_start_fails_on_what_a_reload_would_refuse() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("rules.json");
    for tier in [Tier::Managed, Tier::Shared] {
        let report = start(tier, &file).await.unwrap_err();
        let message = "is not there, and not marked as `optional` in the settings";
        assert_eq!(report.lines(Severity::Error).collect::<Vec<_>>(), [format!("{}: {message}", file.display())]);
    }
}

#[tokio::test]
async fn law_09_the_same_meaning_is_no_change() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("rules.json");
    fs::write(&file, rule("Stop", "one")).unwrap();
    let live = start(Tier::Managed, &file).await.unwrap();
    fs::write(&file, rule("Stop", "one").replace(' ', "\n ")).unwrap();
    let report = live.reload().await;
    assert!(!report.changed && !report.is_refused);
}

#[tokio::test]
async fn settings_that_cannot_be_read_refuse_the_reload() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("rules.json");
    fs::write(&file, rule("Stop", "one")).unwrap();
    let broken = Arc::new(AtomicBool::new(false));
    let read_settings = {
        let (broken, file) = (Arc::clone(&broken), file.clone());
        move || {
            if broken.load(Ordering::SeqCst) {
                return Err("hookd.yaml: unknown key `tires`".to_owned());
            }
            Ok(settings(Tier::Team, &file))
        }
    };
    let live = Live::start(read_settings).await.unwrap();
    broken.store(true, Ordering::SeqCst);
    let report = live.reload().await;
    assert!(report.is_refused);
    assert_eq!(report.lines(Severity::Error).collect::<Vec<_>>(), ["hookd.yaml: unknown key `tires`"]);
    assert_eq!(report.sources.len(), 1);
    assert_eq!((live.current().rules.len(), live.stats().bad, live.paths()), (1, 1, vec![file]));
}

#[tokio::test]
async fn reloads_at_the_same_time_run_one_after_another() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("rules.json");
    fs::write(&file, rule("Stop", "one")).unwrap();
    let live = start(Tier::Local, &file).await.unwrap();
    let reloads = (0..20).map(|_| {
        let live = live.clone();
        tokio::spawn(async move { live.reload().await.is_ok() })
    });
    for reload in reloads.collect::<Vec<_>>() {
        assert!(reload.await.unwrap());
    }
    assert_eq!(live.stats().good, 21);
}

#[tokio::test]
async fn a_watched_change_comes_into_force() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("rules.json");
    fs::write(&file, rule("Stop", "one")).unwrap();
    let watch = Watch::start(vec![file.clone()], WatchTimes::default()).await;
    let live = start(Tier::Managed, &file).await.unwrap();
    let before = live.current();
    let reloading = tokio::spawn({
        let live = live.clone();
        async move {
            loop {
                watch.changed().await;
                if live.reload().await.changed {
                    break;
                }
                watch.set_paths(live.paths());
            }
        }
    });
    fs::write(&file, rule("Stop", "two")).unwrap();
    tokio::time::timeout(std::time::Duration::from_secs(60), reloading).await.unwrap().unwrap();
    assert_ne!(before.revision, live.current().revision);
}
