//! Commands are held in by what the settings and their rules say (issue 6), and each test names the limit that did it.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
    sync::atomic::{AtomicU32, Ordering},
};

use hookd_tests::{
    Hookd, HookdBuilder, event, eventually, program, rule, sh,
    v1::{Failure, HookResult},
    with,
};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::pages::{blocks, page};

const TOKEN: &str = "tok-61c02e9d";
const KEY: &str = "key-9b1f77aa";

/// A hookd whose rules are these commands, each held in by its own `allow` list, if it has one.
fn hookd(handlers: &[(&str, Value)]) -> HookdBuilder {
    let rules = handlers.iter().map(|(id, handler)| rule(id, "SessionEnd", handler.clone()));
    let builder = Hookd::builder().managed(rules.collect());
    // Other users get as far as they would on a machine where hookd is installed.
    fs::set_permissions(builder.path(""), fs::Permissions::from_mode(0o711)).unwrap();
    builder
}

async fn results(hookd: &Hookd) -> Vec<HookResult> {
    hookd.trigger(event("SessionEnd")).await.results
}

/// What a handler came to: what it printed, or how it failed.
fn came(result: &HookResult) -> Result<&str, (Failure, &str)> {
    match result.failure() {
        Failure::Unspecified => Ok(result.output()),
        failure => Err((failure, result.error())),
    }
}

async fn only(hookd: &Hookd) -> HookResult {
    let mut results = results(hookd).await;
    assert_eq!(results.len(), 1);
    results.remove(0)
}

#[track_caller]
fn assert_failed(result: &HookResult, failure: Failure, part: &str) {
    let error = result.error();
    assert!(
        result.failure() == failure && error.contains(part),
        "{}: {failure:?} {part}, but {result:?}",
        result.rule_id
    );
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Settings that make commands run as a user that nobody else is, whom no list of users knows. Who is not root cannot;
/// commands then run as this user, whom the limit of processes binds as well.
fn as_somebody() -> (u32, Value) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let user = 600_000 + std::process::id() % 100_000 * 32 + NEXT.fetch_add(1, Ordering::Relaxed);
    if is_root() { (user, json!({ "user": user, "group": user })) } else { (user, json!({})) }
}

/// Whether this kernel can do what an `allow` list asks for. Where it cannot, such commands do not run.
async fn kernel_offers_landlock() -> bool {
    if hookd_confine::landlock_version().is_some_and(|version| version >= 4) {
        return true;
    }
    let hookd = hookd(&[("listed", with(sh("true"), json!({ "allow": {} })))]).start().await;
    assert_failed(&only(&hookd).await, Failure::DidNotStart, "Landlock version 4 is needed and this kernel offers");
    false
}

/// Attempts on what is the server's. `env` shows what it was given.
fn thefts(allow: Option<Value>) -> Vec<(&'static str, Value)> {
    let attempts = [
        ("env", "env"),
        ("server", "tr '\\0' '\\n' < /proc/$PPID/environ"),
        ("init", "tr '\\0' '\\n' < /proc/1/environ"),
        ("key", "cat ../secrets/key"),
    ];
    let more = allow.map_or_else(|| json!({}), |allow| json!({ "allow": allow }));
    attempts.into_iter().map(|(id, script)| (id, with(sh(script), more.clone()))).collect()
}

fn with_secrets(builder: HookdBuilder, mode: u32) -> HookdBuilder {
    let builder = builder.file("secrets/key", KEY).env("API_TOKEN", TOKEN);
    fs::set_permissions(builder.path("secrets/key"), fs::Permissions::from_mode(mode)).unwrap();
    builder
}

#[tokio::test]
async fn the_allow_list_of_variables_keeps_the_servers_environment_from_a_command() {
    let hookd = with_secrets(hookd(&thefts(None)), 0o600).start().await;
    let results = results(&hookd).await;
    assert!(came(&results[0]).unwrap().contains("HOOKD_EVENT=SessionEnd") && !results[0].output().contains(TOKEN));
    // Nothing else keeps it from the rest: whoever hookd runs as can read what is hookd's.
    assert!(came(&results[1]).unwrap().contains(TOKEN));
    assert_eq!(came(&results[3]), Ok(KEY));
}

