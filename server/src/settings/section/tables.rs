//! Lists of tables, and tables whose keys are the user's own. In the environment both are written as JSON.

use config::{Map, Value, ValueKind};

use super::{Expected, Section, shown, text};

impl<'r, 'o> Section<'r, 'o> {
    /// What `read` makes of each table of the list at `key`. `None`: there is no list.
    pub(in crate::settings) fn tables<T>(
        &mut self,
        key: &'static str,
        expected: Expected,
        mut read: impl FnMut(&mut Section<'r, 'o>) -> Option<T>,
    ) -> Option<Vec<T>> {
        let value = self.take(key)?;
        let ValueKind::Array(items) = from_json(&value).kind else {
            self.refuse(key, &value, expected);
            return None;
        };
        let mut all = Vec::new();
        for (index, item) in items.into_iter().enumerate() {
            if let Some(mut section) = self.item(key, index, item, "a table of keys") {
                all.extend(read(&mut section));
                section.end();
            }
        }
        Some(all)
    }

    /// The keys of the table at `key`, which are the user's own, sorted, with what `parse` makes of their values. What is
    /// wrong with one is told by it.
    pub(in crate::settings) fn map<T>(
        &mut self,
        key: &'static str,
        expected: Expected,
        parse: impl Fn(&str, &Value) -> Result<T, String>,
    ) -> Option<Vec<(String, T)>> {
        let value = self.take(key)?;
        let ValueKind::Table(table) = from_json(&value).kind else {
            self.refuse(key, &value, expected);
            return None;
        };
        let mut table = table.into_iter().collect::<Vec<_>>();
        table.sort_by(|(one, _), (other, _)| one.cmp(other));
        let mut all = Vec::new();
        for (name, value) in table {
            match parse(&name, &value) {
                Ok(parsed) => all.push((name, parsed)),
                Err(wrong) => self.problem(&format!("{key}.{name}"), Some(&value), &wrong),
            }
        }
        Some(all)
    }

    /// The text at `key`, which has to be there.
    pub(in crate::settings) fn needed(&mut self, key: &'static str, expected: Expected) -> Option<String> {
        if self.peek(key).is_none_or(|value| value.kind == ValueKind::Nil) {
            let message = format!("is missing, expected {expected}");
            self.asked.insert(key);
            self.problem(key, None, &message);
            return None;
        }
        self.read(key, |value| text(value).filter(|text| !text.is_empty()).map(str::to_owned), expected)
    }
}

/// One text or several in a list.
pub(in crate::settings) fn one_or_more(value: &Value) -> Option<Vec<&str>> {
    match &value.kind {
        ValueKind::String(text) => Some(vec![text]),
        ValueKind::Array(items) if !items.is_empty() => items.iter().map(text).collect(),
        _ => None,
    }
}

/// A value for a message.
pub(in crate::settings) fn shown_value(value: &Value) -> String {
    shown(value)
}

/// A text as the JSON that it holds, anything else as it is.
fn from_json(value: &Value) -> Value {
    let parsed = text(value).and_then(|text| hookd_json::parse(text).ok());
    parsed.map_or_else(|| value.clone(), |json| to_value(value.origin(), &json))
}

fn to_value(origin: Option<&str>, json: &hookd_json::Value) -> Value {
    let kind = match json {
        hookd_json::Value::Null => ValueKind::Nil,
        hookd_json::Value::Bool(yes) => ValueKind::Boolean(*yes),
        hookd_json::Value::Number(number) => match number.as_i64() {
            Some(number) => ValueKind::I64(number),
            None => ValueKind::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        hookd_json::Value::String(text) => ValueKind::String(text.clone()),
        hookd_json::Value::Array(items) => ValueKind::Array(items.iter().map(|item| to_value(origin, item)).collect()),
        hookd_json::Value::Object(table) => ValueKind::Table(
            table.iter().map(|(key, value)| (key.clone(), to_value(origin, value))).collect::<Map<_, _>>(),
        ),
    };
    Value::new(origin.map(str::to_owned).as_ref(), kind)
}
