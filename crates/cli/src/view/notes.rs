//! Formats notes of flows for people. Of unknown notes only texts, numbers and truth values are shown.

use serde_json::Value;
use terminal::{BOLD, CYAN, DIM, GREEN, RED, YELLOW, count, one_line, paint};

use super::tree::under;
use crate::plan::Plan;

const CHARS_MAX: usize = 90;
const WHY_CHARS_MAX: usize = 160;

/// The lines for a note; none if other output already shows it.
pub(crate) fn lines(name: &str, value: &Value) -> Vec<String> {
    let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
    let number = |field: &str| value.get(field).and_then(Value::as_u64).unwrap_or(0);
    let quiet = |words: String| vec![under(&paint(CYAN, "·"), &paint(DIM, words))];
    match (name, value) {
        ("flow", Value::Object(_)) => {
            let why = one_line(text("why"), WHY_CHARS_MAX);
            vec![under(&paint(CYAN, "→"), &format!("{}  {}", paint(BOLD, one_line(text("flow"), CHARS_MAX)), paint(DIM, why)))]
        }
        ("plan" | "planner", _) if Plan::of(value).is_some() => {
            let plan = Plan::of(value).map(|plan| plan.lines()).unwrap_or_default();
            let why = Some(text("reasoning")).filter(|why| !why.is_empty()).map(|why| paint(DIM, one_line(why, WHY_CHARS_MAX)));
            why.into_iter().chain(plan).map(|line| under(&paint(CYAN, "·"), &line)).collect()
        }
        // Tasks and steps are shown with their results anyway.
        ("tasks" | "results" | "iteration" | "retrying", _) => Vec::new(),
        ("step", Value::Object(_)) => match number("retry_count") {
            0 => Vec::new(),
            retries => quiet(format!("on to {}, {}", one_line(text("to"), CHARS_MAX), count(retries, "retry", "retries"))),
        },
        ("estimate", Value::Object(_)) => quiet(estimate(value)),
        ("sections", Value::Array(sections)) => {
            let written = sections.iter().filter(|section| section["status"] == "written").count();
            let failed = sections.iter().filter(|section| section.get("error").is_some());
            let failed = failed.map(|section| under(&paint(YELLOW, "!"), &one_line(&failed_section(section), WHY_CHARS_MAX)));
            quiet(format!("{written} of {} written", count(sections.len() as u64, "section", "sections"))).into_iter().chain(failed).collect()
        }
        ("tools", Value::Array(names)) => quiet(count(names.len() as u64, "tool", "tools")),
        ("evidence", Value::Object(_)) => {
            quiet(format!("{} found, {} shown to the model", count(number("passages"), "passage", "passages"), number("shown")))
        }
        (flows::no_model::FOUND, Value::Object(_)) => {
            let sources = value.get("sources").and_then(Value::as_array).map_or(0, Vec::len);
            quiet(format!("no model wrote an answer; {} found until then", count(sources as u64, "source", "sources")))
        }
        ("approval", Value::Object(_)) => approval(value),
        ("answer", Value::Object(_)) => {
            quiet(checked(number("supported"), number("weak"), number("unsupported") + number("contradicted"), number("sources")))
        }
        (_, Value::String(text)) => quiet(format!("{}: {}", one_line(name, CHARS_MAX), one_line(text, CHARS_MAX))),
        (_, Value::Bool(_) | Value::Number(_)) => quiet(format!("{}: {value}", one_line(name, CHARS_MAX))),
        // Data for programs; `baton runs show RUN --journal` and `--json` have it.
        (_, Value::Null | Value::Array(_) | Value::Object(_)) => Vec::new(),
    }
}

/// How many of an answer's sentences its sources support.
pub(crate) fn checked(supported: u64, weak: u64, unsupported: u64, sources: u64) -> String {
    let all = supported + weak + unsupported;
    let weak = if weak == 0 { String::new() } else { format!(", {weak} weakly") };
    format!("{supported} of {} supported{weak}, {}", count(all, "sentence", "sentences"), count(sources, "source", "sources"))
}

