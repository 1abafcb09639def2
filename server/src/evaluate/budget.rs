use std::time::Duration;

use tokio::time::Instant;

use crate::model::{Event, Modifies, Tier};

/// The time of one evaluation, shared by all its handlers (law 8).
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    arrival: Instant,
    end: Instant,
    /// Until when the answer may wait for its record: half of the margin.
    record_end: Instant,
    /// Since when, and until when, the tiers below team may run. `None`: their turn has not begun, or the event's
    /// form cannot be rewritten and they share the whole budget.
    lower_end: Option<Instant>,
}

impl Budget {
    /// The budget of a call that arrived at `arrival` with `deadline` left: all of it less a margin (10 %, 5 to
    /// 100 ms) for the answer's way. `None`: less than the margin is left.
    #[must_use]
    pub fn new(arrival: Instant, deadline: Duration) -> Option<Self> {
        let tenth = deadline.checked_div(10).unwrap_or_default();
        let margin = tenth.clamp(Duration::from_millis(5), Duration::from_millis(100));
        let left = deadline.checked_sub(margin).filter(|left| !left.is_zero())?;
        let end = arrival.checked_add(left)?;
        let record_end = end.checked_add(margin.checked_div(2).unwrap_or_default())?;
        Some(Self { arrival, end, record_end, lower_end: None })
    }

    /// The time from the arrival of the call to `now`.
    pub(crate) fn since_arrival(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.arrival)
    }

    /// Until when the answer may wait for its record.
    #[must_use]
    pub fn record_end(&self) -> Instant {
        self.record_end
    }

    /// Begins the turn of the tiers below team, in the chain or in the extra pass: on events whose form can be
    /// rewritten they get together at most half of what is left, so that the tiers above keep time for theirs.
    pub(crate) fn begin_lower_tiers(&mut self, event: &Event, now: Instant) {
        if event.modifies == Modifies::Nothing {
            return;
        }
        let half = self.end.saturating_duration_since(now).checked_div(2).unwrap_or_default();
        self.lower_end = now.checked_add(half);
    }

    /// The time that a handler of `tier` with its own limit `timeout` is granted now, in whole milliseconds. `None`:
    /// nothing is left.
    pub(crate) fn granted(&self, tier: Tier, timeout: Duration, now: Instant) -> Option<Duration> {
        let end = if tier.is_central() { self.end } else { self.lower_end.unwrap_or(self.end) };
        let left = end.saturating_duration_since(now).min(timeout);
        let millis = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        (millis > 0).then(|| Duration::from_millis(millis))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn law_08_the_margin_is_a_tenth_between_5_and_100_ms() {
        let now = Instant::now();
        let left =
            |deadline| Budget::new(now, deadline).and_then(|budget| budget.granted(Tier::Managed, ms(60_000), now));
        assert_eq!(left(ms(30_000)), Some(ms(29_900)));
        assert_eq!(left(ms(500)), Some(ms(450)));
        assert_eq!(left(ms(20)), Some(ms(15)));
        assert_eq!(left(ms(6)), Some(ms(1)));
        assert_eq!(left(ms(5)), None);
        assert_eq!(left(ms(0)), None);
        assert_eq!(left(Duration::MAX), None, "no overflow, and no budget without an end");
    }

    #[test]
    fn law_08_lower_tiers_get_half_of_what_is_left_where_the_form_can_be_rewritten() {
        let arrival = Instant::now();
        let mut budget = Budget::new(arrival, ms(1_100)).unwrap();
        let now = arrival + ms(200);
        budget.begin_lower_tiers(Event::known("PreToolUse").unwrap(), now);
        assert_eq!(budget.granted(Tier::Shared, ms(10_000), now), Some(ms(400)));
        assert_eq!(budget.granted(Tier::Managed, ms(10_000), now), Some(ms(800)));
        assert_eq!(budget.granted(Tier::Shared, ms(30), now), Some(ms(30)));
        let now = now + ms(400);
        assert_eq!(budget.granted(Tier::Plugin, ms(10_000), now), None);
        budget.begin_lower_tiers(Event::known("PreToolUse").unwrap(), now);
        assert_eq!(budget.granted(Tier::Local, ms(10_000), now), Some(ms(200)));
    }

    #[test]
    fn law_08_on_other_events_all_share_the_whole_budget() {
        let now = Instant::now();
        let mut budget = Budget::new(now, ms(1_100)).unwrap();
        budget.begin_lower_tiers(Event::known("Stop").unwrap(), now);
        assert_eq!(budget.granted(Tier::Plugin, ms(10_000), now), Some(ms(1_000)));
    }
}
