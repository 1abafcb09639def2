//! A comparison as a table, for people and for a document.

use std::fmt::Write as _;

use super::{Comparison, Measured, Way};
use crate::turns::{Medians, Ratios};

const HEADS: [&str; 8] = ["answers/s", "p50 µs", "p99 µs", "p99.9 µs", "max µs", "CPU µs/call", "RSS MiB", "errors"];

/// Columns in line, for a terminal.
pub(crate) fn human(comparison: &Comparison) -> String {
    let mut text = heading(comparison);
    for way in &comparison.ways {
        let rows = rows(way);
        let longest = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
        let width = |column: usize| {
            let cells = rows.iter().filter_map(|(_, cells)| cells.get(column)).map(|cell| cell.chars().count());
            cells.chain(HEADS.get(column).map(|head| head.chars().count())).max().unwrap_or_default()
        };
        // Writing to a string cannot fail.
        let _ = write!(text, "\n{}\n  {:longest$}", way.name, "");
        for (column, head) in HEADS.iter().enumerate() {
            let _ = write!(text, "  {head:>0$}", width(column));
        }
        for (name, cells) in &rows {
            let _ = write!(text, "\n  {name:longest$}");
            for (column, cell) in cells.iter().enumerate() {
                let _ = write!(text, "  {cell:>0$}", width(column));
            }
        }
        text.push('\n');
        for line in errors(way) {
            let _ = writeln!(text, "  {line}");
        }
    }
    text
}

/// A Markdown table for each way of loading.
pub(crate) fn markdown(comparison: &Comparison) -> String {
    let mut text = heading(comparison);
    for way in &comparison.ways {
        let mut name = way.name.clone();
        if let Some(first) = name.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        let _ = write!(text, "\n{name}:\n\n| | {} |\n|---|{}\n", HEADS.join(" | "), "---:|".repeat(HEADS.len()));
        for (name, cells) in rows(way) {
            let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
        }
        for line in errors(way) {
            let _ = writeln!(text, "\n{line}");
        }
    }
    text
}

fn heading(comparison: &Comparison) -> String {
    let environment = match comparison.environment.as_slice() {
        [] => String::new(),
        variables => format!(" with {}", variables.join(" ")),
    };
    let tls = if comparison.tls { " over TLS 1.3" } else { "" };
    let mut text = format!(
        "{}{tls}{environment}: {} rules in three tiers, beside a bare tonic echo server with messages of the same sizes \
         ({:.0} bytes in, {:.0} bytes out).\nMedians of {} rounds in turns, {} s each; servers and load generator share \
         {} processors, load average before it {:.2}. The last rows are the medians of each round's ratio.\n",
        comparison.hookd,
        comparison.rules,
        comparison.request_bytes,
        comparison.reply_bytes,
        comparison.rounds,
        comparison.duration_s,
        comparison.processors,
        comparison.load_average,
    );
    for skipped in &comparison.skipped {
        let _ = writeln!(text, "Not asked: {skipped}.");
    }
    text
}

/// A row for each server, then one for each ratio.
fn rows(way: &Way) -> Vec<(String, Vec<String>)> {
    let servers = way.servers.iter().map(|server| (server.name.clone(), cells(&server.medians)));
    let ratios = way.ratios.iter().map(|ratio| (format!("hookd / {}", ratio.to), ratio_cells(&ratio.ratios)));
    servers.chain(ratios).collect()
}

fn errors(way: &Way) -> impl Iterator<Item = String> {
    let of = |server: &Measured| {
        server.medians.first_error.as_ref().map(|error| format!("first error of {}: {error}", server.name))
    };
    way.servers.iter().filter_map(of)
}

fn cells(medians: &Medians) -> Vec<String> {
    vec![
        format!("{:.0}", medians.answers_per_s),
        format!("{:.0}", medians.p50_us),
        format!("{:.0}", medians.p99_us),
        format!("{:.0}", medians.p99_9_us),
        format!("{:.0}", medians.max_us),
        format!("{:.1}", medians.cpu_us),
        format!("{:.1}", medians.rss_mib),
        medians.errors.to_string(),
    ]
}

