//! Rules and settings that change under a running hookd (laws 9 and 10).

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use hookd_tests::{Hookd, Signal, Tier, eventually, pre_tool_use, said, v1};
use serde_json::{Value, json};

fn bash() -> v1::TriggerRequest {
    pre_tool_use("Bash", json!({ "command": "ls" }))
}

/// A rule that allows and says from which generation it is.
fn of_generation(id: &str, generation: &str) -> Value {
    json!({ "id": id, "event": "PreToolUse",
            "handler": { "type": "decide", "verdict": "allow", "additionalContext": generation } })
}

fn file(rules: &[Value]) -> String {
    json!({ "hooks": rules }).to_string()
}

/// The texts that the rules of an answer gave: their generations.
fn generations(answer: &v1::TriggerResponse) -> Vec<String> {
    answer.additional_context.iter().map(|note| note.text.clone()).collect()
}

async fn judged_by(hookd: &Hookd, generation: &str) {
    eventually(generation, async || {
        let generations = generations(&hookd.trigger(bash()).await);
        (!generations.is_empty() && generations.iter().all(|by| by == generation)).then_some(())
    })
    .await;
}

/// How many loads were good, and how many were refused.
async fn loads(hookd: &Hookd) -> (f64, f64) {
    let good = hookd.metric(r#"hookd_reloads_total{result="good"}"#).await;
    (good, hookd.metric(r#"hookd_reloads_total{result="refused"}"#).await)
}

/// The log lines with this message, as soon as there is one.
async fn logged(hookd: &Hookd, message: &str) -> Vec<Value> {
    eventually(message, async || {
        let lines = hookd.log_lines().into_iter().filter(|line| line["message"] == message).collect::<Vec<_>>();
        (!lines.is_empty()).then_some(lines)
    })
    .await
}

/// A directory that is updated as Kubernetes updates a mounted ConfigMap: its files are links through `..data`, itself a
/// link, which is swapped for one to a new directory; then the old one goes.
struct Mount(PathBuf);

impl Mount {
    fn new(folder: PathBuf, files: &[(&str, String)]) -> Self {
        fs::create_dir_all(&folder).unwrap();
        let mount = Self(folder);
        mount.swap("first", files);
        for (name, _) in files {
            symlink(Path::new("..data").join(name), mount.0.join(name)).unwrap();
        }
        mount
    }

    fn swap(&self, version: &str, files: &[(&str, String)]) {
        let directory = format!("..{version}");
        fs::create_dir(self.0.join(&directory)).unwrap();
        for (name, text) in files {
            fs::write(self.0.join(&directory).join(name), text).unwrap();
        }
        let data = self.0.join("..data");
        let old = fs::read_link(&data);
        symlink(&directory, self.0.join("..data_tmp")).unwrap();
        fs::rename(self.0.join("..data_tmp"), data).unwrap();
        match old {
            Ok(old) => fs::remove_dir_all(self.0.join(old)).unwrap(),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::NotFound),
        }
    }
}

/// Asks without a break until told to stop; gives every pair of revision and generations that judged, and the count.
async fn ask(
    mut client: v1::hook_service_client::HookServiceClient<tonic::transport::Channel>,
    stop: Arc<AtomicBool>,
) -> (BTreeSet<(String, Vec<String>)>, usize) {
    let (mut seen, mut calls) = (BTreeSet::new(), 0);
    while !stop.load(Ordering::SeqCst) {
        let answer = client.trigger(bash()).await.expect("no call fails").into_inner();
        assert_eq!(answer.verdict(), v1::Verdict::Allow);
        seen.insert((answer.policy_revision.clone(), generations(&answer)));
        calls += 1;
    }
    (seen, calls)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn law_09_law_10_two_hundred_reloads_half_of_them_broken_under_load() {
    let builder = Hookd::builder();
    let files = |generation: &str| {
        let one = file(&[of_generation("one", generation), of_generation("two", generation)]);
        [("a.json", one), ("b.json", file(&[of_generation("three", generation)]))]
    };
    let mount = Mount::new(builder.path("managed"), &files("0"));
    let hookd = builder.start().await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut callers = Vec::new();
    for _ in 0..4 {
        callers.push(tokio::spawn(ask(hookd.client().await, Arc::clone(&stop))));
    }

    let mut revision = hookd.trigger(bash()).await.policy_revision;
    let mut good = BTreeMap::from([(revision.clone(), "0".to_owned())]);
    for number in 1..=200 {
        let generation = number.to_string();
        let mut files = files(&generation);
        let is_broken = number % 2 == 0;
        if is_broken {
            let half = files[1].1.len() / 2;
            files[1].1.truncate(half);
        }
        mount.swap(&generation, &files);
        let report = hookd.reload().await;
        assert_eq!(report.ok, !is_broken, "{report:?}");
        assert_eq!(report.policy_revision == revision, is_broken, "{number}: {report:?}");
        if !is_broken {
            revision = report.policy_revision;
            assert_eq!(good.insert(revision.clone(), generation), None, "a revision for each meaning");
        }
        let answer = hookd.trigger(bash()).await;
        assert_eq!((&answer.policy_revision, generations(&answer)), (&revision, vec![good[&revision].clone(); 3]));
    }
    stop.store(true, Ordering::SeqCst);
    for caller in callers {
        let (seen, calls) = caller.await.unwrap();
        for (revision, generations) in seen {
            let generation = good.get(&revision).unwrap_or_else(|| panic!("{revision} is none: {generations:?}"));
            assert_eq!(generations, vec![generation.clone(); 3]);
        }
        assert!(calls >= 100, "{calls} calls are no load");
    }
    let (good, refused) = loads(&hookd).await;
    assert!(good >= 101.0 && refused >= 100.0, "{good} good, {refused} refused");
}

#[tokio::test]
async fn law_10_the_link_swap_of_a_mounted_config_map_is_noticed() {
    let builder = Hookd::builder();
    let mount = Mount::new(builder.path("managed"), &[("a.json", file(&[of_generation("one", "old")]))]);
    let hookd = builder.start().await;
    judged_by(&hookd, "old").await;
    for generation in ["new", "newer"] {
        mount.swap(generation, &[("a.json", file(&[of_generation("one", generation)]))]);
        judged_by(&hookd, generation).await;
    }
}

#[tokio::test]
async fn law_10_a_file_that_goes_from_a_managed_directory_takes_its_rules_along() {
    let hookd = Hookd::builder()
        .file("managed/a.json", &file(&[of_generation("one", "a")]))
        .file("managed/b.json", &file(&[of_generation("two", "b")]))
        .start()
        .await;
    let before = hookd.trigger(bash()).await;
    assert_eq!(generations(&before), ["a", "b"]);
    fs::remove_file(hookd.path("managed/b.json")).unwrap();
    judged_by(&hookd, "a").await;
    assert_ne!(hookd.trigger(bash()).await.policy_revision, before.policy_revision);
    let warnings = logged(&hookd, "rules loaded with a warning").await;
    let gone = format!("{}: is gone, and its rules with it", hookd.path("managed/b.json").display());
    assert_eq!(
        warnings.iter().map(|line| (&line["level"], &line["problem"])).collect::<Vec<_>>(),
        [(&json!("WARN"), &json!(gone))]
    );
}

#[tokio::test]
async fn law_10_a_managed_source_that_vanishes_is_a_refused_reload() {
    let hookd = Hookd::builder().managed(json!([of_generation("one", "good")])).start().await;
    let before = hookd.trigger(bash()).await;
    fs::rename(hookd.path("managed"), hookd.path("away")).unwrap();
    eventually("the reload is refused", async || (loads(&hookd).await.1 >= 1.0).then_some(())).await;
    let after = hookd.trigger(bash()).await;
    assert_eq!((said(&after), &after.policy_revision), (said(&before), &before.policy_revision));

    let path = hookd.path("managed").display().to_string();
    let error = format!("{path}: is gone as a whole, its rules stay in force until it is back");
    let (status, page) = hookd.admin_get("/readyz").await;
    assert_eq!(status, 200, "it judges as before: {page}");
    assert!(page.contains(&error), "{page}");
    let status = hookd.admin().get_status(v1::GetStatusRequest {}).await.unwrap().into_inner();
    let source = &status.sources[0];
    assert_eq!((source.state(), source.errors.as_slice()), (v1::SourceState::Stale, [error].as_slice()));
    assert_eq!(status.policy_revision, before.policy_revision);

    fs::rename(hookd.path("away"), hookd.path("managed")).unwrap();
    eventually("readiness says nothing of it any more", async || {
        (!hookd.admin_get("/readyz").await.1.contains("is gone")).then_some(())
    })
    .await;
    judged_by(&hookd, "good").await;
}

#[tokio::test]
async fn sighup_reloads() {
    let hookd = Hookd::builder().managed(json!([of_generation("one", "good")])).start().await;
    let before = loads(&hookd).await;
    hookd.signal(Signal::HUP);
    eventually("a load", async || (loads(&hookd).await == (before.0 + 1.0, before.1)).then_some(())).await;
    let reloading = logged(&hookd, "reloading").await;
    assert_eq!(reloading.iter().map(|line| &line["reason"]).collect::<Vec<_>>(), ["SIGHUP"]);
    judged_by(&hookd, "good").await;
}

#[tokio::test]
async fn the_reload_call_tells_errors_by_source_and_the_rest_stays_in_force() {
    let hookd = Hookd::builder()
        .managed(json!([of_generation("one", "good")]))
        .shared(json!([{ "id": "two", "event": "PreToolUse", "handler": { "type": "decide", "verdict": "ask" } }]))
        .start()
        .await;
    let before = hookd.trigger(bash()).await;
    hookd.replace_file("managed/rules.json", "{\n  \"hoks\": []\n}");
    hookd.replace_file("shared/rules.json", "{\n  \"hooks\": [ { \"id\": \"two\" } ]\n}");
    let report = hookd.reload().await;
    let summary = |source: &v1::SourceStatus| (source.tier(), source.state(), source.errors.clone());
    let managed = hookd.path("managed/rules.json").display().to_string();
    let shared = hookd.path("shared/rules.json").display().to_string();
    let sources = report.sources.iter().map(summary).collect::<Vec<_>>();
    assert_eq!(sources.len(), 2);
    assert_eq!((sources[0].0, sources[0].1), (Tier::Managed, v1::SourceState::Stale));
    assert!(sources[0].2[0].starts_with(&format!("{managed}:2:3: hoks: ")), "{sources:?}");
    assert!(sources[0].2[0].contains("did you mean `hooks`"), "{sources:?}");
    // The whole load was refused: what the file had before is in force, be the error another's.
    assert_eq!((sources[1].0, sources[1].1), (Tier::Shared, v1::SourceState::Stale));
    assert_eq!(report.sources.iter().map(|source| source.rules).collect::<Vec<_>>(), [1, 1]);
    assert!(sources[1].2[0].starts_with(&format!("{shared}:2:14: hooks[0]: ")), "{sources:?}");
    assert_eq!((report.ok, report.changed, &report.policy_revision), (false, false, &before.policy_revision));
    let after = hookd.trigger(bash()).await;
    assert_eq!((said(&after), &after.policy_revision), (said(&before), &before.policy_revision));
}

#[tokio::test]
async fn law_10_a_broken_local_file_keeps_its_last_good_text() {
    let hookd = Hookd::builder().local(json!([of_generation("mine", "good")])).start().await;
    let before = hookd.trigger(bash()).await;
    hookd.replace_file("local/rules.json", "{ \"hooks\": [");
    let report = hookd.reload().await;
    assert_eq!((report.ok, report.changed, &report.policy_revision), (false, false, &before.policy_revision));
    assert_eq!(report.sources[0].state(), v1::SourceState::Stale);
    assert_eq!(said(&hookd.trigger(bash()).await), said(&before));
    hookd.rewrite_rules(Tier::Local, json!([of_generation("mine", "better")]));
    judged_by(&hookd, "better").await;
}

fn edit_settings(hookd: &Hookd, edit: impl FnOnce(&mut Value)) {
    let mut settings = serde_json::from_str(&fs::read_to_string(hookd.path("hookd.json")).unwrap()).unwrap();
    edit(&mut settings);
    hookd.replace_file("hookd.json", &settings.to_string());
}

#[tokio::test]
async fn shadow_mode_in_the_settings_is_a_break_glass_without_a_restart() {
    let rule = json!({ "id": "guard", "event": "PreToolUse",
                       "handler": { "type": "decide", "verdict": "block", "reason": "no" } });
    let hookd = Hookd::builder().managed(json!([rule])).start().await;
    let blocked = hookd.trigger(bash()).await;
    assert_eq!(blocked.verdict(), v1::Verdict::Block);
    edit_settings(&hookd, |settings| settings["tiers"]["managed"]["mode"] = json!("shadow"));
    eventually("the guard is off", async || (hookd.trigger(bash()).await.verdict() == v1::Verdict::None).then_some(()))
        .await;
    let off = hookd.trigger(bash()).await;
    let expected = json!({
        "verdict": "none", "results": ["managed/guard block shadow"], "considered": 1, "matched": 1
    });
    assert_eq!(said(&off), expected);
    assert_ne!(off.policy_revision, blocked.policy_revision);
    assert_eq!(hookd.metric(r#"hookd_rules{tier="managed",mode="shadow"}"#).await, 1.0);
    edit_settings(&hookd, |settings| settings["tiers"]["managed"]["mode"] = json!("enforce"));
    eventually("the guard is on again", async || {
        (hookd.trigger(bash()).await.policy_revision == blocked.policy_revision).then_some(())
    })
    .await;
}

#[tokio::test]
async fn broken_settings_refuse_a_reload_and_cold_ones_ask_for_a_restart() {
    let hookd = Hookd::builder().managed(json!([of_generation("one", "good")])).start().await;
    let whole = fs::read_to_string(hookd.path("hookd.json")).unwrap();
    edit_settings(&hookd, |settings| settings["tiers"]["managd"] = json!({}));
    eventually("the reload is refused", async || (loads(&hookd).await.1 >= 1.0).then_some(())).await;
    let (_, page) = hookd.admin_get("/readyz").await;
    assert!(page.contains("managd"), "{page}");
    judged_by(&hookd, "good").await;

    hookd.replace_file("hookd.json", &whole);
    edit_settings(&hookd, |settings| settings["limits"] = json!({ "children": 3 }));
    let warnings = logged(&hookd, "settings changed that need a restart").await;
    assert_eq!(warnings[0]["keys"], "limits.children");
    judged_by(&hookd, "good").await;
}

/// A file of YAML that was cut off while it was written is often one that can be read.
#[tokio::test]
async fn law_10_settings_that_lost_their_sources_are_refused_and_said_to_be_none_are_taken() {
    let hookd = Hookd::builder().managed(json!([of_generation("one", "good")])).start().await;
    for (lost, expected) in [
        (json!(null), "tiers: is empty, so rules would fall away"),
        (json!({ "managed": null }), "tiers.managed: is empty, so rules would fall away"),
        (json!({ "managed": { "sources": null } }), "tiers.managed.sources: is empty, so the rules of this tier"),
        (json!({}), "tiers.managed.sources: are not there any more, so the rules of this tier"),
        (json!({ "managed": {}, "shared": { "sources": [] } }), "tiers.managed.sources: are not there any more"),
    ] {
        edit_settings(&hookd, |settings| settings["tiers"] = lost);
        eventually("the reload is refused", async || {
            hookd.admin_get("/readyz").await.1.contains(expected).then_some(())
        })
        .await;
        judged_by(&hookd, "good").await;
    }
    edit_settings(&hookd, |settings| settings["tiers"] = json!({ "managed": { "sources": [] } }));
    eventually("they are gone on purpose", async || {
        (hookd.trigger(bash()).await.verdict() == v1::Verdict::None).then_some(())
    })
    .await;
}

#[tokio::test]
async fn settings_in_any_format_are_taken_when_they_change() {
    let settings = |mode: &str| {
        [
            (
                "yaml",
                format!(
                    "{{ listen: 127.0.0.1:0, admin_listen: 127.0.0.1:0, tiers: {{ managed: {{ sources: [managed], mode: {mode} }} }} }}"
                ),
            ),
            (
                "toml",
                format!(
                    "listen = \"127.0.0.1:0\"\nadmin_listen = \"127.0.0.1:0\"\ntiers.managed = {{ sources = [\"managed\"], mode = \"{mode}\" }}"
                ),
            ),
        ]
    };
    for ((format, enforced), (_, in_shadow)) in settings("enforce").into_iter().zip(settings("shadow")) {
        let name = format!("set.{format}");
        let builder = Hookd::builder().managed(json!([of_generation("one", "enforced")])).file(&name, &enforced);
        let path = builder.path(&name);
        let hookd = builder.settings_file(path).start().await;
        judged_by(&hookd, "enforced").await;
        hookd.replace_file(&name, &in_shadow);
        eventually(format, async || generations(&hookd.trigger(bash()).await).is_empty().then_some(())).await;
    }
}

#[tokio::test]
async fn law_10_a_broken_central_file_stops_the_start_with_its_place() {
    for tier in ["managed", "team"] {
        let path = format!("{tier}/guard.json");
        let text = "{\n  \"hooks\": [\n    { \"event\": \"PreToolUse\", \"matcher\": \"(\",\n      \"handler\": { \"type\": \"decide\", \"verdict\": \"block\" } }\n  ]\n}\n";
        let builder = Hookd::builder().file(&path, text);
        let place = format!("{}:3:41: hooks[0].matcher: ", builder.path(&path).display());
        let refused = builder.start_refused().await;
        assert_eq!(refused.code, Some(64), "{}", refused.stderr);
        assert!(refused.stderr.contains(&place), "{place}\n{}", refused.stderr);
    }
}

#[tokio::test]
async fn law_10_a_source_that_is_not_there_stops_the_start_unless_it_is_optional() {
    let settings = |optional| json!({ "tiers": { "shared": { "sources": [ { "path": "nowhere/rules.json", "optional": optional } ] } } });
    let builder = Hookd::builder().settings(settings(false));
    let path = builder.path("nowhere/rules.json").display().to_string();
    let refused = builder.start_refused().await;
    assert_eq!(refused.code, Some(64), "{}", refused.stderr);
    assert!(refused.stderr.contains(&format!("{path}: is not there")), "{}", refused.stderr);

    let hookd = Hookd::builder().settings(settings(true)).start().await;
    fs::create_dir(hookd.path("nowhere")).unwrap();
    fs::write(hookd.path("nowhere/new.json"), file(&[of_generation("one", "late")])).unwrap();
    fs::rename(hookd.path("nowhere/new.json"), hookd.path("nowhere/rules.json")).unwrap();
    eventually("the file that came later", async || {
        (generations(&hookd.trigger(bash()).await) == ["late"]).then_some(())
    })
    .await;
}
