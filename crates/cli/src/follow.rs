//! Drives a run in this process and shows it, until it ends, waits for a person, or is interrupted.
//!
//! ```text
//!   running ─► ended ────────────────────────────────► answer on stdout, exit 0 or 1
//!     │ ▲────► a question ──► typed at the terminal
//!     │             └───────► no terminal ───────────► how to answer, exit 4
//!     ├──────► Ctrl-C, SIGTERM ──► graceful stop ────► how to resume, exit 130 or 143
//!     └──────► Ctrl-C in a session ──► cancelled ────► the session continues
//! ```

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use engine::{Delivery, Engine, FeedItem, History, Order, RunResult, RunState, SeenCounts, TreeItem, TreeWatcher};
use flows::no_model::FOUND;
use graph::{Event, Outcome, RunId, ThreadId};
use serde_json::{Value, json};
use store::{RunRow, StoreError};
use terminal::{BOLD, DIM, YELLOW, paint, remark, spent, tail, took};

use crate::answer::{Answer, WrittenFile};
use crate::approval::{self, Proposal};
use crate::editor::{Editor, LineInput};
use crate::exit::{Exit, Result, ServiceError};
use crate::plan::Plan;
use crate::question::{self, Open};
use crate::streamed::AnswerStream;
use crate::view::View;

/// Time for effects in flight when the process is interrupted.
const GRACE: Duration = Duration::from_secs(3);
/// Time to wait for the last events of a run that stopped.
const LAST_EVENTS: Duration = Duration::from_secs(2);
/// Redraw interval.
pub(crate) const TICK: Duration = Duration::from_millis(100);

pub(crate) struct Follow<'a> {
    engine: &'a Engine,
    run: &'a RunId,
    view: View,
    /// Subscribed before the run starts, so that no delta is missed.
    family: TreeWatcher,
    next_seq: u64,
    last_message: Option<String>,
    /// The current step of the run.
    step: u64,
    /// The results found before the run or a child failed.
    found: Option<Answer>,
    /// The part of the answer that was already printed.
    streamed: AnswerStream,
    /// The run that was just answered: this one, or a descendant.
    answered: Option<RunId>,
    interrupts: Interrupts,
    on_interrupt: OnInterrupt,
}

/// The effect of Ctrl-C while the run is driven.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnInterrupt {
    /// The process ends; the run can be resumed.
    Stop,
    /// The run ends; the process continues.
    Cancel,
    /// Already cancelled once; the second time the process does not wait.
    Leave,
}

/// Why a run stopped.
enum Rest {
    Over(RunResult),
    Parked,
    Interrupted(Exit),
}

/// Starts a run and follows it.
pub(crate) async fn drive(engine: &Engine, order: Order, as_json: bool, on_interrupt: OnInterrupt) -> Result<(RunId, Exit)> {
    let run = order.run.clone().unwrap_or_else(engine::new_run_id);
    let thread = order.thread.clone().unwrap_or_else(|| ThreadId::from(run.as_str()));
    let follow = Follow { on_interrupt, ..Follow::new(engine, &thread, &run, as_json)? };
    engine.start(Order { run: Some(run.clone()), thread: Some(thread.clone()), ..order }).await?;
    let exit = follow.until_stopped().await?;
    Ok((run, exit))
}

impl<'a> Follow<'a> {
    /// Follows a run from its first event. Call it before the run is started.
    pub(crate) fn new(engine: &'a Engine, thread: &ThreadId, run: &'a RunId, as_json: bool) -> Result<Self> {
        Follow::from(engine, thread, run, as_json, SeenCounts::new())
    }

    /// Follows a run that is resumed. Call it before the run is resumed: earlier events are not shown again.
    pub(crate) async fn resumed(engine: &'a Engine, thread: &ThreadId, run: &'a RunId, as_json: bool) -> Result<Self> {
        let past = engine::tree_history(engine, run).await;
        Follow::from(engine, thread, run, as_json, past.into_iter().map(|(run, events)| (run, events.len() as u64)).collect())
    }

    fn from(engine: &'a Engine, thread: &ThreadId, run: &'a RunId, as_json: bool, known: SeenCounts) -> Result<Self> {
        let view = View::new(run, as_json);
        Ok(Follow {
            engine,
            run,
            family: TreeWatcher::watch(engine, thread, run, known, view.watch_scope()),
            view,
            next_seq: 0,
            last_message: None,
            step: 0,
            found: None,
            streamed: AnswerStream::default(),
            answered: None,
            interrupts: Interrupts::listen()?,
            on_interrupt: OnInterrupt::Stop,
        })
    }

    /// Submits an answer. If this process accepted it, continue with `until_rest`.
    pub(crate) async fn give(&mut self, open: &Open, value: Value) -> Result<Delivery> {
        let delivery = self.engine.answer(&open.run, open.waiting.task, open.waiting.attempt, value).await?;
        self.answered = (delivery == Delivery::Taken).then(|| open.run.clone());
        Ok(delivery)
    }

