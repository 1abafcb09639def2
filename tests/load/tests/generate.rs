//! `tests/peers/generate`: one policy in the language of each engine, and the requests for each.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use hookd_condition::Condition;
use prost::Message;
use serde_json::{Value, json};

/// A policy with every kind of tool and test, and with all that has to be escaped somewhere.
fn write_policy(folder: &Path) {
    let test = |root: &str, field: &str, op: &str, value: Value| json!({ "root": root, "field": field, "op": op, "value": value });
    let rule = |id: &str, effect: &str, tool: &str, tests: Value| json!({ "id": id, "effect": effect, "tool": tool, "tests": tests });
    let rules = json!([
        rule("r1:managed", "deny", "Bash", json!([test("params", "command", "re", json!(r"\brm\s"))])),
        rule("r2:managed", "deny", "Bash", json!([test("params", "command", "re", json!("\"`\\d"))])),
        rule("r3:managed", "deny", "mcp:db.x*", json!([])),
        rule(
            "r4:local",
            "deny",
            "*",
            json!([test("principal", "env", "eq", json!("prod")), test("principal", "risk", "gt", json!(70))])
        ),
        rule("r5:local", "allow", "Bash", json!([test("params", "command", "prefix", json!("ls"))])),
        rule("r6:shared", "allow", "Read", json!([test("params", "path", "suffix", json!(".rs"))])),
        rule(
            "r7:shared",
            "allow",
            "Read",
            json!([test("params", "size", "lt", json!(10)), test("params", "host", "in", json!(["a", "b"]))])
        ),
    ]);
    let request = json!({
        "event": "PreToolUse", "tool": "Bash", "params": { "command": "ls 'ä'", "timeout_ms": 1000, "all": true },
        "principal": { "id": "agent-1", "roles": ["agent", "ci"], "env": "dev", "risk": 1.5, "tags": [null, { "a": "b" }] },
    });
    fs::create_dir(folder.join("requests")).unwrap();
    fs::write(folder.join("rules.json"), rules.to_string()).unwrap();
    fs::write(folder.join("requests/000.json"), request.to_string()).unwrap();
    fs::write(folder.join("expect.json"), r#"[["Bash","allow",200]]"#).unwrap();
}

fn generate(policy: &Path, out: &Path) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../peers/generate");
    let mut command = Command::new("python3");
    command.arg(script).arg("--policy").arg(policy).arg("--out").arg(out);
    command.stdin(Stdio::null()).output().unwrap()
}

