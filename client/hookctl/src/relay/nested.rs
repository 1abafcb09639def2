//! A relay that a command of another relay has started: a project's hook file can name this program too.

use std::{env, fs, os::unix::fs::MetadataExt as _, process};

use super::commands::RUN_BY;

/// How far up the parents are looked through.
const MAX_PARENTS: usize = 64;

/// Whether this process runs within a command of another relay, which has offered what there is to offer. Otherwise the
/// two would start each other until the time is over.
///
/// The variable alone says nothing, anybody can set it: the process that it names has to be this very program, and a
/// parent of this process.
pub(crate) fn is_nested() -> bool {
    let Some(relay) = env::var(RUN_BY).ok().and_then(|pid| pid.parse::<u32>().ok()) else { return false };
    is_this_program(relay) && parents(process::id()).any(|parent| parent == relay)
}

fn is_this_program(pid: u32) -> bool {
    let program = |pid: &str| fs::metadata(format!("/proc/{pid}/exe")).ok().map(|it| (it.dev(), it.ino()));
    let other = program(&pid.to_string());
    other.is_some() && other == program("self")
}

fn parents(pid: u32) -> impl Iterator<Item = u32> {
    std::iter::successors(parent(pid), |pid| parent(*pid)).take(MAX_PARENTS)
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before the bracket may hold spaces and brackets.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(1)?.parse().ok().filter(|parent| *parent != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_lead_to_the_first_process() {
        let all = parents(process::id()).collect::<Vec<_>>();
        assert!(!all.is_empty() && !all.contains(&process::id()), "{all:?}");
        assert!(is_this_program(process::id()));
        assert!(!is_this_program(1) && !is_this_program(u32::MAX));
    }
}
