//! What is asked about: one event.

use std::path::PathBuf;

use clap::Args as Group;

/// One event, from flags or from a file.
#[derive(Debug, Group)]
pub(crate) struct EventArgs {
    /// Name of the event, such as PreToolUse.
    #[arg(required_unless_present = "input")]
    pub(crate) event: Option<String>,
    /// The whole event as one JSON object, from a file or from standard input (`-`): {"event", "sessionId",
    /// "timestamp" (ms), "toolCall": {"tool", "params", "result", "toolUseId"}, "cwd", "payload", "caller",
    /// "requestId"}; only "event" is required.
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "event", "tool", "params", "result", "tool_use_id", "session", "payload", "request_id", "agent", "agent_type",
        "project", "user", "label",
    ])]
    pub(crate) input: Option<PathBuf>,
    /// The tool.
    #[arg(long)]
    pub(crate) tool: Option<String>,
    /// The tool's parameters, a JSON object.
    #[arg(long, value_name = "JSON", requires = "tool")]
    pub(crate) params: Option<String>,
    /// The tool's result, any JSON value.
    #[arg(long, value_name = "JSON", requires = "tool")]
    pub(crate) result: Option<String>,
    /// The agent's id of the tool call.
    #[arg(long, value_name = "ID", requires = "tool")]
    pub(crate) tool_use_id: Option<String>,
    /// The agent's session.
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// What else belongs to the event, a JSON object.
    #[arg(long, value_name = "JSON")]
    pub(crate) payload: Option<String>,
    /// The agent's working directory [default: the current one].
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// The caller's id of this request.
    #[arg(long, value_name = "ID")]
    pub(crate) request_id: Option<String>,
    /// Name of the agent program, as the agent claims.
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Type of the agent, as it claims.
    #[arg(long, value_name = "TYPE")]
    pub(crate) agent_type: Option<String>,
    /// Project, as the agent claims.
    #[arg(long)]
    pub(crate) project: Option<String>,
    /// Person, as the agent claims.
    #[arg(long)]
    pub(crate) user: Option<String>,
    /// A label, as the agent claims. May be given several times.
    #[arg(long, value_name = "NAME=VALUE", value_parser = label)]
    pub(crate) label: Vec<(String, String)>,
    /// The revision of the rules that has to be in force.
    #[arg(long, value_name = "REVISION")]
    pub(crate) expect_revision: Option<String>,
}

/// What to explain, and for whom.
#[derive(Debug, Group)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    pub(crate) event: EventArgs,
    /// A verified label of the caller to explain it for; with any, whoever asks does not count. May be given several
    /// times.
    #[arg(long = "as", value_name = "NAME=VALUE", value_parser = label)]
    pub(crate) labels: Vec<(String, String)>,
}

pub(super) fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}
