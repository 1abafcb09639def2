//! Rules with scripted handlers, catalogs of them, and calls.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use hookd_rules::{
    Catalog, CommandHandler, DefaultRule, EventIndex, Fallbacks, Handler, Matcher, Mode, OnError, PerTier, Policy,
    Program, Rule, Shell, TierPolicy,
};
use tokio::time::Instant;

use crate::{
    evaluate::{Budget, evaluate},
    model::{
        Answer, Capabilities, Decision, Event, Failed, Failure, Form, Identity, Outcome, Ran, Session, Tier, ToolCall,
        Trigger, Verdict,
    },
    run::{Call, Handlers, Job},
};

/// What a scripted handler does with the form it is given.
pub(super) type Script = Arc<dyn Fn(&Form) -> Said + Send + Sync>;

/// What a scripted handler says.
#[derive(Debug, Clone)]
pub(super) enum Said {
    Answer(Box<Answer>),
    Fails(Failure),
    /// Takes this long, then says the other.
    After(Duration, Box<Said>),
}

/// Runs scripts and writes down who was asked, with which parameters.
#[derive(Default)]
pub(super) struct Scripted {
    scripts: HashMap<Arc<str>, Script>,
    pub(super) asked: Mutex<Vec<String>>,
    pub(super) queued: Mutex<Vec<String>>,
}

impl Handlers for Scripted {
    async fn run(&self, call: Call<'_>) -> Ran {
        let again = if call.recheck { " again" } else { "" };
        let form = call.form.result.as_ref().unwrap_or(&call.form.params);
        self.asked.lock().unwrap().push(format!("{}{again}: {form}", call.rule.id));
        let mut said = self.scripts[&call.rule.id](call.form);
        while let Said::After(time, then) = said {
            if time >= call.granted {
                tokio::time::sleep(call.granted).await;
                return Ran::said(Err(Failed::timed_out(call.granted)));
            }
            tokio::time::sleep(time).await;
            said = *then;
        }
        match said {
            Said::Answer(answer) => Ran::said(Ok(Arc::from(answer))),
            Said::Fails(kind) => Ran::said(Err(Failed::new(kind, "scripted failure"))),
            Said::After(..) => panic!("unwrapped above"),
        }
    }

    fn queue(&self, job: Job) -> Result<(), Failed> {
        let decision = job.decision.map(|known| format!(" after {}", known.verdict)).unwrap_or_default();
        self.queued.lock().unwrap().push(format!("{}{decision}: {}", job.rule.id, job.form.params));
        Ok(())
    }
}

/// A rule set under construction.
#[derive(Default)]
pub(super) struct Rules {
    rules: Vec<Rule>,
    pub(super) defaults: Vec<DefaultRule>,
    handlers: Scripted,
    pub(super) may_allow: Option<PerTier<bool>>,
    pub(super) fallbacks: Fallbacks,
}

impl Rules {
    pub(super) fn rule(mut self, tier: Tier, id: &str, script: impl Fn(&Form) -> Said + Send + Sync + 'static) -> Self {
        self.handlers.scripts.insert(Arc::from(id), Arc::new(script));
        let handler = Handler::Command(CommandHandler {
            program: Program::Shell(Shell::Sh, String::new()),
            timeout: Duration::from_secs(10),
            env: Vec::new(),
            cwd: None,
            worker: None,
            allow: None,
        });
        self.rules.push(Rule {
            events: vec![Arc::from("*")],
            tier_on_error: if tier == Tier::Managed { OnError::Block } else { OnError::Allow },
            ..Rule::plain(id, tier, Path::new("/rules.json"), handler)
        });
        self
    }

    /// Says one thing, whatever the form.
    pub(super) fn says(self, tier: Tier, id: &str, said: Said) -> Self {
        self.rule(tier, id, move |_| said.clone())
    }

    /// Changes the rule added last.
    pub(super) fn with(mut self, change: impl FnOnce(&mut Rule)) -> Self {
        change(self.rules.last_mut().unwrap());
        self
    }

    pub(super) fn with_default(mut self, tier: Tier, verdict: Verdict) -> Self {
        self.defaults.push(DefaultRule {
            tier,
            file: Arc::from(Path::new("/rules.json")),
            event: Arc::from("*"),
            matcher: Matcher::Any,
            verdict,
            reason: "by default".to_owned(),
            mode: Mode::Enforce,
            selector: None,
        });
        self
    }

