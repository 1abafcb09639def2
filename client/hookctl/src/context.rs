//! One event, from flags or from a file.

use std::{
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
    time::SystemTime,
};

use hookd_agents::plain;
use hookd_client::proto::{Caller, ToolCall, TriggerRequest};
use hookd_json::Kind;

use crate::{args::EventArgs, report::Failure};

/// The request that the flags or the input file describe. Where they say no directory it is the current one, and
/// where they say no time it is now.
pub(crate) fn request(mut args: EventArgs) -> Result<TriggerRequest, Failure> {
    let cwd = args.cwd.take();
    let expected_policy_revision = args.expect_revision.take().unwrap_or_default();
    let mut request = match args.input.take() {
        Some(path) => from_file(&path)?,
        None => from_flags(args)?,
    };
    if cwd.is_some() || request.cwd.is_empty() {
        request.cwd = absolute(cwd.unwrap_or_else(|| PathBuf::from(".")))?;
    }
    request.timestamp.get_or_insert_with(|| SystemTime::now().into());
    Ok(TriggerRequest { expected_policy_revision, ..request })
}

fn from_flags(args: EventArgs) -> Result<TriggerRequest, Failure> {
    let object = |flag: &str, text: Option<String>| match text.as_deref().map(hookd_json::check) {
        None => Ok(String::new()),
        Some(Ok(Kind::Object)) => Ok(text.unwrap_or_default()),
        Some(Ok(other)) => Err(Failure::usage(format!("`{flag}` is {}, expected a JSON object", other.noun()))),
        Some(Err(error)) => Err(Failure::usage(format!("`{flag}` is not JSON: {error}"))),
    };
    if let Some(Err(error)) = args.result.as_deref().map(hookd_json::check) {
        return Err(Failure::usage(format!("`--result` is not JSON: {error}")));
    }
    let params_json = object("--params", args.params)?;
    let tool_call = args.tool.map(|tool| ToolCall {
        tool,
        params_json,
        result_json: args.result,
        tool_use_id: args.tool_use_id.unwrap_or_default(),
        ..ToolCall::default()
    });
    let caller = Caller {
        agent: args.agent.unwrap_or_default(),
        agent_type: args.agent_type.unwrap_or_default(),
        project: args.project.unwrap_or_default(),
        user: args.user.unwrap_or_default(),
        labels: args.label.into_iter().collect(),
        ..Caller::default()
    };
    Ok(TriggerRequest {
        event: args.event.unwrap_or_default(),
        session_id: args.session.unwrap_or_default(),
        tool_call,
        payload_json: object("--payload", args.payload)?,
        caller: (caller != Caller::default()).then_some(caller),
        request_id: args.request_id.unwrap_or_default(),
        ..TriggerRequest::default()
    })
}

fn from_file(path: &Path) -> Result<TriggerRequest, Failure> {
    let stdin = path == Path::new("-");
    let name = if stdin { "standard input".to_owned() } else { path.display().to_string() };
    let text = if stdin {
        let mut text = String::new();
        io::stdin().lock().read_to_string(&mut text).map(|_| text)
    } else {
        fs::read_to_string(path)
    };
    let text = text.map_err(|error| Failure::usage(format!("{name} cannot be read: {error}")))?;
    plain::request(&text).map_err(|message| Failure::usage(format!("{name}: {message}")))
}

fn absolute(path: PathBuf) -> Result<String, Failure> {
    let absolute =
        std::path::absolute(&path).map_err(|error| Failure::usage(format!("directory {}: {error}", path.display())))?;
    // `absolute` leaves a `.` at the end where there is nothing else.
    let text = absolute.components().collect::<PathBuf>().into_os_string().into_string();
    text.map_err(|_| Failure::usage(format!("directory {} is not UTF-8", path.display())))
}
