//! The everyday calls of one agent session.

use std::time::SystemTime;

use serde_json::json;

use crate::{
    Client, Gate,
    proto::{Caller, Capabilities, ToolCall, TriggerRequest},
};

/// One session of an agent: asks about its events, each with what was set here and the time of the call.
#[derive(Debug, Clone)]
pub struct Session {
    client: Client,
    template: TriggerRequest,
}

impl Session {
    pub(crate) fn new(client: Client, id: String) -> Self {
        Self { client, template: TriggerRequest { session_id: id, ..TriggerRequest::default() } }
    }

    /// Sets the agent's working directory, an absolute path.
    #[must_use]
    pub fn cwd(mut self, cwd: impl Into<String>) -> Self {
        self.template.cwd = cwd.into();
        self
    }

    /// Sets what the agent says of itself.
    #[must_use]
    pub fn caller(mut self, caller: Caller) -> Self {
        self.template.caller = Some(caller);
        self
    }

    /// Sets what the agent can carry out. Unless set: everything.
    #[must_use]
    pub fn capabilities(mut self, capabilities: Capabilities) -> Self {
        self.template.capabilities = Some(capabilities);
        self
    }

    /// Everything that is sent with each event, to set the rest of it.
    pub fn template_mut(&mut self) -> &mut TriggerRequest {
        &mut self.template
    }

    /// Before a tool runs. `params_json` is a JSON object.
    pub async fn pre_tool_use(&self, tool: impl Into<String>, params_json: impl Into<String>) -> Gate {
        let call = ToolCall { tool: tool.into(), params_json: params_json.into(), ..ToolCall::default() };
        self.tool_event("PreToolUse", call).await
    }

    /// After a tool ran. `params_json` is a JSON object, `result_json` any JSON value.
    pub async fn post_tool_use(
        &self,
        tool: impl Into<String>,
        params_json: impl Into<String>,
        result_json: impl Into<String>,
    ) -> Gate {
        let call = ToolCall {
            tool: tool.into(),
            params_json: params_json.into(),
            result_json: Some(result_json.into()),
            ..ToolCall::default()
        };
        self.tool_event("PostToolUse", call).await
    }

    /// Before the model sees a prompt.
    pub async fn user_prompt_submit(&self, prompt: &str) -> Gate {
        self.event("UserPromptSubmit", json!({ "prompt": prompt }).to_string()).await
    }

    /// When the session starts; `source` says how (`startup`, `resume`, `clear`, `compact`).
    pub async fn session_start(&self, source: &str) -> Gate {
        self.event("SessionStart", json!({ "source": source }).to_string()).await
    }

    /// When the session ends; `reason` says why.
    pub async fn session_end(&self, reason: &str) -> Gate {
        self.event("SessionEnd", json!({ "reason": reason }).to_string()).await
    }

    /// When the agent wants to stop. `continued`: it goes on already because of a [`Gate::Continue`], which lets rules
    /// keep from holding it for ever.
    pub async fn stop(&self, continued: bool) -> Gate {
        self.event("Stop", json!({ "stop_hook_active": continued }).to_string()).await
    }

    /// Any event about a tool call.
    pub async fn tool_event(&self, event: impl Into<String>, call: ToolCall) -> Gate {
        self.trigger(TriggerRequest { event: event.into(), tool_call: Some(call), ..self.template.clone() }).await
    }

    /// Any event without a tool call. `payload_json` is a JSON object, or empty.
    pub async fn event(&self, event: impl Into<String>, payload_json: impl Into<String>) -> Gate {
        let payload_json = payload_json.into();
        self.trigger(TriggerRequest { event: event.into(), payload_json, ..self.template.clone() }).await
    }

    async fn trigger(&self, mut request: TriggerRequest) -> Gate {
        request.timestamp.get_or_insert_with(|| SystemTime::now().into());
        self.client.trigger(request).await
    }
}
