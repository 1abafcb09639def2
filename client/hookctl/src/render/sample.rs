//! Answers to draw in tests.

use hookd_client::proto::{
    Capability, Cause, DecidedBy, Downgrade, ExplainResponse, Failure, GetStatusResponse, HookResult,
    ListRulesResponse, Note, Outcome, ReloadResponse, Rewrite, RewriteTarget, RuleExplanation, RuleSummary,
    SourceState, SourceStatus, Tier, TierStatus, ToolCall, TriggerRequest, TriggerResponse, Verdict,
};
use prost_types::{Duration, Timestamp};

pub(crate) fn request() -> TriggerRequest {
    TriggerRequest {
        event: "PreToolUse".into(),
        tool_call: Some(ToolCall {
            tool: "bash".into(),
            params_json: r#"{"command":"rm -rf x","id":9007199254740993}"#.into(),
            ..ToolCall::default()
        }),
        ..TriggerRequest::default()
    }
}

fn result(rule: &str, tier: Tier, outcome: Outcome, micros: i32) -> HookResult {
    let nanos = micros.checked_mul(1000).unwrap();
    HookResult {
        ok: outcome != Outcome::Failed,
        rule_id: rule.into(),
        tier: tier.into(),
        source: "/etc/hookd/managed/guard.json".into(),
        outcome: outcome.into(),
        elapsed: Some(Duration { seconds: 0, nanos }),
        ..HookResult::default()
    }
}

