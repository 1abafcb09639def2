use std::{
    borrow::Cow,
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
};

use crate::{Kind, Map, Number, Value};

/// A JSON value that borrows from the text that it was read from: for looking, where [`Value`] is for keeping.
#[derive(Debug, Clone, PartialEq)]
pub enum Json<'t> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number, as it is written.
    Number(&'t str),
    /// A string, copied only where it is written with escapes.
    Text(Cow<'t, str>),
    /// An array.
    List(Vec<Json<'t>>),
    /// An object.
    Object(Members<'t>),
}

/// The members of an object in the order of the text, no key twice.
#[derive(Debug, Clone, Default)]
pub struct Members<'t> {
    list: Vec<(Cow<'t, str>, Json<'t>)>,
    /// Where keys stand, by hash; only where there are many.
    index: Option<Box<Index>>,
}

#[derive(Debug, Clone, Default)]
struct Index {
    hasher: RandomState,
    places: HashMap<u64, usize>,
}

/// Up to so many keys are compared one by one, which is faster than hashing them.
const FEW: usize = 16;

impl<'t> Members<'t> {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Each key and its value.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Json<'t>)> {
        self.list.iter().map(|(key, value)| (&**key, value))
    }

    /// The value of `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Json<'t>> {
        let one_by_one = || self.list.iter().find(|(known, _)| *known == key).map(|(_, value)| value);
        let Some(index) = &self.index else { return one_by_one() };
        let place = index.places.get(&index.hasher.hash_one(key))?;
        match self.list.get(*place) {
            Some((known, value)) if *known == key => Some(value),
            // Two keys with one hash.
            _ => one_by_one(),
        }
    }

    /// Adds a key that is not there yet.
    pub(crate) fn push(&mut self, key: Cow<'t, str>, value: Json<'t>) {
        if let Some(index) = &mut self.index {
            index.places.entry(index.hasher.hash_one(&*key)).or_insert(self.list.len());
        } else if self.list.len() >= FEW {
            let mut index = Box::<Index>::default();
            for (place, (key, _)) in self.list.iter().enumerate() {
                index.places.entry(index.hasher.hash_one(&**key)).or_insert(place);
            }
            index.places.entry(index.hasher.hash_one(&*key)).or_insert(self.list.len());
            self.index = Some(index);
        }
        self.list.push((key, value));
    }
}

impl PartialEq for Members<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.list == other.list
    }
}

impl<'t> FromIterator<(&'t str, Json<'t>)> for Members<'t> {
    /// Of a key that comes twice the first value counts.
    fn from_iter<I: IntoIterator<Item = (&'t str, Json<'t>)>>(all: I) -> Self {
        let mut members = Self::default();
        for (key, value) in all {
            if members.get(key).is_none() {
                members.push(Cow::Borrowed(key), value);
            }
        }
        members
    }
}

impl<'t> Json<'t> {
    /// Its type.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Null => Kind::Null,
            Self::Bool(_) => Kind::Bool,
            Self::Number(_) => Kind::Number,
            Self::Text(_) => Kind::String,
            Self::List(_) => Kind::Array,
            Self::Object(_) => Kind::Object,
        }
    }

    /// The value at `key`, where it is an object that has it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Object(members) => members.get(key),
            _ => None,
        }
    }

    /// Its text, where it is a string.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The same value, to be kept.
    #[must_use]
    pub fn into_value(self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(value),
            Self::Number(digits) => Value::Number(Number::from_string_unchecked(digits.to_owned())),
            Self::Text(text) => Value::String(text.into_owned()),
            Self::List(items) => Value::Array(items.into_iter().map(Self::into_value).collect()),
            Self::Object(members) => {
                let members = members.list.into_iter().map(|(key, value)| (key.into_owned(), value.into_value()));
                Value::Object(members.collect::<Map<_, _>>())
            }
        }
    }
}

impl<'v> From<&'v Value> for Json<'v> {
    fn from(value: &'v Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => Self::Number(number.as_str()),
            Value::String(text) => Self::Text(Cow::Borrowed(text)),
            Value::Array(items) => Self::List(items.iter().map(Self::from).collect()),
            Value::Object(map) => {
                Self::Object(map.iter().map(|(key, value)| (key.as_str(), Self::from(value))).collect())
            }
        }
    }
}
