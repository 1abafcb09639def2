//! `hookctl`: asks hookd from the command line, and checks rule files. Read `args`, `context` (an event), `trigger`,
//! `admin`, `check` (the subcommands), `render` (for a person) and `json` (for a machine), in this order.

mod admin;
mod args;
mod check;
mod context;
mod json;
mod render;
mod report;
mod trigger;

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use clap::Parser as _;

use crate::{
    args::{Args, Command},
    render::Paint,
    report::{Failure, Report, USAGE},
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            // Help and version come this way too. Nobody is left to tell where writing them fails.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS };
        }
    };
    match run(args).await {
        Ok(report) => {
            // A reader that has gone away (`hookctl rules | head -1`) does not change what was found.
            let _ = io::stdout().lock().write_all(report.text.as_bytes());
            ExitCode::from(report.exit)
        }
        Err(failure) => {
            let _ = writeln!(io::stderr().lock(), "hookctl: {}", failure.message);
            ExitCode::from(failure.exit)
        }
    }
}

async fn run(args: Args) -> Result<Report, Failure> {
    let paint = Paint::new(args.global.colour());
    match args.command {
        Command::Trigger(event) => trigger::run(&args.global, event, paint).await,
        Command::Check(check) => Ok(check::run(&args.global, &check, paint)),
        Command::Rules { event } => admin::rules(&args.global, event.unwrap_or_default(), paint).await,
        Command::Explain(event) => admin::explain(&args.global, event, paint).await,
        Command::Status => admin::status(&args.global, paint).await,
        Command::Reload => admin::reload(&args.global, paint).await,
        Command::Completions { shell } => Ok(Report::ok(args::completions(shell))),
    }
}
