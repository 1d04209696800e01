//! What a run does, for whoever looks: lines for people ([`lines`]), drawn as they come ([`live`]), or JSON for programs.

pub(crate) mod lines;
pub(crate) mod live;

use std::io::Write as _;

use engine::Seen;
use serde_json::json;

use crate::exit::Result;

pub(crate) enum View {
    People(live::Live),
    Json,
}

impl View {
    pub(crate) fn new(as_json: bool) -> View {
        if as_json { View::Json } else { View::People(live::Live::new()) }
    }

    pub(crate) fn see(&mut self, seen: &Seen) -> Result<()> {
        match self {
            View::People(live) => live.see(seen),
            View::Json => {
                let mut out = std::io::stdout().lock();
                match seen {
                    Seen::Told(told) => serde_json::to_writer(&mut out, &**told)?,
                    Seen::Delta { task, attempt, text } => {
                        serde_json::to_writer(&mut out, &json!({ "event": "delta", "task": task, "attempt": attempt, "text": &**text }))?;
                    }
                }
                writeln!(out)?;
            }
        }
        Ok(())
    }

    /// Time has passed.
    pub(crate) fn tick(&mut self) {
        if let View::People(live) = self {
            live.draw();
        }
    }

    /// Takes away what was drawn only for now, before anything else is printed.
    pub(crate) fn clear(&mut self) {
        if let View::People(live) = self {
            live.clear();
        }
    }
}
