//! Where gRPC is served, and under which names.

use std::{fmt, net::SocketAddr, path::PathBuf};

use config::Value;

use super::section::{Section, absolute};

const HOSTS: &str = "a name without scheme and port or a list of them, such as hookd.example.com";
const ADDRESSES: &str = "an address or a list of them, such as 127.0.0.1:50051, [::1]:50051 or unix:/run/hookd.sock";

/// An address to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// A TCP address; port 0 takes any free one.
    Tcp(SocketAddr),
    /// A unix socket.
    Unix(PathBuf),
}

impl Listen {
    /// Whether only this machine can reach the address.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().to_canonical().is_loopback(),
            Self::Unix(_) => true,
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

pub(super) fn listen(top: &mut Section<'_, '_>) -> Option<Vec<Listen>> {
    let base = top.peek("listen").map(|value| top.base(value));
    let given = top.strings("listen", ADDRESSES)?;
    let base = base?;
    let mut addresses = Vec::new();
    for address in &given {
        match address.strip_prefix("unix:") {
            Some(path) if !path.is_empty() => addresses.push(Listen::Unix(absolute(base, path))),
            _ => match address.parse() {
                Ok(address) => addresses.push(Listen::Tcp(address)),
                Err(_) => top.problem("listen", None, &format!("{address:?} is not {ADDRESSES}")),
            },
        }
    }
    if given.is_empty() {
        top.problem("listen", None, &format!("an empty list is not {ADDRESSES}"));
    }
    Some(addresses)
}

/// Addresses that hookd would find taken by itself.
pub(super) fn taken_twice(
    top: &Section<'_, '_>,
    listen: &[Listen],
    listen_value: Option<&Value>,
    admin_listen: SocketAddr,
    admin_value: Option<&Value>,
) {
    let is_one = |address: &Listen| !matches!(address, Listen::Tcp(address) if address.port() == 0);
    for (at, address) in listen.iter().enumerate().filter(|(_, address)| is_one(address)) {
        if listen.iter().take(at).any(|other| other == address) {
            top.problem("listen", listen_value, &format!("{address} stands there twice"));
        }
    }
    let admin = Listen::Tcp(admin_listen);
    if is_one(&admin) && listen.contains(&admin) {
        let message =
            format!("{admin} is an address of `listen` as well, expected one of its own, such as 127.0.0.1:8081");
        top.problem("admin_listen", admin_value, &message);
    }
}

pub(super) fn hosts(top: &mut Section<'_, '_>) -> Vec<String> {
    let given = top.strings("hosts", HOSTS).unwrap_or_else(|| vec!["localhost".to_owned()]);
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    for host in given.iter().filter(|host| !host.chars().all(plain)) {
        top.problem("hosts", None, &format!("{host:?} is not {HOSTS}"));
    }
    given.into_iter().map(|host| host.to_ascii_lowercase()).collect()
}
