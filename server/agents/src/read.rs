use hookd_json::Value;

use crate::{
    Agent, Fields, Problem, amazon_q, claude_code, cline, codex, copilot_cli, cursor, factory_droid, gemini_cli, goose,
    kiro, qwen_code,
    table::{self, Row},
    v1, vscode, windsurf,
};

/// How the agent asked, and so how it takes its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// It ran a command: standard output, standard error and exit code.
    Command,
    /// It sent an http request: the body of an answer of status 200.
    Http,
}

/// One native input, as it came.
#[derive(Debug, Clone, Copy)]
pub struct Native<'a> {
    /// Whose it is.
    pub agent: Agent,
    /// The event's native name from the command line or the URL, for payloads that have none. Where the payload says
    /// its event, that counts.
    pub event: Option<&'a str>,
    /// The JSON text, UTF-8.
    pub input: &'a [u8],
    /// How it came.
    pub transport: Transport,
}

/// One native input in hookd's words.
#[derive(Debug, Clone)]
pub struct Call {
    /// Whose it is.
    pub agent: Agent,
    /// How it came.
    pub transport: Transport,
    /// The agent's own name of the event.
    pub native_event: String,
    /// What to ask hookd, with what this agent can carry out on this event.
    pub request: v1::TriggerRequest,
    /// The row of the table. `None`: the event is not in it.
    pub(crate) row: Option<&'static Row>,
    /// The tool's parameters are no object, so that they cannot be rewritten.
    params_are_wrapped: bool,
}

/// Why a native input could not be read. What is to be answered then says [`unanswered`](crate::unanswered).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct ReadError {
    problem: Problem,
    native_event: Option<String>,
}

impl ReadError {
    /// The native event for the answer's form: what was given beside the input, or else as far as the input lets it be
    /// seen. `None`: it cannot be seen.
    #[must_use]
    pub fn native_event(&self) -> Option<&str> {
        self.native_event.as_deref()
    }
}

/// What a module makes of an input. What it did not take of the fields becomes the payload.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    /// The agent's own name of the event.
    pub(crate) native_event: String,
    /// The row that holds for this very call, where it is another than the native event's.
    pub(crate) row: Option<&'static Row>,
    /// All that the module knows. `event` may be left empty: the row's or else the native name. `caller.agent`,
    /// `payload_json` and `capabilities` are set for it.
    pub(crate) request: v1::TriggerRequest,
}

/// Reads one native input: strict JSON (an object) of the agent's own shape.
///
/// # Errors
/// [`ReadError`] where it is not JSON, or lacks what the event cannot be judged without.
pub fn read(native: &Native<'_>) -> Result<Call, ReadError> {
    let native_event = native.event.filter(|event| !event.is_empty());
    let failed = |problem| {
        // Within an input that cannot be read, parameters that a model chose look like any other part.
        let seen = native_event.map(str::to_owned).or_else(|| sniff(native.agent, native.input));
        ReadError { problem, native_event: seen }
    };
    let mut fields = Fields::parse(native.input).map_err(failed)?;
    let module = match native.agent {
        Agent::ClaudeCode => claude_code::read,
        Agent::Codex => codex::read,
        Agent::GeminiCli => gemini_cli::read,
        Agent::Cursor => cursor::read,
        Agent::CopilotCli => copilot_cli::read,
        Agent::VsCode => vscode::read,
        Agent::QwenCode => qwen_code::read,
        Agent::FactoryDroid => factory_droid::read,
        Agent::Windsurf => windsurf::read,
        Agent::Goose => goose::read,
        Agent::Cline => cline::read,
        Agent::AmazonQ => amazon_q::read,
        Agent::Kiro => kiro::read,
    };
    let Draft { native_event, row, mut request } = module(native_event, &mut fields).map_err(failed)?;
    let row = row.or_else(|| table::row(native.agent, &native_event));
    if request.event.is_empty() {
        row.map_or(native_event.as_str(), |row| row.event).clone_into(&mut request.event);
    }
    if request.event != native_event {
        fields.put("native_event", native_event.as_str());
    }
    let params_are_wrapped = fields.params_are_wrapped();
    request.payload_json = fields.into_payload();
    native.agent.name().clone_into(&mut request.caller.get_or_insert_default().agent);
    let mut call =
        Call { agent: native.agent, transport: native.transport, native_event, request, row, params_are_wrapped };
    let can = call.row.map_or_else(|| table::unknown(native.agent), |row| row.can);
    let mut supported = can.iter().filter(|one| call.can(**one)).map(|one| i32::from(*one)).collect::<Vec<_>>();
    supported.sort_unstable();
    call.request.capabilities = Some(v1::Capabilities { supported });
    Ok(call)
}

