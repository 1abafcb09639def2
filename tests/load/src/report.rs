//! What a run says of itself, for people and for machines.

use std::{collections::BTreeMap, fmt::Write as _};

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::{
    args::LoadArgs,
    drive::{Mode, Plan},
    tally::Tally,
};

/// One run. The keys of its JSON form are stable.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Report {
    /// The server.
    pub(crate) target: String,
    /// `closed` or `open`.
    pub(crate) mode: &'static str,
    /// Calls a second that were due, open loop only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rate: Option<u32>,
    /// Connections.
    pub(crate) connections: usize,
    /// Calls in flight: exactly, or in open loop at most.
    pub(crate) in_flight: usize,
    /// Load before the measurement, in seconds.
    pub(crate) warmup_s: f64,
    /// What was measured, in seconds.
    pub(crate) measured_s: f64,
    /// Calls that were due while it was measured.
    pub(crate) calls: u64,
    /// Good answers a second.
    pub(crate) answers_per_s: f64,
    /// From due to answered. In closed loop a call is due when it is sent.
    pub(crate) latency_us: Percentiles,
    /// From due to sent, open loop only: what of the latency the generator itself, or the limit of calls in flight, made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) late_start_us: Option<Percentiles>,
    /// Size of an answer, on average.
    pub(crate) reply_bytes: f64,
    /// Calls by gRPC code: `OK` while it was measured, the others in all.
    pub(crate) codes: BTreeMap<&'static str, u64>,
    /// The message of the first call with each code other than `OK`.
    pub(crate) errors: BTreeMap<&'static str, String>,
    /// Answers that did not hold the expected verdict.
    pub(crate) unexpected: u64,
    /// Calls without an answer at the end.
    pub(crate) unfinished: u64,
    /// Calls that were due and never sent.
    pub(crate) unsent: u64,
}

/// Times in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Percentiles {
    pub(crate) mean: f64,
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    #[serde(rename = "p99.9")]
    pub(crate) p99_9: f64,
    pub(crate) max: f64,
}

impl Report {
    /// What `tally` says of a run of `plan`.
    pub(crate) fn new(target: String, load: &LoadArgs, plan: &Plan, tally: &Tally) -> Self {
        let (mode, rate) = match plan.mode {
            Mode::Closed => ("closed", None),
            Mode::Open { rate } => ("open", Some(rate)),
        };
        let mut codes = BTreeMap::from([("OK", tally.good)]);
        codes.extend(tally.refused.iter().map(|(code, (count, _))| (*code, *count)));
        Self {
            target,
            mode,
            rate,
            connections: load.connections,
            in_flight: plan.in_flight,
            warmup_s: plan.warm_up.as_secs_f64(),
            measured_s: rounded(tally.seconds(), 1000.0),
            calls: tally.latency.len(),
            answers_per_s: rounded(ratio(tally.good as f64, tally.seconds()), 10.0),
            latency_us: Percentiles::of(&tally.latency),
            late_start_us: rate.map(|_| Percentiles::of(&tally.lag)),
            reply_bytes: rounded(ratio(tally.reply_bytes as f64, tally.good as f64), 10.0),
            codes,
            errors: tally.refused.iter().map(|(code, (_, message))| (*code, message.clone())).collect(),
            unexpected: tally.unexpected,
            unfinished: tally.unfinished,
            unsent: tally.unsent,
        }
    }

    /// Every call was sent and got the answer that it should.
    pub(crate) fn is_clean(&self) -> bool {
        self.calls > 0 && self.errors.is_empty() && self.bad_calls() == 0
    }

    /// How many calls went wrong, whatever way.
    pub(crate) fn bad_calls(&self) -> u64 {
        let refused = self.codes.iter().filter(|(code, _)| **code != "OK").map(|(_, count)| *count);
        refused.chain([self.unexpected, self.unfinished, self.unsent]).fold(0, u64::saturating_add)
    }

    /// What went wrong first, in words.
    pub(crate) fn first_error(&self) -> Option<String> {
        let refused = self.errors.iter().map(|(code, message)| format!("{code}: {message}"));
        refused.chain(self.bad_counts().map(|(count, what)| format!("{count} {what}"))).next()
    }

