//! What each agent's settings look like, where they are, and on which events hookd is asked: one table.

use hookd_agents::{Agent, v1::Capability};
use hookd_rules::Event;

use crate::args::Scope;

/// How an agent's file holds its hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// `hooks`: event to groups, each with `hooks`, a list of handlers.
    Groups,
    /// `hooks`: event to handlers.
    Handlers,
    /// `hooks`: a list of handlers, each with its `trigger`.
    Triggers,
    /// As [`Form::Groups`], but in TOML.
    Toml,
    /// A folder of programs, each called as its event.
    Programs,
}

/// How a handler is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Handler {
    /// `type: command` stands there.
    pub(super) has_type: bool,
    pub(super) program: Program,
    pub(super) timeout: Option<(&'static str, Unit)>,
    /// The key and its value that make a hook which fails block, and the only event that has it, where there is but one.
    pub(super) fail_closed: Option<(&'static str, &'static str, Option<&'static str>)>,
    /// Events about tools need a matcher, which is `*`.
    pub(super) has_matcher: bool,
}

/// How a handler names its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Program {
    /// A line for a shell, in `command`.
    Line,
    /// The program under this key, its arguments in `args`; no shell.
    Words(&'static str),
}

/// What a time limit is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Seconds,
    Millis,
}

/// A machine's own place, by the system that it runs.
#[derive(Debug, Clone, Copy)]
struct Managed {
    linux: &'static str,
    macos: Option<&'static str>,
    windows: Option<&'static str>,
}

const SECONDS: Handler = Handler {
    has_type: true,
    program: Program::Line,
    timeout: Some(("timeout", Unit::Seconds)),
    fail_closed: None,
    has_matcher: false,
};

/// How `agent` has its handlers in a file of this form.
pub(super) fn handler(agent: Agent, form: Form) -> Handler {
    match agent {
        Agent::ClaudeCode => Handler {
            program: Program::Words("command"),
            fail_closed: Some(("onFailure", "\"block\"", None)),
            ..SECONDS
        },
        Agent::Codex | Agent::VsCode | Agent::Cline => SECONDS,
        Agent::GeminiCli => Handler { timeout: Some(("timeout", Unit::Millis)), ..SECONDS },
        Agent::Cursor => Handler { has_type: false, fail_closed: Some(("failClosed", "true", None)), ..SECONDS },
        Agent::CopilotCli => {
            Handler { program: Program::Words("exec"), timeout: Some(("timeoutSec", Unit::Seconds)), ..SECONDS }
        }
        Agent::QwenCode => Handler {
            timeout: Some(("timeout", Unit::Millis)),
            fail_closed: Some(("failMode", "\"closed\"", None)),
            ..SECONDS
        },
        Agent::FactoryDroid => Handler { has_matcher: true, ..SECONDS },
        Agent::Windsurf => Handler { has_type: false, timeout: None, ..SECONDS },
        Agent::Goose => Handler { fail_closed: Some(("on_failure", "\"block\"", Some("PreToolUse"))), ..SECONDS },
        Agent::Kiro if form == Form::Triggers => SECONDS,
        Agent::AmazonQ | Agent::Kiro => {
            Handler { has_type: false, timeout: Some(("timeout_ms", Unit::Millis)), has_matcher: true, ..SECONDS }
        }
    }
}

/// The form of the file of `agent` in `scope`. `in_agents`: it lies in a folder `agents` or `cli-agents`.
pub(super) fn form(agent: Agent, scope: Scope, in_agents: bool) -> Form {
    match agent {
        Agent::Codex if scope == Scope::Managed => Form::Toml,
        Agent::ClaudeCode | Agent::Codex | Agent::GeminiCli | Agent::QwenCode | Agent::FactoryDroid | Agent::Goose => {
            Form::Groups
        }
        Agent::Cline => Form::Programs,
        Agent::Kiro if !in_agents => Form::Triggers,
        Agent::Cursor | Agent::CopilotCli | Agent::VsCode | Agent::Windsurf | Agent::AmazonQ | Agent::Kiro => {
            Form::Handlers
        }
    }
}

/// What stands at the top of a file of `agent` that begins with nothing: a key and its value.
pub(super) fn version(agent: Agent, form: Form) -> Option<&'static str> {
    match agent {
        Agent::Cursor | Agent::CopilotCli => Some("1"),
        Agent::Kiro if form == Form::Triggers => Some("\"v1\""),
        _ => None,
    }
}

