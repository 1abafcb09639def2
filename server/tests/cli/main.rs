//! The `hookd` binary: arguments, settings, ports, reload, drain.

#[cfg(test)]
mod harness;

use std::{fs, os::unix::net::UnixStream as BlockingUnixStream, time::Duration};

use harness::{Folder, RULE, command_rule, run, trigger};
use hookd_proto::v1::{
    ExplainRequest, GetStatusRequest, ListRulesRequest, ReloadRequest, SourceState, ToolCall, TriggerRequest, Verdict,
};
use rustix::process::Signal;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use tonic::{Code, codec::CompressionEncoding};
use tonic_types::StatusExt as _;

/// Far above what anything here takes on a busy machine, and far below the drain limits that must not be waited for.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn check_prints_what_would_run() {
    let folder = Folder::new();
    folder.write("managed/guard.json", RULE);
    folder.write(
        "hookd.yaml",
        "tiers: { managed: { sources: [ managed ] }, shared: { sources: [ { path: x, optional: true, selector: { matchLabels: { tenant: a } } } ] } }",
    );
    let (code, out, err) = run(&folder, &["--config", "hookd.yaml", "--check"], &[]);
    let (shown, revision) = out.trim_end().rsplit_once("revision ").unwrap();
    assert_eq!(revision.len(), 32);
    let path = folder.path().display();
    assert_eq!(
        (code, shown, err.as_str()),
        (
            0,
            format!(
                "source  managed  {path}/managed: loaded, rules: 1\n\
                 source  shared   {path}/x: not there, and optional, rules: 0, for callers with tenant=a (missing_label: deny)\n\
                 TIER     RULE   EVENTS      MATCHER  HANDLER  HOW\n\
                 managed  guard  PreToolUse  *        decide   sync\n"
            )
            .as_str(),
            ""
        )
    );
}

