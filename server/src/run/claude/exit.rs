//! What the exit code of a command means.

use std::sync::Arc;

use super::{WORKTREE_CREATE, output};
use crate::{
    model::{Answer, Block, Failed, Failure, Ran, Verdict},
    run::{
        command::{Printed, message},
        output::{BLOCKED, Expect, Parsed, take},
    },
};

/// Events on which what a blocking program wrote on stderr is for the person.
const STDERR_FOR_THE_PERSON: [&str; 7] =
    ["SessionStart", "Setup", "SubagentStart", "CwdChanged", "FileChanged", "PostCompact", "SessionEnd"];

/// What a program means that exited with `code`.
pub(in crate::run) fn exited(mut ran: Ran, code: i32, printed: &Printed<'_>, expect: &Expect) -> Ran {
    match (code, printed.cut) {
        (0, None) => return take(ran, printed.stdout.to_owned(), expect),
        (0, Some(bytes)) => {
            ran.said = Err(Failed::new(Failure::TooLarge, format!("output of more than {bytes} bytes")));
            return ran;
        }
        _ => {}
    }
    let object = printed.cut.is_none() && output::is_object(printed.stdout);
    if code == 2 || expect.event.name == WORKTREE_CREATE {
        // The code decides already: what is printed need not.
        let read = Expect { must_decide: false, ..expect.clone() };
        let parsed = if object { output::parse(printed.stdout, &read) } else { Ok(Parsed::default()) };
        let parsed = parsed.unwrap_or_else(|failed| Parsed {
            dropped: format!("the output does not count: {failed}"),
            answer: Answer::default(),
        });
        ran.said = Ok(Arc::new(blocking(parsed.answer, printed.stderr, expect)));
        ran.dropped = parsed.dropped;
        ran.output = (!printed.stdout.is_empty()).then(|| printed.stdout.to_owned());
        return ran;
    }
    if object
        && let Ok(parsed) = output::parse(printed.stdout, expect)
        && (restricts(&parsed.answer) || !expect.fails_closed)
    {
        ran.said = Ok(Arc::new(parsed.answer));
        ran.dropped = parsed.dropped;
        ran.output = Some(printed.stdout.to_owned());
        return ran;
    }
    let kind = if matches!(code, 126 | 127) { Failure::DidNotStart } else { Failure::Exited };
    ran.said = Err(Failed::new(kind, message(printed.stderr, code)));
    ran
}

/// The block of a program that exited with 2. What it printed stays as far as it does not say yes; its reason counts
/// before stderr if it blocks itself.
fn blocking(mut answer: Answer, stderr: &[u8], expect: &Expect) -> Answer {
    let said = message_or_empty(stderr);
    let gives_reason = answer.verdict == Verdict::Block && answer.reason != BLOCKED && !answer.reason.is_empty();
    if !gives_reason {
        answer.reason = if said.is_empty() { BLOCKED.to_owned() } else { said.clone() };
    }
    answer.verdict = Verdict::Block;
    output::without_consent(&mut answer);
    let for_the_person = expect.event.block == Block::Recorded && STDERR_FOR_THE_PERSON.contains(&expect.event.name);
    if for_the_person && !said.is_empty() && answer.system_message.is_none() {
        answer.system_message = Some(said);
    }
    answer
}

fn message_or_empty(stderr: &[u8]) -> String {
    if stderr.iter().all(u8::is_ascii_whitespace) { String::new() } else { message(stderr, 2) }
}

/// Whether an answer keeps something from being done, or puts it off.
fn restricts(answer: &Answer) -> bool {
    answer.verdict >= Verdict::Ask || answer.halt.is_some()
}

#[cfg(test)]
mod tests;
