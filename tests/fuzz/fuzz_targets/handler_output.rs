//! What handlers print: understood or a failure, never a panic, and never a broken object taken for silence.
#![no_main]

use hookd::run::output::{Expect, parse};
use hookd_rules::{Event, Protocol, Verdict};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let trimmed = text.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
    let object = hookd_json::parse(trimmed).is_ok_and(|value| value.is_object());
    for event in ["PreToolUse", "PostToolUse", "Stop", "SessionStart"].into_iter().filter_map(Event::known) {
        for flags in 0_u8..128 {
            let native = flags & 64 == 0;
            let expect = Expect {
                protocol: if native { Protocol::Native } else { Protocol::ClaudeCode },
                event,
                event_name: event.name.into(),
                has_tool: flags & 1 != 0,
                central: flags & 2 != 0,
                must_decide: flags & 4 != 0,
                http: flags & 8 != 0,
                concurrent: flags & 16 != 0,
                fails_closed: flags & 32 != 0,
                not_utf8_at: text.contains('\u{fffd}').then_some(0),
            };
            let parsed = parse(text, &expect);
            assert_eq!(parsed, parse(text, &expect), "the same output means the same");
            let Ok(parsed) = parsed else { continue };
            assert!(!trimmed.starts_with('{') || expect.not_utf8_at.is_none(), "what is no UTF-8 is no answer");
            assert!(object || !trimmed.starts_with('{'), "a broken object is a failure");
            let answer = parsed.answer;
            assert!(object || !native || answer == hookd_rules::Answer::default(), "only an object is an answer");
            assert!(answer.modified_params.is_none_or(|params| params.is_object()), "parameters are an object");
            assert!(object || !expect.must_decide, "plain output is no decision");
            assert!(object || answer.verdict == Verdict::None, "plain output is no opinion");
        }
    }
});
