//! Parameters: checking, parsing and parsing with places agree on every text, and printing loses nothing.
#![no_main]

use hookd_json::{Kind, check, parse, parse_spanned, to_text};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let parsed = parse(text);
    assert_eq!(check(text), parsed.as_ref().map(Kind::of).map_err(Clone::clone));
    match parsed {
        Ok(value) => {
            let spanned = parse_spanned(text).map(|node| node.to_value().ok());
            assert_eq!(spanned, Ok(Some(value.clone())));
            let printed = to_text(&value);
            assert!(!printed.contains('\n'), "one line");
            assert_eq!(parse(&printed), Ok(value.clone()));
            assert_eq!(to_text(&value), printed);
        }
        Err(error) => {
            assert_eq!(parse_spanned(text).map(|_| ()), Err(error));
        }
    }
});
