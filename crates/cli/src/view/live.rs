//! Lines on stderr as they come; on a terminal, with what is going on right now drawn below them and taken away again.

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _};
use std::time::Instant;

use engine::Seen;
use graph::TaskId;

use super::lines::{Lines, under};
use crate::text::{CYAN, DIM, one_line, paint, took};

pub(crate) struct Live {
    lines: Lines,
    /// Events before this one were seen by somebody before; they are read, but not printed.
    known_seq: u64,
    since: BTreeMap<TaskId, Instant>,
    /// The end of what a model is saying.
    saying: BTreeMap<TaskId, String>,
    is_terminal: bool,
    has_colours: bool,
    drawn: usize,
}

/// More than this moves the screen about.
const DRAWN_MAX: usize = 10;
const SAYING_CHARS_MAX: usize = 60;

impl Live {
    pub(crate) fn new() -> Self {
        let is_terminal = std::io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let has_colours = anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never;
        Live { lines: Lines::default(), known_seq: 0, since: BTreeMap::new(), saying: BTreeMap::new(), is_terminal, has_colours, drawn: 0 }
    }

    pub(crate) fn skip_to(&mut self, seq: u64) {
        self.known_seq = seq;
    }

    pub(crate) fn see(&mut self, seen: &Seen) {
        match seen {
            Seen::Told(told) => {
                let lines = self.lines.of(&told.event);
                self.since.retain(|task, _| self.lines.open.contains_key(task));
                for task in self.lines.open.keys() {
                    self.since.entry(*task).or_insert_with(Instant::now);
                }
                self.saying.retain(|task, _| self.lines.open.contains_key(task));
                if told.seq >= self.known_seq && !lines.is_empty() {
                    self.clear();
                    let mut err = anstream::stderr().lock();
                    // A progress view that cannot be shown is no reason to stop the work.
                    lines.iter().for_each(|line| drop(writeln!(err, "{line}")));
                }
            }
            Seen::Delta { task, text, .. } => {
                let saying = self.saying.entry(*task).or_default();
                saying.push_str(text);
                let over = saying.chars().count().saturating_sub(SAYING_CHARS_MAX);
                *saying = saying.chars().skip(over).collect();
            }
        }
        self.draw();
    }

    /// Draws what is open now over what was drawn before.
    pub(crate) fn draw(&mut self) {
        if !self.is_terminal {
            return;
        }
        let open = self.lines.open.iter().filter(|(_, open)| !open.effect.is_for_a_person());
        let mut lines: Vec<String> = open
            .map(|(task, open)| {
                let time = self.since.get(task).map_or(0, |since| since.elapsed().as_micros() as u64);
                let saying = self.saying.get(task).map(|text| one_line(text, SAYING_CHARS_MAX)).unwrap_or_default();
                under(&paint(CYAN, "…"), &format!("{}  {}  {}", open.label, paint(DIM, took(time)), paint(DIM, saying)))
            })
            .collect();
        if lines.len() > DRAWN_MAX {
            let more = lines.len() - DRAWN_MAX;
            lines.truncate(DRAWN_MAX);
            lines.push(under(&paint(CYAN, "…"), &paint(DIM, format!("and {more} more"))));
        }
        if lines.is_empty() && self.drawn == 0 {
            return;
        }
        let mut text = self.eraser();
        // Without wrapping a line is one row however narrow the terminal is, so that the right number of rows is erased.
        text.push_str("\x1b[?7l");
        for line in &lines {
            match self.has_colours {
                true => text.push_str(line),
                false => text.push_str(&anstream::adapter::strip_str(line).to_string()),
            }
            text.push('\n');
        }
        text.push_str("\x1b[?7h");
        self.drawn = lines.len();
        // Not through `anstream`, which would take the moves away with the colours. Failing is not worth stopping for.
        let _ = std::io::stderr().lock().write_all(text.as_bytes());
    }

    pub(crate) fn clear(&mut self) {
        if self.drawn > 0 {
            let _ = std::io::stderr().lock().write_all(self.eraser().as_bytes());
            self.drawn = 0;
        }
    }

    fn eraser(&self) -> String {
        match self.drawn {
            0 => String::new(),
            rows => format!("\x1b[{rows}A\r\x1b[J"),
        }
    }
}
