//! How the programs of command handlers are held in on this machine (issue 6).

use std::{
    ffi::OsString,
    fmt::Write as _,
    mem,
    path::{Path, PathBuf},
};

use hookd_confine::{Confinement, Found, Helper, Landlock, Program, ResourceLimits, landlock_version};
use hookd_rules::{Allow, CommandHandler};
use hookd_runner::{Command, Scratch};

use crate::settings::{CommandSettings, LandlockFor, LandlockUse, WorkingDirectory};

/// What every program may read and execute under Landlock: programs and libraries of the system, and what of its
/// configuration programs take for granted. Not the rest of `/etc`, where keys lie, nor `/proc`, `/sys`, `/run` or `/tmp`.
const SYSTEM: [&str; 28] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/nix/store",
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/crypto-policies",
    "/etc/gai.conf",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.preload",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust/extracted",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
];

/// How commands are held in, as the settings have it and this machine can.
#[derive(Debug)]
pub struct Holding {
    helper: Result<Helper, String>,
    /// What holds all of them in.
    all: Confinement,
    no_new_privileges: bool,
    landlock: LandlockUse,
    landlock_for: LandlockFor,
    /// The version of Landlock that the kernel offers.
    offered: Option<i32>,
    /// Why a list cannot be held to wholly. Empty: it can, or nobody asks for it.
    lacks: String,
    /// What is readable under Landlock for all of them.
    system: Vec<PathBuf>,
    scratch: Option<Scratch>,
    /// Of the user that they run as, where that is another one than hookd's.
    home: Option<PathBuf>,
}

/// Why commands cannot be held in as the settings say.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("commands: {0}")]
pub struct HoldingError(String);

impl Holding {
    /// What the settings ask for, tried out once. Directories of their own are made in `temporary`. Blocks.
    ///
    /// # Errors
    /// Something that the settings ask for cannot be set up here.
    pub fn new(settings: &CommandSettings, temporary: PathBuf) -> Result<Self, HoldingError> {
        let refused = |why: String| HoldingError(why);
        let found = account(settings).map_err(refused)?;
        let account = found.as_ref().map(|found| found.account);
        let user = account.map_or_else(|| rustix::process::geteuid().as_raw(), |account| account.user);
        if settings.limits.processes.is_some() && user == 0 {
            let why = "`commands.limits.processes` never holds for root, name another user in `commands.user`";
            return Err(refused(why.to_owned()));
        }
        let directories = settings.path.split(':').filter(|entry| entry.starts_with('/'));
        let is_empty = settings.working_directory == WorkingDirectory::Empty;
        let mut holding = Self {
            helper: Helper::open(),
            all: Confinement { account, limits: limits(settings), landlock: None },
            no_new_privileges: settings.no_new_privileges,
            landlock: settings.landlock,
            landlock_for: settings.landlock_for,
            offered: landlock_version(),
            lacks: String::new(),
            system: SYSTEM.into_iter().chain(directories).map(PathBuf::from).collect(),
            scratch: is_empty
                .then(|| Scratch { parent: temporary, owner: account.map(|account| (account.user, account.group)) }),
            home: found.map(|found| found.home.unwrap_or_else(|| "/".into())),
        };
        if let Some(scratch) = &holding.scratch {
            scratch.try_out().map_err(refused)?;
        }
        let of_all = Confinement { landlock: holding.landlock(None, [], false), ..holding.all };
        if !of_all.is_empty() {
            let helper = holding.helper.as_ref().map_err(|why| refused(why.clone()))?;
            helper.check(&of_all, settings.no_new_privileges).map_err(refused)?;
        }
        if holding.landlock != LandlockUse::Off {
            let whole = Confinement { landlock: Some(Landlock::default()), ..Confinement::default() };
            let tried = holding.helper.as_ref().map_err(Clone::clone);
            let tried = tried.and_then(|helper| helper.check(&whole, settings.no_new_privileges));
            holding.lacks = tried.err().unwrap_or_default();
        }
        Ok(holding)
    }

    /// Holds nothing in.
    #[cfg(test)]
    pub(super) fn none() -> Self {
        Self {
            helper: Err("commands are not held in here".to_owned()),
            all: Confinement::default(),
            no_new_privileges: false,
            landlock: LandlockUse::Off,
            landlock_for: LandlockFor::Listed,
            offered: None,
            lacks: String::new(),
            system: Vec::new(),
            scratch: None,
            home: None,
        }
    }

