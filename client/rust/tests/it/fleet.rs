//! Several replicas, behind a list or a name.

use std::{
    fs, io,
    net::{IpAddr, SocketAddr, TcpListener},
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use hookd_client::{
    Address, CallErrorKind, Client, ClientBuilder, Credentials, Gate, OnUnavailable, Resolve, Resolved, proto::Verdict,
};
use rcgen::{CertificateParams, KeyPair};
use tonic::transport::{Identity, ServerTlsConfig};

use crate::server::{Place, TestServer, answer, free};

/// A name service of one answer, whatever the name. Counts how often it was asked.
#[derive(Clone)]
struct Names {
    places: Arc<Mutex<Vec<SocketAddr>>>,
    asked: Arc<AtomicUsize>,
}

/// A server that denies, and how often it was asked.
struct Counted {
    server: TestServer,
    calls: Arc<AtomicUsize>,
}

impl Names {
    fn of(places: &[SocketAddr]) -> Self {
        Self { places: Arc::new(Mutex::new(places.to_vec())), asked: Arc::default() }
    }

    fn change(&self, places: &[SocketAddr]) {
        *self.places.lock().unwrap() = places.to_vec();
    }

    /// A client of `text`, with these names.
    fn builder(&self, text: &str) -> ClientBuilder {
        Client::builder(Address::parse_list(text).unwrap(), OnUnavailable::Allow).resolver(self.clone())
    }
}

impl Resolve for Names {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolved<'a> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let places = self.places.lock().unwrap().clone();
        Box::pin(async move {
            if places.is_empty() { Err(io::Error::other(format!("no {host} at {port}"))) } else { Ok(places) }
        })
    }
}

impl Counted {
    fn at(listener: TcpListener) -> Self {
        let calls = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&calls);
        let server = TestServer::start(listener, move |_, _| {
            counted.fetch_add(1, Ordering::SeqCst);
            Box::pin(async { Ok(answer(Verdict::Block)) })
        });
        Self { server, calls }
    }

    fn new() -> Self {
        Self::at(free())
    }

    fn address(&self) -> SocketAddr {
        self.server.address
    }

    /// How often it was asked since the last time.
    fn count(&self) -> usize {
        self.calls.swap(0, Ordering::SeqCst)
    }
}

