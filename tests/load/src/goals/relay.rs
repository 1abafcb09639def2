//! What an agent waits for when it starts `hookctl relay` before a step, against the cheapest programs that it could start.

use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use hdrhistogram::Histogram;
use serde_json::json;
use tokio::time::Instant;

use super::{Bench, Goal, Row};
use crate::{
    report::{ratio, rounded},
    turns::median,
};

const SHELL: &str = "`hookctl relay`, start to exit, one decision over a unix socket, against `sh -c true`, p50";
const SHELL_GOAL: Goal = Goal::AtMost(4.0);
const PYTHON: &str = "the same against `/usr/bin/python3 -c pass`, p50";
const PYTHON_GOAL: Goal = Goal::AtMost(0.5);

/// The distribution's own: another one starts in another time.
const PYTHON_PATH: &str = "/usr/bin/python3";

/// As Claude Code writes it.
const INPUT: &str = r#"{"session_id":"6f1c2d3e-4b5a-4978-8c6d-7e8f90a1b2c3","transcript_path":"/home/me/.claude/projects/p/6f1c.jsonl",
"cwd":"/tmp","permission_mode":"default","hook_event_name":"PreToolUse","tool_name":"Bash",
"tool_input":{"command":"cargo test --workspace --all-features -- --nocapture","description":"Run the tests"},"tool_use_id":"toolu_01"}"#;

/// A program to start again and again, and what it has to print.
struct Start {
    path: PathBuf,
    arguments: Vec<String>,
    input: &'static str,
    prints: &'static str,
}

pub(super) async fn measure(bench: &Bench<'_>) -> Vec<Row> {
    match measured(bench).await {
        Ok(rows) => rows,
        Err(error) => {
            let why = format!("{error:#}");
            vec![Row::not_measured(SHELL, SHELL_GOAL, &why), Row::not_measured(PYTHON, PYTHON_GOAL, &why)]
        }
    }
}

async fn measured(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    let hookctl = bench.args.hookctl.clone().unwrap_or_else(|| bench.args.hookd.with_file_name("hookctl"));
    ensure!(hookctl.is_file(), "{} is not there", hookctl.display());
    let socket = format!("unix:{}", bench.folder.join("relay.sock").display());
    let rule = json!({
        "id": "guard", "event": "PreToolUse", "matcher": "^Bash$",
        "handler": { "type": "decide", "verdict": "block", "reason": "not here" },
    });
    let hookd = bench.hookd_at("relay", &[rule], "block", &json!(["127.0.0.1:0", socket])).await?;
    // Nothing of this machine's own settings.
    let config = bench.folder.join("relay.yaml");
    fs::write(&config, "# nothing").context("relay.yaml")?;
    fs::set_permissions(&config, fs::Permissions::from_mode(0o600)).context("relay.yaml")?;
    let config = config.to_str().context("the temporary folder's name is not UTF-8")?;
    let arguments = ["relay", "--agent", "claude-code", "--config", config, "--address", &socket];
    let text = |arguments: &[&str]| arguments.iter().map(|it| (*it).to_owned()).collect();
    let relay = Start { path: hookctl, arguments: text(&arguments), input: INPUT, prints: "not here (guard, " };
    let shell = Start { path: "/bin/sh".into(), arguments: text(&["-c", "true"]), input: "", prints: "" };
    let python = Start { path: PYTHON_PATH.into(), arguments: text(&["-c", "pass"]), input: "", prints: "" };

    let has_python = Path::new(PYTHON_PATH).is_file();
    let (mut of_relay, mut of_shell, mut of_python) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.args.rounds {
        of_shell.push(again_and_again(&shell, bench.args.duration)?);
        of_relay.push(again_and_again(&relay, bench.args.duration)?);
        if has_python {
            of_python.push(again_and_again(&python, bench.args.duration)?);
        }
    }
    hookd.server.stop().await?;
    let python = if has_python {
        row(PYTHON, PYTHON_GOAL, &of_relay, &of_python)
    } else {
        Row::not_measured(PYTHON, PYTHON_GOAL, "there is no such program")
    };
    Ok(vec![row(SHELL, SHELL_GOAL, &of_relay, &of_shell), python])
}

fn row(measure: &str, goal: Goal, ours: &[f64], others: &[f64]) -> Row {
    let value = rounded(median(ours.iter().zip(others).map(|(ours, other)| ratio(*ours, *other))), 1000.0);
    let (of_ours, of_others) = (median(ours.iter().copied()), median(others.iter().copied()));
    Row::new(measure, goal, value, format!("{value:.3} ({of_ours:.0} µs to {of_others:.0})"))
}

/// The median time from its start to its end, in microseconds. One at a time, and nothing else of this process meanwhile.
fn again_and_again(start: &Start, span: Duration) -> anyhow::Result<f64> {
    let mut times = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3).context("bounds of the histogram")?;
    let begin = Instant::now();
    while begin.elapsed() < span {
        let started = Instant::now();
        let printed = run(start).with_context(|| format!("cannot run {}", start.path.display()))?;
        times.saturating_record(u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX));
        let path = start.path.display();
        ensure!(printed.contains(start.prints), "{path} printed {printed:?}, expected `{}` in it", start.prints);
    }
    Ok(times.value_at_quantile(0.5) as f64 / 1000.0)
}

/// As an agent does: with pipes, and to the end of both output and process.
fn run(start: &Start) -> anyhow::Result<String> {
    let mut command = Command::new(&start.path);
    command.args(&start.arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that reads nothing may be gone already.
        let _ = stdin.write_all(start.input.as_bytes());
    }
    let mut printed = String::new();
    if let Some(mut stdout) = child.stdout.take() {
        stdout.read_to_string(&mut printed)?;
    }
    ensure!(child.wait()?.success(), "it did not end well");
    Ok(printed)
}
