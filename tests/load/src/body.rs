//! The bodies of a run: files as they are, events in JSON, or an event of a given size.

use std::{fs, path::Path};

use anyhow::{Context as _, bail, ensure};
use hookd_proto::v1::{ToolCall, TriggerRequest};
use prost::{Message as _, bytes::Bytes};
use prost_types::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::args::{RunArgs, TRIGGER};

/// The bodies that the arguments name, encoded.
///
/// # Errors
/// A file cannot be read or is not an event, or the method takes none.
pub(crate) fn bodies(args: &RunArgs) -> anyhow::Result<Vec<Bytes>> {
    let takes_events = args.method.as_str() == TRIGGER;
    if args.bodies.is_empty() {
        ensure!(takes_events, "`{}` needs a `--body`: only `{TRIGGER}` takes events", args.method);
        return Ok(vec![encoded(&event_of(args.request_bytes)?)]);
    }
    args.bodies.iter().map(|path| body(path, takes_events)).collect()
}

fn body(path: &Path, takes_events: bool) -> anyhow::Result<Bytes> {
    let bytes = fs::read(path).with_context(|| format!("{}", path.display()))?;
    if path.extension().is_none_or(|extension| extension != "json") {
        return Ok(Bytes::from(bytes));
    }
    ensure!(takes_events, "{}: only `{TRIGGER}` takes events in JSON", path.display());
    let text = String::from_utf8(bytes).with_context(|| format!("{}", path.display()))?;
    event(&text).map(|event| encoded(&event)).with_context(|| format!("{}", path.display()))
}

/// An event in the camelCase form that handlers read and `hookctl trigger --input` takes.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Event<'j> {
    event: String,
    #[serde(default)]
    session_id: String,
    timestamp: Option<i64>,
    #[serde(borrow)]
    tool_call: Option<Tool<'j>>,
    #[serde(borrow)]
    payload: Option<&'j RawValue>,
    #[serde(default)]
    cwd: String,
    #[serde(default)]
    request_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Tool<'j> {
    tool: String,
    #[serde(borrow)]
    params: Option<&'j RawValue>,
    #[serde(borrow)]
    result: Option<&'j RawValue>,
    #[serde(default)]
    tool_use_id: String,
}

/// Reads one event.
///
/// # Errors
/// It is not JSON of that form.
pub(crate) fn event(text: &str) -> anyhow::Result<TriggerRequest> {
    let event: Event<'_> = serde_json::from_str(text)?;
    let json = |value: Option<&RawValue>| value.map(|value| value.get().to_owned());
    Ok(TriggerRequest {
        event: event.event,
        session_id: event.session_id,
        timestamp: event.timestamp.map(timestamp),
        tool_call: event.tool_call.map(|call| ToolCall {
            tool: call.tool,
            params_json: json(call.params).unwrap_or_default(),
            result_json: json(call.result),
            tool_use_id: call.tool_use_id,
            ..ToolCall::default()
        }),
        payload_json: json(event.payload).unwrap_or_default(),
        cwd: event.cwd,
        request_id: event.request_id,
        ..TriggerRequest::default()
    })
}

fn timestamp(millis: i64) -> Timestamp {
    let nanos = millis.rem_euclid(1000).saturating_mul(1_000_000);
    Timestamp { seconds: millis.div_euclid(1000), nanos: i32::try_from(nanos).unwrap_or_default() }
}

/// An event before a tool runs that is exactly `size` bytes long when encoded.
fn event_of(size: usize) -> anyhow::Result<TriggerRequest> {
    let with = |session: &str, padding: usize| TriggerRequest {
        event: "PreToolUse".to_owned(),
        session_id: session.to_owned(),
        tool_call: Some(ToolCall {
            tool: "Bash".to_owned(),
            params_json: format!(r#"{{"command":"{}"}}"#, "x".repeat(padding)),
            ..ToolCall::default()
        }),
        ..TriggerRequest::default()
    };
    let least = with("", 0).encoded_len();
    ensure!(size >= least, "an event has at least {least} bytes, not {size}");
    // The length of a longer text takes a byte more, so some sizes are left out on the way; a session fills in.
    for session in ["", "s", "ss"] {
        let room = size.saturating_sub(with(session, 0).encoded_len());
        for of_the_lengths in 0..8 {
            let event = with(session, room.saturating_sub(of_the_lengths));
            if event.encoded_len() == size {
                return Ok(event);
            }
        }
    }
    bail!("there is no event of exactly {size} bytes")
}

/// The message as bytes.
pub(crate) fn encoded(event: &TriggerRequest) -> Bytes {
    Bytes::from(event.encode_to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_keeps_the_digits_of_its_numbers() {
        let text = r#"{"event":"PostToolUse","sessionId":"s","timestamp":-1,"cwd":"/w",
            "toolCall":{"tool":"t","params":{"id":9007199254740993},"result":1.0,"toolUseId":"u"},"payload":{"a":1e400}}"#;
        let expected = TriggerRequest {
            event: "PostToolUse".to_owned(),
            session_id: "s".to_owned(),
            timestamp: Some(Timestamp { seconds: -1, nanos: 999_000_000 }),
            tool_call: Some(ToolCall {
                tool: "t".to_owned(),
                params_json: r#"{"id":9007199254740993}"#.to_owned(),
                result_json: Some("1.0".to_owned()),
                tool_use_id: "u".to_owned(),
                ..ToolCall::default()
            }),
            payload_json: r#"{"a":1e400}"#.to_owned(),
            cwd: "/w".to_owned(),
            ..TriggerRequest::default()
        };
        assert_eq!(event(text).unwrap(), expected);
        assert!(event(r#"{"event":"Stop","tool":"x"}"#).unwrap_err().to_string().starts_with("unknown field `tool`"));
    }

    #[test]
    fn an_event_has_exactly_the_size_asked_for() {
        let least = event_of(0).unwrap_err().to_string();
        assert_eq!(least, "an event has at least 36 bytes, not 0");
        for size in (39..700).chain(16_380..16_440) {
            assert_eq!(event_of(size).map(|event| event.encoded_len()).unwrap(), size);
        }
    }
}
