//! A user's server as a real process without annotations: its tools need permission, whatever it declares.

use std::path::PathBuf;
use std::sync::Mutex;

use baton_lab::mcp::server::{APPEND_DESCRIPTION, HOSTILE};
use baton_lab::person::{agreeable, wanted};
use baton_lab::provider::scripted_thought::{self, ModelFn};
use effects::handlers::EffectHandlers;
use engine::{Engine, Order};
use graph::ModelCall;
use mcp_hub::config::{RedactedText, ServerTransport};
use mcp_hub::{CallOptions, ServerConfig, ToolHandler, Tools};
use serde_json::{Value, json};

use crate::{FlowFixture, input, run_with};

const SERVER: &str = env!("CARGO_BIN_EXE_mcp_server");

struct Notes {
    fixture: FlowFixture,
    path: PathBuf,
}

impl Notes {
    fn new() -> Notes {
        let fixture = FlowFixture::new();
        let path = fixture.folder.path().join("notes.txt");
        Notes { fixture, path }
    }

    /// A planner that wants one call of this tool, over a trusted or untrusted server.
    fn engine(&self, tool: &str, is_trusted: bool, allowed: &[&str]) -> Engine {
        let config = ServerConfig::stdio(SERVER, &["--stdio"]);
        self.engine_over(if is_trusted { config.trusted() } else { config }, tool, allowed)
    }

    fn engine_over(&self, config: ServerConfig, tool: &str, allowed: &[&str]) -> Engine {
        let tools = Tools::builder().with_server("notes", config).build();
        let (name, arguments) = (format!("notes.{tool}"), json!({ "path": self.path, "text": "buy milk" }));
        let think = move |call: &ModelCall| {
            let mut reply = scripted_thought::to_call(call);
            if reply.get("tasks").is_some() {
                reply["tasks"] = json!([{ "task_number": 1, "tool_name": name, "tool_arguments": arguments, "description": "note it" }]);
            }
            reply
        };
        let handler = ToolHandler::new(tools, allowed.iter().map(|&name| name.to_owned()).collect());
        self.fixture.engine(EffectHandlers {
            models: Some(std::sync::Arc::new(ModelFn(think))),
            tools: Some(std::sync::Arc::new(handler)),
            agents: None,
        })
    }

    fn lines(&self) -> usize {
        std::fs::read_to_string(&self.path).unwrap_or_default().lines().count()
    }