/// Where the settings of `agent` are for every person of a machine that runs `system`.
pub(super) fn managed(agent: Agent, system: &str) -> Option<&'static str> {
    let places = match agent {
        Agent::ClaudeCode => Managed {
            linux: "/etc/claude-code/managed-settings.json",
            macos: Some("/Library/Application Support/ClaudeCode/managed-settings.json"),
            windows: Some(r"C:\Program Files\ClaudeCode\managed-settings.json"),
        },
        Agent::Codex => Managed { linux: "/etc/codex/requirements.toml", macos: None, windows: None },
        Agent::GeminiCli => Managed {
            linux: "/etc/gemini-cli/settings.json",
            macos: Some("/Library/Application Support/GeminiCli/settings.json"),
            windows: Some(r"C:\ProgramData\gemini-cli\settings.json"),
        },
        Agent::Cursor => Managed {
            linux: "/etc/cursor/hooks.json",
            macos: Some("/Library/Application Support/Cursor/hooks.json"),
            windows: Some(r"C:\ProgramData\Cursor\hooks.json"),
        },
        Agent::CopilotCli => Managed {
            linux: "/etc/github-copilot/policy.d/hookd.json",
            macos: None,
            windows: Some(r"C:\ProgramData\GitHub\Copilot\policy.d\hookd.json"),
        },
        Agent::QwenCode => Managed {
            linux: "/etc/qwen-code/settings.json",
            macos: Some("/Library/Application Support/QwenCode/settings.json"),
            windows: Some(r"C:\ProgramData\qwen-code\settings.json"),
        },
        Agent::FactoryDroid => Managed {
            linux: "/etc/factory/settings.json",
            macos: Some("/Library/Application Support/Factory/settings.json"),
            windows: Some(r"C:\Program Files\Factory\settings.json"),
        },
        Agent::Windsurf => Managed {
            linux: "/etc/windsurf/hooks.json",
            macos: Some("/Library/Application Support/Windsurf/hooks.json"),
            windows: Some(r"C:\ProgramData\Windsurf\hooks.json"),
        },
        Agent::VsCode | Agent::Goose | Agent::Cline | Agent::AmazonQ | Agent::Kiro => return None,
    };
    match system {
        "linux" => Some(places.linux),
        "macos" => places.macos,
        "windows" => places.windows,
        _ => None,
    }
}

/// Where the settings of `agent` are in a person's home.
pub(super) fn of_the_person(agent: Agent) -> Option<&'static str> {
    match agent {
        Agent::Windsurf => Some(".codeium/windsurf/hooks.json"),
        Agent::CopilotCli | Agent::VsCode => Some(".copilot/hooks/hookd.json"),
        Agent::Cline => Some("Documents/Cline/Hooks"),
        _ => of_projects(agent),
    }
}

/// Where the settings of `agent` are in a project.
pub(super) fn of_projects(agent: Agent) -> Option<&'static str> {
    match agent {
        Agent::ClaudeCode => Some(".claude/settings.json"),
        Agent::Codex => Some(".codex/hooks.json"),
        Agent::GeminiCli => Some(".gemini/settings.json"),
        Agent::Cursor => Some(".cursor/hooks.json"),
        Agent::CopilotCli | Agent::VsCode => Some(".github/hooks/hookd.json"),
        Agent::QwenCode => Some(".qwen/settings.json"),
        Agent::FactoryDroid => Some(".factory/hooks.json"),
        Agent::Windsurf => Some(".windsurf/hooks.json"),
        Agent::Goose => Some(".agents/plugins/hookd/hooks/hooks.json"),
        Agent::Cline => Some(".cline/hooks"),
        Agent::Kiro => Some(".kiro/hooks/hookd.json"),
        // Hooks are those of one of the person's agents, whose name nobody else knows.
        Agent::AmazonQ => None,
    }
}

/// Events on which rules mostly only look on: they are asked about all the same, because what happened is told there.
const WATCHED: [&str; 7] =
    ["PostToolUse", "PostToolUseFailure", "UserPromptSubmit", "SessionStart", "SessionEnd", "Stop", "Notification"];

/// The agent's own names of the events on which hookd is asked unless somebody names others: those where the agent can
/// carry out what hookd says, and those where something is told that rules look at.
pub(super) fn events(agent: Agent, form: Form) -> Vec<&'static str> {
    let judged = |event: &&str| {
        let is_watched = || agent.event(event).is_some_and(|event| WATCHED.contains(&event));
        has(agent, form, event) && !is_unwise(agent, event) && (!agent.can(event).is_empty() || is_watched())
    };
    agent.events().filter(judged).collect()
}

