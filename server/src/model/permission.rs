use std::fmt;

use super::Labels;

/// One thing that a caller may or may not do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Permission {
    /// Have events judged: `HookService` and the endpoints of plain HTTP. Reflection needs it too.
    Trigger,
    /// See what is in force: `GetStatus`, `ListRules` and `Explain` of `AdminService`.
    Read,
    /// Have rules read again: `Reload` of `AdminService`.
    Reload,
}

/// A set of permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Permissions(u8);

/// What identities with certain labels may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Each of these has to be a label of the identity, with this value. None: whoever is let in.
    pub match_labels: Labels,
    /// What they may do.
    pub may: Permissions,
}

impl Permission {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Trigger, Self::Read, Self::Reload];

    /// Its name in settings and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Trigger => "trigger",
            Self::Read => "read",
            Self::Reload => "reload",
        }
    }

    fn bit(self) -> u8 {
        match self {
            Self::Trigger => 1,
            Self::Read => 2,
            Self::Reload => 4,
        }
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Permissions {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Everything.
    pub const ALL: Self = Self(7);

    /// These and those.
    #[must_use]
    pub fn and(self, more: Self) -> Self {
        Self(self.0 | more.0)
    }

    /// Whether `permission` is one of them.
    #[must_use]
    pub fn has(self, permission: Permission) -> bool {
        self.0 & permission.bit() != 0
    }

    /// Each of them.
    pub fn iter(self) -> impl Iterator<Item = Permission> {
        Permission::ALL.into_iter().filter(move |permission| self.has(*permission))
    }
}

impl FromIterator<Permission> for Permissions {
    fn from_iter<I: IntoIterator<Item = Permission>>(permissions: I) -> Self {
        Self(permissions.into_iter().fold(0, |all, permission| all | permission.bit()))
    }
}

impl Grant {
    /// What all `grants` together let an identity with these `labels` do.
    #[must_use]
    pub fn all(grants: &[Self], labels: &Labels) -> Permissions {
        let matching = grants.iter().filter(|grant| grant.matches(labels));
        matching.fold(Permissions::NONE, |all, grant| all.and(grant.may))
    }

    fn matches(&self, labels: &Labels) -> bool {
        self.match_labels.as_slice().iter().all(|(key, value)| labels.get(key) == Some(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn grants_add_up_over_all_that_match_every_label() {
        let grants = [
            Grant { match_labels: labels(&[]), may: [Permission::Trigger].into_iter().collect() },
            Grant { match_labels: labels(&[("role", "admin")]), may: [Permission::Read].into_iter().collect() },
            Grant {
                match_labels: labels(&[("role", "admin"), ("tenant", "a")]),
                may: [Permission::Reload].into_iter().collect(),
            },
        ];
        let may = |pairs: &[(&str, &str)]| {
            Grant::all(&grants, &labels(pairs)).iter().map(Permission::name).collect::<Vec<_>>()
        };
        assert_eq!(may(&[]), ["trigger"]);
        assert_eq!(may(&[("role", "user")]), ["trigger"]);
        assert_eq!(may(&[("role", "admin"), ("tenant", "b")]), ["trigger", "read"]);
        assert_eq!(may(&[("role", "admin"), ("tenant", "a"), ("user", "x")]), ["trigger", "read", "reload"]);
        assert_eq!(Grant::all(&[], &labels(&[("role", "admin")])), Permissions::NONE);
        assert_eq!(Permission::ALL.into_iter().collect::<Permissions>(), Permissions::ALL);
    }
}
