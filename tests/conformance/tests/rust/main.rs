//! The Rust client against the table and the golden vectors. The README of this crate says what stands in them.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test stops where something is not as it must be"
)]

mod row;
mod run;
mod seen;

use std::{collections::BTreeSet, fs};

use futures_util::{StreamExt as _, stream};
use hookd_client::{Client, OnUnavailable};
use hookd_conformance::{Server, folder, gates, load};
use serde_json::Value;
use tokio::task::{LocalSet, spawn_local};

use self::{
    row::Row,
    run::{Ran, run},
    seen::{differences, seen},
};

/// How many rows run at a time.
const AT_A_TIME: usize = 4;

fn read(name: &str) -> Value {
    hookd_json::parse(&fs::read_to_string(folder().join(name)).unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_row_of_the_table() {
    let rows = serde_json::from_value::<Vec<Row>>(read("table.json")).unwrap();
    let names = rows.iter().map(|row| row.name.clone()).collect::<BTreeSet<_>>();
    assert_eq!(names.len(), rows.len(), "two rows have one name");
    let ran = stream::iter(rows).map(|row| async move {
        let name = row.name.clone();
        // A row that panics is one that fails.
        (name, spawn_local(run(row)).await)
    });
    let mut run_or_said = BTreeSet::new();
    let mut failed = Vec::new();
    let ran = LocalSet::new().run_until(ran.buffer_unordered(AT_A_TIME).collect::<Vec<_>>()).await;
    for (name, ran) in ran {
        match ran {
            Ok(Ran::As(problems)) if problems.is_empty() => {}
            Ok(Ran::As(problems)) => failed.push(format!("{name}: {}", problems.join("; "))),
            Ok(Ran::Without(why)) => println!("{name}: not in Rust: {why}"),
            Err(panicked) => failed.push(format!("{name}: {panicked}")),
        }
        run_or_said.insert(name);
    }
    assert_eq!(run_or_said, names);
    assert!(failed.is_empty(), "{} rows:\n{}", failed.len(), failed.join("\n"));
}

#[tokio::test]
async fn every_golden_vector() {
    let server = Server::replaying().await;
    let client = Client::connect_lazy(&server.address().to_string(), OnUnavailable::Block).unwrap();
    let expected = read("vectors.json");
    let vectors = load();
    let mut failed = Vec::new();
    for (vector, expected) in vectors.iter().zip(expected.as_array().unwrap()) {
        assert_eq!(expected["vector"], vector.name.as_str());
        let gate = client.trigger(vector.request.clone()).await;
        let problems = differences(expected, &seen(&gate), &[]);
        failed.extend(problems.into_iter().map(|problem| format!("{}: {problem}", vector.name)));
    }
    assert!(failed.is_empty(), "{} of them:\n{}", failed.len(), failed.join("\n"));
    assert_eq!((server.asked(), expected.as_array().unwrap().len()), (vectors.len(), vectors.len()));
}

#[test]
fn the_gates_of_the_vectors_are_those_of_the_rule() {
    let written = fs::read_to_string(folder().join("vectors.json")).unwrap();
    assert!(written == gates(), "a vector or the rule has changed: write it anew as the README says");
}
