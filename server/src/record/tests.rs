use std::{collections::HashMap, sync::Arc};

use hookd_rules::{Answer, Handler, Matcher, OnError, PerTier, Tier, TierPolicy, Timing, Verdict};

use super::*;
use crate::model::{Capabilities, Cause, DecidedBy, Event, Failed, Failure, Form, RuleResult};

fn rule(id: &str, tier: Tier, mode: Mode) -> Arc<Rule> {
    Arc::new(Rule {
        id: id.into(),
        tier,
        file: Arc::from(std::path::Path::new("/rules.json")),
        line: 1,
        events: vec!["Stop".into()],
        matcher: Matcher::Any,
        handler: Handler::Decide(Arc::new(Answer::default())),
        timing: Timing::Sync,
        mode,
        on_error: Some(OnError::Allow),
        is_final: false,
        must_decide: false,
        description: String::new(),
    })
}

fn trigger(event: &str) -> Trigger {
    Trigger {
        event_name: event.into(),
        event: Event::known(event).unwrap_or_else(|| Event::unknown(false)),
        session_id: "s1".to_owned(),
        timestamp_ms: 0,
        tool_call: None,
        form: Form { params: "{}".into(), result: None },
        payload: String::new(),
        subject: None,
        caller: None,
        request_id: String::new(),
        cwd: String::new(),
        capabilities: Capabilities::ALL,
        expected_revision: String::new(),
        decision_id: "d1".to_owned(),
        traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned(),
    }
}

fn result(rule: Arc<Rule>, said: Result<Verdict, Failure>) -> RuleResult {
    let (outcome, said) = match said {
        Ok(verdict) => (Outcome::Gave(verdict), Ok(Arc::new(Answer { verdict, ..Answer::default() }))),
        Err(kind) => (Outcome::Failed, Err(Failed::new(kind, "secret text"))),
    };
    RuleResult { rule, outcome, ran: Ran::said(said), recheck: false, blocked: None, dropped: String::new() }
}

fn decision(verdict: Verdict, results: Vec<RuleResult>) -> Decision {
    Decision {
        verdict,
        reason: "secret reason".to_owned(),
        decided_by: Some(DecidedBy {
            cause: Cause::Rule,
            rule_id: "guard".into(),
            tier: Some(Tier::Managed),
            file: None,
        }),
        modified_params: None,
        modified_result: None,
        additional_context: Vec::new(),
        system_messages: Vec::new(),
        halt: None,
        degraded: results.iter().any(RuleResult::is_forgiven),
        results,
        rewrites: Vec::new(),
        downgrades: Vec::new(),
        revision: "r1".into(),
        considered: 3,
        matched: 2,
    }
}

fn catalog(rules: Vec<Arc<Rule>>) -> Catalog {
    Catalog {
        revision: "r1".into(),
        rules,
        by_event: HashMap::new(),
        tiers: PerTier::from_fn(|_| TierPolicy::default()),
        ..Catalog::default()
    }
}

/// The samples of `recorder` that start with one of `names`, without histograms' buckets.
fn samples(recorder: &Recorder, names: &[&str]) -> Vec<String> {
    let text = recorder.exposition();
    let mut samples = text
        .lines()
        .filter(|line| names.iter().any(|name| line.starts_with(name)) && !line.contains("_bucket"))
        .map(str::to_owned)
        .collect::<Vec<_>>();
    samples.sort();
    samples
}

