use std::{sync::Arc, time::Duration};

use hookd_runner::Runner;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use crate::{
    drain::{Drain, Readiness},
    run::Pool,
    settings::DrainSettings,
};

/// How long a connection without calls may take to answer GOAWAY before it counts as dead.
const DEAD_AFTER: Duration = Duration::from_secs(2);
/// How long answers of calls that were cut may take to get out.
const FLUSH: Duration = Duration::from_secs(2);

/// Everything that has to end before the process may.
pub(super) struct Leaving {
    pub(super) settings: DrainSettings,
    pub(super) readiness: Readiness,
    pub(super) drain: Drain,
    pub(super) open: TaskTracker,
    pub(super) pool: Arc<Pool>,
    pub(super) runner: Runner,
}

impl Leaving {
    /// Readiness off, the minimum delay, GOAWAY, calls finish, handlers in the background finish; at the limit what is
    /// left is cut and killed.
    pub(super) async fn leave(self) {
        let _not_ready = self.readiness.wait_for("shutdown");
        info!("leaving: not ready any more");
        sleep(self.settings.min_delay).await;

        let end = Instant::now().checked_add(self.settings.limit).unwrap_or_else(Instant::now);
        self.drain.close();
        self.open.close();
        let cut = tokio::select! {
            () = self.open.wait() => false,
            () = self.only_dead_connections_are_left() => false,
            () = sleep_until(end) => true,
        };
        if cut {
            warn!("the drain limit is over: cutting the calls that are left");
        }
        // Also where none is left: one that still comes in is told so too.
        self.drain.cut();
        if cut {
            let _ = timeout(FLUSH, self.open.wait()).await;
        }
        self.pool.shutdown(end.saturating_duration_since(Instant::now())).await;
        let left = self.runner.shutdown(Duration::ZERO).await;
        if left > 0 {
            warn!(processes = left, "child processes could not be killed");
        }
        info!(cut, "left");
    }

    /// Waits until no call runs and those who hold a connection had time to answer GOAWAY: a connection on which
    /// nothing was ever sent, or whose peer is gone, must not hold the process.
    async fn only_dead_connections_are_left(&self) {
        self.drain.idle().await;
        sleep(DEAD_AFTER).await;
        // A call that came in meanwhile.
        self.drain.idle().await;
    }
}
