use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Write as _},
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    process::ExitCode,
};

use crate::{Confinement, FAILED, VERB, words};

/// What stands before the names of the program's variables while the helper runs.
const PUT_BY: &[u8] = b"@";

/// A program, its arguments and its whole environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Program {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// The environment.
    pub env: Vec<(OsString, OsString)>,
}

/// This binary, to be started again as a helper.
///
/// It is held open, so that what is started is this version also after the file was replaced on disk.
#[derive(Debug)]
pub struct Helper(#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "never made there"))] File);

impl Helper {
    /// Opens this binary. The program that it is must call [`main`] before anything else.
    ///
    /// # Errors
    /// One line: no `/proc`, or not Linux.
    pub fn open() -> Result<Self, String> {
        if cfg!(not(target_os = "linux")) {
            return Err("commands can be held in on Linux alone".to_owned());
        }
        let cannot = |error| format!("commands cannot be held in without /proc/self/exe: {error}");
        File::open("/proc/self/exe").map(Self).map_err(cannot)
    }

    /// What runs `program` held in by `confinement`. It can be run by this process alone, as long as this value lives.
    #[must_use]
    pub fn around(&self, confinement: &Confinement, program: Program) -> Program {
        let mut argv = vec![self.path(), VERB.into()];
        argv.extend(words::write(confinement));
        argv.extend(program.argv);
        let env = program.env.into_iter().map(|(name, value)| (put_by(&name), value)).collect();
        Program { argv, env }
    }

    /// Sets up `confinement` in a process that then ends. Blocks for as long as that takes. `no_new_privileges` is whether
    /// programs are started so; this thread is then held to it, for good.
    ///
    /// # Errors
    /// One line: what cannot be set up, and why.
    pub fn check(&self, confinement: &Confinement, no_new_privileges: bool) -> Result<(), String> {
        #[cfg(target_os = "linux")]
        if no_new_privileges {
            rustix::thread::set_no_new_privs(true).map_err(|error| format!("no_new_privs cannot be set: {error}"))?;
        }
        let helper = self.around(confinement, Program::default());
        let (program, arguments) = helper.argv.split_first().ok_or("no helper")?;
        let run = std::process::Command::new(program).args(arguments).env_clear().current_dir("/").output();
        let output = run.map_err(|error| format!("the helper cannot be started: {error}"))?;
        if output.status.success() {
            return Ok(());
        }
        match String::from_utf8_lossy(&output.stderr).trim() {
            "" => Err(format!("the helper ended with {}", output.status)),
            why => Err(why.to_owned()),
        }
    }

    #[cfg(target_os = "linux")]
    fn path(&self) -> OsString {
        use std::os::fd::AsRawFd as _;

        // The child has a descriptor of the same number until it is the helper, which then does not have it.
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }

    #[cfg(not(target_os = "linux"))]
    fn path(&self) -> OsString {
        OsString::new()
    }
}

/// Is the helper, if the arguments say so: sets up what they ask for and becomes the program that they name. `None`: this
/// is no helper. It must be called before there is a second thread.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut arguments = arguments.into_iter().skip(1);
    if arguments.next()? != VERB {
        return None;
    }
    Some(match become_program(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, why)) => {
            // Where nobody reads it, the exit code says enough.
            let _ignored = writeln!(io::stderr(), "{why}");
            ExitCode::from(code)
        }
    })
}

/// Returns only if it has become no program: there was none to become, which is a check, or for the reason that it gives
/// with the exit code that goes with it.
#[cfg(target_os = "linux")]
fn become_program(mut arguments: impl Iterator<Item = OsString>) -> Result<(), (u8, String)> {
    use std::{os::unix::process::CommandExt as _, path::Path};

    let cannot = |why: String| (FAILED, format!("the command cannot be held in: {why}"));
    let confinement = words::read(&mut arguments).map_err(cannot)?;
    crate::setup::apply(&confinement).map_err(cannot)?;
    let Some(program) = arguments.next() else {
        return Ok(());
    };
    let error = std::process::Command::new(&program).args(arguments).env_clear().envs(variables()).exec();
    let code = if error.kind() == io::ErrorKind::NotFound { 127 } else { FAILED };
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied if confinement.landlock.is_some() => {
            ", it must lie in a directory of the system or of `commands.path`, beside the rule file, or in `allow.read`"
        }
        _ => "",
    };
    Err((code, format!("cannot start `{}`: {error}{hint}", Path::new(&program).display())))
}

/// INVARIANT: no variable of the program is one of the helper's. The helper still has hookd's privileges, and the dynamic
/// linker would load into it whatever a rule's `LD_PRELOAD` names.
fn put_by(name: &OsStr) -> OsString {
    OsString::from_vec([PUT_BY, name.as_bytes()].concat())
}

/// The variables of the program, those that were put by and those that whoever started the helper added, which win.
#[cfg(target_os = "linux")]
fn variables() -> Vec<(OsString, OsString)> {
    let (put_by, added): (Vec<_>, Vec<_>) =
        std::env::vars_os().partition(|(name, _)| name.as_bytes().starts_with(PUT_BY));
    let own = |(name, value): (OsString, OsString)| {
        (OsStr::from_bytes(name.as_bytes().get(PUT_BY.len()..).unwrap_or_default()).to_owned(), value)
    };
    put_by.into_iter().map(own).chain(added).collect()
}

#[cfg(not(target_os = "linux"))]
fn become_program(_arguments: impl Iterator<Item = OsString>) -> Result<(), (u8, String)> {
    Err((FAILED, "commands can be held in on Linux alone".to_owned()))
}
