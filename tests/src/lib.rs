//! The harness of the end-to-end tests: the real `hookd`, on free ports, with a folder of its own.
//!
//! ```ignore
//! let hookd = Hookd::builder()
//!     .managed(json!([{ "id": "guard", "event": "PreToolUse", "matcher": "^Bash$",
//!                       "handler": { "type": "command", "command": "sh ./guard.sh" } }]))
//!     .file("managed/guard.sh", "echo '{\"blocked\":true}'")    // beside the rules: TIER/rules.json
//!     .settings(json!({ "limits": { "children": 4 } }))         // merged into the harness's own settings
//!     .start()
//!     .await;
//! let answer = hookd.trigger(pre_tool_use("Bash", json!({ "command": "ls" })).in_cwd("/tmp")).await;
//! assert_eq!(said(&answer), json!({
//!     "verdict": "block", "reason": "Blocked by hook", "decidedBy": "rule managed/guard",
//!     "results": ["managed/guard block"], "considered": 1, "matched": 1,
//! }));
//! hookd.rewrite_rules(Tier::Managed, json!([]));
//! let reloaded = hookd.reload().await;                          // `ReloadResponse`
//! eventually("no handler is left", async || hookd.children().is_empty().then_some(())).await;
//! hookd.signal(Signal::TERM);
//! assert_eq!(hookd.wait_exit().await.code(), Some(0));
//! ```
//!
//! - [`rule`], [`sh`], [`decide`], [`http`] and [`with`] make rules shorter to write.
//! - [`Hookd::try_trigger`] gives the status, [`with_deadline`] sets `grpc-timeout`, [`Hookd::client`] is the generated
//!   client on a connection of its own, [`Hookd::admin`] the one of the administration, and
//!   [`Hookd::patient_client`] one that leaves deadlines to the server.
//! - [`Hookd::log_lines`] is its log so far, [`Hookd::metric`] one number of `/metrics`, [`Hookd::admin_get`] any page.
//! - [`Hookd::path`] is a file in its folder. Handlers find that folder as `$TMPDIR/..`.
//! - [`HookdBuilder::start_refused`] is for settings and rules that must keep it from starting.
//! - [`HttpStub`] is an http server that answers what it is told, byte by byte.
//! - [`SigningKey`] signs tokens, [`KeyServer`] serves the keys of an issuer, [`with_token`] presents a token.
//! - [`TlsFront`] speaks TLS for it, [`TunnelProxy`] is a proxy before it.
//! - [`Collector`] takes what is exported by OTLP.
//! - [`Scripted`] is a gRPC server in hookd's place that answers what it is told, and remembers what it was asked.
//! - [`Place`] is an address where nobody listens until somebody does.
//! - [`RawHttp1`] is a connection of HTTP/1.1 byte by byte, and [`Hookd::post_http2`] one call in HTTP/2.
//! - [`RawHttp2`] is a connection frame by frame, for what no proper client does.
//! - [`Authority`] issues certificates, and [`TlsCaller`] connects over TLS with what it is given.
//! - [`eventually`] is the only thing that waits, and it looks at a real condition.
//!
//! Dropping a [`Hookd`] kills it and every process that its handlers left.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test stops where something is not as it must be"
)]

mod fronts;
mod hookd;
mod http_stub;
mod issuer;
mod otlp;
mod place;
mod processes;
mod program;
mod raw_http1;
mod raw_http2;
mod request;
mod rules;
mod said;
mod scripted;
pub mod tls;
mod wait;

pub use fronts::{TlsFront, TunnelProxy};
pub use hookd::{Hookd, HookdBuilder, PatientChannel, Refused};
pub use hookd_proto::v1;
pub use hookd_proto::v1::Tier;
pub use http_stub::{HttpStub, Reply, Request};
pub use issuer::{KeyServer, SigningKey, unsigned, with_token};
pub use otlp::Collector;
pub use place::Place;
pub use processes::Process;
pub use program::program;
pub use raw_http1::{HttpAnswer, RawHttp1};
pub use raw_http2::{Frame, PREFACE, RST_STREAM, RawHttp2};
pub use request::{TriggerRequestExt, event, post_tool_use, pre_tool_use, with_deadline};
pub use rules::{decide, http, rule, sh, with};
pub use rustix::process::Signal;
pub use said::said;
pub use scripted::Scripted;
pub use tls::{Authority, Issued, TlsCaller};
pub use wait::{GENEROUS, eventually, within};
