//! A confinement as arguments of a program: `name=value`, one each. They hold paths and numbers, no secrets.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::PathBuf,
    str::FromStr,
};

use crate::{Account, Confinement, Landlock};

/// What ends the words; the program and its arguments come after it.
pub(crate) const END: &str = "--";

pub(crate) fn write(confinement: &Confinement) -> Vec<OsString> {
    let Confinement { account, limits, landlock } = confinement;
    let mut words = Vec::new();
    let mut number = |name: &str, value: Option<u64>| {
        if let Some(value) = value {
            words.push(OsString::from(format!("{name}={value}")));
        }
    };
    number("user", account.map(|account| account.user.into()));
    number("group", account.map(|account| account.group.into()));
    number("address-space", limits.address_space);
    number("cpu-time", limits.cpu_time);
    number("open-files", limits.open_files);
    number("processes", limits.processes);
    number("file-size", limits.file_size);
    if let Some(landlock) = landlock {
        let Landlock { best_effort, system, read, write, write_here, connect, bind } = landlock;
        words.push(if *best_effort { "landlock=best-effort" } else { "landlock=required" }.into());
        for (name, paths) in [("system=", system), ("read=", read), ("write=", write)] {
            words.extend(paths.iter().map(|path| {
                let mut word = OsString::from(name);
                word.push(path);
                word
            }));
        }
        if *write_here {
            words.push("write=.".into());
        }
        words.extend(connect.iter().map(|port| format!("connect={port}").into()));
        words.extend(bind.iter().map(|port| format!("bind={port}").into()));
    }
    words.push(END.into());
    words
}

/// Reads the words up to their end. A word that is not understood is an error: what it stands for would not be set up.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "there is no helper elsewhere"))]
pub(crate) fn read(arguments: &mut impl Iterator<Item = OsString>) -> Result<Confinement, String> {
    let mut confinement = Confinement::default();
    let (mut user, mut group) = (None, None);
    loop {
        let word = arguments.next().ok_or("its words have no end")?;
        if word == END {
            break;
        }
        let not_understood = || format!("the word `{}` is not understood", word.display());
        let at = word.as_bytes().iter().position(|byte| *byte == b'=').ok_or_else(not_understood)?;
        let (name, value) = word.as_bytes().split_at_checked(at).ok_or_else(not_understood)?;
        let value = OsStr::from_bytes(value.get(1..).unwrap_or_default());
        let Confinement { limits, landlock, .. } = &mut confinement;
        match (name, landlock) {
            (b"user", _) => user = Some(number(value).ok_or_else(not_understood)?),
            (b"group", _) => group = Some(number(value).ok_or_else(not_understood)?),
            (b"address-space", _) => limits.address_space = Some(number(value).ok_or_else(not_understood)?),
            (b"cpu-time", _) => limits.cpu_time = Some(number(value).ok_or_else(not_understood)?),
            (b"open-files", _) => limits.open_files = Some(number(value).ok_or_else(not_understood)?),
            (b"processes", _) => limits.processes = Some(number(value).ok_or_else(not_understood)?),
            (b"file-size", _) => limits.file_size = Some(number(value).ok_or_else(not_understood)?),
            (b"landlock", landlock @ None) if value == "required" || value == "best-effort" => {
                *landlock = Some(Landlock { best_effort: value == "best-effort", ..Landlock::default() });
            }
            (b"system", Some(landlock)) => landlock.system.push(path(value)),
            (b"read", Some(landlock)) => landlock.read.push(path(value)),
            (b"write", Some(landlock)) if value == "." => landlock.write_here = true,
            (b"write", Some(landlock)) => landlock.write.push(path(value)),
            (b"connect", Some(landlock)) => landlock.connect.push(number(value).ok_or_else(not_understood)?),
            (b"bind", Some(landlock)) => landlock.bind.push(number(value).ok_or_else(not_understood)?),
            _ => return Err(not_understood()),
        }
    }
    confinement.account = match (user, group) {
        (Some(user), Some(group)) => Some(Account { user, group }),
        (None, None) => None,
        _ => return Err("`user` and `group` go together".to_owned()),
    };
    Ok(confinement)
}

fn number<N: FromStr>(value: &OsStr) -> Option<N> {
    value.to_str()?.parse().ok()
}

fn path(value: &OsStr) -> PathBuf {
    OsString::from_vec(value.as_bytes().to_vec()).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ResourceLimits;

    #[test]
    fn what_is_written_is_read() {
        let odd = PathBuf::from(OsString::from_vec(b"/a =\xff/--".to_vec()));
        let whole = Confinement {
            account: Some(Account { user: 65534, group: 7 }),
            limits: ResourceLimits {
                address_space: Some(1 << 40),
                cpu_time: Some(2),
                open_files: Some(16),
                processes: Some(3),
                file_size: Some(4096),
            },
            landlock: Some(Landlock {
                best_effort: true,
                system: vec!["/usr".into(), "/lib".into()],
                read: vec![odd.clone()],
                write: vec![odd, "/b".into()],
                write_here: true,
                connect: vec![443, 65535],
                bind: vec![0],
            }),
        };
        let required = Confinement { landlock: Some(Landlock::default()), ..Confinement::default() };
        for confinement in [Confinement::default(), required, whole] {
            let mut words = write(&confinement);
            words.push("--".into());
            let mut words = words.into_iter();
            assert_eq!(read(&mut words), Ok(confinement));
            assert_eq!(words.collect::<Vec<_>>(), ["--"]);
        }
    }

    #[test]
    fn a_word_that_is_not_understood_is_an_error() {
        for (words, error) in [
            (&[][..], "its words have no end"),
            (&["user=1", "group=1"][..], "its words have no end"),
            (&["user=1", "--"][..], "`user` and `group` go together"),
            (&["user=-1", "--"][..], "the word `user=-1` is not understood"),
            (&["proceses=1", "--"][..], "the word `proceses=1` is not understood"),
            (&["read", "--"][..], "the word `read` is not understood"),
            (&["read=/", "--"][..], "the word `read=/` is not understood"),
            (&["landlock=off", "--"][..], "the word `landlock=off` is not understood"),
            (&["landlock=required", "bind=65536", "--"][..], "the word `bind=65536` is not understood"),
            (
                &["landlock=required", "landlock=best-effort", "--"][..],
                "the word `landlock=best-effort` is not understood",
            ),
        ] {
            let mut words = words.iter().map(OsString::from);
            assert_eq!(read(&mut words), Err(error.to_owned()));
        }
    }
}
