//! Random rule sets in all tiers against a plain model, and what must hold whatever the rules are.

use std::time::Duration;

use hookd_rules::{Mode, OnError, Timing};
use proptest::prelude::*;

use super::support::*;
use crate::model::{Answer, Cause, Event, Failure, Modifies, Outcome, Tier, Verdict};

/// What a rule does with a call whose parameters are `{"n":N}`.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Action {
    Silent,
    Gives(Verdict),
    Rewrites(u8),
    AllowsAndRewrites(u8),
    AsksAndRewrites(u8),
    Fails,
}

const FORMS: usize = 4;

/// A rule: one action for each form, and its switches.
#[derive(Debug, Clone)]
struct Spec {
    tier: Tier,
    actions: [Action; FORMS],
    is_final: bool,
    on_error: Option<OnError>,
    shadow: bool,
    runs_async: bool,
    concurrent: bool,
    millis: u64,
}

impl Spec {
    /// A concurrent rule may not rewrite: only one that never does is made so.
    fn is_concurrent(&self) -> bool {
        let rewrites = |action: &Action| {
            matches!(action, Action::Rewrites(_) | Action::AllowsAndRewrites(_) | Action::AsksAndRewrites(_))
        };
        self.concurrent && !self.actions.iter().any(rewrites)
    }

    fn decides(&self) -> bool {
        !self.shadow && !self.runs_async
    }
}

fn actions() -> impl Strategy<Value = Action> {
    let n = 0..u8::try_from(FORMS).unwrap();
    prop_oneof![
        4 => Just(Action::Silent),
        2 => Just(Action::Gives(Verdict::Allow)),
        1 => Just(Action::Gives(Verdict::Ask)),
        1 => Just(Action::Gives(Verdict::Defer)),
        1 => Just(Action::Gives(Verdict::Block)),
        3 => n.clone().prop_map(Action::Rewrites),
        1 => n.clone().prop_map(Action::AllowsAndRewrites),
        1 => n.prop_map(Action::AsksAndRewrites),
        1 => Just(Action::Fails),
    ]
}

fn specs(tiers: &'static [Tier]) -> impl Strategy<Value = Spec> {
    let on_error = prop_oneof![3 => Just(None), 1 => Just(Some(OnError::Allow)), 1 => Just(Some(OnError::Block))];
    (
        prop::sample::select(tiers),
        prop::array::uniform4(actions()),
        prop::bool::weighted(0.2),
        on_error,
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.1),
        any::<bool>(),
        0..200_u64,
    )
        .prop_map(|(tier, actions, is_final, on_error, shadow, runs_async, concurrent, millis)| Spec {
            tier,
            actions,
            is_final,
            on_error,
            shadow,
            runs_async,
            concurrent,
            millis,
        })
}

fn rule_sets() -> impl Strategy<Value = Vec<Spec>> {
    prop::collection::vec(specs(&Tier::ALL), 0..10)
}

/// What managed and team files have as their default, in this order.
type Defaults = [Option<Verdict>; 2];

fn defaults() -> impl Strategy<Value = Defaults> {
    let verdict = prop::sample::select(vec![Verdict::Allow, Verdict::Ask, Verdict::Defer, Verdict::Block]);
    prop::array::uniform2(prop::option::of(verdict))
}

/// Evaluates the rules on `{"n":0}`; rule `rI` is the I-th of `specs`.
fn evaluate(event: &str, specs: &[Spec], slow: bool) -> Judged {
    evaluate_with(event, specs, [None; 2], slow)
}

