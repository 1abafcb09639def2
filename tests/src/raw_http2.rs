//! HTTP/2 frame by frame: for connections that no proper client makes (silent, half open, stuck, never answering), and
//! to see the frames that a proper client hides.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::within;

/// What a client sends first.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
/// The type of a frame by which a call is given up.
pub const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

/// The setting for how much of each answer may come unasked.
const INITIAL_WINDOW_SIZE: u8 = 4;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const ACK: u8 = 1;

/// The code of a caller that needs the answer no more.
const CANCEL: u32 = 8;

/// One connection to a gRPC server.
#[derive(Debug)]
pub struct RawHttp2 {
    stream: TcpStream,
}

/// What the server sent that matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// The server will take no more calls.
    GoAway,
    /// Headers or trailers of this call; `end`: nothing more comes for it.
    Headers {
        /// The call.
        stream: u32,
        /// Whether it was the last of the call.
        end: bool,
    },
    /// A part of the answer to this call.
    Data {
        /// The call.
        stream: u32,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Anything else, by its type.
    Other(u8),
}

impl RawHttp2 {
    /// A connection on which nothing was sent yet.
    pub async fn silent(address: SocketAddr) -> Self {
        Self { stream: within("a connection", TcpStream::connect(address)).await.unwrap() }
    }

    /// A connection that is set up and has no call.
    pub async fn idle(address: SocketAddr) -> Self {
        Self::set_up(address, &[]).await
    }

    /// As [`Self::idle`], but of each answer no more than its first byte may come until there is [`Self::room_for`] it.
    pub async fn without_room(address: SocketAddr) -> Self {
        Self::set_up(address, &[0, INITIAL_WINDOW_SIZE, 0, 0, 0, 1]).await
    }

    async fn set_up(address: SocketAddr, settings: &[u8]) -> Self {
        let mut this = Self::silent(address).await;
        this.send(PREFACE).await;
        this.send(&frame(SETTINGS, 0, 0, settings)).await;
        // The server's own settings.
        this.next_frame().await.unwrap();
        this
    }

    /// Sends bytes as they are.
    pub async fn send(&mut self, bytes: &[u8]) {
        within("room to send", self.stream.write_all(bytes)).await.unwrap();
    }

    /// Sends bytes as far as they are taken. `false`: the connection ended before the last.
    pub async fn try_send(&mut self, bytes: &[u8]) -> bool {
        within("room to send", self.stream.write_all(bytes)).await.is_ok()
    }

    /// Lets so many more bytes of the answer to this call come.
    pub async fn room_for(&mut self, stream: u32, bytes: u32) {
        for stream in [0, stream] {
            self.send(&frame(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes())).await;
        }
    }

    /// So many empty settings and pings in turn, each of which wants an answer.
    #[must_use]
    pub fn settings_and_pings(count: usize) -> Vec<u8> {
        [frame(SETTINGS, 0, 0, &[]), frame(PING, 0, 0, &[0; 8])].concat().repeat(count)
    }

    /// The headers of a call with a header `x` of `bytes` bytes, in as many frames as that takes; without `ends` they do
    /// not end.
    #[must_use]
    pub fn call_with_long_header(stream: u32, path: &str, bytes: usize, ends: bool) -> Vec<u8> {
        let mut number = vec![0x7f];
        let mut rest = bytes - 127;
        while rest >= 128 {
            number.push(u8::try_from(rest % 128).unwrap() | 0x80);
            rest /= 128;
        }
        number.push(u8::try_from(rest).unwrap());
        let block = [call_block(path), vec![0, 1, b'x'], number, vec![b'y'; bytes]].concat();
        let pieces = block.chunks(16 << 10).collect::<Vec<_>>();
        let piece = |(index, piece): (usize, &&[u8])| {
            let kind = if index == 0 { HEADERS } else { CONTINUATION };
            let is_last = ends && index + 1 == pieces.len();
            frame(kind, if is_last { END_HEADERS } else { 0 }, stream, piece)
        };
        pieces.iter().enumerate().flat_map(piece).collect()
    }

