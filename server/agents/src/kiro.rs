//! Kiro: Amazon Q's protocol, grown. CLI 2 has Amazon Q's names of events and can go on at a stop; CLI 3 and IDE 1 have
//! triggers with a capital, may leave the event's name to the command line, and can also block prompts and tasks.

use serde_json::json;

use crate::{Answer, Call, Told, Verdict, amazon_q};

pub(crate) use crate::amazon_q::read;

pub(crate) fn write(call: &Call, told: Told) -> Answer {
    if call.native_event == "stop" && told.verdict == Verdict::Block {
        return Answer::text(json!({ "decision": "block", "reason": told.reason }).to_string());
    }
    amazon_q::write(call, told)
}
