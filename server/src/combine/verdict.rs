use crate::{
    combine::FormId,
    model::{Event, Tier, Verdict},
};

/// One opinion that may count: of a rule, of a failure that was not forgiven, or of a default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vote {
    /// What it says; not [`Verdict::None`].
    pub verdict: Verdict,
    /// Its tier.
    pub tier: Tier,
    /// The form that it left.
    pub form: FormId,
    /// Whose it is.
    pub voter: Voter,
}

/// Whose vote it is, by its place in the lists of the evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Voter {
    /// The answer of the rule with this result.
    Rule(usize),
    /// The failure of the rule with this result.
    Failure(usize),
    /// A default of the catalog.
    Default(usize),
}

/// One wish to stop the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Halt {
    /// Its tier.
    pub tier: Tier,
    /// The result of the rule that wishes it.
    pub result: usize,
}

/// What all of it comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// The verdict (law 3).
    pub verdict: Verdict,
    /// The first vote that says so. `None`: the verdict is NONE, or a halt is the cause.
    pub decider: Option<Vote>,
    /// The result whose halt stops the agent.
    pub halt: Option<usize>,
    /// Results whose halt a block of a higher tier outranks (law 13).
    pub outranked_halts: Vec<usize>,
    /// Results whose block a halt outranks (law 13).
    pub outranked_blocks: Vec<usize>,
}

