//! Conditions in the common shapes, evaluated over the parsed call without cel and without allocating.
//!
//! It says exactly what cel's interpreter says, errors included: a property test holds the two equal. A part that has
//! no native form is a leaf that cel runs; the rest around it stays native.

mod compare;
mod lower;

use std::{borrow::Cow, sync::Arc};

use hookd_json::{Json, Members, Number, Value};

use self::compare::{equal, order};
pub(crate) use self::lower::{lower, lower_value};
use crate::{
    EvaluationError, Facts,
    facts::{self, Seen},
    functions::{Range, any_match, redact, under},
    group::Group,
    interpret::Interpreted,
    number::{Numeric, numeric, unfit},
    pattern::Pattern,
    variable::Variable,
};

/// A part that is true or false.
#[derive(Debug)]
pub(crate) enum Test {
    Literal(bool),
    Not(Box<Test>),
    /// `false` if any is, else an error if any is, else `true`.
    All(Box<[Test]>),
    /// `true` if any is, else an error if any is, else `false`.
    Any(Box<[Test]>),
    /// `condition ? yes : no`
    Choice(Box<[Test; 3]>),
    /// A value that must be a boolean.
    Is(Operand),
    Has(Operand, Box<str>),
    /// `has` of a key that the caller may have said.
    Present(Operand),
    Equal(Box<[Operand; 2]>),
    Order(Order, Box<[Operand; 2]>),
    Text(TextTest, Box<[Operand; 2]>),
    /// An element of a list or a key of a map.
    In(Box<[Operand; 2]>),
    InLiterals(Operand, Box<[Literal]>),
    Matches(Operand, Arc<Pattern>),
    /// As [`Test::Matches`], for the pattern at a place of the group.
    Grouped(Operand, Arc<Group>, u32),
    Glob(Operand, Arc<Pattern>),
    AnyMatch(Operand, Arc<Pattern>),
    Under(Box<[Operand; 2]>),
    Cidr(Operand, Box<Range>),
    Interpreted(Box<Interpreted>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextTest {
    Starts,
    Ends,
    Contains,
}

impl TextTest {
    fn name(self) -> &'static str {
        match self {
            Self::Starts => "startsWith",
            Self::Ends => "endsWith",
            Self::Contains => "contains",
        }
    }
}

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

/// An expression that gives a value, where it is lowered.
#[derive(Debug)]
pub(crate) enum Given {
    /// A look-up. Its digits are kept.
    Operand(Operand),
    /// `redact(look-up, literal, literal)`
    Redact(Operand, Arc<Pattern>, Box<str>),
    Interpreted(Box<Interpreted>),
}

/// A value of the call.
#[derive(Debug, Clone, Copy)]
enum Item<'v> {
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

fn said<'v>(message: impl AsRef<str>) -> Fault<'v> {
    Fault::Said(EvaluationError::new(message))
}

impl Item<'_> {
    fn noun(self) -> &'static str {
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
    fn find<'v>(&'v self, facts: &'v Facts<'_>) -> Result<Item<'v>, Fault<'v>> {
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
    fn item<'v>(&'v self, facts: &'v Facts<'_>) -> Result<Item<'v>, Fault<'v>> {
        match self.find(facts)? {
            Item::Big(number) => Err(Fault::Unfit(number)),
            item => Ok(item),
        }
    }

    /// The JSON value of a variable or a look-up in one.
    fn json<'v>(&'v self, facts: &'v Facts<'_>) -> Result<&'v Json<'v>, Fault<'v>> {
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

    fn text<'v>(&'v self, facts: &'v Facts<'_>, function: &'static str) -> Result<&'v str, Fault<'v>> {
        match self.item(facts)? {
            Item::Text(text) => Ok(text),
            item => Err(Fault::Takes(function, "a string", item.noun())),
        }
    }
}

