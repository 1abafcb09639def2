//! The file that is to be changed: where it is, what is in it, and how it is replaced.

use std::{
    env,
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown},
    path::{Path, PathBuf},
};

use hookd_agents::Agent;

use crate::{
    args::Scope,
    install::agents::{managed, of_projects, of_the_person},
    owned::read_any,
    report::reason,
};

/// A file as it is, or as it is not there yet.
#[derive(Debug)]
pub(super) struct Target {
    /// As it was named; where a link is, the link.
    pub(super) path: PathBuf,
    /// Where it really is: links stay links, what they lead to is changed.
    real: PathBuf,
    /// What is in it. `None`: it is not there.
    pub(super) before: Option<String>,
}

/// Where the settings of `agent` are in `scope`: a file, or Cline's folder.
///
/// # Errors
/// One line: no such place is known, `--file` has to say one.
pub(super) fn place(agent: Agent, scope: Scope) -> Result<PathBuf, String> {
    let unknown = |of: &str| format!("no settings of {} {of} are known, name their file with `--file`", agent.name());
    match scope {
        Scope::Managed => {
            let system = env::consts::OS;
            managed(agent, system).map(PathBuf::from).ok_or_else(|| unknown(&format!("for a whole machine ({system})")))
        }
        Scope::User => {
            let below = of_the_person(agent).ok_or_else(|| unknown("for a person, whatever their agents,"))?;
            let home = env::home_dir().filter(|home| home.is_absolute());
            Ok(home.ok_or("this user has no home that is known, name the file with `--file`")?.join(below))
        }
        Scope::Project => {
            let below = of_projects(agent).ok_or_else(|| unknown("for a project, whatever its agents,"))?;
            Ok(project()?.join(below))
        }
    }
}

/// The folder of the project: the current one.
pub(super) fn project() -> Result<PathBuf, String> {
    env::current_dir().map_err(|error| format!("the current folder is not known: {}", reason(&error)))
}

impl Target {
    /// The file at `path`. `within`: links must not lead out of this folder.
    ///
    /// # Errors
    /// One line: it cannot be read, is no text, or is a link that must not be followed.
    pub(super) fn find(path: &Path, within: Option<&Path>) -> Result<Self, String> {
        let path = std::path::absolute(path).map_err(|error| format!("{}: {}", path.display(), reason(&error)))?;
        let shown = path.display();
        let real = real(&path)?;
        if let Some(within) = within {
            let within = self::real(within)?;
            if !real.starts_with(&within) {
                let (real, within) = (real.display(), within.display());
                return Err(format!(
                    "{shown} leads to {real}, out of {within}; name that with `--file` if it is meant"
                ));
            }
        }
        let before = match read_any(&path)? {
            Some(read) => Some(String::from_utf8(read.bytes).map_err(|_| format!("{shown} is not UTF-8"))?),
            None => None,
        };
        Ok(Self { path, real, before })
    }

    /// Puts `text` there at once: a reader sees all of it or what was there before. The mode and the owner stay; a new
    /// file gets `mode`, and the folders that it needs.
    ///
    /// # Errors
    /// One line: it cannot be written, is read-only, belongs to somebody else, or was changed meanwhile.
    pub(super) fn write(&self, text: &str, mode: u32) -> Result<(), String> {
        let folder = self.real.parent().unwrap_or(Path::new("/"));
        let found = self.replaceable()?;
        fs::create_dir_all(folder).map_err(|error| self.cannot("write", &error))?;
        let name = self.real.file_name().and_then(|name| name.to_str()).unwrap_or("settings");
        let new = folder.join(format!(".{name}.hookctl-{}", std::process::id()));
        let written = self.write_new(&new, text, found.as_ref(), mode);
        if written.is_err() {
            // It is nobody's; where it cannot be taken away, the reason has been found already.
            let _ = fs::remove_file(&new);
        }
        written
    }

    /// Takes the file away.
    ///
    /// # Errors
    /// As for [`Self::write`].
    pub(super) fn delete(&self) -> Result<(), String> {
        self.replaceable()?;
        self.unchanged()?;
        fs::remove_file(&self.real).map_err(|error| self.cannot("remove", &error))
    }

    fn write_new(&self, new: &Path, text: &str, found: Option<&fs::Metadata>, mode: u32) -> Result<(), String> {
        let write = || {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(new)?;
            file.write_all(text.as_bytes())?;
            if let Some(found) = found {
                fchown(&file, Some(found.uid()), Some(found.gid()))?;
            }
            let mode = found.map_or(mode, |found| found.mode() & 0o7777);
            file.set_permissions(fs::Permissions::from_mode(mode))?;
            file.sync_all()
        };
        write().map_err(|error: io::Error| self.cannot("write", &error))?;
        self.unchanged()?;
        fs::rename(new, &self.real).map_err(|error| self.cannot("write", &error))?;
        // The name is in the folder; that a power cut may lose it is nothing to fail for.
        let _ = self.real.parent().map(File::open).and_then(Result::ok).map(|folder| folder.sync_all());
        Ok(())
    }

    /// Says whose file it is, where it is one that may be replaced.
    fn replaceable(&self) -> Result<Option<fs::Metadata>, String> {
        let shown = self.path.display();
        let found = match fs::symlink_metadata(&self.real) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.cannot("write", &error)),
        };
        let user = rustix::process::geteuid().as_raw();
        if user != 0 && found.uid() != user {
            return Err(format!("{shown} belongs to user {}, not to user {user}, and is left as it is", found.uid()));
        }
        if found.mode() & 0o222 == 0 {
            let mode = found.mode() & 0o7777;
            return Err(format!("{shown} is read-only (mode {mode:04o}) and is left as it is"));
        }
        Ok(Some(found))
    }

    fn unchanged(&self) -> Result<(), String> {
        let now = read_any(&self.real)?.map(|read| read.bytes);
        if now.as_deref() == self.before.as_ref().map(String::as_bytes) {
            return Ok(());
        }
        Err(format!("{} was changed by somebody else meanwhile, and is left as it is", self.path.display()))
    }

    fn cannot(&self, what: &str, error: &io::Error) -> String {
        format!("cannot {what} {}: {}", self.path.display(), reason(error))
    }
}

/// Where `path` really is, be it there or not.
fn real(path: &Path) -> Result<PathBuf, String> {
    let mut missing = Vec::new();
    let mut there = path;
    loop {
        match fs::symlink_metadata(there) {
            Ok(_) => break,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                let (Some(name), Some(folder)) = (there.file_name(), there.parent()) else { break };
                missing.push(name.to_owned());
                there = folder;
            }
            Err(error) => return Err(format!("{}: {}", path.display(), reason(&error))),
        }
    }
    let found = fs::canonicalize(there)
        .map_err(|error| format!("{} is a link that leads nowhere ({})", there.display(), reason(&error)))?;
    Ok(missing.into_iter().rev().fold(found, |path, name| path.join(name)))
}
