//! What a handler reads: hookd's own input (`deploy/docs/rules.md`, "What a handler reads and answers"), or that of its
//! rule's protocol.

use serde::{Serialize, Serializer, ser::SerializeStruct as _};
use serde_json::value::RawValue;

use super::{Known, claude};
use crate::model::{Caller, Failed, Failure, Form, Identity, Labels, Protocol, Rule, Trigger};

/// What is told to a handler beside the event.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// The rule whose handler it is.
    pub rule: &'a Rule,
    /// The form at the rule's turn.
    pub form: &'a Form,
    /// It is the extra pass (law 5).
    pub recheck: bool,
    /// The decision, where it is known already (law 6).
    pub decision: Option<&'a Known>,
}

/// One line of JSON with the line break at its end. Parameters, result and payload stand in it as they came, so
/// numbers keep their digits.
///
/// # Errors
/// [`Failure::Internal`] where a text of the trigger or the form is not JSON.
pub fn line(trigger: &Trigger, asked: &Asked<'_>) -> Result<Vec<u8>, Failed> {
    let written = match asked.rule.protocol {
        Protocol::Native => native(trigger, asked),
        Protocol::ClaudeCode => claude::write(trigger, asked),
    };
    let mut line =
        written.map_err(|error| Failed::new(Failure::Internal, format!("the input could not be written: {error}")))?;
    line.push(b'\n');
    Ok(line)
}

/// A decision as a handler reads it.
pub(super) fn decision(known: &Known) -> impl Serialize + '_ {
    Decision::of(known)
}

fn native(trigger: &Trigger, asked: &Asked<'_>) -> Result<Vec<u8>, serde_json::Error> {
    let tool_call = match &trigger.tool_call {
        None => None,
        Some(call) => Some(ToolCall {
            tool: &call.tool,
            params: serde_json::from_str(&asked.form.params)?,
            result: asked.form.result.as_deref().map(serde_json::from_str).transpose()?,
            tool_use_id: &call.tool_use_id,
        }),
    };
    let payload = if trigger.payload.is_empty() { None } else { Some(serde_json::from_str(&trigger.payload)?) };
    let input = Input {
        event: &trigger.event_name,
        session_id: &trigger.session_id,
        timestamp: trigger.timestamp_ms,
        tool_call,
        cwd: &trigger.cwd,
        payload,
        caller: trigger.caller.as_ref(),
        identity: Some(&*trigger.identity).filter(|identity| !identity.name.is_empty()).map(Verified),
        request_id: &trigger.request_id,
        decision_id: &trigger.decision_id,
        rule_id: &asked.rule.id,
        recheck: asked.recheck,
        decision: asked.decision.map(Decision::of),
    };
    serde_json::to_vec(&input)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Input<'a> {
    event: &'a str,
    session_id: &'a str,
    timestamp: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call: Option<ToolCall<'a>>,
    #[serde(skip_serializing_if = "str::is_empty")]
    cwd: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    caller: Option<&'a Caller>,
    #[serde(skip_serializing_if = "Option::is_none")]
    identity: Option<Verified<'a>>,
    request_id: &'a str,
    decision_id: &'a str,
    rule_id: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    recheck: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<Decision<'a>>,
}

/// Who calls, as was proved: apart from `caller`, which is what it says of itself.
struct Verified<'a>(&'a Identity);

/// Labels as an object.
struct Object<'a>(&'a Labels);

impl Serialize for Verified<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Identity { name, labels } = self.0;
        let mut object = to.serialize_struct("identity", 2)?;
        object.serialize_field("name", name)?;
        object.serialize_field("labels", &Object(labels))?;
        object.end()
    }
}

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.as_slice().iter().map(|(label, value)| (label, value)))
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolCall<'a> {
    tool: &'a str,
    params: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "str::is_empty")]
    tool_use_id: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Decision<'a> {
    verdict: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    rule_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tier: Option<&'static str>,
}

