use std::ffi::OsStr;
use std::future::pending;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::Stdio;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use crate::group::{Exit, Group, Spawned};
use crate::pipes::Captured;
use crate::place::{Place, Stage};
use crate::scratch::{Directory, Scratch};
use crate::{Command, End, Finished, Limits, orphans};

/// A file that another thread's fresh child still holds open for writing cannot be executed; the moment passes by itself.
const BUSY_LIMIT: Duration = Duration::from_secs(2);
const BUSY_PAUSE: Duration = Duration::from_millis(5);
/// What every empty pipe takes without blocking.
const PIPE_BYTES: usize = 4096;

/// Runs one program in its place. Dropping the future at any point ends the program's group.
pub(crate) async fn run(
    command: Command,
    limits: Limits,
    deadline: Option<Instant>,
    place: Place,
    queued: Duration,
) -> Finished {
    let mut stage = place.stage();
    let started = Instant::now();
    let time_over = earlier(started.checked_add(limits.timeout), deadline);

    if time_over.is_some_and(|instant| instant <= started) {
        return Finished::unstarted(End::TimedOut, queued);
    }
    let child = tokio::select! {
        biased;
        () = stage.reached(Stage::Closing) => Err(End::Cancelled),
        child = spawn(&command, Input::Whole(&command.stdin), started) => child.map_err(End::DidNotStart),
        () = until(time_over) => Err(End::TimedOut),
    };
    let mut group = match child {
        Ok(spawned) => Group::new(spawned, limits.kill_grace, place),
        Err(end) => return Finished::unstarted(end, queued),
    };
    let pipes = match group.pipes() {
        Ok(pipes) => pipes,
        Err(error) => return Finished::unstarted(End::DidNotStart(format!("cannot open its pipes: {error}")), queued),
    };

    let mut stdout = Captured::new(limits.output_bytes);
    let mut stderr = Captured::new(limits.output_bytes);
    let end = {
        let mut pumped = false;
        let mut pump = pin!(pipes.pump(&command.stdin, &mut stdout, &mut stderr));
        let end = loop {
            tokio::select! {
                biased;
                exit = group.exited() => break End::from(exit),
                () = stage.reached(Stage::Closing) => break End::Cancelled,
                () = until(time_over) => break End::TimedOut,
                () = &mut pump, if !pumped => pumped = true,
            }
        };
        match end {
            End::Exited(_) | End::Lost(_) => group.leave(),
            End::Signalled(_) | End::TimedOut | End::Cancelled | End::DidNotStart(_) => drop(group),
        }
        if !pumped && matches!(end, End::Exited(_) | End::Signalled(_)) {
            let grace_over = earlier(Instant::now().checked_add(limits.pipe_grace), time_over);
            // The pump goes first: what the leader wrote before it exited is already in the pipes, and must not be lost
            // because this task got its turn late.
            tokio::select! {
                biased;
                () = &mut pump => {}
                () = until(grace_over) => {}
            }
        }
        end
    };

    Finished {
        end,
        stdout_truncated: stdout.truncated(),
        stderr_truncated: stderr.truncated(),
        stdout: stdout.into_bytes(),
        stderr: stderr.into_bytes(),
        queued,
        elapsed: started.elapsed(),
    }
}

impl From<io::Result<Exit>> for End {
    fn from(exit: io::Result<Exit>) -> Self {
        match exit {
            Ok(Exit::Code(code)) => Self::Exited(code),
            Ok(Exit::Signal(signal)) => Self::Signalled(signal),
            Err(error) => Self::Lost(format!("cannot learn how it ended: {error}")),
        }
    }
}

/// What a program reads.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Input<'a> {
    /// This, and then the end.
    Whole(&'a [u8]),
    /// What is written to it as long as it lives.
    Lines,
}

