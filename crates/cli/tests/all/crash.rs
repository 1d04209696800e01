//! State after a process was killed.

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{ANSWER, CommandOutput, Home};

/// The sample script, with one effect slow enough to be killed in.
fn slow_at(rule: &str) -> String {
    format!("{rule}\n{}", flows::SCRIPT)
}

/// A process that is killed with its test.
struct Running(Option<Child>);

impl Running {
    /// `SIGKILL`, like a power failure.
    fn kill(mut self) {
        let child = self.0.as_mut().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn id(&self) -> String {
        self.0.as_ref().unwrap().id().to_string()
    }

    fn end(mut self) -> CommandOutput {
        CommandOutput::of(self.0.take().unwrap().wait_with_output().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            // It may have exited already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Home {
    /// Starts an `ask` and waits until the journal shows that it has reached the node.
    fn ask_until(&self, args: &[&str], node: &str) -> Running {
        let ids = || -> Vec<Value> {
            let runs = if self.db().exists() { self.baton(&["runs", "list", "--json", "--status", "running"]).lines() } else { Vec::new() };
            runs.iter().map(|run| run["run"].clone()).collect()
        };
        let before = ids();
        let running = Running(Some(self.command(args).spawn().unwrap()));
        let started = Instant::now();
        loop {
            std::thread::sleep(Duration::from_millis(20));
            let is_there = |run: &Value| {
                let shown = self.baton(&["runs", "show", run.as_str().unwrap(), "--json"]);
                shown.code == Some(0) && shown.lines()[0]["history"]["node"] == node
            };
            if ids().iter().any(|run| !before.contains(run) && is_there(run)) {
                return running;
            }
            assert!(started.elapsed() < Duration::from_secs(30), "it never came to {node}");
        }
    }

    fn replies(&self, run: &str) -> Vec<Value> {
        let all = self.well(&["runs", "watch", run, "--json"]).lines();
        all.into_iter().filter(|line| line["event"] == "replied").map(|line| json!([line["task"], line["attempt"]])).collect()
    }
}

#[test]
fn x3_a_killed_run_goes_on_where_it_was() {
    let home = Home::new();
    let slow = home.script(&slow_at("when model answer reply \"late\" after 60s"));
    let child = home.ask_until(&["ask", "What is it?", "--script", &slow], "answer");
    child.kill();
    let run = home.newest();
    assert_eq!(home.runs()[0]["status"], "running");

    let started = Instant::now();
    let output = home.well(&["runs", "resume", &run]);
    assert_eq!(output.out, ANSWER);
    assert!(!output.err.contains("planning"), "what was answered is not asked again: {}", output.err);
    assert!(started.elapsed() < Duration::from_secs(10), "the dead process's lease is not waited for");
    let mut replies = home.replies(&run);
    let count = replies.len();
    replies.dedup();
    assert_eq!(replies.len(), count, "no reply is there twice");
    assert_eq!(home.changes("notes.append"), 1);
    assert!(home.well(&["runs", "replay", &run]).out.starts_with("the same"));
}

#[test]
fn everything_that_was_interrupted_goes_on_at_once() {
    let home = Home::new();
    let slow = home.script(&slow_at("when model answer reply \"late\" after 60s"));
    for _ in 0..2 {
        let child = home.ask_until(&["ask", "What is it?", "--script", &slow], "answer");
        child.kill();
    }
    let output = home.well(&["runs", "resume", "--all"]);
    assert_eq!(output.out.matches("  done").count(), 2, "{output:?}");
    assert!(home.runs().iter().all(|run| run["status"] == "done"));
}

#[test]
fn what_can_be_looked_up_is_and_happens_once() {
    let home = Home::new();
    let slow = home.script(&slow_at("when tool notes.append reply {\"n\": 1} checkable after 60s"));
    let child = home.ask_until(&["ask", "What is it?", "--script", &slow], "note_it");
    child.kill();
    assert_eq!(home.changes("notes.append"), 0, "it was killed before");
    assert_eq!(home.well(&["runs", "resume", &home.newest()]).out, ANSWER);
    assert_eq!(home.changes("notes.append"), 1);
}

#[test]
fn an_unknown_outcome_is_asked_of_a_person() {
    let home = Home::new();
    let slow = home.script(&slow_at("when tool mail.send reply \"sent\" once after 60s"));
    let child = home.ask_until(&["ask", "--flow", "team", "batons", "--script", &slow], "mail");
    child.kill();
    let run = home.runs().iter().find(|run| run["flow"] == "team").unwrap()["run"].as_str().unwrap().to_owned();
    home.baton(&["runs", "resume", &run]).complains(4, &["cannot find out whether that happened", "1.0 done", "(or again, failed)"]);
    let output = home.well(&["runs", "answer", &run, "again"]);
    assert!(output.out.contains("1 of 1 topics answered"), "{output:?}");
    assert_eq!(home.changes("mail.send"), 1);
}

#[test]
fn an_interrupt_stops_gracefully_and_prints_how_to_resume() {
    let home = Home::new();
    let slow = home.script(&slow_at("when model answer reply \"late\" after 60s"));
    let child = home.ask_until(&["ask", "What is it?", "--script", &slow], "answer");
    assert!(Command::new("kill").args(["-INT", &child.id()]).status().unwrap().success());
    let output = child.end();
    output.complains(130, &["nothing is lost", "baton runs resume"]);
    assert_eq!(home.well(&["runs", "resume", &home.newest()]).out, ANSWER);
}

#[test]
fn a_signal_reaches_a_run_of_another_process() {
    let home = Home::new();
    let slow = home.script(&slow_at("when model answer reply \"late\" after 60s"));
    let child = home.ask_until(&["ask", "What is it?", "--script", &slow], "answer");
    let run = home.newest();
    home.baton(&["runs", "resume", &run]).complains(1, &["is held by", "baton runs watch"]);
    let cancelled = home.well(&["runs", "cancel", &run, "--reason", "too slow"]);
    assert!(cancelled.out.contains("asked the process"), "{cancelled:?}");
    let output = child.end();
    output.complains(1, &["cancelled: too slow"]);
    assert_eq!(home.runs()[0]["status"], "cancelled");
}
