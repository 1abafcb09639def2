use hookd_rules::{AskFallback, DeferFallback, Fallbacks, ModifyFallback};

use crate::model::{Capabilities, Capability, Downgrade, Event, Verdict};

/// What a caller gets of a decision that it cannot carry out in full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Downgraded {
    /// The verdict that takes the place of the one decided.
    pub verdict: Verdict,
    /// A rewrite cannot be carried out: it must not be sent.
    pub rewrite_withheld: bool,
    /// Context cannot be carried out: it must not be sent.
    pub context_withheld: bool,
    /// What is lacking, in the order in which it mattered.
    pub downgrades: Vec<Downgrade>,
}

/// What a decision asks of the caller besides its verdict.
#[derive(Debug, Clone, Copy, Default)]
pub struct Asks {
    /// It rewrites the parameters.
    pub modified_params: bool,
    /// It rewrites the result.
    pub modified_result: bool,
    /// It has context for the model.
    pub context: bool,
    /// It stops the agent.
    pub halt: bool,
}

/// Applies the settings' `fallbacks`. Whatever takes a decision's place is chosen by the settings, never
/// by the caller; a block, halt or forced continuation that it cannot carry out stays as it is and is reported. On
/// Stop-like events a question that cannot be asked lets the agent stop, where elsewhere it would be a block.
#[must_use]
pub fn downgrade(
    event: &Event,
    decided: Verdict,
    asks: Asks,
    capabilities: Capabilities,
    fallbacks: Fallbacks,
) -> Downgraded {
    let mut out =
        Downgraded { verdict: decided, rewrite_withheld: false, context_withheld: false, downgrades: Vec::new() };
    if capabilities == Capabilities::ALL {
        return out;
    }
    let lacks = |needed: bool, capability| needed && !capabilities.has(capability);
    let fall = |out: &mut Downgraded, missing, to| {
        out.downgrades.push(Downgrade { missing, from: out.verdict, to });
        out.verdict = to;
    };
    // A block in place of a question that nobody can ask would make the agent go on for ever (law 11).
    let refusal = if event.is_stop_like() { Verdict::None } else { Verdict::Block };
    // A call that does not run needs no parameters.
    let runs = !(decided == Verdict::Block && event.prevents());
    for (needed, capability) in
        [(asks.modified_params && runs, Capability::ModifyParams), (asks.modified_result, Capability::ModifyResult)]
    {
        if lacks(needed, capability) {
            out.rewrite_withheld = true;
            let ModifyFallback::Block = fallbacks.modify;
            fall(&mut out, capability, Verdict::Block);
        }
    }
    if lacks(out.verdict == Verdict::Defer, Capability::Defer) {
        let to = match fallbacks.defer {
            DeferFallback::Block => refusal,
            DeferFallback::Ask => Verdict::Ask,
        };
        fall(&mut out, Capability::Defer, to);
    }
    if lacks(out.verdict == Verdict::Ask, Capability::Ask) {
        let to = match fallbacks.ask {
            AskFallback::Block => refusal,
            AskFallback::Allow => Verdict::Allow,
        };
        fall(&mut out, Capability::Ask, to);
    }
    let blocking = if event.is_stop_like() { Capability::ForceContinue } else { Capability::Block };
    if lacks(out.verdict == Verdict::Block, blocking) {
        fall(&mut out, blocking, Verdict::Block);
    }
    if lacks(asks.halt, Capability::Halt) {
        let verdict = out.verdict;
        fall(&mut out, Capability::Halt, verdict);
    }
    if lacks(asks.context, Capability::AdditionalContext) {
        out.context_withheld = true;
        let verdict = out.verdict;
        fall(&mut out, Capability::AdditionalContext, verdict);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(
        event: &str,
        decided: Verdict,
        asks: Asks,
        supported: &[Capability],
        expected: &[(Capability, Verdict, Verdict)],
    ) {
        let fallbacks = Fallbacks { defer: DeferFallback::Ask, ..Fallbacks::default() };
        check_with(fallbacks, event, decided, asks, supported, expected);
    }

    fn check_with(
        fallbacks: Fallbacks,
        event: &str,
        decided: Verdict,
        asks: Asks,
        supported: &[Capability],
        expected: &[(Capability, Verdict, Verdict)],
    ) {
        let capabilities = supported.iter().fold(Capabilities::NONE, |all, one| all.with(*one));
        let out = downgrade(Event::known(event).unwrap(), decided, asks, capabilities, fallbacks);
        let last = expected.last().map_or(decided, |(.., to)| *to);
        let expected = expected.iter().map(|(missing, from, to)| Downgrade { missing: *missing, from: *from, to: *to });
        assert_eq!((out.verdict, out.downgrades), (last, expected.collect::<Vec<_>>()));
    }

    #[test]
    fn each_lack_falls_back_as_the_settings_say() {
        use Capability::{AdditionalContext, Ask, Block, Defer, ForceContinue, Halt, ModifyParams, ModifyResult};
        use Verdict as V;
        check("PreToolUse", V::Ask, Asks::default(), &[Block], &[(Ask, V::Ask, V::Block)]);
        check("PreToolUse", V::Defer, Asks::default(), &[Block], &[(Defer, V::Defer, V::Ask), (Ask, V::Ask, V::Block)]);
        check("PreToolUse", V::Defer, Asks::default(), &[Block, Ask], &[(Defer, V::Defer, V::Ask)]);
        let rewrite = Asks { modified_params: true, ..Asks::default() };
        check("PreToolUse", V::Allow, rewrite, &[Block, Ask], &[(ModifyParams, V::Allow, V::Block)]);
        check("PreToolUse", V::Allow, rewrite, &[ModifyParams], &[]);
        check("PreToolUse", V::Block, rewrite, &[Block], &[]);
        // A rewrite that is lacking blocks, and nothing that could be asked instead lifts that.
        check("PreToolUse", V::Defer, rewrite, &[Block], &[(ModifyParams, V::Defer, V::Block)]);
        let hidden = Asks { modified_result: true, ..Asks::default() };
        check("PostToolUse", V::None, hidden, &[Block, ModifyParams], &[(ModifyResult, V::None, V::Block)]);
        check("PreToolUse", V::Block, Asks::default(), &[Ask], &[(Block, V::Block, V::Block)]);
        check("PreToolUse", V::Ask, Asks::default(), &[], &[(Ask, V::Ask, V::Block), (Block, V::Block, V::Block)]);
        check("Stop", V::Block, Asks::default(), &[Block], &[(ForceContinue, V::Block, V::Block)]);
        check("Stop", V::Ask, Asks::default(), &[Block, ForceContinue], &[(Ask, V::Ask, V::None)]);
        check(
            "Stop",
            V::Defer,
            Asks::default(),
            &[ForceContinue],
            &[(Defer, V::Defer, V::Ask), (Ask, V::Ask, V::None)],
        );
        let notes = Asks { context: true, halt: true, ..Asks::default() };
        check(
            "PreToolUse",
            V::None,
            notes,
            &[Block],
            &[(Halt, V::None, V::None), (AdditionalContext, V::None, V::None)],
        );
        let lenient = Fallbacks { ask: AskFallback::Allow, defer: DeferFallback::Block, ..Fallbacks::default() };
        let check = |decided, expected: &[_]| {
            check_with(lenient, "PreToolUse", decided, Asks::default(), &[Block], expected);
        };
        check(V::Ask, &[(Ask, V::Ask, V::Allow)]);
        check(V::Defer, &[(Defer, V::Defer, V::Block)]);
    }
}
