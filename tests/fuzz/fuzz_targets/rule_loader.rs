//! Rule files: any text is loaded or refused, in one way only, and what is refused says where.
#![no_main]

use hookd_rules::{Format, Severity, parse_rules};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    for format in [Format::Json, Format::Yaml] {
        let problems = parse_rules(text, format);
        assert_eq!(problems, parse_rules(text, format), "the same text means the same");
        for problem in &problems {
            let message = problem.to_string();
            assert!(!message.is_empty() && !message.contains('\n'), "one line: {message:?}");
        }
        let refused = problems.iter().any(|problem| problem.severity == Severity::Error);
        let readable = hookd_json::parse(text).is_ok_and(|value| value.is_object());
        assert!(format == Format::Yaml || readable || refused, "what is no strict JSON object is not a rule file");
    }
});