/// What was written, and the folder that it stands in as long as it is kept.
fn generated() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    write_policy(folder.path());
    let out = folder.path().join("out");
    let output = generate(folder.path(), &out);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (folder, out)
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn hookd_gets_rules_by_tier() {
    let (_folder, out) = generated();
    let block = |id: &str| json!({ "type": "decide", "verdict": "block", "reason": format!("denied by {id}") });
    let allow = json!({ "type": "decide", "verdict": "allow" });
    let rule = |id: &str, matcher: &str, when: &str, handler: &Value| json!({ "id": id, "event": "PreToolUse", "matcher": matcher, "when": when, "handler": handler });
    let managed = json!({ "hooks": [
        rule("r1:managed", "^Bash$", r#"has(params.command) && params.command.matches(r"\brm\s")"#, &block("r1:managed")),
        rule("r2:managed", "^Bash$", r#"has(params.command) && params.command.matches("\"`\\d")"#, &block("r2:managed")),
        { "id": "r3:managed", "event": "PreToolUse", "matcher": r"^mcp:db\.x", "handler": block("r3:managed") },
    ] });
    assert_eq!(read(&out.join("hookd/managed.json")), managed);
    let principal = "has(payload.principal) && has(payload.principal.env) && payload.principal.env == \"prod\" && \
                     has(payload.principal.risk) && payload.principal.risk > 70";
    let local = json!({ "hooks": [
        { "id": "r4:local", "event": "PreToolUse", "when": principal, "handler": block("r4:local") },
        rule("r5:local", "^Bash$", "has(params.command) && params.command.startsWith(\"ls\")", &allow),
    ] });
    assert_eq!(read(&out.join("hookd/local.json")), local);
    let both = "has(params.size) && params.size < 10 && has(params.host) && params.host in [\"a\", \"b\"]";
    let shared = json!({ "hooks": [
        rule("r6:shared", "^Read$", "has(params.path) && params.path.endsWith(\".rs\")", &allow),
        rule("r7:shared", "^Read$", both, &allow),
    ] });
    assert_eq!(read(&out.join("hookd/shared.json")), shared);
    let settings = json!({
        "listen": "127.0.0.1:0",
        "admin_listen": "127.0.0.1:0",
        "tiers": {
            "managed": { "sources": [{ "path": "managed.json" }] },
            "local": { "sources": [{ "path": "local.json" }] },
            "shared": { "sources": [{ "path": "shared.json" }], "may_allow": true },
        },
    });
    assert_eq!(read(&out.join("hookd/hookd.json")), settings);
    let event = json!({
        "event": "PreToolUse",
        "toolCall": { "tool": "Bash", "params": { "command": "ls 'ä'", "timeout_ms": 1000, "all": true } },
        "payload": { "principal": {
            "id": "agent-1", "roles": ["agent", "ci"], "env": "dev", "risk": 1.5, "tags": [null, { "a": "b" }],
        } },
    });
    assert_eq!(read(&out.join("hookd/000.json")), event);
}

#[test]
fn hookd_understands_every_condition() {
    let (_folder, out) = generated();
    let files = ["managed", "local", "shared"].map(|tier| read(&out.join(format!("hookd/{tier}.json"))));
    let rules = files.iter().flat_map(|file| file["hooks"].as_array().unwrap());
    let conditions = rules.filter_map(|rule| rule.get("when")?.as_str()).collect::<Vec<_>>();
    assert_eq!(conditions.len(), 6);
    for condition in conditions {
        let compiled = Condition::compile(condition).map_err(|error| error.to_string());
        assert_eq!(compiled.as_ref().map(Condition::text), Ok(condition));
    }
}

#[test]
fn cerbos_gets_a_policy_for_each_tool_and_encoded_requests() {
    let (_folder, out) = generated();
    let rule = |name: &str, effect: &str, expression: &str| json!({ "name": name, "actions": ["call"], "roles": ["*"], "effect": effect, "condition": { "match": { "expr": expression } } });
    let policy = json!({
        "apiVersion": "api.cerbos.dev/v1",
        "resourcePolicy": { "resource": "Bash", "version": "default", "rules": [
            rule("r1_managed", "EFFECT_DENY", r#"R.attr.command.matches(r"\brm\s")"#),
            rule("r2_managed", "EFFECT_DENY", r#"R.attr.command.matches("\"`\\d")"#),
            rule("r4_local", "EFFECT_DENY", "P.attr.env == \"prod\" && P.attr.risk > 70"),
            rule("r5_local", "EFFECT_ALLOW", "R.attr.command.startsWith(\"ls\")"),
        ] },
    });
    assert_eq!(read(&out.join("cerbos/policies/tool00.json")), policy);
    let request = CheckResources::decode(fs::read(out.join("cerbos/000.bin")).unwrap().as_slice()).unwrap();
    let text = |text: &str| any(Kind::Text(text.to_owned()));
    let list = |items: Vec<AnyValue>| any(Kind::List(AnyList { items }));
    let object = any(Kind::Object(AnyObject { fields: HashMap::from([("a".to_owned(), text("b"))]) }));
    let expected = CheckResources {
        id: "1".to_owned(),
        principal: Some(Principal {
            id: "agent-1".to_owned(),
            roles: vec!["agent".to_owned(), "ci".to_owned()],
            attributes: HashMap::from([
                ("env".to_owned(), text("dev")),
                ("risk".to_owned(), any(Kind::Number(1.5))),
                ("tags".to_owned(), list(vec![any(Kind::Null(0)), object])),
            ]),
        }),
        resources: vec![Entry {
            actions: vec!["call".to_owned()],
            resource: Some(Resource {
                kind: "Bash".to_owned(),
                id: "1".to_owned(),
                attributes: HashMap::from([
                    ("command".to_owned(), text("ls 'ä'")),
                    ("timeout_ms".to_owned(), any(Kind::Number(1000.0))),
                    ("all".to_owned(), any(Kind::Bool(true))),
                ]),
            }),
        }],
    };
    assert_eq!(request, expected);
}

#[test]
fn opa_gets_one_module_and_requests_as_they_are() {
    let (folder, out) = generated();
    let expected = r#"package hookd.peers

default allow := false

allow if {
	not denied
	allowed
}

# r1:managed
denied if {
	input.parsed_body.tool == "Bash"
	regex.match(`\brm\s`, input.parsed_body.params.command)
}

# r2:managed
denied if {
	input.parsed_body.tool == "Bash"
	regex.match("\"`\\d", input.parsed_body.params.command)
}

# r3:managed
denied if {
	startswith(input.parsed_body.tool, "mcp:db.x")
}

# r4:local
denied if {
	input.parsed_body.principal.env == "prod"
	input.parsed_body.principal.risk > 70
}

# r5:local
allowed if {
	input.parsed_body.tool == "Bash"
	startswith(input.parsed_body.params.command, "ls")
}

# r6:shared
allowed if {
	input.parsed_body.tool == "Read"
	endswith(input.parsed_body.params.path, ".rs")
}

# r7:shared
allowed if {
	input.parsed_body.tool == "Read"
	input.parsed_body.params.size < 10
	input.parsed_body.params.host in {"a", "b"}
}
"#;
    assert_eq!(fs::read_to_string(out.join("opa/policy.rego")).unwrap(), expected);
    let body = fs::read_to_string(folder.path().join("requests/000.json")).unwrap();
    let check = EnvoyCheck::decode(fs::read(out.join("opa/000.bin")).unwrap().as_slice()).unwrap();
    let http = check.attributes.unwrap().request.unwrap().http.unwrap();
    let expected = EnvoyHttp {
        method: "POST".to_owned(),
        headers: HashMap::from([("content-type".to_owned(), "application/json".to_owned())]),
        path: "/call".to_owned(),
        host: "agent".to_owned(),
        size: i64::try_from(body.len()).unwrap(),
        protocol: "HTTP/1.1".to_owned(),
        body,
    };
    assert_eq!(http, expected);
}

#[test]
fn a_policy_that_is_not_there_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let output = generate(folder.path(), &folder.path().join("out"));
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.starts_with(&format!("error: no policy in {}: ", folder.path().display())), "{text}");
}

/// `cerbos.request.v1.CheckResourcesRequest`, as far as it is used.
#[derive(Clone, PartialEq, Message)]
struct CheckResources {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(message, tag = "3")]
    principal: Option<Principal>,
    #[prost(message, repeated, tag = "4")]
    resources: Vec<Entry>,
}

#[derive(Clone, PartialEq, Message)]
struct Principal {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(string, repeated, tag = "3")]
    roles: Vec<String>,
    #[prost(map = "string, message", tag = "4")]
    attributes: HashMap<String, AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct Entry {
    #[prost(string, repeated, tag = "1")]
    actions: Vec<String>,
    #[prost(message, tag = "2")]
    resource: Option<Resource>,
}

#[derive(Clone, PartialEq, Message)]
struct Resource {
    #[prost(string, tag = "1")]
    kind: String,
    #[prost(string, tag = "3")]
    id: String,
    #[prost(map = "string, message", tag = "4")]
    attributes: HashMap<String, AnyValue>,
}

/// `google.protobuf.Value`
#[derive(Clone, PartialEq, Message)]
struct AnyValue {
    #[prost(oneof = "Kind", tags = "1, 2, 3, 4, 5, 6")]
    kind: Option<Kind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Kind {
    #[prost(int32, tag = "1")]
    Null(i32),
    #[prost(double, tag = "2")]
    Number(f64),
    #[prost(string, tag = "3")]
    Text(String),
    #[prost(bool, tag = "4")]
    Bool(bool),
    #[prost(message, tag = "5")]
    Object(AnyObject),
    #[prost(message, tag = "6")]
    List(AnyList),
}

#[derive(Clone, PartialEq, Message)]
struct AnyObject {
    #[prost(map = "string, message", tag = "1")]
    fields: HashMap<String, AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct AnyList {
    #[prost(message, repeated, tag = "1")]
    items: Vec<AnyValue>,
}

fn any(kind: Kind) -> AnyValue {
    AnyValue { kind: Some(kind) }
}

/// `envoy.service.auth.v3.CheckRequest`, as far as it is used.
#[derive(Clone, PartialEq, Message)]
struct EnvoyCheck {
    #[prost(message, tag = "1")]
    attributes: Option<EnvoyAttributes>,
}

#[derive(Clone, PartialEq, Message)]
struct EnvoyAttributes {
    #[prost(message, tag = "4")]
    request: Option<EnvoyRequest>,
}

#[derive(Clone, PartialEq, Message)]
struct EnvoyRequest {
    #[prost(message, tag = "2")]
    http: Option<EnvoyHttp>,
}

#[derive(Clone, PartialEq, Message)]
struct EnvoyHttp {
    #[prost(string, tag = "2")]
    method: String,
    #[prost(map = "string, string", tag = "3")]
    headers: HashMap<String, String>,
    #[prost(string, tag = "4")]
    path: String,
    #[prost(string, tag = "5")]
    host: String,
    #[prost(int64, tag = "9")]
    size: i64,
    #[prost(string, tag = "10")]
    protocol: String,
    #[prost(string, tag = "11")]
    body: String,
}
