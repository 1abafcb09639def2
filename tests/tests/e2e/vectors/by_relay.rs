//! The real `hookctl relay`, asked by each agent, and a hookd that says what the vector wants.

use std::sync::Arc;

use hookd_tests::{Scripted, v1::Capability};

use super::{
    REASON, can, expected,
    format::{self, Vector},
    is_nothing, is_plain_block, is_stop_like, name, reason_in_form_of, request, said,
};
use crate::relay::{Relay, servers::nobody};

/// How many relays run at a time.
const LANES: usize = 4;

/// What is wrong with the vectors that relays can ask, each looked at by `check`.
async fn wrong<C, F>(chosen: fn(&Vector) -> bool, check: C) -> Vec<String>
where
    C: Fn(Arc<Vec<Vector>>, usize, Arc<Scripted>) -> F + Copy + Send + 'static,
    F: Future<Output = Vec<String>> + Send + 'static,
{
    let vectors = Arc::new(format::load());
    let chosen = (0..vectors.len()).filter(|index| !vectors[*index].http && chosen(&vectors[*index]));
    let chosen = Arc::new(chosen.collect::<Vec<_>>());
    assert!(chosen.len() > 150, "{} vectors", chosen.len());
    let lanes = (0..LANES).map(|lane| {
        let (vectors, chosen) = (Arc::clone(&vectors), Arc::clone(&chosen));
        tokio::spawn(async move {
            let server = Arc::new(Scripted::start().await);
            let mut wrong = Vec::new();
            for index in chosen.iter().skip(lane).step_by(LANES) {
                for what in check(Arc::clone(&vectors), *index, Arc::clone(&server)).await {
                    wrong.push(format!("{}: {what}", name(&vectors[*index])));
                }
            }
            wrong
        })
    });
    let mut wrong = Vec::new();
    for lane in lanes.collect::<Vec<_>>() {
        wrong.extend(lane.await.unwrap());
    }
    wrong
}

fn relay(vector: &Vector) -> Relay {
    Relay::of(&vector.agent).with(&["--event", &vector.event])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_vector_holds_through_the_relay() {
    let wrong = wrong(
        |_| true,
        |vectors, index, server| async move {
            let vector = &vectors[index];
            server.answer(vector.response.clone());
            let ran = relay(vector).at(server.address()).run_text(&vector.input).await;
            let mut wrong = Vec::new();
            let same = (ran.err.as_str(), ran.exit) == (&vector.stderr, vector.exit_code.into());
            if !same || !vector.is_stdout(&ran.out) {
                wrong.push(format!("it got {ran:?}, not {}", expected(vector)));
            }
            match &server.asked()[..] {
                [request] => wrong.extend(vector.differences_of_request(request)),
                others => wrong.push(format!("hookd was asked {others:?}")),
            }
            wrong
        },
    );
    let wrong = wrong.await;
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_hookd_every_event_of_every_agent_takes_its_safe_side() {
    let wrong = wrong(
        |vector| is_plain_block(&vector.response) || is_nothing(&vector.response),
        |vectors, index, _| async move {
            let vector = &vectors[index];
            // The blocks: what is said by default. The others: where the agent is to go on.
            let blocks = is_plain_block(&vector.response);
            let policy = if blocks { "block" } else { "allow" };
            let relay = relay(vector).with(&["--on-unavailable", policy]).at(nobody());
            let ran = relay.run_text(&vector.input).await;
            let got = said(&ran.out, &ran.err, ran.exit.try_into().unwrap());
            let asked = request(vector);
            let right = if !blocks {
                got == expected(vector)
            } else if is_stop_like(&asked) {
                (got[2] == 0) && !got.to_string().contains("hookd gave no decision")
            } else if can(&asked, Capability::ModifyResult) {
                // What a redactor has not seen is not shown.
                got.to_string().matches("hookd gave no decision").count() == 2
                    && got.to_string().contains("[not shown: ")
            } else {
                let has_reason = expected(vector).to_string().contains(REASON);
                let reason = reason_in_form_of(vector, &got);
                reason.is_some_and(|reason| reason.starts_with("hookd gave no decision: ") == has_reason)
            };
            if right { vec![] } else { vec![format!("{policy}: it got {got}")] }
        },
    );
    let wrong = wrong.await;
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
