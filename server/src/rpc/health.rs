//! gRPC health, which follows readiness, and reflection.

use hookd_proto::v1::hook_service_server;
use tonic_health::{
    ServingStatus,
    pb::health_server::{Health, HealthServer},
    server::HealthReporter,
};
use tonic_reflection::server::v1::{ServerReflection, ServerReflectionServer};

use crate::drain::Readiness;

/// The health service, for the server as a whole (an empty name) and for `hookd.v1.HookService`.
pub async fn service(readiness: &Readiness) -> HealthServer<impl Health> {
    let reporter = HealthReporter::new();
    let mut ready = readiness.watch();
    let now = *ready.borrow_and_update();
    report(&reporter, now).await;
    let following = reporter.clone();
    tokio::spawn(async move {
        while ready.changed().await.is_ok() {
            let now = *ready.borrow_and_update();
            report(&following, now).await;
        }
    });
    HealthServer::new(tonic_health::server::HealthService::from_health_reporter(reporter))
}

/// The reflection service for everything that is served.
///
/// # Errors
/// Where the descriptors that are built in cannot be read.
pub fn reflection() -> Result<ServerReflectionServer<impl ServerReflection>, tonic_reflection::server::Error> {
    tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(hookd_proto::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()
}

async fn report(reporter: &HealthReporter, ready: bool) {
    let status = if ready { ServingStatus::Serving } else { ServingStatus::NotServing };
    reporter.set_service_status("", status).await;
    reporter.set_service_status(hook_service_server::SERVICE_NAME, status).await;
}

#[cfg(test)]
mod tests {
    use tonic::Request;
    use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};

    use super::*;

    #[tokio::test]
    async fn health_follows_readiness() {
        let readiness = Readiness::new();
        let rules = readiness.wait_for("rules");
        let mut client = HealthClient::new(service(&readiness).await);
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
        let _leaving = readiness.wait_for("shutdown");
        assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
    }

    #[test]
    fn reflection_knows_its_descriptors() {
        assert!(reflection().is_ok());
    }
}
