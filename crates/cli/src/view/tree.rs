//! A run as a tree of lines: its steps, in them the effects and their results, and under a child the child's own steps.
//!
//! ```text
//! run 1f3a9c2e auto
//!   0 choose
//!     → search  it asks for facts
//!   1 run
//!     ▸ search
//!           1 plan
//!             ✓ planning  2.1 s
//!             · 1. docs.search {"query": "crash"}
//!           2 execute
//!             ⠹ searching the documents  0.4 s
//!     ⠹ search  2.6 s
//! ```
//!
//! Lines come in the order of the tree and not of time. A line is final when it will not change any more and no line will come before it; a
//! view prints the final ones at the top for good and draws the others over and over.

use std::sync::Arc;
use std::time::Instant;

use graph::{Effect, Event, Key, Outcome, Reply, RunId, TaskId, ThreadId, Usage, child_run};
use terminal::{BOLD, CYAN, DIM, GREEN, RED, YELLOW, one_line, paint, tail, took};

use super::notes;

pub(crate) struct Tree {
    run: RunId,
    thread: Option<ThreadId>,
    flow: String,
    steps: Vec<Step>,
    end: Option<Arc<Outcome>>,
    begun: Instant,
    /// Its first line was dropped.
    is_headed: bool,
    /// Usage of steps that were dropped.
    spent_before: Usage,
}

struct Step {
    number: u64,
    node: String,
    items: Vec<Item>,
}

enum Item {
    Line(String),
    Task(Box<Task>),
}

struct Task {
    id: TaskId,
    label: String,
    effect: Arc<Effect>,
    attempt: u32,
    since: Instant,
    /// The end of the text that a model is generating.
    saying: String,
    /// Lines before its end: failed attempts and doubts.
    before: Vec<String>,
    /// The line about its end.
    end: Option<String>,
    /// Usage reported by its replies, in addition to the calls.
    usage: Usage,
    answered: u64,
    child: Option<Tree>,
}

pub(crate) struct Line {
    pub(crate) text: String,
    pub(crate) is_final: bool,
}

/// How open calls are drawn.
#[derive(Clone, Copy)]
pub(crate) enum Open<'a> {
    /// With a spinner and the elapsed time.
    Live(&'a str),
    /// Without a reply, and not driven by a visible process.
    Still,
}

const NOTE_CHARS_MAX: usize = 90;
const LABEL_CHARS_MAX: usize = 60;
const SAYING_CHARS_MAX: usize = 60;
/// Indentation of a child relative to its parent.
const INDENT: usize = 6;

impl Tree {
    pub(crate) fn new(run: RunId) -> Tree {
        let (flow, steps, begun) = (String::new(), Vec::new(), Instant::now());
        Tree { run, thread: None, flow, steps, end: None, begun, is_headed: false, spent_before: Usage::default() }
    }

    /// Adds an event of the run or of a descendant. Events of other runs are ignored.
    pub(crate) fn see(&mut self, run: &RunId, event: &Event) {
        if let Some(tree) = self.find(run) {
            tree.take(event);
        }
    }

    pub(crate) fn add_text(&mut self, run: &RunId, task: TaskId, text: &str) {
        if let Some(task) = self.find(run).and_then(|tree| tree.task(task)) {
            task.saying.push_str(text);
            let over = task.saying.chars().count().saturating_sub(SAYING_CHARS_MAX);
            task.saying = task.saying.chars().skip(over).collect();
        }
    }

    /// All lines except those that were dropped.
    pub(crate) fn lines(&self, open: Open<'_>) -> Vec<Line> {
        let mut lines = Vec::new();
        if self.thread.is_some() && !self.is_headed {
            let head = format!("{} {} {}", paint(DIM, "run"), paint(BOLD, tail(&self.run)), paint(DIM, one_line(&self.flow, LABEL_CHARS_MAX)));
            lines.push(Line { text: head, is_final: true });
        }
        lines.extend(self.steps(open, self.is_over()));
        if let Some(outcome) = &self.end {
            lines.push(Line { text: ended(outcome), is_final: true });
            // Nothing more will come.
            lines.iter_mut().for_each(|line| line.is_final = true);
        }
        lines
    }

