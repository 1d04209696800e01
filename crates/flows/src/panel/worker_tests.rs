use graph::{Effect, FailureKind, Reply};
use serde_json::{Value, json};

use super::worker::uncited;
use crate::played::{PlayedRun, failed, found, play, words};

fn tools() -> Value {
    let text =
        |name: &str| json!({ "type": "object", "required": [name], "additionalProperties": false, "properties": { name: { "type": "string" } } });
    json!([
        { "name": "files.append", "description": "Appends.", "schema": text("text"), "read_only": false },
        { "name": "docs.search", "description": "Finds.", "schema": text("query"), "read_only": true },
        { "name": "calc.eval", "description": "Calculates.", "schema": text("expression"), "read_only": true },
    ])
}

#[allow(clippy::needless_pass_by_value)] // keeps test cases readable
fn task(more: Value) -> Value {
    let mut task = json!({
        "question": "How old is the bridge?", "steps": ["When was the bridge built"], "tools": tools(),
        "model": { "is_small": false, "context_tokens": 32_000 },
    });
    more.as_object().unwrap().iter().for_each(|(name, value)| task[name] = value.clone());
    task
}

/// Decisions of the model in turn (the last repeats), and the tool's reply.
fn check(flow: &str, task: Value, thoughts: &[Reply], tool: &Reply) -> PlayedRun {
    let mut turn = 0;
    play(flow, task, &mut |effect, _| {
        Some(match effect.name() {
            "tools" => {
                turn += 1;
                thoughts[(turn - 1).min(thoughts.len() - 1)].clone()
            }
            "research" => Reply::ok("It was built in 1901 [1]."),
            "expert" => Reply::ok(json!({ "expert_answer": "125 years.", "expert_reasoning": "2026 - 1901" })),
            _ => tool.clone(),
        })
    })
}

fn calls(list: &[(&str, Value)]) -> Reply {
    let list: Vec<Value> = list.iter().map(|(tool, arguments)| json!({ "tool": tool, "arguments": arguments })).collect();
    Reply::ok(json!({ "calls": list }))
}

fn passage() -> Reply {
    found("docs.search", &[("bridge", "The bridge was built in 1901.")])
}

#[test]
fn k5_the_researcher_uses_tools_until_it_has_enough() {
    let thoughts = [
        calls(&[("docs.search", json!({ "query": "bridge" })), ("docs.search", json!({ "query": "bridge year" }))]),
        calls(&[("docs.search", json!({ "query": "bridge history" }))]),
        calls(&[]),
    ];
    let end = check("panel_researcher", task(json!({})), &thoughts, &passage());
    assert_eq!(end.path, ["think", "act", "think", "act", "think", "write"]);
    assert_eq!(end.count("tool docs.search"), 3);
    let output = end.output();
    assert_eq!((&output["result"], &output["error"]), (&json!("It was built in 1901."), &Value::Null));
    assert_eq!(output["memory"]["spans"].as_array().unwrap().len(), 1, "the same passage is kept once");
    let written = end.effects.iter().find(|effect| effect.name() == "research").unwrap();
    assert!(words(written).contains("Source: bridge · https://bridge.example"), "{}", words(written));
    let Effect::CallModel(call) = written else { panic!() };
    assert_eq!(call.messages.last().unwrap().content, "When was the bridge built");
}

#[test]
fn a_small_researcher_looks_up_the_question_too_and_only_once() {
    let small = json!({ "model": { "is_small": true, "context_tokens": 4_096 } });
    let end = check("panel_researcher", task(small.clone()), &[calls(&[("docs.search", json!({ "query": "bridge" }))])], &passage());
    let queries = |end: &PlayedRun| -> Vec<Value> {
        let of = |effect: &Effect| match effect {
            Effect::CallTool(call) => Some(call.arguments["query"].clone()),
            _ => None,
        };
        end.effects.iter().filter_map(of).collect()
    };
    assert_eq!(queries(&end), [json!("bridge"), json!("How old is the bridge?")]);
    let mut again = task(small);
    again["memory"] = end.output()["memory"].clone();
    let end = check("panel_researcher", again, &[calls(&[("docs.search", json!({ "query": "bridge year" }))])], &passage());
    assert_eq!(queries(&end), [json!("bridge year")]);
}

#[test]
fn k5_the_expert_calculates() {
    let calc = Reply::ok(json!(evidence::found("calc.eval", evidence::Trust::Computed, "125", None)));
    let end = check(
        "panel_expert",
        task(json!({ "results": ["Built in 1901"] })),
        &[calls(&[("calc.eval", json!({ "expression": "2026-1901" }))]), calls(&[])],
        &calc,
    );
    assert_eq!((end.count("tool calc.eval"), &end.output()["result"]), (1, &json!("125 years.")));
    assert_eq!(end.output()["reasoning"], "2026 - 1901");
    let prompt_text = end.effects.iter().find(|effect| effect.name() == "expert").map(words).unwrap();
    assert!(prompt_text.contains("1. Built in 1901") && prompt_text.contains("125"), "{prompt_text}");
    // An expert may also answer without tools.
    let end = check("panel_expert", task(json!({})), &[calls(&[])], &calc);
    assert_eq!(end.path, ["think", "write"]);
}

