//! The events of a run and of the runs below it, in one stream.
//!
//! Children have journals and events of their own; a person wants to see one piece of work. Each run is watched in a task of its own, because a
//! watcher that is dropped in the middle of catching up loses its place.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use engine::{Engine, History, Seen, Watcher};
use graph::{Effect, Event, Key, RunId, TaskId, ThreadId, Told, child_run};
use tokio::sync::mpsc;

pub(crate) struct Family {
    events: mpsc::Receiver<engine::Result<Heard>>,
}

/// An event, and the run it is of.
pub(crate) struct Heard {
    pub(crate) run: RunId,
    pub(crate) seen: Seen,
    /// It was told before; it is heard again to know what is open.
    pub(crate) is_known: bool,
    /// What this run answers is what the user asked for.
    pub(crate) speaks: bool,
}

/// Whom to listen to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whom {
    /// The run alone, from an event on.
    One,
    /// Its children too, and all of them from their first event.
    All,
}

/// How many events of each run were told before.
pub(crate) type Known = BTreeMap<RunId, u64>;

/// In which of its steps the front door starts the flow it takes. Whether a model streams is decided when it is asked, which may be before anybody could
/// have heard of its run; so these are listened to before they are known to be.
const FRONT_DOOR_STEPS: std::ops::RangeInclusive<u64> = 1..=3;

/// Events that may wait to be drawn.
const EVENTS_MAX: usize = 256;

impl Family {
    /// Listens from now on, even to a run that is not started yet.
    pub(crate) fn watch(engine: &Engine, thread: &ThreadId, run: &RunId, known: Known, whom: Whom) -> Family {
        let (to, events) = mpsc::channel(EVENTS_MAX);
        let mut foretold = BTreeMap::new();
        let from_seq = match whom {
            Whom::One => known.get(run).copied().unwrap_or(0),
            Whom::All => {
                let children = FRONT_DOOR_STEPS.map(|step| child_run(Key::of(thread, run, TaskId { step, index: 0 })));
                foretold.extend(children.map(|child| (child.clone(), engine.watch(&child, 0))));
                0
            }
        };
        let watcher = engine.watch(run, from_seq);
        let (engine, thread, known) = (engine.clone(), thread.clone(), Arc::new(known));
        let one = Member { engine, thread, run: run.clone(), known, whom, speaks: true, foretold, to };
        tokio::spawn(one.begin(watcher));
        Family { events }
    }

    /// Nothing more comes after the end of the run and of all its children.
    pub(crate) async fn next(&mut self) -> Option<engine::Result<Heard>> {
        self.events.recv().await
    }
}

/// Everything a run and those below it told so far; a run comes before its children. One that cannot be told any more is left out.
pub(crate) async fn past(engine: &Engine, root: &RunId) -> Vec<(RunId, Vec<Told>)> {
    let mut all = Vec::new();
    let mut runs = vec![root.clone()];
    while let Some(run) = runs.pop() {
        let Ok(past) = History::of(&**engine.store(), engine.flows(), &run).await else { continue };
        let thread = past.start.as_ref().map(|start| start.thread.clone());
        for told in &past.events {
            if let (Event::Asked { task, effect, .. }, Some(thread)) = (&told.event, &thread)
                && is_child(engine, effect)
            {
                let child = child_run(Key::of(thread, &run, *task));
                // Another attempt is the same child.
                if !runs.contains(&child) {
                    runs.push(child);
                }
            }
        }
        all.push((run, past.events));
    }
    all
}

fn is_child(engine: &Engine, effect: &Effect) -> bool {
    matches!(effect, Effect::CallAgent(call) if engine.flows().contains_key(&call.agent))
}

struct Member {
    engine: Engine,
    thread: ThreadId,
    run: RunId,
    known: Arc<Known>,
    whom: Whom,
    speaks: bool,
    foretold: BTreeMap<RunId, Watcher>,
    to: mpsc::Sender<engine::Result<Heard>>,
}

impl Member {
    /// A run is in the store a moment after it was asked for, or never.
    async fn begin(self, watcher: Watcher) {
        const MOMENT: Duration = Duration::from_millis(2);
        while !matches!(self.engine.store().run(&self.run).await, Ok(Some(_))) {
            tokio::select! {
                () = tokio::time::sleep(MOMENT) => {}
                () = self.to.closed() => return,
            }
        }
        self.listen(watcher).await;
    }

    async fn listen(mut self, mut watcher: Watcher) {
        let known_seq = self.known.get(&self.run).copied().unwrap_or(0);
        // The front door passes on what the chosen flow answers.
        let mut passes_on = false;
        let mut children = BTreeSet::new();
        loop {
            let seen = tokio::select! {
                seen = watcher.next() => seen,
                // Nobody looks any more.
                () = self.to.closed() => return,
            };
            let heard = match seen {
                None => return,
                Some(Err(error)) => Err(error),
                Some(Ok(seen)) => {
                    let mut is_known = false;
                    if let Seen::Told(told) = &seen {
                        is_known = told.seq < known_seq;
                        match &told.event {
                            Event::Started { flow, .. } => passes_on = &**flow == "auto",
                            Event::Asked { task, effect, .. } if self.whom == Whom::All && is_child(&self.engine, effect) => {
                                let child = child_run(Key::of(&self.thread, &self.run, *task));
                                if children.insert(child.clone()) {
                                    self.listen_to(child, self.speaks && passes_on);
                                }
                            }
                            _ => {}
                        }
                    }
                    Ok(Heard { run: self.run.clone(), seen, is_known, speaks: self.speaks })
                }
            };
            let is_error = heard.is_err();
            if self.to.send(heard).await.is_err() || is_error {
                return;
            }
        }
    }

    fn listen_to(&mut self, run: RunId, speaks: bool) {
        let watcher = self.foretold.remove(&run).unwrap_or_else(|| self.engine.watch(&run, 0));
        let child = Member {
            engine: self.engine.clone(),
            thread: self.thread.clone(),
            run,
            known: self.known.clone(),
            whom: self.whom,
            speaks,
            foretold: BTreeMap::new(),
            to: self.to.clone(),
        };
        tokio::spawn(child.begin(watcher));
    }
}
