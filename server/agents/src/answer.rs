use hookd_json::{Map, Value};
use serde_json::json;

use crate::{
    Agent, Call, Told, Transport, amazon_q, claude_code, cline, codex, copilot_cli, cursor, factory_droid, gemini_cli,
    goose, kiro, qwen_code, v1, vscode, windsurf,
};

/// What an agent gets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// Standard output, or the body of the http answer (its status is 200).
    pub stdout: String,
    /// Standard error. Empty over http.
    pub stderr: String,
    /// Exit code. 0 over http.
    pub exit_code: u8,
}

/// What happens where hookd cannot be asked. On stop-like events the agent may always stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnUnavailable {
    /// Block, on events that can block.
    Block,
    /// Go on, as if there were no hook.
    Allow,
}

/// Puts hookd's answer into the agent's words. What the agent cannot carry out, and what is not understood, becomes the
/// event's safe side.
#[must_use]
pub fn answer(call: &Call, response: &v1::TriggerResponse) -> Answer {
    write(call, Told::of(call, response))
}

/// The answer where there is none of hookd's: the input could not be read, hookd was not there, not in time, refused.
/// `event` is the native name, where `input` is not there to say it; without either, the event is taken for one that can
/// block. `why` is one line for the model or the person.
#[must_use]
pub fn unanswered(
    agent: Agent,
    event: Option<&str>,
    input: Option<&Call>,
    transport: Transport,
    policy: OnUnavailable,
    why: &str,
) -> Answer {
    let blank;
    let call = match input {
        Some(call) => call,
        None => {
            blank = Call::blank(agent, event.unwrap_or_default(), transport);
            &blank
        }
    };
    let told = match policy {
        OnUnavailable::Allow => Told::nothing(),
        OnUnavailable::Block => {
            let why = if why.trim().is_empty() { "no reason is known" } else { why };
            Told::safe_side(call, format!("hookd gave no decision: {why}"))
        }
    };
    write(call, told)
}

fn write(call: &Call, told: Told) -> Answer {
    match call.agent {
        Agent::ClaudeCode => claude_code::write(call, told),
        Agent::Codex => codex::write(call, told),
        Agent::GeminiCli => gemini_cli::write(call, told),
        Agent::Cursor => cursor::write(call, told),
        Agent::CopilotCli => copilot_cli::write(call, told),
        Agent::VsCode => vscode::write(call, told),
        Agent::QwenCode => qwen_code::write(call, told),
        Agent::FactoryDroid => factory_droid::write(call, told),
        Agent::Windsurf => windsurf::write(call, told),
        Agent::Goose => goose::write(call, told),
        Agent::Cline => cline::write(call, told),
        Agent::AmazonQ => amazon_q::write(call, told),
        Agent::Kiro => kiro::write(call, told),
    }
}

impl Answer {
    /// Exit 0 and no output: no opinion, at most agents.
    pub(crate) fn silent() -> Self {
        Self::default()
    }

    /// Exit 0 and this text.
    pub(crate) fn text(stdout: String) -> Self {
        Self { stdout, ..Self::default() }
    }

    /// Exit 0 and one JSON object.
    pub(crate) fn object(object: Map<String, Value>) -> Self {
        Self::text(hookd_json::to_text(&Value::Object(object)))
    }

    /// As [`Answer::object`], but an empty object is no output.
    pub(crate) fn object_or_silent(object: Map<String, Value>) -> Self {
        if object.is_empty() { Self::silent() } else { Self::object(object) }
    }

    /// This exit code and this text on standard error, never empty: agents take exit 2 without a text for a failed hook.
    /// Over http, where an agent whose answer is an exit code has none, the body says it: `{"exitCode", "stderr"}`.
    pub(crate) fn exit(transport: Transport, exit_code: u8, stderr: String) -> Self {
        let stderr = if stderr.trim().is_empty() { "Blocked by hook".to_owned() } else { stderr };
        match transport {
            Transport::Command => Self { stdout: String::new(), stderr, exit_code },
            Transport::Http => Self::text(json!({ "exitCode": exit_code, "stderr": stderr }).to_string()),
        }
    }
}
