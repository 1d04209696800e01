//! Each provider's API on the wire, written from its public documentation.

use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    OpenaiChat,
    OpenaiResponses,
    Anthropic,
    Gemini,
    Ollama,
}

/// The model's reply.
#[derive(Clone, Copy, Debug)]
pub enum ScriptedAnswer<'s> {
    Text(&'s str),
    /// add(a: 1, b: 2)
    Call,
    /// Text that stops at the token limit.
    CutOff(&'s str),
}

pub const TOKENS: (u64, u64) = (11, 7);

impl Dialect {
    pub const ALL: [Dialect; 5] = [Dialect::OpenaiChat, Dialect::OpenaiResponses, Dialect::Anthropic, Dialect::Gemini, Dialect::Ollama];

    pub fn model(self) -> &'static str {
        match self {
            Dialect::OpenaiChat => "compat/lab/qwen-max",
            Dialect::OpenaiResponses => "openai/gpt-4o",
            Dialect::Anthropic => "anthropic/claude-sonnet-4-5",
            Dialect::Gemini => "gemini/gemini-2.5-flash",
            Dialect::Ollama => "ollama/qwen3:4b",
        }
    }

    pub fn table(self, url: &str) -> Value {
        let key = json!({"env": "LAB_KEY"});
        match self {
            Dialect::OpenaiChat => json!({
                "endpoints": {"lab": {"url": format!("{url}/v1"), "key": key}},
                "models": {"compat/lab/qwen-max": {"usd_per_million_in": 1.0, "usd_per_million_out": 2.0}},
            }),
            Dialect::OpenaiResponses => json!({"endpoints": {"openai": {"url": format!("{url}/v1/"), "key": key, "dialect": "openai-responses"}}}),
            Dialect::Anthropic => json!({"endpoints": {"anthropic": {"url": format!("{url}/v1"), "key": key, "dialect": "anthropic"}}}),
            Dialect::Gemini => json!({"endpoints": {"gemini": {"url": format!("{url}/v1beta"), "key": key, "dialect": "gemini"}}}),
            Dialect::Ollama => json!({"endpoints": {"ollama": {"url": url, "key": key, "dialect": "ollama"}}}),
        }
    }

    /// Ollama has two APIs.
    pub fn at(self, path: &str) -> Dialect {
        if self == Dialect::Ollama && path == "/v1/chat/completions" { Dialect::OpenaiChat } else { self }
    }

    pub fn path(self, streaming: bool, schema: bool) -> &'static str {
        match (self, streaming) {
            (Dialect::OpenaiChat, _) => "/v1/chat/completions",
            (Dialect::OpenaiResponses, _) => "/v1/responses",
            (Dialect::Anthropic, _) => "/v1/messages",
            (Dialect::Gemini, false) => "/v1beta/models/gemini-2.5-flash:generateContent",
            (Dialect::Gemini, true) => "/v1beta/models/gemini-2.5-flash:streamGenerateContent",
            (Dialect::Ollama, _) if schema => "/v1/chat/completions",
            (Dialect::Ollama, _) => "/api/chat",
        }
    }

    /// The header with the key, and its prefix.
    pub fn key_header(self) -> (&'static str, &'static str) {
        match self {
            Dialect::OpenaiChat | Dialect::OpenaiResponses | Dialect::Ollama => ("authorization", "Bearer "),
            Dialect::Anthropic => ("x-api-key", ""),
            Dialect::Gemini => ("x-goog-api-key", ""),
        }
    }

    pub fn takes_idempotency_key(self) -> bool {
        matches!(self, Dialect::OpenaiChat | Dialect::OpenaiResponses | Dialect::Anthropic)
    }

    pub fn body(self, answer: &ScriptedAnswer<'_>) -> Value {
        let arguments = json!({"a": 1, "b": 2});
        match (self, answer) {
            (Dialect::OpenaiChat, answer) => {
                let (message, reason) = match answer {
                    ScriptedAnswer::Text(text) => (json!({"role": "assistant", "content": text}), "stop"),
                    ScriptedAnswer::CutOff(text) => (json!({"role": "assistant", "content": text}), "length"),
                    ScriptedAnswer::Call => {
                        let call = json!({"id": "c1", "type": "function", "function": {"name": "add", "arguments": arguments.to_string()}});
                        (json!({"role": "assistant", "content": null, "tool_calls": [call]}), "tool_calls")
                    }
                };
                json!({"id": "x", "object": "chat.completion", "model": "served-model", "usage": openai_usage(),
                    "choices": [{"index": 0, "message": message, "finish_reason": reason}]})
            }
            (Dialect::OpenaiResponses, answer) => {
                let (item, status) = match answer {
                    ScriptedAnswer::Text(text) => (output_text(text), "completed"),
                    ScriptedAnswer::CutOff(text) => (output_text(text), "incomplete"),
                    ScriptedAnswer::Call => (
                        json!({"type": "function_call", "id": "f1", "call_id": "c1", "name": "add", "arguments": arguments.to_string(), "status": "completed"}),
                        "completed",
                    ),
                };
                json!({"id": "resp_1", "object": "response", "status": status, "model": "served-model", "output": [item],
                    "usage": {"input_tokens": TOKENS.0, "output_tokens": TOKENS.1, "total_tokens": TOKENS.0 + TOKENS.1}})
            }
            (Dialect::Anthropic, answer) => {
                let (block, reason) = match answer {
                    ScriptedAnswer::Text(text) => (json!({"type": "text", "text": text}), "end_turn"),
                    ScriptedAnswer::CutOff(text) => (json!({"type": "text", "text": text}), "max_tokens"),
                    ScriptedAnswer::Call => (json!({"type": "tool_use", "id": "t1", "name": "add", "input": arguments}), "tool_use"),
                };
                json!({"id": "m", "type": "message", "role": "assistant", "model": "served-model", "content": [block], "stop_reason": reason,
                    "usage": {"input_tokens": TOKENS.0, "output_tokens": TOKENS.1}})
            }
            (Dialect::Gemini, answer) => {
                let (part, reason) = match answer {
                    ScriptedAnswer::Text(text) => (json!({"text": text}), "STOP"),
                    ScriptedAnswer::CutOff(text) => (json!({"text": text}), "MAX_TOKENS"),
                    ScriptedAnswer::Call => (json!({"functionCall": {"name": "add", "args": arguments}}), "STOP"),
                };
                gemini(&[part], Some(reason))
            }
            (Dialect::Ollama, answer) => {
                let (message, reason) = match answer {
                    ScriptedAnswer::Text(text) => (json!({"role": "assistant", "content": text}), "stop"),
                    ScriptedAnswer::CutOff(text) => (json!({"role": "assistant", "content": text}), "length"),
                    ScriptedAnswer::Call => {
                        (json!({"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "add", "arguments": arguments}}]}), "stop")
                    }
                };
                json!({"model": "qwen3:4b", "message": message, "done": true, "done_reason": reason, "prompt_eval_count": TOKENS.0, "eval_count": TOKENS.1})
            }
        }
    }

    /// The same in pieces, as the provider's events.
    pub fn stream(self, answer: &ScriptedAnswer<'_>) -> Vec<String> {
        let (text, cut_off) = match answer {
            ScriptedAnswer::Text(text) => (*text, false),
            ScriptedAnswer::CutOff(text) => (*text, true),
            ScriptedAnswer::Call => ("", false),
        };
        let words = || text.split_inclusive(' ');
        let is_call = matches!(answer, ScriptedAnswer::Call);
        match self {
            Dialect::OpenaiChat => {
                let chunk = |delta: Value, reason: Value| {
                    data(&json!({"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}))
                };
                let mut events = vec![chunk(json!({"role": "assistant", "content": ""}), Value::Null)];
                events.extend(words().map(|word| chunk(json!({"content": word}), Value::Null)));
                if is_call {
                    let call = |call: Value| chunk(json!({"tool_calls": [call]}), Value::Null);
                    events.push(call(json!({"index": 0, "id": "c1", "type": "function", "function": {"name": "add", "arguments": ""}})));
                    events.push(call(json!({"index": 0, "function": {"arguments": "{\"a\":1,"}})));
                    events.push(call(json!({"index": 0, "function": {"arguments": "\"b\":2}"}})));
                }
                events.push(chunk(
                    json!({}),
                    json!(if is_call {
                        "tool_calls"
                    } else if cut_off {
                        "length"
                    } else {
                        "stop"
                    }),
                ));
                events.push(data(&json!({"object": "chat.completion.chunk", "choices": [], "usage": openai_usage()})));
                events.push("data: [DONE]\n\n".to_owned());
                events
            }
            Dialect::OpenaiResponses => {
                let event = |value: Value| format!("event: {}\n{}", value["type"].as_str().unwrap_or_default(), data(&value));
                let whole = self.body(answer);
                let mut events = vec![event(json!({"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}}))];
                if is_call {
                    let mut started = whole["output"][0].clone();
                    started["arguments"] = json!("");
                    events.push(event(json!({"type": "response.output_item.added", "output_index": 0, "item": started})));
                    for delta in ["{\"a\":1,", "\"b\":2}"] {
                        events.push(event(json!({"type": "response.function_call_arguments.delta", "output_index": 0, "delta": delta})));
                    }
                    events.push(event(json!({"type": "response.output_item.done", "output_index": 0, "item": whole["output"][0]})));
                } else {
                    events.push(event(json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "message", "role": "assistant", "content": []}})));
                    events.extend(
                        words()
                            .map(|word| event(json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": word}))),
                    );
                }
                events.push(event(json!({"type": if cut_off { "response.incomplete" } else { "response.completed" }, "response": whole})));
                events
            }
            Dialect::Anthropic => {
                let event = |value: Value| format!("event: {}\n{}", value["type"].as_str().unwrap_or_default(), data(&value));
                let mut events = vec![event(json!({"type": "message_start", "message": {"id": "m", "role": "assistant", "model": "served-model",
                    "content": [], "usage": {"input_tokens": TOKENS.0, "output_tokens": 1}}}))];
                let block =
                    if is_call { json!({"type": "tool_use", "id": "t1", "name": "add", "input": {}}) } else { json!({"type": "text", "text": ""}) };
                events.push(event(json!({"type": "content_block_start", "index": 0, "content_block": block})));
                events.push(event(json!({"type": "ping"})));
                let delta = |delta: Value| event(json!({"type": "content_block_delta", "index": 0, "delta": delta}));
                if is_call {
                    events.extend(["{\"a\": 1,", " \"b\": 2}"].map(|part| delta(json!({"type": "input_json_delta", "partial_json": part}))));
                } else {
                    events.extend(words().map(|word| delta(json!({"type": "text_delta", "text": word}))));
                }
                events.push(event(json!({"type": "content_block_stop", "index": 0})));
                let reason = if is_call {
                    "tool_use"
                } else if cut_off {
                    "max_tokens"
                } else {
                    "end_turn"
                };
                events.push(event(json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": TOKENS.1}})));
                events.push(event(json!({"type": "message_stop"})));
                events
            }
            Dialect::Gemini => {
                if is_call {
                    return vec![data(&self.body(answer))];
                }
                let mut events: Vec<String> = words().map(|word| data(&gemini(&[json!({"text": word})], None))).collect();
                events.push(data(&gemini(&[json!({"text": ""})], Some(if cut_off { "MAX_TOKENS" } else { "STOP" }))));
                events
            }
            Dialect::Ollama => {
                let line = |value: &Value| format!("{value}\n");
                let mut lines: Vec<String> = words()
                    .map(|word| line(&json!({"model": "qwen3:4b", "message": {"role": "assistant", "content": word}, "done": false})))
                    .collect();
                let mut last = self.body(answer);
                if !is_call {
                    last["message"]["content"] = json!("");
                }
                lines.push(line(&last));
                lines
            }
        }
    }

    /// An error inside the stream.
    pub fn stream_error(self) -> String {
        match self {
            Dialect::Anthropic => {
                format!("event: error\n{}", data(&json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})))
            }
            Dialect::OpenaiResponses => format!("event: error\n{}", data(&json!({"type": "error", "code": "server_error", "message": "Overloaded"}))),
            Dialect::Gemini => data(&json!({"error": {"code": 503, "message": "Overloaded", "status": "UNAVAILABLE"}})),
            Dialect::OpenaiChat => data(&json!({"error": {"type": "server_error", "message": "Overloaded"}})),
            Dialect::Ollama => format!("{}\n", json!({"error": "Overloaded"})),
        }
    }
}

fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}

fn openai_usage() -> Value {
    json!({"prompt_tokens": TOKENS.0, "completion_tokens": TOKENS.1, "total_tokens": TOKENS.0 + TOKENS.1})
}

fn output_text(text: &str) -> Value {
    json!({"type": "message", "id": "m1", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": text, "annotations": []}]})
}

fn gemini(parts: &[Value], reason: Option<&str>) -> Value {
    let mut candidate = json!({"index": 0, "content": {"role": "model", "parts": parts}});
    if let Some(reason) = reason {
        candidate["finishReason"] = json!(reason);
    }
    json!({"candidates": [candidate], "modelVersion": "served-model",
        "usageMetadata": {"promptTokenCount": TOKENS.0, "candidatesTokenCount": TOKENS.1, "totalTokenCount": TOKENS.0 + TOKENS.1}})
}
