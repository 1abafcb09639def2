//! The chain of laws 1, 2 and 4, and the extra pass of law 5.

use std::{sync::Arc, time::Duration};

use hookd_condition::Facts;
use hookd_rules::{Handler, PerTier, Policy, RunOn, Timing};
use tokio::time::Instant;

use super::{Budget, holds, queue, side_by_side::side_by_side, without_a_run};
use crate::{
    combine::{FormId, Forms, Halt, Vote, Voter, Walked},
    condition,
    model::{
        Answer, Failed, Failure, Form, Modifies, OnError, Outcome, Ran, Rewrite, RewriteTarget, Rule, RuleResult, Tier,
        Trigger, Verdict,
    },
    run::{Call, Handlers, Job, decide},
    select,
};

/// How much the rules on the caller's side may rewrite in one call, all together, in bytes. Every form that a call has had is
/// kept to its end, which such a rule can put off.
const MAX_BROUGHT_REWRITES: usize = 8 << 20;

/// Asks the matching rules, managed first, each with the form that the one before left; then makes the extra pass.
pub(super) async fn walk<H: Handlers>(
    handlers: &H,
    policy: &Policy,
    trigger: &Arc<Trigger>,
    rules: &[Arc<Rule>],
    budget: Budget,
) -> Walked {
    let walked = Walked::new(trigger.form.clone());
    let mut chain = Chain {
        handlers,
        policy,
        trigger,
        rules,
        budget,
        walked,
        facts: None,
        left: PerTier::from_fn(|_| FormId::ARRIVAL),
        last_author: None,
        closed_below: None,
        ended: false,
        turns: Vec::new(),
        brought: 0,
    };
    chain.first_pass().await;
    if !chain.ended {
        chain.extra_pass().await;
    }
    chain.defaults_of_the_final_form();
    chain.walked
}

struct Chain<'a, H> {
    handlers: &'a H,
    policy: &'a Policy,
    trigger: &'a Arc<Trigger>,
    rules: &'a [Arc<Rule>],
    budget: Budget,
    walked: Walked,
    /// What conditions see of the call as it arrived.
    facts: Option<Facts<'a>>,
    /// The form in which each tier let the call go.
    left: PerTier<FormId>,
    /// The tier of the last rewrite.
    last_author: Option<Tier>,
    /// The tier whose final answer keeps the tiers below from being asked (law 4).
    closed_below: Option<Tier>,
    /// A block has ended the chain (law 2).
    ended: bool,
    /// The forms with which rules that have twins had a turn in this pass.
    turns: Vec<(u64, FormId)>,
    /// What rules on the caller's side have rewritten so far, in bytes.
    brought: usize,
}

impl<'a, H: Handlers> Chain<'a, H> {
    async fn first_pass(&mut self) {
        for tier in Tier::ALL {
            if self.closed_below.is_some() {
                return;
            }
            if tier == Tier::Local {
                self.budget.begin_lower_tiers(self.trigger.event, Instant::now());
            }
            self.ask_tier(tier, false).await;
            if self.ended {
                return;
            }
            self.apply_default(tier, |_| true);
            if self.ended {
                return;
            }
            *self.left.get_mut(tier) = self.walked.forms.current();
        }
    }

    /// INVARIANT: after this, every tier above the last author of a rewrite has passed the final form in exactly that
    /// form. Going upwards makes one pass enough: a tier that rewrites here is passed by all that follow.
    async fn extra_pass(&mut self) {
        let Some(author) = self.last_author else { return };
        self.budget.begin_lower_tiers(self.trigger.event, Instant::now());
        self.turns.clear();
        for tier in Tier::ALL.into_iter().rev().filter(|tier| *tier > author) {
            if *self.left.get(tier) == self.walked.forms.current() {
                continue;
            }
            self.ask_tier(tier, true).await;
            if self.ended {
                return;
            }
        }
    }

    /// Asks the rules of one tier in order, neighbours that are concurrent side by side. In the extra pass those that
    /// do not decide have no turn.
    async fn ask_tier(&mut self, tier: Tier, recheck: bool) {
        let mut rest = of_tier(self.rules, tier);
        while let Some((rule, others)) = rest.split_first() {
            rest = others;
            if !rule.decides() {
                if !recheck {
                    self.take_turn(rule);
                }
                continue;
            }
            let beside = others.iter().take_while(|next| rule.concurrent && next.concurrent && next.decides()).count();
            if beside == 0 {
                match self.holds(rule) {
                    Ok(true) => {
                        let ran = self.run(rule, recheck).await;
                        self.count(rule, ran, recheck);
                    }
                    Ok(false) => self.pass_by(recheck),
                    Err(failed) => self.count(rule, Ran::said(Err(failed)), recheck),
                }
            } else {
                let (neighbours, others) = others.split_at_checked(beside).unwrap_or_default();
                rest = others;
                self.ask_side_by_side(rule, neighbours, recheck).await;
            }
            if self.ended {
                return;
            }
        }
    }

