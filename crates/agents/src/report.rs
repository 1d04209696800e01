//! Agents that take a request and answer with a text: the request, and the state that flows read the answer from.

use serde_json::{Value, json};

const REQUEST_BYTES_MAX: usize = 256 << 10;
const TOPIC_CHARS_MAX: usize = 400;

/// The request to the agent: the user's last message, and what other agents have done for it since.
pub(crate) fn request_of(input: &Value) -> String {
    let turns: Vec<&Value> = input.get("messages").and_then(Value::as_array).into_iter().flatten().collect();
    let content = |turn: &Value| turn["content"].as_str().unwrap_or_default().to_owned();
    let Some(last) = turns.iter().rposition(|turn| turn["role"] == "user") else {
        return input.get("question").and_then(Value::as_str).map_or_else(|| input.to_string(), str::to_owned);
    };
    let mut text = content(turns[last]);
    let others: Vec<String> =
        turns[last + 1..].iter().map(|turn| format!("{}: {}", turn["name"].as_str().unwrap_or("another agent"), content(turn))).collect();
    if !others.is_empty() {
        text = format!("{text}\n\nDone for this so far:\n{}", others.join("\n"));
    }
    effects::clip(&text, REQUEST_BYTES_MAX)
}

/// A state with the agent's message. An agent of the team reports in its text that it completed a capability; here its reply reports that.
pub(crate) fn completed(name: &str, input: &Value, text: &str, sources: &[String]) -> Value {
    let is_signal = ["completed_capability", "failed_capability"].iter().any(|signal| text.contains(signal));
    let capability = input.pointer("/context/capability").and_then(Value::as_str).filter(|_| !is_signal);
    let message = |content: String| json!([{ "role": "assistant", "content": content, "name": name }]);
    let Some(capability) = capability else { return json!({ "messages": message(text.to_owned()), "context": {} }) };
    let topic: String = request_of(input).chars().take(TOPIC_CHARS_MAX).collect();
    let mut data = json!({ "text": text, "sources": sources });
    if capability == "research" {
        data["research_summary"] = json!({ "topic": topic, "summary": text, "key_points": [], "sources": sources });
        data["tool_used"] = json!(true);
    }
    let contract = json!({ "completed_capability": capability, "data": data });
    json!({ "messages": message(contract.to_string()), "context": { "reports": { capability: text } } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_is_the_last_message_and_what_was_done_since() {
        let input =
            json!({ "messages": [{ "role": "user", "content": "research tides" }, { "role": "assistant", "content": "noted", "name": "writer" }] });
        assert_eq!(request_of(&input), "research tides\n\nDone for this so far:\nwriter: noted");
        assert_eq!(request_of(&json!({ "question": "tides?" })), "tides?");
    }
}
