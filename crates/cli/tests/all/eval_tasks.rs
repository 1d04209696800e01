//! `baton eval tasks`: complete tasks with real servers, a real mailbox and the scripted model.

use serde_json::Value;

use crate::{CommandOutput, Home};

fn tasks(home: &Home, args: &[&str]) -> Value {
    evaluated(home, "tasks", args)
}

fn evaluated(home: &Home, name: &str, args: &[&str]) -> Value {
    let mut command = home.command(&[&["eval", name, "--model", "scripted", "--json"], args].concat());
    // Everything is real here except the scripted model.
    let output = CommandOutput::of(command.env_remove("BATON_SCRIPT").output().unwrap());
    assert_eq!(output.code, Some(0), "{output:?}");
    serde_json::from_str(&output.out).unwrap()
}

#[test]
fn r15_sums_and_code_are_carried_out_and_judged() {
    let home = Home::new();
    let report = tasks(&home, &["--only", "calc-mixed", "--only", "code-fibonacci"]);
    assert_eq!((&report["tasks"], &report["passed"], &report["flows_pct"]), (&2.into(), &2.into(), &100.0.into()), "{report}");
    assert_eq!(report["by_kind"]["calc"], serde_json::json!({ "tasks": 1, "passed": 1 }));
    assert!(report.get("embedded_pct").is_none());
}

#[test]
fn r16_reflection_corrects_planted_errors() {
    let home = Home::new();
    let report = evaluated(&home, "reflection", &["--only", "calc-mixed", "--only", "files-lines", "--only", "sql-count", "--only", "docs-leave"]);
    let all = &report["all"];
    let planted = all["planted"].as_u64().unwrap();
    assert_eq!(planted, 5, "{report}");
    assert_eq!((&all["done_undisturbed"], &all["done_with_reflection"]), (&planted.into(), &planted.into()), "{report}");
    assert_eq!((&all["done_without"], &report["not_mended"]), (&0.into(), &serde_json::json!([])), "{report}");
    let errors: Vec<&String> = report["by_error"].as_object().unwrap().keys().collect();
    assert_eq!(errors, ["rejected", "wrong"]);
}

#[test]
fn a_task_that_is_not_done_is_reported_with_the_reason() {
    let home = Home::new();
    // This flow calls no tools, so nothing can be written.
    let report = tasks(&home, &["--only", "files-create", "--flow", "direct"]);
    assert_eq!((&report["passed"], &report["pct"]), (&0.into(), &0.0.into()), "{report}");
    assert_eq!(report["failed"][0]["id"], "files-create");
    assert!(report["failed"][0]["why"].as_str().unwrap().contains("hello.txt is not there"), "{report}");
}

#[test]
fn s11_what_nobody_permitted_is_asked_about_and_not_done() {
    let home = Home::new();
    let report = tasks(&home, &["--only", "forbidden-close", "--only", "forbidden-drop", "--only", "forbidden-mail-secret"]);
    assert_eq!((&report["tasks"], &report["passed"]), (&3.into(), &3.into()), "{report}");
}

#[test]
fn s11_tools_without_annotations_are_used_with_permission() {
    let home = Home::new();
    let keep = home.folder.path().join("kept");
    let report = tasks(&home, &["--only", "tickets-close", "--only", "sql-update", "--only", "mail-lunch", "--keep", keep.to_str().unwrap()]);
    assert_eq!((&report["tasks"], &report["passed"]), (&3.into(), &3.into()), "{report}");
    // A kept folder is an ordinary data folder.
    let db = keep.join("tickets-close/data/baton.db");
    assert!(home.well(&["--db", db.to_str().unwrap(), "runs", "list", "--json"]).out.contains("Close ticket T-102"));
    assert!(std::fs::read_to_string(keep.join("tickets-close/data/mcp.json")).unwrap().contains("eval-server"));
}

#[test]
fn an_unknown_task_or_flow_is_an_error_that_names_what_there_is() {
    let home = Home::new();
    let output = home.baton(&["eval", "tasks", "--model", "scripted", "--only", "calx"]);
    assert_eq!(output.code, Some(2));
    assert!(output.err.contains("calc, code, files"), "{}", output.err);
    let output = home.baton(&["eval", "tasks", "--model", "scripted", "--flow", "raeson"]);
    assert_eq!(output.code, Some(2));
    assert!(output.err.contains("reason"), "{}", output.err);
}
