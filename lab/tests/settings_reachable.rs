//! No test passes a setting that a user cannot pass.
//!
//! A flow rejects, when a run starts, every undeclared setting and every value out of bounds, however the run is started. So a test can pass
//! only what the flow accepts, and that is asserted here to be what `flows::settings` lists for users, and the few values that Baton fills
//! in by itself ([`FILLED_IN`]). The tests that pass one of the latter are those of the mechanism that fills it in.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use flows::Registry;
use flows::settings::Setting;
use graph::{Graph, Run, Start};
use serde_json::{Value, json};

/// A value under `settings` that no user can set.
struct FilledIn {
    flow: &'static str,
    field: &'static str,
    /// Prefixes of the functions that may pass it: tests of what fills it in, and helpers that replace it.
    passed_by: &'static [&'static str],
}

const FILLED_IN: &[FilledIn] = &[
    // From the stored row of the same question in the thread.
    FilledIn { flow: "chat", field: "row", passed_by: &["c3_", "a_follow_up_is_searched_with_what_it_follows"] },
    FilledIn { flow: "chat", field: "turn", passed_by: &[] },
    // From the user's preferences, the previous run, and the notes of similar requests.
    FilledIn { flow: "reason", field: "prefers", passed_by: &["r7_"] },
    FilledIn { flow: "reason", field: "previous_failed", passed_by: &["r7_"] },
    FilledIn { flow: "reason", field: "remembered", passed_by: &["r8_"] },
    // From the registered flows. A user sets `search.enabled_tools`, which is passed on as `each`.
    FilledIn { flow: "auto", field: "flows", passed_by: &["x2_", "auto", "order", "a_page_that_gives_orders"] },
    FilledIn { flow: "auto", field: "each", passed_by: &["x2_", "order", "a_page_that_gives_orders", "s13_"] },
    // From `auto`, which hands over declined requests.
    FilledIn { flow: "direct", field: "may_decline", passed_by: &["x2_"] },
    FilledIn { flow: "supervise", field: "each", passed_by: &["s13_"] },
    FilledIn { flow: "report", field: "each", passed_by: &["order"] },
];

#[test]
fn a_flow_accepts_what_users_can_set_and_what_is_filled_in_and_nothing_else() {
    let graphs = flows::all().unwrap();
    let registry = Registry::default();
    let names: BTreeSet<&str> = registry.flows_with_settings().collect();
    assert!(names.len() >= 10, "{names:?}");
    for graph in &graphs {
        let why = started(graph, &json!({ "no_such_setting": 1 })).err().unwrap_or_default();
        if !names.contains(graph.name()) {
            // It has another input, or ignores unknown fields.
            assert!(!why.contains("no_such_setting"), "{} takes settings and declares no settings in its descriptor: {why}", graph.name());
            continue;
        }
        assert!(why.contains("`no_such_setting`"), "{}: {why}", graph.name());
        let accepted = alternatives(&why);
        // Those of called flows are prefixed with the flow's name, and are passed on.
        let listed: BTreeSet<String> =
            registry.settings(graph.name()).into_iter().map(|setting| setting.name).filter(|name| !name.contains('.')).collect();
        let filled_in: BTreeSet<String> = FILLED_IN.iter().filter(|one| one.flow == graph.name()).map(|one| one.field.to_owned()).collect();
        assert!(listed.is_disjoint(&filled_in), "{}: {listed:?} {filled_in:?}", graph.name());
        assert_eq!(accepted, &listed | &filled_in, "{} accepts settings that nobody can set, or FILLED_IN is stale", graph.name());
    }
    let known: BTreeSet<&str> = graphs.iter().map(Graph::name).collect();
    assert!(names.is_subset(&known) && FILLED_IN.iter().all(|one| names.contains(one.flow)), "{names:?} {known:?}");
}

#[test]
fn a_flow_refuses_the_values_that_users_cannot_set() {
    let registry = Registry::default();
    let mut tried = 0;
    for graph in flows::all().unwrap() {
        for setting in registry.settings(graph.name()).iter().filter(|setting| !setting.name.contains('.')) {
            let given = json!({ &setting.name: setting.default });
            if !setting.default.is_null() {
                assert_eq!(started(&graph, &given), Ok(()), "{} refuses the default of {}", graph.name(), setting.name);
            }
            for value in out_of_bounds(setting) {
                tried += 1;
                let given = json!({ &setting.name: value });
                assert!(registry.resolve_settings(graph.name(), &given).is_err(), "{}: a user can set {given}", graph.name());
                assert!(started(&graph, &given).is_err(), "{} accepts {given}, which no user can set", graph.name());
            }
        }
    }
    assert!(tried > 10, "only {tried} values were tried");
}

