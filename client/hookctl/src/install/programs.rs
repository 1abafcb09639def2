//! Cline's hooks: a folder of programs, each called as its event.

use crate::install::entry::{Wish, of_line};

const SHELL: &str = "#!/bin/sh\n";

/// The program for an event.
pub(super) fn program(wish: &Wish, event: &str) -> String {
    let line = wish.line(event);
    if wish.is_fail_closed && crate::install::agents::is_guard(wish.agent, event) {
        // What prints nothing lets the call run.
        let block = r#"{"cancel":true,"errorMessage":"hookd could not be asked"}"#;
        return format!("{SHELL}{line} ||\n    printf '%s\\n' '{block}'\n");
    }
    format!("{SHELL}exec {line}\n")
}

/// Whether a text is a program that install has written for the agent of `wish`.
pub(super) fn is_ours(wish: &Wish, text: &str) -> bool {
    let line = text.strip_prefix(SHELL).and_then(|rest| rest.lines().next()).unwrap_or_default();
    of_line(line.strip_prefix("exec ").unwrap_or(line)) == Some(wish.agent)
}