impl Call {
    /// A call of which nothing is known but where its answer goes.
    pub(crate) fn blank(agent: Agent, native_event: &str, transport: Transport) -> Self {
        let row = table::row(agent, native_event);
        let event = row.map_or(native_event, |row| row.event).to_owned();
        let request = v1::TriggerRequest { event, ..Default::default() };
        Self { agent, transport, native_event: native_event.to_owned(), request, row, params_are_wrapped: false }
    }

    /// What the agent can carry out on this call.
    pub(crate) fn can(&self, capability: v1::Capability) -> bool {
        let can = self.row.map_or_else(|| table::unknown(self.agent), |row| row.can);
        can.contains(&capability) && !(capability == v1::Capability::ModifyParams && self.params_are_wrapped)
    }

    /// What BLOCK would prevent is the agent's end.
    pub(crate) fn is_stop_like(&self) -> bool {
        matches!(self.request.event.as_str(), "Stop" | "SubagentStop" | "TaskCompleted" | "TeammateIdle")
    }

    /// The agent has a form for a block of this call: one that prevents, or feedback.
    pub(crate) fn can_block(&self) -> bool {
        let capability = if self.is_stop_like() { v1::Capability::ForceContinue } else { v1::Capability::Block };
        self.can(capability)
    }

    /// The tool's result as it came. `None`: there is none.
    pub(crate) fn result(&self) -> Option<Value> {
        let text = self.request.tool_call.as_ref()?.result_json.as_ref()?;
        hookd_json::parse(text).ok()
    }
}

/// The event's name in an input that cannot be read as a whole. Two different names are none: which one counts is not
/// to be chosen by whoever wrote the second.
fn sniff(agent: Agent, input: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(input);
    let mut seen = None;
    for key in table::event_keys(agent) {
        for (at, _) in text.match_indices(&format!("\"{key}\"")) {
            let Some(name) = text.get(at..).and_then(value_of_key) else { continue };
            if seen.is_some_and(|seen| seen != name) {
                return None;
            }
            seen = Some(name);
        }
    }
    seen.map(str::to_owned)
}

/// The string in `"key" : "string"`, if it is a plain name.
fn value_of_key(text: &str) -> Option<&str> {
    let (_, rest) = text.strip_prefix('"')?.split_once('"')?;
    let rest = rest.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    let (name, _) = rest.split_once('"')?;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (!name.is_empty() && name.len() <= 128 && name.chars().all(plain)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_event_of_a_broken_input_is_seen_where_it_is_said_once() {
        for (input, event) in [
            (r#"{"hook_event_name":"Stop","#, Some("Stop")),
            ("{\"hook_event_name\" :\n \"Stop\"", Some("Stop")),
            (r#"{"hook_event_name":"Stop","hook_event_name":"Stop""#, Some("Stop")),
            (r#"{"hook_event_name":"PreToolUse","x":{"hook_event_name":"Stop""#, None),
            (r#"{"hook_event_name":"Stop"#, None),
            (r#"{"hook_event_name":"S t"}"#, None),
            (r#"{"hook_event_name":7"#, None),
            ("", None),
        ] {
            assert_eq!(sniff(Agent::ClaudeCode, input.as_bytes()).as_deref(), event, "{input}");
        }
    }

    #[test]
    fn parameters_do_not_choose_the_event_of_an_input_that_cannot_be_read() {
        let input = br#"{"toolName":"bash","toolArgs":{"hook_event_name":"Stop","command":"\ud800"}}"#;
        let native =
            Native { agent: Agent::CopilotCli, event: Some("preToolUse"), input, transport: Transport::Command };
        assert_eq!(read(&native).unwrap_err().native_event(), Some("preToolUse"));
    }

    #[test]
    fn the_payload_says_the_event_and_counts_before_what_stands_beside_it() {
        let read = |event, input: &str| {
            let native =
                Native { agent: Agent::ClaudeCode, event, input: input.as_bytes(), transport: Transport::Command };
            read(&native).map(|call| call.native_event).map_err(|error| error.to_string())
        };
        assert_eq!(read(Some("Stop"), r#"{"hook_event_name":"Setup"}"#).as_deref(), Ok("Setup"));
        assert_eq!(read(Some("Stop"), "{}").as_deref(), Ok("Stop"));
        let none = "the input does not say its event in `hook_event_name`, and no event was given beside it";
        assert_eq!(read(Some(""), "{}"), Err(none.to_owned()));
        assert_eq!(
            read(None, r#"{"hook_event_name":"PreToolUse","tool_input":{}}"#),
            Err("the input of PreToolUse has no `tool_name`".to_owned())
        );
        assert_eq!(
            read(None, r#"{"hook_event_name":"PreToolUse","tool_name":7}"#),
            Err("`tool_name` is a number, not a string".to_owned())
        );
    }
}
