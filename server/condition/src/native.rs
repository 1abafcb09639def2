//! Conditions in the common shapes, evaluated over the parsed call without cel and without allocating.
//!
//! It says exactly what cel's interpreter says, errors included: a property test holds the two equal. A part that has
//! no native form is a leaf that cel runs; the rest around it stays native.

mod compare;
mod given;
mod lower;
mod operand;

use std::sync::Arc;

use self::{
    compare::{equal, order},
    operand::{Fault, Item, Literal, Step, both, said},
};
pub(crate) use self::{
    given::Given,
    lower::{lower, lower_value},
    operand::Operand,
};
use crate::{
    Facts,
    functions::{Range, any_match, under},
    group::Group,
    interpret::Interpreted,
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

#[cfg(test)]
mod tests;
