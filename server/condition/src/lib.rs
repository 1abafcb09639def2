//! Conditions and value expressions of rules, written in CEL (design §4).
mod error;
mod references;
mod facts;
mod condition;
mod parse;
mod check;
mod native;
mod group;
mod interpret;
mod functions;
mod pattern;
mod number;

pub use self::{
    condition::{Condition, Expression},
    error::{ConditionError, EvaluationError},
    facts::{Call, Claimed, Facts},
    references::{References, Variable},
};
