use hookd_tests::{Hookd, eventually};
use serde_json::{Value, json};

use super::{asked, closed, nowhere, unauthenticated};

const FIRST: &str = "first-token-0123456789";
const SECOND: &str = "second-token-0123456789";
/// What is known by its hash.
const HASHED: &str = "by-its-hash-0123456789";

fn file(tokens: &[(&str, &str, &str)]) -> String {
    let token = |(name, value, tenant): &(&str, &str, &str)| json!({ "name": name, "value": value, "labels": { "tenant": tenant } });
    json!({ "tokens": tokens.iter().map(token).collect::<Vec<_>>() }).to_string()
}

async fn start(tokens: &str) -> Hookd {
    let settings = json!({ "identity": { "tokens_file": "tokens.json" }, "log": { "filter": "trace" } });
    closed().settings(settings).file("tokens.json", tokens).start().await
}

#[tokio::test]
async fn static_tokens_are_replaced_while_hookd_serves_and_a_broken_file_changes_nothing() {
    let hookd = start(&file(&[("ci", FIRST, "a")])).await;
    assert_eq!(asked(&hookd, FIRST).await, Ok("of-a".to_owned()));
    assert_eq!(asked(&hookd, SECOND).await, unauthenticated("UNKNOWN_TOKEN"));
    hookd.replace_file("tokens.json", &file(&[("ci", SECOND, "b")]));
    eventually("the second token", async || (asked(&hookd, SECOND).await == Ok(String::new())).then_some(())).await;
    assert_eq!(asked(&hookd, FIRST).await, unauthenticated("UNKNOWN_TOKEN"));

    hookd.replace_file("tokens.json", &format!("{{\"tokens\": [ {FIRST}"));
    let is_told = |line: &Value| line["message"] == "the file of tokens cannot be used, the tokens from before stay";
    let told = eventually("a warning", async || hookd.log_lines().into_iter().find(is_told)).await;
    assert!(told["error"].as_str().unwrap().ends_with(": is not JSON"), "{told}");
    assert_eq!(asked(&hookd, SECOND).await, Ok(String::new()));
    // Whoever took a token out has to learn that it still counts.
    let line = format!("tokens from before stay: {}", told["error"].as_str().unwrap());
    let (status, page) = hookd.admin_get("/readyz").await;
    assert!(status == 200 && page.lines().any(|told| told == line), "{page}");
    nowhere(&hookd, &[FIRST.to_owned(), SECOND.to_owned()]).await;
    hookd.replace_file("tokens.json", &file(&[("ci", SECOND, "b")]));
    eventually("it is good again", async || {
        (!hookd.admin_get("/readyz").await.1.contains("tokens from before")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_token_can_be_written_as_its_hash() {
    let hash = "0b8d282da9faa89698d9be0c93a0f2300104bf4b2381d1463dded489ab6c355a";
    let tokens = json!({ "tokens": [{ "name": "ci", "sha256": hash, "labels": { "tenant": "a" } }] });
    let hookd = start(&tokens.to_string()).await;
    assert_eq!(asked(&hookd, HASHED).await, Ok("of-a".to_owned()));
    // The hash is no token.
    assert_eq!(asked(&hookd, hash).await, unauthenticated("UNKNOWN_TOKEN"));
}

#[tokio::test]
async fn hookd_does_not_start_with_a_file_of_tokens_that_it_cannot_use() {
    let settings = || closed().settings(json!({ "identity": { "tokens_file": "tokens.json" } }));
    let missing = settings().start_refused().await;
    assert_eq!(missing.code, Some(64));
    assert!(missing.stderr.contains("tokens.json: cannot be read: "), "{}", missing.stderr);
    let short = settings().file("tokens.json", &file(&[("ci", "short", "a")])).start_refused().await;
    assert_eq!(short.code, Some(64));
    let expected = "tokens.json: tokens[0]: value: expected at least 16 characters of ASCII without blanks";
    assert!(short.stderr.trim_end().ends_with(expected), "{}", short.stderr);
}
