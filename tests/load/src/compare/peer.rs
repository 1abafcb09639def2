//! Other engines with the same policy, as `tests/peers/run` prepares them.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use http::uri::PathAndQuery;

use crate::{
    answers::Answers,
    server::{Program, Server, free_address},
    turns::{Candidate, Question},
};

/// Another engine.
#[derive(Debug)]
pub(crate) struct Peer {
    /// Its name and version.
    pub(crate) name: String,
    /// How it is asked, or why it cannot be.
    pub(crate) asked: Result<Asked, String>,
    /// The folder that the policy stands in.
    pub(super) folder: PathBuf,
}

/// How an engine is started and asked.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(super) program: PathBuf,
    /// `{port}` stands for a free port, `{folder}` for the policy's folder.
    pub(super) arguments: Vec<String>,
    pub(super) method: PathAndQuery,
    pub(super) answers: Answers,
    pub(super) questions: Vec<Question>,
}

impl Peer {
    /// Starts it. `None`: it cannot be asked.
    ///
    /// # Errors
    /// It does not start.
    pub(crate) async fn start(&self, log_folder: &Path) -> anyhow::Result<Option<Candidate>> {
        let Ok(asked) = &self.asked else { return Ok(None) };
        let address = free_address()?;
        let (port, folder) = (address.port().to_string(), self.folder.to_string_lossy().into_owned());
        let fill = |text: &String| OsString::from(text.replace("{port}", &port).replace("{folder}", &folder));
        let arguments = asked.arguments.iter().map(fill).collect::<Vec<_>>();
        let program = Program {
            name: &self.name,
            path: &asked.program,
            arguments: &arguments,
            environment: &[],
            folder: log_folder,
        };
        Ok(Some(Candidate {
            name: self.name.clone(),
            server: Server::start_at(&program, address).await?,
            tls: None,
            method: asked.method.clone(),
            answers: asked.answers,
            questions: asked.questions.clone(),
        }))
    }
}
