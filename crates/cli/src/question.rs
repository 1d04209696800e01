//! Open questions of a run: finding and printing them, and parsing a typed answer.

pub(crate) use engine::OpenQuestion as Open;
use graph::{Consent, TaskId};
pub(crate) use service::typed_answer::{answer, words};
use terminal::tail;

use crate::exit::{Result, ServiceError};

/// The command that answers a question; `all` are the open questions.
pub(crate) fn how(open: &Open, all: &[Open]) -> String {
    let words = words(&open.waiting.question);
    if open.waiting.call.is_some() {
        let is_alone = all.iter().filter(|other| other.run == open.run).count() <= 1;
        let task = if is_alone { String::new() } else { format!("{} ", open.waiting.task) };
        return format!("baton runs answer {} {task}{}", tail(&open.run), words.join("|"));
    }
    let other = words.get(1..).filter(|others| !others.is_empty()).map(|others| format!("   (or {})", others.join(", "))).unwrap_or_default();
    format!("baton runs answer {} {} {}{other}", tail(&open.run), open.waiting.task, words.first().map_or("VALUE", String::as_str))
}

/// The requested question: by its task, or because there is only one.
pub(crate) fn choose(open: &[Open], task: Option<TaskId>) -> Result<Open> {
    let listed = || open.iter().map(|one| format!("\n  {}", how(one, open))).collect::<String>();
    let fitting: Vec<&Open> = open.iter().filter(|open| task.is_none_or(|task| open.waiting.task == task)).collect();
    match (fitting.as_slice(), task) {
        ([one], _) => Ok((*one).clone()),
        ([], _) if open.is_empty() => {
            Err(ServiceError::Usage("this run has no open question; `baton runs list --status asking` lists runs that have".into()))
        }
        ([], Some(task)) => Err(ServiceError::Usage(format!("task {task} has no open question; these have:{}", listed()))),
        (_, _) => Err(ServiceError::Usage(format!("several questions are open; name the run and the task:{}", listed()))),
    }
}

/// The possible answers to a question about a tool call, each with its letter.
pub(crate) fn legend(open: &Open) -> Option<String> {
    open.waiting.call.as_ref()?;
    let meaning = |word: &str| match Consent::parse(word)? {
        Consent::Once => Some("o once"),
        Consent::Conversation => Some("c in this conversation"),
        Consent::Tool => Some("t always this tool"),
        Consent::Server => Some("s always this server"),
        Consent::No => Some("n no"),
    };
    Some(words(&open.waiting.question).iter().filter_map(|word| meaning(word)).collect::<Vec<_>>().join(", "))
}
