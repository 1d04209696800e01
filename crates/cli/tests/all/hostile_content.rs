//! Hostile documents, answers and batches against the real server: it keeps running within its memory limit, and reports what it left out.

#[path = "../../../../lab/hostile/documents.rs"]
mod documents;

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::serve::Served;
use crate::{Home, LOOKS_UP};

/// Far above what a server of these tests needs, and far below its peak before these bugs were fixed (2.5 to 8 GB).
const MEMORY_KIB_MAX: u64 = 1_200_000;
/// Time to index everything below, one file after the other, each with its own limit.
const INDEXED_WITHIN: Duration = Duration::from_secs(300);

impl Served {
    /// Its peak memory so far.
    fn memory_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    async fn must_be_well(&self) {
        assert_eq!(self.get("/healthz").await, (200, json!({ "ok": true })));
        let memory = self.memory_kib();
        assert!(memory < MEMORY_KIB_MAX, "{memory} KiB");
    }

    async fn states_of_documents(&self) -> Vec<(String, String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (_, list) = self.get("/api/documents").await;
        list["files"].as_array().unwrap().iter().map(|file| (text(&file["name"]), text(&file["state"]), text(&file["why"]))).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_document_is_left_out_and_the_server_goes_on_and_starts_again() {
    let home = Home::new();
    let all = documents::all();
    let mut served = home.serve("", &["--model", "extract"]);
    for (name, bytes) in &all {
        let request = served.request(Method::PUT, &format!("/api/documents/{name}")).header("content-type", "application/octet-stream");
        assert_eq!(request.body(bytes.clone()).send().await.unwrap().status().as_u16(), 201, "{name}");
    }
    for start in 0..2 {
        if start > 0 {
            served = home.serve("", &["--model", "extract"]);
        }
        let settled = async {
            loop {
                let states = served.states_of_documents().await;
                if states.len() == all.len() && states.iter().all(|(_, state, _)| state != "waiting") {
                    return states;
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        let states = tokio::time::timeout(INDEXED_WITHIN, settled).await.unwrap();
        let why = |name: &str| states.iter().find(|(file, ..)| file == name).map(|(_, _, why)| why.as_str()).unwrap_or_default();
        assert!(why("self-reference.pdf").contains("crashed the reader (stack overflow)"), "{states:?}");
        assert!(!why("double-deflate.pdf").is_empty(), "{states:?}");
        assert!(why("nested-forms.pdf").contains("took longer"), "{states:?}");
        served.must_be_well().await;
    }
}

/// Flows of the script answer with this text.
fn answering(text: &str) -> String {
    let reply = json!({ "reasoning": "", "response_content": text });
    let (before, after) = LOOKS_UP.split_once("when model synthesis").unwrap();
    format!("{before}when model synthesis reply {reply}\nwhen model synthesis{after}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_answer_is_rendered_within_bounds_while_others_are_served() {
    let table = |columns: usize, rows: usize| format!("|{}\n|{}\n{}", "a|".repeat(columns), "-|".repeat(columns), "|b\n".repeat(rows));
    for (name, text) in [
        (">", ">".repeat(400_000)),
        ("short sentences", "A b. ".repeat(150_000)),
        ("wide table", table(500, 10_000)),
        ("brackets", "[".repeat(400_000)),
    ] {
        let home = Home::new();
        let served = home.serve(&home.script(&answering(&text)), &[]);
        let (run, thread) = served.start(&json!({ "question": "What happens after a crash?", "flow": "search" })).await;
        served.wait(&run).await;
        let (status, shared) = served.post(&format!("/api/threads/{thread}/shares"), &json!({})).await;
        assert_eq!(status, 201, "{shared}");
        let rendered = async {
            let mut paths = ["answer", "answer.html", "answer.docx", "answer.pdf"].map(|what| format!("/api/runs/{run}/{what}")).to_vec();
            paths.extend(["md", "html", "docx", "pdf"].map(|ending| format!("/api/threads/{thread}/export/{ending}")));
            paths.push(shared["path"].as_str().unwrap().to_owned());
            let all = paths.into_iter().map(|path| {
                let request = served.request(Method::GET, &path);
                async move { request.send().await.unwrap().status().as_u16() }
            });
            futures::future::join_all(all).await
        };
        let beside = async {
            for _ in 0..20 {
                tokio::time::timeout(Duration::from_secs(20), served.must_be_well()).await.unwrap();
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let (statuses, ()) = tokio::join!(rendered, beside);
        assert_eq!((statuses[0], statuses[8]), (200, 200), "{name}: {statuses:?}");
        // A document that is too large to lay out is refused.
        assert!(statuses.iter().all(|status| [200, 422].contains(status)), "{name}: {statuses:?}");
        served.must_be_well().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_shares_its_configuration() {
    let home = Home::new();
    let served = home.serve(&home.script(LOOKS_UP), &[]);
    let inputs = vec![json!("a crash?"); 200];
    let config = json!({ "metadata": { "large": vec![1; 1_900_000] } });
    let (status, body) = served.post("/direct/batch", &json!({ "inputs": inputs, "config": config })).await;
    assert_eq!((status, body["output"].as_array().map(Vec::len)), (200, Some(200)), "{}", body["detail"]);
    served.must_be_well().await;
    let (status, body) = served.post("/direct/batch", &json!({ "inputs": vec![json!("x"); 1_001] })).await;
    assert_eq!((status, &body["detail"][0]["type"]), (422, &json!("too_long")), "{body}");
}
