use graph::{Failure, FailureKind};
use serde_json::{Value, json};

use super::drive::{Ended, drive};

type ScriptedResults = Vec<Result<Value, Failure>>;

fn team(topics: &[&str], children: ScriptedResults, mail: ScriptedResults) -> Ended {
    drive(&super::team::flow().unwrap(), json!({ "topics": topics }), &[("research", children), ("mail.send", mail)])
}

fn answer(text: &str) -> Result<Value, Failure> {
    Ok(json!({ "answer": text, "sources": [], "rounds": 1 }))
}

fn sent() -> ScriptedResults {
    vec![Ok(json!("sent"))]
}

#[test]
fn findings_come_in_the_order_of_topics_and_are_mailed() {
    let end = team(&["a", "b"], vec![answer("A"), answer("B")], sent());
    assert_eq!(end.effect_names, ["agent research", "agent research", "tool mail.send"]);
    assert_eq!(end.output, json!({ "findings": [{ "topic": "a", "answer": "A" }, { "topic": "b", "answer": "B" }], "mailed": true }));
    assert_eq!(end.messages, ["assistant: 2 of 2 topics answered.\na: A\nb: B"]);
    assert!(end.words.contains(r#""text":"a: A\nb: B""#), "{}", end.words);
}

#[test]
fn a_child_that_fails_is_a_line_in_the_report() {
    let end = team(&["a", "b"], vec![Err(Failure::new(FailureKind::Tool, "gave up")), answer("B")], sent());
    assert_eq!(end.output["findings"], json!([{ "topic": "a", "failed": "tool: gave up" }, { "topic": "b", "answer": "B" }]));
    assert_eq!(end.output["mailed"], true);
    assert!(end.messages[0].contains("a: not answered (tool: gave up)"));
}

#[test]
fn a_child_may_answer_in_any_form() {
    let end = team(&["a"], vec![Ok(json!(["x"]))], sent());
    assert_eq!(end.output["findings"], json!([{ "topic": "a", "answer": "[\"x\"]" }]));
}

#[test]
fn a_failed_mail_is_reported_and_not_fatal() {
    let end = team(&["a"], vec![answer("A")], vec![Err(Failure::new(FailureKind::InDoubt, "who knows"))]);
    assert_eq!((end.count("tool mail.send"), &end.output["mailed"]), (1, &json!(false)));
    assert_eq!(end.note("mail_failed"), Some(&json!("in doubt: who knows")));
}

#[test]
fn no_topics_ask_nothing_and_too_many_are_reported() {
    let none = team(&[], vec![answer("A")], sent());
    assert_eq!((none.effect_names.len(), none.output), (0, json!({ "findings": [], "mailed": false })));

    let many = team(&["t"; 2_000], vec![answer("A")], sent());
    assert_eq!((many.count("agent research"), many.output["findings"].as_array().unwrap().len()), (32, 2_000));
    assert_eq!(many.output["findings"][32]["failed"], "not researched: topics_max = 32");
}
