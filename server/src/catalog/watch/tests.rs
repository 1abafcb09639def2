use std::{
    fs,
    os::unix::fs::{lchown, symlink},
};

use tempfile::TempDir;

use super::*;

/// Far more than a change takes anywhere.
const LONG: Duration = Duration::from_secs(60);

/// No poll, so that only events can wake the watch.
const EVENTS_ONLY: WatchTimes = WatchTimes {
    quiet: Duration::from_millis(20),
    longest: Duration::from_millis(500),
    poll: Duration::from_secs(3600),
};

struct Place {
    root: TempDir,
}

impl Place {
    fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap() }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.at(name).parent().unwrap()).unwrap();
        fs::write(self.at(name), text).unwrap();
    }

    /// As editors write: the file is at no time half there.
    fn replace(&self, name: &str, text: &str) {
        self.write(".new", text);
        fs::rename(self.at(".new"), self.at(name)).unwrap();
    }

    async fn watch(&self, name: &str) -> Watch {
        Watch::start(vec![self.at(name)], EVENTS_ONLY).await
    }

    /// Updates a mounted volume as a kubelet does: a new directory, then one rename of the link to it.
    fn publish(&self, version: &str, text: &str) {
        self.write(&format!("mount/..{version}/a.json"), text);
        symlink(format!("..{version}"), self.at("mount/..data_tmp")).unwrap();
        fs::rename(self.at("mount/..data_tmp"), self.at("mount/..data")).unwrap();
    }
}

async fn seen(watch: &Watch) {
    tokio::time::timeout(LONG, watch.changed()).await.expect("the change is noticed");
}

#[tokio::test]
async fn an_edit_in_place_is_noticed() {
    let place = Place::new();
    place.write("a.json", "1");
    let watch = place.watch("a.json").await;
    place.write("a.json", "2");
    seen(&watch).await;
    place.write("a.json", "3");
    seen(&watch).await;
}

#[tokio::test]
async fn an_atomic_rename_is_noticed_each_time() {
    let place = Place::new();
    place.write("a.json", "1");
    let watch = place.watch("a.json").await;
    for text in ["2", "3", "4"] {
        place.replace("a.json", text);
        seen(&watch).await;
    }
}

#[tokio::test]
async fn a_file_that_goes_and_comes_back_is_noticed() {
    let place = Place::new();
    place.write("a.json", "1");
    let watch = place.watch("a.json").await;
    fs::remove_file(place.at("a.json")).unwrap();
    seen(&watch).await;
    place.write("a.json", "1");
    seen(&watch).await;
}

#[tokio::test]
async fn a_directory_gains_loses_and_edits_files() {
    let place = Place::new();
    place.write("rules/a.json", "1");
    let watch = place.watch("rules").await;
    place.write("rules/b.yaml", "1");
    seen(&watch).await;
    place.write("rules/b.yaml", "2");
    seen(&watch).await;
    fs::remove_file(place.at("rules/a.json")).unwrap();
    seen(&watch).await;
}

#[tokio::test]
async fn a_directory_that_goes_and_comes_back_is_watched_again() {
    let place = Place::new();
    place.write("rules/a.json", "1");
    let watch = place.watch("rules").await;
    fs::remove_dir_all(place.at("rules")).unwrap();
    seen(&watch).await;
    place.write("rules/a.json", "2");
    seen(&watch).await;
    place.write("rules/a.json", "3");
    seen(&watch).await;
}

#[tokio::test]
async fn the_link_swap_of_a_mounted_volume_is_noticed_for_a_directory() {
    mounted_volume("mount").await;
}

#[tokio::test]
async fn the_link_swap_of_a_mounted_volume_is_noticed_for_one_file_in_it() {
    mounted_volume("mount/a.json").await;
}

async fn mounted_volume(source: &str) {
    let place = Place::new();
    place.publish("one", "1");
    symlink("..data/a.json", place.at("mount/a.json")).unwrap();
    let watch = place.watch(source).await;
    for (old, new) in [("one", "two"), ("two", "three"), ("three", "four")] {
        place.publish(new, new);
        fs::remove_dir_all(place.at(&format!("mount/..{old}"))).unwrap();
        seen(&watch).await;
    }
}

