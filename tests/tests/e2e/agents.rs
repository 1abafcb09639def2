//! What has to hold for every agent, end to end: the real relay or endpoint, the real hookd, and rules of the
//! organisation.

mod cut_network;
mod encoding;
mod example;
mod hook_files;
mod shell_rule;
mod stop_loops;

use hookd_tests::RawHttp1;
use serde_json::Value;

use crate::relay::Ran;

/// What the endpoint answers to this input of an agent, as a hook of that agent would have given it.
async fn by_http(connection: &mut RawHttp1, agent: &str, event: Option<&str>, input: &Value) -> Ran {
    let query = event.map(|event| format!("?event={event}")).unwrap_or_default();
    let answer = connection.ask(&format!("/v1/hooks/{agent}{query}"), "", &input.to_string()).await;
    assert_eq!((answer.status, answer.header("hookd-not-judged")), (200, None), "{agent}: {answer:?}");
    match answer.header("hookd-exit-code").map(|code| code.parse().unwrap()) {
        None | Some(0) => Ran { exit: 0, out: answer.body, err: String::new() },
        Some(exit) => Ran { exit, out: String::new(), err: answer.body },
    }
}
