//! `hookd-load`: measures a gRPC server, hookd in turns with a bare echo server and with its peers, and what hookd
//! promises about its speed and size.
//!
//! Read in this order: [`args`], one unary [`call`], how calls are [driven](drive) and [tallied](tally), what is
//! [reported](report) and what [`answers`] say, servers as [child processes](server) measured in [`turns`], the [`echo`]
//! server, [TLS](tls) for all of them, the [comparison](compare), and the [`goals`] with the guard that [delays](delay) its answers. It loads only
//! servers on this machine, and every run is bounded in count and time.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use anyhow::Context as _;
use clap::Parser as _;
use tokio::runtime::{Builder, Runtime};

mod answers;
mod args;
mod body;
mod call;
mod compare;
mod delay;
mod drive;
mod echo;
mod goals;
mod report;
mod server;
mod tally;
mod tls;
mod turns;

use args::{Args, Command, Output, RunArgs};

/// Exit code of a usage error, as `hookd` and `hookctl` have it.
const USAGE: u8 = 64;

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            let code = if error.use_stderr() { USAGE } else { 0 };
            // With nowhere to print to, the exit code has to do.
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    match dispatch(args.command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Carries out the command; false says that it ran and found something wrong.
fn dispatch(command: Command) -> anyhow::Result<bool> {
    match command {
        Command::Run(args) => runtime(args.load.threads)?.block_on(run(&args)),
        Command::EchoServer(args) => {
            let runtime = Builder::new_multi_thread().enable_all().build().context("the runtime did not start")?;
            runtime.block_on(echo::serve(&args)).map(|()| true)
        }
        Command::Compare(args) => runtime(args.threads)?.block_on(compare::compare(&args)),
        Command::Goals(args) => runtime(1)?.block_on(goals::goals(&args)),
        Command::DelayServer(args) => runtime(1)?.block_on(delay::serve(&args)).map(|()| true),
    }
}

async fn run(args: &RunArgs) -> anyhow::Result<bool> {
    let bodies = body::bodies(args)?;
    let plan = args.load.plan(args.mode()?);
    let clients = call::connect(&args.client(bodies)?, args.load.connections).await?;
    let tally = drive::drive(&clients, &plan, &mut || Ok(())).await?;
    let report = report::Report::new(args.target.to_string(), &args.load, &plan, &tally);
    match args.output {
        Output::Human => print(&report.human())?,
        Output::Json => print(&format!("{}\n", serde_json::to_string_pretty(&report)?))?,
    }
    Ok(report.is_clean())
}

/// The client's own threads: few, so that they take as little as possible from the server beside them.
fn runtime(threads: usize) -> anyhow::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(threads).enable_all().build().context("the runtime did not start")
}

fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("stdout")
}
