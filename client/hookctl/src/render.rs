//! What a person sees: colours, tables, words.

pub(crate) mod admin;
pub(crate) mod decision;
mod diff;
#[cfg(test)]
pub(crate) mod sample;

use std::time::Duration;

use hookd_agents::plain::word_of;
use hookd_client::proto::Tier;

/// Longest text in a column that is not the last one of a table, in characters.
const LONGEST_CELL: usize = 60;
/// Longest text in the last column.
const LONGEST_LAST_CELL: usize = 160;

/// Writes colours, or leaves them out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paint {
    colour: bool,
}

/// What a colour says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ink {
    Plain,
    Good,
    Warn,
    Bad,
    Dim,
    Strong,
}

/// Rows under headings, as wide as they need to be, two spaces apart.
#[derive(Debug)]
pub(crate) struct Table {
    heads: Vec<&'static str>,
    rows: Vec<Vec<(String, Ink)>>,
}

impl Paint {
    pub(crate) fn new(colour: bool) -> Self {
        Self { colour }
    }

    pub(crate) fn with(self, ink: Ink, text: &str) -> String {
        let code = match ink {
            _ if !self.colour || text.is_empty() => return text.to_owned(),
            Ink::Plain => return text.to_owned(),
            Ink::Good => "32",
            Ink::Warn => "33",
            Ink::Bad => "1;31",
            Ink::Dim => "2",
            Ink::Strong => "1",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

impl Table {
    pub(crate) fn new(heads: &[&'static str]) -> Self {
        Self { heads: heads.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = (String, Ink)>) {
        let last = self.heads.len().saturating_sub(1);
        let fit = |(at, (text, ink)): (usize, (String, Ink))| {
            (cut(&plain(&text), if at == last { LONGEST_LAST_CELL } else { LONGEST_CELL }), ink)
        };
        self.rows.push(cells.into_iter().enumerate().map(fit).collect());
    }

    /// The lines, with an empty one after them. Empty where there is no row. A column without any text is left out.
    pub(crate) fn text(&self, paint: Paint) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let width = |at: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(at)).map(|(text, _)| text.chars().count());
            cells.max().unwrap_or_default()
        };
        let widths = (0..self.heads.len()).map(width).collect::<Vec<_>>();
        let heads = self.heads.iter().map(|head| ((*head).to_owned(), Ink::Dim)).collect::<Vec<_>>();
        let mut text = String::new();
        for row in std::iter::once(&heads).chain(&self.rows) {
            let mut line = String::new();
            let mut gap = 0_usize;
            for (((cell, ink), width), head) in row.iter().zip(&widths).zip(&self.heads) {
                if *width == 0 {
                    continue;
                }
                if !cell.is_empty() {
                    line.push_str(&" ".repeat(gap));
                    gap = 0;
                }
                line.push_str(&paint.with(*ink, cell));
                let wide = (*width).max(head.chars().count());
                gap = gap.saturating_add(wide.saturating_sub(cell.chars().count())).saturating_add(2);
            }
            text.push_str(&format!("  {line}\n"));
        }
        text.push('\n');
        text
    }
}

/// `text` on one line and without anything that moves a terminal: it comes from rules and tools.
pub(crate) fn plain(text: &str) -> String {
    let words = text.trim().split(['\n', '\r', '\t']).map(str::trim_end).collect::<Vec<_>>().join(" ");
    words.chars().map(|c| if is_harmless(c) { c } else { '\u{fffd}' }).collect()
}

/// The lines of `text`, each made as harmless as by [`plain`].
pub(crate) fn lines(text: &str) -> impl Iterator<Item = String> + '_ {
    text.trim_end().lines().map(|line| {
        let line = line.replace('\t', "    ");
        line.chars().map(|c| if is_harmless(c) { c } else { '\u{fffd}' }).collect()
    })
}

/// A line of a file as it is, but for what would move a terminal.
pub(crate) fn harmless(line: &str) -> String {
    line.chars().map(|c| if c == '\t' || is_harmless(c) { c } else { '\u{fffd}' }).collect()
}

/// No control characters, and none that turn the direction of writing around.
fn is_harmless(c: char) -> bool {
    !c.is_control() && !matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

pub(crate) fn cut(text: &str, longest: usize) -> String {
    if text.chars().count() <= longest {
        return text.to_owned();
    }
    text.chars().take(longest.saturating_sub(1)).chain(['…']).collect()
}

/// `1 rule`, `2 rules`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// `850 µs`, `12.3 ms`, `1.20 s`.
pub(crate) fn time(elapsed: Duration) -> String {
    let micros = elapsed.as_micros();
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..1_000_000 => format!("{:.1} ms", elapsed.as_secs_f64() * 1e3),
        _ => format!("{:.2} s", elapsed.as_secs_f64()),
    }
}

/// The name of a tier number of the proto.
pub(crate) fn tier(tier: i32) -> String {
    Tier::try_from(tier).ok().and_then(|tier| word_of(tier.as_str_name())).unwrap_or_else(|| format!("tier {tier}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rules_say_cannot_move_the_terminal() {
        assert_eq!(plain("a\u{1b}[2J\r\nb\tc\u{202e}"), "a\u{fffd}[2J  b c\u{fffd}");
        assert_eq!(lines("a\u{7}\n\tb\n\n").collect::<Vec<_>>(), ["a\u{fffd}", "    b"]);
    }

    #[test]
    fn times_are_short() {
        let shown = [0, 850, 12_345, 1_204_000, 75_000_000].map(|micros| time(Duration::from_micros(micros)));
        assert_eq!(shown, ["0 µs", "850 µs", "12.3 ms", "1.20 s", "75.00 s"]);
    }

    #[test]
    fn colours_are_written_only_when_asked_for() {
        assert_eq!(Paint::new(true).with(Ink::Bad, "BLOCK"), "\u{1b}[1;31mBLOCK\u{1b}[0m");
        assert_eq!(Paint::new(false).with(Ink::Bad, "BLOCK"), "BLOCK");
    }
}
