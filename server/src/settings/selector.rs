//! Which callers a source is for: `selector` and `missing_label` (issue 6).

use std::{collections::BTreeSet, sync::Arc};

use config::{Value as Given, ValueKind};
use hookd_json::Value;
use hookd_rules::{MissingLabel, Operator, Requirement, Selector};
use serde_json::{Map, json};

use super::{
    identity::{check_label, is_label_value},
    section::{Section, text},
    words::Words,
};

const MISSING_LABEL: &Words<MissingLabel> = &[("deny", MissingLabel::Deny), ("skip", MissingLabel::Skip)];
const LABELS: &str = "a table of labels, such as { tenant: a }";
const EXPRESSIONS: &str = "a list of requirements, such as [ { key: tenant, operator: In, values: [a, b] } ]";
const OPERATORS: &str = "In, NotIn, Exists or DoesNotExist";
const VALUE: &str = "is no value that a label can have: it is too long, empty, or holds control characters";
const EMPTY: &str = "is empty, so the rules would be for everyone: leave it out if that is meant";

/// Reads the two keys of a source. `None`: it is for everyone, or something is wrong.
pub(super) fn selector(source: &mut Section<'_, '_>) -> Option<Arc<Selector>> {
    source.refuse_null("selector", EMPTY);
    let given = source.peek("selector").filter(|value| value.kind != ValueKind::Nil).cloned();
    let is_given = source.peek("missing_label").cloned();
    let missing_label = source.optional_word("missing_label", MISSING_LABEL);
    if given.is_none() && missing_label.is_some() {
        source.problem("missing_label", is_given.as_ref(), "has no effect without `selector`");
    }
    let mut table = source.section("selector");
    let mut requirements = labels(&mut table);
    requirements.extend(expressions(&mut table));
    table.end();
    if requirements.is_empty() {
        return None;
    }
    match Selector::new(requirements, missing_label.unwrap_or_default()) {
        Ok(selector) => Some(Arc::new(selector)),
        Err(message) => {
            source.problem("selector", given.as_ref(), &message);
            None
        }
    }
}

/// A selector as it is read.
pub(super) fn tree(selector: &Selector) -> Value {
    let (mut labels, mut expressions) = (Map::new(), Vec::new());
    for Requirement { key, operator } in selector.requirements() {
        let values = operator.values();
        match (operator, values.as_slice()) {
            (Operator::In(_), [value]) if !labels.contains_key(key) => {
                labels.insert(key.clone(), json!(value));
            }
            (Operator::In(_) | Operator::NotIn(_), _) => {
                expressions.push(json!({ "key": key, "operator": operator.name(), "values": values }));
            }
            (Operator::Exists | Operator::DoesNotExist, _) => {
                expressions.push(json!({ "key": key, "operator": operator.name() }));
            }
        }
    }
    let parts = [("matchLabels", Value::Object(labels)), ("matchExpressions", Value::Array(expressions))];
    let is_empty = |value: &Value| matches!(value, Value::Object(map) if map.is_empty());
    let is_full = |(_, value): &(&str, Value)| !is_empty(value) && value.as_array().is_none_or(|list| !list.is_empty());
    parts.into_iter().filter(is_full).map(|(key, value)| (key.to_owned(), value)).collect::<Map<_, _>>().into()
}

fn labels(table: &mut Section<'_, '_>) -> Vec<Requirement> {
    let key = spelling(table, "matchLabels", "match_labels");
    table.refuse_null(key, EMPTY);
    let parse = |value: &Given| match &value.kind {
        ValueKind::Table(labels) => Some(labels.clone()),
        _ => None,
    };
    let mut requirements = Vec::new();
    for (label, value) in table.read(key, parse, LABELS).unwrap_or_default() {
        let at = format!("{key}.{label}");
        match (check_label(&label), text(&value)) {
            (Err(why), _) => table.problem(&at, Some(&value), &why),
            (Ok(()), Some(text)) if is_label_value(text) => {
                let operator = Operator::In(BTreeSet::from([text.to_owned()]));
                requirements.push(Requirement { key: label, operator });
            }
            (Ok(()), Some(_)) => table.problem(&at, Some(&value), VALUE),
            (Ok(()), None) => {
                table.problem(&at, Some(&value), "is not a string: values of labels are, write it in quotes")
            }
        }
    }
    requirements
}

fn expressions(table: &mut Section<'_, '_>) -> Vec<Requirement> {
    let key = spelling(table, "matchExpressions", "match_expressions");
    table.refuse_null(key, EMPTY);
    table.tables(key, EXPRESSIONS, expression).unwrap_or_default()
}

fn expression(table: &mut Section<'_, '_>) -> Option<Requirement> {
    for key in ["key", "operator"] {
        if table.peek(key).is_none() {
            table.problem(key, None, "is missing, such as { key: tenant, operator: Exists }");
        }
    }
    let is_name = |name: &&str| check_label(name).is_ok();
    let key = table.read("key", |value| text(value).filter(is_name).map(str::to_owned), "the name of a label");
    let name = table.read("operator", |value| operator_name(text(value)?), OPERATORS);
    let given = table.peek("values").cloned();
    let values = table.texts("values", "a list of values of the label, such as [a, b]");
    if values.iter().flatten().any(|value| !is_label_value(value)) {
        table.problem("values", given.as_ref(), &format!("one of them {VALUE}"));
    }
    let (wants, has) = (matches!(name, Some("In" | "NotIn")), values.as_ref().is_some_and(|values| !values.is_empty()));
    let operator = match (name?, values.unwrap_or_default().into_iter().collect::<BTreeSet<_>>()) {
        ("In", values) => Operator::In(values),
        ("NotIn", values) => Operator::NotIn(values),
        ("Exists", _) => Operator::Exists,
        _ => Operator::DoesNotExist,
    };
    if wants != has {
        let message = if wants { "needs at least one value" } else { "takes no values" };
        table.problem("values", given.as_ref(), &format!("the operator `{}` {message}", operator.name()));
    }
    (wants == has).then_some(Requirement { key: key?, operator })
}

fn operator_name(given: &str) -> Option<&'static str> {
    ["In", "NotIn", "Exists", "DoesNotExist"].into_iter().find(|name| *name == given)
}

/// The spelling that is used: Kubernetes' own, or that of the other settings.
fn spelling(table: &mut Section<'_, '_>, kubernetes: &'static str, settings: &'static str) -> &'static str {
    match (table.peek(kubernetes), table.peek(settings).cloned()) {
        (Some(_), Some(again)) => {
            table.problem(settings, Some(&again), &format!("stands here as `{kubernetes}` too, give one of them"));
            table.read(settings, |_| Some(()), "");
            kubernetes
        }
        (None, Some(_)) => settings,
        _ => kubernetes,
    }
}
