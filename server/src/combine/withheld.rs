//! What is said of the parts of a decision that the caller cannot carry out: they are not sent, and not silently lost.

use std::sync::Arc;

use crate::model::{Cause, DecidedBy, Rewrite, RuleResult};

/// How many bytes of a rewritten form a reason quotes.
const MAX_QUOTED: usize = 4096;

/// The reason of a block that takes the place of a rewrite: with the call, or the result, as it would have been, so
/// that a model can ask for that itself. `because` is the reason that the decision had before; it may be empty.
pub(super) fn rewrite_reason(params: Option<&str>, result: Option<&str>, because: &str) -> String {
    let mut reason = "the call was rewritten and this agent cannot carry a rewrite out".to_owned();
    for (what, text) in [("corrected parameters are", params), ("corrected result is", result)] {
        if let Some(text) = text {
            reason.push_str("; the ");
            reason.push_str(what);
            reason.push(' ');
            reason.push_str(&quoted(text));
        }
    }
    if !because.is_empty() {
        reason.push_str("; ");
        reason.push_str(because);
    }
    reason
}

/// The rule whose rewrite cannot be carried out: the last of them made the form what it is.
pub(super) fn rewriter(rewrites: &[Rewrite]) -> Option<DecidedBy> {
    let rule = &rewrites.last()?.rule;
    Some(DecidedBy {
        cause: Cause::Capability,
        rule_id: Arc::clone(&rule.id),
        tier: Some(rule.tier),
        file: Some(Arc::clone(&rule.file)),
    })
}

/// Names in each result that its context is held back.
pub(super) fn name_context(results: &mut [RuleResult]) {
    for result in results.iter_mut().filter(|result| result.rule.decides()) {
        let has_context = result.ran.said.as_ref().is_ok_and(|answer| answer.additional_context.is_some());
        if has_context {
            let dropped = &mut result.ran.dropped;
            if !dropped.is_empty() {
                dropped.push_str("; ");
            }
            dropped.push_str("context held back: this agent has no place for it here");
        }
    }
}

fn quoted(text: &str) -> String {
    if text.len() <= MAX_QUOTED {
        return text.to_owned();
    }
    let shown = text.get(..text.floor_char_boundary(MAX_QUOTED)).unwrap_or_default();
    format!("{shown}… ({} bytes in all)", text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_holds_the_corrected_call_up_to_a_bound() {
        assert_eq!(
            rewrite_reason(Some(r#"{"n":1}"#), None, ""),
            r#"the call was rewritten and this agent cannot carry a rewrite out; the corrected parameters are {"n":1}"#
        );
        assert_eq!(
            rewrite_reason(None, Some("\"x\""), "secrets"),
            r#"the call was rewritten and this agent cannot carry a rewrite out; the corrected result is "x"; secrets"#
        );
        let long = "é".repeat(MAX_QUOTED);
        let quoted = quoted(&long);
        assert!(quoted.len() < MAX_QUOTED + 32 && quoted.ends_with("… (8192 bytes in all)"), "{}", quoted.len());
    }
}
