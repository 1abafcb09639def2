use std::time::{Duration, SystemTime};

use hookd_json::{Kind, Map, Value, to_text};

use crate::v1::{self, Caller, ToolCall, TriggerRequest};

/// The reference engine's form of an event: camelCase keys, numbers as they are written, times in milliseconds. What
/// that engine does not know stands beside it under the proto's names in camelCase.
///
/// # Errors
/// One line that names the key, what it is and what would be right.
pub fn request(text: &str) -> Result<TriggerRequest, String> {
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
        turn_id: event.string("turnId")?.unwrap_or_default(),
        transcript_path: event.string("transcriptPath")?.unwrap_or_default(),
        permission_mode: event.string("permissionMode")?.unwrap_or_default(),
        model: event.string("model")?.unwrap_or_default(),
        capabilities: event.strings("capabilities")?.map(capabilities).transpose()?,
        expected_policy_revision: event.string("expectedPolicyRevision")?.unwrap_or_default(),
        workspace_roots: event.strings("workspaceRoots")?.unwrap_or_default(),
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
        kind: call.string("kind")?.unwrap_or_default(),
        mcp_server: call.string("mcpServer")?.unwrap_or_default(),
        mcp_tool: call.string("mcpTool")?.unwrap_or_default(),
        error: call.string("error")?,
        elapsed: call.take("elapsedMs").map(elapsed).transpose()?,
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

fn capabilities(words: Vec<String>) -> Result<v1::Capabilities, String> {
    let known = || (1..).map_while(|number| v1::Capability::try_from(number).ok());
    let supported = words.iter().map(|word| {
        let found = known().find(|known| super::word_of(known.as_str_name()).as_ref() == Some(word));
        found.map(i32::from).ok_or_else(|| {
            let words = known().filter_map(|known| super::word_of(known.as_str_name()));
            let words = words.map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
            format!("`{word}` is no capability, expected {words}")
        })
    });
    Ok(v1::Capabilities { supported: supported.collect::<Result<_, _>>()? })
}

fn timestamp(value: Value) -> Result<prost_types::Timestamp, String> {
    let wrong = || format!("`timestamp` is {}, expected whole milliseconds since 1970", to_text(&value));
    let time = millis(&value).and_then(|millis| SystemTime::UNIX_EPOCH.checked_add(millis)).ok_or_else(wrong)?;
    Ok(time.into())
}

fn elapsed(value: Value) -> Result<prost_types::Duration, String> {
    let wrong = || format!("`elapsedMs` is {}, expected whole milliseconds", to_text(&value));
    millis(&value).and_then(|millis| millis.try_into().ok()).ok_or_else(wrong)
}

fn millis(value: &Value) -> Option<Duration> {
    value.as_number()?.as_str().parse().ok().map(Duration::from_millis)
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

    fn strings(&mut self, key: &str) -> Result<Option<Vec<String>>, String> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let wrong = format!("`{key}` is {}, expected an array of strings", Kind::of(&value).noun());
        let Value::Array(items) = value else { return Err(wrong) };
        let text = |item| match item {
            Value::String(text) => Ok(text),
            other => Err(format!("`{key}` holds {}, expected strings alone", Kind::of(&other).noun())),
        };
        items.into_iter().map(text).collect::<Result<_, _>>().map(Some)
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
            "toolCall":{"tool":"edit_file","params":{"id":9007199254740993,"n":1.0,"e":1e400},"result":null,"toolUseId":"t1",
                "kind":"edit","mcpServer":"m","mcpTool":"mt","error":"no","elapsedMs":1500},
            "cwd":"/p","payload":{"k":1e2},"requestId":"r1","turnId":"t","transcriptPath":"/t","permissionMode":"plan",
            "model":"m","capabilities":["ask","modify_params"],"expectedPolicyRevision":"rev","workspaceRoots":["/p","/q"],
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
                kind: "edit".into(),
                mcp_server: "m".into(),
                mcp_tool: "mt".into(),
                error: Some("no".into()),
                elapsed: Some(prost_types::Duration { seconds: 1, nanos: 500_000_000 }),
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
            turn_id: "t".into(),
            transcript_path: "/t".into(),
            permission_mode: "plan".into(),
            model: "m".into(),
            capabilities: Some(v1::Capabilities {
                supported: vec![v1::Capability::Ask.into(), v1::Capability::ModifyParams.into()],
            }),
            expected_policy_revision: "rev".into(),
            workspace_roots: vec!["/p".into(), "/q".into()],
        };
        assert_eq!(request(text), Ok(expected));
        let only = TriggerRequest { event: "Stop".into(), ..TriggerRequest::default() };
        assert_eq!(request(r#"{"event":"Stop"}"#), Ok(only));
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
                 `payload`, `caller`, `requestId`, `turnId`, `transcriptPath`, `permissionMode`, `model`, \
                 `capabilities`, `expectedPolicyRevision`, `workspaceRoots`",
            ),
            (r#"{"event":"E","toolCall":{}}"#, "key `tool` of `toolCall` is missing"),
            (r#"{"event":"E","toolCall":{"tool":"t","params":[]}}"#, "`params` is an array, expected an object"),
            (
                r#"{"event":"E","toolCall":{"tool":"t","input":{}}}"#,
                "unknown key `input` in `toolCall`, expected `tool`, `params`, `result`, `toolUseId`, `kind`, \
                 `mcpServer`, `mcpTool`, `error`, `elapsedMs`",
            ),
            (r#"{"event":"E","caller":{"labels":{"a":1}}}"#, "`a` is a number, expected a string"),
            (r#"{"event":"E","timestamp":1.5}"#, "`timestamp` is 1.5, expected whole milliseconds since 1970"),
            (r#"{"event":"E","timestamp":-1}"#, "`timestamp` is -1, expected whole milliseconds since 1970"),
            (r#"{"event":"E","timestamp":"1"}"#, "`timestamp` is \"1\", expected whole milliseconds since 1970"),
            (
                r#"{"event":"E","toolCall":{"tool":"t","elapsedMs":1e3}}"#,
                "`elapsedMs` is 1e3, expected whole milliseconds",
            ),
            (r#"{"event":"E","payload":"x"}"#, "`payload` is a string, expected an object"),
            (r#"{"event":"E","workspaceRoots":"x"}"#, "`workspaceRoots` is a string, expected an array of strings"),
            (r#"{"event":"E","workspaceRoots":[1]}"#, "`workspaceRoots` holds a number, expected strings alone"),
            (
                r#"{"event":"E","capabilities":["asks"]}"#,
                "`asks` is no capability, expected `ask`, `defer`, `block`, `modify_params`, `modify_result`, \
                 `additional_context`, `halt`, `force_continue`",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(request(text), Err(expected.to_owned()), "{text}");
        }
    }
}
