//! `hookSpecificOutput`: what an event has of its own.

use hookd_json::{Kind, Map, Value};

use crate::{
    model::{Failed, Modifies, Verdict},
    run::output::{Expect, bad, boolean, string, wrong},
};

/// Outputs that have no field of their own in hookd's answer: the event, the key, what it holds. They are passed on
/// under that key.
const OUTPUTS: [(&str, &str, Kind); 13] = [
    ("SessionStart", "initialUserMessage", Kind::String),
    ("SessionStart", "sessionTitle", Kind::String),
    ("SessionStart", "watchPaths", Kind::Array),
    ("SessionStart", "reloadSkills", Kind::Bool),
    ("UserPromptSubmit", "sessionTitle", Kind::String),
    ("UserPromptSubmit", "suppressOriginalPrompt", Kind::Bool),
    ("UserPromptExpansion", "suppressOriginalPrompt", Kind::Bool),
    ("MessageDisplay", "displayContent", Kind::String),
    ("PermissionDenied", "retry", Kind::Bool),
    ("PostToolUse", "classifierContext", Kind::String),
    ("CwdChanged", "watchPaths", Kind::Array),
    ("FileChanged", "watchPaths", Kind::Array),
    ("WorktreeCreate", "worktreePath", Kind::String),
];

/// Keys that decide or rewrite. Where the event has none of that name, they were meant and cannot be carried out.
const DECIDING: [&str; 5] =
    ["permissionDecision", "updatedInput", "updatedToolOutput", "updatedMCPToolOutput", "action"];

/// What it says.
#[derive(Debug, Default)]
pub(super) struct Specific {
    pub(super) verdict: Verdict,
    pub(super) reason: String,
    pub(super) params: Option<Value>,
    pub(super) result: Option<Value>,
    pub(super) context: Option<String>,
    pub(super) halt: Option<String>,
    pub(super) outputs: Map<String, Value>,
    /// It holds a decision.
    pub(super) decides: bool,
}

/// Reads it. What the contract ignores is named in `dropped`.
pub(super) fn read(
    mut given: Map<String, Value>,
    expect: &Expect,
    dropped: &mut Vec<String>,
) -> Result<Specific, Failed> {
    if !is_for_this_event(&mut given, expect, dropped)? {
        return Ok(Specific::default());
    }
    let context = string(&given, "additionalContext")?.filter(|text| !text.is_empty());
    let mut specific = Specific { context, ..Specific::default() };
    given.remove("additionalContext");
    match expect.event.name {
        "PreToolUse" | "PreSkillShellCommand" | "PreModelSwitch" | "" => {
            permission(&mut given, expect, &mut specific, dropped)?;
        }
        "PermissionRequest" => request(&mut given, &mut specific)?,
        "PostToolUse" => result(&mut given, &mut specific),
        "Elicitation" | "ElicitationResult" => elicitation(&mut given, &mut specific)?,
        _ => {}
    }
    for (_, key, kind) in OUTPUTS.iter().filter(|(event, _, _)| *event == expect.event.name) {
        if let Some(value) = given.remove(*key) {
            let of_texts = |items: &Vec<Value>| items.iter().all(Value::is_string);
            if Kind::of(&value) != *kind || !value.as_array().is_none_or(of_texts) {
                let expected = if *kind == Kind::Array { "an array of strings" } else { kind.noun() };
                return Err(wrong(key, expected, &value));
            }
            specific.outputs.insert((*key).to_owned(), value);
        }
    }
    for key in given.keys().map(String::as_str) {
        if key == "decision" {
            return Err(bad("misplaced key `hookSpecificOutput.decision`: it belongs beside it".to_owned()));
        }
        if DECIDING.contains(&key) {
            return Err(bad(format!("`{key}` on {}, which has none", expect.event_name)));
        }
        dropped.push(format!("unknown key `hookSpecificOutput.{}`", crate::run::cut(key, 64).escape_debug()));
    }
    Ok(specific)
}

/// What is labelled for another event says nothing about this one; what would restrict it is not lost all the same.
fn is_for_this_event(
    given: &mut Map<String, Value>,
    expect: &Expect,
    dropped: &mut Vec<String>,
) -> Result<bool, Failed> {
    let label = match given.remove("hookEventName") {
        Some(Value::String(label)) => label,
        Some(other) => return Err(wrong("hookEventName", &format!("`{}`", expect.event_name), &other)),
        None => {
            return Err(bad(format!(
                "`hookSpecificOutput` needs `hookEventName`, which would be `{}`",
                expect.event_name
            )));
        }
    };
    if label == *expect.event_name {
        return Ok(true);
    }
    let label = crate::run::cut(&label, 64).escape_debug().to_string();
    let decision = given.get("decision").map(|decision| decision.get("behavior").unwrap_or(decision));
    let words = [given.get("permissionDecision"), decision, given.get("action")];
    let allows = |word: &Value| matches!(word.as_str(), Some("allow" | "accept" | "approve"));
    if words.into_iter().flatten().any(|word| !allows(word)) {
        return Err(bad(format!("a decision for the event `{label}` on {}", expect.event_name)));
    }
    dropped.push(format!("output for the event `{label}`"));
    Ok(false)
}

