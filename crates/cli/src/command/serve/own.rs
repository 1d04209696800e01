//! The world as one user of many sees it: their own documents and nobody else's.
//!
//! All users share one index, so what a search of it finds is sifted here, on the way into the journal, by whose run it is for.

use std::sync::Arc;

use async_trait::async_trait;
use effects::{LookUp, Nature, Progress, World};
use evidence::Found;
use graph::{Effect, Failure, FailureKind, Job, Reply};
use serde_json::Value;

use super::library::Library;

pub(super) struct Own {
    world: Arc<dyn World>,
    library: Library,
}

/// The tools that read the index.
const DOCS: &str = "docs.";

impl Own {
    pub(super) fn new(world: Arc<dyn World>, library: Library) -> Arc<Own> {
        Arc::new(Own { world, library })
    }

    /// Why a call may not be made: it names a file that is somebody else's.
    fn refusal(&self, job: &Job) -> Option<Reply> {
        let Effect::CallTool(call) = &*job.effect else { return None };
        let file = call.arguments.get("file").and_then(Value::as_str).filter(|_| call.tool.starts_with(DOCS))?;
        let missing =
            || Reply::failed(Failure::new(FailureKind::Tool, format!("there is no {file:?} among the indexed files; use a path that a search gave")));
        (!self.library.is_theirs(&job.context.user, file)).then(missing)
    }

    fn sifted(&self, job: &Job, reply: Reply) -> Reply {
        let Effect::CallTool(call) = &*job.effect else { return reply };
        if !call.tool.starts_with(DOCS) {
            return reply;
        }
        let result = reply.result.map(|value| sift(value, &|address| self.library.is_theirs(&job.context.user, address)));
        Reply { result, ..reply }
    }
}

/// Without the passages that are somebody else's. What was said in words is said again of what is left.
fn sift(value: Value, is_theirs: &dyn Fn(&str) -> bool) -> Value {
    let Ok(mut found) = serde_json::from_value::<Found>(value.clone()) else { return value };
    let before = found.spans.len();
    found.spans.retain(|span| span.address.as_deref().is_none_or(is_theirs));
    let mut is_sifted = found.spans.len() < before;
    if let Some(passages) = found.data.get_mut("passages").and_then(Value::as_array_mut) {
        let before = passages.len();
        passages.retain(|passage| passage["address"].as_str().is_none_or(is_theirs));
        is_sifted |= passages.len() < before;
    }
    if !is_sifted {
        return value;
    }
    let said =
        |(number, span): (usize, &evidence::Span)| format!("[{}] {}\n{}\n", number + 1, span.address.as_deref().unwrap_or_default(), span.text);
    found.text = found.spans.iter().enumerate().map(said).collect::<Vec<_>>().join("\n");
    serde_json::to_value(found).unwrap_or_default()
}

#[async_trait]
impl World for Own {
    fn nature(&self, job: &Job) -> Nature {
        self.world.nature(job)
    }

    fn objection(&self, job: &Job) -> Option<graph::Objection> {
        self.world.objection(job)
    }

    async fn perform(&self, job: &Job, progress: &Progress) -> Reply {
        if let Some(refusal) = self.refusal(job) {
            return refusal;
        }
        let reply = self.world.perform(job, progress).await;
        self.sifted(job, reply)
    }

    async fn look_up(&self, job: &Job) -> LookUp {
        self.world.look_up(job).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_somebody_elses_is_in_no_form_of_a_reply() {
        let span = |address: &str| json!({ "text": format!("secret of {address}"), "source": "docs.search", "address": address });
        let value = json!({
            "text": "[1] /u/ada/a.md\nsecret of /u/ada/a.md\n[2] /u/bob/b.md\nsecret of /u/bob/b.md",
            "data": { "passages": [{ "text": "secret of /u/ada/a.md", "address": "/u/ada/a.md" }, { "text": "secret of /u/bob/b.md", "address": "/u/bob/b.md" }] },
            "spans": [span("/u/ada/a.md"), span("/u/bob/b.md")],
        });
        let of_ada = |address: &str| address.starts_with("/u/ada/");
        let sifted = sift(value.clone(), &of_ada);
        assert!(!sifted.to_string().contains("/u/bob"), "{sifted}");
        assert_eq!(sifted["spans"].as_array().map(Vec::len), Some(1));
        assert_eq!(sift(value.clone(), &|_| true), value);
    }
}