/// A block, a failure, an async rule, a shadow rule, notes, a downgrade.
pub(crate) fn answer() -> TriggerResponse {
    let note = |text: &str| Note { text: text.into(), rule_id: "house".into(), tier: Tier::Shared.into() };
    TriggerResponse {
        verdict: Verdict::Block.into(),
        reason: "Cannot delete x\nuse trash".into(),
        results: vec![
            HookResult { elapsed: None, ..result("audit", Tier::Managed, Outcome::Queued, 0) },
            HookResult { output: Some("fine".into()), ..result("scan", Tier::Managed, Outcome::None, 850) },
            HookResult {
                failure: Failure::TimedOut.into(),
                error: Some("Timed out after 900ms".into()),
                ..result("lint", Tier::Local, Outcome::Failed, 900_123)
            },
            HookResult {
                shadow: true,
                reason: "would ask".into(),
                ..result("new-rule", Tier::Shared, Outcome::Ask, 12_345)
            },
            HookResult {
                blocked: true,
                block_reason: "Cannot delete x\nuse trash".into(),
                ..result("no-rm", Tier::Shared, Outcome::Block, 4_200)
            },
        ],
        additional_context: vec![note("files under x\nare generated")],
        system_messages: vec![note("a rule stepped in")],
        rewrites: vec![Rewrite {
            rule_id: "tidy".into(),
            tier: Tier::Shared.into(),
            target: RewriteTarget::Params.into(),
            patch_json: r#"[{"op":"replace","path":"/command","value":"rm -r x"}]"#.into(),
            recheck: false,
        }],
        decided_by: Some(DecidedBy {
            cause: Cause::Rule.into(),
            rule_id: "no-rm".into(),
            tier: Tier::Shared.into(),
            source: "/p/.ling/hooks.json".into(),
        }),
        degraded: true,
        policy_revision: "3f2a".into(),
        decision_id: "0192-d1".into(),
        rules_considered: 7,
        rules_matched: 5,
        event_output_json: Some(r#"{"n":1.0}"#.into()),
        downgrades: vec![Downgrade {
            missing: Capability::ForceContinue.into(),
            from: Verdict::Defer.into(),
            to: Verdict::Block.into(),
        }],
        results_truncated: true,
        ..TriggerResponse::default()
    }
}

/// A rewrite by one tier that another asked about again.
pub(crate) fn rewritten() -> TriggerResponse {
    let rewrite = |rule: &str, tier: Tier, recheck| Rewrite {
        rule_id: rule.into(),
        tier: tier.into(),
        target: RewriteTarget::Params.into(),
        patch_json: "[]".into(),
        recheck,
    };
    TriggerResponse {
        verdict: Verdict::Allow.into(),
        modified_params_json: Some(r#"{"command":"trash x","id":9007199254740993}"#.into()),
        results: vec![
            HookResult {
                output: Some(r#"{"modifiedParams":{"command":"trash x"}}"#.into()),
                ..result("trash", Tier::Local, Outcome::None, 10)
            },
            HookResult { recheck: true, ..result("guard", Tier::Managed, Outcome::Allow, 1_204) },
        ],
        rewrites: vec![rewrite("trash", Tier::Local, false), rewrite("guard", Tier::Managed, true)],
        decided_by: Some(DecidedBy {
            cause: Cause::Rule.into(),
            rule_id: "guard".into(),
            tier: Tier::Managed.into(),
            source: "/etc/hookd/managed/guard.json".into(),
        }),
        policy_revision: "3f2a".into(),
        decision_id: "0192-d2".into(),
        rules_considered: 2,
        rules_matched: 2,
        ..TriggerResponse::default()
    }
}

fn guard() -> RuleSummary {
    RuleSummary {
        rule_id: "guard".into(),
        tier: Tier::Managed.into(),
        source: "/etc/hookd/managed/guard.json".into(),
        events: vec!["PreToolUse".into(), "PermissionRequest".into()],
        matcher: "bash|write_file".into(),
        handler: "command".into(),
        must_decide: true,
        failure_blocks: true,
        description: "Keeps agents out of x".into(),
        line: 3,
        ..RuleSummary::default()
    }
}

fn payments() -> RuleSummary {
    RuleSummary {
        rule_id: "four-eyes".into(),
        tier: Tier::Team.into(),
        source: "/etc/hookd/payments/rules.yaml".into(),
        events: vec!["PreToolUse".into()],
        handler: "decide".into(),
        r#final: true,
        line: 2,
        selector: "tenant=payments".into(),
        missing_label: "deny".into(),
        ..RuleSummary::default()
    }
}

fn lint() -> RuleSummary {
    RuleSummary {
        rule_id: "lint".into(),
        tier: Tier::Shared.into(),
        source: "/p/.ling/hooks.json".into(),
        events: vec!["PreToolUse".into()],
        handler: "http".into(),
        r#async: true,
        line: 12,
        ..RuleSummary::default()
    }
}

pub(crate) fn rules() -> ListRulesResponse {
    ListRulesResponse { rules: vec![guard(), payments(), lint()], policy_revision: "3f2a".into() }
}

pub(crate) fn explanation() -> ExplainResponse {
    let explained =
        |rule, would_run, because: &str| RuleExplanation { rule: Some(rule), would_run, because: because.into() };
    ExplainResponse {
        rules: vec![
            explained(guard(), false, "the call is refused; if it were not: `bash|write_file` matches `bash`"),
            explained(
                payments(),
                false,
                "it is for callers with `tenant=payments`, and this caller lacks `tenant`, so the call is refused \
                 (missing_label: deny)",
            ),
            explained(lint(), false, "`^edit` does not match `bash`"),
        ],
        policy_revision: "3f2a".into(),
        block_means: "the tool call does not run".into(),
        refused: "the caller lacks the label `tenant`, which the selector of the team source /etc/hookd/payments needs"
            .into(),
    }
}

fn sources() -> Vec<SourceStatus> {
    let source = |tier: Tier, path: &str, state: SourceState, rules, errors: &[&str]| SourceStatus {
        tier: tier.into(),
        path: path.into(),
        state: state.into(),
        rules,
        errors: errors.iter().map(|error| (*error).to_owned()).collect(),
        selector: if tier == Tier::Team { "tenant=payments".into() } else { String::new() },
    };
    vec![
        source(Tier::Managed, "/etc/hookd/managed", SourceState::Loaded, 1, &[]),
        source(Tier::Team, "/etc/hookd/payments", SourceState::Loaded, 1, &[]),
        source(Tier::Local, "/p/.ling/hooks.local.json", SourceState::Absent, 0, &[]),
        source(
            Tier::Shared,
            "/p/.ling/hooks.json",
            SourceState::Partial,
            1,
            &["/p/.ling/hooks.json:4:7: hooks[1].wen: unknown key `wen`, did you mean `when`"],
        ),
    ]
}

pub(crate) fn status() -> GetStatusResponse {
    GetStatusResponse {
        version: "0.1.0".into(),
        policy_revision: "3f2a".into(),
        started_at: Some(Timestamp { seconds: 1_700_000_000, nanos: 5 }),
        loaded_at: Some(Timestamp { seconds: 1_700_000_060, nanos: 0 }),
        sources: sources(),
        rules: 2,
        waiting_for: Vec::new(),
        warnings: vec!["/etc/hookd/managed/guard.json:9:5: hooks[0]: async and must decide".into()],
        tiers: vec![
            tier_status(Tier::Managed, [0, 2], true),
            tier_status(Tier::Team, [3, 1], false),
            tier_status(Tier::Shared, [1, 0], false),
        ],
    }
}

fn tier_status(tier: Tier, [enforced, shadow]: [u32; 2], shadow_by_settings: bool) -> TierStatus {
    TierStatus { tier: tier.into(), enforced, shadow, shadow_by_settings }
}

pub(crate) fn reload() -> ReloadResponse {
    ReloadResponse {
        policy_revision: "3f2a".into(),
        changed: false,
        ok: false,
        sources: sources(),
        warnings: Vec::new(),
    }
}
