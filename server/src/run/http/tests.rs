mod server;

use hookd_rules::{Handler, ValuePart};
use secrecy::SecretString;

use self::server::{Reply, Request, Server, ok};
use super::*;
use crate::{
    model::{Tier, Verdict},
    run::{
        Pool,
        testing::{self, LONG, PATH, ask, failed, gave, gist, trigger},
    },
};

const BLOCK: &str = r#"{"decision":"block","reason":"r"}"#;

fn pool(environment: &[(&str, &str)]) -> Pool {
    testing::pool(PATH, environment, 8).0
}

async fn post(pool: &Pool, tier: Tier, url: &str) -> Ran {
    let rule = testing::http(tier, url.to_owned(), Vec::new());
    gist(ask(pool, rule, trigger("PreToolUse", "{}"), LONG).await)
}

/// Asks once, over a connection of its own.
async fn answer(reply: Reply, tier: Tier) -> Ran {
    let server = Server::start(move |_, _| reply.clone()).await;
    post(&pool(&[]), tier, &server.url()).await
}

#[track_caller]
fn check_connection(ran: &Ran) {
    assert_eq!(ran.said.as_ref().unwrap_err().kind, Failure::Connection, "{ran:?}");
}

#[tokio::test]
async fn case_074_case_071_the_request_is_the_input_with_trace_and_headers() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "from-file\r\n").unwrap();
    let mut server = Server::start(|_, _| ok(BLOCK)).await;
    let headers = vec![
        (
            "authorization".to_owned(),
            vec![
                ValuePart::Text("Bearer ".to_owned()),
                ValuePart::Env { name: "TOKEN".to_owned(), value: SecretString::from("s3cret") },
            ],
        ),
        ("x-file".to_owned(), vec![ValuePart::File(file.path().to_owned())]),
    ];
    let rule = testing::http(Tier::Managed, server.url(), headers);
    let event = trigger("PreToolUse", r#"{"id":9007199254740993,"text":"中"}"#);
    let form = event.form.clone();
    let asked = crate::run::input::Asked { rule: &rule, form: &form, recheck: false, decision: None };
    let expected = String::from_utf8(crate::run::input::line(&event, &asked).unwrap()).unwrap();
    let ran = ask(&pool(&[]), rule, event, LONG).await;
    assert_eq!(gist(ran), gave(Verdict::Block, "r", BLOCK));

    let request = server.request().await;
    assert_eq!(request.body, expected);
    assert!(request.head.starts_with("POST /hook HTTP/1.1\r\n"), "{}", request.head);
    for header in [
        "content-type: application/json",
        "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "authorization: Bearer s3cret",
        "x-file: from-file",
    ] {
        assert!(request.head.lines().any(|line| line == header), "{header}: {}", request.head);
    }
}

