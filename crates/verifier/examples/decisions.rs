//! What the rules and the model find about claims, with all that the decision depends on: `decisions [WEIGHTS TOKENIZER] < claims.jsonl > decisions.jsonl`.
//!
//! A line in: `{"claim", "evidence": [texts]}`. The first line out has the weights of the rules, each other one `{supported, problems, coverage, words, model, contradicted, excerpt,
//! excerpt_contradicted}`, for choosing the constants of `evidence/src/decide.rs` on the development split (`lab/train/choose.py`). `excerpt` is null where no text has one. Without arguments the weights of
//! this binary judge.

use std::io::Write as _;

use baton_verifier::Verifier;
use evidence::{Entailment as _, Options, Pair, Sentence, Span, Spans, Status, check};
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
struct Line {
    claim: String,
    evidence: Vec<String>,
}

/// Claims judged in one batch.
const BATCH_CLAIMS: usize = 256;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files: Vec<String> = std::env::args().skip(1).collect();
    let loaded;
    let model: &Verifier<'_> = match files.as_slice() {
        [] => Verifier::shared().map_err(|error| error.to_string())?,
        [weights, tokenizer] => {
            // The weights stay for the whole process, as they do in the binary.
            let weights: &'static [u8] = Box::leak(std::fs::read(weights)?.into_boxed_slice());
            loaded = Verifier::load(weights, &std::fs::read(tokenizer)?)?;
            &loaded
        }
        _ => return Err("decisions [WEIGHTS TOKENIZER]".into()),
    };
    let lines: Vec<Line> =
        std::io::stdin().lines().map(|line| Ok(serde_json::from_str(&line?)?)).collect::<Result<_, Box<dyn std::error::Error>>>()?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    writeln!(out, "{}", json!({ "weights": model.weights() }))?;
    for batch in lines.chunks(BATCH_CLAIMS) {
        let span = |text: &String| Span { text: text.clone(), source: "decisions".to_owned(), ..Span::default() };
        let spans: Vec<Vec<Span>> = batch.iter().map(|line| line.evidence.iter().map(span).collect()).collect();
        let wholes: Vec<Vec<String>> = batch
            .iter()
            .map(|line| line.evidence.iter().cloned().chain((line.evidence.len() > 1).then(|| line.evidence.join(" "))).collect())
            .collect();
        let excerpts: Vec<Vec<String>> =
            batch.iter().zip(&spans).map(|(line, spans)| Spans::new(spans).excerpts(&line.claim).into_iter().flatten().collect()).collect();
        let pairs = batch
            .iter()
            .zip(wholes.iter().zip(&excerpts))
            .flat_map(|(line, (wholes, excerpts))| wholes.iter().chain(excerpts).map(|evidence| Pair { evidence, claim: &line.claim }));
        let mut judged = model.judge(&pairs.collect::<Vec<_>>()).into_iter();
        for (((line, spans), wholes), excerpts) in batch.iter().zip(&spans).zip(&wholes).zip(&excerpts) {
            let own: Vec<_> = judged.by_ref().take(wholes.len()).collect();
            let near: Vec<_> = judged.by_ref().take(excerpts.len()).collect();
            let cites: String = (1..=line.evidence.len()).map(|number| format!("[{number}]")).collect();
            let checked = check(&format!("{} {cites}", line.claim), spans, &Options::default());
            let worst: Option<&Sentence> = checked
                .sentences
                .iter()
                .filter(|one| one.status.is_checked())
                .max_by(|a, b| a.status.cmp(&b.status).then(b.score.total_cmp(&a.score)));
            let found = json!({
                "supported": worst.is_some_and(|one| one.status == Status::Supported),
                "is_checked": worst.is_some(),
                "problems": worst.map(|one| one.problems.iter().map(|problem| problem.kind).collect::<Vec<_>>()).unwrap_or_default(),
                "coverage": worst.map_or(0.0, |one| one.coverage),
                "words": line.evidence.iter().map(|text| text.split_whitespace().count()).sum::<usize>(),
                "model": own.iter().map(|one| one.supported).fold(0.0, f32::max),
                "contradicted": own.iter().map(|one| one.contradicted).fold(0.0, f32::max),
                "excerpt": near.iter().map(|one| one.supported).reduce(f32::max),
                "excerpt_contradicted": near.iter().map(|one| one.contradicted).reduce(f32::max),
            });
            writeln!(out, "{found}")?;
        }
    }
    Ok(())
}
