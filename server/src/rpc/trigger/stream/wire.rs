//! What goes over a stream, as messages and as what the rooms understand.

use std::time::Duration;

use hookd_proto::v1::{self, run_command::Program, trigger_stream_response::Message};
use hookd_runner::{End, Finished};

use crate::{
    model::{Failed, Failure},
    rpc::reply,
    run::remote::{Ask, Ended, Outgoing, WantedProgram},
};

/// Longest text that is taken of a caller's reason, in bytes.
const REASON_BYTES: usize = 1024;

/// A message to the caller.
pub(super) fn response(message: Message) -> v1::TriggerStreamResponse {
    v1::TriggerStreamResponse { message: Some(message) }
}

/// What goes out to the caller, as its message.
pub(super) fn outgoing(outgoing: Outgoing) -> v1::TriggerStreamResponse {
    response(match outgoing {
        Outgoing::Run { id, ask, detached } => Message::RunCommand(run_command(id, ask, detached)),
        Outgoing::Cancel(command_id) => Message::CancelCommand(v1::CancelCommand { command_id }),
    })
}

fn run_command(command_id: u32, ask: Ask, detached: bool) -> v1::RunCommand {
    let program = match ask.program {
        WantedProgram::Offered(origin) => {
            Program::OfferedRule(v1::OfferedRule { sha256: origin.sha256.to_string(), index: origin.index })
        }
        WantedProgram::OfServer { argv, env } => {
            Program::ServerProgram(v1::ServerProgram { argv, env: env.into_iter().collect() })
        }
    };
    v1::RunCommand {
        command_id,
        rule_id: String::from(&*ask.rule.id),
        tier: reply::tier(ask.rule.tier).into(),
        program: Some(program),
        cwd: ask.cwd,
        stdin: ask.stdin,
        timeout: ask.timeout.try_into().ok(),
        output_limit_bytes: u32::try_from(ask.output_bytes).unwrap_or(u32::MAX),
        detached,
    }
}

/// How a command ended, as its caller says. Whatever it sends, no output is longer than `output_bytes`.
pub(super) fn ended(result: v1::CommandResult, output_bytes: usize) -> Ended {
    let failure = v1::Failure::try_from(result.failure).unwrap_or(v1::Failure::Internal);
    let v1::CommandResult { exit_code, signal, mut stdout, mut stderr, truncated, elapsed, .. } = result;
    let why = || reason(&stderr);
    let failed = |kind, otherwise: &str| {
        let why = why();
        Err(Failed::new(kind, if why.is_empty() { otherwise.to_owned() } else { why }))
    };
    let end = match failure {
        v1::Failure::Unspecified => match (exit_code, signal) {
            (Some(code), None) => End::Exited(code),
            (None, Some(signal)) => End::Signalled(signal),
            (None, None) | (Some(_), Some(_)) => {
                let message = "the agent's side does not say how the command ended";
                return Err(Failed::new(Failure::Internal, message));
            }
        },
        v1::Failure::TimedOut => End::TimedOut,
        v1::Failure::DidNotStart => {
            return failed(Failure::DidNotStart, "the agent's side could not start the command");
        }
        v1::Failure::NotPermitted => return failed(Failure::NotPermitted, "the agent's side does not run this"),
        v1::Failure::Unsupported => return failed(Failure::Unsupported, "the agent's side cannot run this"),
        v1::Failure::Overloaded => return failed(Failure::Overloaded, "the agent's side runs too much"),
        v1::Failure::Cancelled => return failed(Failure::Cancelled, "the agent's side cancelled the command"),
        v1::Failure::Internal => return failed(Failure::Internal, "a fault on the agent's side"),
        v1::Failure::Killed
        | v1::Failure::Exited
        | v1::Failure::BadOutput
        | v1::Failure::TooLarge
        | v1::Failure::Connection
        | v1::Failure::HttpStatus
        | v1::Failure::Expression
        | v1::Failure::CallerGone => {
            let message =
                format!("the agent's side names a failure that commands do not have: {}", failure.as_str_name());
            return Err(Failed::new(Failure::Internal, message));
        }
    };
    // There is one mark for both; an output that ends below the limit was not cut there.
    let is_cut = |output: &[u8], other: &[u8]| {
        output.len() > output_bytes || (truncated && (output.len() == output_bytes || other.len() < output_bytes))
    };
    let (stdout_truncated, stderr_truncated) = (is_cut(&stdout, &stderr), is_cut(&stderr, &stdout));
    stdout.truncate(output_bytes);
    stderr.truncate(output_bytes);
    let elapsed = elapsed.and_then(|elapsed| Duration::try_from(elapsed).ok()).unwrap_or_default();
    Ok(Finished { end, stdout, stderr, stdout_truncated, stderr_truncated, queued: Duration::ZERO, elapsed })
}

