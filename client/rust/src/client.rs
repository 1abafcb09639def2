//! Calls with a deadline, over reused connections, tried again only where nobody answered.

#[cfg(feature = "agent-commands")]
mod stream;

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use prost::{Message, bytes::Bytes};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::{
    Address, AddressError, CallError, CallErrorKind, Credentials, Gate, OnUnavailable, Resolve, Session,
    back_off::back_off,
    credentials::{Token, addresses_of_environment},
    dial::{Dialer, KeepAlive},
    failures::Failures,
    fleet::Fleet,
    proto::{
        ExplainRequest, ExplainResponse, GetStatusRequest, GetStatusResponse, ListRulesRequest, ListRulesResponse,
        ReloadRequest, ReloadResponse, TriggerRequest, TriggerResponse,
    },
    replica::Replica,
    resolve::System,
    tls::Tls,
    transport::Connection,
};

const DEFAULT_DEADLINE: Duration = Duration::from_secs(30);
const DEFAULT_MESSAGE_BYTES: usize = 4 * 1024 * 1024;
const DEFAULT_ROUNDS: u32 = 5;
const DEFAULT_KEEP_ALIVE: KeepAlive = KeepAlive { interval: Duration::from_secs(10), timeout: Duration::from_secs(5) };
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
#[derive(Clone)]
pub struct ClientBuilder {
    addresses: Vec<Address>,
    on_unavailable: OnUnavailable,
    deadline: Duration,
    rounds: u32,
    message_bytes: usize,
    credentials: Credentials,
    keep_alive: KeepAlive,
    resolver: Arc<dyn Resolve>,
}

struct Shared {
    fleet: Arc<Fleet>,
    token: Option<Token>,
    on_unavailable: OnUnavailable,
    deadline: Duration,
    rounds: u32,
    message_bytes: usize,
}

/// A replica that is asked, over a connection that it has.
struct Reached {
    replica: Arc<Replica>,
    connection: Connection,
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
            keep_alive: DEFAULT_KEEP_ALIVE,
            resolver: Arc::new(System),
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
        f.debug_struct("Client").field("addresses", &self.shared.fleet.addresses()).finish_non_exhaustive()
    }
}

/// Names addresses and files.
impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("addresses", &self.addresses)
            .field("on_unavailable", &self.on_unavailable)
            .field("credentials", &self.credentials)
            .finish_non_exhaustive()
    }
}

impl ClientBuilder {
    /// How long a call may take, tries and waits included. It is also what hookd shares out among handlers (up to its
    /// own `limits.max_deadline`). 30 s unless set.
    #[must_use]
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    /// How often all replicas are gone through at most while nobody answers, within the deadline; from 1. The
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

    /// A connection with calls in flight on which nothing has come for `interval` is asked for a sign of life, and is
    /// given up where none comes within `timeout`; its calls go to other replicas while they have time. 10 s and 5 s unless
    /// set. Too short a time gives up servers that are merely busy.
    #[must_use]
    pub fn keep_alive(self, interval: Duration, timeout: Duration) -> Self {
        Self { keep_alive: KeepAlive { interval, timeout }, ..self }
    }

