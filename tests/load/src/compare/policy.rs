//! The rules and the requests of a comparison: fifty `decide` rules in three tiers, of which each request meets a few.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use serde_json::{Value, json};

use super::peer::Peer;
use crate::{
    answers::Answers,
    body::{encoded, event},
    turns::Question,
};

use Does::{Allow, Ask, Block, Note};

/// What is compared: rules, requests, and who else can be asked.
#[derive(Debug)]
pub(crate) struct Policy {
    /// How many rules there are.
    pub(crate) rules: usize,
    /// hookd's settings, which name its rules.
    pub(crate) settings: PathBuf,
    /// What of hookd's answers counts.
    pub(crate) answers: Answers,
    /// What hookd and the echo server are asked.
    pub(crate) questions: Vec<Question>,
    /// The same policy in other engines.
    pub(crate) peers: Vec<Peer>,
}

impl Policy {
    /// The one below, with `count` rules, written into `folder`. No other engine knows it.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(crate) fn built_in(folder: &Path, count: usize) -> anyhow::Result<Self> {
        Ok(Self {
            rules: count,
            settings: write(folder, count)?,
            answers: Answers::Verdict,
            questions: requests()?,
            peers: Vec::new(),
        })
    }
}

/// What a rule does.
#[derive(Debug, Clone, Copy)]
enum Does {
    Allow,
    Ask,
    Block,
    /// Adds context and has no opinion.
    Note,
}

const MANAGED: &[(&str, Does)] = &[
    ("^mcp__cluster__(delete|drain|cordon)_", Block),
    ("^mcp__cluster__exec$", Block),
    ("^mcp__cluster__apply$", Ask),
    ("^mcp__cloud__(terminate|delete)_", Block),
    ("^mcp__cloud__attach_policy$", Block),
    ("^mcp__cloud__create_access_key$", Block),
    ("^mcp__cloud__.*_bucket_policy$", Block),
    ("^mcp__dns__", Block),
    ("^mcp__vault__(read|list)_secret", Block),
    ("^mcp__vault__write_", Block),
    ("^mcp__iam__", Block),
    ("^mcp__payments__(refund|transfer|payout)$", Block),
    ("^mcp__payments__", Ask),
    ("^mcp__db__(drop|truncate)_", Block),
    ("^mcp__db__grant$", Block),
    ("^mcp__db__migrate$", Ask),
    ("^mcp__queue__purge", Block),
    ("^mcp__github__delete_repo$", Block),
    ("^mcp__github__(add|remove)_collaborator$", Block),
    ("^mcp__github__merge_pull_request$", Ask),
    ("^mcp__github__create_deploy_key$", Block),
    ("^mcp__registry__(publish|yank)$", Block),
    ("^mcp__mail__send", Ask),
    ("^mcp__chat__post_message$", Ask),
    ("^mcp__browser__(upload|download)_file$", Block),
    ("^mcp__host__(write|delete)_file$", Block),
    ("^mcp__host__mount$", Block),
    ("^mcp__host__reboot$", Block),
    ("^mcp__ci__(cancel|delete)_", Block),
    ("^mcp__ci__set_variable$", Block),
    ("_as_root$", Block),
    ("^(Sudo|Doas)$", Block),
    ("^mcp__", Note),
    ("^(KillShell|BashOutput)$", Note),
];

const LOCAL: &[(&str, Does)] = &[
    ("^Bash$", Allow),
    ("^Read$", Allow),
    ("^(Write|Edit|MultiEdit)$", Allow),
    ("^NotebookEdit$", Ask),
    ("^(Glob|Grep)$", Allow),
    ("^WebFetch$", Allow),
    ("^WebSearch$", Allow),
    ("^TodoWrite$", Allow),
    ("^mcp__github__(list|get)_", Allow),
    ("^mcp__github__create_issue$", Ask),
    ("^mcp__browser__navigate$", Ask),
    ("^mcp__design__", Allow),
];

const SHARED: &[(&str, Does)] =
    &[("^mcp__db__query$", Note), ("^Task$", Note), ("^(Write|Edit|MultiEdit)$", Note), ("^ExitPlanMode$", Ask)];

