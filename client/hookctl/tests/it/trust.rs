//! `hookctl trust`.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use tempfile::TempDir;

use crate::{Ran, hookctl};

const HOOKS: &str = "{\"hooks\":[]}";
const OF_HOOKS: &str = "3776bbc3c8995250350d13a74f0b87a6b29c4f52e44c299a905d6b8a9fc37e9f";

/// A person's home, a project, and the file that says where the home is.
struct Place {
    home: TempDir,
    project: TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { home: TempDir::new().unwrap(), project: TempDir::new().unwrap() };
        let config = place.home.path().join("relay.yaml");
        fs::write(&config, format!("home: {}", place.home.path().display())).unwrap();
        fs::set_permissions(config, fs::Permissions::from_mode(0o600)).unwrap();
        place
    }

    fn write(&self, path: &str, text: &str) -> String {
        let path = self.project.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::canonicalize(path).unwrap().to_str().unwrap().to_owned()
    }

    fn trust(&self, args: &[&str]) -> Ran {
        let config = self.home.path().join("relay.yaml");
        let args = [&["trust", "--config", config.to_str().unwrap()], args].concat();
        hookctl(self.project.path(), &[("HOME", "/nowhere")], &args, "")
    }

    fn list(&self) -> String {
        let ran = self.trust(&["--list"]);
        assert_eq!((ran.exit, ran.err.as_str()), (0, ""));
        ran.out
    }
}

fn ok(out: String) -> Ran {
    Ran { exit: 0, out, err: String::new() }
}

#[test]
fn files_are_trusted_as_they_are_now_listed_and_trusted_no_more() {
    let place = Place::new();
    assert_eq!(place.list(), "");
    let hooks = place.write(".ling/hooks.json", HOOKS);
    let settings = place.write(".claude/settings.json", HOOKS);
    // Without a name: what the relay would find here.
    let both = format!("trusted {OF_HOOKS}  {hooks}\ntrusted {OF_HOOKS}  {settings}\n");
    assert_eq!(place.trust(&[]), ok(both));
    let other = place.write("other.json", "{}");
    assert_eq!(place.trust(&["./other.json"]).exit, 0);
    assert!(place.list().contains(&format!("  {other}\n")));
    assert_eq!(place.trust(&["--remove", "other.json"]).exit, 0);
    fs::write(&settings, "{\"hooks\":[1]}").unwrap();
    assert_eq!(place.list(), format!("changed    {OF_HOOKS}  {settings}\ntrusted    {OF_HOOKS}  {hooks}\n"));
    fs::remove_file(&settings).unwrap();
    assert_eq!(place.list(), format!("gone       {OF_HOOKS}  {settings}\ntrusted    {OF_HOOKS}  {hooks}\n"));
    assert_eq!(place.trust(&["--remove", ".claude/settings.json"]), ok(format!("removed {OF_HOOKS}  {settings}\n")));
    let json = place.trust(&["--list", "--output", "json"]);
    let file = format!("{{\"path\":\"{hooks}\",\"sha256\":\"{OF_HOOKS}\",\"state\":\"trusted\"}}");
    assert_eq!(json, ok(format!("{{\"files\":[{file}]}}\n")));
    let list = place.home.path().join(".local/share/hookd/trust");
    assert_eq!(fs::metadata(list).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn what_cannot_be_trusted_is_named_and_changes_nothing() {
    let place = Place::new();
    let hooks = place.write("hooks.json", HOOKS);
    let project = fs::canonicalize(place.project.path()).unwrap();
    let check = |args: &[&str], why: &str| {
        let ran = place.trust(args);
        assert_eq!(ran, Ran { exit: 1, out: String::new(), err: format!("hookctl: {why}\n") });
    };
    check(&[], &format!("there is no rule file of a project in {}", project.display()));
    check(&["hooks.json", "gone.json"], "gone.json is not there");
    check(&["--remove", "hooks.json"], &format!("{hooks} is not trusted"));
    check(&["."], ". is not a file");
    assert_eq!(place.list(), "");
    let list = place.home.path().join(".local/share/hookd");
    fs::write(list.join("trust"), "x").unwrap();
    let path = list.join("trust");
    let line = format!("{}:1: expected a SHA-256, two spaces and an absolute path; remove the line", path.display());
    check(&["hooks.json"], &line);
    fs::set_permissions(&list, fs::Permissions::from_mode(0o777)).unwrap();
    let mode = format!("{} has mode 0777, expected one that only its owner can write", list.display());
    check(&["hooks.json"], &mode);
    assert_eq!(fs::read_to_string(Path::new(&path)).unwrap(), "x");
    for args in [&["--list", "x"][..], &["--remove"], &["--list", "--remove"]] {
        assert_eq!(place.trust(args).exit, 64, "{args:?}");
    }
}
