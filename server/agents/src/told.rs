//! What an agent is to be told, before it is put into its words: within what the agent can carry out, on the safe side
//! where that is not possible (law 11).

use hookd_json::{Kind, Map, Value};

use crate::{
    notice::{has_shape_of, in_shape_of, quoted, signature, signed},
    read::Call,
    v1::{self, Capability},
};

/// The verdict, known and within what the agent can carry out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// No opinion.
    Nothing,
    /// Explicitly allowed.
    Allow,
    /// A person has to agree first.
    Ask,
    /// Someone decides outside.
    Defer,
    /// Blocked: prevented, feedback, or on stop-like events "go on".
    Block,
}

/// What an agent is to be told.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Told {
    /// The verdict.
    pub(crate) verdict: Verdict,
    /// Why, ending with `(rule, decision id)`. Never empty where the verdict is a question, a delay or a block.
    pub(crate) reason: String,
    /// ` (rule, decision id)`, for reasons that are made of other texts than hookd's.
    pub(crate) signature: String,
    /// The parameters to run with. Only where the verdict is not a block and the agent can carry a rewrite out.
    pub(crate) params: Option<Map<String, Value>>,
    /// The result to show. Only where the agent can show another one; a block does not take it away.
    pub(crate) result: Option<Value>,
    /// Text for the model. Only where the agent can carry it.
    pub(crate) context: Option<String>,
    /// Text for the person. Dropped by agents that have no place for it.
    pub(crate) message: Option<String>,
    /// The agent has to stop, and can be stopped: why, not empty. The verdict is a block then wherever a block keeps the
    /// event from happening.
    pub(crate) halt: Option<String>,
    /// `event_output_json`: per-event outputs, by their names in Claude Code. Never something that decides.
    pub(crate) extra: Map<String, Value>,
}

impl Told {
    /// No opinion on anything.
    pub(crate) fn nothing() -> Self {
        Self {
            verdict: Verdict::Nothing,
            reason: String::new(),
            signature: String::new(),
            params: None,
            result: None,
            context: None,
            message: None,
            halt: None,
            extra: Map::new(),
        }
    }

    /// The safe side of the event, for this reason: block where the agent can, but let it stop where it wants to. Where a
    /// result can be replaced, it is: a rule that takes secrets out of it may not have had its turn.
    pub(crate) fn safe_side(call: &Call, why: String) -> Self {
        if call.is_stop_like() || !call.can_block() {
            return Self::nothing();
        }
        let result = call.can(Capability::ModifyResult).then(|| notice(call, &format!("not shown: {why}")));
        Self { verdict: Verdict::Block, reason: why, result, ..Self::nothing() }
    }

    /// What `response` comes to for this agent.
    pub(crate) fn of(call: &Call, response: &v1::TriggerResponse) -> Self {
        let mut told = Self::decided(call, response);
        let decides = |key: &String| DECIDING.contains(&key.as_str());
        told.signature = signature(response);
        told.message = joined(&response.system_messages);
        if call.can(Capability::AdditionalContext) {
            told.context = joined(&response.additional_context);
        }
        let understood = !matches!(v1::Verdict::try_from(response.verdict), Ok(v1::Verdict::Unspecified) | Err(_));
        if understood
            && let Some(Value::Object(extra)) =
                response.event_output_json.as_deref().and_then(|text| hookd_json::parse(text).ok())
        {
            told.extra = extra.into_iter().filter(|(key, _)| !decides(key)).collect();
        }
        told
    }

    fn decided(call: &Call, response: &v1::TriggerResponse) -> Self {
        let safe = |why: &str| Self::safe_side(call, signed(why, response, ""));
        let result = match replaced_result(call, response) {
            Ok(result) => result,
            // A denial keeps its own reason, and what was to be hidden stays hidden.
            Err(why) if response.halt || response.verdict == i32::from(v1::Verdict::Block) => {
                call.can(Capability::ModifyResult).then(|| notice(call, &format!("not shown: {why}")))
            }
            Err(why) => return safe(&why),
        };
        if response.halt {
            return Self::halted(call, response, result);
        }
        let verdict = match v1::Verdict::try_from(response.verdict) {
            Ok(v1::Verdict::None) => Verdict::Nothing,
            Ok(v1::Verdict::Allow) => Verdict::Allow,
            Ok(v1::Verdict::Ask) if call.can(Capability::Ask) => Verdict::Ask,
            Ok(v1::Verdict::Ask) => {
                return safe(&because(
                    "this needs a person's consent and this agent cannot ask here",
                    &response.reason,
                ));
            }
            Ok(v1::Verdict::Defer) if call.can(Capability::Defer) => Verdict::Defer,
            Ok(v1::Verdict::Defer) => {
                return safe(&because(
                    "this needs a decision outside and this agent cannot wait here",
                    &response.reason,
                ));
            }
            Ok(v1::Verdict::Block) if call.can_block() => {
                let reason = signed(&response.reason, response, "Blocked by hook");
                return Self { verdict: Verdict::Block, reason, result, ..Self::nothing() };
            }
            // Recorded only, or nothing that this agent could do about it.
            Ok(v1::Verdict::Block) => Verdict::Nothing,
            Ok(v1::Verdict::Unspecified) | Err(_) => {
                return safe(&format!("hookd gave verdict {}, which is not known here", response.verdict));
            }
        };
        let params = match rewritten_params(call, response) {
            Ok(params) => params,
            Err(why) => return safe(&why),
        };
        let reason = match verdict {
            Verdict::Nothing => String::new(),
            Verdict::Allow if response.reason.is_empty() => String::new(),
            _ => signed(&response.reason, response, "a rule asks for it"),
        };
        Self { verdict, reason, params, result, ..Self::nothing() }
    }

