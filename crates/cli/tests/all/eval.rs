//! Evaluations that need no model and no public data set.

use serde_json::Value;

use super::Home;

fn measured(home: &Home, args: &[&str]) -> Value {
    let all = [&["eval", "routes", "--rules-only", "--json"], args].concat();
    let output = home.well(&all);
    serde_json::from_str(&output.out).unwrap_or_else(|error| panic!("{error}: {}", output.out))
}

#[test]
fn x2_routes_are_measured_without_a_model() {
    let home = Home::new();
    let report = measured(&home, &["--split", "dev"]);
    let dev = &report["dev"];
    assert_eq!((&report["model"], &dev["asked_model"]), (&Value::Null, &Value::from(0)));
    assert!(dev["requests"].as_u64().unwrap() >= 80, "{dev}");
    // Rules decide explicit requests; without a model the classifier decides the rest.
    let share = |name: &str| dev[name].as_f64().unwrap();
    assert!(share("rules_only") > 0.0 && share("rules_only") < share("classifier"), "{dev}");
    assert!(share("accuracy") >= 0.8 && share("accuracy") == share("classifier"), "{dev}");
    for flow in ["direct", "search", "chat", "reason", "panel", "supervise"] {
        assert!(dev["per_flow"][flow]["requests"].as_u64().unwrap() >= 8, "{flow}: {dev}");
    }
    for language in ["en", "de", "fr", "es", "zh"] {
        assert!(dev["per_language"][language]["accuracy"].as_f64().unwrap() > 0.5, "{language}: {dev}");
    }
    assert!(report.get("held").is_none());
}

#[test]
fn x2_routes_of_a_set_of_ones_own_are_measured_and_a_wrong_line_is_named() {
    let home = Home::new();
    let path = home.folder.path().join("mine.jsonl");
    let file = path.to_str().unwrap();
    // Four requests that used to be misrouted, and one that is labelled wrongly on purpose.
    std::fs::write(
        &path,
        r#"{"request": "Read notes.txt and tell me how many lines it has", "flows": ["reason"]}
{"request": "Run this: for i in range(3): print(i)", "flows": ["reason"]}
{"request": "Execute this Python code: print(6*7)", "flows": ["reason"]}
{"request": "Create a file hello.txt", "flows": ["reason"]}
{"request": "Calculate 12% of 4350", "flows": ["reason"]}
{"request": "Calculate 12% of 4350", "flows": ["direct"], "tools": []}
{"request": "How many stories have the upstream keyword?", "flows": ["search", "reason"], "tools": ["builtin", "stories"]}
{"id": "mislabelled", "request": "Hello!", "flows": ["panel"]}
"#,
    )
    .unwrap();
    let report = measured(&home, &["--data", file]);
    assert_eq!((&report["all"]["requests"], &report["all"]["wrong"]), (&Value::from(8), &serde_json::json!(["mislabelled"])), "{report}");

    for (line, words) in [
        (r#"{"request": "x"}"#, "missing field `flows`"),
        (r#"{"request": "x", "flows": ["magic"]}"#, "there is no flow \"magic\""),
        (r#"{"request": "x", "flows": []}"#, "names no flow"),
        (r#"{"request": "x", "flows": ["direct"], "tools": ["hammer"]}"#, "there is no set of tools \"hammer\""),
    ] {
        std::fs::write(&path, line).unwrap();
        home.baton(&["eval", "routes", "--rules-only", "--data", file]).complains(2, &["line 1", words]);
    }
    home.baton(&["eval", "routes", "--rules-only", "--data", "nowhere.jsonl"]).complains(2, &["nowhere.jsonl cannot be read"]);
    home.baton(&["eval", "routes", "--rules-only", "--split", "dve"]).complains(2, &["no split \"dve\"", "dev, fresh, held"]);
}
