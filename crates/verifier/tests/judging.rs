//! The model of this build on pairs written by hand, its determinism, and files that are not weights.

use baton_verifier::{LoadError, Verifier};
use evidence::{ClaimStatus, Claimed, Entailment as _, Pair, Span, decide};

fn model() -> &'static Verifier<'static> {
    Verifier::shared().expect("the weights are part of the repository")
}

fn status(evidence: &str, claim: &str) -> ClaimStatus {
    let spans = [Span { text: evidence.to_owned(), source: "test".to_owned(), ..Span::default() }];
    decide(&[Claimed { text: claim, spans: &spans }], Some(model())).remove(0).status
}

#[test]
fn paraphrases_are_supported() {
    let cases = [
        ("Marie Curie was born in Warsaw in 1867.", "Warsaw is the city where Marie Curie was born."),
        ("Hanna Lindqvist succeeded Pavel Novák as director.", "Hanna Lindqvist took over from Pavel Novák."),
    ];
    for (evidence, claim) in cases {
        assert_eq!(status(evidence, claim), ClaimStatus::Supported, "{claim}");
    }
}

#[test]
fn negations_and_swapped_roles_are_not() {
    let cases = [
        ("The log is not needed for read-only transactions.", "The log is needed for read-only transactions."),
        ("Arsenal beat Tottenham 3–1 at Highbury.", "Tottenham beat Arsenal 3–1 at Highbury."),
        ("Hanna Lindqvist succeeded Pavel Novák as director.", "Pavel Novák succeeded Hanna Lindqvist as director."),
        ("Paracetamol lowers fever.", "Paracetamol raises fever."),
    ];
    for (evidence, claim) in cases {
        assert_ne!(status(evidence, claim), ClaimStatus::Supported, "{claim}");
    }
}

#[test]
fn judgements_do_not_depend_on_the_batch() {
    let model = model();
    let long = "The ferry leaves at nine. ".repeat(200);
    let pairs: Vec<Pair<'_>> = (0..9)
        .map(|at| Pair {
            evidence: if at % 4 == 3 { &long } else { "The ferry leaves at nine and returns at noon." },
            claim: ["It leaves at nine.", "It sinks."][at % 2],
        })
        .collect();
    let together = model.judge(&pairs);
    let alone: Vec<_> = pairs.iter().map(|pair| model.judge(std::slice::from_ref(pair))[0]).collect();
    assert_eq!(together, alone);
    assert!(together.iter().all(|one| one.supported + one.contradicted <= 1.0 + 1e-5 && one.supported >= 0.0));
    assert_eq!(model.judge(&[]), []);
    // Nothing at all can be judged too.
    assert_eq!(model.judge(&[Pair { evidence: "", claim: "" }]).len(), 1);
}

#[test]
fn logits_are_those_of_the_training_scripts() {
    let model = model();
    let reference: Vec<serde_json::Value> = serde_json::from_str(include_str!("reference.json")).unwrap();
    for one in &reference {
        let found = model.logits(one["evidence"].as_str().unwrap(), one["claim"].as_str().unwrap());
        for (found, exact) in found.iter().zip(one["logits"].as_array().unwrap()) {
            assert!((f64::from(*found) - exact.as_f64().unwrap()).abs() < 0.05, "{found} for {exact}: {}", one["claim"]);
        }
    }
}

#[test]
fn other_files_are_refused() {
    let tokenizer = encoder::builtin::TOKENIZER;
    let header = |text: &str| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
    let cases: [(Vec<u8>, &str); 5] = [
        (Vec::new(), "cannot be read"),
        (vec![255; 100], "cannot be read"),
        (header("no"), "cannot be read"),
        (header("{}"), "lack calibration"),
        (header(r#"{"calibration":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}}"#), "cannot be read"),
    ];
    for (bytes, expected) in cases {
        let error = Verifier::load(&bytes, tokenizer).map(|_| ()).unwrap_err();
        assert!(matches!(&error, LoadError::Weights(why) if why.contains(expected)), "{error}");
    }
}