    /// Drops steps whose lines are all among the first `printed`, so that a long run stays cheap to show. Returns the number of lines
    /// dropped.
    pub(crate) fn forget(&mut self, printed: usize) -> usize {
        let mut gone = usize::from(printed > 0 && self.thread.is_some() && !self.is_headed);
        self.is_headed |= gone > 0;
        while self.steps.len() > 1 {
            let lines = self.steps[0].lines(Open::Still, false);
            if lines.len() + gone > printed || !lines.iter().all(|line| line.is_final) {
                break;
            }
            gone += lines.len();
            let step = self.steps.remove(0);
            self.spent_before = step.tasks().fold(self.spent_before, |sum, task| sum.plus(task.spent()));
        }
        gone
    }

    /// Usage so far, including children.
    pub(crate) fn spent(&self) -> Usage {
        self.tasks().fold(self.spent_before, |sum, task| sum.plus(task.spent()))
    }

    pub(crate) fn is_over(&self) -> bool {
        self.end.is_some()
    }

    /// Whether every run that has started has ended.
    pub(crate) fn is_finished(&self) -> bool {
        self.end.is_some() && self.tasks().filter_map(|task| task.child.as_ref()).all(Tree::is_finished)
    }

    pub(crate) fn started_at(&self) -> Instant {
        self.begun
    }

    fn find(&mut self, run: &RunId) -> Option<&mut Tree> {
        if self.run == *run {
            return Some(self);
        }
        let (thread, own) = (self.thread.clone()?, self.run.clone());
        for task in self.tasks_mut() {
            if task.child.is_none() && task.effect.kind() == "agent" && child_run(Key::of(&thread, &own, task.id)) == *run {
                task.child = Some(Tree::new(run.clone()));
            }
            if let Some(found) = task.child.as_mut().and_then(|child| child.find(run)) {
                return Some(found);
            }
        }
        None
    }

    fn tasks(&self) -> impl Iterator<Item = &Task> {
        self.steps.iter().flat_map(Step::tasks)
    }

    fn tasks_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut Task> {
        self.steps.iter_mut().flat_map(|step| &mut step.items).filter_map(|item| match item {
            Item::Task(task) => Some(&mut **task),
            Item::Line(_) => None,
        })
    }

    fn task(&mut self, id: TaskId) -> Option<&mut Task> {
        self.tasks_mut().rev().find(|task| task.id == id)
    }

    fn add(&mut self, item: Item) {
        match self.steps.last_mut() {
            Some(step) => step.items.push(item),
            None => self.steps.push(Step { number: 0, node: String::new(), items: vec![item] }),
        }
    }

    fn take(&mut self, event: &Event) {
        match event {
            Event::Started { thread, flow, .. } => (self.thread, self.flow) = (Some(thread.clone()), flow.to_string()),
            Event::Entered { step, node } => self.steps.push(Step { number: *step, node: node.to_string(), items: Vec::new() }),
            Event::Asked { task, attempt, label, effect, .. } => self.asked(*task, *attempt, label, effect),
            Event::Replied { task, attempt, reply, again_ms } => match self.task(*task) {
                None => self.add(Item::Line(replied(&task.to_string(), *attempt, reply, *again_ms))),
                Some(task) => {
                    task.usage = task.usage.plus(reply.usage);
                    task.answered += u64::from(!task.effect.is_for_a_person());
                    let line = replied(&task.label, *attempt, reply, *again_ms);
                    match again_ms {
                        Some(_) => task.before.push(line),
                        None => task.end = Some(line),
                    }
                }
            },
            Event::Skipped { task, failure } => {
                let why = paint(DIM, one_line(&failure.to_string(), NOTE_CHARS_MAX));
                let line = |label: &str| under(&paint(DIM, "–"), &format!("{label}  {why}"));
                match self.task(*task) {
                    Some(task) => task.end = Some(line(&task.label)),
                    None => self.add(Item::Line(line(&task.to_string()))),
                }
            }
            Event::Doubted { task, .. } => self.doubted(*task, "unknown whether this happened"),
            Event::Held { task, why, .. } => self.doubted(*task, why),
            Event::Noted { name, value, .. } => notes::lines(name, value).into_iter().for_each(|line| self.add(Item::Line(line))),
            Event::Edited { patch, .. } => {
                self.add(Item::Line(under(&paint(YELLOW, "±"), &format!("edited: {}", one_line(&patch.to_string(), NOTE_CHARS_MAX)))));
            }
            Event::Ended { outcome } => self.end = Some(outcome.clone()),
            Event::Said { .. } | Event::Left { .. } => {}
        }
    }

