//! HTTP/1.1 byte by byte: for requests that no proper client makes, and to see answers as they come.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::within;

/// One connection.
#[derive(Debug)]
pub struct RawHttp1 {
    stream: TcpStream,
    /// What came and was not looked at yet.
    unread: Vec<u8>,
}

/// An answer, of HTTP/1.1 or HTTP/2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpAnswer {
    /// The status.
    pub status: u16,
    /// The headers, names in small letters.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
}

impl RawHttp1 {
    /// A connection on which nothing was sent yet.
    pub async fn connect(address: SocketAddr) -> Self {
        Self { stream: within("a connection", TcpStream::connect(address)).await.unwrap(), unread: Vec::new() }
    }

    /// A `POST` of JSON to `path`, with more header lines (each with its `\r\n`).
    #[must_use]
    pub fn post(path: &str, more: &str, body: &str) -> Vec<u8> {
        let length = body.len();
        format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
             {more}\r\n{body}"
        )
        .into_bytes()
    }

    /// Sends bytes as they are.
    pub async fn send(&mut self, bytes: &[u8]) {
        within("room to send", self.stream.write_all(bytes)).await.unwrap();
    }

    /// Sends bytes as far as they are taken.
    pub async fn try_send(&mut self, bytes: &[u8]) {
        let _closed = within("room to send", self.stream.write_all(bytes)).await;
    }

    /// Posts and waits for the answer.
    ///
    /// # Panics
    /// There is none.
    pub async fn ask(&mut self, path: &str, more: &str, body: &str) -> HttpAnswer {
        self.send(&Self::post(path, more, body)).await;
        self.answer().await.expect("an answer")
    }

    /// The next answer, also one of the status 100. `None`: the connection ended before.
    pub async fn answer(&mut self) -> Option<HttpAnswer> {
        within("an answer", self.read_answer()).await
    }

    /// Waits until the server closes the connection, and gives what came before that.
    pub async fn closed(mut self) -> String {
        let _reset = within("the end of the connection", self.stream.read_to_end(&mut self.unread)).await;
        String::from_utf8_lossy(&self.unread).into_owned()
    }

    async fn read_answer(&mut self) -> Option<HttpAnswer> {
        let head_end = loop {
            if let Some(at) = self.unread.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            self.read_more().await?;
        };
        let head = String::from_utf8(self.unread.drain(..head_end).collect()).unwrap();
        let mut lines = head.lines();
        let status = lines.next()?.split(' ').nth(1)?.parse().unwrap();
        let headers = lines.filter_map(|line| line.split_once(':'));
        let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect();
        let mut answer = HttpAnswer { status, headers, body: String::new() };
        let length = answer.header("content-length").map_or(0, |length| length.parse().unwrap());
        while self.unread.len() < length {
            self.read_more().await?;
        }
        answer.body = String::from_utf8(self.unread.drain(..length).collect()).unwrap();
        Some(answer)
    }

    async fn read_more(&mut self) -> Option<()> {
        let mut chunk = [0; 4096];
        let read = self.stream.read(&mut chunk).await.ok().filter(|read| *read > 0)?;
        self.unread.extend_from_slice(&chunk[..read]);
        Some(())
    }
}

impl HttpAnswer {
    /// A header, by its name in small letters.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// It is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}
