//! `hookd.v1.AdminService`: what is loaded, why a rule would run, reload. Who may ask for what is decided at the door.

use std::{borrow::Cow, sync::Arc, time::SystemTime};

use hookd_proto::v1::{self, admin_service_server::AdminService};
use hookd_rules::{Catalog, Event, Mode, OnError, Policy, Rule, Source, SourceState, Tier, Timing, UnknownEvent};
use tonic::{Request, Response, Status};

use super::{
    parse::{self, Arrival},
    reply,
    status::{NotJudged, Violation},
};
use crate::{
    catalog::{Live, Problem, ReloadReport, Severity},
    drain::Readiness,
    model::Identity,
    select::{self, Explanation},
    telemetry::call::{Call, Peer},
};

/// Answers the administrator.
#[derive(Debug)]
pub struct Admin {
    live: Live,
    readiness: Readiness,
    started_at: SystemTime,
}

impl Admin {
    /// For a process that started now.
    #[must_use]
    pub fn new(live: Live, readiness: Readiness) -> Self {
        Self { live, readiness, started_at: SystemTime::now() }
    }
}

#[tonic::async_trait]
impl AdminService for Admin {
    async fn get_status(
        &self,
        _request: Request<v1::GetStatusRequest>,
    ) -> Result<Response<v1::GetStatusResponse>, Status> {
        let (catalog, report) = (self.live.current(), self.live.last_report());
        Ok(Response::new(v1::GetStatusResponse {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            policy_revision: catalog.revision.to_string(),
            started_at: Some(self.started_at.into()),
            loaded_at: Some(self.live.stats().last_good.into()),
            sources: report.sources.iter().map(source).collect(),
            rules: count(catalog.rules.len()),
            waiting_for: self.readiness.waiting_for().into_iter().map(Cow::into_owned).collect(),
            warnings: warnings(&report),
            tiers: Tier::ALL.into_iter().filter_map(|tier| tier_status(&catalog, tier)).collect(),
        }))
    }

    async fn list_rules(
        &self,
        request: Request<v1::ListRulesRequest>,
    ) -> Result<Response<v1::ListRulesResponse>, Status> {
        let catalog = self.live.current();
        let event = &request.get_ref().event;
        if !event.is_empty() && Event::known(event).is_none() {
            UnknownEvent::check(event).map_err(|unknown| {
                let violation = Violation { field: "event".to_owned(), description: unknown.to_string() };
                NotJudged::Invalid(vec![violation]).into_status(&call_of(&request).decision_text())
            })?;
        }
        let rules = if event.is_empty() {
            catalog.rules.iter().map(summary).collect()
        } else {
            catalog.rules_of(event).map(summary).collect()
        };
        Ok(Response::new(v1::ListRulesResponse { rules, policy_revision: catalog.revision.to_string() }))
    }

    async fn explain(&self, request: Request<v1::ExplainRequest>) -> Result<Response<v1::ExplainResponse>, Status> {
        let call = call_of(&request);
        let decision_id = call.decision_text();
        let catalog = self.live.current();
        explain(&catalog, request.into_inner(), &call)
            .map(Response::new)
            .map_err(|not_judged| not_judged.into_status(&decision_id))
    }

    async fn reload(&self, _request: Request<v1::ReloadRequest>) -> Result<Response<v1::ReloadResponse>, Status> {
        let report = self.live.reload().await;
        Ok(Response::new(v1::ReloadResponse {
            policy_revision: report.revision.to_string(),
            changed: report.changed,
            ok: report.is_ok(),
            sources: report.sources.iter().map(source).collect(),
            warnings: warnings(&report),
        }))
    }
}

/// What the door knows of the call. Whether its caller may make it has been seen to there.
fn call_of<T>(request: &Request<T>) -> Call {
    request.extensions().get::<Call>().cloned().unwrap_or_else(|| Call::arriving(Peer::Remote(None)))
}

