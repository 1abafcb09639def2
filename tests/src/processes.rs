//! The process table: who was started by one hookd, wherever it went.

use std::{fs, path::Path};

/// A process that is there, dead ones that nobody has reaped included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: i32,
    /// Its parent's id.
    pub parent: i32,
    /// Its state as the kernel writes it: `S` sleeps, `R` runs, `Z` is a zombie.
    pub state: char,
    /// Its command line, with spaces between the arguments. Empty for a zombie.
    pub command: String,
}

/// All processes with `TMPDIR=folder` in their environment, and all children of `hookd`, without `hookd` itself.
/// Handlers inherit that variable, so they are found although their parents are gone.
pub(crate) fn of(hookd: i32, folder: &Path) -> Vec<Process> {
    let mark = format!("TMPDIR={}\0", folder.display());
    let table = fs::read_dir("/proc").unwrap().flatten();
    let all = table.filter_map(|entry| look(entry.file_name().to_str()?.parse().ok()?));
    all.filter(|process| process.pid != hookd && (process.parent == hookd || bears(process.pid, &mark))).collect()
}

fn bears(pid: i32, mark: &str) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let starts = |position: usize| position == 0 || environment[position - 1] == 0;
    let mut windows = environment.windows(mark.len()).enumerate();
    windows.any(|(position, window)| window == mark.as_bytes() && starts(position))
}

/// `None`: it has gone in the meantime.
fn look(pid: i32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before the bracket may hold spaces and brackets.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let command = String::from_utf8_lossy(&command).trim_end_matches('\0').replace('\0', " ");
    Some(Process { pid, parent, state, command })
}
