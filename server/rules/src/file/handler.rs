//! The handler of a rule.

use std::{collections::HashSet, net::IpAddr, sync::Arc, time::Duration};

use hookd_json::{Node, Tree, Value};
use serde_json::json;
use url::{Host, Url};

use super::{
    Context, header,
    value::{self, Holder},
};
use crate::{
    Allow, Answer, Attached, CommandHandler, Decide, Event, Handler, HttpHandler, Modifies, Program, RunOn, Shell,
    ValuePart, Verdict, Worker, is_public,
    problem::{Issues, KeyPath, shown},
    shape::{Fields, HANDLERS, LATER_HANDLERS, did_you_mean},
    template::Given,
};

const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);
const HTTP_TIMEOUT: Duration = Duration::from_secs(5);

/// The handler at `node` and what of it counts for the revision. `None` after an error.
pub(super) fn compile(
    node: &Node,
    path: KeyPath<'_>,
    events: &[&str],
    run_on: RunOn,
    context: &Context<'_>,
    issues: &mut Issues,
) -> Option<(Handler, Value)> {
    let before = issues.errors();
    let Tree::Map(entries) = &node.value else {
        issues.error(node.place, path, format!("must be an object with a `type`, not {node}"));
        return None;
    };
    let Some(kind) = entries.iter().find(|entry| entry.key == "type") else {
        issues.error(node.place, path, "a handler needs the key `type`: `command`, `http` or `decide`");
        return None;
    };
    let name = match &kind.node.value {
        Tree::String(name) => name.as_str(),
        _ => "",
    };
    let Some((_, object)) = HANDLERS.iter().find(|(known, _)| *known == name) else {
        let message = if LATER_HANDLERS.contains(&name) {
            format!("handlers of type `{name}` are not supported by this version of hookd")
        } else {
            let hint = did_you_mean(name, HANDLERS.iter().map(|(known, _)| *known));
            format!("must be `command`, `http` or `decide`, not {}{hint}", kind.node)
        };
        issues.error(kind.node.place, KeyPath::Key(&path, "type"), message);
        return None;
    };
    let fields = object.check(node, path, issues)?;
    if issues.errors() != before {
        return None;
    }
    let site = Site { node, path, fields };
    let compiled = match name {
        "command" => command(&site, run_on, context, issues),
        "http" => http(&site, context, issues),
        _ => decide(&site, events, issues),
    };
    (issues.errors() == before).then_some(compiled)
}

/// Where a handler stands.
struct Site<'n> {
    node: &'n Node,
    path: KeyPath<'n>,
    fields: Fields<'n>,
}

impl Site<'_> {
    /// Reports an error at the value of `key`.
    fn error(&self, key: &str, issues: &mut Issues, message: impl Into<String>) {
        let place = self.fields.node(key).map_or(self.node.place, |node| node.place);
        issues.error(place, KeyPath::Key(&self.path, key), message);
    }

    fn timeout(&self, default: Duration, context: &Context<'_>, issues: &mut Issues) -> Duration {
        let (ceiling, limit) = context.tier_settings().max_timeout(context.tier, context.settings.max_handler_timeout);
        let Some(written) = self.fields.whole("timeout").map(Duration::from_millis) else {
            return default.min(ceiling);
        };
        if written > ceiling
            && let Some(node) = self.fields.node("timeout")
        {
            let message = format!("{} ms is over `{limit}`, {} ms count", written.as_millis(), ceiling.as_millis());
            issues.warning(node.place, KeyPath::Key(&self.path, "timeout"), message);
        }
        written.min(ceiling)
    }
}

