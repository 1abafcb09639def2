//! hookd end to end: the real binary, real processes, sockets and files. One binary, because linking takes long; a
//! module per subject. How a test is written stands at the top of the harness (`tests/src/lib.rs`).

#[cfg(test)]
mod agents;
#[cfg(test)]
mod audit;
#[cfg(test)]
mod bulkheads;
#[cfg(test)]
mod cases_encoding;
#[cfg(test)]
mod cases_handlers;
#[cfg(test)]
mod cases_loading;
#[cfg(test)]
mod cases_processes;
#[cfg(test)]
mod claude_handlers;
#[cfg(test)]
mod conditions;
#[cfg(test)]
mod credentials;
#[cfg(test)]
mod drain;
#[cfg(test)]
mod fleet;
#[cfg(test)]
mod flood;
#[cfg(test)]
mod gate;
#[cfg(test)]
mod held_in;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod http_hooks;
#[cfg(test)]
mod identity;
#[cfg(test)]
mod laws;
#[cfg(test)]
mod otlp;
#[cfg(test)]
mod pages;
#[cfg(test)]
mod permission;
#[cfg(test)]
mod quickstart;
#[cfg(test)]
mod relay;
#[cfg(test)]
mod reload;
#[cfg(test)]
mod security;
#[cfg(test)]
mod stream;
#[cfg(test)]
mod tenants;
#[cfg(test)]
mod tls;
#[cfg(test)]
mod transport;
#[cfg(test)]
mod vectors;
#[cfg(test)]
mod webhooks;
#[cfg(test)]
mod workers;