    /// For a run that is driven here, or was just parked.
    pub(crate) async fn until_stopped(mut self) -> Result<Exit> {
        loop {
            let rest = self.watch().await;
            self.view.clear();
            match rest? {
                Rest::Over(closing) => return self.over(&closing).await,
                Rest::Interrupted(Exit::Interrupted) if self.on_interrupt == OnInterrupt::Cancel => self.cancel().await?,
                Rest::Interrupted(Exit::Interrupted) if self.on_interrupt == OnInterrupt::Leave => return Ok(Exit::Interrupted),
                Rest::Interrupted(exit) => return self.stop(exit).await,
                Rest::Parked => {
                    let row = self.row().await?;
                    let open = self.engine.open_questions(&row).await?;
                    let is_attended = matches!(self.view, View::People(_)) && std::io::stdin().is_terminal();
                    match open.first() {
                        Some(first) if is_attended => {
                            if let Some(exit) = self.ask(first, &open).await? {
                                return Ok(exit);
                            }
                        }
                        _ => return self.leave_parked(&row, &open),
                    }
                }
            }
        }
    }

    /// Shows events until the run stops.
    async fn watch(&mut self) -> Result<Rest> {
        let (engine, run) = (self.engine, self.run);
        let wait = service::waiting::wait_until_idle(engine, run, self.answered.take());
        tokio::pin!(wait);
        let mut ticks = tokio::time::interval(TICK);
        let at = loop {
            tokio::select! {
                Some(received) = self.family.next() => { self.see(&received?)?; }
                at = &mut wait => break at?,
                exit = self.interrupts.next() => return Ok(Rest::Interrupted(exit)),
                _ = ticks.tick() => self.view.tick(),
            }
        };
        match at {
            RunState::Over(closing) => {
                self.see_until(|follow| matches!(&follow.view, View::People(live) if live.is_finished())).await?;
                Ok(Rest::Over((*closing).clone()))
            }
            RunState::Parked(_) => {
                let events = History::of(&**engine.store(), engine.flows(), run).await.map_or(0, |past| past.events.len() as u64);
                self.see_until(|follow| follow.next_seq >= events).await?;
                Ok(Rest::Parked)
            }
            RunState::Going | RunState::Lost(_) => Ok(Rest::Parked),
        }
    }

    /// The run may stop before its last events were shown; they are still in the channel. After the end of a run nothing more comes.
    async fn see_until(&mut self, is_enough: impl Fn(&Self) -> bool) -> Result<()> {
        let all = async {
            while !is_enough(self)
                && let Some(received) = self.family.next().await
            {
                self.see(&received?)?;
            }
            Ok(())
        };
        tokio::time::timeout(LAST_EVENTS, all).await.unwrap_or(Ok(()))
    }

    fn see(&mut self, received: &TreeItem) -> Result<()> {
        if let FeedItem::Event(numbered, _) = &received.item {
            let is_own = received.run == *self.run;
            if is_own {
                self.next_seq = numbered.seq + 1;
            }
            match &numbered.event {
                Event::Said { content, .. } if is_own => self.last_message = Some(content.clone()),
                Event::Entered { step, .. } if is_own => self.step = *step,
                Event::Noted { name, value, .. } if name == FOUND => self.found = Some(Answer::of(value, None)),
                _ => {}
            }
        }
        let View::People(live) = &mut self.view else { return self.view.see(received) };
        if !self.streamed.is_answer(received) {
            live.see(received);
            return Ok(());
        }
        match AnswerStream::shares_screen() {
            // From here on the answer is on the screen, until it is complete.
            true => live.hold(),
            false => live.clear(),
        }
        self.streamed.print(received)
    }

    async fn over(&mut self, closing: &RunResult) -> Result<Exit> {
        let exit = match &closing.outcome {
            Outcome::Done { .. } => Exit::Well,
            Outcome::Failed { .. } | Outcome::Cancelled { .. } => Exit::Failed,
        };
        let View::People(live) = &mut self.view else {
            let row = self.row().await?;
            let mut last = json!({ "run": row.run, "thread": row.thread, "flow": row.flow, "status": row.status });
            merge(&mut last, serde_json::to_value(closing)?);
            print_json(&last)?;
            return Ok(exit);
        };
        let short = tail(self.run);
        match &closing.outcome {
            Outcome::Done { output } => {
                let answer = Answer::of(output, self.last_message.as_deref());
                self.streamed.complete(&answer)?;
                live.release();
                let cost = paint(DIM, format!("{}, {}", took(closing.elapsed_us), spent(&closing.spent)));
                let checked = answer.summary().map(|summary| format!("{summary}{}", paint(DIM, "; "))).unwrap_or_default();
                if !answer.files.is_empty() {
                    let files: Vec<String> = answer.files.iter().map(WrittenFile::line).collect();
                    remark(&format!("wrote {}; `baton runs show {short}` shows where", files.join(", ")));
                }
                remark(&format!("{checked}{cost}"));
            }
            // The view has printed the reason.
            Outcome::Failed { .. } => {
                self.streamed.end_interrupted()?;
                live.release();
                if let Some(found) = &self.found {
                    remark(&format!("\n{}\n", found.rendered(std::io::stderr().is_terminal())));
                }
                remark(&format!("retry with `baton runs fork {short} --at {}`; `baton runs show {short}` shows every step", self.step));
            }
            Outcome::Cancelled { .. } => {
                self.streamed.end_interrupted()?;
                live.release();
                remark(&format!("continue with `baton runs fork {short} --at {}`", self.step));
            }
        }
        Ok(exit)
    }

