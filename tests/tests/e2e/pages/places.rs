//! The places in the repository that `ARCHITECTURE.md` names.

use std::path::Path;

use super::{listed, page, root};

/// Whether a text in code is a path: of the repository, or of the server's sources without the ending.
fn is_path(text: &str) -> bool {
    let of_a_path = |it: char| it.is_ascii_alphanumeric() || "_-./".contains(it);
    text.contains('/') && !text.starts_with('/') && text.chars().all(of_a_path)
}

fn is_there(path: &str) -> bool {
    let rooms = root().join("server/src");
    let places = [root().join(path), rooms.join(path), rooms.join(format!("{path}.rs"))];
    places.iter().any(|place| place.try_exists().unwrap())
}

#[test]
fn every_place_that_the_architecture_names_is_there() {
    let page = page("ARCHITECTURE.md");
    let outside = page.split("```").step_by(2).collect::<String>();
    let paths = outside.split('`').skip(1).step_by(2).filter(|text| is_path(text)).collect::<Vec<_>>();
    assert!(paths.len() > 60, "{paths:?}");
    assert_eq!(paths.iter().filter(|path| !is_there(path)).collect::<Vec<_>>(), [] as [&&str; 0]);
}

#[test]
fn every_crate_stands_in_the_folder_map() {
    let page = page("ARCHITECTURE.md");
    let section = page.split("\n## Folder map\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let manifests = listed("*Cargo.toml");
    let folders = manifests.iter().filter_map(|path| Path::new(path).parent()?.to_str()).filter(|it| !it.is_empty());
    let missed = folders.filter(|folder| !section.contains(&format!("`{folder}/`")));
    assert_eq!(missed.collect::<Vec<_>>(), [] as [&str; 0]);
}
