//! The file that says what is compared, as `tests/peers/generate` writes it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, ensure};
use prost::bytes::Bytes;
use serde::Deserialize;

use super::{
    peer::{Asked, Peer},
    policy::Policy,
};
use crate::{
    answers::Answers,
    body::{encoded, event},
    turns::Question,
};

/// `candidates.json`, in the folder that `tests/peers/generate` has written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CandidatesFile {
    rules: usize,
    /// What every engine has to decide, request by request.
    expected: Vec<String>,
    hookd: HookdPart,
    peers: Vec<PeerPart>,
}

/// Paths in it are relative to the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HookdPart {
    settings: PathBuf,
    bodies: Vec<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PeerPart {
    name: String,
    /// Absent: it is not installed, and `skipped` says why.
    program: Option<PathBuf>,
    skipped: Option<String>,
    arguments: Vec<String>,
    method: String,
    answers: Answers,
    bodies: Vec<PathBuf>,
}

impl Policy {
    /// The one that stands in `folder`.
    ///
    /// # Errors
    /// A file cannot be read or has another form.
    pub(crate) fn read(folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join("candidates.json");
        let text = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
        let file: CandidatesFile = serde_json::from_str(&text).with_context(|| format!("{}", path.display()))?;
        let questions = |bodies: &[PathBuf]| {
            ensure!(bodies.len() == file.expected.len(), "{}: not one `expected` for each body", path.display());
            let body = |(body, expected): (&PathBuf, &String)| {
                body_of(&folder.join(body)).map(|body| Question { body, expected: Some(expected.clone()) })
            };
            bodies.iter().zip(&file.expected).map(body).collect::<anyhow::Result<Vec<_>>>()
        };
        let peer = |part: &PeerPart| {
            let asked = match &part.program {
                Some(program) => Ok(Asked {
                    program: program.clone(),
                    arguments: part.arguments.clone(),
                    method: part.method.parse().with_context(|| format!("method of {}", part.name))?,
                    answers: part.answers,
                    questions: questions(&part.bodies)?,
                }),
                None => Err(part.skipped.clone().unwrap_or_else(|| "no program".to_owned())),
            };
            Ok(Peer { name: part.name.clone(), asked, folder: folder.to_owned() })
        };
        Ok(Self {
            rules: file.rules,
            settings: folder.join(&file.hookd.settings),
            answers: Answers::Decision,
            questions: questions(&file.hookd.bodies)?,
            peers: file.peers.iter().map(peer).collect::<anyhow::Result<_>>()?,
        })
    }
}

/// Events stand in `.json` files; other bodies are sent as they are.
fn body_of(path: &Path) -> anyhow::Result<Bytes> {
    let bytes = fs::read(path).with_context(|| format!("{}", path.display()))?;
    if path.extension().is_none_or(|extension| extension != "json") {
        return Ok(Bytes::from(bytes));
    }
    let text = String::from_utf8(bytes).with_context(|| format!("{}", path.display()))?;
    event(&text).map(|event| encoded(&event)).with_context(|| format!("{}", path.display()))
}
