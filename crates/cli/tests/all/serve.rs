//! End-to-end tests of the server process over HTTP.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use futures::StreamExt as _;
use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};

use crate::{Home, LOOKS_UP};

/// Longer than anything here takes, even on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Served {
    process: Child,
    pub(crate) url: String,
    pub(crate) client: Client,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Home {
    /// Without a script, real models and tools.
    pub(crate) fn serve(&self, script: &str, args: &[&str]) -> Served {
        let mut command: Command = self.command(&["serve", "--port", "0", "--json"]);
        command.args(args).env("XDG_CONFIG_HOME", self.db().with_file_name("config")).stderr(Stdio::null());
        match script {
            "" => command.env_remove("BATON_SCRIPT"),
            script => command.env("BATON_SCRIPT", script),
        };
        self.started(&mut command)
    }

    pub(crate) fn started(&self, command: &mut Command) -> Served {
        let mut process = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let announced: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        // A rejected body closes its connection, so each request has its own.
        let client = Client::builder().no_proxy().pool_max_idle_per_host(0).build().unwrap();
        Served { process, url: announced["url"].as_str().unwrap().to_owned(), client }
    }
}

impl Served {
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Its exit code, once it has exited.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        self.process.wait().unwrap().code()
    }

    /// `SIGKILL`, like a power failure.
    pub(crate) fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.url)).timeout(PATIENCE)
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        send(self.request(Method::GET, path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        send(self.request(Method::POST, path).json(body)).await
    }

    /// Starts a run and returns its id and its thread's.
    pub(crate) async fn start(&self, body: &Value) -> (String, String) {
        let (status, started) = self.post("/api/runs", body).await;
        assert_eq!(status, 201, "{started}");
        (text(&started["run"]), text(&started["thread"]))
    }

    /// The events after a cursor, until the last wanted one or the end of the stream.
    pub(crate) async fn events(&self, run: &str, after: Option<&str>, is_last: impl Fn(&Event) -> bool) -> Vec<Event> {
        let mut request = self.request(Method::GET, &format!("/api/runs/{run}/events"));
        if let Some(after) = after {
            request = request.header("last-event-id", after);
        }
        listen(request, is_last).await
    }

    pub(crate) async fn wait(&self, run: &str) -> Value {
        self.events(run, None, |event| event.event == "end").await;
        self.get(&format!("/api/runs/{run}")).await.1
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) id: Option<String>,
    pub(crate) event: String,
    pub(crate) data: Value,
}

pub(crate) async fn send(request: RequestBuilder) -> (u16, Value) {
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    let bytes = response.bytes().await.unwrap();
    (status, serde_json::from_slice(&bytes).unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned())))
}

async fn listen(request: RequestBuilder, is_last: impl Fn(&Event) -> bool) -> Vec<Event> {
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), 200);
    let (mut stream, mut rest, mut all) = (response.bytes_stream(), String::new(), Vec::new());
    // Killing the server cuts the stream; the events until then count.
    while let Some(Ok(bytes)) = stream.next().await {
        rest.push_str(std::str::from_utf8(&bytes).unwrap());
        while let Some((frame, left)) = rest.split_once("\n\n") {
            let field = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
            if let (Some(event), Some(data)) = (field("event: "), field("data: ")) {
                let event = Event { id: field("id: "), event, data: serde_json::from_str(&data).unwrap() };
                let is_last = is_last(&event);
                all.push(event);
                if is_last {
                    return all;
                }
            }
            rest = left.to_owned();
        }
    }
    all
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

