//! What an expression sees of a call.

use std::{
    borrow::Cow,
    sync::{Arc, OnceLock},
};

use hookd_json::{Json, Members};

use crate::{EvaluationError, functions::ShellTexts, variable::Variable};

/// One form of one call, borrowed. Texts that the call does not have are `None`, or empty in [`Claimed`].
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The event's name: `event`.
    pub event: &'a str,
    /// The agent's session, which may be empty: `sessionId`.
    pub session_id: &'a str,
    /// The tool's name: `tool`, `null` without a tool call.
    pub tool: Option<&'a str>,
    /// What kind of tool it is: `toolKind`, `null` where unknown.
    pub tool_kind: Option<&'a str>,
    /// The MCP server of the tool: `mcpServer`, `null` for other tools.
    pub mcp_server: Option<&'a str>,
    /// The parameters of this form, JSON text: `params`. Empty is `{}`.
    pub params: &'a str,
    /// The result of this form, JSON text: `result`, `null` where there is none.
    pub result: Option<&'a str>,
    /// The event's payload, JSON text: `payload`, `{}` where there is none.
    pub payload: Option<&'a str>,
    /// The agent's working directory: `cwd`, `null` where unknown.
    pub cwd: Option<&'a str>,
    /// When the event happened, in milliseconds since 1970: `timestamp`.
    pub timestamp_ms: i64,
    /// What hookd knows of the caller from the connection: `caller.labels`.
    pub labels: &'a [(String, String)],
    /// What the caller says of itself: `caller.claimed`.
    pub claimed: Claimed<'a>,
}

/// What the caller says of itself, unproven. An empty text is a missing key of `caller.claimed`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Claimed<'a> {
    /// `caller.claimed.agent`
    pub agent: &'a str,
    /// `caller.claimed.agentVersion`
    pub agent_version: &'a str,
    /// `caller.claimed.project`
    pub project: &'a str,
    /// `caller.claimed.user`
    pub user: &'a str,
    /// `caller.claimed.parentSessionId`
    pub parent_session_id: &'a str,
    /// `caller.claimed.agentId`
    pub agent_id: &'a str,
    /// `caller.claimed.agentType`
    pub agent_type: &'a str,
    /// `caller.claimed.parentAgentId`
    pub parent_agent_id: &'a str,
    /// `caller.claimed.labels`, always there
    pub labels: &'a [(String, String)],
}

/// The keys of `caller.claimed` that are strings.
pub(crate) const CLAIMED: [&str; 8] =
    ["agent", "agentVersion", "project", "user", "parentSessionId", "agentId", "agentType", "parentAgentId"];

impl<'a> Claimed<'a> {
    /// The text of `caller.claimed.KEY`.
    pub(crate) fn get(&self, key: &str) -> Option<&'a str> {
        let text = match key {
            "agent" => self.agent,
            "agentVersion" => self.agent_version,
            "project" => self.project,
            "user" => self.user,
            "parentSessionId" => self.parent_session_id,
            "agentId" => self.agent_id,
            "agentType" => self.agent_type,
            "parentAgentId" => self.parent_agent_id,
            _ => return None,
        };
        Some(text).filter(|text| !text.is_empty())
    }
}

/// The facts of one form of one call. Cheap to make: texts are parsed when the first expression asks, and once.
#[derive(Debug)]
pub struct Facts<'a> {
    call: Call<'a>,
    params: OnceLock<Result<Json<'a>, EvaluationError>>,
    result: OnceLock<Result<Json<'a>, EvaluationError>>,
    payload: OnceLock<Result<Json<'a>, EvaluationError>>,
    caller: OnceLock<Json<'a>>,
    /// What the groups of patterns found, by the group's id. Later groups are asked anew.
    found: [OnceLock<(u64, Option<u64>)>; 8],
    shell: OnceLock<Arc<ShellTexts>>,
}

