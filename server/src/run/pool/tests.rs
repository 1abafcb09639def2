use std::fs;

use tokio::{io::AsyncReadExt as _, net::unix::pipe};

use hookd_rules::Decide;

use super::*;
use crate::{
    model::{Answer, Tier, Verdict},
    run::{
        Known,
        testing::{self, LONG, PATH, failed, gave, gist, job, shell, trigger},
    },
};

/// A named pipe that a handler writes to once it runs.
fn fifo(directory: &tempfile::TempDir) -> (String, pipe::Receiver) {
    let path = directory.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    // Open for writing too, so that the end of one writer is no end of file.
    let receiver = pipe::OpenOptions::new().read_write(true).open_receiver(&path).unwrap();
    (path.to_str().unwrap().to_owned(), receiver)
}

async fn byte_of(receiver: &mut pipe::Receiver) {
    let byte = tokio::time::timeout(LONG, receiver.read_u8()).await.unwrap().unwrap();
    assert_eq!(byte, b'x');
}

#[tokio::test]
async fn decide_answers_in_process_and_must_decide_and_carry() {
    let (pool, _ends) = testing::pool(PATH, &[], 1);
    let rule = Arc::new(testing::decide(Tier::Managed, Verdict::Ask));
    let event = Arc::new(trigger("PreToolUse", "{}"));
    let call = Call { rule: &rule, trigger: &event, form: &event.form, recheck: false, granted: LONG };
    let ran = pool.run(call).await;
    let Handler::Decide(Decide { answer, .. }) = &rule.handler else { panic!("not decide") };
    assert!(Arc::ptr_eq(ran.said.as_ref().unwrap(), answer), "nothing is copied");

    let mut silent = testing::decide(Tier::Managed, Verdict::None);
    silent.must_decide = true;
    let message = "no decision: `mustDecide` wants `decision` or `blocked`";
    assert_eq!(
        testing::ask(&pool, silent, trigger("PreToolUse", "{}"), LONG).await,
        failed(Failure::BadOutput, message)
    );

    let answer =
        Answer { modified_params: Some(hookd_json::Value::Object(hookd_json::Map::new())), ..Answer::default() };
    let rewrites = testing::rule(Tier::Managed, Handler::Decide(answer.into()));
    let message = "`modifiedParams` on an event whose parameters cannot be rewritten";
    assert_eq!(testing::ask(&pool, rewrites, trigger("Stop", "{}"), LONG).await, failed(Failure::BadOutput, message));
}

#[tokio::test]
async fn law_06_a_job_runs_in_the_background_finds_the_decision_and_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let seen = directory.path().join("seen");
    let (pool, mut ends) = testing::pool(PATH, &[], 1);
    let rule = shell(Tier::Shared, &format!("cat > '{}'; echo '{{\"decision\":\"block\"}}'", seen.display()));
    let known =
        Known { verdict: Verdict::Block, reason: "r".to_owned(), rule_id: Arc::from("g"), tier: Some(Tier::Team) };
    pool.queue(Job { decision: Some(known), ..job(rule, trigger("PreToolUse", "{}")) }).unwrap();
    let ran = tokio::time::timeout(LONG, ends.recv()).await.unwrap().unwrap();
    let expected = gave(Verdict::Block, "Blocked by hook", r#"{"decision":"block"}"#);
    assert_eq!(gist(ran), Ran { exit_code: Some(0), ..expected });
    let input = fs::read_to_string(seen).unwrap();
    assert!(
        input.ends_with("\"decision\":{\"verdict\":\"block\",\"reason\":\"r\",\"ruleId\":\"g\",\"tier\":\"team\"}}\n"),
        "{input}"
    );
}

