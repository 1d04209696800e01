use graph::{Failure, FailureKind};
use serde_json::{Value, json};

use super::drive::{Canned, Ended, drive};

fn research(input: Value, canned: &Canned<'_>) -> Ended {
    drive(&super::research::flow().unwrap(), input, canned)
}

fn question() -> Value {
    json!({ "question": "What is it?" })
}

fn hit(name: &str) -> Value {
    json!({ "hits": [{ "title": name, "url": format!("https://{name}"), "text": "" }] })
}

fn page(name: &str) -> Value {
    json!({ "title": name, "url": format!("https://{name}"), "text": "the whole page" })
}

fn failure(kind: FailureKind) -> Result<Value, Failure> {
    Err(Failure::new(kind, "no luck"))
}

/// All effects succeed, except those in `changed`.
fn canned<'c>(changed: &[(&'c str, Vec<Result<Value, Failure>>)]) -> Vec<(&'c str, Vec<Result<Value, Failure>>)> {
    let mut all = changed.to_vec();
    all.extend([
        ("plan", vec![Ok(json!(["one", "two"]))]),
        ("search", vec![Ok(hit("a")), Ok(hit("b"))]),
        ("fetch", vec![Ok(page("a"))]),
        ("critic", vec![Ok(json!({ "approve": true }))]),
        ("answer", vec![Ok(json!("It is this."))]),
        ("notes.append", vec![Ok(json!({ "n": 1 }))]),
    ]);
    all
}

