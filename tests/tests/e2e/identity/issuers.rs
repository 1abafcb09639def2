use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use futures_util::future::join_all;
use hookd_tests::{
    Hookd, KeyServer, RawHttp1, Reply, SigningKey, eventually, pre_tool_use, said, unsigned, with_token,
};
use serde_json::{Value, json};
use tonic::Code;

use super::{asked, claims, closed, issuer, now, nowhere, refusal, unauthenticated};

#[tokio::test]
async fn tokens_that_are_not_for_hookd_not_in_time_or_not_genuine_are_refused() {
    let (key, stranger) = (SigningKey::new("one"), SigningKey::new("one"));
    let server = KeyServer::start(&[&key]).await;
    let hookd = closed().settings(issuer(&server.url(), json!({}))).settings(json!({ "log": { "filter": "trace" } }));
    let hookd = hookd.start().await;
    let of_key = |others: Value| key.token(&claims(others));
    let header = |algorithm: &str| json!({ "alg": algorithm, "kid": "one" });
    let good = claims(json!({}));
    let mut cases = vec![
        (of_key(json!({})), Ok("of-a".to_owned())),
        (of_key(json!({ "tenant": "b" })), Ok(String::new())),
        // Within the skew of clocks.
        (of_key(json!({ "exp": now() - 30 })), Ok("of-a".to_owned())),
        (of_key(json!({ "nbf": now() + 30 })), Ok("of-a".to_owned())),
        (of_key(json!({ "aud": "other" })), unauthenticated("AUDIENCE")),
        (of_key(json!({ "aud": ["other", "hookd2"] })), unauthenticated("AUDIENCE")),
        (of_key(json!({ "aud": null })), unauthenticated("AUDIENCE")),
        (of_key(json!({ "exp": now() - 90 })), unauthenticated("EXPIRED")),
        (of_key(json!({ "exp": null })), unauthenticated("CLAIM")),
        (of_key(json!({ "nbf": now() + 90 })), unauthenticated("NOT_YET_VALID")),
        (of_key(json!({ "iss": "https://evil.example.com" })), unauthenticated("UNKNOWN_ISSUER")),
        (of_key(json!({ "sub": "" })), unauthenticated("CLAIM")),
        (stranger.token(&good), unauthenticated("SIGNATURE")),
        (unsigned(&header("none"), &good), unauthenticated("UNKNOWN_TOKEN")),
        (key.token_with_header(&header("none"), &good), unauthenticated("UNKNOWN_TOKEN")),
        (unsigned(&header("ES256"), &good), unauthenticated("SIGNATURE")),
        // Known, but not taken from this issuer.
        (key.token_with_header(&header("ES384"), &good), unauthenticated("ALGORITHM")),
        (key.token_with_header(&header("RS256"), &good), unauthenticated("UNKNOWN_KEY")),
        ("not-a-token".to_owned(), unauthenticated("UNKNOWN_TOKEN")),
    ];
    cases.extend(key.tokens_by_the_public_key(&good).into_iter().map(|token| (token, unauthenticated("ALGORITHM"))));
    for (token, expected) in &cases {
        for _first_and_again in 0..2 {
            assert_eq!(asked(&hookd, token).await, *expected, "{token}");
        }
    }
    let nothing = hookd.try_trigger(pre_tool_use("Bash", json!({}))).await.unwrap_err();
    assert_eq!(refusal(&nothing), (Code::Unauthenticated, "NO_PROOF".to_owned()));

    // One fetch at the start, and one for the key that nobody has.
    assert_eq!(server.fetches(), 2);
    let counted = [("ok", 8.0), ("audience", 6.0), ("expired", 2.0), ("signature", 4.0), ("algorithm", 8.0)];
    for (result, count) in counted {
        let series = format!("hookd_authentications_total{{proof=\"token\",result=\"{result}\"}}");
        assert_eq!(hookd.metric(&series).await, count, "{result}");
    }
    assert_eq!(hookd.metric("hookd_authentications_total{proof=\"none\",result=\"no_proof\"}").await, 1.0);
    nowhere(&hookd, &cases.into_iter().map(|(token, _)| token).collect::<Vec<_>>()).await;
}

