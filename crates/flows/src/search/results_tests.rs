//! Tool results of every shape, from the reply to a checked answer (S6, S12).

use serde_json::{Value, json};

use crate::driven::{DrivenRun, ScriptedReply, drive, registry};

const QUESTION: &str = "How many stories have the upstream keyword?";

/// A reply of `stories.search_stories`: `total` matches, and the first of them.
fn stories(query: &str, total: usize) -> Value {
    let story = |n: usize| {
        let points = [1, 3, 5, 13][n % 4];
        let (status, tags) = (["done", "ready", "backlog"][n % 3], if n.is_multiple_of(2) { json!(["backend"]) } else { json!([]) });
        json!({ "id": format!("ST-{}", 101 + n), "title": format!("Mend upstream part {n}"), "text": format!("As an owner, I want the upstream part {n} mended."), "tags": tags, "status": status, "points": points })
    };
    let shown: Vec<Value> = (0..total.min(4)).map(story).collect();
    let passage = |story: &Value| {
        let text = |name: &str| story[name].as_str().unwrap_or_default().to_owned();
        json!({
            "text": format!("{}: {} {} Status: {}. Points: {}.", text("id"), text("title"), text("text"), text("status"), story["points"]),
            "title": format!("{} {}", text("id"), text("title")),
            "address": format!("stories:{}", text("id")),
            "confidence": 1.0,
        })
    };
    let passages: Vec<Value> = shown.iter().map(passage).collect();
    let data = json!({ "total": total, "matched": "all", "stories": shown, "passages": passages });
    json!({ "text": format!("Found {total} stories matching '{query}', the best {} of them", shown.len()), "data": data, "spans": [] })
}

/// A run with these tasks, replies and answer.
fn answered(question: &str, tasks: &[(&str, Value, Value)], answer: &str, is_small: bool) -> DrivenRun {
    let input = json!({ "question": question, "model": { "is_small": is_small, "context_tokens": 32_000 } });
    let plan: Vec<Value> = (1..)
        .zip(tasks)
        .map(|(number, (tool, arguments, _))| json!({ "task_number": number, "tool_name": tool, "tool_arguments": arguments, "description": "look" }))
        .collect();
    let reply: ScriptedReply = match is_small {
        true => serde_json::from_str(answer).map_err(|error| graph::Failure::new(graph::FailureKind::Invalid, error.to_string())),
        false => Ok(json!({ "reasoning": "the tools say so", "response_content": format!("<p>{answer}</p>") })),
    };
    drive(&super::flow().unwrap(), input, |effect, before| match effect.name() {
        "registry.tools" => Ok(registry()),
        "plan" => Ok(json!({ "reasoning": "because", "tasks": plan })),
        "synthesis" => reply.clone(),
        tool => Ok(tasks.iter().filter(|(name, ..)| *name == tool).nth(before).unwrap_or_else(|| panic!("{tool} was not planned")).2.clone()),
    })
}

fn two_searches() -> Vec<(&'static str, Value, Value)> {
    vec![
        ("stories.search", json!({ "query": "upstream" }), stories("upstream", 12)),
        ("stories.search", json!({ "query": "upstream tag:*" }), stories("upstream tag:*", 5)),
    ]
}

fn statuses(run: &DrivenRun) -> Vec<&str> {
    run.output()["sentences"].as_array().unwrap().iter().filter_map(|sentence| sentence["status"].as_str()).collect()
}

