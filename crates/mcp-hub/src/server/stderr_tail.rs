use std::collections::VecDeque;
use std::sync::Mutex;

use super::lock;
use effects::clip;

/// The last lines that a server wrote to stderr, and why its connection was given up, for error messages.
#[derive(Default)]
pub(crate) struct StderrTail {
    lines: Mutex<VecDeque<String>>,
    secrets: Vec<String>,
}

const LAST_LINES_MAX: usize = 20;
const SHOWN_LINES_MAX: usize = 4;
const SHOWN_BYTES_MAX: usize = 600;

impl StderrTail {
    /// None of these is ever among them.
    pub(super) fn without(secrets: Vec<String>) -> StderrTail {
        StderrTail { lines: Mutex::default(), secrets }
    }

    pub(crate) fn note(&self, line: String) {
        if line.trim().is_empty() {
            return;
        }
        let mut lines = lock(&self.lines);
        if lines.len() == LAST_LINES_MAX {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    pub(super) fn clear(&self) {
        lock(&self.lines).clear();
    }

    /// The message, followed by the server's last output, without the secrets of its configuration.
    pub(crate) fn after(&self, message: &str) -> String {
        let lines = lock(&self.lines);
        let output_lines: Vec<&str> = lines.iter().skip(lines.len().saturating_sub(SHOWN_LINES_MAX)).map(String::as_str).collect();
        let all = if output_lines.is_empty() {
            message.to_owned()
        } else {
            format!("{message}; its last output: {}", clip(&output_lines.join(" | "), SHOWN_BYTES_MAX))
        };
        self.redact(&all)
    }

    pub(crate) fn redact(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret, "[secret]"))
    }
}
