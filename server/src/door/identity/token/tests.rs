use std::time::Duration;

use jsonwebtoken::{crypto::verify, jwk::Jwk};
use serde_json::{Value, json};

use super::*;
use crate::{door::identity::crypto, settings::KeySource};

/// The claims of the examples of RFC 7515.
const CLAIMS: &str = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";

fn key(jwk: Value) -> DecodingKey {
    DecodingKey::from_jwk(&serde_json::from_value::<Jwk>(jwk).unwrap()).unwrap()
}

/// The key of RFC 7515, appendix A.2.
fn rsa() -> DecodingKey {
    key(json!({ "kty": "RSA", "e": "AQAB", "n": concat!(
        "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZ",
        "S-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2",
        "R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcD",
        "TW9gb54h4FRWyuXpoQ"
    ) }))
}

/// The key of RFC 7515, appendix A.3.
fn p256() -> DecodingKey {
    key(json!({
        "kty": "EC", "crv": "P-256",
        "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
    }))
}

#[test]
fn signatures_are_those_of_the_standards() {
    crypto::install();
    let rs256 = format!(
        "eyJhbGciOiJSUzI1NiJ9.{CLAIMS}.{}",
        concat!(
            "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdb",
            "F9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383",
            "LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWy",
            "wlVmtVrBp0igcN_IoypGlUPQGe77Rw"
        )
    );
    let es256 = format!(
        "eyJhbGciOiJFUzI1NiJ9.{CLAIMS}.{}",
        "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
    );
    assert!(is_signed(&rs256, Algorithm::RS256, &rsa()));
    assert!(is_signed(&es256, Algorithm::ES256, &p256()));
    // Another key, another way, another text.
    assert!(!is_signed(&rs256, Algorithm::RS256, &p256()));
    assert!(!is_signed(&es256, Algorithm::ES256, &rsa()));
    assert!(!is_signed(&rs256, Algorithm::PS256, &rsa()));
    assert!(!is_signed(&rs256.replace(".eyJpc3Mi", ".eyJpc3Ni"), Algorithm::RS256, &rsa()));
    // RFC 8037, appendix A.4; what is signed there is no JSON.
    let ed = key(json!({ "kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" }));
    let signature = "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";
    let message = b"eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc";
    assert_eq!(verify(signature, message, &ed, Algorithm::EdDSA), Ok(true));
    assert_eq!(verify(signature, b"another", &ed, Algorithm::EdDSA), Ok(false));
    assert!(verify(signature, message, &ed, Algorithm::HS256).is_err());
}

#[test]
fn what_is_no_token_with_a_public_key_is_none() {
    // {"alg":"none"}, {"alg":"none"} in other letters, no algorithm, duplicate keys, an unknown critical header.
    let none = format!("eyJhbGciOiJub25lIn0.{CLAIMS}.");
    let letters = format!("eyJhbGciOiJOb05lIn0.{CLAIMS}.");
    let nothing = format!("e30.{CLAIMS}.AA");
    let twice = format!("eyJhbGciOiJSUzI1NiIsImFsZyI6IkhTMjU2In0.{CLAIMS}.AA");
    for token in [&none, &letters, &nothing, &twice, "", "a", "a.b", "a.b.c", "a.b.c.d", &"a".repeat(16 << 10)] {
        assert_eq!(Said::read(token).err(), Some(Unproven::UnknownToken), "{token}");
    }
    assert_eq!(Said::read(&"a".repeat((16 << 10) + 1)).err(), Some(Unproven::Authorization("is too long")));
    // {"a":1,"a":2}
    let said = Said::read("eyJhbGciOiJSUzI1NiJ9.eyJhIjoxLCJhIjoyfQ.AA").unwrap();
    assert_eq!(said.claims().err(), Some(Unproven::UnknownToken));
}

