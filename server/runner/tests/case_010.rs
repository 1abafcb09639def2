//! Case 10 in a process of its own, so that every child of this process is one of the case.

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hookd_runner::{Capacity, Class, Command, Limits, Runner};
    use tokio::task::JoinSet;
    use tokio::time::{Instant, sleep};

    const RUNS: usize = 200;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn case_010_two_hundred_dropped_runs_leave_no_zombie_and_no_sleeper() {
        let runner = Runner::new(Capacity { children: 2 * RUNS, queue: 0, background: 0 });
        let deadline = Instant::now().checked_add(Duration::from_secs(600)).unwrap();
        let mut runs = JoinSet::new();
        for _each in 0..RUNS {
            let command = Command { argv: vec!["/bin/sleep".into(), "3000".into()], ..Command::default() };
            let limits = Limits { timeout: Duration::from_secs(600), ..Limits::default() };
            let runner = runner.clone();
            runs.spawn(async move { runner.run(Class::Central, command, limits, deadline).await });
        }
        eventually(|| children().len() == RUNS).await;
        runs.shutdown().await;
        eventually(|| children().is_empty()).await;
        eventually(|| runner.live() == 0).await;
    }

    /// The processes, living or not, whose parent is this one.
    fn children() -> Vec<String> {
        let this = std::process::id().to_string();
        let table = std::fs::read_dir("/proc").unwrap().flatten();
        let stats = table.filter_map(|found| std::fs::read_to_string(found.path().join("stat")).ok());
        let is_child = |stat: &String| {
            stat.rsplit_once(')').is_some_and(|(_, plain)| plain.split_ascii_whitespace().nth(1) == Some(this.as_str()))
        };
        stats.filter(is_child).collect()
    }

    async fn eventually(mut holds: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !holds() {
            assert!(begun.elapsed() < Duration::from_secs(60), "children: {:?}", children());
            sleep(Duration::from_millis(5)).await;
        }
    }
}
