//! Measures a weights file: `speed WEIGHTS TOKENIZER REFERENCE.json`. Prints the largest difference from the logits in the reference, pairs per second
//! at 128 tokens, and the memory of the process. The reference is a list of `{"evidence", "claim", "logits"}`, as `lab/train/train.py` writes it.

use std::time::Instant;

use baton_verifier::Verifier;
use evidence::{Entailment as _, Pair};
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
    Ok(())
}

/// Resident memory of this process, as Linux states it.
fn resident_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or_default() / 1024
}
