use std::process::Stdio;

use serde_json::json;

use crate::{ANSWER, Home};

#[test]
fn the_answer_goes_to_stdout_and_the_rest_to_stderr() {
    let home = Home::new();
    let output = home.well(&["ask", "What is a baton?"]);
    assert_eq!(output.out, ANSWER);
    for words in ["a script replaces models and tools", "plan", "✓ planning", "↻ searching", "✗ reading the first hit", "done"] {
        assert!(output.err.contains(words), "no {words:?} in {}", output.err);
    }
    assert!(!output.err.contains('\u{1b}'), "no colours where nobody looks");
    assert_eq!(home.changes("notes.append"), 1);
}

#[test]
fn json_is_one_object_a_line_and_the_last_is_the_outcome() {
    let home = Home::new();
    let output = home.well(&["ask", "What is it?", "--json", "--thread", "t1"]);
    let lines = output.lines();
    let events: Vec<_> = lines.iter().filter(|line| line["seq"].is_u64()).collect();
    let seqs: Vec<u64> = events.iter().map(|line| line["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (0..events.len() as u64).collect::<Vec<_>>(), "without gaps");
    assert_eq!(events[0]["event"], "started");
    assert_eq!(events.last().unwrap()["event"], "ended");
    let last = lines.last().unwrap();
    assert_eq!((&last["status"], &last["thread"], &last["flow"]), (&json!("done"), &json!("t1"), &json!("research")));
    assert_eq!(last["output"]["rounds"], 2);
    assert!(last["spent"]["tokens_in"].as_u64().unwrap() > 0);
    assert_eq!(output.err, "", "programs are left in peace");
}

#[test]
fn a_team_has_its_topics_looked_up_by_runs_of_their_own() {
    let home = Home::new();
    let output = home.well(&["ask", "--flow", "team", "batons; relays ;"]);
    assert!(output.out.starts_with("2 of 2 topics answered.\nbatons: It is"), "{}", output.out);
    assert_eq!(home.runs().iter().filter(|run| run["parent"].is_string()).count(), 2);
    assert_eq!((home.changes("mail.send"), home.changes("notes.append")), (1, 2));
    assert!(home.well(&["runs", "show", &home.newest_root()]).out.contains("run "), "children are named");
}

#[test]
fn a_question_may_come_on_stdin() {
    let home = Home::new();
    let mut child = home.command(&["ask", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"What is it?\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), ANSWER);
    assert_eq!(home.runs()[0]["title"], "What is it?");
}

#[test]
fn a_budget_bounds_what_is_done() {
    let home = Home::new();
    let output = home.well(&["ask", "What is it?", "--budget", "calls=1", "--json"]);
    let last = output.lines().pop().unwrap();
    assert_eq!(last["spent"]["calls"], 1);
    home.baton(&["ask", "x", "--budget", "patience=3"]).complains(2, &["patience", "tokens=N"]);
}

#[test]
fn a_wrong_script_is_an_error_before_anything_begins() {
    let home = Home::new();
    let script = home.script("when * * hang\n");
    home.baton(&["ask", "x", "--script", &script]).complains(2, &["the script is wrong"]);
    home.baton(&["runs", "list"]).complains(3, &["there is no database"]);
}

impl Home {
    pub(crate) fn newest_root(&self) -> String {
        let runs = self.runs();
        runs.iter().find(|run| run["parent"].is_null()).unwrap()["run"].as_str().unwrap().to_owned()
    }
}

/// A script with documents in which the model cannot be reached.
const MODEL_DOWN: &str = r#"
when tool registry.tools reply {"text": "", "data": {"tools": [{"name": "docs.search", "description": "Searches", "read_only": true, "schema": {"type": "object", "required": ["query"], "properties": {"query": {"type": "string"}}}}]}, "spans": []}
when tool docs.search reply {"text": "", "data": {"passages": [{"text": "After a crash the log is replayed from the last checkpoint.", "title": "Recovery", "address": "https://example.org/wal"}]}, "spans": []}
when tool search.search reply {"text": "After a crash the log is replayed from the last checkpoint.", "data": null, "spans": []}
when tool * reply {"text": "", "data": null, "spans": []}
when model * fail refused "connection refused"
"#;

#[test]
fn a_model_that_is_down_fails_the_run_of_every_flow_and_what_was_found_is_shown() {
    let home = Home::new();
    let script = home.script(MODEL_DOWN);
    for flow in ["direct", "search", "chat", "reason", "panel", "auto"] {
        let output = home.baton(&["ask", "Look up what happens after a crash", "--flow", flow, "--script", &script]);
        output.complains(1, &["no model answered", "connection refused", "retry with `baton runs fork "]);
        assert_eq!(output.out, "", "{flow}: an error is no answer");
        let run = home.runs().into_iter().find(|run| run["flow"] == flow && run["parent"].is_null()).unwrap();
        assert_eq!(run["status"], "failed", "{flow}");
        if ["search", "chat", "auto"].contains(&flow) {
            assert!(output.err.contains("After a crash the log is replayed from the last checkpoint"), "{flow}: {}", output.err);
            let shown = home.well(&["runs", "show", run["run"].as_str().unwrap()]).out;
            assert!(shown.contains("After a crash the log is replayed from the last checkpoint"), "{flow}: {shown}");
        }
    }
}
