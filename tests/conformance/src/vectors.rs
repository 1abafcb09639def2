//! The golden vectors of `tests/vectors/`, as clients meet them: a request to send, and an answer to act on.

use std::{
    fs,
    path::{Path, PathBuf},
};

use hookd_proto::v1::{TriggerRequest, TriggerResponse};
use serde_json::{Value, json};

use crate::{of_answer, wire};

/// One file.
#[derive(Debug, Clone)]
pub struct Vector {
    /// `AGENT/FILE`, without `.json`.
    pub name: String,
    /// What a client sends.
    pub request: TriggerRequest,
    /// What it is answered.
    pub response: TriggerResponse,
}

/// All vectors, in the order of their names' folders and files.
#[must_use]
pub fn load() -> Vec<Vector> {
    let root = folder().join("../vectors");
    let files = entries(&root).into_iter().filter(|path| path.is_dir()).flat_map(|agent| entries(&agent));
    files.filter(|path| path.extension().is_some_and(|extension| extension == "json")).map(|path| read(&path)).collect()
}

/// The gate of every vector, the contents of `vectors.json`: one line each, so that a difference is one line too.
#[must_use]
pub fn gates() -> String {
    let line = |vector: &Vector| {
        let mut line = json!({ "vector": vector.name });
        let gate = of_answer(&vector.request.event, &vector.response);
        line.as_object_mut().unwrap().extend(gate.as_object().unwrap().clone());
        line.to_string()
    };
    format!("[\n{}\n]\n", load().iter().map(line).collect::<Vec<_>>().join(",\n"))
}

/// The folder of the table.
#[must_use]
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    paths.sort();
    paths
}

fn read(path: &Path) -> Vector {
    let agent = path.parent().and_then(Path::file_name).unwrap().to_str().unwrap();
    let file: Value = hookd_json::parse(&fs::read_to_string(path).unwrap()).unwrap();
    Vector {
        name: format!("{agent}/{}", path.file_stem().unwrap().to_str().unwrap()),
        request: wire::request(&file["request"]),
        response: wire::response(&file["response"]),
    }
}
