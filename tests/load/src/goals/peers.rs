//! The goals that a comparison with the echo server and with other engines is read for.

use super::{Goal, Row};
use crate::{compare::Comparison, turns::Ratios};

/// A goal about one figure of one way of loading.
struct Read {
    measure: &'static str,
    goal: Goal,
    way: &'static str,
    /// Name of the other server, without its version.
    to: &'static str,
    figure: fn(&Ratios) -> f64,
}

const GOALS: [Read; 6] = [
    Read {
        measure: "calls/s, 32 in flight, against the bare echo",
        goal: Goal::AtLeast(0.8),
        way: "closed_32",
        to: "echo",
        figure: |ratios| ratios.answers_per_s,
    },
    Read {
        measure: "p99 at half of the echo's top rate, open loop, against the echo",
        goal: Goal::AtMost(1.25),
        way: "open_half",
        to: "echo",
        figure: |ratios| ratios.p99,
    },
    Read {
        measure: "calls/s, 32 in flight, against Cerbos",
        goal: Goal::AtLeast(10.0),
        way: "closed_32",
        to: "cerbos",
        figure: |ratios| ratios.answers_per_s,
    },
    Read {
        measure: "p99 at 2,000 calls/s, open loop, against Cerbos",
        goal: Goal::AtMost(0.1),
        way: "open",
        to: "cerbos",
        figure: |ratios| ratios.p99,
    },
    Read {
        measure: "calls/s, 32 in flight, against OPA (gRPC)",
        goal: Goal::AtLeast(7.0),
        way: "closed_32",
        to: "opa",
        figure: |ratios| ratios.answers_per_s,
    },
    Read {
        measure: "p99 at 2,000 calls/s, open loop, against OPA (gRPC)",
        goal: Goal::AtMost(0.2),
        way: "open",
        to: "opa",
        figure: |ratios| ratios.p99,
    },
];

pub(super) fn rows(comparison: &Comparison) -> Vec<Row> {
    GOALS.iter().map(|read| row(read, comparison)).collect()
}

pub(super) fn not_measured(why: &str) -> Vec<Row> {
    GOALS.iter().map(|read| Row::not_measured(read.measure, read.goal, why)).collect()
}

fn row(read: &Read, comparison: &Comparison) -> Row {
    let skipped = comparison.skipped.iter().find(|skipped| skipped.starts_with(read.to));
    if let Some(skipped) = skipped {
        return Row::not_measured(read.measure, read.goal, skipped);
    }
    let Some(way) = comparison.way(read.way) else {
        return Row::not_measured(read.measure, read.goal, "it was not loaded in this way");
    };
    let Some(ratios) = way.ratios_to(read.to) else {
        return Row::not_measured(read.measure, read.goal, "it has no part in this comparison, see `--policy`");
    };
    let both = way.servers.iter().filter(|server| server.name == "hookd" || server.name.starts_with(read.to));
    if let Some((name, error)) =
        both.filter_map(|server| Some((&server.name, server.medians.first_error.as_ref()?))).next()
    {
        return Row::not_measured(read.measure, read.goal, &format!("calls to {name} went wrong: {error}"));
    }
    let value = (read.figure)(ratios);
    let all = |figure: fn(&crate::turns::Medians) -> f64, unit: &str| {
        let of = |name: &str| {
            let server = way.servers.iter().find(|server| server.name.starts_with(name));
            server.map_or(0.0, |server| figure(&server.medians))
        };
        format!("{value:.3} ({:.0} {unit} to {:.0})", of("hookd"), of(read.to))
    };
    let measured =
        if read.measure.starts_with("p99") { all(|m| m.p99_us, "µs") } else { all(|m| m.answers_per_s, "/s") };
    Row::new(read.measure, read.goal, value, measured)
}
