//! The real flows in a real process that is killed with SIGKILL at random moments and restarted, with a counting model server, a mailbox
//! and a file. `BATON_KILLS` sets the number; `./check --long` kills it a thousand times.
//!
//! Guarantees, per call:
//!
//! - Every run that was started ends, with its answer, and its journal replays to the same events.
//! - Every mail is in the mailbox once, every line in the file once.
//! - A model call whose reply is in the journal is never repeated. Only a call in flight at a kill may be repeated, at most once per kill,
//!   because within one life nothing is requested twice.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::Json;
use axum::http::HeaderMap;
use axum::routing::post;
use baton_lab::kill::hunt::{Hunt, KnownState, block_on, open_store, setting};
use baton_lab::kill::real::{VictimArguments, due, flow_of, mailbox_of, outside};
use baton_lab::kill::traces::{Trace, read_log};
use baton_lab::kill::{run_of, thread_of};
use baton_lab::provider::dialect::{Dialect, ScriptedAnswer};
use baton_lab::provider::mailbox::Mailbox;
use baton_lab::provider::{scripted_thought, web};
use baton_lab::sim::dice::hash;
use engine::result_of;
use graph::{Key, Outcome};
use serde_json::Value;
use store::{RunFilter, Store};

/// Takes about half a minute.
const KILLS: u64 = 80;

#[test]
fn x3_kills_of_real_flows_lose_nothing_send_nothing_twice_and_pay_for_no_answer_again() {
    let (seed, kills) = (setting("BATON_KILL_SEED", 20_261_115), setting("BATON_KILLS", KILLS));
    println!("BATON_KILL_SEED={seed} BATON_KILLS={kills}");
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_owned();
    let counted = CountingServer::default();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (model, encyclopedia, mailbox) =
        runtime.block_on(async { (counted.serve().await, web::serve(web::ARTICLE).await, Mailbox::serve(&mailbox_of(&place)).await) });
    let spawn = |life: u64, numbers: Range<u64>| {
        let (first, target) = (numbers.start, numbers.end);
        let sent =
            VictimArguments { folder: place.clone(), life, first, target, model: model.clone(), web: encyclopedia.clone(), smtp_port: mailbox.port };
        let mut victim = Command::new(env!("CARGO_BIN_EXE_flow_victim"));
        victim.arg(serde_json::to_string(&sent).unwrap()).stdin(Stdio::null()).spawn().unwrap()
    };
    let settle = || runtime.block_on(mailbox.settle());
    let hunt = Hunt { folder: place.clone(), kills, seed, ahead: 60, life_ms: 20..400, spawn: &spawn, settle: &settle };
    let known = hunt.run();
    let paid = verify_calls(&known, &counted.asked.lock().unwrap());
    let outside = verify_outside(&known, &place);
    verify_runs(&known, &place);
    println!("{kills} kills, {} runs; {paid}; {outside}", known.target());
}

/// The model server: it records each request with its life.
#[derive(Clone, Default)]
struct CountingServer {
    asked: Arc<Mutex<Vec<RecordedRequest>>>,
}

struct RecordedRequest {
    life: u64,
    key: Key,
    /// The reply was sent; only the journal knows whether it arrived.
    is_answered: bool,
}

