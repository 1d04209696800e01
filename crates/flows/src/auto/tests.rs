use graph::{Failure, FailureKind, Outcome};
use serde_json::{Value, json};

use super::*;
use crate::driven::{Driven, Said, drive};

const ALL: [&str; 6] = ["direct", "search", "chat", "reason", "panel", "supervise"];

fn auto(question: &str, more: &Value, mut changed: impl FnMut(&str) -> Option<Said>) -> Driven {
    let mut input = json!({ "question": question, "settings": { "flows": ALL } });
    for (name, value) in more.as_object().unwrap() {
        input[name] = value.clone();
    }
    drive(&flow().unwrap(), input, |effect, _| {
        changed(effect.name()).unwrap_or_else(|| match effect.name() {
            "route" => Ok(json!({ "flow": "search", "reason": "facts" })),
            flow => Ok(json!({ "answer": format!("from {flow}"), "flow": flow, "sources": [], "extra": 1 })),
        })
    })
}

fn thread() -> Value {
    json!({ "history": [{ "role": "user", "content": "Who won?" }, { "role": "assistant", "content": "Ada." }] })
}

#[test]
fn x2_rules_decide_without_a_model() {
    let none = json!({});
    let thread = thread();
    let docs = json!({ "docs": true });
    let with_docs = json!({ "docs": true, "history": thread["history"] });
    let cases: &[(&str, &Value, &str)] = &[
        // A user's own word.
        ("Quick: what is a WAL?", &none, "direct"),
        ("Give me a quick answer: which is the latest news?", &none, "direct"),
        ("Think step by step about how to compare two logs", &none, "reason"),
        ("Please search for papers, step by step", &none, "search"),
        ("Should we shard? Double-check it.", &none, "panel"),
        ("Use panel: is it safe?", &none, "panel"),
        ("Answer with the supervise flow", &none, "supervise"),
        // Greetings.
        ("Hello!", &none, "direct"),
        ("thank you", &thread, "direct"),
        // Jobs.
        ("Research batons and send an e-mail to Ada", &none, "supervise"),
        ("Find facts on batons and write a report", &none, "supervise"),
        // The conversation.
        ("Summarize the last answers", &thread, "chat"),
        ("What did you say about Ada?", &thread, "chat"),
        ("And in 2020?", &thread, "chat"),
        ("Why?", &thread, "chat"),
        ("When was she born?", &thread, "chat"),
        ("And in 2020?", &with_docs, "direct"),
        // Several things.
        ("Compare SQLite and Postgres", &none, "reason"),
        ("What is A? What is B? And C?", &none, "reason"),
        // Looking up.
        ("How many stories have the upstream keyword?", &none, "search"),
        ("What is the latest release of tokio?", &none, "search"),
        ("How does a run survive a crash?", &docs, "direct"),
        ("How does a run survive a crash?", &json!({ "docs": true, "model": { "is_small": false } }), "search"),
    ];
    for (question, more, expected) in cases {
        let driven = auto(question, more, |_| None);
        assert_eq!((driven.note("flow").unwrap()["flow"].as_str(), driven.models("").len()), (Some(*expected), 0), "{question}");
        assert!(!driven.note("flow").unwrap()["why"].as_str().unwrap().is_empty());
        assert_eq!(driven.answer(), format!("from {expected}"));
    }
    let long = auto(&"word ".repeat(80), &none, |_| None);
    assert_eq!(long.note("flow").unwrap()["flow"], "reason");
}

