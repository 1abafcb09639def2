//! One decision: the verdict first, then why, then what every rule gave.

use hookd_agents::plain::word_of;
use hookd_client::{
    Gate,
    proto::{
        Capability, Cause, DecidedBy, Failure, HookResult, Note, Outcome, Rewrite, RewriteTarget, TriggerRequest,
        TriggerResponse, Verdict,
    },
};
use hookd_json::Kind;

use super::{Ink, Paint, Table, counted, diff, lines, plain, tier, time};

/// The whole picture, for a person.
pub(crate) fn picture(request: &TriggerRequest, answer: &TriggerResponse, paint: Paint) -> String {
    let mut text = headline(request, answer, paint);
    text.push_str(&table(&answer.results).text(paint));
    text.push_str(&rewrites(request, answer, paint));
    text.push_str(&notes("context for the model", &answer.additional_context, paint));
    text.push_str(&notes("message for the person", &answer.system_messages, paint));
    text.push_str(&warnings(answer, paint));
    let id = format!("decision {}  revision {}", plain(&answer.decision_id), plain(&answer.policy_revision));
    text.push_str(&format!("{}\n", paint.with(Ink::Dim, &id)));
    text
}

fn headline(request: &TriggerRequest, answer: &TriggerResponse, paint: Paint) -> String {
    let gate = Gate::of_answer(&request.event, answer.clone());
    let known = Verdict::try_from(answer.verdict).ok();
    let verdict = known.and_then(|verdict| word_of(verdict.as_str_name())).map(|word| word.to_uppercase());
    let (word, ink) = match (&gate, verdict) {
        (Gate::Halt { .. }, _) => ("HALT".to_owned(), Ink::Bad),
        (_, None) => (format!("UNKNOWN VERDICT {}", answer.verdict), Ink::Bad),
        (_, Some(verdict)) => {
            let ink = match known {
                Some(Verdict::Block) => Ink::Bad,
                Some(Verdict::Ask | Verdict::Defer) => Ink::Warn,
                Some(Verdict::Allow) => Ink::Good,
                _ => Ink::Strong,
            };
            (verdict, ink)
        }
    };
    let tool = request.tool_call.as_ref().map(|call| format!(" {}", plain(&call.tool))).unwrap_or_default();
    let mut text = format!("{}  {}{tool}\n", paint.with(ink, &word), plain(&request.event));
    let reason = if answer.halt && !answer.halt_reason.is_empty() { &answer.halt_reason } else { &answer.reason };
    for line in lines(reason) {
        text.push_str(&format!("  {line}\n"));
    }
    if let Some(by) = &answer.decided_by {
        text.push_str(&format!("  {}\n", paint.with(Ink::Dim, &decided_by(by, known))));
    }
    if let Some(error) = gate.decision().error() {
        let does = if matches!(gate, Gate::Refuse { .. }) { "a client blocks" } else { "a client lets it go on" };
        text.push_str(&format!("  {}\n", paint.with(Ink::Bad, &format!("{error}: {does}"))));
    }
    let counts = match (answer.rules_considered, answer.rules_matched) {
        (0, _) => "no rule is for this event".to_owned(),
        (considered, matched) => format!("{matched} of {} matched", counted(count(considered), "rule")),
    };
    text.push_str(&format!("  {}\n\n", paint.with(Ink::Dim, &counts)));
    text
}

fn decided_by(by: &DecidedBy, verdict: Option<Verdict>) -> String {
    let rule = if by.rule_id.is_empty() { String::new() } else { format!(" of rule {}", plain(&by.rule_id)) };
    let what = match Cause::try_from(by.cause) {
        Ok(Cause::Rule) => format!("decided by rule {}", plain(&by.rule_id)),
        Ok(Cause::FailurePolicy) if verdict == Some(Verdict::None) => format!("a failure{rule} was forgiven"),
        Ok(Cause::FailurePolicy) if rule.is_empty() => "decided by no rule".to_owned(),
        Ok(Cause::FailurePolicy) => format!("decided by the failure{rule}"),
        Ok(Cause::Default) => "decided by a default".to_owned(),
        Ok(Cause::Capability) => format!("decided by what the caller cannot carry out{rule}"),
        Ok(Cause::Unspecified) | Err(_) => format!("decided by cause {}{rule}", by.cause),
    };
    let mut place = Vec::new();
    if by.tier != 0 {
        place.push(tier(by.tier));
    }
    if !by.source.is_empty() {
        place.push(plain(&by.source));
    }
    if place.is_empty() { what } else { format!("{what} ({})", place.join(", ")) }
}

