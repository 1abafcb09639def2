//! Reads the sources and holds the plan of the house: `use crate::` points only to a later room or to a corridor, and
//! the pure rooms stay pure.

#![cfg(test)]
#![expect(
    clippy::arithmetic_side_effects,
    clippy::string_slice,
    reason = "a test that fails to read the sources has failed"
)]

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The rooms in walking order. A file belongs to the longest name that its path starts with.
const ROOMS: [&str; 16] = [
    "main",
    "app",
    "door",
    "rpc/hooks",
    "rpc/json",
    "rpc/trigger",
    "rpc/admin",
    "rpc/health",
    "rpc/parse",
    "evaluate",
    "select",
    "run",
    "combine",
    "record",
    "rpc/reply",
    "rpc/status",
];

const CORRIDORS: [&str; 6] = ["model", "condition", "settings", "catalog", "telemetry", "drain"];

/// What a pure room must not name.
const IMPURE: [&str; 10] =
    ["async ", ".await", "tokio", "tonic", "std::fs", "std::io", "std::net", "std::process", "std::env", "SystemTime"];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Each source file without its tests, by its path below `src` without the ending.
fn files() -> Vec<(String, String)> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    sources(&src, &mut found);
    let name = |path: &Path| path.strip_prefix(&src).unwrap().with_extension("").to_str().unwrap().to_owned();
    let files = found.iter().map(|path| (name(path), fs::read_to_string(path).unwrap()));
    files.filter(|(name, _)| !name.contains("tests") && !name.ends_with("testing")).map(without_tests).collect()
}

fn without_tests((name, text): (String, String)) -> (String, String) {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned();
    (name, code)
}

/// The place of a room in the walk; `None` for corridors and for what only joins rooms (`lib`, `rpc`).
fn room(path: &str) -> Option<usize> {
    ROOMS.iter().position(|room| path == *room || path.starts_with(&format!("{room}/")))
}

fn is_corridor(path: &str) -> bool {
    CORRIDORS.iter().any(|corridor| path == *corridor || path.starts_with(&format!("{corridor}/")))
}

/// Every `crate::a::b` in the code as `a/b`, groups in braces opened one level deep.
fn uses(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    let compact = code.split_whitespace().collect::<Vec<_>>().join(" ").replace(" ::", "::");
    for (at, _) in compact.match_indices("crate::") {
        let rest = &compact[at + "crate::".len()..];
        if let Some(group) = rest.strip_prefix('{') {
            found.extend(split_group(group));
        } else {
            found.push(path_of(rest));
        }
    }
    found
}

/// The parts of a brace group, at its own level.
fn split_group(group: &str) -> Vec<String> {
    let mut depth = 0;
    let mut part = String::new();
    let mut parts = Vec::new();
    for c in group.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(path_of(part.trim()));
                part.clear();
                continue;
            }
            _ => {}
        }
        part.push(c);
    }
    parts.push(path_of(part.trim()));
    parts.retain(|part| !part.is_empty());
    parts
}

fn path_of(text: &str) -> String {
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).unwrap_or(text.len());
    text[..end].trim_end_matches(':').replace("::", "/")
}

#[test]
fn rooms_use_only_later_rooms_and_corridors_use_none() {
    let mut wrong = Vec::new();
    for (file, code) in files() {
        for used in uses(&code) {
            // `rpc::{trigger, …}` is named through its parent.
            let Some(to) = room(&used) else { continue };
            let allowed = match room(&file) {
                Some(from) => from <= to,
                None => !is_corridor(&file),
            };
            if !allowed {
                wrong.push(format!("{file} uses crate::{}", used.replace('/', "::")));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn every_file_belongs_to_a_room_or_a_corridor() {
    let lost = files().into_iter().map(|(file, _)| file);
    let lost =
        lost.filter(|file| !["lib", "rpc"].contains(&file.as_str()) && room(file).is_none() && !is_corridor(file));
    assert_eq!(lost.collect::<Vec<_>>(), Vec::<String>::new());
}

/// What stands in the first column of the table of the walk, in order.
fn told() -> Vec<String> {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../ARCHITECTURE.md")).unwrap();
    let (_, section) = page.split_once("\n## The walk of one call\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let cells = section.lines().filter_map(|line| line.strip_prefix("| `")?.split(" |").next());
    cells.flat_map(|cell| cell.trim_end_matches('`').split("`, `").map(str::to_owned)).collect()
}

#[test]
fn the_architecture_tells_the_walk_as_it_is() {
    assert_eq!(told(), ROOMS);
}

#[test]
fn pure_rooms_have_no_io_no_clock_no_async_and_no_tonic() {
    let mut wrong = Vec::new();
    for (file, code) in files() {
        if !["select", "combine", "model"].iter().any(|pure| file == *pure || file.starts_with(&format!("{pure}/"))) {
            continue;
        }
        let code = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
        wrong.extend(IMPURE.iter().filter(|word| code.contains(**word)).map(|word| format!("{file} names `{word}`")));
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn the_reader_of_uses_sees_through_groups() {
    let code = "use crate::{\n    model::{A, B},\n    rpc::status::X,\n};\nlet x = crate::run::Pool::new();";
    assert_eq!(uses(code), ["model", "rpc/status/X", "run/Pool/new"]);
}
