//! What hookd promises about its speed and size, measured and held against the promise: one table.
//!
//! Each part starts the hookd binary on free ports and measures it in turns with what it is compared to. What this hookd
//! cannot do yet, or what is not installed, is said and counts neither as met nor as missed.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context as _, ensure};
use http::uri::PathAndQuery;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    answers::Answers,
    args::{CompareArgs, GoalsArgs, LoadArgs, Part, TRIGGER, TableOutput},
    body::{encoded, event},
    compare::{self, Comparison},
    print,
    turns::{Candidate, Question, progress},
};

mod handlers;
mod peers;
mod relay;
mod rules;
mod table;

/// All of it. The keys of its JSON form are stable.
#[derive(Debug, Serialize)]
pub(crate) struct Outcome {
    /// What `hookd --version` says.
    pub(crate) hookd: String,
    /// How often each thing was measured; figures are medians.
    pub(crate) rounds: usize,
    /// How long one measurement took, in seconds.
    pub(crate) duration_s: f64,
    /// Processors of the machine, shared by all servers and the load generator.
    pub(crate) processors: usize,
    /// The machine's load average of a minute before the first measurement.
    pub(crate) load_average: f64,
    /// One for each goal.
    pub(crate) rows: Vec<Row>,
    /// What the goals about calls a second were read from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) comparison: Option<Comparison>,
}

/// One goal.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Row {
    pub(crate) measure: String,
    pub(crate) goal: String,
    /// What came out, or why nothing did.
    pub(crate) measured: String,
    /// The figure that the goal is about. Absent: nothing came out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) value: Option<f64>,
    /// Absent: nothing came out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) met: Option<bool>,
}

/// Where a goal lies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

/// What every part needs.
#[derive(Debug)]
pub(crate) struct Bench<'a> {
    args: &'a GoalsArgs,
    /// For settings, rules and logs.
    folder: &'a Path,
}

/// The one goal that a process beside hookd cannot see.
const EVALUATE: &str = "evaluate in process, 50 rules, µs";
const EVALUATE_GOAL: Goal = Goal::AtMost(5.0);

/// Measures, prints. False: a goal was missed.
///
/// # Errors
/// The process was asked to stop, or has no temporary folder. What goes wrong with one part is said in its rows.
pub(crate) async fn goals(args: &GoalsArgs) -> anyhow::Result<bool> {
    let outcome = compare::unless_stopped(Box::pin(measure(args))).await?;
    let text = match args.output {
        TableOutput::Human => table::human(&outcome),
        TableOutput::Markdown => table::markdown(&outcome),
        TableOutput::Json => format!("{}\n", serde_json::to_string_pretty(&outcome)?),
    };
    print(&text)?;
    Ok(outcome.rows.iter().all(|row| row.met != Some(false)))
}

async fn measure(args: &GoalsArgs) -> anyhow::Result<Outcome> {
    let folder = tempfile::tempdir().context("temporary folder")?;
    let bench = Bench { args, folder: folder.path() };
    let mut outcome = Outcome {
        hookd: compare::hookd_version(&args.hookd).await?,
        rounds: args.rounds,
        duration_s: args.duration.as_secs_f64(),
        processors: std::thread::available_parallelism().map_or(0, usize::from),
        load_average: compare::load_average(),
        rows: Vec::new(),
        comparison: None,
    };
    for part in Part::ALL.into_iter().filter(|part| args.only.is_empty() || args.only.contains(part)) {
        progress(&format!("measuring {}", part.name()));
        let rows = match part {
            Part::Peers => {
                let comparison = compare::measure(&bench.compare_args()).await;
                let rows = comparison.as_ref().map(peers::rows).map_err(|error| format!("{error:#}"));
                outcome.comparison = comparison.ok();
                rows.unwrap_or_else(|error| peers::not_measured(&error))
            }
            Part::Rules => rules::measure(&bench).await.unwrap_or_else(|error| rules::not_measured(&error)),
            Part::Command => vec![handlers::command(&bench).await],
            Part::Worker => vec![handlers::worker(&bench).await],
            Part::Http => vec![handlers::http(&bench).await],
            Part::Concurrent => vec![handlers::concurrent(&bench).await],
            Part::Relay => relay::measure(&bench).await,
        };
        outcome.rows.extend(rows);
    }
    if args.only.is_empty() {
        outcome.rows.push(Row::not_measured(
            EVALUATE,
            EVALUATE_GOAL,
            "`cargo bench -p hookd --bench evaluate` does that",
        ));
    }
    Ok(outcome)
}

impl Row {
    /// `value` held against `goal`; `measured` says more than the figure alone.
    pub(crate) fn new(measure: &str, goal: Goal, value: f64, measured: String) -> Self {
        Self {
            measure: measure.to_owned(),
            goal: goal.text(),
            measured,
            value: Some(value),
            met: Some(goal.is_met(value)),
        }
    }

    /// Nothing came out.
    pub(crate) fn not_measured(measure: &str, goal: Goal, why: &str) -> Self {
        // The first line says what went wrong, the last one what the server itself said of it.
        let mut lines = why.lines();
        let first = lines.next().unwrap_or_default();
        let last = lines.next_back().map_or_else(String::new, |line| format!(" {}", line.trim()));
        let measured = format!("not measured: {first}{last}");
        Self { measure: measure.to_owned(), goal: goal.text(), measured, value: None, met: None }
    }
}