#[test]
fn all_goes_well() {
    let end = research(question(), &canned(&[]));
    let asked = ["model plan", "tool search", "tool search", "tool fetch", "model critic", "model answer", "tool notes.append"];
    assert_eq!(end.effect_names, asked);
    let sources = json!([
        { "title": "a", "url": "https://a", "text": "the whole page" },
        { "title": "b", "url": "https://b", "text": "" },
    ]);
    assert_eq!(end.output, json!({ "answer": "It is this.", "sources": sources, "rounds": 1 }));
    assert_eq!(end.messages, ["assistant: It is this."]);
    assert!(end.words.contains(r#""url":"https://a""#), "the hole was filled from the first search");
}

#[test]
fn a_plan_is_found_in_what_models_write_or_replaced() {
    let good = ["one", "two"];
    let cases = [
        (Ok(json!(["one", " two ", ""])), &good[..]),
        (Ok(json!({ "lookups": ["one", "two"] })), &good),
        (Ok(json!("[\"one\", \"two\"]")), &good),
        (Ok(json!(["1", "2", "3", "4", "5", "6"])), &["1", "2", "3", "4"]),
        (Ok(json!([])), &["What is it?"]),
        (Ok(json!(["one", 2])), &["What is it?"]),
        (Ok(json!("I would search for one and two.")), &["What is it?"]),
        (Ok(json!({ "lookups": { "lookups": ["one"] } })), &["What is it?"]),
        (Ok(json!(null)), &["What is it?"]),
        (failure(FailureKind::Budget), &["What is it?"]),
    ];
    for (reply, lookups) in cases {
        let end = research(question(), &canned(&[("plan", vec![reply.clone()])]));
        assert_eq!(end.note("plan"), Some(&json!(lookups)), "{reply:?}");
        assert_eq!(end.note("plan_unusable").is_some(), lookups == ["What is it?"], "{reply:?}");
        assert_eq!(end.count("tool search"), lookups.len());
        assert_eq!(end.output["answer"], "It is this.");
    }
}

#[test]
fn the_critic_may_send_it_back_twice() {
    let no = || Ok(json!({ "approve": false, "feedback": "too thin" }));
    let yes = || Ok(json!({ "approve": true }));
    let cases = [
        (vec![yes()], 1),
        (vec![no(), yes()], 2),
        (vec![no(), no(), yes()], 3),
        (vec![no(), no(), no()], 3),
        (vec![failure(FailureKind::Timeout)], 1),
        (vec![Ok(json!("hm"))], 1),
        (vec![Ok(json!({ "approve": false })), yes()], 2),
    ];
    for (verdicts, rounds) in cases {
        let end = research(question(), &canned(&[("critic", verdicts.clone())]));
        assert_eq!((end.output["rounds"].as_u64(), end.count("model plan")), (Some(rounds as u64), rounds), "{verdicts:?}");
        assert_eq!(end.words.contains("was rejected"), rounds > 1, "{verdicts:?}");
        assert_eq!(end.output["answer"], "It is this.");
    }
}

#[test]
fn lookups_that_fail_are_left_out() {
    let network = || Err(Failure::new(FailureKind::Network, "reset").retry());
    // Replies of the searches in turn, and the resulting addresses and number of failures.
    let cases = [
        (vec![Ok(hit("a")), failure(FailureKind::Tool)], vec!["https://a"], 1),
        // The fetch depends on the first search.
        (vec![failure(FailureKind::Tool), Ok(hit("b"))], vec!["https://b"], 2),
        // It also needs a hit.
        (vec![Ok(json!({ "hits": [] })), Ok(hit("b"))], vec!["https://b"], 1),
        (vec![Ok(json!("gibberish")), Ok(hit("b"))], vec!["https://b"], 2),
        (vec![failure(FailureKind::Refused)], vec![], 3),
        // Both fail twice, then the first succeeds.
        (vec![network(), network(), network(), network(), Ok(hit("a")), network()], vec!["https://a"], 1),
    ];
    for (searches, addresses, failures) in cases {
        let end = research(question(), &canned(&[("search", searches.clone())]));
        let found: Vec<&str> = end.output["sources"].as_array().unwrap().iter().filter_map(|source| source["url"].as_str()).collect();
        assert_eq!(found, addresses, "{searches:?}");
        assert_eq!(end.note("lookups_failed").and_then(Value::as_array).map(Vec::len), Some(failures), "{searches:?}");
        assert_eq!(end.messages, ["assistant: It is this."]);
    }
}

#[test]
fn an_answer_that_does_not_come_is_replaced_by_what_was_found() {
    for reply in [failure(FailureKind::Network), Ok(json!("  ")), Ok(json!({ "text": "x" }))] {
        let end = research(question(), &canned(&[("answer", vec![reply.clone()])]));
        let answer = end.output["answer"].as_str().unwrap();
        assert!(answer.contains("https://a") && answer.contains("https://b"), "{reply:?} {answer}");
        assert_eq!(end.messages, [format!("assistant: {answer}")]);
        assert!(end.note("answer_failed").is_some());
    }
    let nothing = research(question(), &canned(&[("answer", vec![failure(FailureKind::Network)]), ("search", vec![failure(FailureKind::Tool)])]));
    assert_eq!(nothing.output["answer"], "I found nothing about \"What is it?\".");
}

#[test]
fn a_failed_note_is_reported_and_not_fatal() {
    let end = research(question(), &canned(&[("notes.append", vec![failure(FailureKind::InDoubt)])]));
    assert_eq!(end.note("note_failed"), Some(&json!("in doubt: no luck")));
    assert_eq!(end.output["answer"], "It is this.");
}

#[test]
fn a_person_is_asked_only_if_set_and_then_decides() {
    assert_eq!(research(question(), &canned(&[])).count("person"), 0);
    let cases = [
        (Ok(json!({ "approve": true })), true),
        (Ok(json!(true)), true),
        (Ok(json!("Yes")), true),
        (Ok(json!({ "approve": false })), false),
        (Ok(json!("rather not")), false),
        (Ok(json!(null)), false),
        (failure(FailureKind::Timeout), false),
    ];
    for (word, is_yes) in cases {
        let end = research(json!({ "question": "What is it?", "approve": true }), &canned(&[("person", vec![word.clone()])]));
        assert_eq!((end.count("person"), end.count("model answer"), end.count("tool notes.append")), (1, usize::from(is_yes), usize::from(is_yes)));
        let answer = if is_yes { "It is this." } else { "I was asked not to answer this." };
        assert_eq!(end.output["answer"], answer, "{word:?}");
        assert_eq!(end.messages, [format!("assistant: {answer}")]);
    }
}

#[test]
fn an_input_without_a_question_is_refused() {
    let graph = super::research::flow().unwrap();
    for input in [json!(null), json!({}), json!({ "question": 3 })] {
        assert!(graph::Run::start(&graph, graph::Start::new("research", "t", "r", input.clone())).is_err(), "{input}");
    }
}