    fn asked(&mut self, id: TaskId, attempt: u32, label: &str, effect: &Arc<Effect>) {
        let label = match label.trim() {
            "" => format!("{} {}", effect.kind(), one_line(effect.name(), LABEL_CHARS_MAX)),
            label => one_line(label, LABEL_CHARS_MAX),
        };
        let since = Instant::now();
        match self.task(id) {
            Some(task) => (task.attempt, task.since, task.saying) = (attempt, since, String::new()),
            None => {
                let before = if effect.is_for_a_person() { vec![under(&paint(YELLOW, "?"), &label)] } else { Vec::new() };
                let (effect, saying, usage) = (effect.clone(), String::new(), Usage::default());
                let task = Task { id, label, effect, attempt, since, saying, before, end: None, usage, answered: 0, child: None };
                self.add(Item::Task(Box::new(task)));
            }
        }
    }

    fn doubted(&mut self, id: TaskId, words: &str) {
        let words = paint(YELLOW, one_line(words, NOTE_CHARS_MAX));
        if let Some(task) = self.task(id) {
            task.before.push(under(&paint(YELLOW, "?"), &format!("{}  {words}", task.label)));
        }
    }

    /// The steps, indented like those of a root run.
    fn steps(&self, open: Open<'_>, is_over: bool) -> impl Iterator<Item = Line> {
        self.steps.iter().flat_map(move |step| step.lines(open, is_over))
    }
}

impl Step {
    /// Empty while there is nothing in it.
    fn lines(&self, open: Open<'_>, is_over: bool) -> Vec<Line> {
        let last = |text: String| Line { text, is_final: true };
        let mut lines = Vec::new();
        if !self.node.is_empty() && !self.items.is_empty() {
            lines.push(last(format!("{} {}", paint(DIM, format!("{:>3}", self.number)), paint(BOLD, &self.node))));
        }
        for item in &self.items {
            match item {
                Item::Line(line) => lines.push(last(line.clone())),
                Item::Task(task) => lines.extend(task.lines(open, is_over)),
            }
        }
        lines
    }

    fn tasks(&self) -> impl Iterator<Item = &Task> {
        self.items.iter().filter_map(|item| match item {
            Item::Task(task) => Some(&**task),
            Item::Line(_) => None,
        })
    }
}

impl Task {
    /// A child's reply includes the child's usage, which is already counted.
    fn spent(&self) -> Usage {
        self.child.as_ref().map_or(self.usage, Tree::spent).plus(Usage { calls: self.answered, ..Usage::default() })
    }

    fn lines(&self, open: Open<'_>, is_over: bool) -> Vec<Line> {
        let last = |text: &String| Line { text: text.clone(), is_final: true };
        let mut lines: Vec<Line> = self.before.iter().map(last).collect();
        let child = self.child.as_ref().filter(|child| child.thread.is_some());
        if let Some(child) = child {
            lines.push(last(&under(&paint(CYAN, "▸"), &format!("{}  {}", self.label, paint(DIM, format!("run {}", tail(&child.run)))))));
            // A run that has ended waits for no child, so open lines of children are not shown.
            lines.extend(child.steps(open, is_over || child.is_over()).map(|line| Line { text: format!("{:INDENT$}{}", "", line.text), ..line }));
        }
        match &self.end {
            Some(end) => lines.push(Line { text: end.clone(), is_final: child.is_none_or(Tree::is_finished) }),
            // A question is drawn where it is asked.
            None if self.effect.is_for_a_person() || is_over => {}
            None => lines.push(Line { text: self.drawn(open), is_final: false }),
        }
        lines
    }