impl Goal {
    fn text(self) -> String {
        match self {
            Self::AtLeast(goal) => format!("at least {goal}"),
            Self::AtMost(goal) => format!("at most {goal}"),
        }
    }

    fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtLeast(goal) => value >= goal,
            Self::AtMost(goal) => value <= goal,
        }
    }
}

impl Bench<'_> {
    /// hookd with these managed rules, checked: it answers the one event that it is asked with `verdict`.
    async fn hookd(&self, name: &str, rules: &[Value], verdict: &str) -> anyhow::Result<Candidate> {
        self.hookd_at(name, rules, verdict, &json!("127.0.0.1:0")).await
    }

    /// The same on other listeners, one of them on TCP.
    async fn hookd_at(&self, name: &str, rules: &[Value], verdict: &str, listen: &Value) -> anyhow::Result<Candidate> {
        let folder = self.folder.join(name);
        fs::create_dir_all(&folder).context("temporary folder")?;
        let tiers = if rules.is_empty() {
            json!({})
        } else {
            let managed = folder.join("managed");
            fs::create_dir_all(&managed).context("temporary folder")?;
            for (number, rules) in rules.chunks(RULES_IN_A_FILE).enumerate() {
                write_json(&managed.join(format!("{number:03}.json")), &json!({ "hooks": rules }))?;
            }
            json!({ "managed": { "sources": [{ "path": "managed" }] } })
        };
        let settings = json!({ "listen": listen, "admin_listen": "127.0.0.1:0", "tiers": tiers });
        write_json(&folder.join("hookd.json"), &settings)?;
        let server = compare::start_hookd(&self.args.hookd, &folder.join("hookd.json"), &[], &folder).await?;
        let candidate = Candidate {
            name: name.to_owned(),
            server,
            tls: None,
            method: PathAndQuery::from_static(TRIGGER),
            answers: Answers::Verdict,
            questions: vec![Question { body: encoded(&event(EVENT)?), expected: Some(verdict.to_owned()) }],
        };
        candidate.check().await?;
        Ok(candidate)
    }

    fn load(&self, connections: usize, in_flight: usize) -> LoadArgs {
        LoadArgs {
            connections,
            in_flight,
            duration: self.args.duration,
            warmup: self.args.warmup,
            count: u64::MAX,
            timeout: Duration::from_secs(5),
            threads: 1,
        }
    }

    fn compare_args(&self) -> CompareArgs {
        CompareArgs {
            tls: false,
            hookd: self.args.hookd.clone(),
            policy: self.args.policy.clone(),
            rules: 50,
            rounds: self.args.rounds,
            duration: self.args.duration,
            warmup: self.args.warmup,
            rate: 2000,
            threads: 1,
            environment: Vec::new(),
            output: self.args.output,
        }
    }
}

/// The event that every part but the comparison asks about.
const EVENT: &str = r#"{"event":"PreToolUse","sessionId":"6f1c2d3e-4b5a-4978-8c6d-7e8f90a1b2c3","timestamp":1700000000000,
"toolCall":{"tool":"Bash","params":{"command":"cargo test --workspace --all-features -- --nocapture","timeout_ms":120000,
"description":"Run the tests of the whole workspace with all features on"},"toolUseId":"call-7c2f41"},
"payload":{"team":"payments-platform","workflow":"nightly-dependency-refresh","model":"general-agent-4"},
"cwd":"/workspace/services/billing-api","requestId":"01890a5d-ac96-774b-bcce-b302099a8057"}"#;

/// A rule file has a limit in bytes, far above this many rules.
const RULES_IN_A_FILE: usize = 1000;

fn write_json(path: &Path, value: &Value) -> anyhow::Result<()> {
    fs::write(path, value.to_string()).with_context(|| format!("{}", path.display()))
}

/// Refuses samples with calls that went wrong: their figures say nothing.
fn ensure_clean(samples: &[crate::turns::Sample], name: &str) -> anyhow::Result<()> {
    let bad = samples.iter().map(|sample| sample.report.bad_calls()).fold(0, u64::saturating_add);
    ensure!(bad == 0, "{bad} calls to {name} went wrong");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_met_at_its_own_figure() {
        let row = Row::new("m", Goal::AtLeast(0.8), 0.8, "0.800".to_owned());
        let expected = Row {
            measure: "m".to_owned(),
            goal: "at least 0.8".to_owned(),
            measured: "0.800".to_owned(),
            value: Some(0.8),
            met: Some(true),
        };
        assert_eq!(row, expected);
        let met = |goal: Goal, value| Row::new("m", goal, value, String::new()).met.unwrap();
        assert!(!met(Goal::AtLeast(0.8), 0.799) && met(Goal::AtMost(1.25), 1.25) && !met(Goal::AtMost(1.25), 1.251));
    }

    #[test]
    fn what_was_not_measured_is_neither_met_nor_missed() {
        let why = "hookd did not start; its log ends with:\nstarting\nhookd.json: `when` is not built: it ended";
        let row = Row::not_measured("m", Goal::AtMost(22.0), why);
        let text = "not measured: hookd did not start; its log ends with: hookd.json: `when` is not built: it ended";
        assert_eq!((row.measured.as_str(), row.value, row.met), (text, None, None));
        assert_eq!(Row::not_measured("m", Goal::AtMost(1.0), "no go").measured, "not measured: no go");
    }
}
