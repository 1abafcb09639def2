use std::{io::Write as _, sync::Arc, time::Duration};

use hookd_audit::text;
use serde::Serialize;

use super::{
    caller,
    redaction::{Redaction, Redactor},
};
use crate::{
    model::{Capability, DecidedBy, Decision, Downgrade, Failure, Rewrite, RewriteTarget, Trigger, Verdict},
    record::{line::cause, part::Part},
};

/// Of texts that are longer in all only hashes are told, in bytes: lines have to be read again.
const MAX_TEXT_BYTES: usize = 8 << 20;

/// What is kept of a decision to make its record of, apart from what the answer takes along.
pub(super) struct Decided {
    trigger: Arc<Trigger>,
    verdict: Verdict,
    reason: String,
    by: Option<DecidedBy>,
    results: Vec<Part>,
    rewrites: Vec<Rewrite>,
    degraded: bool,
    downgrades: Vec<Downgrade>,
    halt: bool,
    revision: Arc<str>,
    considered: usize,
    matched: usize,
    took: Duration,
}

#[derive(Serialize)]
struct ShownPart<'d> {
    rule: &'d str,
    tier: &'static str,
    handler: &'static str,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ms: Option<f64>,
    #[serde(skip_serializing_if = "is_false")]
    recheck: bool,
    #[serde(skip_serializing_if = "is_false")]
    shadow: bool,
    #[serde(skip_serializing_if = "is_false")]
    forgiven: bool,
}

#[derive(Serialize)]
struct ShownBy<'d> {
    cause: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    rule: &'d str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tier: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
}

#[derive(Serialize)]
struct ShownDowngrade {
    missing: &'static str,
    from: &'static str,
    to: &'static str,
}

impl Decided {
    /// `with_reason`: the redaction needs it.
    pub(super) fn new(trigger: Arc<Trigger>, decision: &Decision, took: Duration, with_reason: bool) -> Self {
        Self {
            trigger,
            verdict: decision.verdict,
            reason: if with_reason { decision.reason.clone() } else { String::new() },
            by: decision.decided_by.clone(),
            results: decision.results.iter().map(Part::of).collect(),
            rewrites: decision.rewrites.clone(),
            degraded: decision.degraded,
            downgrades: decision.downgrades.clone(),
            halt: decision.halt.is_some(),
            revision: Arc::clone(&decision.revision),
            considered: decision.considered,
            matched: decision.matched,
            took,
        }
    }

    /// What it keeps of the memory at least, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let form = &self.trigger.form;
        let texts = [&*form.params, form.result.as_deref().unwrap_or_default(), &self.trigger.payload, &self.reason];
        let patches = self.rewrites.iter().map(|rewrite| rewrite.patch.len());
        let parts = self.results.len().saturating_mul(size_of::<Part>());
        texts.into_iter().map(str::len).chain(patches).fold(parts, usize::saturating_add)
    }

    /// Adds the fields of the record.
    pub(super) fn write(&self, redaction: &Redaction, out: &mut Vec<u8>) {
        let trigger = &*self.trigger;
        let mut put = |name, value: &str| {
            if !value.is_empty() {
                text(out, name, value);
            }
        };
        put("decision_id", &trigger.decision_id);
        put("revision", &self.revision);
        put("request_id", &trigger.request_id);
        put("trace_id", trigger.traceparent.split('-').nth(1).unwrap_or_default());
        put("event", &trigger.event_name);
        put("tool", trigger.tool_call.as_ref().map_or("", |call| &call.tool));
        put("session", &trigger.session_id);
        caller(out, &trigger.identity);
        if let Some(claimed) = &trigger.caller {
            json(out, "claimed", claimed);
        }
        text(out, "verdict", self.verdict.name());
        if let Some(by) = &self.by {
            let tier = by.tier.map(|tier| tier.name());
            let file = by.file.as_ref().map(|file| file.display().to_string());
            json(out, "decided_by", &ShownBy { cause: cause(by.cause), rule: &by.rule_id, tier, file });
        }
        json(out, "considered", &self.considered);
        json(out, "matched", &self.matched);
        json(out, "results", &self.results.iter().map(ShownPart::of).collect::<Vec<_>>());
        json(out, "degraded", &self.degraded);
        if !self.downgrades.is_empty() {
            json(out, "downgrades", &self.downgrades.iter().map(shown).collect::<Vec<_>>());
        }
        if self.halt {
            json(out, "halt", &true);
        }
        json(out, "ms", &millis(self.took));
        self.texts(redaction, out);
    }

    /// What only the redaction may let through.
    fn texts(&self, redaction: &Redaction, out: &mut Vec<u8>) {
        let too_long = Redaction::hashes();
        let is_too_long = redaction.tells_whole_texts() && self.bytes() > MAX_TEXT_BYTES;
        let mut redactor = Redactor::new(if is_too_long { &too_long } else { redaction });
        let form = &self.trigger.form;
        if self.trigger.tool_call.is_some() {
            redactor.json(out, "params", &form.params);
        }
        if let Some(result) = &form.result {
            redactor.json(out, "result", result);
        }
        if !self.trigger.payload.is_empty() {
            redactor.json(out, "payload", &self.trigger.payload);
        }
        if !self.rewrites.is_empty() {
            out.extend_from_slice(br#","rewrites":["#);
            for (at, Rewrite { rule, target, patch, recheck }) in self.rewrites.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                let target = match target {
                    RewriteTarget::Params => "params",
                    RewriteTarget::Result => "result",
                };
                out.extend_from_slice(br#"{"target":""#);
                out.extend_from_slice(target.as_bytes());
                out.push(b'"');
                text(out, "rule", &rule.id);
                text(out, "tier", rule.tier.name());
                if *recheck {
                    json(out, "recheck", &true);
                }
                redactor.patch(out, target, patch);
                out.push(b'}');
            }
            out.push(b']');
        }
        if !self.reason.is_empty() {
            // Last: by now it is known which values are not to be told in it.
            redactor.text(out, "reason", &self.reason);
        }
    }
}

impl<'d> ShownPart<'d> {
    fn of(part: &'d Part) -> Self {
        Self {
            rule: &part.rule.id,
            tier: part.rule.tier.name(),
            handler: part.rule.handler.kind(),
            outcome: part.outcome.name(),
            failure: part.failure.map(Failure::name),
            ms: part.elapsed.map(millis),
            recheck: part.recheck,
            shadow: part.shadow,
            forgiven: part.forgiven,
        }
    }
}

fn shown(downgrade: &Downgrade) -> ShownDowngrade {
    let missing = match downgrade.missing {
        Capability::Ask => "ask",
        Capability::Defer => "defer",
        Capability::Block => "block",
        Capability::ModifyParams => "modify_params",
        Capability::ModifyResult => "modify_result",
        Capability::AdditionalContext => "additional_context",
        Capability::Halt => "halt",
        Capability::ForceContinue => "force_continue",
    };
    ShownDowngrade { missing, from: downgrade.from.name(), to: downgrade.to.name() }
}

fn json(out: &mut Vec<u8>, name: &str, value: &impl Serialize) {
    // Writing to memory does not fail.
    let _ = write!(out, r#","{name}":"#);
    let _ = serde_json::to_writer(out, value);
}

fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(flag: &bool) -> bool {
    !flag
}
