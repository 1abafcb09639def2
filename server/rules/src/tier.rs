use std::fmt;

/// Where a rule comes from. The order is that of authority: [`Tier::Managed`] is the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// A plugin's rules.
    Plugin,
    /// A project's rules.
    Shared,
    /// A person's rules.
    Local,
    /// Central rules of one tenant.
    Team,
    /// The organisation's rules.
    Managed,
}

impl Tier {
    /// All tiers in evaluation order, managed first (law 1).
    pub const ALL: [Self; 5] = [Self::Managed, Self::Team, Self::Local, Self::Shared, Self::Plugin];

    /// The name in settings and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Managed => "managed",
            Self::Team => "team",
            Self::Local => "local",
            Self::Shared => "shared",
            Self::Plugin => "plugin",
        }
    }

    /// The tier of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tier| tier.name() == name)
    }

    /// Managed and team rules are central: their files are whole or not at all (law 10), their commands run in the
    /// directory of their file, and they are never brought by a caller.
    #[must_use]
    pub fn is_central(self) -> bool {
        self >= Self::Team
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One value for each tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PerTier<T> {
    /// For managed.
    pub managed: T,
    /// For team.
    pub team: T,
    /// For local.
    pub local: T,
    /// For shared.
    pub shared: T,
    /// For plugin.
    pub plugin: T,
}

impl<T> PerTier<T> {
    /// One value for each tier, made by `make`, managed first.
    pub fn from_fn(mut make: impl FnMut(Tier) -> T) -> Self {
        Self {
            managed: make(Tier::Managed),
            team: make(Tier::Team),
            local: make(Tier::Local),
            shared: make(Tier::Shared),
            plugin: make(Tier::Plugin),
        }
    }

    /// The value of `tier`.
    pub fn get(&self, tier: Tier) -> &T {
        match tier {
            Tier::Managed => &self.managed,
            Tier::Team => &self.team,
            Tier::Local => &self.local,
            Tier::Shared => &self.shared,
            Tier::Plugin => &self.plugin,
        }
    }

    /// The value of `tier`, to change.
    pub fn get_mut(&mut self, tier: Tier) -> &mut T {
        match tier {
            Tier::Managed => &mut self.managed,
            Tier::Team => &mut self.team,
            Tier::Local => &mut self.local,
            Tier::Shared => &mut self.shared,
            Tier::Plugin => &mut self.plugin,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evaluation_order_is_the_order_of_authority() {
        assert!(Tier::ALL.windows(2).all(|pair| pair[0] > pair[1]));
        assert_eq!(Tier::ALL.map(|tier| Tier::from_name(tier.name())), Tier::ALL.map(Some));
        assert_eq!(Tier::ALL.map(Tier::is_central), [true, true, false, false, false]);
    }
}
