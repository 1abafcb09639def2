//! What happens where hookd gives no answer.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use hookd_client::{
    Address, CallErrorKind, Client, Code, Gate, OnUnavailable,
    proto::{ToolCall, TriggerRequest, Verdict},
};
use tonic::Status;
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::server::{TestServer, answer, free, of_hookd};

fn pre_tool_use(tool: &str) -> TriggerRequest {
    let call = ToolCall { tool: tool.into(), params_json: "{}".into(), ..Default::default() };
    TriggerRequest { event: "PreToolUse".into(), tool_call: Some(call), ..Default::default() }
}

fn event(name: &str) -> TriggerRequest {
    TriggerRequest { event: name.into(), ..Default::default() }
}

fn shed() -> Status {
    let details = ErrorDetails::with_retry_info(Some(Duration::from_millis(250)));
    Status::with_error_details(Code::ResourceExhausted, "too many calls in flight", details)
}

/// An address where nobody listens.
fn dead() -> String {
    free().local_addr().unwrap().to_string()
}

/// The gates of one status under each setting: on a tool call, on a call of a tool that is excepted, on a prompt, and
/// on a stop. `R` runs unapproved, `X` is refused.
async fn row(status: Status) -> (CallErrorKind, String) {
    let server = TestServer::answering(move |_| Err(status.clone()));
    let mut kind = None;
    let mut row = Vec::new();
    for on_unavailable in [OnUnavailable::Block, OnUnavailable::block_except(["grep"]), OnUnavailable::Allow] {
        let address: Address = server.address.to_string().parse().unwrap();
        let client = Client::builder(vec![address], on_unavailable).rounds(1).build().unwrap();
        let mut cell = String::new();
        for request in [pre_tool_use("bash"), pre_tool_use("grep"), event("UserPromptSubmit"), event("Stop")] {
            let gate = client.trigger(request).await;
            kind = gate.decision().error().map(|error| error.kind);
            assert!(gate.decision().degraded());
            cell.push(match gate {
                Gate::Run { params: None, result: None, approved: false, .. } => 'R',
                Gate::Refuse { .. } => 'X',
                other => panic!("{other:?}"),
            });
        }
        row.push(cell);
    }
    (kind.unwrap(), row.join(" "))
}

#[tokio::test]
async fn case_061_each_status_against_each_setting() {
    let unavailable = "XXXR XRXR RRRR";
    let refused = "XXXR XXXR XXXR";
    let retry_after = Duration::from_millis(250);
    let of_hookd_rows = [
        (Status::unavailable("shutting down"), CallErrorKind::Unavailable, unavailable),
        (Status::deadline_exceeded("late"), CallErrorKind::DeadlineExceeded, unavailable),
        (Status::internal("fault"), CallErrorKind::Internal, unavailable),
        (shed(), CallErrorKind::Shed { retry_after }, unavailable),
        (Status::resource_exhausted("message of 5 MiB"), CallErrorKind::Refused, refused),
        (Status::invalid_argument("event"), CallErrorKind::Refused, refused),
        (Status::unauthenticated("who"), CallErrorKind::Refused, refused),
        (Status::permission_denied("no"), CallErrorKind::Refused, refused),
        (Status::unimplemented("what"), CallErrorKind::Refused, refused),
        (Status::failed_precondition("revision"), CallErrorKind::Refused, refused),
        (Status::cancelled("c"), CallErrorKind::Refused, refused),
        (Status::unknown("u"), CallErrorKind::Refused, refused),
        (Status::not_found("n"), CallErrorKind::Refused, refused),
        (Status::already_exists("a"), CallErrorKind::Refused, refused),
        (Status::aborted("a"), CallErrorKind::Refused, refused),
        (Status::out_of_range("o"), CallErrorKind::Refused, refused),
        (Status::data_loss("d"), CallErrorKind::Refused, refused),
    ];
    for (status, kind, cells) in of_hookd_rows {
        let code = status.code();
        assert_eq!(row(of_hookd(status)).await, (kind, cells.to_owned()), "{code:?}");
    }
    // Without the decision id it was not hookd: these are what a transport makes of a connection that breaks.
    for status in [Status::internal("h2"), Status::cancelled("h2"), Status::unknown("h2"), Status::unavailable("h2")] {
        let code = status.code();
        assert_eq!(row(status).await, (CallErrorKind::Unavailable, unavailable.to_owned()), "{code:?}");
    }
    for status in [Status::invalid_argument("x"), Status::unimplemented("x"), Status::permission_denied("x")] {
        let code = status.code();
        assert_eq!(row(status).await, (CallErrorKind::Refused, refused.to_owned()), "{code:?}");
    }
}

