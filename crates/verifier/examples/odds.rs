//! The model's own probability of support for claims, without the rules: `odds WEIGHTS TOKENIZER < claims.jsonl > odds.jsonl`.
//!
//! A line in: `{"claim", "evidence": [texts]}`. A line out: `[supported, is_contradicted]`, for fitting the weights of the rules (`lab/train/refit.py`).

use std::io::Write as _;

use baton_verifier::Verifier;
use evidence::{ClaimStatus, Claimed, DecisionWeights, Entailment, Judgement, Pair, Span, decide};
use serde::Deserialize;

#[derive(Deserialize)]
struct Line {
    claim: String,
    evidence: Vec<String>,
}

/// The model, with weights that leave the rules out.
struct Alone<'b>(Verifier<'b>);

impl Entailment for Alone<'_> {
    fn judge(&self, pairs: &[Pair<'_>]) -> Vec<Judgement> {
        self.0.judge(pairs)
    }

    fn weights(&self) -> DecisionWeights {
        DecisionWeights { model: 1.0, ..DecisionWeights::default() }
    }
}

/// Claims decided in one batch.
const BATCH_CLAIMS: usize = 256;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files: Vec<String> = std::env::args().skip(1).collect();
    let [weights, tokenizer] = files.as_slice() else { return Err("odds WEIGHTS TOKENIZER < claims.jsonl".into()) };
    let (weights, tokenizer) = (std::fs::read(weights)?, std::fs::read(tokenizer)?);
    let model = Alone(Verifier::load(&weights, &tokenizer)?);
    let lines: Vec<Line> =
        std::io::stdin().lines().map(|line| Ok(serde_json::from_str(&line?)?)).collect::<Result<_, Box<dyn std::error::Error>>>()?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for batch in lines.chunks(BATCH_CLAIMS) {
        let span = |text: &String| Span { text: text.clone(), source: "odds".to_owned(), ..Span::default() };
        let spans: Vec<Vec<Span>> = batch.iter().map(|line| line.evidence.iter().map(span).collect()).collect();
        let claims: Vec<Claimed<'_>> = batch.iter().zip(&spans).map(|(line, spans)| Claimed { text: &line.claim, spans }).collect();
        for decided in decide(&claims, Some(&model)) {
            writeln!(out, "[{:.6}, {}]", decided.score, u8::from(decided.status == ClaimStatus::Contradicted))?;
        }
    }
    Ok(())
}
