//! What tens of thousands of conditions take.

use std::{fs, hint::black_box};

use hookd_condition::Condition;

const CONDITIONS: usize = 4_000;

/// Memory of this process in bytes.
#[cfg(test)]
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap().saturating_mul(1024)
}

/// Bytes for each of many conditions, their text not counted. They are kept, so that none takes the place of another.
#[cfg(test)]
fn each(kept: &mut Vec<Condition>, text: impl Fn(usize) -> String) -> usize {
    kept.reserve(CONDITIONS);
    // What is made once for all of them.
    black_box(Condition::compile(&text(CONDITIONS)).unwrap());
    let before = resident();
    kept.extend((0..CONDITIONS).map(|index| Condition::compile(&text(index)).unwrap()));
    let each = resident().saturating_sub(before).checked_div(CONDITIONS).unwrap();
    each.saturating_sub(text(CONDITIONS).len())
}

#[test]
fn a_condition_takes_about_a_kilobyte() {
    let mut kept = Vec::new();
    let plain = each(&mut kept, |index| format!("tool == 'Bash' && params.command.startsWith('git {index}')"));
    let pattern = each(&mut kept, |index| format!("params.command.matches('^rm -(r|f){index}+$')"));
    let large = each(&mut kept, |index| {
        format!(
            "tool == 'Bash' && params.command.startsWith('git {index}') && params.a{index}.matches('^mv -(r|f){index}+$') \
             || event in ['PreToolUse', 'PostToolUse'] && !has(params.x) && size(params.y) > {index}"
        )
    });
    println!("{plain} {pattern} {large} bytes each");
    assert!(plain < 1024 && pattern < 1024 && large < 3 * 1024, "{plain} {pattern} {large} bytes each");
}
