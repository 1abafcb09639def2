//! Programs that cannot be started, or not at once.

use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hookd_runner::{Command, End, Scratch};

use crate::support::{GENEROUS, argv, eventually, limits, run, runner, sh, text};

fn write_script(path: &Path) {
    fs::write(path, "#!/bin/sh\necho '{}'\n").unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_011_a_script_written_a_moment_ago_starts_while_others_fork() {
    let (runner, directory, done) = (runner(), tempfile::tempdir().unwrap(), AtomicBool::new(false));
    let runtime = tokio::runtime::Handle::current();
    let ends = std::thread::scope(|scope| {
        for _each in 0..8 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    std::process::Command::new("true").status().unwrap();
                }
            });
        }
        let ends: Vec<_> = (0..50)
            .map(|number| {
                let script = directory.path().join(format!("hook-{number}.sh"));
                write_script(&script);
                runtime_run(&runtime, &runner, argv(&[script.to_str().unwrap()]))
            })
            .collect();
        done.store(true, Ordering::Relaxed);
        ends
    });
    assert_eq!(ends, vec![End::Exited(0); 50]);
}

fn runtime_run(runtime: &tokio::runtime::Handle, runner: &hookd_runner::Runner, command: Command) -> End {
    let runner = runner.clone();
    let (sender, receiver) = std::sync::mpsc::channel();
    runtime.spawn(async move { sender.send(run(&runner, command, limits(GENEROUS)).await.end).unwrap() });
    tokio::task::block_in_place(|| receiver.recv_timeout(GENEROUS).unwrap())
}

#[tokio::test]
async fn case_011_a_busy_file_is_tried_again_until_it_is_free() {
    let (runner, directory) = (runner(), tempfile::tempdir().unwrap());
    let script = directory.path().join("hook.sh");
    write_script(&script);
    let writer = File::options().append(true).open(&script).unwrap();
    let task = {
        let (runner, command) = (runner.clone(), argv(&[script.to_str().unwrap()]));
        tokio::spawn(async move { run(&runner, command, limits(GENEROUS)).await })
    };
    eventually("it has begun", || runner.live() == 1).await;
    drop(writer);
    assert_eq!(task.await.unwrap().end, End::Exited(0));
}

#[tokio::test]
async fn case_011_a_file_that_stays_busy_is_said_to_be() {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("hook.sh");
    write_script(&script);
    let _writer = File::options().append(true).open(&script).unwrap();
    let path = script.to_str().unwrap();
    // Some kernels execute it all the same.
    let expected = match std::process::Command::new(path).output() {
        Ok(_) => End::Exited(0),
        Err(error) => End::DidNotStart(format!("cannot start `{path}`: {error}")),
    };
    assert_eq!(run(&runner(), argv(&[path]), limits(GENEROUS)).await.end, expected);
    // The time that the run has bounds the retries too.
    let end = run(&runner(), argv(&[path]), limits(Duration::from_millis(100))).await.end;
    assert_eq!(end, if expected == End::Exited(0) { End::Exited(0) } else { End::TimedOut });
}

#[tokio::test]
async fn a_program_that_is_not_there_did_not_start() {
    let runner = runner();
    let missing = "No such file or directory (os error 2)";
    for (command, message) in [
        (argv(&["/nowhere/hook"]), format!("cannot start `/nowhere/hook`: {missing}")),
        (argv(&["no-such-program"]), format!("cannot start `no-such-program`: {missing}")),
        (argv(&["/dev/null"]), "cannot start `/dev/null`: Permission denied (os error 13)".to_owned()),
        (argv(&[]), "no program is named".to_owned()),
        (
            Command { cwd: Some("/nowhere/at/all".into()), ..sh("true") },
            format!("cannot use the working directory `/nowhere/at/all`: {missing}"),
        ),
        (
            Command { cwd: Some("/dev/null".into()), ..sh("true") },
            "the working directory `/dev/null` is not a directory".to_owned(),
        ),
    ] {
        let finished = run(&runner, command, limits(GENEROUS)).await;
        assert_eq!((finished.end, finished.elapsed), (End::DidNotStart(message), Duration::ZERO));
    }
    assert_eq!(runner.live(), 0);
}

