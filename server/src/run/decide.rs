use std::sync::Arc;

use hookd_rules::{Decide, Template};

use super::output::{self, Expect};
use crate::{
    condition,
    model::{Answer, Failed, Failure, Form, Ran, Rule, Trigger, Verdict},
};

/// Answers a `decide` rule in process: no I/O, no budget.
#[must_use]
pub fn decide(rule: &Rule, trigger: &Trigger, form: &Form, decide: &Decide) -> Ran {
    Ran::said(fill(trigger, form, decide).and_then(|answer| {
        let decides = answer.verdict != Verdict::None;
        output::check(&answer, decides, &Expect::of(rule, trigger)).map(|()| answer)
    }))
}

/// The answer with the values of its expressions.
fn fill(trigger: &Trigger, form: &Form, decide: &Decide) -> Result<Arc<Answer>, Failed> {
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
    Ok(Arc::new(answer))
}
