use std::{
    convert::Infallible,
    sync::Arc,
    task::{Context, Poll},
};

use http::Request;
use tower::{Layer, Service, layer::layer_fn};

use super::{Answer, Answering, call_of, refusal, slow_body::SlowBody};
use crate::{
    door::identity::{Identified, Visitor},
    model::Permission,
    telemetry::call::Call,
};

/// Lets only those calls pass whose caller is known, as far as the settings ask for that, and may make them.
#[derive(Debug, Clone)]
pub struct Authentication<S> {
    inner: S,
    visitor: Arc<Visitor>,
}

pub(super) fn layer<S>(visitor: Arc<Visitor>) -> impl Layer<S, Service = Authentication<S>> {
    layer_fn(move |inner| Authentication { inner, visitor: Arc::clone(&visitor) })
}

impl<S> Service<Request<SlowBody>> for Authentication<S>
where
    S: Service<Request<SlowBody>, Response = Answer, Error = Infallible, Future = Answering> + Clone + Send + 'static,
{
    type Response = Answer;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<SlowBody>) -> Answering {
        let Some(needed) = permission(request.uri().path()) else { return self.inner.call(request) };
        let visitor = &self.visitor;
        let call = call_of(&request).unwrap_or_else(|| Call::arriving(visitor.peer()));
        match visitor.identify(request.headers(), &call) {
            Identified::Now(identified) => match visitor.admit(identified, needed, &call) {
                Ok(()) => self.inner.call(request),
                Err(not_judged) => Box::pin(async move { Ok(refusal(not_judged, Some(call))) }),
            },
            Identified::Later(later) => {
                // Of these two the one that is ready goes along.
                let inner = self.inner.clone();
                let mut inner = std::mem::replace(&mut self.inner, inner);
                let visitor = Arc::clone(visitor);
                Box::pin(async move {
                    match visitor.admit(visitor.identify_later(later).await, needed, &call) {
                        Ok(()) => inner.call(request).await,
                        Err(not_judged) => Ok(refusal(not_judged, Some(call))),
                    }
                })
            }
        }
    }
}

/// What a call of this path needs. `None`: nothing, not even that its caller is known. That is health alone, which probes
/// ask for.
fn permission(path: &str) -> Option<Permission> {
    if path.starts_with("/grpc.health.v1.Health/") {
        return None;
    }
    Some(match path.strip_prefix("/hookd.v1.AdminService/") {
        Some("GetStatus" | "ListRules" | "Explain") => Permission::Read,
        Some(_) => Permission::Reload,
        None => Permission::Trigger,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_to_be_harmless_needs_the_most() {
        let cases = [
            ("/hookd.v1.HookService/Trigger", Some(Permission::Trigger)),
            ("/hookd.v1.HookService/TriggerStream", Some(Permission::Trigger)),
            ("/hookd.v1.AdminService/GetStatus", Some(Permission::Read)),
            ("/hookd.v1.AdminService/ListRules", Some(Permission::Read)),
            ("/hookd.v1.AdminService/Explain", Some(Permission::Read)),
            ("/hookd.v1.AdminService/Reload", Some(Permission::Reload)),
            ("/hookd.v1.AdminService/%52eload", Some(Permission::Reload)),
            ("/hookd.v1.AdminService/SomethingNew", Some(Permission::Reload)),
            ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", Some(Permission::Trigger)),
            ("/grpc.health.v1.Health/Check", None),
            ("/grpc.health.v1.Health/Watch", None),
            ("/grpc.health.v1.HealthX/Check", Some(Permission::Trigger)),
        ];
        for (path, expected) in cases {
            assert_eq!(permission(path), expected, "{path}");
        }
    }
}
