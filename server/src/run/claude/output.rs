//! What the output of a handler says: what a command printed, or the body of an http answer. Pure.

mod specific;

use hookd_json::{Map, Value};

use super::{CONTEXT_EVENTS, WORKTREE_CREATE};
use crate::{
    model::{Answer, Failed, Verdict},
    run::output::{
        BLOCKED, Expect, NOT_AN_OBJECT, Parsed, TEXT_BEFORE, bad, boolean, check, hides_object, no_decision, string,
        trim, wrong,
    },
};

/// Events on which the contract gives `continue: false` no effect.
const HALT_HAS_NO_EFFECT: [&str; 11] = [
    "TaskCreated",
    "ConfigChange",
    "PreCompact",
    "PostCompact",
    "MessageDisplay",
    "Notification",
    "StopFailure",
    "InstructionsLoaded",
    "SessionEnd",
    "WorktreeCreate",
    "WorktreeRemove",
];

/// Keys that decide or rewrite in another place or another protocol. What stands there was meant, so it is not
/// silently nothing.
const MISPLACED: [&str; 6] = [
    "permissionDecision",
    "permissionDecisionReason",
    "updatedInput",
    "updatedToolOutput",
    "updatedMCPToolOutput",
    "updatedPermissions",
];
const NATIVE: [&str; 4] = ["blocked", "modifiedParams", "modifiedResult", "halt"];

/// How many things that do not count are named of one output.
const MOST_DROPPED: usize = 8;

/// Keys without effect that say nothing about the call.
const WITHOUT_EFFECT: [&str; 2] = ["async", "asyncTimeout"];

/// Whether it has to be one object.
pub(super) fn is_object(text: &str) -> bool {
    trim(text).starts_with('{')
}

/// Reads the output of a handler that speaks this protocol. What starts with `{` is one strict JSON object, anything
/// else is plain text: context for the model on some events, no opinion on the others.
///
/// # Errors
/// [`crate::model::Failure::BadOutput`] with what is wrong, where the output is a broken object, a key holds something
/// else than it may or stands in the wrong place, the event cannot carry a rewrite, an http body is neither empty nor
/// an object, or a `mustDecide` rule gives no decision.
pub(in crate::run) fn parse(text: &str, expect: &Expect) -> Result<Parsed, Failed> {
    let text = trim(text);
    if !is_object(text) {
        return plain(text, expect);
    }
    expect.is_utf8()?;
    let value = hookd_json::parse(text).map_err(|error| bad(format!("output is not one JSON object: {error}")))?;
    let Value::Object(object) = value else {
        return Err(bad("output is not a JSON object".to_owned()));
    };
    answer(object, expect)
}

fn plain(text: &str, expect: &Expect) -> Result<Parsed, Failed> {
    if expect.http && !text.is_empty() {
        return Err(bad(NOT_AN_OBJECT.to_owned()));
    }
    let is_context = CONTEXT_EVENTS.contains(&expect.event.name);
    // Text for the model may well hold JSON; an answer of this protocol it holds by mistake.
    let hides = if is_context { hides_answer(text) } else { hides_object(text) };
    if expect.central && expect.event.prevents() && hides {
        return Err(bad(TEXT_BEFORE.to_owned()));
    }
    if expect.must_decide {
        return Err(no_decision(expect.protocol));
    }
    let mut answer = Answer::default();
    if is_context && !text.is_empty() {
        answer.additional_context = Some(text.to_owned());
    }
    if expect.event.name == WORKTREE_CREATE
        && let Some(path) =
            text.lines().rev().map(|line| without_escapes(line).trim().to_owned()).find(|l| !l.is_empty())
    {
        expect.is_utf8()?;
        answer.event_output.insert("worktreePath".to_owned(), Value::String(path));
    }
    let dropped = if hides { "JSON after text".to_owned() } else { String::new() };
    Ok(Parsed { answer, dropped })
}

/// Whether some line begins what looks like an answer of this protocol. What follows the first such line holds what
/// follows the others.
fn hides_answer(text: &str) -> bool {
    let starts = text.match_indices('{').map(|(start, _)| text.split_at(start));
    let mut starts = starts.filter(|(before, _)| before.is_empty() || before.ends_with('\n'));
    let keys = ["\"hookSpecificOutput\"", "\"decision\"", "\"continue\""];
    starts.next().is_some_and(|(_, rest)| keys.iter().any(|key| rest.contains(key)))
}

/// Without the escape sequences with which programs colour what they print.
fn without_escapes(line: &str) -> String {
    let mut plain = String::new();
    let mut chars = line.chars().peekable();
    while let Some(char) = chars.next() {
        if char != '\u{1b}' {
            plain.push(char);
        } else if chars.next_if_eq(&'[').is_some() {
            // Parameters up to the letter that ends the sequence.
            let _letter = chars.find(|char| ('@'..='~').contains(char));
        } else {
            let _letter = chars.next();
        }
    }
    plain
}