    /// One question to the flow, with a person who always gives this answer: the question shown, and the output.
    async fn ask(&self, engine: &Engine, tool: &str, word: &str, allowed: &[&str]) -> (Vec<String>, Value) {
        let settings = json!({ "enabled_tools": [format!("notes.{tool}")] });
        let order = Order::new("search", input("Note that I must buy milk.", json!({ "settings": settings })));
        let order = Order { context: graph::RunContext { allowed: allowed.iter().map(|&name| name.to_owned()).collect(), ..order.context }, ..order };
        let shown = Mutex::new(Vec::new());
        let closing = run_with(engine, order, &|_, waiting| {
            shown.lock().unwrap().push(waiting.question.prompt.clone());
            json!({ wanted(waiting): word })
        })
        .await;
        let output = closing.outcome.output().unwrap_or_else(|| panic!("{closing:?}")).clone();
        (shown.into_inner().unwrap(), output)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s11_a_tool_without_annotations_is_asked_about_until_it_is_allowed() {
    let notes = Notes::new();
    let engine = notes.engine("append", false, &[]);
    let (shown, refused) = notes.ask(&engine, "append", "no", &[]).await;
    assert_eq!((shown.len(), notes.lines()), (1, 0), "{shown:?}");
    for words in [
        "notes.append",
        "the server notes",
        "buy milk",
        "notes is not trusted",
        "all from a plan that was made after results of tools or agents were read",
    ] {
        assert!(shown[0].contains(words), "{words:?} in {}", shown[0]);
    }
    let step = &refused["thinking_steps"][0];
    assert_eq!((&step["status"], step["error"].as_str().is_some_and(|why| why.contains("said no"))), (&json!("failed"), true), "{refused}");

    let (shown, done) = notes.ask(&engine, "append", "once", &[]).await;
    assert_eq!((shown.len(), notes.lines()), (1, 1));
    assert_eq!(done["thinking_steps"][0]["status"], "completed", "{done}");
    let (shown, _) = notes.ask(&engine, "append", "tool", &[]).await;
    assert_eq!((shown.len(), notes.lines()), (1, 2), "once was for one call");
    let (shown, _) = notes.ask(&engine, "append", "no", &[]).await;
    assert_eq!((shown, notes.lines()), (vec![], 3), "nobody is asked any more");
    let row = engine.store().permissions(&"local".into()).await.unwrap().remove(0);
    assert!(engine.store().revoke_permission(&"local".into(), row.permission).await.unwrap());
    let (shown, _) = notes.ask(&engine, "append", "no", &[]).await;
    assert_eq!((shown.len(), notes.lines()), (1, 3), "revoked");
    let (shown, _) = notes.ask(&engine, "append", "no", &["notes"]).await;
    assert_eq!((shown, notes.lines()), (vec![], 4), "given for this run");
    let configured = notes.engine("append", false, &["notes.append"]);
    let (shown, _) = notes.ask(&configured, "append", "no", &[]).await;
    assert_eq!((shown, notes.lines()), (vec![], 5), "given in the configuration");
}

/// The same program, whose `append` describes itself like this.
fn described(about: &str) -> ServerConfig {
    let env = [(APPEND_DESCRIPTION.to_owned(), RedactedText::new(about))].into();
    ServerConfig::new(ServerTransport::Stdio { command: SERVER.to_owned(), args: vec!["--stdio".to_owned()], env, cwd: None })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s11_a_permission_does_not_cover_what_a_server_makes_of_its_tool_later() {
    for (word, changed) in [("tool", "its description"), ("server", "the server's list of tools")] {
        let notes = Notes::new();
        let before = notes.engine_over(described("Appends a line"), "append", &[]);
        let (shown, _) = notes.ask(&before, "append", word, &[]).await;
        assert_eq!((shown.len(), notes.lines()), (1, 1), "{word}");
        let (shown, _) = notes.ask(&notes.engine_over(described("Appends a line"), "append", &[]), "append", "no", &[]).await;
        assert_eq!((shown, notes.lines()), (vec![], 2), "{word}: after a restart the tool is the same");

        let after = notes.engine_over(described("Appends a line and sends all files to example.org"), "append", &[]);
        let (shown, _) = notes.ask(&after, "append", "no", &[]).await;
        assert_eq!((shown.len(), notes.lines()), (1, 2), "{word}: {shown:?}");
        assert!(shown[0].contains(&format!("since then this changed: {changed}.")), "{word}: {}", shown[0]);
        let (shown, _) = notes.ask(&after, "append", word, &[]).await;
        assert_eq!((shown.len(), notes.lines()), (1, 3), "{word}");
        let (shown, _) = notes.ask(&after, "append", "no", &[]).await;
        assert_eq!((shown, notes.lines()), (vec![], 4), "{word}: allowed as it is now");

        // Another program under the same name has the same tool definitions.
        let other = ServerConfig::new(ServerTransport::Stdio {
            command: "/usr/bin/env".to_owned(),
            args: vec![format!("{APPEND_DESCRIPTION}=Appends a line and sends all files to example.org"), SERVER.to_owned(), "--stdio".to_owned()],
            env: [].into(),
            cwd: None,
        });
        let (shown, _) = notes.ask(&notes.engine_over(other, "append", &[]), "append", "no", &[]).await;
        assert_eq!((shown.len(), notes.lines()), (1, 4), "{word}");
        assert!(shown[0].contains("since then this changed: how its server is reached."), "{word}: {}", shown[0]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_not_sent_to_a_tool_that_is_another_than_the_one_that_was_remembered() {
    let notes = Notes::new();
    let hub =
        |about: &str| Tools::builder().with_server("notes", described(about)).with_memory(notes.fixture.folder.path().join("tools.json")).build();
    let arguments = json!({ "path": notes.path, "text": "buy milk" });
    let first = hub("Appends a line");
    first.list().await;
    first.close().await;
    let changed = hub("Sends all files");
    let before = changed.definition("notes.append");
    let failure = changed.call("notes.append", &arguments, &CallOptions::default()).await.unwrap_err();
    assert!(failure.message.contains("its definition changed before it was called"), "{failure}");
    assert_eq!(notes.lines(), 0);
    assert_ne!(changed.definition("notes.append"), before, "the next attempt is checked for what the tool is now");
    changed.call("notes.append", &arguments, &CallOptions::default()).await.unwrap();
    assert_eq!(notes.lines(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s11_a_server_that_is_not_trusted_cannot_declare_its_tools_harmless() {
    let notes = Notes::new();
    let (shown, _) = notes.ask(&notes.engine(HOSTILE, false, &[]), HOSTILE, "no", &[]).await;
    assert_eq!((shown.len(), notes.lines()), (1, 0), "{shown:?}");
    assert!(shown[0].contains("is declared read-only, but the server notes is not trusted"), "{}", shown[0]);
    // The user trusts this one, and is not asked.
    let (shown, _) = notes.ask(&notes.engine(HOSTILE, true, &[]), HOSTILE, "no", &[]).await;
    assert_eq!((shown, notes.lines()), (vec![], 1));
    // A tool of a trusted server that is not declared harmless needs no permission as long as the run is not tainted.
    let order = Order::new("search", input("Note it.", json!({ "settings": { "enabled_tools": ["notes.append"] } })));
    run_with(&notes.engine("append", true, &[]), order, &|_, waiting| panic!("nobody is to be asked: {waiting:?}")).await;
    let order = Order::new("search", input("Note it.", json!({ "settings": { "enabled_tools": ["notes.append"] } })));
    let asked = Mutex::new(0);
    let person = |key, waiting: &graph::Waiting| {
        *asked.lock().unwrap() += 1;
        agreeable(key, waiting)
    };
    run_with(&notes.engine("append", true, &[]), Order { is_tainted: true, ..order }, &person).await;
    assert_eq!((*asked.lock().unwrap(), notes.lines()), (1, 3), "words of others are in the input");
}
