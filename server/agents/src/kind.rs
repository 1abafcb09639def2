//! The normalised kind of a tool, and the MCP server that it belongs to, where the name says so.

use crate::v1;

/// Sets `kind`, `mcp_server` and `mcp_tool` of tools whose names are `mcp__<server>__<tool>`. A server's own name may
/// hold `_`.
pub(crate) fn split_double_underscore(call: &mut v1::ToolCall) {
    let split = call.tool.strip_prefix("mcp__").and_then(|rest| rest.rsplit_once("__"));
    let split = split.map(|(server, tool)| (server.to_owned(), tool.to_owned()));
    if let Some((server, tool)) = split.filter(|(server, _)| !server.is_empty()) {
        mcp(call, &server, &tool);
    }
}

/// The tool is `tool` of the MCP server `server` (empty: not known).
pub(crate) fn mcp(call: &mut v1::ToolCall, server: &str, tool: &str) {
    "mcp".clone_into(&mut call.kind);
    server.clone_into(&mut call.mcp_server);
    tool.clone_into(&mut call.mcp_tool);
}

/// Sets the kind from an agent's own list of tools, where the kind is not known yet.
pub(crate) fn from_list(call: &mut v1::ToolCall, kinds: &[(&str, &[&str])]) {
    if call.kind.is_empty()
        && let Some((kind, _)) = kinds.iter().find(|(_, tools)| tools.contains(&call.tool.as_str()))
    {
        (*kind).clone_into(&mut call.kind);
    }
}
