//! Calls in which the client runs commands, against servers that do as a test says.

use std::{
    ffi::OsString,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use hookd_client::{
    Address, AgentCommands, AgentProgram, AgentSide, CallError, CallErrorKind, Client, Code, Gate, OfferTier,
    OfferedCommand, OfferedRules, OnUnavailable,
    proto::{
        CancelCommand, CommandResult, Failure, NeedFiles, OfferedRule, RunCommand, Tier, ToolCall, TriggerRequest,
        TriggerResponse, TriggerStreamRequest, TriggerStreamResponse, Verdict,
        hook_service_server::{HookService, HookServiceServer},
        run_command::Program,
        trigger_stream_request::Message as Sent,
        trigger_stream_response::Message as Came,
    },
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Response, Status, Streaming, codegen::BoxStream, transport::Server};

use crate::server::{answer, free, of_hookd};

/// What a server does with a stream: it gets what the client sends, and sends what it likes.
type Script = Arc<dyn Fn(Streaming<TriggerStreamRequest>, mpsc::Sender<Reply>) + Send + Sync>;

type Reply = Result<TriggerStreamResponse, Status>;

struct Service(Script);

#[tonic::async_trait]
impl HookService for Service {
    async fn trigger_stream(
        &self,
        request: Request<Streaming<TriggerStreamRequest>>,
    ) -> Result<Response<BoxStream<TriggerStreamResponse>>, Status> {
        let (sender, receiver) = mpsc::channel(16);
        (self.0)(request.into_inner(), sender);
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }
}

/// A server that opens each stream with `script`, and how often it was asked.
async fn serve<F: Future<Output = ()> + Send + 'static>(
    script: impl Fn(Streaming<TriggerStreamRequest>, mpsc::Sender<Reply>) -> F + Send + Sync + 'static,
) -> (Client, Arc<AtomicU32>) {
    serve_within(Duration::from_secs(20), script).await
}

/// The same, and its client has this deadline.
async fn serve_within<F: Future<Output = ()> + Send + 'static>(
    deadline: Duration,
    script: impl Fn(Streaming<TriggerStreamRequest>, mpsc::Sender<Reply>) -> F + Send + Sync + 'static,
) -> (Client, Arc<AtomicU32>) {
    let listener = free();
    listener.set_nonblocking(true).unwrap();
    let address: Address = listener.local_addr().unwrap().to_string().parse().unwrap();
    let asked = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&asked);
    let service = Service(Arc::new(move |incoming, outgoing| {
        counted.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(script(incoming, outgoing));
    }));
    let listener = TcpListenerStream::new(tokio::net::TcpListener::from_std(listener).unwrap());
    tokio::spawn(Server::builder().add_service(HookServiceServer::new(service)).serve_with_incoming(listener));
    let client = Client::builder(vec![address], OnUnavailable::Allow).rounds(2).deadline(deadline);
    (client.build().unwrap(), asked)
}

/// A server that says this, whatever the client does, and how often it was asked.
async fn saying(replies: Vec<Reply>) -> (Client, Arc<AtomicU32>) {
    serve(move |incoming, outgoing| {
        let replies = replies.clone();
        async move {
            for reply in replies {
                let _gone = outgoing.send(reply).await;
            }
            drop(outgoing);
            drop(incoming);
        }
    })
    .await
}

/// Runs every command of the file as `sh -c INDEX-TH LINE OF IT`.
struct Lines;

impl AgentCommands for Lines {
    fn program(&self, command: &OfferedCommand<'_>) -> Result<AgentProgram, String> {
        let text = std::str::from_utf8(command.file.content()).unwrap();
        let line = text.lines().nth(command.index.try_into().unwrap()).ok_or("there is no such line")?;
        let argv = ["/bin/sh", "-c", line].map(OsString::from).to_vec();
        let env = vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())];
        Ok(AgentProgram { argv, env, cwd: None })
    }
}