    fn drawn(&self, open: Open<'_>) -> String {
        match open {
            Open::Live(spinner) => {
                let time = took(self.since.elapsed().as_micros() as u64);
                let saying = one_line(&self.saying, SAYING_CHARS_MAX);
                under(&paint(CYAN, spinner), &format!("{}  {}  {}", self.label, paint(DIM, time), paint(DIM, saying)))
            }
            Open::Still => {
                let tries = if self.attempt > 1 { format!(", attempt {}", self.attempt) } else { String::new() };
                under(&paint(YELLOW, "…"), &format!("{}  {}", self.label, paint(DIM, format!("task {}{tries}, no answer yet", self.id))))
            }
        }
    }
}

pub(crate) fn ended(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Done { .. } => format!("  {} done", paint(GREEN, "✓")),
        Outcome::Failed { fault } => format!("  {} failed: {}", paint(RED, "✗"), evidence::visible(&fault.to_string())),
        Outcome::Cancelled { reason } => format!("  {} cancelled: {}", paint(DIM, "–"), evidence::visible(reason)),
    }
}

fn replied(label: &str, attempt: u32, reply: &Reply, again_ms: Option<u64>) -> String {
    // People are not timed.
    let time = if reply.took_us == 0 { String::new() } else { paint(DIM, took(reply.took_us)) };
    let tries = if attempt > 1 { paint(DIM, format!("  attempt {attempt}")) } else { String::new() };
    match (&reply.result, again_ms) {
        (Ok(_), _) => under(&paint(GREEN, "✓"), &format!("{label}  {time}{tries}")),
        (Err(failure), Some(ms)) => {
            let why = one_line(&failure.to_string(), NOTE_CHARS_MAX);
            under(&paint(YELLOW, "↻"), &format!("{label}  {time}{tries}  {}", paint(DIM, format!("{why}; again in {ms} ms"))))
        }
        (Err(failure), None) => {
            let why = one_line(&failure.to_string(), NOTE_CHARS_MAX);
            under(&paint(RED, "✗"), &format!("{label}  {time}{tries}  {}", paint(RED, why)))
        }
    }
}

