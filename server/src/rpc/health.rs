//! gRPC health, which is readiness, and reflection.

use std::pin::Pin;

use futures_util::{Stream, stream};
use hookd_proto::v1::hook_service_server;
use tonic::{Request, Response, Status};
use tonic_health::pb::{
    HealthCheckRequest, HealthCheckResponse,
    health_check_response::ServingStatus,
    health_server::{Health, HealthServer},
};
use tonic_reflection::server::{Builder, v1, v1alpha};

use crate::drain::Readiness;

/// Tells readiness, for the server as a whole (an empty name) and for `hookd.v1.HookService`.
#[derive(Debug)]
pub struct HealthOfServer {
    readiness: Readiness,
}

/// The health service.
#[must_use]
pub fn service(readiness: Readiness) -> HealthServer<HealthOfServer> {
    HealthServer::new(HealthOfServer { readiness })
}

/// The reflection service for everything that is served.
///
/// # Errors
/// Where the descriptors that are built in cannot be read.
pub fn reflection() -> Result<v1::ServerReflectionServer<impl v1::ServerReflection>, tonic_reflection::server::Error> {
    described().build_v1()
}

/// The same in its earlier version, which is all that many tools in use speak.
///
/// # Errors
/// Where the descriptors that are built in cannot be read.
pub fn early_reflection()
-> Result<v1alpha::ServerReflectionServer<impl v1alpha::ServerReflection>, tonic_reflection::server::Error> {
    described().build_v1alpha()
}

fn described() -> Builder<'static> {
    Builder::configure()
        .register_encoded_file_descriptor_set(hookd_proto::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}

#[tonic::async_trait]
impl Health for HealthOfServer {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn check(&self, request: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        if !is_served(&request.get_ref().service) {
            return Err(Status::not_found("no such service is served"));
        }
        Ok(Response::new(health(*self.readiness.watch().borrow())))
    }

    async fn watch(&self, request: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        if !is_served(&request.get_ref().service) {
            let unknown = HealthCheckResponse { status: ServingStatus::ServiceUnknown.into() };
            return Ok(Response::new(Box::pin(stream::iter([Ok(unknown)]))));
        }
        let mut readiness = self.readiness.watch();
        readiness.mark_changed();
        let changes = stream::unfold(readiness, |mut readiness| async move {
            readiness.changed().await.ok()?;
            let now = health(*readiness.borrow_and_update());
            Some((Ok(now), readiness))
        });
        Ok(Response::new(Box::pin(changes)))
    }
}

fn is_served(service: &str) -> bool {
    service.is_empty() || service == hook_service_server::SERVICE_NAME
}

fn health(ready: bool) -> HealthCheckResponse {
    let status = if ready { ServingStatus::Serving } else { ServingStatus::NotServing };
    HealthCheckResponse { status: status.into() }
}

#[cfg(test)]
mod tests {
    use tonic::Code;
    use tonic_health::pb::health_client::HealthClient;

    use super::*;

    #[tokio::test]
    async fn health_follows_readiness() {
        let readiness = Readiness::new();
        let rules = readiness.wait_for("rules");
        let mut client = HealthClient::new(service(readiness.clone()));
        for name in ["", "hookd.v1.HookService"] {
            let request = HealthCheckRequest { service: name.to_owned() };
            let answer = client.check(Request::new(request)).await.unwrap().into_inner();
            assert_eq!(answer.status(), ServingStatus::NotServing);
        }
        let request = HealthCheckRequest { service: "hookd.v1.HookService".to_owned() };
        let mut watch = client.watch(request).await.unwrap().into_inner();
        assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
        drop(rules);
        assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
        let health = client.check(HealthCheckRequest::default()).await.unwrap().into_inner();
        assert_eq!(health.status(), ServingStatus::Serving);
        let unknown = HealthCheckRequest { service: "hookd.v1.Other".to_owned() };
        assert_eq!(client.check(unknown).await.unwrap_err().code(), Code::NotFound);
        let _leaving = readiness.wait_for("shutdown");
        assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
    }

    #[test]
    fn reflection_knows_its_descriptors() {
        assert!(reflection().is_ok() && early_reflection().is_ok());
    }
}
