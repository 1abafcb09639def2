use jsonwebtoken::Algorithm;

use super::*;
use crate::model::{Grant, Labels, Permission, Permissions};

const WHOLE: &str = r#"
identity:
  anonymous: deny
  certificates:
    names: ["uri:spiffe://example.org/**"]
    labels:
      tenant: "uri:spiffe://example.org/ns/{}/**"
      agent: ["uri:spiffe://example.org/ns/*/sa/{}", "cn:{}"]
  issuers:
    - name: prod
      issuer: https://kubernetes.default.svc
      audiences: [hookd, "https://hookd.example.com"]
      jwks_url: https://10.0.0.1/openid/v1/jwks
      jwks_ca: ca.crt
      jwks_token_file: /var/run/token
      jwks_cache: cache
      jwks_refresh: 1m
      clock_skew: 0s
      algorithms: [RS256]
      labels:
        namespace: kubernetes.io/namespace
        tenant: ["https://example.com/tenant"]
      fixed_labels: { cluster: prod }
    - { name: dev, issuer: dev, audiences: hookd, jwks_file: /keys/dev.json }
  tokens_file: tokens.yaml
permissions:
  - { match_labels: {}, may: [trigger] }
  - { match_labels: { role: admin }, may: [read, reload] }
"#;

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn issuers_certificates_tokens_and_permissions_are_read_and_printed_whole() {
    let settings = read("s.yaml", WHOLE, &[]).unwrap();
    let identity = &settings.identity;
    assert_eq!(identity.anonymous, Anonymous::Deny);
    assert_eq!(identity.certificates.labels.len(), 2);
    let [prod, dev] = identity.issuers.as_slice() else { panic!("{identity:?}") };
    assert_eq!(prod.audiences, ["hookd", "https://hookd.example.com"]);
    let KeySource::Server(server) = &prod.keys else { panic!("{prod:?}") };
    assert!(server.ca.as_ref().unwrap().is_absolute() && server.cache.as_ref().unwrap().ends_with("cache"));
    assert_eq!(server.refresh, Duration::from_secs(60));
    assert_eq!((prod.clock_skew, prod.algorithms.as_slice()), (Duration::ZERO, [Algorithm::RS256].as_slice()));
    let paths = prod.labels.iter().map(|(label, path)| (label.as_str(), path.join(" ")));
    let expected =
        [("namespace", "kubernetes.io namespace".to_owned()), ("tenant", "https://example.com/tenant".to_owned())];
    assert_eq!(paths.collect::<Vec<_>>(), expected);
    assert_eq!(prod.fixed_labels, labels(&[("cluster", "prod")]));
    assert_eq!(dev.keys, KeySource::File("/keys/dev.json".into()));
    assert_eq!((dev.clock_skew, dev.algorithms.len()), (Duration::from_secs(60), 2));
    let may = |all: &[Permission]| all.iter().copied().collect::<Permissions>();
    let grants = [
        Grant { match_labels: labels(&[]), may: may(&[Permission::Trigger]) },
        Grant { match_labels: labels(&[("role", "admin")]), may: may(&[Permission::Read, Permission::Reload]) },
    ];
    assert_eq!(settings.permissions, grants);
    assert_eq!(read("s.yaml", &settings.to_yaml(), &[]), Ok(settings));
}

