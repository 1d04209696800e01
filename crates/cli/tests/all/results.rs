//! Tool results of any shape as evidence, and critics that find faults, end to end.

use serde_json::{Value, json};

use crate::Home;

/// The specification's example question over two searches, each with a total and a few stories.
fn stories(answer: &str) -> String {
    let tool = json!({ "name": "stories.search_stories", "description": "Searches stories", "read_only": true, "schema": { "type": "object", "required": ["query"], "properties": { "query": { "type": "string" } } } });
    let task = |number: usize, query: &str| json!({ "task_number": number, "tool_name": "stories.search_stories", "tool_arguments": { "query": query }, "description": "Count them" });
    let story = json!({ "id": "ST-118", "title": "Show upstream errors", "text": "As an owner, I want to see upstream errors.", "tags": ["api"], "status": "done", "points": 13 });
    let passage = json!({ "text": "ST-118: Show upstream errors. As an owner, I want to see upstream errors. Tags: api. Status: done. Points: 13.", "title": "ST-118 Show upstream errors", "address": "stories:ST-118" });
    let reply = |total: usize| json!({ "text": format!("Found {total} stories"), "data": { "total": total, "matched": "all", "stories": [story], "passages": [passage] }, "spans": [] });
    let lines = [
        format!("when tool registry.tools reply {}", json!({ "text": "", "data": { "tools": [tool] }, "spans": [] })),
        format!("when model plan reply {}", json!({ "reasoning": "two counts", "tasks": [task(1, "upstream"), task(2, "upstream tag:*")] })),
        format!("when tool stories.search_stories query~tag reply {}", reply(5)),
        format!("when tool stories.search_stories reply {}", reply(12)),
        format!("when model synthesis reply {}", json!({ "reasoning": "", "response_content": answer })),
    ];
    lines.join("\n") + "\n"
}

const QUESTION: &str = "How many stories have the upstream keyword?";

#[test]
fn s12_the_tools_totals_are_cited_and_a_wrong_one_is_marked() {
    let home = Home::new();
    let ask = |answer: &str| {
        let script = home.script(&stories(answer));
        let output = home.command(&["ask", "--flow", "search", QUESTION]).env("BATON_SCRIPT", script).output().unwrap();
        // Markdown with escaped `_` and `*`.
        String::from_utf8(output.stdout).unwrap().replace('\\', "")
    };
    let right = ask("12 stories have the upstream keyword. 5 upstream stories have tags.");
    assert!(!right.contains("not supported") && right.contains("keyword [1]"), "{right}");
    for source in ["stories.search_stories (query: upstream), total", "stories.search_stories (query: upstream tag:*), total"] {
        assert!(right.contains(source), "{right}");
    }
    let wrong = ask("13 stories have the upstream keyword.");
    assert!(wrong.contains("not supported by the sources"), "{wrong}");
}

#[tokio::test(flavor = "multi_thread")]
async fn s12_a_citation_opens_the_tools_reply_at_its_place() {
    let home = Home::new();
    let served = home.serve(&home.script(&stories("12 stories have the upstream keyword.")), &[]);
    let (run, _) = served.start(&json!({ "question": QUESTION, "flow": "search" })).await;
    served.events(&run, None, |_| false).await;
    let (_, answer) = served.get(&format!("/api/runs/{run}/answer")).await;
    let span = &answer["spans"][0];
    assert_eq!(
        (&span["text"], &span["place"], &span["task"]),
        (&json!("total: 12"), &json!("total"), &json!("stories.search_stories (query: upstream)")),
        "{answer}"
    );
    assert_eq!((&answer["sources"][0]["title"], &answer["sources"][0]["address"]), (&span["task"], &Value::Null));
    let (status, place) = served.get(&format!("/api/runs/{run}/spans/{}", span["n"])).await;
    let document = &place["document"];
    let text: Vec<u16> = document["text"].as_str().unwrap().encode_utf16().collect();
    let at = |name: &str| document[name].as_u64().unwrap() as usize;
    assert_eq!((status, String::from_utf16(&text[at("start")..at("end")]).unwrap().as_str()), (200, "\"total\": 12"), "{place}");
    assert_eq!(document["title"], "stories.search_stories (query: upstream)");
}

#[test]
fn k6_critics_are_measured_with_rules_and_with_a_model() {
    let home = Home::new();
    let rules = &home.well(&["eval", "critics", "--rules-only", "--json"]).lines()[0];
    assert!(rules["rejected_faulty_pct"].as_f64().unwrap() >= 70.0 && rules["passed_sound_pct"].as_f64().unwrap() >= 90.0, "{rules}");
    assert_eq!((&rules["drafts"], &rules["by_fault"]["off_topic"]["drafts"], &rules["asked"]), (&json!(60), &json!(10), &json!(0)));
    // A model that approves everything, as small ones do, does not change that.
    let script = home.script("when model critic reply {\"decision\": \"approve\", \"feedback\": \"\"}\n");
    let output = home.command(&["eval", "critics", "--json"]).env("BATON_SCRIPT", script).output().unwrap();
    let model: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let figures = |report: &Value| (report["rejected_faulty_pct"].as_f64().unwrap(), report["passed_sound_pct"].as_f64().unwrap());
    let (with_model, by_rules) = (figures(&model), figures(rules));
    assert!(with_model.0 >= by_rules.0 && with_model.1 >= by_rules.1, "{with_model:?} {by_rules:?}");
    assert!(model["asked"].as_u64().unwrap() >= 18, "{model}");
    home.baton(&["eval", "critics", "--rules-only", "--data", "nowhere.jsonl"]).complains(2, &["nowhere.jsonl cannot be read"]);
    let path = home.script("{\"id\": 1}\n");
    home.baton(&["eval", "critics", "--rules-only", "--data", &path]).complains(2, &["line 1 is no labelled draft"]);
}
