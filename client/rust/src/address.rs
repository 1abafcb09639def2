//! Where hookd listens.

use std::{fmt, path::Path, str::FromStr};

use http::Uri;

/// One address of hookd: a TCP address or a unix socket.
///
/// Written as `host:port`, `http://host:port` or `unix:/path`. TLS (`https`) is not part of this version.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    text: String,
    uri: String,
}

/// Why a text is not an address of hookd.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The list names no address.
    #[error("no address given, expected `host:port`, `http://host:port` or `unix:/path`")]
    Empty,
    /// It asks for TLS.
    #[error("address `{0}` asks for TLS, which this version does not speak; expected `http://host:port`")]
    Tls(String),
    /// It is anything else.
    #[error("`{0}` is not an address, expected `host:port`, `http://host:port` or `unix:/path`")]
    NotAnAddress(String),
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

    /// What the transport takes.
    pub(crate) fn uri(&self) -> &str {
        &self.uri
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
            return Ok(Self { text: text.to_owned(), uri: format!("unix:{path}") });
        }
        if text.starts_with("https://") {
            return Err(AddressError::Tls(text.to_owned()));
        }
        let uri = if text.starts_with("http://") { text.to_owned() } else { format!("http://{text}") };
        let parsed = uri.parse::<Uri>().map_err(|_| not_an_address())?;
        let bare = matches!(parsed.path_and_query().map(|path| path.as_str()), None | Some("/"));
        let user = parsed.authority().is_some_and(|authority| authority.as_str().contains('@'));
        let host = parsed.host().is_some_and(|host| !host.is_empty());
        if !bare || user || !host || parsed.port_u16().is_none_or(|port| port == 0) {
            return Err(not_an_address());
        }
        Ok(Self { text: text.to_owned(), uri })
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

    fn uris(list: &str) -> Result<Vec<String>, String> {
        let addresses = Address::parse_list(list).map_err(|error| error.to_string())?;
        Ok(addresses.iter().map(|address| address.uri().to_owned()).collect())
    }

    #[test]
    fn every_documented_form_is_an_address() {
        let list = "127.0.0.1:50051, http://hookd.svc:1, [::1]:2,,http://h:3/,unix:/run/h.sock,unix:///run/h.sock";
        let expected = [
            "http://127.0.0.1:50051",
            "http://hookd.svc:1",
            "http://[::1]:2",
            "http://h:3/",
            "unix:/run/h.sock",
            "unix:/run/h.sock",
        ];
        assert_eq!(uris(list), Ok(expected.map(str::to_owned).to_vec()));
    }

    #[test]
    fn what_is_no_address_is_named() {
        for text in [
            "localhost",
            "http://",
            ":50051",
            "h:0",
            "h:99999",
            "h:1/path",
            "h:1?q",
            "u@h:1",
            "unix:",
            "unix:run/h.sock",
            "tcp://h:1",
            "h :1",
            "grpc://h:1",
        ] {
            let message =
                format!("`{text}` is not an address, expected `host:port`, `http://host:port` or `unix:/path`");
            assert_eq!(uris(text), Err(message));
        }
        assert_eq!(
            uris(" , "),
            Err("no address given, expected `host:port`, `http://host:port` or `unix:/path`".to_owned())
        );
        assert_eq!(
            uris("https://h:1"),
            Err("address `https://h:1` asks for TLS, which this version does not speak; expected `http://host:port`"
                .to_owned())
        );
    }
}
