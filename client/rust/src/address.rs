//! Where hookd listens.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    str::FromStr,
};

use http::Uri;

/// One address of hookd: a TCP address, with TLS where it says `https`, or a unix socket.
///
/// Written as `host:port`, `http://host:port`, `https://host:port` or `unix:/path`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    text: String,
    place: Place,
}

/// What an address names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    Unix(PathBuf),
    /// `host` is a name or an IP address without brackets.
    Tcp {
        host: String,
        port: u16,
        tls: bool,
    },
}

/// Why a text is not an address of hookd, or does not fit what else was said.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The list names no address.
    #[error("no address given, expected `host:port`, `http://host:port`, `https://host:port` or `unix:/path`")]
    Empty,
    /// It is none of the forms.
    #[error("`{0}` is not an address, expected `host:port`, `http://host:port`, `https://host:port` or `unix:/path`")]
    NotAnAddress(String),
    /// A token would leave this machine without TLS.
    #[error("the token in {} would travel to `{address}` in the clear, expected `https://host:port`", token_file.display())]
    TokenInTheClear {
        /// The address without TLS.
        address: String,
        /// Where the token is.
        token_file: PathBuf,
    },
    /// A file that is of use with TLS only is named beside an address on another machine that is asked without.
    #[error("`{address}` is asked without TLS although the {what} {} is named, expected `https://host:port`", file.display())]
    WithoutTls {
        /// The address without TLS.
        address: String,
        /// What the file is.
        what: &'static str,
        /// The file.
        file: PathBuf,
    },
    /// Of a client certificate and its key only one is named.
    #[error("the {what} {} is named without the {missing} beside it, expected both or neither", file.display())]
    HalfOfAPair {
        /// What is named.
        what: &'static str,
        /// The file.
        file: PathBuf,
        /// What is not.
        missing: &'static str,
    },
}

impl Address {
    /// The addresses in a comma separated list, as `HOOKD_ADDRESS` holds it. White space and empty places are skipped.
    ///
    /// # Errors
    /// [`AddressError`] of the first one that is none, and where there is not a single one.
    pub fn parse_list(list: &str) -> Result<Vec<Self>, AddressError> {
        let places = list.split(',').map(str::trim).filter(|place| !place.is_empty());
        let addresses = places.map(Self::from_str).collect::<Result<Vec<_>, _>>()?;
        if addresses.is_empty() { Err(AddressError::Empty) } else { Ok(addresses) }
    }

    /// Whether hookd is asked with TLS there.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        matches!(self.place, Place::Tcp { tls: true, .. })
    }

    /// Whether calls stay on this machine: a unix socket, `localhost`, or an address of loopback.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match &self.place {
            Place::Unix(_) => true,
            Place::Tcp { host, .. } => {
                host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
            }
        }
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Whether it has to be looked up.
    pub(crate) fn is_name(&self) -> bool {
        matches!(self.place, Place::Tcp { .. }) && self.socket_address().is_none()
    }

    /// What it is without being looked up.
    pub(crate) fn socket_address(&self) -> Option<SocketAddr> {
        match &self.place {
            Place::Tcp { host, port, .. } => Some(SocketAddr::new(host.parse().ok()?, *port)),
            Place::Unix(_) => None,
        }
    }

    /// What calls are addressed to. For a unix socket it is a name that stands for this machine.
    pub(crate) fn origin(&self) -> Uri {
        let text = match &self.place {
            Place::Unix(_) => return Uri::from_static("http://localhost"),
            Place::Tcp { host, port, tls } => {
                let scheme = if *tls { "https" } else { "http" };
                if host.contains(':') {
                    format!("{scheme}://[{host}]:{port}")
                } else {
                    format!("{scheme}://{host}:{port}")
                }
            }
        };
        // Its parts come out of a URI.
        text.parse().unwrap_or_default()
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let not_an_address = || AddressError::NotAnAddress(text.to_owned());
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            if !Path::new(path).is_absolute() || path.contains('\0') {
                return Err(not_an_address());
            }
            return Ok(Self { text: text.to_owned(), place: Place::Unix(path.into()) });
        }
        let tls = text.starts_with("https://");
        let uri = if tls || text.starts_with("http://") { text.to_owned() } else { format!("http://{text}") };
        let parsed = uri.parse::<Uri>().map_err(|_| not_an_address())?;
        let bare = matches!(parsed.path_and_query().map(|path| path.as_str()), None | Some("/"));
        let user = parsed.authority().is_some_and(|authority| authority.as_str().contains('@'));
        let host = parsed.host().unwrap_or_default();
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        match parsed.port_u16() {
            Some(port) if bare && !user && !host.is_empty() && port != 0 => {
                let place = Place::Tcp { host: host.to_owned(), port, tls };
                Ok(Self { text: text.to_owned(), place })
            }
            _ => Err(not_an_address()),
        }
    }
}

/// As it was written.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPECTED: &str = "expected `host:port`, `http://host:port`, `https://host:port` or `unix:/path`";

    fn tcp(host: &str, port: u16, tls: bool) -> Place {
        Place::Tcp { host: host.to_owned(), port, tls }
    }

    #[test]
    fn every_documented_form_is_an_address() {
        let list = "127.0.0.1:50051, http://hookd.svc:1, [::1]:2,,http://h:3/,https://h.example:4,https://[fe80::1]:5,\
                    unix:/run/h.sock,unix:///run/h.sock";
        let socket = || Place::Unix("/run/h.sock".into());
        let expected = [
            (tcp("127.0.0.1", 50051, false), "http://127.0.0.1:50051/", true),
            (tcp("hookd.svc", 1, false), "http://hookd.svc:1/", false),
            (tcp("::1", 2, false), "http://[::1]:2/", true),
            (tcp("h", 3, false), "http://h:3/", false),
            (tcp("h.example", 4, true), "https://h.example:4/", false),
            (tcp("fe80::1", 5, true), "https://[fe80::1]:5/", false),
            (socket(), "http://localhost/", true),
            (socket(), "http://localhost/", true),
        ];
        let addresses = Address::parse_list(list).unwrap();
        let found = addresses.iter().map(|it| (it.place().clone(), it.origin().to_string(), it.is_local()));
        assert_eq!(found.collect::<Vec<_>>(), expected.map(|(place, origin, local)| (place, origin.to_owned(), local)));
    }

    #[test]
    fn what_is_no_address_is_named() {
        let parse = |list: &str| Address::parse_list(list).map_err(|error| error.to_string());
        for text in [
            "localhost",
            "http://",
            "https://",
            "https://h",
            ":50051",
            "h:0",
            "h:99999",
            "h:1/path",
            "h:1?q",
            "u@h:1",
            "https://u@h:1",
            "unix:",
            "unix:run/h.sock",
            "tcp://h:1",
            "h :1",
            "grpc://h:1",
        ] {
            assert_eq!(parse(text), Err(format!("`{text}` is not an address, {EXPECTED}")));
        }
        assert_eq!(parse(" , "), Err(format!("no address given, {EXPECTED}")));
    }
}
