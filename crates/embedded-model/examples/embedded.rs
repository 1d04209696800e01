//! Measures the embedded model: `embedded WEIGHTS [PLANS [only]]`. Lines of JSON; what `baton models bench` will print.
//!
//! `only` makes the plans and nothing else. On a busy machine the plans take long, so each is printed as it is made.

use std::time::{Duration, Instant};

use baton_embedded_model::{Answer, Embedded, GeneratedOutput};
use effects::Progress;
use graph::{Message, ModelCall};
use serde_json::{Value, json};

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let model = Embedded::open(arguments.next().expect("a file of weights"));
    let plans: usize = arguments.next().map_or(50, |plans| plans.parse().expect("a number"));
    let started = Instant::now();
    model.warm().await.expect("it loads");
    let load_ms = started.elapsed().as_millis();

    if arguments.next().is_none() {
        speeds(&model).await;
    }
    let mut times = Vec::new();
    let (mut valid, mut answer_tokens, mut forced) = (0, 0, 0);
    for at in 0..plans {
        let started = Instant::now();
        let question = question(at);
        let plan = call(&[("system", SYSTEM), ("user", &question)], Some(schema()), 400);
        match model.answer(&plan, &Progress::nowhere()).await {
            Ok(Answer { output: GeneratedOutput::Json(value), tokens, .. }) => {
                let is_valid = is_plan(&value);
                valid += usize::from(is_valid);
                answer_tokens += tokens.answer;
                forced += tokens.forced;
                eprintln!("{at} {is_valid} {:?} {tokens:?} {question:?} → {value}", started.elapsed());
            }
            other => eprintln!("{at} false {question} → {other:?}"),
        }
        times.push(started.elapsed());
    }
    times.sort();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    let report = json!({
        "load_ms": load_ms as u64,
        "plans": plans,
        "plan_ms_p50": times.get(times.len() / 2).map(|time| time.as_millis() as u64),
        "plan_ms_max": times.last().map(|time| time.as_millis() as u64),
        "valid_pct": if plans == 0 { 0.0 } else { 100.0 * valid as f64 / plans as f64 },
        "plan_tokens": answer_tokens,
        "plan_tokens_forced": forced,
        "peak_rss_mb": peak.map(|kb| kb / 1024),
    });
    println!("{report}");
}

async fn speeds(model: &Embedded) {
    let text = "A write-ahead log records every change before it is applied, so that a crash loses nothing that was promised. ".repeat(18);
    let long = call(&[("system", &text), ("user", "Explain the text in three sentences.")], None, 64);
    let started = Instant::now();
    let first = model.answer(&long, &Progress::nowhere()).await.expect("it answers");
    eprintln!("prompt {:?} in {:?}: {:?}", first.tokens, first.timing, first.output);
    let prompt_tok_s = speed(first.tokens.prompt - first.tokens.cached, first.timing.prompt);
    let mut gen_tok_s = vec![speed(first.tokens.answer - 1, first.timing.answer)];
    eprintln!("wall {:?}", started.elapsed());

    let again = call(&[("system", &text), ("user", "And what is promised?")], None, 48);
    let hit = model.answer(&again, &Progress::nowhere()).await.expect("it answers");
    eprintln!("prefix {:?} in {:?}", hit.tokens, hit.timing);
    gen_tok_s.push(speed(hit.tokens.answer - 1, hit.timing.answer));
    let started = Instant::now();
    let free = call(&[("user", "What is a write-ahead log?")], None, 96);
    let free = model.answer(&free, &Progress::nowhere()).await.expect("it answers");
    eprintln!("free {:?} in {:?} ({:?}): {:?}", free.tokens, free.timing, started.elapsed(), free.output);
    gen_tok_s.push(speed(free.tokens.answer - 1, free.timing.answer));
    let report = json!({
        "prompt_tok_s": prompt_tok_s,
        "gen_tok_s": gen_tok_s,
        "first_token_ms": free.timing.prompt.as_millis() as u64,
        "prefix_hit_ms": hit.timing.prompt.as_millis() as u64,
    });
    println!("{report}");
}

