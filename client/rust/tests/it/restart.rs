//! hookd goes away and comes back under calls.

use std::{
    io::ErrorKind,
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use hookd_client::{
    Address, CallErrorKind, Client, Gate, OnUnavailable,
    proto::{TriggerRequest, Verdict},
};
use tonic::metadata::MetadataMap;

use crate::server::{Answer, TestServer, answer, bind, free};

/// Denies everything, and reports each call that it has begun.
fn denying(
    begun: mpsc::Sender<()>,
) -> impl Fn(TriggerRequest, MetadataMap) -> BoxFuture<'static, Answer> + Send + Sync {
    move |_, _| {
        // Nobody listens any more once the test is over.
        let _ = begun.send(());
        Box::pin(async {
            // Long enough for calls to be in flight whenever the server goes.
            tokio::time::sleep(Duration::from_millis(2)).await;
            Ok(answer(Verdict::Block))
        })
    }
}

/// Asks without a break until told to stop; every call is one that the rules deny. Gives how many were answered, and
/// how many were refused because nobody answered.
async fn ask(client: Client, stop: Arc<AtomicBool>) -> (usize, usize) {
    let session = client.session("s");
    let (mut answered, mut unanswered) = (0, 0);
    while !stop.load(Ordering::SeqCst) {
        let gate = session.pre_tool_use("bash", r#"{"command":"rm -rf /"}"#).await;
        assert!(matches!(gate, Gate::Refuse { .. }), "let through: {gate:?}");
        match gate.decision().error() {
            None => answered += 1,
            Some(error) => {
                assert_eq!(error.kind, CallErrorKind::Unavailable, "{error}");
                unanswered += 1;
            }
        }
    }
    (answered, unanswered)
}

/// Eight callers while the server is restarted again and again on its port, each time in the middle of calls.
async fn restart_under_calls(restart: fn(TestServer) -> TcpListener) {
    let (begun, on_begun) = mpsc::channel();
    let server = TestServer::start(free(), denying(begun.clone()));
    let stop = Arc::new(AtomicBool::new(false));
    let client = server.client(OnUnavailable::Block);
    let callers = (0..8).map(|_| tokio::spawn(ask(client.clone(), Arc::clone(&stop)))).collect::<Vec<_>>();
    let server = tokio::task::spawn_blocking(move || {
        let mut server = server;
        for _ in 0..10 {
            for _ in 0..20 {
                on_begun.recv_timeout(Duration::from_secs(60)).unwrap();
            }
            let listener = restart(server);
            while on_begun.try_recv().is_ok() {}
            server = TestServer::start(listener, denying(begun.clone()));
        }
        for _ in 0..20 {
            on_begun.recv_timeout(Duration::from_secs(60)).unwrap();
        }
        server
    })
    .await
    .unwrap();
    stop.store(true, Ordering::SeqCst);
    let (mut answered, mut unanswered) = (0, 0);
    for caller in callers {
        let (a, u) = caller.await.unwrap();
        answered += a;
        unanswered += u;
    }
    drop(server);
    assert!(answered >= 100, "{answered} answered, {unanswered} not");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_106_nothing_slips_through_while_hookd_shuts_down_and_restarts() {
    restart_under_calls(|server| {
        let address = server.address;
        server.shut_down();
        bind(address)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_106_nothing_slips_through_while_hookd_is_killed_and_restarts() {
    restart_under_calls(|server| {
        let address = server.address;
        drop(server);
        // The port is free once the killed runtime has dropped its listener.
        loop {
            match TcpListener::bind(address) {
                Ok(listener) => break listener,
                Err(error) if error.kind() == ErrorKind::AddrInUse => std::thread::yield_now(),
                Err(error) => panic!("{error}"),
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_server_that_dies_under_a_call_is_unavailable() {
    let (reached, on_reached) = mpsc::channel();
    let server = TestServer::start(free(), move |_, _| {
        reached.send(()).unwrap();
        Box::pin(std::future::pending())
    });
    let address: Address = server.address.to_string().parse().unwrap();
    let client = Client::builder(vec![address], OnUnavailable::Block).rounds(2).build().unwrap();
    let call = tokio::spawn(async move { client.session("s").pre_tool_use("bash", "{}").await });
    tokio::task::spawn_blocking(move || {
        on_reached.recv().unwrap();
        drop(server);
    })
    .await
    .unwrap();
    let gate = call.await.unwrap();
    assert!(matches!(gate, Gate::Refuse { .. }), "{gate:?}");
    let error = gate.decision().error().unwrap();
    assert_eq!(error.kind, CallErrorKind::Unavailable, "{error:?}");
}

#[tokio::test]
async fn a_call_moves_to_another_server_when_its_own_dies() {
    let (reached, on_reached) = mpsc::channel();
    let dying = TestServer::start(free(), move |_, _| {
        reached.send(()).unwrap();
        Box::pin(std::future::pending())
    });
    let living = TestServer::answering(|_| Ok(answer(Verdict::Block)));
    let list = format!("{},{}", dying.address, living.address);
    // Until a client starts with the one that is going to die.
    let (call, dying) = loop {
        let client = Client::connect_lazy(&list, OnUnavailable::Allow).unwrap();
        let call = tokio::spawn(async move { client.session("s").pre_tool_use("bash", "{}").await });
        while on_reached.try_recv().is_err() && !call.is_finished() {
            tokio::task::yield_now().await;
        }
        if !call.is_finished() {
            break (call, dying);
        }
    };
    drop(dying);
    let gate = call.await.unwrap();
    assert!(matches!(&gate, Gate::Refuse { .. }), "{gate:?}");
    assert_eq!(gate.decision().error(), None);
}
