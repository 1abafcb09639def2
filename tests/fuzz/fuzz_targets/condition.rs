//! Conditions: any text is compiled or refused with a place, and what is compiled says the same each time it is asked.
#![no_main]

use hookd_condition::{Call, Claimed, Condition, Facts};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let condition = match Condition::compile(text) {
        Ok(condition) => condition,
        Err(error) => {
            assert!(error.offset <= text.len() && error.line > 0 && error.column > 0, "{error:?}");
            assert!(!error.to_string().contains('\n'), "one line");
            return;
        }
    };
    let call = Call {
        event: "PreToolUse",
        session_id: "s1",
        tool: Some("Bash"),
        tool_kind: Some("shell"),
        mcp_server: None,
        params: r#"{"command":"ls -la | wc","n":9007199254740993,"list":["a",1,null]}"#,
        result: None,
        payload: None,
        cwd: Some("/home/me/project"),
        timestamp_ms: 1,
        labels: &[],
        claimed: Claimed::default(),
    };
    let once = condition.evaluate(&mut Facts::new(call));
    assert_eq!(once, condition.evaluate(&mut Facts::new(call)));
});
