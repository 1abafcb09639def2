//! What a client shows to hookd, and by what it knows hookd: files, read again when they change.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
};

use tonic::metadata::{Ascii, MetadataValue};

use crate::{
    Address, AddressError,
    files::{Cached, Named, NotUsable},
};

/// The environment variables of a client, the same for the clients of all languages. One that is set to nothing is as
/// good as not set.
pub mod variables {
    /// Where hookd listens: a list of addresses ([`Address::parse_list`](crate::Address::parse_list)). Not set:
    /// `127.0.0.1:50051`.
    pub const ADDRESS: &str = "HOOKD_ADDRESS";
    /// Path of [`Credentials::token_file`](crate::Credentials::token_file).
    pub const TOKEN_FILE: &str = "HOOKD_TOKEN_FILE";
    /// Path of [`Credentials::ca_file`](crate::Credentials::ca_file).
    pub const CA_FILE: &str = "HOOKD_CA_FILE";
    /// Path of [`Credentials::client_cert_file`](crate::Credentials::client_cert_file).
    pub const CLIENT_CERT_FILE: &str = "HOOKD_CLIENT_CERT_FILE";
    /// Path of [`Credentials::client_key_file`](crate::Credentials::client_key_file).
    pub const CLIENT_KEY_FILE: &str = "HOOKD_CLIENT_KEY_FILE";
}

/// What a client shows to hookd, and by what it knows hookd.
///
/// All are paths, none is a secret. The files may be replaced at any time, by renaming or by the swap of a symbolic link
/// as Kubernetes does it: each call carries the token that is in its file then, and each new connection is made with the
/// certificates and the key that are in theirs. A file that cannot be used blocks the calls that need it, by
/// [`CallErrorKind::NotTrusted`](crate::CallErrorKind::NotTrusted), with its name and what is wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// A token, which goes along with every call as `authorization: Bearer …`: one line of visible ASCII; white space
    /// around it does not count. Only over TLS, over loopback, or through a unix socket.
    pub token_file: Option<PathBuf>,
    /// The certificates (PEM) of those who may have signed hookd's certificate. `None`: those that this system trusts
    /// (on Linux its bundle, or `SSL_CERT_FILE` and `SSL_CERT_DIR` where they are set), read once.
    pub ca_file: Option<PathBuf>,
    /// This client's certificate and what leads from it to its CA (PEM). Only together with `client_key_file`.
    pub client_cert_file: Option<PathBuf>,
    /// The private key (PEM: PKCS#8, PKCS#1 or SEC1) of the certificate in `client_cert_file`.
    pub client_key_file: Option<PathBuf>,
    /// The name (or IP address) that hookd's certificate must be for. `None`: the host of its address.
    pub server_name: Option<String>,
}

/// The token, as it goes along with calls.
pub(crate) struct Token {
    file: PathBuf,
    header: Cached<MetadataValue<Ascii>>,
}

/// The addresses in the environment, or the default one.
///
/// # Errors
/// [`AddressError`] for what is not an address.
pub(crate) fn addresses_of_environment() -> Result<Vec<Address>, AddressError> {
    let value = of_variable(|name| env::var_os(name), variables::ADDRESS);
    match value.map_or_else(|| Ok("127.0.0.1:50051".to_owned()), OsString::into_string) {
        Ok(list) => Address::parse_list(&list),
        Err(list) => Err(AddressError::NotAnAddress(list.to_string_lossy().into_owned())),
    }
}

impl Credentials {
    /// The files that the environment names, by [`variables`].
    #[must_use]
    pub fn of_environment() -> Self {
        Self::of_variables(|name| env::var_os(name))
    }

    /// As [`Credentials::of_environment`], with the values that `value` gives.
    #[must_use]
    pub fn of_variables(value: impl Fn(&str) -> Option<OsString>) -> Self {
        let path = |name| of_variable(&value, name).map(PathBuf::from);
        Self {
            token_file: path(variables::TOKEN_FILE),
            ca_file: path(variables::CA_FILE),
            client_cert_file: path(variables::CLIENT_CERT_FILE),
            client_key_file: path(variables::CLIENT_KEY_FILE),
            server_name: None,
        }
    }

    /// Nothing of what is here is to be shown in the clear, beyond loopback, at any of the addresses; and a
    /// certificate has its key.
    ///
    /// # Errors
    /// What does not fit, by the name of the address and of the file.
    pub fn check(&self, addresses: &[Address]) -> Result<(), AddressError> {
        let half = |what, file: &Path, missing| AddressError::HalfOfAPair { what, file: file.to_owned(), missing };
        match (&self.client_cert_file, &self.client_key_file) {
            (Some(cert), None) => return Err(half("client certificate", cert, "client key")),
            (None, Some(key)) => return Err(half("client key", key, "client certificate")),
            _ => {}
        }
        let Some(open) = addresses.iter().find(|address| !address.is_tls() && !address.is_local()) else {
            return Ok(());
        };
        let address = open.to_string();
        if let Some(token_file) = self.token_file.clone() {
            return Err(AddressError::TokenInTheClear { address, token_file });
        }
        let of_tls = [("CA file", &self.ca_file), ("client certificate", &self.client_cert_file)];
        match of_tls.into_iter().find_map(|(what, file)| Some((what, file.clone()?))) {
            Some((what, file)) => Err(AddressError::WithoutTls { address, what, file }),
            None => Ok(()),
        }
    }
}