/// Asks so often, eight at a time; every call is answered with a block.
async fn ask(client: &Client, times: usize) {
    let callers = (0..8).map(|_| {
        let client = client.clone();
        tokio::spawn(async move {
            let session = client.session("s");
            for _ in 0..times / 8 {
                let gate = session.pre_tool_use("bash", "{}").await;
                assert!(matches!(gate, Gate::Refuse { .. }), "{gate:?}");
                assert_eq!(gate.decision().error(), None);
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
}

#[track_caller]
fn assert_even(counts: &[usize]) {
    let mean = counts.iter().sum::<usize>() / counts.len();
    assert!(counts.iter().all(|count| count.abs_diff(mean) * 10 <= mean), "{counts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_load_is_even_over_a_list_and_over_the_addresses_of_a_name() {
    let servers = [Counted::new(), Counted::new(), Counted::new()];
    let places = [0, 1, 2].map(|at: usize| servers.get(at).unwrap().address());
    let list = places.map(|place| place.to_string()).join(",");
    let names = Names::of(&places);
    for client in [names.builder(&list), names.builder("hookd.example:50051")] {
        ask(&client.build().unwrap(), 2400).await;
        assert_even(&servers.iter().map(Counted::count).collect::<Vec<_>>());
    }
    // An address is never looked up, and a name not for each call.
    assert_eq!(names.asked.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_share_of_one_that_is_gone_goes_to_all_others_and_comes_back_with_it() {
    let place = Place::free();
    let (gone, one, two, three) = (Counted::at(place.listen()), Counted::new(), Counted::new(), Counted::new());
    let names = Names::of(&[place.address(), one.address(), two.address(), three.address()]);
    let client = names.builder("hookd.example:1").build().unwrap();
    ask(&client, 80).await;
    drop(gone);
    ask(&client, 80).await;
    let counts = || [&one, &two, &three].map(Counted::count);
    let _before = counts();
    ask(&client, 1200).await;
    assert_even(&counts());

    let listener = loop {
        // The port is free once the killed runtime has dropped its listener.
        match TcpListener::bind(place.address()) {
            Ok(listener) => break listener,
            Err(_) => tokio::task::yield_now().await,
        }
    };
    let back = Counted::at(listener);
    while back.count() == 0 {
        ask(&client, 8).await;
    }
    let _before = counts();
    let _before = back.count();
    ask(&client, 1600).await;
    let [one, two, three] = counts();
    assert_even(&[one, two, three, back.count()]);
}

#[tokio::test]
async fn a_name_is_looked_up_again_when_those_behind_it_are_gone() {
    let (nobody, place) = (Place::free(), Place::free());
    let mut last = Counted::new();
    let names = Names::of(&[last.address()]);
    let client = names.builder("hookd.example:1").build().unwrap();
    ask(&client, 8).await;
    for round in 0..4 {
        let new = if round == 3 { Counted::at(place.listen()) } else { Counted::new() };
        match round % 2 {
            0 => names.change(&[new.address()]),
            _ => names.change(&[new.address(), nobody.address()]),
        }
        drop(last);
        ask(&client, 80).await;
        assert_eq!(new.count(), 80);
        last = new;
    }
    // Of a name that is not known any more, those stay in use that were known.
    names.change(&[]);
    let last = tokio::task::spawn_blocking(move || {
        last.server.shut_down();
        Counted::at(place.listen())
    });
    let last = last.await.unwrap();
    ask(&client, 80).await;
    assert_eq!(last.count(), 80);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_new_is_found_by_one_that_is_lost() {
    let (lost, stays, new) = (Counted::new(), Counted::new(), Counted::new());
    let names = Names::of(&[lost.address(), stays.address()]);
    let client = names.builder("hookd.example:1").build().unwrap();
    ask(&client, 80).await;
    drop(lost);
    // The first look-ups after the loss find nothing new.
    let asked = names.asked.load(Ordering::SeqCst);
    while names.asked.load(Ordering::SeqCst) < asked + 2 {
        ask(&client, 8).await;
    }
    names.change(&[stays.address(), new.address()]);
    while new.count() == 0 {
        ask(&client, 8).await;
    }
}

#[tokio::test]
async fn a_name_that_cannot_be_looked_up_is_said_and_others_are_asked() {
    let names = Names::of(&[]);
    let client = names.builder("hookd.example:7").rounds(2).build().unwrap();
    let error = client.call(&Default::default()).await.unwrap_err();
    assert_eq!(
        (error.kind, error.message.as_str()),
        (
            CallErrorKind::Unavailable,
            "hookd cannot be reached at hookd.example:7: the name cannot be looked up: no hookd.example at 7"
        )
    );
    assert_eq!(names.asked.load(Ordering::SeqCst), 2);
    let server = Counted::new();
    let both = format!("hookd.example:7,{}", server.address());
    ask(&names.builder(&both).build().unwrap(), 8).await;
    names.change(&[server.address()]);
    ask(&client, 8).await;

    let nobody = [Place::free(), Place::free()];
    let [one, two] = nobody.each_ref().map(Place::address);
    names.change(&[one, two]);
    let client = names.builder("hookd.example:7").rounds(1).build().unwrap();
    let message = client.call(&Default::default()).await.unwrap_err().message;
    let (one, two) = (format!("hookd.example:7 ({one})"), format!("hookd.example:7 ({two})"));
    let last =
        [&one, &two].map(|last| format!("hookd cannot be reached at {last}: connection refused; tried {one}, {two}"));
    assert!(last.contains(&message), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_takes_connections_and_says_nothing_is_passed_over() {
    // Nobody accepts: the system does, as it does for a server that is stopped.
    let silent = free();
    let server = Counted::new();
    for _ in 0..6 {
        let list = format!("{},{}", silent.local_addr().unwrap(), server.address());
        let client = Client::connect_lazy(&list, OnUnavailable::Allow).unwrap();
        ask(&client, 40).await;
    }
    assert_eq!(server.count(), 240);
}

#[tokio::test]
async fn a_name_is_what_the_certificate_must_be_for_wherever_it_leads() {
    let key = KeyPair::generate().unwrap();
    let cert = CertificateParams::new(vec!["hookd.example".to_owned()]).unwrap().self_signed(&key).unwrap();
    let tls = ServerTlsConfig::new().identity(Identity::from_pem(cert.pem(), key.serialize_pem()));
    let server = TestServer::start_with(free(), Some(tls), |_, _| Box::pin(async { Ok(answer(Verdict::Block)) }));
    let folder = tempfile::tempdir().unwrap();
    let ca_file = folder.path().join("ca.pem");
    fs::write(&ca_file, cert.pem()).unwrap();
    let names = Names::of(&[server.address]);
    let client = |text| {
        let credentials = Credentials { ca_file: Some(ca_file.clone()), ..Credentials::default() };
        names.builder(text).credentials(credentials).build().unwrap()
    };
    ask(&client("https://hookd.example:1"), 8).await;
    let error = client("https://other.example:1").call(&Default::default()).await.unwrap_err();
    let at = format!("https://other.example:1 ({})", server.address);
    let message = format!("hookd at {at} is not asked: its certificate is not for `other.example`");
    assert_eq!((error.kind, error.message), (CallErrorKind::NotTrusted, message));
}

#[tokio::test]
async fn a_localhost_that_leads_elsewhere_gets_no_token() {
    let folder = tempfile::tempdir().unwrap();
    let token_file = folder.path().join("token");
    fs::write(&token_file, "secret").unwrap();
    let elsewhere: IpAddr = "192.0.2.1".parse().unwrap();
    let names = Names::of(&[SocketAddr::new(elsewhere, 1)]);
    let credentials = Credentials { token_file: Some(Path::new(&token_file).to_owned()), ..Credentials::default() };
    let client = names.builder("localhost:1").credentials(credentials).build().unwrap();
    let error = client.call(&Default::default()).await.unwrap_err();
    let message = "hookd at localhost:1 (192.0.2.1:1) is not asked: it is not on this machine, and there is no TLS";
    assert_eq!((error.kind, error.message.as_str()), (CallErrorKind::NotTrusted, message));
}

#[tokio::test]
async fn a_server_that_is_replaced_at_its_address_is_asked_on() {
    // One round may meet the connection that has just been given up.
    let place = Arc::new(Place::free());
    let mut counted = Counted::at(place.listen());
    let client = Client::builder(vec![place.address().to_string().parse().unwrap()], OnUnavailable::Allow).rounds(2);
    let client = client.build().unwrap();
    for _ in 0..8 {
        ask(&client, 8).await;
        let place = Arc::clone(&place);
        counted = tokio::task::spawn_blocking(move || {
            counted.server.shut_down();
            Counted::at(place.listen())
        })
        .await
        .unwrap();
    }
    ask(&client, 8).await;
}