fn ratio_cells(ratios: &Ratios) -> Vec<String> {
    let figure = |figure: f64| format!("{figure:.3}");
    let none = || "–".to_owned();
    let (rate, p50, p99) = (figure(ratios.answers_per_s), figure(ratios.p50), figure(ratios.p99));
    vec![rate, p50, p99, none(), none(), figure(ratios.cpu), none(), none()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Compared;

    fn comparison() -> Comparison {
        let server = |name: &str, answers_per_s, p99_us, error: Option<&str>| Measured {
            name: name.to_owned(),
            medians: Medians {
                answers_per_s,
                p50_us: 104.4,
                p99_us,
                p99_9_us: 1500.0,
                max_us: 20_000.0,
                cpu_us: 46.74,
                rss_mib: 5.25,
                errors: error.map_or(0, |_| 3),
                first_error: error.map(str::to_owned),
            },
        };
        let ratios = |to: &str, answers_per_s| Compared {
            to: to.to_owned(),
            ratios: Ratios { answers_per_s, p50: 1.25, p99: 2.0, cpu: 1.1 },
        };
        let way = Way {
            key: "closed_1",
            name: "closed loop, 1 in flight on 1 connection".to_owned(),
            servers: vec![
                server("echo", 9429.0, 192.0, None),
                server("hookd", 4714.5, 384.0, None),
                server("engine 1.2.3", 471.0, 3840.0, Some("UNAVAILABLE: gone")),
            ],
            ratios: vec![ratios("echo", 0.5), ratios("engine 1.2.3", 10.01)],
        };
        Comparison {
            hookd: "hookd 0.1.0".to_owned(),
            rules: 50,
            rounds: 5,
            duration_s: 2.5,
            request_bytes: 511.25,
            reply_bytes: 300.0,
            processors: 2,
            load_average: 0.25,
            tls: false,
            environment: vec!["A=b".to_owned()],
            skipped: vec!["other: skipped: no compiler".to_owned()],
            ways: vec![way],
        }
    }

    const HEADING: &str = "\
hookd 0.1.0 with A=b: 50 rules in three tiers, beside a bare tonic echo server with messages of the same sizes \
(511 bytes in, 300 bytes out).
Medians of 5 rounds in turns, 2.5 s each; servers and load generator share 2 processors, load average before it 0.25. \
The last rows are the medians of each round's ratio.
Not asked: other: skipped: no compiler.
";

    #[test]
    fn people_get_columns() {
        let table = "
closed loop, 1 in flight on 1 connection
                        answers/s  p50 µs  p99 µs  p99.9 µs  max µs  CPU µs/call  RSS MiB  errors
  echo                       9429     104     192      1500   20000         46.7      5.2       0
  hookd                      4714     104     384      1500   20000         46.7      5.2       0
  engine 1.2.3                471     104    3840      1500   20000         46.7      5.2       3
  hookd / echo              0.500   1.250   2.000         –       –        1.100        –       –
  hookd / engine 1.2.3     10.010   1.250   2.000         –       –        1.100        –       –
  first error of engine 1.2.3: UNAVAILABLE: gone
";
        assert_eq!(human(&comparison()), format!("{HEADING}{table}"));
    }

    #[test]
    fn tls_is_said() {
        let text = human(&Comparison { tls: true, ..comparison() });
        assert!(text.starts_with("hookd 0.1.0 over TLS 1.3 with A=b: 50 rules"), "{text}");
    }

    #[test]
    fn documents_get_markdown() {
        let table = "
Closed loop, 1 in flight on 1 connection:

| | answers/s | p50 µs | p99 µs | p99.9 µs | max µs | CPU µs/call | RSS MiB | errors |
|---|---:|---:|---:|---:|---:|---:|---:|---:|
| echo | 9429 | 104 | 192 | 1500 | 20000 | 46.7 | 5.2 | 0 |
| hookd | 4714 | 104 | 384 | 1500 | 20000 | 46.7 | 5.2 | 0 |
| engine 1.2.3 | 471 | 104 | 3840 | 1500 | 20000 | 46.7 | 5.2 | 3 |
| hookd / echo | 0.500 | 1.250 | 2.000 | – | – | 1.100 | – | – |
| hookd / engine 1.2.3 | 10.010 | 1.250 | 2.000 | – | – | 1.100 | – | – |

first error of engine 1.2.3: UNAVAILABLE: gone
";
        assert_eq!(markdown(&comparison()), format!("{HEADING}{table}"));
    }

    #[test]
    fn machines_get_stable_keys() {
        let json = serde_json::to_value(comparison()).unwrap();
        let keys = |pointer: &str| json.pointer(pointer).unwrap().as_object().unwrap().keys().collect::<Vec<_>>();
        assert_eq!(keys("/ways/0"), ["key", "name", "servers", "ratios"]);
        let figures = ["answers_per_s", "p50_us", "p99_us", "p99.9_us", "max_us", "cpu_us", "rss_mib", "errors"];
        assert_eq!(keys("/ways/0/servers/0"), [&["name"], &figures[..]].concat());
        assert_eq!(keys("/ways/0/servers/2"), [&["name"], &figures[..], &["first_error"]].concat());
        assert_eq!(keys("/ways/0/ratios/1"), ["to", "answers_per_s", "p50", "p99", "cpu"]);
    }
}