#[tokio::test]
async fn another_user_keeps_the_servers_environment_and_key_files_from_a_command() {
    let (user, commands) = as_somebody();
    let builder = with_secrets(hookd(&thefts(None)), 0o600).settings(json!({ "commands": commands }));
    if !is_root() {
        let refused = builder.settings(json!({ "commands": { "user": user, "group": user } })).start_refused().await;
        let why = "`commands.user` and `commands.group` need the capabilities SETUID, SETGID and KILL";
        assert!(refused.code == Some(64) && refused.stderr.contains(why), "{refused:?}");
        return;
    }
    let hookd = builder.start().await;
    let results = results(&hookd).await;
    assert!(came(&results[0]).unwrap().contains("HOME=/\n") && !results[0].output().contains(TOKEN));
    for theft in &results[1..] {
        assert_failed(theft, Failure::Exited, "Permission denied");
    }
}

#[tokio::test]
async fn landlock_keeps_the_servers_environment_and_key_files_from_a_command_that_runs_as_hookd() {
    if !kernel_offers_landlock().await {
        return;
    }
    // Its user could read all of it, were it not for the list.
    for allow in [json!({}), json!({ "connect": [443] })] {
        let hookd = with_secrets(hookd(&thefts(Some(allow))), 0o644).start().await;
        let results = results(&hookd).await;
        assert!(came(&results[0]).unwrap().contains("HOOKD_EVENT=SessionEnd") && !results[0].output().contains(TOKEN));
        for theft in &results[1..] {
            assert_failed(theft, Failure::Exited, "Permission denied");
        }
    }
    // What is listed is open, and nothing else.
    let allow = json!({ "read": ["../secrets"] });
    let hookd = with_secrets(hookd(&thefts(Some(allow))), 0o644).start().await;
    let results = results(&hookd).await;
    assert_failed(&results[1], Failure::Exited, "Permission denied");
    assert_failed(&results[2], Failure::Exited, "Permission denied");
    assert_eq!(came(&results[3]), Ok(KEY));
}

#[tokio::test]
async fn the_limit_of_processes_stops_ten_thousand_forks() {
    const LIMIT: usize = 20;
    let (user, commands) = as_somebody();
    let script = "i=0; while [ $i -lt 10000 ]; do sleep 3000 & i=$((i+1)); done; echo all of them";
    let hookd = hookd(&[("forks", sh(script))])
        .settings(json!({ "commands": with(commands, json!({ "limits": { "processes": LIMIT } })) }))
        .start()
        .await;
    assert_failed(&only(&hookd).await, Failure::Exited, "fork");
    if is_root() {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let theirs = processes.filter(|entry| entry.metadata().is_ok_and(|metadata| metadata.uid() == user)).count();
        assert!((1..=LIMIT).contains(&theirs), "{theirs}");
    }
    // Others are not hindered: hookd, that runs as someone else, goes on starting what it is asked to.
    assert_failed(&only(&hookd).await, Failure::Exited, "fork");
}

#[tokio::test]
async fn a_limit_of_processes_that_would_not_hold_is_refused() {
    if !is_root() {
        return;
    }
    let refused =
        Hookd::builder().settings(json!({ "commands": { "limits": { "processes": 20 } } })).start_refused().await;
    let why = "commands: `commands.limits.processes` never holds for root, name another user in `commands.user`\n";
    assert_eq!((refused.code, refused.stderr.as_str()), (Some(64), why));
}

#[tokio::test]
async fn the_limit_of_file_size_stops_what_fills_the_disk() {
    let dd =
        json!({ "type": "command", "argv": ["dd", "if=/dev/zero", "of=big", "bs=64k", "count=1000"], "cwd": "../out" });
    let hookd = hookd(&[("fills", dd)])
        .file("out/other", "")
        .settings(json!({ "commands": { "limits": { "file_size": "1MiB" } } }))
        .start()
        .await;
    assert_failed(&only(&hookd).await, Failure::Killed, "killed by signal 25 (its limit of file size)");
    assert_eq!(fs::metadata(hookd.path("out/big")).unwrap().len(), 1 << 20);
}

