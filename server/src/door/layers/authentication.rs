use std::{
    convert::Infallible,
    sync::Arc,
    task::{Context, Poll},
};

use http::Request;
use tonic::Status;
use tower::{Layer, Service, layer::layer_fn};

use super::{Answer, Answering, call_of, refusal, slow_body::SlowBody};
use crate::{
    door::identity::{Identified, Visitor},
    model::{Identity, Permission, Unproven},
    rpc::status::NotJudged,
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

    fn call(&mut self, mut request: Request<SlowBody>) -> Answering {
        let Some(needed) = permission(request.uri().path()) else { return self.inner.call(request) };
        let visitor = &self.visitor;
        let call = call_of(&request).unwrap_or_else(|| Call::arriving(visitor.peer()));
        match visitor.identify(request.headers(), &call) {
            Identified::Now(identified) => match admitted(visitor, identified, needed, call) {
                Ok(identity) => {
                    know(&mut request, &identity);
                    remembering(self.inner.call(request), identity)
                }
                Err(refused) => Box::pin(async move { Ok(*refused) }),
            },
            Identified::Later(later) => {
                // Of these two the one that is ready goes along.
                let inner = self.inner.clone();
                let mut inner = std::mem::replace(&mut self.inner, inner);
                let visitor = Arc::clone(visitor);
                Box::pin(async move {
                    match admitted(&visitor, visitor.identify_later(later).await, needed, call) {
                        Ok(identity) => {
                            know(&mut request, &identity);
                            remembering(inner.call(request), identity).await
                        }
                        Err(refused) => Ok(*refused),
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

fn admitted(
    visitor: &Visitor,
    identified: Result<Arc<Identity>, Unproven>,
    needed: Permission,
    call: Call,
) -> Result<Arc<Identity>, Box<Answer>> {
    let identity = match identified {
        Ok(identity) => identity,
        Err(unproven) => return Err(refusal(NotJudged::Unauthenticated(unproven), Some(call)).into()),
    };
    if visitor.may(&identity, needed) {
        return Ok(identity);
    }
    let mut refused = refusal(NotJudged::NotPermitted(needed), Some(call));
    refused.extensions_mut().insert(identity);
    Err(refused.into())
}

fn know(request: &mut Request<SlowBody>, identity: &Arc<Identity>) {
    if let Some(call) = request.extensions_mut().get_mut::<Call>() {
        call.identity = Arc::clone(identity);
    }
}

/// `answering`, where a status tells the arrival whom it is for: its record names them.
fn remembering(answering: Answering, identity: Arc<Identity>) -> Answering {
    if identity.name.is_empty() {
        return answering;
    }
    Box::pin(async move {
        let mut answer = answering.await?;
        if answer.headers().contains_key(Status::GRPC_STATUS) {
            answer.extensions_mut().insert(identity);
        }
        Ok(answer)
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
