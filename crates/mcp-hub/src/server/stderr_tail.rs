use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::watch;

use super::lock;
use effects::clip;

/// The last lines that a server wrote to stderr, and why its connection was given up, for error messages.
#[derive(Default)]
pub(crate) struct StderrTail {
    lines: Mutex<VecDeque<String>>,
    /// Whether a process may still write to it.
    is_open: watch::Sender<bool>,
    secrets: Vec<String>,
}

const LAST_LINES_MAX: usize = 20;
const SHOWN_LINES_MAX: usize = 4;
const SHOWN_BYTES_MAX: usize = 600;
/// How long to wait for the rest of what a process wrote before it ended.
const REST_MAX: Duration = Duration::from_millis(500);

impl StderrTail {
    /// None of these is ever among them.
    pub(super) fn without(secrets: Vec<String>) -> StderrTail {
        StderrTail { secrets, ..StderrTail::default() }
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

    pub(crate) fn set_open(&self, is_open: bool) {
        self.is_open.send_replace(is_open);
    }

    /// Waits until everything that a process wrote before it ended is here. Its standard output may be closed first.
    pub(crate) async fn complete(&self) {
        let mut is_open = self.is_open.subscribe();
        let _ = tokio::time::timeout(REST_MAX, is_open.wait_for(|is_open| !is_open)).await;
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
