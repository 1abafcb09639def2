use hookd_agents::Agent;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, Version, header, request::Parts};
use tonic::Code;

use super::Hosts;
use crate::rpc::json::{self, Reply};

const HOOKS: &str = "/v1/hooks/";
const TRIGGER: &str = "/v1/trigger";

/// What a call asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    /// `POST /v1/hooks/{agent}`.
    Hooks(Agent),
    /// `POST /v1/trigger`.
    Trigger,
}

/// Why a request is no call.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refused {
    status: StatusCode,
    reason: &'static str,
    message: String,
}

/// What a request asks for, if it may be asked by whom it comes from and in the form in which it comes.
///
/// # Errors
/// [`Refused`] with the first thing that is wrong.
pub(super) fn check(head: &Parts, hosts: &Hosts) -> Result<Route, Refused> {
    if says_grpc(&head.headers) && head.version != Version::HTTP_2 {
        let message = format!("gRPC needs HTTP/2, this is {:?}", head.version);
        return Err(Refused::new(StatusCode::HTTP_VERSION_NOT_SUPPORTED, "HTTP_VERSION", message));
    }
    let host = host(&head.uri, &head.headers, hosts)?;
    if is_of_grpc(head.uri.path()) {
        let message = "calls of gRPC need `Content-Type: application/grpc`".to_owned();
        return Err(Refused::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UNSUPPORTED_MEDIA_TYPE", message));
    }
    let route = route(head.uri.path())?;
    if head.method != Method::POST {
        let message = format!("{} is not served here, use POST", head.method);
        return Err(Refused::new(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", message));
    }
    origin(&head.headers, &host)?;
    content(&head.headers)?;
    Ok(route)
}

/// The host that the request is for, which has to be this server under every name that it gives.
fn host(uri: &Uri, headers: &HeaderMap, hosts: &Hosts) -> Result<String, Refused> {
    let mut named = headers.get_all(header::HOST).iter();
    let in_header = named.next().map(HeaderValue::to_str).transpose().map_err(|_| bad_host("is not ASCII"))?;
    if named.next().is_some() {
        return Err(bad_host("stands there twice"));
    }
    let in_uri = uri.authority().map(http::uri::Authority::as_str);
    let Some(host) = in_uri.or(in_header) else { return Err(bad_host("is missing")) };
    if let Some(foreign) = [in_uri, in_header].into_iter().flatten().find(|host| !hosts.has(host)) {
        let foreign = foreign.chars().take(100).collect::<String>();
        let message = format!("{foreign:?} is no name of this server, those that are belong into its setting `hosts`");
        return Err(Refused::new(StatusCode::FORBIDDEN, "FOREIGN_HOST", message));
    }
    Ok(host.to_ascii_lowercase())
}

fn route(path: &str) -> Result<Route, Refused> {
    if path == TRIGGER {
        return Ok(Route::Trigger);
    }
    let message = match path.strip_prefix(HOOKS) {
        Some(name) => match Agent::from_name(name) {
            Some(agent) => return Ok(Route::Hooks(agent)),
            None => {
                let known = Agent::ALL.map(Agent::name).join(", ");
                format!("no agent is called {:?}, known are {known}", name.chars().take(100).collect::<String>())
            }
        },
        None => format!("not found, try {TRIGGER} or {HOOKS} and the name of an agent"),
    };
    Err(Refused::new(StatusCode::NOT_FOUND, "NOT_FOUND", message))
}

/// Browsers say on behalf of which page they send; programs say nothing.
fn origin(headers: &HeaderMap, host: &str) -> Result<(), Refused> {
    let own = |origin: &HeaderValue| {
        let origin = origin.to_str().ok()?.to_ascii_lowercase();
        let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"))?;
        (rest == host).then_some(())
    };
    if headers.get_all(header::ORIGIN).iter().all(|origin| own(origin).is_some()) {
        return Ok(());
    }
    let message = "calls on behalf of web pages are refused".to_owned();
    Err(Refused::new(StatusCode::FORBIDDEN, "FOREIGN_ORIGIN", message))
}

/// The body has to be JSON in UTF-8, and to say so: a web page can send anything else without being asked first.
fn content(headers: &HeaderMap) -> Result<(), Refused> {
    let unsupported = |message: &str| {
        Err(Refused::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UNSUPPORTED_MEDIA_TYPE", message.to_owned()))
    };
    let mut kinds = headers.get_all(header::CONTENT_TYPE).iter();
    let kind = kinds.next().and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let mut parts = kind.split(';').map(str::trim);
    let is_json = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("application/json"));
    let is_utf8 = parts.all(|parameter| {
        let Some((name, value)) = parameter.split_once('=') else { return parameter.is_empty() };
        !name.trim().eq_ignore_ascii_case("charset")
            || ["utf-8", "utf8", "us-ascii"]
                .iter()
                .any(|known| value.trim().trim_matches('"').eq_ignore_ascii_case(known))
    });
    if !is_json || !is_utf8 || kinds.next().is_some() {
        return unsupported("`Content-Type: application/json` is needed");
    }
    let plain = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"identity");
    if !headers.get_all(header::CONTENT_ENCODING).iter().all(plain) {
        return unsupported("bodies are taken as they are, without `Content-Encoding`");
    }
    Ok(())
}

fn bad_host(what: &str) -> Refused {
    Refused::new(StatusCode::BAD_REQUEST, "INVALID_REQUEST", format!("the `Host` header {what}"))
}

impl Refused {
    fn new(status: StatusCode, reason: &'static str, message: String) -> Self {
        Self { status, reason, message }
    }

    /// What it is in the count of calls. `None`: it is no call at all.
    pub(super) fn counts_as(&self) -> Option<Code> {
        match self.status {
            StatusCode::FORBIDDEN => Some(Code::PermissionDenied),
            StatusCode::BAD_REQUEST | StatusCode::UNSUPPORTED_MEDIA_TYPE => Some(Code::InvalidArgument),
            _ => None,
        }
    }

    /// Its kind, finer.
    pub(super) fn reason(&self) -> &'static str {
        self.reason
    }

    pub(super) fn into_reply(self, decision_id: &str) -> Reply {
        let Self { status, reason, message } = self;
        let mut reply = json::error(status, reason, message, decision_id, |_| {});
        if status == StatusCode::METHOD_NOT_ALLOWED {
            reply.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
        }
        if status == StatusCode::HTTP_VERSION_NOT_SUPPORTED {
            // Frames of gRPC would be taken for the next request.
            reply.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        reply
    }
}

/// Whether the headers are those of a call of gRPC.
pub(in crate::door) fn says_grpc(headers: &http::HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

/// Whether a path is one of gRPC's services that there are.
fn is_of_grpc(path: &str) -> bool {
    path.starts_with("/hookd.v1.") || path.starts_with("/grpc.")
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;
    use crate::settings::Listen;

    /// The status and reason of a request of these parts, or what it asks for.
    fn checked(method: &str, uri: &str, headers: &[(&'static str, &str)]) -> Result<Route, (u16, &'static str)> {
        let hosts = Hosts::of(&Listen::Tcp(([127, 0, 0, 1], 50051).into()), &["localhost".to_owned()]);
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        check(&head, &hosts).map_err(|refused| (refused.status.as_u16(), refused.reason))
    }

    const HOST: (&str, &str) = ("host", "localhost:50051");
    const JSON: (&str, &str) = ("content-type", "application/json");

    #[test]
    fn calls_are_told_by_their_paths() {
        let post = |path: &str| checked("POST", path, &[HOST, JSON]);
        assert_eq!(post("/v1/trigger"), Ok(Route::Trigger));
        assert_eq!(post("/v1/trigger?x=y"), Ok(Route::Trigger));
        for agent in Agent::ALL {
            assert_eq!(post(&format!("/v1/hooks/{}?event=Stop", agent.name())), Ok(Route::Hooks(agent)));
        }
        let unknown = [
            "/",
            "/v1",
            "/v1/trigger/",
            "/v1/hooks/",
            "/v1/hooks/nobody",
            "/v1/hooks/claude-code/",
            "/v1/hooks/claude%2Dcode",
            "/livez",
        ];
        for path in unknown {
            assert_eq!(post(path), Err((404, "NOT_FOUND")), "{path}");
        }
        assert_eq!(post("/hookd.v1.HookService/Trigger"), Err((415, "UNSUPPORTED_MEDIA_TYPE")));
        for method in ["GET", "HEAD", "PUT", "OPTIONS", "DELETE", "TRACE"] {
            assert_eq!(checked(method, "/v1/trigger", &[HOST]), Err((405, "METHOD_NOT_ALLOWED")), "{method}");
        }
    }

    #[test]
    fn foreign_hosts_and_origins_are_refused() {
        let foreign_host = Err((403, "FOREIGN_HOST"));
        let foreign_origin = Err((403, "FOREIGN_ORIGIN"));
        let bad = Err((400, "INVALID_REQUEST"));
        let ours = Ok(Route::Trigger);
        let cases: [(&str, &[(&'static str, &str)], _); 14] = [
            ("/v1/trigger", &[HOST], ours),
            ("/v1/trigger", &[], bad),
            ("/v1/trigger", &[HOST, HOST], bad),
            ("/v1/trigger", &[("host", "evil.example")], foreign_host),
            ("http://localhost:50051/v1/trigger", &[], ours),
            ("http://evil.example/v1/trigger", &[HOST], foreign_host),
            ("http://localhost/v1/trigger", &[("host", "evil.example")], foreign_host),
            ("/v1/trigger", &[HOST, ("origin", "http://localhost:50051")], ours),
            ("/v1/trigger", &[HOST, ("origin", "HTTP://LOCALHOST:50051")], ours),
            ("/v1/trigger", &[HOST, ("origin", "http://localhost:3000")], foreign_origin),
            ("/v1/trigger", &[HOST, ("origin", "null")], foreign_origin),
            ("/v1/trigger", &[HOST, ("origin", "https://evil.example")], foreign_origin),
            (
                "/v1/trigger",
                &[HOST, ("origin", "http://localhost:50051"), ("origin", "http://evil.example")],
                foreign_origin,
            ),
            ("/v1/trigger", &[("host", "evil.example"), ("origin", "http://evil.example")], foreign_host),
        ];
        for (uri, headers, expected) in cases {
            assert_eq!(checked("POST", uri, &[headers, &[JSON]].concat()), expected, "{uri} {headers:?}");
        }
    }

    #[test]
    fn bodies_are_json_and_say_so() {
        for kind in [
            "application/json",
            "Application/JSON; charset=UTF-8",
            "application/json;charset=\"utf-8\"",
            "application/json; profile=x",
            "application/json;",
        ] {
            assert_eq!(checked("POST", "/v1/trigger", &[HOST, ("content-type", kind)]), Ok(Route::Trigger), "{kind}");
        }
        let unsupported = Err((415, "UNSUPPORTED_MEDIA_TYPE"));
        for kind in
            ["", "text/plain", "application/jsonp", "application/json; charset=utf-16", "text/plain, application/json"]
        {
            assert_eq!(checked("POST", "/v1/trigger", &[HOST, ("content-type", kind)]), unsupported, "{kind}");
        }
        assert_eq!(checked("POST", "/v1/trigger", &[HOST]), unsupported);
        assert_eq!(checked("POST", "/v1/trigger", &[HOST, JSON, ("content-type", "text/plain")]), unsupported);
        assert_eq!(checked("POST", "/v1/trigger", &[HOST, JSON, ("content-encoding", "gzip")]), unsupported);
        assert_eq!(checked("POST", "/v1/trigger", &[HOST, JSON, ("content-encoding", "identity")]), Ok(Route::Trigger));
    }

    #[test]
    fn grpc_is_for_http2() {
        let headers = [HOST, ("content-type", "application/grpc")];
        assert_eq!(checked("POST", "/hookd.v1.HookService/Trigger", &headers), Err((505, "HTTP_VERSION")));
        // Its frames are not read as the next request.
        let refused = Refused::new(StatusCode::HTTP_VERSION_NOT_SUPPORTED, "HTTP_VERSION", String::new());
        assert_eq!(refused.into_reply("d1").headers().get("connection").unwrap(), "close");
    }
}
