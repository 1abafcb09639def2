//! One row of the table. What this does not know stops the test.

use std::{collections::BTreeMap, time::Duration};

use hookd_client::{Address, Client, OnUnavailable, proto::TriggerRequest};
use hookd_conformance::wire;
use serde::Deserialize;
use serde_json::Value;

/// A row.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    #[serde(default)]
    pub(crate) servers: Vec<ServerOf>,
    pub(crate) client: ClientOf,
    #[serde(default)]
    pub(crate) calls: Vec<Call>,
    /// How many clients make the calls, one after another.
    pub(crate) clients: Option<usize>,
    /// How many calls the first server has had in the end.
    pub(crate) asked: Option<usize>,
    /// How many calls at once, or how often the first server is ended.
    pub(crate) times: Option<usize>,
    pub(crate) signal: Option<String>,
    #[serde(default)]
    pub(crate) restart: bool,
    pub(crate) for_ms: Option<u64>,
    pub(crate) busy: Option<Value>,
    #[serde(default)]
    pub(crate) settings: Vec<Value>,
    #[serde(default)]
    pub(crate) requests: Vec<Value>,
    #[serde(default)]
    pub(crate) statuses: Vec<StatusOf>,
    /// Languages that have no such thing, and why.
    #[serde(default)]
    pub(crate) without: BTreeMap<String, String>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    Calls,
    EachStatus,
    AtOnce,
    KilledInCall,
    WhileBusy,
    UnderCalls,
    Fork,
}

#[derive(Deserialize, Clone)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum ServerOf {
    Dead,
    Scripted(Value),
    Hookd {
        rules: Value,
        #[serde(default = "no_settings")]
        settings: Value,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct ClientOf {
    on_unavailable: Option<Value>,
    deadline_ms: Option<u64>,
    rounds: Option<u32>,
    message_bytes: Option<usize>,
}

/// A call, and what has to come of it.
#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Call {
    request: Value,
    pad_bytes: Option<usize>,
    gate: Value,
    error: Option<Value>,
    /// Languages in which something else comes of it, and why.
    #[serde(default)]
    differs: BTreeMap<String, Differs>,
}

#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields)]
struct Differs {
    #[expect(dead_code, reason = "for readers; a row without it is refused")]
    why: String,
    gate: Value,
    error: Option<Value>,
}

/// A status, and what comes of it: a line of gates, `R` for one that runs and `X` for one that refuses, for each setting.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StatusOf {
    pub(crate) status: Value,
    pub(crate) error: Value,
    pub(crate) reason: String,
    pub(crate) gates: String,
}

impl ClientOf {
    /// A client of these addresses; `on_unavailable` where the row leaves it open.
    pub(crate) fn of(&self, addresses: &[String], on_unavailable: Option<&Value>) -> Client {
        let addresses = addresses.iter().map(|address| address.parse::<Address>().unwrap()).collect();
        let said = self.on_unavailable.as_ref().or(on_unavailable).unwrap();
        let mut builder = Client::builder(addresses, on_unavailable_of(said));
        if let Some(ms) = self.deadline_ms {
            builder = builder.deadline(Duration::from_millis(ms));
        }
        if let Some(rounds) = self.rounds {
            builder = builder.rounds(rounds);
        }
        if let Some(bytes) = self.message_bytes {
            builder = builder.message_bytes(bytes);
        }
        builder.build().unwrap()
    }
}

impl Call {
    pub(crate) fn request(&self) -> TriggerRequest {
        let mut request = wire::request(&self.request);
        if let Some(bytes) = self.pad_bytes {
            request.tool_call.as_mut().unwrap().params_json = format!(r#"{{"text":"{}"}}"#, "x".repeat(bytes));
        }
        request
    }

    /// `{ "gate": …, "error"?: … }` in Rust.
    pub(crate) fn expected(&self) -> Value {
        let (gate, error) = match self.differs.get("rust") {
            Some(differs) => (&differs.gate, &differs.error),
            None => (&self.gate, &self.error),
        };
        expectation(gate, error.as_ref())
    }
}

/// `{ "gate": …, "error"?: … }`.
pub(crate) fn expectation(gate: &Value, error: Option<&Value>) -> Value {
    let mut expected = serde_json::json!({ "gate": gate });
    if let Some(error) = error {
        expected["error"] = error.clone();
    }
    expected
}

fn on_unavailable_of(value: &Value) -> OnUnavailable {
    match value {
        Value::String(text) if text == "block" => OnUnavailable::Block,
        Value::String(text) if text == "allow" => OnUnavailable::Allow,
        _ => {
            let tools = value["blockExcept"].as_array().unwrap();
            OnUnavailable::block_except(tools.iter().map(|tool| tool.as_str().unwrap()))
        }
    }
}

fn no_settings() -> Value {
    Value::Object(serde_json::Map::new())
}