fn speed(tokens: usize, time: Duration) -> f64 {
    (10.0 * tokens as f64 / time.as_secs_f64()).round() / 10.0
}

fn call(messages: &[(&str, &str)], schema: Option<Value>, tokens_max: u32) -> ModelCall {
    let messages = messages.iter().map(|(role, content)| Message { role: (*role).into(), content: (*content).into() }).collect();
    ModelCall { messages, schema, tokens_max: Some(tokens_max), ..ModelCall::default() }
}

const SYSTEM: &str = "You plan how a question is answered. Write a plan of one or two tasks. Each task uses one tool:
search looks for documents (query: a few words), fetch reads one page (query: its address), compute evaluates arithmetic (query: the expression), write drafts text (query: what to write).
size says how many results are wanted, 10 by default. after lists the numbers of the tasks whose results a task needs, counted from 0.
Use as few tasks as possible. Answer with JSON only.
Example: What is 12 * 7? {\"tasks\":[{\"tool\":\"compute\",\"query\":\"12 * 7\",\"size\":10,\"after\":[]}]}
Example: Summarise recent work on rust async. {\"tasks\":[{\"tool\":\"search\",\"query\":\"recent work rust async\",\"size\":10,\"after\":[]},{\"tool\":\"write\",\"query\":\"summary of recent work on rust async\",\"size\":10,\"after\":[0]}]}";

fn schema() -> Value {
    let task = json!({
        "type": "object",
        "properties": {
            "tool": {"enum": ["search", "fetch", "compute", "write"]},
            "query": {"type": "string", "minLength": 1, "maxLength": 60},
            "size": {"type": "integer", "minimum": 1, "maximum": 50},
            "after": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 9}, "maxItems": 3},
        },
        "required": ["tool", "query", "size", "after"],
        "additionalProperties": false,
    });
    let tasks = json!({"type": "array", "items": {"$ref": "#/$defs/task"}, "minItems": 1, "maxItems": 2});
    json!({"type": "object", "properties": {"tasks": tasks}, "required": ["tasks"], "additionalProperties": false, "$defs": {"task": task}})
}

/// By hand, so that the grammar is not its own judge.
fn is_plan(plan: &Value) -> bool {
    let is_task = |task: &Value| {
        let object = task.as_object().is_some_and(|task| task.len() == 4);
        let tool = task["tool"].as_str().is_some_and(|tool| ["search", "fetch", "compute", "write"].contains(&tool));
        let query = task["query"].as_str().is_some_and(|query| (1..=60).contains(&query.chars().count()));
        let size = task["size"].as_u64().is_some_and(|size| (1..=50).contains(&size));
        let after = task["after"].as_array().is_some_and(|after| after.len() <= 3 && after.iter().all(|at| at.as_u64().is_some_and(|at| at <= 9)));
        object && tool && query && size && after
    };
    let tasks = plan["tasks"].as_array();
    plan.as_object().is_some_and(|plan| plan.len() == 1) && tasks.is_some_and(|tasks| (1..=2).contains(&tasks.len()) && tasks.iter().all(is_task))
}

fn question(at: usize) -> String {
    let subjects = [
        "write-ahead logs",
        "Überläufe in C",
        "quantum error correction",
        "\"quoted\" names\nand lines",
        "東京の天気",
        "rust async traits",
        "tax on books",
        "<|im_end|> tokens",
        "emoji 😀 in JSON",
        "a\\b paths",
    ];
    let subject = subjects[at % subjects.len()];
    match at / subjects.len() % 5 {
        0 => format!("Find five papers about {subject}."),
        1 => format!("Compare {subject} with what was known in 1990 and write a short report."),
        2 => format!("What is 17 * {at} + 3, and what has it to do with {subject}?"),
        3 => format!("Read https://example.org/{at} and tell me what it says about {subject}."),
        _ => format!("{subject}?"),
    }
}
