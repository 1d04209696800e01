//! Flows with the embedded model and its real weights, over an unseen document. `BATON_WEIGHTS` names the weights; without them the test is
//! skipped with a message. `BATON_LONG` adds the slow ones.

// Test helpers.
#![allow(clippy::unwrap_used)]

use std::process::Command;

use serde_json::Value;

const DOCUMENT: &str = "# The lighthouse of Varnholm\n\n\
    The lighthouse of Varnholm was built in 1874 by the engineer Ida Lundgren. It is 41 metres high and its light reaches 27 kilometres.\n\n\
    # Keepers\n\n\
    The last keeper, Olaf Brandt, left the lighthouse in 1983, when the lamp became automatic. Since 1991 it has been a museum.\n";

#[test]
fn flows_answer_from_a_document_with_the_embedded_model() {
    let Some(weights) = std::env::var_os("BATON_WEIGHTS").map(std::path::PathBuf::from) else {
        eprintln!("skipped: BATON_WEIGHTS names no weights (`baton models pull` fetches some)");
        return;
    };
    let home = tempfile::tempdir().unwrap();
    let document = home.path().join("varnholm.md");
    std::fs::write(&document, DOCUMENT).unwrap();
    let config = home.path().join("baton.toml");
    std::fs::write(&config, format!("[embedded]\nfolder = {:?}\n", weights.parent().unwrap())).unwrap();
    let is_long = std::env::var_os("BATON_LONG").is_some();
    let flows: &[&str] = if is_long { &["auto", "direct", "search", "chat", "reason", "panel"] } else { &["auto", "search"] };
    for flow in flows {
        let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
        let question = "Who built the lighthouse of Varnholm, and when?";
        command.args(["ask", question, "--flow", flow, "--json", "--no-pull", "--model", "embedded", "--docs"]).arg(&document);
        command.env("BATON_DB", home.path().join("baton.db")).env("BATON_CONFIG", &config).env("XDG_CACHE_HOME", home.path().join("cache"));
        let output = command.env_remove("BATON_SCRIPT").output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{flow}: {out}\n{err}");
        let last: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
        let answer = last["output"]["answer"].as_str().unwrap_or_default();
        println!("{flow}: {answer}");
        assert!(answer.contains("Lundgren"), "{flow}: {last:#}");
        let sources = last["output"]["sources"].as_array().unwrap();
        assert!(!sources.is_empty() && sources.iter().all(|source| source["address"].as_str().unwrap().ends_with("varnholm.md")), "{flow}: {last:#}");
    }
}
