use std::time::Duration;

use super::{super::*, defaults, read, refused};

#[test]
fn the_audit_trail_is_read_whole() {
    let text = r#"
audit:
  file: { path: logs/audit.jsonl, rotate_bytes: 1MiB, rotate_age: 24h, keep: 3, sync_interval: 0s }
  stdout: true
  otlp: { endpoint: "https://collector:4318", headers_file: headers, ca: /etc/ca.crt, timeout: 2s, queue_bytes: 1MiB }
  keep: 0.25
  parameters: masked
  mask_pointers: [/params/a, "/payload/*/b"]
  mask_patterns: ["a{1,3}"]
  hash_key_file: /etc/key
  queue_bytes: 1MiB
  on_full: block
  acknowledge: synced
"#;
    let settings = read("s.yaml", text, &[]).unwrap();
    let path = settings.audit.file.path.clone().unwrap();
    assert!(path.ends_with("logs/audit.jsonl") && path.is_absolute(), "{}", path.display());
    let expected = AuditSettings {
        file: AuditFile {
            path: Some(path.clone()),
            rotate_bytes: 1 << 20,
            rotate_age: Duration::from_secs(24 * 60 * 60),
            keep: 3,
            sync_interval: Duration::ZERO,
        },
        stdout: true,
        otlp: OtlpSettings {
            endpoint: Some("https://collector:4318/v1/logs".parse().unwrap()),
            headers_file: Some(path.parent().unwrap().with_file_name("headers")),
            ca: Some("/etc/ca.crt".into()),
            timeout: Duration::from_secs(2),
            queue_bytes: 1 << 20,
        },
        keep: 250_000,
        parameters: Parameters::Masked,
        mask_pointers: vec!["/params/a".to_owned(), "/payload/*/b".to_owned()],
        mask_patterns: vec!["a{1,3}".to_owned()],
        hash_key_file: Some("/etc/key".into()),
        queue_bytes: 1 << 20,
        on_full: OnFull::Block,
        acknowledge: Acknowledge::Synced,
    };
    assert_eq!(settings.audit, expected);
    assert_eq!(read("s.yaml", &settings.to_yaml(), &[]).map(|again| again.audit), Ok(expected));
    assert!(settings.audit.is_on() && !defaults().audit.is_on());
    assert!(settings.needs_restart(&defaults()).contains(&"audit.file".to_owned()));
    let environment = [("HOOKD__AUDIT__PARAMETERS", "off"), ("HOOKD__AUDIT__KEEP", "0")];
    let settings = read("s.yaml", "audit: { parameters: full }", &environment).unwrap();
    assert_eq!((settings.audit.parameters, settings.audit.keep), (Parameters::Off, 0));
    assert_eq!(read("s.yaml", "audit: { parameters: off }", &[]).unwrap().audit.parameters, Parameters::Off);
}

#[test]
fn an_audit_trail_that_would_not_be_what_it_says_is_refused() {
    refused("audit: { keep: 1.5 }", "s.yaml: audit.keep: `1.5` is not a ratio from 0 to 1, such as 0.1");
    refused(
        "audit: { mask_pointers: [/password] }",
        "s.yaml: audit.mask_pointers: \"/password\" is not a JSON pointer that begins with /params, /result or /payload",
    );
    refused(
        "audit: { mask_patterns: [\"a(\"] }",
        "s.yaml: audit.mask_patterns: \"a(\" is not a regular expression or a list of them, such as \
         [\"(?i)bearer [a-z0-9._-]+\"]: error: unclosed group",
    );
    refused(
        "audit: { mask_patterns: [\"a*\"] }",
        "s.yaml: audit.mask_patterns: \"a*\" is not a regular expression or a list of them, such as \
         [\"(?i)bearer [a-z0-9._-]+\"]: matches the empty text",
    );
    refused(
        "audit: { stdout: true, acknowledge: written }",
        "s.yaml: audit.acknowledge: needs `on_full: block`: a record that may be dropped acknowledges nothing",
    );
    refused(
        "audit: { stdout: true, on_full: block, acknowledge: synced }",
        "s.yaml: audit.acknowledge: `synced` needs `audit.file.path`: nothing else can be brought to a disk",
    );
    refused(
        "audit: { otlp: { endpoint: \"http://localhost\" }, on_full: block }",
        "s.yaml: audit.on_full: `block` needs `audit.file.path` or `audit.stdout`: no answer waits for a collector",
    );
    refused(
        "audit: { otlp: { endpoint: \"collector:4318\" } }",
        "s.yaml: audit.otlp.endpoint: \"collector:4318\" is not an http or https URL, such as http://collector:4318",
    );
    for endpoint in ["https://me:secret@collector", "https://collector/?key=secret", "https://collector/#secret"] {
        refused(
            &format!("audit: {{ otlp: {{ endpoint: \"{endpoint}\" }} }}"),
            "s.yaml: audit.otlp.endpoint: has a user, a query or a fragment, and is not an http or https URL, such as \
             http://collector:4318; secrets go into headers_file",
        );
    }
    refused(
        "audit: { otlp: { endpoint: \"http://collector\", headers_file: h } }",
        "s.yaml: audit.otlp.headers_file: needs an endpoint with https, or http on loopback: headers hold secrets",
    );
    refused("audit: { file: { paths: x } }", "s.yaml: audit.file.paths: unknown key, did you mean `path`");
}

#[test]
fn traces_are_read_whole() {
    let text =
        "traces: { otlp: { endpoint: \"http://[::1]:4318/otlp/traces\", queue_bytes: 1KiB }, sample_ratio: 0.25 }";
    let settings = read("s.yaml", text, &[]).unwrap();
    let endpoint = Some("http://[::1]:4318/otlp/traces".parse().unwrap());
    let expected = TraceSettings {
        otlp: OtlpSettings { endpoint, queue_bytes: 1 << 10, ..OtlpSettings::default() },
        sample_ratio: 250_000,
    };
    assert_eq!(settings.traces, expected);
    assert_eq!(read("s.yaml", &settings.to_yaml(), &[]), Ok(settings));
    let defaults = defaults().traces;
    assert_eq!(defaults, TraceSettings { otlp: OtlpSettings::default(), sample_ratio: KEEP_ALL });
    refused("traces: { sample: 1 }", "s.yaml: traces.sample: unknown key, known here: `otlp`, `sample_ratio`");
}