    /// Who looks up the names among the addresses. The system unless set.
    #[must_use]
    pub fn resolver(self, resolver: impl Resolve + 'static) -> Self {
        Self { resolver: Arc::new(resolver), ..self }
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
        let token = self.credentials.token_file.clone().map(Token::new);
        let dialer = Dialer::new(Tls::new(self.credentials), self.keep_alive);
        let shared = Shared {
            fleet: Arc::new(Fleet::new(self.addresses, self.resolver, dialer)),
            token,
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
        self.ask(|at, deadline| self.attempt(at, path, &request, deadline), || true).await
    }

    fn encoded(&self, request: &impl Message) -> Result<Bytes, CallError> {
        let bytes = request.encoded_len();
        if bytes > self.message_bytes {
            return Err(CallError::too_large(bytes, self.message_bytes));
        }
        Ok(Bytes::from(request.encode_to_vec()))
    }

    /// Makes one attempt after another within the deadline while nobody answers, and while one more does no harm.
    async fn ask<A, F: Future<Output = Result<A, CallError>>>(
        &self,
        attempt: impl Fn(Reached, Instant) -> F,
        may_repeat: impl Fn() -> bool,
    ) -> Result<A, CallError> {
        let fleet = &self.fleet;
        let deadline = Instant::now().checked_add(self.deadline).unwrap_or_else(far_away);
        let mut failures = Failures::default();
        let mut names = Vec::new();
        let mut last_round = None;
        for round in 0..self.rounds {
            if round > 0 && !wait(round, deadline).await {
                break;
            }
            // Those who were asked in vain may not be there any more.
            let Ok(known) = timeout_at(deadline, fleet.known(last_round)).await else {
                let all = fleet.addresses().iter().map(ToString::to_string).collect::<Vec<_>>();
                return Err(failures.late(&all.join(", "), self.deadline));
            };
            last_round = Some(Instant::now());
            known.unresolved.iter().cloned().for_each(|error| failures.add(error));
            let mut tried = Vec::new();
            loop {
                let reached = timeout_at(deadline, fleet.reach(&known, &mut tried, &mut failures)).await;
                let Ok(reached) = reached else {
                    return Err(failures.late(&known.names(fleet.addresses()).join(", "), self.deadline));
                };
                let Some((replica, connection)) = reached else { break };
                let at = Reached { replica: Arc::clone(&replica), connection: connection.clone() };
                let error = match timeout_at(deadline, attempt(at, deadline)).await {
                    Ok(Ok(answer)) => {
                        replica.has_answered();
                        return Ok(answer);
                    }
                    Ok(Err(error)) if error.kind != CallErrorKind::DeadlineExceeded || error.decision_id.is_some() => {
                        error
                    }
                    Ok(Err(_)) | Err(_) => {
                        replica.was_silent(&connection);
                        return Err(failures.late(replica.name(), self.deadline));
                    }
                };
                if error.kind == CallErrorKind::Unavailable {
                    replica.has_failed(&connection);
                    fleet.has_lost(&known);
                }
                let is_unanswered = matches!(error.kind, CallErrorKind::Unavailable | CallErrorKind::NotTrusted);
                if !is_unanswered || !may_repeat() {
                    return Err(error);
                }
                failures.add(error);
                tried.push(replica);
            }
            names = known.names(fleet.addresses());
            if !failures.may_pass() {
                break;
            }
        }
        Err(failures.unanswered(self.deadline, &names))
    }

    async fn attempt<A: Message + Default + 'static>(
        &self,
        at: Reached,
        path: &'static str,
        request: &Bytes,
        deadline: Instant,
    ) -> Result<A, CallError> {
        let request = self.request(&at.replica, request.clone(), deadline)?;
        let answer = at.connection.call(path, request, self.message_bytes).await;
        answer.map_err(|failed| at.replica.error(*failed))
    }

    /// A request as `replica` gets it: with the time that is left, and with the token.
    fn request<T>(&self, replica: &Replica, message: T, deadline: Instant) -> Result<tonic::Request<T>, CallError> {
        let mut request = tonic::Request::new(message);
        request.set_timeout(deadline.saturating_duration_since(Instant::now()));
        if let Some(token) = &self.token {
            let header = token.header();
            let header = header.map_err(|error| CallError::not_trusted(&error.to_string(), replica.name()))?;
            request.metadata_mut().insert("authorization", header);
        }
        Ok(request)
    }
}

/// Waits before `round` (from 1), between half of its back-off and all of it. `false`: the deadline is nearer.
async fn wait(round: u32, deadline: Instant) -> bool {
    let wait = back_off(FIRST_BACK_OFF, LONGEST_BACK_OFF, round.saturating_sub(1));
    match Instant::now().checked_add(wait) {
        Some(until) if until < deadline => {
            sleep_until(until).await;
            true
        }
        _ => false,
    }
}

fn far_away() -> Instant {
    let now = Instant::now();
    now.checked_add(Duration::from_secs(60 * 60 * 24 * 365)).unwrap_or(now)
}
