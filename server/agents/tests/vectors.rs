//! The golden vectors under `tests/vectors/`, in process: what each agent says, and what it gets.

#[cfg(test)]
mod vectors {
    pub(crate) mod format;
    mod properties;
}

use hookd_agents::{Agent, Native, Transport, answer, read};
use vectors::format::{self, Vector};

fn differences(vector: &Vector) -> Vec<String> {
    let Some(agent) = Agent::from_name(&vector.agent) else { return vec!["no such agent".to_owned()] };
    let transport = if vector.http { Transport::Http } else { Transport::Command };
    let native = Native { agent, event: Some(&vector.event), input: vector.input.as_bytes(), transport };
    let call = match read(&native) {
        Ok(call) => call,
        Err(error) => return vec![error.to_string()],
    };
    let mut differences = vector.differences_of_request(&call.request);
    let answer = answer(&call, &vector.response);
    if !vector.is_stdout(&answer.stdout) {
        differences.push(format!("stdout is {}, not {}", answer.stdout, vector.stdout));
    }
    if (answer.stderr.as_str(), answer.exit_code) != (vector.stderr.as_str(), vector.exit_code) {
        differences.push(format!(
            "stderr and exit code are {:?}, {}, not {:?}, {}",
            answer.stderr, answer.exit_code, vector.stderr, vector.exit_code
        ));
    }
    differences
}

#[test]
fn every_vector_holds() {
    let vectors = format::load();
    assert!(vectors.len() > 100, "{} vectors", vectors.len());
    let wrong = vectors.iter().filter_map(|vector| {
        let differences = differences(vector);
        let name = vector.path.file_name().unwrap_or_default().to_string_lossy();
        (!differences.is_empty()).then(|| format!("{}/{name}: {}", vector.agent, differences.join("; ")))
    });
    let wrong = wrong.collect::<Vec<_>>();
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_event_of_every_agent_has_vectors() {
    let vectors = format::load();
    let without = Agent::ALL.into_iter().flat_map(|agent| agent.events().map(move |event| (agent.name(), event)));
    let without =
        without.filter(|(agent, event)| !vectors.iter().any(|vector| vector.agent == *agent && vector.event == *event));
    assert_eq!(without.collect::<Vec<_>>(), []);
}
