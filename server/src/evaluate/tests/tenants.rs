//! Sources with selectors (issue 6): a caller is judged exactly as if only the sources that are for it were there.

use std::{collections::BTreeSet, fs, path::Path, sync::Arc, time::Duration};

use hookd_rules::{LoadSettings, Memory, MissingLabel, Operator, Policy, Requirement, Selector, SourceSettings, load};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::support::call;
use crate::{
    evaluate::{Budget, evaluate},
    model::{Decision, Failed, Identity, Ran, Tier, ToolCall, Trigger},
    run::{Call, Handlers, Job},
};

const KEYS: [&str; 3] = ["env", "team", "tenant"];
const EVENTS: [&str; 3] = ["PreToolUse", "PostToolUse", "Stop"];
const TOOLS: [&str; 4] = ["Bash", "Edit", "mcp__x__y", "Read"];
const MATCHERS: [&str; 5] = ["", "^Bash$", "Edit|Read", "^mcp__", "a.*h"];
const TIERS: [Tier; 5] = Tier::ALL;

/// Handlers outside of the process have nothing to say.
struct Silent;

impl Handlers for Silent {
    async fn run(&self, _: Call<'_>) -> Ran {
        Ran::said(Ok(Arc::default()))
    }

    fn queue(&self, _: Job) -> Result<(), Failed> {
        Ok(())
    }
}

/// One requirement: the number of its key, of its operator, and its values.
type Asked = (usize, u8, Vec<char>);
/// Of each key the value that a caller has, if any.
type Has = [Option<char>; KEYS.len()];

/// A source under construction.
#[derive(Debug, Clone)]
struct Spec {
    tier: usize,
    asked: Vec<Asked>,
    skip: bool,
    hooks: Vec<Value>,
    defaults: Vec<Value>,
}

impl Spec {
    /// Its selector. `None`: it has none, or what is asked for cannot be met.
    fn selector(&self) -> Option<Selector> {
        let requirement = |(key, operator, values): &Asked| {
            let values = values.iter().map(char::to_string).collect::<BTreeSet<_>>();
            let operator = match operator {
                0 => Operator::In(values),
                1 => Operator::NotIn(values),
                2 => Operator::Exists,
                _ => Operator::DoesNotExist,
            };
            Requirement { key: KEYS[*key].to_owned(), operator }
        };
        let missing_label = if self.skip { MissingLabel::Skip } else { MissingLabel::Deny };
        let selector = Selector::new(self.asked.iter().map(requirement), missing_label).ok()?;
        (!selector.requirements().is_empty()).then_some(selector)
    }

    /// The model: `None` where the caller lacks a label that is needed, else whether the source is for it.
    fn is_for(&self, has: Has) -> Option<bool> {
        if self.selector().is_none() {
            return Some(true);
        }
        let mut applies = true;
        for (key, operator, values) in &self.asked {
            applies &= match (operator, has[*key]) {
                (0 | 2, None) => return None,
                (0, Some(value)) => values.contains(&value),
                (1, Some(value)) => !values.contains(&value),
                (1, None) | (2, Some(_)) => true,
                (_, value) => value.is_none(),
            };
        }
        Some(applies)
    }
}

