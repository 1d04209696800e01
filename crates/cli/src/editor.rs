//! What a person types at the terminal: one line editor for a session and for a run's questions.
//!
//! While it reads, the terminal is in its hands: Ctrl-C is a key and no signal. It reads in a thread of its own and gives it back at every key that
//! ends a line, so that no forgotten reader takes the next line away.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Behavior, Config, Context, Helper};

use crate::exit::{Exit, Result, ServiceError};
use crate::follow::Interrupts;

pub(crate) struct Editor {
    /// Away while it reads.
    inner: Option<Box<rustyline::Editor<Words, FileHistory>>>,
    history: Option<PathBuf>,
    /// The terminal as it was found.
    found: Option<Termios>,
}

/// What came of asking for a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Typed {
    Line(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D.
    End,
    /// Somebody wants the process to end.
    Leave(Exit),
}

const HISTORY_MAX: usize = 1_000;

impl Editor {
    /// Remembers nothing and completes nothing.
    pub(crate) fn new() -> Result<Editor> {
        Editor::with(Words::default(), None)
    }

    /// Completes these words at the start of a line, and remembers what was typed in the file, which nobody else may read.
    pub(crate) fn remembering(words: Words, history: &Path) -> Result<Editor> {
        let mut editor = Editor::with(words, Some(history.to_owned()))?;
        if let Some(inner) = &mut editor.inner
            && history.exists()
            && let Err(error) = inner.load_history(history)
        {
            tracing::warn!("{} cannot be read: {error}", history.display());
        }
        Ok(editor)
    }

    fn with(words: Words, history: Option<PathBuf>) -> Result<Editor> {
        let builder = Config::builder().max_history_size(HISTORY_MAX).and_then(|builder| builder.history_ignore_dups(true));
        // Its own terminal: stdout may be a file.
        let config = builder.map_err(|error| trouble(&error))?.history_ignore_space(true).behavior(Behavior::PreferTerm).build();
        let mut inner = rustyline::Editor::with_config(config).map_err(|error| trouble(&error))?;
        inner.set_helper(Some(words));
        Ok(Editor { inner: Some(Box::new(inner)), history, found: tcgetattr(std::io::stdin()).ok() })
    }

    /// A line, or several: one that ends in a backslash goes on in the next, and what is pasted stays together.
    pub(crate) async fn read(&mut self, prompt: &str, interrupts: &mut Interrupts) -> Result<Typed> {
        let Some(mut inner) = self.inner.take() else { return Ok(Typed::End) };
        let styled = (prompt.to_owned(), terminal::paint(terminal::BOLD, prompt));
        let reading = tokio::task::spawn_blocking(move || {
            let typed = inner.readline(&styled);
            (inner, typed)
        });
        let (mut inner, typed) = tokio::select! {
            read = reading => read.map_err(std::io::Error::other)?,
            exit = interrupts.next() => {
                self.give_back();
                return Ok(Typed::Leave(exit));
            }
        };
        let typed = match typed {
            Ok(line) => {
                let line = joined(&line);
                if let Some(path) = &self.history
                    && !line.trim().is_empty()
                {
                    // What is not remembered is typed again.
                    let kept = inner.add_history_entry(line.as_str()).and_then(|_| inner.append_history(path));
                    kept.unwrap_or_else(|error| tracing::warn!("{} cannot be written: {error}", path.display()));
                }
                Ok(Typed::Line(line))
            }
            Err(ReadlineError::Interrupted) => Ok(Typed::Interrupted),
            Err(ReadlineError::Eof) => Ok(Typed::End),
            Err(error) => Err(trouble(&error)),
        };
        self.inner = Some(inner);
        typed
    }

    /// The terminal as it was, when its reader will not come back to do it.
    fn give_back(&self) {
        if let Some(found) = &self.found {
            // Nothing is left to do about it.
            let _ = tcsetattr(std::io::stdin(), SetArg::TCSANOW, found);
            eprint!("\x1b[?2004l\r\n");
        }
    }
}

/// Lines that end in a backslash with what follows them.
pub(crate) fn joined(typed: &str) -> String {
    typed.replace("\\\r\n", "\n").replace("\\\n", "\n")
}

pub(crate) fn goes_on(line: &str) -> bool {
    line.ends_with('\\')
}

fn trouble(error: &ReadlineError) -> ServiceError {
    ServiceError::Failed(format!("the terminal cannot be read: {error}"))
}

/// What may be completed: the first word of a line from a list, words after some of them from another, and file names after others.
#[derive(Default)]
pub(crate) struct Words {
    pub(crate) first: Vec<String>,
    pub(crate) after: Vec<(String, Vec<String>)>,
    pub(crate) files_after: Vec<String>,
    pub(crate) files: FilenameCompleter,
}

impl Words {
    fn fitting(words: &[String], typed: &str) -> Vec<Pair> {
        let fitting = words.iter().filter(|word| word.starts_with(typed));
        fitting.map(|word| Pair { display: word.clone(), replacement: word.clone() }).collect()
    }
}

impl Completer for Words {
    type Candidate = Pair;

    fn complete(&self, line: &str, pos: usize, context: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let typed = &line[..pos];
        let Some((first, rest)) = typed.split_once(' ') else {
            // Only what begins like a command; everything else is a message.
            let fitting = if typed.starts_with('/') { Words::fitting(&self.first, typed) } else { Vec::new() };
            return Ok((0, fitting));
        };
        if self.files_after.iter().any(|word| word == first) {
            return self.files.complete(line, pos, context);
        }
        match self.after.iter().find(|(word, _)| word == first) {
            Some((_, words)) => Ok((pos - rest.len(), Words::fitting(words, rest))),
            None => Ok((pos, Vec::new())),
        }
    }
}

impl Validator for Words {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(if goes_on(context.input()) { ValidationResult::Incomplete } else { ValidationResult::Valid(None) })
    }
}

impl Hinter for Words {
    type Hint = String;
}

impl Highlighter for Words {
    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        Cow::Borrowed(hint)
    }
}

impl Helper for Words {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backslash_at_the_end_of_a_line_goes_on_in_the_next() {
        assert!(goes_on("one \\") && !goes_on("one \\ ") && !goes_on(""));
        assert_eq!(joined("one\\\ntwo\\\\x\nthree"), "one\ntwo\\\\x\nthree");
    }

    #[test]
    fn commands_are_completed_and_messages_are_not() {
        let words = Words {
            first: vec!["/flow".into(), "/forget".into()],
            after: vec![("/flow".into(), vec!["auto".into(), "panel".into()])],
            ..Words::default()
        };
        let history = FileHistory::new();
        let fitting = |line: &str| {
            let (at, pairs) = words.complete(line, line.len(), &Context::new(&history)).unwrap();
            (at, pairs.into_iter().map(|pair| pair.replacement).collect::<Vec<_>>())
        };
        assert_eq!(fitting("/f"), (0, vec!["/flow".into(), "/forget".into()]));
        assert_eq!(fitting("/flow pa"), (6, vec!["panel".into()]));
        assert_eq!(fitting("flow").1, Vec::<String>::new());
        assert_eq!(fitting("/else pa").1, Vec::<String>::new());
    }
}
