//! A directory that changes while it is read.
#![expect(clippy::unwrap_used, reason = "a test stops where something is not as it must be")]

use std::{
    collections::HashSet,
    fs,
    os::unix::fs::symlink,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use hookd_rules::{Handler, LoadSettings, Tier, check_paths};

/// Puts another version in the place of the one that the links lead to, as Kubernetes does it.
fn swap(mount: &Path, version: usize) {
    let directory = mount.join(format!("..{version}"));
    fs::create_dir(&directory).unwrap();
    for name in ["a", "z"] {
        let rule = format!(
            r#"{{"hooks":[{{"id":"{name}","event":"Stop","handler":{{"type":"decide","verdict":"ask","reason":"{version}"}}}}]}}"#
        );
        fs::write(directory.join(format!("{name}.json")), rule).unwrap();
    }
    let data = mount.join("..data");
    let old = fs::read_link(&data).ok();
    symlink(&directory, mount.join("..new")).unwrap();
    fs::rename(mount.join("..new"), data).unwrap();
    if let Some(old) = old {
        fs::remove_dir_all(old).unwrap();
    }
}

/// Ends the swaps, also where the test fails.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn law_10_a_load_never_mixes_two_versions_of_a_directory() {
    let mount = tempfile::tempdir().unwrap();
    let mount = mount.path();
    swap(mount, 0);
    for name in ["a.json", "z.json"] {
        symlink(Path::new("..data").join(name), mount.join(name)).unwrap();
    }
    let done = AtomicBool::new(false);
    let mut seen = HashSet::new();
    std::thread::scope(|threads| {
        threads.spawn(|| (1..).take_while(|_| !done.load(Ordering::Relaxed)).for_each(|version| swap(mount, version)));
        let _ended = SetOnDrop(&done);
        // As many as it takes to meet a swap, and enough to meet one in the middle of a read.
        let mut loads = 0;
        while loads < 2_000 || seen.len() < 10 {
            loads += 1;
            let load = check_paths(&[mount.to_owned()], Tier::Managed, &LoadSettings::default());
            let Some(catalog) = load.catalog else {
                let problems = load.problems.iter().map(|problem| problem.message.as_str()).collect::<Vec<_>>();
                assert_eq!(problems, ["changes again and again while it is read"]);
                continue;
            };
            let versions = catalog.rules.iter().map(|rule| match &rule.handler {
                Handler::Decide(decide) => decide.answer.reason.clone(),
                handler => panic!("{handler:?}"),
            });
            let versions = versions.collect::<Vec<_>>();
            assert!(versions.len() == 2 && versions[0] == versions[1], "{versions:?}");
            seen.insert(versions);
        }
    });
}