fn evaluate_with(event: &str, specs: &[Spec], defaults: Defaults, slow: bool) -> Judged {
    let mut rules = Rules::default();
    for (tier, verdict) in [Tier::Managed, Tier::Team].into_iter().zip(defaults) {
        rules = verdict.into_iter().fold(rules, |rules, verdict| rules.with_default(tier, verdict));
    }
    let carries = Event::known(event).is_none_or(|event| event.modifies == Modifies::Params);
    for (index, spec) in specs.iter().enumerate() {
        let (actions, millis) = (spec.actions, if slow { spec.millis } else { 0 });
        rules = rules
            .rule(spec.tier, &format!("r{index}"), move |form| {
                let n = form.params.chars().filter_map(|c| c.to_digit(10)).next().unwrap();
                let said = match actions[n as usize] {
                    Action::Silent => silent(),
                    Action::Gives(verdict) => gives(verdict),
                    // The run room takes a rewrite that the event cannot carry for a failure.
                    Action::Rewrites(_) | Action::AllowsAndRewrites(_) | Action::AsksAndRewrites(_) if !carries => {
                        Said::Fails(Failure::BadOutput)
                    }
                    Action::Rewrites(n) => rewrites(&params(n)),
                    Action::AllowsAndRewrites(n) => rewrites_and(Verdict::Allow, n),
                    Action::AsksAndRewrites(n) => rewrites_and(Verdict::Ask, n),
                    Action::Fails => Said::Fails(Failure::Exited),
                };
                if millis > 0 { after(millis, said) } else { said }
            })
            .with(|rule| {
                rule.is_final = spec.is_final;
                rule.on_error = spec.on_error;
                rule.concurrent = spec.is_concurrent();
                rule.mode = if spec.shadow { Mode::Shadow } else { Mode::Enforce };
                rule.timing = if spec.runs_async { Timing::Async } else { Timing::Sync };
            });
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(rules.decide_within(call(event, &params(0)), Duration::from_secs(3600)))
}

fn params(n: u8) -> String {
    format!("{{\"n\":{n}}}")
}

fn rewrites_and(verdict: Verdict, n: u8) -> Said {
    let modified_params = Some(hookd_json::parse(&params(n)).unwrap());
    Said::Answer(Box::new(Answer { verdict, modified_params, ..Answer::default() }))
}

/// What came of it, as far as the model goes.
#[derive(Debug, PartialEq)]
struct Came {
    verdict: Verdict,
    /// The final form, where it is another than `{"n":0}` and the call may run.
    params: Option<String>,
    degraded: bool,
}

fn came(judged: &Judged) -> Came {
    let decision = &judged.decision;
    Came {
        verdict: decision.verdict,
        params: decision.modified_params.as_deref().map(str::to_owned),
        degraded: decision.degraded,
    }
}

/// The laws, written down as plainly as possible for `PreToolUse`: no futures, no ids, no sharing.
fn model(specs: &[Spec], defaults: Defaults) -> Came {
    let mut form = 0;
    let mut votes = Vec::new();
    let mut of_defaults = Vec::new();
    let default_of = |tier| match tier {
        Tier::Managed => defaults[0],
        Tier::Team => defaults[1],
        _ => None,
    };
    let mut left = std::collections::HashMap::new();
    let mut author = None;
    let mut degraded = false;
    let mut blocked = false;
    let mut closed = false;
    let mut asked_last = Tier::Managed;
    let may_allow = |tier| tier >= Tier::Local;
    let counts = |(verdict, tier, left): &(Verdict, Tier, u8), form: u8| {
        *verdict != Verdict::None && (*verdict != Verdict::Allow || (*left == form && may_allow(*tier)))
    };
    let has_spoken = |votes: &[(Verdict, Tier, u8)], tier: Tier, form: u8| {
        votes.iter().any(|vote| vote.1 >= tier && counts(vote, form))
    };
    let ask = |spec: &Spec, again: bool, form: &mut u8, author: &mut Option<Tier>, degraded: &mut bool| {
        let rewrite = |to: u8, form: &mut u8, author: &mut Option<Tier>| {
            if to != *form {
                *form = to;
                *author = Some(spec.tier);
            }
        };
        match spec.actions[usize::from(*form)] {
            Action::Silent => Verdict::None,
            Action::Gives(verdict) => verdict,
            Action::Rewrites(to) => {
                rewrite(to, form, author);
                Verdict::None
            }
            Action::AllowsAndRewrites(to) => {
                rewrite(to, form, author);
                Verdict::Allow
            }
            Action::AsksAndRewrites(to) => {
                rewrite(to, form, author);
                Verdict::Ask
            }
            Action::Fails => {
                let default = if spec.tier == Tier::Managed { OnError::Block } else { OnError::Allow };
                if again || spec.on_error.unwrap_or(default) == OnError::Block {
                    Verdict::Block
                } else {
                    *degraded = true;
                    Verdict::None
                }
            }
        }
    };
    for tier in Tier::ALL {
        if closed || blocked {
            break;
        }
        for spec in specs.iter().filter(|spec| spec.tier == tier && spec.decides()) {
            let verdict = ask(spec, false, &mut form, &mut author, &mut degraded);
            votes.push((verdict, tier, form));
            let explicit =
                verdict == Verdict::Ask || verdict == Verdict::Defer || (verdict == Verdict::Allow && may_allow(tier));
            closed |= spec.is_final && explicit;
            if verdict == Verdict::Block {
                blocked = true;
                break;
            }
        }
        if let Some(verdict) = default_of(tier).filter(|_| !blocked && !has_spoken(&votes, tier, form)) {
            of_defaults.push((verdict, tier, form));
            blocked |= verdict == Verdict::Block;
        }
        left.insert(tier, form);
        asked_last = tier;
    }
    if let (Some(author_tier), false) = (author, blocked) {
        for tier in Tier::ALL.into_iter().rev().filter(|tier| *tier > author_tier) {
            if left[&tier] == form || blocked {
                continue;
            }
            for spec in specs.iter().filter(|spec| spec.tier == tier && spec.decides()) {
                let verdict = ask(spec, true, &mut form, &mut author, &mut degraded);
                votes.push((verdict, tier, form));
                if verdict == Verdict::Block {
                    blocked = true;
                    break;
                }
            }
        }
    }
    // Who was asked what becomes of a call says so of the one that would run as well.
    for tier in [Tier::Managed, Tier::Team].into_iter().filter(|tier| *tier >= asked_last && !blocked) {
        if let Some(verdict) = default_of(tier).filter(|verdict| *verdict > Verdict::Allow)
            && !has_spoken(&votes, tier, form)
        {
            of_defaults.push((verdict, tier, form));
        }
    }
    let all = votes.iter().chain(&of_defaults);
    let verdict = all.filter(|vote| counts(vote, form)).map(|vote| vote.0).max().unwrap_or(Verdict::None);
    let params = (form != 0 && verdict != Verdict::Block).then(|| params(form));
    Came { verdict, params, degraded }
}

fn index(id: &str) -> usize {
    id.trim_start_matches('r').parse().unwrap()
}

/// Who was asked with what, as (rule, form, again).
fn asked(judged: &Judged) -> Vec<(usize, u8, bool)> {
    let parse = |line: &String| {
        let (who, params) = line.split_once(": ").unwrap();
        let n = params.chars().filter_map(|c| c.to_digit(10)).next().unwrap();
        let again = who.ends_with(" again");
        (index(who.trim_end_matches(" again")), u8::try_from(n).unwrap(), again)
    };
    judged.asked().iter().map(parse).collect()
}

/// The form that a rule leaves.
fn left_by(spec: &Spec, form: u8) -> u8 {
    match spec.actions[usize::from(form)] {
        Action::Rewrites(to) | Action::AllowsAndRewrites(to) | Action::AsksAndRewrites(to) => to,
        Action::Silent | Action::Gives(_) | Action::Fails => form,
    }
}

fn final_form(judged: &Judged) -> u8 {
    judged
        .params()
        .map_or(0, |params| u8::try_from(params.chars().filter_map(|c| c.to_digit(10)).next().unwrap()).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn the_laws_as_a_plain_model_states_them(specs in rule_sets(), defaults in defaults()) {
        prop_assert_eq!(came(&evaluate_with("PreToolUse", &specs, defaults, false)), model(&specs, defaults));
    }

    #[test]
    fn what_a_default_blocks_goes_on_only_with_a_verdict_of_its_tier_on_the_form_that_runs(specs in rule_sets()) {
        let judged = evaluate_with("PreToolUse", &specs, [Some(Verdict::Block), None], false);
        if judged.decision.verdict != Verdict::Block {
            let end = final_form(&judged);
            let has_verdict = asked(&judged).into_iter().any(|(rule, form, _)| {
                let spec = &specs[rule];
                spec.tier == Tier::Managed
                    && spec.decides()
                    && match spec.actions[usize::from(form)] {
                        Action::Gives(Verdict::Allow) | Action::AllowsAndRewrites(_) => left_by(spec, form) == end,
                        Action::Gives(_) | Action::AsksAndRewrites(_) => true,
                        Action::Silent | Action::Rewrites(_) | Action::Fails => false,
                    }
            });
            prop_assert!(has_verdict);
        }
    }

    #[test]
    fn adding_a_rule_never_lessens_what_higher_tiers_gave(specs in rule_sets(), added in specs(&Tier::ALL)) {
        let before = evaluate("PreToolUse", &specs, false);
        let mut more = specs;
        more.push(added.clone());
        let after = evaluate("PreToolUse", &more, false);
        let from_above = |judged: &Judged| {
            let results = judged.decision.results.iter();
            let chain = results.filter(|result| !result.recheck && result.rule.tier > added.tier);
            chain.map(|result| (result.rule.id.clone(), result.outcome)).collect::<Vec<_>>()
        };
        prop_assert_eq!(from_above(&before), from_above(&after));
        let sticks = |judged: &Judged| {
            let results = judged.decision.results.iter();
            let votes = results.filter(|result| !result.recheck && result.rule.tier > added.tier && result.rule.decides());
            votes
                .map(|result| match result.outcome {
                    Outcome::Gave(verdict) if verdict != Verdict::Allow => verdict,
                    _ if result.blocked.is_some() => Verdict::Block,
                    _ => Verdict::None,
                })
                .max()
                .unwrap_or(Verdict::None)
        };
        prop_assert!(after.decision.verdict >= sticks(&before));
    }

    #[test]
    fn every_allow_comes_from_a_tier_that_may_and_a_rule_that_left_the_final_form(specs in rule_sets()) {
        let judged = evaluate("PreToolUse", &specs, false);
        if judged.decision.verdict == Verdict::Allow {
            let by = judged.decision.decided_by.as_ref().unwrap();
            prop_assert_eq!(by.cause, Cause::Rule);
            let spec = &specs[index(&by.rule_id)];
            prop_assert!(spec.tier >= Tier::Local && spec.decides());
            let end = final_form(&judged);
            let left = asked(&judged).into_iter().filter(|(rule, ..)| *rule == index(&by.rule_id));
            let allowed = left.filter(|(_, form, _)| {
                let action = spec.actions[usize::from(*form)];
                matches!(action, Action::Gives(Verdict::Allow) | Action::AllowsAndRewrites(_)) && left_by(spec, *form) == end
            });
            prop_assert!(allowed.count() > 0);
        }
    }

    #[test]
    fn the_final_form_was_passed_exactly_so_by_every_tier_above_its_last_author(specs in rule_sets()) {
        let judged = evaluate("PreToolUse", &specs, false);
        let log = asked(&judged);
        if judged.decision.verdict != Verdict::Block
            && let Some(author) = judged.decision.rewrites.last().map(|rewrite| rewrite.rule.tier)
        {
            let end = final_form(&judged);
            for tier in Tier::ALL.into_iter().filter(|tier| *tier > author) {
                let last = log.iter().rev().find(|(rule, ..)| specs[*rule].tier == tier);
                if let Some((rule, form, _)) = last {
                    prop_assert_eq!(left_by(&specs[*rule], *form), end, "{} let another form go", tier);
                }
            }
        }
    }

    #[test]
    fn an_unconditional_managed_rewrite_survives_any_lower_tier(
        lower in prop::collection::vec(specs(&[Tier::Team, Tier::Local, Tier::Shared, Tier::Plugin]), 0..10),
        to in 1..4_u8,
    ) {
        let managed = Spec {
            tier: Tier::Managed,
            actions: [Action::Rewrites(to); FORMS],
            is_final: false,
            on_error: None,
            shadow: false,
            runs_async: false,
            concurrent: false,
            millis: 0,
        };
        let mut specs = lower;
        specs.push(managed);
        let judged = evaluate("PreToolUse", &specs, false);
        if judged.decision.verdict != Verdict::Block {
            prop_assert_eq!(judged.params().map(str::to_owned), Some(params(to)));
        }
    }

    #[test]
    fn final_never_skips_a_rule_of_its_own_tier(specs in rule_sets()) {
        let judged = evaluate("PreToolUse", &specs, false);
        if judged.decision.verdict == Verdict::Block {
            return Ok(());
        }
        let log = asked(&judged);
        for (rule, _, _) in log.iter().filter(|(rule, _, again)| specs[*rule].is_final && !again) {
            let tier = specs[*rule].tier;
            for (other, spec) in specs.iter().enumerate().filter(|(_, spec)| spec.tier == tier && spec.decides()) {
                prop_assert!(log.iter().any(|(asked, ..)| *asked == other), "r{other} of {} {tier}", spec.tier);
            }
        }
    }

    #[test]
    fn the_verdict_does_not_depend_on_how_long_handlers_take(specs in rule_sets()) {
        prop_assert_eq!(came(&evaluate("PreToolUse", &specs, false)), came(&evaluate("PreToolUse", &specs, true)));
    }

    #[test]
    fn running_side_by_side_changes_nothing_but_the_time(specs in rule_sets()) {
        let mut one_by_one = specs.clone();
        for spec in &mut one_by_one {
            spec.concurrent = false;
        }
        let (beside, alone) = (evaluate("PreToolUse", &specs, true), evaluate("PreToolUse", &one_by_one, true));
        prop_assert_eq!(beside.results(), alone.results());
        prop_assert_eq!(beside.verdict(), alone.verdict());
        prop_assert_eq!(came(&beside), came(&alone));
    }

    #[test]
    fn the_same_input_and_catalog_give_the_same_answer(
        specs in rule_sets(),
        event in prop::sample::select(vec!["PreToolUse", "PermissionRequest", "PostToolUse", "Stop", "SomethingNew"]),
    ) {
        let (one, two) = (evaluate(event, &specs, false), evaluate(event, &specs, false));
        prop_assert_eq!(one.asked(), two.asked());
        prop_assert_eq!(one.results(), two.results());
        prop_assert_eq!(one.verdict(), two.verdict());
        prop_assert_eq!(came(&one), came(&two));
    }

    #[test]
    fn on_stop_no_failure_and_no_async_or_shadow_rule_keeps_the_agent_running(specs in rule_sets()) {
        let judged = evaluate("Stop", &specs, false);
        prop_assert!(Event::known("Stop").is_some_and(Event::is_stop_like));
        if judged.decision.verdict == Verdict::Block {
            let by = judged.decision.decided_by.as_ref().unwrap();
            prop_assert_eq!(by.cause, Cause::Rule);
            prop_assert!(specs[index(&by.rule_id)].decides());
        }
    }
}