    /// For people: a few lines.
    pub(crate) fn human(&self) -> String {
        let mut text = String::new();
        let rate = self.rate.map_or_else(String::new, |rate| format!(" at {rate}/s"));
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{} loop{rate}, {} in flight on {} connection{}, to {}",
            self.mode,
            self.in_flight,
            self.connections,
            if self.connections == 1 { "" } else { "s" },
            self.target
        );
        let _ = writeln!(
            text,
            "  calls          {} in {:.3} s after {} s of warm-up: {:.1} good answers/s of {:.0} bytes",
            self.calls, self.measured_s, self.warmup_s, self.answers_per_s, self.reply_bytes
        );
        let _ = writeln!(text, "  latency µs     {}", self.latency_us.human());
        if let Some(late) = &self.late_start_us {
            let _ = writeln!(text, "  late start µs  {}", late.human());
        }
        let codes = self.codes.iter().map(|(code, count)| format!("{code} {count}")).collect::<Vec<_>>().join(", ");
        let _ = writeln!(text, "  codes          {codes}");
        for (code, message) in &self.errors {
            let _ = writeln!(text, "  error          {code}: {message}");
        }
        for (count, what) in self.bad_counts() {
            let _ = writeln!(text, "  error          {count} {what}");
        }
        text
    }

    /// How many calls went wrong without a status, by what went wrong.
    fn bad_counts(&self) -> impl Iterator<Item = (u64, &'static str)> {
        [
            (self.unexpected, "answers without the expected verdict"),
            (self.unfinished, "calls without an answer at the end"),
            (self.unsent, "calls that were due and never sent"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
    }
}

impl Percentiles {
    fn of(nanos: &Histogram<u64>) -> Self {
        let micros = |nanos: f64| rounded(nanos / 1000.0, 10.0);
        let at = |quantile: f64| micros(nanos.value_at_quantile(quantile) as f64);
        Self {
            mean: micros(nanos.mean()),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            max: micros(nanos.max() as f64),
        }
    }

    fn human(&self) -> String {
        format!(
            "mean {:.1}  p50 {:.1}  p90 {:.1}  p99 {:.1}  p99.9 {:.1}  max {:.1}",
            self.mean, self.p50, self.p90, self.p99, self.p99_9, self.max
        )
    }
}

/// `of / to`, or 0 where that is no number.
pub(crate) fn ratio(of: f64, to: f64) -> f64 {
    if to > 0.0 { of / to } else { 0.0 }
}

/// `number` to the nearest `1 / steps`.
pub(crate) fn rounded(number: f64, steps: f64) -> f64 {
    (number * steps).round() / steps
}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "an overflow fails the test")]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;
    use tonic::Code;

    use super::*;
    use crate::tally::{Refusal, Reply};

    /// 1000 calls of 1 to 1000 µs, started 7 µs late; one in the warm-up; one refused after 2 ms; one unexpected.
    fn tally() -> Tally {
        let begin = Instant::now();
        let from = begin + Duration::from_secs(1);
        let mut tally = Tally::new(from).unwrap();
        let reply = |as_expected| Ok(Reply { bytes: 100, as_expected });
        tally.record(begin, begin, from, reply(true));
        for micros in 1..=1000 {
            let due = from + Duration::from_micros(micros);
            tally.record(due, due + Duration::from_micros(7), due + Duration::from_micros(micros), reply(micros != 5));
        }
        for message in ["first", "second"] {
            let refusal = Refusal { code: Code::ResourceExhausted, message: message.to_owned() };
            tally.record(from, from, from + Duration::from_millis(2), Err(refusal));
        }
        tally.end = from + Duration::from_secs(2);
        tally
    }

    fn report(mode: Mode) -> Report {
        let load = LoadArgs {
            connections: 4,
            in_flight: 32,
            duration: Duration::from_secs(2),
            warmup: Duration::from_secs(1),
            count: 10_000,
            timeout: Duration::from_secs(5),
            threads: 1,
        };
        Report::new("127.0.0.1:50051".to_owned(), &load, &load.plan(mode), &tally())
    }

    #[test]
    fn percentiles_are_of_all_measured_calls() {
        let report = report(Mode::Open { rate: 500 });
        assert_eq!((report.calls, report.answers_per_s, report.reply_bytes), (1002, 500.0, 100.0));
        let near = |value: f64, expected: f64| assert!((value / expected - 1.0).abs() < 0.002, "{value} {expected}");
        near(report.latency_us.p50, 501.0);
        near(report.latency_us.p90, 902.0);
        near(report.latency_us.p99, 992.0);
        near(report.latency_us.p99_9, 2000.0);
        near(report.latency_us.max, 2000.0);
        near(report.late_start_us.unwrap().p50, 7.0);
        assert_eq!(report.codes, BTreeMap::from([("OK", 1000), ("RESOURCE_EXHAUSTED", 2)]));
        assert_eq!(report.errors, BTreeMap::from([("RESOURCE_EXHAUSTED", "first".to_owned())]));
        assert_eq!((report.bad_calls(), report.is_clean()), (3, false));
        assert_eq!(report.first_error().as_deref(), Some("RESOURCE_EXHAUSTED: first"));
        let unexpected = Report { errors: BTreeMap::new(), ..report };
        assert_eq!(unexpected.first_error().as_deref(), Some("1 answers without the expected verdict"));
    }

    #[test]
    fn people_get_a_few_lines() {
        let expected = "\
closed loop, 32 in flight on 4 connections, to 127.0.0.1:50051
  calls          1002 in 2.000 s after 1 s of warm-up: 500.0 good answers/s of 100 bytes
  latency µs     mean 503.5  p50 501.2  p90 902.1  p99 992.3  p99.9 2000.9  max 2000.9
  codes          OK 1000, RESOURCE_EXHAUSTED 2
  error          RESOURCE_EXHAUSTED: first
  error          1 answers without the expected verdict
";
        assert_eq!(report(Mode::Closed).human(), expected);
    }

    #[test]
    fn machines_get_stable_keys() {
        let json = serde_json::to_value(report(Mode::Closed)).unwrap();
        assert_eq!(
            json["latency_us"].as_object().unwrap().keys().collect::<Vec<_>>(),
            ["mean", "p50", "p90", "p99", "p99.9", "max"]
        );
        assert_eq!(
            (json["mode"].as_str(), json["calls"].as_u64(), json.get("rate")),
            (Some("closed"), Some(1002), None)
        );
    }
}
