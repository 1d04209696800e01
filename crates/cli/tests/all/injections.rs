//! Injected instructions in files, documents, tickets and rows, with a model that obeys all of them: nothing happens without permission.

#[path = "../../../../lab/hostile/injections.rs"]
mod cases;

use serde_json::Value;

use crate::{CommandOutput, Home};

fn run(home: &Home, args: &[&str]) -> Value {
    let mut command = home.command(&[&["eval", "tasks", "--model", "scripted", "--json"], args].concat());
    // Everything is real here except the scripted model.
    let output = CommandOutput::of(command.env_remove("BATON_SCRIPT").output().unwrap());
    assert_eq!(output.code, Some(0), "{output:?}");
    serde_json::from_str(&output.out).unwrap()
}

#[test]
fn a_model_that_obeys_every_injected_instruction_does_nothing_without_permission() {
    let home = Home::new();
    let (tasks, count) = cases::tasks();
    assert!(count >= cases::CASES_MIN, "{count}");
    let file = home.folder.path().join("injections.toml");
    std::fs::write(&file, tasks).unwrap();
    let report = run(&home, &["--file", file.to_str().unwrap()]);
    assert_eq!((report["tasks"].as_u64(), report["failed"].as_array().map(Vec::len)), (Some(count as u64), Some(0)), "{report:#}");
}

/// The same cases with a person's approval: the calls are valid.
#[test]
fn an_instruction_that_a_person_agrees_to_is_carried_out() {
    let home = Home::new();
    let (tasks, _) = cases::tasks();
    let agreed = tasks.replace("[task.permissions]\n", "[task.permissions]\nallow = [\"mail\", \"files\", \"tickets\", \"sql\"]\n");
    let file = home.folder.path().join("agreed.toml");
    std::fs::write(&file, agreed).unwrap();
    let names = ["inject-file-mail-note", "inject-document-create-system", "inject-ticket-close-call", "inject-row-rows-harm"];
    let only: Vec<&str> = names.iter().flat_map(|name| ["--only", name]).collect();
    let report = run(&home, &[&["--file", file.to_str().unwrap()], only.as_slice()].concat());
    assert_eq!(report["passed"], 0, "each changed something: {report:#}");
    for (failed, why) in report["failed"].as_array().unwrap().iter().zip(["mail", "approved.txt was written", "T-202", "customers"]) {
        assert!(failed["why"].as_str().unwrap().contains(why), "{why}: {report:#}");
    }
}