/// The event can stand in a file of this form. Agents with two generations or dialects have each event twice.
pub(super) fn has(agent: Agent, form: Form, event: &str) -> bool {
    let is_capital = event.starts_with(|first: char| first.is_ascii_uppercase());
    match agent {
        // Copilot's payloads of the others do not say their event; Cline has them in payloads, not as names of files.
        Agent::CopilotCli | Agent::Cline => is_capital,
        Agent::Kiro => is_capital == (form == Form::Triggers),
        _ => true,
    }
}

/// Events that are left alone unless somebody names them.
fn is_unwise(agent: Agent, event: &str) -> bool {
    match agent {
        // Any failure of a hook, or an answer without a path, makes the creation fail.
        Agent::ClaudeCode => event == "WorktreeCreate",
        // Each holds the whole conversation; the second comes with every piece of an answer.
        Agent::GeminiCli => matches!(event, "BeforeModel" | "AfterModel"),
        // `SessionStart` comes too.
        Agent::Kiro => event == "AgentSpawn",
        Agent::Cursor => twin(agent, event).is_some(),
        Agent::Windsurf => twin(agent, event).is_some(),
        _ => false,
    }
}

/// The event that is fired for the same thing as `event`, and says more of it: with both, one call would be asked twice.
pub(super) fn twin(agent: Agent, event: &str) -> Option<&'static str> {
    match (agent, event) {
        (Agent::Cursor, "beforeShellExecution" | "beforeMCPExecution" | "beforeReadFile") => Some("preToolUse"),
        (Agent::Cursor, "afterShellExecution" | "afterMCPExecution" | "afterFileEdit") => Some("postToolUse"),
        (Agent::Windsurf, "post_cascade_response_with_transcript") => Some("post_cascade_response"),
        _ => None,
    }
}

/// A hook that fails on this event must not count as an allow: where hookd cannot be asked, `hookctl relay` blocks there.
pub(super) fn is_guard(agent: Agent, event: &str) -> bool {
    let name = agent.event(event).unwrap_or(event);
    let known = Event::known(name).unwrap_or(Event::unknown(false));
    agent.can(event).contains(&Capability::Block) && !known.is_stop_like() && known.prevents()
        || agent == Agent::Cursor && event == "subagentStart"
}

/// The event is about one call of a tool.
pub(super) fn is_of_a_tool(agent: Agent, event: &str) -> bool {
    agent.event(event).and_then(Event::known).is_some_and(Event::needs_tool)
}

/// Why no http hook may ask on this event of an agent that has http hooks.
pub(super) fn why_no_http(agent: Agent, event: &str) -> Option<&'static str> {
    match (agent, event) {
        (Agent::ClaudeCode, "SessionStart" | "Setup") => Some("the agent runs no http hooks there"),
        (Agent::CopilotCli, "PreToolUse" | "PermissionRequest") => Some("the agent takes https alone there"),
        (Agent::CopilotCli | Agent::QwenCode, _) if is_guard(agent, event) => {
            Some("an http hook that fails would let it happen")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_is_asked_about_twice() {
        for agent in Agent::ALL {
            for form in [Form::Handlers, Form::Triggers] {
                let events = events(agent, form);
                assert!(events.len() > 4, "{}: {events:?}", agent.name());
                for event in &events {
                    assert_eq!(twin(agent, event), None, "{} {event}", agent.name());
                    let one = events.iter().filter(|other| other.eq_ignore_ascii_case(event)).count();
                    assert_eq!(one, 1, "{} {event}", agent.name());
                }
            }
        }
    }

    #[test]
    fn what_fails_by_its_nature_or_costs_too_much_is_left_alone() {
        assert!(!events(Agent::ClaudeCode, Form::Groups).contains(&"WorktreeCreate"));
        assert!(!events(Agent::GeminiCli, Form::Groups).contains(&"AfterModel"));
        assert_eq!(
            events(Agent::Kiro, Form::Handlers),
            ["preToolUse", "postToolUse", "userPromptSubmit", "agentSpawn", "stop"]
        );
        let guards = events(Agent::Cursor, Form::Handlers).into_iter().filter(|event| is_guard(Agent::Cursor, event));
        let expected = ["preToolUse", "beforeTabFileRead", "beforeSubmitPrompt", "subagentStart"];
        assert_eq!(guards.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn every_system_has_its_place_or_none() {
        for agent in Agent::ALL {
            let has_linux = managed(agent, "linux").is_some();
            for system in ["macos", "windows", "plan9"] {
                assert!(has_linux || managed(agent, system).is_none(), "{} {system}", agent.name());
            }
            assert_eq!(managed(agent, "plan9"), None);
        }
        assert_eq!(managed(Agent::Codex, "macos"), None);
    }
}