    /// What holds commands in, in one line, for readiness and the log.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut line = String::new();
        let mut add = |part: &str, value: &dyn std::fmt::Display| {
            let separator = if line.is_empty() { "" } else { "; " };
            let _infallible = write!(line, "{separator}{part}{value}");
        };
        let no_new_privileges = self.no_new_privileges && cfg!(target_os = "linux");
        add("no new privileges: ", &if no_new_privileges { "yes" } else { "no" });
        if let Some(account) = self.all.account {
            add("user ", &account.user);
            add("group ", &account.group);
        }
        let ResourceLimits { address_space, cpu_time, open_files, processes, file_size } = self.all.limits;
        for (name, limit) in [
            ("address space (bytes) ", address_space),
            ("cpu time (s) ", cpu_time),
            ("open files ", open_files),
            ("processes ", processes),
            ("file size (bytes) ", file_size),
        ] {
            if let Some(limit) = limit {
                add(name, &limit);
            }
        }
        if self.scratch.is_some() {
            add("working directory ", &WorkingDirectory::Empty.name());
        }
        let offered = self.offered.map_or_else(|| "none".to_owned(), |version| format!("version {version}"));
        let whom = match self.landlock_for {
            LandlockFor::Listed => "commands with an `allow` list",
            LandlockFor::All => "all commands",
        };
        let lacks = &self.lacks;
        let landlock = match self.landlock {
            LandlockUse::Off => "`allow` lists hold nobody".to_owned(),
            _ if lacks.is_empty() => format!("holds {whom}, their sockets by seccomp"),
            LandlockUse::Required => format!("{whom} do not run ({lacks})"),
            LandlockUse::BestEffort => format!("holds {whom} in part or not at all ({lacks})"),
        };
        add("landlock: ", &format_args!("kernel {offered}, setting {}, {landlock}", self.landlock.name()));
        line
    }

    /// The command of a handler, held in. `beside` is the directory of its rule file.
    ///
    /// # Errors
    /// It cannot be held in as it has to be, and must not run: why.
    pub(super) fn hold(
        &self,
        mut command: Command,
        handler: &CommandHandler,
        beside: &Path,
    ) -> Result<Command, String> {
        command.no_new_privileges = self.no_new_privileges;
        if handler.cwd.is_none()
            && let Some(scratch) = &self.scratch
        {
            command.scratch = Some(scratch.clone());
            command.env.push(("HOOKD_RULE_DIRECTORY".into(), beside.into()));
        }
        let directories = [Some(beside), handler.cwd.as_deref()].into_iter().flatten();
        let landlock = self.landlock(handler.allow.as_ref(), directories, command.scratch.is_some());
        let confinement = Confinement { landlock, ..self.all };
        if !confinement.is_empty() {
            let program = Program { argv: mem::take(&mut command.argv), env: mem::take(&mut command.env) };
            let held = self.helper.as_ref().map_err(Clone::clone)?.around(&confinement, program);
            (command.argv, command.env) = (held.argv, held.env);
        }
        Ok(command)
    }

    /// The home of the user that commands run as, where that is another one than hookd's.
    pub(super) fn home(&self) -> Option<OsString> {
        self.home.as_ref().map(Into::into)
    }

    fn is_landlocked(&self, allow: Option<&Allow>) -> bool {
        let can_be = match self.landlock {
            LandlockUse::Off => false,
            LandlockUse::BestEffort => self.offered.is_some(),
            LandlockUse::Required => true,
        };
        can_be && (allow.is_some() || self.landlock_for == LandlockFor::All)
    }

    /// What Landlock leaves to a command with this list; `None`: it does not hold it.
    fn landlock<'a>(
        &'a self,
        allow: Option<&Allow>,
        directories: impl IntoIterator<Item = &'a Path>,
        write_here: bool,
    ) -> Option<Landlock> {
        if !self.is_landlocked(allow) {
            return None;
        }
        let Allow { read, write, connect, bind } = allow.cloned().unwrap_or_default();
        let system = self.system.iter().map(PathBuf::as_path).chain(directories).map(Path::to_owned).collect();
        let best_effort = self.landlock == LandlockUse::BestEffort;
        Some(Landlock { best_effort, system, read, write, write_here, connect, bind })
    }
}

fn account(settings: &CommandSettings) -> Result<Option<Found>, String> {
    let (user, group) = (settings.user.as_deref(), settings.group.as_deref());
    if user.is_none() && group.is_none() {
        return Ok(None);
    }
    if !hookd_confine::may_switch() {
        let why = "`commands.user` and `commands.group` need the capabilities SETUID, SETGID and KILL, which hookd does not have here, start it as root or leave them out";
        return Err(why.to_owned());
    }
    Found::look_up(user, group).map(Some)
}

fn limits(settings: &CommandSettings) -> ResourceLimits {
    let limits = settings.limits;
    ResourceLimits {
        address_space: limits.address_space,
        cpu_time: limits.cpu_time.map(|time| time.as_secs()),
        open_files: limits.open_files,
        processes: limits.processes,
        file_size: limits.file_size,
    }
}
