//! How requests come: in pieces, too large, too slow, from web pages, under other names, or not at all.

use std::time::Duration;

use hookd_tests::{Hookd, RawHttp1, eventually, pre_tool_use, said, v1, with_deadline};
use serde_json::{Value, json};

use super::{CLAUDE, MIB, TRIGGER, before, context, denied, error, not_judged, rules};

#[tokio::test]
async fn requests_are_read_as_they_come() {
    let hookd = Hookd::builder().managed(rules()).start().await;
    let mut connection = RawHttp1::connect(hookd.address()).await;
    let input = before("Bash", json!({ "command": "ls" }));

    // Three at once, and the beginning of a fourth.
    let quick = RawHttp1::post(CLAUDE, "", &before("Read", json!({})));
    let one = RawHttp1::post(CLAUDE, "", &input);
    let other = RawHttp1::post(TRIGGER, "", &context("Bash"));
    connection.send(&[one.as_slice(), &quick, &other, &one[..10]].concat()).await;
    denied(&connection.answer().await.unwrap());
    assert_eq!(connection.answer().await.unwrap().body, "");
    assert_eq!(connection.answer().await.unwrap().json()["verdict"], "block");
    connection.send(&one[10..]).await;
    denied(&connection.answer().await.unwrap());

    // Byte by byte.
    for byte in &one {
        connection.send(&[*byte]).await;
    }
    denied(&connection.answer().await.unwrap());

    // In chunks.
    let head = format!(
        "POST {CLAUDE} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    let (first, second) = input.split_at(20);
    let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
    connection.send(format!("{head}{}", chunk(first)).as_bytes()).await;
    connection.send(format!("{}0\r\n\r\n", chunk(second)).as_bytes()).await;
    denied(&connection.answer().await.unwrap());

    // Only when it is asked for.
    let expecting = RawHttp1::post(CLAUDE, "Expect: 100-continue\r\n", &input);
    let (head, body) = expecting.split_at(expecting.len() - input.len());
    connection.send(head).await;
    assert_eq!(connection.answer().await.unwrap().status, 100);
    connection.send(body).await;
    denied(&connection.answer().await.unwrap());

    // A body that breaks off in its form is no body.
    let head = format!(
        "POST {TRIGGER} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    connection.send(format!("{head}nonsense\r\n").as_bytes()).await;
    assert_eq!(error(&connection.answer().await.unwrap()), (400, "INVALID_REQUEST".to_owned()));
    let _what_is_left = connection.closed().await;

    let answer = hookd.trigger(pre_tool_use("Bash", json!({}))).await;
    assert_eq!(answer.verdict(), v1::Verdict::Block, "gRPC is served beside it");
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_and_does_not_buy_an_allow() {
    let hookd = Hookd::builder().managed(rules()).start().await;
    let padded = before("Read", json!({ "padding": "x".repeat(5 * MIB) }));
    let before_it = hookd.memory();
    for path in [format!("{CLAUDE}?event=PreToolUse"), format!("{CLAUDE}?on_unavailable=allow&event=PreToolUse")] {
        let mut connection = RawHttp1::connect(hookd.address()).await;
        assert_eq!(not_judged(&connection.ask(&path, "", &padded).await), "TOO_LARGE");
        denied(&connection.ask(CLAUDE, "", &before("Bash", json!({}))).await);
        assert_eq!(not_judged(&hookd.post_http2(&path, &padded).await), "TOO_LARGE");
    }
    let mut connection = RawHttp1::connect(hookd.address()).await;
    let answer = connection.ask(TRIGGER, "", &padded).await;
    assert_eq!(error(&answer), (413, "TOO_LARGE".to_owned()));
    assert_eq!(answer.json()["error"]["limitBytes"], "4194304");
    let after = hookd.memory();
    assert!(after < before_it + (64 << 20), "{before_it} bytes before, {after} after");

    let fits = before("Bash", json!({ "padding": "x".repeat(4 * MIB - 1024) }));
    denied(&connection.ask(CLAUDE, "", &fits).await);

    // Whoever waits to be told is told without sending.
    let expecting = RawHttp1::post(&format!("{CLAUDE}?event=PreToolUse"), "Expect: 100-continue\r\n", &padded);
    connection.send(&expecting[..expecting.len() - padded.len()]).await;
    assert_eq!(not_judged(&connection.answer().await.unwrap()), "TOO_LARGE");
}

#[tokio::test]
async fn what_web_pages_can_send_is_refused_before_anything_is_evaluated() {
    let hookd = Hookd::builder().managed(rules()).start().await;
    let request = |line: &str, headers: &str| {
        let body = before("Bash", json!({}));
        format!("{line} HTTP/1.1\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len())
    };
    let json = "Content-Type: application/json\r\n";
    let local = format!("Host: localhost\r\n{json}");
    let cases = [
        (request("POST /v1/trigger", "Host: localhost\r\nContent-Type: text/plain\r\n"), 415, "UNSUPPORTED_MEDIA_TYPE"),
        (request("POST /v1/trigger", "Host: localhost\r\n"), 415, "UNSUPPORTED_MEDIA_TYPE"),
        (
            request(
                &format!("POST {CLAUDE}"),
                "Host: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n",
            ),
            415,
            "UNSUPPORTED_MEDIA_TYPE",
        ),
        (request("POST /v1/trigger", &format!("{local}Origin: http://evil.example\r\n")), 403, "FOREIGN_ORIGIN"),
        (request(&format!("POST {CLAUDE}"), &format!("{local}Origin: null\r\n")), 403, "FOREIGN_ORIGIN"),
        (request("POST /v1/trigger", &format!("Host: evil.example\r\n{json}")), 403, "FOREIGN_HOST"),
        (
            request(&format!("POST {CLAUDE}"), &format!("Host: evil.example\r\n{json}Origin: http://evil.example\r\n")),
            403,
            "FOREIGN_HOST",
        ),
        (request("POST http://evil.example/v1/trigger", &local), 403, "FOREIGN_HOST"),
        (request("POST /v1/trigger", json), 400, "INVALID_REQUEST"),
        (request("POST /v1/trigger", &format!("Host: localhost\r\n{local}")), 400, "INVALID_REQUEST"),
        (request("POST /", &local), 404, "NOT_FOUND"),
        (request("POST /v1/hooks/nobody", &local), 404, "NOT_FOUND"),
        (request("GET /v1/trigger", &local), 405, "METHOD_NOT_ALLOWED"),
        (
            request("OPTIONS /v1/trigger", &format!("{local}Access-Control-Request-Method: POST\r\n")),
            405,
            "METHOD_NOT_ALLOWED",
        ),
        (
            request("POST /hookd.v1.HookService/Trigger", "Host: localhost\r\nContent-Type: application/grpc\r\n"),
            505,
            "HTTP_VERSION",
        ),
    ];
    for (request, status, reason) in cases {
        let mut connection = RawHttp1::connect(hookd.address()).await;
        connection.send(request.as_bytes()).await;
        let answer = connection.answer().await.unwrap();
        assert_eq!(error(&answer), (status, reason.to_owned()), "{request}");
        assert!(!answer.headers.iter().any(|(name, _)| name.starts_with("access-control-")), "{answer:?}");
        assert_eq!(answer.header("allow").is_some(), status == 405);
    }
    // Over HTTP/2, as browsers speak it where there is TLS, gRPC's methods are no way around that.
    let loads = r#"hookd_reloads_total{result="good"}"#;
    let before = hookd.metric(loads).await;
    for (path, kind) in [
        ("/hookd.v1.HookService/Trigger", "text/plain"),
        ("/hookd.v1.AdminService/Reload", "application/x-www-form-urlencoded"),
        ("/hookd.v1.AdminService/Reload", "multipart/form-data"),
    ] {
        let answer = hookd.post_http2_as(path, kind, "\0\0\0\0\0").await;
        assert_eq!(error(&answer), (415, "UNSUPPORTED_MEDIA_TYPE".to_owned()), "{path} {kind}");
    }
    assert_eq!(hookd.metric(loads).await, before, "nothing is loaded");
    let lines = hookd.log_lines();
    assert!(lines.iter().all(|line| line["message"] != "decided"), "nothing is evaluated");
    for (status, count) in [("permission_denied", 5.0), ("invalid_argument", 8.0)] {
        let series = format!(r#"hookd_calls_total{{event="",verdict="",tier="",status="{status}"}}"#);
        assert_eq!(hookd.metric(&series).await, count, "{series}");
    }
}

#[tokio::test]
async fn a_hookd_for_other_machines_answers_to_addresses_and_to_the_names_in_its_settings() {
    let hookd = Hookd::builder()
        .managed(rules())
        .settings(json!({ "listen": "0.0.0.0:0", "plaintext": "allow", "hosts": ["hookd.example.com"] }))
        .start()
        .await;
    for (host, status) in [
        ("hookd.example.com", 200),
        ("HOOKD.example.com:443", 200),
        ("192.0.2.7:50051", 200),
        ("127.0.0.1", 200),
        ("localhost", 403),
    ] {
        let mut connection = RawHttp1::connect(([127, 0, 0, 1], hookd.address().port()).into()).await;
        let request = String::from_utf8(RawHttp1::post(CLAUDE, "", &before("Bash", json!({})))).unwrap();
        connection.send(request.replace("localhost", host).as_bytes()).await;
        assert_eq!(connection.answer().await.unwrap().status, status, "{host}");
    }
    let told = |line: &Value| line["message"].as_str().is_some_and(|text| text.contains("foreign host"));
    let lines = eventually("the log", async || {
        let lines = hookd.log_lines().into_iter().filter(told).collect::<Vec<_>>();
        (!lines.is_empty()).then_some(lines)
    })
    .await;
    assert_eq!(lines.iter().map(|line| line["host"].as_str()).collect::<Vec<_>>(), [Some("localhost")]);
}

#[tokio::test]
async fn bytes_that_are_no_request_hurt_only_their_own_connection() {
    let hookd = Hookd::builder().managed(rules()).start().await;
    let garbage = (0..=255).cycle().take(70_000).collect::<Vec<u8>>();
    let head = "POST /v1/trigger HTTP/1.1\r\nHost: localhost\r\n";
    let many = (0..200).map(|number| format!("x-{number}: y\r\n")).collect::<String>();
    let cases: [(Vec<u8>, &str); 7] = [
        (garbage, "HTTP/1.1 400 Bad Request"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(), "HTTP/1.1 400 Bad Request"),
        (b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n".to_vec(), "HTTP/1.1 400 Bad Request"),
        (b"POST /v1/trigger HTTP/3.0\r\n\r\n".to_vec(), "HTTP/1.1 400 Bad Request"),
        (format!("{head}Content-Length: 1\r\nContent-Length: 2\r\n\r\n").into_bytes(), "HTTP/1.1 400 Bad Request"),
        (format!("{head}{many}\r\n").into_bytes(), "HTTP/1.1 431 Request Header Fields Too Large"),
        (
            format!("{head}x: {}\r\n\r\n", "y".repeat(100_000)).into_bytes(),
            "HTTP/1.1 431 Request Header Fields Too Large",
        ),
    ];
    for (bytes, expected) in cases {
        let mut connection = RawHttp1::connect(hookd.address()).await;
        connection.try_send(&bytes).await;
        let answer = connection.closed().await;
        // A connection that is closed while bytes are still coming may lose the answer.
        assert!(answer.is_empty() || answer.starts_with(expected), "{answer} to {:?}", bytes.get(..40));
    }
    let mut connection = RawHttp1::connect(hookd.address()).await;
    denied(&connection.ask(CLAUDE, "", &before("Bash", json!({}))).await);
    let deadline = Duration::from_secs(30);
    let answer = hookd.trigger(with_deadline(pre_tool_use("Bash", json!({})), deadline)).await;
    assert_eq!(said(&answer)["verdict"], "block");
}

#[tokio::test]
async fn a_request_that_does_not_arrive_takes_no_place_and_is_answered() {
    let hookd = Hookd::builder()
        .managed(rules())
        .settings(json!({ "limits": { "in_flight": 1, "default_deadline": "1s" } }))
        .start()
        .await;
    for (path, reason) in [(format!("{CLAUDE}?event=PreToolUse"), "block"), (TRIGGER.to_owned(), "status")] {
        let mut stuck = RawHttp1::connect(hookd.address()).await;
        let request = RawHttp1::post(&path, "", &before("Bash", json!({})));
        stuck.send(&request[..request.len() - 10]).await;
        eventually("it is on its way", async || (hookd.metric("hookd_arriving_calls").await == 1.0).then_some(()))
            .await;
        assert_eq!(hookd.metric("hookd_in_flight_calls").await, 0.0);
        let answer = stuck.answer().await.unwrap();
        match reason {
            "block" => assert_eq!(not_judged(&answer), "REQUEST_TOO_SLOW"),
            _ => assert_eq!(error(&answer), (408, "REQUEST_TOO_SLOW".to_owned())),
        }
        assert_eq!(hookd.metric("hookd_arriving_calls").await, 0.0);
    }
    let mut connection = RawHttp1::connect(hookd.address()).await;
    denied(&connection.ask(CLAUDE, "", &before("Bash", json!({}))).await);
}