#[tokio::test]
async fn events_after_the_fact_and_recorded_ones_have_a_safe_side_too() {
    let server = TestServer::answering(|_| Err(of_hookd(Status::invalid_argument("no"))));
    let session = server.client(OnUnavailable::Allow).session("s");
    let reason = format!("hookd at {} refused the call: no (INVALID_ARGUMENT)", server.address);
    let Gate::Refuse { reason: said, result, .. } = session.post_tool_use("bash", "{}", "1").await else {
        panic!("not refused")
    };
    assert_eq!((&said, result), (&reason, Some(format!("\"the result is not shown: {reason}\""))));
    assert!(matches!(session.session_start("startup").await, Gate::Run { approved: false, .. }));
    assert!(matches!(session.event("PreDeploy", "").await, Gate::Refuse { .. }));
}

#[tokio::test]
async fn nobody_there_is_said_in_one_line_with_the_address() {
    let address = dead();
    let client = Client::connect_lazy(&address, OnUnavailable::Block).unwrap();
    let error = client.call(&event("Stop")).await.unwrap_err();
    assert_eq!(error.kind, CallErrorKind::Unavailable);
    assert_eq!(error.code, Some(Code::Unavailable));
    let start = format!("hookd cannot be reached at {address}: connection refused");
    assert!(error.to_string().starts_with(&start), "{error}");
    assert!(!error.to_string().contains('\n'));
}

#[tokio::test]
async fn nobody_there_at_several_addresses_names_them_all() {
    let (one, other) = (dead(), dead());
    let client = Client::connect_lazy(&format!("{one},{other}"), OnUnavailable::Block).unwrap();
    let error = client.call(&event("Stop")).await.unwrap_err();
    assert!(error.message.ends_with(&format!("; tried {one}, {other}")), "{error}");
}

#[tokio::test]
async fn a_dead_first_address_is_passed_over_and_the_live_one_is_kept() {
    let server = TestServer::answering(|_| Ok(answer(Verdict::Allow)));
    let list = format!("{},{},{}", dead(), server.address, dead());
    // The start is random: several clients begin at each place.
    for _ in 0..12 {
        let client = Client::connect_lazy(&list, OnUnavailable::Block).unwrap();
        for _ in 0..3 {
            let gate = client.session("s").pre_tool_use("bash", "{}").await;
            assert!(matches!(gate, Gate::Run { approved: true, .. }), "{gate:?}");
        }
    }
}

#[tokio::test]
async fn a_call_is_tried_again_only_where_no_answer_was_given() {
    let tries = |status: fn() -> Status| async move {
        let calls = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&calls);
        let server = TestServer::answering(move |_| match counted.fetch_add(1, Ordering::SeqCst) {
            0 | 1 => Err(status()),
            _ => Ok(answer(Verdict::Allow)),
        });
        let answered = server.client(OnUnavailable::Block).call(&event("PreDeploy")).await.is_ok();
        (calls.load(Ordering::SeqCst), answered)
    };
    assert_eq!(tries(|| Status::unavailable("transport")).await, (3, true));
    assert_eq!(tries(|| of_hookd(Status::unavailable("cut by the drain"))).await, (3, true));
    assert_eq!(tries(|| Status::internal("h2 protocol error")).await, (3, true));
    assert_eq!(tries(|| Status::cancelled("operation was canceled")).await, (3, true));
    assert_eq!(tries(|| Status::unknown("transport error")).await, (3, true));
    assert_eq!(tries(|| of_hookd(Status::internal("panic"))).await, (1, false));
    assert_eq!(tries(|| of_hookd(Status::deadline_exceeded("late"))).await, (1, false));
    assert_eq!(tries(|| of_hookd(shed())).await, (1, false));
    assert_eq!(tries(|| of_hookd(Status::invalid_argument("x"))).await, (1, false));
    assert_eq!(tries(|| Status::resource_exhausted("too large")).await, (1, false));
}