#[tokio::test]
async fn case_083_http_handlers_are_for_any_event() {
    let mut server = Server::start(|_, _| ok("")).await;
    let pool = pool(&[]);
    for event in ["SessionStart", "PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop", "PreDeploy"] {
        let rule = testing::http(Tier::Shared, server.url(), Vec::new());
        let ran = ask(&pool, rule, trigger(event, "{}"), LONG).await;
        assert_eq!(gist(ran), gave(Verdict::None, "", ""));
        let body = server.request().await.body;
        assert!(body.starts_with(&format!(r#"{{"event":"{event}","#)), "{body}");
    }
}

#[tokio::test]
async fn case_081_case_085_each_failure_is_told_apart_and_none_allows() {
    let status = |code: u16, body: &str| {
        Reply::close(&format!("HTTP/1.1 {code} x\r\nContent-Length: {}\r\n\r\n{body}", body.len()))
    };
    let refused = |status, message| Ran { http_status: Some(status), ..failed(Failure::HttpStatus, message) };
    for (reply, tier, expected) in [
        (status(500, " broken\n"), Tier::Managed, refused(500, "HTTP 500: broken")),
        (status(503, ""), Tier::Shared, refused(503, "HTTP 503")),
        (status(403, r#"{"decision":"allow"}"#), Tier::Managed, refused(403, r#"HTTP 403: {"decision":"allow"}"#)),
        (
            Reply::close("HTTP/1.1 302 x\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"),
            Tier::Managed,
            refused(302, "HTTP 302"),
        ),
        (Reply::close("HTTP/1.1 204 x\r\n\r\n"), Tier::Managed, gave(Verdict::None, "", "")),
        (ok(""), Tier::Managed, gave(Verdict::None, "", "")),
        (ok(" ok "), Tier::Shared, gave(Verdict::None, "", " ok ")),
        (ok("ok"), Tier::Managed, failed(Failure::BadOutput, "the body is neither empty nor a JSON object")),
        (ok("[]"), Tier::Team, failed(Failure::BadOutput, "the body is neither empty nor a JSON object")),
        (
            ok("{\"decision\":"),
            Tier::Shared,
            failed(Failure::BadOutput, "output is not one JSON object: EOF while parsing a value at line 1 column 12"),
        ),
        (
            Reply::close("HTTP/1.1 200 x\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx"),
            Tier::Shared,
            failed(Failure::BadOutput, "the body has the encoding \"gzip\""),
        ),
        (
            Reply::close(
                "HTTP/1.1 200 x\r\nContent-Encoding: Identity\r\nContent-Encoding: br\r\nContent-Length: 1\r\n\r\nx",
            ),
            Tier::Shared,
            failed(Failure::BadOutput, "the body has the encoding \"br\""),
        ),
        (
            Reply::close("HTTP/1.1 200 x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"),
            Tier::Shared,
            failed(Failure::BadOutput, "the body has the encoding \"gzip, chunked\""),
        ),
    ] {
        assert_eq!(answer(reply, tier).await, expected);
    }
    for reply in [
        Reply::close(&format!("HTTP/1.1 200 x\r\nContent-Length: 500\r\n\r\n{BLOCK}")),
        Reply::close("HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"dec"),
        Reply::close("HTTP/1.1 2"),
        Reply::close("nonsense\r\n\r\n"),
        Reply::close(""),
    ] {
        let ran = answer(reply, Tier::Managed).await;
        check_connection(&ran);
        assert!(!ran.retried, "a new connection is not tried again");
    }
}

#[tokio::test]
async fn case_081_a_connection_that_is_refused_or_a_name_that_is_unknown() {
    // Held, and nobody listens.
    let nobody = tokio::net::TcpSocket::new_v4().unwrap();
    nobody.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = nobody.local_addr().unwrap().port();
    let ran = post(&pool(&[]), Tier::Managed, &format!("http://user:pass@127.0.0.1:{port}/x?token=s3cret")).await;
    check_connection(&ran);
    let message = ran.said.unwrap_err().message;
    assert!(message.starts_with("no answer from `127.0.0.1`: "), "{message}");
    assert!(!message.contains("pass") && !message.contains("s3cret"), "{message}");
    check_connection(&post(&pool(&[]), Tier::Managed, "http://no-such-host.invalid/").await);
}

#[tokio::test]
async fn case_102_a_server_that_hangs_times_out_before_and_within_the_answer() {
    for hang in ["", "HTTP/1.1 200 x\r\n", "HTTP/1.1 200 x\r\nContent-Length: 100\r\n\r\n{"] {
        let server = Server::start(move |_, _| Reply::hang(hang)).await;
        let rule = testing::http(Tier::Managed, server.url(), Vec::new());
        let granted = Duration::from_millis(300);
        let ran = ask(&pool(&[]), rule, trigger("PreToolUse", "{}"), granted).await;
        assert!(ran.elapsed.unwrap() >= granted);
        assert_eq!(gist(ran), failed(Failure::TimedOut, "Timed out after 300ms"));
    }
}

#[tokio::test]
async fn a_body_over_the_limit_is_a_failure() {
    let limit = 1024 * 1024;
    let whole = format!(r#"{{"additionalContext":"{}"}}"#, "x".repeat(limit - 24));
    assert_eq!(whole.len(), limit);
    assert!(answer(ok(&whole), Tier::Managed).await.said.is_ok());
    let expected = failed(Failure::TooLarge, "a body of more than 1048576 bytes");
    assert_eq!(answer(ok(&format!("{whole} ")), Tier::Managed).await, Ran { truncated: true, ..expected });
}

/// Posts until a request goes over a kept connection, and gives what came of it. (A connection is kept a moment after
/// its answer is read.)
async fn over_a_kept_connection(pool: &Pool, server: &mut Server) -> (Ran, Request) {
    loop {
        let ran = post(pool, Tier::Managed, &server.url()).await;
        let request = server.request().await;
        if request.number > 0 {
            return (ran, request);
        }
        assert_eq!(ran, gave(Verdict::Block, "r", BLOCK));
    }
}

#[tokio::test]
async fn case_082_case_087_a_kept_connection_that_broke_without_an_answer_is_replaced_once() {
    // The first request of each connection is answered. The second gets nothing, as from a server that has given the
    // connection up, or gone.
    let mut server = Server::start(|_, number| if number == 0 { ok(BLOCK) } else { Reply::close("") }).await;
    let (ran, first) = over_a_kept_connection(&pool(&[]), &mut server).await;
    assert_eq!(ran, Ran { retried: true, ..gave(Verdict::Block, "r", BLOCK) });
    let second = server.request().await;
    assert_eq!((second.connection > first.connection, second.number), (true, 0));
    assert_eq!(second.body, first.body);
    server.nothing_more();
}

#[tokio::test]
async fn case_082_a_retry_that_fails_is_the_last() {
    let gone = AtomicBool::new(false);
    let mut server = Server::start(move |_, number| {
        gone.fetch_or(number > 0, Ordering::Relaxed);
        if gone.load(Ordering::Relaxed) { Reply::close("") } else { ok(BLOCK) }
    })
    .await;
    let (ran, _) = over_a_kept_connection(&pool(&[]), &mut server).await;
    check_connection(&ran);
    assert!(ran.retried);
    assert_eq!(server.request().await.number, 0);
    server.nothing_more();
}

#[tokio::test]
async fn case_082_what_was_answered_is_not_sent_twice() {
    for broken in ["HTTP/1.1 200 x\r\nContent-Length: 500\r\n\r\n{", "garbage\r\n\r\n"] {
        let mut server =
            Server::start(move |_, number| if number == 0 { ok(BLOCK) } else { Reply::close(broken) }).await;
        let (ran, _) = over_a_kept_connection(&pool(&[]), &mut server).await;
        check_connection(&ran);
        assert!(!ran.retried);
        server.nothing_more();
    }
}

#[tokio::test]
async fn case_087_a_server_that_was_replaced_is_found_by_the_next_call() {
    let old = Server::start(|_, _| ok("{}")).await;
    let (url, address) = (old.url(), old.address);
    let pool = pool(&[]);
    assert_eq!(post(&pool, Tier::Managed, &url).await, gave(Verdict::None, "", "{}"));
    old.stop().await;
    let _new = Server::start_at(address, |_, _| ok(BLOCK)).await;
    let ran = post(&pool, Tier::Managed, &url).await;
    assert_eq!(Ran { retried: false, ..ran }, gave(Verdict::Block, "r", BLOCK));
}

#[tokio::test]
async fn case_086_loopback_goes_direct_and_the_rest_through_the_proxy() {
    let mut proxy = Server::start(|_, _| ok(r#"{"decision":"ask"}"#)).await;
    let mut direct = Server::start(|_, _| ok(BLOCK)).await;
    let proxy_url = format!("http://{}", proxy.address);
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY"] {
        let pool = pool(&[(name, &proxy_url)]);
        for host in ["127.0.0.1", "localhost", "127.1"] {
            let url = format!("http://{host}:{}/hook", direct.address.port());
            assert_eq!(post(&pool, Tier::Managed, &url).await, gave(Verdict::Block, "r", BLOCK), "{name} {host}");
            direct.request().await;
        }
        let ran = post(&pool, Tier::Managed, "http://hooks.example.invalid/hook").await;
        assert_eq!(ran, gave(Verdict::Ask, "", r#"{"decision":"ask"}"#));
        let head = proxy.request().await.head;
        assert!(head.starts_with("POST http://hooks.example.invalid/hook HTTP/1.1\r\n"), "{head}");
    }
    let pool = pool(&[("HTTP_PROXY", &proxy_url), ("NO_PROXY", "other.test, example.invalid")]);
    check_connection(&post(&pool, Tier::Managed, "http://hooks.example.invalid/hook").await);
    proxy.nothing_more();
}

#[tokio::test]
async fn case_086_a_proxy_that_is_no_url_is_an_error_at_once() {
    let environment = [("HTTPS_PROXY", "http://user:s3cret@[::1")];
    let server = environment.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect();
    let error = Client::new(&server, client::tls(Vec::new()).unwrap()).unwrap_err().to_string();
    assert!(error.contains("`HTTPS_PROXY`") && !error.contains("s3cret"), "{error}");
}

#[tokio::test]
async fn a_handler_for_public_addresses_reaches_no_other_whatever_its_name_stands_for() {
    let mut server = Server::start(|_, _| ok(BLOCK)).await;
    let url = server.url().replace("127.0.0.1", "localhost");
    let to = |public_only| {
        let mut rule = testing::http(Tier::Shared, url.clone(), Vec::new());
        let Handler::Http(http) = &mut rule.handler else { panic!() };
        http.public_only = public_only;
        rule
    };
    let refused = ask(&pool(&[]), to(true), trigger("PreToolUse", "{}"), LONG).await;
    let Err(failed) = refused.said else { panic!("{refused:?}") };
    assert_eq!(failed.kind, Failure::NotPermitted);
    let end = "is not a public address, `http_hosts` of its tier would have to name the host";
    assert!(failed.message.starts_with("`localhost`: `") && failed.message.ends_with(end), "{failed}");
    // An address is not looked up, and no less looked at.
    for address in ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]"] {
        let mut rule = testing::http(Tier::Shared, server.url().replace("127.0.0.1", address), Vec::new());
        let Handler::Http(http) = &mut rule.handler else { panic!() };
        http.public_only = true;
        let refused = ask(&pool(&[]), rule, trigger("PreToolUse", "{}"), LONG).await;
        assert_eq!(refused.said.map_err(|failed| failed.kind), Err(Failure::NotPermitted), "{address}");
    }
    server.nothing_more();
    let ran = ask(&pool(&[]), to(false), trigger("PreToolUse", "{}"), LONG).await;
    assert_eq!(gist(ran), gave(Verdict::Block, "r", BLOCK));
}

#[tokio::test]
async fn headers_that_cannot_be_sent_are_told_without_their_values() {
    let mut server = Server::start(|_, _| ok("{}")).await;
    let secret = |value: &str| ValuePart::Env { name: "TOKEN".to_owned(), value: SecretString::from(value) };
    for (name, part, message) in [
        (
            "authorization",
            ValuePart::File("/no/such/file".into()),
            "cannot read `/no/such/file` for header `authorization`: No such file or directory (os error 2)",
        ),
        (
            "authorization",
            secret("s3\ncret"),
            "the value of header `authorization` holds a character that cannot be sent",
        ),
        ("content-length", secret("7"), "header `content-length` cannot be set by a rule"),
        ("a b", secret("7"), "`a b` is not the name of a header"),
    ] {
        let rule = testing::http(Tier::Managed, server.url(), vec![(name.to_owned(), vec![part])]);
        let ran = ask(&pool(&[]), rule, trigger("PreToolUse", "{}"), LONG).await;
        assert_eq!(ran, failed(Failure::DidNotStart, message));
    }
    server.nothing_more();
}

#[tokio::test]
async fn law_06_an_http_job_is_sent_in_the_background() {
    let mut server = Server::start(|_, _| ok(BLOCK)).await;
    let (pool, mut ends) = testing::pool(PATH, &[], 8);
    let rule = testing::http(Tier::Shared, server.url(), Vec::new());
    crate::run::Handlers::queue(&pool, testing::job(rule, trigger("Notification", "{}"))).unwrap();
    server.request().await;
    let ran = tokio::time::timeout(LONG, ends.recv()).await.unwrap().unwrap();
    assert_eq!(gist(ran), gave(Verdict::Block, "r", BLOCK));
}