fn estimate(value: &Value) -> String {
    let number = |field: &str| value.get(field).and_then(Value::as_u64);
    let usd = number("usd_micros").map_or_else(|| "price not known".to_owned(), |micros| format!("about ${:.2}", micros as f64 / 1_000_000.0));
    let (calls, tokens) = (number("model_calls").unwrap_or(0), number("tokens_in").unwrap_or(0) + number("tokens_out").unwrap_or(0));
    format!("estimate: up to {}, {tokens} tokens, {usd}", count(calls, "model call", "model calls"))
}

fn failed_section(section: &Value) -> String {
    let text = |field: &str| section.get(field).and_then(Value::as_str).unwrap_or_default();
    format!("{}: {}, {}", text("heading"), text("status"), text("error"))
}

/// The hash of the approved plan is the hash of the plan that runs.
fn approval(value: &Value) -> Vec<String> {
    let text = |field: &str| value.get(field).and_then(Value::as_str).map(|text| one_line(text, WHY_CHARS_MAX));
    let edited = value.get("edited").and_then(Value::as_bool).unwrap_or_default();
    let mut lines = Vec::new();
    if let Some(hash) = text("approved") {
        let how = if edited { ", as you changed it" } else { "" };
        lines.push(under(&paint(GREEN, "✓"), &format!("plan {} approved{how}", paint(BOLD, hash))));
        if edited {
            lines.extend(Plan::of(value).iter().flat_map(Plan::lines).map(|line| under(&paint(CYAN, "·"), &line)));
        }
    }
    lines.extend(text("declined").map(|why| under(&paint(RED, "✗"), &format!("not approved: {why}"))));
    lines.extend(text("revise").map(|why| under(&paint(YELLOW, "↻"), &format!("revising the plan: {why}"))));
    lines.extend(text("again").map(|why| under(&paint(YELLOW, "↻"), &format!("asked again: {why}"))));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(name: &str, value: &Value, expected: &[&str]) {
        let lines: Vec<String> = lines(name, value).iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect();
        assert_eq!(lines, expected, "{name}");
    }

    #[test]
    fn notes_are_printed_as_text() {
        check("flow", &json!({ "flow": "search", "why": "it asks for facts" }), &["    → search  it asks for facts"]);
        check("plan", &json!({ "reasoning": "", "tasks": [{ "tool_name": "calc", "tool_arguments": {} }] }), &["    · 1. calc {}"]);
        check("tasks", &json!([{ "status": "completed" }]), &[]);
        check("tools", &json!(["a", "b"]), &["    · 2 tools"]);
        check("evidence", &json!({ "passages": 1, "shown": 1 }), &["    · 1 passage found, 1 shown to the model"]);
        check("answer", &json!({ "supported": 4, "weak": 0, "unsupported": 1, "sources": 3 }), &["    · 4 of 5 sentences supported, 3 sources"]);
        check("approval", &json!({ "approved": "3f2a", "edited": false }), &["    ✓ plan 3f2a approved"]);
        check("approval", &json!("declined"), &["    · approval: declined"]);
        check("approval", &json!({ "revise": "shorter" }), &["    ↻ revising the plan: shorter"]);
        let sections = json!([{ "heading": "Cost", "status": "written" }, { "heading": "Use", "status": "failed", "error": "no luck" }]);
        check("sections", &sections, &["    · 1 of 2 sections written", "    ! Use: failed, no luck"]);
        let estimate = json!({ "model_calls": 8, "tokens_in": 900, "tokens_out": 100, "usd_micros": 120_000 });
        check("estimate", &estimate, &["    · estimate: up to 8 model calls, 1000 tokens, about $0.12"]);
        check("step", &json!({ "to": "planner", "retry_count": 0 }), &[]);
        check("way", &json!({ "way": "agentic", "why": "told" }), &[]);
        check("topic", &json!("tides"), &["    · topic: tides"]);
        check("found\u{1b}[2J", &json!("x\u{1b}]0;t\u{7}y"), &["    · found: xy"]);
    }
}