fn file() -> OfferedRules {
    let lines = "cat\nsleep 1000\nexit 7".to_owned();
    OfferedRules::new(OfferTier::Shared, "/repo/hooks.json", "hookd", lines.into_bytes())
}

fn side() -> AgentSide<Lines> {
    AgentSide::new(Lines).offer(file())
}

fn request() -> TriggerRequest {
    let call = ToolCall { tool: "bash".into(), params_json: "{}".into(), ..Default::default() };
    TriggerRequest { event: "PreToolUse".into(), tool_call: Some(call), ..Default::default() }
}

fn says(message: Came) -> Reply {
    Ok(TriggerStreamResponse { message: Some(message) })
}

fn response() -> Reply {
    says(Came::Response(answer(Verdict::Ask)))
}

fn run(command_id: u32, sha256: &str, index: u32) -> Reply {
    says(Came::RunCommand(RunCommand {
        command_id,
        tier: Tier::Shared.into(),
        program: Some(Program::OfferedRule(OfferedRule { sha256: sha256.to_owned(), index })),
        stdin: format!("input of {command_id}").into_bytes(),
        timeout: Some(Duration::from_secs(10).try_into().unwrap()),
        output_limit_bytes: 8,
        ..RunCommand::default()
    }))
}

async fn call(client: &Client) -> Result<TriggerResponse, CallError> {
    client.call_with_commands(&request(), &side()).await
}

#[tokio::test]
async fn files_are_sent_on_demand_and_results_carry_ids_and_are_cut() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (seen_there, file) = (Arc::clone(&seen), file());
    let sha256 = file.sha256().to_owned();
    let (client, asked) = serve(move |mut incoming, outgoing| {
        let (seen, sha256) = (Arc::clone(&seen_there), sha256.clone());
        async move {
            let receive = async |incoming: &mut Streaming<TriggerStreamRequest>| {
                let message = incoming.message().await.unwrap().unwrap().message.unwrap();
                seen.lock().unwrap().push(message);
            };
            receive(&mut incoming).await;
            let need = NeedFiles { sha256: vec![sha256.clone(), "never offered".to_owned()] };
            outgoing.send(says(Came::NeedFiles(need))).await.unwrap();
            receive(&mut incoming).await;
            // One that is cancelled gives no result.
            outgoing.send(run(1, &sha256, 1)).await.unwrap();
            outgoing.send(says(Came::CancelCommand(CancelCommand { command_id: 1 }))).await.unwrap();
            outgoing.send(says(Came::CancelCommand(CancelCommand { command_id: 9 }))).await.unwrap();
            for command in [run(2, &sha256, 0), run(3, &sha256, 2), run(4, &sha256, 5), run(5, "other", 0)] {
                outgoing.send(command).await.unwrap();
                receive(&mut incoming).await;
            }
            outgoing.send(response()).await.unwrap();
        }
    })
    .await;
    assert_eq!(call(&client).await, Ok(answer(Verdict::Ask)));
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    let mut seen = seen.lock().unwrap();
    let results = seen.split_off(2).into_iter().map(|message| match message {
        Sent::CommandResult(result) => CommandResult { elapsed: None, ..result },
        other => panic!("{other:?}"),
    });
    let refused = |command_id, why: &str| CommandResult {
        command_id,
        failure: Failure::NotPermitted.into(),
        stderr: why.into(),
        ..CommandResult::default()
    };
    assert_eq!(
        results.collect::<Vec<_>>(),
        [
            CommandResult {
                command_id: 2,
                exit_code: Some(0),
                stdout: b"input of".to_vec(),
                truncated: true,
                ..CommandResult::default()
            },
            CommandResult { command_id: 3, exit_code: Some(7), ..CommandResult::default() },
            refused(4, "there is no such line"),
            refused(5, "the rule stands in no file that was offered"),
        ]
    );
    let [Sent::Start(start), Sent::Files(files)] = seen.as_slice() else { panic!("{seen:?}") };
    assert_eq!(start.trigger, Some(request()));
    assert_eq!(
        start.offered.iter().map(|file| (&*file.sha256, file.tier(), &*file.path, &*file.format)).collect::<Vec<_>>(),
        [(file.sha256(), Tier::Shared, "/repo/hooks.json", "hookd")]
    );
    assert_eq!(files.files.iter().map(|sent| &*sent.content).collect::<Vec<_>>(), [file.content()]);
}