#[tokio::test]
async fn plain_http_answers_in_the_agents_form() {
    let key = SigningKey::new("one");
    let server = KeyServer::start(&[&key]).await;
    let hookd = closed().settings(issuer(&server.url(), json!({}))).start().await;
    let input = json!({ "session_id": "s", "transcript_path": "/t", "cwd": "/", "hook_event_name": "PreToolUse",
                        "tool_name": "Bash", "tool_input": {}, "tool_use_id": "t" })
    .to_string();
    let expired = key.token(&claims(json!({ "exp": now() - 90 })));
    let good = key.token(&claims(json!({ "tenant": "b" })));
    let header = |token: &str| format!("Authorization: Bearer {token}\r\n");
    let mut http = RawHttp1::connect(hookd.address()).await;
    for (more, reason) in [(header(&expired), "EXPIRED"), (String::new(), "NO_PROOF")] {
        // Never let through, also not by a caller that goes on without hookd.
        for path in ["/v1/hooks/claude-code", "/v1/hooks/claude-code?on_unavailable=allow"] {
            let answer = http.ask(path, &more, &input).await;
            assert_eq!((answer.status, answer.header("hookd-not-judged")), (200, Some(reason)));
            assert!(answer.body.contains(r#""permissionDecision":"deny""#), "{}", answer.body);
        }
        let answer = http.ask("/v1/trigger", &more, r#"{"event":"Stop"}"#).await;
        assert_eq!((answer.status, answer.header("www-authenticate")), (401, Some("Bearer")));
        assert!(answer.header("hookd-decision-id").is_some());
        assert!(answer.body.contains(&format!(r#""reason":"{reason}""#)), "{}", answer.body);
    }
    let answer = http.ask("/v1/hooks/claude-code", &header(&good), &input).await;
    assert_eq!((answer.status, answer.header("hookd-not-judged"), answer.body.as_str()), (200, None, ""));
    let answer = http.ask("/v1/trigger", &header(&good), r#"{"event":"Stop"}"#).await;
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn a_service_account_of_kubernetes_has_labels_that_no_body_can_forge() {
    let key = SigningKey::new("cluster-key");
    let server = KeyServer::start(&[&key]).await;
    let cluster = json!({
        "issuer": "https://kubernetes.default.svc.cluster.local",
        "labels": { "tenant": "kubernetes.io/namespace", "agent": "kubernetes.io/serviceaccount/name" },
        "fixed_labels": { "cluster": "prod" },
    });
    let hookd = closed()
        .managed(json!([
            { "id": "input", "event": "PreToolUse", "handler": { "type": "command", "command": "cat > ../input" } },
            { "id": "verified", "event": "PreToolUse", "when": "caller.labels == {'agent': 'bot', 'cluster': 'prod', 'tenant': 'team-a'}",
              "handler": { "type": "decide", "verdict": "ask" } },
            { "id": "claimed", "event": "PreToolUse", "when": "caller.claimed.labels.tenant == 'team-b'",
              "handler": { "type": "decide", "verdict": "ask" } },
        ]))
        .settings(issuer(&server.url(), cluster))
        .start()
        .await;
    let token = key.token(&json!({
        "aud": ["hookd"], "exp": now() + 3607, "iat": now(), "nbf": now(), "jti": "0f6d",
        "iss": "https://kubernetes.default.svc.cluster.local",
        "kubernetes.io": {
            "namespace": "team-a", "node": { "name": "n1", "uid": "1" }, "pod": { "name": "bot-0", "uid": "2" },
            "serviceaccount": { "name": "bot", "uid": "3" },
        },
        "sub": "system:serviceaccount:team-a:bot",
    }));
    let mut request = pre_tool_use("Bash", json!({}));
    let labels = [("tenant", "team-b"), ("cluster", "dev")];
    request.caller = Some(hookd_tests::v1::Caller {
        user: "root".to_owned(),
        labels: labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        ..Default::default()
    });
    let answer = hookd.trigger(with_token(request, &token)).await;
    assert_eq!(
        said(&answer)["results"],
        json!(["managed/input none", "managed/verified ask", "managed/claimed ask"]),
        "{answer:?}"
    );
    let input = serde_json::from_str::<Value>(&fs::read_to_string(hookd.path("input")).unwrap()).unwrap();
    let expected = json!({
        "name": "prod/system:serviceaccount:team-a:bot",
        "labels": { "agent": "bot", "cluster": "prod", "tenant": "team-a" },
    });
    assert_eq!(input["identity"], expected);
    let claimed = json!({ "user": "root", "labels": { "cluster": "dev", "tenant": "team-b" } });
    assert_eq!(input["caller"], claimed);
}

#[tokio::test]
async fn a_token_signed_with_an_old_key_is_refused_after_rotation_and_one_with_a_new_key_taken() {
    let (old, new) = (SigningKey::new("old"), SigningKey::new("new"));
    let server = KeyServer::start(&[&old]).await;
    let hookd = closed().settings(issuer(&server.url(), json!({}))).start().await;
    let of_old = old.token(&claims(json!({})));
    assert_eq!(asked(&hookd, &of_old).await, Ok("of-a".to_owned()));
    server.has(&[&new]);
    // Known keys are not asked for again.
    assert_eq!((asked(&hookd, &of_old).await, server.fetches()), (Ok("of-a".to_owned()), 1));
    assert_eq!(asked(&hookd, &new.token(&claims(json!({})))).await, Ok("of-a".to_owned()));
    assert_eq!(server.fetches(), 2);
    // The same token as before, which was found good then.
    assert_eq!(asked(&hookd, &of_old).await, unauthenticated("UNKNOWN_KEY"));
    let later = old.token(&claims(json!({ "sub": "agent-8" })));
    assert_eq!(asked(&hookd, &later).await, unauthenticated("UNKNOWN_KEY"));
}

#[tokio::test]
async fn a_token_that_names_no_key_counts_only_where_one_key_fits() {
    let (old, new) = (SigningKey::new("old"), SigningKey::new("new"));
    let server = KeyServer::start(&[&old]).await;
    let hookd = closed().settings(issuer(&server.url(), json!({}))).start().await;
    let nameless = |key: &SigningKey| key.token_with_header(&json!({ "alg": "ES256" }), &claims(json!({})));
    assert_eq!(asked(&hookd, &nameless(&old)).await, Ok("of-a".to_owned()));
    assert_eq!(asked(&hookd, &nameless(&new)).await, unauthenticated("SIGNATURE"));
    server.has(&[&old, &new]);
    // Has the keys asked for.
    assert_eq!(asked(&hookd, &new.token(&claims(json!({})))).await, Ok("of-a".to_owned()));
    for key in [&old, &new] {
        assert_eq!(asked(&hookd, &nameless(key)).await, unauthenticated("KEY_NOT_NAMED"));
        assert_eq!(asked(&hookd, &key.token(&claims(json!({})))).await, Ok("of-a".to_owned()));
    }
}

#[tokio::test]
async fn keys_are_looked_at_again_and_again() {
    let (old, new) = (SigningKey::new("old"), SigningKey::new("new"));
    let server = KeyServer::start(&[&old, &new]).await;
    // A server on loopback is asked itself, whatever proxy there is.
    let proxied = closed().env("HTTP_PROXY", "http://127.0.0.1:9");
    let hookd = proxied.settings(issuer(&server.url(), json!({ "jwks_refresh": "50ms" }))).start().await;
    let token = old.token(&claims(json!({})));
    assert_eq!(asked(&hookd, &token).await, Ok("of-a".to_owned()));
    // What is no key set changes nothing.
    server.answers(Reply::ok("<html>maintenance</html>"));
    let failed = "hookd_issuer_key_loads_total{issuer=\"prod\",result=\"failed\"}";
    eventually("a failed fetch", async || (hookd.metric(failed).await > 0.0).then_some(())).await;
    let line = "keys from before stay: issuer prod, the answer is not JSON: ";
    let says = async || hookd.admin_get("/readyz").await.1.lines().any(|told| told.starts_with(line));
    eventually(line, async || says().await.then_some(())).await;
    assert_eq!(asked(&hookd, &token).await, Ok("of-a".to_owned()));
    server.has(&[&new]);
    eventually("the old key is gone", async || {
        (asked(&hookd, &token).await == unauthenticated("UNKNOWN_KEY")).then_some(())
    })
    .await;
    assert_eq!(asked(&hookd, &new.token(&claims(json!({})))).await, Ok("of-a".to_owned()));
    eventually("it is good again", async || (!says().await).then_some(())).await;
}

#[tokio::test]
async fn what_a_key_server_should_not_answer_changes_no_key_and_leads_nowhere_else() {
    let (key, evil) = (SigningKey::new("one"), SigningKey::new("evil"));
    let server = KeyServer::start(&[&key]).await;
    let hookd = closed().settings(issuer(&server.url(), json!({ "jwks_refresh": "50ms" }))).start().await;
    let (good, evil_token) = (key.token(&claims(json!({}))), evil.token(&claims(json!({}))));
    let of_evil = json!({ "keys": [evil.jwk()] }).to_string();
    let moved = format!("HTTP/1.1 302 Found\r\nLocation: /evil\r\nContent-Length: {}\r\n\r\n{of_evil}", of_evil.len());
    let endless = format!("HTTP/1.1 200 OK\r\nContent-Length: 2000000\r\n\r\n{}{of_evil}", " ".repeat(1_100_000));
    let cases = [
        (Reply::raw(moved), "the answer is 302 Found"),
        (Reply::status("500 Internal Server Error", &of_evil), "the answer is 500 Internal Server Error"),
        (Reply::raw(endless).then_hang(), "the answer has more than 1048576 bytes"),
        (Reply::ok([0xff]), "the answer is not UTF-8"),
        (Reply::ok(format!("{of_evil},")), "the answer is not JSON: trailing characters"),
        (
            Reply::raw("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}").then_close(),
            "request or response body error: error reading a body from connection: end of file before message length reached",
        ),
    ];
    for (reply, why) in cases {
        server.answers(reply);
        eventually(why, async || {
            let is_told = |line: &Value| line["why"].as_str().is_some_and(|told| told.starts_with(why));
            hookd.log_lines().iter().any(is_told).then_some(())
        })
        .await;
        assert_eq!(asked(&hookd, &good).await, Ok("of-a".to_owned()), "{why}");
        assert_eq!(asked(&hookd, &evil_token).await, unauthenticated("UNKNOWN_KEY"), "{why}");
    }
    assert_eq!(server.paths().into_iter().collect::<Vec<_>>(), ["/keys"]);
    // An empty set is one: the issuer takes all keys back.
    server.answers(Reply::ok(r#"{"keys":[]}"#));
    eventually("no keys", async || (asked(&hookd, &good).await == unauthenticated("NO_KEYS")).then_some(())).await;
}

#[tokio::test]
async fn a_flood_of_unknown_keys_is_no_flood_of_fetches() {
    let (key, unknown) = (SigningKey::new("one"), SigningKey::new("two"));
    let server = KeyServer::start(&[&key]).await;
    let hookd = closed().settings(issuer(&server.url(), json!({}))).start().await;
    let header = |number: usize| json!({ "alg": "ES256", "kid": format!("unknown-{number}") });
    let tokens = (0..200).map(|number| unknown.token_with_header(&header(number), &claims(json!({}))));
    let tokens = tokens.collect::<Vec<_>>();
    let refused = join_all(tokens.iter().map(|token| asked(&hookd, token))).await;
    assert!(refused.iter().all(|refused| *refused == unauthenticated("UNKNOWN_KEY")), "{refused:?}");
    assert_eq!(server.fetches(), 2, "one at the start, one for all of them");
    assert_eq!(asked(&hookd, &key.token(&claims(json!({})))).await, Ok("of-a".to_owned()));
}

#[tokio::test]
async fn a_key_server_that_hangs_holds_no_call_whose_key_is_known() {
    let (key, new) = (SigningKey::new("one"), SigningKey::new("two"));
    let server = KeyServer::start(&[&key]).await;
    let hookd = closed().settings(issuer(&server.url(), json!({}))).start().await;
    server.answers(Reply::raw("").then_hang());
    let waiting = new.token(&claims(json!({})));
    let waiting = asked(&hookd, &waiting);
    let known = async {
        eventually("the fetch that hangs", async || (server.fetches() == 2).then_some(())).await;
        asked(&hookd, &key.token(&claims(json!({})))).await
    };
    let (waiting, known) = tokio::join!(waiting, known);
    assert_eq!((waiting, known), (unauthenticated("UNKNOWN_KEY"), Ok("of-a".to_owned())));
}

/// A hookd that keeps the keys of an issuer in `cache`.
async fn with_cache(url: &str, cache: &Path) -> Hookd {
    closed().settings(issuer(url, json!({ "jwks_cache": cache }))).start().await
}

#[tokio::test]
async fn keys_outlive_their_server_and_hookd_itself() {
    let key = SigningKey::new("one");
    let server = KeyServer::start(&[&key]).await;
    let url = server.url();
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("keys");
    let token = key.token(&claims(json!({})));
    let hookd = with_cache(&url, &cache).await;
    eventually("the keys on the disk", async || fs::read(cache.join("prod.json")).ok()).await;
    server.stop().await;
    assert_eq!(asked(&hookd, &token).await, Ok("of-a".to_owned()));
    drop(hookd);
    // Nobody answers any more.
    let again = with_cache(&url, &cache).await;
    assert_eq!(asked(&again, &token).await, Ok("of-a".to_owned()));
    assert_eq!(again.admin_get("/readyz").await.0, 200);
    drop(again);
    // Another issuer's keys are none.
    let other = issuer(&url, json!({ "jwks_cache": cache, "issuer": "https://other.example.com" }));
    let other = closed().settings(other).start().await;
    let of_other = key.token(&claims(json!({ "iss": "https://other.example.com" })));
    assert_eq!(asked(&other, &of_other).await, unauthenticated("NO_KEYS"));
    let (status, page) = other.admin_get("/readyz").await;
    assert_eq!(status, 200);
    assert!(page.contains("no keys: issuer prod, its tokens are refused"), "{page}");
}

#[tokio::test]
async fn a_key_that_was_taken_back_while_hookd_was_away_counts_no_more() {
    let (old, new) = (SigningKey::new("old"), SigningKey::new("new"));
    let server = KeyServer::start(&[&old]).await;
    let folder = tempfile::tempdir().unwrap();
    let token = old.token(&claims(json!({})));
    let hookd = with_cache(&server.url(), folder.path()).await;
    assert_eq!(asked(&hookd, &token).await, Ok("of-a".to_owned()));
    eventually("the keys on the disk", async || fs::read(folder.path().join("prod.json")).ok()).await;
    drop(hookd);
    server.has(&[&new]);
    let again = with_cache(&server.url(), folder.path()).await;
    assert_eq!(asked(&again, &token).await, unauthenticated("UNKNOWN_KEY"));
    assert_eq!(asked(&again, &new.token(&claims(json!({})))).await, Ok("of-a".to_owned()));
    again.logged(|line| line["message"] == "serving").await;
    let messages = again.log_lines().into_iter().filter_map(|line| line["message"].as_str().map(str::to_owned));
    let of_interest = ["the keys of an issuer are new", "serving"];
    let order = messages.filter(|message| of_interest.contains(&message.as_str())).collect::<Vec<_>>();
    assert_eq!(order, of_interest, "nobody is served before the first answer");
    drop(again);
    // A server that hangs is not waited for without end, and what was kept counts then.
    server.answers(Reply::raw("").then_hang());
    let without = with_cache(&server.url(), folder.path()).await;
    assert_eq!(asked(&without, &new.token(&claims(json!({})))).await, Ok("of-a".to_owned()));
}

#[tokio::test]
async fn what_stands_in_the_place_of_kept_keys_is_told_and_never_believed() {
    let (key, evil) = (SigningKey::new("one"), SigningKey::new("evil"));
    let server = KeyServer::start(&[&key]).await;
    let url = server.url();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("prod.json");
    let of_evil = json!({ "of": ["https://idp.example.com", url], "keys": [evil.jwk()] }).to_string();
    let token = evil.token(&claims(json!({})));
    server.stop().await;
    let others = "can be written by others, so its keys are not believed";
    let pipe = || assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
    let cases: [(&str, &dyn Fn()); 3] = [
        ("is not JSON: EOF while parsing an object", &|| fs::write(&file, &of_evil[..of_evil.len() - 1]).unwrap()),
        ("is not a regular file", &pipe),
        (others, &|| {
            fs::write(&file, &of_evil).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
        }),
    ];
    for (why, lay) in cases {
        lay();
        let hookd = with_cache(&url, folder.path()).await;
        assert_eq!(asked(&hookd, &token).await, unauthenticated("NO_KEYS"), "{why}");
        let told = format!("{}: {why}", file.display());
        let is_told = |line: &Value| line["why"].as_str().is_some_and(|line| line.starts_with(&told));
        hookd.logged(is_told).await;
        fs::remove_file(&file).unwrap();
    }
}

#[tokio::test]
async fn keys_in_a_file_are_read_again_when_it_changes() {
    let (old, new) = (SigningKey::new("old"), SigningKey::new("new"));
    let set = |key: &SigningKey| json!({ "keys": [key.jwk()] }).to_string();
    let mut settings = issuer("", json!({ "jwks_file": "keys.json" }));
    settings["identity"]["issuers"][0].as_object_mut().unwrap().remove("jwks_url");
    let hookd = closed().settings(settings.clone()).file("keys.json", &set(&old)).start().await;
    let (of_old, of_new) = (old.token(&claims(json!({}))), new.token(&claims(json!({}))));
    assert_eq!(asked(&hookd, &of_old).await, Ok("of-a".to_owned()));
    hookd.replace_file("keys.json", &set(&new));
    eventually("the new key", async || (asked(&hookd, &of_new).await == Ok("of-a".to_owned())).then_some(())).await;
    assert_eq!(asked(&hookd, &of_old).await, unauthenticated("UNKNOWN_KEY"));

    let refused = closed().settings(settings).file("keys.json", "{}").start_refused().await;
    assert_eq!(refused.code, Some(64));
    assert!(refused.stderr.trim_end().ends_with("keys.json: has no list `keys`"), "{}", refused.stderr);
}
