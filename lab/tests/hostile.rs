//! The servers of `lab/hostile` against the hub: each stays within its bounds, and a server that is well beside them goes on.
#![allow(clippy::unwrap_used, reason = "helpers of a test are as free as the test")]

#[path = "../hostile/servers.rs"]
mod servers;

use std::time::Duration;

use evidence::Trust;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use mcp_hub::{CallOptions, Pace, Tools};
use serde_json::{Value, json};
use servers::Answer;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};

const PATIENCE: Duration = Duration::from_secs(60);
/// What may be kept of one server's definitions.
const DEFINITIONS_BYTES_MAX: usize = 10 << 20;
const TOOLS_MAX: usize = 2_000;
/// Of this whole process, with all of them one after the other.
const MEMORY_KB_MAX: u64 = 700_000;

fn serve(pipe: DuplexStream, answer: fn(&Value) -> Option<Answer>) -> BoxFuture<'static, ()> {
    async move {
        let (read, mut write) = tokio::io::split(pipe);
        let mut lines = BufReader::new(read).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let Ok(request) = serde_json::from_str::<Value>(&line) else { continue };
            let bytes = match answer(&request) {
                None => servers::well(&request).map(|line| format!("{line}\n").into_bytes()).unwrap_or_default(),
                Some(Answer::Lines(lines)) => lines.iter().map(|line| format!("{line}\n")).collect::<String>().into_bytes(),
                Some(Answer::Bytes(bytes)) => bytes,
                Some(Answer::Silence) => Vec::new(),
            };
            // The host may have hung up, which is its right.
            if write.write_all(&bytes).await.is_err() {
                return;
            }
        }
    }
    .boxed()
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_servers_stay_within_their_bounds() {
    let pace = Pace { backoff_first: Duration::from_millis(50), backoff_max: Duration::from_millis(400), ..Pace::default() };
    for hostile in servers::ALL {
        let answer = hostile.answer;
        let tools = Tools::builder()
            .with_local("hostile", Trust::Untrusted, move |pipe| serve(pipe, answer))
            .with_local("fine", Trust::Untrusted, |pipe| serve(pipe, |_| None))
            .with_pace(pace.clone())
            .build();
        let listed = tokio::time::timeout(PATIENCE, tools.list()).await.unwrap_or_else(|_| panic!("{}: its list takes for ever", hostile.name));
        let own: Vec<_> = listed.iter().filter(|tool| tool.server == "hostile").collect();
        let bytes: usize = own.iter().map(|tool| tool.description.len() + tool.schema.to_string().len()).sum();
        assert!(own.len() <= TOOLS_MAX && bytes <= DEFINITIONS_BYTES_MAX, "{}: {} tools of {bytes} bytes", hostile.name, own.len());
        let call = async |name: &str| {
            tools
                .call(
                    name,
                    &json!({ "a": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!" }),
                    &CallOptions { deadline: Duration::from_secs(5), ..CallOptions::default() },
                )
                .await
        };
        let ended = tokio::time::timeout(PATIENCE, call("hostile.say")).await.unwrap_or_else(|_| panic!("{}: a call takes for ever", hostile.name));
        if let Ok(found) = &ended {
            assert!(found.text.len() <= mcp_hub::RESULT_BYTES_MAX, "{}: {} bytes", hostile.name, found.text.len());
        }
        let fine = tokio::time::timeout(PATIENCE, call("fine.say")).await.unwrap_or_else(|_| panic!("{}: the other server hangs", hostile.name));
        assert_eq!(fine.unwrap().text, "still here", "{}", hostile.name);
        tools.close().await;
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak: u64 = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap().trim().trim_end_matches(" kB").trim().parse().unwrap();
    assert!(peak < MEMORY_KB_MAX, "{peak} kB");
}
