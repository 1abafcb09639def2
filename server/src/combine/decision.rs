use std::sync::Arc;

use hookd_json::{Map, Value};
use hookd_rules::Catalog;

use super::{Asks, Forms, Halt, Settled, Vote, Voter, downgrade, settle, withheld};
use crate::model::{Answer, Cause, DecidedBy, Decision, Form, Note, Rewrite, RuleResult, Trigger, Verdict};

/// All that one walk through the rules of an event gave.
#[derive(Debug)]
pub struct Walked {
    /// The forms that the call has had.
    pub forms: Forms,
    /// What each rule gave, in the order of the walk.
    pub results: Vec<RuleResult>,
    /// Their opinions, in the same order.
    pub votes: Vec<Vote>,
    /// Their wishes to stop the agent, in the same order.
    pub halts: Vec<Halt>,
    /// Their rewrites, in the same order.
    pub rewrites: Vec<Rewrite>,
    /// How many rules that were selected do not match after all, since their condition does not hold.
    pub unmatched: usize,
}

impl Walked {
    /// A walk that has not begun, of a call that arrived in this form.
    #[must_use]
    pub fn new(arrival: Form) -> Self {
        let forms = Forms::new(arrival);
        Self { forms, results: Vec::new(), votes: Vec::new(), halts: Vec::new(), rewrites: Vec::new(), unmatched: 0 }
    }
}

/// Makes the decision of a walk, downgraded to what the caller can carry out.
#[must_use]
pub fn decide(catalog: &Catalog, trigger: &Trigger, walked: Walked) -> Decision {
    let event = trigger.event;
    let final_form = walked.forms.current();
    let may_allow = |tier| catalog.tiers.get(tier).may_allow;
    let settled = settle(event, &walked.votes, &walked.halts, final_form, may_allow);
    let mut results = walked.results;
    name_outranked(&settled, &mut results);

    let last = walked.forms.form(final_form).unwrap_or(&trigger.form);
    let modified_params = (trigger.form.params != last.params).then(|| Arc::clone(&last.params));
    let modified_result = last.result.clone().filter(|_| trigger.form.result != last.result);
    let context = notes(&results, |answer| answer.additional_context.as_deref());
    let halt = settled.halt.and_then(|result| answer_of(&results, result)).and_then(|answer| answer.halt.clone());
    let asks = Asks {
        modified_params: modified_params.is_some(),
        modified_result: modified_result.is_some(),
        context: !context.is_empty(),
        halt: halt.is_some(),
    };
    let downgraded = downgrade(event, settled.verdict, asks, trigger.capabilities, catalog.fallbacks);
    if downgraded.context_withheld {
        withheld::name_context(&mut results);
    }

    let mut decided_by = decided_by(catalog, &settled, &results);
    let mut reason = reason(catalog, trigger, &settled, &walked.votes, &results);
    if downgraded.verdict != settled.verdict {
        let nobody = DecidedBy { cause: Cause::Capability, rule_id: Arc::from(""), tier: None, file: None };
        decided_by = Some(DecidedBy { cause: Cause::Capability, ..decided_by.unwrap_or(nobody) });
        if downgraded.rewrite_withheld {
            decided_by = withheld::rewriter(&walked.rewrites).or(decided_by);
            reason = withheld::rewrite_reason(modified_params.as_deref(), modified_result.as_deref(), &reason);
        } else if downgraded.verdict == Verdict::Block {
            let wish = if settled.verdict == Verdict::Defer { "a decision outside" } else { "a person's consent" };
            let because = if reason.is_empty() { String::new() } else { format!(": {reason}") };
            reason = format!("this needs {wish} and this agent cannot wait for it{because}");
        }
    }
    // What comes with an ALLOW (permissions, an answer in the person's place) counts as the ALLOW itself does.
    let allowed = |index| {
        let by = |vote: &Vote| vote.voter == Voter::Rule(index) && vote.form == final_form && may_allow(vote.tier);
        settled.verdict == Verdict::Allow && downgraded.verdict == Verdict::Allow && walked.votes.iter().any(by)
    };
    // A call that does not run has no parameters to run with.
    let runs = !(downgraded.verdict == Verdict::Block && event.prevents());
    Decision {
        verdict: downgraded.verdict,
        reason,
        decided_by,
        modified_params: modified_params.filter(|_| runs && !downgraded.rewrite_withheld),
        modified_result: modified_result.filter(|_| !downgraded.rewrite_withheld),
        additional_context: if downgraded.context_withheld { Vec::new() } else { context },
        system_messages: notes(&results, |answer| answer.system_message.as_deref()),
        halt,
        event_output: event_output(&results, allowed),
        degraded: results.iter().any(RuleResult::is_forgiven),
        results,
        rewrites: walked.rewrites,
        downgrades: downgraded.downgrades,
        revision: Arc::clone(&catalog.revision),
        considered: 0,
        matched: 0,
    }
}

