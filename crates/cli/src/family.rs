//! The events of a run and of the runs below it, in one stream.
//!
//! Children have journals and events of their own; a person wants to see one piece of work. Each run is watched in a task of its own, because a
//! watcher that is dropped in the middle of catching up loses its place.

use std::collections::BTreeSet;
use std::time::Duration;

use engine::{Engine, History, Seen, Watcher};
use graph::{Effect, Event, Key, RunId, ThreadId, child_run};
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

/// Events that may wait to be drawn.
const EVENTS_MAX: usize = 256;

impl Family {
    /// Listens from now on, even to a run that is not started yet. Events before `known_seq` were told before.
    pub(crate) fn watch(engine: &Engine, run: &RunId, known_seq: u64, whom: Whom) -> Family {
        let (to, events) = mpsc::channel(EVENTS_MAX);
        let from_seq = if whom == Whom::One { known_seq } else { 0 };
        let watcher = engine.watch(run, from_seq);
        let one = Member { engine: engine.clone(), run: run.clone(), known_seq, whom, speaks: true, to };
        tokio::spawn(one.listen(watcher));
        Family { events }
    }

    /// Nothing more comes after the end of the run and of all its children.
    pub(crate) async fn next(&mut self) -> Option<engine::Result<Heard>> {
        self.events.recv().await
    }
}

struct Member {
    engine: Engine,
    run: RunId,
    known_seq: u64,
    whom: Whom,
    speaks: bool,
    to: mpsc::Sender<engine::Result<Heard>>,
}

impl Member {
    async fn listen(self, mut watcher: Watcher) {
        let mut of: Option<(ThreadId, bool)> = None;
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
                    let is_known = matches!(&seen, Seen::Told(told) if told.seq < self.known_seq);
                    if let Seen::Told(told) = &seen {
                        match (&told.event, &of) {
                            // The front door passes on what the chosen flow answers.
                            (Event::Started { thread, flow, .. }, _) => of = Some((thread.clone(), &**flow == "auto")),
                            (Event::Asked { task, effect, .. }, Some((thread, passes_on))) if self.is_child(effect) => {
                                let child = child_run(Key::of(thread, &self.run, *task));
                                if children.insert(child.clone()) {
                                    self.listen_to(child, is_known, self.speaks && *passes_on);
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

    fn is_child(&self, effect: &Effect) -> bool {
        self.whom == Whom::All && matches!(effect, Effect::CallAgent(call) if self.engine.flows().contains_key(&call.agent))
    }

    /// Listens before the child goes, so that not a word of a stream is missed.
    fn listen_to(&self, run: RunId, is_known: bool, speaks: bool) {
        let watcher = self.engine.watch(&run, 0);
        let child = Member { engine: self.engine.clone(), run, known_seq: 0, whom: self.whom, speaks, to: self.to.clone() };
        tokio::spawn(child.begin(watcher, is_known));
    }

    /// A child is in the store a moment after it was asked for, or never.
    async fn begin(mut self, watcher: Watcher, is_known: bool) {
        const MOMENT: Duration = Duration::from_millis(5);
        while !matches!(self.engine.store().run(&self.run).await, Ok(Some(_))) {
            tokio::select! {
                () = tokio::time::sleep(MOMENT) => {}
                () = self.to.closed() => return,
            }
        }
        if is_known {
            self.known_seq = History::of(&**self.engine.store(), self.engine.flows(), &self.run).await.map_or(0, |past| past.events.len() as u64);
        }
        self.listen(watcher).await;
    }
}