#[test]
fn s12_the_upstream_question_is_answered_with_the_tools_own_totals() {
    let right = "There are 12 stories with the upstream keyword. Of these, 5 upstream stories have tags.";
    let run = answered(QUESTION, &two_searches(), right, false);
    assert_eq!(statuses(&run), ["supported", "supported"], "{}", run.output()["sentences"]);
    let sources: Vec<&str> = run.output()["sources"].as_array().unwrap().iter().filter_map(|source| source["title"].as_str()).collect();
    assert_eq!(sources, ["stories.search (query: upstream)", "stories.search (query: upstream tag:*)"]);
    assert_eq!(run.output()["sources"][0]["places"], json!(["total"]));
    assert!(run.answer().contains("upstream keyword [1]") && !run.answer().contains("not supported"), "{}", run.answer());
    // Both totals reach the model, each with the task that found it.
    let shown: Vec<&str> =
        run.models("synthesis")[0].messages.iter().filter(|message| message.role == "evidence").map(|message| message.content.as_str()).collect();
    for expected in
        ["Source: stories.search (query: upstream) · total\ntotal: 12", "Source: stories.search (query: upstream tag:*) · total\ntotal: 5"]
    {
        assert!(shown.contains(&expected), "{shown:?}");
    }
    for wrong in ["There are 13 stories with the upstream keyword.", "12 stories have the upstream keyword, and 4 of the upstream stories have tags."]
    {
        let run = answered(QUESTION, &two_searches(), wrong, false);
        assert_eq!(statuses(&run), ["unsupported"], "{wrong}");
        assert!(run.answer().contains("not supported by the sources"), "{}", run.answer());
    }
}

#[test]
fn s12_a_small_model_answers_it_from_the_totals_too() {
    let small = |short: &str| {
        let run = answered(QUESTION, &two_searches(), "{}", false);
        let shown: Vec<&str> =
            run.models("synthesis")[0].messages.iter().filter(|message| message.role == "evidence").map(|message| message.content.as_str()).collect();
        let number = |end: &str| 1 + shown.iter().position(|content| content.ends_with(end)).unwrap();
        let facts = json!([{ "sentence": "total: 12", "source": number("\ntotal: 12") }]);
        answered(QUESTION, &two_searches(), &json!({ "facts": facts, "short_answer": short }).to_string(), true)
    };
    let right = small("12 stories");
    assert!(statuses(&right).iter().all(|status| *status == "supported"), "{}", right.output()["sentences"]);
    assert!(right.answer().starts_with("**12 stories** [1]"), "{}", right.answer());
    assert!(statuses(&small("13 stories")).contains(&"unsupported"));
}

#[test]
fn s12_tables_records_code_and_text_reach_the_answer() {
    let text = |text: &str| json!({ "text": text, "data": null, "spans": [] });
    let cases: [(&str, Value, &str, &str); 5] = [
        (
            "What is the total revenue?",
            text("area,revenue\nNorth,48000\nSouth,39900\n"),
            "The total revenue is 87,900.",
            "The total revenue is 89,700.",
        ),
        (
            "How many orders had the south?",
            text("| area | orders |\n|---|---|\n| North | 120 |\n| South | 95 |\n"),
            "South had 95 orders.",
            "South had 120 orders.",
        ),
        (
            "How many hours are open?",
            json!({ "items": [{ "hours": 6, "state": "open" }, { "hours": 3, "state": "closed" }, { "hours": 9, "state": "open" }], "count": 3 }),
            "The open items take 15 hours in total.",
            "The open items take 18 hours in total.",
        ),
        (
            "What is the mean?",
            json!({ "text": "{\"outcome\": \"ok\", \"stdout\": \"mean: 18\", \"milliseconds\": 21}", "data": { "outcome": "ok", "stdout": "mean: 18", "milliseconds": 21 }, "spans": [] }),
            "The mean is 18.",
            "The mean is 21.",
        ),
        ("How tall is it?", json!("The tower is 330 metres tall."), "The tower is 330 metres tall.", "The tower is 319 metres tall."),
    ];
    for (question, reply, right, wrong) in cases {
        for (answer, is_right) in [(right, true), (wrong, false)] {
            let run = answered(question, &[("stories.search", json!({ "query": "it" }), reply.clone())], answer, false);
            assert_eq!(statuses(&run) == ["supported"], is_right, "{answer}: {}", run.output()["sentences"]);
            let source = &run.output()["sources"][0];
            assert!(!is_right || source["title"] == "stories.search (query: it)", "{source}");
        }
    }
}
