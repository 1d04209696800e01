//! The real libraries' JSON, read and written again. `tests/langserve` was written by `lab/peers/langserve.d/golden.py`.

#![allow(clippy::unwrap_used)]

use baton_wire::langserve::{Batched, InvokeResponse, Message, MessageKind, Patch, Refusal, State, StreamError, StreamEventItem, error_words};
use serde_json::{Value, json};

fn golden(file: &str) -> Value {
    let path = format!("{}/tests/langserve/{file}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn read(value: &Value) -> Message {
    serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{error}: {value}"))
}

#[test]
fn p3_every_message_shape_is_read_and_written_as_langchain_does() {
    let expected = [
        ("human", MessageKind::Human, "hello"),
        ("human_blocks", MessageKind::Human, "See "),
        ("human_chunk", MessageKind::Human, "hel"),
        ("ai", MessageKind::Ai, "hi"),
        ("ai_tools", MessageKind::Ai, ""),
        ("ai_chunk", MessageKind::Ai, "h"),
        ("system", MessageKind::System, "be brief"),
        ("system_chunk", MessageKind::System, "be"),
        ("tool", MessageKind::Tool, "3 hits"),
        ("tool_error", MessageKind::Tool, "gone"),
        ("tool_chunk", MessageKind::Tool, "3"),
        ("function", MessageKind::Function, "4"),
        ("function_chunk", MessageKind::Function, "4"),
        ("chat", MessageKind::Chat, "ahoy"),
        ("chat_chunk", MessageKind::Chat, "ah"),
        ("remove", MessageKind::Remove, ""),
    ];
    let golden = golden("messages");
    assert_eq!(golden.as_object().unwrap().len(), expected.len());
    for (name, speaker, text) in expected {
        let plain = &golden[name]["plain"];
        let message = read(plain);
        assert_eq!((message.speaker(), message.text().as_str()), (speaker, text), "{name}");
        assert_eq!(serde_json::to_value(&message).unwrap(), *plain, "{name}");
        // A flow that passes it on loses nothing of it.
        assert_eq!(serde_json::to_value(Message::of_turn(&message.to_turn())).unwrap(), *plain, "{name}");
        let constructed = read(&golden[name]["constructor"]);
        assert_eq!((constructed.speaker(), constructed.text()), (speaker, text.to_owned()), "{name}");
        for (field, value) in golden[name]["constructor"]["kwargs"].as_object().unwrap() {
            assert_eq!(serde_json::to_value(&constructed).unwrap()[field], *value, "{name}.{field}");
        }
    }
}

#[test]
fn p3_messages_of_ours_have_langchains_fields() {
    let golden = golden("messages");
    let named = Message::human("hello").named("ada").with_id("h1");
    for (ours, theirs) in [(named, "human"), (Message::ai("hi").with_id("a1"), "ai"), (Message::system("be brief"), "system")] {
        assert_eq!(serde_json::to_value(ours).unwrap(), golden[theirs]["plain"]);
    }
}

#[test]
fn p3_short_forms_are_read_and_invalid_messages_are_errors_with_a_reason() {
    for (short, kind) in [
        (json!("hi"), "human"),
        (json!(["user", "hi"]), "human"),
        (json!(["ai", "hi"]), "ai"),
        (json!({ "role": "assistant", "content": "hi" }), "ai"),
        (json!({ "type": "human", "content": "hi" }), "human"),
        (json!({ "type": "user", "content": [{ "type": "text", "text": "hi" }] }), "human"),
    ] {
        assert_eq!((read(&short).kind.as_str(), read(&short).text().as_str()), (kind, "hi"), "{short}");
    }
    for (wrong, why) in [
        (json!(3), "a message is an object"),
        (json!({ "content": "hi" }), "has a type"),
        (json!({ "type": "robot", "content": "hi" }), "no message of type \"robot\""),
        (json!({ "type": "human" }), "a text or a list of blocks"),
        (json!({ "type": "human", "content": [3] }), "a text or a list of blocks"),
        (json!(["human"]), "a type and a content"),
        (json!({ "lc": 1, "type": "secret", "id": ["KEY"] }), "a constructor"),
    ] {
        let error = serde_json::from_value::<Message>(wrong.clone()).unwrap_err().to_string();
        assert!(error.contains(why), "{wrong}: {error}");
    }
}

#[test]
fn p3_replies_of_a_real_server_are_read() {
    let golden = golden("server");
    let invoked: InvokeResponse = serde_json::from_value(golden["invoke"]["body"].clone()).unwrap();
    let state: State = serde_json::from_value(invoked.output.clone()).unwrap();
    assert_eq!((state.messages.len(), state.messages[1].text().as_str()), (2, "echo: hi"));
    assert_eq!(serde_json::to_value(&invoked).unwrap(), golden["invoke"]["body"]);
    let batched: Batched = serde_json::from_value(golden["batch"]["body"].clone()).unwrap();
    assert_eq!(serde_json::to_value(&batched).unwrap(), golden["batch"]["body"]);
    for (name, expected) in [
        ("invoke_no_input", "input: Field required"),
        ("invoke_wrong_input", "messages: Input should be a valid list"),
        ("invoke_no_json", "Invalid JSON body"),
        ("batch_wrong_configs", "Number of configs (1) must match number of inputs (2)"),
        ("unknown", "Not Found"),
        ("invoke_fails", "Internal Server Error"),
    ] {
        let body = &golden[name]["body"];
        let text = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
        assert_eq!(error_words(&text, 200), expected, "{name}");
    }
    let refusal: Refusal = serde_json::from_value(golden["invoke_no_input"]["body"].clone()).unwrap();
    assert_eq!((refusal.detail[0].kind.as_str(), refusal.detail[0].loc.as_slice()), ("missing", &[json!("input")][..]));
}

#[test]
fn p3_what_a_real_server_streams_is_read_and_written() {
    let golden = golden("server");
    let data = |name: &str| -> Vec<(String, Value)> {
        let events = golden[name]["body"].as_str().unwrap().split("\r\n\r\n").filter(|event| !event.trim().is_empty());
        let field = |event: &str, name: &str| event.lines().find_map(|line| line.strip_prefix(&format!("{name}: "))).unwrap_or_default().to_owned();
        events.map(|event| (field(event, "event"), serde_json::from_str(&field(event, "data")).unwrap_or_default())).collect()
    };
    for (name, expected) in [
        ("stream", "metadata data end"),
        ("stream_fails", "error"),
        ("stream_log", "data data data data data end"),
        ("stream_events", "data data data data data data end"),
    ] {
        let events: Vec<String> = data(name).into_iter().map(|(event, _)| event).collect();
        assert_eq!(events.join(" "), expected, "{name}");
    }
    for (_, value) in data("stream_log").into_iter().filter(|(event, _)| event == "data") {
        let patch: Patch = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(serde_json::to_value(patch).unwrap(), value);
    }
    for (_, value) in data("stream_events").into_iter().filter(|(event, _)| event == "data") {
        let happening: StreamEventItem = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(serde_json::to_value(happening).unwrap(), value);
    }
    let error: StreamError = serde_json::from_value(data("stream_fails")[0].1.clone()).unwrap();
    assert_eq!(error.status_code, 500);
}
