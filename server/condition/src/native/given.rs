//! Expressions that give a value.

use std::{borrow::Cow, sync::Arc};

use hookd_json::{Json, Number, Value};

use super::operand::{Fault, Item, Operand, said};
use crate::{
    EvaluationError, Facts, functions::redact, interpret::Interpreted, number::Numeric, pattern::Pattern,
    variable::Variable,
};

/// An expression that gives a value, where it is lowered.
#[derive(Debug)]
pub(crate) enum Given {
    /// A look-up. Its digits are kept.
    Operand(Operand),
    /// `redact(look-up, literal, literal)`
    Redact(Operand, Arc<Pattern>, Box<str>),
    Interpreted(Box<Interpreted>),
}

impl Given {
    /// The value.
    pub(crate) fn value(&self, facts: &Facts<'_>) -> Result<Value, EvaluationError> {
        match self {
            Self::Operand(operand) => Ok(match part(operand, facts)? {
                Some(part) => part.clone().into_value(),
                None => made(operand.item(facts)?)?,
            }),
            Self::Redact(operand, pattern, with) => {
                let value = match part(operand, facts)? {
                    Some(part) => Cow::Borrowed(part),
                    None => match operand.item(facts)? {
                        Item::Text(text) => Cow::Owned(Json::Text(Cow::Borrowed(text))),
                        item => return Ok(made(item)?),
                    },
                };
                let redacted = pattern.with_regex(|regex| redact(&value, regex, with))?;
                redacted.map_err(EvaluationError::new)
            }
            Self::Interpreted(interpreted) => interpreted.value(facts),
        }
    }
}

/// The value of `operand`, where it is a part of the call's JSON.
fn part<'v>(operand: &'v Operand, facts: &'v Facts<'_>) -> Result<Option<&'v Json<'v>>, Fault<'v>> {
    let (Operand::Path(..)
    | Operand::Variable(Variable::Params | Variable::Result | Variable::Payload | Variable::Caller)) = operand
    else {
        return Ok(None);
    };
    let value = operand.json(facts)?;
    match value.into() {
        Item::Big(digits) => Err(Fault::Unfit(digits)),
        _ => Ok(Some(value)),
    }
}

/// The value of something that is no part of the call's JSON.
fn made(item: Item<'_>) -> Result<Value, Fault<'_>> {
    Ok(match item {
        Item::Null => Value::Null,
        Item::Bool(value) => Value::Bool(value),
        Item::Number(Numeric::Int(int)) => Value::Number(int.into()),
        Item::Number(Numeric::Uint(uint)) => Value::Number(uint.into()),
        Item::Number(Numeric::Double(double)) => {
            Number::from_f64(double).map(Value::Number).ok_or_else(|| said(format!("JSON has no number {double}")))?
        }
        Item::Big(digits) => return Err(Fault::Unfit(digits)),
        Item::Text(text) => Value::String(text.to_owned()),
        Item::List(items) => Json::List(items.to_vec()).into_value(),
        Item::Map(members) => Json::Object(members.clone()).into_value(),
    })
}
