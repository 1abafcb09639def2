//! `TriggerStream`: the evaluation of [`super::TriggerService`], for a caller that runs commands. What a
//! caller does wrong costs only what it would have run itself: from then on its commands fail, and the evaluation ends
//! with its answer all the same.

mod cache;
mod offers;
mod turns;
mod wire;

use std::{future::pending, panic::AssertUnwindSafe, sync::Arc};

use futures_util::FutureExt as _;
use hookd_proto::v1::{
    self, StreamStart, trigger_stream_request::Message as Came, trigger_stream_response::Message as Sent,
};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout_at},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Status, Streaming, codegen::BoxStream, metadata::MetadataMap};
use tracing::error;

pub(super) use self::offers::Offers;
use self::{cache::Owner, offers::Gathered};
use super::{Begun, TriggerService, deadline};
use crate::{
    evaluate::evaluate_with_offered,
    rpc::status::{NotJudged, Violation, reason},
    run::{
        Handlers,
        remote::{Link, Outgoing, Remote, RemoteBounds},
    },
    telemetry::call::{Call, Kept, Lasting, Peer},
};

/// What the stream's own message and the revision of what was offered add to an answer, in bytes.
const ENVELOPE: usize = 64;

/// Both directions of one stream.
pub(super) struct Wires<'s> {
    incoming: &'s mut Streaming<v1::TriggerStreamRequest>,
    outgoing: &'s mpsc::Sender<Result<v1::TriggerStreamResponse, Status>>,
    /// The caller says nothing more that counts.
    is_hung_up: bool,
}

/// A call of which everything that its caller brings is there.
struct Opened {
    begun: Begun,
    gathered: Gathered,
}

/// Opens the stream. Everything else happens beside it, and ends when its other end is dropped.
pub(super) fn open<H: Handlers>(
    service: TriggerService<H>,
    request: Request<Streaming<v1::TriggerStreamRequest>>,
) -> BoxStream<v1::TriggerStreamResponse> {
    let (metadata, mut extensions, mut incoming) = request.into_parts();
    let call = extensions.get::<Call>().cloned().unwrap_or_else(|| Call::arriving(Peer::Remote(None)));
    let lasting = extensions.remove::<Lasting>().unwrap_or_default();
    let (outgoing, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let recorder = Arc::clone(&service.recorder);
        let end = end_of(&service, &call, &metadata);
        let mut place = None;
        let judged = async {
            let wires = Wires { incoming: &mut incoming, outgoing: &outgoing, is_hung_up: false };
            match end.clone() {
                Ok(end) => judge(&service, &call, &metadata, wires, end, &lasting, &mut place).await,
                Err(not_judged) => Err(not_judged),
            }
        };
        let last = tokio::select! {
            biased;
            // The caller has gone: what runs for it ends here.
            () = outgoing.closed() => None,
            // What comes of handlers that are killed at the cut is no answer.
            () = lasting.cutting.cancelled() => Some(Err(NotJudged::Stopping)),
            judged = AssertUnwindSafe(judged).catch_unwind() => Some(judged.unwrap_or_else(|_| {
                error!(decision_id = %call.decision_id, "a call panicked");
                Err(NotJudged::Internal)
            })),
        };
        let last = match last {
            None => return recorder.refused(&call, Code::Cancelled, String::new),
            Some(Ok(answer)) => Ok(wire::response(Sent::Response(answer))),
            Some(Err(not_judged)) => {
                let status = not_judged.into_status(&call.decision_text());
                recorder.refused(&call, status.code(), || reason(&status));
                Err(status)
            }
        };
        // A caller that does not read must not hold its place longer than its call may take.
        let end = end.unwrap_or_else(|_| Instant::now());
        let _ = timeout_at(end, outgoing.send(last)).await;
        drop((lasting, place));
    });
    Box::pin(ReceiverStream::new(receiver))
}

fn end_of<H>(service: &TriggerService<H>, call: &Call, metadata: &MetadataMap) -> Result<Instant, NotJudged> {
    let deadline = deadline(metadata)?.unwrap_or(service.bounds.default_deadline).min(service.bounds.max_deadline);
    Ok(call.arrived.checked_add(deadline).unwrap_or(call.arrived))
}

async fn judge<H: Handlers>(
    service: &TriggerService<H>,
    call: &Call,
    metadata: &MetadataMap,
    mut wires: Wires<'_>,
    end: Instant,
    lasting: &Lasting,
    place: &mut Option<Kept>,
) -> Result<v1::TriggerResponse, NotJudged> {
    let opened = opened(service, call, metadata, &mut wires, end);
    let Opened { begun, gathered } = match &lasting.threshold {
        None => opened.await?,
        // INVARIANT: a place is taken only when nothing of the caller's is waited for any more but results of commands.
        Some(threshold) => {
            let opened = tokio::select! {
                biased;
                opened = opened => opened?,
                () = threshold.gives_way().cancelled() => {
                    service.recorder.shed();
                    return Err(NotJudged::Shed);
                }
            };
            *place = Some(threshold.pass()?);
            opened
        }
    };
    let bounds =
        RemoteBounds { output_bytes: service.bounds.output_bytes, message_bytes: service.bounds.message_bytes };
    let link = Arc::new(Link::new());
    let (handlers, slots) = (Arc::clone(&service.handlers), Arc::clone(&service.slots));
    let remote = Remote::new(handlers, Arc::clone(&link), gathered.origins, bounds, slots);
    let evaluation =
        Box::pin(evaluate_with_offered(&remote, &begun.policy, gathered.brought, &begun.trigger, begun.budget));
    let decision = wires.carry(&link, bounds.output(), evaluation).await;
    // Those that nobody waits for are started before the answer, which is the last message.
    while let Some(outgoing) = link.take() {
        if matches!(outgoing, Outgoing::Run { detached: true, .. }) {
            let _ = timeout_at(end, wires.send(wire::outgoing(outgoing))).await;
        }
    }
    let limit = service.bounds.message_bytes.saturating_sub(ENVELOPE);
    let answer = service.answer(call, &begun, decision, limit).await;
    Ok(v1::TriggerResponse { offered_revision: gathered.revision, ..answer })
}

