//! `hookctl`: asks hookd from the command line, answers hooks of agents, and checks rule files. Read `args`, `context` (an
//! event), `trigger`, `admin`, `check`, `audit`, `relay`, `trust`, `install`, `import` (the subcommands), `render` (for a person)
//! and `json` (for a machine), in this order.

mod admin;
mod args;
mod audit;
mod check;
mod context;
mod detached;
mod import;
mod install;
mod json;
mod owned;
mod relay;
mod render;
mod report;
mod trigger;
mod trust;

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use clap::Parser as _;

use crate::{
    args::{Args, Command},
    render::Paint,
    report::{BLOCKED, Failure, Report, USAGE},
};

fn main() -> ExitCode {
    let arguments = std::env::args_os().collect::<Vec<_>>();
    // Agents start this one before each of their steps: it does not pay for what it does not use.
    if arguments.get(1).is_some_and(|command| command == "relay") {
        return relay::main(arguments);
    }
    let args = match Args::try_parse_from(arguments) {
        Ok(args) => args,
        Err(error) => {
            // Help and version come this way too. Nobody is left to tell where writing them fails.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS };
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ran = match runtime {
        Ok(runtime) => runtime.block_on(run(args)),
        Err(error) => Err(Failure::failed(format!("cannot start: {}", report::reason(&error)))),
    };
    match ran {
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
        // Exit 2 because an agent may be the one that waits for it.
        Command::Relay(_) => Err(Failure {
            message: "`relay` comes first, its options after it: `hookctl relay --agent NAME …`".to_owned(),
            exit: BLOCKED,
        }),
        Command::Audit(command) => audit::run(&args.global, &command, paint),
        Command::Trust(trust) => trust::run(&args.global, &trust),
        Command::Import(import) => import::run(&args.global, &import),
        Command::Install(install) => install::run(&args.global, &install, paint),
        Command::Detached(program) => detached::run(program).await,
        Command::Completions { shell } => Ok(Report::ok(args::completions(shell))),
    }
}
