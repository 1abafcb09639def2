//! What a handler reads: that agent's snake_case object.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::{Error, value::RawValue};

use crate::{
    model::{ToolCall, Trigger},
    run::input::{Asked, decision},
};

/// The object without a line break. Parameters, result and payload stand in it as they came, so numbers keep their
/// digits.
///
/// The four fields that the contract always has are there even where they are empty, the others only where the caller
/// said something. Then come the payload's keys as they came; one that stands for something which hookd judges (the
/// tool's input above all) is left out, since no reader may see another value than the rules did.
pub(in crate::run) fn write(trigger: &Trigger, asked: &Asked<'_>) -> Result<Vec<u8>, Error> {
    let mut object = Object::default();
    object.text("session_id", &trigger.session_id)?;
    object.text("transcript_path", &trigger.session.transcript_path)?;
    object.text("cwd", &trigger.cwd)?;
    object.text("hook_event_name", &trigger.event_name)?;
    object.said("permission_mode", &trigger.session.permission_mode)?;
    if let Some(caller) = &trigger.caller {
        object.said("agent_id", &caller.agent_id)?;
        object.said("agent_type", &caller.agent_type)?;
    }
    object.said("model", &trigger.session.model)?;
    object.said("turn_id", &trigger.session.turn_id)?;
    if let Some(call) = &trigger.tool_call {
        tool(&mut object, call, asked)?;
    }
    if let Some(known) = asked.decision {
        object.json("decision", &serde_json::to_string(&decision(known))?)?;
    }
    if !trigger.payload.is_empty() {
        for (key, value) in serde_json::from_str::<Members<'_>>(&trigger.payload)?.0 {
            object.json_unless_there(key, value.get())?;
        }
    }
    Ok(object.end())
}

fn tool(object: &mut Object, call: &ToolCall, asked: &Asked<'_>) -> Result<(), Error> {
    object.text("tool_name", &call.tool)?;
    object.json("tool_input", &asked.form.params)?;
    object.keep_free("tool_response");
    if let Some(result) = &asked.form.result {
        object.json("tool_response", result)?;
    }
    object.keep_free("tool_use_id");
    object.said("tool_use_id", &call.tool_use_id)?;
    if let Some(error) = &call.error {
        object.text("error", error)?;
    }
    if let Some(elapsed) = call.elapsed {
        object.json("duration_ms", &elapsed.as_millis().to_string())?;
    }
    Ok(())
}

/// An object that is written key by key.
#[derive(Default)]
struct Object {
    bytes: Vec<u8>,
    /// The keys that are written, or that nothing else may write.
    taken: Vec<&'static str>,
}

impl Object {
    fn text(&mut self, key: &'static str, text: &str) -> Result<(), Error> {
        self.key(key)?;
        self.taken.push(key);
        serde_json::to_writer(&mut self.bytes, text)
    }

    /// As [`Self::text`], where something was said.
    fn said(&mut self, key: &'static str, text: &str) -> Result<(), Error> {
        if text.is_empty() { Ok(()) } else { self.text(key, text) }
    }

    fn json(&mut self, key: &'static str, json: &str) -> Result<(), Error> {
        self.key(key)?;
        self.taken.push(key);
        self.bytes.extend_from_slice(json.as_bytes());
        Ok(())
    }

    fn json_unless_there(&mut self, key: String, json: &str) -> Result<(), Error> {
        if !self.taken.contains(&key.as_str()) {
            self.key(&key)?;
            self.bytes.extend_from_slice(json.as_bytes());
        }
        Ok(())
    }

    fn keep_free(&mut self, key: &'static str) {
        self.taken.push(key);
    }

    fn key(&mut self, key: &str) -> Result<(), Error> {
        self.bytes.push(if self.bytes.is_empty() { b'{' } else { b',' });
        serde_json::to_writer(&mut self.bytes, key)?;
        self.bytes.push(b':');
        Ok(())
    }

    fn end(mut self) -> Vec<u8> {
        self.bytes.push(b'}');
        self.bytes
    }
}

