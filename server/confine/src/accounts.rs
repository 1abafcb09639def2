//! Users and groups by name or number, from the system's files. Directories of users elsewhere (LDAP and the like) are not
//! asked; a number needs none.

use std::{fs, path::PathBuf};

use crate::Account;

/// The account that a user and a group stand for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its numbers.
    pub account: Account,
    /// The user's home, where a user is named that has one.
    pub home: Option<PathBuf>,
}

impl Found {
    /// Looks up a user and a group, each by name or number. Without a user it is this process's own, without a group the
    /// user's. Reads `/etc/passwd` and `/etc/group`.
    ///
    /// # Errors
    /// One line: who is not there.
    pub fn look_up(user: Option<&str>, group: Option<&str>) -> Result<Self, String> {
        let read = |path: &str| fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"));
        let own = rustix::process::geteuid().as_raw();
        // A number needs no list.
        let (users, groups) = (read("/etc/passwd"), read("/etc/group"));
        find(user, group, own, &users.unwrap_or_default(), &groups.unwrap_or_default())
    }
}

/// Whether this process may run programs as others, and end them.
#[must_use]
pub fn may_switch() -> bool {
    #[cfg(target_os = "linux")]
    {
        use rustix::thread::{CapabilitySet, capabilities};

        let needed = CapabilitySet::SETUID | CapabilitySet::SETGID | CapabilitySet::KILL;
        capabilities(None).is_ok_and(|sets| sets.effective.contains(needed))
    }
    #[cfg(not(target_os = "linux"))]
    false
}

fn find(user: Option<&str>, group: Option<&str>, own: u32, users: &str, groups: &str) -> Result<Found, String> {
    let entry = user.and_then(|user| entry(users, user));
    let (user_id, home) = match (user, &entry) {
        (None, _) => (own, None),
        (Some(_), Some(entry)) => (entry.id, entry.rest.get(2).filter(|home| home.starts_with('/')).map(PathBuf::from)),
        (Some(user), None) => (user.parse().map_err(|_| format!("there is no user `{user}` in /etc/passwd"))?, None),
    };
    let group_id = match (group, &entry) {
        (Some(group), _) => match self::entry(groups, group) {
            Some(entry) => entry.id,
            None => group.parse().map_err(|_| format!("there is no group `{group}` in /etc/group"))?,
        },
        (None, Some(entry)) => {
            let group = entry.rest.first().and_then(|group| group.parse().ok());
            group.ok_or_else(|| format!("user {user_id} has no group in /etc/passwd"))?
        }
        (None, None) => return Err(format!("user {user_id} is not in /etc/passwd, so the group has to be named too")),
    };
    Ok(Found { account: Account { user: user_id, group: group_id }, home })
}

struct Entry<'t> {
    id: u32,
    rest: Vec<&'t str>,
}

/// The line of whoever has this name, or else this number.
fn entry<'t>(list: &'t str, who: &str) -> Option<Entry<'t>> {
    let entries = || {
        list.lines().filter_map(|line| {
            let mut fields = line.split(':');
            let (name, _, id) = (fields.next()?, fields.next()?, fields.next()?.parse().ok()?);
            Some((name, Entry { id, rest: fields.collect() }))
        })
    };
    let by_name = entries().find(|(name, _)| *name == who);
    let number = who.parse::<u32>().ok();
    by_name.or_else(|| entries().find(|(_, entry)| Some(entry.id) == number)).map(|(_, entry)| entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_groups_are_found_by_name_and_by_number() {
        let users = "root:x:0:0:root:/root:/bin/sh\nbroken\n::::\nhooks:x:900:901:Hooks:/var/lib/hooks:/bin/false\n\
                     homeless:x:902:903::nowhere:\ngroupless:x:904:x::/:\n";
        let groups = "root:x:0:\nhooks:x:901:\nguards:x:905:hooks\n";
        let found = |user, group, home: Option<&str>| {
            Ok(Found { account: Account { user, group }, home: home.map(PathBuf::from) })
        };
        for (user, group, expected) in [
            (Some("hooks"), None, found(900, 901, Some("/var/lib/hooks"))),
            (Some("900"), None, found(900, 901, Some("/var/lib/hooks"))),
            (Some("hooks"), Some("guards"), found(900, 905, Some("/var/lib/hooks"))),
            (Some("hooks"), Some("4000"), found(900, 4000, Some("/var/lib/hooks"))),
            (Some("homeless"), None, found(902, 903, None)),
            (Some("61234"), Some("61234"), found(61234, 61234, None)),
            (None, Some("guards"), found(77, 905, None)),
            (Some("nobody-here"), None, Err("there is no user `nobody-here` in /etc/passwd".to_owned())),
            (Some("hooks"), Some("gards"), Err("there is no group `gards` in /etc/group".to_owned())),
            (Some("61234"), None, Err("user 61234 is not in /etc/passwd, so the group has to be named too".to_owned())),
            (Some("groupless"), None, Err("user 904 has no group in /etc/passwd".to_owned())),
        ] {
            assert_eq!(find(user, group, 77, users, groups), expected, "{user:?} {group:?}");
        }
    }
}