#[test]
fn k5_tool_calls_have_a_limit_and_are_never_repeated() {
    let ever = |n: usize| calls(&[("docs.search", json!({ "query": format!("q{n}") }))]);
    let thoughts: Vec<Reply> = (0..30).map(ever).collect();
    for (asked, made) in [(1, 1), (4, 4), (1_000, 16)] {
        let end = check("panel_researcher", task(json!({ "tool_calls_max": asked })), &thoughts, &passage());
        assert_eq!((end.count("tool docs.search"), end.path.last().unwrap().as_str()), (made, "write"), "{asked}");
    }
    let end = check("panel_researcher", task(json!({})), &[ever(0)], &passage());
    assert_eq!(end.count("tool docs.search"), 1);
}

#[test]
fn a_researcher_searches_by_default_when_it_names_no_tool() {
    let unusable = [
        Reply::ok("I would search."),
        calls(&[]),
        calls(&[("web.search", json!({ "query": "x" }))]),
        calls(&[("docs.search", json!({ "q": "x" }))]),
        failed(FailureKind::Refused),
    ];
    for thought in unusable {
        let end = check("panel_researcher", task(json!({})), &[thought.clone(), calls(&[])], &passage());
        assert_eq!(end.count("tool files.append"), 0, "nothing that may change something is called by rule");
        let asked: Vec<&Effect> = end.effects.iter().filter(|effect| effect.name() == "docs.search").collect();
        assert_eq!(asked, [&graph::tool("docs.search", json!({ "query": "When was the bridge built" }))], "{thought:?}");
        assert_eq!(end.output()["result"], "It was built in 1901.");
    }
}

#[test]
fn a_failed_call_is_reported_and_does_not_end_the_research() {
    let thought = [calls(&[("docs.search", json!({ "query": "bridge" }))]), calls(&[])];
    let end = check("panel_researcher", task(json!({})), &thought, &failed(FailureKind::Tool));
    assert_eq!(end.output()["memory"]["calls"][0]["came"], json!({ "Err": "tool: no luck" }));
    assert!(words(end.effects.iter().rfind(|effect| effect.name() == "tools").unwrap()).contains("failed: tool: no luck"));
    assert_eq!(end.output()["result"], "It was built in 1901.");
    // A failed model call is an error with its kind, for the panel to handle.
    let end = play("panel_researcher", task(json!({ "tools": [] })), &mut |_, _| Some(failed(FailureKind::Budget)));
    assert_eq!((&end.output()["error"]["kind"], &end.output()["result"]), (&json!("budget"), &json!("")));
    let end = play("panel_researcher", task(json!({ "tools": [] })), &mut |_, _| Some(Reply::ok(" ")));
    assert_eq!(end.output()["error"]["kind"], "invalid");
}

#[test]
fn a_small_model_is_asked_for_one_call_and_then_writes() {
    let end = check(
        "panel_researcher",
        task(json!({ "model": { "is_small": true, "context_tokens": 8_192 } })),
        &[calls(&[("docs.search", json!({ "query": "bridge" }))])],
        &passage(),
    );
    assert_eq!(end.path, ["think", "act", "write"]);
    let Effect::CallModel(call) = end.effects.iter().find(|effect| effect.name() == "tools").unwrap() else { panic!() };
    assert_eq!(call.schema.as_ref().unwrap()["properties"]["calls"]["maxItems"], 1);
}

#[test]
fn numbers_of_passages_are_taken_out() {
    for (text, expected) in [("It is so [1].", "It is so."), ("A [1, 2], b 【3†source】.", "A, b."), ("In [2019] and `[1]`.", "In [2019] and `[1]`.")]
    {
        assert_eq!(uncited(text), expected);
    }
}

#[test]
fn s11_workers_have_every_tool_and_call_what_may_change_something_once() {
    let append = calls(&[("files.append", json!({ "text": "1901" }))]);
    let end = check("panel_researcher", task(json!({})), &[append.clone(), append.clone(), calls(&[])], &passage());
    assert_eq!(end.count("tool files.append"), 1);
    let prompt_text = end.effects.iter().find(|effect| effect.name() == "tools").map(words).unwrap();
    assert!(prompt_text.contains("- files.append(text: string) [may change something]: Appends."), "{prompt_text}");
    // A failed call may have taken effect.
    let passing = Reply::failed(graph::Failure::new(FailureKind::Network, "reset").retry());
    let end = check("panel_expert", task(json!({})), &[append.clone(), append, calls(&[])], &passing);
    assert_eq!(end.count("tool files.append"), 1);
}
