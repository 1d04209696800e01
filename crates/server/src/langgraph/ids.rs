//! Names as clients of LangGraph know them: UUIDs of threads and runs, and what checkpoints and interrupts are called.

use graph::{RunId, TaskId};

use crate::api::runs::digest_of;
use crate::langserve::uuid_of;

/// Bytes of a UUID as Baton writes its own ids: 32 hexadecimal digits. `None` for other names.
pub(super) fn digits(id: &str) -> Option<String> {
    let digits: String = id.chars().filter(|c| *c != '-').collect::<String>().to_lowercase();
    let is_uuid = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) && matches!(id.len(), 32 | 36);
    is_uuid.then_some(digits)
}

/// An id as clients receive it.
pub(super) fn shown(id: &str) -> String {
    digits(id).map_or_else(|| id.to_owned(), |digits| uuid_of(&RunId::from(digits)))
}

/// The run that a client means.
pub(super) fn run_of(id: &str) -> RunId {
    RunId::from(digits(id).unwrap_or_else(|| id.to_owned()))
}

/// A UUID that always is the same for the same parts.
pub(super) fn derived(parts: &[&str]) -> String {
    let mut digits = digest_of(parts, 16);
    // Version 8 (made by a rule of one's own), variant 1.
    digits.replace_range(12..13, "8");
    digits.replace_range(16..17, "a");
    shown(&digits)
}

/// A question of a run, as long as it is open.
pub(super) fn interrupt_id(run: &RunId, task: TaskId, attempt: u32) -> String {
    digest_of(&["interrupt", run.as_str(), &format!("{}.{}.{attempt}", task.step, task.index)], 16)
}

/// A place in a thread's past: on entering a step of a run, after its end, or after a client changed the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CheckpointId {
    Step { run: RunId, step: u64 },
    End { run: RunId },
    Edit(String),
}

impl CheckpointId {
    pub(super) fn parse(text: &str) -> Option<CheckpointId> {
        let (run, place) = text.rsplit_once(':')?;
        if run == "edit" {
            return digits(place).map(|_| CheckpointId::Edit(text.to_owned()));
        }
        let run = run_of(&digits(run)?);
        match place {
            "end" => Some(CheckpointId::End { run }),
            step => step.parse().ok().map(|step| CheckpointId::Step { run, step }),
        }
    }
}

impl std::fmt::Display for CheckpointId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CheckpointId::Step { run, step } => write!(f, "{}:{step}", uuid_of(run)),
            CheckpointId::End { run } => write!(f, "{}:end", uuid_of(run)),
            CheckpointId::Edit(id) => f.write_str(id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_decoded_as_they_were_encoded() {
        let run = engine::new_run_id();
        for id in [CheckpointId::Step { run: run.clone(), step: 3 }, CheckpointId::End { run: run.clone() }] {
            assert_eq!(CheckpointId::parse(&id.to_string()), Some(id));
        }
        assert_eq!(run_of(&shown(run.as_str())), run);
        assert_eq!(CheckpointId::parse("1ef-not-one"), None);
        assert_eq!((shown("notes").as_str(), digits("notes")), ("notes", None));
        assert_eq!(derived(&["a"]), derived(&["a"]));
        assert_eq!(derived(&["a"]).len(), 36);
    }
}