impl<'a> Facts<'a> {
    /// The facts of `call`.
    #[must_use]
    pub fn new(call: Call<'a>) -> Self {
        Self {
            call,
            params: OnceLock::new(),
            result: OnceLock::new(),
            payload: OnceLock::new(),
            caller: OnceLock::new(),
            found: [const { OnceLock::new() }; 8],
            shell: OnceLock::new(),
        }
    }

    /// The call that they are of.
    #[must_use]
    pub fn call(&self) -> &Call<'a> {
        &self.call
    }

    pub(crate) fn params(&self) -> Result<&Json<'a>, &EvaluationError> {
        self.params
            .get_or_init(|| parsed("params", Some(self.call.params), || Json::Object(Members::default())))
            .as_ref()
    }

    pub(crate) fn result(&self) -> Result<&Json<'a>, &EvaluationError> {
        self.result.get_or_init(|| parsed("result", self.call.result, || Json::Null)).as_ref()
    }

    pub(crate) fn payload(&self) -> Result<&Json<'a>, &EvaluationError> {
        self.payload.get_or_init(|| parsed("payload", self.call.payload, || Json::Object(Members::default()))).as_ref()
    }

    /// What `find` gave for the group `id`, asked once. `None`: one by one.
    pub(crate) fn remembered(&self, id: u64, find: impl FnOnce() -> Option<u64>) -> Option<u64> {
        for slot in &self.found {
            match slot.get() {
                Some((known, found)) if *known == id => return *found,
                Some(_) => {}
                None => {
                    let found = find();
                    // Facts are asked by one evaluation at a time, so the slot is still empty.
                    let _ = slot.set((id, found));
                    return found;
                }
            }
        }
        None
    }

    /// The shell texts that were told already: many rules ask for the same one.
    pub(crate) fn shell(&self) -> &Arc<ShellTexts> {
        self.shell.get_or_init(Arc::default)
    }

    pub(crate) fn caller(&self) -> &Json<'a> {
        self.caller.get_or_init(|| {
            let claimed = self.call.claimed;
            let said = CLAIMED.iter().filter_map(|key| Some((*key, text(claimed.get(key)?))));
            let said = said.chain([("labels", object(claimed.labels))]).collect();
            Json::Object([("labels", object(self.call.labels)), ("claimed", Json::Object(said))].into_iter().collect())
        })
    }
}

fn text(text: &str) -> Json<'_> {
    Json::Text(Cow::Borrowed(text))
}

/// A label that is given twice counts as it was given last.
fn object(pairs: &[(String, String)]) -> Json<'_> {
    Json::Object(pairs.iter().rev().map(|(key, value)| (key.as_str(), text(value))).collect())
}

fn parsed<'a>(
    what: &str,
    text: Option<&'a str>,
    absent: impl FnOnce() -> Json<'a>,
) -> Result<Json<'a>, EvaluationError> {
    match text {
        None | Some("") => Ok(absent()),
        Some(text) => hookd_json::read(text).map_err(|error| EvaluationError::new(format!("`{what}`: {error}"))),
    }
}

/// The value of a variable.
pub(crate) enum Seen<'f> {
    Text(Option<&'f str>),
    Int(i64),
    Json(Result<&'f Json<'f>, &'f EvaluationError>),
}

/// The value of `variable` in `facts`.
pub(crate) fn value<'f>(facts: &'f Facts<'_>, variable: Variable) -> Seen<'f> {
    let call = &facts.call;
    match variable {
        Variable::Event => Seen::Text(Some(call.event)),
        Variable::SessionId => Seen::Text(Some(call.session_id)),
        Variable::Tool => Seen::Text(call.tool),
        Variable::ToolKind => Seen::Text(call.tool_kind),
        Variable::McpServer => Seen::Text(call.mcp_server),
        Variable::Cwd => Seen::Text(call.cwd),
        Variable::Timestamp => Seen::Int(call.timestamp_ms),
        Variable::Params => Seen::Json(facts.params()),
        Variable::Result => Seen::Json(facts.result()),
        Variable::Payload => Seen::Json(facts.payload()),
        Variable::Caller => Seen::Json(Ok(facts.caller())),
    }
}
