use rustix::process::Pid;

/// Whether a group has a living member. Its leader must be unreaped, and counts only while it is alive.
///
/// Signal 0 to the group cannot tell: it reaches the unreaped leader too. So the process table is read. That is a walk over
/// all processes, some milliseconds on a busy machine: not for an async thread. Where the table cannot be read, the answer is
/// no: the kernel hands SIGKILL to all members of a group at once, and the walk is only the check on that.
#[cfg(target_os = "linux")]
pub(crate) fn has_living(group: Pid) -> bool {
    let first = look_at(group);
    // An ended member that was seen before its parent ended can have become a child of this process since.
    first.living || (first.uncollected && look_at(group).living)
}

/// Whether a group has a living member. Its leader must be unreaped, and counts only while it is alive: a group of nothing
/// but ended processes takes no signal here.
#[cfg(not(target_os = "linux"))]
pub(crate) fn has_living(group: Pid) -> bool {
    rustix::process::test_kill_process_group(group).is_ok()
}

/// The children of this process that have ended and are not collected.
#[cfg(target_os = "linux")]
pub(crate) fn ended_children() -> Vec<Pid> {
    let Ok(table) = std::fs::read_dir("/proc") else { return Vec::new() };
    let ours = table.flatten().filter_map(|entry| Member::read(&entry)).filter(|it| it.ended && it.is_ours());
    ours.map(|it| it.pid).collect()
}

/// The children of this process that have ended and are not collected: not known here.
#[cfg(not(target_os = "linux"))]
pub(crate) fn ended_children() -> Vec<Pid> {
    Vec::new()
}

/// What one walk found of a group.
#[cfg(target_os = "linux")]
#[derive(Default)]
struct Look {
    living: bool,
    uncollected: bool,
}

#[cfg(target_os = "linux")]
fn look_at(group: Pid) -> Look {
    let mut look = Look::default();
    let Ok(table) = std::fs::read_dir("/proc") else { return look };
    for member in table.flatten().filter_map(|entry| Member::read(&entry)) {
        if member.group != group.as_raw_pid() {
            continue;
        }
        if !member.ended {
            look.living = true;
        } else if member.pid != group && !member.reap_if_ours() {
            look.uncollected = true;
        }
    }
    look
}

#[cfg(target_os = "linux")]
struct Member {
    pid: Pid,
    parent: i32,
    group: i32,
    ended: bool,
}

#[cfg(target_os = "linux")]
impl Member {
    fn read(entry: &std::fs::DirEntry) -> Option<Self> {
        let pid = entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw)?;
        let stat = std::fs::read(entry.path().join("stat")).ok()?;
        let stat = String::from_utf8_lossy(&stat);
        // The name, in parentheses, can hold anything; what follows the last one is plain.
        let (_, plain) = stat.rsplit_once(')')?;
        let mut fields = plain.split_ascii_whitespace();
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        Some(Self { pid, parent, group, ended: matches!(state, "Z" | "X" | "x") })
    }

    /// The processes of a dead leader become children of process 1. In a container that is often this process, and then
    /// nobody else collects them.
    fn reap_if_ours(&self) -> bool {
        use rustix::process::{WaitOptions, waitpid};

        self.is_ours() && waitpid(Some(self.pid), WaitOptions::NOHANG).is_ok()
    }

    fn is_ours(&self) -> bool {
        self.parent == rustix::process::getpid().as_raw_pid()
    }
}