    /// Asks at the terminal. An exit code means that there was no answer.
    async fn ask(&mut self, open: &Open, all: &[Open]) -> Result<Option<Exit>> {
        let proposal = approval::proposal(self.engine, open).await?;
        let value = match &proposal {
            Some(proposal) => self.ask_plan(open, proposal).await?,
            None => self.ask_words(open).await?,
        };
        let value = match value {
            Answered::With(value) => value,
            Answered::Nothing => return Ok(None),
            Answered::Later(exit) => {
                remark(&format!("still open; {}", question::how(open, all)));
                return Ok(Some(exit));
            }
            Answered::Cancelled => {
                self.cancel().await?;
                return Ok(None);
            }
        };
        match self.give(open, value).await {
            // An invalid answer is asked for again.
            Err(ServiceError::Engine(engine::EngineError::Feed(error))) => remark(&error.to_string()),
            given => drop(given?),
        }
        Ok(None)
    }

    async fn ask_words(&mut self, open: &Open) -> Result<Answered> {
        let question = &open.waiting.question;
        let asked = evidence::visible(&question.prompt);
        let prompt = match question::legend(open) {
            None => {
                remark(&format!("\n{} {}", paint(YELLOW, "?"), paint(BOLD, asked)));
                format!("{}› ", question::words(question).join("/"))
            }
            Some(legend) => {
                let (first, rest) = asked.split_once('\n').unwrap_or((&asked, ""));
                remark(&format!("\n{} {}", paint(YELLOW, "?"), paint(BOLD, first)));
                rest.lines().for_each(|line| remark(&format!("  {line}")));
                remark(&format!("  {legend}"));
                let letters: Vec<String> = question::words(question).iter().map(|word| word.chars().take(1).collect()).collect();
                format!("{}› ", letters.join("/"))
            }
        };
        Ok(match self.typed(&mut Editor::new()?, &prompt).await? {
            Ok(typed) if typed.trim().is_empty() => Answered::Nothing,
            Ok(typed) => Answered::With(question::answer(question, &typed)),
            Err(answered) => answered,
        })
    }

    /// Yes, no, or an edited plan, repeatedly.
    async fn ask_plan(&mut self, open: &Open, proposal: &Proposal) -> Result<Answered> {
        let question = &open.waiting.question;
        let mut edited: Option<Plan> = None;
        let hash = proposal.hash.as_ref().map(|hash| format!("plan {hash}")).unwrap_or_default();
        let mut editor = Editor::new()?;
        loop {
            let about = if edited.is_some() { "your plan" } else { &hash };
            let asked = question.prompt.lines().next().unwrap_or_default();
            remark(&format!("\n{} {}  {}", paint(YELLOW, "?"), paint(BOLD, evidence::visible(asked)), paint(DIM, about)));
            edited.as_ref().unwrap_or(&proposal.plan).lines().iter().for_each(|line| remark(&format!("  {line}")));
            let can_revise = approval::can_be_revised(question);
            let prompt = if can_revise { "yes, no WHY, edit or revise WHY (y/n/e/r)› " } else { "yes, no or edit (y/n/e)› " };
            let typed = match self.typed(&mut editor, prompt).await? {
                Ok(typed) => typed,
                Err(answered) => return Ok(answered),
            };
            // `n too broad`: the letter, and why.
            let (word, reason) = typed.trim().split_once(char::is_whitespace).unwrap_or((typed.trim(), ""));
            match word.to_lowercase().as_str() {
                "y" | "yes" if reason.is_empty() => return Ok(Answered::With(proposal.approved(question, edited.as_ref()))),
                "n" | "no" => return Ok(Answered::With(approval::declined(question, reason))),
                "r" | "revise" if can_revise && reason.trim().is_empty() => remark("say what should change, e.g. r leave out the history"),
                "r" | "revise" if can_revise => return Ok(Answered::With(approval::revised(question, reason))),
                "e" | "edit" => match self.edit(question, edited.as_ref().unwrap_or(&proposal.plan)).await {
                    Ok(Some(plan)) => edited = Some(plan).filter(|plan| *plan != proposal.plan),
                    Ok(None) => {}
                    Err(trouble) => remark(&trouble.to_string()),
                },
                "" => {}
                other => remark(&format!("{:?} is none of y, n, e{}", evidence::visible(other), if can_revise { " and r" } else { "" })),
            }
        }
    }