impl<'a> Decision<'a> {
    fn of(known: &'a Known) -> Self {
        Self {
            verdict: known.verdict.name(),
            reason: &known.reason,
            rule_id: &known.rule_id,
            tier: known.tier.map(crate::model::Tier::name),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        model::{Tier, Verdict},
        run::testing,
    };

    #[track_caller]
    fn check(trigger: &Trigger, asked: &Asked<'_>, expected: &str) {
        let line = String::from_utf8(line(trigger, asked).unwrap()).unwrap();
        assert_eq!(line, format!("{expected}\n"));
    }

    #[test]
    fn case_074_case_071_digits_and_text_stand_as_they_came() {
        let mut trigger = testing::trigger("PreToolUse", r#"{"id":9007199254740993,"n":1,"f":1.0,"t":"中\u0041"}"#);
        trigger.payload = r#"{"stop_hook_active":true,"big":1e400}"#.to_owned();
        trigger.request_id = "q1".to_owned();
        trigger.caller = Some(Caller {
            agent: "a".to_owned(),
            labels: vec![("team".to_owned(), "x".to_owned())],
            ..Caller::default()
        });
        let form = Form { result: Some(Arc::from("[1.50]")), ..trigger.form.clone() };
        let rule = testing::decide(Tier::Managed, Verdict::Ask);
        check(
            &trigger,
            &Asked { rule: &rule, form: &form, recheck: true, decision: None },
            &[
                r#"{"event":"PreToolUse","sessionId":"s1","timestamp":1700000000000,"#,
                r#""toolCall":{"tool":"Bash","params":{"id":9007199254740993,"n":1,"f":1.0,"t":"中\u0041"},"#,
                r#""result":[1.50],"toolUseId":"u1"},"cwd":"/","#,
                r#""payload":{"stop_hook_active":true,"big":1e400},"#,
                r#""caller":{"agent":"a","labels":{"team":"x"}},"#,
                r#""requestId":"q1","decisionId":"d1","ruleId":"r1","recheck":true}"#,
            ]
            .concat(),
        );
    }

    #[test]
    fn who_was_proved_to_call_is_told_apart_from_what_a_caller_claims() {
        let mut trigger = testing::trigger("Stop", "{}");
        trigger.cwd.clear();
        trigger.caller = Some(Caller { user: "root".to_owned(), ..Caller::default() });
        let labels = [("tenant", "b"), ("role", "x")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        let labels = labels.into_iter().collect();
        trigger.identity = Arc::new(Identity { name: "prod/a \"b\"".to_owned(), labels });
        let rule = testing::decide(Tier::Shared, Verdict::Ask);
        let asked = Asked { rule: &rule, form: &trigger.form, recheck: false, decision: None };
        let expected = [
            r#"{"event":"Stop","sessionId":"s1","timestamp":1700000000000,"caller":{"user":"root"},"#,
            r#""identity":{"name":"prod/a \"b\"","labels":{"role":"x","tenant":"b"}},"#,
            r#""requestId":"","decisionId":"d1","ruleId":"r1"}"#,
        ];
        check(&trigger, &asked, &expected.concat());
    }

    #[test]
    fn what_is_not_there_is_left_out_and_a_decision_is_told() {
        let mut trigger = testing::trigger("Stop", "{}");
        trigger.cwd.clear();
        let rule = testing::decide(Tier::Shared, Verdict::Ask);
        let known = Known {
            verdict: Verdict::Block,
            reason: "a\nb".to_owned(),
            rule_id: Arc::from("guard"),
            tier: Some(Tier::Managed),
        };
        let asked = Asked { rule: &rule, form: &trigger.form, recheck: false, decision: Some(&known) };
        let head = r#"{"event":"Stop","sessionId":"s1","timestamp":1700000000000,"requestId":"","decisionId":"d1","ruleId":"r1","decision":"#;
        check(
            &trigger,
            &asked,
            &format!("{head}{}}}", r#"{"verdict":"block","reason":"a\nb","ruleId":"guard","tier":"managed"}"#),
        );
        let nothing = Known { verdict: Verdict::None, reason: String::new(), rule_id: Arc::from(""), tier: None };
        check(&trigger, &Asked { decision: Some(&nothing), ..asked }, &format!("{head}{}}}", r#"{"verdict":"none"}"#));
    }
}
