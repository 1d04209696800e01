//! The events of a run and of the runs below it, in one stream.
//!
//! Children have journals and events of their own; a person wants to see one piece of work. Each run is watched in a task of its own, because a
//! watcher that is dropped in the middle of catching up loses its place.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use graph::{Effect, Event, Key, RunId, TaskId, ThreadId, Told, child_run};
use tokio::sync::mpsc;

use crate::{Engine, History, Result, Seen, Watcher};

/// Somebody listening to a run and all below it.
pub struct Family {
    events: mpsc::Receiver<Result<Heard>>,
}

/// An event, and the run it is of.
pub struct Heard {
    pub run: RunId,
    /// The tasks that led to it, from the run that is watched on.
    pub path: Arc<[TaskId]>,
    pub seen: Seen,
    /// It was told before; it is heard again to know what is open.
    pub is_known: bool,
    /// What this run answers is what the user asked for.
    pub speaks: bool,
}

/// Whom to listen to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Whom {
    /// The run alone, from an event on.
    One,
    /// Its children too, and all of them from their first event.
    All,
}

/// How many events of each run were told before.
pub type Known = BTreeMap<RunId, u64>;

/// A flow that chooses another and passes on what that one answers.
#[derive(Clone, Copy, Debug)]
pub struct Door {
    pub flow: &'static str,
    /// The first and the last step in which it starts the flow it takes. Whether a model streams is decided when it is asked, which may be before
    /// anybody could have heard of its run; so these are listened to before they are known to be.
    pub steps: (u64, u64),
}

/// Events that may wait to be drawn.
const EVENTS_MAX: usize = 256;

impl Family {
    /// Listens from now on, even to a run that is not started yet.
    pub fn watch(engine: &Engine, thread: &ThreadId, run: &RunId, known: Known, whom: Whom, door: Door) -> Family {
        let (to, events) = mpsc::channel(EVENTS_MAX);
        let mut foretold = BTreeMap::new();
        let from_seq = match whom {
            Whom::One => known.get(run).copied().unwrap_or(0),
            Whom::All => {
                let children = (door.steps.0..=door.steps.1).map(|step| child_run(Key::of(thread, run, TaskId { step, index: 0 })));
                foretold.extend(children.map(|child| (child.clone(), engine.watch(&child, 0))));
                0
            }
        };
        let watcher = engine.watch(run, from_seq);
        let (engine, thread, known) = (engine.clone(), thread.clone(), Arc::new(known));
        let one = Member { engine, thread, run: run.clone(), known, whom, door, speaks: true, path: Arc::from([]), foretold, to };
        tokio::spawn(one.begin(watcher));
        Family { events }
    }

    /// Nothing more comes after the end of the run and of all its children.
    pub async fn next(&mut self) -> Option<Result<Heard>> {
        self.events.recv().await
    }
}

/// Everything a run and those below it told so far; a run comes before its children. One that cannot be told any more is left out.
pub async fn family_past(engine: &Engine, root: &RunId) -> Vec<(RunId, Vec<Told>)> {
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
    door: Door,
    speaks: bool,
    path: Arc<[TaskId]>,
    foretold: BTreeMap<RunId, Watcher>,
    to: mpsc::Sender<Result<Heard>>,
}

impl Member {
    /// In a task of its own.
    fn go(self, watcher: Watcher) {
        tokio::spawn(self.begin(watcher));
    }

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
            // Listened to before its parent's word is passed on, and heard after.
            let mut born = None;
            let heard = match seen {
                None => return,
                Some(Err(error)) => Err(error),
                Some(Ok(seen)) => {
                    let mut is_known = false;
                    if let Seen::Told(told, _) = &seen {
                        is_known = told.seq < known_seq;
                        match &told.event {
                            Event::Started { flow, .. } => passes_on = &**flow == self.door.flow,
                            Event::Asked { task, effect, .. } if self.whom == Whom::All && is_child(&self.engine, effect) => {
                                let child = child_run(Key::of(&self.thread, &self.run, *task));
                                if children.insert(child.clone()) {
                                    born = Some(self.child(child, *task, self.speaks && passes_on));
                                }
                            }
                            _ => {}
                        }
                    }
                    Ok(Heard { run: self.run.clone(), path: self.path.clone(), seen, is_known, speaks: self.speaks })
                }
            };
            let is_error = heard.is_err();
            if self.to.send(heard).await.is_err() || is_error {
                return;
            }
            if let Some((child, watcher)) = born {
                child.go(watcher);
            }
        }
    }

    fn child(&mut self, run: RunId, task: TaskId, speaks: bool) -> (Member, Watcher) {
        let watcher = self.foretold.remove(&run).unwrap_or_else(|| self.engine.watch(&run, 0));
        let child = Member {
            engine: self.engine.clone(),
            thread: self.thread.clone(),
            run,
            known: self.known.clone(),
            whom: self.whom,
            door: self.door,
            speaks,
            path: self.path.iter().copied().chain([task]).collect(),
            foretold: BTreeMap::new(),
            to: self.to.clone(),
        };
        (child, watcher)
    }
}
