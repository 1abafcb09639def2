/// A variable of expressions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Variable {
    Event,
    SessionId,
    Tool,
    ToolKind,
    McpServer,
    Params,
    Result,
    Payload,
    Cwd,
    Timestamp,
    Caller,
}

/// All variables.
pub(crate) const VARIABLES: [Variable; 11] = [
    Variable::Event,
    Variable::SessionId,
    Variable::Tool,
    Variable::ToolKind,
    Variable::McpServer,
    Variable::Params,
    Variable::Result,
    Variable::Payload,
    Variable::Cwd,
    Variable::Timestamp,
    Variable::Caller,
];

impl Variable {
    /// The name in expressions.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::SessionId => "sessionId",
            Self::Tool => "tool",
            Self::ToolKind => "toolKind",
            Self::McpServer => "mcpServer",
            Self::Params => "params",
            Self::Result => "result",
            Self::Payload => "payload",
            Self::Cwd => "cwd",
            Self::Timestamp => "timestamp",
            Self::Caller => "caller",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        VARIABLES.into_iter().find(|variable| variable.name() == name)
    }
}
