//! What is shown to hookd, and by what it is known.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use clap::Args as Group;
use hookd_client::Credentials;

/// The options that name the files.
const OPTIONS: [&str; 4] = ["--token-file", "--ca-file", "--client-cert-file", "--client-key-file"];

/// Files for the way to hookd. They are read when they are needed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Group)]
pub(crate) struct CredentialArgs {
    /// The file with the token that is shown to hookd (never in the clear beyond this machine).
    #[arg(long, global = true, value_name = "FILE", help_heading = "Credentials")]
    token_file: Option<PathBuf>,
    /// The file with the certificates (PEM) of those who may have signed hookd's certificate, for `https` addresses
    /// [default: those that this system trusts].
    #[arg(long, global = true, value_name = "FILE", help_heading = "Credentials")]
    ca_file: Option<PathBuf>,
    /// The file with the certificate (PEM) that is shown to hookd.
    #[arg(long, global = true, value_name = "FILE", help_heading = "Credentials")]
    client_cert_file: Option<PathBuf>,
    /// The file with the private key (PEM) of that certificate.
    #[arg(long, global = true, value_name = "FILE", help_heading = "Credentials")]
    client_key_file: Option<PathBuf>,
}

impl CredentialArgs {
    /// The files that are named here.
    pub(crate) fn named(&self) -> Credentials {
        let Self { token_file, ca_file, client_cert_file, client_key_file } = self.clone();
        Credentials { token_file, ca_file, client_cert_file, client_key_file, server_name: None }
    }

    /// The files that are named here, and for the rest those of the environment (`HOOKD_TOKEN_FILE`, `HOOKD_CA_FILE`,
    /// `HOOKD_CLIENT_CERT_FILE`, `HOOKD_CLIENT_KEY_FILE`).
    pub(crate) fn or_environment(&self) -> Credentials {
        over(self.named(), Credentials::of_environment())
    }
}

/// `first`, and what it does not name from `second`. A certificate and its key come from the same of the two.
pub(crate) fn over(first: Credentials, second: Credentials) -> Credentials {
    let (client_cert_file, client_key_file) = match (first.client_cert_file, first.client_key_file) {
        (None, None) => (second.client_cert_file, second.client_key_file),
        pair => pair,
    };
    Credentials {
        token_file: first.token_file.or(second.token_file),
        ca_file: first.ca_file.or(second.ca_file),
        client_cert_file,
        client_key_file,
        server_name: first.server_name.or(second.server_name),
    }
}

/// Each file that is named, with its option.
pub(crate) fn by_option(credentials: &Credentials) -> impl Iterator<Item = (&'static str, &Path)> {
    let Credentials { token_file, ca_file, client_cert_file, client_key_file, .. } = credentials;
    let files = [token_file, ca_file, client_cert_file, client_key_file];
    OPTIONS.into_iter().zip(files).filter_map(|(option, file)| Some((option, file.as_deref()?)))
}

/// The variables of the environment that name files.
pub(crate) fn variables_set(value: impl Fn(&str) -> Option<OsString>) -> Vec<&'static str> {
    use hookd_client::variables::{CA_FILE, CLIENT_CERT_FILE, CLIENT_KEY_FILE, TOKEN_FILE};
    let names = [TOKEN_FILE, CA_FILE, CLIENT_CERT_FILE, CLIENT_KEY_FILE];
    names.into_iter().filter(|name| value(name).is_some_and(|value| !value.is_empty())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(token: &str, cert: &str, key: &str) -> Credentials {
        let path = |text: &str| Some(PathBuf::from(text)).filter(|path| !path.as_os_str().is_empty());
        Credentials {
            token_file: path(token),
            client_cert_file: path(cert),
            client_key_file: path(key),
            ..Credentials::default()
        }
    }

    #[test]
    fn a_certificate_never_gets_the_key_of_another_place() {
        assert_eq!(over(named("t", "", ""), named("u", "c", "k")), named("t", "c", "k"));
        assert_eq!(over(named("", "c", "k"), named("u", "d", "l")), named("u", "c", "k"));
        assert_eq!(over(named("", "c", ""), named("u", "d", "l")), named("u", "c", ""));
    }
}
