//! Servers measured in turns, so that what the machine does meanwhile meets them all.

use std::{
    io::{self, Write as _},
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use http::uri::PathAndQuery;
use prost::bytes::Bytes;
use serde::Serialize;

use crate::{
    answers::Answers,
    args::LoadArgs,
    call::{self, Client},
    drive::{self, Mode},
    report::{Report, ratio, rounded},
    server::{Server, Usage},
    tls::TlsClient,
};

/// A server, and what it is asked.
#[derive(Debug)]
pub(crate) struct Candidate {
    /// What tables call it.
    pub(crate) name: String,
    pub(crate) server: Server,
    /// How it is spoken to. `None`: plain text.
    pub(crate) tls: Option<TlsClient>,
    /// The method that is called.
    pub(crate) method: PathAndQuery,
    /// What it answers with.
    pub(crate) answers: Answers,
    /// What it is asked, in turns.
    pub(crate) questions: Vec<Question>,
}

/// A body, and what its answer has to say.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub(crate) body: Bytes,
    /// As [`Answers::read`] gives it. `None`: anything.
    pub(crate) expected: Option<String>,
}

/// One measurement of one server.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub(crate) report: Report,
    /// Processor time of the server for each answer, in microseconds.
    pub(crate) cpu_us: f64,
    /// Memory of the server after it.
    pub(crate) rss_mib: f64,
}

/// Medians over the rounds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Medians {
    pub(crate) answers_per_s: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    #[serde(rename = "p99.9_us")]
    pub(crate) p99_9_us: f64,
    pub(crate) max_us: f64,
    /// Processor time of the server for each answer.
    pub(crate) cpu_us: f64,
    /// Memory of the server after the run.
    pub(crate) rss_mib: f64,
    /// Calls that went wrong, in all rounds.
    pub(crate) errors: u64,
    /// What went wrong with the first of them. Absent: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) first_error: Option<String>,
}

/// Medians of each round's ratio of one server's figure to another's.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Ratios {
    pub(crate) answers_per_s: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) cpu: f64,
}

impl Candidate {
    /// Asks everything once and looks at the answers. Gives their sizes.
    ///
    /// # Errors
    /// It cannot be asked, or an answer says something else than it should: the error names request, server, what it
    /// said and what it should have said.
    pub(crate) async fn check(&self) -> anyhow::Result<Vec<usize>> {
        let mut connections = call::connect(&self.client(), 1).await?;
        let connection = connections.first_mut().context("no connection")?;
        let mut sizes = Vec::with_capacity(self.questions.len());
        for (turn, question) in self.questions.iter().enumerate() {
            let answer = connection.send(question.body.clone()).await;
            let answer = answer.with_context(|| format!("request {turn} to {}", self.name))?;
            let seen = self.answers.read(&answer);
            let expected = question.expected.as_deref().unwrap_or(seen);
            ensure!(seen == expected, "request {turn}: {} said {seen}, not {expected}", self.name);
            sizes.push(answer.len());
        }
        Ok(sizes)
    }

    /// Measures it.
    ///
    /// # Errors
    /// It cannot be reached or has ended.
    pub(crate) async fn sample(&self, mode: Mode, load: &LoadArgs) -> anyhow::Result<Sample> {
        let plan = load.plan(mode);
        let connections = call::connect(&self.client(), load.connections).await?;
        let mut usage: Vec<Usage> = Vec::with_capacity(2);
        let mut at_edge = || {
            usage.push(self.server.usage()?);
            Ok(())
        };
        let tally = drive::drive(&connections, &plan, &mut at_edge).await?;
        self.server.forget_log()?;
        let [before, after] = usage.as_slice() else { bail!("the measurement has no beginning or no end") };
        let report = Report::new(self.server.address.to_string(), load, &plan, &tally);
        Ok(Sample { cpu_us: ratio(after.cpu_us_since(before), report.calls as f64), rss_mib: after.rss_mib, report })
    }

    /// Expects nothing of the answers: they are checked before and after, and reading them in between would be work of
    /// the load generator that differs from server to server.
    fn client(&self) -> Client {
        Client {
            address: self.server.address,
            tls: self.tls.clone(),
            method: self.method.clone(),
            timeout: Duration::from_secs(5),
            bodies: self.questions.iter().map(|question| (question.body.clone(), None)).collect(),
        }
    }
}

impl Question {
    /// The same, and whether its answer matters.
    pub(crate) fn expecting(&self, expects: bool) -> Self {
        Self { body: self.body.clone(), expected: if expects { self.expected.clone() } else { None } }
    }
}

impl Medians {
    pub(crate) fn of(samples: &[Sample]) -> Self {
        let of = |figure: fn(&Sample) -> f64| rounded(median(samples.iter().map(figure)), 10.0);
        Self {
            answers_per_s: of(|sample| sample.report.answers_per_s),
            p50_us: of(|sample| sample.report.latency_us.p50),
            p99_us: of(|sample| sample.report.latency_us.p99),
            p99_9_us: of(|sample| sample.report.latency_us.p99_9),
            max_us: of(|sample| sample.report.latency_us.max),
            cpu_us: of(|sample| sample.cpu_us),
            rss_mib: of(|sample| sample.rss_mib),
            errors: samples.iter().map(|sample| sample.report.bad_calls()).fold(0, u64::saturating_add),
            first_error: samples.iter().find_map(|sample| sample.report.first_error()),
        }
    }
}

impl Ratios {
    /// `of / to`, round by round.
    pub(crate) fn of(of: &[Sample], to: &[Sample]) -> Self {
        let median_of = |figure: fn(&Sample) -> f64| {
            rounded(median(of.iter().zip(to).map(|(of, to)| ratio(figure(of), figure(to)))), 1000.0)
        };
        Self {
            answers_per_s: median_of(|sample| sample.report.answers_per_s),
            p50: median_of(|sample| sample.report.latency_us.p50),
            p99: median_of(|sample| sample.report.latency_us.p99),
            cpu: median_of(|sample| sample.cpu_us),
        }
    }
}

/// The middle one; of an even number, the mean of the two in the middle; of none, 0.
pub(crate) fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures = figures.collect::<Vec<_>>();
    figures.sort_by(f64::total_cmp);
    let half = figures.len() / 2;
    let at = |index: usize| figures.get(index).copied().unwrap_or_default();
    if figures.len() % 2 == 1 { at(half) } else { (at(half.saturating_sub(1)) + at(half)) / 2.0 }
}

/// Says on stderr how far it is: measuring takes minutes.
pub(crate) fn progress(text: &str) {
    // Nobody listening is no reason to stop.
    let _ = writeln!(io::stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
        assert_eq!(median([4.0, 1.0, 3.0, 2.0].into_iter()), 2.5);
        assert_eq!(median([].into_iter()), 0.0);
    }
}
