//! Calls with a deadline, over reused connections, tried again only where nobody answered.

#[cfg(feature = "agent-commands")]
mod stream;

use std::{
    collections::HashMap,
    fmt,
    hash::{BuildHasher as _, RandomState},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use prost::{Message, bytes::Bytes};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::{
    Address, AddressError, CallError, CallErrorKind, Credentials, Gate, OnUnavailable, Session,
    credentials::{Token, addresses_of_environment},
    dial::{Dialer, KeepAlive},
    peer::Peer,
    proto::{
        ExplainRequest, ExplainResponse, GetStatusRequest, GetStatusResponse, ListRulesRequest, ListRulesResponse,
        ReloadRequest, ReloadResponse, TriggerRequest, TriggerResponse,
    },
    tls::Tls,
};

const DEFAULT_DEADLINE: Duration = Duration::from_secs(30);
const DEFAULT_MESSAGE_BYTES: usize = 4 * 1024 * 1024;
const DEFAULT_ROUNDS: u32 = 5;
const DEFAULT_KEEP_ALIVE: KeepAlive = KeepAlive { interval: Duration::from_secs(20), timeout: Duration::from_secs(10) };
/// The wait before the second round; it doubles from round to round up to the longest.
const FIRST_BACK_OFF: Duration = Duration::from_millis(50);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(1);

/// A client of one hookd, or of several that have the same rules. Cheap to clone; clones share their connections.
///
/// Connections are made when they are first needed, on the tokio runtime of that call, and stay on it: keep one
/// client for one runtime.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

/// Builds a [`Client`].
#[derive(Debug, Clone)]
pub struct ClientBuilder {
    addresses: Vec<Address>,
    on_unavailable: OnUnavailable,
    deadline: Duration,
    rounds: u32,
    message_bytes: usize,
    credentials: Credentials,
}

struct Shared {
    peers: Vec<Peer>,
    dialer: Arc<Dialer>,
    token: Option<Token>,
    /// The peer that is asked first: a random one, then the next whenever it does not answer. Counts on, modulo.
    current: AtomicUsize,
    on_unavailable: OnUnavailable,
    deadline: Duration,
    rounds: u32,
    message_bytes: usize,
}

impl Client {
    /// A client as the environment says it, by [`variables`](crate::variables): where hookd listens, and the files of its
    /// [`Credentials`]. Does not connect yet.
    ///
    /// # Errors
    /// [`AddressError`] for what is not an address, and for files that do not fit the addresses.
    pub fn from_environment(on_unavailable: OnUnavailable) -> Result<Self, AddressError> {
        let builder = Self::builder(addresses_of_environment()?, on_unavailable);
        builder.credentials(Credentials::of_environment()).build()
    }

    /// A client of the hookd at these addresses: `host:port`, `http://host:port`, `https://host:port`, `unix:/path`, or
    /// several with commas between them. Shows no credentials. Does not connect yet.
    ///
    /// # Errors
    /// [`AddressError`] for what is not an address.
    pub fn connect_lazy(addresses: &str, on_unavailable: OnUnavailable) -> Result<Self, AddressError> {
        Self::builder(Address::parse_list(addresses)?, on_unavailable).build()
    }

    /// As [`Client::connect_lazy`], with more to set.
    #[must_use]
    pub fn builder(addresses: Vec<Address>, on_unavailable: OnUnavailable) -> ClientBuilder {
        ClientBuilder {
            addresses,
            on_unavailable,
            deadline: DEFAULT_DEADLINE,
            rounds: DEFAULT_ROUNDS,
            message_bytes: DEFAULT_MESSAGE_BYTES,
            credentials: Credentials::default(),
        }
    }

    /// The everyday calls of one agent session.
    #[must_use]
    pub fn session(&self, id: impl Into<String>) -> Session {
        Session::new(self.clone(), id.into())
    }

    /// Asks about one event and says what to do now.
    pub async fn trigger(&self, request: TriggerRequest) -> Gate {
        self.gate(&request, self.call(&request).await)
    }

    fn gate(&self, request: &TriggerRequest, answer: Result<TriggerResponse, CallError>) -> Gate {
        match answer {
            Ok(answer) => Gate::of_answer(&request.event, answer),
            Err(error) => {
                let tool = request.tool_call.as_ref().map(|call| call.tool.as_str());
                Gate::of_error(&request.event, tool, error, &self.shared.on_unavailable)
            }
        }
    }

    /// Asks about one event and gives the bare answer, to look at. To act on it, take [`Client::trigger`]: it knows
    /// what to do with verdicts that are not known and answers that do not come.
    ///
    /// # Errors
    /// [`CallError`] where there is no answer.
    pub async fn call(&self, request: &TriggerRequest) -> Result<TriggerResponse, CallError> {
        self.shared.unary("/hookd.v1.HookService/Trigger", request).await
    }

    /// Says what runs: version, revision, sources and their state.
    ///
    /// # Errors
    /// [`CallError`] where there is no answer.
    pub async fn status(&self) -> Result<GetStatusResponse, CallError> {
        self.shared.unary("/hookd.v1.AdminService/GetStatus", &GetStatusRequest {}).await
    }

    /// Lists the rules of `event`, or every rule if it is empty, in evaluation order.
    ///
    /// # Errors
    /// [`CallError`] where there is no answer.
    pub async fn list_rules(&self, event: impl Into<String>) -> Result<ListRulesResponse, CallError> {
        self.shared.unary("/hookd.v1.AdminService/ListRules", &ListRulesRequest { event: event.into() }).await
    }

    /// Says for every rule of the event whether it would run, and why, for a caller with these verified labels; without
    /// any for whoever asks. Starts no handler.
    ///
    /// # Errors
    /// [`CallError`] where there is no answer.
    pub async fn explain(
        &self,
        trigger: TriggerRequest,
        labels: HashMap<String, String>,
    ) -> Result<ExplainResponse, CallError> {
        let request = ExplainRequest { trigger: Some(trigger), labels };
        self.shared.unary("/hookd.v1.AdminService/Explain", &request).await
    }

    /// Makes hookd read its rules again. What was refused is in the answer.
    ///
    /// # Errors
    /// [`CallError`] where there is no answer.
    pub async fn reload(&self) -> Result<ReloadResponse, CallError> {
        self.shared.unary("/hookd.v1.AdminService/Reload", &ReloadRequest {}).await
    }
}

/// Names the addresses.
impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses = self.shared.peers.iter().map(Peer::address).collect::<Vec<_>>();
        f.debug_struct("Client").field("addresses", &addresses).finish_non_exhaustive()
    }
}

