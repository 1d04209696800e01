//! A question to a person as the assistant's message, and how the next message finds the run that asks.
//!
//! Clients of chat completions send back the assistant's message and nothing else, so the message ends with a comment of Markdown, which readers do not see:
//! `[//]: # (baton-run 0192…)`.

use wire::api::ChatMessage;

use crate::turn::{OpenQuestion, hint};

const BEGIN: &str = "[//]: # (baton-run ";
const END: &str = ")";

/// The message of the assistant; with the comment for clients that send back nothing but text.
pub(super) fn message(asks: &OpenQuestion, run: Option<&str>) -> String {
    let text = format!("{}\n\n{}", asks.waiting.question.prompt.trim(), hint(&asks.waiting));
    match run {
        Some(run) => format!("{text}\n\n{BEGIN}{run}{END}"),
        None => text,
    }
}

/// The run that the last message of the assistant names.
pub(super) fn run_of(history: &[ChatMessage]) -> Option<String> {
    let last = history.last().filter(|last| last.role == "assistant")?;
    let named = last.content.rsplit_once(BEGIN)?.1.split_once(END)?.0;
    (named.len() <= 64 && named.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')).then(|| named.to_owned())
}

/// Without the comments.
pub(super) fn without(history: &mut [ChatMessage]) {
    for message in history.iter_mut().filter(|message| message.content.contains(BEGIN)) {
        let kept: Vec<&str> = message.content.lines().filter(|line| !line.starts_with(BEGIN)).collect();
        message.content = kept.join("\n").trim_end().to_owned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_run_that_asks_is_found_again_and_taken_out() {
        let message = |role: &str, content: &str| ChatMessage { role: role.into(), content: content.into() };
        let mut history = vec![message("user", "x"), message("assistant", "May I?\n\nAnswer yes or no.\n\n[//]: # (baton-run 0a1b)")];
        assert_eq!(run_of(&history).as_deref(), Some("0a1b"));
        without(&mut history);
        assert_eq!(history[1].content, "May I?\n\nAnswer yes or no.");
        assert_eq!(run_of(&history), None);
        assert_eq!(run_of(&[message("assistant", "[//]: # (baton-run ../x)")]), None);
    }
}