#[test]
fn only_tests_of_what_fills_it_in_pass_what_is_filled_in() {
    let mut passed = BTreeSet::new();
    for file in ["crates", "lab"].iter().flat_map(|folder| sources(&root().join(folder))) {
        let text = fs::read_to_string(&file).unwrap();
        for (function, line) in test_lines(&file, &text) {
            for field in fields(line) {
                let allowed = || FILLED_IN.iter().filter(|one| one.field == field).flat_map(|one| one.passed_by);
                assert!(
                    allowed().any(|name| function.starts_with(name)),
                    "{}: {function} passes {field:?}, which no user can set: {}",
                    file.display(),
                    line.trim()
                );
                passed.insert(field);
            }
        }
    }
    assert!(passed.contains("remembered") && passed.contains("row"), "the tests were not found: {passed:?}");
}

/// The flow's error for an input with these settings.
fn started(graph: &Graph, settings: &Value) -> Result<(), String> {
    let input = json!({ "question": "Why?", "settings": settings });
    Run::start(graph, Start::new(graph.name(), "t", "r", input)).map(|_| ()).map_err(|error| error.to_string())
}

/// The expected fields in serde's message: ``unknown field `x`, expected one of `a`, `b` ``.
fn alternatives(why: &str) -> BTreeSet<String> {
    let expected = why.split_once("expected ").map_or("", |(_, expected)| expected);
    expected.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Values of the wrong type and beyond the bounds.
fn out_of_bounds(setting: &Setting) -> Vec<Value> {
    let beyond = |bound: Option<&serde_json::Number>, by: i64| bound.and_then(|bound| bound.as_i64()?.checked_add(by)).map(Value::from);
    let wrong = [json!({ "x": 1 }), json!([1])];
    [beyond(setting.minimum.as_ref(), -1), beyond(setting.maximum.as_ref(), 1)].into_iter().flatten().chain(wrong).collect()
}

/// The test code of a file, each line with its function. All of `lab` is test code.
fn test_lines<'t>(file: &Path, text: &'t str) -> Vec<(&'t str, &'t str)> {
    let inside = file.strip_prefix(root()).unwrap_or(file);
    let is_test_file = inside.components().any(|part| part.as_os_str() == "tests" || part.as_os_str() == "lab")
        || inside.file_stem().is_some_and(|name| name.to_string_lossy().ends_with("tests"));
    // An inline test module, not a file name.
    let is_module = |pair: &[&str]| pair[0].trim() == "#[cfg(test)]" && pair[1].trim_start().starts_with("mod ") && pair[1].ends_with('{');
    let lines: Vec<&str> = text.lines().collect();
    let begin = if is_test_file { Some(0) } else { lines.windows(2).position(is_module) };
    let Some(begin) = begin else { return Vec::new() };
    let mut function = "";
    let mut found = Vec::new();
    for line in lines.into_iter().skip(begin) {
        if let Some((_, rest)) = line.split_once("fn ").filter(|(before, _)| before.trim().split(' ').all(is_modifier)) {
            function = rest.split(['(', '<']).next().unwrap_or_default();
        }
        found.push((function, line));
    }
    found
}

fn is_modifier(word: &str) -> bool {
    ["", "pub", "pub(crate)", "pub(super)", "async"].contains(&word)
}

/// The filled-in values that a line has as JSON keys: `"remembered": …`.
fn fields(line: &str) -> Vec<&'static str> {
    // A row has its own `turn`, which is not the setting.
    let all: BTreeSet<&str> = FILLED_IN.iter().map(|one| one.field).filter(|field| *field != "turn").collect();
    let is_code = !line.trim_start().starts_with("//");
    all.into_iter().filter(|field| is_code && line.contains(&format!("\"{field}\":"))).collect()
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            found.extend(sources(&entry));
        } else if entry.extension().is_some_and(|kind| kind == "rs") && entry.file_name() != Path::new(file!()).file_name() {
            found.push(entry);
        }
    }
    found.sort();
    found
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}
