//! Terminal input: one line editor for a session and for a run's questions.
//!
//! While it reads, it controls the terminal: Ctrl-C is a key and not a signal. It reads in its own thread and returns after every line, so
//! that no abandoned reader takes the next one.

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
    /// `None` while it reads.
    inner: Option<Box<rustyline::Editor<Words, FileHistory>>>,
    history: Option<PathBuf>,
    /// The terminal settings before the editor changed them.
    found: Option<Termios>,
}

/// Result of reading a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LineInput {
    Line(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D.
    End,
    /// The process is asked to end.
    Leave(Exit),
}

const HISTORY_MAX: usize = 1_000;

impl Editor {
    /// Without history and completion.
    pub(crate) fn new() -> Result<Editor> {
        Editor::with(Words::default(), None)
    }

    /// Completes these words at the start of a line, and keeps a history in the file, readable by this account only.
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
        // Uses the terminal itself: stdout may be a file.
        let config = builder.map_err(|error| service_error(&error))?.history_ignore_space(true).behavior(Behavior::PreferTerm).build();
        let mut inner = rustyline::Editor::with_config(config).map_err(|error| service_error(&error))?;
        inner.set_helper(Some(words));
        Ok(Editor { inner: Some(Box::new(inner)), history, found: tcgetattr(std::io::stdin()).ok() })
    }

    /// One line, or several: a line that ends in a backslash continues, and pasted text stays together.
    pub(crate) async fn read(&mut self, prompt: &str, interrupts: &mut Interrupts) -> Result<LineInput> {
        let Some(mut inner) = self.inner.take() else { return Ok(LineInput::End) };
        let styled = (prompt.to_owned(), terminal::paint(terminal::BOLD, prompt));
        let reading = tokio::task::spawn_blocking(move || {
            let typed = inner.readline(&styled);
            (inner, typed)
        });
        let (mut inner, typed) = tokio::select! {
            read = reading => read.map_err(std::io::Error::other)?,
            exit = interrupts.next() => {
                self.give_back();
                return Ok(LineInput::Leave(exit));
            }
        };
        let typed = match typed {
            Ok(line) => {
                let line = joined(&line);
                if let Some(path) = &self.history
                    && !line.trim().is_empty()
                {
                    // Without a history entry the user types it again.
                    let kept = inner.add_history_entry(line.as_str()).and_then(|_| inner.append_history(path));
                    kept.unwrap_or_else(|error| tracing::warn!("{} cannot be written: {error}", path.display()));
                }
                Ok(LineInput::Line(line))
            }
            Err(ReadlineError::Interrupted) => Ok(LineInput::Interrupted),
            Err(ReadlineError::Eof) => Ok(LineInput::End),
            Err(error) => Err(service_error(&error)),
        };
        self.inner = Some(inner);
        typed
    }

    /// Restores the terminal, if its reader will not return to do so.
    fn give_back(&self) {
        if let Some(found) = &self.found {
            // No way to report it.
            let _ = tcsetattr(std::io::stdin(), SetArg::TCSANOW, found);
            eprint!("\x1b[?2004l\r\n");
        }
    }
}

/// Joins lines that end in a backslash with the next.
pub(crate) fn joined(typed: &str) -> String {
    typed.replace("\\\r\n", "\n").replace("\\\n", "\n")
}

pub(crate) fn is_continued(line: &str) -> bool {
    line.ends_with('\\')
}

fn service_error(error: &ReadlineError) -> ServiceError {
    ServiceError::Failed(format!("the terminal cannot be read: {error}"))
}

/// Completions: the first word of a line from a list, words after some of them from another, and file names after others.
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
            // Only commands are completed; everything else is a message.
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
        Ok(if is_continued(context.input()) { ValidationResult::Incomplete } else { ValidationResult::Valid(None) })
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
        assert!(is_continued("one \\") && !is_continued("one \\ ") && !is_continued(""));
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
