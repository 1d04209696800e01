//! The answer check of this build: what the training scripts compute, cases written by hand, and files that are not weights.

use baton_verifier::{LoadError, Verifier};
use evidence::{Entailment as _, ShortAnswer, TitledText};

fn model() -> &'static Verifier<'static> {
    Verifier::shared().expect("the weights are part of the repository")
}

fn short_answer(question: &str, answer: &str, passages: &[(&str, &str)]) -> ShortAnswer {
    let titled = |(title, text): &(&str, &str)| TitledText { title: (*title).to_owned(), text: (*text).to_owned() };
    ShortAnswer { question: question.to_owned(), answer: answer.to_owned(), passages: passages.iter().map(titled).collect() }
}

#[test]
fn logits_are_those_of_the_training_scripts() {
    let reference: Vec<serde_json::Value> = serde_json::from_str(include_str!("answers_reference.json")).unwrap();
    for one in &reference {
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        let passages =
            one["passages"].as_array().unwrap().iter().map(|passage| TitledText { title: text(&passage["title"]), text: text(&passage["text"]) });
        let answer = ShortAnswer { question: text(&one["question"]), answer: text(&one["answer"]), passages: passages.collect() };
        let found = model().answer_logits(&answer).unwrap();
        for (found, exact) in found.iter().zip(one["logits"].as_array().unwrap()) {
            assert!((f64::from(*found) - exact.as_f64().unwrap()).abs() < 0.2, "{found} for {exact}: {}", answer.question);
        }
    }
}

const PASSAGES: [(&str, &str); 2] = [
    (
        "Holidays",
        "Full-time employees have 28 days of paid leave a year. Leave that was not taken by 31 March of the following year expires. Requests go to the line manager two weeks before.",
    ),
    (
        "Expenses",
        "Receipts are handed in within 30 days. Train journeys are paid in second class; flights only for more than 600 km. Meals abroad are paid up to 45 euros a day.",
    ),
];

#[test]
fn what_the_passages_state_is_probable_and_what_they_do_not_is_not() {
    let probability = |question: &str, answer: &str| model().judge_answer(&short_answer(question, answer, &PASSAGES)).unwrap();
    for (question, answer) in [
        ("How many days of paid leave do employees have?", "28 days"),
        ("When does leave that was not taken expire?", "31 March"),
        ("How much is paid for meals abroad?", "45 euros a day"),
    ] {
        assert!(probability(question, answer) > 0.8, "{question} {answer}: {}", probability(question, answer));
    }
    for (question, answer) in [
        ("How many days of parental leave are there?", "28 days"),
        ("How many days of parental leave are there?", "30 days"),
        ("In which year was the company founded?", "600"),
    ] {
        assert!(probability(question, answer) < 0.3, "{question} {answer}: {}", probability(question, answer));
    }
    // Nothing at all can be judged too.
    assert!(model().judge_answer(&ShortAnswer::default()).is_some_and(f32::is_finite));
}

#[test]
fn other_files_are_refused() {
    let (verifier, tokenizer) = (encoder::builtin::VERIFIER, encoder::builtin::TOKENIZER);
    for wrong in [&[][..], &[255; 100], encoder::builtin::VECTORS] {
        let error = Verifier::load(verifier, tokenizer).unwrap().with_answers(wrong, verifier).map(|_| ()).unwrap_err();
        assert!(matches!(error, LoadError::Weights(_)), "{error}");
    }
    let without = Verifier::load(verifier, tokenizer).unwrap();
    assert_eq!(without.judge_answer(&short_answer("?", "!", &PASSAGES)), None);
}
