use super::*;
use graph::{Message, ModelCall};
use structured;

fn user(text: &str) -> Message {
    Message { role: "user".into(), content: text.into() }
}

fn wal() -> Vec<Message> {
    vec![
        evidence::message(
            "https://example.org/wal",
            "A write-ahead log records every change before it is applied. The log is replayed after a crash. Coffee is served at noon.",
        ),
        evidence::message(
            "db.md",
            "Checkpoints shorten the write-ahead log. Every change is recorded by the write-ahead log before it is applied. Cats sleep.",
        ),
        user("What is a write-ahead log?"),
    ]
}

async fn answer(messages: Vec<Message>, schema: Option<Value>) -> Answer {
    let key = Key::of(&"t".into(), &"r".into(), graph::TaskId { step: 0, index: 0 });
    let call = ModelCall { messages, schema: schema.clone(), ..ModelCall::default() };
    let answer = Extract.answer(&call, &key, &Progress::nowhere()).await.unwrap();
    if let (Some(schema), ModelOutput::Json(value)) = (schema, &answer.output) {
        structured::check(value.clone(), &schema).unwrap_or_else(|error| panic!("{error}\n{value:#}"));
    }
    answer
}

async fn text(messages: Vec<Message>) -> String {
    match answer(messages, None).await.output {
        ModelOutput::Text(text) => text,
        other => panic!("{other:?}"),
    }
}

async fn json_for(messages: Vec<Message>, schema: Value) -> Value {
    match answer(messages, Some(schema)).await.output {
        ModelOutput::Json(value) => value,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn picks_what_is_relevant_to_the_question_in_order_with_sources() {
    let text = text(wal()).await;
    assert!(text.starts_with("A write-ahead log records every change before it is applied. [1]"), "{text}");
    assert!(text.contains("Checkpoints shorten the write-ahead log. [2]"), "{text}");
    assert!(!text.contains("Coffee") && !text.contains("Cats"), "{text}");
    assert!(text.ends_with("Sources:\n[1] https://example.org/wal\n[2] db.md"), "{text}");
}

#[tokio::test]
async fn repeated_sentences_are_given_once() {
    let text = text(wal()).await;
    assert!(!text.contains("is recorded by the write-ahead log"), "{text}");
}

#[tokio::test]
async fn reports_that_nothing_is_known() {
    assert_eq!(text(vec![user("What is a write-ahead log?")]).await, NOTHING_KNOWN);
    assert_eq!(text(vec![evidence::message("x", "Cats sleep."), user("What is a write-ahead log?")]).await, NOTHING_KNOWN);
    assert_eq!(text(vec![]).await, NOTHING_KNOWN);
}

#[tokio::test]
async fn answers_are_marked() {
    assert!(is_extracted(&answer(wal(), None).await.notes));
}

#[tokio::test]
async fn fills_an_answer_with_claims() {
    let schema = json!({
        "type": "object",
        "properties": {
            "answer": {"type": "string", "maxLength": 200},
            "claims": {"type": "array", "items": {"$ref": "#/$defs/claim"}, "minItems": 1},
            "confidence": {"type": "number", "minimum": 0, "maximum": 1},
            "answerable": {"type": "boolean"},
        },
        "required": ["answer", "claims", "confidence", "answerable"],
        "additionalProperties": false,
        "$defs": {"claim": {"type": "object", "properties": {"sentence": {"type": "string"}, "source": {"type": "integer", "minimum": 1}},
            "required": ["sentence", "source"], "additionalProperties": false}},
    });
    let value = json_for(wal(), schema).await;
    assert_eq!(value["claims"][0], json!({"sentence": "A write-ahead log records every change before it is applied.", "source": 1}));
    assert_eq!(value["claims"][1]["source"], json!(2));
    assert_eq!(value["answerable"], json!(true));
    assert_eq!(value["confidence"], json!(1.0));
}

#[tokio::test]
async fn plans_by_rules() {
    let schema = json!({
        "type": "object",
        "properties": {"steps": {"type": "array", "maxItems": 3, "items": {"type": "object", "properties": {
            "tool": {"enum": ["none", "search"]}, "query": {"type": "string"}}, "required": ["tool", "query"]}}},
        "required": ["steps"],
    });
    let value = json_for(vec![user("Compare Raft and Paxos.")], schema.clone()).await;
    let queries: Vec<&str> = value["steps"].as_array().unwrap().iter().map(|step| step["query"].as_str().unwrap()).collect();
    assert_eq!(queries, ["Raft", "Paxos", "Compare Raft and Paxos"]);
    assert_eq!(value["steps"][0]["tool"], json!("search"));
    let value = json_for(vec![user("Who wrote it? When was it sold; for how much?")], schema).await;
    assert_eq!(value["steps"].as_array().unwrap().len(), 3);
    assert_eq!(plan("ẞ difference between ẞ and x"), ["ẞ difference between ẞ and x"]);
}

#[tokio::test]
async fn fills_whatever_simple_schema_comes() {
    for schema in [
        json!({"type": "string"}),
        json!({"enum": ["direct", "research"]}),
        json!({"type": "array", "items": {"type": "string"}}),
        json!({"type": ["object", "null"], "properties": {"x": {"anyOf": [{"type": "null"}, {"type": "integer", "minimum": 3}]}}, "required": ["x"]}),
        json!({"const": 7}),
        json!({"type": "object", "properties": {"approve": {"enum": ["yes", "no"]}, "feedback": {"type": "string"}}, "required": ["approve"]}),
        json!({"type": "object", "properties": {"keywords": {"type": "array", "items": {"type": "string"}, "minItems": 1, "uniqueItems": true}}, "required": ["keywords"]}),
        json!({}),
    ] {
        json_for(wal(), schema.clone()).await;
        if schema["type"] != "array" {
            json_for(vec![user("Why?")], schema).await;
        }
    }
}

#[tokio::test]
async fn a_schema_that_goes_round_in_circles_ends() {
    let schema = json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object", "properties": {"answer": {"$ref": "#/$defs/a"}}}}});
    let key = Key::of(&"t".into(), &"r".into(), graph::TaskId { step: 0, index: 0 });
    let call = ModelCall { messages: wal(), schema: Some(schema), ..ModelCall::default() };
    assert!(Extract.answer(&call, &key, &Progress::nowhere()).await.is_ok());
}
