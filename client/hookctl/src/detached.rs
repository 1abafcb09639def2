//! `hookctl detached`: stays with a program that nobody waits for (an async hook) when the relay that was asked to run it
//! has ended with its answer.

use std::{
    io::{self, Read as _},
    time::Duration,
};

use hookd_runner::{Capacity, Command, Limits, Runner};

use crate::{
    args::DetachedArgs,
    relay::RUN_BY,
    report::{Failure, OK, Report},
};

pub(crate) async fn run(args: DetachedArgs) -> Result<Report, Failure> {
    let mut stdin = Vec::new();
    let read = io::stdin().lock().read_to_end(&mut stdin);
    read.map_err(|error| Failure::failed(format!("cannot read the input: {}", crate::report::reason(&error))))?;
    // The relay has gone: this process is the parent now by which another relay knows itself.
    let mut env = std::env::vars_os().filter(|(name, _)| name != RUN_BY).collect::<Vec<_>>();
    env.push((RUN_BY.into(), std::process::id().to_string().into()));
    let command = Command { argv: args.argv, env, stdin, ..Command::default() };
    let limits = Limits { timeout: Duration::from_millis(args.timeout_ms), output_bytes: 0, ..Limits::default() };
    let runner = Runner::new(Capacity::default());
    let running = runner.run_background(command, limits).map_err(|full| Failure::failed(full.to_string()))?;
    running.await;
    // It may have to be killed first.
    runner.idle().await;
    Ok(Report { text: String::new(), exit: OK })
}