    /// Whether `rule` has a turn with the form now.
    fn holds(&mut self, rule: &Rule) -> Result<bool, Failed> {
        Ok(self.conditions_hold(rule)? && self.is_first(rule))
    }

    /// Whether none of its twins had a turn with the form now.
    fn is_first(&mut self, rule: &Rule) -> bool {
        let Some(twins) = rule.twins else { return true };
        let turn = (twins, self.walked.forms.current());
        let is_first = !self.turns.contains(&turn);
        if is_first {
            self.turns.push(turn);
        }
        is_first
    }

    fn conditions_hold(&mut self, rule: &Rule) -> Result<bool, Failed> {
        if rule.when.is_none() && rule.permission.is_none() {
            return Ok(true);
        }
        if self.is_late(rule) {
            return Err(Failed::timed_out(Duration::ZERO));
        }
        if self.walked.forms.current() == FormId::ARRIVAL {
            // Most calls are never rewritten: one parse serves all rules.
            let facts = self.facts.get_or_insert_with(|| condition::facts(self.trigger, &self.trigger.form));
            return holds(rule, facts);
        }
        let form = self.form();
        holds(rule, &mut condition::facts(self.trigger, &form))
    }

    /// What a caller brings is no reason to work on after its time is over, though it takes none by the laws.
    fn is_late(&self, rule: &Rule) -> bool {
        rule.run_on == RunOn::Agent && self.budget.granted(rule.tier, Duration::MAX, Instant::now()).is_none()
    }

    /// A rule that has no turn counts as not matched.
    fn pass_by(&mut self, recheck: bool) {
        if !recheck {
            self.walked.unmatched = self.walked.unmatched.saturating_add(1);
        }
    }

    /// Runs rules side by side on one form and counts their answers in configured order. A block cancels the rules
    /// after it; those before it are waited for, since the first block in that order decides.
    async fn ask_side_by_side(&mut self, first: &'a Arc<Rule>, neighbours: &'a [Arc<Rule>], recheck: bool) {
        let mut group = Vec::new();
        for rule in std::iter::once(first).chain(neighbours) {
            match self.holds(rule) {
                Ok(true) => group.push((rule, None)),
                Ok(false) => self.pass_by(recheck),
                Err(failed) => group.push((rule, Some(failed))),
            }
        }
        let mut runs = Vec::new();
        for (rule, failed) in &group {
            runs.push(self.run_unless(failed.as_ref(), rule, recheck));
        }
        let ends =
            |place: usize, ran: &Ran| group.get(place).is_some_and(|(rule, _)| self.ends_chain(rule, ran, recheck));
        let answers = side_by_side(runs, ends).await;
        for ((rule, _), ran) in group.iter().zip(answers) {
            self.count(rule, ran, recheck);
        }
    }

    /// Gives a rule that does not decide its turn in the chain.
    fn take_turn(&mut self, rule: &Arc<Rule>) {
        if matches!(rule.timing, Timing::AfterVerdict(_)) {
            return;
        }
        match self.holds(rule) {
            Ok(true) => {}
            Ok(false) => return self.pass_by(false),
            Err(failed) => return self.walked.results.push(without_a_run(Arc::clone(rule), failed)),
        }
        match (&rule.timing, &rule.handler) {
            (Timing::AfterVerdict(_), _) => {}
            // It costs nothing and can tell at once what it would have given.
            (Timing::Sync, Handler::Decide(decides)) => {
                let ran = decide(rule, self.trigger, &self.form(), decides);
                let gave = ran.said.as_ref().map(|answer| Outcome::Gave(self.verdict_of(answer)));
                let outcome = gave.unwrap_or(Outcome::Failed);
                self.note(rule, outcome, ran, false, None);
            }
            (Timing::Sync | Timing::Async, _) => {
                let job = Job {
                    rule: Arc::clone(rule),
                    trigger: Arc::clone(self.trigger),
                    form: self.form(),
                    decision: None,
                };
                self.walked.results.push(queue(self.handlers, job));
            }
        }
    }

    /// Lets what a rule gave count.
    fn count(&mut self, rule: &Arc<Rule>, mut ran: Ran, recheck: bool) {
        if let Err(failed) = self.take_in(rule, &ran) {
            ran.said = Err(failed);
        }
        match &ran.said {
            Ok(answer) => {
                let answer = Arc::clone(answer);
                self.count_answer(rule, ran, &answer, recheck);
            }
            Err(failed) => {
                let failed = failed.clone();
                self.count_failure(rule, ran, &failed, recheck);
            }
        }
    }

