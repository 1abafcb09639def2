//! What the conditions and expressions of rules see of a call.

use std::path::Path;

use hookd_condition::{Call, Claimed, Facts};

use crate::model::{Caller, Form, Rule, Tier, Trigger, mcp_server, tool_kind};

/// The facts of `trigger` in this form. Nothing is parsed until an expression asks.
#[must_use]
pub fn facts<'a>(trigger: &'a Trigger, form: &'a Form) -> Facts<'a> {
    let tool = trigger.tool_call.as_ref();
    let some = |text: &'a str| Some(text).filter(|text| !text.is_empty());
    let said_or = |said: fn(&'a crate::model::ToolCall) -> &'a str, derived: fn(&'a str) -> Option<&'a str>| {
        tool.and_then(|call| some(said(call)).or_else(|| derived(&call.tool)))
    };
    Facts::new(Call {
        event: &trigger.event_name,
        session_id: &trigger.session_id,
        tool: tool.map(|call| call.tool.as_str()),
        tool_kind: said_or(|call| &call.kind, |tool| Some(tool_kind(tool)).filter(|kind| !kind.is_empty())),
        mcp_server: said_or(|call| &call.mcp_server, mcp_server),
        params: &form.params,
        result: form.result.as_deref(),
        payload: some(&trigger.payload),
        cwd: some(&trigger.cwd),
        timestamp_ms: trigger.timestamp_ms,
        labels: trigger.identity.labels.as_slice(),
        claimed: trigger.caller.as_ref().map_or_else(Claimed::default, claimed),
    })
}

/// Where `/path` in the `if` of `rule` starts: the project that its settings file belongs to, if the agent works in it.
/// Of any other file nobody says where the caller has it, so `None`, which is any directory: then the rule runs rather
/// than not.
#[must_use]
pub fn settings_root<'r>(rule: &'r Rule, cwd: Option<&str>) -> Option<&'r str> {
    let directory = rule.file.parent().filter(|directory| directory.ends_with(".claude"));
    let is_of_project = rule.tier == Tier::Shared && rule.file.ends_with("settings.json");
    let project = directory?.parent().filter(|_| is_of_project)?;
    Path::new(cwd?).starts_with(project).then(|| project.to_str()).flatten()
}

fn claimed(caller: &Caller) -> Claimed<'_> {
    Claimed {
        agent: &caller.agent,
        agent_version: &caller.agent_version,
        project: &caller.project,
        user: &caller.user,
        parent_session_id: &caller.parent_session_id,
        agent_id: &caller.agent_id,
        agent_type: &caller.agent_type,
        parent_agent_id: &caller.parent_agent_id,
        labels: &caller.labels,
    }
}
