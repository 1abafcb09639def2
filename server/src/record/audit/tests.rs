use std::{sync::Arc, time::Duration};

use hookd_json::Value;
use hookd_rules::{Mode, Tier};
use serde_json::json;

use super::{
    decided::Decided,
    redaction::{Redaction, Redactor},
    *,
};
use crate::{
    model::{
        Caller, Capability, Downgrade, Failure, Form, Labels, Note, Ran, Rewrite, RewriteTarget, RuleResult, ToolCall,
    },
    record::tests::{decision, result, rule, trigger},
    settings::{Acknowledge, AuditFile, OnFull, OtlpSettings},
};

fn settings(parameters: Parameters, mask_pointers: &[&str], mask_patterns: &[&str]) -> AuditSettings {
    let strings = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    AuditSettings {
        file: AuditFile {
            path: None,
            rotate_bytes: 1 << 20,
            rotate_age: Duration::ZERO,
            keep: 1,
            sync_interval: Duration::ZERO,
        },
        stdout: false,
        otlp: OtlpSettings::default(),
        keep: KEEP_ALL,
        parameters,
        mask_pointers: strings(mask_pointers),
        mask_patterns: strings(mask_patterns),
        hash_key_file: None,
        queue_bytes: 1 << 20,
        on_full: OnFull::Drop,
        acknowledge: Acknowledge::Queued,
    }
}

fn masked(pointers: &[&str], patterns: &[&str]) -> Redaction {
    Redaction::new(&settings(Parameters::Masked, pointers, patterns), None, Secrets::default())
}

/// What `write` adds to a record, as an object.
fn written(write: impl FnOnce(&mut Vec<u8>)) -> Value {
    let mut out = b"{\"\":0".to_vec();
    write(&mut out);
    out.push(b'}');
    let Value::Object(mut fields) = hookd_json::parse(std::str::from_utf8(&out).unwrap()).unwrap() else { panic!() };
    fields.shift_remove("");
    Value::Object(fields)
}

fn record(redaction: &Redaction, trigger: Trigger, decision: &Decision) -> Value {
    let decided = Decided::new(Arc::new(trigger), decision, Duration::from_micros(1234), redaction.tells_texts());
    written(|out| decided.write(redaction, out))
}

