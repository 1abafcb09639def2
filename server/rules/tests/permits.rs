//! What the settings let the rules of a tier be.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{fs, path::Path, sync::Arc, time::Duration};

use hookd_rules::{Handler, LoadSettings, Memory, Offered, OfferedFile, Permits, SourceSettings, Tier, load};

const RULES: &str = r#"{"hooks":[
{"id":"program","event":"PreToolUse","handler":{"type":"command","command":"x","timeout":2000}},
{"id":"post","event":["Stop"],"handler":{"type":"http","url":"http://Hooks.example.com:8080/x"}},
{"id":"answer","event":["PreToolUse","Stop"],"handler":{"type":"decide","verdict":"ask"}}]}"#;

/// The ids and problems of a load of [`RULES`] as rules of `tier`.
fn loaded(tier: Tier, permits: Permits) -> (Option<Vec<String>>, Vec<String>) {
    loaded_text(RULES, tier, permits)
}

fn loaded_text(text: &str, tier: Tier, permits: Permits) -> (Option<Vec<String>>, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hooks.json");
    fs::write(&path, text).unwrap();
    let mut settings = LoadSettings::default();
    let tier_settings = settings.tiers.get_mut(tier);
    tier_settings.sources.push(SourceSettings { path, optional: false, selector: None });
    tier_settings.permits = permits;
    let load = load(&settings, &mut Memory::default());
    let root = format!("{}/", folder.path().display());
    let problems = load.problems.iter().map(|problem| problem.to_string().replace(&root, "")).collect();
    let ids = load.catalog.map(|catalog| catalog.rules.iter().map(|rule| rule.id.to_string()).collect());
    (ids, problems)
}

#[test]
fn below_team_only_public_addresses_are_reached_unless_the_settings_name_the_host() {
    let loaded = |url: &str, any_address: bool, hosts: Option<&[&str]>| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hooks.json");
        let rule = format!(r#"{{"hooks":[{{"id":"post","event":"Stop","handler":{{"type":"http","url":"{url}"}}}}]}}"#);
        fs::write(&path, rule).unwrap();
        let mut settings = LoadSettings::default();
        let shared = settings.tiers.get_mut(Tier::Shared);
        shared.sources.push(SourceSettings { path, optional: false, selector: None });
        shared.any_address = any_address;
        shared.permits.http_hosts = hosts.map(|hosts| hosts.iter().map(ToString::to_string).collect());
        let load = load(&settings, &mut Memory::default());
        let rule = load.catalog.unwrap().rules.first().map(Arc::clone);
        let public_only = rule.map(|rule| match &rule.handler {
            Handler::Http(http) => http.public_only,
            _ => panic!("another handler"),
        });
        let root = format!("{}/", folder.path().display());
        (public_only, load.problems.first().map(|problem| problem.to_string().replace(&root, "")))
    };
    let private = |address: &str| {
        let message = format!("`{address}` is not a public address, `tiers.shared.http_hosts` would have to name it");
        (None, Some(format!("hooks.json:1:70: hooks[0].handler.url: {message}; rule `post` is left out")))
    };
    assert_eq!(loaded("http://hooks.example.com/", false, None), (Some(true), None));
    assert_eq!(loaded("http://hooks.example.com/", true, None), (Some(false), None));
    assert_eq!(loaded("http://hooks.example.com/", false, Some(&["hooks.example.com"])), (Some(false), None));
    // A name that ends alike is another one, the dot at the end makes none.
    for (url, public_only) in [
        ("http://a.example.com/", Some(false)),
        ("http://a.EXAMPLE.com./", Some(false)),
        ("http://evilexample.com/", None),
        ("http://.example.com/", None),
        ("http://example.com/", None),
        ("http://a.example.com.evil.org/", None),
    ] {
        assert_eq!(loaded(url, false, Some(&["*.example.com"])).0, public_only, "{url}");
    }
    assert_eq!(loaded("http://8.8.8.8/", false, None), (Some(true), None));
    assert_eq!(loaded("http://127.0.0.1/", true, None), (Some(false), None));
    assert_eq!(loaded("http://127.0.0.1/", false, Some(&["127.0.0.1"])), (Some(false), None));
    for (url, address) in [
        ("http://127.0.0.1/", "127.0.0.1"),
        ("http://2130706433/", "127.0.0.1"),
        ("http://0x7f.1/", "127.0.0.1"),
        ("http://169.254.169.254/latest", "169.254.169.254"),
        ("http://[::ffff:10.0.0.1]/", "::ffff:10.0.0.1"),
        ("http://[fd00:ec2::254]/", "fd00:ec2::254"),
    ] {
        assert_eq!(loaded(url, false, None), private(address), "{url}");
    }
}

