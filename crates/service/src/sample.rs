//! Effects performed by a script, with changes recorded in a file.
//!
//! Everything a script marks as a change (`notes.append`, `mail.send`) is a line in a file beside the database. The line *is* the change,
//! so after a crash another process can determine whether it happened.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use effects::{EffectHandler, LookUp, Progress, Repeatability};
use graph::{Effect, Failure, FailureKind, Job, Reply};
use scripted::{ScriptError, ScriptedHandler};
use serde::{Deserialize, Serialize};

pub(crate) struct SampleHandler {
    script: ScriptedHandler,
    changes: Arc<Changes>,
}

impl SampleHandler {
    pub(crate) fn new(script: &str, db: &Path) -> Result<Self, ScriptError> {
        let mut path = db.as_os_str().to_owned();
        path.push(".sample.jsonl");
        Ok(SampleHandler { script: ScriptedHandler::parse(script)?, changes: Arc::new(Changes { path: path.into(), one_at_a_time: Mutex::new(()) }) })
    }
}

#[async_trait]
impl EffectHandler for SampleHandler {
    fn repeatability(&self, job: &Job) -> Repeatability {
        self.script.repeatability(job)
    }

    fn objection(&self, job: &Job) -> Option<graph::Objection> {
        self.script.objection(job)
    }

    async fn perform(&self, job: &Job, progress: &Progress) -> Reply {
        let reply = self.script.perform(job, progress).await;
        match self.repeatability(job) {
            Repeatability::Repeatable => return reply,
            Repeatability::Checkable | Repeatability::Once if reply.result.is_err() => return reply,
            Repeatability::Checkable | Repeatability::Once => {}
        }
        let change = Change { key: job.key.to_string(), effect: (*job.effect).clone(), reply };
        let changes = self.changes.clone();
        let written = tokio::task::spawn_blocking(move || changes.append(&change).map(|()| change.reply)).await;
        written.unwrap_or_else(|panic| Err(io::Error::other(panic))).unwrap_or_else(|error| {
            let path = self.changes.path.display();
            // The line may have been written, so the outcome is unknown and there is no retry.
            Reply::failed(Failure::new(FailureKind::InDoubt, format!("{path} could not be written: {error}")))
        })
    }

    async fn look_up(&self, job: &Job) -> LookUp {
        match self.repeatability(job) {
            Repeatability::Repeatable | Repeatability::Once => LookUp::Unknown,
            Repeatability::Checkable => match self.changes.find(&job.key.to_string()) {
                Ok(Some(reply)) => LookUp::Done(reply),
                Ok(None) => LookUp::NotDone,
                Err(error) => {
                    tracing::warn!("{} could not be read: {error}", self.changes.path.display());
                    LookUp::Unknown
                }
            },
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Change {
    key: String,
    effect: Effect,
    reply: Reply,
}

struct Changes {
    path: PathBuf,
    one_at_a_time: Mutex<()>,
}

impl Changes {
    fn append(&self, change: &Change) -> io::Result<()> {
        let _alone = self.one_at_a_time.lock().unwrap_or_else(PoisonError::into_inner);
        let mut line = serde_json::to_vec(change)?;
        line.push(b'\n');
        let mut file = OpenOptions::new().create(true).append(true).read(true).open(&self.path)?;
        if has_torn_end(&mut file)? {
            line.insert(0, b'\n');
        }
        // A single write: lines appended by two processes do not mix.
        file.write_all(&line)?;
        file.sync_data()
    }

    fn find(&self, key: &str) -> io::Result<Option<Reply>> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        for line in BufReader::new(file).split(b'\n') {
            // An incomplete line is a change that did not happen.
            if let Ok(change) = serde_json::from_slice::<Change>(&line?)
                && change.key == key
            {
                return Ok(Some(change.reply));
            }
        }
        Ok(None)
    }
}

/// Whether a crash cut the last line.
fn has_torn_end(file: &mut File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_change_is_there_or_it_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let changes = Changes { path: folder.path().join("c.jsonl"), one_at_a_time: Mutex::new(()) };
        let change = |key: &str| Change { key: key.into(), effect: graph::tool("t", json!({})), reply: Reply::ok(json!({ "of": key })) };
        assert_eq!(changes.find("a").unwrap(), None, "no file yet");
        changes.append(&change("a")).unwrap();
        // Cut off in the middle of a line, as by a crash.
        let mut whole = std::fs::read(&changes.path).unwrap();
        whole.extend(&serde_json::to_vec(&change("torn")).unwrap()[..20]);
        std::fs::write(&changes.path, whole).unwrap();
        changes.append(&change("b")).unwrap();
        for (key, found) in [("a", true), ("b", true), ("torn", false), ("c", false)] {
            assert_eq!(changes.find(key).unwrap(), found.then(|| change(key).reply), "{key}");
        }
    }
}
