//! Http handlers and what stands at their other end.

use std::{net::SocketAddr, time::Duration};

use hookd_tests::{
    Authority, Hookd, HookdBuilder, HttpStub, Issued, Reply, TlsFront, TunnelProxy, decide, http, pre_tool_use, rule,
    tls::server,
    v1::{Failure, HookResult, Verdict},
    with,
};
use rcgen::date_time_ymd;
use serde_json::json;
use tokio::time::Instant;

const BLOCK: &str = r#"{"blocked":true,"blockReason":"no"}"#;

fn asks(url: &str) -> HookdBuilder {
    Hookd::builder().managed(json!([rule("webhook", "PreToolUse", http(url))]))
}

/// What became of the webhook of [`asks`].
async fn asked(hookd: &Hookd) -> HookResult {
    let mut answer = hookd.trigger(pre_tool_use("Bash", json!({}))).await;
    assert_eq!(answer.verdict(), Verdict::Block, "whatever fails is no allow");
    answer.results.remove(0)
}

/// A server that sends interim answers and nothing else was read for ever, on a thread that others needed.
#[tokio::test]
async fn a_webhook_that_never_comes_to_its_answer_is_not_listened_to() {
    let webhook = HttpStub::start(|_| Reply::raw("HTTP/1.1 100 Continue\r\n\r\n".repeat(100_000)).then_hang()).await;
    let patient = with(http(&webhook.url("/")), json!({ "timeout": 30_000 }));
    let hookd = Hookd::builder()
        .managed(json!([rule("webhook", "PreToolUse", patient), rule("guard", "PostToolUse", decide(json!({})))]))
        .start()
        .await;
    let begun = Instant::now();
    let result = asked(&hookd).await;
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    let why = "no answer from `127.0.0.1`: more than 16 interim answers";
    assert_eq!((result.failure(), result.error()), (Failure::Connection, why));
    // Some are usual.
    let webhook = HttpStub::start(|_| {
        let interim = "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n".repeat(16);
        Reply::raw(format!("{interim}HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{BLOCK}", BLOCK.len()))
    })
    .await;
    let result = asked(&asks(&webhook.url("/")).start().await).await;
    assert_eq!((result.failure(), result.block_reason.as_str()), (Failure::Unspecified, "no"));
}

async fn https(certificate: &Issued) -> (HttpStub, TlsFront, String) {
    let webhook = HttpStub::start(|_| Reply::ok(BLOCK)).await;
    let front = TlsFront::before(webhook.address(), certificate).await;
    let url = url(front.address(), "localhost");
    (webhook, front, url)
}

fn url(address: SocketAddr, host: &str) -> String {
    format!("https://{host}:{}/", address.port())
}

#[tokio::test]
async fn a_webhook_over_tls_has_to_prove_who_it_is() {
    let (authority, other) = (Authority::new(), Authority::new());
    let mut expired = server(["localhost"]);
    expired.not_after = date_time_ymd(2020, 1, 1);
    for (certificate, why) in [
        (authority.server(), None),
        (other.server(), Some("UnknownIssuer")),
        (Issued::by_itself(&server(["localhost"])), Some("")),
        (authority.issue(&server(["other.example.org"])), Some("not valid for name \"localhost\"")),
        (authority.issue(&expired), Some("expired")),
    ] {
        let (webhook, _front, url) = https(&certificate).await;
        let trusting = asks(&url).file("ca.pem", &authority.certificate);
        let hookd = trusting.settings(json!({ "http_handlers": { "ca": "ca.pem" } })).start().await;
        let result = asked(&hookd).await;
        match why {
            None => assert_eq!((result.failure(), result.block_reason.as_str()), (Failure::Unspecified, "no")),
            Some(why) => {
                assert!(result.failure() == Failure::Connection && result.error().contains(why), "{why}: {result:?}");
                assert_eq!(webhook.requests(), []);
            }
        }
    }
    // Without the setting only the system's authorities are trusted.
    let (webhook, _front, url) = https(&authority.server()).await;
    let result = asked(&asks(&url).start().await).await;
    assert_eq!((result.failure(), webhook.requests()), (Failure::Connection, vec![]));
}

#[tokio::test]
async fn a_proxy_opens_a_tunnel_and_the_end_has_to_prove_who_it_is() {
    let authority = Authority::new();
    for (name, is_good) in [("hooks.example.org", true), ("other.example.org", false)] {
        let (webhook, front, _) = https(&authority.issue(&server([name]))).await;
        let proxy = TunnelProxy::to(front.address()).await;
        let hookd = asks("https://hooks.example.org/x")
            .file("ca.pem", &authority.certificate)
            .settings(json!({ "http_handlers": { "ca": "ca.pem" } }))
            .env("HTTPS_PROXY", &format!("http://user:pa%20ss@{}", proxy.address()))
            .start()
            .await;
        let result = asked(&hookd).await;
        let expected = if is_good { Failure::Unspecified } else { Failure::Connection };
        assert_eq!((result.failure(), webhook.requests().len()), (expected, usize::from(is_good)), "{result:?}");
        let asked = proxy.asked();
        assert_eq!(asked.len(), 1);
        assert!(asked[0].starts_with("CONNECT hooks.example.org:443 HTTP/1.1\r\n"), "{}", asked[0]);
        assert!(asked[0].to_lowercase().contains("proxy-authorization: basic dxnlcjpwysbzcw==\r\n"), "{}", asked[0]);
    }
}

/// What says who hookd is to a proxy must not be read on the way there.
#[tokio::test]
async fn a_proxy_over_tls_has_to_prove_who_it_is_and_is_spoken_to_in_no_other_way() {
    let authority = Authority::new();
    for (name, is_good) in [("localhost", true), ("other.example.org", false)] {
        let (webhook, front, _) = https(&authority.issue(&server(["hooks.example.org"]))).await;
        let proxy = TunnelProxy::to(front.address()).await;
        let before = TlsFront::before(proxy.address(), &authority.issue(&server([name]))).await;
        let hookd = asks("https://hooks.example.org/x")
            .file("ca.pem", &authority.certificate)
            .settings(json!({ "http_handlers": { "ca": "ca.pem" } }))
            .env("HTTPS_PROXY", &format!("https://user:pass@localhost:{}", before.address().port()))
            .start()
            .await;
        let result = asked(&hookd).await;
        let expected = if is_good { Failure::Unspecified } else { Failure::Connection };
        let reached = (webhook.requests().len(), proxy.asked().len());
        assert_eq!((result.failure(), reached), (expected, (is_good.into(), is_good.into())), "{result:?}");
    }
}

#[tokio::test]
async fn http2_is_spoken_where_the_webhook_does() {
    let authority = Authority::new();
    let front = TlsFront::answering_in_http2(&authority.server(), BLOCK).await;
    let hookd = asks(&url(front.address(), "localhost"))
        .file("ca.pem", &authority.certificate)
        .settings(json!({ "http_handlers": { "ca": "ca.pem" } }))
        .start()
        .await;
    for _ in 0..3 {
        let result = asked(&hookd).await;
        assert_eq!((result.failure(), result.block_reason.as_str()), (Failure::Unspecified, "no"), "{result:?}");
    }
}