#[tokio::test]
async fn a_name_is_looked_up_as_the_system_does_it() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    for (name, script, mode) in [
        ("1/hook", "#!/bin/sh\necho one", 0o644),
        ("2/hook", "#!/bin/sh\necho two $0", 0o755),
        ("3/hook", "echo no first line", 0o755),
        ("4/hook", "#!/no/such/interpreter", 0o755),
        ("5/hook/file", "", 0o644),
    ] {
        fs::create_dir_all(at(name).parent().unwrap()).unwrap();
        fs::write(at(name), script).unwrap();
        fs::set_permissions(at(name), Permissions::from_mode(mode)).unwrap();
    }
    let two = format!("two {}\n", at("2/hook").display());
    for (path, expected) in [("1:2:3", two.as_str()), ("3:2", "no first line\n"), ("4:2", &two), ("5:none:2", &two)] {
        let places = path.split(':').map(at);
        let path = std::env::join_paths(places).unwrap();
        let command = Command { argv: vec!["hook".into()], env: vec![("PATH".into(), path)], ..Command::default() };
        let finished = run(&runner(), command, limits(GENEROUS)).await;
        assert_eq!((text(&finished.stdout), finished.end), (expected, End::Exited(0)));
    }
    // A relative place starts in the directory that the program runs in.
    let path = OsString::from(format!("3:{}", at("2").display()));
    let cwd = Some(directory.path().to_owned());
    let command = Command { argv: vec!["hook".into()], env: vec![("PATH".into(), path)], cwd, ..Command::default() };
    assert_eq!(text(&run(&runner(), command, limits(GENEROUS)).await.stdout), "no first line\n");
    // The program is told the name that it was asked for by.
    let finished =
        run(&runner(), argv(&["sh", "-c", "tr '\\0' '\\n' < /proc/$$/cmdline | head -n 1"]), limits(GENEROUS)).await;
    assert_eq!(text(&finished.stdout), "sh\n");
}

#[tokio::test]
async fn a_program_that_asks_for_it_gets_an_empty_directory_that_is_gone_afterwards() {
    let (runner, parent) = (runner(), tempfile::tempdir().unwrap());
    let scratch = Scratch { parent: parent.path().to_owned(), owner: None };
    let with = |command: Command| Command { scratch: Some(scratch.clone()), cwd: Some("/usr".into()), ..command };
    let parent_is_empty = || fs::read_dir(parent.path()).unwrap().next().is_none();

    let script = "ls -A; test $PWD = $TMPDIR; pwd; stat -c %a .; mkdir -p a/b; ln -s /usr/bin a/link; echo x > a/b/c";
    let finished = run(&runner, with(sh(script)), limits(GENEROUS)).await;
    let output = text(&finished.stdout).lines().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(finished.end, End::Exited(0));
    assert!(output[0].starts_with(&format!("{}/hookd-run-", parent.path().display())), "{output:?}");
    assert_eq!(output[1..], ["700"]);
    eventually("the directory is gone", || parent_is_empty() && runner.live() == 0).await;
    assert!(Path::new("/usr/bin/env").is_file(), "a link is not followed");

    // One that is killed has it until the last of its group is gone.
    let finished = run(&runner, with(sh("echo x > file; sleep 3000")), limits(Duration::from_millis(300))).await;
    assert_eq!(finished.end, End::TimedOut);
    eventually("the directory is gone", || parent_is_empty() && runner.live() == 0).await;

    let finished = run(&runner, with(argv(&["/nowhere/hook"])), limits(GENEROUS)).await;
    assert_eq!(
        finished.end,
        End::DidNotStart("cannot start `/nowhere/hook`: No such file or directory (os error 2)".to_owned())
    );
    assert!(parent_is_empty());
    let nowhere = Scratch { parent: "/nowhere".into(), owner: None };
    let finished = run(&runner, Command { scratch: Some(nowhere), ..sh("true") }, limits(GENEROUS)).await;
    let why = "cannot make a directory in `/nowhere`: No such file or directory (os error 2)";
    assert_eq!(finished.end, End::DidNotStart(why.to_owned()));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_program_gets_no_new_privileges_only_if_it_is_so_asked_for() {
    let runner = runner();
    let look = || sh("grep NoNewPrivs /proc/self/status");
    // In this order: it cannot be taken back.
    for (no_new_privileges, expected) in [(false, "NoNewPrivs:\t0\n"), (true, "NoNewPrivs:\t1\n")] {
        let finished = run(&runner, Command { no_new_privileges, ..look() }, limits(GENEROUS)).await;
        assert_eq!(text(&finished.stdout), expected);
    }
}
