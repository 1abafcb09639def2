use std::sync::Arc;

use hookd_rules::{Decide, RunOn, Template};

use super::output::{self, Expect};
use crate::{
    condition,
    model::{Answer, Failed, Failure, Form, Ran, Rule, Trigger, Verdict},
};

/// Size of a rewrite that a rule of the caller's own computes, in bytes: as much as a message may have unless it is set
/// otherwise.
const MAX_BROUGHT_REWRITE: usize = 4 << 20;

/// Answers a `decide` rule in process: no I/O, no budget.
#[must_use]
pub fn decide(rule: &Rule, trigger: &Trigger, form: &Form, decide: &Decide) -> Ran {
    Ran::said(fill(rule, trigger, form, decide).and_then(|answer| {
        let decides = answer.verdict != Verdict::None;
        output::check(&answer, decides, &Expect::of(rule, trigger)).map(|()| answer)
    }))
}

/// The answer with the values of its expressions.
fn fill(rule: &Rule, trigger: &Trigger, form: &Form, decide: &Decide) -> Result<Arc<Answer>, Failed> {
    if decide.params.is_none() && decide.result.is_none() {
        return Ok(Arc::clone(&decide.answer));
    }
    let mut facts = condition::facts(trigger, form);
    let mut value = |key: &str, template: &Template| {
        template
            .evaluate(&mut facts)
            .map_err(|error| Failed::new(Failure::Expression, format!("an expression of `{key}` failed: {error}")))
    };
    let mut answer = Answer::clone(&decide.answer);
    if let Some(template) = &decide.params {
        let params = value("modifiedParams", template)?;
        if !params.is_object() {
            let message = "`modifiedParams` must be an object, which its expression does not give".to_owned();
            return Err(Failed::new(Failure::BadOutput, message));
        }
        answer.modified_params = Some(params);
    }
    if let Some(template) = &decide.result {
        // As from a program: null is no rewrite.
        answer.modified_result = Some(value("modifiedResult", template)?).filter(|result| !result.is_null());
    }
    if rule.run_on == RunOn::Agent && is_too_large(&answer) {
        let message = format!("a rewrite that a caller's rule computes may have at most {MAX_BROUGHT_REWRITE} bytes");
        return Err(Failed::new(Failure::TooLarge, message));
    }
    Ok(Arc::new(answer))
}

/// Every form that a call has had is kept to its end.
fn is_too_large(answer: &Answer) -> bool {
    let rewrites = [&answer.modified_params, &answer.modified_result];
    rewrites.into_iter().flatten().any(|value| hookd_json::to_text(value).len() > MAX_BROUGHT_REWRITE)
}