/// The events as `run seq event`.
pub(crate) fn event_lines(events: &[Event]) -> Vec<String> {
    let published = events.iter().filter(|event| event.event == "told");
    published
        .map(|event| format!("{} {} {}", event.data["run"].as_str().unwrap(), event.data["seq"], event.data["event"].as_str().unwrap()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn x3_a_question_is_asked_followed_and_read_with_what_it_stands_on() {
    let home = Home::new();
    let served = home.serve(&home.script(LOOKS_UP), &[]);
    let (status, about) = served.get("/api/status").await;
    assert_eq!((status, about["first_run"].as_bool(), about["user"].as_str()), (200, Some(true), Some("local")), "{about}");
    let (run, thread) = served.start(&json!({ "question": "What happens after a crash?", "flow": "search" })).await;
    let events = served.events(&run, None, |_| false).await;
    let end = events.last().unwrap();
    assert_eq!((end.event.as_str(), &end.data), ("end", &json!({ "run": run, "status": "done" })));
    assert!(events.iter().filter(|event| event.event == "told").all(|event| event.data["at_ms"].as_i64().is_some_and(|at| at > 0)));

    let (_, answer) = served.get(&format!("/api/runs/{run}/answer")).await;
    let statuses: Vec<&str> = answer["sentences"].as_array().unwrap().iter().map(|one| one["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["supported", "unsupported"], "{answer}");
    assert_eq!(answer["spans"][0]["text"], "After a crash the log is replayed from the last checkpoint.");
    assert_eq!((answer["spans"][0]["n"].as_u64(), answer["sources"][0]["address"].as_str()), (Some(1), Some("https://example.org/wal")));
    let markdown: Vec<u16> = answer["markdown"].as_str().unwrap().encode_utf16().collect();
    let range = |at: usize| answer["sentences"][0]["range"][at].as_u64().unwrap() as usize;
    assert!(String::from_utf16(&markdown[range(0)..range(1)]).unwrap().starts_with("After a crash"), "{answer}");
    let (status, place) = served.get(&format!("/api/runs/{run}/spans/1")).await;
    assert_eq!((status, &place["document"]), (200, &Value::Null));
    assert_eq!(served.get(&format!("/api/runs/{run}/spans/9")).await.0, 404);

    for (ending, beginning) in [("md", &b"# What"[..]), ("html", b"<!DOCTYPE html"), ("docx", b"PK"), ("pdf", b"%PDF-")] {
        let response = served.request(Method::GET, &format!("/api/runs/{run}/answer.{ending}")).send().await.unwrap();
        assert_eq!(response.status(), 200, "{ending}");
        assert!(response.headers()["content-disposition"].to_str().unwrap().starts_with("attachment; filename=\"What-happens-after-a-crash."));
        let bytes = response.bytes().await.unwrap();
        assert!(bytes.to_ascii_lowercase().starts_with(&beginning.to_ascii_lowercase()), "{ending}: {:?}", &bytes[..bytes.len().min(40)]);
    }

    let (_, list) = served.get("/api/threads?q=CRASH+replayed").await;
    let card = &list["threads"][0];
    assert_eq!((card["thread"].as_str(), card["flow"].as_str(), card["status"].as_str()), (Some(thread.as_str()), Some("search"), Some("done")));
    assert!(card["preview"].as_str().unwrap().starts_with("After a crash"), "{card}");
    assert_eq!(served.get("/api/threads?q=nowhere").await.1["threads"], json!([]));
    let (_, conversation) = served.get(&format!("/api/threads/{thread}")).await;
    assert_eq!((conversation["messages"].as_array().unwrap().len(), conversation["runs"][0]["run"].as_str()), (2, Some(run.as_str())));
    assert_eq!(served.request(Method::DELETE, &format!("/api/threads/{thread}")).send().await.unwrap().status(), 204);
    assert_eq!(served.get(&format!("/api/runs/{run}")).await.0, 404);
}

/// A router with its chosen flow is one stream, and a server that is killed in the middle loses nothing.
#[tokio::test(flavor = "multi_thread")]
async fn x3_a_stream_goes_on_behind_its_cursor_after_the_server_was_killed() {
    let home = Home::new();
    let slow = LOOKS_UP
        .replace("the last checkpoint [1].\"\n", "the last checkpoint [1].\" after 1500ms\n")
        .replace("when tool registry", "when model route reply {\"flow\": \"reason\"}\nwhen tool registry");
    let script = home.script(&slow);
    let mut served = home.serve(&script, &[]);
    let (run, _) = served.start(&json!({ "question": "Think step by step: what happens after a crash?", "flow": "reason" })).await;
    let is_answering = |event: &Event| event.data["event"] == "asked" && event.data["effect"]["call_model"]["purpose"] == "answer";
    let before = served.events(&run, None, is_answering).await;
    let cursor = before.last().unwrap().id.clone().unwrap();
    served.kill();

    let served = home.serve(&script, &[]);
    let after = served.events(&run, Some(&cursor), |event| event.event == "end").await;
    assert_eq!(after.last().unwrap().data["status"], "done", "{after:#?}");
    let (mut received, again) = (event_lines(&before), event_lines(&served.events(&run, None, |event| event.event == "end").await));
    received.extend(event_lines(&after));
    let sorted = |mut all: Vec<String>| {
        all.sort();
        all
    };
    assert_eq!(sorted(received), sorted(again), "each event once, none missing");
    let (status, error) = send(served.request(Method::GET, &format!("/api/runs/{run}/events?after=%3Cscript%3E"))).await;
    assert_eq!(status, 422, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn x3_a_question_that_is_asked_twice_with_one_key_is_one_run() {
    let home = Home::new();
    let served = home.serve(&home.script(LOOKS_UP), &[]);
    let body = json!({ "question": "What happens after a crash?", "flow": "search" });
    let post = || send(served.request(Method::POST, "/api/runs").header("idempotency-key", "k-1").json(&body));
    let all = futures::future::join_all((0..8).map(|_| post())).await;
    let first = &all[0].1["run"];
    assert!(all.iter().all(|(status, started)| matches!(status, 200 | 201) && started["run"] == *first), "{all:?}");
    let (status, waited) = send(served.request(Method::POST, "/api/runs?wait=1").header("idempotency-key", "k-1").json(&body)).await;
    assert_eq!((status, waited["status"].as_str(), &waited["run"]), (200, Some("done"), first));
    assert_eq!(served.get("/api/runs").await.1["runs"].as_array().unwrap().len(), 1);
    let (status, other) = send(served.request(Method::POST, "/api/runs?wait=1").header("idempotency-key", "k-2").json(&body)).await;
    assert_eq!((status, other["run"] == *first), (201, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn x3_over_http_a_changed_plan_runs_and_runs_are_cancelled_and_forked() {
    let home = Home::new();
    let served = home.serve(&home.script(LOOKS_UP), &[]);
    let body = json!({ "question": "What happens after a crash?", "flow": "search", "approve": true });
    let (run, _) = served.start(&body).await;
    let asking = served.wait(&run).await;
    assert_eq!(asking["status"], "asking", "{asking}");
    let waiting = &asking["waiting"][0];
    assert_eq!((waiting["kind"].as_str(), waiting["plan"]["tasks"][0]["tool_name"].as_str()), (Some("plan"), Some("docs.search")), "{asking}");
    let answer = |value: Value| json!({ "task": waiting["task"], "attempt": waiting["attempt"], "value": value });
    let mut plan = waiting["plan"].clone();
    plan["tasks"][0]["tool_arguments"] = json!({ "query": "recovery" });
    let value = json!({ "approve": true, "tasks": plan["tasks"], "plan_hash": waiting["schema"]["properties"]["plan_hash"]["default"] });
    let path = format!("/api/runs/{}/answer", text(&waiting["run"]));
    let (status, wrong) = served.post(&path, &json!({ "task": [99, 0], "attempt": 1, "value": 1 })).await;
    assert_eq!(status, 409, "{wrong}");
    let events = tokio::spawn(listen(served.request(Method::GET, &format!("/api/runs/{run}/events")), |event| event.data["status"] == "done"));
    assert_eq!(served.post(&path, &answer(value)).await, (202, json!({ "delivery": "taken" })));
    let events = tokio::time::timeout(PATIENCE, events).await.unwrap().unwrap();
    let ends: Vec<&Value> = events.iter().filter(|event| event.event == "end").map(|event| &event.data["status"]).collect();
    assert_eq!(ends.last(), Some(&&json!("done")), "{ends:?}");
    let (_, answer) = served.get(&format!("/api/runs/{run}/answer")).await;
    assert!(answer["markdown"].as_str().unwrap().starts_with("Replayed from the log"), "what was changed is what ran: {answer}");

    let (status, over) = served.post(&format!("/api/runs/{run}/cancel"), &json!({})).await;
    assert_eq!(status, 409, "{over}");
    let (status, branch) = served.post(&format!("/api/runs/{run}/fork"), &json!({ "at_step": 1 })).await;
    assert_eq!(status, 201, "{branch}");
    assert_eq!(served.post(&format!("/api/runs/{run}/fork"), &json!({ "at_step": 77 })).await.0, 422);
    let (other, _) = served.start(&body).await;
    served.wait(&other).await;
    assert_eq!(served.post(&format!("/api/runs/{other}/cancel"), &json!({ "reason": "enough" })).await.0, 202);
    let ended = served.wait(&other).await;
    assert_eq!((ended["status"].as_str(), ended["outcome"]["reason"].as_str()), (Some("cancelled"), Some("enough")));
    assert_eq!(served.get(&format!("/api/runs/{other}/answer")).await.0, 409);
}

#[tokio::test(flavor = "multi_thread")]
async fn x3_the_thread_feed_reports_threads_of_all_processes_and_deletions() {
    let home = Home::new();
    let served = home.serve(&home.script(LOOKS_UP), &[]);
    let feed = tokio::spawn(listen(served.request(Method::GET, "/api/feed"), |event| event.event == "gone"));
    tokio::time::sleep(Duration::from_millis(300)).await;
    let (run, thread) = served.start(&json!({ "question": "What happens after a crash?", "flow": "search" })).await;
    served.wait(&run).await;
    // Another process on the same database.
    home.well(&["ask", "What is a relay baton?", "--json", "--thread", "elsewhere"]);
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(served.request(Method::DELETE, &format!("/api/threads/{thread}")).send().await.unwrap().status(), 204);
    let received = tokio::time::timeout(PATIENCE, feed).await.unwrap().unwrap();
    let of = |name: &str| received.iter().filter(|event| event.event == "thread" && event.data["thread"] == name).count();
    assert!(of(&thread) > 0 && of("elsewhere") > 0, "{received:#?}");
    assert_eq!(received.last().unwrap().data, json!({ "thread": thread }));
}

#[tokio::test(flavor = "multi_thread")]
async fn c1_a_query_is_answered_by_intent_with_what_ran() {
    let home = Home::new();
    let script = format!(
        "{LOOKS_UP}\nwhen model intent reply {{\"intent\": \"search\"}}\nwhen tool search.search reply {{\"text\": \"A relay baton is handed on.\", \"data\": {{\"confidence\": 0.9}}, \"spans\": [{{\"text\": \"A relay baton is handed on.\", \"source\": \"search.search\", \"address\": \"https://example.org/baton\"}}]}}\n"
    );
    let served = home.serve(&home.script(&script), &[]);
    let (status, first) = served.post("/api/query", &json!({ "query": "What is a relay baton?" })).await;
    assert_eq!(status, 200, "{first}");
    assert_eq!((first["intent"].as_str(), &first["executed_stages"]), (Some("search"), &json!(["search"])), "{first}");
    assert!(first["results"]["search_results"].is_string() && first["results"].get("summary").is_none(), "{first}");
    assert_eq!(first["messages"].as_array().unwrap().len(), 2);
    let (_, again) = served.post("/api/query", &json!({ "query": "What did I ask?", "thread": first["thread"] })).await;
    assert_eq!(again["thread"], first["thread"], "{again}");
    assert_eq!(served.post("/api/query", &json!({ "query": "  " })).await.0, 422);
}

const SEARCHES: &str = r#"
when model intent reply {"intent": "search"}
when model plan reply {"stages": ["search"]}
when tool search.search reply {"text": "A relay baton is handed on.", "data": {"confidence": 0.9}, "spans": []} after 30ms
when model answer reply "A relay baton is handed on."
"#;

#[tokio::test(flavor = "multi_thread")]
async fn c10_a_client_that_names_no_thread_goes_on_with_its_own_conversation() {
    let home = Home::new();
    let script = home.script(SEARCHES);
    let mut served = home.serve(&script, &[]);
    let ask = async |served: &Served, thread: Option<&str>, client: Option<&str>| {
        let mut body = json!({ "query": "What is a relay baton?" });
        if let Some(thread) = thread {
            body["thread"] = json!(thread);
        }
        let mut request = served.request(Method::POST, "/api/query").json(&body);
        if let Some(client) = client {
            request = request.header("x-client-id", client);
        }
        let (status, answer) = send(request).await;
        assert_eq!(status, 200, "{answer}");
        (text(&answer["thread"]), answer["messages"].as_array().unwrap().len())
    };
    // Two concurrent first queries are both answered, in one conversation.
    let (one, two) = tokio::join!(ask(&served, None, None), ask(&served, None, None));
    let (first, _) = one;
    assert_eq!(two.0, first);
    assert_eq!(ask(&served, None, None).await, (first.clone(), 5), "the earlier messages are in it");
    // A new conversation, which is continued from then on.
    let (second, messages) = ask(&served, Some("new"), None).await;
    assert!(second != first && messages == 2, "{second}");
    assert_eq!(ask(&served, None, None).await, (second.clone(), 4));
    assert_eq!(ask(&served, Some(&first), None).await.0, first, "a named one is taken by its name");
    assert_eq!(ask(&served, None, None).await.0, second);
    // Clients with an id have their own.
    let (of_phone, messages) = ask(&served, None, Some("phone")).await;
    assert!(of_phone != second && messages == 2, "{of_phone}");
    assert_eq!(ask(&served, None, Some("phone")).await, (of_phone.clone(), 4));
    let long = "x".repeat(201);
    let wrong = send(served.request(Method::POST, "/api/query").json(&json!({ "query": "x" })).header("x-client-id", long)).await;
    assert_eq!(wrong.0, 422, "{}", wrong.1);
    // It is stored and not kept in the process.
    served.kill();
    let served = home.serve(&script, &[]);
    assert_eq!((ask(&served, None, None).await.0, ask(&served, None, Some("phone")).await.0), (second.clone(), of_phone));
    // A deleted one is not continued.
    assert_eq!(served.request(Method::DELETE, &format!("/api/threads/{second}")).send().await.unwrap().status(), 204);
    assert_eq!(ask(&served, None, None).await.0, first);
}

#[tokio::test(flavor = "multi_thread")]
async fn c5_a_conversation_answer_is_not_summarized_over_the_api() {
    let home = Home::new();
    let script = r#"
when model intent text~Summarize reply {"intent": "summarize"}
when model intent text~"did I ask" reply {"intent": "conversation_query"}
when model intent reply {"intent": "search"}
when model plan text~Summarize reply {"stages": ["summarize"]}
when model plan reply {"stages": ["search"]}
when tool search.search reply {"text": "A relay baton is handed on.", "data": {"confidence": 0.9}, "spans": []}
when model answer text~"did I ask" reply "You asked about batons."
when model answer reply "A relay baton is handed on."
when tool summary.summarize texts~"You asked" reply {"text": "wrong", "data": {"summary": "wrong", "confidence": 0.1}, "spans": []}
when tool summary.summarize reply {"text": "It is handed on.", "data": {"summary": "It is handed on.", "confidence": 0.6}, "spans": []}
"#;
    let served = home.serve(&home.script(script), &[]);
    let ask = async |query: &str| served.post("/api/query", &json!({ "query": query })).await.1;
    assert_eq!(ask("What is a relay baton?").await["executed_stages"], json!(["search"]));
    assert_eq!(ask("What did I ask?").await["results"]["conversation_response"], "You asked about batons.");
    let summary = ask("Summarize").await;
    assert_eq!((&summary["executed_stages"], &summary["results"]["summary"]), (&json!(["summarize"]), &json!("It is handed on.")), "{summary}");
}