/// Combines votes and halts, which stand in evaluation order. `final_form` is the form that the call ended in,
/// `may_allow` says whether a tier's ALLOW counts.
#[must_use]
pub fn settle(
    event: &Event,
    votes: &[Vote],
    halts: &[Halt],
    final_form: FormId,
    may_allow: impl Fn(Tier) -> bool,
) -> Settled {
    let counts = |vote: &Vote| match vote.verdict {
        Verdict::None => false,
        // An allow of another form, or of a tier that may not, is no opinion (law 3).
        Verdict::Allow => vote.form == final_form && may_allow(vote.tier),
        // These stick, whatever became of the form.
        Verdict::Ask | Verdict::Defer | Verdict::Block => true,
    };
    let decide = |votes: &mut dyn Iterator<Item = &Vote>| {
        votes.filter(|vote| counts(vote)).fold(None::<Vote>, |best, vote| match best {
            // Ties go to the first: the order is that of the rules, never that of completion.
            Some(best) if best.verdict >= vote.verdict => Some(best),
            _ => Some(*vote),
        })
    };
    let decider = decide(&mut votes.iter());
    let verdict = decider.map_or(Verdict::None, |vote| vote.verdict);
    if !event.is_stop_like() || verdict != Verdict::Block {
        let halt = halts.iter().max_by_key(|halt| (halt.tier, std::cmp::Reverse(halt.result))).map(|halt| halt.result);
        return Settled { verdict, decider, halt, outranked_halts: Vec::new(), outranked_blocks: Vec::new() };
    }
    // BLOCK means "go on" here, so halt and block contradict each other: the higher tier wins, halt on a tie.
    let blocker = votes.iter().filter(|vote| vote.verdict == Verdict::Block).map(|vote| vote.tier).max();
    let (winning, losing): (Vec<Halt>, Vec<Halt>) = halts.iter().partition(|halt| Some(halt.tier) >= blocker);
    let outranked_halts = losing.iter().map(|halt| halt.result).collect();
    let Some(halt) = winning.iter().max_by_key(|halt| (halt.tier, std::cmp::Reverse(halt.result))) else {
        return Settled { verdict, decider, halt: None, outranked_halts, outranked_blocks: Vec::new() };
    };
    let outranked_blocks = votes
        .iter()
        .filter(|vote| vote.verdict == Verdict::Block)
        .filter_map(|vote| match vote.voter {
            Voter::Rule(result) | Voter::Failure(result) => Some(result),
            Voter::Default(_) => None,
        })
        .collect();
    let decider = decide(&mut votes.iter().filter(|vote| vote.verdict != Verdict::Block));
    Settled {
        verdict: decider.map_or(Verdict::None, |vote| vote.verdict),
        decider,
        halt: Some(halt.result),
        outranked_halts,
        outranked_blocks,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: FormId = FormId::ARRIVAL;

    fn event(name: &str) -> &'static Event {
        Event::known(name).unwrap()
    }

    fn votes(votes: &[(Verdict, Tier)]) -> Vec<Vote> {
        let vote = |(result, (verdict, tier)): (usize, &(Verdict, Tier))| Vote {
            verdict: *verdict,
            tier: *tier,
            form: FORM,
            voter: Voter::Rule(result),
        };
        votes.iter().enumerate().map(vote).collect()
    }

    fn verdict(given: &[(Verdict, Tier)]) -> (Verdict, Option<Voter>) {
        let settled = settle(event("PreToolUse"), &votes(given), &[], FORM, |tier| tier >= Tier::Local);
        (settled.verdict, settled.decider.map(|vote| vote.voter))
    }

    #[test]
    fn law_03_most_restrictive_wins_and_the_first_decides() {
        use Tier::{Local, Managed, Plugin, Shared, Team};
        use Verdict::{Allow, Ask, Block, Defer, None};
        assert_eq!(verdict(&[]), (None, Option::None));
        assert_eq!(verdict(&[(Allow, Managed), (Block, Plugin)]), (Block, Some(Voter::Rule(1))));
        assert_eq!(verdict(&[(Ask, Managed), (Defer, Team), (Allow, Local)]), (Defer, Some(Voter::Rule(1))));
        assert_eq!(verdict(&[(Ask, Shared), (Ask, Plugin)]), (Ask, Some(Voter::Rule(0))));
        assert_eq!(verdict(&[(Allow, Team), (Allow, Local)]), (Allow, Some(Voter::Rule(0))));
    }

    #[test]
    fn law_03_an_allow_of_a_tier_that_may_not_is_no_opinion() {
        assert_eq!(verdict(&[(Verdict::Allow, Tier::Shared)]), (Verdict::None, None));
        assert_eq!(
            verdict(&[(Verdict::Allow, Tier::Shared), (Verdict::Allow, Tier::Local)]),
            (Verdict::Allow, Some(Voter::Rule(1)))
        );
    }

    #[test]
    fn law_03_an_allow_of_another_form_is_no_opinion_and_the_others_stick() {
        let mut forms = crate::combine::Forms::new(crate::model::Form { params: "{}".into(), result: None });
        forms.rewrite(crate::model::RewriteTarget::Params, &hookd_json::parse("{\"a\":1}").unwrap());
        for (given, expected) in [
            (Verdict::Allow, Verdict::None),
            (Verdict::Ask, Verdict::Ask),
            (Verdict::Defer, Verdict::Defer),
            (Verdict::Block, Verdict::Block),
        ] {
            let votes = votes(&[(given, Tier::Managed)]);
            assert_eq!(settle(event("PreToolUse"), &votes, &[], forms.current(), |_| true).verdict, expected);
        }
    }

    #[test]
    fn law_13_on_stop_a_halt_from_the_blockers_tier_or_above_wins_and_one_from_below_is_dropped() {
        let block = votes(&[(Verdict::Block, Tier::Local)]);
        for (tier, wins) in [(Tier::Managed, true), (Tier::Local, true), (Tier::Shared, false)] {
            let settled = settle(event("Stop"), &block, &[Halt { tier, result: 7 }], FORM, |_| true);
            let expected = if wins {
                Settled {
                    verdict: Verdict::None,
                    decider: None,
                    halt: Some(7),
                    outranked_halts: vec![],
                    outranked_blocks: vec![0],
                }
            } else {
                Settled {
                    verdict: Verdict::Block,
                    decider: Some(block[0]),
                    halt: None,
                    outranked_halts: vec![7],
                    outranked_blocks: vec![],
                }
            };
            assert_eq!(settled, expected, "{tier}");
        }
    }

    #[test]
    fn law_13_on_stop_the_highest_block_and_the_highest_halt_count() {
        let given =
            votes(&[(Verdict::Block, Tier::Shared), (Verdict::Block, Tier::Team), (Verdict::Block, Tier::Local)]);
        let halts = [Tier::Local, Tier::Managed, Tier::Team];
        let halts = halts.iter().zip(7..).map(|(tier, result)| Halt { tier: *tier, result }).collect::<Vec<_>>();
        let kept = settle(event("Stop"), &given, &halts[..1], FORM, |_| true);
        assert_eq!((kept.verdict, kept.halt, kept.outranked_halts), (Verdict::Block, None, vec![7]));
        let halted = settle(event("Stop"), &given, &halts, FORM, |_| true);
        let expected = Settled {
            verdict: Verdict::None,
            decider: None,
            halt: Some(8),
            outranked_halts: vec![7],
            outranked_blocks: vec![0, 1, 2],
        };
        assert_eq!(halted, expected);
    }

    #[test]
    fn law_13_elsewhere_the_highest_halt_is_named() {
        let halts = [Halt { tier: Tier::Shared, result: 0 }, Halt { tier: Tier::Team, result: 1 }];
        assert_eq!(settle(event("PostToolUse"), &[], &halts, FORM, |_| true).halt, Some(1));
    }
}
