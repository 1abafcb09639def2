//! All handlers under one roof: those whose answer is waited for, and those in the background (law 6).

use std::{collections::HashMap, ffi::OsString, fmt, path::PathBuf, sync::Arc, time::Duration};

use hookd_rules::{Handler, Mode, RunOn};
use hookd_runner::Runner;
use tokio::{
    runtime::{Handle, TryCurrentError},
    sync::{Semaphore, TryAcquireError},
    time::{Instant, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    BulkheadSettings, Call, Handlers, Holding, HttpError, Job, Slots,
    bulkheads::Bulkheads,
    command::{Commands, Running, Started},
    decide,
    http::{Http, Post},
    input::{self, Asked},
    remote,
};
use crate::{
    model::{Failed, Failure, Ran, Rule, Trigger},
    telemetry::Secrets,
};

/// What handlers run with.
#[derive(Clone)]
pub struct PoolSettings {
    /// `PATH` of commands, and where they are looked up. Entries that are not absolute are left out.
    pub commands_path: String,
    /// How commands are held in.
    pub holding: Arc<Holding>,
    /// Size of one handler's output, in bytes.
    pub output_bytes: usize,
    /// Handlers in the background at a time.
    pub async_in_flight: usize,
    /// A file of authorities in PEM that https handlers trust besides the system's.
    pub http_ca: Option<PathBuf>,
    /// What keeps handlers and tenants from taking all places.
    pub bulkheads: BulkheadSettings,
    /// The environment of the server. Commands get a few variables of it, http handlers its proxies.
    pub environment: HashMap<OsString, OsString>,
}

impl fmt::Debug for PoolSettings {
    /// Without the environment, which holds secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolSettings")
            .field("commands_path", &self.commands_path)
            .field("output_bytes", &self.output_bytes)
            .field("async_in_flight", &self.async_in_flight)
            .field("http_ca", &self.http_ca)
            .field("bulkheads", &self.bulkheads)
            .finish_non_exhaustive()
    }
}

/// A pool that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// Its http client.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// There is no runtime to run handlers in.
    #[error("handlers need a runtime")]
    NoRuntime(#[from] TryCurrentError),
}

/// Runs command, http and decide handlers.
pub struct Pool {
    commands: Commands,
    http: Arc<Http>,
    bulkheads: Bulkheads,
    places: Arc<Semaphore>,
    /// Three quarters of them: no more are for the tiers below team.
    lower_places: Arc<Semaphore>,
    async_in_flight: usize,
    jobs: TaskTracker,
    cancel: CancellationToken,
    runtime: Handle,
    secrets: Secrets,
    ended: Arc<Ended>,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("background", &self.jobs.len()).finish_non_exhaustive()
    }
}

impl Pool {
    /// A pool that starts its programs with `runner`, knows the secrets that it hands out by `secrets`, and tells
    /// `ended` of every handler that ended in the background.
    ///
    /// # Errors
    /// [`PoolError`] where a proxy of the environment cannot be used, or outside of a runtime.
    pub fn new(
        settings: &PoolSettings,
        runner: Runner,
        secrets: Secrets,
        ended: impl Fn(&Arc<Rule>, &Trigger, &Ran) + Send + Sync + 'static,
    ) -> Result<Self, PoolError> {
        let PoolSettings { commands_path, holding, output_bytes, async_in_flight, http_ca, bulkheads, environment } =
            settings;
        let (output_bytes, holding) = (*output_bytes, Arc::clone(holding));
        Ok(Self {
            commands: Commands::new(runner, commands_path, holding, environment, output_bytes, secrets.clone()),
            http: Arc::new(Http::new(environment, http_ca.as_deref(), output_bytes, secrets.clone())?),
            bulkheads: Bulkheads::new(*bulkheads),
            places: places(*async_in_flight),
            lower_places: places(async_in_flight.saturating_sub(async_in_flight / 4)),
            async_in_flight: *async_in_flight,
            jobs: TaskTracker::new(),
            cancel: CancellationToken::new(),
            runtime: Handle::try_current()?,
            secrets,
            ended: Arc::new(ended),
        })
    }