    /// Evaluates a call by these rules.
    pub(super) async fn decide(self, call: Trigger) -> Judged {
        self.decide_within(call, Duration::from_secs(30)).await
    }

    pub(super) async fn decide_within(mut self, call: Trigger, deadline: Duration) -> Judged {
        // Stable: inside a tier the order is the one in which rules were added.
        self.rules.sort_by_key(|rule| std::cmp::Reverse(rule.tier));
        self.defaults.sort_by_key(|default| std::cmp::Reverse(default.tier));
        let rules = self.rules.into_iter().map(Arc::new).collect::<Vec<_>>();
        for default in &mut self.defaults {
            default.event = Arc::clone(&call.event_name);
        }
        let may_allow = self.may_allow.unwrap_or(PerTier::from_fn(|tier| tier >= Tier::Local));
        let index = Arc::new(EventIndex::new((0..).zip(rules.iter().cloned()).collect()));
        let catalog = Catalog {
            revision: Arc::from("r1"),
            by_event: HashMap::from([(Arc::clone(&call.event_name), index)]),
            rules,
            defaults: self.defaults,
            tiers: PerTier::from_fn(|tier| TierPolicy { may_allow: *may_allow.get(tier), on_error: OnError::Allow }),
            fallbacks: self.fallbacks,
            ..Catalog::default()
        };
        let policy = Policy::of(Arc::new(catalog), &[]).unwrap();
        let trigger = Arc::new(call);
        let budget = Budget::new(Instant::now(), deadline).unwrap();
        let decision = evaluate(&self.handlers, &policy, &trigger, budget).await;
        Judged { decision, handlers: self.handlers }
    }
}

/// A decision, with who was asked for it.
pub(super) struct Judged {
    pub(super) decision: Decision,
    handlers: Scripted,
}

impl Judged {
    pub(super) fn asked(&self) -> Vec<String> {
        self.handlers.asked.lock().unwrap().clone()
    }

    pub(super) fn queued(&self) -> Vec<String> {
        self.handlers.queued.lock().unwrap().clone()
    }

    /// Verdict, reason, and who decided.
    pub(super) fn verdict(&self) -> (Verdict, &str, Option<&str>) {
        let by = self.decision.decided_by.as_ref().map(|by| &*by.rule_id);
        (self.decision.verdict, &self.decision.reason, by)
    }

    pub(super) fn params(&self) -> Option<&str> {
        self.decision.modified_params.as_deref()
    }

    /// Each result as `id outcome`, `again` for the extra pass.
    pub(super) fn results(&self) -> Vec<String> {
        let results = self.decision.results.iter();
        let line = |again: bool| if again { " again" } else { "" };
        results.map(|result| format!("{} {}{}", result.rule.id, name(result.outcome), line(result.recheck))).collect()
    }
}

fn name(outcome: Outcome) -> &'static str {
    outcome.name()
}

/// A call of `Bash` with these parameters.
pub(super) fn call(event: &str, params: &str) -> Trigger {
    let known = Event::known(event).unwrap_or_else(|| Event::unknown(true));
    Trigger {
        event_name: Arc::from(event),
        event: known,
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

/// The same with a result.
pub(super) fn call_with_result(event: &str, result: &str) -> Trigger {
    let mut trigger = call(event, "{}");
    trigger.form.result = Some(Arc::from(result));
    trigger
}

pub(super) fn silent() -> Said {
    Said::Answer(Box::default())
}

pub(super) fn gives(verdict: Verdict) -> Said {
    Said::Answer(Box::new(Answer { verdict, reason: format!("says {verdict}"), ..Answer::default() }))
}

pub(super) fn rewrites(params: &str) -> Said {
    Said::Answer(Box::new(Answer { modified_params: Some(hookd_json::parse(params).unwrap()), ..Answer::default() }))
}

pub(super) fn allows_and_rewrites(params: &str) -> Said {
    let modified_params = Some(hookd_json::parse(params).unwrap());
    Said::Answer(Box::new(Answer { verdict: Verdict::Allow, modified_params, ..Answer::default() }))
}

pub(super) fn hides(result: &str) -> Said {
    Said::Answer(Box::new(Answer { modified_result: Some(hookd_json::parse(result).unwrap()), ..Answer::default() }))
}

pub(super) fn halts(reason: &str) -> Said {
    Said::Answer(Box::new(Answer { halt: Some(reason.to_owned()), ..Answer::default() }))
}

pub(super) fn after(millis: u64, said: Said) -> Said {
    Said::After(Duration::from_millis(millis), Box::new(said))
}