fn both<'v>(pair: &'v [Operand; 2], facts: &'v Facts<'_>) -> Result<[Item<'v>; 2], Fault<'v>> {
    let [left, right] = pair;
    Ok([left.item(facts)?, right.item(facts)?])
}

impl Test {
    /// Whether it holds.
    pub(crate) fn holds<'v>(&'v self, facts: &'v Facts<'_>) -> Result<bool, Fault<'v>> {
        match self {
            Self::Literal(value) => Ok(*value),
            Self::Not(test) => test.holds(facts).map(|value| !value),
            Self::All(tests) => absorbing(false, tests, facts),
            Self::Any(tests) => absorbing(true, tests, facts),
            Self::Choice(choice) => {
                let [condition, yes, no] = &**choice;
                if condition.holds(facts)? { yes.holds(facts) } else { no.holds(facts) }
            }
            Self::Is(operand) => match operand.item(facts)? {
                Item::Bool(value) => Ok(value),
                item => Err(Fault::Takes("a condition", "a boolean", item.noun())),
            },
            Self::Has(parent, key) => match parent.find(facts)? {
                Item::Map(map) => Ok(map.get(key).is_some()),
                item => Err(Fault::Takes("`has`", "a map", item.noun())),
            },
            Self::Present(operand) => Ok(operand.find(facts).is_ok()),
            Self::Equal(pair) => both(pair, facts).map(|[left, right]| equal(left, right)),
            Self::Order(operator, pair) => {
                let [left, right] = both(pair, facts)?;
                let order =
                    order(left, right).ok_or(Fault::Takes("a comparison", "two values of one type", right.noun()))?;
                Ok(match operator {
                    Order::Less => order.is_lt(),
                    Order::LessEqual => order.is_le(),
                    Order::Greater => order.is_gt(),
                    Order::GreaterEqual => order.is_ge(),
                })
            }
            Self::Text(test, pair) => {
                let [text, part] = &**pair;
                let (text, part) = (text.text(facts, test.name())?, part.text(facts, test.name())?);
                Ok(match test {
                    TextTest::Starts => text.starts_with(part),
                    TextTest::Ends => text.ends_with(part),
                    TextTest::Contains => text.contains(part),
                })
            }
            Self::In(pair) => {
                let [element, container] = both(pair, facts)?;
                contains(container, element)
            }
            Self::InLiterals(element, literals) => {
                let element = element.item(facts)?;
                Ok(literals.iter().any(|literal| equal(literal.into(), element)))
            }
            Self::Matches(operand, pattern) => pattern.is_match(operand.text(facts, "matches")?).map_err(Fault::Said),
            Self::Grouped(operand, group, place) => {
                group.is_match(*place, operand.text(facts, "matches")?, facts).map_err(Fault::Said)
            }
            Self::Glob(operand, pattern) => pattern.is_match(operand.text(facts, "glob")?).map_err(Fault::Said),
            Self::AnyMatch(operand, pattern) => match operand {
                Operand::Variable(Variable::Params | Variable::Result | Variable::Payload) | Operand::Path(..) => {
                    let value = operand.json(facts)?;
                    if let Item::Big(number) = value.into() {
                        return Err(Fault::Unfit(number));
                    }
                    any_match(value, &mut |text| pattern.is_match(text)).map_err(Fault::Said)
                }
                _ => match operand.item(facts)? {
                    Item::Text(text) => pattern.is_match(text).map_err(Fault::Said),
                    _ => Ok(false),
                },
            },
            Self::Under(pair) => {
                let [path, directory] = &**pair;
                let (path, directory) = (path.text(facts, "under")?, directory.text(facts, "under")?);
                under(path, directory, facts.call().cwd).map_err(said)
            }
            Self::Cidr(operand, range) => range.contains(operand.text(facts, "cidr")?).map_err(said),
            Self::Interpreted(interpreted) => interpreted.boolean(facts).map_err(Fault::Said),
        }
    }
}

impl Test {
    /// Calls `visit` with each pattern test in it that has no group.
    pub(crate) fn each_match(&mut self, visit: &mut impl FnMut(&mut Self)) {
        match self {
            Self::Matches(..) => visit(self),
            Self::Not(test) => test.each_match(visit),
            Self::All(tests) | Self::Any(tests) => tests.iter_mut().for_each(|test| test.each_match(visit)),
            Self::Choice(tests) => tests.iter_mut().for_each(|test| test.each_match(visit)),
            _ => {}
        }
    }

    /// Whether no part of it is left to the interpreter.
    pub(crate) fn is_native(&self) -> bool {
        match self {
            Self::Interpreted(_) => false,
            Self::Not(test) => test.is_native(),
            Self::All(tests) | Self::Any(tests) => tests.iter().all(Self::is_native),
            Self::Choice(tests) => tests.iter().all(Self::is_native),
            _ => true,
        }
    }
}

/// CEL's `&&` and `||`: `decisive` from any side counts, whatever errors the others have.
fn absorbing<'v>(decisive: bool, tests: &'v [Test], facts: &'v Facts<'_>) -> Result<bool, Fault<'v>> {
    let mut failed = None;
    for test in tests {
        match test.holds(facts) {
            Ok(value) if value == decisive => return Ok(decisive),
            Ok(_) => {}
            Err(fault) => failed = failed.or(Some(fault)),
        }
    }
    failed.map_or(Ok(!decisive), Err)
}

fn contains<'v>(container: Item<'v>, element: Item<'v>) -> Result<bool, Fault<'v>> {
    match (container, element) {
        (Item::List(items), element) => Ok(items.iter().any(|item| equal(item.into(), element))),
        (Item::Map(map), Item::Text(key)) => Ok(map.get(key).is_some()),
        (Item::Map(_), Item::Bool(_) | Item::Number(_)) => Ok(false),
        (Item::Map(_), element) => Err(Fault::Takes("`in` a map", "a key", element.noun())),
        (container, _) => Err(Fault::Takes("`in`", "a list or a map", container.noun())),
    }
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

#[cfg(test)]
mod tests;
