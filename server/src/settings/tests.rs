mod audit;
mod identity;

use std::{collections::BTreeMap, fs, path::PathBuf, time::Duration};

use hookd_rules::{Mode, Permits, SourceSettings, Tier};

use super::*;

fn read(name: &str, text: &str, environment: &[(&str, &str)]) -> Result<Settings, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(name);
    fs::write(&file, text).unwrap();
    let origin = Origin {
        file: Some(file),
        environment: environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        working_directory: "/work-dir".into(),
    };
    let path = folder.path().display().to_string();
    Settings::read(&origin).map_err(|error| error.to_string().replace(&format!("{path}/"), ""))
}

fn defaults() -> Settings {
    let origin = Origin { working_directory: "/home/me".into(), ..Origin::default() };
    Settings::read(&origin).unwrap()
}

#[track_caller]
fn refused(text: &str, message: &str) {
    assert_eq!(read("s.yaml", text, &[]).unwrap_err(), message);
}

/// Adds a key that is in no table to `table` and to each table in it, by the name of the table.
fn spoil(
    table: &mut serde_json::Map<String, serde_json::Value>,
    path: &str,
    known: &mut BTreeMap<String, Vec<String>>,
) {
    let keys = table.keys().cloned().collect();
    for (key, value) in table.iter_mut() {
        // Their keys are the user's own.
        if let (Some(table), false) = (value.as_object_mut(), key == "labels") {
            spoil(table, &format!("{path}{key}."), known);
        }
    }
    table.insert("_".repeat(40), 1.into());
    known.insert(path.to_owned(), keys);
}

#[test]
fn what_is_read_is_printed() {
    let hookd_json::Value::Object(mut tree) = tree::tree(&defaults()) else { panic!() };
    let mut known = BTreeMap::new();
    spoil(&mut tree, "", &mut known);
    let expected = known.iter_mut().map(|(path, keys)| {
        keys.sort();
        let keys = keys.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
        format!("s.json: {path}{}: unknown key, known here: {keys}", "_".repeat(40))
    });
    let mut expected = expected.collect::<Vec<_>>();
    let refused = read("s.json", &serde_json::Value::from(tree).to_string(), &[]).unwrap_err();
    let mut refused = refused.lines().filter(|line| line.contains("unknown key")).collect::<Vec<_>>();
    expected.sort();
    refused.sort_unstable();
    assert_eq!(refused, expected);
}

