//! The golden vectors under `tests/vectors/`, through the real programs: what each agent says, and what it gets.

#[path = "../../../server/agents/tests/vectors/format.rs"]
mod format;

mod by_http;
mod by_relay;

use hookd_agents::{Agent, Native, Transport, read};
use hookd_json::Value;
use hookd_tests::v1::{self, Capability, Verdict};
use serde_json::json;

use self::format::Vector;

/// The reason of the vectors' blocks.
const REASON: &str = "no pushing to main";

/// Standard output (parsed where it is an object), standard error and exit code.
type Said = Value;

fn said(stdout: &str, stderr: &str, exit: u64) -> Said {
    let parsed = hookd_json::parse(stdout).ok().filter(Value::is_object);
    json!([parsed.unwrap_or_else(|| stdout.into()), stderr, exit])
}

/// What the agent has to get.
fn expected(vector: &Vector) -> Said {
    json!([vector.stdout, vector.stderr, vector.exit_code])
}

/// Whose it is, and of what event.
fn key(vector: &Vector) -> (&str, &str, bool) {
    (&vector.agent, &vector.event, vector.http)
}

fn name(vector: &Vector) -> String {
    format!("{}/{}", vector.agent, vector.path.file_name().unwrap().display())
}

/// The request that the translator makes of the vector's input.
fn request(vector: &Vector) -> v1::TriggerRequest {
    let agent = Agent::from_name(&vector.agent).unwrap();
    let transport = if vector.http { Transport::Http } else { Transport::Command };
    read(&Native { agent, event: Some(&vector.event), input: vector.input.as_bytes(), transport }).unwrap().request
}

/// The agent can carry this out on the vector's event.
fn can(request: &v1::TriggerRequest, capability: Capability) -> bool {
    request.capabilities.as_ref().unwrap().supported().any(|one| one == capability)
}

fn is_stop_like(request: &v1::TriggerRequest) -> bool {
    ["Stop", "SubagentStop", "TaskCompleted", "TeammateIdle"].contains(&request.event.as_str())
}

fn is_nothing(response: &v1::TriggerResponse) -> bool {
    let nothing = v1::TriggerResponse { verdict: Verdict::None.into(), ..Default::default() };
    v1::TriggerResponse { decision_id: String::new(), ..response.clone() } == nothing
}

fn is_plain_block(response: &v1::TriggerResponse) -> bool {
    let block = v1::TriggerResponse {
        verdict: Verdict::Block.into(),
        reason: REASON.to_owned(),
        decided_by: response.decided_by.clone(),
        decision_id: response.decision_id.clone(),
        ..Default::default()
    };
    response.decided_by.is_some() && *response == block
}

/// The block of the same event by the same way, if there is one with the same capabilities.
fn block_of<'v>(vectors: &'v [Vector], vector: &Vector) -> &'v Vector {
    let of_this = request(vector).capabilities;
    let blocks = || vectors.iter().filter(|other| key(other) == key(vector) && is_plain_block(&other.response));
    let same = blocks().find(|other| request(other).capabilities == of_this);
    same.or_else(|| blocks().next()).unwrap_or_else(|| panic!("no block of {}", name(vector)))
}

/// The texts that stand in `found` where `form` has `hole`, if the two are equal in all else.
fn fill(form: &Value, found: &Value, hole: &str) -> Option<Vec<String>> {
    match (form, found) {
        (Value::String(form), Value::String(found)) => match form.split_once(hole) {
            Some((before, after)) => Some(vec![found.strip_prefix(before)?.strip_suffix(after)?.to_owned()]),
            None => (form == found).then(Vec::new),
        },
        (Value::Array(form), Value::Array(found)) if form.len() == found.len() => {
            let filled = form.iter().zip(found).map(|(form, found)| fill(form, found, hole));
            filled.collect::<Option<Vec<_>>>().map(|texts| texts.concat())
        }
        (Value::Object(form), Value::Object(found)) if form.len() == found.len() => {
            let filled = form.iter().map(|(key, form)| fill(form, found.get(key)?, hole));
            filled.collect::<Option<Vec<_>>>().map(|texts| texts.concat())
        }
        _ => (form == found).then(Vec::new),
    }
}

/// The one text that stands in `found` in the place of the reason of `block`, if it has that form. Empty: the form has
/// none, since the agent cannot block there.
fn reason_in_form_of(block: &Vector, found: &Said) -> Option<String> {
    let rule = &block.response.decided_by.as_ref().unwrap().rule_id;
    let hole = format!("{REASON} ({rule}, {})", block.response.decision_id);
    let mut texts = fill(&expected(block), found, &hole)?;
    texts.dedup();
    (texts.len() < 2).then(|| texts.pop().unwrap_or_default())
}
