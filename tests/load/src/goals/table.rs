//! The goals as a table, for people and for a document.

use std::fmt::Write as _;

use super::{Outcome, Row};

/// For a terminal: a goal a paragraph, because what was measured is of any length.
pub(crate) fn human(outcome: &Outcome) -> String {
    let mut text = heading(outcome);
    for row in &outcome.rows {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n{:6}  {}\n        {}: {}\n", met(row), row.measure, row.goal, row.measured);
    }
    text
}

/// A Markdown table.
pub(crate) fn markdown(outcome: &Outcome) -> String {
    let mut text = heading(outcome);
    text.push_str("\n| Measure | Goal | Measured | Met |\n|---|---|---|---|\n");
    for row in &outcome.rows {
        let _ =
            writeln!(text, "| {} | {} | {} | {} |", row.measure, row.goal, row.measured.replace('|', "\\|"), met(row));
    }
    text
}

fn heading(outcome: &Outcome) -> String {
    format!(
        "{}: medians of {} rounds in turns, {} s each, on {} processors that servers and load generator share, load \
         average before it {:.2}.\n",
        outcome.hookd, outcome.rounds, outcome.duration_s, outcome.processors, outcome.load_average
    )
}

fn met(row: &Row) -> &'static str {
    match row.met {
        Some(true) => "met",
        Some(false) => "missed",
        None => "–",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goals::Goal;

    fn outcome() -> Outcome {
        Outcome {
            hookd: "hookd 0.1.0".to_owned(),
            rounds: 5,
            duration_s: 2.0,
            processors: 2,
            load_average: 0.5,
            rows: vec![
                Row::new("calls/s", Goal::AtLeast(0.8), 0.75, "0.750 (60000 /s to 80000)".to_owned()),
                Row::new("memory, MiB", Goal::AtMost(22.0), 9.0, "9.0".to_owned()),
                Row::not_measured("p99", Goal::AtMost(0.2), "opa: a | b"),
            ],
            comparison: None,
        }
    }

    const HEADING: &str = "\
hookd 0.1.0: medians of 5 rounds in turns, 2 s each, on 2 processors that servers and load generator share, load average \
before it 0.50.
";

    #[test]
    fn people_get_a_paragraph_for_each_goal() {
        let expected = "
missed  calls/s
        at least 0.8: 0.750 (60000 /s to 80000)

met     memory, MiB
        at most 22: 9.0

–       p99
        at most 0.2: not measured: opa: a | b
";
        assert_eq!(human(&outcome()), format!("{HEADING}{expected}"));
    }

    #[test]
    fn documents_get_markdown() {
        let expected = "
| Measure | Goal | Measured | Met |
|---|---|---|---|
| calls/s | at least 0.8 | 0.750 (60000 /s to 80000) | missed |
| memory, MiB | at most 22 | 9.0 | met |
| p99 | at most 0.2 | not measured: opa: a \\| b | – |
";
        assert_eq!(markdown(&outcome()), format!("{HEADING}{expected}"));
    }

    #[test]
    fn machines_get_stable_keys() {
        let json = serde_json::to_value(outcome()).unwrap();
        let keys = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&json), ["hookd", "rounds", "duration_s", "processors", "load_average", "rows"]);
        assert_eq!(keys(&json["rows"][0]), ["measure", "goal", "measured", "value", "met"]);
        assert_eq!(keys(&json["rows"][2]), ["measure", "goal", "measured"]);
    }
}
