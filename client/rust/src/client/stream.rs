//! Calls in which this side runs commands.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::atomic::{AtomicBool, Ordering},
    task::Poll,
};

use prost::{Message as _, bytes::Bytes};
use tokio::{sync::mpsc, time::Instant};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Status, metadata::MetadataMap};

use super::{Client, Reached, Shared};
use crate::{
    AgentCommands, AgentSide, CallError, Gate,
    commands::{Asked, run, run_detached},
    proto::{
        CommandResult, NeedFiles, RuleFile, RuleFiles, StreamStart, TriggerRequest, TriggerResponse,
        TriggerStreamRequest, TriggerStreamResponse, trigger_stream_request::Message as Sent,
        trigger_stream_response::Message as Came,
    },
};

const PATH: &str = "/hookd.v1.HookService/TriggerStream";
/// What hookd takes of one file and of all together, in bytes. Of larger ones it needs no content to refuse them.
const MAX_FILE_BYTES: usize = 256 << 10;
const MAX_FILES_BYTES: usize = 1 << 20;

impl Client {
    /// Asks about one event and says what to do now, as [`Client::trigger`] does, with rules of the caller's own: `side`
    /// offers their files, and runs their commands on this machine while hookd evaluates.
    ///
    /// Commands run under the process rules of hookd itself: in a group of their own, with one timer, capped outputs, and
    /// no survivors. Those that are still running when the answer comes, when hookd cancels them, or when this future is
    /// dropped, are killed. The call is tried again only where there was no answer and nothing was run yet.
    pub async fn trigger_with_commands<C: AgentCommands>(&self, request: TriggerRequest, side: &AgentSide<C>) -> Gate {
        self.gate(&request, self.call_with_commands(&request, side).await)
    }

    /// As [`Client::trigger_with_commands`], but gives the bare answer, as [`Client::call`] does.
    ///
    /// # Errors
    /// [`CallError`] where there is no answer.
    pub async fn call_with_commands<C: AgentCommands>(
        &self,
        request: &TriggerRequest,
        side: &AgentSide<C>,
    ) -> Result<TriggerResponse, CallError> {
        let offered = side.offers.iter().map(|file| file.to_message()).collect();
        let start = StreamStart { trigger: Some(request.clone()), offered };
        let start = self.shared.encoded(&TriggerStreamRequest { message: Some(Sent::Start(start)) })?;
        let has_run = AtomicBool::new(false);
        let attempt = |at, deadline| {
            let call = Call { shared: &self.shared, request, side, has_run: &has_run, deadline };
            call.attempt(at, start.clone())
        };
        self.shared.ask(attempt, || !has_run.load(Ordering::Relaxed)).await
    }
}

/// One call, over all its attempts.
struct Call<'a, C> {
    shared: &'a Shared,
    request: &'a TriggerRequest,
    side: &'a AgentSide<C>,
    /// Something was run: another attempt would run it again.
    has_run: &'a AtomicBool,
    deadline: Instant,
}

/// The commands that run, by their ids.
struct Running<'a>(Vec<(u32, Command<'a>)>);

type Command<'a> = Pin<Box<dyn Future<Output = CommandResult> + Send + 'a>>;

impl<'a, C: AgentCommands> Call<'a, C> {
    async fn attempt(self, at: Reached, start: Bytes) -> Result<TriggerResponse, CallError> {
        let (sender, receiver) = mpsc::unbounded_channel();
        // Its other end is here.
        let _ = sender.send(start);
        let Reached { replica, connection } = at;
        let requests = self.shared.request(&replica, UnboundedReceiverStream::new(receiver), self.deadline)?;
        let opened = connection.open::<TriggerStreamResponse>(PATH, requests, self.shared.message_bytes).await;
        let (headers, mut messages) = opened.map_err(|failed| replica.error(*failed))?;
        let error = |status: Status, headers: MetadataMap| replica.error((status, headers));

        let mut running = Running(Vec::new());
        let answer = loop {
            let message = tokio::select! {
                biased;
                message = messages.message() => message,
                result = running.next() => {
                    // Fails where the stream has broken, which its other side then says.
                    let _ = sender.send(encoded(Sent::CommandResult(result)));
                    continue;
                }
            };
            match message {
                Err(status) => return Err(error(status, headers)),
                Ok(None) => return Err(CallError::not_understood("the stream ended without one")),
                Ok(Some(TriggerStreamResponse { message: None })) => {
                    return Err(CallError::not_understood("a message that this client does not know"));
                }
                Ok(Some(TriggerStreamResponse { message: Some(came) })) => match came {
                    Came::Response(answer) => break answer,
                    Came::NeedFiles(need) => {
                        let _ = sender.send(encoded(Sent::Files(self.files(&need))));
                    }
                    Came::CancelCommand(cancel) => running.end(cancel.command_id),
                    Came::RunCommand(message) => {
                        self.has_run.store(true, Ordering::Relaxed);
                        let (side, request, deadline) = (self.side, self.request, self.deadline);
                        let (id, detached) = (message.command_id, message.detached);
                        let command = Asked { message, request, deadline };
                        match detached {
                            // At once: the answer may be the next message, and ends all else.
                            true => run_detached(side, command),
                            false => running.0.push((id, Box::pin(run(side, command)))),
                        }
                    }
                },
            }
        };
        // Nobody waits for them any more.
        drop((running, sender));
        // The answer counts only with the status that follows it.
        match messages.message().await {
            Ok(None) => Ok(answer),
            Ok(Some(_)) => Err(CallError::not_understood("the stream goes on after it")),
            Err(status) => Err(error(status, headers)),
        }
    }

    /// Those of the files that hookd does not know which were offered, as far as it takes them.
    fn files(&self, need: &NeedFiles) -> RuleFiles {
        let mut files = Vec::<RuleFile>::new();
        let mut room = MAX_FILES_BYTES;
        for file in self.side.offers.iter().filter(|file| need.sha256.iter().any(|hash| hash == file.sha256())) {
            let bytes = file.content().len();
            let is_sent = files.iter().any(|sent| sent.sha256 == file.sha256());
            if !is_sent && bytes <= MAX_FILE_BYTES.min(room) {
                room = room.saturating_sub(bytes);
                files.push(RuleFile { sha256: file.sha256().to_owned(), content: file.content().to_vec() });
            }
        }
        RuleFiles { files }
    }
}

impl Running<'_> {
    /// The result of the next command that ends. Never, where none runs.
    async fn next(&mut self) -> CommandResult {
        poll_fn(|context| {
            let mut place = 0;
            while let Some((_, command)) = self.0.get_mut(place) {
                match command.as_mut().poll(context) {
                    Poll::Pending => place = place.saturating_add(1),
                    Poll::Ready(result) => {
                        drop(self.0.swap_remove(place));
                        return Poll::Ready(result);
                    }
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Kills a command.
    fn end(&mut self, command_id: u32) {
        self.0.retain(|(id, _)| *id != command_id);
    }
}

fn encoded(message: Sent) -> Bytes {
    Bytes::from(TriggerStreamRequest { message: Some(message) }.encode_to_vec())
}
