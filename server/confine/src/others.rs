//! What Landlock does not see beside sockets, and what is there for more than the program: other processes, the kernel's keys,
//! memory and messages that are shared by number, and what stands about a file (its rights, owner and times).
//!
//! Without this filter a program that runs as hookd's user can give hookd a processor time of nothing, which ends it.

use seccompiler::{BackendError as Error, SeccompRule};

use crate::{
    Landlock,
    filter::{Calls, always, is_not},
};

/// Keys of the kernel, which a program has in common with hookd, and System V's shared memory, messages and semaphores.
const SHARED: [i64; 14] = [
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
];

/// Calls whose first argument is the process that they set something of, 0 for the caller. Whether another number is one of
/// the program's own threads cannot be told, so it counts as another's.
const OF_A_PROCESS: [i64; 5] = [
    libc::SYS_prlimit64,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setaffinity,
];

/// Calls whose first two arguments say of whom they set something, and what the first one is for a process.
const OF_SOMEBODY: [(i64, u64); 2] = [(libc::SYS_setpriority, 0), (libc::SYS_ioprio_set, 1)];

/// What changes a file without opening it.
const ABOUT_FILES: [i64; 14] = [
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    SETXATTRAT,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    REMOVEXATTRAT,
];
const FCHMODAT2: i64 = 452;
const SETXATTRAT: i64 = 463;
const REMOVEXATTRAT: i64 = 466;

/// The older ones of them, which newer architectures do without.
#[cfg(target_arch = "x86_64")]
const ABOUT_FILES_OLD: [i64; 6] =
    [libc::SYS_chmod, libc::SYS_chown, libc::SYS_lchown, libc::SYS_utime, libc::SYS_utimes, libc::SYS_futimesat];
#[cfg(not(target_arch = "x86_64"))]
const ABOUT_FILES_OLD: [i64; 0] = [];

/// The system calls on what is others' that are kept back. A filter cannot tell paths: where something may be written, what
/// stands about files is left to the rights that they have.
pub(crate) fn calls(wanted: &Landlock) -> Result<Calls, Error> {
    let mut calls = SHARED.into_iter().map(|call| (call, always())).collect::<Calls>();
    for call in OF_A_PROCESS {
        calls.insert(call, vec![SeccompRule::new(vec![is_not(0, 0)?])?]);
    }
    for (call, process) in OF_SOMEBODY {
        let others = [is_not(0, process)?, is_not(1, 0)?];
        calls.insert(call, others.into_iter().map(|is| SeccompRule::new(vec![is])).collect::<Result<_, _>>()?);
    }
    if wanted.write.is_empty() && !wanted.write_here {
        calls.extend(ABOUT_FILES.into_iter().chain(ABOUT_FILES_OLD).map(|call| (call, always())));
    }
    Ok(calls)
}

#[cfg(test)]
mod tests {
    use std::{fs, fs::Permissions, os::unix::fs::PermissionsExt as _, process::Command, thread, time::SystemTime};

    use rustix::{
        fs::XattrFlags,
        io::Errno,
        process::{Pid, Resource, getpid, getpriority_process, getrlimit, prlimit, setpriority_process, setrlimit},
        thread::{CpuSet, sched_getaffinity, sched_setaffinity},
    };

    use super::*;
    use crate::filter::restrict;

    fn is_kept_back<T>(result: std::io::Result<T>) -> bool {
        result.err().is_some_and(|error| error.raw_os_error() == Some(Errno::ACCESS.raw_os_error()))
    }

    /// What does not get through on a thread that is held to `wanted`.
    fn kept_back(wanted: Landlock) -> Vec<&'static str> {
        let try_all = move || {
            let file = tempfile::NamedTempFile::new().unwrap();
            let mut child = Command::new("sleep").arg("3000").spawn().unwrap();
            let (other, own) = (Pid::from_child(&child), getpid());
            let limit = getrlimit(Resource::Core);
            let cpus: CpuSet = sched_getaffinity(None).unwrap();
            let nice = getpriority_process(None).unwrap();
            restrict(&wanted).unwrap();
            let times = fs::FileTimes::new().set_modified(SystemTime::UNIX_EPOCH);
            let tried = [
                ("limits of another", prlimit(Some(other), Resource::Core, limit).map(drop)),
                ("limits by the own number", prlimit(Some(own), Resource::Core, limit).map(drop)),
                ("limits", prlimit(None, Resource::Core, limit).map(drop)),
                ("limits of old", setrlimit(Resource::Core, limit)),
                ("priority of another", setpriority_process(Some(other), nice)),
                ("priority", setpriority_process(None, nice)),
                ("processors of another", sched_setaffinity(Some(other), &cpus)),
                ("processors", sched_setaffinity(None, &cpus)),
                ("attributes", rustix::fs::setxattr(file.path(), "user.x", b"x", XattrFlags::empty())),
            ];
            let tried = tried.into_iter().map(|(what, result)| (what, is_kept_back(result.map_err(Into::into))));
            let of_files = [
                ("rights", is_kept_back(fs::set_permissions(file.path(), Permissions::from_mode(0o600)))),
                ("owner", is_kept_back(std::os::unix::fs::chown(file.path(), None, None))),
                ("times", is_kept_back(file.as_file().set_times(times))),
            ];
            child.kill().unwrap();
            child.wait().unwrap();
            tried.chain(of_files).filter(|(_, is_kept)| *is_kept).map(|(what, _)| what).collect()
        };
        thread::spawn(try_all).join().unwrap()
    }

    #[test]
    fn other_processes_are_left_alone_and_files_too_where_nothing_may_be_written() {
        let of_others =
            ["limits of another", "limits by the own number", "priority of another", "processors of another"];
        let nothing = Landlock::default();
        let of_files = ["attributes", "rights", "owner", "times"];
        assert_eq!(kept_back(nothing.clone()), [&of_others[..], &of_files].concat());
        assert_eq!(kept_back(Landlock { write_here: true, ..nothing.clone() }), of_others);
        assert_eq!(kept_back(Landlock { write: vec!["/tmp".into()], ..nothing }), of_others);
    }

    #[test]
    fn what_is_shared_with_all_of_the_machine_is_kept_back() {
        let calls = calls(&Landlock { write_here: true, ..Landlock::default() }).unwrap();
        let always = calls.into_iter().filter(|(_, rules)| rules.is_empty()).map(|(call, _)| call);
        let mut shared = SHARED.to_vec();
        shared.sort_unstable();
        assert_eq!(always.collect::<Vec<_>>(), shared);
    }
}