    /// How many handlers run in the background.
    #[must_use]
    pub fn background(&self) -> usize {
        self.jobs.len()
    }

    /// Places for calls that wait for a handler: those of this pool, and those of others that run some.
    #[must_use]
    pub fn slots(&self) -> &Arc<Slots> {
        self.bulkheads.slots()
    }

    /// How many handlers are not asked right now because they do not answer.
    #[must_use]
    pub fn open_breakers(&self) -> usize {
        self.bulkheads.open_breakers()
    }

    /// Takes no more jobs, lets those in the background finish within `limit`, and then kills what is left; each end
    /// is logged and told. Then workers end, within what is left of `limit`: each after the call that it is at. Other
    /// runs whose answer is waited for are not touched.
    pub async fn shutdown(&self, limit: Duration) {
        let begun = Instant::now();
        self.places.close();
        self.jobs.close();
        if timeout(limit, self.jobs.wait()).await.is_err() {
            self.cancel.cancel();
            self.jobs.wait().await;
        }
        self.commands.end_workers(limit.saturating_sub(begun.elapsed())).await;
    }

    async fn ask(&self, call: Call<'_>) -> Result<Ran, Failed> {
        let Call { rule, trigger, form, recheck, granted } = call;
        if is_for_the_agent(rule) {
            return Err(remote::unsupported());
        }
        let own_timeout = match &rule.handler {
            Handler::Decide(decides) => return Ok(decide(rule, trigger, form, decides)),
            Handler::Command(handler) => handler.timeout,
            Handler::Http(handler) => handler.timeout,
        };
        let begun = Instant::now();
        let until = begun.checked_add(granted).unwrap_or(begun);
        let entered = self.bulkheads.enter(rule, &trigger.identity, until, granted).await?;
        let left = if entered.waited { until.saturating_duration_since(Instant::now()) } else { granted };
        let input = input::line(trigger, &Asked { rule, form, recheck, decision: None })?;
        let mut ran = match &rule.handler {
            Handler::Decide(decides) => decide(rule, trigger, form, decides),
            Handler::Command(handler) => {
                self.commands.run(Started { rule, trigger, handler, stdin: input }, left).await
            }
            Handler::Http(handler) => Box::pin(self.http.run(Post { rule, trigger, handler, body: input }, left)).await,
        };
        entered.ended(&ran, left >= own_timeout);
        if let Err(failed) = &mut ran.said
            && failed.kind == Failure::TimedOut
        {
            // What it was granted in all, the wait for its place included.
            *failed = Failed::timed_out(granted);
        }
        Ok(ran)
    }

    /// The run of a job, with its place among the children taken.
    fn start(&self, job: &Job) -> Result<Running, Failed> {
        let Job { rule, trigger, form, decision } = job;
        if is_for_the_agent(rule) {
            return Err(remote::unsupported());
        }
        let asked = Asked { rule, form, recheck: false, decision: decision.as_ref() };
        Ok(match &rule.handler {
            Handler::Command(handler) => {
                let stdin = input::line(trigger, &asked)?;
                self.commands.run_background(Started { rule, trigger, handler, stdin })?
            }
            Handler::Http(_) => {
                let body = input::line(trigger, &asked)?;
                let (http, rule, trigger) = (Arc::clone(&self.http), Arc::clone(rule), Arc::clone(trigger));
                Box::pin(async move {
                    let Handler::Http(handler) = &rule.handler else {
                        return Ran::said(Err(Failed::new(Failure::Internal, "not an http handler")));
                    };
                    http.run(Post { rule: &rule, trigger: &trigger, handler, body }, handler.timeout).await
                })
            }
            Handler::Decide(decides) => Box::pin(std::future::ready(decide(rule, trigger, form, decides))),
        })
    }
}