#[tokio::test]
async fn landlock_stops_what_is_written_anywhere_else() {
    if !kernel_offers_landlock().await {
        return;
    }
    let writes = |script: &str| with(sh(script), json!({ "allow": { "read": "../data", "write": ["../out"] } }));
    let hookd = hookd(&[
        ("elsewhere", writes("echo x > ../elsewhere")),
        ("beside its rule", writes("echo x > rules.json")),
        ("temporary", writes("echo x > $TMPDIR/x")),
        ("to what it may read", writes("echo x > ../data/x")),
        ("removes", writes("rm ../data/kept")),
        (
            "listed",
            writes(
                "cat ../data/kept > ../out/b; mkdir ../out/c; mv ../out/b ../out/c/d; cat ../out/c/d; echo > /dev/null",
            ),
        ),
        ("runs what it wrote", writes("cp /bin/true ../out/true; ../out/true")),
    ])
    .file("out/a", "")
    .file("data/kept", "kept")
    .start()
    .await;
    let results = results(&hookd).await;
    for result in &results[..5] {
        assert_failed(result, Failure::Exited, "ermission denied");
    }
    assert_eq!(came(&results[5]), Ok("kept"));
    assert_failed(&results[6], Failure::DidNotStart, "Permission denied");
    assert!(!hookd.path("elsewhere").is_file() && hookd.path("data/kept").is_file());
}

