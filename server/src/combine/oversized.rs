use std::sync::Arc;

use crate::model::{Cause, DecidedBy, Decision, Trigger, Verdict};

/// What an answer holds in any case besides texts of rules and callers, in bytes at most.
const ROOM: usize = 1024;

/// Makes of a decision whose verdict, reason and rewrites do not fit into an answer of `limit` bytes one that does: a
/// BLOCK, and on Stop-like events the agent may stop (law 11). Results, patches and notes do not count: an
/// answer can lose them. Whether anything was changed.
pub fn oversized(trigger: &Trigger, decision: &mut Decision, limit: usize) -> bool {
    let (rule_id, file) = match &decision.decided_by {
        Some(by) => (by.rule_id.len(), by.file.as_ref().map_or(0, |file| file.as_os_str().len())),
        None => (0, 0),
    };
    let rewrites = [&decision.modified_params, &decision.modified_result].into_iter().flatten().map(|text| text.len());
    let texts = [ROOM, decision.reason.len(), decision.halt.as_ref().map_or(0, String::len), rule_id, file];
    if texts.into_iter().chain(rewrites).fold(0, usize::saturating_add) <= limit {
        return false;
    }
    let nobody = || DecidedBy { cause: Cause::FailurePolicy, rule_id: "".into(), tier: None, file: None };
    decision.decided_by.get_or_insert_with(nobody);
    decision.verdict = if trigger.event.is_stop_like() { Verdict::None } else { Verdict::Block };
    decision.reason = format!("the answer is over the limit of {limit} bytes");
    decision.modified_params = None;
    // What was to be hidden stays hidden.
    if let Some(result) = &mut decision.modified_result {
        *result = Arc::from("\"[result withheld: over the limit]\"");
    }
    if let Some(reason) = &mut decision.halt {
        reason.clear();
    }
    true
}
