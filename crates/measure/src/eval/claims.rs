//! `baton eval claims`: claims with evidence and a known label, decided by the rules alone and by the rules with the verifier.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anstyle::Style;
use evidence::{ClaimStatus, Claimed, DecidedBy, Entailment, Span, decide};
use serde::{Deserialize, Serialize};
use verifier::Verifier;

use service::{Result, ServiceError};
use terminal::{BOLD, DIM, Table, paint};

/// Claims with evidence: how many are correctly classified as supported or not
#[derive(clap::Args)]
#[command(after_help = "\
One JSON object a line: {\"claim\", \"evidence\": [texts], \"label\": supported | refuted | not_enough}. Balanced accuracy is the mean of the share of
supported claims that are called supported and the share of the others that are not. Claims that are not checked count as not supported.

Examples:
  baton eval claims --data claims.jsonl
  baton eval claims --data claims.jsonl --json")]
pub struct Claims {
    /// Claims with evidence and labels, one JSON object per line
    #[arg(long, value_name = "PATH")]
    data: PathBuf,
    /// Only the rules; the verifier is not used
    #[arg(long)]
    rules_only: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Label {
    Supported,
    Refuted,
    NotEnough,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    claim: String,
    evidence: Vec<String>,
    label: Label,
}

struct LabelledClaim {
    claim: String,
    spans: Vec<Span>,
    label: Label,
}

#[derive(Debug, Serialize)]
struct Measured {
    /// `rules` if the verifier was not used.
    model: &'static str,
    claims: usize,
    /// Evidence texts, each with its claim.
    pairs: usize,
    #[serde(flatten)]
    with_model: Scores,
    pairs_per_second: f64,
    seconds: f64,
    /// The same by the rules alone.
    rules: Scores,
}

#[derive(Debug, Default, Serialize)]
struct Scores {
    balanced_accuracy: f64,
    /// Share of supported claims that are classified as supported.
    supported_accepted: f64,
    /// Share of the others that are not.
    others_rejected: f64,
    /// Share of refuted claims that are classified as contradicted.
    refuted_contradicted: f64,
    statuses: BTreeMap<ClaimStatus, usize>,
    /// Decisions by the model; the rest are by rules.
    by_model: usize,
}

/// Claims decided in one batch.
const BATCH_CLAIMS: usize = 256;

impl Claims {
    pub(super) fn run(&self) -> Result<()> {
        let claims = read(&self.data)?;
        let model = if self.rules_only { None } else { self.model() };
        let measured = measure(&claims, model);
        let mut out = anstream::stdout().lock();
        if self.json {
            writeln!(out, "{}", serde_json::to_string(&measured)?)?;
        } else {
            table(&measured).write(&mut out)?;
        }
        Ok(())
    }

    fn model(&self) -> Option<&'static dyn Entailment> {
        match Verifier::shared() {
            Ok(verifier) => Some(verifier),
            Err(error) => {
                let _ = writeln!(anstream::stderr(), "{}", paint(DIM, format!("{error}; only the rules decide")));
                None
            }
        }
    }
}

fn read(path: &Path) -> Result<Vec<LabelledClaim>> {
    let text = std::fs::read_to_string(path).map_err(|error| ServiceError::Usage(format!("{} cannot be read: {error}", path.display())))?;
    parse(&text).map_err(|why| ServiceError::Usage(format!("{}: {why}", path.display())))
}

fn parse(text: &str) -> std::result::Result<Vec<LabelledClaim>, String> {
    let mut claims = Vec::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let line: Line = serde_json::from_str(line).map_err(|error| format!("line {}: {error}", at + 1))?;
        if line.claim.trim().is_empty() {
            return Err(format!("line {}: the claim is empty", at + 1));
        }
        let span = |text: String| Span { text, source: "eval.claims".to_owned(), ..Span::default() };
        claims.push(LabelledClaim { claim: line.claim, spans: line.evidence.into_iter().map(span).collect(), label: line.label });
    }
    if claims.is_empty() { Err("there is no claim in it".to_owned()) } else { Ok(claims) }
}

fn measure(claims: &[LabelledClaim], model: Option<&dyn Entailment>) -> Measured {
    let (rules, rules_seconds) = scored(claims, None);
    let (with_model, seconds) = if model.is_some() { scored(claims, model) } else { scored(claims, None) };
    let pairs = claims.iter().map(|claim| claim.spans.len()).sum();
    let seconds = if model.is_some() { seconds } else { rules_seconds };
    let model = if model.is_some() { "verifier" } else { "rules" };
    Measured {
        model,
        claims: claims.len(),
        pairs,
        with_model,
        pairs_per_second: rounded(pairs as f64 / seconds.max(1e-9)),
        seconds: rounded(seconds),
        rules,
    }
}

