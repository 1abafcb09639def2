//! One event, from flags or from a file.

use std::{
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use hookd_client::proto::{Caller, ToolCall, TriggerRequest};
use hookd_json::{Kind, Map, Value, to_text};

use crate::{args::EventArgs, report::Failure};

/// The request that the flags or the input file describe. Where they say no directory it is the current one, and
/// where they say no time it is now.
pub(crate) fn request(mut args: EventArgs) -> Result<TriggerRequest, Failure> {
    let cwd = args.cwd.take();
    let expected_policy_revision = args.expect_revision.take().unwrap_or_default();
    let mut request = match args.input.take() {
        Some(path) => from_file(&path)?,
        None => from_flags(args)?,
    };
    if cwd.is_some() || request.cwd.is_empty() {
        request.cwd = absolute(cwd.unwrap_or_else(|| PathBuf::from(".")))?;
    }
    request.timestamp.get_or_insert_with(|| SystemTime::now().into());
    Ok(TriggerRequest { expected_policy_revision, ..request })
}

fn from_flags(args: EventArgs) -> Result<TriggerRequest, Failure> {
    let object = |flag: &str, text: Option<String>| match text.as_deref().map(hookd_json::check) {
        None => Ok(String::new()),
        Some(Ok(Kind::Object)) => Ok(text.unwrap_or_default()),
        Some(Ok(other)) => Err(Failure::usage(format!("`{flag}` is {}, expected a JSON object", other.noun()))),
        Some(Err(error)) => Err(Failure::usage(format!("`{flag}` is not JSON: {error}"))),
    };
    if let Some(Err(error)) = args.result.as_deref().map(hookd_json::check) {
        return Err(Failure::usage(format!("`--result` is not JSON: {error}")));
    }
    let params_json = object("--params", args.params)?;
    let tool_call = args.tool.map(|tool| ToolCall {
        tool,
        params_json,
        result_json: args.result,
        tool_use_id: args.tool_use_id.unwrap_or_default(),
        ..ToolCall::default()
    });
    let caller = Caller {
        agent: args.agent.unwrap_or_default(),
        agent_type: args.agent_type.unwrap_or_default(),
        project: args.project.unwrap_or_default(),
        user: args.user.unwrap_or_default(),
        labels: args.label.into_iter().collect(),
        ..Caller::default()
    };
    Ok(TriggerRequest {
        event: args.event.unwrap_or_default(),
        session_id: args.session.unwrap_or_default(),
        tool_call,
        payload_json: object("--payload", args.payload)?,
        caller: (caller != Caller::default()).then_some(caller),
        request_id: args.request_id.unwrap_or_default(),
        ..TriggerRequest::default()
    })
}

fn from_file(path: &Path) -> Result<TriggerRequest, Failure> {
    let stdin = path == Path::new("-");
    let name = if stdin { "standard input".to_owned() } else { path.display().to_string() };
    let text = if stdin {
        let mut text = String::new();
        io::stdin().lock().read_to_string(&mut text).map(|_| text)
    } else {
        fs::read_to_string(path)
    };
    let text = text.map_err(|error| Failure::usage(format!("{name} cannot be read: {error}")))?;
    from_text(&text).map_err(|message| Failure::usage(format!("{name}: {message}")))
}

/// The reference engine's form of an event: camelCase keys, numbers as they are written.
fn from_text(text: &str) -> Result<TriggerRequest, String> {
    let value = hookd_json::parse(text).map_err(|error| format!("not JSON: {error}"))?;
    let mut event = Object::new("the event", value)?;
    let request = TriggerRequest {
        event: event.string("event")?.ok_or("key `event` is missing")?,
        session_id: event.string("sessionId")?.unwrap_or_default(),
        timestamp: event.take("timestamp").map(timestamp).transpose()?,
        tool_call: event.take("toolCall").map(tool_call).transpose()?,
        cwd: event.string("cwd")?.unwrap_or_default(),
        payload_json: event.object("payload")?.unwrap_or_default(),
        caller: event.take("caller").map(caller).transpose()?,
        request_id: event.string("requestId")?.unwrap_or_default(),
        ..TriggerRequest::default()
    };
    event.finish()?;
    Ok(request)
}

fn tool_call(value: Value) -> Result<ToolCall, String> {
    let mut call = Object::new("`toolCall`", value)?;
    let tool_call = ToolCall {
        tool: call.string("tool")?.ok_or("key `tool` of `toolCall` is missing")?,
        params_json: call.object("params")?.unwrap_or_default(),
        result_json: call.take("result").map(|result| to_text(&result)),
        tool_use_id: call.string("toolUseId")?.unwrap_or_default(),
        ..ToolCall::default()
    };
    call.finish()?;
    Ok(tool_call)
}

fn caller(value: Value) -> Result<Caller, String> {
    let mut says = Object::new("`caller`", value)?;
    let mut labels = Vec::new();
    if let Some(value) = says.take("labels") {
        let mut object = Object::new("`labels` of `caller`", value)?;
        while let Some(name) = object.first_key() {
            let label = object.string(&name)?.unwrap_or_default();
            labels.push((name, label));
        }
    }
    let mut string = |key| says.string(key).map(Option::unwrap_or_default);
    let caller = Caller {
        agent: string("agent")?,
        agent_version: string("agentVersion")?,
        project: string("project")?,
        user: string("user")?,
        parent_session_id: string("parentSessionId")?,
        agent_id: string("agentId")?,
        agent_type: string("agentType")?,
        parent_agent_id: string("parentAgentId")?,
        labels: labels.into_iter().collect(),
    };
    says.finish()?;
    Ok(caller)
}

fn timestamp(value: Value) -> Result<prost_types::Timestamp, String> {
    let wrong = || format!("`timestamp` is {}, expected whole milliseconds since 1970", to_text(&value));
    let millis = value.as_number().and_then(|number| number.as_str().parse::<u64>().ok()).ok_or_else(wrong)?;
    let time = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(millis)).ok_or_else(wrong)?;
    Ok(time.into())
}

