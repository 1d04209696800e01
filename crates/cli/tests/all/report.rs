//! `baton report` end to end, with a script for the model and the tools.

use std::time::Instant;

use serde_json::{Value, json};

use crate::Home;
use crate::serve::{Event, PATIENCE, Served};

/// An outline of two sections; both find the same page, and the second one another.
const SCRIPT: &str = r#"
when model outline text~"cover Postgres"  reply {"title": "Logs in Postgres", "ask_user": null, "sections": [{"heading": "Recovery", "question": "How does a log recover?"}, {"heading": "Cost", "question": "What does a commit cost?"}]} tokens 90/60
when model outline     reply {"title": "Write-ahead logs", "ask_user": null, "sections": [{"heading": "Recovery", "question": "How does a log recover?"}, {"heading": "Cost", "question": "What does a commit cost?"}]} tokens 80/60
when tool registry.tools reply {"text": "", "spans": [], "data": {"tools": [{"name": "docs.search", "description": "Finds passages.", "read_only": true, "schema": {"type": "object", "required": ["query"], "properties": {"query": {"type": "string"}}}}]}}
when model plan text~"What does a commit" reply {"reasoning": "r", "tasks": [{"task_number": 1, "tool_name": "docs.search", "tool_arguments": {"query": "cost"}, "description": "Cost"}]} tokens 60/20
when model plan        reply {"reasoning": "r", "tasks": [{"task_number": 1, "tool_name": "docs.search", "tool_arguments": {"query": "recovery"}, "description": "Recovery"}]} tokens 60/20
when tool docs.search query~cost reply {"text": "", "data": {}, "spans": [{"text": "After a crash the log is replayed from the last checkpoint.", "source": "docs.search", "title": "Log", "address": "https://log.example/"}, {"text": "A commit takes 0.34 ms on the disk.", "source": "docs.search", "title": "Costs", "address": "https://cost.example/"}]}
when tool docs.search  reply {"text": "", "data": {}, "spans": [{"text": "After a crash the log is replayed from the last checkpoint.", "source": "docs.search", "title": "Log", "address": "https://log.example/"}]}
when model synthesis text~"What does a commit" reply {"reasoning": "r", "response_content": "<p>A commit takes 0.34 ms on the disk [2]. After a crash the log is replayed from the last checkpoint [1].</p>"} tokens 200/40
when model synthesis   reply {"reasoning": "r", "response_content": "<p>After a crash the log is replayed from the last checkpoint [1].</p>"} tokens 200/40
when model summary     reply {"summary": "After a crash the log is replayed from the last checkpoint [1]."} tokens 100/20
"#;

fn file(home: &Home, name: &str) -> String {
    home.folder.path().join(name).to_str().unwrap().to_owned()
}

#[test]
fn a_report_is_written_to_files_of_every_format() {
    let home = Home::new();
    let script = home.script(SCRIPT);
    let document = file(&home, "report.md");
    let output = home.well(&["report", "Write a report on logs", "--script", &script, "--yes", "--output", &document]);
    for words in ["## Recovery", "## Cost", "**Sources**", "https://cost.example/"] {
        assert!(output.out.contains(words), "no {words:?} in {}", output.out);
    }
    for words in ["estimate: up to", "section 1 of 2: Recovery", "2 of 2 sections written", "wrote "] {
        assert!(output.err.contains(words), "no {words:?} in {}", output.err);
    }
    let markdown = std::fs::read_to_string(&document).unwrap();
    assert!(markdown.contains("## Cost") && markdown.matches("https://log.example/").count() == 1, "{markdown}");
    let run = home.newest_root();
    for ending in ["html", "docx", "pdf"] {
        let document = file(&home, &format!("report.{ending}"));
        home.well(&["runs", "export", &run, &document]);
        assert!(std::fs::metadata(&document).unwrap().len() > 500, "{ending}");
    }
    home.baton(&["report", "x", "--output", "report.odt"]).complains(2, &[".docx", ".pdf"]);
    home.baton(&["report", "x", "--sections", "1"]).complains(2, &["2..=12"]);
}

#[test]
fn a_report_waits_with_its_outline_and_is_revised_and_approved_by_commands() {
    let home = Home::new();
    let script = home.script(SCRIPT);
    let document = file(&home, "report.md");
    let waits = home.baton(&["report", "Write a report on logs", "--script", &script, "--output", &document]);
    assert_eq!(waits.code, Some(4), "{}", waits.err);
    for words in ["Estimate for 2 sections", "1. Recovery: How does a log recover?", "was not written; when the run is done: baton runs export"] {
        assert!(waits.err.contains(words), "no {words:?} in {}", waits.err);
    }
    let run = home.newest_root();
    let revise = json!({ "approve": false, "revise": "cover Postgres" }).to_string();
    let again = home.baton(&["runs", "answer", &run, &revise, "--script", &script]);
    assert_eq!(again.code, Some(4), "{}", again.err);
    assert!(again.err.contains("revising the plan: cover Postgres"), "{}", again.err);
    let sections = json!({ "approve": true, "sections": [{ "heading": "Cost", "question": "What does a commit cost?" }] }).to_string();
    let output = home.well(&["runs", "answer", &run, &sections, "--script", &script]);
    assert!(output.out.contains("## Cost") && !output.out.contains("## Recovery"), "{}", output.out);
    home.well(&["runs", "export", &run, &document]);
    assert!(std::fs::read_to_string(&document).unwrap().contains("Logs in Postgres"));
}

