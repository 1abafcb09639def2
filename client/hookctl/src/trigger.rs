//! `hookctl trigger`: asks about one event and shows the decision.

use hookd_client::{
    Gate,
    proto::{TriggerResponse, Verdict},
};

use crate::{
    args::{EventArgs, Global, Output},
    context, json,
    render::{Paint, decision},
    report::{BLOCKED, Failure, OK, Report, UNDECIDED},
};

pub(crate) async fn run(global: &Global, event: Box<EventArgs>, paint: Paint) -> Result<Report, Failure> {
    let request = context::request(*event)?;
    let answer = global.client()?.call(&request).await?;
    let exit = exit_code(&request.event, &answer);
    let text = match global.output {
        Output::Human => decision::picture(&request, &answer, paint),
        Output::Json => json::line(&json::answer(&answer)),
    };
    Ok(Report { text, exit })
}

/// The verdict as an exit code; a halt counts as a block. A verdict that is not known, or an answer that cannot be
/// carried out, counts as what a client does with it: a block, or on Stop-like events none.
fn exit_code(event: &str, answer: &TriggerResponse) -> u8 {
    match Gate::of_answer(event, answer.clone()) {
        Gate::Halt { .. } | Gate::Refuse { .. } | Gate::Continue { .. } => BLOCKED,
        Gate::Ask { .. } | Gate::Suspend { .. } => UNDECIDED,
        // A block that is recorded only.
        Gate::Run { .. } if answer.verdict == i32::from(Verdict::Block) => BLOCKED,
        Gate::Run { .. } => OK,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verdict_has_its_exit_code() {
        let code = |event: &str, verdict: i32, halt: bool| {
            exit_code(event, &TriggerResponse { verdict, halt, ..TriggerResponse::default() })
        };
        for event in ["PreToolUse", "SessionStart", "Stop", "PreDeploy"] {
            assert_eq!([1, 2, 3, 4, 5].map(|verdict| code(event, verdict, false)), [0, 0, 3, 3, 2], "{event}");
            assert_eq!(code(event, 1, true), 2, "{event}");
        }
        assert_eq!([0, 9].map(|verdict| code("PreToolUse", verdict, false)), [2, 2]);
        assert_eq!([0, 9].map(|verdict| code("Stop", verdict, false)), [0, 0]);
    }
}
