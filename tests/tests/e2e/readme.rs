//! The commands of the README and of the quickstart's page are run, and give what the pages say.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Output, Stdio},
};

use hookd_tests::{
    Authority, Hookd, HttpStub, RawHttp1, Reply, SigningKey, pre_tool_use, program, rule, sh, v1::GetStatusRequest,
    with, with_token, within,
};
use serde_json::json;
use tokio::process::Command;
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use crate::quickstart::{project, quickstart};

const START: &str = "cargo run --release --bin hookd -- --config deploy/examples/quickstart/hookd.yaml";
pub(super) const START_OF_AGENTS: &str =
    "cargo run --release --bin hookd -- --config deploy/examples/agents/hookd.yaml";

/// A command of a page: as it stands there, its exit code, and what its output holds.
pub(super) type Row = (&'static str, i32, &'static [&'static str]);

const README: [Row; 15] = [
    (START, 0, &[]),
    (BLOCKED, 2, &["BLOCK  PreToolUse edit_file"]),
    (
        r#"echo '{"event":"Stop","sessionId":"s1"}' | hookctl --output json trigger --input -"#,
        0,
        &[r#""verdict":"none""#, r#""outcome":"queued""#],
    ),
    ("hookctl status", 0, &["READY", "3 rules in force"]),
    ("hookctl rules --event PreToolUse", 0, &["no-node-modules", "1 rule for PreToolUse"]),
    (
        r#"hookctl explain PreToolUse --tool edit_file --params '{"file_path":"src/a.js"}'"#,
        0,
        &["1 of 1 rule would run", "no-node-modules"],
    ),
    ("hookctl check deploy/examples/quickstart/managed", 0, &["IN ORDER", "1 rule, 0 errors, 0 warnings"]),
    ("hookctl reload", 0, &["RELOADED"]),
    ("hookctl completions bash", 0, &["complete -F _hookctl"]),
    (
        r#"grpcurl -plaintext -d '{"event":"PreToolUse","tool_call":{"tool":"edit_file","params_json":"{\"file_path\":\"src/a.js\"}"}}' 127.0.0.1:50051 hookd.v1.HookService/Trigger"#,
        0,
        &["VERDICT_NONE", "no-node-modules"],
    ),
    ("grpcurl -plaintext 127.0.0.1:50051 grpc.health.v1.Health/Check", 0, &["SERVING"]),
    ("curl -s http://127.0.0.1:8081/readyz", 0, &["revision: "]),
    ("curl -s http://127.0.0.1:8081/metrics", 0, &["hookd_calls_total", "# EOF"]),
    (
        r#"echo '{"session_id":"s1","transcript_path":"/tmp/t","cwd":"/tmp","hook_event_name":"PreToolUse","tool_name":"edit_file","tool_input":{"file_path":"node_modules/x.js"},"tool_use_id":"t1"}' | hookctl relay --agent claude-code"#,
        0,
        &[r#""permissionDecision":"deny""#, "Cannot write to node_modules (no-node-modules, "],
    ),
    (
        r#"curl -s -H 'Content-Type: application/json' -d '{"event":"PreToolUse","toolCall":{"tool":"Bash","params":{"command":"ls"}}}' http://127.0.0.1:50051/v1/trigger"#,
        0,
        &[r#""verdict":"none""#, r#""decisionId":""#],
    ),
];

const BLOCKED: &str = r#"hookctl trigger PreToolUse --tool edit_file --params '{"file_path":"node_modules/x.js"}'"#;

const QUICKSTART: [Row; 5] = [
    (START, 0, &[]),
    (
        r#"echo '{"event":"PreToolUse","sessionId":"s1","toolCall":{"tool":"edit_file","params":{"file_path":"src/a.js"}}}' | hookctl trigger --input -"#,
        0,
        &["NONE"],
    ),
    (
        r#"echo '{"event":"PreToolUse","sessionId":"s1","toolCall":{"tool":"edit_file","params":{"file_path":"node_modules/x.js"}}}' | hookctl trigger --input -"#,
        2,
        &["BLOCK", "Cannot write to node_modules"],
    ),
    (
        r#"echo '{"event":"PostToolUse","sessionId":"s1","toolCall":{"tool":"edit_file","params":{"file_path":"src/a.js"},"result":"ok"}}' | hookctl trigger --input -"#,
        0,
        &["NONE"],
    ),
    (r#"echo '{"event":"Stop","sessionId":"s1"}' | hookctl trigger --input -"#, 0, &["NONE", "queued"]),
];

pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

pub(super) fn page(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// The text of every fenced block of this language.
pub(super) fn blocks(page: &str, language: &str) -> Vec<String> {
    let blocks = page.split("```").skip(1).step_by(2);
    let text = |block: &str| Some(block.strip_prefix(language)?.strip_prefix('\n')?.to_owned());
    blocks.filter_map(text).collect()
}

/// The commands about hookd in the `sh` blocks of a page, each on one line and without its comment.
fn commands(page: &str) -> Vec<String> {
    let mut commands = Vec::new();
    for block in blocks(page, "sh") {
        let joined = block.replace("|\n  ", "| ");
        commands.extend(joined.lines().map(|line| line.split("  #").next().unwrap_or(line).trim().to_owned()));
    }
    let about_hookd = |line: &String| {
        let starts = ["cargo run", "hookctl ", "hookd ", "curl ", "grpcurl "];
        starts.iter().any(|start| line.starts_with(start)) || line.contains("| hookctl")
    };
    commands.into_iter().filter(about_hookd).collect()
}

#[track_caller]
pub(super) fn check_table(page: &str, table: &[Row]) {
    assert_eq!(commands(page), table.iter().map(|(line, ..)| *line).collect::<Vec<_>>());
}

/// Starts hookd as the page says, but for the ports.
async fn start(line: &str) {
    let (_, arguments) = line.split_once(" -- --config ").unwrap();
    let free = "127.0.0.1:0";
    let hookd = Hookd::builder().settings_file(root().join(arguments));
    let hookd = hookd.env("HOOKD__LISTEN", free).env("HOOKD__ADMIN_LISTEN", free).start().await;
    let status = hookd.admin().get_status(GetStatusRequest {}).await.unwrap().into_inner();
    let rules = if line == START { 3 } else { 4 };
    assert_eq!((status.rules, status.waiting_for), (rules, vec![]));
}

/// Runs a command of a page in `folder`, with the addresses of `hookd`.
async fn run(hookd: &Hookd, folder: &Path, line: &str) -> Output {
    let line = line.replace("127.0.0.1:50051", &hookd.address().to_string());
    let line = line.replace("127.0.0.1:8081", &hookd.admin_address().to_string());
    let built = program("hookctl");
    let path = format!("{}:{}", built.parent().unwrap().display(), env::var("PATH").unwrap());
    let mut command = Command::new("sh");
    command.arg("-c").arg(line).current_dir(folder).stdin(Stdio::null()).kill_on_drop(true);
    command.env("PATH", path).env("HOOKD_ADDRESS", hookd.address().to_string()).env_remove("NO_COLOR");
    within("a command of the page", command.output()).await.unwrap()
}

pub(super) async fn run_all(hookd: &Hookd, folder: &Path, table: &[Row]) {
    for (line, exit, says) in table {
        if [START, START_OF_AGENTS].contains(line) {
            start(line).await;
            continue;
        }
        let name = line.split(' ').next().unwrap();
        let stands_in = ["curl", "grpcurl"].contains(&name) && !is_installed(name);
        let (code, text) = if stands_in {
            (Some(0), without_tool(hookd, line).await)
        } else {
            let output = run(hookd, folder, line).await;
            let text = [output.stdout, output.stderr].concat();
            (output.status.code(), String::from_utf8(text).unwrap())
        };
        assert_eq!(code, Some(*exit), "{line}\n{text}");
        for part in *says {
            assert!(text.contains(part), "{line}: {part} is not in\n{text}");
        }
    }
}

fn is_installed(name: &str) -> bool {
    env::split_paths(&env::var_os("PATH").unwrap()).any(|folder| folder.join(name).is_file())
}

/// What a tool that this machine lacks would have shown, of the same call.
async fn without_tool(hookd: &Hookd, line: &str) -> String {
    if let Some((_, call)) = line.split_once("http://127.0.0.1:50051") {
        let (path, _) = call.split_once(' ').unwrap();
        let (_, body) = call.split_once(" -d '").unwrap();
        let body = body.trim_end_matches('\'');
        return RawHttp1::connect(hookd.address()).await.ask(path, "", body).await.body;
    }
    if let Some((_, path)) = line.split_once("http://127.0.0.1:8081") {
        let (status, text) = hookd.admin_get(path).await;
        assert_eq!(status, 200, "{line}");
        return text;
    }
    if line.ends_with("grpc.health.v1.Health/Check") {
        let mut health = HealthClient::new(hookd.channel());
        let answer = health.check(HealthCheckRequest::default()).await.unwrap().into_inner();
        return answer.status().as_str_name().to_owned();
    }
    assert!(line.starts_with("grpcurl "), "this machine needs curl for: {line}");
    let answer = hookd.trigger(pre_tool_use("edit_file", json!({ "file_path": "src/a.js" }))).await;
    format!("{} {}", answer.verdict().as_str_name(), answer.results[0].rule_id)
}

#[tokio::test]
async fn every_command_of_the_readme_does_what_it_says() {
    check_table(&page("README.md"), &README);
    let stub = HttpStub::start(|_| Reply::ok("")).await;
    let hookd = quickstart(&stub.url("/notify"), "").start().await;
    run_all(&hookd, &root(), &README).await;
}

#[tokio::test]
async fn every_command_of_the_quickstart_does_what_it_says() {
    check_table(&page("deploy/examples/quickstart/README.md"), &QUICKSTART);
    let stub = HttpStub::start(|_| Reply::ok("")).await;
    let hookd = quickstart(&stub.url("/notify"), "").start().await;
    let project = project(&hookd);
    run_all(&hookd, &project, &QUICKSTART).await;
    assert_eq!(fs::read_to_string(project.join("src/a.js")).unwrap(), "let a = 1;\nlet b = 2;\n");
    stub.wait_for(1).await;
}

#[tokio::test]
async fn the_readme_shows_the_picture_that_hookctl_draws() {
    let hookd = quickstart("http://127.0.0.1:9/notify", "").start().await;
    let drawn = String::from_utf8(run(&hookd, &root(), BLOCKED).await.stdout).unwrap();
    let folder = hookd.path("").display().to_string();
    let drawn = drawn.replace(folder.trim_end_matches('/'), "…");
    let shown = blocks(&page("README.md"), "text").into_iter().find(|text| text.starts_with("BLOCK")).unwrap();
    let drawn = drawn.split("\ndecision ").next().unwrap();
    assert_eq!(without_times(drawn), without_times(&shown));
}

/// Words alone, with `N ms` for every time: the width of columns hangs on it.
fn without_times(text: &str) -> String {
    let mut words = text.split_whitespace().collect::<Vec<_>>();
    for number in 1..words.len() {
        if words[number] == "ms" {
            words[number - 1] = "N";
        }
    }
    words.join(" ")
}

/// What stands in code in the columns of a table's rows, of those that begin so.
fn table<'p>(page: &'p str, begin: &str) -> Vec<Vec<Vec<&'p str>>> {
    let code = |cell: &'p str| cell.split('`').skip(1).step_by(2).collect();
    let rows = page.lines().filter(|line| line.starts_with(begin));
    rows.map(|line| line.trim_matches('|').split('|').map(code).collect()).collect()
}

#[tokio::test]
async fn the_readme_lists_every_metric_and_no_other() {
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
    let page = page("README.md");
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
async fn the_readme_lists_every_setting_with_its_default_and_no_other() {
    let page = page("README.md");
    let start = page.find("\n## Settings\n").unwrap();
    let section = page[start + 1..].split("\n## ").next().unwrap();
    let (mut listed, mut defaults) = (Vec::new(), Vec::new());
    for row in table(section, "| `") {
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