fn answer(mut object: Map<String, Value>, expect: &Expect) -> Result<Parsed, Failed> {
    refuse_misplaced(&object)?;
    let mut dropped = Vec::new();
    let mut answer = Answer::default();

    let legacy = decision(&object, expect)?;
    let reason = string(&object, "reason")?.unwrap_or_default();
    let specific = match object.remove("hookSpecificOutput") {
        None => specific::Specific::default(),
        Some(Value::Object(given)) => specific::read(given, expect, &mut dropped)?,
        Some(other) => return Err(wrong("hookSpecificOutput", "an object", &other)),
    };
    answer.system_message = string(&object, "systemMessage")?.filter(|text| !text.is_empty());
    answer.halt = halt(&object, expect, &mut dropped)?.or(specific.halt);
    boolean(&object, "suppressOutput")?;
    if let Some(sequence) = string(&object, "terminalSequence")? {
        answer.event_output.insert("terminalSequence".to_owned(), Value::String(sequence));
    }

    answer.verdict = specific.verdict.max(legacy.unwrap_or_default());
    let decided_there = specific.verdict == answer.verdict && !specific.reason.is_empty();
    answer.reason = if decided_there { specific.reason } else { reason };
    answer.additional_context = specific.context;
    answer.modified_params = specific.params;
    answer.modified_result = specific.result;
    answer.event_output.extend(specific.outputs);
    if answer.verdict == Verdict::Block && specific.verdict != Verdict::Block {
        without_consent(&mut answer);
    }
    let decides = legacy.is_some() || specific.decides || answer.halt.is_some();
    go_on(&mut answer, expect);
    if answer.verdict == Verdict::Block && answer.reason.is_empty() {
        BLOCKED.clone_into(&mut answer.reason);
    }
    check(&answer, decides || answer.verdict != Verdict::None, expect)?;

    note_ignored(&object, &mut dropped);
    Ok(Parsed { answer, dropped: listed(dropped) })
}

/// Takes away what says yes in the person's place: who blocks does not say it.
pub(super) fn without_consent(answer: &mut Answer) {
    answer.event_output.retain(|key, _| !matches!(key.as_str(), "action" | "content" | "updatedPermissions"));
}

/// What is told of an output, bounded whatever it holds.
fn listed(mut dropped: Vec<String>) -> String {
    let more = dropped.len().saturating_sub(MOST_DROPPED);
    if more > 0 {
        dropped.truncate(MOST_DROPPED);
        dropped.push(format!("and {more} more"));
    }
    dropped.join("; ")
}

fn refuse_misplaced(object: &Map<String, Value>) -> Result<(), Failed> {
    for key in object.keys().map(String::as_str) {
        if MISPLACED.contains(&key) {
            return Err(bad(format!("misplaced key `{key}`: it belongs into `hookSpecificOutput`")));
        }
        if NATIVE.contains(&key) {
            return Err(bad(format!("misplaced key `{key}`: this rule speaks claude-code, not hookd's own protocol")));
        }
    }
    Ok(())
}

/// The decision of the old form, which most events still have. `approve` means something only before a tool runs.
fn decision(object: &Map<String, Value>, expect: &Expect) -> Result<Option<Verdict>, Failed> {
    match object.get("decision") {
        None => Ok(None),
        Some(Value::String(word)) if word == "block" => Ok(Some(Verdict::Block)),
        Some(Value::String(word)) if word == "approve" => {
            Ok(Some(if expect.event.name == "PreToolUse" { Verdict::Allow } else { Verdict::None }))
        }
        Some(other) => Err(wrong("decision", "one of approve and block", other)),
    }
}

fn halt(object: &Map<String, Value>, expect: &Expect, dropped: &mut Vec<String>) -> Result<Option<String>, Failed> {
    let reason = string(object, "stopReason")?.unwrap_or_default();
    if boolean(object, "continue")? != Some(false) {
        return Ok(None);
    }
    if HALT_HAS_NO_EFFECT.contains(&expect.event.name) {
        dropped.push(format!("`continue` has no effect on {}", expect.event.name));
        return Ok(None);
    }
    Ok(Some(reason))
}

/// Context that a hook gives when the agent wants to stop makes it go on.
fn go_on(answer: &mut Answer, expect: &Expect) {
    let goes_on = matches!(expect.event.name, "Stop" | "SubagentStop") && answer.halt.is_none();
    if goes_on
        && answer.verdict != Verdict::Block
        && let Some(context) = answer.additional_context.take()
    {
        answer.verdict = Verdict::Block;
        answer.reason = context;
    }
}

/// Names keys that the contract ignores.
fn note_ignored(object: &Map<String, Value>, dropped: &mut Vec<String>) {
    const KNOWN: [&str; 7] =
        ["continue", "stopReason", "suppressOutput", "systemMessage", "terminalSequence", "decision", "reason"];
    for key in object.keys().map(String::as_str).filter(|key| !KNOWN.contains(key)) {
        dropped.push(if key == "additionalContext" {
            "`additionalContext` is read in `hookSpecificOutput` alone".to_owned()
        } else if WITHOUT_EFFECT.contains(&key) {
            format!("`{key}` has no effect: the answer was waited for")
        } else {
            format!("unknown key `{}`", crate::run::cut(key, 64).escape_debug())
        });
    }
}

#[cfg(test)]
mod tests;
