//! Evaluation by cel's interpreter: for every expression that is not lowered.
//!
//! The syntax tree is changed before it runs: hookd's functions are called by names that no text can spell, literal
//! patterns become constants that are compiled once, and what could cost without bound asks a [`Meter`]. The meter
//! keeps every evaluation within [`functions::MAX_ELEMENTS`] elements walked by all macros together, [`functions::MAX_MADE`] bytes built, and
//! [`functions::MAX_TIME`], looked at for each element. Without macros the size of the expression bounds its work.

mod functions;
mod rewrite;
mod values;

use std::sync::{Arc, LazyLock};

use cel::{Context, Env, ExecutionError, IdedExpr, Value as CelValue, common::types::CelBool, common::value::CowVal};
use hookd_json::Value;

use self::{
    functions::{Constant, Meter},
    values::{from_json, to_json},
};
use crate::{EvaluationError, Facts, facts, variable::Variable};

static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut environment = Env::default().with_optional_support(false).with_stdlib();
    functions::declare(&mut environment);
    Arc::new(environment)
});

/// An expression that cel evaluates.
#[derive(Debug)]
pub(crate) struct Interpreted {
    tree: IdedExpr,
    constants: Vec<Constant>,
}

impl Interpreted {
    /// # Errors
    /// A literal pattern, glob or range is bad: the checker has refused those already.
    pub(crate) fn new(tree: IdedExpr) -> Result<Self, String> {
        let (tree, constants) = rewrite::rewrite(tree)?;
        Ok(Self { tree, constants })
    }

    pub(crate) fn boolean(&self, facts: &Facts<'_>) -> Result<bool, EvaluationError> {
        self.evaluate(facts, |value| {
            value.downcast_ref::<CelBool>().map(|value| *value.inner()).ok_or_else(|| {
                EvaluationError::new(format!("a condition must be a boolean, this is {}", value.get_type().name()))
            })
        })
    }

    pub(crate) fn value(&self, facts: &Facts<'_>) -> Result<Value, EvaluationError> {
        self.evaluate(facts, |value| to_json(&**value).map_err(EvaluationError::new))
    }

    fn evaluate<T>(
        &self,
        facts: &Facts<'_>,
        take: impl FnOnce(&CowVal<'_, '_>) -> Result<T, EvaluationError>,
    ) -> Result<T, EvaluationError> {
        let scope = Scope { facts, constants: &self.constants, meter: Meter::new(facts) };
        let mut context = Context::with_env(Arc::clone(&ENVIRONMENT));
        context.set_variable_resolver(&scope);
        let value = CelValue::resolve_val(&self.tree, &context);
        value.map_err(|error| EvaluationError::new(in_words(&error))).and_then(|value| take(&value))
    }
}

/// What the names in an expression stand for.
struct Scope<'s, 'c> {
    facts: &'s Facts<'c>,
    constants: &'s [Constant],
    meter: Meter,
}

impl cel::context::VariableResolver for Scope<'_, '_> {
    fn resolve<'b>(&'b self, name: &str) -> Option<CowVal<'b, 'b>> {
        if let Some(hidden) = name.strip_prefix('@') {
            return match hidden.parse::<usize>() {
                Ok(constant) => self.constants.get(constant).map(|constant| CowVal::Borrowed(constant as _)),
                Err(_) => (hidden == "meter").then_some(CowVal::Borrowed(&self.meter)),
            };
        }
        // cel asks for `params.a.b` before it asks for `params`, so that only what is looked up is converted.
        let mut path = name.split('.');
        let root = Variable::named(path.next()?)?;
        match facts::value(self.facts, root) {
            facts::Seen::Text(text) => path.next().is_none().then(|| values::text(text)),
            facts::Seen::Int(int) => path.next().is_none().then(|| values::int(int)),
            facts::Seen::Json(Ok(value)) => {
                let found = path.try_fold(value, |value, key| value.get(key))?;
                Some(CowVal::Owned(from_json(found)))
            }
            facts::Seen::Json(Err(error)) => Some(values::broken(error)),
        }
    }
}

/// What went wrong, without the values of the call.
fn in_words(error: &ExecutionError) -> String {
    match error {
        ExecutionError::FunctionError { message, .. } => message.clone(),
        ExecutionError::NoSuchKey(key) => format!("no such key: `{key}`"),
        ExecutionError::IndexOutOfBounds(_) => "the index is out of bounds".to_owned(),
        ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => "division by zero".to_owned(),
        ExecutionError::Overflow(operator, ..) => format!("`{operator}` overflows"),
        ExecutionError::ValuesNotComparable(left, right) => {
            format!("cannot compare {} and {}", left.type_of(), right.type_of())
        }
        ExecutionError::UnsupportedBinaryOperator(operator, left, right) => {
            format!("`{operator}` does not take {} and {}", left.type_of(), right.type_of())
        }
        ExecutionError::UnexpectedType { got, want } => format!("expected {want}, found {got}"),
        ExecutionError::DuplicateKey(_) => "a key of a map is given twice".to_owned(),
        error => {
            let mut words = error.to_string();
            if let Some(first) = words.get_mut(..1) {
                first.make_ascii_lowercase();
            }
            words
        }
    }
}