    /// Begins a call of the gRPC method at `path` on `stream` (1, 3, 5, …) without any message.
    pub async fn begin_call(&mut self, stream: u32, path: &str) {
        self.send(&call(stream, path)).await;
    }

    /// Gives a call up.
    pub async fn give_up(&mut self, stream: u32) {
        self.send(&frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes())).await;
    }

    /// Begins a call on each of `streams` and gives it up at once, all in one piece, so that the server sees the end of
    /// each together with its beginning.
    pub async fn begin_and_give_up(&mut self, streams: impl Iterator<Item = u32>, path: &str) {
        self.send(&Self::begun_and_given_up(streams, path)).await;
    }

    /// What [`Self::begin_and_give_up`] sends.
    #[must_use]
    pub fn begun_and_given_up(streams: impl Iterator<Item = u32>, path: &str) -> Vec<u8> {
        let given_up = |stream| [call(stream, path), frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes())].concat();
        streams.flat_map(given_up).collect()
    }

    /// Sends the message of a call whole, and ends the caller's side.
    pub async fn send_message(&mut self, stream: u32, message: &[u8]) {
        let bytes = prefixed(message);
        self.send(&frame(DATA, END_STREAM, stream, &bytes)).await;
    }

    /// Announces a message and sends only the first half of it.
    pub async fn send_half_a_message(&mut self, stream: u32, message: &[u8]) {
        let bytes = prefixed(message);
        self.send(&frame(DATA, 0, stream, &bytes[..bytes.len() / 2])).await;
    }

    /// The next frame; settings and pings are answered. `None`: the server has closed the connection.
    pub async fn next_frame(&mut self) -> Option<Frame> {
        within("a frame", self.read_frame()).await
    }

    /// Reads until a frame is `wanted`. `None`: the connection ended before.
    pub async fn until(&mut self, mut wanted: impl FnMut(&Frame) -> bool) -> Option<Frame> {
        loop {
            let frame = self.next_frame().await?;
            if wanted(&frame) {
                return Some(frame);
            }
        }
    }

    /// Waits until the server has closed the connection, answering nothing.
    pub async fn closed(&mut self) {
        let mut scrap = [0; 4096];
        while within("the end of a connection", self.stream.read(&mut scrap)).await.is_ok_and(|count| count > 0) {}
    }

    async fn read_frame(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).await.ok()?;
        let [a, b, c, kind, flags, s1, s2, s3, s4] = head;
        let length = u32::from_be_bytes([0, a, b, c]);
        let stream = u32::from_be_bytes([s1 & 0x7f, s2, s3, s4]);
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        self.stream.read_exact(&mut payload).await.ok()?;
        if matches!(kind, SETTINGS | PING) && flags & ACK == 0 {
            let answer = if kind == PING { payload.as_slice() } else { &[] };
            // The server may have gone meanwhile.
            let _gone = self.stream.write_all(&frame(kind, ACK, 0, answer)).await;
        }
        Some(match kind {
            GOAWAY => Frame::GoAway,
            HEADERS => Frame::Headers { stream, end: flags & END_STREAM != 0 },
            DATA => Frame::Data { stream, bytes: payload },
            other => Frame::Other(other),
        })
    }
}

/// The headers of a call.
fn call(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, &call_block(path))
}

fn call_block(path: &str) -> Vec<u8> {
    let fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "hookd"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    header_block(&fields)
}

/// A gRPC message as it stands in DATA: not compressed, with its length.
fn prefixed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap();
    [&[0], length.to_be_bytes().as_slice(), message].concat()
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&[a, b, c, kind, flags], stream.to_be_bytes().as_slice(), payload].concat()
}

/// Fields that are neither indexed nor compressed, each shorter than 127 bytes.
fn header_block(fields: &[(&str, &str)]) -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    fields.iter().flat_map(|(name, value)| [vec![0], text(name), text(value)].concat()).collect()
}