fn command(site: &Site<'_>, run_on: RunOn, context: &Context<'_>, issues: &mut Issues) -> (Handler, Value) {
    let fields = site.fields;
    if run_on == RunOn::Server && !context.tier_settings().server_commands {
        let tier = context.tier;
        let message = format!(
            "command rules of tier {tier} may not run on this server, unless `tiers.{tier}.server_commands` is `allow` or the rule says `runOn: agent`"
        );
        issues.error(site.node.place, site.path, message);
    }
    let argv = fields.names("argv").into_iter().map(|(text, _)| text.to_owned()).collect::<Vec<_>>();
    let program = match (fields.text("command"), argv.first()) {
        (Some(line), None) => {
            let shell = if fields.text("shell") == Some("bash") { Shell::Bash } else { Shell::Sh };
            Program::Shell(shell, line.to_owned())
        }
        (None, Some(program)) => {
            if program.is_empty() {
                site.error("argv", issues, "the program must not be empty");
            }
            if fields.node("shell").is_some() {
                site.error("shell", issues, "`shell` goes with `command`, `argv` runs without a shell");
            }
            Program::Argv(argv)
        }
        (Some(_), Some(_)) => {
            site.error("argv", issues, "a command handler has either `command` or `argv`, not both");
            Program::Argv(argv)
        }
        (None, None) => {
            issues.error(site.node.place, site.path, "a command handler needs either `command` or `argv`");
            Program::Argv(argv)
        }
    };
    let env = fields.text_map("env");
    for (entry, _) in &env {
        if entry.key.is_empty() || entry.key.contains('=') {
            let env = KeyPath::Key(&site.path, "env");
            let message = format!("`{}` is not the name of a variable", shown(&entry.key));
            issues.error(entry.place, KeyPath::Key(&env, &entry.key), message);
        }
    }
    let words = match &program {
        Program::Shell(_, line) => vec![("command", line.as_str())],
        Program::Argv(argv) => argv.iter().map(|word| ("argv", word.as_str())).collect(),
    };
    let variables = env.iter().flat_map(|(entry, value)| [("env", entry.key.as_str()), ("env", value)]);
    let directory = fields.text("cwd").map(|cwd| ("cwd", cwd));
    for (key, text) in words.into_iter().chain(variables).chain(directory) {
        if text.contains('\0') {
            site.error(key, issues, "must not hold a NUL character");
        }
    }
    let allow = fields.object("allow").map(|list| allow(site, list, run_on, context, issues));
    let timeout = site.timeout(COMMAND_TIMEOUT, context, issues);
    let written = object(env.iter().map(|(entry, value)| (entry.key.as_str(), json!(value))));
    let env = env.into_iter().filter_map(|(entry, text)| {
        let env = KeyPath::Key(&site.path, "env");
        let mut refuse = |why| issues.error(entry.node.place, KeyPath::Key(&env, &entry.key), why);
        let parts = value::parts(text, Holder::Variable, context).map_err(&mut refuse).ok()?;
        let is_secret = parts.iter().any(|part| !matches!(part, ValuePart::Text(_)));
        if is_secret && run_on == RunOn::Agent {
            refuse("what `${env:…}` and `${file:…}` stand for is not sent to callers, who run this rule".to_owned());
        }
        Some((entry.key.clone(), parts))
    });
    let env = env.collect::<Vec<_>>();
    let worker = fields.object("worker").map(|worker| Worker {
        pool: worker.whole("pool").and_then(|pool| usize::try_from(pool).ok()).unwrap_or(1),
        max_calls: worker.whole("maxCalls"),
        attached: Attached::default(),
    });
    let (allow, allow_meaning) = allow.unzip();
    let meaning = json!({
        "type": "command",
        "program": match &program {
            Program::Shell(Shell::Sh, line) => json!({ "sh": line }),
            Program::Shell(Shell::Bash, line) => json!({ "bash": line }),
            Program::Argv(argv) => json!(argv),
        },
        "timeout": millis(timeout),
        "env": written,
        "cwd": fields.text("cwd"),
        "worker": worker.as_ref().map(|worker| json!({ "pool": worker.pool, "maxCalls": worker.max_calls })),
        "allow": allow_meaning,
    });
    let cwd = fields.text("cwd").map(|cwd| context.directory().join(cwd));
    (Handler::Command(CommandHandler { program, timeout, env, cwd, worker, allow }), meaning)
}

/// What the command may reach, and what of it counts for the revision.
fn allow(
    site: &Site<'_>,
    list: Fields<'_>,
    run_on: RunOn,
    context: &Context<'_>,
    issues: &mut Issues,
) -> (Allow, Value) {
    if run_on == RunOn::Agent {
        site.error("allow", issues, "what runs on the agent's side is not held in by the server");
    }
    let paths = |key: &'static str| list.names(key).into_iter().map(|(path, _)| path).collect::<Vec<_>>();
    let (read, write) = (paths("read"), paths("write"));
    if read.iter().chain(&write).any(|path| path.contains('\0')) {
        site.error("allow", issues, "must not hold a NUL character");
    }
    let (connect, bind) = (list.wholes("connect"), list.wholes("bind"));
    let meaning = json!({ "read": read, "write": write, "connect": connect, "bind": bind });
    let whole = |paths: &[&str]| paths.iter().map(|path| context.directory().join(path)).collect();
    (Allow { read: whole(&read), write: whole(&write), connect, bind }, meaning)
}

fn http(site: &Site<'_>, context: &Context<'_>, issues: &mut Issues) -> (Handler, Value) {
    let url = url(site.fields.text("url").unwrap_or_default()).unwrap_or_else(|message| {
        site.error("url", issues, message);
        String::new()
    });
    let mut headers = Vec::new();
    let mut names = HashSet::new();
    let mut written = Vec::new();
    for (entry, value) in site.fields.text_map("headers") {
        let path = KeyPath::Key(&site.path, "headers");
        let Some((name, parts)) = header::header(entry, value, path, context, issues) else { continue };
        if !names.insert(name.clone()) {
            issues.error(
                entry.place,
                KeyPath::Key(&path, &entry.key),
                format!("the header `{name}` stands here twice"),
            );
        }
        written.push((name.clone(), value));
        headers.push((name, parts));
    }
    let timeout = site.timeout(HTTP_TIMEOUT, context, issues);
    let public_only = public_only(&url, context).unwrap_or_else(|message| {
        site.error("url", issues, message);
        true
    });
    let meaning = json!({
        "type": "http",
        "url": url,
        "headers": object(written.iter().map(|(name, value)| (name.as_str(), json!(value)))),
        "timeout": millis(timeout),
    });
    (Handler::Http(HttpHandler { url, headers, timeout, public_only }), meaning)
}

