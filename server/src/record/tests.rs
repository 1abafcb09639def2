use std::sync::Arc;

use hookd_rules::{Answer, Handler, LoadSettings, Mode, OnError, SourceSettings, Tier, Verdict};

use super::*;
use crate::{
    model::{Capabilities, Cause, DecidedBy, Event, Failed, Failure, Form, Identity, RuleResult, Session},
    telemetry::{Field, call::Peer},
};

pub(super) fn rule(id: &str, tier: Tier, mode: Mode) -> Arc<Rule> {
    Arc::new(Rule {
        events: vec!["Stop".into()],
        mode,
        on_error: Some(OnError::Allow),
        ..Rule::plain(id, tier, std::path::Path::new("/rules.json"), Handler::Decide(Answer::default().into()))
    })
}

pub(super) fn trigger(event: &str) -> Trigger {
    Trigger {
        event_name: event.into(),
        event: Event::known(event).unwrap_or_else(|| Event::unknown(false)),
        session_id: "s1".to_owned(),
        timestamp_ms: 0,
        tool_call: None,
        form: Form { params: "{}".into(), result: None },
        payload: String::new(),
        subject: None,
        identity: Identity::anonymous(),
        caller: None,
        request_id: String::new(),
        cwd: String::new(),
        session: Session::default(),
        capabilities: Capabilities::ALL,
        expected_revision: String::new(),
        decision_id: "d1".to_owned(),
        traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned(),
    }
}

fn context() -> Context {
    Context::from_header(None, Uuid::nil())
}

pub(super) fn result(rule: Arc<Rule>, said: Result<Verdict, Failure>) -> RuleResult {
    let (outcome, said) = match said {
        Ok(verdict) => (Outcome::Gave(verdict), Ok(Arc::new(Answer { verdict, ..Answer::default() }))),
        Err(kind) => (Outcome::Failed, Err(Failed::new(kind, "secret text"))),
    };
    RuleResult { rule, outcome, ran: Ran::said(said), recheck: false, blocked: None }
}

pub(super) fn decision(verdict: Verdict, results: Vec<RuleResult>) -> Decision {
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
        event_output: hookd_json::Map::new(),
        degraded: results.iter().any(RuleResult::is_forgiven),
        results,
        rewrites: Vec::new(),
        downgrades: Vec::new(),
        revision: "r1".into(),
        considered: 3,
        matched: 2,
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
    let recorder = Recorder::new(DecisionLog::silent(), None);
    let results = vec![
        result(rule("guard", Tier::Managed, Mode::Enforce), Ok(Verdict::Block)),
        result(rule("new", Tier::Managed, Mode::Shadow), Ok(Verdict::Ask)),
        result(rule("mine", Tier::Local, Mode::Enforce), Err(Failure::TimedOut)),
    ];
    let took = Duration::from_millis(2);
    assert!(recorder.decision(&trigger("Stop").into(), &decision(Verdict::Block, results), &context(), took).is_none());
    assert!(
        recorder
            .decision(&trigger("vendor.event.42").into(), &decision(Verdict::None, Vec::new()), &context(), took)
            .is_none()
    );
    recorder.refused(&Call::arriving(Peer::Local), Code::InvalidArgument, String::new);
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
            r#"hookd_managed_rule_outcomes_total{rule="new",outcome="ask"} 1"#,
            "hookd_shed_calls_total 1",
        ]
    );
}

