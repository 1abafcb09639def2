//! Requests as agents make them.

use std::{path::Path, time::Duration};

use hookd_proto::v1::{Capabilities, Capability, ToolCall, TriggerRequest};
use serde_json::Value;

/// An event without a tool call.
#[must_use]
pub fn event(name: &str) -> TriggerRequest {
    TriggerRequest { event: name.to_owned(), session_id: "s1".to_owned(), ..Default::default() }
}

/// `PreToolUse` of `tool` with `params`.
#[must_use]
pub fn pre_tool_use(tool: &str, params: Value) -> TriggerRequest {
    event("PreToolUse").with_tool(tool, params)
}

/// `PostToolUse` of `tool` with `params`, which gave `result`.
#[must_use]
pub fn post_tool_use(tool: &str, params: Value, result: Value) -> TriggerRequest {
    let mut request = event("PostToolUse").with_tool(tool, params);
    if let Some(call) = &mut request.tool_call {
        call.result_json = Some(result.to_string());
    }
    request
}

/// `request` with a deadline.
#[must_use]
pub fn with_deadline(request: TriggerRequest, deadline: Duration) -> tonic::Request<TriggerRequest> {
    let mut request = tonic::Request::new(request);
    request.set_timeout(deadline);
    request
}

/// What else a request may say.
pub trait TriggerRequestExt: Sized {
    /// Of this tool call.
    #[must_use]
    fn with_tool(self, tool: &str, params: Value) -> Self;
    /// From an agent that works in this folder.
    #[must_use]
    fn in_cwd(self, cwd: impl AsRef<Path>) -> Self;
    /// With what else belongs to the event.
    #[must_use]
    fn with_payload(self, payload: Value) -> Self;
    /// From a caller that can carry out these decisions and no others.
    #[must_use]
    fn that_can(self, supported: &[Capability]) -> Self;
}

impl TriggerRequestExt for TriggerRequest {
    fn with_tool(mut self, tool: &str, params: Value) -> Self {
        self.tool_call =
            Some(ToolCall { tool: tool.to_owned(), params_json: params.to_string(), ..Default::default() });
        self
    }

    fn in_cwd(mut self, cwd: impl AsRef<Path>) -> Self {
        cwd.as_ref().to_str().unwrap().clone_into(&mut self.cwd);
        self
    }

    fn with_payload(mut self, payload: Value) -> Self {
        self.payload_json = payload.to_string();
        self
    }

    fn that_can(mut self, supported: &[Capability]) -> Self {
        self.capabilities = Some(Capabilities { supported: supported.iter().map(|can| (*can).into()).collect() });
        self
    }
}
