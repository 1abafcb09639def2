//! [`Decision`] → message, kept under the message limit.

use std::path::Path;

use hookd_proto::v1;
use prost::Message as _;

use crate::model::{
    Capability, Cause, Decision, Failure, Note, Outcome, Rewrite, RewriteTarget, RuleResult, Tier, Trigger, Verdict,
};

/// From how many bytes on an answer is large.
pub const LARGE_BYTES: usize = 16 << 10;

/// The answer of at most `limit` bytes. One that would be larger loses outputs and patches first, lowest tier first,
/// then outputs of the event, notes and results, never verdict, reason or final rewrite: those have to fit,
/// which `combine` has seen to.
#[must_use]
pub fn reply(trigger: &Trigger, decision: Decision, limit: usize) -> v1::TriggerResponse {
    let mut message = convert(trigger, decision);
    if message.encoded_len() <= limit {
        return message;
    }
    message.results_truncated = true;
    for tier in Tier::ALL.into_iter().rev().map(self::tier) {
        shorten(&mut message, tier);
        if message.encoded_len() <= limit {
            return message;
        }
    }
    message.event_output_json = None;
    message.additional_context.clear();
    message.system_messages.clear();
    message.results.clear();
    message.rewrites.clear();
    message
}

/// Whether the texts in an answer that can be long are, taken together. So much for each call that is not read is borne.
#[must_use]
pub fn is_large(message: &v1::TriggerResponse) -> bool {
    let long = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let notes = message.additional_context.iter().chain(&message.system_messages).map(|note| note.text.len());
    let results = message.results.iter().map(|result| {
        let optional = [&result.output, &result.error, &result.modified_params_json, &result.modified_result_json];
        let optional = optional.into_iter().map(long).fold(0, usize::saturating_add);
        optional.saturating_add(result.reason.len()).saturating_add(result.block_reason.len())
    });
    let rewrites = message.rewrites.iter().map(|rewrite| rewrite.patch_json.len());
    let own = [&message.modified_params_json, &message.modified_result_json, &message.event_output_json];
    let own = own.into_iter().map(long).chain([message.reason.len(), message.halt_reason.len()]);
    own.chain(notes).chain(results).chain(rewrites).fold(0, usize::saturating_add) > LARGE_BYTES
}

/// Takes outputs and patches of one tier out of the answer.
fn shorten(message: &mut v1::TriggerResponse, tier: v1::Tier) {
    for result in message.results.iter_mut().filter(|result| result.tier() == tier) {
        result.output = None;
        result.error = None;
        result.modified_params_json = None;
        result.modified_result_json = None;
    }
    for rewrite in message.rewrites.iter_mut().filter(|rewrite| rewrite.tier() == tier) {
        rewrite.patch_json.clear();
    }
}

fn convert(trigger: &Trigger, decision: Decision) -> v1::TriggerResponse {
    let (halt, halt_reason) = match decision.halt {
        Some(reason) => (true, reason),
        None => (false, String::new()),
    };
    v1::TriggerResponse {
        verdict: verdict(decision.verdict).into(),
        reason: decision.reason,
        modified_params_json: decision.modified_params.as_deref().map(str::to_owned),
        modified_result_json: decision.modified_result.as_deref().map(str::to_owned),
        additional_context: decision.additional_context.into_iter().map(note).collect(),
        system_messages: decision.system_messages.into_iter().map(note).collect(),
        halt,
        halt_reason,
        results: decision.results.into_iter().map(result).collect(),
        rewrites: decision.rewrites.into_iter().map(rewrite).collect(),
        decided_by: decision.decided_by.map(|by| v1::DecidedBy {
            cause: cause(by.cause).into(),
            rule_id: String::from(&*by.rule_id),
            tier: by.tier.map_or(v1::Tier::Unspecified, tier).into(),
            source: by.file.map(|file| source(&file)).unwrap_or_default(),
        }),
        degraded: decision.degraded,
        policy_revision: String::from(&*decision.revision),
        decision_id: trigger.decision_id.clone(),
        rules_considered: count(decision.considered),
        rules_matched: count(decision.matched),
        event_output_json: (!decision.event_output.is_empty())
            .then(|| hookd_json::to_text(&hookd_json::Value::Object(decision.event_output))),
        downgrades: decision
            .downgrades
            .into_iter()
            .map(|downgrade| v1::Downgrade {
                missing: capability(downgrade.missing).into(),
                from: verdict(downgrade.from).into(),
                to: verdict(downgrade.to).into(),
            })
            .collect(),
        results_truncated: false,
        offered_revision: String::new(),
    }
}

