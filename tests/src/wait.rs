//! Waiting for something real, and never for ever.

use std::{future::Future, time::Duration};

use tokio::time::{Instant, sleep, timeout};

/// Long enough for anything that ends at all, on any machine.
pub const GENEROUS: Duration = Duration::from_secs(60);

/// Looks again and again until `look` finds something.
///
/// # Panics
/// It finds nothing within [`GENEROUS`]; `what` says what was looked for.
pub async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(begun.elapsed() < GENEROUS, "not within {GENEROUS:?}: {what}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// What `future` gives.
///
/// # Panics
/// It gives nothing within [`GENEROUS`]; `what` says what was waited for.
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    timeout(GENEROUS, future).await.unwrap_or_else(|_| panic!("not within {GENEROUS:?}: {what}"))
}
