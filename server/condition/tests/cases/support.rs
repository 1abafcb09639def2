//! A call to evaluate on.

use hookd_condition::{Call, Claimed, Facts};

/// A call of `Bash` with these texts.
pub(crate) fn call<'a>(params: &'a str, result: Option<&'a str>, payload: Option<&'a str>) -> Call<'a> {
    Call {
        event: "PreToolUse",
        session_id: "s-1",
        tool: Some("Bash"),
        tool_kind: Some("execute"),
        mcp_server: None,
        params,
        result,
        payload,
        cwd: Some("/home/ann/project"),
        timestamp_ms: 1_700_000_000_123,
        labels: &[],
        claimed: Claimed { agent: "coder", user: "ann", ..Claimed::default() },
    }
}

/// Its facts.
pub(crate) fn facts(params: &str) -> Facts<'_> {
    Facts::new(call(params, None, None))
}