impl ClientBuilder {
    /// How long a call may take, tries and waits included. It is also what hookd shares out among handlers (up to its
    /// own `limits.max_deadline`). 30 s unless set.
    #[must_use]
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    /// How often the list of addresses is gone through at most while nobody answers, within the deadline; from 1. The
    /// wait between two rounds starts at 50 ms and doubles up to 1 s. 5 unless set.
    #[must_use]
    pub fn rounds(self, rounds: u32) -> Self {
        Self { rounds: rounds.max(1), ..self }
    }

    /// Limit on the size of a request and of an answer, in bytes. A larger one blocks where the event can. 4 MiB
    /// unless set, which is also what hookd takes unless it is set otherwise.
    #[must_use]
    pub fn message_bytes(self, bytes: usize) -> Self {
        Self { message_bytes: bytes, ..self }
    }

    /// What is shown to hookd, and by what hookd is known. Nothing, and what this system trusts, unless set.
    #[must_use]
    pub fn credentials(self, credentials: Credentials) -> Self {
        Self { credentials, ..self }
    }

    /// The client. Does not connect yet, and does not read the files of its credentials yet.
    ///
    /// # Errors
    /// [`AddressError`] where there is no address, or the credentials do not fit the addresses
    /// ([`Credentials::check`]).
    pub fn build(self) -> Result<Client, AddressError> {
        if self.addresses.is_empty() {
            return Err(AddressError::Empty);
        }
        self.credentials.check(&self.addresses)?;
        let shared = Shared {
            current: AtomicUsize::new(usize::try_from(random() >> 33).unwrap_or_default()),
            peers: self.addresses.into_iter().map(Peer::new).collect(),
            token: self.credentials.token_file.clone().map(Token::new),
            dialer: Arc::new(Dialer::new(Tls::new(self.credentials), DEFAULT_KEEP_ALIVE)),
            on_unavailable: self.on_unavailable,
            deadline: self.deadline,
            rounds: self.rounds,
            message_bytes: self.message_bytes,
        };
        Ok(Client { shared: Arc::new(shared) })
    }
}

