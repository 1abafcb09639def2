use hookd_tests::{
    Authority, Hookd, HookdBuilder, Issued, KeyServer, SigningKey, pre_tool_use,
    tls::{DnType, client, server},
    with_token, within,
};
use serde_json::json;
use tonic::Code;

use super::{claims, closed, issuer, refusal, unauthenticated};

/// A hookd that asks for certificates of `theirs` and takes those of the trust domain `example.org`.
fn asking(ours: &Authority, theirs: &Authority) -> HookdBuilder {
    let certificates = json!({
        "names": ["uri:spiffe://example.org/**", "dns:*.agents.example.org"],
        "labels": { "tenant": ["uri:spiffe://example.org/ns/{}/**", "cn:tenant {}", "o:tenant {}"] },
    });
    theirs
        .ask_for(ours.server().serve(closed()))
        .settings(json!({ "tls": { "client_certificates": "optional" } }))
        .settings(json!({ "identity": { "certificates": certificates } }))
}

/// What comes of a call over TLS, as of [`super::asked`].
async fn asked(
    hookd: &Hookd,
    ours: &Authority,
    shown: Option<&Issued>,
    token: Option<&str>,
) -> Result<String, (Code, String)> {
    let caller = shown.map_or_else(|| ours.caller(), |shown| ours.caller().showing(shown));
    let (mut client, _) = caller.client(hookd.address()).await.unwrap();
    let request = pre_tool_use("Bash", json!({}));
    let request =
        token.map_or_else(|| tonic::Request::new(request.clone()), |token| with_token(request.clone(), token));
    let answer = within("an answer", client.trigger(request)).await;
    let answer = answer.map(|answer| answer.into_inner().decided_by.map(|by| by.rule_id).unwrap_or_default());
    answer.map_err(|status| refusal(&status))
}

#[tokio::test]
async fn callers_are_known_by_the_names_in_their_certificates_and_by_no_others() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let hookd = asking(&ours, &theirs).start().await;
    let two_ids = {
        let mut params = client("spiffe://example.org/ns/a/sa/bot");
        params.subject_alt_names.extend(client("spiffe://example.org/ns/b/sa/bot").subject_alt_names);
        theirs.issue(&params)
    };
    let host = |name: &str| {
        let mut params = server([name]);
        params.extended_key_usages = client("spiffe://x/y").extended_key_usages;
        params
    };
    let of_tenant = |name: &str, kind: DnType, tenant: &str| {
        let mut params = host(name);
        params.distinguished_name.push(kind, format!("tenant {tenant}"));
        theirs.issue(&params)
    };
    let with_another_uri = {
        let mut params = client("spiffe://example.org/ns/a/sa/bot");
        params.subject_alt_names.extend(client("https://example.org/").subject_alt_names);
        theirs.issue(&params)
    };
    let cases = [
        (theirs.client("spiffe://example.org/ns/a/sa/bot"), Ok("of-a".to_owned())),
        (theirs.client("spiffe://example.org/ns/b/sa/bot"), Ok(String::new())),
        (theirs.client("spiffe://evil.org/ns/a/sa/bot"), unauthenticated("CERTIFICATE")),
        (theirs.client("spiffe://example.org.evil.org/ns/a/sa/bot"), unauthenticated("CERTIFICATE")),
        (two_ids, unauthenticated("CERTIFICATE")),
        (with_another_uri, unauthenticated("CERTIFICATE")),
        (of_tenant("h1.agents.example.org", DnType::CommonName, "a"), Ok("of-a".to_owned())),
        (of_tenant("h1.agents.example.org", DnType::CommonName, "b"), Ok(String::new())),
        (of_tenant("h1.agents.example.org", DnType::OrganizationName, "a"), Ok("of-a".to_owned())),
        (of_tenant("h1.example.org", DnType::CommonName, "a"), unauthenticated("CERTIFICATE")),
    ];
    for (shown, expected) in &cases {
        assert_eq!(asked(&hookd, &ours, Some(shown), None).await, *expected, "{}", shown.certificate);
    }
    assert_eq!(asked(&hookd, &ours, None, None).await, unauthenticated("NO_PROOF"));
    let counted = |result| format!("hookd_authentications_total{{proof=\"certificate\",result=\"{result}\"}}");
    assert_eq!((hookd.metric(&counted("ok")).await, hookd.metric(&counted("certificate")).await), (5.0, 5.0));
}

#[tokio::test]
async fn a_certificate_and_a_token_have_to_be_good_both_and_to_agree() {
    let (ours, theirs, key) = (Authority::new(), Authority::new(), SigningKey::new("one"));
    let keys = KeyServer::start(&[&key]).await;
    let hookd = asking(&ours, &theirs).settings(issuer(&keys.url(), json!({}))).start().await;
    let [of_a, of_b, stranger] = ["example.org/ns/a", "example.org/ns/b", "evil.org/ns/a"]
        .map(|of| theirs.client(&format!("spiffe://{of}/sa/bot")));
    let token = key.token(&claims(json!({})));
    let expired = key.token(&claims(json!({ "exp": 1_000_000_000 })));
    let asked = async |shown, token: &str| asked(&hookd, &ours, shown, Some(token)).await;
    assert_eq!(asked(None, &token).await, Ok("of-a".to_owned()));
    assert_eq!(asked(Some(&of_a), &token).await, Ok("of-a".to_owned()));
    assert_eq!(asked(Some(&of_b), &token).await, unauthenticated("CONFLICT"));
    assert_eq!(asked(Some(&stranger), &token).await, unauthenticated("CERTIFICATE"));
    assert_eq!(asked(Some(&of_a), &expired).await, unauthenticated("EXPIRED"));
}
