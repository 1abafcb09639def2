/// One decision that a caller may or may not be able to carry out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    /// Asking a person.
    Ask,
    /// Suspending the call.
    Defer,
    /// Keeping something from happening.
    Block,
    /// Running the tool with other parameters.
    ModifyParams,
    /// Showing another result.
    ModifyResult,
    /// Giving the model additional context.
    AdditionalContext,
    /// Stopping the agent.
    Halt,
    /// Making an agent that wants to stop go on.
    ForceContinue,
}

/// What a caller can carry out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities(u16);

impl Capabilities {
    /// Everything: what a caller is taken for that says nothing.
    pub const ALL: Self = Self(u16::MAX);
    /// Nothing.
    pub const NONE: Self = Self(0);

    /// These and `capability`.
    #[must_use]
    pub fn with(self, capability: Capability) -> Self {
        Self(self.0 | Self::bit(capability))
    }

    /// Whether `capability` is among them.
    #[must_use]
    pub fn has(self, capability: Capability) -> bool {
        self.0 & Self::bit(capability) != 0
    }

    fn bit(capability: Capability) -> u16 {
        match capability {
            Capability::Ask => 1,
            Capability::Defer => 1 << 1,
            Capability::Block => 1 << 2,
            Capability::ModifyParams => 1 << 3,
            Capability::ModifyResult => 1 << 4,
            Capability::AdditionalContext => 1 << 5,
            Capability::Halt => 1 << 6,
            Capability::ForceContinue => 1 << 7,
        }
    }
}
