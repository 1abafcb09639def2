//! What rules cost that have nothing to do with a call: time and memory.

use serde_json::{Value, json};

use super::{Bench, Goal, Row, ensure_clean};
use crate::{
    drive::Mode,
    turns::{Medians, Ratios, Sample, progress},
};

/// How many rules the servers have, and how many of them are about the tool that is called. The first is what the others
/// are held against; the second tells what the ten matching rules that the others have more cost by themselves.
const SERVERS: [(&str, usize, usize); 4] =
    [("10 rules", 10, 10), ("20 rules", 20, 20), ("10,000 rules", 10_000, 20), ("40,000 rules", 40_000, 20)];

const CALLS_10_000: &str = "calls/s with 10,000 rules (20 match) against 10 (all match)";
const CALLS_40_000: &str = "calls/s with 40,000 rules (20 match) against 10 (all match)";
const IDLE: &str = "memory without rules or calls, MiB";
const FIRST: &str = "memory for each of the first 10,000 rules, KiB";
const NEXT: &str = "memory for each of the 30,000 rules after them, KiB";

const CALLS_GOAL: Goal = Goal::AtLeast(0.9);
const IDLE_GOAL: Goal = Goal::AtMost(22.0);
const RULE_GOAL: Goal = Goal::AtMost(2.0);

pub(super) fn not_measured(error: &anyhow::Error) -> Vec<Row> {
    let why = format!("{error:#}");
    [(CALLS_10_000, CALLS_GOAL), (CALLS_40_000, CALLS_GOAL), (IDLE, IDLE_GOAL), (FIRST, RULE_GOAL), (NEXT, RULE_GOAL)]
        .into_iter()
        .map(|(measure, goal)| Row::not_measured(measure, goal, &why))
        .collect()
}

pub(super) async fn measure(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    let idle = bench.hookd("no rules", &[], "none").await?;
    let idle_mib = idle.server.usage()?.rss_mib;
    idle.server.stop().await?;
    let mut servers = Vec::new();
    let mut memory = Vec::new();
    for (name, count, matching) in SERVERS {
        let server = bench.hookd(name, &rules(count, matching), "allow").await?;
        memory.push(server.server.usage()?.rss_mib);
        servers.push(server);
    }
    let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); servers.len()];
    for round in 1..=bench.args.rounds {
        for (server, samples) in servers.iter().zip(&mut samples) {
            samples.push(server.sample(Mode::Closed, &bench.load(4, 32)).await?);
        }
        progress(&format!("round {round} of {}: 10 to 40,000 rules", bench.args.rounds));
    }
    for (server, samples) in servers.into_iter().zip(&samples) {
        ensure_clean(samples, &server.name)?;
        server.server.stop().await?;
    }
    let [ten, twenty, many, most] = samples.as_slice() else { anyhow::bail!("a server was not measured") };
    let [of_ten, _, of_many, of_most] = memory.as_slice() else { anyhow::bail!("a server was not measured") };
    let calls = |measure: &str, samples: &[Sample]| {
        let ratio = Ratios::of(samples, ten).answers_per_s;
        let rate = |samples: &[Sample]| Medians::of(samples).answers_per_s;
        let alone = Ratios::of(samples, twenty).answers_per_s;
        let text = format!(
            "{ratio:.3} ({:.0}/s to {:.0}/s; {alone:.3} of the {:.0}/s with the 20 matching rules alone)",
            rate(samples),
            rate(ten),
            rate(twenty)
        );
        Row::new(measure, CALLS_GOAL, ratio, text)
    };
    let growth = |measure: &str, from: f64, to: f64, rules: f64| {
        let kib = (to - from) * 1024.0 / rules;
        Row::new(measure, RULE_GOAL, kib, format!("{kib:.2} (from {from:.1} to {to:.1} MiB)"))
    };
    Ok(vec![
        calls(CALLS_10_000, many),
        calls(CALLS_40_000, most),
        Row::new(IDLE, IDLE_GOAL, idle_mib, format!("{idle_mib:.1}")),
        growth(FIRST, *of_ten, *of_many, 9_990.0),
        growth(NEXT, *of_many, *of_most, 30_000.0),
    ])
}

/// `count` rules, `matching` of which are about `Bash` and stand evenly among the others. Those are about other tools, in
/// the four shapes that matchers mostly have.
fn rules(count: usize, matching: usize) -> Vec<Value> {
    let every = count.checked_div(matching).unwrap_or(usize::MAX);
    let rule = |number: usize| {
        if number.checked_rem(every) == Some(0) {
            let handler = json!({ "type": "decide", "verdict": "allow" });
            return json!({ "id": format!("match-{number}"), "event": "PreToolUse", "matcher": "^Bash$", "handler": handler });
        }
        let matcher = match number % 4 {
            0 => format!("^mcp__service{number}__write$"),
            1 => format!("^(mcp__service{number}__read|mcp__service{number}__list)$"),
            2 => format!("^mcp__service{number}__"),
            _ => format!("^mcp__service{number}__.*_(delete|drop)$"),
        };
        let handler = json!({ "type": "decide", "verdict": "block", "reason": format!("denied by rule {number}") });
        json!({ "id": format!("other-{number}"), "event": "PreToolUse", "matcher": matcher, "handler": handler })
    };
    (0..count).map(rule).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_rules_match_as_asked_for() {
        for (name, count, matching) in SERVERS {
            let rules = rules(count, matching);
            let about_bash = rules.iter().filter(|rule| rule["matcher"] == "^Bash$").count();
            assert_eq!((rules.len(), about_bash), (count, matching), "{name}");
        }
    }
}
