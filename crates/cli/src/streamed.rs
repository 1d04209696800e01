//! The answer on stdout, word by word while a model says it.
//!
//! What streams is one call's words; what counts is the run's answer. Mostly they are the same, and then nothing is printed twice. Where
//! they are not (another model had to take over), the answer follows whole.

use std::collections::BTreeSet;
use std::io::Write as _;

use engine::Seen;
use graph::{Effect, Event, TaskId};

use crate::exit::Result;

#[derive(Default)]
pub(crate) struct Streamed {
    /// Calls whose words are the answer itself.
    answering: BTreeSet<TaskId>,
    text: String,
}

impl Streamed {
    /// Whether this is a piece of the answer.
    pub(crate) fn is_answer(&mut self, seen: &Seen) -> bool {
        match seen {
            Seen::Told(told) => {
                if let Event::Asked { task, effect, .. } = &told.event
                    && let Effect::CallModel(call) = &**effect
                    && call.purpose == flows::direct::ANSWER
                    && call.schema.is_none()
                    // What was said over evidence is checked and cited before it is the answer, so it is shown once, then.
                    && !call.messages.iter().any(|message| message.role == world::model::evidence::ROLE)
                {
                    self.answering.insert(*task);
                }
                false
            }
            Seen::Delta { task, .. } => self.answering.contains(task),
        }
    }

    pub(crate) fn print(&mut self, seen: &Seen) -> Result<()> {
        if let Seen::Delta { text, .. } = seen {
            let mut out = anstream::stdout().lock();
            out.write_all(visible(text).as_bytes())?;
            out.flush()?;
            self.text.push_str(text);
        }
        Ok(())
    }

    /// Ends with the whole answer printed, once.
    pub(crate) fn complete(&self, answer: &str) -> Result<()> {
        let mut out = anstream::stdout().lock();
        match self.text.trim() {
            "" => writeln!(out, "{}", visible(answer))?,
            streamed if streamed == answer.trim() && self.text.ends_with('\n') => {}
            streamed if streamed == answer.trim() => writeln!(out)?,
            _ => writeln!(out, "\n\n{}", visible(answer))?,
        }
        Ok(())
    }
}

/// A model's words may not move the cursor or ring a bell.
fn visible(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}