fn table(results: &[HookResult]) -> Table {
    let mut table = Table::new(&["TIER", "RULE", "OUTCOME", "TIME", "REASON"]);
    for result in results {
        let outcome = Outcome::try_from(result.outcome).unwrap_or(Outcome::Unspecified);
        let ink = match outcome {
            _ if result.shadow => Ink::Dim,
            Outcome::Block => Ink::Bad,
            Outcome::Failed | Outcome::Ask | Outcome::Defer => Ink::Warn,
            Outcome::Allow => Ink::Good,
            Outcome::None | Outcome::Queued | Outcome::Unspecified => Ink::Plain,
        };
        let word = word_of(outcome.as_str_name()).unwrap_or_else(|| format!("outcome {}", result.outcome));
        let marks = [(result.shadow, " (shadow)"), (result.recheck, " (recheck)")];
        let marks = marks.iter().filter(|(set, _)| *set).map(|(_, mark)| *mark).collect::<String>();
        let elapsed = result.elapsed.and_then(|elapsed| elapsed.try_into().ok()).map(time).unwrap_or_default();
        table.row([
            (tier(result.tier), Ink::Plain),
            (result.rule_id.clone(), Ink::Strong),
            (format!("{word}{marks}"), ink),
            (elapsed, Ink::Dim),
            (reason(result), Ink::Plain),
        ]);
    }
    table
}

/// What a rule has to say for itself: its failure, its reason, or the first line of what it wrote.
fn reason(result: &HookResult) -> String {
    let mut parts = Vec::new();
    let failure = Failure::try_from(result.failure).ok().and_then(|failure| word_of(failure.as_str_name()));
    parts.extend(failure.map(|failure| format!("{failure}:")));
    // What was dropped of its answer stands after the reason that it gave, or in the place of one.
    let reason = match (result.block_reason.as_str(), result.reason.as_str()) {
        ("", "") => None,
        (one, "") | ("", one) => Some(one.to_owned()),
        (blocked, reason) if reason.starts_with(blocked) => Some(reason.to_owned()),
        (blocked, dropped) => Some(format!("{blocked} ({dropped})")),
    };
    // An object is the decision itself, which the table shows already.
    let output = result.output.as_ref().filter(|output| hookd_json::check(output) != Ok(Kind::Object));
    if let Some(said) = result.error.as_ref().or(reason.as_ref()).or(output) {
        parts.push(lines(said).next().unwrap_or_default());
    }
    if result.launch_suspect {
        parts.push("(the program may not have started)".to_owned());
    }
    if result.retried {
        parts.push("(sent twice)".to_owned());
    }
    parts.retain(|part| !part.is_empty());
    parts.join(" ")
}

fn rewrites(request: &TriggerRequest, answer: &TriggerResponse, paint: Paint) -> String {
    let call = request.tool_call.as_ref();
    let sent = call.map_or("{}", |call| if call.params_json.is_empty() { "{}" } else { &call.params_json });
    let shown = call.and_then(|call| call.result_json.as_deref()).unwrap_or("null");
    let forms = [
        ("parameters", RewriteTarget::Params, sent, &answer.modified_params_json),
        ("result", RewriteTarget::Result, shown, &answer.modified_result_json),
    ];
    let mut text = String::new();
    for (name, target, before, after) in forms {
        let authors = answer.rewrites.iter().filter(|rewrite| rewrite.target == i32::from(target));
        let authors = authors.map(author).collect::<Vec<_>>();
        let Some(after) = after else {
            // A block leaves out the form that is not going to be.
            if !authors.is_empty() {
                text.push_str(&format!("{name} rewritten by {}, not in the answer\n\n", authors.join(", then ")));
            }
            continue;
        };
        let by = if authors.is_empty() { String::new() } else { format!(" by {}", authors.join(", then ")) };
        text.push_str(&format!("{}{by}\n", paint.with(Ink::Strong, &format!("{name} rewritten"))));
        text.push_str(&diff::picture(before, after, paint));
        text.push('\n');
    }
    text
}