impl CountingServer {
    async fn serve(&self) -> String {
        let asked = self.asked.clone();
        let answer = move |headers: HeaderMap, Json(body): Json<Value>| {
            let asked = asked.clone();
            async move {
                let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
                let life = header("authorization").trim_start_matches("Bearer life-").parse().expect("it names its process");
                let key: Key = header("idempotency-key").parse().expect("every call has its key");
                let at = {
                    let mut asked = asked.lock().unwrap();
                    asked.push(RecordedRequest { life, key, is_answered: false });
                    asked.len() - 1
                };
                tokio::time::sleep(Duration::from_millis(hash(key.to_string().as_bytes()) % 8)).await;
                let reply = scripted_thought::to_request(&body);
                asked.lock().unwrap()[at].is_answered = true;
                Json(Dialect::OpenaiChat.body(&ScriptedAnswer::Text(&reply)))
            }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let app = Router::new().route("/v1/chat/completions", post(answer));
        tokio::spawn(async move { axum::serve(listener, app).await });
        url
    }
}

fn verify_calls(known: &KnownState, asked: &[RecordedRequest]) -> String {
    let mut processes: HashMap<Key, Vec<&RecordedRequest>> = HashMap::new();
    for one in asked {
        let earlier = processes.entry(one.key).or_default();
        assert!(earlier.iter().all(|other| other.life != one.life), "life {} asked {} twice", one.life, one.key);
        let journalled = known.answered.get(&one.key).into_iter().flat_map(BTreeMap::values).find(|answer| answer.is_ok && answer.life < one.life);
        assert!(journalled.is_none(), "life {} paid for {} again, whose answer was journalled: {journalled:?}", one.life, one.key);
        earlier.push(one);
    }
    for (key, processes) in &processes {
        let is_kept = known.answered.get(key).is_some_and(|answers| answers.values().any(|answer| answer.is_ok));
        assert!(is_kept, "the answer to {key}, asked {} times, is in no journal", processes.len());
    }
    let repeated: usize = processes.values().map(|processes| processes.len() - 1).sum();
    let paid_twice: usize = processes.values().map(|processes| processes.iter().filter(|one| one.is_answered).count().saturating_sub(1)).sum();
    let cut: HashSet<u64> = processes.values().flat_map(|processes| processes[..processes.len() - 1].iter().map(|one| one.life)).collect();
    format!(
        "{} model calls, {repeated} asked again because a kill fell into them ({paid_twice} after the server had answered), in {} of the processes",
        processes.len(),
        cut.len()
    )
}

fn verify_outside(known: &KnownState, folder: &Path) -> String {
    for number in 0..known.target() {
        assert_eq!(outside(folder, number), due(number), "run {number}, {}", flow_of(number));
    }
    let (mut done, mut again) = (0, 0);
    for (_, trace) in read_log(folder) {
        match trace {
            Trace::Started { number } => assert!(known.roots.contains(&number), "run {number} was started and is lost"),
            Trace::Verdict { happened: true, .. } => done += 1,
            Trace::Verdict { happened: false, .. } => again += 1,
            Trace::Begin { .. } | Trace::End { .. } => {}
        }
    }
    let total = |count: fn(u64) -> usize| (0..known.target()).map(count).sum::<usize>();
    let (mails, lines) = (total(|number| due(number).mails), total(|number| due(number).lines));
    format!("{mails} mails and {lines} lines, each once; {done} confirmed, {again} done again at a person's word")
}

fn verify_runs(known: &KnownState, folder: &Path) {
    let store = open_store(folder);
    let graphs = flows::all().unwrap().into_iter().map(|graph| (graph.name().to_owned(), graph)).collect();
    block_on(async {
        for number in 0..known.target() {
            let (run, thread, flow) = (run_of(number), thread_of(number), flow_of(number));
            let row = store.run(&run).await.unwrap().unwrap_or_else(|| panic!("run {number} is lost"));
            let Outcome::Done { output } = result_of(&row).unwrap().outcome else { panic!("{flow} {number}: {row:?}") };
            let answer = output["answer"].as_str().unwrap();
            assert!(answer.contains(&format!("Errand {number} is done")), "{flow} {number}: {output}");
            let messages: Vec<(String, String)> =
                store.messages(&thread, 0, 100).await.unwrap().into_iter().map(|message| (message.role, message.content)).collect();
            assert_eq!(messages.iter().map(|(role, _)| role.as_str()).collect::<Vec<_>>(), ["user", "assistant"], "{flow} {number}");
            assert_eq!(messages[1].1, answer, "{flow} {number}");
            for row in store.runs(RunFilter { thread: Some(thread.clone()), ..RunFilter::default() }).await.unwrap() {
                assert!(row.status.is_over(), "{flow} {number}: {row:?}");
                assert_eq!(engine::replay(&store, &graphs, &row.run).await.unwrap().difference, None, "{flow} {number}");
            }
        }
    });
}