fn explain(catalog: &Arc<Catalog>, request: v1::ExplainRequest, call: &Call) -> Result<v1::ExplainResponse, NotJudged> {
    let Some(trigger) = request.trigger else {
        let description = "is missing, the event to explain is needed".to_owned();
        return Err(NotJudged::Invalid(vec![Violation { field: "trigger".to_owned(), description }]));
    };
    let identity = if request.labels.is_empty() {
        call.identity()
    } else {
        Arc::new(Identity { name: String::new(), labels: request.labels.into_iter().collect() })
    };
    let arrival =
        Arrival { decision_id: call.decision_text(), now_ms: call.now_ms, traceparent: String::new(), identity };
    let trigger = parse::parse(trigger, arrival)?;
    if !trigger.expected_revision.is_empty() && *trigger.expected_revision != *catalog.revision {
        let actual = catalog.revision.to_string();
        return Err(NotJudged::RevisionMismatch { expected: trigger.expected_revision, actual });
    }
    let refused = Policy::of(Arc::clone(catalog), trigger.identity.labels.as_slice()).err();
    let explained = catalog.rules_of(&trigger.event_name).map(|rule| {
        let Explanation { would_run, because } = select::explain(rule, &trigger);
        let (would_run, because) = match &refused {
            Some(_) if would_run => (false, format!("the call is refused; if it were not: {because}")),
            _ => (would_run, because),
        };
        v1::RuleExplanation { rule: Some(summary(rule)), would_run, because }
    });
    Ok(v1::ExplainResponse {
        rules: explained.collect(),
        policy_revision: catalog.revision.to_string(),
        block_means: trigger.event.block_means.to_owned(),
        refused: refused.map(|lacking| lacking.to_string()).unwrap_or_default(),
    })
}

fn summary(rule: &Arc<Rule>) -> v1::RuleSummary {
    let blocks = |name: &Arc<str>| {
        let event = Event::known(name).unwrap_or_else(|| Event::unknown(true));
        rule.failure_policy(event) == OnError::Block
    };
    v1::RuleSummary {
        rule_id: rule.id.to_string(),
        tier: reply::tier(rule.tier).into(),
        source: rule.file.display().to_string(),
        events: rule.events.iter().map(ToString::to_string).collect(),
        matcher: rule.matcher.as_str().to_owned(),
        handler: rule.handler.kind().to_owned(),
        r#async: rule.timing != Timing::Sync,
        shadow: rule.mode == Mode::Shadow,
        r#final: rule.is_final,
        must_decide: rule.must_decide,
        failure_blocks: rule.decides() && rule.events.iter().any(blocks),
        description: rule.description.clone(),
        line: count(rule.line),
        concurrent: rule.concurrent,
        when: rule.when.as_ref().map(|when| when.text().to_owned()).unwrap_or_default(),
        permission: rule.permission.as_ref().map(|rule| rule.as_str().to_owned()).unwrap_or_default(),
        selector: rule.selector.as_ref().map(ToString::to_string).unwrap_or_default(),
        missing_label: rule
            .selector
            .as_ref()
            .map(|selector| selector.missing_label().name())
            .unwrap_or_default()
            .into(),
    }
}

/// `None`: there is nothing to say of it.
fn tier_status(catalog: &Catalog, tier: Tier) -> Option<v1::TierStatus> {
    let status = v1::TierStatus {
        tier: reply::tier(tier).into(),
        enforced: count(catalog.count_in(tier, Mode::Enforce)),
        shadow: count(catalog.count_in(tier, Mode::Shadow)),
        shadow_by_settings: catalog.settings.tiers.get(tier).mode == Mode::Shadow,
    };
    (status.enforced > 0 || status.shadow > 0 || status.shadow_by_settings).then_some(status)
}

fn source(source: &Source) -> v1::SourceStatus {
    v1::SourceStatus {
        tier: reply::tier(source.tier).into(),
        path: source.path.display().to_string(),
        state: match source.state {
            SourceState::Loaded => v1::SourceState::Loaded,
            SourceState::Absent => v1::SourceState::Absent,
            SourceState::Partial => v1::SourceState::Partial,
            SourceState::Stale => v1::SourceState::Stale,
        }
        .into(),
        rules: count(source.rules),
        errors: source.errors.clone(),
        selector: source.selector.as_ref().map(ToString::to_string).unwrap_or_default(),
    }
}

/// An error that is about no source (settings that cannot be read) stands with the warnings: nowhere else is a place for
/// it, and it must not get lost.
fn warnings(report: &ReloadReport) -> Vec<String> {
    let is_sourceless = |problem: &&Problem| problem.tier.is_none() && problem.file.as_os_str().is_empty();
    let errors = report.problems.iter().filter(is_sourceless).filter(|problem| problem.severity == Severity::Error);
    errors.map(ToString::to_string).chain(report.lines(Severity::Warning)).collect()
}

