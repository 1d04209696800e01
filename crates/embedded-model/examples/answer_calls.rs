//! Answers model calls from a file, to measure weights on calls that the flows made (`crates/flows/examples/render_calls.rs`).
//!
//! ```text
//! answer_calls WEIGHTS.gguf [MODEL [zeroed]] < calls.jsonl     MODEL: a pinned model whose adapter is applied; zeroed: an adapter of zeros, so
//!                                                              that the untuned weights are measured on the same kernels
//!   {"messages": […], "schema": {…}}  ->  {"said": …, "error": …, "seconds": …, "prompt_tokens": …, "answer_tokens": …}
//! ```

use std::io::{BufRead, Write};
use std::time::Instant;

use baton_embedded_model::{Adapter, Embedded, GeneratedOutput, Options, weights};
use effects::Progress;
use graph::{Message, ModelCall};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The same header and nothing but zeros behind it.
fn zeroed(adapter: &Adapter) -> &'static Adapter {
    let mut bytes = adapter.bytes.to_vec();
    let header = bytes.first_chunk::<8>().map_or(0, |length| u64::from_le_bytes(*length) as usize);
    bytes[8 + header..].fill(0);
    let sha256 = download::hex(&Sha256::digest(&bytes));
    Box::leak(Box::new(Adapter { bytes: bytes.leak(), sha256: sha256.leak(), ..*adapter }))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("which weights? answer_calls WEIGHTS.gguf [MODEL] < calls.jsonl")?;
    let adapter = match arguments.next() {
        Some(name) => {
            let adapter = weights::adapter_of(&name).ok_or_else(|| format!("{name} has no adapter"))?;
            Some(if arguments.next().as_deref() == Some("zeroed") { zeroed(adapter) } else { adapter })
        }
        None => None,
    };
    let model = Embedded::with(path, Options { adapter, ..Options::default() });
    let started = Instant::now();
    eprintln!("{:?} after {:.1} s", model.warm().await?, started.elapsed().as_secs_f64());
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let call: Value = serde_json::from_str(&line?)?;
        let messages: Vec<Message> = serde_json::from_value(call["messages"].clone())?;
        let schema = Some(call["schema"].clone()).filter(|schema| !schema.is_null());
        let call = ModelCall { messages: models::evidence::without_evidence_role(&messages), schema, ..ModelCall::default() };
        let started = Instant::now();
        let answered = model.answer(&call, &Progress::nowhere()).await;
        let seconds = started.elapsed().as_secs_f64();
        let line = match answered {
            Ok(answer) => {
                let output = match answer.output {
                    GeneratedOutput::Text(text) => json!(text),
                    GeneratedOutput::Json(value) => value,
                };
                json!({ "said": output, "seconds": seconds, "prompt_tokens": answer.tokens.prompt, "answer_tokens": answer.tokens.answer })
            }
            Err(trouble) => json!({ "error": trouble.to_string(), "seconds": seconds }),
        };
        writeln!(out, "{line}")?;
        out.flush()?;
    }
    Ok(())
}
