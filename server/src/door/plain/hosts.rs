use std::{
    collections::BTreeSet,
    net::IpAddr,
    sync::{Mutex, PoisonError},
};

use http::uri::Authority;
use tracing::warn;

use crate::settings::Listen;

/// So many foreign names are logged: whoever can send requests must not fill the log.
const LOGGED: usize = 16;

/// By which names hookd may be addressed on one listener. A web page can make a browser send requests to any address,
/// also to loopback and under a name of its own that it has resolve to there; the browser then says that name.
#[derive(Debug)]
pub struct Hosts {
    /// `None`: a unix socket, to which no browser sends.
    address: Option<IpAddr>,
    names: Vec<String>,
    logged: Mutex<BTreeSet<String>>,
}

impl Hosts {
    /// The names of a listener: addresses of loopback, the address that it listens on (any address, where it listens on
    /// all) and `names`, in any case.
    #[must_use]
    pub fn of(listen: &Listen, names: &[String]) -> Self {
        let address = match listen {
            Listen::Tcp(address) => Some(address.ip().to_canonical()),
            Listen::Unix(_) => None,
        };
        let names = names.iter().map(|name| normal(name)).collect();
        Self { address, names, logged: Mutex::default() }
    }

    /// Whether `authority` (a `Host` header: a name or address, and maybe a port, which is not looked at) is hookd.
    pub(super) fn has(&self, authority: &str) -> bool {
        let Some(address) = self.address else { return true };
        let has = authority.parse::<Authority>().is_ok_and(|authority| {
            let is_bare = authority.as_str() == authority.host() || authority.port_u16().is_some();
            is_bare && !authority.as_str().contains('@') && self.has_host(address, authority.host())
        });
        if !has {
            self.log(authority);
        }
        has
    }

    fn has_host(&self, listens: IpAddr, host: &str) -> bool {
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        match bare.parse::<IpAddr>() {
            Ok(address) => {
                let address = address.to_canonical();
                // An address is what it says: nobody can make it resolve to another.
                listens.is_unspecified() || address == listens || address.is_loopback()
            }
            Err(_) => self.names.contains(&normal(host)),
        }
    }

    fn log(&self, authority: &str) {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        let host = authority.chars().take(100).collect::<String>();
        if logged.len() < LOGGED && logged.insert(host.clone()) {
            warn!(host, "calls to a foreign host are refused: if it is a name of this server, it belongs into `hosts`");
        }
    }
}

/// Names are the same in any case, and with or without the dot at the end.
fn normal(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn hosts(listen: &str) -> Hosts {
        let names = ["localhost", "Hookd.Example.com"].map(str::to_owned);
        Hosts::of(&Listen::Tcp(listen.parse::<SocketAddr>().unwrap()), &names)
    }

    #[test]
    fn addresses_of_loopback_its_own_and_listed_names_are_hookd() {
        let cases = [
            ("localhost", true, true),
            ("LOCALHOST:1234", true, true),
            ("localhost.", true, true),
            ("127.0.0.1", true, true),
            ("127.0.0.1:50051", true, true),
            ("[::1]:50051", true, true),
            ("hookd.example.com:443", true, true),
            ("HOOKD.EXAMPLE.COM.", true, true),
            ("10.1.2.3:50051", false, true),
            ("[fd00::1]", false, true),
            ("evil.example", false, false),
            ("evil.localhost", false, false),
            ("127.0.0.1.evil.example", false, false),
            ("localhost@evil.example", false, false),
            ("evil@localhost", false, false),
            ("", false, false),
            ("localhost:x", false, false),
        ];
        for (authority, on_loopback, on_all) in cases {
            let is_hookd = (hosts("127.0.0.1:50051").has(authority), hosts("0.0.0.0:50051").has(authority));
            assert_eq!(is_hookd, (on_loopback, on_all), "{authority:?}");
        }
        assert!(hosts("10.1.2.3:50051").has("10.1.2.3") && !hosts("10.1.2.3:50051").has("10.1.2.4"));
        assert!(Hosts::of(&Listen::Unix("/run/h.sock".into()), &[]).has("anything at all"));
    }

    #[test]
    fn foreign_hosts_are_logged_once_and_not_without_end() {
        let hosts = hosts("127.0.0.1:50051");
        for number in 0..100 {
            assert!(!hosts.has(&format!("evil{}.example", number / 2)));
        }
        assert_eq!(hosts.logged.lock().unwrap().len(), LOGGED);
    }
}