fn author(rewrite: &Rewrite) -> String {
    let recheck = if rewrite.recheck { ", recheck" } else { "" };
    format!("{} ({}{recheck})", plain(&rewrite.rule_id), tier(rewrite.tier))
}

fn notes(title: &str, notes: &[Note], paint: Paint) -> String {
    let mut text = String::new();
    for note in notes {
        let from = format!("from {} ({})", plain(&note.rule_id), tier(note.tier));
        text.push_str(&format!("{} {from}\n", paint.with(Ink::Strong, title)));
        for line in lines(&note.text) {
            text.push_str(&format!("  {line}\n"));
        }
        text.push('\n');
    }
    text
}

/// What is not as it should be, said plainly.
fn warnings(answer: &TriggerResponse, paint: Paint) -> String {
    let mut said = Vec::new();
    if answer.degraded {
        said.push("degraded: a rule that should have had a say failed, and its failure was forgiven".to_owned());
    }
    for downgrade in &answer.downgrades {
        let verdict = |number: i32| {
            let verdict = Verdict::try_from(number).ok();
            verdict.and_then(|verdict| word_of(verdict.as_str_name())).unwrap_or_else(|| number.to_string())
        };
        let missing = Capability::try_from(downgrade.missing).ok();
        let missing = missing.and_then(|missing| word_of(missing.as_str_name()));
        let missing = missing.unwrap_or_else(|| downgrade.missing.to_string()).replace('_', " ");
        let (from, to) = (verdict(downgrade.from), verdict(downgrade.to));
        let became = if from == to { format!("{from} stays") } else { format!("{from} became {to}") };
        said.push(format!("downgraded: the caller cannot carry out {missing}, {became}"));
    }
    if answer.results_truncated {
        said.push("shortened: outputs and patches were left out to keep the answer under the size limit".to_owned());
    }
    let mut text = said.iter().map(|line| format!("{}\n", paint.with(Ink::Warn, line))).collect::<String>();
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

fn count(count: u32) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn a_block_with_everything() {
        let plain = picture(&sample::request(), &sample::answer(), Paint::new(false));
        insta::assert_snapshot!(plain);
    }

    #[test]
    fn a_rewrite_that_is_allowed() {
        insta::assert_snapshot!(picture(&sample::request(), &sample::rewritten(), Paint::new(false)));
    }

    #[test]
    fn what_was_dropped_of_a_block_is_shown_with_its_reason() {
        let result = |block_reason: &str, reason: &str| HookResult {
            block_reason: block_reason.into(),
            reason: reason.into(),
            ..HookResult::default()
        };
        for (block_reason, given, shown) in [
            ("go on", "go on (block dropped: a rule above halts)", "go on (block dropped: a rule above halts)"),
            ("go on", "go on", "go on"),
            (
                "Blocked by hook",
                "block dropped: a rule above halts",
                "Blocked by hook (block dropped: a rule above halts)",
            ),
            ("no", "", "no"),
            ("", "why", "why"),
        ] {
            assert_eq!(reason(&result(block_reason, given)), shown);
        }
    }

    #[test]
    fn silence_a_halt_and_an_unknown_verdict() {
        let request = TriggerRequest { event: "Stop".into(), ..TriggerRequest::default() };
        let silence = TriggerResponse {
            verdict: Verdict::None.into(),
            decision_id: "d2".into(),
            policy_revision: "r1".into(),
            ..TriggerResponse::default()
        };
        let halt = TriggerResponse { halt: true, halt_reason: "enough\nreally".into(), ..silence.clone() };
        let unknown = TriggerResponse { verdict: 77, rules_considered: 1, ..silence.clone() };
        let pictures = [
            picture(&request, &silence, Paint::new(false)),
            picture(&request, &halt, Paint::new(false)),
            picture(&request, &unknown, Paint::new(false)),
            picture(&sample::request(), &unknown, Paint::new(false)),
        ];
        insta::assert_snapshot!(pictures.join("-----\n"));
    }
}
