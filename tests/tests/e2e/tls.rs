//! TLS at the real server: who is let in, who is not, and certificates that change under load.

use std::{
    fs,
    io::{self, ErrorKind},
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

use hookd_tests::{
    Authority, Hookd, Issued, Signal, TlsCaller, eventually, pre_tool_use,
    tls::{client, date_time_ymd, replace_link, serial, server},
    v1::Verdict,
    within,
};
use rustls::{AlertDescription, CertificateError, Error, HandshakeKind, version::TLS12, version::TLS13};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const SPIFFE: &str = "spiffe://example.org/ns/a/agent/7";

/// Rules that block every call of a tool.
fn blocks() -> Value {
    json!([{ "id": "rule", "event": "PreToolUse", "handler": { "type": "decide", "verdict": "block" } }])
}

/// What TLS says of a failed connection.
fn reason(error: &io::Error) -> Error {
    let inner = error.get_ref().unwrap_or_else(|| panic!("{error:?} is not of TLS"));
    inner.downcast_ref::<Error>().unwrap_or_else(|| panic!("{error:?} is not of TLS")).clone()
}

/// Shakes hands and reads: what the server told this caller instead of serving it.
async fn refusal(caller: &TlsCaller, address: SocketAddr) -> Error {
    let mut stream = match caller.connect(address).await {
        Ok(stream) => stream,
        Err(error) => return reason(&error),
    };
    let read = within("the server's opinion", stream.read(&mut [0; 100])).await;
    reason(&read.expect_err("the server lets nobody in"))
}

fn alert(alert: AlertDescription) -> Error {
    Error::AlertReceived(alert)
}

async fn asks(caller: &TlsCaller, hookd: &Hookd) -> Verdict {
    let (mut client, _) = caller.client(hookd.address()).await.unwrap();
    let answer = within("an answer", client.trigger(pre_tool_use("Bash", json!({})))).await.unwrap();
    answer.into_inner().verdict()
}

/// The lines of `/readyz` on certificates.
async fn certificate_lines(hookd: &Hookd) -> Vec<String> {
    let (_, page) = hookd.admin_get("/readyz").await;
    page.lines().filter(|line| line.contains("certificate")).map(str::to_owned).collect()
}

async fn reloads(hookd: &Hookd, result: &str) -> f64 {
    hookd.metric(&format!("hookd_tls_reloads_total{{result=\"{result}\"}}")).await
}

#[tokio::test]
async fn callers_are_served_over_tls_1_3_and_know_the_server() {
    let ours = Authority::new();
    let hookd = ours.server().serve(Hookd::builder().managed(blocks())).start().await;
    assert_eq!(asks(&ours.caller(), &hookd).await, Verdict::Block);
    assert_eq!(asks(&ours.caller().expecting("127.0.0.1"), &hookd).await, Verdict::Block);
    assert_eq!(asks(&ours.caller().offering(&[]), &hookd).await, Verdict::Block, "the preface tells as well");
    let stream = ours.caller().connect(hookd.address()).await.unwrap();
    let (_, session) = stream.get_ref();
    assert_eq!(session.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_3));
    assert_eq!(session.alpn_protocol(), Some(&b"h2"[..]));

    let elsewhere = refusal(&ours.caller().expecting("hookd.example.com"), hookd.address()).await;
    assert!(
        matches!(elsewhere, Error::InvalidCertificate(CertificateError::NotValidForNameContext { .. })),
        "{elsewhere:?}"
    );
    let stranger = refusal(&Authority::new().caller(), hookd.address()).await;
    assert_eq!(stranger, Error::InvalidCertificate(CertificateError::UnknownIssuer));
    let old = refusal(&ours.caller().speaking(&[&TLS12]), hookd.address()).await;
    assert_eq!(old, alert(AlertDescription::ProtocolVersion));
    let other = refusal(&ours.caller().offering(&["spdy/3"]), hookd.address()).await;
    assert_eq!(other, alert(AlertDescription::NoApplicationProtocol));
    // The serving line is written before anything is served.
    let serving = hookd.logged(|line| line["message"] == "serving").await.to_string();
    assert!(serving.contains(r#""tls":"1.3 or newer, client certificates not asked for""#), "{serving}");
}

#[tokio::test]
async fn callers_refuse_a_server_whose_certificate_is_no_good() {
    let ours = Authority::new();
    let expired = {
        let mut params = server(["localhost"]);
        (params.not_before, params.not_after) = (date_time_ymd(2000, 1, 1), date_time_ymd(2001, 1, 1));
        ours.issue(&params)
    };
    let hookd = expired.serve(Hookd::builder()).start().await;
    let seen = refusal(&ours.caller(), hookd.address()).await;
    assert!(matches!(seen, Error::InvalidCertificate(CertificateError::ExpiredContext { .. })), "{seen:?}");
    assert_eq!(certificate_lines(&hookd).await, ["the certificate has expired"]);
    hookd.logged(|line| line["message"] == "the certificate has expired, callers will not take it").await;

    let hookd = Issued::by_itself(&server(["localhost"])).serve(Hookd::builder()).start().await;
    let seen = refusal(&ours.caller(), hookd.address()).await;
    assert_eq!(seen, Error::InvalidCertificate(CertificateError::UnknownIssuer));
}

#[tokio::test]
async fn tls_1_2_is_spoken_if_so_set() {
    let ours = Authority::new();
    let hookd = ours.server().serve(Hookd::builder().managed(blocks()));
    let hookd = hookd.settings(json!({ "tls": { "min_version": "1.2" } })).start().await;
    assert_eq!(asks(&ours.caller().speaking(&[&TLS12]), &hookd).await, Verdict::Block);
    let both = ours.caller().speaking(&[&TLS12, &TLS13]).connect(hookd.address()).await.unwrap();
    assert_eq!(both.get_ref().1.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_3));
}

#[tokio::test]
async fn a_certificate_of_a_caller_has_to_be_good() {
    let (ours, theirs) = (Authority::new(), Authority::named("theirs"));
    let namesake = Authority::named("theirs");
    let good = theirs.client(SPIFFE);
    let expired = {
        let mut params = client(SPIFFE);
        (params.not_before, params.not_after) = (date_time_ymd(2000, 1, 1), date_time_ymd(2001, 1, 1));
        theirs.issue(&params)
    };
    let not_yet = {
        let mut params = client(SPIFFE);
        (params.not_before, params.not_after) = (date_time_ymd(4000, 1, 1), date_time_ymd(4001, 1, 1));
        theirs.issue(&params)
    };
    let refused = [
        (None, AlertDescription::CertificateRequired),
        (Some(expired), AlertDescription::CertificateExpired),
        (Some(not_yet), AlertDescription::CertificateExpired),
        (Some(Issued::by_itself(&client(SPIFFE))), AlertDescription::UnknownCA),
        (Some(ours.client(SPIFFE)), AlertDescription::UnknownCA),
        (Some(namesake.client(SPIFFE)), AlertDescription::DecryptError),
        (Some(theirs.issue(&server(["localhost"]))), AlertDescription::UnsupportedCertificate),
    ];
    for policy in ["required", "optional"] {
        let hookd = ours.server().serve(Hookd::builder().managed(blocks()));
        let hookd = theirs.ask_for(hookd).settings(json!({ "tls": { "client_certificates": policy } })).start().await;
        let caller = ours.caller();
        assert_eq!(asks(&caller.clone().showing(&good), &hookd).await, Verdict::Block, "{policy}");
        let mut failed = 0;
        for (shown, expected) in &refused {
            let caller = match shown {
                Some(issued) => caller.clone().showing(issued),
                None if policy == "optional" => {
                    assert_eq!(asks(&caller, &hookd).await, Verdict::Block);
                    continue;
                }
                None => caller.clone(),
            };
            assert_eq!(refusal(&caller, hookd.address()).await, alert(*expected), "{policy} {expected:?}");
            failed += 1;
        }
        eventually("they are counted", async || {
            (hookd.metric("hookd_tls_failed_handshakes_total").await == f64::from(failed)).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn plain_http_is_served_over_tls_too() {
    let ours = Authority::new();
    let hookd = ours.server().serve(Hookd::builder().managed(blocks())).start().await;
    let mut stream = ours.caller().offering(&["http/1.1"]).connect(hookd.address()).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    let hook = r#"{"session_id":"s","transcript_path":"/t","cwd":"/","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"},"tool_use_id":"t1"}"#;
    let trigger = r#"{"event":"PreToolUse","toolCall":{"tool":"Bash","params":{}}}"#;
    for (path, body, said, headers) in [
        ("/v1/hooks/claude-code", hook, r#""permissionDecision":"deny""#, "Origin: https://localhost\r\n"),
        ("/v1/trigger", trigger, r#""verdict":"block""#, "Connection: close\r\n"),
    ] {
        stream.write_all(&hookd_tests::RawHttp1::post(path, headers, body)).await.unwrap();
        let mut answer = String::new();
        while !answer.contains(said) {
            let mut bytes = [0; 4096];
            let read = within("an answer", stream.read(&mut bytes)).await.unwrap();
            assert_ne!(read, 0, "{answer}");
            answer.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
        }
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    }
    let end = within("the end", stream.read(&mut [0; 1])).await;
    assert_eq!(end.unwrap(), 0, "closed with a notice, not cut");
}

#[tokio::test]
async fn whoever_speaks_plain_text_to_tls_is_closed_without_harm() {
    let ours = Authority::new();
    let hookd = ours.server().serve(Hookd::builder().managed(blocks()));
    let socket = hookd.path("h.sock");
    let listen = json!({ "listen": ["127.0.0.1:0", format!("unix:{}", socket.display())] });
    let hookd = hookd.settings(listen).start().await;
    let garbage = (0..=255).cycle().take(70_000).collect::<Vec<u8>>();
    let plain: [&[u8]; 5] =
        [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", hookd_tests::PREFACE, &garbage, &[0; 9], b"\x16\x03\x01\x02\x00\x01"];
    for bytes in plain {
        let mut stream = tokio::net::TcpStream::connect(hookd.address()).await.unwrap();
        // The server may close before it has read all of it.
        let _closed = stream.write_all(bytes).await;
        let _closed = stream.shutdown().await;
        let mut answer = Vec::new();
        let _reset = within("the end of the connection", stream.read_to_end(&mut answer)).await;
        assert!(answer.first().is_none_or(|kind| *kind == 21), "an alert or nothing: {answer:?}");
    }
    let plain_grpc = hookd.try_trigger(pre_tool_use("Bash", json!({}))).await.unwrap_err();
    assert!(!plain_grpc.metadata().contains_key("hookd-decision-id"), "{plain_grpc:?}");
    assert_eq!(asks(&ours.caller(), &hookd).await, Verdict::Block);
    // The unix socket and the admin side speak plain text.
    let mut stream = tokio::net::UnixStream::connect(&socket).await.unwrap();
    let body = r#"{"event":"PreToolUse","toolCall":{"tool":"Bash","params":{}}}"#;
    stream.write_all(&hookd_tests::RawHttp1::post("/v1/trigger", "Connection: close\r\n", body)).await.unwrap();
    let mut answer = String::new();
    within("an answer", stream.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.contains(r#""verdict":"block""#), "{answer}");
    assert_eq!(hookd.admin_get("/livez").await.0, 200);
}

#[tokio::test]
async fn what_cannot_be_served_with_stops_the_start() {
    let ours = Authority::new();
    let mismatched = Issued { key: ours.server().key, ..ours.server() };
    for check in [false, true] {
        let hookd = mismatched.serve(Hookd::builder());
        let (certificate, key) = (hookd.path("tls/tls.crt"), hookd.path("tls/tls.key"));
        let hookd = if check { hookd.arg("--check") } else { hookd };
        let refused = hookd.start_refused().await;
        let expected = format!("{}: is not the key of the certificate in {}\n", key.display(), certificate.display());
        assert_eq!((refused.code, refused.stderr), (Some(64), expected));
    }
    let refused = Hookd::builder().settings(json!({ "listen": "0.0.0.0:0" })).start_refused().await;
    assert_eq!(refused.code, Some(64));
    let why = "listen: 0.0.0.0:0 can be reached from other machines and calls would be plain text, set tls.certificate and tls.key, or `plaintext: allow` if that is meant\n";
    assert!(refused.stderr.ends_with(why) && refused.stderr.lines().count() == 1, "{}", refused.stderr);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_that_change_fifty_times_under_load_fail_no_call() {
    let ours = Authority::new();
    let numbered = |serial: u64| {
        let mut params = server(["localhost"]);
        params.serial_number = Some(serial.into());
        ours.issue(&params)
    };
    let hookd = Hookd::builder().managed(blocks());
    // As Kubernetes mounts a Secret: links through a link that is swapped.
    let publish = |mount: &std::path::Path, version: u64| {
        let issued = numbered(version);
        let folder = mount.join(format!("..{version}"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("tls.crt"), issued.certificate).unwrap();
        fs::write(folder.join("tls.key"), issued.key).unwrap();
        replace_link(&mount.join("..data"), &format!("..{version}"));
    };
    let mount = hookd.path("mount");
    publish(&mount, 1);
    for name in ["tls.crt", "tls.key"] {
        replace_link(&mount.join(name), &format!("..data/{name}"));
    }
    let tls = json!({ "certificate": mount.join("tls.crt"), "key": mount.join("tls.key") });
    let hookd = hookd.settings(json!({ "tls": tls })).start().await;
    let (address, caller) = (hookd.address(), ours.caller());

    let stop = Arc::new(AtomicBool::new(false));
    let mut callers = Vec::new();
    // Two keep their first connection, two make a new one for every few calls. What each saw and how much it asked last:
    let seen = [(); 4].map(|()| Arc::new((AtomicU64::new(0), AtomicUsize::new(0))));
    for (calls_each, seen) in [usize::MAX, usize::MAX, 3, 5].into_iter().zip(&seen) {
        let (caller, stop, seen) = (caller.clone(), Arc::clone(&stop), Arc::clone(seen));
        callers.push(tokio::spawn(async move {
            let mut serials = Vec::new();
            while !stop.load(Ordering::SeqCst) {
                let (mut client, serial) = caller.client(address).await.expect("every connection is made");
                serials.push(serial);
                seen.0.store(serial, Ordering::SeqCst);
                for _ in 0..calls_each {
                    let request = pre_tool_use("Bash", json!({}));
                    let answer = within("an answer", client.trigger(request)).await.expect("every call is answered");
                    assert_eq!(answer.into_inner().verdict(), Verdict::Block);
                    seen.1.fetch_add(1, Ordering::SeqCst);
                    if stop.load(Ordering::SeqCst) {
                        break;
                    }
                }
            }
            serials
        }));
    }
    for version in 2..=51 {
        let before = seen.each_ref().map(|seen| seen.1.load(Ordering::SeqCst));
        publish(&mount, version);
        eventually("new connections see it, and all calls go on", async || {
            let is_seen = seen[2..].iter().all(|seen| seen.0.load(Ordering::SeqCst) == version);
            let goes_on = seen.iter().zip(before).all(|(seen, before)| seen.1.load(Ordering::SeqCst) > before);
            (is_seen && goes_on).then_some(())
        })
        .await;
    }
    stop.store(true, Ordering::SeqCst);
    for (index, caller) in callers.into_iter().enumerate() {
        let mut serials = caller.await.unwrap();
        serials.dedup();
        if index < 2 {
            assert_eq!(serials, [1], "connections that are open live on");
        } else {
            assert_eq!(serials, (1..=51).collect::<Vec<_>>());
        }
    }
    assert_eq!((reloads(&hookd, "good").await, reloads(&hookd, "refused").await), (51.0, 0.0));
}

#[tokio::test]
async fn a_pair_that_does_not_match_is_refused_and_a_good_one_after_it_is_taken() {
    let ours = Authority::new();
    let hookd = ours.server().serve(Hookd::builder().managed(blocks())).start().await;
    let first = serial(&ours.caller().connect(hookd.address()).await.unwrap());
    let not_after = hookd.metric("hookd_tls_certificate_not_after_seconds{}").await;
    let next = {
        let mut params = server(["localhost"]);
        params.not_after = date_time_ymd(4000, 1, 1);
        ours.issue(&params)
    };
    // One after the other, as careless tools write them: between the two they do not match.
    hookd.replace_file("tls/tls.crt", &next.certificate);
    eventually("it is refused", async || (reloads(&hookd, "refused").await == 1.0).then_some(())).await;
    let (certificate, key) = (hookd.path("tls/tls.crt"), hookd.path("tls/tls.key"));
    let why = format!(
        "the last certificate was refused: the one before it stays in force: {}: is not the key of the certificate in {}",
        key.display(),
        certificate.display()
    );
    assert_eq!(certificate_lines(&hookd).await, [why]);
    assert_eq!(hookd.admin_get("/readyz").await.0, 200);
    let still = ours.caller().connect(hookd.address()).await.unwrap();
    assert_eq!((serial(&still), hookd.metric("hookd_tls_certificate_not_after_seconds{}").await), (first, not_after));
    assert_eq!(asks(&ours.caller(), &hookd).await, Verdict::Block);

    hookd.replace_file("tls/tls.key", &next.key);
    eventually("it is taken", async || (reloads(&hookd, "good").await == 2.0).then_some(())).await;
    assert_eq!(certificate_lines(&hookd).await, [] as [String; 0]);
    assert_ne!(serial(&ours.caller().connect(hookd.address()).await.unwrap()), first);
    let end = date_time_ymd(4000, 1, 1).unix_timestamp();
    assert_eq!(hookd.metric("hookd_tls_certificate_not_after_seconds{}").await, end as f64);
    for told in ["certificate refused", "certificate reloaded"] {
        hookd.logged(|line| line["message"].as_str().is_some_and(|message| message.contains(told))).await;
    }
    let log = hookd.log_text();
    assert!(!log.contains("PRIVATE") && !log.contains(next.key.lines().nth(1).unwrap()), "no key is logged");

    fs::remove_file(&key).unwrap();
    eventually("it is refused", async || (reloads(&hookd, "refused").await == 2.0).then_some(())).await;
    hookd.signal(Signal::HUP);
    eventually("SIGHUP reads as well", async || (reloads(&hookd, "refused").await == 3.0).then_some(())).await;
    assert_eq!(asks(&ours.caller(), &hookd).await, Verdict::Block);
}

#[tokio::test]
async fn another_client_ca_holds_for_new_connections() {
    let (ours, old, new) = (Authority::new(), Authority::new(), Authority::new());
    let hookd = old.ask_for(ours.server().serve(Hookd::builder().managed(blocks()))).start().await;
    let (of_old, of_new) = (old.client(SPIFFE), new.client(SPIFFE));
    let (of_old, of_new) = (ours.caller().showing(&of_old), ours.caller().showing(&of_new));
    let (mut open, _) = of_old.client(hookd.address()).await.unwrap();
    let ask = || pre_tool_use("Bash", json!({}));
    open.trigger(ask()).await.unwrap();
    assert_eq!(refusal(&of_new, hookd.address()).await, alert(AlertDescription::UnknownCA));
    hookd.replace_file("tls/ca.crt", &new.certificate);
    eventually("it is taken", async || (reloads(&hookd, "good").await == 2.0).then_some(())).await;
    assert_eq!(refusal(&of_old, hookd.address()).await, alert(AlertDescription::UnknownCA));
    assert_eq!(asks(&of_new, &hookd).await, Verdict::Block);
    open.trigger(ask()).await.expect("a connection that is open lives on");
}

#[tokio::test]
async fn no_session_is_resumed_so_each_connection_is_held_against_what_is_in_force() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let hookd =
        ours.server().serve(Hookd::builder().managed(blocks())).settings(json!({ "tls": { "min_version": "1.2" } }));
    let hookd = theirs.ask_for(hookd).start().await;
    let good = theirs.client(SPIFFE);
    for version in [&TLS13, &TLS12] {
        let caller = ours.caller().showing(&good).speaking(&[version]).offering(&["http/1.1"]);
        // One configuration, in which a caller remembers sessions.
        let config = Arc::new(caller.config());
        for _ in 0..3 {
            let stream = tokio::net::TcpStream::connect(hookd.address()).await.unwrap();
            let connector = tokio_rustls::TlsConnector::from(Arc::clone(&config));
            let mut stream = connector.connect("localhost".try_into().unwrap(), stream).await.unwrap();
            // Tickets come with the first answer.
            let body = r#"{"event":"PreToolUse","toolCall":{"tool":"Bash","params":{}}}"#;
            let request = hookd_tests::RawHttp1::post("/v1/trigger", "Connection: close\r\n", body);
            stream.write_all(&request).await.unwrap();
            let mut answer = String::new();
            within("an answer", stream.read_to_string(&mut answer)).await.unwrap();
            assert!(answer.contains(r#""verdict":"block""#), "{answer}");
            assert_eq!(stream.get_ref().1.handshake_kind(), Some(HandshakeKind::Full));
        }
    }
}

#[tokio::test]
async fn handshakes_that_hang_hold_up_nobody() {
    let ours = Authority::new();
    let hookd = ours.server().serve(Hookd::builder().managed(blocks())).start().await;
    let mut hanging = Vec::new();
    for _ in 0..200 {
        let mut stream = tokio::net::TcpStream::connect(hookd.address()).await.unwrap();
        stream.write_all(b"\x16\x03\x01").await.unwrap();
        hanging.push(stream);
    }
    assert_eq!(asks(&ours.caller(), &hookd).await, Verdict::Block);
    // Nor the exit, within what a handshake may take.
    hookd.signal(Signal::TERM);
    assert_eq!(hookd.wait_exit().await.code(), Some(0));
    for mut stream in hanging {
        let end = within("the end", stream.read(&mut [0; 1])).await;
        assert!(
            end.as_ref().is_ok_and(|read| *read == 0) || end.is_err_and(|e| e.kind() == ErrorKind::ConnectionReset)
        );
    }
}