#[test]
fn check_fails_on_what_is_refused_or_left_out() {
    let folder = Folder::new();
    folder.write("rules.json", r#"{"hooks": [{"event": "Stop", "handler": {"type": "decide", "verdit": "ask"}}]}"#);
    for tier in ["managed", "shared"] {
        let sources = format!("HOOKD__TIERS__{}__SOURCES", tier.to_uppercase());
        let (code, out, _) = run(&folder, &["--check"], &[(&sources, "rules.json")]);
        assert_eq!(code, 1, "{out}");
        assert!(out.contains("rules.json:1:") && out.contains("did you mean `verdict`"), "{out}");
        assert_eq!(out.contains("refused: a server with these rules would not start"), tier == "managed", "{out}");
    }
}

#[test]
fn check_finds_the_files_without_which_no_server_starts() {
    let issuer = "name: a, issuer: i, audiences: [h], jwks_file: keys.json";
    let path = |folder: &Folder, name: &str| folder.path().join(name).display().to_string();
    for (settings, file, content, code, told) in [
        ("identity: { tokens_file: tokens.yaml }", "tokens.yaml", "tokens: 7", 64, "expected tokens: [ { name: ci, "),
        (&format!("identity: {{ issuers: [ {{ {issuer} }} ] }}"), "keys.json", "{}", 64, "has no list `keys`"),
        ("http_handlers: { ca: ca.pem }", "ca.pem", "x", 64, "it holds no certificate"),
        (
            "audit: { stdout: true, parameters: hashed, hash_key_file: key }",
            "key",
            "short",
            64,
            "cannot use the key of hashes: 5 bytes are not 16 to 4096",
        ),
        (
            "audit: { otlp: { endpoint: \"http://127.0.0.1:1\", headers_file: headers } }",
            "headers",
            "x",
            64,
            "line 1 is not `Name: value`",
        ),
        (
            "traces: { otlp: { endpoint: \"https://127.0.0.1:1\", ca: ca.pem } }",
            "ca.pem",
            "x",
            64,
            "no certificates in PEM",
        ),
    ] {
        let folder = Folder::new();
        folder.write("hookd.yaml", &format!("{{ listen: 127.0.0.1:0, admin_listen: 127.0.0.1:0, {settings} }}"));
        for there in [true, false] {
            if there {
                folder.write(file, content);
            } else {
                fs::remove_file(folder.path().join(file)).unwrap();
            }
            let [checked, started] = [&["--check"][..], &[]].map(|more| {
                let (code, _, err) = run(&folder, &[&["--config", "hookd.yaml"], more].concat(), &[]);
                (code, err.lines().last().unwrap_or_default().to_owned())
            });
            assert_eq!(checked, started, "{settings}");
            let why = if there { told } else { "No such file or directory" };
            assert!(checked.1.contains(&path(&folder, file)) && checked.1.contains(why), "{}", checked.1);
            assert_eq!(checked.0, code, "{settings}");
        }
    }
}

#[test]
fn check_finds_what_this_machine_has_not() {
    let folder = Folder::new();
    for (settings, code, expected) in [
        ("commands: { user: no-such-user }", 64, "no-such-user"),
        ("audit: { file: { path: gone/a.jsonl } }", 1, "gone/a.jsonl: cannot write the audit file: No such file"),
        ("audit: { file: { path: . } }", 1, "cannot write the audit file: not a regular file"),
    ] {
        folder.write("hookd.yaml", &format!("{settings}\nlisten: 127.0.0.1:0\nadmin_listen: 127.0.0.1:0\n"));
        let check = run(&folder, &["--config", "hookd.yaml", "--check"], &[]);
        assert_eq!((check.0, check.1.as_str()), (code, ""), "{settings}: {}", check.2);
        assert!(check.2.contains(expected) && check.2.lines().count() == 1, "{settings}: {}", check.2);
        let start = run(&folder, &["--config", "hookd.yaml"], &[]);
        // Before it, a start has logged that there are no rules.
        assert_eq!((start.0, start.2.lines().last()), (code, check.2.lines().last()), "{settings}");
    }
    // Another hookd may be writing the trail that is checked, and none is made.
    folder.write("hookd.yaml", "audit: { file: { path: a.jsonl } }");
    assert_eq!(run(&folder, &["--config", "hookd.yaml", "--check"], &[]).0, 0);
    assert!(!folder.path().join("a.jsonl").try_exists().unwrap());
}

#[test]
fn what_print_config_prints_means_the_same() {
    let folder = Folder::new();
    folder.write("a.toml", "listen = [\"127.0.0.1:0\", \"unix:h.sock\"]\n[tiers.team]\nsources = [\"team\"]\n[limits]\noutput_bytes = 1000\n");
    let (code, printed, err) =
        run(&folder, &["--config", "a.toml", "--print-config"], &[("HOOKD__DRAIN__LIMIT", "45s")]);
    assert_eq!((code, err.as_str()), (0, ""));
    folder.write("elsewhere/b.yaml", &printed);
    assert_eq!(run(&folder, &["--config", "elsewhere/b.yaml", "--print-config"], &[]), (0, printed, String::new()));
}

#[test]
fn what_cannot_be_used_exits_with_64_and_says_why() {
    let folder = Folder::new();
    folder.write("bad.yaml", "limits: { in_flight: 0 }\nlisten: nowhere\n");
    folder.write("managed/a.yaml", "hooks:\n  - event: PreToolUs\n    handler: { type: decide, verdict: block }\n");
    folder.write(
        "central.yaml",
        "tiers: { managed: { sources: [ managed ] } }\nlisten: 127.0.0.1:0\nadmin_listen: 127.0.0.1:0\n",
    );
    folder
        .write("gone.yaml", "tiers: { team: { sources: [ gone ] } }\nlisten: 127.0.0.1:0\nadmin_listen: 127.0.0.1:0\n");
    let path = folder.path().display();
    let wanted = "an address or a list of them, such as 127.0.0.1:50051, [::1]:50051 or unix:/run/hookd.sock";
    let settings = format!(
        "{path}/bad.yaml: listen: \"nowhere\" is not {wanted}\n\
         {path}/bad.yaml: limits.in_flight: `0` is not a whole number from 1 to 1000000, such as 64\n"
    );
    assert_eq!(run(&folder, &["--config", "bad.yaml"], &[]), (64, String::new(), settings));
    let variable = "environment HOOKD__LISTE: unknown key, did you mean `listen`\n";
    assert_eq!(run(&folder, &[], &[("HOOKD__LISTE", "x")]), (64, String::new(), variable.to_owned()));
    let (code, out, err) = run(&folder, &["--config", "central.yaml"], &[]);
    assert_eq!((code, out.as_str()), (64, ""));
    let named = err.lines().any(|line| {
        line.starts_with(&format!("{path}/managed/a.yaml:2:")) && line.contains("did you mean `PreToolUse`")
    });
    assert!(named, "{err}");
    let (code, _, err) = run(&folder, &["--config", "gone.yaml"], &[]);
    assert_eq!(code, 64);
    assert!(err.contains(&format!("{path}/gone: is not there")), "{err}");
    assert_eq!(run(&folder, &["--confg"], &[]).0, 64);
    assert_eq!(run(&folder, &["--version"], &[]), (0, format!("hookd {}\n", env!("CARGO_PKG_VERSION")), String::new()));
}

#[tokio::test]
async fn a_port_that_is_taken_is_an_error_of_its_own() {
    let folder = Folder::new();
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, out, err) = run(&folder, &[], &[("HOOKD__LISTEN", &address), ("HOOKD__ADMIN_LISTEN", "127.0.0.1:0")]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert_eq!(err, format!("listen: cannot listen on {address}: Address already in use (os error 98)\n"));
    let (code, out, err) = run(&folder, &[], &[("HOOKD__LISTEN", "127.0.0.1:0"), ("HOOKD__ADMIN_LISTEN", &address)]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(
        err.ends_with(&format!("admin_listen: cannot listen on {address}: Address already in use (os error 98)\n"))
    );
}

#[tokio::test]
async fn it_serves_judges_and_shows_itself() {
    let folder = Folder::new();
    folder.write("managed/guard.json", RULE);
    let server = folder.serve("tiers: { managed: { sources: [ managed ] } }").await;
    let mut request = tonic::Request::new(trigger("Bash"));
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    request.metadata_mut().insert("traceparent", parent.parse().unwrap());
    let answer = server.hooks().await.trigger(request).await.unwrap().into_inner();
    assert_eq!((answer.verdict(), answer.reason.as_str()), (Verdict::Block, "no"));
    assert_eq!(server.get("/livez").await, (200, "ok\n".to_owned()));
    let (status, ready) = server.get("/readyz").await;
    // What holds commands in hangs on the kernel too.
    let expected = format!("ready\nrevision: {}\ncommands: no new privileges: ", answer.policy_revision);
    assert!(status == 200 && ready.starts_with(&expected) && ready.lines().count() == 3, "{ready}");
    assert_eq!(server.get("/nothing").await.0, 404);
    let (_, metrics) = server.get("/metrics").await;
    for sample in [
        "hookd_calls_total{event=\"PreToolUse\",verdict=\"block\",tier=\"managed\",status=\"ok\"} 1\n".to_owned(),
        "hookd_managed_rule_outcomes_total{rule=\"guard\",outcome=\"block\"} 1\n".to_owned(),
        format!("hookd_catalog_info{{revision=\"{}\"}} 1\n", answer.policy_revision),
        "hookd_rules{tier=\"managed\",mode=\"enforce\"} 1\n".to_owned(),
        "hookd_in_flight_calls 0\n".to_owned(),
        "# EOF\n".to_owned(),
    ] {
        assert!(metrics.contains(&sample), "{sample}{metrics}");
    }
    let line = server.logged("decided").await;
    let keys = ["event", "verdict", "rule", "tier", "tool", "decision_id", "trace_id", "revision"];
    let expected = [
        "PreToolUse",
        "block",
        "guard",
        "managed",
        "Bash",
        &answer.decision_id,
        "4bf92f3577b34da6a3ce929d0e0e4736",
        &answer.policy_revision,
    ];
    assert_eq!(keys.map(|key| line[key].as_str().unwrap_or_default()), expected);
}

#[tokio::test]
async fn case_099_no_rules_at_all_are_told_at_start() {
    let folder = Folder::new();
    let server = folder.serve("").await;
    let told = |line: &serde_json::Value| line["problem"] == "no rules are loaded: everything passes";
    server.logged_where("rules loaded with a warning", told).await;
}

#[tokio::test]
async fn health_follows_and_reflection_answers() {
    use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
    use tonic_reflection::pb::v1::{
        ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
        server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
    };
    let folder = Folder::new();
    let server = folder.serve("").await;
    let request = HealthCheckRequest { service: "hookd.v1.HookService".to_owned() };
    let health = HealthClient::new(server.channel().await).check(request).await.unwrap().into_inner();
    assert_eq!(health.status, 1);
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut answers = ServerReflectionClient::new(server.channel().await)
        .server_reflection_info(tokio_stream::once(request))
        .await
        .unwrap()
        .into_inner();
    let Some(MessageResponse::ListServicesResponse(list)) = answers.message().await.unwrap().unwrap().message_response
    else {
        panic!()
    };
    let mut names = list.service.into_iter().map(|service| service.name).collect::<Vec<_>>();
    names.sort();
    assert_eq!(
        names,
        [
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
            "hookd.v1.AdminService",
            "hookd.v1.HookService"
        ]
    );
}

#[tokio::test]
async fn administration_tells_what_is_loaded_and_reloads() {
    let folder = Folder::new();
    folder.write("managed/guard.json", RULE);
    let server = folder.serve("tiers: { managed: { sources: [ managed ] } }").await;
    let mut admin = server.admin().await;
    let status = admin.get_status(GetStatusRequest {}).await.unwrap().into_inner();
    assert_eq!((status.version.as_str(), status.rules), (env!("CARGO_PKG_VERSION"), 1));
    assert_eq!(status.waiting_for, [] as [&str; 0]);
    assert_eq!(status.sources.len(), 1);
    let rules = admin.list_rules(ListRulesRequest::default()).await.unwrap().into_inner();
    assert_eq!(rules.policy_revision, status.policy_revision);
    assert_eq!(rules.rules.iter().map(|rule| rule.rule_id.as_str()).collect::<Vec<_>>(), ["guard"]);
    let mut of_event = async |event: &str| admin.list_rules(ListRulesRequest { event: event.to_owned() }).await;
    assert_eq!(of_event("PreDeploy").await.unwrap().into_inner().rules, []);
    let mistyped = of_event("PreToolUSe").await.unwrap_err();
    assert_eq!(
        (mistyped.code(), mistyped.message()),
        (Code::InvalidArgument, "event: event `PreToolUSe` is not known, did you mean `PreToolUse`")
    );
    let request = ExplainRequest { trigger: Some(trigger("Bash")), ..ExplainRequest::default() };
    let explained = admin.explain(request).await.unwrap().into_inner();
    assert!(explained.rules[0].would_run);
    assert_eq!(explained.block_means, "the tool call does not run, the reason goes to the model");
    let missing = admin.explain(ExplainRequest::default()).await.unwrap_err();
    assert_eq!(missing.code(), Code::InvalidArgument);

    folder.write("managed/guard.json", "{");
    let reloaded = admin.reload(ReloadRequest {}).await.unwrap().into_inner();
    assert!(!reloaded.ok && !reloaded.changed);
    assert_eq!(reloaded.policy_revision, status.policy_revision);
    assert_eq!(reloaded.sources[0].state(), SourceState::Stale);
    assert_eq!(reloaded.sources[0].errors.len(), 1);
    let (code, ready) = server.get("/readyz").await;
    assert_eq!(code, 200);
    assert!(ready.contains("stale: managed ") && ready.contains("guard.json:"), "{ready}");
}

#[test]
fn as_many_files_may_be_open_as_the_system_permits() {
    let folder = Folder::new();
    folder.settings("");
    let mut server = std::process::Command::new("sh")
        .args(["-c", "ulimit -Sn 64; exec \"$0\" --config hookd.yaml", env!("CARGO_BIN_EXE_hookd")])
        .current_dir(folder.path())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut ready = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(server.stdout.take().unwrap()), &mut ready).unwrap();
    let limits = fs::read_to_string(format!("/proc/{}/limits", server.id())).unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let [soft, hard, _] = line.split_whitespace().collect::<Vec<_>>()[..] else { panic!("{line}") };
    assert_eq!(soft, hard);
    assert_ne!(soft, "64");
}

#[tokio::test]
async fn sighup_reloads() {
    let folder = Folder::new();
    let server = folder.serve("").await;
    server.signal(Signal::HUP);
    let line = server.logged("reloading").await;
    assert_eq!(line["reason"], "SIGHUP");
    server.logged("catalog loaded").await;
}

#[tokio::test]
async fn tiers_and_fallbacks_are_hot_and_the_rest_is_not() {
    let folder = Folder::new();
    folder.write("managed/guard.json", RULE);
    let server = folder.serve("tiers: { managed: { sources: [ managed ] } }").await;
    let mut admin = server.admin().await;
    let before = admin.get_status(GetStatusRequest {}).await.unwrap().into_inner().policy_revision;

    folder.settings("tiers: { managed: { sources: [ managed ], mode: shadow } }\nlimits: { children: 3 }");
    let reloaded = admin.reload(ReloadRequest {}).await.unwrap().into_inner();
    assert!(reloaded.ok);
    assert_ne!(reloaded.policy_revision, before);
    let line = server.logged("settings changed that need a restart").await;
    assert_eq!(line["keys"], "limits.children");
    let answer = server.hooks().await.trigger(trigger("Bash")).await.unwrap().into_inner();
    assert_eq!((answer.verdict(), answer.results[0].shadow), (Verdict::None, true));

    folder.settings("tires: {}");
    let refused = admin.reload(ReloadRequest {}).await.unwrap().into_inner();
    assert!(!refused.ok);
    assert_eq!(refused.policy_revision, reloaded.policy_revision);
    let file = folder.path().join("hookd.yaml");
    assert_eq!(refused.warnings, [format!("{}: tires: unknown key, did you mean `tiers`", file.display())]);
}

#[tokio::test]
async fn a_changed_settings_file_is_noticed() {
    let folder = Folder::new();
    folder.write("managed/guard.json", RULE);
    let server = folder.serve("").await;
    folder.settings("tiers: { managed: { sources: [ managed ] } }");
    server.logged_where("catalog loaded", |line| line["rules"] == 1).await;
    // The new source is watched too.
    folder.write("managed/more.json", &RULE.replace("guard", "more"));
    server.logged_where("catalog loaded", |line| line["rules"] == 2).await;
}

#[tokio::test]
async fn it_serves_on_a_unix_socket_that_goes_with_it() {
    let folder = Folder::new();
    let server = folder.serve_with("listen: unix:h.sock\n").await;
    let socket = folder.path().join("h.sock");
    assert_eq!(server.grpc, format!("unix:{}", socket.display()));
    let answer = server.hooks().await.trigger(trigger("Bash")).await.unwrap().into_inner();
    assert_eq!(answer.verdict(), Verdict::None);
    server.signal(Signal::TERM);
    assert_eq!(server.exit().await, Some(0));
    assert!(!socket.try_exists().unwrap());
    assert!(BlockingUnixStream::connect(&socket).is_err());
}

#[tokio::test]
async fn case_090_a_message_over_the_limit_has_one_clear_status() {
    let folder = Folder::new();
    let server = folder.serve("").await;
    let tool_call = ToolCall {
        tool: "Read".to_owned(),
        result_json: Some(format!("\"{}\"", "x".repeat(5 << 20))),
        ..ToolCall::default()
    };
    let request =
        TriggerRequest { event: "PostToolUse".to_owned(), tool_call: Some(tool_call), ..TriggerRequest::default() };
    for gzip in [false, true] {
        let mut hooks = server.hooks().await;
        if gzip {
            hooks = hooks.send_compressed(CompressionEncoding::Gzip);
        }
        let status = hooks.trigger(request.clone()).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
        assert_eq!(status.message(), "the message is over the limit of 4194304 bytes");
        assert!(status.metadata().contains_key("hookd-decision-id"));
        assert!(status.get_details_retry_info().is_none());
    }
}

#[tokio::test]
async fn case_091_gzip_is_taken_and_given() {
    let folder = Folder::new();
    folder.write("managed/guard.json", RULE);
    let server = folder.serve("tiers: { managed: { sources: [ managed ] } }").await;
    let mut hooks =
        server.hooks().await.send_compressed(CompressionEncoding::Gzip).accept_compressed(CompressionEncoding::Gzip);
    let mut request = trigger("Bash");
    request.payload_json = format!("{{\"text\": \"{}\"}}", "x".repeat(3 << 20));
    let answer = hooks.trigger(request).await.unwrap();
    assert_eq!(answer.metadata().get("grpc-encoding").unwrap(), "gzip");
    assert_eq!(answer.get_ref().verdict(), Verdict::Block);
}

#[tokio::test]
async fn calls_over_the_limit_are_shed_and_health_is_not() {
    let folder = Folder::new();
    let started = folder.fifo("started");
    folder.write("managed/slow.json", &command_rule("echo > started; sleep 600"));
    let settings = "tiers: { managed: { sources: [ managed ] } }\nlimits: { in_flight: 1 }\ndrain: { min_delay: 0s }";
    let server = folder.serve(settings).await;
    let mut hooks = server.hooks().await;
    let slow = tokio::spawn(async move { hooks.trigger(trigger("Bash")).await });
    started.await;
    let status = server.hooks().await.trigger(trigger("Bash")).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    assert!(status.get_details_retry_info().is_some());
    server.admin().await.get_status(GetStatusRequest {}).await.unwrap();
    assert!(server.get("/metrics").await.1.contains("hookd_shed_calls_total 1\n"));
    slow.abort();
    // It takes the handler along, which killing it would not.
    server.signal(Signal::TERM);
    assert_eq!(server.exit().await, Some(0));
}

#[tokio::test]
async fn case_093_an_idle_or_half_open_connection_cannot_hold_the_exit() {
    let folder = Folder::new();
    let server = folder.serve("drain: { min_delay: 0s, limit: 10m }").await;
    let idle = TcpStream::connect(&server.grpc).await.unwrap();
    let mut half = TcpStream::connect(&server.grpc).await.unwrap();
    half.write_all(b"PRI * HT").await.unwrap();
    let mut admin = TcpStream::connect(&server.admin_address).await.unwrap();
    admin.write_all(b"GET /li").await.unwrap();
    let answered = server.hooks().await.trigger(trigger("Bash")).await;
    assert!(answered.is_ok());
    server.signal(Signal::TERM);
    assert_eq!(server.exit().await, Some(0));
    drop((idle, half, admin));
}

#[tokio::test]
async fn during_the_minimum_delay_it_still_serves_and_is_not_ready() {
    let folder = Folder::new();
    folder.write("managed/guard.json", RULE);
    let server =
        folder.serve("tiers: { managed: { sources: [ managed ] } }\ndrain: { min_delay: 10m, limit: 10m }").await;
    server.signal(Signal::TERM);
    server.logged("leaving: not ready any more").await;
    let answer = server.hooks().await.trigger(trigger("Bash")).await.unwrap().into_inner();
    assert_eq!(answer.verdict(), Verdict::Block);
    let (code, ready) = server.get("/readyz").await;
    assert_eq!((code, ready.lines().nth(1)), (503, Some("waiting for: shutdown")));
    let status = server.admin().await.get_status(GetStatusRequest {}).await.unwrap().into_inner();
    assert_eq!(status.waiting_for, ["shutdown"]);
    server.signal(Signal::TERM);
    assert_eq!(server.exit().await, Some(130));
}

#[tokio::test]
async fn a_call_that_was_accepted_finishes_after_sigterm() {
    let folder = Folder::new();
    let (started, go_on) = (folder.fifo("started"), folder.path().join("go-on"));
    harness::mkfifo(&go_on);
    folder.write(
        "managed/slow.json",
        &command_rule("echo > started; read line < go-on; echo '{\\\"decision\\\": \\\"ask\\\"}'"),
    );
    let server = folder.serve("tiers: { managed: { sources: [ managed ] } }\ndrain: { min_delay: 0s }").await;
    let mut hooks = server.hooks().await;
    let slow = tokio::spawn(async move { hooks.trigger(trigger("Bash")).await });
    started.await;
    server.signal(Signal::TERM);
    server.logged("leaving: not ready any more").await;
    assert_eq!(server.get("/readyz").await.0, 503);
    let go = tokio::task::spawn_blocking(move || fs::write(go_on, "go\n").unwrap());
    assert_eq!(slow.await.unwrap().unwrap().into_inner().verdict(), Verdict::Ask);
    go.await.unwrap();
    assert_eq!(server.exit().await, Some(0));
}

#[tokio::test]
async fn a_call_at_the_drain_limit_is_told_so_and_its_child_is_killed() {
    let folder = Folder::new();
    let started = folder.fifo("started");
    folder.write("managed/slow.json", &command_rule("echo $$ > started; sleep 600"));
    let server = folder
        .serve(
            "tiers: { managed: { sources: [ managed ] } }\nlimits: { default_deadline: 100ms, max_deadline: 10m }\n\
             drain: { min_delay: 0s, limit: 100ms }",
        )
        .await;
    let mut hooks = server.hooks().await;
    let slow = tokio::spawn(async move {
        let mut request = tonic::Request::new(trigger("Bash"));
        request.set_timeout(Duration::from_secs(500));
        hooks.trigger(request).await
    });
    let child = started.await;
    server.signal(Signal::TERM);
    let status = slow.await.unwrap().unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::Unavailable, "the server is shutting down"));
    assert!(status.metadata().contains_key("hookd-decision-id"));
    assert_eq!(server.exit().await, Some(0));
    harness::assert_gone(&child);
}

