//! What an answer says, in a word, for each engine that can be asked.

use std::collections::HashMap;

use hookd_proto::v1::Verdict;
use prost::{Message as _, bytes::Bytes};
use serde::Deserialize;

/// The message that a server answers with, and what of it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Answers {
    /// `hookd.v1.TriggerResponse`: its verdict.
    Verdict,
    /// The same as a decision between two: no opinion counts as `deny`.
    Decision,
    /// `cerbos.response.v1.CheckResourcesResponse`: the effect of the one action on the one resource that was asked for.
    Cerbos,
    /// `envoy.service.auth.v3.CheckResponse`: its status.
    Envoy,
}

impl Answers {
    /// `allow`, `deny`, or the name of a verdict; of an answer that says nothing, `nothing`.
    pub(crate) fn read(self, answer: &Bytes) -> &'static str {
        match self {
            Self::Verdict => verdict(answer).map_or("nothing", verdict_name),
            Self::Decision => match verdict(answer) {
                Some(Verdict::None | Verdict::Block) => "deny",
                Some(other) => verdict_name(other),
                None => "nothing",
            },
            Self::Cerbos => cerbos(answer).unwrap_or("nothing"),
            Self::Envoy => envoy(answer).unwrap_or("nothing"),
        }
    }
}

/// The verdict in an encoded `TriggerResponse`, without looking at the rest of it.
pub(crate) fn verdict(response: &Bytes) -> Option<Verdict> {
    #[derive(Clone, PartialEq, prost::Message)]
    struct VerdictOnly {
        #[prost(enumeration = "Verdict", tag = "1")]
        verdict: i32,
    }
    let verdict = VerdictOnly::decode(response.clone()).ok()?.verdict();
    (verdict != Verdict::Unspecified).then_some(verdict)
}

fn verdict_name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Unspecified => "nothing",
        Verdict::None => "none",
        Verdict::Allow => "allow",
        Verdict::Ask => "ask",
        Verdict::Defer => "defer",
        Verdict::Block => "block",
    }
}

fn cerbos(answer: &Bytes) -> Option<&'static str> {
    const EFFECT_ALLOW: i32 = 1;
    const EFFECT_DENY: i32 = 2;
    #[derive(Clone, PartialEq, prost::Message)]
    struct ResultsOnly {
        #[prost(message, repeated, tag = "2")]
        results: Vec<ActionsOnly>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    struct ActionsOnly {
        #[prost(map = "string, int32", tag = "2")]
        actions: HashMap<String, i32>,
    }
    let answer = ResultsOnly::decode(answer.clone()).ok()?;
    match *answer.results.first()?.actions.values().next()? {
        EFFECT_ALLOW => Some("allow"),
        EFFECT_DENY => Some("deny"),
        _ => None,
    }
}

fn envoy(answer: &Bytes) -> Option<&'static str> {
    const PERMISSION_DENIED: i32 = 7;
    #[derive(Clone, PartialEq, prost::Message)]
    struct StatusOnly {
        #[prost(message, tag = "1")]
        status: Option<CodeOnly>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    struct CodeOnly {
        #[prost(int32, tag = "1")]
        code: i32,
    }
    match StatusOnly::decode(answer.clone()).ok()?.status?.code {
        0 => Some("allow"),
        PERMISSION_DENIED => Some("deny"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(answers: Answers, bytes: &'static [u8]) -> &'static str {
        answers.read(&Bytes::from_static(bytes))
    }

    #[test]
    fn every_engine_says_it_in_its_own_message() {
        // Field 1, a varint: the verdicts 1 to 5, and one that this version does not know.
        let verdicts: [&[u8]; 6] = [b"\x08\x01", b"\x08\x02", b"\x08\x03", b"\x08\x04", b"\x08\x05", b"\x08\x06"];
        let read_all = |answers| verdicts.map(|bytes| Answers::read(answers, &Bytes::from_static(bytes)));
        assert_eq!(read_all(Answers::Verdict), ["none", "allow", "ask", "defer", "block", "nothing"]);
        assert_eq!(read_all(Answers::Decision), ["deny", "allow", "ask", "defer", "deny", "nothing"]);
        // results[0].actions = {"call": 1}, and 2.
        assert_eq!(read(Answers::Cerbos, b"\x12\x0a\x12\x08\x0a\x04call\x10\x01"), "allow");
        assert_eq!(read(Answers::Cerbos, b"\x12\x0a\x12\x08\x0a\x04call\x10\x02"), "deny");
        // status {}, and status {code: 7}.
        assert_eq!(read(Answers::Envoy, b"\x0a\x00"), "allow");
        assert_eq!(read(Answers::Envoy, b"\x0a\x02\x08\x07"), "deny");
    }

    #[test]
    fn an_answer_without_a_decision_is_no_decision() {
        for answers in [Answers::Verdict, Answers::Decision, Answers::Cerbos, Answers::Envoy] {
            assert_eq!((read(answers, b""), read(answers, b"\xff")), ("nothing", "nothing"), "{answers:?}");
        }
    }
}
