//! Equality and order of values, as CEL has them.

use std::cmp::Ordering;

use super::Item;
use crate::number::Numeric;

/// Whether two values are equal: numbers across their types, lists and maps by their parts, values of different types
/// never. A number that fits no CEL type equals only the same digits.
pub(super) fn equal(left: Item<'_>, right: Item<'_>) -> bool {
    match (left, right) {
        (Item::Null, Item::Null) => true,
        (Item::Bool(left), Item::Bool(right)) => left == right,
        (Item::Text(left), Item::Text(right)) => left == right,
        (Item::Number(left), Item::Number(right)) => numbers(left, right) == Some(Ordering::Equal),
        (Item::Big(left), Item::Big(right)) => left == right,
        (Item::List(left), Item::List(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| equal(left.into(), right.into()))
        }
        (Item::Map(left), Item::Map(right)) => {
            left.len() == right.len()
                && left.iter().all(|(key, left)| right.get(key).is_some_and(|right| equal(left.into(), right.into())))
        }
        _ => false,
    }
}

/// The order of two values of one type, numbers counting as one; `None` where there is none.
pub(super) fn order(left: Item<'_>, right: Item<'_>) -> Option<Ordering> {
    match (left, right) {
        (Item::Bool(left), Item::Bool(right)) => Some(left.cmp(&right)),
        (Item::Text(left), Item::Text(right)) => Some(left.cmp(right)),
        (Item::Number(left), Item::Number(right)) => numbers(left, right),
        _ => None,
    }
}

#[expect(clippy::cast_precision_loss, reason = "an int or uint is compared with a double as a double, as cel does")]
fn numbers(left: Numeric, right: Numeric) -> Option<Ordering> {
    Some(match (left, right) {
        (Numeric::Int(left), Numeric::Int(right)) => left.cmp(&right),
        (Numeric::Uint(left), Numeric::Uint(right)) => left.cmp(&right),
        // An int that is no uint is negative.
        (Numeric::Int(left), Numeric::Uint(right)) => {
            u64::try_from(left).map_or(Ordering::Less, |left| left.cmp(&right))
        }
        (Numeric::Uint(left), Numeric::Int(right)) => {
            u64::try_from(right).map_or(Ordering::Greater, |right| left.cmp(&right))
        }
        (Numeric::Double(left), Numeric::Double(right)) => return left.partial_cmp(&right),
        (Numeric::Double(left), Numeric::Int(right)) => return left.partial_cmp(&(right as f64)),
        (Numeric::Double(left), Numeric::Uint(right)) => return left.partial_cmp(&(right as f64)),
        (Numeric::Int(left), Numeric::Double(right)) => return (left as f64).partial_cmp(&right),
        (Numeric::Uint(left), Numeric::Double(right)) => return (left as f64).partial_cmp(&right),
    })
}
