//! What a handler's output says (`deploy/docs/rules.md`, "What a handler reads and answers"). Pure.

use std::{borrow::Cow, sync::Arc};

use hookd_json::{Kind, Map, Value};

use super::claude;
use crate::model::{Answer, Event, Failed, Failure, Modifies, OnError, Protocol, Ran, Rule, Trigger, Verdict};

/// The reason of a block that gives none, as in the reference engine.
pub(super) const BLOCKED: &str = "Blocked by hook";

pub(super) const NOT_AN_OBJECT: &str = "the body is neither empty nor a JSON object";
pub(super) const TEXT_BEFORE: &str = "text before a JSON object";

/// What is known of the run whose output is read.
#[derive(Debug, Clone)]
pub struct Expect {
    /// What the handler speaks.
    pub protocol: Protocol,
    /// The event.
    pub event: &'static Event,
    /// Its name, as the caller gave it.
    pub event_name: Arc<str>,
    /// The trigger has a tool call.
    pub has_tool: bool,
    /// The rule is managed or team.
    pub central: bool,
    /// The rule is `mustDecide`.
    pub must_decide: bool,
    /// The rule is `concurrent`, so it may not rewrite.
    pub concurrent: bool,
    /// The text is the body of an http answer, not what a program printed.
    pub http: bool,
    /// A failure of the rule blocks on this event.
    pub fails_closed: bool,
    /// Where the output, of which the text is made, first is no UTF-8, in bytes: there the text has U+FFFD, and what
    /// holds that may tell something and do nothing.
    pub not_utf8_at: Option<usize>,
}

impl Expect {
    /// What is expected of a program of `rule` that is run for `trigger`.
    #[must_use]
    pub fn of(rule: &Rule, trigger: &Trigger) -> Self {
        let central = rule.tier.is_central();
        Self {
            protocol: rule.protocol,
            event: trigger.event,
            event_name: Arc::clone(&trigger.event_name),
            has_tool: trigger.tool_call.is_some(),
            central,
            must_decide: rule.must_decide,
            concurrent: rule.concurrent,
            http: false,
            fails_closed: rule.failure_policy(trigger.event) == OnError::Block,
            not_utf8_at: None,
        }
    }

    /// The text of an output. Where it is no UTF-8 is noted.
    pub(super) fn text<'a>(&mut self, output: &'a [u8]) -> Cow<'a, str> {
        match str::from_utf8(output) {
            Ok(text) => Cow::Borrowed(text),
            Err(error) => {
                self.not_utf8_at = Some(error.valid_up_to());
                String::from_utf8_lossy(output)
            }
        }
    }

    /// Nothing in the text stands for what is no UTF-8.
    ///
    /// # Errors
    /// [`Failure::BadOutput`] with the place of the first byte.
    pub(super) fn is_utf8(&self) -> Result<(), Failed> {
        self.not_utf8_at.map_or(Ok(()), |at| Err(bad(format!("output is not UTF-8 at byte {at}"))))
    }
}

/// An output that was understood.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Parsed {
    /// What it says. The default where it is plain output: no opinion.
    pub answer: Answer,
    /// What was not taken for an answer although it looks like one. Empty: nothing.
    pub dropped: String,
}

/// Reads the output of a handler that ended well, in the protocol of its rule.
///
/// # Errors
/// [`Failure::BadOutput`] with what is wrong.
pub fn parse(text: &str, expect: &Expect) -> Result<Parsed, Failed> {
    match expect.protocol {
        Protocol::Native => native(text, expect),
        Protocol::ClaudeCode => claude::parse(text, expect),
    }
}

/// Text that does not start with `{` is plain output and no opinion; what starts with `{` is one strict JSON object
/// of which only the keys of the protocol count.
///
/// # Errors
/// [`Failure::BadOutput`] with what is wrong, where the output is a broken object (one that is not UTF-8 included), a
/// key of the protocol holds something else than it may, the event cannot carry a rewrite, or a `mustDecide` rule gives
/// no decision.
fn native(text: &str, expect: &Expect) -> Result<Parsed, Failed> {
    let text = trim(text);
    if !text.starts_with('{') {
        return plain(text, expect);
    }
    expect.is_utf8()?;
    let value = hookd_json::parse(text).map_err(|error| bad(format!("output is not one JSON object: {error}")))?;
    let Value::Object(object) = value else {
        return Err(bad("output is not a JSON object".to_owned()));
    };
    let answer = answer(object, expect)?;
    Ok(Parsed { answer, dropped: String::new() })
}

/// Puts into `ran` what the output says, and the output itself where it is understood.
pub(super) fn take(mut ran: Ran, text: String, expect: &Expect) -> Ran {
    match parse(&text, expect) {
        Ok(parsed) => {
            ran.said = Ok(Arc::new(parsed.answer));
            ran.output = (!text.is_empty()).then_some(text);
            ran.dropped = parsed.dropped;
        }
        Err(failed) => ran.said = Err(failed),
    }
    ran
}