fn count(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hookd_rules::{LoadSettings, Memory, MissingLabel, Operator, Requirement, Selector, SourceSettings};

    #[test]
    fn explain_says_which_rules_a_plain_call_does_not_reach() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rules.json");
        let handler = r#"{"type":"command","command":"true"}"#;
        std::fs::write(&path, format!(r#"{{"hooks":[{{"event":"Stop","runOn":"agent","handler":{handler}}}]}}"#))
            .unwrap();
        let mut settings = LoadSettings::default();
        settings.tiers.managed.sources = vec![SourceSettings { path, optional: false, selector: None }];
        let catalog = Arc::new(hookd_rules::load(&settings, &mut Memory::default()).catalog.unwrap());
        let trigger = Some(v1::TriggerRequest { event: "Stop".to_owned(), ..v1::TriggerRequest::default() });
        let request = v1::ExplainRequest { trigger, ..v1::ExplainRequest::default() };
        let answer = explain(&catalog, request, &Call::arriving(Peer::Local)).unwrap();
        let because =
            "no matcher: it matches everything; it runs on the agent's side, so on `Trigger` it fails as `unsupported`";
        let told = answer.rules.iter().map(|rule| (rule.would_run, rule.because.as_str())).collect::<Vec<_>>();
        assert_eq!(told, [(true, because)]);
    }

    #[test]
    fn explain_says_for_which_callers_a_rule_is() {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = LoadSettings::default();
        for (name, missing_label) in
            [("all", None), ("denies", Some(MissingLabel::Deny)), ("skips", Some(MissingLabel::Skip))]
        {
            let path = folder.path().join(format!("{name}.json"));
            let handler = r#"{"type":"decide","verdict":"ask"}"#;
            let rules = format!(r#"{{"hooks":[{{"id":"{name}","event":"Stop","handler":{handler}}}]}}"#);
            std::fs::write(&path, rules).unwrap();
            let selector = missing_label.map(|missing_label| {
                let key = if name == "denies" { "tenant" } else { "project" }.to_owned();
                let requirement = Requirement { key, operator: Operator::In(["a".to_owned()].into()) };
                Arc::new(Selector::new([requirement], missing_label).unwrap())
            });
            settings.tiers.team.sources.push(SourceSettings { path, optional: false, selector });
        }
        let catalog = Arc::new(hookd_rules::load(&settings, &mut Memory::default()).catalog.unwrap());
        let explained = |labels: &[(&str, &str)]| {
            let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            let trigger = Some(v1::TriggerRequest { event: "Stop".to_owned(), ..v1::TriggerRequest::default() });
            let request = v1::ExplainRequest { trigger, labels };
            let answer = explain(&catalog, request, &Call::arriving(Peer::Local)).unwrap();
            let line = |explained: v1::RuleExplanation| {
                let rule = explained.rule.unwrap();
                let (id, selector, missing) = (rule.rule_id, rule.selector, rule.missing_label);
                format!("{id} {selector} {missing} {}: {}", explained.would_run, explained.because)
            };
            let refused = answer.refused.replace(&format!("{}/", folder.path().display()), "");
            (refused, answer.rules.into_iter().map(line).collect::<Vec<_>>())
        };
        let any = "no matcher: it matches everything";
        let lacks = "the caller lacks the label `tenant`, which the selector of the team source denies.json needs";
        let no_project = "it is for callers with `project=a`, and this caller lacks `project`, so the call is judged \
                          without it (missing_label: skip)";
        let (refused, rules) = explained(&[]);
        assert_eq!(refused, lacks);
        let no_tenant = "it is for callers with `tenant=a`, and this caller lacks `tenant`, so the call is refused \
                         (missing_label: deny)";
        let expected = [
            format!("all   false: the call is refused; if it were not: {any}"),
            format!("denies tenant=a deny false: {no_tenant}"),
            format!("skips project=a skip false: {no_project}"),
        ];
        assert_eq!(rules, expected);
        let (refused, rules) = explained(&[("tenant", "b"), ("project", "a")]);
        assert_eq!(refused, "");
        let expected = [
            format!("all   true: {any}"),
            "denies tenant=a deny false: it is for callers with `tenant=a`, and this caller's `tenant` is `b`"
                .to_owned(),
            format!("skips project=a skip true: {any}"),
        ];
        assert_eq!(rules, expected);
    }
}
