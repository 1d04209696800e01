//! The answer on stdout, word by word while a model says it.
//!
//! What streams is one call's words; what counts is the run's answer. Mostly they are the same, and then nothing is printed twice. Where
//! they are not (another model had to take over), the answer follows whole.

use std::collections::BTreeSet;
use std::io::{IsTerminal as _, Write as _};

use engine::{Heard, Seen};
use graph::{Effect, Event, RunId, TaskId};

use crate::answer::Answer;
use crate::exit::Result;

#[derive(Default)]
pub(crate) struct Streamed {
    /// Calls whose words are the answer itself.
    answering: BTreeSet<(RunId, TaskId)>,
    text: String,
}

impl Streamed {
    /// Whether this is a piece of the answer.
    pub(crate) fn is_answer(&mut self, heard: &Heard) -> bool {
        match &heard.seen {
            Seen::Told(told, _) => {
                if let Event::Asked { task, effect, .. } = &told.event
                    && let Effect::CallModel(call) = &**effect
                    && heard.speaks
                    && call.purpose == flows::ANSWER_CALL
                    && call.schema.is_none()
                    // What was said over evidence is checked and cited before it is the answer, so it is shown once, then.
                    && !call.messages.iter().any(|message| message.role == models::evidence::ROLE)
                {
                    self.answering.insert((heard.run.clone(), *task));
                }
                false
            }
            Seen::Delta { task, .. } => self.answering.contains(&(heard.run.clone(), *task)),
        }
    }

    /// Whether what is printed stands on the screen where the view draws.
    pub(crate) fn shares_screen() -> bool {
        std::io::stdout().is_terminal()
    }

    pub(crate) fn print(&mut self, heard: &Heard) -> Result<()> {
        if let Seen::Delta { text, .. } = &heard.seen {
            let mut out = anstream::stdout().lock();
            out.write_all(evidence::visible(text).as_bytes())?;
            out.flush()?;
            self.text.push_str(text);
        }
        Ok(())
    }

    /// Ends the line of a stream that was cut off.
    pub(crate) fn break_off(&self) -> Result<()> {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            writeln!(anstream::stdout())?;
        }
        Ok(())
    }

    /// Ends with the whole answer printed, once.
    pub(crate) fn complete(&self, answer: &Answer) -> Result<()> {
        self.break_off()?;
        match self.text.trim() {
            "" => answer.print(),
            streamed if streamed == answer.text.trim() => Ok(()),
            _ => {
                writeln!(anstream::stdout())?;
                answer.print()
            }
        }
    }
}
