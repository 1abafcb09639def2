//! What a decision costs in process: selecting, combining and evaluating 50 `decide` rules in three tiers, without the
//! RPC around it. Run with `cargo bench -p hookd`.

#![expect(clippy::unwrap_used, reason = "a bench that cannot set up has nothing to measure")]

use std::{fs, sync::Arc, time::Duration};

use divan::{Bencher, black_box};
use hookd::{
    combine,
    evaluate::{Budget, evaluate},
    model::{Capabilities, Event, Failed, Form, Identity, Ran, Session, Tier, ToolCall, Trigger, Verdict},
    run::{Call, Handlers, Job},
    select,
};
use hookd_rules::{
    Catalog, LoadSettings, Memory, MissingLabel, Operator, Policy, Requirement, Selector, SourceSettings,
};
use tokio::time::Instant;

fn main() {
    divan::main();
}

/// No rule of these benches needs a handler outside the process.
struct NoHandlers;

impl Handlers for NoHandlers {
    async fn run(&self, _: Call<'_>) -> Ran {
        Ran::said(Ok(Arc::default()))
    }

    fn queue(&self, _: Job) -> Result<(), Failed> {
        Ok(())
    }
}

/// `rules` rules in three tiers, of which `matching` are about `Bash`, with the conditions that `when` gives.
fn policy(rules: usize, matching: usize, when: impl Fn(usize) -> String) -> Policy {
    let directory = tempfile::tempdir().unwrap();
    let mut settings = LoadSettings::default();
    for (tier, part) in [(Tier::Managed, 0), (Tier::Local, 1), (Tier::Shared, 2)] {
        let rules = (0..rules).filter(|index| index % 3 == part).map(|index| {
            let tool = if index < matching { "^Bash$".to_owned() } else { format!("^Tool{index}$") };
            serde_json::json!({
                "id": format!("r{index}"), "event": "PreToolUse", "matcher": tool, "when": when(index),
                "handler": { "type": "decide", "verdict": "ask", "reason": "look at it first" },
            })
        });
        let path = directory.path().join(format!("{tier}.json"));
        fs::write(&path, serde_json::json!({ "hooks": rules.collect::<Vec<_>>() }).to_string()).unwrap();
        settings.tiers.get_mut(tier).sources = vec![SourceSettings { path, optional: false, selector: None }];
    }
    let catalog = hookd_rules::load(&settings, &mut Memory::default()).catalog.unwrap();
    Policy::of(Arc::new(catalog), &[]).unwrap()
}

fn always(_: usize) -> String {
    "true".to_owned()
}