/// Waits for all that the caller brings: the event, and the files that are not known here.
async fn opened<H: Handlers>(
    service: &TriggerService<H>,
    call: &Call,
    metadata: &MetadataMap,
    wires: &mut Wires<'_>,
    end: Instant,
) -> Result<Opened, NotJudged> {
    let first = timeout_at(end, wires.first(service.bounds.message_bytes)).await;
    let StreamStart { trigger, offered } = first.map_err(|_| NotJudged::TooSlow)??;
    let request = trigger.ok_or_else(|| invalid("start.trigger", "is missing, the event is needed"))?;
    let offered = offers::parse(offered)?;
    let traceparent = metadata.get("traceparent").and_then(|header| header.to_str().ok());
    let left = end.saturating_duration_since(call.arrived);
    let begun = service.begin(call, left, traceparent, request)?;
    let Begun { trigger, policy, .. } = &begun;
    let offered = offers::not_in_force(offered, call.peer, policy.catalog(), trigger.identity.labels.as_slice());
    let owner = Owner { peer: call.peer, identity: Arc::clone(&trigger.identity) };
    let gathered = service.offers.gather(&owner, &offered, &policy.catalog().settings, wires, end).await;
    Ok(Opened { begun, gathered })
}

impl Wires<'_> {
    /// The first message.
    async fn first(&mut self, message_bytes: usize) -> Result<StreamStart, NotJudged> {
        match self.incoming.message().await {
            Ok(Some(v1::TriggerStreamRequest { message: Some(Came::Start(start)) })) => Ok(start),
            Ok(Some(_)) => Err(invalid("message", "the first message must be `start`")),
            Ok(None) => Err(invalid("start", "is missing, the stream ended before it")),
            Err(status) => match status.code() {
                // What the codec says of a message over the limit, before and after decompression.
                Code::OutOfRange | Code::ResourceExhausted => Err(NotJudged::TooLarge(message_bytes)),
                _ => Err(invalid("request", &format!("is not a message: {}", status.message()))),
            },
        }
    }

    /// The next message that counts. `None`: there will be none.
    pub(super) async fn receive(&mut self) -> Option<Came> {
        if self.is_hung_up {
            return None;
        }
        let message = message(self.incoming).await;
        self.is_hung_up |= message.is_none();
        message
    }

    /// Listens no more.
    pub(super) fn hang_up(&mut self) {
        self.is_hung_up = true;
    }

    /// Sends a message as soon as the caller takes it. Never, where it has gone.
    pub(super) async fn send(&self, message: v1::TriggerStreamResponse) {
        if self.outgoing.send(Ok(message)).await.is_err() {
            pending::<()>().await;
        }
    }

    /// Carries commands and their results between an evaluation and the caller until the evaluation has ended.
    async fn carry<T>(&mut self, link: &Link, output_bytes: usize, evaluation: impl Future<Output = T> + Unpin) -> T {
        let mut evaluation = evaluation;
        let mut room = None;
        loop {
            if self.is_hung_up {
                link.close();
            }
            tokio::select! {
                biased;
                ended = &mut evaluation => return ended,
                message = message(self.incoming), if !self.is_hung_up => match message {
                    Some(Came::CommandResult(result)) => {
                        link.ended(result.command_id, wire::ended(result, output_bytes));
                    }
                    Some(Came::Start(_) | Came::Files(_)) | None => self.is_hung_up = true,
                },
                permit = self.outgoing.reserve(), if room.is_none() => match permit {
                    Ok(permit) => room = Some(permit),
                    // It has gone; whoever waits for that ends this.
                    Err(_) => pending::<()>().await,
                },
                outgoing = link.next(), if room.is_some() => {
                    if let Some(room) = room.take() {
                        room.send(Ok(wire::outgoing(outgoing)));
                    }
                }
            }
        }
    }
}

/// The next message. `None`: the caller ended its side, sent what is no message of ours, or the stream broke; if that
/// was the connection, the other direction says so too.
async fn message(incoming: &mut Streaming<v1::TriggerStreamRequest>) -> Option<Came> {
    incoming.message().await.ok().flatten()?.message
}

fn invalid(field: &str, description: &str) -> NotJudged {
    NotJudged::Invalid(vec![Violation { field: field.to_owned(), description: description.to_owned() }])
}