/// Holds an answer against the rule and the event: a decision where one is due, and no rewrite that the event cannot
/// carry. `decides` says whether the answer holds a decision.
///
/// # Errors
/// [`Failure::BadOutput`] where it does not hold.
pub(super) fn check(answer: &Answer, decides: bool, expect: &Expect) -> Result<(), Failed> {
    if expect.must_decide && !decides {
        return Err(no_decision(expect.protocol));
    }
    if expect.concurrent && (answer.modified_params.is_some() || answer.modified_result.is_some()) {
        return Err(bad("a rewrite, which a `concurrent` rule may not make".to_owned()));
    }
    let carries = if expect.has_tool { expect.event.modifies } else { Modifies::Nothing };
    if answer.modified_params.is_some() && carries != Modifies::Params {
        return Err(bad("`modifiedParams` on an event whose parameters cannot be rewritten".to_owned()));
    }
    if answer.modified_result.is_some() && carries != Modifies::Result {
        return Err(bad("`modifiedResult` on an event whose result cannot be rewritten".to_owned()));
    }
    Ok(())
}

/// Output that is no object: no opinion, unless the rule guards something.
fn plain(text: &str, expect: &Expect) -> Result<Parsed, Failed> {
    let guards = expect.central && expect.event.prevents();
    if guards && expect.http && !text.is_empty() {
        return Err(bad(NOT_AN_OBJECT.to_owned()));
    }
    let hides_object = hides_object(text);
    if guards && hides_object {
        return Err(bad(TEXT_BEFORE.to_owned()));
    }
    if expect.must_decide {
        return Err(no_decision(expect.protocol));
    }
    let dropped = if hides_object { "JSON after text".to_owned() } else { String::new() };
    Ok(Parsed { answer: Answer::default(), dropped })
}

/// Whether an object, whole or broken, seems to follow some text.
pub(super) fn hides_object(text: &str) -> bool {
    text.lines().any(|line| trim(line).starts_with('{'))
        || text
            .find('{')
            .and_then(|start| text.get(start..))
            .is_some_and(|rest| hookd_json::check(rest) == Ok(Kind::Object))
}

fn answer(mut object: Map<String, Value>, expect: &Expect) -> Result<Answer, Failed> {
    let decision = decision(&object)?;
    let blocked = boolean(&object, "blocked")?;
    let verdict = if blocked == Some(true) { Verdict::Block } else { decision.unwrap_or_default() };

    let reason = string(&object, "reason")?.filter(|reason| !reason.is_empty());
    let block_reason = string(&object, "blockReason")?;
    let reason = match reason.or(block_reason).unwrap_or_default() {
        reason if reason.is_empty() && verdict == Verdict::Block => BLOCKED.to_owned(),
        reason => reason,
    };

    let halt_reason = string(&object, "haltReason")?.unwrap_or_default();
    let halt = (boolean(&object, "halt")? == Some(true)).then_some(halt_reason);

    let answer = Answer {
        verdict,
        reason,
        additional_context: string(&object, "additionalContext")?,
        system_message: string(&object, "systemMessage")?,
        halt,
        modified_params: take_params(&mut object)?,
        modified_result: object.remove("modifiedResult").filter(|value| !value.is_null()),
        ..Answer::default()
    };
    check(&answer, decision.is_some() || blocked.is_some(), expect)?;
    Ok(answer)
}

fn decision(object: &Map<String, Value>) -> Result<Option<Verdict>, Failed> {
    let Some(value) = object.get("decision") else {
        return Ok(None);
    };
    match value.as_str().and_then(Verdict::from_decision) {
        Some(verdict) => Ok(Some(verdict)),
        None => Err(wrong("decision", "one of allow, ask, defer and block", value)),
    }
}

fn take_params(object: &mut Map<String, Value>) -> Result<Option<Value>, Failed> {
    match object.remove("modifiedParams") {
        None | Some(Value::Null) => Ok(None),
        Some(params @ Value::Object(_)) => Ok(Some(params)),
        Some(other) => Err(wrong("modifiedParams", "an object", &other)),
    }
}

pub(super) fn boolean(object: &Map<String, Value>, key: &str) -> Result<Option<bool>, Failed> {
    match object.get(key) {
        None => Ok(None),
        Some(Value::Bool(value)) => Ok(Some(*value)),
        Some(other) => Err(wrong(key, "a boolean", other)),
    }
}

pub(super) fn string(object: &Map<String, Value>, key: &str) -> Result<Option<String>, Failed> {
    match object.get(key) {
        None => Ok(None),
        Some(Value::String(value)) => Ok(Some(value.clone())),
        Some(other) => Err(wrong(key, "a string", other)),
    }
}

pub(super) fn wrong(key: &str, expected: &str, value: &Value) -> Failed {
    let kind = match Kind::of(value) {
        Kind::Null => "",
        kind => kind.noun(),
    };
    let seen = super::cut(&hookd_json::to_text(value), 64);
    bad(format!("`{key}` must be {expected}, not {kind}{}`{seen}`", if kind.is_empty() { "" } else { " " }))
}

pub(super) fn no_decision(protocol: Protocol) -> Failed {
    let other = match protocol {
        Protocol::Native => "blocked",
        Protocol::ClaudeCode => "permissionDecision",
    };
    bad(format!("no decision: `mustDecide` wants `decision` or `{other}`"))
}

pub(super) fn bad(message: String) -> Failed {
    Failed::new(Failure::BadOutput, message)
}

/// Without white space and byte order marks at the ends.
pub(super) fn trim(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}')
}

#[cfg(test)]
mod tests;
