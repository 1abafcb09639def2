//! Lists of the pages that the code has too: metrics, settings, keys of rules, and figures that two pages give.

use hookd_tests::{Authority, Hookd, SigningKey, pre_tool_use, program, rule, sh, with, with_token};
use serde_json::{Value, json};
use tokio::process::Command;

use super::page;

/// What stands in code in the columns of a table's rows, of those that begin so.
fn table<'p>(page: &'p str, begin: &str) -> Vec<Vec<Vec<&'p str>>> {
    let code = |cell: &'p str| cell.split('`').skip(1).step_by(2).collect();
    let rows = page.lines().filter(|line| line.starts_with(begin));
    rows.map(|line| line.trim_matches('|').split('|').map(code).collect()).collect()
}

#[tokio::test]
async fn the_page_of_the_metrics_lists_each_and_no_other() {
    // What nothing has happened of yet is not served, so that all of it has to happen.
    let fails = with(rule("fails", "PreToolUse", sh("exit 1")), json!({ "onError": "allow" }));
    let keys = json!({ "keys": [SigningKey::new("a").jwk()] }).to_string();
    let issuer = json!({ "name": "a", "issuer": "a", "audiences": ["a"], "jwks_file": "keys.json" });
    let settings = json!({ "identity": { "issuers": [issuer] } });
    let hookd = Authority::new().server().serve(Hookd::builder().managed(json!([fails])).file("keys.json", &keys));
    let socket = format!("unix:{}", hookd.path("h.sock").display());
    let hookd = hookd.settings(json!({ "listen": socket })).settings(settings).start().await;
    hookd.trigger(pre_tool_use("Bash", json!({}))).await;
    hookd.try_trigger(with_token(pre_tool_use("Bash", json!({})), "no-token")).await.unwrap_err();
    let (_, metrics) = hookd.admin_get("/metrics").await;
    let mut served = Vec::new();
    for line in metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        served.push(if kind == "counter" { format!("{name}_total") } else { name.to_owned() });
    }
    let page = page("deploy/observability/README.md");
    let mut listed = table(&page, "| `hookd_").into_iter().flat_map(|row| row[0].clone()).collect::<Vec<_>>();
    served.sort_unstable();
    listed.sort_unstable();
    assert_eq!(served, listed);
}

/// What `hookd --print-config` prints with this environment.
async fn printed(environment: &[(String, &str)]) -> String {
    let mut command = Command::new(program("hookd"));
    command.arg("--print-config").current_dir("/").env_clear().envs(environment.iter().cloned());
    let output = command.output().await.unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(output.status.success(), "{text}");
    text
}

#[tokio::test]
async fn the_page_of_the_settings_lists_each_with_its_default_and_no_other() {
    let page = page("deploy/docs/settings.md");
    let (mut listed, mut defaults) = (Vec::new(), Vec::new());
    for row in table(&page, "| `") {
        let group = row[0][0].rsplit_once('.').map_or("", |(group, _)| group);
        for (index, key) in row[0].iter().enumerate() {
            // `limits.children`, `child_queue`: the second is of the group of the first.
            let whole = group.is_empty() || key.contains('.');
            let key = if whole { (*key).to_owned() } else { format!("{group}.{key}") };
            // Where no default is said there is none.
            if let (false, Some(default)) = (key.starts_with("tiers."), row[1].get(index).or(row[1].last())) {
                let name = format!("HOOKD__{}", key.to_uppercase().replace('.', "__"));
                defaults.push((name, *default));
            }
            listed.push(key);
        }
    }
    // Saying what is the default anyway changes nothing.
    let config = printed(&[]).await;
    assert_eq!(printed(&defaults).await, config);

    let mut keys = Vec::new();
    let mut path: Vec<&str> = Vec::new();
    for line in config.lines().filter(|line| !line.trim_start().starts_with('#')) {
        let Some((key, value)) = line.split_once(':') else { continue };
        path.truncate((key.len() - key.trim_start().len()) / 2);
        path.push(if path == ["tiers"] { "T" } else { key.trim_start() });
        if !value.trim().is_empty() {
            keys.push(path.join("."));
        }
    }
    keys.sort_unstable();
    keys.dedup();
    listed.sort_unstable();
    assert_eq!(keys, listed);
}

fn keys(schema: &Value) -> Vec<&str> {
    schema["properties"].as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn the_page_of_the_rules_lists_every_key_and_no_other() {
    let schema: Value = page("server/schema/rules.schema.json").parse().unwrap();
    let page = page("deploy/docs/rules.md");
    let section = page.split("\n## Keys\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let (of_rules, of_handlers) = section.split_once("\n| Handler |").unwrap();
    let mut listed = table(of_rules, "| `").into_iter().flat_map(|row| row[0].clone()).collect::<Vec<_>>();
    let mut wanted = keys(&schema["properties"]["hooks"]["items"]);
    listed.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(listed, wanted);

    let handlers = table(of_handlers, "| `");
    let kinds = schema["$defs"]["handler"]["oneOf"].as_array().unwrap();
    assert_eq!(handlers.len(), kinds.len());
    for (row, kind) in handlers.iter().zip(kinds) {
        assert_eq!(json!(row[0]), kind["properties"]["type"]["enum"]);
        for key in keys(kind).into_iter().filter(|key| *key != "type") {
            assert!(row[2].contains(&key), "{key} of {row:?}");
        }
    }
    let of_files = [keys(&schema), keys(&schema["properties"]["defaults"]["items"])].concat();
    let (_, prose) = of_rules.split_once("\nA file holds ").unwrap();
    for key in of_files {
        assert!(prose.contains(&format!("`{key}`")), "{key}");
    }
}

/// All numbers in a section about what hookd costs.
fn figures(page: &str) -> Vec<String> {
    let section = page.split("\n## What it costs\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with('|')).collect::<Vec<_>>().join("\n");
    let numbers =
        rows.split(|it: char| !it.is_ascii_digit() && !".,".contains(it)).map(|it| it.trim_matches(['.', ',']));
    numbers.filter(|number| !number.is_empty()).map(str::to_owned).collect()
}

#[test]
fn the_figures_of_the_readme_are_those_that_were_measured() {
    let measured = figures(&page("tests/peers/README.md"));
    let shown = figures(&page("README.md"));
    assert!(shown.len() > 15, "{shown:?}");
    assert_eq!(shown.iter().filter(|figure| !measured.contains(figure)).collect::<Vec<_>>(), [] as [&String; 0]);
}
