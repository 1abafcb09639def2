//! Links from page to page.

use std::{collections::HashMap, path::Path};

use super::{page, pages, root};

/// A page without its code: blocks in fences, and what stands between backticks.
fn prose(page: &str) -> String {
    let outside = page.split("```").step_by(2).collect::<String>();
    outside.split('`').step_by(2).collect()
}

/// Where the links of a page lead to inside of the repository: a path, and a heading or nothing.
fn links(page: &str) -> Vec<(String, String)> {
    let prose = prose(page);
    let targets = prose.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
    let inside = targets.filter(|target| !target.contains("://") && !target.starts_with("mailto:"));
    inside.map(|target| target.split_once('#').unwrap_or((target, ""))).map(|(a, b)| (a.into(), b.into())).collect()
}

/// The anchors of a page: its headings as GitHub makes them, numbered where they come again.
fn anchors(page: &str) -> Vec<String> {
    let outside = page.split("```").step_by(2).collect::<String>();
    let mut times = HashMap::new();
    let headings = outside
        .lines()
        .filter_map(|line| line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#')));
    let anchor = |heading: &str| {
        let kept = heading.chars().filter(|it| it.is_alphanumeric() || " -_".contains(*it));
        let anchor = kept.collect::<String>().trim().to_lowercase().replace(' ', "-");
        let before = times.entry(anchor.clone()).or_insert(0_u32);
        *before += 1;
        if *before == 1 { anchor } else { format!("{anchor}-{}", *before - 1) }
    };
    headings.map(anchor).collect()
}

/// What is wrong with the links of one page.
fn lost(path: &str) -> Vec<String> {
    let text = page(path);
    let folder = Path::new(path).parent().unwrap();
    let leads_somewhere = |(target, heading): &(String, String)| {
        let target = if target.is_empty() { Path::new(path).to_owned() } else { folder.join(target) };
        let there = root().join(&target).try_exists().unwrap();
        there && (heading.is_empty() || anchors(&page(target.to_str().unwrap())).contains(heading))
    };
    let lost = links(&text).into_iter().filter(|link| !leads_somewhere(link));
    lost.map(|(target, heading)| format!("{path}: {target}#{heading}")).collect()
}

#[test]
fn every_link_leads_to_a_file_and_every_anchor_to_a_heading() {
    let pages = pages();
    let found = pages.iter().map(|path| links(&page(path)).len()).sum::<usize>();
    assert!(found > 150, "{found}");
    assert_eq!(pages.iter().flat_map(|path| lost(path)).collect::<Vec<_>>(), [] as [&str; 0]);
}

#[test]
fn links_and_anchors_are_told_from_code() {
    let page = "# A `b` c: d\n[one](x.md#a-b) [`two`](../y) [three](https://z/#q) `[no](n)`\n```sh\n# no\n[no](n)\n```\n## e_f\n## e_f\n";
    let to = |target: &str, heading: &str| (target.to_owned(), heading.to_owned());
    assert_eq!(links(page), [to("x.md", "a-b"), to("../y", "")]);
    assert_eq!(anchors(page), ["a-b-c-d", "e_f", "e_f-1"]);
}
