//! Files and ports, by the kernel's Landlock.

use std::{fmt::Display, path::Path, thread};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus, NetPort, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope, make_bitflags,
};

use crate::Landlock;

/// All that was asked for is there from this version on: truncation since 3, TCP since 4.
const WHOLE: ABI = ABI::V4;

const READ: BitFlags<AccessFs> = make_bitflags!(AccessFs::{Execute | ReadFile | ReadDir});

/// No devices are made, nothing that was written is executed.
const WRITE: BitFlags<AccessFs> = make_bitflags!(AccessFs::{
    ReadFile | ReadDir | WriteFile | Truncate | RemoveDir | RemoveFile
        | MakeDir | MakeReg | MakeSock | MakeFifo | MakeSym | Refer
});

/// What of these a file that is no directory can have.
const OF_A_FILE: BitFlags<AccessFs> = make_bitflags!(AccessFs::{Execute | ReadFile | WriteFile | Truncate});

/// Devices that programs take for granted.
const DEVICES: [(&str, BitFlags<AccessFs>); 5] = [
    ("/dev/null", WRITE),
    ("/dev/zero", WRITE),
    ("/dev/full", WRITE),
    ("/dev/random", make_bitflags!(AccessFs::{ReadFile})),
    ("/dev/urandom", make_bitflags!(AccessFs::{ReadFile})),
];

/// Restricts this thread, and what it becomes and starts.
pub(crate) fn restrict(wanted: &Landlock) -> Result<(), String> {
    let level = if wanted.best_effort { CompatLevel::BestEffort } else { CompatLevel::HardRequirement };
    let rules = Ruleset::default()
        .set_compatibility(level)
        .handle_access(AccessFs::from_all(WHOLE))
        .and_then(|ruleset| ruleset.handle_access(AccessNet::from_all(WHOLE)))
        .map(|ruleset| ruleset.set_compatibility(CompatLevel::BestEffort))
        .and_then(|ruleset| ruleset.handle_access(AccessFs::IoctlDev))
        .and_then(|ruleset| ruleset.scope(Scope::from_all(ABI::V6)))
        .and_then(Ruleset::create)
        .map_err(|error| {
            let offered = version().map_or_else(|| "none".to_owned(), |version| format!("version {version}"));
            format!("Landlock version 4 is needed and this kernel offers {offered} ({error})")
        })?;
    let mut rules = rules;
    for (path, access) in DEVICES {
        rules = add_if_there(rules, Path::new(path), access)?;
    }
    for path in &wanted.system {
        rules = add_if_there(rules, path, READ)?;
    }
    for path in &wanted.read {
        rules = add(rules, path, open(path)?, READ)?;
    }
    let here = wanted.write_here.then_some(Path::new("."));
    for path in wanted.write.iter().map(AsRef::as_ref).chain(here) {
        rules = add(rules, path, open(path)?, WRITE)?;
    }
    for (ports, access) in [(&wanted.connect, AccessNet::ConnectTcp), (&wanted.bind, AccessNet::BindTcp)] {
        for port in ports {
            rules =
                rules.add_rule(NetPort::new(*port, access)).map_err(|error| refused(format!("port {port}"), error))?;
        }
    }
    let status = rules.restrict_self().map_err(|error| refused("the rules", error))?;
    if !wanted.best_effort && status.ruleset == RulesetStatus::NotEnforced {
        return Err("Landlock is not enforced by this kernel".to_owned());
    }
    Ok(())
}

fn open(path: &Path) -> Result<PathFd, String> {
    PathFd::new(path).map_err(|error| {
        let why = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
        format!("`{}` of `allow` cannot be opened: {why}", path.display())
    })
}

fn add_if_there(rules: RulesetCreated, path: &Path, access: BitFlags<AccessFs>) -> Result<RulesetCreated, String> {
    match PathFd::new(path) {
        Ok(file) => add(rules, path, file, access),
        Err(_) => Ok(rules),
    }
}

fn add(rules: RulesetCreated, path: &Path, file: PathFd, access: BitFlags<AccessFs>) -> Result<RulesetCreated, String> {
    let is_directory = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_dir());
    let access = if is_directory { access } else { access & OF_A_FILE };
    rules.add_rule(PathBeneath::new(file, access)).map_err(|error| refused(path.display(), error))
}

fn refused(what: impl Display, error: impl Display) -> String {
    format!("Landlock does not take {what}: {error}")
}

/// The version that this kernel offers. It is told only to whoever restricts itself: a thread that then ends.
pub(crate) fn version() -> Option<i32> {
    let ask = || {
        let rules = Ruleset::default().handle_access(AccessFs::Execute).and_then(Ruleset::create).ok()?;
        match rules.restrict_self().ok()?.landlock {
            LandlockStatus::Available { effective_abi, kernel_abi } => Some(kernel_abi.unwrap_or(effective_abi as i32)),
            LandlockStatus::NotEnabled | LandlockStatus::NotImplemented => None,
        }
    };
    thread::Builder::new().name("landlock".to_owned()).spawn(ask).ok()?.join().ok()?
}