#[test]
fn a_tier_can_be_narrowed() {
    let names = |names: &[&str]| Some(names.iter().map(ToString::to_string).collect::<Vec<_>>());
    let narrowed = |narrow: fn(&mut Permits, Option<Vec<String>>), list: &[&str]| {
        let mut permits = Permits::default();
        narrow(&mut permits, names(list));
        permits
    };
    let handlers = |permits: &mut Permits, list| permits.handlers = list;
    let events = |permits: &mut Permits, list| permits.events = list;
    let hosts = |permits: &mut Permits, list| permits.http_hosts = list;
    let timeout = |permits: &mut Permits, _| permits.max_timeout = Some(Duration::from_secs(1));
    for (permits, ids, problems) in [
        (Permits::default(), &["program", "post", "answer"][..], &[][..]),
        (
            narrowed(handlers, &["decide", "http"]),
            &["post", "answer"],
            &[
                "hooks.json:2:1: hooks[0]: handlers of type `command` are not permitted here, `tiers.shared.handlers` permits `decide`, `http`; rule `program` is left out",
            ],
        ),
        (
            narrowed(events, &["PreToolUse"]),
            &["program"],
            &[
                "hooks.json:3:1: hooks[1]: rules for the event `Stop` are not permitted here, `tiers.shared.events` permits `PreToolUse`; rule `post` is left out",
                "hooks.json:4:1: hooks[2]: rules for the event `Stop` are not permitted here, `tiers.shared.events` permits `PreToolUse`; rule `answer` is left out",
            ],
        ),
        (
            narrowed(hosts, &["example.com", "*.example.org"]),
            &["program", "answer"],
            &[
                "hooks.json:3:1: hooks[1]: http handlers for the host `hooks.example.com` are not permitted here, `tiers.shared.http_hosts` permits `example.com`, `*.example.org`; rule `post` is left out",
            ],
        ),
        (
            narrowed(hosts, &[]),
            &["program", "answer"],
            &[
                "hooks.json:3:1: hooks[1]: http handlers for the host `hooks.example.com` are not permitted here, `tiers.shared.http_hosts` permits none; rule `post` is left out",
            ],
        ),
        (narrowed(hosts, &["hooks.example.com"]), &["program", "post", "answer"], &[]),
        (narrowed(hosts, &["*.example.com"]), &["program", "post", "answer"], &[]),
        (
            narrowed(hosts, &["*.hooks.example.com"]),
            &["program", "answer"],
            &[
                "hooks.json:3:1: hooks[1]: http handlers for the host `hooks.example.com` are not permitted here, `tiers.shared.http_hosts` permits `*.hooks.example.com`; rule `post` is left out",
            ],
        ),
        (
            narrowed(timeout, &[]),
            &["program", "post", "answer"],
            &["hooks.json:2:90: hooks[0].handler.timeout: 2000 ms is over `tiers.shared.max_timeout`, 1000 ms count"],
        ),
        (
            Permits { enabled: false, ..Permits::default() },
            &[],
            &[
                "`tiers.shared.enabled` is false: no source of this tier is read",
                "no rules are loaded: everything passes",
            ],
        ),
    ] {
        let (seen, said) = loaded(Tier::Shared, permits.clone());
        assert_eq!((seen.unwrap(), said), (strings(ids), strings(problems)), "{permits:?}");
    }
}

/// Central rules are whole or not at all, those that the settings do not permit included.
#[test]
fn law_10_what_a_central_tier_may_not_have_refuses_the_load() {
    let permits = Permits { handlers: Some(strings(&["decide", "http"])), ..Permits::default() };
    let (ids, problems) = loaded(Tier::Managed, permits);
    assert_eq!(ids, None);
    assert_eq!(
        problems,
        [
            "hooks.json:2:1: hooks[0]: handlers of type `command` are not permitted here, `tiers.managed.handlers` permits `decide`, `http`"
        ]
    );
}

#[test]
fn timeouts_that_nobody_set_are_cut_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hooks.json");
    fs::write(&path, r#"{"hooks":[{"event":"Stop","handler":{"type":"command","command":"x"}}]}"#).unwrap();
    let mut settings = LoadSettings::default();
    settings.tiers.local.sources.push(SourceSettings { path, optional: false, selector: None });
    settings.tiers.local.permits.max_timeout = Some(Duration::from_millis(700));
    let load = load(&settings, &mut Memory::default());
    assert_eq!(load.problems, []);
    let catalog = load.catalog.unwrap();
    let timeouts = catalog.rules.iter().map(|rule| match &rule.handler {
        Handler::Command(command) => command.timeout,
        Handler::Http(_) | Handler::Decide(_) => Duration::MAX,
    });
    assert_eq!(timeouts.collect::<Vec<_>>(), [Duration::from_millis(700)]);
}

/// The same holds for rules that a caller brings.
#[test]
fn what_callers_offer_is_narrowed_too() {
    let file = OfferedFile { tier: Tier::Shared, path: Path::new("/p/.ling/hooks.json"), format: "" };
    let offered = |permits: Permits| {
        let mut settings = LoadSettings::default();
        settings.tiers.shared.permits = permits;
        Offered::compile(RULES.as_bytes(), file, &settings)
    };
    let ids = |offered: &Offered| offered.rules.iter().map(|rule| rule.rule.id.to_string()).collect::<Vec<_>>();
    let narrowed = offered(Permits { handlers: Some(strings(&["command"])), ..Permits::default() }).unwrap();
    assert_eq!(ids(&narrowed), ["program"]);
    assert_eq!(
        narrowed.problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "/p/.ling/hooks.json:3:1: hooks[1]: handlers of type `http` are not permitted here, `tiers.shared.handlers` permits `command`; rule `post` is left out",
            "/p/.ling/hooks.json:4:1: hooks[2]: handlers of type `decide` are not permitted here, `tiers.shared.handlers` permits `command`; rule `answer` is left out",
        ]
    );
    let off = offered(Permits { enabled: false, ..Permits::default() });
    assert_eq!(off.unwrap_err(), "`tiers.shared.enabled` is false");
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(ToString::to_string).collect()
}

#[test]
fn a_tier_cannot_have_more_time_than_all() {
    let text = RULES.replace("\"timeout\":2000", "\"timeout\":90000");
    let permits = Permits { max_timeout: Some(Duration::from_secs(120)), ..Permits::default() };
    let (_, problems) = loaded_text(&text, Tier::Shared, permits);
    let message = "90000 ms is over `limits.max_handler_timeout`, 60000 ms count";
    assert_eq!(problems, [format!("hooks.json:2:90: hooks[0].handler.timeout: {message}")]);
}