fn permission(
    given: &mut Map<String, Value>,
    expect: &Expect,
    specific: &mut Specific,
    dropped: &mut Vec<String>,
) -> Result<(), Failed> {
    let (switches, runs_shell) = (expect.event.name == "PreModelSwitch", expect.event.name == "PreSkillShellCommand");
    if let Some(word) = given.remove("permissionDecision") {
        specific.decides = true;
        specific.verdict = match word.as_str() {
            Some("allow") => Verdict::Allow,
            Some("deny") => Verdict::Block,
            Some("ask") => Verdict::Ask,
            Some("defer") if !switches => Verdict::Defer,
            _ if switches => return Err(wrong("permissionDecision", "one of allow, deny and ask", &word)),
            _ => return Err(wrong("permissionDecision", "one of allow, deny, ask and defer", &word)),
        };
    }
    specific.reason = string(given, "permissionDecisionReason")?.unwrap_or_default();
    given.remove("permissionDecisionReason");
    let params = match given.remove("updatedInput") {
        None => None,
        Some(params @ Value::Object(_)) => Some(params),
        Some(other) => return Err(wrong("updatedInput", "an object", &other)),
    };
    if runs_shell {
        // Here nothing but a plain yes or no can be carried out, and everything but a yes stops the command.
        if params.is_some() || specific.verdict > Verdict::Allow {
            specific.verdict = Verdict::Block;
            specific.decides = true;
        }
        if params.is_some() && specific.reason.is_empty() {
            "the hook wants another command, which cannot be put in the place of this one"
                .clone_into(&mut specific.reason);
        }
        if specific.verdict == Verdict::Allow {
            specific.verdict = Verdict::None;
        }
    } else if params.is_some() && (!expect.has_tool || expect.event.modifies != Modifies::Params) {
        return Err(bad(format!("`updatedInput` on {}, whose input cannot be rewritten", expect.event_name)));
    } else if params.is_some() && specific.verdict == Verdict::Defer {
        dropped.push("`updatedInput` has no effect beside `defer`".to_owned());
    } else {
        specific.params = params;
    }
    Ok(())
}

fn request(given: &mut Map<String, Value>, specific: &mut Specific) -> Result<(), Failed> {
    let mut decision = match given.remove("decision") {
        None => return Ok(()),
        Some(Value::Object(decision)) => decision,
        Some(other) => return Err(wrong("hookSpecificOutput.decision", "an object", &other)),
    };
    specific.decides = true;
    match decision.remove("behavior") {
        Some(Value::String(word)) if word == "allow" => {
            specific.verdict = Verdict::Allow;
            specific.params = match decision.remove("updatedInput") {
                None => None,
                Some(params @ Value::Object(_)) => Some(params),
                Some(other) => return Err(wrong("updatedInput", "an object", &other)),
            };
            match decision.remove("updatedPermissions") {
                None => {}
                Some(permissions @ Value::Array(_)) => {
                    specific.outputs.insert("updatedPermissions".to_owned(), permissions);
                }
                Some(other) => return Err(wrong("updatedPermissions", "an array", &other)),
            }
        }
        Some(Value::String(word)) if word == "deny" => {
            specific.verdict = Verdict::Block;
            specific.reason = string(&decision, "message")?.unwrap_or_default();
            if boolean(&decision, "interrupt")? == Some(true) {
                specific.halt = Some(specific.reason.clone());
            }
        }
        other => return Err(wrong("behavior", "one of allow and deny", &other.unwrap_or_default())),
    }
    Ok(())
}

fn result(given: &mut Map<String, Value>, specific: &mut Specific) {
    let general = given.remove("updatedToolOutput").filter(|value| !value.is_null());
    // The older name for the tools of MCP servers. A redactor that uses it for another tool redacts all the same.
    let of_mcp = given.remove("updatedMCPToolOutput").filter(|value| !value.is_null());
    specific.result = general.or(of_mcp);
}

/// An answer in the person's place. `accept` is an ALLOW, so it counts as one; the others refuse.
fn elicitation(given: &mut Map<String, Value>, specific: &mut Specific) -> Result<(), Failed> {
    let Some(action) = given.remove("action") else { return Ok(()) };
    specific.decides = true;
    specific.verdict = match action.as_str() {
        Some("accept") => Verdict::Allow,
        Some("decline" | "cancel") => Verdict::Block,
        _ => return Err(wrong("action", "one of accept, decline and cancel", &action)),
    };
    specific.outputs.insert("action".to_owned(), action);
    match given.remove("content") {
        None => {}
        Some(content @ Value::Object(_)) if specific.verdict == Verdict::Allow => {
            specific.outputs.insert("content".to_owned(), content);
        }
        Some(Value::Object(_)) => {}
        Some(other) => return Err(wrong("content", "an object", &other)),
    }
    Ok(())
}