    /// Opens the editor until the text is a valid plan or the user gives up.
    async fn edit(&mut self, question: &graph::Question, plan: &Plan) -> Result<Option<Plan>> {
        let mut text = serde_json::to_string_pretty(&plan.0)?;
        loop {
            let before = text.clone();
            text = tokio::task::spawn_blocking(move || approval::edit(&before)).await.map_err(std::io::Error::other)??;
            // Signals sent while the editor was open were meant for it.
            self.interrupts = Interrupts::listen()?;
            let why = match approval::read(question, &text) {
                Ok(plan) => return Ok(Some(plan)),
                Err(why) => why,
            };
            remark(&format!("{} {}", paint(YELLOW, "!"), evidence::visible(&why)));
            match self.typed(&mut Editor::new()?, "edit it again? (y/n)› ").await? {
                Ok(typed) if matches!(typed.trim().to_lowercase().as_str(), "y" | "yes" | "") => {}
                _ => return Ok(None),
            }
        }
    }

    /// The typed line, or the exit code if there is none.
    async fn typed(&mut self, editor: &mut Editor, prompt: &str) -> Result<std::result::Result<String, Answered>> {
        let typed = editor.read(prompt, &mut self.interrupts).await?;
        Ok(match (typed, self.on_interrupt) {
            (LineInput::Line(line), _) => Ok(line),
            (LineInput::End, _) => Err(Answered::Later(Exit::Asking)),
            (LineInput::Leave(exit), _) => Err(Answered::Later(exit)),
            (LineInput::Interrupted, OnInterrupt::Stop) => Err(Answered::Later(Exit::Interrupted)),
            (LineInput::Interrupted, OnInterrupt::Cancel | OnInterrupt::Leave) => Err(Answered::Cancelled),
        })
    }

    fn leave_parked(&mut self, row: &RunRow, open: &[Open]) -> Result<Exit> {
        if matches!(self.view, View::Json) {
            print_json(&json!({ "run": row.run, "thread": row.thread, "flow": row.flow, "status": row.status, "waiting": open }))?;
            return Ok(Exit::Asking);
        }
        for one in open {
            remark(&format!("\n{} {}", paint(YELLOW, "?"), evidence::visible(&one.waiting.question.prompt)));
            remark(&format!("  answer with: {}", paint(BOLD, question::how(one, open))));
        }
        if open.is_empty() {
            remark(&format!("the run waits, but has no open question; `baton runs resume {}` continues it", tail(self.run)));
        }
        Ok(Exit::Asking)
    }

    async fn stop(&mut self, exit: Exit) -> Result<Exit> {
        remark("stopping; what is in flight may finish (again to stop at once)");
        tokio::select! {
            () = self.engine.stop(GRACE) => {}
            _ = self.interrupts.next() => {}
        }
        let how = format!("baton runs resume {}", tail(self.run));
        match self.view {
            View::Json => print_json(&json!({ "run": self.run, "status": "running", "resume": how }))?,
            View::People(_) => remark(&format!("nothing is lost; go on with: {}", paint(BOLD, how))),
        }
        Ok(exit)
    }

    /// Cancels the run and continues to watch until it ends.
    async fn cancel(&mut self) -> Result<()> {
        self.on_interrupt = OnInterrupt::Leave;
        match self.engine.cancel(self.run, "Ctrl-C").await {
            // It ended by itself.
            Ok(_) | Err(engine::EngineError::Over { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn row(&self) -> Result<RunRow> {
        Ok(self.engine.store().run(self.run).await?.ok_or_else(|| StoreError::NoRun { run: self.run.clone() })?)
    }
}

/// A person's reaction to a question.
enum Answered {
    With(Value),
    /// The question is asked again.
    Nothing,
    Later(Exit),
    Cancelled,
}

/// Termination signals, as exit codes.
pub(crate) struct Interrupts(service::signals::Interrupts);

impl Interrupts {
    pub(crate) fn listen() -> Result<Self> {
        Ok(Interrupts(service::signals::Interrupts::listen()?))
    }

    pub(crate) async fn next(&mut self) -> Exit {
        self.0.next().await.into()
    }
}

pub(crate) fn print_json(value: &Value) -> Result<()> {
    Ok(writeln!(std::io::stdout(), "{value}")?)
}

fn merge(into: &mut Value, from: Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        into.extend(from);
    }
}
