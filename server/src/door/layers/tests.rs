use std::{future::pending, sync::Arc, time::Duration};

use hookd_proto::v1::{
    GetStatusRequest, TriggerRequest, TriggerResponse,
    admin_service_client::AdminServiceClient,
    hook_service_client::HookServiceClient,
    hook_service_server::{HookService, HookServiceServer},
};
use hyper_util::service::TowerToHyperService;
use tokio::sync::{Notify, mpsc};
use tokio_util::task::TaskTracker;
use tonic::{Code, Request, Response, Status, codec::CompressionEncoding, service::Routes, transport::Channel};
use tonic_types::StatusExt as _;

use super::Layers;
use crate::{
    door::{
        arrived::Arrived,
        connection::{ConnectionLimit, Connections},
        identity::Authenticator,
        listener::Listener,
        places::Places,
    },
    drain::Drain,
    record::Recorder,
    rpc::status::DECISION_ID,
    settings::{Http2Settings, IdentitySettings, Listen},
    telemetry::{
        DecisionLog,
        call::{Call, Peer},
    },
};

const LIMIT: usize = 4096;

/// Answers `ok`, and does otherwise what the event says.
struct Hooks {
    started: mpsc::UnboundedSender<()>,
    go_on: Arc<Notify>,
}

#[tonic::async_trait]
impl HookService for Hooks {
    async fn trigger(&self, request: Request<TriggerRequest>) -> Result<Response<TriggerResponse>, Status> {
        let call = request.extensions().get::<Call>().expect("the call is named");
        assert_eq!(call.peer, Peer::Local);
        match request.get_ref().event.as_str() {
            "hang" => {
                self.started.send(()).unwrap();
                pending().await
            }
            "wait" => {
                self.started.send(()).unwrap();
                self.go_on.notified().await;
                Ok(Response::new(TriggerResponse::default()))
            }
            "panic" => panic!("as asked"),
            _ => Ok(Response::new(TriggerResponse { decision_id: call.decision_text(), ..TriggerResponse::default() })),
        }
    }
}

struct Served {
    channel: Channel,
    client: HookServiceClient<Channel>,
    drain: Drain,
    open: TaskTracker,
    recorder: Arc<Recorder>,
    started: mpsc::UnboundedReceiver<()>,
    go_on: Arc<Notify>,
}

async fn serve(places: usize) -> Served {
    serve_for(places, Duration::from_secs(600)).await
}

async fn serve_for(places: usize, age: Duration) -> Served {
    let (drain, open, recorder) =
        (Drain::new(), TaskTracker::new(), Arc::new(Recorder::new(DecisionLog::silent(), None)));
    let layers = Layers {
        places: Arc::new(Places::new(places, None, Arc::clone(&recorder))),
        message_bytes: LIMIT,
        arrival_limit: Duration::from_secs(60),
        drain: drain.clone(),
        recorder: Arc::clone(&recorder),
    };
    let listener = Listener::bind(&Listen::Tcp(([127, 0, 0, 1], 0).into())).await.unwrap();
    let address = listener.address().to_string();
    let (sender, started) = mpsc::unbounded_channel();
    let go_on = Arc::new(Notify::new());
    let routes = Routes::new(
        HookServiceServer::new(Hooks { started: sender, go_on: Arc::clone(&go_on) })
            .max_decoding_message_size(LIMIT)
            .accept_compressed(CompressionEncoding::Gzip)
            .send_compressed(CompressionEncoding::Gzip),
    );
    let connections = Connections {
        http2: Http2Settings {
            keepalive_interval: Duration::from_secs(60),
            keepalive_timeout: Duration::from_secs(60),
            max_connection_age: age,
            max_concurrent_streams: 100,
        },
        tls: None,
        longest_call: Duration::from_secs(600),
        drain: drain.clone(),
        open: open.clone(),
        limit: Arc::new(ConnectionLimit::new(64, 64, Arc::clone(&recorder))),
    };
    let authenticator = Authenticator::start(&IdentitySettings::default(), &[], Arc::clone(&recorder)).await.unwrap();
    let service = move |arrived: Arrived| {
        TowerToHyperService::new(layers.around(routes.clone(), Arc::new(authenticator.visitor(&arrived))))
    };
    tokio::spawn(connections.accept(listener, service));
    let channel = Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
    Served { client: HookServiceClient::new(channel.clone()), channel, drain, open, recorder, started, go_on }
}

fn event(name: &str) -> TriggerRequest {
    TriggerRequest { event: name.to_owned(), ..TriggerRequest::default() }
}

