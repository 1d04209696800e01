//! llama.cpp as a peer: its server from PyPI, with the same weights and as many threads, called through our own client.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use effects::Progress;
use graph::{Key, ModelCall, TaskId};
use models::{Models, Table};
use serde::Deserialize;
use serde_json::json;
use service::{Result, ServiceError};

use super::super::peer::environment;
use super::super::wrong;
use super::{CallResult, Contestant};

const PINNED: [&str; 1] = ["xllamacpp==2026.10.11549"];
/// A server that hangs must not block the benchmark.
const DEADLINE: Duration = Duration::from_secs(600);

pub(crate) struct LlamaCpp {
    child: Child,
    runtime: tokio::runtime::Runtime,
    models: Models,
    pub(crate) version: String,
    pub(crate) load_ms: f64,
}

/// Printed by the script when the server is ready.
#[derive(Deserialize)]
struct Ready {
    url: String,
    version: String,
}

impl LlamaCpp {
    pub(crate) fn start(weights: &Path, threads: usize) -> Result<Self> {
        let python = environment("bench-llamacpp", &PINNED)?;
        let mut command = Command::new(python);
        command.args(["-c", include_str!("llamacpp.py")]).arg(weights).arg(threads.to_string());
        let started = Instant::now();
        // Its standard input stays open until it should exit; its log is not needed.
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let out = child.stdout.take().ok_or_else(|| wrong("the peer has no pipe"))?;
        let ready = BufReader::new(out).lines().map_while(std::result::Result::ok).find_map(|line| serde_json::from_str::<Ready>(&line).ok());
        let Some(ready) = ready else { return Err(wrong(format!("the peer ended: {}", child.wait()?))) };
        let load_ms = started.elapsed().as_secs_f64() * 1e3;
        let table: Table = serde_json::from_value(json!({"endpoints": {"peer": {"url": format!("{}/v1", ready.url)}}}))?;
        let name = "compat/peer/weights".parse().map_err(wrong)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let models = Models::new(table.with_defaults(), name, &|_| None).map_err(|trouble| ServiceError::Failed(trouble.message))?;
        Ok(LlamaCpp { child, runtime, models, version: format!("xllamacpp {}", ready.version), load_ms })
    }
}

impl Contestant for LlamaCpp {
    /// It reports when each piece came, and the number of tokens, but neither forced nor cached ones.
    fn ask(&mut self, call: &ModelCall) -> Result<std::result::Result<CallResult, String>> {
        let started = Instant::now();
        let received: Arc<Mutex<Option<(Instant, Instant)>>> = Arc::default();
        let note = received.clone();
        let progress = Progress::to(move |_| {
            let now = Instant::now();
            let mut received = note.lock().unwrap_or_else(PoisonError::into_inner);
            *received = Some(received.map_or((now, now), |(first, _)| (first, now)));
        });
        let key = Key::of(&"bench".into(), &"bench".into(), TaskId { step: 0, index: 0 });
        let answer = async { tokio::time::timeout(DEADLINE, self.models.answer(call, &key, &progress)).await };
        let Ok(reply) = self.runtime.block_on(answer) else { return Err(wrong("the peer did not answer in ten minutes")) };
        let wall_ms = started.elapsed().as_secs_f64() * 1e3;
        let (first, last) = received.lock().unwrap_or_else(PoisonError::into_inner).unwrap_or((started, started));
        let count = |tokens: u64| usize::try_from(tokens).unwrap_or(usize::MAX);
        let is_whole = reply.about.as_ref().is_some_and(|about| about["finish"] == "stop");
        Ok(reply.result.map_err(|failure| failure.to_string()).map(|output| CallResult {
            output,
            is_whole,
            tokens_prompt: count(reply.usage.tokens_in),
            tokens_cached: 0,
            tokens_answer: count(reply.usage.tokens_out),
            tokens_forced: 0,
            prompt_ms: (first - started).as_secs_f64() * 1e3,
            answer_ms: (last - first).as_secs_f64() * 1e3,
            wall_ms,
        }))
    }

    fn end(&mut self) -> Result<f64> {
        Ok(super::peak_rss_mb(&self.child.id().to_string()))
    }
}

impl Drop for LlamaCpp {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