#[test]
fn without_a_file_everything_has_its_default() {
    insta::assert_snapshot!(defaults().to_yaml(), @r#"
    listen: ["127.0.0.1:50051"]
    hosts: ["localhost"]
    admin_listen: "127.0.0.1:8081"
    tls:
      certificate: null
      key: null
      client_ca: null
      client_certificates: null
      min_version: "1.3"
    plaintext: "loopback"
    tiers:
      managed:
        sources: [{"path":"/etc/hookd/managed","optional":true}]
        mode: "enforce"
        on_error: "block"
        may_allow: true
        allow_env: []
        allow_files: []
        enabled: true
        handlers: null
        events: null
        http_hosts: null
        max_timeout: null
      team:
        sources: []
        mode: "enforce"
        on_error: "allow"
        may_allow: true
        allow_env: []
        allow_files: []
        enabled: true
        handlers: null
        events: null
        http_hosts: null
        max_timeout: null
      local:
        sources: [{"path":"/home/me/.ling/hooks.local.json","optional":true}]
        mode: "enforce"
        on_error: "allow"
        may_allow: true
        allow_env: []
        allow_files: []
        enabled: true
        handlers: null
        events: null
        http_hosts: null
        max_timeout: null
        server_commands: "loopback"
      shared:
        sources: [{"path":"/home/me/.ling/hooks.json","optional":true}]
        mode: "enforce"
        on_error: "allow"
        may_allow: false
        allow_env: []
        allow_files: []
        enabled: true
        handlers: null
        events: null
        http_hosts: null
        max_timeout: null
        server_commands: "loopback"
      plugin:
        sources: []
        mode: "enforce"
        on_error: "allow"
        may_allow: false
        allow_env: []
        allow_files: []
        enabled: true
        handlers: null
        events: null
        http_hosts: null
        max_timeout: null
        server_commands: "loopback"
    limits:
      default_deadline: "30s"
      max_deadline: "1m"
      max_handler_timeout: "1m"
      in_flight: 1024
      children: 64
      child_queue: 256
      async_in_flight: 256
      connections: 16384
      connections_of_one_address: 4096
      message_bytes: "4MiB"
      output_bytes: "1MiB"
    bulkheads:
      handler_in_flight: 128
      handler_queue: 128
      breaker_failure_percent: 50
      breaker_runs: 20
      breaker_open_for: "5s"
      tenant_calls_per_second: "off"
      tenant_burst: "off"
    commands:
      path: "/usr/local/bin:/usr/bin:/bin"
      user: "none"
      group: "none"
      no_new_privileges: true
      limits:
        address_space: "none"
        cpu_time: "none"
        open_files: "none"
        processes: "none"
        file_size: "none"
      working_directory: "rule"
      landlock: "required"
      landlock_for: "listed"
    http_handlers:
      ca: null
    drain:
      min_delay: "1s"
      limit: "30s"
    fallbacks:
      ask: "block"
      defer: "block"
      modify: "block"
    log:
      format: "auto"
      filter: "info"
    http2:
      keepalive_interval: "30s"
      keepalive_timeout: "10s"
      max_connection_age: "30m"
      max_concurrent_streams: 256
    audit:
      file:
        path: null
        rotate_bytes: "64MiB"
        rotate_age: "0s"
        keep: 16
        sync_interval: "1s"
      stdout: false
      otlp:
        endpoint: null
        headers_file: null
        ca: null
        timeout: "10s"
        queue_bytes: "16MiB"
      keep: 1.0
      parameters: "off"
      mask_pointers: []
      mask_patterns: []
      hash_key_file: null
      queue_bytes: "64MiB"
      on_full: "drop"
      acknowledge: "queued"
    traces:
      otlp:
        endpoint: null
        headers_file: null
        ca: null
        timeout: "10s"
        queue_bytes: "16MiB"
      sample_ratio: 1.0
    identity:
      anonymous: "loopback"
      certificates:
        names: []
        labels: {}
      issuers: []
      tokens_file: null
    permissions: [{"match_labels":{},"may":["trigger"]}]
    "#);
}

#[test]
fn commands_can_be_held_in() {
    let text = "commands: { path: /bin, user: 65534, group: guards, no_new_privileges: false, working_directory: empty, landlock: off, landlock_for: all, limits: { address_space: 2GiB, cpu_time: 1500ms, open_files: 16, file_size: 1024GiB } }";
    let settings = read("s.yaml", text, &[("HOOKD__COMMANDS__LIMITS__PROCESSES", "64")]).unwrap();
    let expected = CommandSettings {
        path: "/bin".to_owned(),
        user: Some("65534".to_owned()),
        group: Some("guards".to_owned()),
        no_new_privileges: false,
        limits: CommandLimits {
            address_space: Some(2 << 30),
            cpu_time: Some(Duration::from_secs(2)),
            open_files: Some(16),
            processes: Some(64),
            file_size: Some(1 << 40),
        },
        working_directory: WorkingDirectory::Empty,
        landlock: LandlockUse::Off,
        landlock_for: LandlockFor::All,
    };
    assert_eq!(settings.commands, expected);
    assert_eq!(read("s.yaml", &settings.to_yaml(), &[]), Ok(settings));
}

#[test]
fn a_problem_is_one_line_whatever_its_key_holds() {
    let problem = read("s.yaml", "limits: { \"a\\nready\\e[2J\": 1 }", &[]).unwrap_err();
    assert!(problem.starts_with(r"s.yaml: limits.a\nready\u{1b}[2J: unknown key"), "{problem}");
    assert_eq!(problem.lines().count(), 1);
}

#[test]
fn what_is_printed_can_be_read_back() {
    let settings = defaults();
    assert_eq!(read("s.yaml", &settings.to_yaml(), &[]), Ok(settings));
}

#[test]
fn a_tier_can_be_narrowed() {
    let text = "tiers: { shared: { enabled: true, handlers: [decide], events: [Stop, OursToo], http_hosts: [\"Hooks.example.com.\", \"*.example.org\", \"[::1]\"], max_timeout: 2s }, plugin: { enabled: false } }";
    let settings = read("s.yaml", text, &[("HOOKD__TIERS__LOCAL__HANDLERS", "command,decide")]).unwrap();
    let strings = |texts: &[&str]| Some(texts.iter().map(ToString::to_string).collect::<Vec<_>>());
    let shared = Permits {
        enabled: true,
        handlers: strings(&["decide"]),
        events: strings(&["Stop", "OursToo"]),
        http_hosts: strings(&["hooks.example.com", "*.example.org", "[::1]"]),
        max_timeout: Some(Duration::from_secs(2)),
    };
    let local = Permits { handlers: strings(&["command", "decide"]), ..Permits::default() };
    let plugin = Permits { enabled: false, ..Permits::default() };
    let load = settings.for_rules(true, Environment::default());
    let permits = Tier::ALL.map(|tier| load.tiers.get(tier).permits.clone());
    assert_eq!(permits, [Permits::default(), Permits::default(), local, shared, plugin]);
    assert_eq!(read("s.yaml", &settings.to_yaml(), &[]).map(|again| again.tiers), Ok(settings.tiers.clone()));
    assert_eq!(settings.needs_restart(&defaults()), [] as [String; 0], "all of it is hot");
}

#[test]
fn the_three_formats_say_the_same() {
    let yaml = read("s.yml", "listen: 127.0.0.1:1\nlimits: { in_flight: 7, message_bytes: 1MiB }\n", &[]).unwrap();
    let json = r#"{"listen": ["127.0.0.1:1"], "limits": {"in_flight": 7, "message_bytes": 1048576}}"#;
    assert_eq!(read("s.json", json, &[]).as_ref(), Ok(&yaml));
    let toml = "listen = \"127.0.0.1:1\"\n[limits]\nin_flight = 7\nmessage_bytes = \"1024KiB\"\n";
    assert_eq!(read("s.toml", toml, &[]).as_ref(), Ok(&yaml));
    assert_eq!(yaml.limits, Limits { in_flight: 7, message_bytes: 1 << 20, ..defaults().limits });
}

#[test]
fn the_environment_wins_over_the_file() {
    let settings = read(
        "s.yaml",
        "listen: 127.0.0.1:1\ntiers: { shared: { mode: enforce } }\n",
        &[
            ("HOOKD__LISTEN", "127.0.0.1:2, unix:run/h.sock"),
            ("HOOKD__TIERS__SHARED__MODE", "shadow"),
            ("HOOKD__TIERS__SHARED__SOURCES", "a.json,/b"),
            ("HOOKD__LIMITS__IN_FLIGHT", "9"),
            ("HOOKD__TIERS__SHARED__MAY_ALLOW", "true"),
        ],
    )
    .unwrap();
    let sources = [("/work-dir/a.json", false), ("/b", false)].map(|(path, optional)| SourceSettings {
        path: path.into(),
        optional,
        selector: None,
    });
    assert_eq!(settings.listen, [Listen::Tcp(([127, 0, 0, 1], 2).into()), Listen::Unix("/work-dir/run/h.sock".into())]);
    assert_eq!(settings.limits.in_flight, 9);
    let shared =
        TierSettings { sources: sources.into(), mode: Mode::Shadow, may_allow: true, ..defaults().tiers.shared };
    assert_eq!(settings.tiers.shared, shared);
    assert_eq!(settings.tiers.managed, defaults().tiers.managed);
}

#[test]
fn relative_paths_start_at_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("s.yaml");
    fs::write(&file, "listen: unix:h.sock\ntiers: { local: { sources: [ ./rules, { path: ../x, optional: true } ] } }")
        .unwrap();
    let origin = Origin { file: Some(file), environment: BTreeMap::new(), working_directory: "/".into() };
    let settings = Settings::read(&origin).unwrap();
    assert_eq!(settings.listen, [Listen::Unix(folder.path().join("h.sock"))]);
    let paths = settings.tiers.local.sources.iter().map(|source| source.path.as_path()).collect::<Vec<_>>();
    assert_eq!(paths, [folder.path().join("rules"), folder.path().join("../x")]);
}

