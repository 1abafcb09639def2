//! A bare tonic server with hookd's own messages: it decodes every request and answers responses of given
//! sizes.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicUsize, Ordering},
};

use anyhow::{Context as _, ensure};
use hookd_proto::v1::{
    TriggerRequest, TriggerResponse, Verdict,
    hook_service_server::{HookService, HookServiceServer},
};
use prost::Message as _;
use tokio::net::TcpListener;
use tonic::{
    Request, Response, Status,
    transport::{Server, server::TcpIncoming},
};

use crate::{args::EchoArgs, print, tls};

/// Serves until the process is ended. Prints one line with the address when it listens.
///
/// # Errors
/// The address cannot be bound, or there is no response of such a size.
pub(crate) async fn serve(args: &EchoArgs) -> anyhow::Result<()> {
    let responses = args.response_bytes.iter().map(|size| response_of(*size)).collect::<anyhow::Result<_>>()?;
    let listener =
        TcpListener::bind(args.listen.0).await.with_context(|| format!("cannot listen on {}", args.listen))?;
    let acceptor = args.pair().map(|pair| tls::acceptor(&pair)).transpose()?;
    print(&ready_line(listener.local_addr().context("the bound address")?))?;
    let server = Server::builder().add_service(HookServiceServer::new(Echo { responses, turn: AtomicUsize::new(0) }));
    let ended = match acceptor {
        Some(acceptor) => server.serve_with_incoming(tls::incoming(listener, acceptor)).await,
        None => server.serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true))).await,
    };
    ended.context("the echo server ended")
}

/// The line that says where the server listens, in the same form as hookd's own.
fn ready_line(address: SocketAddr) -> String {
    format!("hookd-load is ready: grpc={address}\n")
}

/// A decision that is exactly `size` bytes long when encoded.
fn response_of(size: usize) -> anyhow::Result<TriggerResponse> {
    let small = TriggerResponse {
        verdict: Verdict::None.into(),
        policy_revision: "0123456789abcdef".to_owned(),
        ..TriggerResponse::default()
    };
    // The length of a longer text takes a byte more, so one size is left out on the way; a flag of two bytes fills in.
    let flagged = TriggerResponse { degraded: true, ..small.clone() };
    for mut response in [small.clone(), flagged] {
        let room = size.saturating_sub(response.encoded_len());
        for of_the_length in 0..8 {
            response.reason = "x".repeat(room.saturating_sub(of_the_length));
            if response.encoded_len() == size {
                return Ok(response);
            }
        }
    }
    let least = small.encoded_len().saturating_add(3);
    ensure!(size >= least, "a response has at least {least} bytes, not {size}");
    anyhow::bail!("there is no response of exactly {size} bytes")
}

struct Echo {
    /// Answered in turns, whatever is asked.
    responses: Vec<TriggerResponse>,
    turn: AtomicUsize,
}

#[tonic::async_trait]
impl HookService for Echo {
    async fn trigger(&self, _request: Request<TriggerRequest>) -> Result<Response<TriggerResponse>, Status> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed).checked_rem(self.responses.len()).unwrap_or_default();
        self.responses.get(turn).cloned().map(Response::new).ok_or_else(|| Status::internal("no response to give"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_has_exactly_the_size_asked_for() {
        for size in (23..600).chain(16_380..16_420) {
            assert_eq!(response_of(size).map(|response| response.encoded_len()).unwrap(), size);
        }
        assert_eq!(response_of(5).unwrap_err().to_string(), "a response has at least 23 bytes, not 5");
    }
}