/// A decision with everything in it.
fn everything() -> (Trigger, Decision) {
    let mut trigger = trigger("PreToolUse");
    trigger.tool_call = Some(ToolCall { tool: "Bash".to_owned(), ..ToolCall::default() });
    trigger.form = Form { params: r#"{"command":"deploy","token":"hunter22"}"#.into(), result: None };
    trigger.request_id = "q1".to_owned();
    trigger.identity = Arc::new(Identity {
        name: "spiffe://example.org/agent".to_owned(),
        labels: [("tenant", "a"), ("user", "ada")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into_iter()
            .collect::<Labels>(),
    });
    trigger.caller = Some(Caller { agent: "claude-code".to_owned(), user: "root".to_owned(), ..Caller::default() });
    let guard = rule("guard", Tier::Managed, Mode::Enforce);
    let mut timed_out = result(rule("mine", Tier::Local, Mode::Enforce), Err(Failure::TimedOut));
    timed_out.ran.elapsed = Some(Duration::from_millis(10));
    let again = RuleResult { recheck: true, ..result(Arc::clone(&guard), Ok(Verdict::Ask)) };
    let queued = RuleResult { outcome: Outcome::Queued, ran: Ran::said(Ok(Arc::default())), ..again.clone() };
    let mut decision = decision(
        Verdict::Block,
        vec![
            result(Arc::clone(&guard), Ok(Verdict::Allow)),
            result(rule("new", Tier::Managed, Mode::Shadow), Ok(Verdict::Block)),
            timed_out,
            RuleResult { recheck: false, ..queued },
            again,
        ],
    );
    decision.reason = "not with hunter22".to_owned();
    decision.halt = Some("stop".to_owned());
    decision.downgrades = vec![Downgrade { missing: Capability::Ask, from: Verdict::Ask, to: Verdict::Block }];
    decision.rewrites = vec![Rewrite {
        rule: guard,
        target: RewriteTarget::Params,
        patch: r#"[{"op":"replace","path":"/token","value":"hunter23"}]"#.to_owned(),
        recheck: true,
    }];
    (trigger, decision)
}

fn everything_but_texts() -> Value {
    json!({
        "decision_id": "d1", "revision": "r1", "request_id": "q1", "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
        "event": "PreToolUse", "tool": "Bash", "session": "s1",
        "caller": { "labels": { "tenant": "a", "user": "ada" }, "name": "spiffe://example.org/agent" },
        "claimed": { "agent": "claude-code", "user": "root" },
        "verdict": "block", "decided_by": { "cause": "rule", "rule": "guard", "tier": "managed" },
        "considered": 3, "matched": 2,
        "results": [
            { "rule": "guard", "tier": "managed", "handler": "decide", "outcome": "allow" },
            { "rule": "new", "tier": "managed", "handler": "decide", "outcome": "block", "shadow": true },
            { "rule": "mine", "tier": "local", "handler": "decide", "outcome": "failed", "failure": "timed_out", "ms": 10.0,
              "forgiven": true },
            { "rule": "guard", "tier": "managed", "handler": "decide", "outcome": "queued" },
            { "rule": "guard", "tier": "managed", "handler": "decide", "outcome": "ask", "recheck": true },
        ],
        "degraded": true, "downgrades": [ { "missing": "ask", "from": "ask", "to": "block" } ], "halt": true, "ms": 1.234,
        "rewrites": [ { "target": "params", "rule": "guard", "tier": "managed", "recheck": true } ],
    })
}

fn with(mut record: Value, texts: Value, patch: (&str, Value)) -> Value {
    let Value::Object(texts) = texts else { panic!() };
    record.as_object_mut().unwrap().extend(texts);
    record["rewrites"][0].as_object_mut().unwrap().insert(patch.0.to_owned(), patch.1);
    record
}

#[test]
fn a_record_says_all_of_a_decision_and_of_texts_what_the_settings_let_through() {
    let of = |redaction: &Redaction| {
        let (trigger, decision) = everything();
        record(redaction, trigger, &decision)
    };
    let plain = |parameters| Redaction::new(&settings(parameters, &[], &[]), None, Secrets::default());
    assert_eq!(of(&plain(Parameters::Off)), everything_but_texts());
    let full = with(
        everything_but_texts(),
        json!({ "params": { "command": "deploy", "token": "hunter22" }, "reason": "not with hunter22" }),
        ("patch", json!([{ "op": "replace", "path": "/token", "value": "hunter23" }])),
    );
    assert_eq!(of(&plain(Parameters::Full)), full);
    let masked_all = with(
        everything_but_texts(),
        json!({ "params": { "command": "deploy", "token": "[masked]" }, "reason": "not with [masked]" }),
        ("patch", json!([{ "op": "replace", "path": "/token", "value": "[masked]" }])),
    );
    assert_eq!(of(&masked(&["/params/token"], &[])), masked_all);
    let hash = |text: &str| format!("sha256:{}", hookd_audit::Hash::of(text.as_bytes()));
    let hashed = with(
        everything_but_texts(),
        json!({
            "params_hash": hash(r#"{"command":"deploy","token":"hunter22"}"#),
            "reason_hash": hash("not with hunter22"),
        }),
        ("patch_hash", hash(r#"[{"op":"replace","path":"/token","value":"hunter23"}]"#).into()),
    );
    assert_eq!(of(&plain(Parameters::Hashed)), hashed);
}

#[test]
fn a_hash_with_a_key_is_hmac() {
    let redaction =
        Redaction::new(&settings(Parameters::Hashed, &[], &[]), Some(b"key".to_vec().into()), Secrets::default());
    let shown = written(|out| {
        Redactor::new(&redaction).text(out, "reason", "The quick brown fox jumps over the lazy dog");
    });
    let expected = "hmac-sha256:f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8";
    assert_eq!(shown, json!({ "reason_hash": expected }));
}

#[test]
fn of_texts_that_are_too_long_only_hashes_are_told_with_the_key_where_there_is_one() {
    let shown = |parameters, key: Option<&[u8]>| {
        let key = key.map(|key| key.to_vec().into());
        let redaction = Redaction::new(&settings(parameters, &[], &[]), key, Secrets::default());
        let (mut trigger, decision) = everything();
        trigger.form.params = json!({ "text": "x".repeat(9 << 20) }).to_string().into();
        let record = record(&redaction, trigger, &decision);
        assert_eq!(record.get("params").or(record.get("reason")), None);
        record["reason_hash"].as_str().unwrap().split_once(':').unwrap().0.to_owned()
    };
    assert_eq!(shown(Parameters::Full, None), "sha256");
    assert_eq!(shown(Parameters::Masked, None), "sha256");
    assert_eq!(shown(Parameters::Hashed, Some(b"key")), "hmac-sha256");
}

#[test]
fn pointers_and_patterns_mask_values_wherever_they_are() {
    let check = |pointers: &[&str], patterns: &[&str], given: Value, expected: Value| {
        let redaction = masked(pointers, patterns);
        let shown = written(|out| Redactor::new(&redaction).json(out, "params", &given.to_string()));
        assert_eq!(shown, json!({ "params": expected }), "{pointers:?} {patterns:?} {given}");
    };
    check(
        &["/params/a/b"],
        &[],
        json!({ "a": { "b": [1, { "c": 2 }], "x": 1 } }),
        json!({ "a": { "b": "[masked]", "x": 1 } }),
    );
    check(
        &["/params/*/b"],
        &[],
        json!({ "a": { "b": 1 }, "c": { "b": 2, "d": 3 } }),
        json!({ "a": { "b": "[masked]" }, "c": { "b": "[masked]", "d": 3 } }),
    );
    check(&["/params/list/*"], &[], json!({ "list": [1, "x"] }), json!({ "list": ["[masked]", "[masked]"] }));
    check(&["/params/list/1"], &[], json!({ "list": [1, "x"] }), json!({ "list": [1, "[masked]"] }));
    check(&["/params/a~1b/c~0d"], &[], json!({ "a/b": { "c~d": 1 } }), json!({ "a/b": { "c~d": "[masked]" } }));
    check(&["/params/~01"], &[], json!({ "~1": 1, "/": 2 }), json!({ "~1": "[masked]", "/": 2 }));
    check(&["/params"], &[], json!({ "a": 1 }), json!("[masked]"));
    check(&["/result/a"], &[], json!({ "a": 1 }), json!({ "a": 1 }));
    check(&[], &["(?i)bearer [a-z0-9]+"], json!({ "a": ["x Bearer ab12, y"] }), json!({ "a": ["x [masked], y"] }));
    check(
        &[],
        &["[0-9]{4}"],
        json!({ "n": 12_345, "k1234": 1, "k5678": 2 }),
        json!({ "n": "[masked]", "k[masked]": 1, "k[masked]*": 2 }),
    );
}

#[test]
fn patches_are_masked_by_what_they_change() {
    let check = |pointer: &str, step: Value, expected: Value| {
        let redaction = masked(&[pointer], &["s3cret"]);
        let shown = written(|out| Redactor::new(&redaction).patch(out, "params", &json!([step]).to_string()));
        assert_eq!(shown, json!({ "patch": [expected] }), "{pointer}");
    };
    let add = |path: &str, value: Value| json!({ "op": "add", "path": path, "value": value });
    check("/params/a", add("/a/b", json!(1)), add("/a/b", json!("[masked]")));
    check("/params/a/b", add("/a", json!({ "b": 1, "c": 2 })), add("/a", json!({ "b": "[masked]", "c": 2 })));
    check("/params/a", add("", json!({ "a": 1, "c": 2 })), add("", json!({ "a": "[masked]", "c": 2 })));
    check("/params/l/0", add("/l/-", json!("x")), add("/l/-", json!("[masked]")));
    check("/params/l/0", add("/l/7", json!("x")), add("/l/7", json!("[masked]")));
    check("/result/a", add("/a", json!("x s3cret")), add("/a", json!("x [masked]")));
    check("/params/b", json!({ "op": "remove", "path": "/a" }), json!({ "op": "remove", "path": "/a" }));
    check("/params/b", add("/s3cret", json!(1)), add("/[masked]", json!(1)));
}

#[test]
fn what_cannot_be_looked_into_is_not_told() {
    let redaction = masked(&[], &["s3cret"]);
    let mut redactor = Redactor::new(&redaction);
    assert_eq!(written(|out| redactor.json(out, "params", r#"{"a": "hunter22"#)), json!({ "params": "[masked]" }));
    for patch in [r#"[{"value": "hunter22"#, r#"{"value": "hunter22"}"#] {
        assert_eq!(written(|out| redactor.patch(out, "params", patch)), json!({ "patch": "[masked]" }));
    }
}

#[test]
fn what_a_pointer_masks_is_masked_where_a_reason_quotes_it() {
    let redaction = masked(&["/params/token"], &[]);
    let mut redactor = Redactor::new(&redaction);
    let mut out = Vec::new();
    redactor.json(&mut out, "params", r#"{"token":{"a":"line\nbreak","b":123456,"c":["hunter22"]},"x":"abc"}"#);
    redactor.patch(&mut out, "params", r#"[{"op":"replace","path":"/token","value":"hunter33"}]"#);
    let given = "line\nbreak and \"line\\nbreak\" and 123456, hunter22, hunter33 and abc";
    let shown = written(|out| redactor.text(out, "reason", given));
    assert_eq!(shown, json!({ "reason": "[masked] and \"[masked]\" and [masked], [masked], [masked] and abc" }));
}

#[test]
fn results_and_payloads_are_told_as_parameters_are() {
    let mut trigger = trigger("PostToolUse");
    trigger.tool_call = Some(ToolCall { tool: "Bash".to_owned(), ..ToolCall::default() });
    trigger.form = Form { params: "{}".into(), result: Some(r#"{"token":"hunter22"}"#.into()) };
    trigger.payload = r#"{"prompt":"hunter22"}"#.to_owned();
    let redaction = masked(&["/result/token", "/payload/prompt"], &[]);
    let record = record(&redaction, trigger, &decision(Verdict::None, Vec::new()));
    let told = ["params", "result", "payload"].map(|name| record[name].clone());
    assert_eq!(told, [json!({}), json!({ "token": "[masked]" }), json!({ "prompt": "[masked]" })]);
}

#[test]
fn sampling_leaves_out_only_decisions_that_change_nothing() {
    let rule = |mode| rule("r", Tier::Local, mode);
    let silence = || decision(Verdict::None, vec![result(rule(Mode::Enforce), Ok(Verdict::None))]);
    assert!(changes_nothing(&silence()));
    let changed = |change: fn(&mut Decision)| {
        let mut decision = silence();
        change(&mut decision);
        decision
    };
    let kept = [
        decision(Verdict::Allow, Vec::new()),
        decision(Verdict::None, vec![result(rule(Mode::Enforce), Err(Failure::Exited))]),
        decision(Verdict::None, vec![result(rule(Mode::Shadow), Ok(Verdict::Block))]),
        decision(Verdict::None, vec![result(rule(Mode::Shadow), Err(Failure::Exited))]),
        changed(|decision| decision.halt = Some(String::new())),
        changed(|decision| decision.degraded = true),
        changed(|decision| {
            let rule = super::super::tests::rule("r", Tier::Local, Mode::Enforce);
            let rewrite = Rewrite { rule, target: RewriteTarget::Params, patch: String::new(), recheck: false };
            decision.rewrites = vec![rewrite];
        }),
        changed(|decision| {
            decision.event_output = hookd_json::parse(r#"{"a":1}"#).unwrap().as_object().unwrap().clone();
        }),
        changed(|decision| {
            decision.downgrades = vec![Downgrade { missing: Capability::Halt, from: Verdict::None, to: Verdict::None }];
        }),
        changed(|decision| {
            let rule = super::super::tests::rule("r", Tier::Local, Mode::Enforce);
            decision.additional_context = vec![Note { rule, text: String::new() }];
        }),
    ];
    for decision in kept {
        assert!(!changes_nothing(&decision), "{decision:?}");
    }
}

#[test]
fn the_part_that_is_kept_is_told_by_the_id() {
    let ids = (0..20_000_u64).map(|n| {
        // As random as the end of an id is.
        let end = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Uuid::from_u64_pair(0x019e_0000_0000_7000, end).to_string()
    });
    let ids = ids.collect::<Vec<_>>();
    let kept = |keep| ids.iter().filter(|id| is_kept(id, keep)).count();
    assert_eq!((kept(0), kept(KEEP_ALL)), (0, 20_000));
    let tenth = kept(KEEP_ALL / 10);
    assert!((1_900..2_100).contains(&tenth), "{tenth}");
    assert!(is_kept("no id", 0), "what cannot be told is kept");
}

#[test]
fn the_key_of_hashes_is_a_file_of_some_length() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    let refused = |path: &Path| key_in(path).unwrap_err().to_string().replace(&folder.path().display().to_string(), "");
    assert_eq!(refused(&path), "/key: cannot use the key of hashes: No such file or directory (os error 2)");
    assert_eq!(refused(folder.path()), ": cannot use the key of hashes: not a regular file");
    std::fs::write(&path, "short\n").unwrap();
    assert_eq!(refused(&path), "/key: cannot use the key of hashes: 5 bytes are not 16 to 4096");
    std::fs::write(&path, "0123456789abcdef\n").unwrap();
    assert_eq!(format!("{:?}", key_in(&path).unwrap()), "SecretBox<[u8]>([REDACTED])");
}

#[test]
fn what_was_handed_to_handlers_is_told_under_no_policy() {
    let secrets = Secrets::default();
    let part = |value: &str| hookd_rules::ValuePart::Env { name: "T".to_owned(), value: value.into() };
    secrets.render(&[part("tok-\"1\""), part("123456")], "a header").unwrap();
    for parameters in [Parameters::Full, Parameters::Masked] {
        let redaction = Redaction::new(&settings(parameters, &[], &[]), None, secrets.clone());
        let mut redactor = Redactor::new(&redaction);
        let mut out = b"{\"a\":1".to_vec();
        redactor.text(&mut out, "reason", "no tok-\"1\" here");
        redactor.json(&mut out, "params", r#"{"k":"x tok-\"1\"","s":"123456"}"#);
        // A number cannot be masked within JSON, so all of it is.
        redactor.json(&mut out, "result", r#"{"n":123456}"#);
        redactor.patch(&mut out, "params", r#"[{"op":"add","path":"/k","value":"tok-\"1\""}]"#);
        out.push(b'}');
        let expected = json!({
            "a": 1,
            "reason": "no [masked] here",
            "params": { "k": "x [masked]", "s": "[masked]" },
            "result": "[masked]",
            "patch": [{ "op": "add", "path": "/k", "value": "[masked]" }],
        });
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&out).unwrap(), expected, "{parameters:?}");
    }
}
