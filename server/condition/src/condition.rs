use std::sync::Arc;

use hookd_json::Value;

use crate::{ConditionError, EvaluationError, Facts, References, check::Wanted, interpret::Interpreted, parse::parse};

/// A checked condition: `when` of a rule. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Condition(Arc<Inner>);

/// A checked expression that gives a JSON value: `{"expr": "…"}` in a rewrite. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Expression(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    text: Box<str>,
    references: References,
    program: Interpreted,
}

impl Inner {
    fn compile(text: &str, wanted: Wanted) -> Result<Arc<Self>, ConditionError> {
        let (tree, summary) = parse(text, wanted)?;
        let program = Interpreted::new(tree).map_err(|message| ConditionError::at(text, 0, message))?;
        Ok(Arc::new(Self { text: text.into(), references: summary.references, program }))
    }
}

impl Condition {
    /// Parses and checks `text`.
    ///
    /// # Errors
    /// The first thing that is wrong with it, and where: syntax, an unknown variable or function, a type that can
    /// never be right, a pattern that does not compile, or one of the limits of this crate.
    pub fn compile(text: &str) -> Result<Self, ConditionError> {
        Inner::compile(text, Wanted::Boolean).map(Self)
    }

    /// The text that it was made from.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// The variables that it mentions.
    #[must_use]
    pub fn references(&self) -> References {
        self.0.references
    }

    /// Whether it holds for a call.
    ///
    /// # Errors
    /// It has no value for this call: a failure of the rule, never `false`.
    pub fn evaluate(&self, facts: &mut Facts<'_>) -> Result<bool, EvaluationError> {
        self.0.program.boolean(facts)
    }
}

impl Expression {
    /// Parses and checks `text`.
    ///
    /// # Errors
    /// As [`Condition::compile`], but the value may be of any type.
    pub fn compile(text: &str) -> Result<Self, ConditionError> {
        Inner::compile(text, Wanted::Value).map(Self)
    }

    /// The text that it was made from.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// The variables that it mentions.
    #[must_use]
    pub fn references(&self) -> References {
        self.0.references
    }

    /// Its value for a call.
    ///
    /// # Errors
    /// It has no value for this call, or one that JSON cannot hold (bytes, types, maps with keys that are no
    /// strings): a failure of the rule.
    pub fn evaluate(&self, facts: &mut Facts<'_>) -> Result<Value, EvaluationError> {
        self.0.program.value(facts)
    }
}
