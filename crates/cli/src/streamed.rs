//! Prints the answer on stdout while it is generated.
//!
//! On a terminal each finished block of Markdown is printed laid out, and the unfinished one is redrawn with every word. Otherwise the text
//! is written as it comes. The stream is one call's text; the run's answer is authoritative. Usually they are equal, and then nothing is
//! printed twice. If they differ (another model had to take over), the complete answer follows.

use std::collections::BTreeSet;
use std::io::{IsTerminal as _, Write as _};

use engine::{FeedItem, TreeItem};
use graph::{Effect, Event, RunId, TaskId};

use crate::answer::Answer;
use crate::exit::Result;
use crate::markdown;

#[derive(Default)]
pub(crate) struct AnswerStream {
    /// Calls whose text is the answer.
    answering: BTreeSet<(RunId, TaskId)>,
    text: String,
    screen: Screen,
}

impl AnswerStream {
    /// Whether this is a delta of the answer.
    pub(crate) fn is_answer(&mut self, received: &TreeItem) -> bool {
        match &received.item {
            FeedItem::Event(numbered, _) => {
                if let Event::Asked { task, effect, .. } = &numbered.event
                    && let Effect::CallModel(call) = &**effect
                    && received.is_answer
                    && call.purpose == flows::ANSWER_CALL
                    && call.schema.is_none()
                    // An answer from evidence is checked and cited first, so it is shown once, when complete.
                    && !call.messages.iter().any(|message| message.role == models::evidence::ROLE)
                {
                    self.answering.insert((received.run.clone(), *task));
                }
                false
            }
            FeedItem::Delta { task, .. } => self.answering.contains(&(received.run.clone(), *task)),
        }
    }

    /// Whether the answer is printed on the screen where the view draws.
    pub(crate) fn shares_screen() -> bool {
        std::io::stdout().is_terminal()
    }

    pub(crate) fn print(&mut self, received: &TreeItem) -> Result<()> {
        if let FeedItem::Delta { text, .. } = &received.item {
            self.text.push_str(text);
            match Self::shares_screen() {
                true => self.screen.add(text)?,
                false => {
                    let mut out = anstream::stdout().lock();
                    out.write_all(evidence::visible(text).as_bytes())?;
                    out.flush()?;
                }
            }
        }
        Ok(())
    }

    /// Ends the output of an interrupted stream.
    pub(crate) fn end_interrupted(&mut self) -> Result<()> {
        if Self::shares_screen() {
            return self.screen.end();
        }
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            writeln!(anstream::stdout())?;
        }
        Ok(())
    }

    /// Prints the rest, so that the whole answer is printed once.
    pub(crate) fn complete(&mut self, answer: &Answer) -> Result<()> {
        self.end_interrupted()?;
        match self.text.trim() {
            "" => answer.print(),
            streamed if streamed == answer.text.trim() => Ok(()),
            _ => {
                writeln!(anstream::stdout())?;
                answer.print()
            }
        }
    }
}

/// The terminal's part of the stream.
#[derive(Default)]
struct Screen {
    /// The unfinished block.
    open: String,
    /// Rows occupied by it.
    drawn: usize,
    has_blocks: bool,
}

/// Rows kept free below the drawn block, so that erasing stays within the screen.
const ROWS_FREE: usize = 2;
const ROWS_DEFAULT: usize = 24;

impl Screen {
    fn add(&mut self, text: &str) -> Result<()> {
        self.open.push_str(text);
        let finished = finished_bytes(&self.open);
        let done: String = self.open.drain(..finished).collect();
        let mut shown = self.erased();
        shown.push_str(&self.block(&done));
        let rows = terminal_size::terminal_size().map_or(ROWS_DEFAULT, |(_, height)| usize::from(height.0)).saturating_sub(ROWS_FREE).max(1);
        let gap = if self.has_blocks { "\n" } else { "" };
        let open = format!("{gap}{}", markdown::render(&self.open, markdown::terminal_width(), &[]));
        let lines: Vec<&str> = if self.open.trim().is_empty() { Vec::new() } else { open.lines().collect() };
        let last = &lines[lines.len().saturating_sub(rows)..];
        // Without wrapping a long line is one row, so that the right number of rows is erased.
        shown.push_str("\x1b[?7l");
        last.iter().for_each(|line| shown.push_str(&format!("{line}\n")));
        shown.push_str("\x1b[?7h");
        self.drawn = last.len();
        write(&shown)
    }

    fn end(&mut self) -> Result<()> {
        let open = std::mem::take(&mut self.open);
        let shown = format!("{}{}", self.erased(), self.block(&open));
        self.drawn = 0;
        write(&shown)
    }

    /// A finished block, after an empty line if others precede it.
    fn block(&mut self, markdown: &str) -> String {
        if markdown.trim().is_empty() {
            return String::new();
        }
        let gap = if std::mem::replace(&mut self.has_blocks, true) { "\n" } else { "" };
        format!("{gap}{}\n", markdown::render(markdown, markdown::terminal_width(), &[]))
    }

    fn erased(&self) -> String {
        if self.drawn == 0 { String::new() } else { format!("\x1b[{}A\r\x1b[J", self.drawn) }
    }
}

/// Cursor movements are kept; only colours are removed where not supported.
fn write(text: &str) -> Result<()> {
    let has_colours = anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never;
    let mut out = std::io::stdout().lock();
    match (has_colours, text.split_once("\x1b[J")) {
        (true, _) => out.write_all(text.as_bytes())?,
        (false, Some((moves, rest))) => write!(out, "{moves}\x1b[J{}", anstream::adapter::strip_str(rest))?,
        (false, None) => write!(out, "{}", anstream::adapter::strip_str(text))?,
    }
    Ok(out.flush()?)
}

/// The number of bytes in complete blocks: up to the last empty line followed by an unindented line, outside a code fence. A list item may
/// continue after an empty line, so a list is one block.
fn finished_bytes(text: &str) -> usize {
    let (mut at, mut finished) = (0, 0);
    let (mut is_fenced, mut was_empty, mut is_list) = (false, false, false);
    for line in text.split_inclusive('\n') {
        let begins = line.trim_start();
        let is_item = begins.starts_with(['-', '*', '+']) || begins.starts_with(|first: char| first.is_ascii_digit());
        let is_at_margin = !begins.is_empty() && line.len() == begins.len();
        if !is_fenced && was_empty && is_at_margin && !(is_list && is_item) {
            finished = at;
            is_list = is_item;
        }
        is_list |= at == 0 && is_item;
        if begins.starts_with("```") || begins.starts_with("~~~") {
            is_fenced = !is_fenced;
        }
        was_empty = begins.is_empty();
        at += line.len();
    }
    finished
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_finished_when_another_begins() {
        for (text, finished) in [
            ("One.", 0),
            ("One.\n\n", 0),
            ("One.\n\nT", 6),
            ("One.\n\nTwo.\n\nThree", 12),
            ("```\na\n\nb", 0),
            ("```\na\n\nb\n```\n\nc", 14),
            ("- a\n\n  b\n\n- c", 0),
            ("- a\n\nText", 5),
        ] {
            assert_eq!(finished_bytes(text), finished, "{text:?}");
        }
    }

    #[test]
    fn the_open_block_is_drawn_over_itself() {
        let mut screen = Screen { drawn: 2, ..Screen::default() };
        assert_eq!(screen.erased(), "\x1b[2A\r\x1b[J");
        assert_eq!((screen.block("**a**"), screen.block("b")), (format!("{}\n", terminal::paint(terminal::BOLD, "a")), "\nb\n".to_owned()));
    }
}
