//! Views of a run: a tree ([`tree`]), drawn while the run continues ([`live`]), or JSON for programs.

pub(crate) mod live;
pub(crate) mod notes;
pub(crate) mod tree;

use std::io::Write as _;

use engine::{FeedItem, TreeItem, WatchScope};
use graph::RunId;
use serde_json::json;

use crate::exit::Result;

pub(crate) enum View {
    People(Box<live::Live>),
    Json,
}

impl View {
    pub(crate) fn new(run: &RunId, as_json: bool) -> View {
        if as_json { View::Json } else { View::People(Box::new(live::Live::new(run.clone()))) }
    }

    /// Programs get the events of one run, numbered without gaps.
    pub(crate) fn watch_scope(&self) -> WatchScope {
        match self {
            View::People(_) => WatchScope::All,
            View::Json => WatchScope::One,
        }
    }

    pub(crate) fn see(&mut self, received: &TreeItem) -> Result<()> {
        match self {
            View::People(live) => live.see(received),
            View::Json => {
                let mut out = std::io::stdout().lock();
                match &received.item {
                    FeedItem::Event(numbered, _) => serde_json::to_writer(&mut out, &**numbered)?,
                    FeedItem::Delta { task, attempt, text } => {
                        serde_json::to_writer(&mut out, &json!({ "event": "delta", "task": task, "attempt": attempt, "text": &**text }))?;
                    }
                }
                writeln!(out)?;
            }
        }
        Ok(())
    }

    /// Updates times and spinners.
    pub(crate) fn tick(&mut self) {
        if let View::People(live) = self {
            live.draw();
        }
    }

    /// Erases the temporary lines, before anything else is printed.
    pub(crate) fn clear(&mut self) {
        if let View::People(live) = self {
            live.clear();
        }
    }
}
