//! JSON values as cel's and back.

use std::{any::Any, collections::HashMap};

use cel::common::{
    types::{CelBool, CelBytes, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString, CelUInt, Type},
    value::{CowVal, StaticVal, Val},
};
use hookd_json::{Json, Map, Number, Value};

use crate::{
    EvaluationError,
    number::{Numeric, numeric},
};

/// How deeply a value may be nested to be taken out of an expression.
const MAX_DEPTH: usize = hookd_json::MAX_DEPTH;

static BIG: Type = Type::new_unspecified_type("number over 64 bits");
static BROKEN: Type = Type::new_unspecified_type("broken value");

/// A number that fits no CEL type. It can be handed on, and equals the same digits; every other use is an error.
#[derive(Debug, Clone)]
pub(super) struct Big(pub(super) Number);

impl Val for Big {
    fn get_type(&self) -> &Type {
        &BIG
    }

    fn cel_type() -> &'static Type {
        &BIG
    }

    fn equals(&self, other: &dyn Val) -> bool {
        other.downcast_ref::<Self>().is_some_and(|other| self.0 == other.0)
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v> {
        Box::new(self.clone())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl StaticVal for Big {}

/// A text of the call that is no JSON. Using it is an error.
#[derive(Debug, Clone)]
pub(super) struct Broken(pub(super) String);

impl Val for Broken {
    fn get_type(&self) -> &Type {
        &BROKEN
    }

    fn cel_type() -> &'static Type {
        &BROKEN
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v> {
        Box::new(self.clone())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl StaticVal for Broken {}

pub(super) fn broken<'b>(error: &EvaluationError) -> CowVal<'b, 'b> {
    CowVal::owned(Broken(error.to_string()))
}

pub(super) fn text(text: Option<&str>) -> CowVal<'_, '_> {
    match text {
        Some(text) => CowVal::owned(CelString::from(text)),
        None => CowVal::owned(CelNull),
    }
}

pub(super) fn int<'b>(int: i64) -> CowVal<'b, 'b> {
    CowVal::owned(CelInt::from(int))
}

/// The cel value of `value`, whose strings are borrowed.
pub(super) fn from_json<'v>(value: &'v Json<'_>) -> Box<dyn Val + 'v> {
    match value {
        Json::Null => Box::new(CelNull),
        Json::Bool(value) => Box::new(CelBool::from(*value)),
        Json::Number(digits) => from_number(digits),
        Json::Text(text) => Box::new(CelString::from(&**text)),
        Json::List(items) => Box::new(CelList::from(items.iter().map(from_json).collect::<Vec<_>>())),
        Json::Object(members) => {
            let entries = members.iter().map(|(key, item)| (CelMapKey::from(key), from_json(item)));
            Box::new(CelMap::from(entries.collect::<HashMap<_, _>>()))
        }
    }
}

/// The cel value of `value`, which it owns.
pub(super) fn owned<'v>(value: Value) -> Box<dyn Val + 'v> {
    match value {
        Value::Null => Box::new(CelNull),
        Value::Bool(value) => Box::new(CelBool::from(value)),
        Value::Number(number) => from_number(number.as_str()),
        Value::String(text) => Box::new(CelString::from(text)),
        Value::Array(items) => Box::new(CelList::from(items.into_iter().map(owned).collect::<Vec<_>>())),
        Value::Object(map) => {
            let entries = map.into_iter().map(|(key, item)| (CelMapKey::from(key), owned(item)));
            Box::new(CelMap::from(entries.collect::<HashMap<_, _>>()))
        }
    }
}

fn from_number<'v>(digits: &str) -> Box<dyn Val + 'v> {
    match numeric(digits) {
        Some(Numeric::Int(int)) => Box::new(CelInt::from(int)),
        Some(Numeric::Uint(uint)) => Box::new(CelUInt::from(uint)),
        Some(Numeric::Double(double)) => Box::new(CelDouble::from(double)),
        None => Box::new(Big(Number::from_string_unchecked(digits.to_owned()))),
    }
}

/// The JSON value of `value`. Keys of maps come out sorted.
///
/// # Errors
/// JSON has no such value.
pub(super) fn to_json(value: &dyn Val) -> Result<Value, String> {
    to_json_within(value, MAX_DEPTH)
}

fn to_json_within(value: &dyn Val, depth: usize) -> Result<Value, String> {
    let deeper = || depth.checked_sub(1).ok_or_else(|| format!("a value is nested more than {MAX_DEPTH} deep"));
    if let Some(value) = value.downcast_ref::<CelBool>() {
        return Ok(Value::Bool(*value.inner()));
    }
    if let Some(int) = value.downcast_ref::<CelInt>() {
        return Ok(Value::Number(Number::from(*int.inner())));
    }
    if let Some(uint) = value.downcast_ref::<CelUInt>() {
        return Ok(Value::Number(Number::from(*uint.inner())));
    }
    if let Some(double) = value.downcast_ref::<CelDouble>() {
        let number = Number::from_f64(*double.inner());
        return number.map(Value::Number).ok_or_else(|| format!("JSON has no number {}", double.inner()));
    }
    if let Some(text) = value.downcast_ref::<CelString<'_>>() {
        return Ok(Value::String(text.inner().to_owned()));
    }
    if value.downcast_ref::<CelNull>().is_some() {
        return Ok(Value::Null);
    }
    if let Some(list) = value.downcast_ref::<CelList<'_>>() {
        let depth = deeper()?;
        let items = list.inner().iter().map(|item| to_json_within(item.as_ref(), depth));
        return Ok(Value::Array(items.collect::<Result<_, _>>()?));
    }
    if let Some(map) = value.downcast_ref::<CelMap<'_>>() {
        let depth = deeper()?;
        let mut entries = map.inner().iter().collect::<Vec<_>>();
        entries.sort_by_key(|(key, _)| *key);
        let entries = entries.into_iter().map(|(key, item)| match key {
            CelMapKey::String(key) => Ok((key.inner().to_owned(), to_json_within(item.as_ref(), depth)?)),
            _ => Err("the keys of a JSON object are strings".to_owned()),
        });
        return Ok(Value::Object(entries.collect::<Result<Map<_, _>, String>>()?));
    }
    if let Some(big) = value.downcast_ref::<Big>() {
        return Ok(Value::Number(big.0.clone()));
    }
    if let Some(broken) = value.downcast_ref::<Broken>() {
        return Err(broken.0.clone());
    }
    if value.downcast_ref::<CelBytes<'_>>().is_some() {
        return Err("JSON has no bytes".to_owned());
    }
    Err(format!("JSON has no {}", value.get_type().name()))
}