#[tokio::test]
async fn law_06_jobs_have_a_cap_and_a_timeout_of_their_own() {
    let directory = tempfile::tempdir().unwrap();
    let (path, mut pipe) = fifo(&directory);
    let (pool, mut ends) = testing::pool(PATH, &[], 1);
    let mut rule = shell(Tier::Shared, &format!("printf x > '{path}'; sleep 600"));
    if let Handler::Command(command) = &mut rule.handler {
        command.timeout = Duration::from_secs(2);
    }
    pool.queue(job(rule, trigger("PreToolUse", "{}"))).unwrap();
    assert_eq!(pool.background(), 1);
    let refused = pool.queue(job(testing::decide(Tier::Shared, Verdict::Ask), trigger("PreToolUse", "{}")));
    let message = "too many handlers in the background: all 1 places are taken";
    assert_eq!(refused, Err(Failed::new(Failure::Overloaded, message)));
    byte_of(&mut pipe).await;
    let ran = tokio::time::timeout(LONG, ends.recv()).await.unwrap().unwrap();
    assert_eq!(gist(ran), failed(Failure::TimedOut, "Timed out after 2000ms"));
}

#[tokio::test]
async fn law_06_a_quarter_of_the_background_is_kept_for_central_rules() {
    let (pool, mut ends) = testing::pool(PATH, &[], 4);
    let queue = |tier| pool.queue(job(shell(tier, "sleep 600"), trigger("PreToolUse", "{}")));
    let full = |places| {
        let message = format!("too many handlers in the background: all {places} places are taken");
        Err(Failed::new(Failure::Overloaded, message))
    };
    let tiers = [Tier::Shared, Tier::Local, Tier::Plugin, Tier::Shared, Tier::Managed, Tier::Team];
    assert_eq!(tiers.map(queue), [Ok(()), Ok(()), Ok(()), full(3), Ok(()), full(4)]);
    pool.shutdown(Duration::ZERO).await;
    for _ in 0..4 {
        assert_eq!(gist(ends.recv().await.unwrap()), failed(Failure::Cancelled, "the server shuts down"));
    }
}

#[tokio::test]
async fn case_014_at_shutdown_jobs_finish_within_the_limit() {
    let directory = tempfile::tempdir().unwrap();
    let (path, mut pipe) = fifo(&directory);
    let (pool, mut ends) = testing::pool(PATH, &[], 8);
    let done = directory.path().join("done");
    let rule = shell(Tier::Shared, &format!("printf x > '{path}'; sleep 1; touch '{}'", done.display()));
    pool.queue(job(rule, trigger("PreToolUse", "{}"))).unwrap();
    byte_of(&mut pipe).await;
    pool.shutdown(LONG).await;
    assert!(done.try_exists().unwrap());
    assert_eq!(gist(ends.recv().await.unwrap()), Ran { exit_code: Some(0), ..gave(Verdict::None, "", "") });

    let refused = pool.queue(job(shell(Tier::Shared, "true"), trigger("PreToolUse", "{}")));
    assert_eq!(refused, Err(Failed::new(Failure::Cancelled, "the server shuts down")));
}

#[tokio::test]
async fn case_014_at_shutdown_jobs_that_do_not_finish_are_killed_and_told_as_cancelled() {
    let directory = tempfile::tempdir().unwrap();
    let (path, mut pipe) = fifo(&directory);
    let (pool, mut ends) = testing::pool(PATH, &[], 8);
    let line = format!("exec 3> '{path}'; printf x >&3; exec sleep 600");
    pool.queue(job(shell(Tier::Shared, &line), trigger("PreToolUse", "{}"))).unwrap();
    byte_of(&mut pipe).await;
    let mut end_of_program = pipe::OpenOptions::new().open_receiver(&path).unwrap();
    drop(pipe);
    pool.shutdown(Duration::from_millis(10)).await;
    assert_eq!(gist(ends.recv().await.unwrap()), failed(Failure::Cancelled, "the server shuts down"));
    let rest = tokio::time::timeout(LONG, end_of_program.read(&mut [0])).await.unwrap().unwrap();
    assert_eq!(rest, 0, "nobody holds the pipe any more");
}