fn reason(catalog: &Catalog, trigger: &Trigger, settled: &Settled, votes: &[Vote], results: &[RuleResult]) -> String {
    let Some(decider) = settled.decider else { return String::new() };
    let given = |vote: &Vote| match vote.voter {
        Voter::Default(index) => catalog.defaults.get(index).map(|default| default.reason.as_str()),
        Voter::Rule(result) | Voter::Failure(result) => results.get(result).map(|result| match &result.blocked {
            Some(reason) => reason,
            None => result.ran.said.as_ref().map_or("", |answer| &answer.reason),
        }),
    };
    if decider.verdict == Verdict::Block && !trigger.event.prevents() {
        // Feedback: every rule ran, and the model should see what each of them has to say.
        let mut reasons = Vec::new();
        for reason in votes.iter().filter(|vote| vote.verdict == Verdict::Block).filter_map(given) {
            if !reason.is_empty() && !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
        return reasons.join("\n");
    }
    given(&decider).unwrap_or_default().to_owned()
}

fn decided_by(catalog: &Catalog, settled: &Settled, results: &[RuleResult]) -> Option<DecidedBy> {
    let by_rule = |cause, result: &RuleResult| DecidedBy {
        cause,
        rule_id: Arc::clone(&result.rule.id),
        tier: Some(result.rule.tier),
        file: Some(Arc::clone(&result.rule.file)),
    };
    match settled.decider.map(|decider| decider.voter) {
        Some(Voter::Rule(result)) => results.get(result).map(|result| by_rule(Cause::Rule, result)),
        Some(Voter::Failure(result)) => results.get(result).map(|result| by_rule(Cause::FailurePolicy, result)),
        Some(Voter::Default(index)) => catalog.defaults.get(index).map(|default| DecidedBy {
            cause: Cause::Default,
            rule_id: Arc::from(""),
            tier: Some(default.tier),
            file: Some(Arc::clone(&default.file)),
        }),
        None => {
            let halting =
                settled.halt.and_then(|result| results.get(result)).map(|result| by_rule(Cause::Rule, result));
            // Nothing was said because something failed: that is not the same as nothing to say.
            let forgiven = || results.iter().find(|result| result.is_forgiven());
            halting.or_else(|| forgiven().map(|result| by_rule(Cause::FailurePolicy, result)))
        }
    }
}

/// Names in each result what law 13 dropped of it.
fn name_outranked(settled: &Settled, results: &mut [RuleResult]) {
    for index in &settled.outranked_halts {
        if let Some(result) = results.get_mut(*index) {
            "halt dropped: a rule of a higher tier makes the agent go on".clone_into(&mut result.ran.dropped);
        }
    }
    for index in &settled.outranked_blocks {
        if let Some(result) = results.get_mut(*index) {
            "block dropped: a rule of its tier or a higher one halts the agent".clone_into(&mut result.ran.dropped);
        }
    }
}

/// The texts that rules which count have given, each once a rule.
fn notes(results: &[RuleResult], text: impl Fn(&Answer) -> Option<&str>) -> Vec<Note> {
    let mut notes: Vec<Note> = Vec::new();
    for result in results.iter().filter(|result| result.rule.decides()) {
        let Some(text) = result.ran.said.as_deref().ok().and_then(&text) else { continue };
        let again = |note: &Note| Arc::ptr_eq(&note.rule, &result.rule) && note.text == text;
        if !notes.iter().any(again) {
            notes.push(Note { rule: Arc::clone(&result.rule), text: text.to_owned() });
        }
    }
    notes
}

/// The outputs of the event that rules which count have given: of two under one key the higher tier's counts, and
/// inside a tier the later one.
fn event_output(results: &[RuleResult], allowed: impl Fn(usize) -> bool) -> Map<String, Value> {
    let mut given = Vec::new();
    for (index, result) in results.iter().enumerate() {
        let Some(answer) = result.ran.said.as_deref().ok().filter(|_| result.rule.decides()) else { continue };
        if !answer.event_output.is_empty() && (answer.verdict != Verdict::Allow || allowed(index)) {
            given.push((result.rule.tier, &answer.event_output));
        }
    }
    given.sort_by_key(|(tier, _)| *tier);
    given.into_iter().flat_map(|(_, outputs)| outputs.clone()).collect()
}

fn answer_of(results: &[RuleResult], result: usize) -> Option<&Answer> {
    results.get(result)?.ran.said.as_deref().ok()
}
