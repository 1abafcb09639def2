use std::fmt;

/// A decision, from the least to the most restrictive; the order is law 3's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Verdict {
    /// No opinion. Not the same as [`Verdict::Allow`], which silences the agent's own permission prompt.
    #[default]
    None,
    /// Explicitly allowed.
    Allow,
    /// A person has to agree first.
    Ask,
    /// Suspended until someone decides outside.
    Defer,
    /// Blocked.
    Block,
}

impl Verdict {
    /// The name in rule files, handlers' answers and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Defer => "defer",
            Self::Block => "block",
        }
    }

    /// The decision of this name, exactly as written; `none` is not a decision that can be given.
    #[must_use]
    pub fn from_decision(name: &str) -> Option<Self> {
        [Self::Allow, Self::Ask, Self::Defer, Self::Block].into_iter().find(|verdict| verdict.name() == name)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