impl Token {
    pub(crate) fn new(file: PathBuf) -> Self {
        Self { file, header: Cached::default() }
    }

    /// The value of `authorization`, as the file says it now.
    pub(crate) fn header(&self) -> Result<MetadataValue<Ascii>, NotUsable> {
        let files = [Some(Named { what: "token file", path: &self.file }), None, None];
        self.header.get(files, |[token, ..]| {
            let unusable = |why| NotUsable::file("token file", &self.file, why);
            let token = token.unwrap_or_default();
            let token = token.trim_ascii();
            if token.is_empty() {
                return Err(unusable("is empty, expected a token"));
            }
            if !token.iter().all(u8::is_ascii_graphic) {
                return Err(unusable("is not one token, expected one line of visible ASCII"));
            }
            let text = [b"Bearer ", token].concat();
            let header = str::from_utf8(&text).ok().and_then(|text| MetadataValue::try_from(text).ok());
            let mut header = header.ok_or_else(|| unusable("is not one token, expected one line of visible ASCII"))?;
            header.set_sensitive(true);
            Ok(header)
        })
    }
}

fn of_variable(value: impl Fn(&str) -> Option<OsString>, name: &str) -> Option<OsString> {
    value(name).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_environment_names_files_and_nothing_is_no_name() {
        let found = Credentials::of_variables(|name| match name {
            "HOOKD_TOKEN_FILE" => Some("/t".into()),
            "HOOKD_CA_FILE" => Some("/ca".into()),
            "HOOKD_CLIENT_CERT_FILE" => Some("/cert".into()),
            "HOOKD_CLIENT_KEY_FILE" => Some("".into()),
            _ => None,
        });
        let expected = Credentials {
            token_file: Some("/t".into()),
            ca_file: Some("/ca".into()),
            client_cert_file: Some("/cert".into()),
            ..Credentials::default()
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn nothing_is_shown_in_the_clear_beyond_loopback() {
        let none = Credentials::default;
        let token = || Credentials { token_file: Some("/t".into()), ..none() };
        let ca = || Credentials { ca_file: Some("/ca".into()), ..none() };
        let cert = || Credentials { client_cert_file: Some("/c".into()), ..none() };
        let pair = || Credentials { client_key_file: Some("/k".into()), ..cert() };
        let key = || Credentials { client_key_file: Some("/k".into()), ..none() };
        let in_the_clear =
            |at: &str| format!("the token in /t would travel to `{at}` in the clear, expected `https://host:port`");
        let cases = [
            (token(), "https://h:1,unix:/s,127.0.0.1:1,[::1]:1,http://LOCALHOST:1,127.8.0.1:2", None),
            (pair(), "https://h:1", None),
            (none(), "h:1", None),
            (ca(), "127.0.0.1:1", None),
            (token(), "https://h:1,h:2", Some(in_the_clear("h:2"))),
            (token(), "http://10.0.0.1:2", Some(in_the_clear("http://10.0.0.1:2"))),
            (token(), "localhost.example:2", Some(in_the_clear("localhost.example:2"))),
            (token(), "0.0.0.0:2", Some(in_the_clear("0.0.0.0:2"))),
            (
                ca(),
                "h:2",
                Some("`h:2` is asked without TLS although the CA file /ca is named, expected `https://host:port`".into()),
            ),
            (
                pair(),
                "h:2",
                Some(
                    "`h:2` is asked without TLS although the client certificate /c is named, expected `https://host:port`"
                        .into(),
                ),
            ),
            (
                cert(),
                "https://h:1",
                Some("the client certificate /c is named without the client key beside it, expected both or neither".into()),
            ),
            (
                key(),
                "https://h:1",
                Some("the client key /k is named without the client certificate beside it, expected both or neither".into()),
            ),
        ];
        for (credentials, list, expected) in cases {
            let found = credentials.check(&Address::parse_list(list).unwrap()).err();
            assert_eq!(found.map(|error| error.to_string()), expected, "{list}");
        }
    }

    #[test]
    fn a_token_is_one_line_and_is_never_printed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let token = Token::new(path.clone());
        let at = path.display();
        let one_line = Err(format!("the token file {at} is not one token, expected one line of visible ASCII"));
        assert_eq!(
            token.header().map(|_| ()).map_err(|error| error.to_string()),
            Err(format!("the token file {at} cannot be read: no such file or directory"))
        );
        for (content, expected) in [
            (&b"secret.a-b_c=\n"[..], Ok("Bearer secret.a-b_c=".to_owned())),
            (b"  other\r\n", Ok("Bearer other".to_owned())),
            (b" \n", Err(format!("the token file {at} is empty, expected a token"))),
            (b"secret\nsecond", one_line.clone()),
            (b"secret second", one_line.clone()),
            (b"secret\xff", one_line),
        ] {
            fs::write(&path, content).unwrap();
            let header = token.header();
            assert!(!format!("{header:?}").contains("secret"), "{header:?}");
            let found = header.map(|header| header.to_str().unwrap().to_owned()).map_err(|error| error.to_string());
            assert_eq!(found, expected);
        }
    }
}
