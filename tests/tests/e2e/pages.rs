//! What stands on the pages is true: their commands are run and give what the pages say, their files are taken, their
//! lists are whole, and their links lead somewhere.

mod files;
mod links;
mod lists;
mod places;
mod tables;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Output, Stdio},
};

use hookd_tests::{Hookd, HttpStub, RawHttp1, Reply, pre_tool_use, program, v1::GetStatusRequest, within};
use serde_json::json;
use tempfile::TempDir;
use tokio::process::Command;
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use self::tables::{BLOCKED, PAGES};
use crate::quickstart::{project, quickstart};

/// Folders whose pages have a test of their own, and that test. The command of the last one writes what its test compares.
const RUN_ELSEWHERE: [(&str, &str); 3] = [
    ("deploy/docs/", "deploy/docs/test"),
    ("deploy/observability/", "deploy/observability/test"),
    ("tests/conformance/", "tests/conformance/tests/rust/main.rs"),
];

pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

pub(super) fn page(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// Every file that belongs to the repository and whose path is like this, those that are new included.
fn listed(like: &str) -> Vec<String> {
    let mut git = std::process::Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard", like]).current_dir(root());
    let output = git.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let files = String::from_utf8(output.stdout).unwrap();
    let files = files.split_terminator('\0').filter(|path| root().join(path).is_file());
    let mut files = files.map(str::to_owned).collect::<Vec<_>>();
    files.sort_unstable();
    files
}

fn pages() -> Vec<String> {
    let pages = listed("*.md");
    assert!(pages.len() > 50, "{pages:?}");
    pages
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

/// Runs every command of a page in `folder`, and holds that the page has those of its table and no other.
pub(super) async fn run_page(hookd: &Hookd, folder: &Path, path: &str) {
    let (_, table) = PAGES.into_iter().find(|(listed, _)| *listed == path).unwrap();
    assert_eq!(commands(&page(path)), table.iter().map(|(line, ..)| *line).collect::<Vec<_>>());
    for (line, exit, says) in table {
        let name = line.split(' ').next().unwrap();
        let stands_in = ["curl", "grpcurl"].contains(&name) && !is_installed(name);
        let (code, text) = if name == "cargo" {
            (Some(0), start(line).await)
        } else if stands_in {
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

/// Starts hookd as the page says, but for the ports. Gives how many rules it serves.
async fn start(line: &str) -> String {
    let (_, arguments) = line.split_once(" -- --config ").unwrap();
    let free = "127.0.0.1:0";
    let hookd = Hookd::builder().settings_file(root().join(arguments));
    let hookd = hookd.env("HOOKD__LISTEN", free).env("HOOKD__ADMIN_LISTEN", free).start().await;
    let status = hookd.admin().get_status(GetStatusRequest {}).await.unwrap().into_inner();
    assert_eq!(status.waiting_for, [] as [&str; 0]);
    format!("{} rules", status.rules)
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

#[test]
fn every_page_with_commands_has_a_test_that_runs_them() {
    let of_this_crate = PAGES.map(|(path, _)| path);
    let elsewhere = |path: &str| RUN_ELSEWHERE.iter().any(|(folder, _)| path.starts_with(folder));
    let with_commands = pages().into_iter().filter(|path| !commands(&page(path)).is_empty());
    let missed = with_commands.filter(|path| !of_this_crate.contains(&path.as_str()) && !elsewhere(path));
    assert_eq!(missed.collect::<Vec<_>>(), [] as [&str; 0]);
    assert!(RUN_ELSEWHERE.iter().all(|(_, test)| root().join(test).is_file()));
}

#[tokio::test]
async fn every_command_of_the_readme_does_what_it_says() {
    let stub = HttpStub::start(|_| Reply::ok("")).await;
    let hookd = quickstart(&stub.url("/notify"), "").start().await;
    run_page(&hookd, &root(), "README.md").await;
}

#[tokio::test]
async fn every_command_of_the_pages_of_clients_and_programs_does_what_it_says() {
    let stub = HttpStub::start(|_| Reply::ok("")).await;
    let hookd = quickstart(&stub.url("/notify"), "").start().await;
    run_page(&hookd, &root(), "client/README.md").await;
    run_page(&hookd, &root(), "deploy/packages/pypi/README.md").await;
}

#[tokio::test]
async fn every_command_of_the_list_of_agents_does_what_it_says() {
    let hookd = quickstart("http://127.0.0.1:9/notify", "").start().await;
    let project = TempDir::new().unwrap();
    run_page(&hookd, project.path(), "deploy/agents/README.md").await;
    assert!(!project.path().join(".cursor/hooks.json").try_exists().unwrap());
}

#[tokio::test]
async fn every_command_of_the_quickstart_does_what_it_says() {
    let stub = HttpStub::start(|_| Reply::ok("")).await;
    let hookd = quickstart(&stub.url("/notify"), "").start().await;
    let project = project(&hookd);
    run_page(&hookd, &project, "deploy/examples/quickstart/README.md").await;
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
