//! What is special to this client where hookd gives no answer. The rest is in `tests/conformance`.

use std::{net::SocketAddr, time::Duration};

use hookd_client::{Address, CallErrorKind, Client, OnUnavailable, proto::TriggerRequest};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinHandle,
};

use crate::server::{TestServer, free};

#[tokio::test]
async fn the_deadline_is_sent_and_kept() {
    let (sent, received) = std::sync::mpsc::channel();
    let server = TestServer::start(free(), move |_, metadata| {
        sent.send(metadata.get("grpc-timeout").unwrap().to_str().unwrap().to_owned()).unwrap();
        Box::pin(std::future::pending())
    });
    let address: Address = server.address.to_string().parse().unwrap();
    let deadline = Duration::from_secs(2);
    let client = Client::builder(vec![address], OnUnavailable::Block).deadline(deadline).build().unwrap();
    let error = client.call(&TriggerRequest { event: "PreDeploy".into(), ..Default::default() }).await.unwrap_err();
    assert_eq!(error.kind, CallErrorKind::DeadlineExceeded);
    assert_eq!(error.to_string(), format!("hookd at {} gave no answer within 2s", server.address));
    let sent = received.recv().unwrap();
    let micros = sent.strip_suffix('u').unwrap().parse::<u64>().unwrap();
    assert!((1..=2_000_000).contains(&micros), "{sent}");
    assert!(received.try_recv().is_err(), "asked once");
}

/// Says `word` to whoever connects, once it has heard something.
async fn saying(word: &'static [u8]) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let heard = stream.read(&mut [0; 64]).await.unwrap();
            assert!(heard > 0);
            stream.write_all(word).await.unwrap();
        }
    });
    (address, serving)
}

#[tokio::test]
async fn what_answers_and_is_no_hookd_in_plain_text_is_told_apart() {
    for (word, why) in [
        (&b"\x15\x03\x03\x00\x02\x02\x16"[..], "it speaks TLS, expected `https://` before its address"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "what answers there does not speak HTTP/2, so it is not hookd"),
    ] {
        let (address, serving) = saying(word).await;
        let client = Client::builder(vec![address.to_string().parse().unwrap()], OnUnavailable::Block).rounds(1);
        let client = client.build().unwrap();
        let error = client.call(&TriggerRequest { event: "Stop".into(), ..Default::default() }).await.unwrap_err();
        let expected = format!("hookd cannot be reached at {address}: {why}");
        assert_eq!((error.kind, error.to_string()), (CallErrorKind::Unavailable, expected));
        serving.abort();
    }
}
