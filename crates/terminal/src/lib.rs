//! Terminal output of the command line: colours, ids, times, sums, tables and remarks.

#![warn(missing_docs)]

use std::io::Write as _;

use anstyle::{AnsiColor, Style};
use graph::{RunId, Usage};

/// Headings and names.
pub const BOLD: Style = Style::new().bold();
/// Secondary text: ids, times, table headers.
pub const DIM: Style = Style::new().dimmed();
/// Success.
pub const GREEN: Style = AnsiColor::Green.on_default();
/// Failure.
pub const RED: Style = AnsiColor::Red.on_default();
/// Warnings and questions to the user.
pub const YELLOW: Style = AnsiColor::Yellow.on_default();
/// Names of flows, models and tools.
pub const CYAN: Style = AnsiColor::Cyan.on_default();

/// Print only through `anstream`, which removes colours where they are not supported.
pub fn paint(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// A line on stderr.
pub fn remark(words: &str) {
    // Without stderr there is nowhere to report to.
    let _ = writeln!(anstream::stderr(), "{words}");
}

/// An id in two parts. It begins with a time, so recent runs have the same beginning and differ at the end.
pub fn short(run: &RunId) -> (&str, &str) {
    const TAIL: usize = 8;
    let id = run.as_str();
    match id.len().checked_sub(TAIL).filter(|&at| id.is_char_boundary(at)) {
        Some(at) => id.split_at(at),
        None => ("", id),
    }
}

/// The last eight characters of an id, by which users name a run.
pub fn tail(run: &RunId) -> &str {
    short(run).1
}

/// The system clock in milliseconds since 1970.
pub fn now_ms() -> i64 {
    std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_millis() as i64)
}

/// `just now` or `5 min ago`.
pub fn ago(at_ms: i64, now_ms: i64) -> String {
    match age(at_ms, now_ms).as_str() {
        "now" => "just now".to_owned(),
        age => format!("{age} ago"),
    }
}

/// The time since `at_ms` in its largest unit: `now`, `5 s`, `2 h`.
pub fn age(at_ms: i64, now_ms: i64) -> String {
    let s = now_ms.saturating_sub(at_ms) / 1_000;
    match s {
        ..1 => "now".into(),
        1..60 => format!("{s} s"),
        60..3_600 => format!("{} min", s / 60),
        3_600..86_400 => format!("{} h", s / 3_600),
        86_400.. => format!("{} d", s / 86_400),
    }
}

/// A duration in microseconds, with the unit that fits: `1.5 ms`, `1 min 1 s`.
pub fn took(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..10_000 => format!("{:.1} ms", us as f64 / 1e3),
        10_000..1_000_000 => format!("{} ms", us / 1_000),
        1_000_000..60_000_000 => format!("{:.1} s", us as f64 / 1e6),
        60_000_000.. => format!("{} min {} s", us / 60_000_000, us / 1_000_000 % 60),
    }
}

/// A size with a decimal unit: `5.0 kB`.
pub fn bytes(n: u64) -> String {
    match n {
        0..1_000 => format!("{n} B"),
        1_000..1_000_000 => format!("{:.1} kB", n as f64 / 1e3),
        1_000_000.. => format!("{:.1} MB", n as f64 / 1e6),
    }
}

/// Calls, tokens and cost of a run; what is zero is omitted.
pub fn spent(usage: &Usage) -> String {
    let calls = count(usage.calls, "call", "calls");
    let tokens = match usage.tokens() {
        0 => String::new(),
        tokens => format!(", {tokens} tokens ({} in, {} out)", usage.tokens_in, usage.tokens_out),
    };
    let usd = match usage.usd_micros {
        0 => String::new(),
        micros => format!(", ${:.4}", micros as f64 / 1e6),
    };
    format!("{calls}{tokens}{usd}")
}

/// A number and its noun, in the singular for 1.
pub fn count(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// On one line and not too long. Escapes and invisible characters are removed, so that untrusted text cannot move the cursor.
pub fn one_line(text: &str, chars_max: usize) -> String {
    let text = evidence::visible(text);
    let mut words = text.split_whitespace();
    let mut line = String::new();
    let mut chars = 0;
    words.try_for_each(|word| {
        let space = usize::from(!line.is_empty());
        chars += space + word.chars().count();
        line.extend(std::iter::repeat_n(' ', space));
        line.push_str(word);
        (chars <= chars_max).then_some(())
    });
    match chars > chars_max {
        true => line.chars().take(chars_max.saturating_sub(1)).chain(['…']).collect(),
        false => line,
    }
}

/// Columns as wide as their widest cell; the last one has no limit.
pub struct Table {
    rows: Vec<Vec<(Style, String)>>,
}

impl Table {
    /// A table with this header.
    pub fn new(head: &[&str]) -> Self {
        Table { rows: vec![head.iter().map(|&name| (DIM, name.to_owned())).collect()] }
    }

    /// Adds a row; each cell has its own style.
    pub fn row(&mut self, cells: impl IntoIterator<Item = (Style, String)>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Writes all rows, with two spaces between columns.
    pub fn write(&self, out: &mut impl std::io::Write) -> std::io::Result<()> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |at: usize| self.rows.iter().filter_map(|row| row.get(at)).map(|(_, text)| text.chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            for (at, (style, text)) in row.iter().enumerate() {
                let is_last = at + 1 == row.len();
                let pad = if is_last { 0 } else { widths[at] - text.chars().count() + 2 };
                write!(out, "{style}{text}{style:#}{:pad$}", "")?;
            }
            writeln!(out)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_stay_lines() {
        for (text, chars_max, line) in
            [("a\nb\u{1b}[2J  c", 20, "a b c"), ("änderung", 4, "änd…"), ("", 5, ""), ("one two", 7, "one two"), ("x", 0, "…")]
        {
            assert_eq!(one_line(text, chars_max), line);
        }
    }

    #[test]
    fn times_and_sums_are_short() {
        assert_eq!([7, 1_500, 25_000, 2_500_000, 61_000_000].map(took), ["7 µs", "1.5 ms", "25 ms", "2.5 s", "1 min 1 s"]);
        assert_eq!([0, 5_000, 61_000, 7_200_000, 200_000_000].map(|ms| age(0, ms)), ["now", "5 s", "1 min", "2 h", "2 d"]);
        assert_eq!([0, 61_000].map(|ms| ago(0, ms)), ["just now", "1 min ago"]);
        assert_eq!([5, 5_000, 5_100_000].map(bytes), ["5 B", "5.0 kB", "5.1 MB"]);
        let usage = Usage { calls: 2, tokens_in: 10, tokens_out: 1, usd_micros: 4_200 };
        assert_eq!(spent(&usage), "2 calls, 11 tokens (10 in, 1 out), $0.0042");
    }

    #[test]
    fn the_end_of_an_id_is_highlighted() {
        assert_eq!(short(&RunId::from("0190aaaabbbbcccc")), ("0190aaaa", "bbbbcccc"));
        assert_eq!(short(&RunId::from("r1")), ("", "r1"));
    }
}