    fn halted(call: &Call, response: &v1::TriggerResponse, result: Option<Value>) -> Self {
        let why = if response.halt_reason.is_empty() { &response.reason } else { &response.halt_reason };
        let why = signed(why, response, "a rule stops the agent");
        let halt = call.can(Capability::Halt).then(|| why.clone());
        // Where the agent wants to stop, a block would make it go on.
        let verdict = if !call.is_stop_like() && call.can_block() { Verdict::Block } else { Verdict::Nothing };
        Self { verdict, reason: why, result, halt, ..Self::nothing() }
    }

    /// What remains where an agent cannot run the rewritten call in this form after all: a block with the call in it.
    pub(crate) fn instead_of_rewrite(&self, call: &Call, params: Map<String, Value>, why: &str) -> Self {
        let shown = quoted(&hookd_json::to_text(&Value::Object(params)));
        let end = if self.reason.is_empty() { self.signature.clone() } else { format!("; {}", self.reason) };
        let safe = Self::safe_side(call, format!("{why}; the corrected parameters are {shown}{end}"));
        Self { message: self.message.clone(), context: self.context.clone(), ..safe }
    }
}

/// Keys of `event_output_json` that would be a decision: a verdict has fields of its own, and only those count.
const DECIDING: [&str; 20] = [
    "hookEventName",
    "permissionDecision",
    "permissionDecisionReason",
    "decision",
    "reason",
    "behavior",
    "permission",
    "continue",
    "stopReason",
    "cancel",
    "systemMessage",
    "additionalContext",
    "updatedInput",
    "updatedToolOutput",
    "updatedMCPToolOutput",
    "modifiedArgs",
    "modifiedResult",
    "updated_input",
    "tool_input",
    "overrideInput",
];

fn because(what: &str, reason: &str) -> String {
    if reason.is_empty() { what.to_owned() } else { format!("{what}: {reason}") }
}

fn joined(notes: &[v1::Note]) -> Option<String> {
    let texts = notes.iter().map(|note| note.text.as_str()).filter(|text| !text.is_empty()).collect::<Vec<_>>();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

/// A result that is not shown, for this reason.
fn notice(call: &Call, why: &str) -> Value {
    let text = format!("[{why}]");
    call.result().map_or_else(|| Value::String(text.clone()), |original| in_shape_of(&original, &text))
}

fn rewritten_params(call: &Call, response: &v1::TriggerResponse) -> Result<Option<Map<String, Value>>, String> {
    let Some(text) = &response.modified_params_json else { return Ok(None) };
    match hookd_json::parse(text) {
        Ok(Value::Object(params)) if call.can(Capability::ModifyParams) => Ok(Some(params)),
        Ok(Value::Object(_)) => Err(format!(
            "the call was rewritten and this agent cannot carry a rewrite out here; the corrected parameters are {}",
            quoted(text)
        )),
        Ok(other) => Err(format!("hookd gave parameters that are {}, not an object", Kind::of(&other).noun())),
        Err(error) => Err(format!("hookd gave parameters that are not JSON: {error}")),
    }
}

fn replaced_result(call: &Call, response: &v1::TriggerResponse) -> Result<Option<Value>, String> {
    let Some(text) = &response.modified_result_json else { return Ok(None) };
    let value = match hookd_json::parse(text) {
        Ok(value) => value,
        Err(error) => return Err(format!("hookd gave a result that is not JSON: {error}")),
    };
    if !call.can(Capability::ModifyResult) {
        return Err(format!(
            "the result was rewritten and this agent cannot carry a rewrite out here; the corrected result is {}",
            quoted(text)
        ));
    }
    // An agent drops a result of another shape than the tool's without a word, and shows what was to be hidden. Those of
    // MCP tools may have any.
    let is_free = call.request.tool_call.as_ref().is_some_and(|tool| tool.kind == "mcp");
    Ok(Some(match (&value, call.result()) {
        (Value::String(text), Some(original @ (Value::Object(_) | Value::Array(_)))) => in_shape_of(&original, text),
        (_, Some(original @ (Value::Object(_) | Value::Array(_)))) if !is_free && !has_shape_of(&original, &value) => {
            in_shape_of(&original, text)
        }
        _ => value,
    }))
}