/// Starts the program. `started` bounds how long a busy file is tried again. The child has a stdin pipe only where
/// something is left to be written to it.
pub(crate) async fn spawn(command: &Command, input: Input<'_>, started: Instant) -> Result<Spawned, String> {
    let Some((program, arguments)) = command.argv.split_first() else {
        return Err("no program is named".to_owned());
    };
    let scratch = command.scratch.as_ref().map(Scratch::make).transpose()?;
    let own_directory = scratch.as_ref().and_then(Directory::path);
    let cwd = own_directory.or(command.cwd.as_deref());
    let prepare = |path: &OsStr| {
        let mut prepared = std::process::Command::new(path);
        prepared
            .arg0(program)
            .args(arguments)
            .env_clear()
            .envs(command.env.iter().map(|(name, value)| (name, value)))
            .process_group(0)
            .stdin(stdin(input).map_err(|error| format!("cannot open its stdin: {error}"))?)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(cwd) = cwd {
            prepared.current_dir(cwd);
        }
        if let Some(directory) = own_directory {
            prepared.env("TMPDIR", directory);
        }
        Ok::<_, String>(prepared)
    };
    // A name alone makes the standard library copy this whole process, to look in the `PATH` of the copy; with a path the
    // child borrows this process's memory until it is another program, which is much cheaper.
    let mut found = find(program, command);
    let mut prepared = prepare(found.as_ref().map_or(program, |path| path.as_os_str()))?;
    loop {
        // No await between the two: it is this thread whose child gets it.
        if command.no_new_privileges {
            no_new_privileges().map_err(|error| format!("cannot be kept from new privileges: {error}"))?;
        }
        let error = match orphans::start(&mut prepared) {
            Ok(child) => return Ok(Spawned { child, scratch }),
            Err(error) => error,
        };
        if error.kind() == io::ErrorKind::ExecutableFileBusy && started.elapsed() < BUSY_LIMIT {
            sleep(BUSY_PAUSE).await;
            continue;
        }
        // What was found is not what can be run, a script without a first line for instance: the system's own look-up
        // knows what then.
        if found.take().is_some() {
            prepared = prepare(program)?;
            continue;
        }
        return Err(match cwd.and_then(no_directory) {
            Some(message) => message,
            None => format!("cannot start `{}`: {error}", Path::new(program).display()),
        });
    }
}

/// Where the system has no such thing, nothing is promised.
fn no_new_privileges() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::thread::set_no_new_privs(true)?;
    Ok(())
}

/// A short input is in the pipe before the program starts: nobody has to be woken to write it.
fn stdin(input: Input<'_>) -> io::Result<Stdio> {
    match input {
        Input::Whole(bytes) if bytes.len() <= PIPE_BYTES => {
            let (reader, mut writer) = io::pipe()?;
            writer.write_all(bytes)?;
            Ok(reader.into())
        }
        Input::Whole(_) | Input::Lines => Ok(Stdio::piped()),
    }
}

/// Where a program without a slash in its name is, as far as that is plain.
fn find(program: &OsStr, command: &Command) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') || program.is_empty() {
        return None;
    }
    let (_, path) = command.env.iter().rfind(|(name, _)| name == "PATH")?;
    for place in std::env::split_paths(path) {
        // A relative one starts in the child's directory.
        if !place.is_absolute() {
            return None;
        }
        let path = place.join(program);
        if is_program(&path) {
            return Some(path);
        }
    }
    None
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;

    std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// A missing working directory and a missing program give the same error; this tells them apart.
fn no_directory(cwd: &Path) -> Option<String> {
    match std::fs::metadata(cwd) {
        Ok(metadata) if metadata.is_dir() => None,
        Ok(_) => Some(format!("the working directory `{}` is not a directory", cwd.display())),
        Err(error) => Some(format!("cannot use the working directory `{}`: {error}", cwd.display())),
    }
}

fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    [one, other].into_iter().flatten().min()
}

async fn until(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        // So far away that it is not a point in time.
        None => pending().await,
    }
}
