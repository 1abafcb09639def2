//! What programs leave behind becomes the first process's, and ends as nobody's child without it.

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hookd_runner::{Capacity, Class, Command, End, Limits, Runner, reap_orphans};
    use rustix::io::Errno;
    use rustix::process::{WaitId, WaitIdOptions, getpid, set_child_subreaper, waitid};
    use tokio::task::{JoinSet, spawn_blocking};
    use tokio::time::{Instant, timeout};

    const GENEROUS: Duration = Duration::from_secs(60);

    /// Blocks until this process has no children, those included that have ended.
    fn until_childless() {
        while waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).err() != Some(Errno::CHILD) {
            std::thread::yield_now();
        }
    }

    #[tokio::test]
    async fn what_programs_left_behind_is_reaped_and_their_own_ends_stay_known() {
        set_child_subreaper(Some(getpid())).unwrap();
        let reaping = tokio::spawn(reap_orphans());
        let runner = Runner::new(Capacity::default());
        let mut runs = JoinSet::new();
        for code in 0..120_i32 {
            // In its group and out of it, ended before its parent, with it, and after it; and a program that is not there.
            let (script, end) = match code % 4 {
                0 => (format!("(: &); exit {code}"), End::Exited(code)),
                1 => (format!("sleep 0.1 >/dev/null 2>&1 & exit {code}"), End::Exited(code)),
                2 => (format!("setsid sleep 0.2 >/dev/null 2>&1 & exit {code}"), End::Exited(code)),
                _ => ("setsid sleep 0.1 >/dev/null 2>&1 & kill -9 $$".to_owned(), End::Signalled(9)),
            };
            let runner = runner.clone();
            runs.spawn(async move {
                let command = Command {
                    argv: vec!["/bin/sh".into(), "-c".into(), script.into()],
                    env: vec![("PATH".into(), "/usr/bin:/bin".into())],
                    ..Command::default()
                };
                let limits = Limits { timeout: GENEROUS, ..Limits::default() };
                let deadline = Instant::now().checked_add(GENEROUS).unwrap();
                let finished = runner.run(Class::Central, command, limits, deadline).await.unwrap();
                assert_eq!(finished.end, end);
                let absent = Command { argv: vec!["/no/such/program".into()], ..Command::default() };
                let finished = runner.run(Class::Central, absent, limits, deadline).await.unwrap();
                assert!(matches!(finished.end, End::DidNotStart(_)), "{:?}", finished.end);
            });
        }
        runs.join_all().await;
        timeout(GENEROUS, runner.idle()).await.unwrap();
        timeout(GENEROUS, spawn_blocking(until_childless)).await.unwrap().unwrap();
        assert!(!reaping.is_finished());
    }
}
