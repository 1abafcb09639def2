use crate::model::{Block, Cause, DecidedBy, Decision, Trigger, Verdict};

/// Makes of a decision whose record could not be written in time what may be answered all the same, where the settings
/// let nothing through without one (`audit.on_full: block`): on events where BLOCK keeps something from being done, only a
/// BLOCK may. What has happened already, and the agent's end, do not wait for a record. Whether anything was changed.
pub fn unrecorded(trigger: &Trigger, decision: &mut Decision) -> bool {
    if trigger.event.block != Block::Prevents || decision.verdict == Verdict::Block {
        return false;
    }
    decision.verdict = Verdict::Block;
    decision.reason = "the audit record of this decision could not be written in time".to_owned();
    decision.decided_by = Some(DecidedBy { cause: Cause::FailurePolicy, rule_id: "".into(), tier: None, file: None });
    decision.modified_params = None;
    true
}
