//! Section E of the cases, from each agent through the relay to a handler and back.

use std::fs;

use hookd_tests::{Hookd, decide, rule, sh};
use serde_json::{Value, json};

use crate::relay::{
    Ran, Relay,
    agents::{AGENTS, Taken, shell_call, taken},
};

/// What the agent says before it runs this, which is a part of a JSON string.
fn input(agent: &str, command: &str) -> String {
    shell_call(agent).0.to_string().replace(":\"ls\"", &format!(":\"{command}\""))
}

async fn ask(hookd: &Hookd, agent: &str, input: &str) -> Ran {
    let arguments = shell_call(agent).1;
    let relay = Relay::of(agent).with(arguments).at(hookd.address());
    relay.env("LANG", "C").env("LC_ALL", "C").run_text(input).await
}

fn blocked(agent: &str, ran: &Ran) -> String {
    match taken(agent, ran) {
        Taken::Block(reason) => reason,
        other => panic!("{agent}: {other:?}: {ran:?}"),
    }
}

#[tokio::test]
async fn case_070_case_071_reasons_of_any_letters_and_length_reach_every_agent_whole() {
    let long = "é".repeat(50_000);
    let short = "不要这样 🦀 \u{2028} \"quoted\" \\ and\ttabs";
    for reason in [long.as_str(), short] {
        let says = json!({ "verdict": "block", "reason": reason });
        let hookd = Hookd::builder().managed(json!([rule("letters", "PreToolUse", decide(says))])).start().await;
        for agent in AGENTS {
            let ran = ask(&hookd, agent, &input(agent, "ls")).await;
            let got = blocked(agent, &ran);
            let whole = got.strip_prefix(reason).is_some_and(|rest| rest.starts_with(" (letters, 0"));
            assert!(whole, "{agent}: {} bytes: {:.200}", got.len(), got);
        }
    }
}

#[tokio::test]
async fn case_071_case_074_case_075_what_an_agent_says_reaches_handlers_letter_by_letter_and_digit_by_digit() {
    let keeps = rule("keeps", "PreToolUse", sh("cat > $TMPDIR/input"));
    let hookd = Hookd::builder().managed(json!([keeps])).start().await;
    let numbers = r#""id":9007199254740993,"n":1,"m":1.0,"e":1e400"#;
    let large = "x".repeat(300 * 1024);
    for agent in AGENTS {
        for command in ["echo 中 é 🦀", large.as_str()] {
            let text = input(agent, command).replace(&format!(":\"{command}\""), &format!(":\"{command}\",{numbers}"));
            let ran = ask(&hookd, agent, &text).await;
            assert_eq!(taken(agent, &ran), Taken::Nothing, "{agent}: {ran:?}");
            let read = fs::read_to_string(hookd.path("tmp/input")).unwrap();
            for part in [command, numbers] {
                assert!(read.contains(part), "{agent}: {part:.100} is not in {read:.1000}");
            }
        }
    }
}

#[tokio::test]
async fn case_073_a_lone_surrogate_of_any_agent_is_a_block_and_no_panic() {
    let hookd = Hookd::builder().start().await;
    for agent in AGENTS {
        let ran = ask(&hookd, agent, &input(agent, r"\ud800")).await;
        let reason = blocked(agent, &ran);
        assert!(reason.contains("hookd gave no decision: ") && reason.contains("is not JSON"), "{agent}: {reason}");
        // One that is whole is a letter like any other.
        let ran = ask(&hookd, agent, &input(agent, r"\ud83e\udd80")).await;
        assert_eq!(taken(agent, &ran), Taken::Nothing, "{agent}: {ran:?}");
    }
}

#[tokio::test]
async fn case_074_numbers_of_a_rewrite_reach_the_agents_that_take_one_with_their_digits() {
    let params = r#"{"command":"ls -l","id":9007199254740993,"n":1,"m":1.0,"e":1e400}"#;
    let handler = format!(r#"{{"type":"decide","verdict":"allow","modifiedParams":{params}}}"#);
    let rules = format!(r#"{{"hooks":[{{"id":"rewrites","event":"PreToolUse","handler":{handler}}}]}}"#);
    let hookd = Hookd::builder().file("managed/rules.json", &rules).start().await;
    for (agent, key) in [
        ("claude-code", "updatedInput"),
        ("codex", "updatedInput"),
        ("gemini-cli", "tool_input"),
        ("copilot-cli", "modifiedArgs"),
        ("vscode", "updatedInput"),
        ("factory-droid", "updatedInput"),
        ("cline", "overrideInput"),
    ] {
        let ran = ask(&hookd, agent, &input(agent, "ls")).await;
        let params = format!("\"{key}\":{params}");
        assert!(ran.exit == 0 && ran.out.contains(&params), "{agent}: {params} is not in {ran:?}");
    }
}

#[tokio::test]
async fn case_078_long_context_reaches_the_agents_that_take_it_whole() {
    let context = "a long line ".repeat(1000);
    let context = context.trim_end();
    let says = json!({ "additionalContext": context });
    let hookd = Hookd::builder().managed(json!([rule("tells", "PreToolUse", decide(says))])).start().await;
    for agent in ["claude-code", "copilot-cli", "vscode", "qwen-code", "cline"] {
        let ran = ask(&hookd, agent, &input(agent, "ls")).await;
        let said: Value = ran.out.parse().unwrap();
        let specific = &said["hookSpecificOutput"]["additionalContext"];
        let told = [specific, &said["additionalContext"], &said["contextModification"]];
        assert!(told.iter().any(|told| *told == context), "{agent}: {:.200}", ran.out);
    }
}