/// Whether the rule's handler is the caller's to run.
fn is_for_the_agent(rule: &Rule) -> bool {
    rule.run_on == RunOn::Agent && !matches!(rule.handler, Handler::Decide(_))
}

fn places(count: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(count.min(Semaphore::MAX_PERMITS)))
}

/// Is told of a handler that ended in the background.
type Ended = dyn Fn(&Arc<Rule>, &Trigger, &Ran) + Send + Sync;

impl Handlers for Pool {
    async fn run(&self, call: Call<'_>) -> Ran {
        self.ask(call).await.unwrap_or_else(|failed| Ran::said(Err(failed)))
    }

    fn queue(&self, job: Job) -> Result<(), Failed> {
        // Before the place: a shutdown that closes the places waits for everything that still got one.
        let token = self.jobs.token();
        let full = |places: usize| {
            let message = format!("too many handlers in the background: all {places} places are taken");
            Failed::new(Failure::Overloaded, message)
        };
        let lower = if job.rule.tier.is_central() {
            None
        } else {
            let of_lower = self.async_in_flight.saturating_sub(self.async_in_flight / 4);
            Some(Arc::clone(&self.lower_places).try_acquire_owned().map_err(|_| full(of_lower))?)
        };
        let place = match Arc::clone(&self.places).try_acquire_owned() {
            Ok(place) => place,
            Err(TryAcquireError::Closed) => return Err(super::cancelled()),
            Err(TryAcquireError::NoPermits) => return Err(full(self.async_in_flight)),
        };
        let entered = match job.rule.handler {
            Handler::Decide(_) => None,
            Handler::Command(_) | Handler::Http(_) => {
                Some(self.bulkheads.enter_background(&job.rule, &job.trigger.identity)?)
            }
        };
        let running = self.start(&job)?;
        let (cancel, ended, secrets) = (self.cancel.clone(), Arc::clone(&self.ended), self.secrets.clone());
        self.runtime.spawn(async move {
            let (_token, _lower, _place) = (token, lower, place);
            let started = Instant::now();
            let ran = tokio::select! {
                biased;
                ran = running => ran,
                () = cancel.cancelled() => {
                    Ran { elapsed: Some(started.elapsed()), ..Ran::said(Err(super::cancelled())) }
                }
            };
            if let Some(entered) = entered {
                entered.ended(&ran, true);
            }
            log(&job, &ran, &secrets);
            ended(&job.rule, &job.trigger, &ran);
        });
        Ok(())
    }
}

/// One line for each end, without outputs, a warning where it failed: nothing else says so where people look. For a
/// shadow rule it says what the rule would have given.
fn log(job: &Job, ran: &Ran, secrets: &Secrets) {
    let (outcome, failure) = match &ran.said {
        Ok(answer) => (answer.verdict.name(), None),
        Err(failed) => ("failed", Some(failed.kind.name())),
    };
    let Job { rule, trigger, .. } = job;
    macro_rules! line {
        ($level:ident) => {
            tracing::$level!(
                rule = &*rule.id,
                tier = rule.tier.name(),
                event = &*trigger.event_name,
                decision_id = trigger.decision_id,
                shadow = rule.mode == Mode::Shadow,
                outcome,
                failure,
                dropped = (!ran.dropped.is_empty()).then(|| secrets.mask(&ran.dropped)).as_deref(),
                exit_code = ran.exit_code,
                elapsed_ms = ran.elapsed.map(|elapsed| u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)),
                "handler in the background ended",
            )
        };
    }
    if failure.is_some() {
        line!(warn)
    } else {
        line!(info)
    }
    if let Err(failed) = &ran.said {
        tracing::debug!(rule = &*rule.id, decision_id = trigger.decision_id, why = %secrets.mask(&failed.message), "why it failed");
    }
}

#[cfg(test)]
mod tests;
