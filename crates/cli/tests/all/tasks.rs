//! R13, R14, R15 on the command line: requests carried out with tools.

use serde_json::{Value, json};

use crate::Home;

const TOOLS: &str = r#"
when tool registry.tools reply {"text": "", "spans": [], "data": {"tools": [{"name": "files.read", "description": "Reads a file.", "read_only": true, "schema": {"type": "object", "required": ["path"], "properties": {"path": {"type": "string"}}}}, {"name": "files.write", "description": "Writes a file.", "read_only": false, "destructive": true, "schema": {"type": "object", "required": ["path", "content", "mode"], "properties": {"path": {"type": "string"}, "content": {"type": "string"}, "mode": {"enum": ["create", "replace"]}}}}, {"name": "code.run_python", "description": "Runs Python.", "read_only": true, "schema": {"type": "object", "required": ["code"], "properties": {"code": {"type": "string"}, "inputs": {"type": "object"}}}}]}}
when tool files.read path="data.csv" reply {"text": "data.csv, lines 1-2:\nmon,2\ntue,5\n", "spans": [], "data": {"path": "data.csv", "passages": [{"text": "mon,2\ntue,5\n", "title": "data.csv"}]}}
when tool code.run_python inputs.text="mon,2\ntue,5\n" reply {"text": "3.5\n", "spans": [{"text": "3.5", "source": "code.run_python", "trust": "computed"}], "data": {"outcome": "ok", "stdout": "3.5\n", "result": null, "error": null}}
when tool files.write path="mean.txt" content="3.5" reply {"text": "mean.txt is written and holds 3 bytes", "spans": [], "data": {"path": "mean.txt", "bytes": 3}}
when tool files.write fail refused "a person was asked to agree, and said no"
when model answer reply "All is done."
"#;
const CHAIN: &str = r#"
when model plan reply {"steps": [{"tool": "files.read", "arguments": {"path": "data.csv"}}, {"tool": "code.run_python", "arguments": {"code": "print(mean(text))", "inputs": {"text": "{{1}}"}}}, {"tool": "files.write", "arguments": {"path": "mean.txt", "content": "{{2}}", "mode": "create"}}]}
"#;
const QUESTION: &str = "Read data.csv, compute the mean of column 2 in Python, write it to mean.txt";

fn asked(home: &Home, question: &str, plan: &str) -> Value {
    let script = home.script(&format!("{TOOLS}{plan}"));
    home.well(&["ask", question, "--flow", "reason", "--json", "--script", &script]).lines().pop().unwrap()["output"].clone()
}

#[test]
fn r15_a_chain_of_file_code_and_file_is_carried_out() {
    let home = Home::new();
    let output = asked(&home, QUESTION, CHAIN);
    assert!(output["results"].as_array().unwrap().iter().all(|step| step["success"] == true), "{output:#}");
    assert_eq!(output["files"], json!([{ "path": "mean.txt", "bytes": 3 }]));
    let answer = output["answer"].as_str().unwrap();
    assert!(answer.contains("3.5 [1]") && answer.contains("mean.txt is written and holds 3 bytes [2]"), "{answer}");
}

#[test]
fn r15_what_was_refused_is_reported_as_not_done() {
    let plan =
        r#"when model plan reply {"steps": [{"tool": "files.write", "arguments": {"path": "hello.txt", "content": "Hello", "mode": "create"}}]}"#;
    let output = asked(&Home::new(), "Create a file hello.txt with the text Hello", plan);
    let answer = output["answer"].as_str().unwrap();
    assert!(answer.contains("Not done: files.write: refused: a person was asked to agree, and said no"), "{answer}");
    assert_eq!(output["files"], json!([]));
}

#[test]
fn r14_a_plan_that_cannot_be_used_is_made_again_with_its_error() {
    let broken = r#"when model plan reply {"steps": [{"tool": "files.delete", "arguments": {}}]} times 1"#;
    let output = asked(&Home::new(), QUESTION, &format!("{broken}\n{CHAIN}"));
    assert_eq!((output["files"].as_array().unwrap().len(), &output["degraded"]), (1, &json!([])), "{output:#}");
}

#[test]
fn r13_a_preference_for_depth_is_heeded() {
    let home = Home::new();
    let way = || asked(&home, "Why is the sky blue?", "when model plan reply {\"steps\": []}")["way"].clone();
    assert_eq!(way(), "direct");
    home.well(&["memory", "prefer", "depth", "deep"]);
    assert_eq!(way(), "agentic");
    home.baton(&["memory", "prefer", "depth", "bottomless"]).complains(2, &["quick or normal or deep"]);
}