fn specs() -> impl Strategy<Value = Spec> {
    let values = prop::collection::vec(prop::sample::select(vec!['a', 'b', 'c']), 1..3);
    let asked = prop::collection::vec((0..KEYS.len(), 0..4_u8, values), 0..3);
    let hook = (0..EVENTS.len(), 0..MATCHERS.len(), 0..9_u8, any::<bool>()).prop_map(
        |(event, matcher, action, concurrent)| {
            let (handler, concurrent) = match action {
                0 => (json!({ "type": "decide", "verdict": "allow" }), concurrent),
                1 => (json!({ "type": "decide", "verdict": "ask", "reason": "look" }), concurrent),
                2 => (json!({ "type": "decide", "verdict": "block", "reason": "no" }), concurrent),
                3 | 4 if event == 0 => (json!({ "type": "decide", "modifiedParams": { "n": action } }), false),
                5 => (json!({ "type": "decide", "additionalContext": "note" }), concurrent),
                _ => (json!({ "type": "command", "command": "true" }), concurrent),
            };
            let mut hook = json!({
                "event": EVENTS[event], "matcher": MATCHERS[matcher], "handler": handler, "concurrent": concurrent,
                "final": action == 1 && matcher == 0,
            });
            if hook["handler"]["type"] == "command" {
                // Twins.
                hook["protocol"] = "claude-code".into();
            }
            hook
        },
    );
    let default = (0..EVENTS.len(), 0..MATCHERS.len()).prop_map(
        |(event, matcher)| json!({ "event": EVENTS[event], "matcher": MATCHERS[matcher], "verdict": "ask", "reason": "d" }),
    );
    let (hooks, defaults) = (prop::collection::vec(hook, 0..4), prop::collection::vec(default, 0..2));
    (0..TIERS.len(), asked, any::<bool>(), hooks, defaults).prop_map(|(tier, asked, skip, mut hooks, defaults)| {
        hooks.iter_mut().enumerate().for_each(|(place, hook)| hook["id"] = format!("r{place}").into());
        let defaults = if TIERS[tier] >= Tier::Team { defaults } else { Vec::new() };
        Spec { tier, asked, skip, hooks, defaults }
    })
}

fn has() -> impl Strategy<Value = Has> {
    prop::array::uniform3(prop::option::weighted(0.8, prop::sample::select(vec!['a', 'b', 'c', 'd'])))
}

fn labels(has: Has) -> Vec<(String, String)> {
    KEYS.iter().zip(has).filter_map(|(key, value)| Some(((*key).to_owned(), value?.to_string()))).collect()
}

/// A catalog of the sources among `specs` that `keep` says, with their selectors or without any.
fn catalog(
    folder: &Path,
    specs: &[Spec],
    with_selectors: bool,
    keep: impl Fn(&Spec) -> bool,
) -> Arc<hookd_rules::Catalog> {
    let mut settings = LoadSettings::default();
    for (place, spec) in specs.iter().enumerate() {
        let path = folder.join(format!("s{place}.json"));
        let mut file = json!({ "hooks": spec.hooks });
        if !spec.defaults.is_empty() {
            file["defaults"] = spec.defaults.clone().into();
        }
        fs::write(&path, file.to_string()).unwrap();
        let selector = spec.selector().filter(|_| with_selectors).map(Arc::new);
        if keep(spec) {
            let source = SourceSettings { path, optional: false, selector };
            settings.tiers.get_mut(TIERS[spec.tier]).sources.push(source);
        }
    }
    let load = load(&settings, &mut Memory::default());
    Arc::new(load.catalog.unwrap_or_else(|| panic!("{:?}", load.problems)))
}

/// Everything of a decision that a caller sees, but for times and the revision.
fn seen(decision: &Decision) -> impl PartialEq + std::fmt::Debug + use<> {
    let results = decision.results.iter().map(|result| {
        (
            Arc::clone(&result.rule.file),
            Arc::clone(&result.rule.id),
            result.outcome,
            result.recheck,
            result.blocked.clone(),
        )
    });
    let notes = decision.additional_context.iter().map(|note| Arc::clone(&note.rule.file));
    (
        (decision.verdict, decision.reason.clone(), decision.decided_by.clone(), decision.modified_params.clone()),
        (decision.considered, decision.matched, decision.degraded, decision.rewrites.len()),
        results.collect::<Vec<_>>(),
        notes.collect::<Vec<_>>(),
    )
}

