//! What agents send to the relay and to their endpoints: understood in one way or refused, whatever the agent.
#![no_main]

use hookd_agents::{Agent, Native, Transport, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let object = std::str::from_utf8(input)
        .is_ok_and(|text| hookd_json::parse(text.trim_start_matches('\u{feff}')).is_ok_and(|value| value.is_object()));
    for agent in Agent::ALL {
        for transport in [Transport::Command, Transport::Http] {
            for event in [None, Some("PreToolUse"), Some("beforeShellExecution")] {
                let native = Native { agent, event, input, transport };
                match (read(&native), read(&native)) {
                    (Ok(one), Ok(other)) => {
                        assert!(object, "only an object is a call");
                        assert_eq!(one.request, other.request, "the same input means the same");
                        let params = one.request.tool_call.as_ref().map_or("", |call| call.params_json.as_str());
                        assert!(
                            params.is_empty() || hookd_json::parse(params).is_ok(),
                            "parameters are JSON: {params}"
                        );
                    }
                    (Err(_), Err(_)) => {}
                    _ => panic!("the same input means the same"),
                }
            }
        }
    }
});
