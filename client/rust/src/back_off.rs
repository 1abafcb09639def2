//! Waits that grow, and that are not the same for all.

use std::{
    hash::{BuildHasher as _, RandomState},
    time::Duration,
};

/// How long to wait after `before` earlier waits: `first`, doubled with each, up to `longest`; of that between half and all.
pub(crate) fn back_off(first: Duration, longest: Duration, before: u32) -> Duration {
    let doubled = 1_u32.checked_shl(before).map_or(longest, |times| first.saturating_mul(times));
    #[expect(clippy::cast_precision_loss, reason = "a share of a wait")]
    let share = random() as f64 / u64::MAX as f64;
    doubled.min(longest).mul_f64(share.midpoint(1.0))
}

/// Good enough to spread clients; the standard library's hash keys are random.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest() {
        let (first, longest) = (Duration::from_millis(100), Duration::from_secs(10));
        for (before, most) in [(0, 100), (1, 200), (3, 800), (6, 6_400), (7, 10_000), (31, 10_000), (u32::MAX, 10_000)]
        {
            let most = Duration::from_millis(most);
            let wait = back_off(first, longest, before);
            assert!((most / 2..=most).contains(&wait), "{before}: {wait:?}");
        }
    }
}
