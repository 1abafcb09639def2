//! The services of gRPC that there are.

use std::{
    convert::Infallible,
    task::{Context, Poll},
};

use futures_util::future::Either;
use hookd_proto::v1::hook_service_server::HookServiceServer;
use http::Request;
use tonic::{body::Body, codegen::BoxFuture, service::Routes};
use tower::Service;

use super::layers::{Answer, is_evaluation};
use crate::{rpc::trigger::TriggerService, run::Handlers};

/// Calls to evaluate go to `HookService` without a look at the table of routes, which costs as much as the evaluation of
/// many a rule; all others are few.
#[derive(Debug)]
pub struct Services<H> {
    hooks: HookServiceServer<TriggerService<H>>,
    others: Routes,
}

impl<H: Handlers> Services<H> {
    /// `hooks`, and everything else in `others`.
    #[must_use]
    pub fn new(hooks: HookServiceServer<TriggerService<H>>, others: Routes) -> Self {
        Self { hooks, others: others.prepare() }
    }
}

impl<H> Clone for Services<H> {
    fn clone(&self) -> Self {
        Self { hooks: self.hooks.clone(), others: self.others.clone() }
    }
}

impl<H: Handlers> Service<Request<Body>> for Services<H> {
    type Response = Answer;
    type Error = Infallible;
    type Future = Either<BoxFuture<Answer, Infallible>, <Routes as Service<Request<Body>>>::Future>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // None of them is ever not ready.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if is_evaluation(&request) {
            Either::Left(self.hooks.call(request))
        } else {
            Either::Right(self.others.call(request))
        }
    }
}
