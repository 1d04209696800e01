//! What authors of flows look at: states, costs, prompts and journals of a run; breakpoints; one node run again; two runs compared.

use serde_json::json;

use crate::{Home, LOOKS_UP};

#[test]
fn a_run_is_looked_into_step_by_step() {
    let home = Home::new();
    let script = home.script(LOOKS_UP);
    home.well(&["ask", "What after a crash?", "--flow", "search", "--script", &script]);
    let run = home.newest_root();
    let state = home.well(&["runs", "show", &run, "--state", "2", "--json"]).lines().remove(0);
    assert_eq!((&state["node"], &state["state"]["question"]), (&json!("plan"), &json!("What after a crash?")));
    let changed: Vec<&str> = state["changes"].as_array().unwrap().iter().filter_map(|one| one["path"].as_str()).collect();
    assert!(changed.iter().any(|path| path.starts_with("/tools/")), "{changed:?}");
    let nodes = home.well(&["runs", "show", &run, "--nodes", "--json"]).lines();
    let plan = nodes.iter().find(|one| one["node"] == "plan").unwrap();
    assert_eq!((&plan["visits"], &plan["used"]["tokens_in"]), (&json!(1), &json!(60)));
    let prompts = home.well(&["runs", "show", &run, "--prompts"]).out;
    assert!(prompts.contains("--- system") && prompts.contains("What after a crash?") && prompts.contains("--- schema"), "{prompts}");
    let journal = home.well(&["runs", "show", &run, "--journal"]).lines();
    assert!(journal[0]["started"]["flow"] == "search" && journal.len() > 3, "{journal:?}");
    home.baton(&["runs", "show", &run, "--state", "99"]).complains(2, &["no step 99", "0 to"]);
}

#[test]
fn a_run_waits_at_a_breakpoint_goes_on_with_another_state_and_one_node_is_run_again() {
    let home = Home::new();
    let script = home.script(LOOKS_UP);
    let ask = |more: &[&str]| home.baton(&[&["ask", "What after a crash?", "--flow", "search", "--script", &script], more].concat());
    ask(&["--break", "nowhere"]).complains(2, &["no node \"nowhere\"", "synthesize"]);
    let waits = ask(&["--break", "synthesize"]);
    assert_eq!(waits.code, Some(4), "{}", waits.err);
    assert!(waits.err.contains("Paused before the node synthesize of the flow search. Continue?"), "{}", waits.err);
    let run = home.newest_root();
    let state = home.well(&["runs", "show", &run, "--state", "4", "--json"]).lines().remove(0);
    assert_eq!(state["node"], "synthesize");
    let output = home.well(&["runs", "answer", &run, &json!({ "continue": true, "patch": { "shown": [] } }).to_string(), "--script", &script]);
    assert!(!output.out.contains("[1]"), "without passages nothing is cited: {}", output.out);

    // The fork has no breakpoint of its own before step 4, and with `*` it waits after one node.
    let again = home.baton(&["runs", "fork", &run, "--at", "3", "--break", "*", "--script", &script]);
    assert_eq!(again.code, Some(4), "{}", again.err);
    assert!(again.err.contains("Paused before the node synthesize"), "{}", again.err);
    let fork = home.newest_root();
    home.baton(&["runs", "answer", &fork, "no", "--script", &script]).complains(1, &[]);
    home.well(&["ask", "What after a crash?", "--flow", "search", "--script", &script]);
    let diff = home.well(&["runs", "diff", &run, &home.newest_root()]).out;
    assert!(diff.contains("\nsteps\n") && diff.contains("\nanswer\n") && diff.contains("\n- synthesize\n"), "{diff}");
}