#[test]
fn default_sources_go_where_sources_are_named_but_managed_ones_only_where_these_are() {
    let sources = |text: &str| {
        let tiers = read("s.yaml", text, &[]).unwrap().tiers;
        let paths = |tier| tiers.get(tier).sources.iter().map(|source| source.path.clone()).collect::<Vec<_>>();
        Tier::ALL.into_iter().flat_map(paths).collect::<Vec<_>>()
    };
    let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
    let silent = paths(&["/etc/hookd/managed", "/work-dir/.ling/hooks.local.json", "/work-dir/.ling/hooks.json"]);
    assert_eq!(sources("# nothing\n"), silent);
    assert_eq!(sources("tiers: { team: { sources: [ /team ] } }"), paths(&["/etc/hookd/managed", "/team"]));
    assert_eq!(sources("tiers: { team: { sources: [] } }"), paths(&["/etc/hookd/managed"]));
    assert_eq!(sources("tiers: { managed: { sources: [] } }"), paths(&[]));
    assert_eq!(sources("tiers: { managed: { sources: [ /m ] } }"), paths(&["/m"]));
}

#[test]
fn selectors_are_read_as_kubernetes_writes_them() {
    let text = r#"
tiers:
  team:
    sources:
      - path: /a
        selector:
          matchLabels: { Tenant: a, example.com/Team.Name: "7" }
          matchExpressions:
            - { key: env, operator: In, values: [test, prod, test] }
            - { key: region, operator: NotIn, values: [eu, "us,ca"] }
            - { key: Trial, operator: DoesNotExist }
            - { key: user, operator: Exists, values: [] }
        missing_label: skip
      - { path: /b, selector: { match_labels: { tenant: b }, match_expressions: [ { key: x, operator: Exists } ] } }
      - { path: /c, selector: {} }
"#;
    let settings = read("s.yaml", text, &[]).unwrap();
    let shown = |place: usize| {
        let selector = settings.tiers.team.sources[place].selector.as_ref();
        selector.map(|selector| format!("{selector} {}", selector.missing_label().name()))
    };
    let first = "Tenant=a,!Trial,env in (prod,test),example.com/Team.Name=7,region notin (eu,us,ca),user skip";
    assert_eq!(shown(0).as_deref(), Some(first));
    assert_eq!(shown(1).as_deref(), Some("tenant=b,x deny"));
    assert_eq!(shown(2), None);

    let printed = settings.to_yaml();
    let line = r#"{"path":"/b","optional":false,"selector":{"matchLabels":{"tenant":"b"},"matchExpressions":[{"key":"x","operator":"Exists"}]},"missing_label":"deny"}"#;
    assert!(printed.contains(line) && printed.contains(r#"{"path":"/c","optional":false}"#), "{printed}");
    assert_eq!(read("s.yaml", &printed, &[]).unwrap(), settings);
}

#[test]
fn what_is_wrong_with_a_selector_is_told() {
    let at = "s.yaml: tiers.team.sources[0]";
    for (source, message) in [
        ("missing_label: deny", "missing_label: has no effect without `selector`"),
        ("selector: { matchLabels: { a: b } }, missing_label: allow", "missing_label: \"allow\" is not deny or skip"),
        (
            "selector: { matchLabels: { a: 7 } }",
            "selector.matchLabels.a: is not a string: values of labels are, write it in quotes",
        ),
        (
            "selector: { matchLabels: { \"a b\": b } }",
            "selector.matchLabels.a b: the name of a label has letters, digits, `-`, `_`, `.` and `/` only",
        ),
        (
            "selector: { matchLabels: { a: \"\" } }",
            "selector.matchLabels.a: is no value that a label can have: it is too long, empty, or holds control characters",
        ),
        (
            "selector: { matchExpressions: [ { key: a, operator: NotIn, values: [b, \"c\\nd\"] } ] }",
            "selector.matchExpressions[0].values: one of them is no value that a label can have: it is too long, empty, or \
             holds control characters",
        ),
        (
            "selector: { matchExpressions: [ { key: \"\", operator: Exists } ] }",
            "selector.matchExpressions[0].key: \"\" is not the name of a label",
        ),
        ("selector: ", "selector: is empty, so the rules would be for everyone: leave it out if that is meant"),
        (
            "selector: { matchLabels: }",
            "selector.matchLabels: is empty, so the rules would be for everyone: leave it out if that is meant",
        ),
        (
            "selector: { matchExpressions: ~ }",
            "selector.matchExpressions: is empty, so the rules would be for everyone: leave it out if that is meant",
        ),
        ("selector: { matchLabel: { a: b } }", "selector.matchLabel: unknown key, did you mean `matchLabels`"),
        (
            "selector: { matchLabels: [a] }",
            "selector.matchLabels: the list is not a table of labels, such as { tenant: a }",
        ),
        (
            "selector: { matchLabels: { a: b }, match_labels: { a: b } }",
            "selector.match_labels: stands here as `matchLabels` too, give one of them",
        ),
        ("selector: tenant", "selector: \"tenant\" is not a table of keys"),
        (
            "selector: { matchExpressions: [ { key: a, operator: in, values: [b] } ] }",
            "selector.matchExpressions[0].operator: \"in\" is not In, NotIn, Exists or DoesNotExist",
        ),
        (
            "selector: { matchExpressions: [ { operator: Exists } ] }",
            "selector.matchExpressions[0].key: is missing, such as { key: tenant, operator: Exists }",
        ),
        (
            "selector: { matchExpressions: [ { key: a, operator: In } ] }",
            "selector.matchExpressions[0].values: the operator `In` needs at least one value",
        ),
        (
            "selector: { matchExpressions: [ { key: a, operator: NotIn, values: [] } ] }",
            "selector.matchExpressions[0].values: the operator `NotIn` needs at least one value",
        ),
        (
            "selector: { matchExpressions: [ { key: a, operator: Exists, values: [b] } ] }",
            "selector.matchExpressions[0].values: the operator `Exists` takes no values",
        ),
        (
            "selector: { matchExpressions: [ { key: a, operator: Exists, value: b } ] }",
            "selector.matchExpressions[0].value: unknown key, did you mean `values`",
        ),
        ("selector: { matchExpressions: [ a ] }", "selector.matchExpressions[0]: \"a\" is not a table of keys"),
        (
            "selector: { matchLabels: { a: b }, matchExpressions: [ { key: a, operator: DoesNotExist } ] }",
            "selector: the requirements on `a` exclude each other: no caller can meet all of them",
        ),
    ] {
        refused(&format!("tiers: {{ team: {{ sources: [ {{ path: /a, {source} }} ] }} }}"), &format!("{at}.{message}"));
    }
}

#[test]
fn what_is_wrong_is_told_with_key_value_and_what_is_right() {
    refused("listne: 127.0.0.1:1", "s.yaml: listne: unknown key, did you mean `listen`");
    refused("drain: { zebra: 1 }", "s.yaml: drain.zebra: unknown key, known here: `limit`, `min_delay`");
    refused(
        "listen: localhost",
        "s.yaml: listen: \"localhost\" is not an address or a list of them, such as 127.0.0.1:50051, [::1]:50051 or unix:/run/hookd.sock",
    );
    for wrong in ["http://hookd", "hookd:50051", "*"] {
        let expected = "is not a name without scheme and port or a list of them, such as hookd.example.com";
        refused(&format!("hosts: [\"{wrong}\"]"), &format!("s.yaml: hosts: {wrong:?} {expected}"));
    }
    for (source, expected) in [
        ("{ path: \"x\\nready\" }", "sources[0].path: \"x\\nready\" is not a path, such as /etc/hookd/managed"),
        ("\"x\\u001b[2J\"", "sources[0]: \"x\\u{1b}[2J\" is not a source, such as { path: rules, optional: true }"),
    ] {
        refused(&format!("tiers: {{ team: {{ sources: [ {source} ] }} }}"), &format!("s.yaml: tiers.team.{expected}"));
    }
    refused("admin_listen: 8081", "s.yaml: admin_listen: `8081` is not an address, such as 127.0.0.1:8081");
    refused(
        "limits: { default_deadline: 30 }",
        "s.yaml: limits.default_deadline: `30` is not a duration with its unit, over 0 and at most 24h, such as 30s or 500ms",
    );
    refused(
        "limits: { max_deadline: 10s }",
        "s.yaml: limits.max_deadline: 10s is shorter than limits.default_deadline (30s), set it to at least that",
    );
    refused(
        "drain: { limit: 10s }",
        "s.yaml: drain.limit: 10s is shorter than limits.default_deadline (30s), so calls would be cut, set it to at least that",
    );
    refused(
        "limits: { in_flight: 0 }",
        "s.yaml: limits.in_flight: `0` is not a whole number from 1 to 1000000, such as 64",
    );
    refused(
        "limits: { message_bytes: 4 MiBs }",
        "s.yaml: limits.message_bytes: \"4 MiBs\" is not a size from 16KiB to 1GiB, such as 4MiB or 65536",
    );
    refused(
        "limits: { output_bytes: 0 }",
        "s.yaml: limits.output_bytes: `0` is not a size over 0 and at most 1GiB, such as 4MiB or 65536",
    );
    refused(
        "bulkheads: { breaker_failure_percent: 0 }",
        "s.yaml: bulkheads.breaker_failure_percent: `0` is not a whole number from 1 to 100, or off",
    );
    refused(
        "bulkheads: { tenant_burst: 5 }",
        "s.yaml: bulkheads.tenant_burst: 5 has no meaning without tenant_calls_per_second, set both",
    );
    refused(
        "commands: { path: \"/bin:.\" }",
        "s.yaml: commands.path: \"/bin:.\" is not absolute directories with colons between them, such as /usr/local/bin:/usr/bin:/bin",
    );
    for (commands, message) in [
        ("user: \"\"", "user: \"\" is not the name or number of a user, or none"),
        ("group: -1", "group: `-1` is not the name or number of a group, or none"),
        ("no_new_privilege: true", "no_new_privilege: unknown key, did you mean `no_new_privileges`"),
        ("working_directory: /tmp", "working_directory: \"/tmp\" is not rule or empty"),
        ("landlock: best-effort", "landlock: \"best-effort\" is not off, best_effort or required"),
        ("limits: { proceses: 1 }", "limits.proceses: unknown key, did you mean `processes`"),
        (
            "limits: { address_space: 1MiB }",
            "limits.address_space: \"1MiB\" is not a size from 16MiB to 1024GiB, such as 2GiB, or none",
        ),
        (
            "limits: { open_files: 3 }",
            "limits.open_files: `3` is not a whole number from 16 to 1000000, such as 256, or none",
        ),
        (
            "limits: { processes: 0 }",
            "limits.processes: `0` is not a whole number from 1 to 1000000, such as 64, or none",
        ),
        (
            "limits: { cpu_time: 0s }",
            "limits.cpu_time: \"0s\" is not a duration with its unit, over 0 and at most 24h, such as 5s, or none",
        ),
        (
            "limits: { file_size: lots }",
            "limits.file_size: \"lots\" is not a size over 0 and at most 1024GiB, such as 64MiB, or none",
        ),
    ] {
        refused(&format!("commands: {{ {commands} }}"), &format!("s.yaml: commands.{message}"));
    }
    refused(
        "tiers: { managed: { server_commands: deny } }",
        "s.yaml: tiers.managed.server_commands: is for local, shared and plugin: commands of this tier always run on the server",
    );
    let lost = "is empty, so rules would fall away: leave it out if that is meant";
    refused("tiers:\nlimits: { children: 8 }\n", &format!("s.yaml: tiers: {lost}"));
    refused("tiers:\n  managed:\n", &format!("s.yaml: tiers.managed: {lost}"));
    for tier in ["managed", "shared"] {
        let none = "is empty, so the rules of this tier would fall away: write [] if that is meant";
        refused(&format!("tiers: {{ {tier}: {{ sources: }} }}"), &format!("s.yaml: tiers.{tier}.sources: {none}"));
        refused(&format!("tiers: {{ {tier}: {{ sources: '' }} }}"), &format!("s.yaml: tiers.{tier}.sources: {none}"));
    }
    refused(
        "tiers: { managed: { enabled: false } }",
        "s.yaml: tiers.managed.enabled: the managed tier cannot be switched off, `mode: shadow` keeps its rules from counting",
    );
    refused("tiers: { team: { enabled: never } }", "s.yaml: tiers.team.enabled: \"never\" is not true or false");
    refused(
        "tiers: { shared: { handlers: [command, prompt] } }",
        "s.yaml: tiers.shared.handlers: \"prompt\" is not command, http or decide",
    );
    refused(
        "tiers: { shared: { events: [PreToolUse, PreTolUse] } }",
        "s.yaml: tiers.shared.events: \"PreTolUse\" is not known, did you mean `PreToolUse`",
    );
    refused(
        "tiers: { shared: { http_hosts: [\"https://a.example.com\", \"*\", \"a.example.com:80\"] } }",
        "s.yaml: tiers.shared.http_hosts: \"https://a.example.com\" is not a host alone, such as hooks.example.com or *.example.org\n\
         s.yaml: tiers.shared.http_hosts: \"*\" is not a host alone, such as hooks.example.com or *.example.org\n\
         s.yaml: tiers.shared.http_hosts: \"a.example.com:80\" is not a host alone, such as hooks.example.com or *.example.org",
    );
    refused(
        "tiers: { shared: { max_timeout: 2m } }",
        "s.yaml: tiers.shared.max_timeout: 2m is longer than limits.max_handler_timeout (1m), set it to at most that",
    );
    refused(
        "tiers: { shared: { max_timeout: 5 } }",
        "s.yaml: tiers.shared.max_timeout: `5` is not a duration with its unit, over 0 and at most 24h, such as 30s or 500ms",
    );
    refused("tiers: { shared: { mode: off } }", "s.yaml: tiers.shared.mode: \"off\" is not enforce or shadow");
    refused(
        "tiers: { project: {} }",
        "s.yaml: tiers.project: unknown key, known here: `local`, `managed`, `plugin`, `shared`, `team`",
    );
    refused(
        "tiers: { shared: { sources: [ { optional: true } ] } }",
        "s.yaml: tiers.shared.sources[0].path: is missing, such as /etc/hookd/managed",
    );
    refused(
        "tiers: { shared: { sources: 5 } }",
        "s.yaml: tiers.shared.sources: `5` is not a list of sources, such as [ { path: rules, optional: true } ]",
    );
    refused(
        "log: { filter: \"a=b=c\" }",
        "s.yaml: log.filter: \"a=b=c\" is not a log filter, such as info or info,hookd=debug",
    );
    refused(
        "log: { filter: wran }",
        "s.yaml: log.filter: \"wran\" is not a log filter, such as info or info,hookd=debug",
    );
    refused(
        "listen: [ \"127.0.0.1:1\", \"unix:/h\", \"127.0.0.1:1\", \"unix:/h\", \"127.0.0.1:0\", \"127.0.0.1:0\" ]",
        "s.yaml: listen: 127.0.0.1:1 stands there twice\n\
         s.yaml: listen: unix:/h stands there twice",
    );
    refused(
        "admin_listen: 127.0.0.1:50051",
        "s.yaml: admin_listen: 127.0.0.1:50051 is an address of `listen` as well, expected one of its own, such as \
         127.0.0.1:8081",
    );
    refused("fallbacks: { modify: allow }", "s.yaml: fallbacks.modify: \"allow\" is not block");
    refused("limits: 5", "s.yaml: limits: `5` is not a table of keys");
}

#[test]
fn everything_wrong_is_told_at_once() {
    refused(
        "limits: { in_flight: -1 }\ndrain: { limit: soon }",
        "s.yaml: limits.in_flight: `-1` is not a whole number from 1 to 1000000, such as 64\n\
         s.yaml: drain.limit: \"soon\" is not a duration with its unit, over 0 and at most 24h, such as 30s or 500ms",
    );
}

#[test]
fn a_wrong_variable_is_named() {
    let error = read(
        "s.yaml",
        "# nothing",
        &[("HOOKD__LIMITS__CHILDREN", "many"), ("HOOKD__LOGS", "x"), ("HOOKD__TIRS__LOCAL__MODE", "shadow")],
    )
    .unwrap_err();
    assert_eq!(
        error,
        "environment HOOKD__LIMITS__CHILDREN: \"many\" is not a whole number from 1 to 1000000, such as 64\n\
         environment HOOKD__LOGS: unknown key, did you mean `log`\n\
         environment HOOKD__TIRS: unknown key, did you mean `tiers`"
    );
    let mistaken = [("HOOKD_LISTEN", "127.0.0.1:1"), ("HOOKD_LIMITS__CHILDREN", "2")];
    assert_eq!(
        read("s.yaml", "# nothing", &mistaken).unwrap_err(),
        "environment HOOKD_LIMITS__CHILDREN: is no setting, did you mean HOOKD__LIMITS__CHILDREN\n\
         environment HOOKD_LISTEN: is no setting, did you mean HOOKD__LISTEN"
    );
    // Those of clients, and of Kubernetes where a service is called `hookd` or `hookd-audit`.
    let others = [("HOOKD_ADDRESS", "x"), ("HOOKD_PORT", "tcp://10.0.0.1:1"), ("HOOKD_AUDIT_SERVICE_HOST", "10.0.0.1")];
    assert_eq!(read("s.yaml", "# nothing", &others), read("s.yaml", "# nothing", &[]));
}

#[test]
fn files_that_are_no_settings_are_refused() {
    assert_eq!(read("s.ini", "a", &[]).unwrap_err(), "s.ini: the extension is not .yaml, .yml, .json or .toml");
    assert_eq!(
        read("s.json", r#"{"listen": "a", "listen": "b"}"#, &[]).unwrap_err(),
        "s.json:1:26: duplicate key `listen`"
    );
    assert_eq!(
        read("s.json", r#"{"limits": {"children": 1e999}}"#, &[]).unwrap_err(),
        "s.json: the number 1e999 is too large"
    );
    assert_eq!(
        read("s.yaml", "- a\n", &[]).unwrap_err(),
        "s.yaml: is a list, expected a table of keys, such as `listen: 127.0.0.1:50051`"
    );
    assert_eq!(read("s.toml", "[limits\n", &[]).unwrap_err(), "s.toml:1:8: unclosed table, expected `]`");
    assert_eq!(read("s.toml", "[limits]\nchildren = 1\nchildren = 2\n", &[]).unwrap_err(), "s.toml:3:1: duplicate key");
    assert_eq!(
        read("s.yaml", "a: b: c\n", &[]).unwrap_err(),
        "s.yaml:1:5: mapping values are not allowed in this context"
    );
    assert_eq!(read("s.yaml", " \n", &[]).unwrap_err(), "s.yaml: is empty, write a comment if that is meant");
    let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for level in 1..12 {
        let alias = format!("*a{}", level - 1);
        bomb += &format!("a{level}: &a{level} [{}]\n", vec![alias; 10].join(","));
    }
    assert_eq!(read("s.yaml", &bomb, &[]).unwrap_err(), "s.yaml:5:9: more than 200000 values");
    let large = "#".repeat((1 << 20) + 1);
    assert_eq!(read("s.yaml", &large, &[]).unwrap_err(), "s.yaml: cannot read the settings: more than 1048576 bytes");
    let folder = tempfile::Builder::new().suffix(".yaml").tempdir().unwrap();
    let origin = Origin { file: Some(folder.path().to_owned()), ..Origin::default() };
    assert_eq!(
        Settings::read(&origin).unwrap_err().to_string(),
        format!("{}: cannot read the settings: not a regular file", folder.path().display())
    );
    let origin = Origin { file: Some("gone.yaml".into()), working_directory: "/nowhere".into(), ..Origin::default() };
    assert_eq!(
        Settings::read(&origin).unwrap_err().to_string(),
        "/nowhere/gone.yaml: cannot read the settings: No such file or directory (os error 2)"
    );
}

#[test]
fn only_cold_keys_need_a_restart() {
    let old = defaults();
    let new = read(
        "s.yaml",
        "listen: 127.0.0.1:1\nlimits: { children: 3 }\ncommands: { limits: { open_files: 16 } }\nfallbacks: { ask: allow }\ntiers: { shared: { sources: [] } }",
        &[],
    )
    .unwrap();
    assert_eq!(old.needs_restart(&new), ["listen", "limits.children", "commands.limits"]);
}

#[test]
fn lower_tiers_run_commands_only_while_nobody_else_can_reach_the_server() {
    for (listen, local) in [
        ("127.0.0.1:1", true),
        ("[::1]:1,unix:/x", true),
        ("127.0.0.1:1,0.0.0.0:2", false),
        ("[::ffff:127.0.0.1]:1", true),
    ] {
        let settings = read("s.yaml", &format!("listen: \"{listen}\"\nplaintext: allow"), &[]).unwrap();
        assert_eq!(settings.listens_locally(), local, "{listen}");
        let load = settings.for_rules(settings.listens_locally(), Environment::default());
        let allowed = Tier::ALL.map(|tier| load.tiers.get(tier).server_commands);
        assert_eq!(allowed, [true, true, local, local, local], "{listen}");
    }
}

#[test]
fn tls_is_read_whole() {
    let text = "tls: { certificate: tls/tls.crt, key: /k, client_ca: ca.crt, client_certificates: optional, min_version: 1.2 }";
    let settings = read("s.yaml", text, &[("HOOKD__TLS__CERTIFICATE", "env.crt")]).unwrap();
    let tls = settings.tls.clone().unwrap();
    let authorities = tls.clients.as_ref().unwrap().authorities.clone();
    assert!(authorities.is_absolute() && authorities.ends_with("ca.crt"), "{authorities:?}");
    let clients = Some(ClientCertificates { authorities, required: false });
    let expected = TlsSettings {
        certificate: "/work-dir/env.crt".into(),
        key: "/k".into(),
        clients,
        min_version: TlsVersion::V1_2,
    };
    assert_eq!(tls, expected);
    assert_eq!(read("s.yaml", &settings.to_yaml(), &[]).map(|again| again.tls), Ok(settings.tls.clone()));
    let all = ["tls.certificate", "tls.client_ca", "tls.client_certificates", "tls.key", "tls.min_version"];
    let mut changed = defaults().needs_restart(&settings);
    changed.sort_unstable();
    assert_eq!(changed, all);

    let least = read("s.yaml", "tls: { certificate: /c, key: /k, client_ca: /a }", &[]).unwrap();
    let clients = Some(ClientCertificates { authorities: "/a".into(), required: true });
    let expected = TlsSettings { certificate: "/c".into(), key: "/k".into(), clients, min_version: TlsVersion::V1_3 };
    assert_eq!(least.tls, Some(expected));
    assert_eq!(
        settings.needs_restart(&least),
        ["tls.certificate", "tls.client_ca", "tls.client_certificates", "tls.min_version"]
    );
}

#[test]
fn plain_text_beyond_loopback_has_to_be_meant() {
    let message = "can be reached from other machines and calls would be plain text, set tls.certificate and tls.key, or `plaintext: allow` if that is meant";
    refused("listen: [127.0.0.1:1, 0.0.0.0:2]", &format!("s.yaml: listen: 0.0.0.0:2 {message}"));
    refused("listen: \"[::]:2\"\ntls: { min_version: 1.3 }", &format!("s.yaml: listen: [::]:2 {message}"));
    let from_environment = read("s.yaml", "# nothing", &[("HOOKD__LISTEN", "[::]:1")]).unwrap_err();
    assert_eq!(from_environment, format!("environment HOOKD__LISTEN: [::]:1 {message}"));
    for good in [
        "listen: [\"127.0.0.1:1\", \"[::1]:1\", unix:h.sock]",
        "listen: 0.0.0.0:1\nplaintext: allow",
        "listen: 0.0.0.0:1\ntls: { certificate: c, key: k }",
        "admin_listen: 0.0.0.0:1",
        "tls: { min_version: \"1.2\" }",
    ] {
        assert!(read("s.yaml", good, &[]).is_ok(), "{good}");
    }
}

#[test]
fn half_of_tls_is_none() {
    refused(
        "tls: { client_ca: a }",
        "s.yaml: tls.certificate: is missing: a path, such as /etc/hookd/tls/tls.crt\n\
         s.yaml: tls.key: is missing: a path, such as /etc/hookd/tls/tls.key",
    );
    refused("tls: true", "s.yaml: tls: `true` is not a table of keys");
    refused(
        "tls: { certificate: c, key: k, client_certificates: required }",
        "s.yaml: tls.client_certificates: needs tls.client_ca, the file of the authorities that issue them",
    );
    refused(
        "tls: { certificate: c, key: k, min_version: 1.1 }",
        "s.yaml: tls.min_version: `1.1` is not \"1.2\" or \"1.3\"",
    );
    refused(
        "tls: { certificate: c, key: k, ca: a }",
        "s.yaml: tls.ca: unknown key, known here: `certificate`, `client_ca`, `client_certificates`, `key`, `min_version`",
    );
    refused("tls: { certificate: c, key: 5 }", "s.yaml: tls.key: `5` is not a path, such as /etc/hookd/tls/tls.key");
    refused("plaintext: yes", "s.yaml: plaintext: \"yes\" is not loopback or allow");
}
