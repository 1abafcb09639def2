/// A variable of expressions (design §4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Variable {
    /// `event`
    Event,
    /// `sessionId`
    SessionId,
    /// `tool`
    Tool,
    /// `toolKind`
    ToolKind,
    /// `mcpServer`
    McpServer,
    /// `params`
    Params,
    /// `result`
    Result,
    /// `payload`
    Payload,
    /// `cwd`
    Cwd,
    /// `timestamp`
    Timestamp,
    /// `caller`
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
    #[must_use]
    pub fn name(self) -> &'static str {
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

    fn bit(self) -> u16 {
        1 << u16::from(self as u8)
    }
}

/// The variables that an expression mentions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct References(u16);

impl References {
    /// Whether the expression mentions `variable`.
    #[must_use]
    pub fn contains(self, variable: Variable) -> bool {
        self.0 & variable.bit() != 0
    }

    pub(crate) fn insert(&mut self, variable: Variable) {
        self.0 |= variable.bit();
    }
}
