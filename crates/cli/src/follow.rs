//! Drives a run in this process and shows it, until it is over, only a person can move it, or somebody interrupts.
//!
//! ```text
//!   going ──► over ─────────────────────────────────► answer on stdout, exit 0 or 1
//!     │ ▲───► a question ──► typed at the terminal
//!     │            └───────► nobody there ───────────► how to answer, exit 4
//!     └─────► Ctrl-C, SIGTERM ──► graceful stop ─────► how to resume, exit 130 or 143
//! ```

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use engine::{At, Closing, Delivery, Engine, History, Seen, Watcher};
use graph::{Event, Outcome, RunId};
use serde_json::{Value, json};
use store::{RunRow, StoreError};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use crate::exit::{Exit, Result, Trouble};
use crate::question::{self, Open};
use crate::streamed::Streamed;
use crate::text::{BOLD, YELLOW, paint, tail};
use crate::view::View;

/// How long an interrupted process lets what is in flight finish.
const GRACE: Duration = Duration::from_secs(3);
/// Events that may wait to be drawn.
const EVENTS_MAX: usize = 256;
/// How long to wait for the last events of a run that has come to rest.
const LAST_EVENTS: Duration = Duration::from_secs(2);
const TICK: Duration = Duration::from_millis(100);

pub(crate) struct Follow<'a> {
    engine: &'a Engine,
    run: &'a RunId,
    view: View,
    /// Listens from before the run goes, so that not a word of a stream is missed.
    watcher: Option<Watcher>,
    next_seq: u64,
    said: Option<String>,
    /// What was already printed of the answer.
    streamed: Streamed,
    interrupts: Interrupts,
}

/// What a run came to.
enum Rest {
    Over(Closing),
    Parked,
    Interrupted(Exit),
}

impl<'a> Follow<'a> {
    /// To be called before the run is started or taken up.
    pub(crate) fn new(engine: &'a Engine, run: &'a RunId, as_json: bool) -> Result<Self> {
        let watcher = Some(engine.watch(run, 0));
        Ok(Follow {
            engine,
            run,
            view: View::new(as_json),
            watcher,
            next_seq: 0,
            said: None,
            streamed: Streamed::default(),
            interrupts: Interrupts::listen()?,
        })
    }

    /// Shows only what happens from this event on. What was before is still read, to know what is open.
    pub(crate) fn from(mut self, seq: u64) -> Self {
        match &mut self.view {
            View::People(live) => live.skip_to(seq),
            View::Json => {
                self.next_seq = seq;
                self.watcher = Some(self.engine.watch(self.run, seq));
            }
        }
        self
    }

    /// The run is going here, or was parked a moment ago.
    pub(crate) async fn until_rest(mut self) -> Result<Exit> {
        loop {
            let rest = self.watch().await;
            self.view.clear();
            match rest? {
                Rest::Over(closing) => return self.over(&closing).await,
                Rest::Interrupted(exit) => return self.stop(exit).await,
                Rest::Parked => {
                    self.watcher = Some(self.engine.watch(self.run, self.next_seq));
                    let row = self.row().await?;
                    let open = question::open(self.engine, &row).await?;
                    let is_attended = matches!(self.view, View::People(_)) && std::io::stdin().is_terminal();
                    match open.first() {
                        Some(first) if is_attended => {
                            if let Some(exit) = self.ask(first).await? {
                                return Ok(exit);
                            }
                        }
                        _ => return self.leave_parked(&row, &open),
                    }
                }
            }
        }
    }

    /// Shows events until the run rests.
    async fn watch(&mut self) -> Result<Rest> {
        let (to, mut events) = mpsc::channel::<engine::Result<Seen>>(EVENTS_MAX);
        let mut watcher = self.watcher.take().unwrap_or_else(|| self.engine.watch(self.run, self.next_seq));
        // In a task of its own: a watcher that is dropped in the middle of catching up loses its place.
        let watching = tokio::spawn(async move {
            while let Some(seen) = watcher.next().await {
                if to.send(seen).await.is_err() {
                    return;
                }
            }
        });
        let rest = self.watch_from(&mut events).await;
        watching.abort();
        rest
    }

    async fn watch_from(&mut self, events: &mut mpsc::Receiver<engine::Result<Seen>>) -> Result<Rest> {
        let (engine, run) = (self.engine, self.run);
        let wait = engine.wait(run);
        tokio::pin!(wait);
        let mut ticks = tokio::time::interval(TICK);
        let at = loop {
            tokio::select! {
                Some(seen) = events.recv() => { self.see(&seen?)?; }
                at = &mut wait => break at?,
                exit = self.interrupts.next() => return Ok(Rest::Interrupted(exit)),
                _ = ticks.tick() => self.view.tick(),
            }
        };
        match at {
            At::Over(closing) => {
                self.see_until(events, u64::MAX).await?;
                Ok(Rest::Over((*closing).clone()))
            }
            At::Parked(_) => {
                let told = History::of(&**engine.store(), engine.flows(), run).await.map_or(0, |past| past.events.len() as u64);
                self.see_until(events, told).await?;
                Ok(Rest::Parked)
            }
            At::Going | At::Lost(_) => Ok(Rest::Parked),
        }
    }

    /// The run may come to rest before its last events were shown; they are on their way. After the end of a run nothing comes.
    async fn see_until(&mut self, events: &mut mpsc::Receiver<engine::Result<Seen>>, seq: u64) -> Result<()> {
        let all = async {
            while self.next_seq < seq
                && let Some(seen) = events.recv().await
            {
                self.see(&seen?)?;
            }
            Ok(())
        };
        tokio::time::timeout(LAST_EVENTS, all).await.unwrap_or(Ok(()))
    }