#[tokio::test]
async fn a_link_to_a_directory_elsewhere_is_followed() {
    let place = Place::new();
    place.write("one/a.json", "1");
    place.write("two/a.json", "2");
    symlink(place.at("one"), place.at("rules")).unwrap();
    let watch = place.watch("rules").await;
    place.write("one/a.json", "changed");
    seen(&watch).await;
    symlink(place.at("two"), place.at("new")).unwrap();
    fs::rename(place.at("new"), place.at("rules")).unwrap();
    seen(&watch).await;
    place.write("two/a.json", "changed too");
    seen(&watch).await;
}

#[tokio::test]
async fn a_file_is_noticed_whose_directory_did_not_exist() {
    let place = Place::new();
    let watch = place.watch("not/yet/there/a.json").await;
    fs::create_dir_all(place.at("not/yet")).unwrap();
    place.write("not/yet/there/a.json", "1");
    seen(&watch).await;
    place.write("not/yet/there/a.json", "2");
    seen(&watch).await;
}

#[tokio::test]
async fn what_no_load_would_read_is_no_change() {
    let place = Place::new();
    place.write("rules/a.json", "1");
    let watch = place.watch("rules").await;
    place.write("rules/.a.json.swp", "x");
    place.write("rules/notes.txt", "x");
    place.replace("rules/a.json", "1");
    place.write("beside.json", "x");
    // The one change; a signal for anything before it would be left over.
    place.replace("rules/a.json", "2");
    seen(&watch).await;
    let woken = tokio::time::timeout(EVENTS_ONLY.longest, watch.changed()).await;
    assert!(woken.is_err(), "one change, one signal");
}

#[tokio::test]
async fn the_poll_sees_what_events_do_not_show() {
    let place = Place::new();
    place.write("far/up/rules/a.json", "1");
    let times = WatchTimes { poll: Duration::from_millis(50), ..EVENTS_ONLY };
    let watch = Watch::start(vec![place.at("far/up/rules/a.json")], times).await;
    // Nothing happens in the directory of the file.
    fs::rename(place.at("far"), place.at("gone")).unwrap();
    seen(&watch).await;
}

#[tokio::test]
async fn other_paths_are_a_change_and_are_watched() {
    let place = Place::new();
    place.write("a.json", "1");
    place.write("other/b.json", "1");
    let watch = place.watch("a.json").await;
    watch.set_paths(vec![place.at("a.json")]);
    watch.set_paths(vec![place.at("a.json"), place.at("other/b.json")]);
    seen(&watch).await;
    place.write("other/b.json", "2");
    seen(&watch).await;
}

#[tokio::test]
async fn a_change_is_looked_at_even_if_it_never_gets_quiet() {
    let place = Place::new();
    place.write("a.json", "0");
    let times = WatchTimes { quiet: Duration::from_secs(3600), ..EVENTS_ONLY };
    let watch = Watch::start(vec![place.at("a.json")], times).await;
    place.replace("a.json", "1");
    seen(&watch).await;
}

#[tokio::test]
async fn files_of_any_name_are_watched_through_swapped_links() {
    let place = Place::new();
    place.write("mount/..1/tls.crt", "1");
    symlink("..1", place.at("mount/..data")).unwrap();
    symlink("..data/tls.crt", place.at("mount/tls.crt")).unwrap();
    let watch = Watch::start(vec![place.at("mount/tls.crt"), place.at("later.key")], EVENTS_ONLY).await;
    place.write("mount/..2/tls.crt", "2");
    symlink("..2", place.at("mount/..data_tmp")).unwrap();
    fs::rename(place.at("mount/..data_tmp"), place.at("mount/..data")).unwrap();
    seen(&watch).await;
    place.write("later.key", "1");
    seen(&watch).await;
    place.replace("later.key", "2");
    seen(&watch).await;
}

#[tokio::test]
async fn what_is_no_rule_file_is_compared_as_it_is_read() {
    let place = Place::new();
    place.write("hookd.toml", "1");
    let watch = place.watch("hookd.toml").await;
    place.replace("hookd.toml", "2");
    seen(&watch).await;
    // A link that rule files must not be: of somebody else than its owner.
    place.write("real.yaml", "1");
    symlink("real.yaml", place.at("tokens.yaml")).unwrap();
    if rustix::process::getuid().is_root() {
        lchown(place.at("tokens.yaml"), Some(65_534), None).unwrap();
    }
    let watch = place.watch("tokens.yaml").await;
    place.replace("real.yaml", "2");
    seen(&watch).await;
}
