//! `hookctl relay`: one hook call of an agent. Its input comes on standard input, hookd is asked, and its answer leaves
//! by standard output and the exit code in the agent's own words.
//!
//! Whatever goes wrong becomes the agent's own form of a block (or of nothing, where `on_unavailable` says so and hookd
//! could not be asked): nearly every agent goes on where a hook crashes, is late, or says what it does not understand.
//! So nothing is printed but one whole answer, a panic included, and the answer is there before the agent gives up.
//!
//! An agent starts this before each of its steps and waits for its end, so the way through it is short: read in this
//! order `config` (where hookd is), `input`, `offer` and `commands` (rule files of the caller's own), `output`.

mod commands;
mod config;
mod home;
mod input;
mod nested;
mod offer;
mod output;

use std::{
    env,
    ffi::OsString,
    panic::{AssertUnwindSafe, catch_unwind, set_hook},
    process::ExitCode,
    time::{Duration, SystemTime},
};

use clap::Parser as _;
use hookd_agents::{Agent, Answer, Call, Native, OnUnavailable, Transport};
use hookd_client::{
    AgentSide, CallError, CallErrorKind, Client, Code,
    proto::{Note, TriggerResponse},
};
use hookd_json::Value;
use tokio::{
    runtime::{Builder, Runtime},
    signal::unix::{SignalKind, signal},
    time::Instant,
};

use self::{commands::Commands, config::Config, offer::Offer};
pub(crate) use self::{
    commands::RUN_BY,
    config::{home_of, names_addresses},
    offer::{can_offer, of_projects},
};
use crate::args::{RelayArgs, RelayOnly};

/// How often the addresses are gone through while nobody answers: a server that restarts is back in a moment, and a
/// person waits.
const ROUNDS: u32 = 3;
/// The time between SIGTERM and SIGKILL for commands that still run when there is an answer.
const KILL_GRACE: Duration = Duration::from_millis(500);
/// The exit code that blocks at every agent that goes by exit codes, with a text on standard error.
const BLOCKS: u8 = 2;
/// The exit code that every agent takes for a hook that failed, and goes on.
const FAILED: u8 = 1;
/// Where an input of an agent that is not known can say its event.
const EVENT_KEYS: [&str; 5] = ["hook_event_name", "hookEventName", "event", "hookName", "agent_action_name"];
/// Events where a block keeps the agent from stopping, by any agent's name, in lowercase.
const STOPS: [&str; 6] = ["stop", "subagentstop", "agentstop", "afteragent", "taskcompleted", "teammateidle"];

/// What is known of the call so far, for the form of an answer that hookd does not give.
#[derive(Debug, Default)]
struct Known {
    agent: Option<Agent>,
    /// The agent's own name of the event.
    event: Option<String>,
    call: Option<Call>,
    /// What was left out, for `--verbose`.
    notes: Vec<String>,
    /// What is left when there is an answer, and what may still run.
    left: Option<(Runtime, AgentSide<Commands>)>,
}

/// What a run came to.
enum Outcome {
    /// An answer for the agent.
    Answer(Answer),
    /// A page for a person (`--help`).
    Page(String),
}

/// Answers the hook. `arguments` is the whole command line, `hookctl relay …`.
pub(crate) fn main(arguments: Vec<OsString>) -> ExitCode {
    let started = Instant::now();
    set_hook(Box::new(|_| {}));
    let mut known = Known::default();
    let outcome = guarded(&mut known, |known| run(arguments, started, known));
    let answer = match outcome {
        Outcome::Answer(answer) => answer,
        Outcome::Page(page) => Answer { stdout: page, ..Answer::default() },
    };
    let exit = deliver(&answer, &known);
    if let Some((runtime, side)) = known.left {
        // The answer is given: whatever goes wrong from here on must not change the exit code.
        let _ = catch_unwind(AssertUnwindSafe(|| runtime.block_on(side.shutdown(KILL_GRACE))));
        // The process ends now. To take everything down piece by piece takes longer, and a name that is being looked up
        // could hold it for ever.
        std::mem::forget(runtime);
    }
    ExitCode::from(exit)
}

