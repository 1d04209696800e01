//! Without a sandbox, the server is not offered, and a worker that is started anyway runs nothing.

use std::process::Command;

use baton_tools::code::{Code, Outcome, RunArguments, Settings, WORKER_COMMAND, sandbox};

pub(crate) fn run() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == WORKER_COMMAND) {
        baton_tools::code::worker_main(&words[1..]);
    }
    let reason = sandbox::unsupported().unwrap();
    let (ready, unready) = baton_tools::all(&baton_tools::Settings::bare());
    assert!(ready.iter().all(|server| server.name != "code"));
    let code = unready.iter().find(|server| server.name == "code").unwrap();
    assert_eq!(code.to_string(), format!("the server `code` is not ready: {reason}"));

    let worker = Command::new(std::env::current_exe().unwrap()).arg(WORKER_COMMAND).arg("{}").output().unwrap();
    assert_eq!((worker.status.code(), worker.stdout.is_empty()), (Some(70), true));
    assert!(String::from_utf8_lossy(&worker.stderr).contains(reason));

    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let asked = RunArguments { code: "1 + 1".into(), inputs: serde_json::Map::new() };
    let ran = runtime.block_on(Code::new(Settings::default(), None).run(asked)).unwrap();
    assert!(ran.outcome == Outcome::Crashed && ran.result.is_null() && ran.error.unwrap().contains(reason));
    println!("nothing runs without a sandbox");
}
