//! The embedded model in a separate process: its kernels read the number of threads once per process, and its peak memory is measured
//! alone. The protocol is lines of JSON.
//!
//! ```text
//!   baton models bench ──ModelCall──> baton models bench --child ── Embedded
//!                      <──CallResult─
//! ```

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use effects::Progress;
use embedded_model::{self, Embedded, Finish, GeneratedOutput, Kernels, Options, threads};
use graph::ModelCall;
use serde::{Deserialize, Serialize};
use service::Result;
use service::wiring;

use super::super::wrong;
use super::{CallResult, Contestant};

pub(crate) struct EmbeddedContestant {
    child: Child,
    /// `None` when there are no further requests.
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    pub(crate) load_ms: f64,
    pub(crate) computed: Computed,
}

/// The kernels used, the work per token, and the machine's limits.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Computed {
    pub(crate) kernels: String,
    /// Bytes of weights per generated token; unknown for candle's kernels, like everything below.
    pub(crate) token_bytes: Option<usize>,
    /// Products of a weight and an activation, per token of a prompt.
    pub(crate) token_products: Option<usize>,
    pub(crate) memory_gb_s: Option<f64>,
    pub(crate) products_g_s: Option<f64>,
}

#[derive(Serialize, Deserialize)]
enum Line {
    Loaded { load_ms: f64, computed: Computed },
    Asked(CallResult),
    Failed(String),
    Over { peak_rss_mb: f64 },
}

impl EmbeddedContestant {
    pub(crate) fn start(weights: &Path, threads: usize, kernels: Kernels) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["models", "bench", "--child", "--kernels", kernels.name(), "--weights"]).arg(weights);
        command.env(threads::VARIABLE, threads.to_string());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else { return Err(wrong("the measured process has no pipes")) };
        let mut ours = EmbeddedContestant { child, stdin: Some(stdin), stdout: BufReader::new(stdout), load_ms: 0.0, computed: Computed::default() };
        match ours.line()? {
            Line::Loaded { load_ms, computed } => (ours.load_ms, ours.computed) = (load_ms, computed),
            Line::Failed(why) => return Err(wrong(why)),
            Line::Asked(_) | Line::Over { .. } => return Err(wrong("the measured process spoke out of turn")),
        }
        Ok(ours)
    }

    fn line(&mut self) -> Result<Line> {
        let mut line = String::new();
        if self.stdout.read_line(&mut line)? == 0 {
            return Err(wrong(format!("the measured process ended: {}", self.child.wait()?)));
        }
        serde_json::from_str(&line).map_err(wrong)
    }
}

impl Contestant for EmbeddedContestant {
    fn ask(&mut self, call: &ModelCall) -> Result<std::result::Result<CallResult, String>> {
        let Some(stdin) = &mut self.stdin else { return Err(wrong("the measured process was let go")) };
        writeln!(stdin, "{}", serde_json::to_string(call)?)?;
        stdin.flush()?;
        match self.line()? {
            Line::Asked(asked) => Ok(Ok(asked)),
            Line::Failed(why) => Ok(Err(why)),
            Line::Loaded { .. } | Line::Over { .. } => Err(wrong("the measured process spoke out of turn")),
        }
    }

    fn end(&mut self) -> Result<f64> {
        self.stdin = None;
        let Line::Over { peak_rss_mb } = self.line()? else { return Err(wrong("the measured process spoke out of turn")) };
        self.child.wait()?;
        Ok(peak_rss_mb)
    }
}

impl Drop for EmbeddedContestant {
    fn drop(&mut self) {
        // Without its standard input it exits by itself; one that is computing is not waited for.
        self.stdin = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The child process.
pub(crate) fn child(weights: &Path, kernels: Kernels) -> Result<()> {
    // Before the weights take their memory.
    let limits = embedded_model::limits(kernels);
    let model = Embedded::with(weights, Options { kernels, keeps_prefixes: false, ..Options::default() });
    let started = Instant::now();
    let first = match wiring::block_on(async { Ok(model.warm().await) })? {
        Ok(network) => {
            let limits = limits.filter(|_| network.kernels != Kernels::Candle);
            let computed = Computed {
                kernels: network.kernels.to_string(),
                token_bytes: network.token_bytes,
                token_products: network.token_products,
                memory_gb_s: limits.map(|limits| limits.memory_gb_s),
                products_g_s: limits.map(|limits| limits.products_g_s),
            };
            Line::Loaded { load_ms: started.elapsed().as_secs_f64() * 1e3, computed }
        }
        Err(trouble) => Line::Failed(trouble.to_string()),
    };
    print_line(&first)?;
    for line in std::io::stdin().lock().lines() {
        let call: ModelCall = serde_json::from_str(&line?)?;
        let started = Instant::now();
        let answered = wiring::block_on(async { Ok(model.answer(&call, &Progress::nowhere()).await) })?;
        let wall_ms = started.elapsed().as_secs_f64() * 1e3;
        print_line(&match answered {
            Err(trouble) => Line::Failed(trouble.to_string()),
            Ok(answer) => Line::Asked(CallResult {
                output: match answer.output {
                    GeneratedOutput::Text(text) => text.into(),
                    GeneratedOutput::Json(value) => value,
                },
                is_whole: answer.finish == Finish::Stop,
                tokens_prompt: answer.tokens.prompt,
                tokens_cached: answer.tokens.cached,
                tokens_answer: answer.tokens.answer,
                tokens_forced: answer.tokens.forced,
                prompt_ms: answer.timing.prompt.as_secs_f64() * 1e3,
                answer_ms: answer.timing.answer.as_secs_f64() * 1e3,
                wall_ms,
            }),
        })?;
    }
    print_line(&Line::Over { peak_rss_mb: super::peak_rss_mb("self") })?;
    Ok(())
}

fn print_line(line: &Line) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(line)?)?;
    Ok(out.flush()?)
}
