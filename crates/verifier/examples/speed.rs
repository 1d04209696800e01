//! Measures a weights file: `speed WEIGHTS TOKENIZER REFERENCE.json`. Prints the largest difference from the logits in the reference, pairs per second
//! at 128 tokens, the memory of the process, and the time of checking an answer of ten sentences over eight passages of 100 words. The reference is a list of `{"evidence", "claim", "logits"}`, as `lab/train/train.py` writes it.

use std::time::Instant;

use baton_verifier::Verifier;
use evidence::{Entailment as _, Judged, Options, Pair, Span, Spans};
use serde::Deserialize;

#[derive(Deserialize)]
struct Reference {
    evidence: String,
    claim: String,
    logits: [f32; 3],
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files: Vec<String> = std::env::args().skip(1).collect();
    let [weights, tokenizer, reference] = files.as_slice() else { return Err("speed WEIGHTS TOKENIZER REFERENCE.json".into()) };
    println!("{} MB before loading", resident_mb());
    // The weights stay for the whole process, as they do in the binary.
    let weights: &'static [u8] = Box::leak(std::fs::read(weights)?.into_boxed_slice());
    let began = Instant::now();
    let verifier = Verifier::load(weights, &std::fs::read(tokenizer)?)?;
    println!("loaded in {:.0} ms; {} MB, of which {} MB are the file", began.elapsed().as_secs_f64() * 1e3, resident_mb(), weights.len() >> 20);
    let reference: Vec<Reference> = serde_json::from_str(&std::fs::read_to_string(reference)?)?;
    let mut largest = 0.0_f32;
    for one in &reference {
        let found = verifier.logits(&one.evidence, &one.claim);
        largest = found.iter().zip(one.logits).fold(largest, |largest, (a, b)| largest.max((a - b).abs()));
        println!("{found:?} for {:?}", one.logits);
    }
    println!("largest difference {largest:.4}");
    // 110 words of evidence and 12 of the claim, with three special tokens, are about 128 tokens.
    let evidence = "the ship left the port in the early morning and reached the island after two days ".repeat(7);
    let evidence: String = evidence.split_inclusive(' ').take(112).collect();
    let pairs = vec![Pair { evidence: &evidence, claim: "the ship left the port and reached the island after two days at sea" }; 64];
    let began = Instant::now();
    let mut count = 0;
    while began.elapsed().as_secs_f64() < 4.0 {
        count += verifier.judge(&pairs).len();
    }
    println!("{:.1} pairs/s at 128 tokens; {} MB", count as f64 / began.elapsed().as_secs_f64(), resident_mb());
    let (spans, answer) = answer_over_passages();
    let mut fastest = f64::INFINITY;
    for _ in 0..5 {
        let began = Instant::now();
        let spans = Spans::new(&spans);
        let judged = Judged::by(&verifier, &answer, &spans);
        let checked = spans.check(&answer, &Options { judged: judged.as_ref(), ..Options::default() });
        fastest = fastest.min(began.elapsed().as_secs_f64());
        assert_eq!(checked.sentences.len(), 10);
    }
    println!("{:.0} ms for ten sentences over eight passages (the fastest of five)", fastest * 1e3);
    Ok(())
}

/// Eight passages of about 100 words, and ten sentences that each cite one.
fn answer_over_passages() -> (Vec<Span>, String) {
    let towns = ["Arden", "Brixholm", "Calder", "Dunmore", "Elsfield", "Farrow", "Glenby", "Hadley"];
    let things = ["harbour", "library", "railway", "market", "bridge", "theatre"];
    let sentence = |town: &str, at: usize| {
        format!("The {} of {town} was opened in {} and is used by many people from the villages.", things[at], 1850 + 10 * at)
    };
    let span =
        |town: &&str| Span { text: (0..6).map(|at| sentence(town, at)).collect::<Vec<_>>().join(" "), source: "speed".to_owned(), ..Span::default() };
    let cited = |at: usize| {
        format!("People from the villages use the {} of {}, opened in {} [{}].", things[at % 6], towns[at % 8], 1850 + 10 * (at % 6), at % 8 + 1)
    };
    (towns.iter().map(span).collect(), (0..10).map(cited).collect::<Vec<_>>().join(" "))
}

/// Resident memory of this process, as Linux states it.
fn resident_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or_default() / 1024
}
