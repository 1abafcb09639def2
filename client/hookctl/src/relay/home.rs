//! Where the person's own files are.

use std::{
    env, fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

const USERS: &str = "/etc/passwd";

/// The home directory of the user that this process runs as. `None`: it is not known, so the person has no files.
///
/// It comes from the list of users and not from `HOME`: a repository's settings can set that variable for the hooks of
/// an agent, and with it they would bring their own `relay.yaml` and their own list of what is trusted. For a user that
/// is not in that list (a directory service knows it), `HOME` counts where only root could have put a folder there.
pub(crate) fn home() -> Option<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let listed = fs::read_to_string(USERS).ok().and_then(|users| in_list(&users, user));
    listed.or_else(|| env::var_os("HOME").map(PathBuf::from).filter(|home| set_up_by_root(home, user)))
}

fn in_list(users: &str, user: u32) -> Option<PathBuf> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':').skip(2);
        let id = fields.next()?.parse::<u32>().ok()?;
        let home = fields.nth(2)?;
        (id == user && home.starts_with('/')).then(|| PathBuf::from(home))
    })
}

fn set_up_by_root(home: &Path, user: u32) -> bool {
    let by_root = |path: &Path| fs::metadata(path).is_ok_and(|it| it.uid() == 0 && it.mode() & 0o022 == 0);
    let of_user = fs::symlink_metadata(home).is_ok_and(|it| it.is_dir() && it.uid() == user);
    home.is_absolute() && of_user && user != 0 && home.parent().is_some_and(by_root)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_users_says_it_and_broken_lines_are_nobody() {
        let users = "root:x:0:0:root:/root:/bin/sh\nbroken\n:::\nme:x:1000:1000:Me,,,:/home/me:/bin/sh\n\
                     rel:x:1001:1001::home/rel:/bin/sh\nshort:x:1002:1002:";
        let expected = [(0, Some("/root")), (1000, Some("/home/me")), (1001, None), (1002, None), (7, None)];
        for (user, home) in expected {
            assert_eq!(in_list(users, user), home.map(PathBuf::from), "{user}");
        }
    }

    #[test]
    fn a_folder_that_a_user_can_make_is_nobodys_home() {
        let folder = tempfile::tempdir().unwrap();
        let user = fs::metadata(folder.path()).unwrap().uid();
        // Its parent is writable for everyone.
        assert!(!set_up_by_root(folder.path(), user));
        assert!(!set_up_by_root(Path::new("relative"), user));
        assert!(!set_up_by_root(Path::new("/"), user));
    }
}
