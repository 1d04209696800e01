use serde_json::{Value, json};

use crate::{ANSWER, CommandOutput, Home};

#[test]
fn an_approval_is_given_from_another_process() {
    let home = Home::new();
    let asked = home.baton(&["ask", "What is it?", "--approve"]);
    asked.complains(4, &["May I answer \"What is it?\"", "baton runs answer", " 6.0 yes", "(or no)"]);
    assert_eq!(asked.out, "");
    let run = home.newest();
    assert_eq!(home.runs()[0]["status"], "asking");
    assert!(home.well(&["runs", "show", &run]).out.contains("answer with: baton runs answer"));
    home.baton(&["runs", "answer", &run, "9.9", "yes"]).complains(2, &["task 9.9 has no open question", "6.0"]);

    let answered = home.well(&["runs", "answer", &run, "yes"]);
    assert_eq!(answered.out, ANSWER);
    assert!(!answered.err.contains("planning"), "earlier events are not shown again: {}", answered.err);
    home.baton(&["runs", "answer", &run, "yes"]).complains(2, &["is over", "fork"]);
}

#[test]
fn a_refusal_is_an_answer_too() {
    let home = Home::new();
    let parked = home.baton(&["ask", "What is it?", "--approve", "--json"]);
    assert_eq!(parked.code, Some(4));
    let last = parked.lines().pop().unwrap();
    assert_eq!((&last["status"], &last["waiting"][0]["task"]), (&json!("asking"), &json!([6, 0])));
    let output = home.well(&["runs", "answer", last["run"].as_str().unwrap(), "6.0", "{\"approve\": false}", "--json"]);
    assert_eq!(output.lines().pop().unwrap()["output"]["answer"], "I was asked not to answer this.");
    assert_eq!(home.changes("notes.append"), 0);
}

#[test]
fn lists_and_shows_what_ran() {
    let home = Home::new();
    home.well(&["ask", "What is it?"]);
    let run = home.newest();
    let short = &run[run.len() - 8..];
    let listed = home.well(&["runs", "list"]).out;
    assert!(listed.contains(short) && listed.contains("done") && listed.contains("research") && listed.contains("What is it?"), "{listed}");
    assert_eq!(home.well(&["runs", "list", "--status", "asking,failed", "--json"]).lines(), Vec::<Value>::new());

    let shown = home.well(&["runs", "show", short]).out;
    for words in [run.as_str(), "0 plan", "✓ planning  5.0 ms", "attempt 3", "8 note_it", "✓ done", "calls", ANSWER.trim()] {
        assert!(shown.contains(words), "no {words:?} in {shown}");
    }
    let object = home.well(&["runs", "show", short, "--json"]).lines().remove(0);
    assert_eq!(object["run"]["status"], "done");
    assert_eq!(object["history"]["state"]["rounds"], 2);
    assert_eq!(object["history"]["events"].as_array().unwrap().last().unwrap()["event"], "ended");
}

#[test]
fn x3_watching_begins_wherever_one_likes() {
    let home = Home::new();
    home.well(&["ask", "What is it?"]);
    let run = home.newest();
    let all = home.well(&["runs", "watch", &run, "--json"]).lines();
    let tail = home.well(&["runs", "watch", &run, "--from", "40", "--json"]).lines();
    assert_eq!(all[40..], tail);
    assert!(home.well(&["runs", "watch", &run]).err.contains("✓ done"));
}

#[test]
fn x3_a_replay_finds_no_difference() {
    let home = Home::new();
    home.well(&["ask", "What is it?"]);
    let run = home.newest();
    assert!(home.well(&["runs", "replay", &run]).out.starts_with("the same"));
    let object = home.well(&["runs", "replay", &run, "--json"]).lines().remove(0);
    assert_eq!(object["replayed"]["difference"], Value::Null);
    assert!(object["replayed"]["entries"].as_u64().unwrap() > 10);
}

#[test]
fn x3_a_fork_goes_its_own_way_from_a_step() {
    let home = Home::new();
    home.well(&["ask", "What is it?"]);
    let run = home.newest();
    let patched = home.well(&["runs", "fork", &run, "--at", "7", "--patch", "{\"question\": \"And who uses it?\"}", "--json"]);
    // The step is requested once unchanged, and again after the edit.
    let asked = patched.lines().into_iter().rfind(|line| line["event"] == "asked" && line["task"] == json!([7, 0])).unwrap();
    assert!(asked["effect"].to_string().contains("And who uses it?"), "{asked}");

    let replied = home.well(&["runs", "fork", &run, "--at", "7", "--reply", "0=\"Another answer.\""]);
    assert_eq!(replied.out, "Another answer.\n");
    let shown = home.well(&["runs", "show", &home.newest()]).out;
    assert!(shown.contains("of run") && shown.contains("at step 7"), "{shown}");
    home.baton(&["runs", "fork", &run, "--at", "99"]).complains(2, &["no step 99", "baton runs show"]);
    home.baton(&["runs", "fork", &run, "--at", "1", "--patch", "{"]).complains(2, &["not JSON"]);
}