#[test]
fn x2_one_small_call_decides_where_the_rules_do_not() {
    for question in ["How do I write a quick sort in Rust?", "Why is the sky blue?", "Warum ist der Himmel blau?", "And in 2020?"] {
        let driven = auto(question, &json!({}), |_| None);
        assert_eq!((driven.models("route").len(), driven.models("").len()), (1, 1), "{question}");
        assert_eq!(driven.note("flow"), Some(&json!({ "flow": "search", "why": "the model chose it: facts" })));
        let call = driven.models("route")[0];
        assert_eq!(call.schema.as_ref().unwrap()["properties"]["flow"]["enum"], json!(ALL));
        assert!(call.tokens_max.unwrap() <= 120 && call.messages.last().unwrap().content == question);
    }
    for (reply, why) in [
        (Ok(json!({ "flow": "magic" })), "which is not there"),
        (Ok(json!("dunno")), "the model did not choose (invalid)"),
        (Err(Failure::new(FailureKind::Network, "gone")), "the model did not choose (network)"),
    ] {
        let driven = auto("Why is the sky blue?", &json!({}), |name| (name == "route").then(|| reply.clone()));
        assert_eq!(driven.answer(), "from search");
        assert!(driven.note("flow").unwrap()["why"].as_str().unwrap().contains(why), "{:?}", driven.notes);
    }
}

#[test]
fn x2_the_chosen_flow_gets_the_input_and_its_output_is_passed_on() {
    let mut more = thread();
    more["strict"] = json!(true);
    more["approve"] = json!("plan");
    more["settings"] = json!({ "flows": ALL, "each": { "search": { "max_turn_iterations": 2 }, "chat": {} } });
    let driven = auto("Please look up tokio", &more, |_| None);
    let graph::Effect::CallAgent(call) = driven.effects().next().unwrap() else { panic!("a flow is called") };
    assert_eq!((call.agent.as_str(), &call.input["settings"]), ("search", &json!({ "max_turn_iterations": 2 })));
    assert_eq!((&call.input["strict"], &call.input["approve"], &call.input["history"]), (&json!(true), &json!("plan"), &more["history"]));
    // The flow takes it as it is.
    let search = crate::search::flow().unwrap();
    assert!(graph::Run::start(&search, graph::Start::new("search", "t", "r", call.input.clone())).is_ok());
    let output = driven.output();
    assert_eq!((&output["flow"], &output["extra"], &output["chosen"]["flow"]), (&json!("search"), &json!(1), &json!("search")));
    assert_eq!(driven.said, [("user".to_owned(), "Please look up tokio".to_owned()), ("assistant".to_owned(), "from search".to_owned())]);
}

#[test]
fn x2_a_flow_that_is_not_there_gives_way() {
    let few = json!({ "settings": { "flows": ["direct", "search"] } });
    for (question, expected) in [
        ("Think step by step about it", "search"),
        ("Double-check it", "search"),
        ("Compare A and B", "search"),
        ("write a report on the latest news", "search"),
    ] {
        let driven = auto(question, &few, |_| None);
        assert_eq!(driven.note("flow").unwrap()["flow"], expected, "{question}");
    }
    let only = auto("Why is the sky blue?", &json!({ "settings": { "flows": ["panel", "auto"] } }), |_| None);
    assert_eq!((only.answer(), only.models("").len()), ("from panel", 0));
    let usual = auto("Hello", &json!({ "settings": {} }), |_| None);
    assert_eq!(usual.answer(), "from direct");
}

#[test]
fn x2_a_flow_that_fails_gives_way_to_the_direct_one_unless_it_may_have_done_something() {
    let fails = |kind: FailureKind| move |name: &str| (name != "direct").then(|| Err(Failure::new(kind, "no luck")));
    let driven = auto("Please look up tokio", &json!({}), fails(FailureKind::Tool));
    assert_eq!(driven.answer(), "from direct");
    assert_eq!(driven.note("flow"), Some(&json!({ "flow": "direct", "why": "search failed: no luck" })));
    for (question, kind) in [
        ("Please look up tokio", FailureKind::Cancelled),
        ("Please look up tokio", FailureKind::Budget),
        ("write a report on tokio", FailureKind::Tool),
    ] {
        let driven = auto(question, &json!({}), fails(kind));
        assert!(matches!(driven.outcome, Outcome::Failed { ref fault } if fault.to_string().contains("failed: no luck")), "{question}");
        assert!(driven.said.is_empty());
    }
}