fn result(result: RuleResult) -> v1::HookResult {
    let shadow = result.is_shadow();
    let launch_suspect = result.ran.launch_suspect();
    let (answer, failed) = match result.ran.said {
        Ok(answer) => (Some(answer), None),
        Err(failed) => (None, Some(failed)),
    };
    let text = |value: Option<&hookd_json::Value>| value.map(hookd_json::to_text);
    let given = answer.as_ref().map(|answer| answer.reason.clone()).unwrap_or_default();
    let reason = match (given.is_empty(), result.ran.dropped.is_empty()) {
        (_, true) => given,
        (true, false) => result.ran.dropped,
        (false, false) => format!("{given} ({})", result.ran.dropped),
    };
    v1::HookResult {
        ok: failed.is_none(),
        output: result.ran.output,
        error: failed.as_ref().map(|failed| failed.message.clone()),
        modified_params_json: text(answer.as_ref().and_then(|answer| answer.modified_params.as_ref())),
        blocked: result.blocked.is_some(),
        block_reason: result.blocked.unwrap_or_default(),
        rule_id: String::from(&*result.rule.id),
        tier: tier(result.rule.tier).into(),
        source: source(&result.rule.file),
        outcome: outcome(result.outcome).into(),
        failure: failed.map_or(v1::Failure::Unspecified, |failed| failure(failed.kind)).into(),
        elapsed: result.ran.elapsed.and_then(|elapsed| elapsed.try_into().ok()),
        exit_code: result.ran.exit_code,
        truncated: result.ran.truncated,
        shadow,
        recheck: result.recheck,
        signal: result.ran.signal,
        launch_suspect,
        retried: result.ran.retried,
        modified_result_json: text(answer.as_ref().and_then(|answer| answer.modified_result.as_ref())),
        reason,
    }
}

/// The path of a rule file. Most are plain text, which is told faster than it is repaired.
fn source(file: &Path) -> String {
    file.to_str().map_or_else(|| file.to_string_lossy().into_owned(), str::to_owned)
}

fn note(note: Note) -> v1::Note {
    v1::Note { text: note.text, rule_id: String::from(&*note.rule.id), tier: tier(note.rule.tier).into() }
}

fn rewrite(rewrite: Rewrite) -> v1::Rewrite {
    let target = match rewrite.target {
        RewriteTarget::Params => v1::RewriteTarget::Params,
        RewriteTarget::Result => v1::RewriteTarget::Result,
    };
    v1::Rewrite {
        rule_id: String::from(&*rewrite.rule.id),
        tier: tier(rewrite.rule.tier).into(),
        target: target.into(),
        patch_json: rewrite.patch,
        recheck: rewrite.recheck,
    }
}

fn verdict(verdict: Verdict) -> v1::Verdict {
    match verdict {
        Verdict::None => v1::Verdict::None,
        Verdict::Allow => v1::Verdict::Allow,
        Verdict::Ask => v1::Verdict::Ask,
        Verdict::Defer => v1::Verdict::Defer,
        Verdict::Block => v1::Verdict::Block,
    }
}

/// The tier on the wire.
pub(super) fn tier(tier: Tier) -> v1::Tier {
    match tier {
        Tier::Plugin => v1::Tier::Plugin,
        Tier::Shared => v1::Tier::Shared,
        Tier::Local => v1::Tier::Local,
        Tier::Team => v1::Tier::Team,
        Tier::Managed => v1::Tier::Managed,
    }
}

fn outcome(outcome: Outcome) -> v1::Outcome {
    match outcome {
        Outcome::Gave(Verdict::None) => v1::Outcome::None,
        Outcome::Gave(Verdict::Allow) => v1::Outcome::Allow,
        Outcome::Gave(Verdict::Ask) => v1::Outcome::Ask,
        Outcome::Gave(Verdict::Defer) => v1::Outcome::Defer,
        Outcome::Gave(Verdict::Block) => v1::Outcome::Block,
        Outcome::Failed => v1::Outcome::Failed,
        Outcome::Queued => v1::Outcome::Queued,
    }
}

fn failure(failure: Failure) -> v1::Failure {
    match failure {
        Failure::DidNotStart => v1::Failure::DidNotStart,
        Failure::TimedOut => v1::Failure::TimedOut,
        Failure::Killed => v1::Failure::Killed,
        Failure::Exited => v1::Failure::Exited,
        Failure::BadOutput => v1::Failure::BadOutput,
        Failure::TooLarge => v1::Failure::TooLarge,
        Failure::Connection => v1::Failure::Connection,
        Failure::HttpStatus => v1::Failure::HttpStatus,
        Failure::Expression => v1::Failure::Expression,
        Failure::Overloaded => v1::Failure::Overloaded,
        Failure::Cancelled => v1::Failure::Cancelled,
        Failure::NotPermitted => v1::Failure::NotPermitted,
        Failure::Unsupported => v1::Failure::Unsupported,
        Failure::CallerGone => v1::Failure::CallerGone,
        Failure::Internal => v1::Failure::Internal,
    }
}

fn cause(cause: Cause) -> v1::Cause {
    match cause {
        Cause::Rule => v1::Cause::Rule,
        Cause::FailurePolicy => v1::Cause::FailurePolicy,
        Cause::Default => v1::Cause::Default,
        Cause::Capability => v1::Cause::Capability,
    }
}

fn capability(capability: Capability) -> v1::Capability {
    match capability {
        Capability::Ask => v1::Capability::Ask,
        Capability::Defer => v1::Capability::Defer,
        Capability::Block => v1::Capability::Block,
        Capability::ModifyParams => v1::Capability::ModifyParams,
        Capability::ModifyResult => v1::Capability::ModifyResult,
        Capability::AdditionalContext => v1::Capability::AdditionalContext,
        Capability::Halt => v1::Capability::Halt,
        Capability::ForceContinue => v1::Capability::ForceContinue,
    }
}

fn count(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
