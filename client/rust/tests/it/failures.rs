//! What is special to this client where hookd gives no answer. The rest is in `tests/conformance`.

use std::time::Duration;

use hookd_client::{Address, CallErrorKind, Client, OnUnavailable, proto::TriggerRequest};

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