    fn see(&mut self, seen: &Seen) -> Result<()> {
        if let Seen::Told(told) = seen {
            self.next_seq = told.seq + 1;
            if let Event::Said { content, .. } = &told.event {
                self.said = Some(content.clone());
            }
        }
        if matches!(self.view, View::Json) || !self.streamed.is_answer(seen) {
            return self.view.see(seen);
        }
        self.view.clear();
        self.streamed.print(seen)
    }

    async fn over(&mut self, closing: &Closing) -> Result<Exit> {
        let exit = match &closing.outcome {
            Outcome::Done { .. } => Exit::Well,
            Outcome::Failed { .. } | Outcome::Cancelled { .. } => Exit::Failed,
        };
        if matches!(self.view, View::Json) {
            let row = self.row().await?;
            let mut last = json!({ "run": row.run, "thread": row.thread, "flow": row.flow, "status": row.status });
            merge(&mut last, serde_json::to_value(closing)?);
            self.print_json(&last)?;
            return Ok(exit);
        }
        let short = tail(self.run);
        match &closing.outcome {
            Outcome::Done { output } => self.streamed.complete(&answer_of(output, self.said.as_deref()))?,
            // The view has said why.
            Outcome::Failed { .. } => {
                remark(&format!("`baton runs show {short}` shows all of it; `baton runs fork {short} --at STEP` tries again from a step"));
            }
            Outcome::Cancelled { .. } => remark(&format!("`baton runs fork {short} --at STEP` goes on from a step")),
        }
        Ok(exit)
    }

    /// Asks at the terminal. An exit means that nobody answered.
    async fn ask(&mut self, open: &Open) -> Result<Option<Exit>> {
        let question = &open.waiting.question;
        let mut err = anstream::stderr();
        writeln!(err, "\n{} {}", paint(YELLOW, "?"), paint(BOLD, &question.prompt))?;
        write!(err, "{} ", paint(YELLOW, format!("{}›", question::words(question).join("/"))))?;
        let typed = tokio::select! {
            typed = read_line() => typed?,
            exit = self.interrupts.next() => {
                writeln!(err)?;
                remark(&format!("still open; {}", open.how()));
                return Ok(Some(exit));
            }
        };
        let Some(typed) = typed else {
            writeln!(err)?;
            remark(&format!("still open; {}", open.how()));
            return Ok(Some(Exit::Asking));
        };
        if typed.trim().is_empty() {
            return Ok(None);
        }
        let value = question::answer(question, &typed);
        match give(self.engine, open, value, self.run).await {
            // What does not fit is asked again.
            Err(Trouble::Engine(engine::EngineError::Feed(error))) => remark(&error.to_string()),
            given => drop(given?),
        }
        Ok(None)
    }

    fn leave_parked(&mut self, row: &RunRow, open: &[Open]) -> Result<Exit> {
        if matches!(self.view, View::Json) {
            self.print_json(&json!({ "run": row.run, "thread": row.thread, "flow": row.flow, "status": row.status, "waiting": open }))?;
            return Ok(Exit::Asking);
        }
        for open in open {
            let mut err = anstream::stderr();
            writeln!(err, "\n{} {}", paint(YELLOW, "?"), open.waiting.question.prompt)?;
            writeln!(err, "  answer with: {}", paint(BOLD, open.how()))?;
        }
        if open.is_empty() {
            remark(&format!("the run waits, but asks nothing any more; `baton runs resume {}` goes on", tail(self.run)));
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
            View::Json => self.print_json(&json!({ "run": self.run, "status": "running", "resume": how }))?,
            View::People(_) => remark(&format!("nothing is lost; go on with: {}", paint(BOLD, how))),
        }
        Ok(exit)
    }

    async fn row(&self) -> Result<RunRow> {
        Ok(self.engine.store().run(self.run).await?.ok_or_else(|| StoreError::NoRun { run: self.run.clone() })?)
    }

    fn print_json(&self, value: &Value) -> Result<()> {
        Ok(writeln!(std::io::stdout(), "{value}")?)
    }
}

/// Gives an answer and sees to it that `root`, which may be waiting for the asking run, goes on here.
pub(crate) async fn give(engine: &Engine, open: &Open, value: Value, root: &RunId) -> Result<Delivery> {
    let delivery = engine.answer(&open.run, open.waiting.task, open.waiting.attempt, value).await?;
    if delivery == Delivery::Taken && open.run != *root {
        // The child first: its end is what the ones above wait for.
        engine.wait(&open.run).await?;
        match engine.resume(root).await {
            Ok(()) | Err(engine::EngineError::Over { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(delivery)
}

/// What a run says in the end, as text.
pub(crate) fn answer_of(output: &Value, said: Option<&str>) -> String {
    match (output.get("answer").unwrap_or(output), said) {
        (Value::String(answer), _) => answer.clone(),
        (_, Some(said)) => said.to_owned(),
        (other, None) => serde_json::to_string_pretty(other).unwrap_or_else(|_| other.to_string()),
    }
}

pub(crate) fn remark(words: &str) {
    // A remark that cannot be printed is not missed.
    let _ = writeln!(anstream::stderr(), "{words}");
}

/// Signals that ask the process to end.
pub(crate) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupts {
    pub(crate) fn listen() -> Result<Self> {
        Ok(Interrupts { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    pub(crate) async fn next(&mut self) -> Exit {
        tokio::select! {
            _ = self.interrupt.recv() => Exit::Interrupted,
            _ = self.terminate.recv() => Exit::Terminated,
        }
    }
}

/// `None` at the end of input.
async fn read_line() -> Result<Option<String>> {
    let read = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).map(|bytes| (bytes > 0).then_some(line))
    });
    Ok(read.await.map_err(std::io::Error::other)??)
}

fn merge(into: &mut Value, from: Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        into.extend(from);
    }
}
