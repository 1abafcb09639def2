//! hookd end to end: the real binary, real processes, sockets and files. One binary, because linking takes long; a
//! module per subject. How a test is written stands at the top of the harness (`tests/src/lib.rs`).

#[cfg(test)]
mod laws;
#[cfg(test)]
mod quickstart;
