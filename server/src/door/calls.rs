//! What serves one connection: calls of gRPC pass the layers, all others are plain HTTP.

use std::convert::Infallible;

use futures_util::future::Either;
use http::{Request, Version};
use hyper::{body::Incoming, service::Service};
use tonic::body::Body;
use tower::{ServiceExt as _, util::Oneshot};

use super::{
    layers::{Answer, Answering, Stack},
    plain::{Plain, says_grpc},
};
use crate::run::Handlers;

/// Both kinds of calls of one peer.
#[derive(Debug)]
pub struct Calls<S, H> {
    grpc: Stack<S>,
    plain: Plain<H>,
}

impl<S, H> Calls<S, H> {
    /// Calls of gRPC go to `grpc`, all others to `plain`.
    pub fn new(grpc: Stack<S>, plain: Plain<H>) -> Self {
        Self { grpc, plain }
    }
}

impl<S, H> Service<Request<Incoming>> for Calls<S, H>
where
    S: tower::Service<Request<Body>, Response = Answer, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send + 'static,
    H: Handlers,
{
    type Response = Answer;
    type Error = Infallible;
    type Future = Either<Oneshot<Stack<S>, Request<Incoming>>, Answering>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        if is_grpc(&request) {
            Either::Left(self.grpc.clone().oneshot(request))
        } else {
            Either::Right(self.plain.call(request))
        }
    }
}

/// Whether a request is a call of gRPC. It has to say so, whatever its path: a web page can have a browser send any other
/// kind of content anywhere without being asked first.
fn is_grpc<B>(request: &Request<B>) -> bool {
    request.version() == Version::HTTP_2 && says_grpc(request.headers())
}

#[cfg(test)]
mod tests {
    use http::header;

    use super::*;

    #[test]
    fn calls_of_grpc_are_told_by_version_and_content_type() {
        let cases = [
            (Version::HTTP_2, "/hookd.v1.HookService/Trigger", Some("application/grpc"), true),
            (Version::HTTP_2, "/hookd.v1.HookService/Trigger", None, false),
            (Version::HTTP_2, "/hookd.v1.AdminService/Reload", Some("text/plain"), false),
            (Version::HTTP_2, "/grpc.health.v1.Health/Check", Some("application/grpc"), true),
            (Version::HTTP_2, "/other.Service/Method", Some("application/grpc+proto"), true),
            (Version::HTTP_2, "/v1/trigger", Some("application/json"), false),
            (Version::HTTP_2, "/", None, false),
            (Version::HTTP_11, "/hookd.v1.HookService/Trigger", Some("application/grpc"), false),
        ];
        for (version, path, kind, expected) in cases {
            let mut request = Request::builder().version(version).uri(path);
            if let Some(kind) = kind {
                request = request.header(header::CONTENT_TYPE, kind);
            }
            assert_eq!(is_grpc(&request.body(()).unwrap()), expected, "{version:?} {path} {kind:?}");
        }
    }
}