/// The members of an object in their order, the values as they are written.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Reader)
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;
    use crate::{
        model::{Caller, Form, Session, Tier, Verdict},
        run::{Known, testing},
    };

    #[track_caller]
    fn check(trigger: &Trigger, form: &Form, decision: Option<&Known>, expected: &str) {
        let rule = testing::decide(Tier::Managed, Verdict::Ask);
        let asked = Asked { rule: &rule, form, recheck: true, decision };
        assert_eq!(String::from_utf8(write(trigger, &asked).unwrap()).unwrap(), expected);
    }

    #[test]
    fn case_074_case_071_a_tool_call_in_that_agents_words_with_digits_and_text_as_they_came() {
        let mut trigger = testing::trigger("PostToolUse", r#"{"id":9007199254740993,"n":1,"f":1.0,"t":"中\u0041"}"#);
        trigger.session = Session {
            turn_id: "t1".to_owned(),
            transcript_path: "/home/me/t.jsonl".to_owned(),
            permission_mode: "acceptEdits".to_owned(),
            model: "m".to_owned(),
            workspace_roots: vec!["/w".to_owned()],
        };
        trigger.caller = Some(Caller {
            agent: "claude-code".to_owned(),
            agent_id: "a1".to_owned(),
            agent_type: "explorer".to_owned(),
            ..Caller::default()
        });
        if let Some(call) = &mut trigger.tool_call {
            call.elapsed = Some(Duration::from_micros(12_900));
        }
        trigger.payload =
            r#"{ "mcp_server" : {"name":"db","source":"user"}, "effort":{"level":"high"}, "big":1e400}"#.to_owned();
        let form = Form { result: Some(Arc::from("[1.50]")), ..trigger.form.clone() };
        check(
            &trigger,
            &form,
            None,
            &[
                r#"{"session_id":"s1","transcript_path":"/home/me/t.jsonl","cwd":"/","hook_event_name":"PostToolUse","#,
                r#""permission_mode":"acceptEdits","agent_id":"a1","agent_type":"explorer","model":"m","turn_id":"t1","#,
                r#""tool_name":"Bash","tool_input":{"id":9007199254740993,"n":1,"f":1.0,"t":"中\u0041"},"#,
                r#""tool_response":[1.50],"tool_use_id":"u1","duration_ms":12,"#,
                r#""mcp_server":{"name":"db","source":"user"},"effort":{"level":"high"},"big":1e400}"#,
            ]
            .concat(),
        );
    }

    #[test]
    fn case_041_other_events_are_told_by_their_payload_and_what_the_contract_always_has_is_there() {
        let mut trigger = testing::trigger("Stop", "{}");
        trigger.cwd.clear();
        trigger.payload = r#"{"stop_hook_active":true,"tool_input":"not a tool event"}"#.to_owned();
        let head = r#"{"session_id":"s1","transcript_path":"","cwd":"","hook_event_name":"Stop""#;
        check(
            &trigger,
            &trigger.form,
            None,
            &format!(r#"{head},"stop_hook_active":true,"tool_input":"not a tool event"}}"#),
        );
        let known = Known {
            verdict: Verdict::Block,
            reason: "no".to_owned(),
            rule_id: Arc::from("guard"),
            tier: Some(Tier::Managed),
        };
        trigger.payload = r#"{"decision":"forged"}"#.to_owned();
        check(
            &trigger,
            &trigger.form,
            Some(&known),
            &format!(r#"{head},"decision":{{"verdict":"block","reason":"no","ruleId":"guard","tier":"managed"}}}}"#),
        );
    }

    #[test]
    fn a_payload_cannot_show_a_handler_another_call_than_the_rules_judge() {
        let mut trigger = testing::trigger("PreToolUse", r#"{"command":"rm"}"#);
        if let Some(call) = &mut trigger.tool_call {
            call.tool_use_id.clear();
            call.error = Some("e\n1".to_owned());
        }
        trigger.payload = [
            r#"{"tool_input":{"command":"ls"},"tool_name":"Read","session_id":"s2","hook_event_name":"Stop","#,
            r#""cwd":"/else","transcript_path":"/x","tool_response":1,"tool_use_id":"u2","error":"other","#,
            r#""tool_\u0069nput":{"command":"ls"},"prompt_id":"p1"}"#,
        ]
        .concat();
        check(
            &trigger,
            &trigger.form,
            None,
            &[
                r#"{"session_id":"s1","transcript_path":"","cwd":"/","hook_event_name":"PreToolUse","#,
                r#""tool_name":"Bash","tool_input":{"command":"rm"},"error":"e\n1","prompt_id":"p1"}"#,
            ]
            .concat(),
        );
    }
}