#[tokio::test]
async fn loads_are_counted_and_the_catalog_shows() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.json");
    let rule = |mode| {
        format!(
            r#"{{"hooks": [{{"event": "Stop", "mode": "{mode}", "handler": {{"type": "decide", "verdict": "ask"}}}}]}}"#
        )
    };
    std::fs::write(&file, rule("shadow")).unwrap();
    let mut settings = LoadSettings::default();
    settings.tiers.team.sources = vec![SourceSettings { path: file.clone(), optional: false, selector: None }];
    let live = Live::start(move || Ok(settings.clone())).await.unwrap();
    std::fs::write(&file, rule("sometimes")).unwrap();
    assert!(live.reload().await.is_refused);
    let recorder = Recorder::new(DecisionLog::silent(), None);
    recorder.watch(Gauges {
        in_flight: Box::new(|| 1),
        arriving: Box::new(|| 7),
        leaving: Box::new(|| 9),
        connections: Box::new(|| 8),
        background: Box::new(|| 2),
        children: Box::new(|| 3),
        child_queue: Box::new(|| 4),
        handler_slots: Box::new(|| 5),
        open_breakers: Box::new(|| 6),
        live: live.clone(),
        tls: Some(Box::new(|| TlsCounts { good: 5, refused: 6, not_after: 1_900_000_000, failed_handshakes: 7 })),
    });
    let names = [
        "hookd_reloads",
        "hookd_catalog",
        "hookd_rules",
        "hookd_in_",
        "hookd_arriving",
        "hookd_connections",
        "hookd_background",
        "hookd_child",
        "hookd_handler_slots",
        "hookd_leaving",
        "hookd_open",
        "hookd_tls",
    ];
    let shown = samples(&recorder, &names);
    let there = shown.iter().filter(|line| !line.ends_with(" 0")).map(String::as_str).collect::<Vec<_>>();
    assert_eq!(
        there,
        [
            "hookd_arriving_calls 7",
            "hookd_background_handlers 2",
            &format!("hookd_catalog_info{{revision=\"{}\"}} 1", live.current().revision),
            "hookd_child_processes 3",
            "hookd_child_queue_length 4",
            "hookd_connections 8",
            "hookd_handler_slots_in_use 5",
            "hookd_in_flight_calls 1",
            "hookd_leaving_answers 9",
            "hookd_open_breakers 6",
            r#"hookd_reloads_total{result="good"} 1"#,
            r#"hookd_reloads_total{result="refused"} 1"#,
            r#"hookd_rules{tier="team",mode="shadow"} 1"#,
            "hookd_tls_certificate_not_after_seconds{} 1900000000",
            "hookd_tls_failed_handshakes_total 7",
            r#"hookd_tls_reloads_total{result="good"} 5"#,
            r#"hookd_tls_reloads_total{result="refused"} 6"#,
        ]
    );
    assert!(recorder.exposition().contains("hookd_last_good_load_age_seconds "));
}

#[test]
fn at_most_500_managed_rules_are_named() {
    let recorder = Recorder::new(DecisionLog::silent(), None);
    let rules = (0..600).map(|n| rule(&format!("rule-{n}"), Tier::Managed, Mode::Enforce)).collect::<Vec<_>>();
    for rule in &rules {
        recorder.background_ended(rule, &trigger("Stop"), &Ran::said(Ok(Arc::default())));
    }
    let named = samples(&recorder, &["hookd_managed"]);
    assert_eq!(named.len(), 501);
    assert!(named.contains(&r#"hookd_managed_rule_outcomes_total{rule="other",outcome="none"} 100"#.to_owned()));
}

#[test]
fn the_line_of_a_decision_names_things_and_tells_no_texts() {
    let results = vec![
        result(rule("new", Tier::Managed, Mode::Shadow), Ok(Verdict::Ask)),
        result(rule("mine", Tier::Local, Mode::Enforce), Err(Failure::TimedOut)),
        RuleResult {
            blocked: Some("secret reason".to_owned()),
            ..result(rule("guard", Tier::Managed, Mode::Enforce), Err(Failure::Killed))
        },
    ];
    let mut told = serde_json::Map::new();
    let decision = decision(Verdict::Ask, results);
    line::fields(&trigger("Stop"), &decision, Duration::from_micros(1234), &mut |name, field| {
        let value = match field {
            Field::Text(text) => text.into(),
            Field::Count(count) => count.into(),
            Field::Flag(flag) => flag.into(),
            Field::Millis(millis) => millis.into(),
        };
        assert_eq!(told.insert(name.to_owned(), value), None);
    });
    let expected = serde_json::json!({
        "event": "Stop", "session": "s1", "verdict": "ask",
        "rule": "guard", "tier": "managed", "cause": "rule", "revision": "r1", "considered": 3, "matched": 2,
        "degraded": true, "failed": "managed/guard: killed", "forgiven": "local/mine: timed_out", "shadow": "managed/new: ask", "decision_id": "d1",
        "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736", "ms": 1.234,
    });
    assert_eq!(serde_json::Value::Object(told), expected);
}