#[test]
fn tables_stand_in_the_environment_as_json() {
    let environment = [
        ("HOOKD__IDENTITY__ISSUERS", r#"[{"name":"a","issuer":"i","audiences":["x"],"jwks_file":"k.json"}]"#),
        ("HOOKD__IDENTITY__CERTIFICATES__LABELS", r#"{"tenant":"cn:{}"}"#),
        ("HOOKD__PERMISSIONS", r#"[{"match_labels":{"role":"x"},"may":["read"]}]"#),
    ];
    let settings = read("s.yaml", "# nothing", &environment).unwrap();
    assert_eq!(settings.identity.issuers.len(), 1);
    assert_eq!(settings.identity.issuers[0].keys, KeySource::File("/work-dir/k.json".into()));
    assert_eq!(settings.identity.certificates.labels.len(), 1);
    assert_eq!(settings.permissions[0].match_labels, labels(&[("role", "x")]));
}

#[test]
fn what_is_wrong_with_an_issuer_is_told() {
    let good = r#"name: a, issuer: i, audiences: [x], jwks_file: /k.json"#;
    let issuer = |more: &str| format!("identity: {{ issuers: [ {{ {good}, {more} }} ] }}");
    let of = |key: &str, message: &str| format!("s.yaml: identity.issuers[0].{key}: {message}");
    let all = "RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, EdDSA";
    let cases = [
        ("algorithms: [HS256]", of("algorithms", &format!("\"HS256\" is not one of {all}"))),
        ("algorithms: [none]", of("algorithms", &format!("\"none\" is not one of {all}"))),
        ("jwks_url: \"https://x/keys\"", of("jwks_url", "expected jwks_url or jwks_file, and not both")),
        ("jwks_cache: /c", of("jwks_file", "jwks_ca, jwks_token_file and jwks_cache are for jwks_url")),
        ("clock_skew: 1h", of("clock_skew", "is longer than 10m, set the clocks instead")),
        ("clock_scew: 1m", of("clock_scew", "unknown key, did you mean `clock_skew`")),
        (
            "labels: { tenant: [] }",
            of(
                "labels.tenant",
                "an empty list is not a claim, such as tenant or kubernetes.io/namespace, or the list of its names",
            ),
        ),
        (
            "labels: { \"a b\": x }",
            of("labels.a b", "the name of a label has letters, digits, `-`, `_`, `.` and `/` only"),
        ),
        (
            "labels: { tenant: x }, fixed_labels: { tenant: y }",
            of("fixed_labels", "the label `tenant` stands in labels too"),
        ),
    ];
    for (more, message) in cases {
        assert_eq!(read("s.yaml", &issuer(more), &[]).unwrap_err(), message);
    }
    refused(
        "identity: { issuers: [ { name: a, issuer: i, audiences: [x], jwks_url: \"http://idp.example.com/keys\" } ] }",
        "s.yaml: identity.issuers[0].jwks_url: \"http://idp.example.com/keys\" is not an https URL, such as \
         https://idp.example.com/keys (http is for loopback only)",
    );
    // Not shown: whoever reads the log or `--print-config` must not learn it.
    for url in ["https://me:s3cret@idp.example.com/keys", "http://s3cret@idp.example.com/keys", "https://me:s3cret@:x"]
    {
        refused(
            &format!("identity: {{ issuers: [ {{ name: a, issuer: i, audiences: [x], jwks_url: \"{url}\" }} ] }}"),
            "s.yaml: identity.issuers[0].jwks_url: holds a user or a password, which may be printed; a token for the \
             server goes into jwks_token_file",
        );
    }
    let with_at = good.replace("jwks_file: /k.json", "jwks_url: \"https://idp.example.com/keys@v1?p=policy\"");
    assert!(read("s.yaml", &format!("identity: {{ issuers: [ {{ {with_at} }} ] }}"), &[]).is_ok());
    refused(
        "identity: { issuers: [ { jwks_file: /k.json } ] }",
        "s.yaml: identity.issuers[0].name: is missing, expected a name of its own, such as prod\n\
         s.yaml: identity.issuers[0].issuer: is missing, expected what stands in `iss`, such as https://idp.example.com\n\
         s.yaml: identity.issuers[0].audiences: is missing, expected what stands in `aud`, such as [hookd]",
    );
    refused(
        &format!("identity: {{ issuers: [ {{ {good} }}, {{ {good} }} ] }}"),
        "s.yaml: identity.issuers[1].name: \"a\" is not a name of its own of letters, digits, `-` and `_`",
    );
}

#[test]
fn what_is_wrong_with_the_rest_is_told() {
    refused("identity: { anonymous: yes }", "s.yaml: identity.anonymous: \"yes\" is not loopback, allow or deny");
    refused(
        "identity: { certificates: { labels: { tenant: \"spiffe://x/{}\" } } }",
        "s.yaml: identity.certificates.labels.tenant: \"spiffe://x/{}\" does not begin with uri:, dns:, cn:, o: or ou:",
    );
    refused(
        "identity: { tokens_file: /etc/tokens }",
        "s.yaml: identity.tokens_file: \"/etc/tokens\" is not a file that ends in .yaml, .yml or .json",
    );
    refused(
        "identity: { certificates: { names: } }",
        "s.yaml: identity.certificates.names: is empty, so any name would do: leave it out if that is meant",
    );
    for everybody in ["may: [reload]", "match_labels: , may: [reload]"] {
        refused(
            &format!("permissions: [ {{ {everybody} }} ]"),
            "s.yaml: permissions[0].match_labels: is missing, such as { role: admin }, or {} for every caller",
        );
    }
    for (grant, wrong) in [
        ("match_labels: {}, may: [write]", "may: \"write\" is not trigger, read or reload"),
        ("match_labels: {}", "may: is missing, expected a list of trigger, read and reload"),
        ("match_labels: {}, may: []", "may: an empty list is not a list of trigger, read and reload"),
        ("match_labels: {}, may: 1", "may: `1` is not a list of trigger, read and reload"),
        ("match_labels: { a: 1 }, may: read", "match_labels.a: `1` is not a text without control characters"),
    ] {
        refused(&format!("permissions: [ {{ {grant} }} ]"), &format!("s.yaml: permissions[0].{wrong}"));
    }
}
