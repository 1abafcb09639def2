//! `hookd-scripted`: the servers of the table for drivers in any language. Reads one JSON value a line, answers each with
//! one line, and ends with its input:
//!
//! - `{ "serve": [answers] }`: a new server; the answer is its address.
//! - `{ "replay": true }`: a new server that answers with the golden vectors; the answer is its address.
//! - `{ "dead": true }`: the answer is an address where nobody listens.
//! - `{ "asked": "ADDRESS" }`: the answer is how many calls that server has had.
//!
//! With the argument `gates` it prints what belongs into `vectors.json`.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where something is not as it must be"
)]

use std::{
    collections::HashMap,
    io::{self, Write as _},
};

use hookd_conformance::{Server, gates};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};

#[tokio::main]
async fn main() -> io::Result<()> {
    if std::env::args().nth(1).as_deref() == Some("gates") {
        return io::stdout().write_all(gates().as_bytes());
    }
    let mut servers = HashMap::new();
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let order = hookd_json::parse(&line).unwrap();
        let answer = match order.as_object().and_then(|order| order.iter().next()) {
            Some((key, answers)) if key == "serve" => known(Server::scripted(answers).await, &mut servers),
            Some((key, _)) if key == "replay" => known(Server::replaying().await, &mut servers),
            Some((key, _)) if key == "dead" => Server::dead().to_string(),
            Some((key, Value::String(address))) if key == "asked" => servers[address].asked().to_string(),
            _ => panic!("no order: {line}"),
        };
        let mut out = io::stdout();
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}

fn known(server: Server, servers: &mut HashMap<String, Server>) -> String {
    let address = server.address().to_string();
    servers.insert(address.clone(), server);
    address
}