/// The code and reason of a status, which must have a decision id.
fn of_ours(status: &Status) -> (Code, String) {
    let id = status.metadata().get(DECISION_ID).unwrap_or_else(|| panic!("no decision id: {status:?}"));
    assert_eq!(id.to_str().unwrap().parse::<uuid::Uuid>().unwrap().get_version_num(), 7);
    (status.code(), status.get_details_error_info().map(|info| info.reason).unwrap_or_default())
}

fn counted(recorder: &Recorder, status: &str) -> bool {
    let sample = format!("hookd_calls_total{{event=\"\",verdict=\"\",tier=\"\",status=\"{status}\"}} 1\n");
    recorder.exposition().contains(&sample)
}

#[tokio::test]
async fn case_094_a_panic_in_one_call_is_internal_for_that_call() {
    let mut served = serve(4).await;
    let status = served.client.trigger(event("panic")).await.unwrap_err();
    assert_eq!(of_ours(&status), (Code::Internal, "INTERNAL".to_owned()));
    served.client.trigger(event("ok")).await.unwrap();
    assert!(counted(&served.recorder, "internal"));
}

#[tokio::test]
async fn calls_over_the_limit_are_shed_at_once_and_told_to_try_again() {
    let mut served = serve(1).await;
    let mut hanging = served.client.clone();
    let hanging = tokio::spawn(async move { hanging.trigger(event("hang")).await });
    served.started.recv().await.unwrap();
    let status = served.client.trigger(event("ok")).await.unwrap_err();
    assert_eq!(of_ours(&status), (Code::ResourceExhausted, "OVERLOADED".to_owned()));
    assert!(status.get_details_retry_info().is_some());
    assert!(served.recorder.exposition().contains("hookd_shed_calls_total 1\n"));
    // The place comes back when the caller goes away.
    hanging.abort();
    let mut tries = 0;
    while served.client.trigger(event("ok")).await.is_err() {
        tries += 1;
        assert!(tries < 10_000, "the place did not come back");
        tokio::task::yield_now().await;
    }
    assert!(counted(&served.recorder, "cancelled"));
}

#[tokio::test]
async fn case_090_case_091_the_limit_of_messages_has_one_code_and_counts_after_decompression() {
    let mut served = serve(4).await;
    let large = TriggerRequest { payload_json: " ".repeat(5000), ..event("ok") };
    let too_large = (Code::ResourceExhausted, "TOO_LARGE".to_owned());
    assert_eq!(of_ours(&served.client.trigger(large.clone()).await.unwrap_err()), too_large);
    let mut gzip = served.client.clone().send_compressed(CompressionEncoding::Gzip);
    let status = gzip.trigger(large).await.unwrap_err();
    assert_eq!(of_ours(&status), too_large);
    assert_eq!(status.message(), "the message is over the limit of 4096 bytes");
    let fits = TriggerRequest { payload_json: " ".repeat(4000), ..event("ok") };
    gzip.accept_compressed(CompressionEncoding::Gzip).trigger(fits).await.unwrap();
}

#[tokio::test]
async fn statuses_made_below_hookd_get_a_decision_id_too() {
    let served = serve(4).await;
    let mut admin = AdminServiceClient::new(served.channel.clone());
    let status = admin.get_status(GetStatusRequest {}).await.unwrap_err();
    assert_eq!(of_ours(&status).0, Code::Unimplemented);
}

#[tokio::test]
async fn calls_cut_at_the_drain_limit_are_told_so() {
    let mut served = serve(4).await;
    let mut hanging = served.client.clone();
    let hanging = tokio::spawn(async move { hanging.trigger(event("hang")).await });
    served.started.recv().await.unwrap();
    served.drain.close();
    served.drain.cut();
    let status = hanging.await.unwrap().unwrap_err();
    assert_eq!(of_ours(&status), (Code::Unavailable, "STOPPING".to_owned()));
    served.drain.idle().await;
    served.open.close();
    served.open.wait().await;
}

#[tokio::test]
async fn a_connection_that_is_too_old_is_told_to_go_and_its_calls_finish() {
    let mut served = serve_for(4, Duration::from_millis(20)).await;
    let mut waiting = served.client.clone();
    let waiting = tokio::spawn(async move { waiting.trigger(event("wait")).await });
    served.started.recv().await.unwrap();
    // A second connection beside the first means that the first was told to go.
    let mut tries = 0;
    while served.open.len() < 2 {
        let _ = served.client.trigger(event("ok")).await;
        tries += 1;
        assert!(tries < 100_000, "the connection was not told to go");
    }
    served.go_on.notify_one();
    waiting.await.unwrap().unwrap();
}