/// What `work` comes to; where it panics, a block.
fn guarded(known: &mut Known, work: impl FnOnce(&mut Known) -> Outcome) -> Outcome {
    const WHY: &str = "hookctl relay failed";
    if let Ok(outcome) = catch_unwind(AssertUnwindSafe(|| work(known))) {
        return outcome;
    }
    let block = catch_unwind(AssertUnwindSafe(|| known.blocked(WHY)));
    Outcome::Answer(block.unwrap_or_else(|_| last_resort(known.event.as_deref(), WHY)))
}

fn run(arguments: Vec<OsString>, started: Instant, known: &mut Known) -> Outcome {
    let args = match RelayOnly::try_parse_from(arguments.iter().skip(1)) {
        Ok(args) => args.relay,
        Err(error) if !error.use_stderr() => return Outcome::Page(error.to_string()),
        Err(error) => return Outcome::Answer(wrong_usage(&arguments, started, &error, known)),
    };
    known.agent = Some(args.agent);
    known.event.clone_from(&args.event);
    Outcome::Answer(relayed(&args, started, known).unwrap_or_else(|why| known.blocked(&why)))
}

/// The answer to a call with these arguments.
///
/// # Errors
/// Why hookd was not even asked; what `on_unavailable` says is not about that.
fn relayed(args: &RelayArgs, started: Instant, known: &mut Known) -> Result<Answer, String> {
    // The input is read first, whatever the configuration is: it says the event, and so the form of the answer.
    let (config, broken) = match Config::of(args, |name| env::var_os(name)) {
        Ok(config) => (config, None),
        Err(why) => (Config::broken(args), Some(why)),
    };
    let until = |event: &str| {
        let time = config.deadline.of(args.agent.time_limit(event));
        started.checked_add(time).unwrap_or(started)
    };
    let deadline = until(args.event.as_deref().unwrap_or_default());
    let input = input::read_whole(started, deadline).map_err(|error| error.to_string())?;
    let native =
        Native { agent: args.agent, event: args.event.as_deref(), input: &input, transport: Transport::Command };
    let mut call = hookd_agents::read(&native).map_err(|error| {
        known.event = error.native_event().map(str::to_owned).or(known.event.take());
        error.to_string()
    })?;
    let request = &mut call.request;
    request.timestamp.get_or_insert_with(|| SystemTime::now().into());
    if request.workspace_roots.is_empty() {
        request.workspace_roots.extend(offer::named_project(args.agent));
    }
    let deadline = until(&call.native_event);
    known.call = Some(call);
    if let Some(why) = broken {
        return Err(why);
    }
    let Some(call) = &known.call else { return Err("the hook's input is gone".to_owned()) };
    if !args.offer.is_empty() && !can_offer(args.agent) {
        return Err(format!("hook files of {} cannot be offered, hookd does not read them", args.agent.name()));
    }

    let Offer { files, left_out, .. } = offer::of(call, &config);
    let side = files.into_iter().fold(AgentSide::new(Commands::default()), AgentSide::offer);
    let time_left = deadline.saturating_duration_since(Instant::now());
    let client = Client::builder(config.addresses.clone(), hookd_client::OnUnavailable::Block);
    let client = client.credentials(config.credentials.clone()).deadline(time_left).rounds(ROUNDS);
    let client = client.build().map_err(|error| error.to_string())?;
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start: {}", crate::report::reason(&error)))?;
    let (runtime, side) = known.left.insert((runtime, side));
    let asked = if side.is_empty() {
        runtime.block_on(client.call(&call.request))
    } else {
        runtime.block_on(with_commands(&client, call, side))?
    };
    let answer = match asked {
        Ok(response) => hookd_agents::answer(call, &telling(response, call, &left_out)),
        Err(error) => known.unanswered(policy(&config, &error), &told(&error, &config)),
    };
    if args.verbose {
        known.notes = left_out;
    }
    Ok(answer)
}