impl Shared {
    async fn unary<A: Message + Default + 'static>(
        &self,
        path: &'static str,
        request: &impl Message,
    ) -> Result<A, CallError> {
        let request = self.encoded(request)?;
        self.ask(|peer, deadline| self.attempt(peer, path, &request, deadline), || true).await
    }

    fn encoded(&self, request: &impl Message) -> Result<Bytes, CallError> {
        let bytes = request.encoded_len();
        if bytes > self.message_bytes {
            return Err(CallError::too_large(bytes, self.message_bytes));
        }
        Ok(Bytes::from(request.encode_to_vec()))
    }

    /// Makes one attempt after another within the deadline while nobody answers, and while one more does no harm.
    async fn ask<'s, A, F: Future<Output = Result<A, CallError>>>(
        &'s self,
        attempt: impl Fn(&'s Peer, Instant) -> F,
        may_repeat: impl Fn() -> bool,
    ) -> Result<A, CallError> {
        let deadline = Instant::now().checked_add(self.deadline).unwrap_or_else(far_away);
        let mut failures = Failures::default();
        for round in 0..self.rounds {
            if round > 0 && !wait(round, deadline).await {
                break;
            }
            let mut may_be_back = false;
            for _ in &self.peers {
                let asked = self.current.load(Ordering::Relaxed);
                let Some(peer) = asked.checked_rem(self.peers.len()).and_then(|at| self.peers.get(at)) else { break };
                let error = match timeout_at(deadline, attempt(peer, deadline)).await {
                    Ok(Ok(answer)) => return Ok(answer),
                    Ok(Err(error)) if error.kind != CallErrorKind::DeadlineExceeded || error.decision_id.is_some() => {
                        error
                    }
                    Ok(Err(_)) | Err(_) => {
                        return Err(failures.late(&peer.address().to_string(), self.deadline));
                    }
                };
                let is_unanswered = matches!(error.kind, CallErrorKind::Unavailable | CallErrorKind::NotTrusted);
                if !is_unanswered || !may_repeat() {
                    return Err(error);
                }
                may_be_back |= error.kind == CallErrorKind::Unavailable;
                // Another call may have moved on already.
                let next = asked.wrapping_add(1);
                let _ = self.current.compare_exchange(asked, next, Ordering::Relaxed, Ordering::Relaxed);
                failures.add(error);
            }
            if !may_be_back {
                break;
            }
        }
        Err(failures.unanswered(self.deadline, &self.peers))
    }

    async fn attempt<A: Message + Default + 'static>(
        &self,
        peer: &Peer,
        path: &'static str,
        request: &Bytes,
        deadline: Instant,
    ) -> Result<A, CallError> {
        let request = self.request(peer, request.clone(), deadline)?;
        let connection = peer.connection(&self.dialer).await?;
        connection.call(path, request, self.message_bytes).await.map_err(|failed| peer.error(*failed))
    }

    /// A request as `peer` gets it: with the time that is left, and with the token.
    fn request<T>(&self, peer: &Peer, message: T, deadline: Instant) -> Result<tonic::Request<T>, CallError> {
        let mut request = tonic::Request::new(message);
        request.set_timeout(deadline.saturating_duration_since(Instant::now()));
        if let Some(token) = &self.token {
            let header = token.header();
            let header =
                header.map_err(|error| CallError::not_trusted(&error.to_string(), &peer.address().to_string()))?;
            request.metadata_mut().insert("authorization", header);
        }
        Ok(request)
    }
}

/// What the attempts of one call met.
#[derive(Default)]
struct Failures {
    /// The last of those after which nobody knows whether hookd would let the call be.
    last: Option<CallError>,
    /// The last where the two ends do not trust each other. It counts more: what blocks must not turn into what
    /// [`OnUnavailable`] lets go by another server being away.
    untrusted: Option<CallError>,
}

impl Failures {
    fn add(&mut self, error: CallError) {
        let place = if error.kind == CallErrorKind::NotTrusted { &mut self.untrusted } else { &mut self.last };
        *place = Some(error);
    }

    fn most(self) -> Option<CallError> {
        self.untrusted.or(self.last)
    }

    /// There is no time left.
    fn late(self, at: &str, granted: Duration) -> CallError {
        let last = self.most();
        let late = CallError::deadline(at, granted, last.as_ref());
        match last {
            Some(CallError { kind: CallErrorKind::NotTrusted, code, .. }) => {
                CallError { kind: CallErrorKind::NotTrusted, code, ..late }
            }
            _ => late,
        }
    }

    /// All attempts are made.
    fn unanswered(self, granted: Duration, tried: &[Peer]) -> CallError {
        let mut error = self.most().unwrap_or_else(|| CallError::deadline("any address", granted, None));
        if tried.len() > 1 {
            let tried = tried.iter().map(|peer| peer.address().to_string()).collect::<Vec<_>>();
            error.message.push_str(&format!("; tried {}", tried.join(", ")));
        }
        error
    }
}

/// Waits before `round` (from 1), between half of its back-off and all of it. `false`: the deadline is nearer.
async fn wait(round: u32, deadline: Instant) -> bool {
    let doubling = 1_u32.checked_shl(round.saturating_sub(1)).unwrap_or(u32::MAX);
    let longest = FIRST_BACK_OFF.saturating_mul(doubling).min(LONGEST_BACK_OFF);
    #[expect(clippy::cast_precision_loss, reason = "a share of a wait")]
    let share = random() as f64 / u64::MAX as f64;
    match Instant::now().checked_add(longest.mul_f64(share.midpoint(1.0))) {
        Some(until) if until < deadline => {
            sleep_until(until).await;
            true
        }
        _ => false,
    }
}

/// Good enough to spread clients; the standard library's hash keys are random.
fn random() -> u64 {
    RandomState::new().hash_one(0)
}

fn far_away() -> Instant {
    let now = Instant::now();
    now.checked_add(Duration::from_secs(60 * 60 * 24 * 365)).unwrap_or(now)
}
