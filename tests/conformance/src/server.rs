//! A server that does as a script says, frame by frame.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use hookd_proto::v1::TriggerRequest;
use prost::Message as _;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpSocket, TcpStream},
    sync::Notify,
};

use crate::{
    call::{self, Answer},
    vectors,
};

/// Frames that hold nothing or little: settings, and a GOAWAY that takes no stream along.
const EMPTY_SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
const GOAWAY_BEFORE_ALL: &[u8] = &[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const HEADERS: u8 = 1;
/// What a client sends first.
const PREFACE_LENGTH: usize = 24;

/// One server, on a port of its own until the process ends.
#[derive(Debug, Clone)]
pub struct Server {
    address: SocketAddr,
    asked: Arc<AtomicUsize>,
}

/// What it does, by the number of the call.
#[derive(Debug)]
enum Script {
    /// One answer for each call; the last stands for all that follow.
    Answers(Vec<Answer>),
    /// The answers of the golden vectors, to exactly their requests, in their order.
    Vectors(Vec<vectors::Vector>),
}

impl Server {
    /// Answers as the list `answers` of the table says: one for each call, the last for all that follow.
    ///
    /// # Panics
    /// It is no such list.
    pub async fn scripted(answers: &Value) -> Self {
        let answers = answers.as_array().unwrap().iter().map(Answer::read).collect::<Vec<_>>();
        assert!(!answers.is_empty(), "a script without answers");
        Self::start(Script::Answers(answers)).await
    }

    /// Answers with the golden vectors, one after another, if exactly their requests come.
    pub async fn replaying() -> Self {
        Self::start(Script::Vectors(vectors::load())).await
    }

    /// An address of its own where nobody listens, nor can as long as this process lives.
    ///
    /// # Panics
    /// There is none left.
    pub fn dead() -> SocketAddr {
        static HELD: Mutex<Vec<TcpSocket>> = Mutex::new(Vec::new());
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = socket.local_addr().unwrap();
        HELD.lock().unwrap().push(socket);
        address
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many calls have come.
    #[must_use]
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    async fn start(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self { address: listener.local_addr().unwrap(), asked: Arc::default() };
        let (script, asked) = (Arc::new(script), Arc::clone(&server.asked));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (script, asked) = (Arc::clone(&script), Arc::clone(&asked));
                // What goes wrong on a connection is the client's to tell.
                tokio::spawn(async move {
                    let _ended = connection(stream, script, asked).await;
                });
            }
        });
        server
    }
}

impl Script {
    fn answer(&self, number: usize, request: &[u8]) -> Answer {
        match self {
            Self::Answers(answers) => answers[number.min(answers.len() - 1)].clone(),
            Self::Vectors(vectors) => replayed(vectors.get(number), request),
        }
    }

    /// What has to be done before a call is even read.
    fn before(&self, number: usize) -> Option<Answer> {
        let Self::Answers(answers) = self else { return None };
        let answer = &answers[number.min(answers.len() - 1)];
        matches!(answer, Answer::Bytes(_) | Answer::GoAway).then(|| answer.clone())
    }
}

/// The vector's answer, if `request` is the vector's and nothing else: every field as it is there, and no more bytes than
/// these fields need.
fn replayed(vector: Option<&vectors::Vector>, request: &[u8]) -> Answer {
    let Some(vector) = vector else { return Answer::refused("there are no more vectors") };
    match TriggerRequest::decode(request) {
        Ok(came) if came == vector.request && request.len() == came.encoded_len() => Answer::response(&vector.response),
        Ok(came) => Answer::refused(&format!("{}: {came:?} came, not {:?}", vector.name, vector.request)),
        Err(error) => Answer::refused(&format!("{}: {error}", vector.name)),
    }
}

async fn connection(mut stream: TcpStream, script: Arc<Script>, asked: Arc<AtomicUsize>) -> Result<(), h2::Error> {
    match script.before(asked.load(Ordering::SeqCst)) {
        Some(Answer::Bytes(bytes)) => {
            asked.fetch_add(1, Ordering::SeqCst);
            let _gone = stream.write_all(&bytes).await;
            let _gone = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
            return Ok(());
        }
        Some(_) => {
            let _gone = go_away(&mut stream).await;
            asked.fetch_add(1, Ordering::SeqCst);
            let _gone = stream.write_all(GOAWAY_BEFORE_ALL).await;
            let _gone = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
            return Ok(());
        }
        None => {}
    }
    let mut http2 = h2::server::Builder::new()
        .initial_window_size(16 << 20)
        .initial_connection_window_size(64 << 20)
        .handshake(stream)
        .await?;
    let close = Arc::new(Notify::new());
    loop {
        let accepted = tokio::select! {
            accepted = http2.accept() => accepted,
            // Dropping it closes the connection under its calls.
            () = close.notified() => return Ok(()),
        };
        let Some(accepted) = accepted else { return Ok(()) };
        let (request, respond) = accepted?;
        let (script, asked, close) = (Arc::clone(&script), Arc::clone(&asked), Arc::clone(&close));
        tokio::spawn(async move {
            let Ok(request) = call::message(request).await else { return };
            let number = asked.fetch_add(1, Ordering::SeqCst);
            let _gone = script.answer(number, &request).give(respond, &close).await;
        });
    }
}

/// Reads a connection until a call has begun on it.
async fn go_away(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(EMPTY_SETTINGS).await?;
    let mut preface = [0; PREFACE_LENGTH];
    stream.read_exact(&mut preface).await?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await?;
        let [a, b, c, kind, ..] = head;
        let mut payload = vec![0; usize::try_from(u32::from_be_bytes([0, a, b, c])).unwrap()];
        stream.read_exact(&mut payload).await?;
        if kind == HEADERS {
            return Ok(());
        }
    }
}