/// The beginning of what a caller says, on one line.
fn reason(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let line =
        text.split(char::is_control).map(str::trim).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
    line.get(..line.floor_char_boundary(REASON_BYTES)).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result() -> v1::CommandResult {
        v1::CommandResult {
            command_id: 1,
            stdout: b"out".to_vec(),
            stderr: b"err".to_vec(),
            ..v1::CommandResult::default()
        }
    }

    fn finished(end: End) -> Finished {
        Finished {
            end,
            stdout: b"out".to_vec(),
            stderr: b"err".to_vec(),
            stdout_truncated: false,
            stderr_truncated: false,
            queued: Duration::ZERO,
            elapsed: Duration::ZERO,
        }
    }

    #[test]
    fn a_result_says_how_it_ended_or_is_a_fault() {
        let said = |failure: v1::Failure| ended(v1::CommandResult { failure: failure.into(), ..result() }, 9);
        let internal = |message: &str| Err(Failed::new(Failure::Internal, message));
        assert_eq!(ended(v1::CommandResult { exit_code: Some(2), ..result() }, 9), Ok(finished(End::Exited(2))));
        assert_eq!(ended(v1::CommandResult { signal: Some(9), ..result() }, 9), Ok(finished(End::Signalled(9))));
        assert_eq!(said(v1::Failure::TimedOut), Ok(finished(End::TimedOut)));
        let unclear = internal("the agent's side does not say how the command ended");
        assert_eq!(said(v1::Failure::Unspecified), unclear);
        assert_eq!(ended(v1::CommandResult { exit_code: Some(0), signal: Some(9), ..result() }, 9), unclear);
        for (failure, kind) in [
            (v1::Failure::DidNotStart, Failure::DidNotStart),
            (v1::Failure::NotPermitted, Failure::NotPermitted),
            (v1::Failure::Unsupported, Failure::Unsupported),
            (v1::Failure::Overloaded, Failure::Overloaded),
            (v1::Failure::Cancelled, Failure::Cancelled),
            (v1::Failure::Internal, Failure::Internal),
        ] {
            assert_eq!(said(failure), Err(Failed::new(kind, "err")));
        }
        assert_eq!(
            said(v1::Failure::BadOutput),
            internal("the agent's side names a failure that commands do not have: FAILURE_BAD_OUTPUT")
        );
        assert_eq!(ended(v1::CommandResult { failure: 99, ..result() }, 9), internal("err"));
        let silent = v1::CommandResult { failure: v1::Failure::NotPermitted.into(), ..v1::CommandResult::default() };
        assert_eq!(ended(silent, 9), Err(Failed::new(Failure::NotPermitted, "the agent's side does not run this")));
    }

    #[test]
    fn outputs_are_cut_whatever_the_caller_sends() {
        let cut = |stdout: &[u8], stderr: &[u8], truncated| {
            let result = v1::CommandResult {
                exit_code: Some(0),
                stdout: stdout.to_vec(),
                stderr: stderr.to_vec(),
                truncated,
                ..v1::CommandResult::default()
            };
            let finished = ended(result, 3).unwrap();
            (finished.stdout.len(), finished.stdout_truncated, finished.stderr.len(), finished.stderr_truncated)
        };
        assert_eq!(cut(b"123", b"12", false), (3, false, 2, false));
        assert_eq!(cut(b"1234", b"12", false), (3, true, 2, false));
        assert_eq!(cut(b"12", b"123", true), (2, false, 3, true));
        assert_eq!(cut(b"123", b"12", true), (3, true, 2, false));
        assert_eq!(cut(b"123", b"123", true), (3, true, 3, true));
        assert_eq!(cut(b"12", b"12", true), (2, true, 2, true));
    }

    #[test]
    fn reasons_are_one_short_line() {
        assert_eq!(reason(b" no\n such\x1b[31m thing \n"), "no such [31m thing");
        assert_eq!(reason(&[b'x'; 5000]).len(), REASON_BYTES);
    }
}