#[test]
fn a_budget_holds_for_all_sections_together() {
    let home = Home::new();
    let script = home.script(SCRIPT);
    let report = |budget: &str| -> (u64, String) {
        let output = home.well(&["report", "Write a report on logs", "--script", &script, "--yes", "--budget", budget, "--json"]);
        let last: Value = output.lines().pop().unwrap();
        let spent = |name: &str| last["spent"][name].as_u64().unwrap_or(0);
        (spent("tokens_in") + spent("tokens_out"), last["output"]["answer"].as_str().unwrap().to_owned())
    };
    let (spent, answer) = report("tokens=700");
    assert!(spent <= 700 && answer.contains("## Not covered"), "{spent}: {answer}");
    // The second section has no room beside the first, and is researched after it.
    let (spent, answer) = report("tokens=12000");
    assert!(spent <= 12_000 && answer.contains("## Recovery") && answer.contains("## Cost") && !answer.contains("Not covered"), "{spent}: {answer}");
}

#[test]
fn an_estimate_starts_nothing() {
    let home = Home::new();
    let script = home.script(SCRIPT);
    let output = home.well(&["report", "Logs", "--script", &script, "--estimate", "--sections", "4"]);
    assert!(output.out.starts_with("Estimate for 4 sections: up to"), "{}", output.out);
    assert_eq!(home.runs().len(), 0);
}

/// The first section is done at once; the second waits for its text.
const SLOW: &str = "when model synthesis text~\"What does a commit\" reply \"late\" after 600s\n";

/// Only what had not been answered when the server was killed has its answer; whatever is asked a second time has another one.
const AFTER_KILL: &str = r#"
when model synthesis text~"What does a commit" reply {"reasoning": "r", "response_content": "<p>A commit takes 0.34 ms on the disk [2]. After a crash the log is replayed from the last checkpoint [1].</p>"} tokens 200/40
when model summary     reply {"summary": "After a crash the log is replayed from the last checkpoint [1]."} tokens 100/20
when model outline     reply {"title": "Asked twice", "ask_user": null, "sections": [{"heading": "Asked twice", "question": "Asked twice?"}]} tokens 1/1
when tool registry.tools reply {"text": "", "spans": [], "data": {"tools": []}}
when model plan        reply {"reasoning": "r", "tasks": [{"task_number": 1, "tool_name": "docs.search", "tool_arguments": {"query": "twice"}, "description": "Asked twice"}]} tokens 1/1
when tool docs.search  reply {"text": "", "data": {}, "spans": [{"text": "It was asked twice.", "source": "docs.search", "title": "Twice", "address": "https://twice.example/"}]}
when model synthesis   reply {"reasoning": "r", "response_content": "<p>It was asked twice [1].</p>"} tokens 1/1
"#;

async fn start(served: &Served) -> String {
    let settings = json!({ "approve_outline": false, "clarify": false });
    served.start(&json!({ "question": "Write a report on logs", "flow": "report", "settings": settings })).await.0
}

/// The document, what it cost, and how many runs there are.
async fn ended(served: &Served, home: &Home, run: &str) -> (String, Value, usize) {
    let row = served.wait(run).await;
    let (status, answer) = served.get(&format!("/api/runs/{run}/answer")).await;
    assert_eq!(status, 200, "{row}");
    (answer["markdown"].as_str().unwrap().to_owned(), row["spent"].clone(), home.runs().len())
}

#[tokio::test]
async fn x3_a_report_whose_server_is_killed_between_its_sections_ends_with_the_same_document_and_asks_nothing_twice() {
    let home = Home::new();
    let served = home.serve(&home.script(SCRIPT), &[]);
    let run = start(&served).await;
    let whole = ended(&served, &home, &run).await;
    assert!(whole.0.contains("## Recovery") && whole.0.contains("0.34 ms"), "{}", whole.0);

    let home = Home::new();
    let mut served = home.serve(&home.script(&format!("{SLOW}{SCRIPT}")), &[]);
    let run = start(&served).await;
    // The second section has its evidence and waits for its text; the first one is written.
    let is_writing =
        |event: &Event| event.data.to_string().contains("What does a commit") && event.data["effect"]["call_model"]["purpose"] == "synthesis";
    served.events(&run, None, is_writing).await;
    let began = Instant::now();
    while !home.runs().iter().any(|row| row["flow"] == "search" && row["status"] == "done") {
        assert!(began.elapsed() < PATIENCE, "the first section is never done: {:?}", home.runs());
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    served.kill();
    let states: Vec<Value> = home.runs().iter().filter(|row| row["flow"] == "search").map(|row| row["status"].clone()).collect();
    assert_eq!(states.iter().filter(|status| *status == "done").count(), 1, "{states:?}");

    let served = home.serve(&home.script(AFTER_KILL), &[]);
    let resumed = ended(&served, &home, &run).await;
    assert_eq!(resumed, whole);
}
