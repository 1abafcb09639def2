//! `hookctl trust`: which rule files of repositories may have their commands run by `hookctl relay`.

mod store;

use std::{
    env,
    path::{Path, PathBuf},
};

use serde_json::json;

use crate::{
    args::{Global, Output, TrustArgs},
    json,
    owned::read_any,
    relay::{home_of, of_projects},
    report::{Failure, OK, Report},
};

pub(crate) use self::store::{Store, hash};

pub(crate) fn run(global: &Global, args: &TrustArgs) -> Result<Report, Failure> {
    let home = home_of(args.config.as_deref()).map_err(Failure::failed)?;
    let home = home.ok_or_else(|| {
        Failure::failed("this user has no home that is known; name one with `home` in a file for `--config`")
    })?;
    if args.list {
        return Ok(list(global, &Store::read(&home).map_err(Failure::failed)?));
    }
    let files = if args.files.is_empty() { found()? } else { args.files.clone() };
    let mut lines = Vec::new();
    Store::change(&home, |store| {
        for file in &files {
            lines.push(if args.remove { remove(store, file)? } else { add(store, file)? });
        }
        Ok(())
    })
    .map_err(Failure::failed)?;
    let text = match global.output {
        Output::Human => lines.iter().map(|line| format!("{} {}  {}\n", line.what, line.sha256, line.path)).collect(),
        Output::Json => json::line(&json!({
            "files": lines.iter().map(|line| json!({
                "path": line.path, "sha256": line.sha256, "state": line.what,
            })).collect::<Vec<_>>(),
        })),
    };
    Ok(Report { text, exit: OK })
}

/// What is said of one file.
struct Line {
    what: &'static str,
    sha256: String,
    path: String,
}

fn add(store: &mut Store, file: &Path) -> Result<Line, String> {
    let read = read_any(file)?.ok_or_else(|| format!("{} is not there", file.display()))?;
    let sha256 = hash(&read.bytes);
    let path = store.put(&read.path, &sha256)?;
    Ok(Line { what: "trusted", sha256, path })
}

/// The file itself may be gone already.
fn remove(store: &mut Store, file: &Path) -> Result<Line, String> {
    let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let path = file.canonicalize().unwrap_or(absolute);
    let sha256 = store.remove(&path).ok_or_else(|| format!("{} is not trusted", path.display()))?;
    Ok(Line { what: "removed", sha256, path: path.display().to_string() })
}

fn found() -> Result<Vec<PathBuf>, Failure> {
    let here = env::current_dir().map_err(|error| Failure::failed(crate::report::reason(&error)))?;
    let files = of_projects(&here).into_iter().filter(|file| file.try_exists().unwrap_or(true)).collect::<Vec<_>>();
    if files.is_empty() {
        return Err(Failure::failed(format!("there is no rule file of a project in {}", here.display())));
    }
    Ok(files)
}

fn list(global: &Global, store: &Store) -> Report {
    let state = |path: &str, sha256: &str| match read_any(path.as_ref()) {
        Ok(Some(read)) if hash(&read.bytes) == sha256 => "trusted",
        Ok(Some(_)) => "changed",
        Ok(None) => "gone",
        Err(_) => "unreadable",
    };
    let lines = store.entries().map(|(path, sha256)| (state(path, sha256), sha256, path));
    let text = match global.output {
        Output::Human => lines.map(|(state, sha256, path)| format!("{state:<10} {sha256}  {path}\n")).collect(),
        Output::Json => json::line(&json!({
            "files": lines.map(|(state, sha256, path)| json!({
                "path": path, "sha256": sha256, "state": state,
            })).collect::<Vec<_>>(),
        })),
    };
    Report { text, exit: OK }
}