#[tokio::test]
async fn the_tries_are_bounded() {
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    let server = TestServer::answering(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        Err(Status::unavailable("never"))
    });
    let address: Address = server.address.to_string().parse().unwrap();
    let client = Client::builder(vec![address], OnUnavailable::Block).rounds(3).build().unwrap();
    let error = client.call(&event("Stop")).await.unwrap_err();
    assert_eq!(calls.load(Ordering::SeqCst), 3);
    assert_eq!(error.to_string(), format!("hookd cannot be reached at {}: never", server.address));
}

#[tokio::test]
async fn the_deadline_is_sent_and_kept() {
    let (sent, received) = std::sync::mpsc::channel();
    let server = TestServer::start(free(), move |_, metadata| {
        sent.send(metadata.get("grpc-timeout").unwrap().to_str().unwrap().to_owned()).unwrap();
        Box::pin(std::future::pending())
    });
    let address: Address = server.address.to_string().parse().unwrap();
    let deadline = Duration::from_secs(2);
    let client = Client::builder(vec![address], OnUnavailable::Block).deadline(deadline).build().unwrap();
    let error = client.call(&event("PreDeploy")).await.unwrap_err();
    assert_eq!(error.kind, CallErrorKind::DeadlineExceeded);
    assert_eq!(error.to_string(), format!("hookd at {} gave no answer within 2s", server.address));
    let sent = received.recv().unwrap();
    let micros = sent.strip_suffix('u').unwrap().parse::<u64>().unwrap();
    assert!((1..=2_000_000).contains(&micros), "{sent}");
    assert!(received.try_recv().is_err(), "asked once");
}

#[tokio::test]
async fn the_deadline_holds_while_connecting_and_between_tries() {
    let address: Address = dead().parse().unwrap();
    let deadline = Duration::from_millis(300);
    let client =
        Client::builder(vec![address], OnUnavailable::Block).deadline(deadline).rounds(u32::MAX).build().unwrap();
    let begin = tokio::time::Instant::now();
    let error = client.call(&event("PreDeploy")).await.unwrap_err();
    assert!(begin.elapsed() < Duration::from_secs(10));
    assert!(error.kind.is_unavailable(), "{error:?}");
}

#[tokio::test]
async fn a_padded_call_is_not_sent_and_buys_no_allow() {
    let server = TestServer::answering(|_| panic!("asked"));
    let mut request = pre_tool_use("bash");
    request.payload_json = "x".repeat(5 * 1024 * 1024);
    let gate = server.client(OnUnavailable::Allow).trigger(request).await;
    assert!(
        matches!(&gate, Gate::Refuse { reason, .. } if reason.ends_with("bytes, the limit is 4194304")),
        "{gate:?}"
    );
}

#[tokio::test]
async fn an_answer_over_the_limit_blocks() {
    let server = TestServer::answering(|_| {
        let mut answer = answer(Verdict::Allow);
        answer.reason = "x".repeat(3000);
        Ok(answer)
    });
    let address: Address = server.address.to_string().parse().unwrap();
    let client = Client::builder(vec![address], OnUnavailable::Allow).message_bytes(2000).build().unwrap();
    let gate = client.trigger(pre_tool_use("bash")).await;
    assert!(matches!(&gate, Gate::Refuse { reason, .. } if reason.contains("OUT_OF_RANGE")), "{gate:?}");
}