#[tokio::test]
async fn a_second_signal_exits_at_once_and_takes_the_children_along() {
    let folder = Folder::new();
    let started = folder.fifo("started");
    folder.write("managed/slow.json", &command_rule("echo $$ > started; trap '' TERM; sleep 600"));
    let server =
        folder.serve("tiers: { managed: { sources: [ managed ] } }\ndrain: { min_delay: 10m, limit: 10m }").await;
    let mut hooks = server.hooks().await;
    let slow = tokio::spawn(async move { hooks.trigger(trigger("Bash")).await });
    let child = started.await;
    server.signal(Signal::INT);
    server.logged("leaving: not ready any more").await;
    server.signal(Signal::INT);
    assert_eq!(server.exit().await, Some(130));
    harness::assert_gone(&child);
    slow.await.unwrap().unwrap_err();
}

#[tokio::test]
async fn goaway_reaches_a_client_that_holds_its_connection() {
    let folder = Folder::new();
    let server = folder.serve("drain: { min_delay: 0s, limit: 10m }").await;
    let mut connection = TcpStream::connect(&server.grpc).await.unwrap();
    // The preface and empty settings, and then nothing but reading.
    connection.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00").await.unwrap();
    let mut settings = [0; 9];
    connection.read_exact(&mut settings).await.unwrap();
    server.signal(Signal::TERM);
    let mut rest = Vec::new();
    timeout(PATIENCE, connection.read_to_end(&mut rest)).await.unwrap().unwrap();
    let goaway = [0, 0, 8, 7, 0, 0, 0, 0, 0];
    assert!(rest.windows(goaway.len()).any(|frame| frame == goaway), "{rest:?}");
    assert_eq!(server.exit().await, Some(0));
}