#[test]
fn x3_cancelling_ends_a_run_that_waits() {
    let home = Home::new();
    home.baton(&["ask", "What is it?", "--approve"]);
    let run = home.newest();
    assert!(home.well(&["runs", "cancel", &run, "--reason", "changed my mind"]).out.starts_with("cancelled"));
    assert!(home.well(&["runs", "show", &run]).out.contains("cancelled: changed my mind"));
    home.baton(&["runs", "cancel", &run]).complains(2, &["is over (cancelled)"]);
    home.baton(&["runs", "resume", &run]).complains(2, &["is over"]);
}

#[test]
fn threads_are_shown_and_given_back() {
    let home = Home::new();
    home.well(&["ask", "What is it?", "--thread", "mine"]);
    home.well(&["ask", "And this?"]);
    let shown = home.well(&["threads", "show", "mine"]).out;
    assert!(shown.contains(ANSWER.trim()) && shown.contains("assistant"), "{shown}");
    assert_eq!(home.well(&["threads", "list", "--json"]).lines().len(), 2);
    assert!(home.well(&["threads", "prune", "--keep", "1"]).out.contains("deleted 1 threads with 1 runs"));
    assert!(home.well(&["threads", "delete", &home.newest()]).out.contains("deleted 1 threads"));
    assert_eq!(home.well(&["threads", "list", "--json"]).lines(), Vec::<Value>::new());
    home.baton(&["threads", "show", "mine"]).complains(2, &["thread mine does not exist", "baton threads list"]);
    home.baton(&["threads", "prune"]).complains(2, &["--keep"]);
}

#[test]
fn flows_are_drawn() {
    let home = Home::new();
    let names = |out: &str| out.lines().skip(1).map(|line| line.split_whitespace().next().unwrap().to_owned()).collect::<Vec<_>>();
    let listed = home.well(&["flows"]).out;
    assert_eq!(names(&listed), ["auto", "direct", "search", "chat", "reason", "panel", "report", "supervise"]);
    assert!(listed.contains("searches with tools"), "each flow is described: {listed}");
    assert_eq!(names(&home.well(&["flows", "--all"]).out).len(), 17);
    assert!(home.well(&["flows", "research"]).out.contains("critic → plan, approve"));
    assert!(home.well(&["flows", "team", "--mermaid"]).out.starts_with("flowchart TD\n"));
    assert_eq!(home.well(&["flows", "team", "--json"]).lines()[0]["start"], "gather");
    home.baton(&["flows", "chess"]).complains(2, &["research, researcher, search, supervise, team"]);
}

#[test]
fn an_interrupted_run_is_listed_as_interrupted() {
    let home = Home::new();
    let script = home.script("when model answer reply \"At last.\" after 60s\n");
    let mut child = home.command(&["ask", "Why?", "--flow", "direct", "--script", &script]).spawn().unwrap();
    let begun = std::time::Instant::now();
    let status = || home.baton(&["runs", "list"]).out;
    while !home.db().exists() || !status().contains("running") {
        assert!(begun.elapsed() < std::time::Duration::from_secs(30), "it never began: {}", status());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(home.runs()[0]["interrupted"], false);
    assert!(std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let listed = status();
    assert!(listed.contains("interrupted") && !listed.contains("running"), "{listed}");
    assert_eq!(home.runs()[0]["interrupted"], true);
    let shown = home.well(&["runs", "show", &home.newest()]).out;
    assert!(shown.contains("interrupted") && shown.contains("continue with `baton runs resume"), "{shown}");
    assert!(shown.contains("started  just now") || shown.contains(" s ago"), "{shown}");
}

#[test]
fn log_lines_do_not_stand_inside_the_progress_tree() {
    let home = Home::new();
    let mut command = crate::models::bare(&home, &["ask", "What is it?", "--flow", "search", "--model", "extract"]);
    // An unreachable registry is a warning when the tools are listed.
    command.env("BATON_REGISTRY_URL", "http://127.0.0.1:9").current_dir(home.folder.path());
    let output = CommandOutput::of(command.output().unwrap());
    let (tree, rest) = output.err.split_once("✓ done").unwrap_or_else(|| panic!("{output:?}"));
    assert!(!tree.contains("WARN"), "{tree}");
    assert!(rest.contains("WARN") && rest.contains("cannot be reached"), "the warning follows the tree: {rest}");
}
