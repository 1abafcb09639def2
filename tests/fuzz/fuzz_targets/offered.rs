//! Files that a caller offers: taken within their bounds or refused in one line, and never anything of the server's.
#![no_main]

use std::path::Path;

use hookd_rules::{LoadSettings, MAX_OFFERED_RULES, Offered, OfferedFile, RunOn, Tier};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|content: &[u8]| {
    let settings = LoadSettings::default();
    for (name, format) in [("hooks.json", ""), ("hooks.yaml", ""), ("settings.json", "claude-code")] {
        let file = OfferedFile { tier: Tier::Shared, path: Path::new(name), format };
        match Offered::compile(content, file, &settings) {
            Ok(offered) => {
                assert!(offered.rules.len() <= MAX_OFFERED_RULES);
                assert!(offered.weight() <= 32 << 20, "{} bytes", offered.weight());
                assert!(offered.rules.iter().all(|offered| offered.rule.run_on == RunOn::Agent));
                for problem in &offered.problems {
                    assert!(!problem.to_string().contains('\n'), "one line");
                }
            }
            Err(why) => assert!(!why.is_empty() && !why.contains('\n'), "one line: {why:?}"),
        }
    }
});
