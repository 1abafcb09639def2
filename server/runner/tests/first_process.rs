//! In a container this process is often the first one, and inherits whoever loses a parent. A subreaper does too.

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hookd_runner::{Capacity, Class, Command, End, Limits, Runner};
    use rustix::process::{WaitId, WaitIdOptions, getpid, set_child_subreaper, waitid};
    use tokio::time::{Instant, timeout};

    const GENEROUS: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn members_of_a_killed_group_that_become_ours_are_reaped() {
        set_child_subreaper(Some(getpid())).unwrap();
        let runner = Runner::new(Capacity::default());
        for script in ["sleep 300 | sleep 300 | cat", "trap '' TERM; (sleep 300 & sleep 300 & wait) & wait"] {
            let command = Command {
                argv: vec!["/bin/sh".into(), "-c".into(), script.into()],
                env: vec![("PATH".into(), "/usr/bin:/bin".into())],
                ..Command::default()
            };
            let limits = Limits {
                timeout: Duration::from_millis(200),
                kill_grace: Duration::from_millis(100),
                ..Limits::default()
            };
            let deadline = Instant::now().checked_add(GENEROUS).unwrap();
            let finished = runner.run(Class::Other, command, limits, deadline).await.unwrap();
            assert_eq!(finished.end, End::TimedOut);
            timeout(GENEROUS, runner.idle()).await.unwrap();
            let any = waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT);
            assert_eq!(any.unwrap_err(), rustix::io::Errno::CHILD, "no child at all, living or not");
        }
    }
}