/// The requests, used in turns: tool, its parameters, the verdict that they have to get.
const REQUESTS: [(&str, &str, &str); 8] = [
    (
        "Bash",
        r#"{"command":"cargo test --workspace --all-features -- --nocapture billing::invoices","timeout_ms":120000}"#,
        "allow",
    ),
    ("mcp__cluster__delete_namespace", r#"{"namespace":"billing-staging","grace_seconds":30}"#, "block"),
    ("Read", r#"{"file_path":"/workspace/services/billing/src/invoices.rs","offset":0,"limit":400}"#, "allow"),
    (
        "Write",
        r#"{"file_path":"/workspace/services/billing/src/tax.rs","content":"pub fn tax(cents: u64, bp: u64) -> u64 {\n    cents * bp / 10_000\n}\n"}"#,
        "allow",
    ),
    ("mcp__host__write_file", r#"{"path":"/etc/cron.d/agent","content":"* * * * * root /tmp/x\n"}"#, "block"),
    ("WebFetch", r#"{"url":"https://docs.example.org/latest/transport/server.html"}"#, "allow"),
    (
        "mcp__db__query",
        r#"{"sql":"SELECT id, total_cents FROM invoices WHERE due < now() LIMIT 50","database":"billing"}"#,
        "none",
    ),
    ("mcp__github__delete_repo", r#"{"owner":"example","repo":"billing","confirm":true}"#, "block"),
];

/// Writes settings and rule files with `count` rules into `folder` and gives the path of the settings.
///
/// # Errors
/// A file cannot be written.
fn write(folder: &Path, count: usize) -> anyhow::Result<PathBuf> {
    let mut tiers = serde_json::Map::new();
    for (tier, rules) in rules(count) {
        let file = format!("{tier}.json");
        write_json(&folder.join(&file), &json!({ "hooks": rules }))?;
        tiers.insert(tier.to_owned(), json!({ "sources": [{ "path": file }] }));
    }
    let settings = folder.join("hookd.json");
    let value = json!({ "listen": "127.0.0.1:0", "admin_listen": "127.0.0.1:0", "tiers": tiers });
    write_json(&settings, &value).map(|()| settings)
}

/// The requests, encoded, each with the verdict that it has to get.
///
/// # Errors
/// Never: they are written above.
fn requests() -> anyhow::Result<Vec<Question>> {
    let encode = |(tool, params, verdict): &(&str, &str, &str)| {
        let text = format!(
            r#"{{"event":"PreToolUse","sessionId":"6f1c2d3e-4b5a-4978-8c6d-7e8f90a1b2c3","timestamp":1700000000000,
            "toolCall":{{"tool":"{tool}","params":{params},"toolUseId":"call-7c2f41"}},
            "payload":{{"env":"dev","risk":20,"agent_trust":"standard","session_tool_calls":41,"team":"payments",
            "id":"agent-7c2f","roles":["agent"],"workflow":"nightly-dependency-refresh","model":"general-agent-4"}},
            "cwd":"/workspace/services/billing","requestId":"01890a5d-ac96-774b-bcce-b302099a8057"}}"#
        );
        event(&text).map(|event| Question { body: encoded(&event), expected: Some((*verdict).to_owned()) })
    };
    REQUESTS.iter().map(encode).collect()
}

/// `count` rules by tier. Those over fifty are the fifty again for tools that no request names.
fn rules(count: usize) -> [(&'static str, Vec<Value>); 3] {
    let mut tiers =
        [("managed", MANAGED), ("local", LOCAL), ("shared", SHARED)].map(|(tier, rules)| (tier, rules, vec![]));
    let mut left = count;
    for copy in 0_usize.. {
        for (_, rules, written) in &mut tiers {
            let part = rules.iter().take(left).enumerate().map(|(n, (matcher, does))| rule(copy, n, matcher, *does));
            left = left.saturating_sub(rules.len());
            written.extend(part);
        }
        if left == 0 {
            break;
        }
    }
    tiers.map(|(tier, _, written)| (tier, written))
}

fn rule(copy: usize, number: usize, matcher: &str, does: Does) -> Value {
    let id = format!("r{copy}-{number}");
    let matcher = match copy {
        0 => matcher.to_owned(),
        copy => format!("^v{copy}_.*{}", matcher.trim_start_matches('^')),
    };
    let handler = match does {
        Allow => json!({ "type": "decide", "verdict": "allow" }),
        Ask => json!({ "type": "decide", "verdict": "ask", "reason": "a person has to look at this first" }),
        Block => json!({ "type": "decide", "verdict": "block", "reason": "not allowed for agents" }),
        Note => json!({ "type": "decide", "additionalContext": "calls like this one are looked at every week" }),
    };
    json!({ "id": id, "event": "PreToolUse", "matcher": matcher, "handler": handler })
}

fn write_json(path: &Path, value: &Value) -> anyhow::Result<()> {
    fs::write(path, format!("{value:#}\n")).with_context(|| format!("{}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_rules_as_asked_for() {
        let sizes = |count| rules(count).map(|(tier, rules)| (tier, rules.len()));
        assert_eq!(sizes(50), [("managed", 34), ("local", 12), ("shared", 4)]);
        assert_eq!(sizes(51), [("managed", 35), ("local", 12), ("shared", 4)]);
        assert_eq!(sizes(500), [("managed", 340), ("local", 120), ("shared", 40)]);
    }

    #[test]
    fn requests_have_realistic_sizes() {
        let sizes = requests().unwrap().iter().map(|request| request.body.len()).collect::<Vec<_>>();
        assert!(sizes.iter().all(|size| (400..700).contains(size)), "{sizes:?}");
    }
}