fn scored(claims: &[LabelledClaim], model: Option<&dyn Entailment>) -> (Scores, f64) {
    let began = Instant::now();
    let mut decided = Vec::with_capacity(claims.len());
    for batch in claims.chunks(BATCH_CLAIMS) {
        let batch: Vec<Claimed<'_>> = batch.iter().map(|claim| Claimed { text: &claim.claim, spans: &claim.spans }).collect();
        decided.extend(decide(&batch, model));
    }
    let seconds = began.elapsed().as_secs_f64();
    let share = |label: &dyn Fn(Label) -> bool, wanted: &dyn Fn(ClaimStatus) -> bool| {
        let own: Vec<bool> = claims.iter().zip(&decided).filter(|(claim, _)| label(claim.label)).map(|(_, decided)| wanted(decided.status)).collect();
        (!own.is_empty()).then(|| own.iter().filter(|is_right| **is_right).count() as f64 / own.len() as f64)
    };
    let accepted = share(&|label| label == Label::Supported, &|status| status == ClaimStatus::Supported);
    let rejected = share(&|label| label != Label::Supported, &|status| status != ClaimStatus::Supported);
    let contradicted = share(&|label| label == Label::Refuted, &|status| status == ClaimStatus::Contradicted);
    let known: Vec<f64> = [accepted, rejected].into_iter().flatten().collect();
    let mut statuses = BTreeMap::new();
    for one in &decided {
        *statuses.entry(one.status).or_insert(0) += 1;
    }
    let scores = Scores {
        balanced_accuracy: rounded(known.iter().sum::<f64>() / known.len().max(1) as f64),
        supported_accepted: rounded(accepted.unwrap_or_default()),
        others_rejected: rounded(rejected.unwrap_or_default()),
        refuted_contradicted: rounded(contradicted.unwrap_or_default()),
        statuses,
        by_model: decided.iter().filter(|one| one.by == DecidedBy::Verifier).count(),
    };
    (scores, seconds)
}

fn rounded(value: f64) -> f64 {
    (value * 10_000.0).round() / 10_000.0
}

fn table(measured: &Measured) -> Table {
    let mut table = Table::new(&["", "rules", measured.model]);
    let mut row = |what: &str, rules: String, model: String| table.row([(Style::new(), what.to_owned()), (Style::new(), rules), (BOLD, model)]);
    let (rules, model) = (&measured.rules, &measured.with_model);
    row("balanced accuracy", format!("{:.3}", rules.balanced_accuracy), format!("{:.3}", model.balanced_accuracy));
    row("supported, accepted", format!("{:.3}", rules.supported_accepted), format!("{:.3}", model.supported_accepted));
    row("others, rejected", format!("{:.3}", rules.others_rejected), format!("{:.3}", model.others_rejected));
    row("refuted, contradicted", format!("{:.3}", rules.refuted_contradicted), format!("{:.3}", model.refuted_contradicted));
    for (status, name) in [
        (ClaimStatus::Supported, "supported"),
        (ClaimStatus::Weak, "weak"),
        (ClaimStatus::Unsupported, "unsupported"),
        (ClaimStatus::Contradicted, "contradicted"),
        (ClaimStatus::NotChecked, "not checked"),
    ] {
        let count = |scores: &Scores| scores.statuses.get(&status).copied().unwrap_or_default().to_string();
        row(name, count(rules), count(model));
    }
    row("claims", String::new(), measured.claims.to_string());
    row("pairs a second", String::new(), format!("{:.1}", measured.pairs_per_second));
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = r#"{"claim": "The bridge is 40 m long.", "evidence": ["The bridge is 40 m long and made of steel."], "label": "supported"}

{"claim": "The bridge is 90 m long.", "evidence": ["The bridge is 40 m long and made of steel."], "label": "refuted"}"#;

    #[test]
    fn rules_alone_are_measured_and_printed_as_json() {
        let measured = measure(&parse(LINES).unwrap(), None);
        let json = serde_json::to_value(&measured).unwrap();
        assert_eq!((json["balanced_accuracy"].as_f64(), json["rules"]["balanced_accuracy"].as_f64()), (Some(1.0), Some(1.0)));
        assert_eq!((json["statuses"]["supported"].as_u64(), json["claims"].as_u64(), json["model"].as_str()), (Some(1), Some(2), Some("rules")));
        assert!(json["pairs_per_second"].as_f64().unwrap() > 0.0);
    }

    #[test]
    fn a_bad_line_is_named() {
        let cases = [
            ("", "there is no claim"),
            ("not json", "line 1: "),
            (r#"{"claim": "a", "evidence": ["b"], "label": "perhaps"}"#, "line 1: unknown variant `perhaps`"),
            (r#"{"claim": "a", "evidence": "b", "label": "supported"}"#, "line 1: invalid type"),
            (r#"{"claim": "a", "label": "supported"}"#, "line 1: missing field `evidence`"),
            (r#"{"claim": " ", "evidence": ["b"], "label": "supported"}"#, "line 1: the claim is empty"),
        ];
        for (text, expected) in cases {
            let why = parse(text).map(|_| ()).unwrap_err();
            assert!(why.contains(expected), "{why}");
        }
        let why = parse(&format!("{LINES}\n{{}}")).map(|_| ()).unwrap_err();
        assert!(why.starts_with("line 4: "), "{why}");
    }
}
