use std::{fs, path::Path};

use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use tempfile::TempDir;

use super::*;
use crate::settings::{ClientCertificates, TlsVersion};

/// A certificate that signed itself and its key, by its serial and the year of its end.
fn pair(serial: u64, last_year: i32) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.serial_number = Some(serial.into());
    params.not_after = date_time_ymd(last_year, 1, 1);
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

fn write(folder: &Path, (certificate, key): &(String, String)) {
    fs::write(folder.join("tls.crt"), certificate).unwrap();
    fs::write(folder.join("tls.key"), key).unwrap();
}

/// Settings for files in a folder of their own, and a good pair in it.
fn settings() -> (TempDir, TlsSettings) {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &pair(1, 4096));
    let settings = TlsSettings {
        certificate: folder.path().join("tls.crt"),
        key: folder.path().join("tls.key"),
        clients: None,
        min_version: TlsVersion::V1_3,
    };
    (folder, settings)
}

#[test]
fn files_that_cannot_be_used_are_refused_by_name() {
    let (folder, settings) = settings();
    let good = pair(1, 4096);
    let check = |files: &[(&str, &str)], clients: bool| {
        write(folder.path(), &good);
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let clients = clients.then(|| ClientCertificates { authorities: folder.path().join("ca.crt"), required: true });
        let text = check(&TlsSettings { clients, ..settings.clone() }).map_err(|error| error.to_string());
        text.map_err(|text| text.replace(&format!("{}/", folder.path().display()), ""))
    };
    let (other, other_key) = pair(2, 4096);
    let garbage = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let torn = good.0.get(..good.0.len() / 2).unwrap();
    let encrypted = good.1.replace("PRIVATE", "ENCRYPTED PRIVATE");
    let no_key = Err("tls.key: holds no private key in PEM that is not encrypted".to_owned());
    assert_eq!(check(&[], false), Ok(()));
    assert_eq!(
        check(&[("tls.key", &other_key)], false),
        Err("tls.key: is not the key of the certificate in tls.crt".to_owned())
    );
    assert_eq!(
        check(&[("tls.crt", &other)], false),
        Err("tls.key: is not the key of the certificate in tls.crt".to_owned())
    );
    assert_eq!(check(&[("tls.key", "")], false), no_key);
    assert_eq!(check(&[("tls.key", &encrypted)], false), no_key);
    assert_eq!(check(&[("tls.key", &good.0)], false), no_key);
    assert_eq!(check(&[("tls.crt", "")], false), Err("tls.crt: holds no certificate in PEM".to_owned()));
    assert_eq!(check(&[("tls.crt", torn)], false), Err("tls.crt: is not well-formed PEM".to_owned()));
    assert_eq!(
        check(&[("tls.crt", garbage)], false),
        Err("tls.crt: its first certificate is not one of X.509".to_owned())
    );
    let gone = Err("ca.crt: cannot read the certificate: No such file or directory (os error 2)".to_owned());
    assert_eq!(check(&[], true), gone);
    assert_eq!(check(&[("ca.crt", "\n")], true), Err("ca.crt: holds no certificate in PEM".to_owned()));
    assert_eq!(
        check(&[("ca.crt", garbage)], true),
        Err("ca.crt: holds no usable authority: invalid peer certificate: BadEncoding".to_owned())
    );
    assert_eq!(check(&[("ca.crt", &good.0)], true), Ok(()));
}

#[tokio::test]
async fn what_is_no_good_leaves_the_pair_before_it_in_force() {
    let (folder, settings) = settings();
    let (tls, _reload) = Tls::start(&settings).await.unwrap();
    let counts = |good, refused, year: i32| {
        let not_after = date_time_ymd(year, 1, 1).unix_timestamp();
        TlsCounts { good, refused, not_after, failed_handshakes: 0 }
    };
    let first = tls.0.in_force.load_full();
    assert_eq!((tls.counts(), tls.details()), (counts(1, 0, 4096), vec![]));

    fs::write(&settings.key, pair(2, 4096).1).unwrap();
    tls.reload().await;
    let refused = "the last certificate was refused: the one before it stays in force";
    let (certificate, key) = (settings.certificate.display(), settings.key.display());
    let mismatch = format!("{refused}: {key}: is not the key of the certificate in {certificate}");
    assert_eq!((tls.counts(), tls.details()), (counts(1, 1, 4096), vec![mismatch]));
    write(folder.path(), &pair(3, 2001));
    tls.reload().await;
    let expired = format!("{refused}: {certificate}: has expired, its end was Jan  1 00:00:00 2001 +00:00");
    assert_eq!((tls.counts(), tls.details()), (counts(1, 2, 4096), vec![expired]));
    assert!(Arc::ptr_eq(&first, &tls.0.in_force.load_full()));

    write(folder.path(), &pair(4, 4095));
    tls.reload().await;
    assert_eq!((tls.counts(), tls.details()), (counts(2, 2, 4095), vec![]));
    assert!(!Arc::ptr_eq(&first, &tls.0.in_force.load_full()));
}

#[tokio::test]
async fn a_server_that_starts_with_an_expired_certificate_says_so() {
    let (folder, settings) = settings();
    write(folder.path(), &pair(3, 2001));
    let (tls, _reload) = Tls::start(&settings).await.unwrap();
    assert_eq!(tls.details(), ["the certificate has expired"]);
}