#[tokio::test]
async fn landlock_stops_a_listening_port_and_a_connection() {
    if !kernel_offers_landlock().await {
        return;
    }
    let target = program("hookd");
    let folder = target.parent().unwrap().to_str().unwrap();
    // Another hookd is a program that listens, and says so.
    let listens = |allow: Value| {
        let script = "{ \"$HOOKD\" & echo $!; } | { read pid; read ready; kill $pid; echo ${ready%%:*}; }";
        let env = json!({
            "HOOKD": target, "HOOKD__LISTEN": "127.0.0.1:0", "HOOKD__ADMIN_LISTEN": "127.0.0.1:0",
            "HOOKD__DRAIN__MIN_DELAY": "0s", "HOOKD__LOG__FILTER": "off",
        });
        with(sh(script), json!({ "env": env, "timeout": 60_000, "allow": with(json!({ "read": [folder] }), allow) }))
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let connects = |allow: Value| {
        let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected");
        json!({ "type": "command", "shell": "bash", "command": script, "allow": allow })
    };
    // Landlock does not see these, the filter of system calls does.
    let sends = |allow: Value| {
        let script = format!("exec 3>/dev/udp/127.0.0.1/{port} && echo made");
        json!({ "type": "command", "shell": "bash", "command": script, "allow": allow })
    };
    let hookd = hookd(&[
        ("listens", listens(json!({}))),
        ("may listen", listens(json!({ "bind": [0] }))),
        ("connects", connects(json!({ "bind": [port] }))),
        ("may connect", connects(json!({ "connect": [port] }))),
        ("sends", sends(json!({}))),
        ("may look names up", sends(json!({ "connect": [port] }))),
    ])
    .start()
    .await;
    let results = results(&hookd).await;
    assert_eq!(came(&results[0]), Ok(""), "it was not ready");
    assert_eq!(came(&results[1]), Ok("hookd is ready"));
    assert_failed(&results[2], Failure::Exited, "Permission denied");
    assert_eq!(came(&results[3]), Ok("connected"));
    assert_failed(&results[4], Failure::Exited, "Permission denied");
    assert_eq!(came(&results[5]), Ok("made"));
}

#[tokio::test]
async fn landlock_keeps_commands_from_one_another() {
    if !kernel_offers_landlock().await {
        return;
    }
    let (_, commands) = as_somebody();
    let holds_signals = hookd_confine::landlock_version().is_some_and(|version| version >= 6);
    let secret = format!("of-another-{}", std::process::id());
    let script = "for p in /proc/[0-9]*; do tr '\\0' '\\n' < $p/environ 2>/dev/null | grep ^OTHERS_SECRET=; done; \
                  kill -s 0 $(cat ../out/pid) && echo may signal";
    let keeps = "echo $$ > ../out/pid; exec sleep 3000";
    let keeps = with(sh(keeps), json!({ "env": { "OTHERS_SECRET": secret }, "allow": { "write": ["../out"] } }));
    for (more, expected) in [(json!({}), true), (json!({ "allow": { "read": ["../out"] } }), false)] {
        let builder = Hookd::builder()
            .managed(json!([
                with(rule("keeps", "Notification", keeps.clone()), json!({ "async": true })),
                rule("after it", "SessionEnd", with(sh(script), more)),
            ]))
            .file("out/pid", "")
            .settings(json!({ "commands": commands }));
        for (path, mode) in [("", 0o711), ("out", 0o777), ("out/pid", 0o666)] {
            fs::set_permissions(builder.path(path), fs::Permissions::from_mode(mode)).unwrap();
        }
        let hookd = builder.start().await;
        hookd.trigger(event("Notification")).await;
        eventually("it runs", async || {
            fs::read_to_string(hookd.path("out/pid")).unwrap().ends_with('\n').then_some(())
        })
        .await;
        let result = only(&hookd).await;
        let output = result.output();
        let may_signal = expected || !holds_signals;
        assert_eq!((output.contains(&secret), output.contains("may signal")), (expected, may_signal), "{result:?}");
    }
}

#[tokio::test]
async fn a_command_under_landlock_changes_nothing_of_hookd_and_of_files_that_are_not_its_own() {
    if !kernel_offers_landlock().await {
        return;
    }
    // Each is something that its user may do.
    let attempts = [
        ("limits", "exec prlimit --pid $PPID --nofile=300"),
        ("priority", "exec renice 19 -p $PPID"),
        ("processors", "exec taskset -p 1 $PPID"),
        ("rights", "exec chmod 666 ../secrets/key"),
        ("times", "exec touch -c -d @0 ../secrets/key"),
    ];
    let listed = |(id, script)| (id, with(sh(script), json!({ "allow": {} })));
    let hookd = with_secrets(hookd(&attempts.map(listed)), 0o600).start().await;
    for result in &results(&hookd).await {
        assert_failed(result, Failure::Exited, "ermission denied");
    }
    assert_eq!(fs::metadata(hookd.path("secrets/key")).unwrap().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn a_link_that_a_command_leaves_where_it_may_write_opens_nothing_to_the_next_one() {
    if !kernel_offers_landlock().await {
        return;
    }
    let script = "rm -r ../out/*; ln -s ../secrets ../out/cache; echo left";
    let lists = [json!({ "read": ["../out/cache"] }), json!({ "write": ["../out/cache"] })];
    for list in lists {
        let leaves = with(sh(script), json!({ "allow": { "write": ["../out"] } }));
        let mut allow = list.clone();
        allow["write"] = match &list["write"] {
            Value::Array(more) => json!(["../out", more[0]]),
            _ => json!(["../out"]),
        };
        let takes = with(sh("cat ../out/cache/*"), json!({ "allow": allow }));
        let beside = with(sh("cat key"), json!({ "cwd": "../out/cache", "allow": { "write": ["../out"] } }));
        let builder = Hookd::builder().managed(json!([
            rule("takes", "SessionEnd", takes),
            rule("works in it", "SessionEnd", beside),
            rule("leaves", "Notification", leaves),
        ]));
        let hookd = with_secrets(builder, 0o644).file("out/v1/key", "its own").start().await;
        // A link to what is in there is one to nothing else.
        std::os::unix::fs::symlink(hookd.path("out/v1"), hookd.path("out/cache")).unwrap();
        let before = results(&hookd).await;
        assert_eq!((came(&before[0]), came(&before[1])), (Ok("its own"), Ok("its own")));
        let left = hookd.trigger(event("Notification")).await.results;
        assert_eq!(came(&left[0]), Ok("left"));
        let after = results(&hookd).await;
        assert_failed(&after[0], Failure::DidNotStart, "/../out/cache` of `allow` is a link out of `");
        assert_failed(&after[1], Failure::Exited, "Permission denied");
    }
}

#[tokio::test]
async fn limits_of_processor_time_and_memory_stop_what_uses_them_up() {
    let hookd = hookd(&[
        ("spins", with(sh("while :; do :; done"), json!({ "timeout": 60_000 }))),
        ("grows", sh("dd if=/dev/zero of=/dev/null bs=512M count=1")),
    ])
    .settings(json!({ "commands": { "limits": { "cpu_time": "1s", "address_space": "256MiB" } } }))
    .start()
    .await;
    let results = results(&hookd).await;
    assert_failed(&results[0], Failure::Killed, "killed by signal 24 (its limit of processor time)");
    assert_failed(&results[1], Failure::Exited, "memory exhausted");
}

#[tokio::test]
async fn what_is_set_is_what_a_command_has_and_readiness_says_so() {
    let (user, commands) = as_somebody();
    let limits = json!({ "address_space": "1GiB", "cpu_time": "7s", "open_files": 33, "processes": 40_000, "file_size": "2MiB" });
    let script = "id -u; id -g; id -G; ulimit -v; ulimit -t; ulimit -n; ulimit -f; grep -E '^(CapPrm|CapAmb|NoNewPrivs)' /proc/self/status";
    let worker = "while read -r line; do echo \"{\\\"systemMessage\\\":\\\"$(id -u) $(ulimit -n)\\\"}\"; done";
    let hookd = hookd(&[("once", sh(script)), ("stays", with(sh(worker), json!({ "worker": {} })))])
        .settings(json!({ "commands": with(commands, json!({ "limits": limits })) }))
        .start()
        .await;
    let user = if is_root() { user } else { rustix::process::getuid().as_raw() };
    let answer = hookd.trigger(event("SessionEnd")).await;
    let output = answer.results[0].output().lines().collect::<Vec<_>>();
    if is_root() {
        assert_eq!(output[..3], vec![user.to_string(); 3]);
    }
    // `ulimit -f` counts blocks of 512 bytes.
    assert_eq!(output[3..7], ["1048576", "7", "33", "4096"], "{output:?}");
    let status = output[7..].iter().map(|line| line.split_once(":\t").unwrap()).collect::<Vec<_>>();
    let none = "0000000000000000";
    assert_eq!(status, [("CapPrm", none), ("CapAmb", none), ("NoNewPrivs", "1")]);
    assert_eq!(answer.system_messages[0].text, format!("{user} 33"));

    let (_, ready) = hookd.admin_get("/readyz").await;
    let line = ready.lines().find_map(|line| line.strip_prefix("commands: ")).unwrap();
    let as_whom = if is_root() { format!("user {user}; group {user}; ") } else { String::new() };
    let limits =
        "address space (bytes) 1073741824; cpu time (s) 7; open files 33; processes 40000; file size (bytes) 2097152";
    let expected = format!("no new privileges: yes; {as_whom}{limits}; landlock: kernel ");
    assert!(line.starts_with(&expected), "{line}");
    if kernel_offers_landlock().await {
        assert!(
            line.ends_with(", setting required, holds commands with an `allow` list, their sockets by seccomp"),
            "{line}"
        );
    }
    let logged = hookd.logged(|line| line["message"] == "commands are held in").await;
    assert_eq!(logged["how"], line);
}

#[tokio::test]
async fn no_new_privileges_is_the_default_and_can_be_left_out() {
    for (settings, expected) in
        [(json!({}), "NoNewPrivs:\t1"), (json!({ "no_new_privileges": false }), "NoNewPrivs:\t0")]
    {
        let hookd = hookd(&[("looks", sh("grep NoNewPrivs /proc/self/status"))])
            .settings(json!({ "commands": settings }))
            .start()
            .await;
        assert_eq!(came(&only(&hookd).await), Ok(expected));
    }
}

#[tokio::test]
async fn a_command_that_cannot_be_held_in_does_not_run() {
    if !kernel_offers_landlock().await {
        return;
    }
    let missing = |handler: Value| with(handler, json!({ "allow": { "write": ["../not-there"] } }));
    let hookd = hookd(&[
        ("once", missing(sh("echo ran > $TMPDIR/ran"))),
        ("stays", with(missing(sh("echo ran > $TMPDIR/ran; echo; cat")), json!({ "worker": {} }))),
        ("gone", with(json!({ "type": "command", "argv": ["./gone"] }), json!({ "allow": {} }))),
        ("not allowed", json!({ "type": "command", "argv": ["../out/program"], "allow": {} })),
    ])
    .file("out/program", "#!/bin/sh\n")
    .start()
    .await;
    fs::set_permissions(hookd.path("out/program"), fs::Permissions::from_mode(0o755)).unwrap();
    let results = results(&hookd).await;
    let path = hookd.path("managed").join("../not-there");
    let why = format!("the command cannot be held in: `{}` of `allow` cannot be opened: No such file", path.display());
    for (result, why) in results.iter().zip([
        why.as_str(),
        &why,
        "cannot start `./gone`: No such file or directory",
        "cannot start `../out/program`: Permission denied (os error 13), it must lie in a directory of the system",
    ]) {
        assert_failed(result, Failure::DidNotStart, why);
    }
    assert!(!hookd.path("tmp/ran").is_file());
}

#[tokio::test]
async fn all_commands_can_be_held_by_landlock_or_none() {
    if !kernel_offers_landlock().await {
        return;
    }
    let theft = |more: Value| with(sh("cat ../secrets/key"), more);
    for (settings, expected) in [
        (json!({}), [true, false]),
        (json!({ "landlock": "best_effort" }), [true, false]),
        (json!({ "landlock_for": "all" }), [false, false]),
        (json!({ "landlock_for": "all", "landlock": "off" }), [true, true]),
    ] {
        let handlers = [("plain", theft(json!({}))), ("listed", theft(json!({ "allow": {} })))];
        let hookd = with_secrets(hookd(&handlers), 0o644).settings(json!({ "commands": settings })).start().await;
        let stolen = results(&hookd).await.iter().map(|result| came(result) == Ok(KEY)).collect::<Vec<_>>();
        assert_eq!(stolen, expected, "{settings}");
    }
}

#[tokio::test]
async fn an_empty_directory_is_there_for_one_run_and_one_worker() {
    let (_, commands) = as_somebody();
    let allow = if kernel_offers_landlock().await { json!({ "allow": {} }) } else { json!({}) };
    let worker = "read -r line; touch left; echo \"{\\\"systemMessage\\\":\\\"$(ls -A)\\\"}\"; read -r line";
    let hookd = hookd(&[
        ("once", with(sh("pwd; ls -A; echo $HOOKD_RULE_DIRECTORY; echo x > $TMPDIR/file; cat file"), allow.clone())),
        ("where its rule says", with(sh("pwd"), json!({ "cwd": "/usr" }))),
        ("stays", with(with(sh(worker), json!({ "worker": {} })), allow)),
    ])
    .settings(json!({ "commands": with(commands, json!({ "working_directory": "empty" })) }))
    .start()
    .await;
    let temporary = hookd.path("tmp");
    fs::set_permissions(&temporary, fs::Permissions::from_mode(0o711)).unwrap();
    let left = || {
        fs::read_dir(&temporary)
            .unwrap()
            .flatten()
            .filter(|entry| entry.file_name().to_str().unwrap().starts_with("hookd-run-"))
            .count()
    };

    let answer = hookd.trigger(event("SessionEnd")).await;
    let output = came(&answer.results[0]).unwrap().lines().collect::<Vec<_>>();
    assert!(output[0].starts_with(&format!("{}/hookd-run-", temporary.display())), "{output:?}");
    assert_eq!(output[1..], [hookd.path("managed").to_str().unwrap(), "x"]);
    assert_eq!(came(&answer.results[1]), Ok("/usr"));
    assert_eq!(answer.system_messages[0].text, "left", "{answer:?}");
    eventually("the worker's alone is left", async || (left() == 1).then_some(())).await;
    hookd.rewrite_rules(hookd_tests::Tier::Managed, json!([]));
    hookd.reload().await;
    eventually("no directory is left", async || (left() == 0).then_some(())).await;
}

#[tokio::test]
async fn no_variable_of_a_rule_acts_on_what_holds_its_command_in() {
    // Whoever is the first program that the dynamic linker meets with this variable lists its libraries and ends.
    let listed = with(
        json!({ "type": "command", "argv": ["sh", "-c", "true"] }),
        json!({ "env": { "LD_TRACE_LOADED_OBJECTS": "1" } }),
    );
    let shown = with(sh("env"), json!({ "env": { "OURS": "1", "TMPDIR": "/mine" } }));
    let hookd = hookd(&[("listed", listed), ("shown", shown)])
        .settings(json!({ "commands": { "limits": { "open_files": 64 } } }))
        .start()
        .await;
    let results = results(&hookd).await;
    assert!(!came(&results[0]).unwrap().contains("libgcc"), "hookd's own libraries: {}", results[0].output());
    let mut names = results[1].output().lines().map(|line| line.split_once('=').unwrap().0).collect::<Vec<_>>();
    names.retain(|name| !["PWD", "SHLVL", "_", "OLDPWD"].contains(name));
    names.sort_unstable();
    let expected = [
        "HOME",
        "HOOKD_DECISION_ID",
        "HOOKD_EVENT",
        "HOOKD_RULE_ID",
        "HOOKD_SESSION_ID",
        "LANG",
        "OURS",
        "PATH",
        "PYTHONUTF8",
        "TMPDIR",
    ];
    assert_eq!(names, expected);
    assert!(results[1].output().contains("TMPDIR=/mine"));
}

#[tokio::test]
async fn what_cannot_be_set_up_here_is_refused_at_the_start() {
    for (settings, why) in [
        (json!({ "user": "no-such-user" }), "commands: there is no user `no-such-user` in /etc/passwd\n"),
        (
            json!({ "user": "4000111" }),
            "commands: user 4000111 is not in /etc/passwd, so the group has to be named too\n",
        ),
    ] {
        let refused = Hookd::builder().settings(json!({ "commands": settings })).start_refused().await;
        let why = if is_root() { why } else { "commands: `commands.user` and `commands.group` need" };
        assert!(refused.code == Some(64) && refused.stderr.starts_with(why), "{refused:?}");
    }
}

#[tokio::test]
async fn an_empty_directory_that_cannot_be_made_is_refused_at_the_start() {
    let refused = Hookd::builder()
        .settings(json!({ "commands": { "working_directory": "empty" } }))
        .env("TMPDIR", "/nowhere")
        .start_refused()
        .await;
    let why = "commands: cannot make a directory in `/nowhere`: No such file or directory (os error 2)\n";
    assert_eq!((refused.code, refused.stderr.as_str()), (Some(64), why));
}

#[tokio::test]
async fn commands_are_held_in_by_this_hookd_also_after_its_file_was_replaced() {
    let builder =
        hookd(&[("looks", sh("ulimit -n"))]).settings(json!({ "commands": { "limits": { "open_files": 44 } } }));
    let file = builder.path("hookd");
    if fs::hard_link(program("hookd"), &file).is_err() {
        fs::copy(program("hookd"), &file).unwrap();
    }
    let hookd = builder.program(&file).start().await;
    hookd.replace_file("hookd", "#!/bin/sh\necho another program\n");
    assert_eq!(came(&only(&hookd).await), Ok("44"));
    fs::remove_file(&file).unwrap();
    assert_eq!(came(&only(&hookd).await), Ok("44"));
}

#[tokio::test]
async fn the_example_of_the_page_holds_a_command_in() {
    if !kernel_offers_landlock().await {
        return;
    }
    let [settings, rules] = &blocks(&page("deploy/docs/commands.md"), "yaml")[..] else { panic!("two blocks") };
    let mut settings = settings.replace("/etc/hookd/managed", "managed");
    settings.push_str("listen: 127.0.0.1:0\nadmin_listen: 127.0.0.1:0\nlog: { format: json }\n");
    if !is_root() {
        settings = settings.replace("  user: nobody\n", "").replace("processes: 64, ", "");
    }
    let script = "cat patterns/secrets; cat ../secrets/key || echo denied; echo x > beside || echo denied; id -un";
    let builder = hookd(&[]).file("managed/scan.yaml", rules).file("managed/scan.sh", script);
    let builder =
        with_secrets(builder.file("managed/patterns/secrets", "AKIA\n"), 0o644).file("settings.yaml", &settings);
    fs::remove_file(builder.path("managed/rules.json")).unwrap();
    let path = builder.path("settings.yaml");
    let hookd = builder.settings_file(path).start().await;
    let answer = hookd.trigger(hookd_tests::pre_tool_use("write_file", json!({ "content": "x" }))).await;
    let output = came(&answer.results[0]).unwrap().lines().collect::<Vec<_>>();
    assert_eq!(output[..3], ["AKIA", "denied", "denied"]);
    if is_root() {
        assert_eq!(output[3..], ["nobody"]);
    }
    assert!(!Path::new(&hookd.path("managed/beside")).is_file());
}
