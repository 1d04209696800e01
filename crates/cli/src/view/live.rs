//! A run's tree on stderr: final lines are printed; on a terminal, current activity is drawn below them and erased again.

use std::io::{IsTerminal as _, Write as _};

use engine::{FeedItem, TreeItem};
use graph::RunId;
use terminal::{CYAN, DIM, paint, spent, took};

use super::tree::{Open, Tree};
use crate::log;

pub(crate) struct Live {
    tree: Tree,
    /// Lines of the tree that were printed and are still in it.
    printed: usize,
    /// The end of the run was printed. Later reports of children would belong above lines that are printed already.
    is_complete: bool,
    /// Lines currently drawn.
    drawn: usize,
    is_terminal: bool,
    has_colours: bool,
    /// Something else is written to the screen, so nothing is drawn and lines are buffered.
    is_held: bool,
    _logs_wait: log::Hold,
}

const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const SPINNER_MS: u128 = 100;
/// More lines would scroll the screen.
const DRAWN_MAX: usize = 16;

impl Live {
    pub(crate) fn new(run: RunId) -> Self {
        let is_terminal = std::io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let has_colours = anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never;
        Live {
            tree: Tree::new(run),
            printed: 0,
            is_complete: false,
            drawn: 0,
            is_terminal,
            has_colours,
            is_held: false,
            _logs_wait: log::Hold::new(),
        }
    }

    pub(crate) fn see(&mut self, received: &TreeItem) {
        match &received.item {
            FeedItem::Event(numbered, _) => self.tree.see(&received.run, &numbered.event),
            FeedItem::Delta { task, text, .. } => self.tree.add_text(&received.run, *task, text),
        }
        if received.is_known {
            self.printed = self.last();
        }
        self.draw();
    }

    /// Prints lines that became final, and redraws the open ones.
    pub(crate) fn draw(&mut self) {
        if self.is_held || self.is_complete {
            return;
        }
        let begun = self.tree.started_at().elapsed();
        let spinner = SPINNER[(begun.as_millis() / SPINNER_MS) as usize % SPINNER.len()];
        let lines = self.tree.lines(Open::Live(spinner));
        let last = lines.iter().take_while(|line| line.is_final).count().max(self.printed);
        let (printed, open) = (lines.get(self.printed..last).unwrap_or_default(), lines.get(last..).unwrap_or_default());
        if !printed.is_empty() {
            let mut text = self.eraser();
            printed.iter().for_each(|line| text.push_str(&format!("{}\n", self.coloured(&line.text))));
            // A failure to show progress must not stop the work.
            let _ = std::io::stderr().lock().write_all(text.as_bytes());
            (self.printed, self.drawn) = (last, 0);
        }
        self.is_complete = self.tree.is_over();
        self.printed -= self.tree.forget(self.printed);
        if !self.is_terminal || (open.is_empty() && self.drawn == 0) {
            return;
        }
        let mut drawn: Vec<String> = open.iter().map(|line| line.text.clone()).collect();
        let rows_max = terminal_size::terminal_size().map_or(DRAWN_MAX, |(_, height)| usize::from(height.0).saturating_sub(3).clamp(1, DRAWN_MAX));
        if drawn.len() > rows_max {
            let more = drawn.len() - rows_max;
            drawn = drawn.split_off(more);
            drawn.insert(0, paint(DIM, format!("    … {more} more above")));
        }
        if !drawn.is_empty() {
            let cost = format!("{}  {}", took(begun.as_micros() as u64), spent(&self.tree.spent()));
            drawn.push(format!("{} {}", paint(CYAN, spinner), paint(DIM, cost)));
        }
        let mut text = self.eraser();
        // Without wrapping each line is one row, so that the right number of rows is erased.
        text.push_str("\x1b[?7l");
        drawn.iter().for_each(|line| text.push_str(&format!("{}\n", self.coloured(line))));
        text.push_str("\x1b[?7h");
        self.drawn = drawn.len();
        // Not through `anstream`, which would remove cursor movements with the colours.
        let _ = std::io::stderr().lock().write_all(text.as_bytes());
    }

    pub(crate) fn clear(&mut self) {
        if self.drawn > 0 {
            let _ = std::io::stderr().lock().write_all(self.eraser().as_bytes());
            self.drawn = 0;
        }
    }

    /// Stops drawing until `release`.
    pub(crate) fn hold(&mut self) {
        self.clear();
        self.is_held = true;
    }

    pub(crate) fn release(&mut self) {
        self.is_held = false;
        self.draw();
    }

    /// Whether no further events will come.
    pub(crate) fn is_finished(&self) -> bool {
        self.tree.is_finished()
    }

    fn last(&self) -> usize {
        self.tree.lines(Open::Still).iter().take_while(|line| line.is_final).count()
    }

    fn coloured(&self, line: &str) -> String {
        match self.has_colours {
            true => line.to_owned(),
            false => anstream::adapter::strip_str(line).to_string(),
        }
    }

    fn eraser(&self) -> String {
        match self.drawn {
            0 => String::new(),
            rows => format!("\x1b[{rows}A\r\x1b[J"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use graph::{Effect, Event, Key, ModelCall, NumberedEvent, Outcome, TaskId, child_run};

    use super::*;

    /// A cancelled run ends before its child: the child's open call is gone by then, and no line is printed twice.
    #[test]
    fn a_child_that_ends_after_its_parent_changes_nothing_on_the_screen() {
        let mut live = Live::new("parent".into());
        let child = child_run(Key::of(&"t".into(), &"parent".into(), TaskId { step: 0, index: 0 }));
        let mut seq = 0;
        let mut publish = |live: &mut Live, run: &RunId, event: Event| {
            seq += 1;
            let numbered = Arc::new(NumberedEvent { seq, event });
            live.see(&TreeItem {
                run: run.clone(),
                path: Arc::new([]),
                parent: None,
                item: FeedItem::Event(numbered, 0),
                is_known: false,
                is_answer: false,
            });
        };
        let parent = RunId::from("parent");
        let started = |run: &RunId, flow: &str| Event::Started { run: run.clone(), thread: "t".into(), flow: flow.into() };
        let asked = |label: &str, effect: Effect| Event::Asked {
            task: TaskId { step: 0, index: 0 },
            attempt: 1,
            label: label.into(),
            effect: Arc::new(effect),
            after_ms: 0,
        };
        let cancelled = || Event::Ended { outcome: Arc::new(Outcome::Cancelled { reason: "Ctrl-C".into() }) };
        publish(&mut live, &parent, started(&parent, "auto"));
        publish(&mut live, &parent, Event::Entered { step: 0, node: "run".into() });
        publish(&mut live, &parent, asked("direct", graph::agent("direct", serde_json::json!({}))));
        publish(&mut live, &child, started(&child, "direct"));
        publish(&mut live, &child, Event::Entered { step: 0, node: "answer".into() });
        publish(&mut live, &child, asked("answering", Effect::CallModel(ModelCall::default())));
        publish(&mut live, &parent, cancelled());
        let printed = live.printed;
        publish(&mut live, &child, cancelled());
        live.release();
        assert_eq!((live.printed, live.drawn), (printed, 0));
    }
}
