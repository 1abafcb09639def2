//! Holds one program in: whom it runs as, what it may use up, which files and ports it reaches.
//!
//! A process can take such limits upon itself only, and code between fork and exec would be `unsafe`. So a [`Helper`] stands
//! in the program's place: this same binary, started again with [`VERB`] and the [`Confinement`] in words. It sets up the
//! limits in itself, one after another, and becomes the program (`exec`), in the same process. One that cannot set up what
//! was asked for says so in one line on stderr and leaves with [`FAILED`]: the program never runs without.
//!
//! Linux only. Elsewhere there is no [`Helper`], and what needs one is refused.
//!
//! Read on in this order: `words` (how a confinement travels) → `helper` (both ends) → `setup` → `landlock` → `filter` (with `sockets` and `others`);
//! and `accounts` (users by name).

mod accounts;
#[cfg(target_os = "linux")]
mod filter;
mod helper;
#[cfg(target_os = "linux")]
mod landlock;
#[cfg(target_os = "linux")]
mod others;
#[cfg(target_os = "linux")]
mod setup;
#[cfg(target_os = "linux")]
mod sockets;
mod words;

use std::path::PathBuf;

pub use accounts::{Found, may_switch};
pub use helper::{Helper, Program, main};

/// The first argument that makes this binary a helper.
pub const VERB: &str = "confined-exec";

/// The exit code of a helper that could not set something up, and of a shell that could not start a program that it found.
pub const FAILED: u8 = 126;

/// What a program is held in by. The default is nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Confinement {
    /// Whom it runs as. No other groups are kept, and no capabilities.
    pub account: Option<Account>,
    /// What it may use up.
    pub limits: ResourceLimits,
    /// Which files and TCP ports it reaches.
    pub landlock: Option<Landlock>,
}

/// A user and a group, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account {
    /// The user's number.
    pub user: u32,
    /// The group's number.
    pub group: u32,
}

/// Limits of the kernel (`setrlimit`). They are inherited, and cannot be lifted again without privileges.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResourceLimits {
    /// Memory of one process, in bytes of addresses.
    pub address_space: Option<u64>,
    /// Processor time of one process, in seconds; then SIGXCPU, and SIGKILL a second later.
    pub cpu_time: Option<u64>,
    /// Files that one process has open.
    pub open_files: Option<u64>,
    /// Processes and threads of the user, whoever started them; never holds for root.
    pub processes: Option<u64>,
    /// Size of one file that is written, in bytes; then SIGXFSZ.
    pub file_size: Option<u64>,
}

/// What Landlock leaves of files and TCP; all else is denied. Scopes (signals and abstract unix sockets of others) are
/// closed where the kernel knows them. With it goes a filter of system calls (seccomp), which denies what Landlock does not
/// see: sockets that are not of TCP (pairs that are connected apart), `io_uring`, what acts on other processes (limits,
/// priorities), keys of the kernel, System V's shared memory, and changing what stands about a file where nothing may be
/// written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Landlock {
    /// A kernel that cannot do all of it is no reason not to run.
    pub best_effort: bool,
    /// Files and directories that may be read and executed; those that are not there are passed over.
    pub system: Vec<PathBuf>,
    /// Files and directories that may be read and executed. Each must be there.
    pub read: Vec<PathBuf>,
    /// Files and directories that may be read, made, changed and removed. Each must be there.
    pub write: Vec<PathBuf>,
    /// The same for the directory that the program starts in.
    pub write_here: bool,
    /// TCP ports that may be connected to. Where there is one, there may also be sockets of UDP, to look names up.
    pub connect: Vec<u16>,
    /// TCP ports that may be bound; 0 stands for the range that the system takes free ones from. Where there is one, the
    /// program may also listen without binding: the system then chooses the port.
    pub bind: Vec<u16>,
}

impl Confinement {
    /// Whether there is nothing to set up.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The version of Landlock that this kernel offers. `None`: none.
#[must_use]
pub fn landlock_version() -> Option<i32> {
    #[cfg(target_os = "linux")]
    return landlock::version();
    #[cfg(not(target_os = "linux"))]
    return None;
}
