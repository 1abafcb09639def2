//! The JSON Schema of rule files, for editors, from the table that the loader checks by.

use hookd_json::Value;
use serde_json::json;

use crate::shape::{FILE, HANDLERS, MAX_MILLIS, Object, Shape};

/// The JSON Schema (draft 2020-12) of rule files.
#[must_use]
pub fn schema() -> Value {
    let mut schema = object(&FILE);
    if let Value::Object(map) = &mut schema {
        map.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
        map.insert("title".to_owned(), json!("hookd rules"));
        map.insert("$defs".to_owned(), json!({ "handler": handler() }));
    }
    schema
}

fn object(object: &Object) -> Value {
    let properties = object.keys.iter().map(|key| {
        let mut value = shape(&key.shape);
        if let Value::Object(map) = &mut value {
            map.insert("description".to_owned(), json!(key.about));
        }
        (key.name.to_owned(), value)
    });
    let required = object.keys.iter().filter(|key| key.required).map(|key| key.name).collect::<Vec<_>>();
    json!({
        "type": "object",
        "properties": properties.collect::<serde_json::Map<_, _>>(),
        "required": required,
        "additionalProperties": false,
    })
}

fn handler() -> Value {
    json!({ "oneOf": HANDLERS.iter().map(|(_, handler)| object(handler)).collect::<Vec<_>>() })
}

fn shape(shape: &Shape) -> Value {
    let full_text = json!({ "type": "string", "minLength": 1 });
    match shape {
        Shape::Text => json!({ "type": "string" }),
        Shape::FullText => full_text,
        Shape::Flag => json!({ "type": "boolean" }),
        Shape::Word(words) => json!({ "enum": words }),
        Shape::Words(words) => {
            json!({ "type": "array", "items": { "enum": words }, "minItems": 1, "uniqueItems": true })
        }
        Shape::Millis => json!({ "type": "integer", "minimum": 1, "maximum": MAX_MILLIS }),
        Shape::Whole(least, most) => json!({ "type": "integer", "minimum": least, "maximum": most }),
        Shape::Wholes(least, most) => json!({
            "type": "array",
            "items": { "type": "integer", "minimum": least, "maximum": most },
            "minItems": 1,
        }),
        Shape::Texts => json!({ "type": "array", "items": { "type": "string" }, "minItems": 1 }),
        Shape::Names => json!({
            "oneOf": [
                full_text,
                { "type": "array", "items": full_text, "minItems": 1, "uniqueItems": true },
            ],
        }),
        Shape::TextMap => json!({ "type": "object", "additionalProperties": { "type": "string" } }),
        Shape::AnyObject => json!({ "type": "object" }),
        Shape::Any => json!({}),
        Shape::Object(keys) => object(keys),
        Shape::Objects(items) => json!({ "type": "array", "items": object(items) }),
        Shape::Handler => json!({ "$ref": "#/$defs/handler" }),
    }
}
