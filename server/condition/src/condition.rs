use std::sync::Arc;

use hookd_json::Value;

use crate::{
    ConditionError, EvaluationError, Facts,
    check::Wanted,
    group,
    native::{Given, Test, lower, lower_value},
    parse::parse,
};

/// A checked condition: `when` of a rule. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Condition(Arc<Inner>);

/// A checked expression that gives a JSON value: `{"expr": "…"}` in a rewrite. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Expression(Arc<Given>);

#[derive(Debug)]
struct Inner {
    text: Box<str>,
    program: Test,
}

impl Condition {
    /// Parses and checks `text`.
    ///
    /// # Errors
    /// The first thing that is wrong with it, and where: syntax, an unknown variable or function, a type that can
    /// never be right, a pattern that does not compile, or one of the limits of this crate.
    pub fn compile(text: &str) -> Result<Self, ConditionError> {
        let tree = parse(text, Wanted::Boolean)?;
        let program = lower(tree).map_err(|message| ConditionError::at(text, 0, message))?;
        Ok(Self(Arc::new(Inner { text: text.into(), program })))
    }

    /// The text that it was made from.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// Whether it is evaluated without the interpreter, and so within microseconds on a call of the usual size.
    #[must_use]
    pub fn is_native(&self) -> bool {
        self.0.program.is_native()
    }

    /// Lets `conditions` share one pass for all literal patterns that they test on the same field of the same
    /// [`Facts`]. They say the same as before. For conditions that are mostly asked together, such as those of one
    /// event; a condition that was cloned already is left as it is.
    pub fn share_patterns<'c>(conditions: impl IntoIterator<Item = &'c mut Self>) {
        let tests = conditions.into_iter().filter_map(|condition| Arc::get_mut(&mut condition.0));
        group::group(&mut tests.map(|inner| &mut inner.program).collect::<Vec<_>>());
    }

    /// Whether it holds for a call.
    ///
    /// # Errors
    /// It has no value for this call: a failure of the rule, never `false`.
    pub fn evaluate(&self, facts: &mut Facts<'_>) -> Result<bool, EvaluationError> {
        self.0.program.holds(facts).map_err(EvaluationError::from)
    }
}

impl Expression {
    /// Parses and checks `text`.
    ///
    /// # Errors
    /// As [`Condition::compile`], but the value may be of any type.
    pub fn compile(text: &str) -> Result<Self, ConditionError> {
        let tree = parse(text, Wanted::Value)?;
        let program = lower_value(tree).map_err(|message| ConditionError::at(text, 0, message))?;
        Ok(Self(Arc::new(program)))
    }

    /// Its value for a call.
    ///
    /// # Errors
    /// It has no value for this call, or one that JSON cannot hold (bytes, types, maps with keys that are no
    /// strings): a failure of the rule.
    pub fn evaluate(&self, facts: &mut Facts<'_>) -> Result<Value, EvaluationError> {
        self.0.value(facts)
    }
}
