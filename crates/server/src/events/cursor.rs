//! How far a client has read the events of a run and of those below it: for each run the number of the next event.
//!
//! Events of different runs have no order among them that would be the same a second time, so one number is not enough. Runs are named by the tasks
//! that led to them, which any process finds again in the journals. `-12_3.0-5_3.0~1.2-7` is: 12 of the run itself, 5 of the one that its
//! task 3.0 started, 7 of the one that task 1.2 of that one started.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use graph::TaskId;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cursor(BTreeMap<Arc<str>, u64>);

/// A cursor grows with the number of runs; this is enough for hundreds.
const BYTES_MAX: usize = 16 << 10;

impl Cursor {
    pub(crate) fn parse(text: &str) -> Option<Cursor> {
        if text.len() > BYTES_MAX {
            return None;
        }
        let mut cursor = Cursor::default();
        for part in text.split('_').filter(|part| !part.is_empty()) {
            let (path, next) = part.rsplit_once('-')?;
            if !path.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | '~')) {
                return None;
            }
            cursor.0.insert(path.into(), next.parse().ok()?);
        }
        Some(cursor)
    }

    /// Whether that event was read.
    pub(crate) fn has(&self, path: &str, seq: u64) -> bool {
        self.0.get(path).is_some_and(|next| seq < *next)
    }

    pub(crate) fn record(&mut self, path: &Arc<str>, seq: u64) {
        let next = self.0.entry(path.clone()).or_default();
        *next = (*next).max(seq + 1);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

pub(crate) fn path(tasks: &[TaskId]) -> Arc<str> {
    tasks.iter().map(|task| format!("{}.{}", task.step, task.index)).collect::<Vec<_>>().join("~").into()
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (path, next)) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str("_")?;
            }
            write!(f, "{path}-{next}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_decoded_as_it_was_encoded() {
        let mut cursor = Cursor::default();
        cursor.record(&path(&[]), 11);
        cursor.record(&path(&[TaskId { step: 3, index: 0 }, TaskId { step: 1, index: 2 }]), 6);
        assert_eq!(cursor.to_string(), "-12_3.0~1.2-7");
        assert_eq!(Cursor::parse("-12_3.0~1.2-7"), Some(cursor.clone()));
        assert!(cursor.has("", 11) && !cursor.has("", 12) && !cursor.has("4.0", 0));
        assert_eq!(Cursor::parse(""), Some(Cursor::default()));
        for wrong in ["x", "12", "-x", "a-1", "-1_", "<script>-1"] {
            assert_eq!(Cursor::parse(wrong).is_some(), wrong == "-1_", "{wrong}");
        }
    }
}
