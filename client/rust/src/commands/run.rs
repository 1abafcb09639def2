//! Runs what hookd asks for: one command under the process rules, and what it came to.

use std::{env, ffi::OsString, path::PathBuf, time::Duration};

use hookd_runner::{Class, Command, End, Finished, Limits};
use tokio::time::Instant;

use super::{AgentCommands, AgentProgram, AgentSide, Detached, OfferedCommand};
use crate::proto::{CommandResult, Failure, RunCommand, ServerProgram, TriggerRequest, run_command::Program};

/// Most that is kept of one output, whatever hookd asks for.
const MAX_OUTPUT_BYTES: usize = 1024 * 1024;

/// What programs of the server's find in their environment; nothing else of this process is passed on.
const PASSED_ON: [&str; 4] = ["PATH", "HOME", "LANG", "TMPDIR"];

/// One command of a call.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) message: RunCommand,
    pub(crate) request: &'a TriggerRequest,
    /// When the call is over.
    pub(crate) deadline: Instant,
}

/// Runs a command to its end. Dropping the future ends the program and its group.
pub(crate) async fn run<C: AgentCommands>(side: &AgentSide<C>, asked: Asked<'_>) -> CommandResult {
    let Asked { mut message, request, deadline } = asked;
    let result = match program(side, &message, request) {
        Err((failure, why)) => failed(failure, why),
        Ok(program) => {
            let left = deadline.saturating_duration_since(Instant::now());
            let stdin = std::mem::take(&mut message.stdin);
            let limits = Limits {
                timeout: timeout(&message).unwrap_or(left).min(left),
                output_bytes: usize::try_from(message.output_limit_bytes).unwrap_or(usize::MAX).min(MAX_OUTPUT_BYTES),
                ..Limits::default()
            };
            match side.runner.run(Class::Other, command(program, stdin), limits, deadline).await {
                Ok(finished) => ended(finished),
                Err(full) => failed(Failure::Overloaded, full.to_string()),
            }
        }
    };
    CommandResult { command_id: message.command_id, ..result }
}

/// Starts a command that nobody waits for. One that cannot be started is nobody's to tell.
pub(crate) fn run_detached<C: AgentCommands>(side: &AgentSide<C>, asked: Asked<'_>) {
    let Asked { message, request, .. } = asked;
    let Ok(program) = program(side, &message, request) else { return };
    let timeout = timeout(&message).unwrap_or(Limits::default().timeout);
    let detached = Detached { program, stdin: message.stdin, timeout };
    let Err(Detached { program, stdin, timeout }) = side.commands.detach(detached) else { return };
    let limits = Limits { timeout, output_bytes: 0, ..Limits::default() };
    if let Ok(running) = side.runner.run_background(command(program, stdin), limits) {
        tokio::spawn(running);
    }
}

fn timeout(message: &RunCommand) -> Option<Duration> {
    message.timeout.and_then(|timeout| Duration::try_from(timeout).ok())
}

/// What is to be run, with the directory to run it in.
fn program<C: AgentCommands>(
    side: &AgentSide<C>,
    message: &RunCommand,
    request: &TriggerRequest,
) -> Result<AgentProgram, (Failure, String)> {
    let program = program_of(side, message, request)?;
    Ok(AgentProgram { cwd: program.cwd.or_else(|| absolute(&request.cwd)), ..program })
}

fn program_of<C: AgentCommands>(
    side: &AgentSide<C>,
    message: &RunCommand,
    request: &TriggerRequest,
) -> Result<AgentProgram, (Failure, String)> {
    match &message.program {
        Some(Program::OfferedRule(rule)) => {
            let offered = side
                .offers
                .iter()
                .find(|file| file.sha256() == rule.sha256 && file.tier().to_message() == message.tier());
            let Some(file) = offered else {
                return Err((Failure::NotPermitted, "the rule stands in no file that was offered".to_owned()));
            };
            let command = OfferedCommand { file, index: rule.index, rule_id: &message.rule_id, request };
            side.commands.program(&command).map_err(|why| (Failure::NotPermitted, why))
        }
        Some(Program::ServerProgram(_)) if !side.server_programs => {
            Err((Failure::NotPermitted, "this caller runs no programs of the server's".to_owned()))
        }
        Some(Program::ServerProgram(program)) => Ok(of_server(program, &message.cwd)),
        None => Err((Failure::Unsupported, "this caller does not know what is to be run".to_owned())),
    }
}

fn of_server(program: &ServerProgram, cwd: &str) -> AgentProgram {
    let passed_on = PASSED_ON.iter().filter_map(|name| Some((OsString::from(name), env::var_os(name)?)));
    let added = program.env.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    AgentProgram {
        argv: program.argv.iter().map(OsString::from).collect(),
        env: passed_on
            .filter(|(name, _)| !program.env.keys().any(|added| name == added.as_str()))
            .chain(added)
            .collect(),
        cwd: absolute(cwd),
    }
}

fn absolute(cwd: &str) -> Option<PathBuf> {
    Some(PathBuf::from(cwd)).filter(|cwd| cwd.is_absolute())
}

fn command(program: AgentProgram, stdin: Vec<u8>) -> Command {
    let AgentProgram { argv, env, cwd } = program;
    Command { argv, env, cwd, stdin, ..Command::default() }
}

fn failed(failure: Failure, why: String) -> CommandResult {
    CommandResult { failure: failure.into(), stderr: why.into_bytes(), ..CommandResult::default() }
}

fn ended(finished: Finished) -> CommandResult {
    let Finished { end, stdout, stderr, stdout_truncated, stderr_truncated, elapsed, .. } = finished;
    let result = CommandResult {
        stdout,
        stderr,
        truncated: stdout_truncated || stderr_truncated,
        elapsed: if elapsed.is_zero() { None } else { elapsed.try_into().ok() },
        ..CommandResult::default()
    };
    match end {
        End::Exited(code) => CommandResult { exit_code: Some(code), ..result },
        End::Signalled(signal) => CommandResult { signal: Some(signal), ..result },
        End::TimedOut => CommandResult { failure: Failure::TimedOut.into(), ..result },
        End::Cancelled => CommandResult { failure: Failure::Cancelled.into(), ..result },
        End::DidNotStart(why) => failed(Failure::DidNotStart, why),
        End::Lost(why) => failed(Failure::Internal, why),
    }
}