#[tokio::test]
async fn what_is_not_understood_is_no_answer_and_blocks() {
    let unknown = || Ok(TriggerStreamResponse { message: None });
    for (replies, message) in [
        (vec![], "the stream ended without one"),
        (vec![unknown()], "a message that this client does not know"),
        (vec![response(), response()], "the stream goes on after it"),
        (vec![response(), unknown()], "the stream goes on after it"),
    ] {
        let (client, asked) = saying(replies).await;
        let gate = client.trigger_with_commands(request(), &side()).await;
        assert!(matches!(gate, Gate::Refuse { .. }), "{gate:?}");
        let error = gate.decision().error().unwrap();
        assert_eq!(error.kind, CallErrorKind::NotUnderstood);
        assert_eq!(error.message, format!("the answer of hookd cannot be carried out: {message}"));
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }
}

#[tokio::test]
async fn it_is_tried_again_only_where_nothing_was_run() {
    let gone = || Err(of_hookd(Status::unavailable("the server is shutting down")));
    let (client, asked) = saying(vec![gone()]).await;
    assert_eq!(call(&client).await.map_err(|error| error.kind), Err(CallErrorKind::Unavailable));
    assert_eq!(asked.load(Ordering::Relaxed), 2);

    let (client, asked) = saying(vec![run(1, file().sha256(), 2), gone()]).await;
    assert_eq!(call(&client).await.map_err(|error| error.kind), Err(CallErrorKind::Unavailable));
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    let gate = client.trigger_with_commands(request(), &side()).await;
    assert!(matches!(gate, Gate::Run { approved: false, .. }), "as `OnUnavailable` says: {gate:?}");

    // The answer counts only with the status that follows it.
    let (client, asked) = saying(vec![response(), Err(Status::internal("broken"))]).await;
    assert_eq!(call(&client).await.map_err(|error| error.kind), Err(CallErrorKind::Unavailable));
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn statuses_mean_what_they_mean_on_plain_calls() {
    for (status, kind) in [
        (of_hookd(Status::invalid_argument("no")), CallErrorKind::Refused),
        (Status::unimplemented("an older hookd"), CallErrorKind::Refused),
        (of_hookd(Status::internal("a fault")), CallErrorKind::Internal),
        (of_hookd(Status::deadline_exceeded("late")), CallErrorKind::DeadlineExceeded),
    ] {
        let (client, asked) = saying(vec![Err(status.clone())]).await;
        let error = call(&client).await.unwrap_err();
        assert_eq!((error.kind, error.code), (kind, Some(status.code())));
        assert_eq!(error.decision_id.is_some(), status.code() != Code::Unimplemented);
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }
}

#[tokio::test]
async fn a_server_that_says_nothing_costs_the_deadline_and_no_more() {
    let (client, asked) = serve_within(Duration::from_millis(300), |incoming, outgoing| async move {
        let _held = (incoming, outgoing);
        std::future::pending::<()>().await;
    })
    .await;
    let error = call(&client).await.unwrap_err();
    assert_eq!(error.kind, CallErrorKind::DeadlineExceeded);
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_start_over_the_limit_is_not_even_sent() {
    let (_, asked) = saying(vec![response()]).await;
    let address: Address = "127.0.0.1:1".parse().unwrap();
    let client = Client::builder(vec![address], OnUnavailable::Allow).message_bytes(64).build().unwrap();
    let gate = client.trigger_with_commands(request(), &side()).await;
    assert!(matches!(gate, Gate::Refuse { .. }), "{gate:?}");
    assert_eq!(gate.decision().error().map(|error| error.kind), Some(CallErrorKind::Refused));
    assert_eq!(asked.load(Ordering::Relaxed), 0);
}
