//! Commands of offered files, run here under the process rules that hookd has for its own.

use std::{
    collections::BTreeMap,
    env,
    ffi::{OsStr, OsString},
    io::{self, Write as _},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{self, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
};

use hookd_client::{
    AgentCommands, AgentProgram, Detached, OfferTier, OfferedCommand, OfferedRules, proto::TriggerRequest,
};
use hookd_rules::{
    CallFacts, CommandHandler, Handler, LoadSettings, Offered, OfferedFile, Protocol, Rule, Tier, ValuePart,
};

/// What programs of hookd's own rule files find of this process's environment.
const PASSED_ON: [&str; 4] = ["PATH", "HOME", "LANG", "TMPDIR"];
/// What Claude Code keeps from its hooks.
const KEPT_BACK: &str = "OTEL_";
/// Says to a relay that such a program starts whose program it is.
pub(crate) const RUN_BY: &str = "HOOKD_RELAY_PID";

/// Knows the commands of the files of one call.
#[derive(Debug, Default)]
pub(crate) struct Commands {
    /// By hash.
    compiled: Mutex<BTreeMap<String, Arc<Offered>>>,
}

impl AgentCommands for Commands {
    fn program(&self, command: &OfferedCommand<'_>) -> Result<AgentProgram, String> {
        let offered = self.compiled(command.file)?;
        let rule = offered.rules.iter().find(|rule| rule.index == command.index);
        let rule = &rule.ok_or_else(|| format!("{} has no rule {}", command.file.path(), command.index))?.rule;
        match &rule.handler {
            Handler::Command(handler) => program(rule, handler, command.request),
            Handler::Http(_) | Handler::Decide(_) => Err(format!("rule `{}` is no command", rule.id)),
        }
    }

    /// This process ends with its answer, so another one stays with the program and its time limit.
    fn detach(&self, detached: Detached) -> Result<(), Detached> {
        match keeper(&detached) {
            Ok(()) => Ok(()),
            Err(_) => Err(detached),
        }
    }
}

impl Commands {
    fn compiled(&self, file: &OfferedRules) -> Result<Arc<Offered>, String> {
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(offered) = compiled.get(file.sha256()) {
            return Ok(Arc::clone(offered));
        }
        let as_offered = OfferedFile { tier: tier(file.tier()), path: Path::new(file.path()), format: file.format() };
        let offered = Offered::compile(file.content(), as_offered, &LoadSettings::default())?;
        let offered = Arc::new(offered);
        compiled.insert(file.sha256().to_owned(), Arc::clone(&offered));
        Ok(offered)
    }
}

fn tier(tier: OfferTier) -> Tier {
    match tier {
        OfferTier::Local => Tier::Local,
        OfferTier::Shared => Tier::Shared,
        OfferTier::Plugin => Tier::Plugin,
    }
}

fn program(rule: &Rule, handler: &CommandHandler, request: &TriggerRequest) -> Result<AgentProgram, String> {
    let call = CallFacts {
        event: &request.event,
        tool: request.tool_call.as_ref().map_or("", |call| &call.tool),
        session_id: &request.session_id,
        cwd: &request.cwd,
        workspace_roots: &request.workspace_roots,
        payload: &request.payload_json,
        ..CallFacts::default()
    };
    let (argv, variables) = rule.program(handler, &call)?;
    let mut env = match rule.protocol {
        Protocol::Native => PASSED_ON
            .iter()
            .filter_map(|name| Some((OsString::from(name), env::var_os(name)?)))
            .collect::<BTreeMap<_, _>>(),
        // What the agent itself would hand to them: its own environment.
        Protocol::ClaudeCode => env::vars_os().filter(|(name, _)| !is_kept_back(name)).collect(),
    };
    env.insert(RUN_BY.into(), process::id().to_string().into());
    env.extend(variables);
    env.extend(handler.env.iter().map(|(name, value)| (name.into(), ValuePart::literal(value).into())));
    Ok(AgentProgram { argv, env: env.into_iter().collect(), cwd: handler.cwd.clone().or_else(|| folder(&call)) })
}

/// Where it runs: where the agent is, or where its project is if that folder is gone.
fn folder(call: &CallFacts<'_>) -> Option<PathBuf> {
    let places = [call.cwd].into_iter().chain(call.workspace_roots.iter().map(String::as_str));
    places.map(PathBuf::from).find(|place| place.is_absolute() && place.is_dir())
}

fn is_kept_back(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(KEPT_BACK.as_bytes())
}

/// Starts `hookctl detached`, which reads the input, runs the program and ends it when its time is over. It leads a group
/// of its own, so that what the agent does to this process does not reach it.
fn keeper(detached: &Detached) -> io::Result<()> {
    let Detached { program, stdin, timeout } = detached;
    let mut keeper = Command::new(env::current_exe()?);
    keeper.arg("detached").arg("--timeout-ms").arg(timeout.as_millis().to_string()).arg("--").args(&program.argv);
    keeper.env_clear().envs(program.env.iter().map(|(name, value)| (name, value))).process_group(0);
    if let Some(cwd) = &program.cwd {
        keeper.current_dir(cwd);
    }
    let mut keeper = keeper.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    // It takes all of it before it starts the program; where it cannot, there is nobody to tell.
    if let Some(mut input) = keeper.stdin.take() {
        let _ = input.write_all(stdin);
    }
    Ok(())
}