fn judge(policy: &Policy, event: &str, tool: &str) -> impl PartialEq + std::fmt::Debug + use<> {
    let trigger = Arc::new(Trigger {
        tool_call: Some(ToolCall { tool: tool.to_owned(), ..ToolCall::default() }),
        ..call(event, r#"{"n":0}"#)
    });
    let budget = Budget::new(Instant::now(), Duration::from_secs(30)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    seen(&runtime.block_on(evaluate(&Silent, policy, &trigger, budget)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_caller_is_judged_as_by_a_catalog_of_the_sources_that_are_for_it(
        specs in prop::collection::vec(specs(), 0..7),
        callers in prop::collection::vec(has(), 1..5),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let all = catalog(folder.path(), &specs, true, |_| true);
        for has in callers {
            let policy = Policy::of(Arc::clone(&all), &labels(has));
            let lacks = specs.iter().any(|spec| !spec.skip && spec.is_for(has).is_none());
            prop_assert_eq!(policy.is_err(), lacks);
            let Ok(policy) = policy else { continue };
            let own = catalog(folder.path(), &specs, false, |spec| spec.is_for(has) == Some(true));
            let own = Policy::of(own, &[]).unwrap();
            for event in EVENTS {
                // The second time it is remembered.
                for tool in TOOLS.into_iter().chain(TOOLS) {
                    prop_assert_eq!(judge(&policy, event, tool), judge(&own, event, tool), "{} {}", event, tool);
                }
            }
        }
    }
}

#[test]
fn one_catalog_judges_a_thousand_tenants_each_by_its_own_rules() {
    let folder = tempfile::tempdir().unwrap();
    let rule = |id: &str, verdict: &str| {
        let handler = json!({ "type": "decide", "verdict": verdict, "reason": id });
        json!({ "id": id, "event": "PreToolUse", "matcher": "^Bash$", "handler": handler })
    };
    let mut settings = LoadSettings::default();
    let mut source = |tier: Tier, name: String, rules: Value, selector: Option<Selector>| {
        let path = folder.path().join(name);
        fs::write(&path, json!({ "hooks": rules }).to_string()).unwrap();
        let selector = selector.map(Arc::new);
        settings.tiers.get_mut(tier).sources.push(SourceSettings { path, optional: false, selector });
    };
    source(Tier::Managed, "all.json".to_owned(), json!([rule("everyone", "allow")]), None);
    source(Tier::Shared, "last.json".to_owned(), json!([rule("last", "allow")]), None);
    for tenant in 0..1000 {
        let values = BTreeSet::from([format!("t{tenant}")]);
        let requirement = Requirement { key: "tenant".to_owned(), operator: Operator::In(values) };
        let selector = Selector::new([requirement], MissingLabel::Deny).unwrap();
        let own = json!([rule(&format!("t{tenant}"), "ask")]);
        source(Tier::Team, format!("t{tenant}.json"), own, Some(selector));
    }
    let catalog = Arc::new(load(&settings, &mut Memory::default()).catalog.unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let results = |labels: &[(&str, &str)]| {
        let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let labels = labels.iter().map(own).collect::<crate::model::Labels>();
        let policy =
            Policy::of(Arc::clone(&catalog), labels.as_slice()).map_err(|lacking| lacking.label.to_string())?;
        let identity = Arc::new(Identity { name: "x".to_owned(), labels });
        let trigger = Arc::new(Trigger { identity, ..call("PreToolUse", "{}") });
        let budget = Budget::new(Instant::now(), Duration::from_secs(30)).unwrap();
        let decision = runtime.block_on(evaluate(&Silent, &policy, &trigger, budget));
        let ids = decision.results.iter().map(|result| result.rule.id.to_string()).collect::<Vec<_>>();
        Ok::<_, String>((ids, decision.considered, decision.matched))
    };
    for tenant in (0..1000).map(|tenant| format!("t{tenant}")) {
        let own = (["everyone", &tenant, "last"].map(str::to_owned).to_vec(), 3, 3);
        assert_eq!(results(&[("tenant", &tenant)]), Ok(own.clone()));
        assert_eq!(results(&[("tenant", &tenant), ("user", "u")]), Ok(own), "other labels make no difference");
    }
    let common = (["everyone", "last"].map(str::to_owned).to_vec(), 2, 2);
    for stranger in ["t1000", "t", "T1", "t1 ", ""] {
        assert_eq!(results(&[("tenant", stranger)]), Ok(common.clone()));
    }
    assert_eq!(results(&[("user", "t1")]), Err("tenant".to_owned()));
    assert_eq!(results(&[]), Err("tenant".to_owned()));
}
