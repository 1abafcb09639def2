//! Files and ports, by the kernel's Landlock.

use std::{
    fmt::Display,
    fs::{self, Metadata},
    io,
    os::{
        fd::{AsFd as _, AsRawFd as _},
        unix::fs::MetadataExt as _,
    },
    path::{Path, PathBuf},
    thread,
};

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
        if let Ok(place) = Place::open(path.as_ref()) {
            rules = add(rules, &place, access)?;
        }
    }
    let here = wanted.write_here.then_some(Path::new("."));
    let writable = wanted.write.iter().map(AsRef::as_ref).chain(here);
    let writable = writable.map(open).collect::<Result<Vec<_>, _>>()?;
    for path in &wanted.system {
        if let Ok(place) = Place::open(path)
            && place.strays_from(&writable).is_none()
        {
            rules = add(rules, &place, READ)?;
        }
    }
    let readable = wanted.read.iter().map(|path| open(path)).collect::<Result<Vec<_>, _>>()?;
    for (places, access) in [(&readable, READ), (&writable, WRITE)] {
        for place in places {
            if let Some(within) = place.strays_from(&writable) {
                let (path, within) = (place.path.display(), within.path.display());
                return Err(format!("`{path}` of `allow` is a link out of `{within}`, where the command may write"));
            }
            rules = add(rules, place, access)?;
        }
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

fn open(path: &Path) -> Result<Place<'_>, String> {
    Place::open(path).map_err(|why| format!("`{}` of `allow` cannot be opened: {why}", path.display()))
}

/// A file or directory that a list names, held open: what the path leads to later is another matter.
struct Place<'p> {
    path: &'p Path,
    file: PathFd,
    /// Where it is, without links.
    real: PathBuf,
    metadata: Metadata,
}

impl<'p> Place<'p> {
    fn open(path: &'p Path) -> Result<Self, String> {
        let file = PathFd::new(path).map_err(|error| {
            std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string)
        })?;
        let opened = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
        let cannot = |error: io::Error| error.to_string();
        let (real, metadata) = (fs::read_link(&opened).map_err(cannot)?, fs::metadata(&opened).map_err(cannot)?);
        Ok(Self { path, file, real, metadata })
    }

    fn is(&self, other: &Metadata) -> bool {
        (self.metadata.dev(), self.metadata.ino()) == (other.dev(), other.ino())
    }

    /// The directory that it is listed in and does not lie in, one of those where the program may write: an earlier run can
    /// have put a link there, to what it would like to be given.
    fn strays_from<'w>(&self, writable: &'w [Place<'w>]) -> Option<&'w Place<'w>> {
        let above = self.path.ancestors().skip(1).filter_map(|path| fs::metadata(path).ok()).collect::<Vec<_>>();
        let mut listed_in = writable.iter().filter(|place| above.iter().any(|above| place.is(above))).peekable();
        let first = listed_in.peek().copied()?;
        (!listed_in.any(|place| self.real.starts_with(&place.real))).then_some(first)
    }
}

fn add(rules: RulesetCreated, place: &Place<'_>, access: BitFlags<AccessFs>) -> Result<RulesetCreated, String> {
    let access = if place.metadata.is_dir() { access } else { access & OF_A_FILE };
    rules.add_rule(PathBeneath::new(&place.file, access)).map_err(|error| refused(place.path.display(), error))
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
