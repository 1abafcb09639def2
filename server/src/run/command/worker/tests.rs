use std::fs;

use hookd_rules::{Handler, ValuePart};

use super::*;
use crate::{
    model::{Tier, Trigger, Verdict},
    run::{
        Call, Handlers as _, Pool,
        testing::{self, LONG, PATH, failed, gave, gist, job, shell, trigger},
    },
};

fn worker(tier: Tier, line: &str, pool: usize) -> Rule {
    let mut rule = shell(tier, line);
    if let Handler::Command(command) = &mut rule.handler {
        command.worker = Some(Worker { pool, max_calls: None, attached: hookd_rules::Attached::default() });
    }
    rule
}

fn event() -> Trigger {
    trigger("PreToolUse", r#"{"command":"ls"}"#)
}

async fn ask_within(pool: &Pool, rule: &Arc<Rule>, trigger: Trigger, granted: Duration) -> Ran {
    let trigger = Arc::new(trigger);
    let call = Call { rule, trigger: &trigger, form: &trigger.form, recheck: false, granted };
    tokio::time::timeout(LONG, pool.run(call)).await.unwrap()
}

async fn ask(pool: &Pool, rule: &Arc<Rule>, trigger: Trigger) -> Ran {
    ask_within(pool, rule, trigger, LONG).await
}

/// What the first call of a worker comes to.
async fn first(tier: Tier, line: &str) -> Ran {
    let (pool, _ends) = testing::pool(PATH, &[], 8);
    gist(ask(&pool, &Arc::new(worker(tier, line, 1)), event()).await)
}

/// Waits until no process is left.
async fn gone(pid: &str) {
    let there = format!("/proc/{pid}");
    let gone = async {
        while fs::exists(&there).unwrap() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, gone).await.unwrap();
}

fn reason(ran: &Ran) -> String {
    ran.said.as_ref().unwrap().reason.clone()
}

#[tokio::test]
async fn a_worker_answers_as_a_program_does_that_is_started_for_each_call() {
    let blocks = r#"while read -r line; do echo ' {"decision":"block","reason":"no"} '; done"#;
    let expected = gave(Verdict::Block, "no", r#"{"decision":"block","reason":"no"}"#);
    assert_eq!(first(Tier::Managed, blocks).await, expected);
    assert_eq!(first(Tier::Managed, "while read -r line; do echo; done").await, gave(Verdict::None, "", ""));
    let bad = failed(Failure::BadOutput, "`blocked` must be a boolean, not a number `1`");
    assert_eq!(first(Tier::Managed, r#"read -r line; echo '{"blocked":1}'; sleep 600"#).await, bad);
}

#[tokio::test]
async fn the_input_is_one_line_whatever_it_holds() {
    let (pool, _ends) = testing::pool(PATH, &[], 8);
    let directory = tempfile::tempdir().unwrap();
    let seen = directory.path().join("seen");
    let line = format!("while IFS= read -r line; do printf '%s\\n' \"$line\" >> '{}'; echo; done", seen.display());
    let rule = Arc::new(worker(Tier::Managed, &line, 1));
    let mut spread = trigger("PreToolUse", "{\r\n  \"n\": 9007199254740993,\n  \"text\": \"a\\nb\"\n}");
    spread.payload = "[\n1.50\n]".to_owned();
    for trigger in [spread, event()] {
        assert_eq!(gist(ask(&pool, &rule, trigger).await), gave(Verdict::None, "", ""));
    }
    let seen = fs::read_to_string(seen).unwrap();
    let lines = seen.lines().collect::<Vec<_>>();
    assert_eq!(lines.len(), 2, "{seen}");
    assert!(lines[0].contains(r#""params":{    "n": 9007199254740993,   "text": "a\nb" },"#), "{seen}");
    assert!(lines[0].contains(r#""payload":[ 1.50 ]"#), "{seen}");
    assert!(lines[1].contains(r#""params":{"command":"ls"}"#), "{seen}");
}

#[tokio::test]
async fn ends_and_lines_that_are_no_answers_are_failures_by_their_kind() {
    let exited = |code, kind, message| Ran { exit_code: Some(code), ..failed(kind, message) };
    for (line, expected) in [
        ("echo ' it broke ' >&2; exit 3", exited(3, Failure::Exited, "it broke")),
        ("read -r line; exit 3", exited(3, Failure::Exited, "Exit code 3")),
        ("read -r line", exited(0, Failure::Exited, "the worker ended before it answered: Exit code 0")),
        ("exit 127", Ran { looks_unlaunched: true, ..exited(127, Failure::DidNotStart, "Exit code 127") }),
        ("kill -9 $$", Ran { signal: Some(9), ..failed(Failure::Killed, "killed by signal 9") }),
        (
            "echo \"I'm ready\"; sleep 600",
            failed(
                Failure::BadOutput,
                r"a worker answers with one line that is an object or empty, not with `I'm ready`",
            ),
        ),
        (
            "printf '{}\\n{}\\n'; sleep 600",
            failed(Failure::BadOutput, r"a worker answers with one line that is an object or empty, not with `{}\n{}`"),
        ),
        (
            "printf '{\\n}\\n'; sleep 600",
            failed(Failure::BadOutput, r"a worker answers with one line that is an object or empty, not with `{\n}`"),
        ),
        (
            "tr '\\0' x < /dev/zero",
            Ran { truncated: true, ..failed(Failure::TooLarge, "a line of more than 1048576 bytes") },
        ),
    ] {
        assert_eq!(first(Tier::Shared, line).await, expected, "{line}");
    }
}

#[tokio::test]
async fn a_hang_is_a_timeout_and_the_next_call_gets_a_new_worker() {
    let (pool, _ends) = testing::pool(PATH, &[], 8);
    let line = r#"while read -r line; do case $line in *hang*) sleep 600;; esac; echo "{\"reason\":\"$$\"}"; done"#;
    let rule = Arc::new(worker(Tier::Managed, line, 1));
    let pid = reason(&ask(&pool, &rule, event()).await);
    assert_eq!(reason(&ask(&pool, &rule, event()).await), pid);
    let hung = ask_within(&pool, &rule, trigger("PreToolUse", r#"{"a":"hang"}"#), Duration::from_millis(300)).await;
    assert_eq!(gist(hung), failed(Failure::TimedOut, "Timed out after 300ms"));
    gone(&pid).await;
    assert_ne!(reason(&ask(&pool, &rule, event()).await), pid);
}

#[tokio::test]
async fn workers_run_beside_their_rule_file_with_nothing_of_an_event_around_them() {
    let (pool, _ends) = testing::pool(PATH, &[("API_TOKEN", "x"), ("HOME", "/h")], 8);
    let directory = tempfile::tempdir().unwrap();
    let place = fs::canonicalize(directory.path()).unwrap();
    let line = r#"read -r line; echo "{\"reason\":\"$(pwd -P; env | grep -v -e ^PWD= -e ^_= -e ^SHLVL= -e ^OLDPWD= | sort | tr '\n' ' ')\"}" | tr -d '\n'; echo; sleep 600"#;
    for (tier, cwd, expected) in [
        (Tier::Managed, None, place.as_path()),
        (Tier::Shared, None, place.as_path()),
        (Tier::Shared, Some("/usr"), std::path::Path::new("/usr")),
    ] {
        let mut rule = worker(tier, line, 1);
        rule.file = Arc::from(place.join("rules.yaml"));
        if let Handler::Command(command) = &mut rule.handler {
            command.cwd = cwd.map(Into::into);
            command.env = vec![("MINE".to_owned(), vec![ValuePart::Text("1".to_owned())])];
        }
        let mut event = event();
        event.cwd = "/tmp".to_owned();
        let said = reason(&ask(&pool, &Arc::new(rule), event).await);
        let environment = format!("HOME=/h HOOKD_RULE_ID=r1 LANG=C.UTF-8 MINE=1 PATH={PATH} PYTHONUTF8=1 ");
        assert_eq!(said, format!("{}{environment}", expected.display()));
    }
}

#[tokio::test]
async fn a_rule_that_is_in_force_no_more_takes_its_workers_along() {
    let (pool, _ends) = testing::pool(PATH, &[], 8);
    let rule = Arc::new(worker(Tier::Managed, r#"while read -r line; do echo "{\"reason\":\"$$\"}"; done"#, 1));
    let pid = reason(&ask(&pool, &rule, event()).await);
    assert!(fs::exists(format!("/proc/{pid}")).unwrap());
    drop(rule);
    gone(&pid).await;
}

#[tokio::test]
async fn law_06_jobs_ask_workers_too_and_a_shutdown_ends_those() {
    let (pool, mut ends) = testing::pool(PATH, &[], 8);
    let rule = Arc::new(worker(Tier::Shared, r#"while read -r line; do echo "{\"reason\":\"$$\"}"; done"#, 1));
    let mut pids = Vec::new();
    for _job in 0..3 {
        pool.queue(crate::run::Job { rule: Arc::clone(&rule), ..job(shell(Tier::Shared, ""), event()) }).unwrap();
        pids.push(reason(&tokio::time::timeout(LONG, ends.recv()).await.unwrap().unwrap()));
    }
    assert_eq!(pids, vec![pids[0].clone(); 3]);
    assert!(fs::exists(format!("/proc/{}", pids[0])).unwrap());
    pool.shutdown(LONG).await;
    assert!(!fs::exists(format!("/proc/{}", pids[0])).unwrap());
    let refused = ask(&pool, &rule, event()).await;
    assert_eq!(refused, failed(Failure::Cancelled, "the server shuts down"));
}
