//! Rule files: any text is loaded or refused, in one way only, and what is refused says where.
#![no_main]

use hookd_rules::{Format, Severity, parse_rules};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let bare = text.strip_prefix('\u{feff}').unwrap_or(text);
    let blank = bare.trim().is_empty();
    let readable = hookd_json::parse(bare).is_ok_and(|value| value.is_object());
    for format in [Format::Json, Format::Yaml] {
        let problems = parse_rules(text, format);
        assert_eq!(problems, parse_rules(text, format), "the same text means the same");
        for problem in &problems {
            let message = problem.to_string();
            assert!(!message.is_empty() && !message.contains('\n'), "one line: {message:?}");
        }
        let refused = problems.iter().any(|problem| problem.severity == Severity::Error);
        assert!(!blank || refused, "an empty file is refused");
        assert!(format == Format::Yaml || readable || refused, "what is not strict JSON is no rule file");
    }
});