fn trigger() -> Trigger {
    let params = format!(r#"{{"command":"cargo test --workspace","description":"{}"}}"#, "x".repeat(400));
    Trigger {
        event_name: Arc::from("PreToolUse"),
        event: Event::known("PreToolUse").unwrap(),
        session_id: "s1".to_owned(),
        timestamp_ms: 1,
        tool_call: Some(ToolCall { tool: "Bash".to_owned(), ..ToolCall::default() }),
        form: Form { params: Arc::from(params), result: None },
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
        traceparent: String::new(),
    }
}

#[divan::bench(args = [10, 50, 500])]
fn select(bencher: Bencher<'_, '_>, rules: usize) {
    let (policy, trigger) = (policy(rules, 5, always), trigger());
    bencher.bench_local(|| select::select(black_box(&policy), black_box(&trigger)).rules().len());
}

/// 10 rules for everyone, and a source of 5 rules for each of so many tenants.
fn of_tenants(tenants: usize) -> Arc<Catalog> {
    let directory = tempfile::tempdir().unwrap();
    let mut settings = LoadSettings::default();
    let mut source = |tier: Tier, name: &str, rules: usize, selector: Option<Arc<Selector>>| {
        let rules = (0..rules).map(|index| {
            let handler = serde_json::json!({ "type": "decide", "verdict": "ask" });
            serde_json::json!({ "event": "PreToolUse", "matcher": format!("^(Bash|{name}-{index})$"), "handler": handler })
        });
        let path = directory.path().join(format!("{name}.json"));
        fs::write(&path, serde_json::json!({ "hooks": rules.collect::<Vec<_>>() }).to_string()).unwrap();
        settings.tiers.get_mut(tier).sources.push(SourceSettings { path, optional: false, selector });
    };
    source(Tier::Managed, "everyone", 10, None);
    for tenant in (0..tenants).map(|tenant| format!("t{tenant}")) {
        let operator = Operator::In([tenant.clone()].into());
        let requirement = Requirement { key: "tenant".to_owned(), operator };
        let selector = Selector::new([requirement], MissingLabel::Deny).unwrap();
        source(Tier::Team, &tenant, 5, Some(Arc::new(selector)));
    }
    Arc::new(hookd_rules::load(&settings, &mut Memory::default()).catalog.unwrap())
}

fn labels(tenant: usize, user: usize) -> Vec<(String, String)> {
    [("tenant", format!("t{tenant}")), ("user", format!("u{user}"))].map(|(key, value)| (key.to_owned(), value)).into()
}

/// A caller whose labels were seen before, by what is for it alone.
#[divan::bench(args = [0, 1, 100, 10_000])]
fn select_among_tenants(bencher: Bencher<'_, '_>, tenants: usize) {
    let (catalog, labels, trigger) = (of_tenants(tenants), labels(0, 0), trigger());
    bencher.bench_local(|| {
        let policy = Policy::of(Arc::clone(black_box(&catalog)), &labels).unwrap();
        select::select(&policy, black_box(&trigger)).rules().len()
    });
}

/// A caller of another tenant each time, none of which was seen before as long as there are enough of them.
#[divan::bench(args = [100, 10_000], sample_count = 100, sample_size = 100)]
fn select_for_a_new_tenant(bencher: Bencher<'_, '_>, tenants: usize) {
    let (catalog, trigger) = (of_tenants(tenants), trigger());
    let mut callers = (0..).map(|caller| labels(caller, caller)).take(20_000).collect::<Vec<_>>();
    bencher.bench_local(move || {
        let labels = callers.pop().unwrap();
        let policy = Policy::of(Arc::clone(black_box(&catalog)), &labels).unwrap();
        select::select(&policy, black_box(&trigger)).rules().len()
    });
}

#[divan::bench(args = [0, 5, 50])]
fn combine(bencher: Bencher<'_, '_>, votes: usize) {
    let event = Event::known("PreToolUse").unwrap();
    let vote = |result| combine::Vote {
        verdict: Verdict::Ask,
        tier: Tier::Shared,
        form: combine::FormId::ARRIVAL,
        voter: combine::Voter::Rule(result),
    };
    let votes = (0..votes).map(vote).collect::<Vec<_>>();
    bencher.bench_local(|| {
        combine::settle(event, black_box(&votes), &[], combine::FormId::ARRIVAL, |tier| tier >= Tier::Local)
    });
}

/// 50 rules in three tiers on one tool, each with a pattern on the command and none of which holds: all of them are
/// evaluated. The parameters are parsed once in it.
#[divan::bench]
fn evaluate_50_rules_with_conditions(bencher: Bencher<'_, '_>) {
    let when = |index| format!(r#"has(params.command) && params.command.matches(r"\bforbidden-{index}\s+-[a-z]*f")"#);
    let (policy, trigger) = (policy(50, 50, when), Arc::new(trigger()));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    bencher.bench_local(|| {
        let budget = Budget::new(Instant::now(), Duration::from_secs(30)).unwrap();
        runtime.block_on(evaluate(&NoHandlers, black_box(&policy), &trigger, budget)).verdict
    });
}

#[divan::bench(args = [0, 5, 50])]
fn evaluate_50_rules(bencher: Bencher<'_, '_>, matching: usize) {
    let (policy, trigger) = (policy(50, matching, always), Arc::new(trigger()));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    bencher.bench_local(|| {
        let budget = Budget::new(Instant::now(), Duration::from_secs(30)).unwrap();
        runtime.block_on(evaluate(&NoHandlers, black_box(&policy), &trigger, budget)).verdict
    });
}