/// Asks, and runs the commands of offered files meanwhile. An agent that ends this process ends them too.
///
/// # Errors
/// The agent did so.
async fn with_commands(
    client: &Client,
    call: &Call,
    side: &AgentSide<Commands>,
) -> Result<Result<TriggerResponse, CallError>, String> {
    let listen = |kind| signal(kind).map_err(|error| format!("cannot start: {}", crate::report::reason(&error)));
    let mut terminate = listen(SignalKind::terminate())?;
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut hang_up = listen(SignalKind::hangup())?;
    tokio::select! {
        asked = client.call_with_commands(&call.request, side) => Ok(asked),
        _ = terminate.recv() => Err("hookctl relay was told to end".to_owned()),
        _ = interrupt.recv() => Err("hookctl relay was told to end".to_owned()),
        _ = hang_up.recv() => Err("hookctl relay was told to end".to_owned()),
    }
}

/// The answer, with what was left out as a message to the person where a session begins: not before each step.
fn telling(mut response: TriggerResponse, call: &Call, left_out: &[String]) -> TriggerResponse {
    if call.request.event == "SessionStart" {
        let notes = left_out.iter().map(|why| Note { text: format!("hookd: {why}"), ..Note::default() });
        response.system_messages.extend(notes);
    }
    response
}

/// What is said of a call that hookd did not judge. Only where it could not be asked does `on_unavailable` count: a call
/// that is refused, padded or broken must not buy an allow.
fn policy(config: &Config, error: &CallError) -> OnUnavailable {
    match config.on_unavailable {
        crate::args::OnUnavailable::Allow if error.kind.is_unavailable() => OnUnavailable::Allow,
        crate::args::OnUnavailable::Allow | crate::args::OnUnavailable::Block => OnUnavailable::Block,
    }
}

fn told(error: &CallError, config: &Config) -> String {
    let is_of_trust = error.kind == CallErrorKind::NotTrusted || error.code == Some(Code::Unauthenticated);
    let ignored = match config.ignored_variables.as_slice() {
        ignored @ [_, ..] if is_of_trust => {
            format!("; {} in the environment counts not here, name the file in relay.yaml", ignored.join(", "))
        }
        _ => String::new(),
    };
    match &error.decision_id {
        Some(id) => format!("{}{ignored} ({id})", error.message),
        None => format!("{}{ignored}", error.message),
    }
}

impl Known {
    fn blocked(&self, why: &str) -> Answer {
        self.unanswered(OnUnavailable::Block, why)
    }

    fn unanswered(&self, policy: OnUnavailable, why: &str) -> Answer {
        match self.agent {
            Some(agent) => {
                let (event, call) = (self.event.as_deref(), self.call.as_ref());
                hookd_agents::unanswered(agent, event, call, Transport::Command, policy, why)
            }
            None => last_resort(self.event.as_deref(), why),
        }
    }

    /// The event, as far as it is known, is one that a block changes anything on.
    fn can_block(&self) -> bool {
        let why = "no reason is known";
        self.blocked(why) != self.unanswered(OnUnavailable::Allow, why)
    }
}

/// A block for whatever agent this is: nearly all of them take it from the exit code.
fn last_resort(event: Option<&str>, why: &str) -> Answer {
    let stops = event.is_some_and(|event| STOPS.contains(&event.to_ascii_lowercase().as_str()));
    Answer {
        stdout: String::new(),
        stderr: format!("hookd gave no decision: {why}"),
        exit_code: if stops { FAILED } else { BLOCKS },
    }
}

/// The answer to a command line that is not understood, as far as it can be told whose it is.
fn wrong_usage(arguments: &[OsString], started: Instant, error: &clap::Error, known: &mut Known) -> Answer {
    let of = |name: &str| value_of(arguments, name);
    known.agent = of("--agent").as_deref().and_then(Agent::from_name);
    known.event = of("--event");
    let deadline = started.checked_add(Duration::from_secs(5)).unwrap_or(started);
    let input = input::read_whole(started, deadline).unwrap_or_default();
    if let Some(agent) = known.agent {
        let native = Native { agent, event: known.event.as_deref(), input: &input, transport: Transport::Command };
        known.call = hookd_agents::read(&native).ok();
    } else if known.event.is_none() {
        known.event = event_in(&input);
    }
    let text = error.to_string();
    let text = text.split("\n\n").next().unwrap_or_default();
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    known.blocked(&format!("hookctl relay: {}", line.trim_start_matches("error: ")))
}