    /// Adds what a rule on the caller's side rewrites to what they have rewritten so far.
    fn take_in(&mut self, rule: &Rule, ran: &Ran) -> Result<(), Failed> {
        let Some(answer) = ran.said.as_ref().ok().filter(|_| rule.run_on == RunOn::Agent) else { return Ok(()) };
        let rewrites = [&answer.modified_params, &answer.modified_result].into_iter().flatten();
        let sizes = rewrites.map(|value| hookd_json::to_text(value).len());
        let all = sizes.fold(self.brought, usize::saturating_add);
        if all <= MAX_BROUGHT_REWRITES {
            self.brought = all;
            return Ok(());
        }
        let message =
            format!("rules on the caller's side may rewrite at most {MAX_BROUGHT_REWRITES} bytes in one call together");
        Err(Failed::new(Failure::TooLarge, message))
    }

    async fn run_unless(&self, failed: Option<&Failed>, rule: &Arc<Rule>, recheck: bool) -> Ran {
        match failed {
            Some(failed) => Ran::said(Err(failed.clone())),
            None => self.run(rule, recheck).await,
        }
    }

    async fn run(&self, rule: &Arc<Rule>, recheck: bool) -> Ran {
        let timeout = match &rule.handler {
            Handler::Decide(_) if self.is_late(rule) => Duration::ZERO,
            Handler::Decide(decides) => return decide(rule, self.trigger, &self.form(), decides),
            Handler::Command(command) => command.timeout,
            Handler::Http(http) => http.timeout,
        };
        let Some(granted) = self.budget.granted(rule.tier, timeout, Instant::now()) else {
            return Ran::said(Err(Failed::timed_out(Duration::ZERO)));
        };
        let form = self.form();
        // On the heap: what runs outside of the process is large, and most calls need none of it.
        let call = Call { rule, trigger: self.trigger, form: &form, recheck, granted };
        let ran = Box::pin(self.handlers.run(call)).await;
        Ran { ended: Some(self.budget.since_arrival(Instant::now())), ..ran }
    }

    fn count_answer(&mut self, rule: &Arc<Rule>, ran: Ran, answer: &Answer, recheck: bool) {
        let verdict = self.verdict_of(answer);
        let prevented = verdict == Verdict::Block && self.trigger.event.prevents();
        if !prevented {
            let rewrites =
                [(RewriteTarget::Params, &answer.modified_params), (RewriteTarget::Result, &answer.modified_result)];
            for (target, value) in rewrites {
                if let Some(value) = value {
                    self.rewrite(rule, target, value, recheck);
                }
            }
        }
        let blocked = (verdict == Verdict::Block).then(|| block_reason(answer));
        let result = self.note(rule, Outcome::Gave(verdict), ran, recheck, blocked);
        if answer.halt.is_some() {
            self.walked.halts.push(Halt { tier: rule.tier, result });
        }
        self.vote(verdict, rule.tier, Voter::Rule(result));
        let explicit = match verdict {
            Verdict::Allow => self.policy.catalog().tiers.get(rule.tier).may_allow,
            Verdict::Ask | Verdict::Defer => true,
            Verdict::None | Verdict::Block => false,
        };
        // A question that the caller made up must not keep a block from being asked for.
        if rule.is_final && explicit && !recheck && !rule.is_forgeable() {
            self.closed_below = Some(rule.tier);
        }
    }

    /// Law 7: forgiven or a block; in the extra pass always a block, since the tier has not passed this form.
    fn count_failure(&mut self, rule: &Arc<Rule>, ran: Ran, failed: &Failed, recheck: bool) {
        if self.failure_policy(rule, recheck) == OnError::Allow {
            self.note(rule, Outcome::Failed, ran, recheck, None);
            return;
        }
        let reason = format!("hook `{}` failed: {failed}", rule.id);
        if self.trigger.event.modifies == Modifies::Result {
            // A broken redactor shows nothing.
            let notice = hookd_json::Value::String(format!("[result withheld: {reason}]"));
            self.rewrite(rule, RewriteTarget::Result, &notice, recheck);
        }
        let result = self.note(rule, Outcome::Failed, ran, recheck, Some(reason));
        self.vote(Verdict::Block, rule.tier, Voter::Failure(result));
    }