#[test]
fn decisions_are_counted_with_bounded_labels() {
    let recorder = Recorder::new();
    recorder.loaded(Some(&catalog(vec![rule("guard", Tier::Managed, Mode::Enforce)])));
    let results = vec![
        result(rule("guard", Tier::Managed, Mode::Enforce), Ok(Verdict::Block)),
        result(rule("new", Tier::Managed, Mode::Shadow), Ok(Verdict::Ask)),
        result(rule("mine", Tier::Local, Mode::Enforce), Err(Failure::TimedOut)),
    ];
    recorder.decision(&trigger("Stop"), &decision(Verdict::Block, results), Duration::from_millis(2));
    recorder.decision(&trigger("vendor.event.42"), &decision(Verdict::None, Vec::new()), Duration::from_millis(2));
    recorder.refused(Code::InvalidArgument);
    recorder.shed();
    assert_eq!(
        samples(&recorder, &["hookd_calls", "hookd_shed", "hookd_forgiven", "hookd_handler_runs", "hookd_managed"]),
        [
            r#"hookd_calls_total{event="",verdict="",tier="",status="invalid_argument"} 1"#,
            r#"hookd_calls_total{event="Stop",verdict="block",tier="managed",status="ok"} 1"#,
            r#"hookd_calls_total{event="other",verdict="none",tier="managed",status="ok"} 1"#,
            r#"hookd_forgiven_failures_total{tier="local",failure="timed_out"} 1"#,
            r#"hookd_handler_runs_total{kind="decide",tier="local",mode="sync",outcome="failed",failure="timed_out"} 1"#,
            r#"hookd_handler_runs_total{kind="decide",tier="managed",mode="shadow",outcome="ask",failure=""} 1"#,
            r#"hookd_handler_runs_total{kind="decide",tier="managed",mode="sync",outcome="block",failure=""} 1"#,
            r#"hookd_managed_rule_outcomes_total{rule="guard",outcome="block"} 1"#,
            r#"hookd_managed_rule_outcomes_total{rule="other",outcome="ask"} 1"#,
            "hookd_shed_calls_total 1",
        ]
    );
}

#[test]
fn loads_are_counted_and_the_catalog_shows() {
    let recorder = Recorder::new();
    recorder.loaded(Some(&catalog(vec![
        rule("a", Tier::Managed, Mode::Enforce),
        rule("b", Tier::Shared, Mode::Shadow),
    ])));
    recorder.loaded(None);
    let shown = samples(&recorder, &["hookd_reloads", "hookd_catalog", "hookd_rules"]);
    let there = shown.iter().filter(|line| !line.ends_with(" 0")).map(String::as_str).collect::<Vec<_>>();
    assert_eq!(
        there,
        [
            r#"hookd_catalog_info{revision="r1"} 1"#,
            r#"hookd_reloads_total{result="good"} 1"#,
            r#"hookd_reloads_total{result="refused"} 1"#,
            r#"hookd_rules{tier="managed",mode="enforce"} 1"#,
            r#"hookd_rules{tier="shared",mode="shadow"} 1"#,
        ]
    );
}

#[test]
fn at_most_500_managed_rules_are_named() {
    let recorder = Recorder::new();
    let rules = (0..600).map(|n| rule(&format!("rule-{n}"), Tier::Managed, Mode::Enforce)).collect::<Vec<_>>();
    recorder.loaded(Some(&catalog(rules.clone())));
    for rule in &rules {
        recorder.background_ended(rule, &Ran::said(Ok(Arc::default())));
    }
    let named = samples(&recorder, &["hookd_managed"]);
    assert_eq!(named.len(), 501);
    assert!(named.contains(&r#"hookd_managed_rule_outcomes_total{rule="other",outcome="none"} 100"#.to_owned()));
}

#[test]
fn the_line_of_a_decision_names_things_and_tells_no_texts() {
    let lines = Arc::new(std::sync::Mutex::new(Vec::new()));
    let sink = Arc::clone(&lines);
    let subscriber = tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .without_time()
        .with_target(false)
        .with_writer(move || Sink(Arc::clone(&sink)))
        .finish();
    let results = vec![
        result(rule("new", Tier::Managed, Mode::Shadow), Ok(Verdict::Ask)),
        result(rule("mine", Tier::Local, Mode::Enforce), Err(Failure::TimedOut)),
    ];
    tracing::subscriber::with_default(subscriber, || {
        Recorder::new().decision(&trigger("Stop"), &decision(Verdict::Ask, results), Duration::from_micros(1234));
    });
    let line = String::from_utf8(lines.lock().unwrap().clone()).unwrap();
    let expected = serde_json::json!({
        "level": "INFO", "message": "decided", "event": "Stop", "session": "s1", "verdict": "ask",
        "rule": "guard", "tier": "managed", "cause": "rule", "revision": "r1", "considered": 3, "matched": 2,
        "degraded": true, "forgiven": "local/mine: timed_out", "shadow": "managed/new: ask", "decision_id": "d1",
        "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736", "ms": 1.234,
    });
    assert_eq!(serde_json::from_str::<serde_json::Value>(&line).unwrap(), expected);
}

struct Sink(Arc<std::sync::Mutex<Vec<u8>>>);

impl std::io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