fn absolute(path: PathBuf) -> Result<String, Failure> {
    let absolute =
        std::path::absolute(&path).map_err(|error| Failure::usage(format!("directory {}: {error}", path.display())))?;
    // `absolute` leaves a `.` at the end where there is nothing else.
    let text = absolute.components().collect::<PathBuf>().into_os_string().into_string();
    text.map_err(|_| Failure::usage(format!("directory {} is not UTF-8", path.display())))
}

/// A JSON object whose keys are taken out one by one, so that what is left was not expected.
struct Object {
    name: &'static str,
    map: Map<String, Value>,
    known: Vec<String>,
}

impl Object {
    fn new(name: &'static str, value: Value) -> Result<Self, String> {
        match value {
            Value::Object(map) => Ok(Self { name, map, known: Vec::new() }),
            other => Err(format!("{name} is {}, expected an object", Kind::of(&other).noun())),
        }
    }

    fn first_key(&self) -> Option<String> {
        self.map.keys().next().cloned()
    }

    fn take(&mut self, key: &str) -> Option<Value> {
        self.known.push(format!("`{key}`"));
        self.map.shift_remove(key)
    }

    fn string(&mut self, key: &str) -> Result<Option<String>, String> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(format!("`{key}` is {}, expected a string", Kind::of(&other).noun())),
        }
    }

    fn object(&mut self, key: &str) -> Result<Option<String>, String> {
        match self.take(key) {
            None => Ok(None),
            Some(value @ Value::Object(_)) => Ok(Some(to_text(&value))),
            Some(other) => Err(format!("`{key}` is {}, expected an object", Kind::of(&other).noun())),
        }
    }

    fn finish(self) -> Result<(), String> {
        match self.map.keys().next() {
            None => Ok(()),
            Some(key) => Err(format!("unknown key `{key}` in {}, expected {}", self.name, self.known.join(", "))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_context_keeps_its_digits() {
        let text = r#"{"event":"PostToolUse","sessionId":"s1","timestamp":1700000000123,
            "toolCall":{"tool":"edit_file","params":{"id":9007199254740993,"n":1.0,"e":1e400},"result":null,"toolUseId":"t1"},
            "cwd":"/p","payload":{"k":1e2},"requestId":"r1",
            "caller":{"agent":"a","agentVersion":"2","project":"p","user":"u","parentSessionId":"s0","agentId":"i",
                "agentType":"reviewer","parentAgentId":"j","labels":{"team":"x"}}}"#;
        let expected = TriggerRequest {
            event: "PostToolUse".into(),
            session_id: "s1".into(),
            timestamp: Some(prost_types::Timestamp { seconds: 1_700_000_000, nanos: 123_000_000 }),
            tool_call: Some(ToolCall {
                tool: "edit_file".into(),
                params_json: r#"{"id":9007199254740993,"n":1.0,"e":1e400}"#.into(),
                result_json: Some("null".into()),
                tool_use_id: "t1".into(),
                ..ToolCall::default()
            }),
            cwd: "/p".into(),
            payload_json: r#"{"k":1e2}"#.into(),
            caller: Some(Caller {
                agent: "a".into(),
                agent_version: "2".into(),
                project: "p".into(),
                user: "u".into(),
                parent_session_id: "s0".into(),
                agent_id: "i".into(),
                agent_type: "reviewer".into(),
                parent_agent_id: "j".into(),
                labels: [("team".to_owned(), "x".to_owned())].into(),
            }),
            request_id: "r1".into(),
            ..TriggerRequest::default()
        };
        assert_eq!(from_text(text), Ok(expected));
        let only = TriggerRequest { event: "Stop".into(), ..TriggerRequest::default() };
        assert_eq!(from_text(r#"{"event":"Stop"}"#), Ok(only));
    }

    #[test]
    fn what_is_not_understood_is_refused_with_its_name() {
        let cases = [
            ("[]", "the event is an array, expected an object"),
            ("{\"event\":\"Stop\",}", "not JSON: trailing comma at line 1 column 17"),
            ("{}", "key `event` is missing"),
            (r#"{"event":1}"#, "`event` is a number, expected a string"),
            (r#"{"event":"Stop","event":"Stop"}"#, "not JSON: duplicate key `event` at line 1 column 25"),
            (
                r#"{"event":"Stop","toolcall":{}}"#,
                "unknown key `toolcall` in the event, expected `event`, `sessionId`, `timestamp`, `toolCall`, `cwd`, \
                 `payload`, `caller`, `requestId`",
            ),
            (r#"{"event":"E","toolCall":{}}"#, "key `tool` of `toolCall` is missing"),
            (r#"{"event":"E","toolCall":{"tool":"t","params":[]}}"#, "`params` is an array, expected an object"),
            (
                r#"{"event":"E","toolCall":{"tool":"t","input":{}}}"#,
                "unknown key `input` in `toolCall`, expected `tool`, `params`, `result`, `toolUseId`",
            ),
            (r#"{"event":"E","caller":{"labels":{"a":1}}}"#, "`a` is a number, expected a string"),
            (r#"{"event":"E","timestamp":1.5}"#, "`timestamp` is 1.5, expected whole milliseconds since 1970"),
            (r#"{"event":"E","timestamp":-1}"#, "`timestamp` is -1, expected whole milliseconds since 1970"),
            (r#"{"event":"E","timestamp":"1"}"#, "`timestamp` is \"1\", expected whole milliseconds since 1970"),
            (r#"{"event":"E","payload":"x"}"#, "`payload` is a string, expected an object"),
        ];
        for (text, expected) in cases {
            assert_eq!(from_text(text), Err(expected.to_owned()), "{text}");
        }
    }
}