    /// INVARIANT: an ALLOW of another form than the final one is no verdict (law 3), so it keeps no default from
    /// restricting the call: else whoever rewrites it from below could leave a list of what is allowed behind.
    fn defaults_of_the_final_form(&mut self) {
        if self.last_author.is_none() {
            return;
        }
        for tier in Tier::ALL.into_iter().filter(|tier| tier.is_central()) {
            if self.ended || self.closed_below.is_some_and(|closed| tier < closed) {
                return;
            }
            // The ALLOW of a default is that of the form in which its tier let the call go.
            self.apply_default(tier, |verdict| verdict > Verdict::Allow);
        }
    }

    /// Law 12: the tier's last outcome, if it is `wanted`, where no rule of it or of a tier above gave a verdict.
    fn apply_default(&mut self, tier: Tier, wanted: impl Fn(Verdict) -> bool) {
        let Some((index, default)) = select::default_of(self.policy, tier, self.trigger) else { return };
        let by_rule = |vote: &Vote| vote.tier >= tier && self.is_by_rule(vote) && self.counts_now(vote);
        if wanted(default.verdict) && !self.walked.votes.iter().any(by_rule) {
            self.vote(default.verdict, tier, Voter::Default(index));
        }
    }

    /// Whether a vote is that of a rule, and none that the caller could have made up in the place of a default.
    fn is_by_rule(&self, vote: &Vote) -> bool {
        match vote.voter {
            Voter::Default(_) => false,
            Voter::Rule(result) | Voter::Failure(result) => {
                self.walked.results.get(result).is_some_and(|result| !result.rule.is_forgeable())
            }
        }
    }

    /// Whether a vote is one at all: the ALLOW of a tier that may not, or of another form than the one now, is no
    /// opinion.
    fn counts_now(&self, vote: &Vote) -> bool {
        let may_allow = self.policy.catalog().tiers.get(vote.tier).may_allow;
        vote.verdict != Verdict::Allow || (may_allow && vote.form == self.walked.forms.current())
    }

    fn failure_policy(&self, rule: &Rule, recheck: bool) -> OnError {
        if recheck { OnError::Block } else { rule.failure_policy(self.trigger.event) }
    }

    /// Whether what a rule gave is a block that ends the chain (law 2).
    fn ends_chain(&self, rule: &Rule, ran: &Ran, recheck: bool) -> bool {
        let blocks = match &ran.said {
            Ok(answer) => self.verdict_of(answer) == Verdict::Block,
            Err(_) => self.failure_policy(rule, recheck) == OnError::Block,
        };
        blocks && self.trigger.event.prevents()
    }

    fn vote(&mut self, verdict: Verdict, tier: Tier, voter: Voter) {
        if verdict == Verdict::None {
            return;
        }
        self.walked.votes.push(Vote { verdict, tier, form: self.walked.forms.current(), voter });
        self.ended |= verdict == Verdict::Block && self.trigger.event.prevents();
    }

    fn rewrite(&mut self, rule: &Arc<Rule>, target: RewriteTarget, value: &hookd_json::Value, recheck: bool) {
        if let Some(patch) = self.walked.forms.rewrite(target, value) {
            self.last_author = Some(rule.tier);
            self.walked.rewrites.push(Rewrite { rule: Arc::clone(rule), target, patch, recheck });
        }
    }

    fn note(&mut self, rule: &Arc<Rule>, outcome: Outcome, ran: Ran, recheck: bool, blocked: Option<String>) -> usize {
        let rule = Arc::clone(rule);
        self.walked.results.push(RuleResult { rule, outcome, ran, recheck, blocked });
        self.walked.results.len().saturating_sub(1)
    }

    fn form(&self) -> Form {
        let forms: &Forms = &self.walked.forms;
        forms.form(forms.current()).unwrap_or(&self.trigger.form).clone()
    }

    /// What an answer comes to on this event: a halt blocks where BLOCK prevents something other than the agent's
    /// end (law 13).
    fn verdict_of(&self, answer: &Answer) -> Verdict {
        let event = self.trigger.event;
        let halts = answer.halt.is_some() && event.prevents() && !event.is_stop_like();
        if halts { Verdict::Block } else { answer.verdict }
    }
}

/// The rules of one tier: they stand together, since rules stand in evaluation order.
fn of_tier(rules: &[Arc<Rule>], tier: Tier) -> &[Arc<Rule>] {
    let start = rules.partition_point(|rule| rule.tier > tier);
    let end = rules.partition_point(|rule| rule.tier >= tier);
    rules.get(start..end).unwrap_or_default()
}

fn block_reason(answer: &Answer) -> String {
    let halt_reason = answer.halt.as_deref().unwrap_or_default();
    let given = [answer.reason.as_str(), halt_reason].into_iter().find(|reason| !reason.is_empty());
    given.unwrap_or("Blocked by hook").to_owned()
}