/// The URL in its normal form.
pub(crate) fn url(text: &str) -> Result<String, String> {
    if text.contains("${") {
        return Err("nothing is put in for `${` in a URL".to_owned());
    }
    let url = Url::parse(text).map_err(|error| format!("must be an http or https URL: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("must be an http or https URL, not one of `{}`", shown(url.scheme())));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not hold credentials, put them into `headers`".to_owned());
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err("must name a host".to_owned());
    }
    Ok(url.into())
}

/// Whether the handler may reach public addresses only.
///
/// # Errors
/// It may, and the URL has another one.
pub(crate) fn public_only(url: &str, context: &Context<'_>) -> Result<bool, String> {
    let public_only = context.tier_settings().public_addresses_only();
    let host = Url::parse(url).ok().and_then(|url| url.host().map(|host| host.to_owned()));
    let address = match host {
        Some(Host::Ipv4(address)) => IpAddr::V4(address),
        Some(Host::Ipv6(address)) => IpAddr::V6(address),
        Some(Host::Domain(_)) | None => return Ok(public_only),
    };
    if public_only && !is_public(address) {
        let tier = context.tier;
        return Err(format!("`{address}` is not a public address, `tiers.{tier}.http_hosts` would have to name it"));
    }
    Ok(public_only)
}

fn decide(site: &Site<'_>, events: &[&str], issues: &mut Issues) -> (Handler, Value) {
    let fields = site.fields;
    let text = |key| fields.text(key).map(str::to_owned);
    for (key, carried) in [("modifiedParams", Modifies::Params), ("modifiedResult", Modifies::Result)] {
        for name in events.iter().filter(|_| fields.node(key).is_some()) {
            if modifies(name) != carried {
                site.error(key, issues, format!("the event `{}` cannot carry `{key}`", shown(name)));
            }
        }
    }
    if fields.node("haltReason").is_some() && !fields.flag("halt") {
        site.error("haltReason", issues, "`haltReason` needs `halt: true`");
    }
    let params = given("modifiedParams", site, issues);
    let result = given("modifiedResult", site, issues);
    let fixed = |given: &Option<Given>| match given {
        Some(Given::Fixed(value)) => Some(value.clone()),
        Some(Given::Template(_)) | None => None,
    };
    let template = |given: Option<Given>| match given {
        Some(Given::Template(template)) => Some(template),
        Some(Given::Fixed(_)) | None => None,
    };
    let answer = Answer {
        verdict: fields.text("verdict").and_then(Verdict::from_decision).unwrap_or_default(),
        reason: text("reason").unwrap_or_default(),
        modified_params: fixed(&params),
        modified_result: fixed(&result),
        additional_context: text("additionalContext"),
        system_message: text("systemMessage"),
        halt: fields.flag("halt").then(|| text("haltReason").unwrap_or_default()),
        ..Answer::default()
    };
    let decide = Decide { answer: Arc::new(answer), params: template(params), result: template(result) };
    let answer = &*decide.answer;
    if *answer == (Answer { reason: answer.reason.clone(), ..Answer::default() }) && !decide.rewrites() {
        issues.warning(site.node.place, site.path, "gives neither a verdict nor anything else");
    }
    // As written, in lists, since a result of `null` is another thing than no result.
    let list = |key| fields.node(key).and_then(|node: &Node| node.to_value().ok()).into_iter().collect::<Vec<_>>();
    let meaning = json!({
        "type": "decide",
        "verdict": answer.verdict.name(),
        "reason": answer.reason,
        "modifiedParams": list("modifiedParams"),
        "modifiedResult": list("modifiedResult"),
        "additionalContext": answer.additional_context,
        "systemMessage": answer.system_message,
        "halt": answer.halt,
    });
    (Handler::Decide(decide), meaning)
}

fn given(key: &'static str, site: &Site<'_>, issues: &mut Issues) -> Option<Given> {
    site.fields.node(key).map(|node| Given::compile(node, &KeyPath::Key(&site.path, key), issues))
}

/// What the event of this name may rewrite; one of the author's own is taken to come with a tool call.
fn modifies(event: &str) -> Modifies {
    Event::known(event).unwrap_or(Event::unknown(true)).modifies
}

/// Whole milliseconds, as meanings hold them.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The object of these entries.
pub(crate) fn object<'k>(entries: impl Iterator<Item = (&'k str, Value)>) -> Value {
    Value::Object(entries.map(|(key, value)| (key.to_owned(), value)).collect())
}