pub(crate) fn under(mark: &str, text: &str) -> String {
    format!("    {mark} {text}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use graph::{Failure, FailureKind};
    use serde_json::{Value, json};

    fn asked(task: TaskId, attempt: u32, label: &str, effect: Effect) -> Event {
        Event::Asked { task, attempt, label: label.into(), effect: Arc::new(effect), after_ms: 0 }
    }

    fn replied(task: TaskId, attempt: u32, reply: &Reply, again_ms: Option<u64>) -> Event {
        Event::Replied { task, attempt, reply: Arc::new(reply.clone()), again_ms }
    }

    fn entered(step: u64, node: &str) -> Event {
        Event::Entered { step, node: node.into() }
    }

    fn started(run: &str, flow: &str) -> Event {
        Event::Started { run: run.into(), thread: "t".into(), flow: flow.into() }
    }

    /// Without colours; lines that are not final are marked.
    fn shown(tree: &Tree) -> Vec<String> {
        let line = |line: Line| format!("{}{}", anstream::adapter::strip_str(&line.text), if line.is_final { "" } else { " (open)" });
        tree.lines(Open::Still).into_iter().map(line).collect()
    }

    #[test]
    fn a_step_is_shown_with_its_result() {
        let task = TaskId { step: 1, index: 0 };
        let busy = Reply::failed(Failure::new(FailureKind::Tool, "busy").retry()).taking_us(2_000);
        let mut tree = Tree::new("r".into());
        let search = || graph::tool("search", Value::Null);
        for event in [
            entered(0, "nothing_to_see"),
            entered(1, "look_up"),
            asked(task, 1, "searching", search()),
            replied(task, 1, &busy, Some(20)),
            asked(task, 2, "searching", search()),
        ] {
            tree.see(&"r".into(), &event);
        }
        let begun = ["  1 look_up", "    ↻ searching  2.0 ms  tool: busy; again in 20 ms"];
        assert_eq!(shown(&tree)[..2], begun);
        assert_eq!(shown(&tree)[2], "    … searching  task 1.0, attempt 2, no answer yet (open)");
        tree.see(&"r".into(), &replied(task, 2, &Reply::ok("x").taking_us(7), None));
        tree.see(&"r".into(), &Event::Noted { step: 1, name: "found".into(), value: Value::from(3) });
        assert_eq!(shown(&tree)[2..], ["    ✓ searching  7 µs  attempt 2", "    · found: 3"]);
    }

    #[test]
    fn a_child_stands_under_the_task_that_wanted_it_and_its_cost_counts_once() {
        let (first, second) = (TaskId { step: 0, index: 0 }, TaskId { step: 0, index: 1 });
        let child = child_run(Key::of(&"t".into(), &"r".into(), first));
        let mut tree = Tree::new("r".into());
        let agent = |name: &str| graph::agent(name, json!({}));
        for event in [started("r", "auto"), entered(0, "run"), asked(first, 1, "", agent("search")), asked(second, 1, "", agent("reason"))] {
            tree.see(&"r".into(), &event);
        }
        let usage = Usage { tokens_in: 10, ..Usage::default() };
        let inner = TaskId { step: 0, index: 0 };
        for event in [started(child.as_str(), "search"), entered(0, "plan"), asked(inner, 1, "planning", graph::model("plan", vec![]))] {
            tree.see(&child, &event);
        }
        tree.see(&child, &replied(inner, 1, &Reply::ok("x").using(usage).taking_us(7), None));
        // The second one ends first, but keeps its position.
        tree.see(&"r".into(), &replied(second, 1, &Reply::ok("x").taking_us(1), None));
        tree.see(&"someone else".into(), &entered(3, "elsewhere"));
        let run = format!("    ▸ agent search  run {}", tail(&child));
        let lines = ["run r auto", "  0 run", &run, "        0 plan", "          ✓ planning  7 µs"];
        assert_eq!(shown(&tree)[..5], lines);
        assert_eq!(shown(&tree)[5..], ["    … agent search  task 0.0, no answer yet (open)", "    ✓ agent reason  1 µs"]);
        let paid = Reply::ok("x").using(Usage { calls: 1, ..usage }).taking_us(9);
        tree.see(&"r".into(), &replied(first, 1, &paid, None));
        assert_eq!(shown(&tree)[5], "    ✓ agent search  9 µs (open)", "its child may have more to tell");
        assert_eq!((tree.spent().tokens_in, tree.spent().calls), (10, 3));
        let done = || Event::Ended { outcome: Arc::new(Outcome::Done { output: Value::Null }) };
        tree.see(&child, &done());
        assert_eq!(shown(&tree)[5], "    ✓ agent search  9 µs");
        assert!(!tree.is_finished());
        tree.see(&"r".into(), &done());
        assert!(tree.is_finished() && shown(&tree).last().unwrap() == "  ✓ done");
        let (before, spent) = (shown(&tree), tree.spent());
        assert_eq!(tree.forget(2), 1, "a step goes whole, and the last one stays");
        assert_eq!((shown(&tree), tree.spent()), (before[1..].to_vec(), spent));
        tree.see(&"r".into(), &entered(1, "next"));
        assert_eq!((tree.forget(before.len()), tree.spent()), (before.len() - 2, spent));
        assert_eq!(shown(&tree), ["  ✓ done"]);
    }
}
