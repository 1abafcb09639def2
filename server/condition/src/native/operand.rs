//! What tests are about: parts of the call and literals.

use hookd_json::{Json, Members};

use crate::{
    EvaluationError, Facts,
    facts::{self, Seen},
    number::{Numeric, numeric, unfit},
    variable::Variable,
};

/// A part that is a value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Operand {
    Literal(Literal),
    Variable(Variable),
    /// A look-up in `params`, `result`, `payload` or `caller`.
    Path(Variable, Box<[Step]>),
    /// `caller.claimed.KEY`
    Claimed(Box<str>),
    /// `caller.labels.KEY`
    Label(Box<str>),
    Size(Box<Operand>),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Key(Box<str>),
    Index(usize),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    /// By its bits.
    Double(u64),
    Text(Box<str>),
}

/// A value of the call.
#[derive(Debug, Clone, Copy)]
pub(super) enum Item<'v> {
    Null,
    Bool(bool),
    Number(Numeric),
    /// A number that fits no CEL type.
    Big(&'v str),
    Text(&'v str),
    List(&'v [Json<'v>]),
    Map(&'v Members<'v>),
}

/// Why a part has no value. Words are made only for the one that is told.
#[derive(Debug)]
pub(crate) enum Fault<'v> {
    NoSuchKey(&'v str),
    OutOfBounds,
    Takes(&'static str, &'static str, &'static str),
    Unfit(&'v str),
    Broken(&'v EvaluationError),
    Said(EvaluationError),
}

impl From<Fault<'_>> for EvaluationError {
    fn from(fault: Fault<'_>) -> Self {
        Self::new(match fault {
            Fault::NoSuchKey(key) => format!("no such key: `{key}`"),
            Fault::OutOfBounds => "the index is out of bounds".to_owned(),
            Fault::Takes(what, wanted, found) => format!("{what} takes {wanted}, this is {found}"),
            Fault::Unfit(number) => unfit(number),
            Fault::Broken(error) => return error.clone(),
            Fault::Said(error) => return error,
        })
    }
}

pub(super) fn said<'v>(message: impl AsRef<str>) -> Fault<'v> {
    Fault::Said(EvaluationError::new(message))
}

impl Item<'_> {
    pub(super) fn noun(self) -> &'static str {
        match self {
            Item::Null => "null",
            Item::Bool(_) => "a boolean",
            Item::Number(_) | Item::Big(_) => "a number",
            Item::Text(_) => "a string",
            Item::List(_) => "a list",
            Item::Map(_) => "a map",
        }
    }
}

impl<'v> From<&'v Json<'v>> for Item<'v> {
    fn from(value: &'v Json<'v>) -> Self {
        match value {
            Json::Null => Item::Null,
            Json::Bool(value) => Item::Bool(*value),
            Json::Number(digits) => numeric(digits).map_or(Item::Big(digits), Item::Number),
            Json::Text(text) => Item::Text(text),
            Json::List(items) => Item::List(items),
            Json::Object(members) => Item::Map(members),
        }
    }
}

impl<'v> From<&'v Literal> for Item<'v> {
    fn from(literal: &'v Literal) -> Self {
        match literal {
            Literal::Null => Item::Null,
            Literal::Bool(value) => Item::Bool(*value),
            Literal::Int(int) => Item::Number(Numeric::Int(*int)),
            Literal::Uint(uint) => Item::Number(Numeric::Uint(*uint)),
            Literal::Double(bits) => Item::Number(Numeric::Double(f64::from_bits(*bits))),
            Literal::Text(text) => Item::Text(text),
        }
    }
}

impl Operand {
    /// The value, usable or not.
    pub(super) fn find<'v>(&'v self, facts: &'v Facts<'_>) -> Result<Item<'v>, Fault<'v>> {
        match self {
            Self::Literal(literal) => Ok(literal.into()),
            Self::Variable(variable) => match facts::value(facts, *variable) {
                Seen::Text(text) => Ok(text.map_or(Item::Null, Item::Text)),
                Seen::Int(int) => Ok(Item::Number(Numeric::Int(int))),
                Seen::Json(value) => value.map(Item::from).map_err(Fault::Broken),
            },
            Self::Path(..) => self.json(facts).map(Item::from),
            Self::Claimed(key) => facts.call().claimed.get(key).map(Item::Text).ok_or(Fault::NoSuchKey(key)),
            Self::Label(key) => {
                let label = facts.call().labels.iter().rfind(|(known, _)| **known == **key);
                label.map(|(_, value)| Item::Text(value)).ok_or(Fault::NoSuchKey(key))
            }
            Self::Size(operand) => {
                let size = match operand.item(facts)? {
                    Item::Text(text) => text.chars().count(),
                    Item::List(items) => items.len(),
                    Item::Map(map) => map.len(),
                    item => return Err(Fault::Takes("`size`", "a string, list or map", item.noun())),
                };
                Ok(Item::Number(Numeric::Int(i64::try_from(size).unwrap_or(i64::MAX))))
            }
        }
    }

    /// The value, which must be usable.
    pub(super) fn item<'v>(&'v self, facts: &'v Facts<'_>) -> Result<Item<'v>, Fault<'v>> {
        match self.find(facts)? {
            Item::Big(number) => Err(Fault::Unfit(number)),
            item => Ok(item),
        }
    }

    /// The JSON value of a variable or a look-up in one.
    pub(super) fn json<'v>(&'v self, facts: &'v Facts<'_>) -> Result<&'v Json<'v>, Fault<'v>> {
        let (root, steps): (_, &[Step]) = match self {
            Self::Variable(root) => (*root, &[]),
            Self::Path(root, steps) => (*root, steps),
            _ => return Err(said("this is no part of the call")),
        };
        let Seen::Json(value) = facts::value(facts, root) else {
            return Err(said("this is no JSON value"));
        };
        let mut value = value.map_err(Fault::Broken)?;
        for step in steps {
            value = match (step, value) {
                (Step::Key(key), Json::Object(members)) => members.get(key).ok_or(Fault::NoSuchKey(key))?,
                (Step::Index(index), Json::List(items)) => items.get(*index).ok_or(Fault::OutOfBounds)?,
                (Step::Key(_), other) => return Err(Fault::Takes("a look-up", "a map", Item::from(other).noun())),
                (Step::Index(_), other) => return Err(Fault::Takes("an index", "a list", Item::from(other).noun())),
            };
        }
        Ok(value)
    }

    pub(super) fn text<'v>(&'v self, facts: &'v Facts<'_>, function: &'static str) -> Result<&'v str, Fault<'v>> {
        match self.item(facts)? {
            Item::Text(text) => Ok(text),
            item => Err(Fault::Takes(function, "a string", item.noun())),
        }
    }
}

pub(super) fn both<'v>(pair: &'v [Operand; 2], facts: &'v Facts<'_>) -> Result<[Item<'v>; 2], Fault<'v>> {
    let [left, right] = pair;
    Ok([left.item(facts)?, right.item(facts)?])
}