/// The value of the last option of this name.
fn value_of(arguments: &[OsString], name: &str) -> Option<String> {
    let mut value = None;
    let mut arguments = arguments.iter().filter_map(|argument| argument.to_str()).peekable();
    while let Some(argument) = arguments.next() {
        match argument.strip_prefix(name) {
            Some("") => value = arguments.peek().map(|next| (*next).to_owned()),
            Some(rest) => value = rest.strip_prefix('=').map(str::to_owned).or(value),
            None => {}
        }
    }
    value
}

fn event_in(input: &[u8]) -> Option<String> {
    let Value::Object(input) = hookd_json::parse(str::from_utf8(input).ok()?).ok()? else { return None };
    EVENT_KEYS.iter().find_map(|key| input.get(*key)?.as_str()).map(str::to_owned)
}

/// Gives the answer to the agent, and says with what exit code.
fn deliver(answer: &Answer, known: &Known) -> u8 {
    let notes = known.notes.iter().map(|note| format!("hookctl relay: {note}\n")).collect::<String>();
    output::to_stderr(&notes);
    output::to_stderr(&answer.stderr);
    let Err(errno) = output::to_stdout(&answer.stdout) else { return answer.exit_code };
    // What was said has not arrived: nothing of it may be taken for an allow.
    let can_block = catch_unwind(AssertUnwindSafe(|| known.can_block())).unwrap_or(true);
    if !can_block {
        return answer.exit_code;
    }
    output::to_stderr(&format!("hookd's answer cannot be written: {}", crate::report::reason(&errno.into())));
    BLOCKS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(agent: &str, event: &str) -> Known {
        Known { agent: Agent::from_name(agent), event: Some(event.to_owned()), ..Known::default() }
    }

    fn answer(outcome: Outcome) -> Answer {
        match outcome {
            Outcome::Answer(answer) => answer,
            Outcome::Page(page) => panic!("a page: {page}"),
        }
    }

    #[test]
    fn a_panic_is_a_block_in_the_agents_own_form() {
        for agent in Agent::ALL {
            let mut before = known(agent.name(), "PreToolUse");
            let expected = before.blocked("hookctl relay failed");
            let said = answer(guarded(&mut before, |_| panic!("a fault")));
            assert_eq!(said, expected, "{}", agent.name());
            assert!(!said.stdout.is_empty() || (said.exit_code == 2 && !said.stderr.is_empty()), "{said:?}");
        }
        let mut nobody = Known::default();
        let said = answer(guarded(&mut nobody, |_| panic!("a fault")));
        let stderr = "hookd gave no decision: hookctl relay failed".to_owned();
        assert_eq!(said, Answer { stdout: String::new(), stderr: stderr.clone(), exit_code: 2 });
        let mut stops = Known { event: Some("SubagentStop".into()), ..Known::default() };
        let said = answer(guarded(&mut stops, |_| panic!("a fault")));
        assert_eq!(said, Answer { stdout: String::new(), stderr, exit_code: 1 });
    }

    #[test]
    fn options_are_found_in_a_command_line_that_is_not_understood() {
        let of = |line: &str, name: &str| value_of(&line.split(' ').map(OsString::from).collect::<Vec<_>>(), name);
        assert_eq!(of("hookctl relay --frob --agent codex", "--agent").as_deref(), Some("codex"));
        assert_eq!(of("hookctl relay --agent=codex --agents x", "--agent").as_deref(), Some("codex"));
        assert_eq!(of("hookctl relay --agent a --agent b", "--agent").as_deref(), Some("b"));
        assert_eq!(of("hookctl relay --agent", "--agent"), None);
        assert_eq!(of("hookctl relay --event Stop", "--agent"), None);
    }

    #[test]
    fn an_input_of_any_agent_says_its_event() {
        let cases = [
            (r#"{"hook_event_name":"Stop"}"#, Some("Stop")),
            (r#"{"x":1,"agent_action_name":"pre_run_command"}"#, Some("pre_run_command")),
            (r#"{"hook_event_name":1}"#, None),
            ("[]", None),
            ("{", None),
            ("\u{fffd}", None),
        ];
        for (input, expected) in cases {
            assert_eq!(event_in(input.as_bytes()).as_deref(), expected, "{input}");
        }
    }
}