fn issuer() -> IssuerSettings {
    let path = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    IssuerSettings {
        name: "prod".to_owned(),
        issuer: "https://k".to_owned(),
        audiences: path(&["hookd", "other"]),
        keys: KeySource::File("/keys.json".into()),
        clock_skew: Duration::from_secs(60),
        algorithms: vec![Algorithm::RS256],
        labels: vec![
            ("namespace".to_owned(), path(&["kubernetes.io", "namespace"])),
            ("tenant".to_owned(), path(&["https://example.com/tenant"])),
            ("admin".to_owned(), path(&["admin"])),
        ],
        fixed_labels: [("cluster".to_owned(), "prod".to_owned())].into_iter().collect(),
    }
}

/// Whom these claims are about at the second 1,000: name and labels.
fn whom(claims: Value) -> Result<(String, String), Unproven> {
    let text = claims.to_string();
    let (identity, _) = proved(&hookd_json::read(&text).unwrap(), &issuer(), 1000)?;
    let labels = identity.labels.as_slice().iter().map(|(label, value)| format!("{label}={value}"));
    Ok((identity.name, labels.collect::<Vec<_>>().join(" ")))
}

#[test]
fn claims_have_to_hold_and_become_labels() {
    let claim = |name: &str, why| Err(Unproven::Claim(name.to_owned(), why));
    let with = |name: &str, value: Value| {
        let mut claims = json!({ "aud": "hookd", "exp": 2000, "sub": "a" });
        claims[name] = value;
        whom(claims)
    };
    let good = |labels: &str| Ok(("prod/a".to_owned(), format!("{labels}cluster=prod")));
    let control = "is not a text without control characters";
    let cases = [
        ("x", json!(1), good("")),
        ("aud", json!(["x", "other"]), good("")),
        ("aud", json!("hookd2"), Err(Unproven::Audience)),
        ("aud", json!(["x"]), Err(Unproven::Audience)),
        ("aud", json!([]), Err(Unproven::Audience)),
        ("aud", json!(null), Err(Unproven::Audience)),
        ("aud", json!({ "hookd": true }), Err(Unproven::Audience)),
        ("exp", json!(941), good("")),
        ("exp", json!(940), Err(Unproven::Expired)),
        ("exp", json!(1000.5), good("")),
        ("exp", json!("2000"), claim("exp", "is not a time")),
        ("exp", json!(null), claim("exp", "is not a time")),
        ("exp", json!(-1), claim("exp", "is not a time")),
        ("exp", json!(1e300), claim("exp", "is not a time")),
        ("nbf", json!(1060), good("")),
        ("nbf", json!(1061), Err(Unproven::NotYet)),
        ("nbf", json!("0"), claim("nbf", "is not a time")),
        ("sub", json!(""), claim("sub", control)),
        ("sub", json!(7), claim("sub", control)),
        ("sub", json!("a\nb"), claim("sub", control)),
        ("admin", json!(true), good("admin=true ")),
        ("admin", json!(12), good("admin=12 ")),
        ("admin", json!(["x"]), good("")),
        ("admin", json!(""), good("")),
        ("admin", json!("a\nb"), claim("admin", "is too long for a label, or holds control characters")),
        ("cluster", json!("dev"), good("")),
        ("kubernetes.io", json!("x"), good("")),
        ("kubernetes.io/namespace", json!("x"), good("")),
    ];
    for (name, value, expected) in cases {
        assert_eq!(with(name, value.clone()), expected, "{name} {value}");
    }
    assert_eq!(whom(json!({ "aud": "hookd", "sub": "a" })), claim("exp", "is missing"));
    assert_eq!(
        with("kubernetes.io", json!({ "namespace": "a" })),
        Ok(("prod/a".to_owned(), "cluster=prod namespace=a".to_owned()))
    );
    assert_eq!(
        with("https://example.com/tenant", json!("t")),
        Ok(("prod/a".to_owned(), "cluster=prod tenant=t".to_owned()))
    );
}
