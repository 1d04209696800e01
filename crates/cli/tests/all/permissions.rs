//! Tools that may change something: asked about, answered, allowed permanently, revoked, and allowed in advance.

use std::io::Write as _;
use std::net::TcpListener;

use reqwest::Method;
use serde_json::{Value, json};

use crate::chat::at_terminal;
use crate::models::{bare, read_body};
use crate::serve_hostile::token;
use crate::{CommandOutput, Home};

/// A script with a tool that needs approval, and a model that reports its result.
pub(crate) const TICKETS: &str = r#"
when tool registry.tools reply {"text": "", "data": {"tools": [{"name": "tickets.close", "server": "tickets", "description": "Closes a ticket", "schema": {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}}]}, "spans": []}
when model plan reply {"reasoning": "because", "tasks": [{"task_number": 1, "tool_name": "tickets.close", "tool_arguments": {"id": 7}, "description": "Close it"}], "steps": [{"tool": "tickets.close", "arguments": {"id": 7}, "description": "Close it"}]}
when tool tickets.close reply {"text": "Ticket 7 is closed.", "data": null, "spans": []} once asks
when model route reply {"flow": "search"}
when model reflect reply {"goal_achieved": true, "issues_found": [], "continue_iteration": false}
when model answer reply "Ticket 7 is closed."
when model synthesis text~"said no" reply {"reasoning": "", "response_content": "Ticket 7 was not closed, because you did not agree."}
when model synthesis reply {"reasoning": "", "response_content": "Ticket 7 is closed [1]."}
"#;

struct Tickets {
    home: Home,
    script: String,
}

impl Tickets {
    fn new() -> Tickets {
        let home = Home::new();
        let script = home.script(TICKETS);
        Tickets { home, script }
    }

    fn ask(&self, more: &[&str]) -> CommandOutput {
        let args = [&["ask", "Close ticket 7", "--flow", "search", "--script", &self.script], more].concat();
        self.home.baton(&args)
    }

    /// Number of tickets closed so far.
    fn closed(&self) -> usize {
        self.home.changes("tickets.close")
    }

    #[track_caller]
    fn is_asked(&self, more: &[&str]) -> String {
        let (before, output) = (self.closed(), self.ask(more));
        assert_eq!((output.code, self.closed()), (Some(4), before), "{output:?}");
        self.home.newest()
    }

    #[track_caller]
    fn is_not_asked(&self, more: &[&str]) {
        let (before, output) = (self.closed(), self.ask(more));
        assert_eq!((output.code, self.closed()), (Some(0), before + 1), "{more:?}: {output:?}");
    }

    #[track_caller]
    fn answer(&self, run: &str, word: &str) -> CommandOutput {
        self.home.well(&["runs", "answer", run, word, "--script", &self.script])
    }

    fn permissions(&self) -> Vec<Value> {
        self.home.well(&["tools", "permissions", "--json"]).lines()
    }
}

#[test]
fn s11_a_tool_that_may_change_something_is_asked_about_and_an_answer_holds_for_its_scope() {
    let tickets = Tickets::new();
    let asked = tickets.ask(&[]);
    asked.complains(
        4,
        &[
            "May Baton call the tool tickets.close of the server tickets?",
            "Arguments: {\"id\":7}",
            "Where they come from: ",
            "answer with: baton runs answer",
            " once|conversation|tool|server|no",
        ],
    );
    let first = tickets.home.newest();
    assert_eq!(tickets.closed(), 0);
    let shown = tickets.home.well(&["runs", "show", &first]).out;
    assert!(shown.contains("once|conversation|tool|server|no"), "{shown}");
    tickets.home.baton(&["runs", "answer", &first, "always", "--script", &tickets.script]).complains(2, &["once, conversation, tool, server, no"]);

    assert!(tickets.answer(&first, "once").out.contains("Ticket 7 is closed"));
    assert_eq!((tickets.closed(), tickets.permissions().len()), (1, 0));
    let second = tickets.is_asked(&[]);
    let refused = tickets.answer(&second, "no");
    assert!(refused.out.contains("was not closed"), "{refused:?}");
    assert_eq!(tickets.closed(), 1);

    let third = tickets.is_asked(&[]);
    tickets.answer(&third, "tool");
    tickets.is_not_asked(&[]);
    let listed = tickets.permissions();
    assert_eq!((listed.len(), &listed[0]["scope"], &listed[0]["name"]), (1, &json!("tool"), &json!("tickets.close")), "{listed:?}");
    let list = tickets.home.well(&["tools", "permissions"]).out;
    assert!(list.contains("tickets.close") && list.contains("this tool, always"), "{list}");
    tickets.home.well(&["tools", "permissions", "revoke", "tickets.close"]);
    tickets.home.baton(&["tools", "permissions", "revoke", "tickets.close"]).complains(2, &["is not allowed", "baton tools permissions"]);
    assert_eq!(tickets.permissions(), Vec::<Value>::new());
    tickets.is_asked(&[]);
}

#[test]
fn a_conversation_is_allowed_by_its_thread_and_a_server_with_all_its_tools() {
    let tickets = Tickets::new();
    let run = tickets.is_asked(&["--thread", "mine"]);
    tickets.answer(&run, "conversation");
    tickets.is_not_asked(&["--thread", "mine"]);
    let other = tickets.is_asked(&["--thread", "another"]);
    assert_eq!(tickets.permissions()[0]["thread"], "mine");
    tickets.answer(&other, "s");
    tickets.is_not_asked(&[]);
    let listed = tickets.permissions();
    assert_eq!((&listed[1]["scope"], &listed[1]["name"]), (&json!("server"), &json!("tickets")), "{listed:?}");
    let number = listed[1]["id"].to_string();
    tickets.home.well(&["tools", "permissions", "revoke", &number]);
    tickets.is_asked(&[]);
    tickets.is_not_asked(&["--thread", "mine"]);
}

#[test]
fn what_is_given_beforehand_holds_for_that_run() {
    let tickets = Tickets::new();
    for given in [&["--allow", "tickets.close"][..], &["--allow", "notes", "--allow", "tickets"], &["--yes"]] {
        tickets.is_not_asked(given);
        assert_eq!(tickets.permissions(), Vec::<Value>::new(), "nothing is kept of {given:?}");
        tickets.is_asked(&[]);
    }
    tickets.is_asked(&["--allow", "tickets.open"]);
    // A child run, and a session.
    let before = tickets.closed();
    tickets.home.well(&["ask", "Look up with sources: close ticket 7", "--flow", "auto", "--yes", "--script", &tickets.script]);
    assert_eq!(tickets.closed(), before + 1, "the flow that auto picked is a child run");
    let before = tickets.closed();
    let mut chat = tickets.home.command(&["chat", "--flow", "search", "--allow", "tickets", "--script", &tickets.script]);
    let mut child = chat.stdin(std::process::Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"Close ticket 7\nClose it again\n").unwrap();
    let output = CommandOutput::of(child.wait_with_output().unwrap());
    assert_eq!((output.code, tickets.closed()), (Some(0), before + 2), "{output:?}");
}

#[test]
fn a_name_that_fits_no_server_is_a_mistake() {
    let home = Home::new();
    let config = home.folder.path().join("baton.toml");
    std::fs::write(&config, "").unwrap();
    let notes = json!({ "command": env!("CARGO_BIN_EXE_baton"), "args": ["mcp", "files", "--stdio", "--root", home.folder.path()] });
    let servers = json!({ "mcpServers": { "tickets": { "command": "nothing-is-started" }, "notes": notes } });
    std::fs::write(home.folder.path().join("mcp.json"), servers.to_string()).unwrap();
    let baton = |args: &[&str]| {
        let mut command = home.command(&[args, &["--config", config.to_str().unwrap()]].concat());
        CommandOutput::of(command.env_remove("BATON_SCRIPT").output().unwrap())
    };
    baton(&["ask", "x", "--model", "extract", "--allow", "tikets.close"]).complains(2, &["there is no server \"tikets\"", "tickets", "calc"]);
    baton(&["tools", "permissions", "allow", "tikets"]).complains(2, &["there is no server \"tikets\"", "tickets"]);
    baton(&["tools", "permissions", "allow", "tickets.close"]).complains(1, &["the server tickets cannot be reached"]);
    baton(&["tools", "permissions", "allow", "notes.burn"]).complains(2, &["the server notes has no tool \"notes.burn\""]);
    for (name, scope) in [("notes.append", "tool"), ("notes", "server"), ("calc.evaluate", "tool")] {
        let allowed = baton(&["tools", "permissions", "allow", name, "--json"]).lines();
        assert_eq!((&allowed[0]["name"], &allowed[0]["scope"], &allowed[0]["state"]), (&json!(name), &json!(scope), &json!("valid")), "{allowed:?}");
    }
    let states = |listed: Vec<Value>| listed.iter().map(|row| row["state"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    assert_eq!(states(baton(&["tools", "permissions", "list", "--json"]).lines()), ["valid", "valid", "valid"]);
    // Another folder for the same program is another definition of the server.
    std::fs::write(home.folder.path().join("mcp.json"), servers.to_string().replace("--stdio\"", "--stdio\",\"--read-only\"")).unwrap();
    let listed = baton(&["tools", "permissions", "list", "--json"]).lines();
    assert_eq!(states(listed), ["unknown", "unknown", "valid"], "the tools of another definition are not known before it is started");
}

#[test]
fn at_a_terminal_one_letter_answers() {
    let tickets = Tickets::new();
    for (letter, expected) in [("o", "is closed"), ("n", "was not closed"), ("t", "is closed")] {
        let command = tickets.home.command(&["ask", "Close ticket 7", "--flow", "search", "--script", &tickets.script]);
        let mut screen = at_terminal(command, &tickets.home);
        screen.exp_string("tickets.close").unwrap();
        screen.exp_string("o once, c in this conversation, t always this tool, s always this server, n no").unwrap();
        screen.exp_string("o/c/t/s/n").unwrap();
        screen.send_line(letter).unwrap();
        screen.exp_string(expected).unwrap();
        screen.exp_eof().unwrap();
    }
    assert_eq!((tickets.closed(), tickets.permissions().len()), (2, 1));
    tickets.is_not_asked(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn over_http_permissions_are_a_users_own_and_survive_a_kill() {
    let tickets = Tickets::new();
    let (ada, bob) = (token(&tickets.home, "ada"), token(&tickets.home, "bob"));
    let question = |allow: &[&str]| json!({ "question": "Close ticket 7", "flow": "search", "allow": allow });
    let run = {
        let served = tickets.home.serve(&tickets.script, &[]);
        let (status, run) = served.by(&ada, Method::POST, "/api/runs?wait=1", Some(&question(&["tickets"]))).await;
        assert_eq!((status, run["status"].as_str()), (201, Some("done")), "given for this run: {run}");
        let (_, asking) = served.by(&ada, Method::POST, "/api/runs?wait=1", Some(&question(&[]))).await;
        assert_eq!(asking["status"], "asking", "{asking}");
        let waiting = &asking["waiting"][0];
        let call = &waiting["call"];
        assert_eq!((&call["tool"], &call["server"], &call["arguments"]), (&json!("tickets.close"), &json!("tickets"), &json!("{\"id\":7}")));
        assert!(!call["why"].as_str().unwrap().is_empty() && !call["sources"].as_array().unwrap().is_empty(), "{call}");
        assert_eq!(waiting["schema"]["properties"]["allow"]["enum"], json!(["once", "conversation", "tool", "server", "no"]));
        let wrong = question(&[""]);
        assert_eq!(served.by(&ada, Method::POST, "/api/runs", Some(&wrong)).await.0, 422);
        let run = asking["run"].as_str().unwrap().to_owned();
        let answer = |value: Value| json!({ "task": waiting["task"], "attempt": waiting["attempt"], "value": value });
        let (status, refused) = served.by(&ada, Method::POST, &format!("/api/runs/{run}/answer"), Some(&answer(json!({ "allow": "all" })))).await;
        assert!(status >= 400 && refused.to_string().contains("conversation"), "{status} {refused}");
        let (status, taken) = served.by(&ada, Method::POST, &format!("/api/runs/{run}/answer"), Some(&answer(json!({ "allow": "tool" })))).await;
        assert_eq!((status, &taken["delivery"]), (202, &json!("taken")));
        run
    };
    // The server was killed as soon as the answer was accepted.
    let served = tickets.home.serve(&tickets.script, &[]);
    let listed = served.by(&ada, Method::GET, "/api/permissions", None).await.1;
    assert_eq!(listed["permissions"].as_array().unwrap().len(), 1, "{listed}");
    assert_eq!((&listed["permissions"][0]["scope"], &listed["permissions"][0]["name"]), (&json!("tool"), &json!("tickets.close")));
    let id = &listed["permissions"][0]["id"];
    assert_eq!(served.by(&bob, Method::GET, "/api/permissions", None).await.1["permissions"], json!([]));
    assert_eq!(served.by(&bob, Method::DELETE, &format!("/api/permissions/{id}"), None).await.0, 404);
    assert_eq!(served.by(&bob, Method::POST, "/api/runs?wait=1", Some(&question(&[]))).await.1["status"], "asking", "bob allowed nothing");
    assert_eq!(served.by(&ada, Method::POST, "/api/runs?wait=1", Some(&question(&[]))).await.1["status"], "done");
    assert_eq!(served.by(&ada, Method::DELETE, &format!("/api/permissions/{id}"), None).await.0, 204);
    for gone in [id.to_string(), "x".to_owned()] {
        assert_eq!(served.by(&ada, Method::DELETE, &format!("/api/permissions/{gone}"), None).await.0, 404);
    }
    assert_eq!(served.by(&ada, Method::POST, "/api/runs?wait=1", Some(&question(&[]))).await.1["status"], "asking");
    assert_eq!(served.by(&ada, Method::GET, &format!("/api/runs/{run}"), None).await.0, 200);
}

/// A model server that plans one tool call and then reports its result.
fn planner(plan: &Value) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let plan = plan.to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let asked = String::from_utf8(read_body(&stream)).unwrap();
            let synthesis = |text: &str| json!({ "reasoning": "", "response_content": text }).to_string();
            let reply = match (asked.contains("response_content"), asked.contains("said no")) {
                (false, _) => plan.clone(),
                (true, false) => synthesis("It is noted."),
                (true, true) => synthesis("It was not noted, because you did not agree."),
            };
            let (kind, body) = match asked.contains("\"stream\":true") {
                true => {
                    let chunk = |delta: Value, finish: Value| {
                        let choice = json!([{ "index": 0, "delta": delta, "finish_reason": finish }]);
                        format!("data: {}\n\n", json!({ "id": "x", "object": "chat.completion.chunk", "model": "small", "choices": choice }))
                    };
                    let chunks = [chunk(json!({ "content": reply }), Value::Null), chunk(json!({}), json!("stop"))];
                    ("text/event-stream", format!("{}data: [DONE]\n\n", chunks.concat()))
                }
                false => {
                    let choice = json!([{ "index": 0, "message": { "role": "assistant", "content": reply }, "finish_reason": "stop" }]);
                    ("application/json", json!({ "id": "x", "object": "chat.completion", "model": "small", "choices": choice }).to_string())
                }
            };
            let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        }
    });
    url
}

/// A real server of the user, started from `mcp.json`, which changes files.
struct Notes {
    home: Home,
    config: String,
    tool: &'static str,
}

impl Notes {
    fn new(tool: &'static str, arguments: &Value, is_trusted: bool) -> Notes {
        let home = Home::new();
        let root = home.folder.path().join("notes");
        std::fs::create_dir(&root).unwrap();
        std::fs::write(root.join("old.txt"), "bread\n").unwrap();
        let server = json!({ "command": env!("CARGO_BIN_EXE_baton"), "args": ["mcp", "files", "--stdio", "--root", root], "trusted": is_trusted });
        std::fs::write(home.folder.path().join("mcp.json"), json!({ "mcpServers": { "notes": server } }).to_string()).unwrap();
        let task = json!({ "task_number": 1, "tool_name": tool, "tool_arguments": arguments, "description": "note it" });
        let url = planner(&json!({ "reasoning": "because", "tasks": [task] }));
        let config = home.folder.path().join("baton.toml");
        std::fs::write(&config, format!("model = \"compat/here/small\"\n[endpoints.here]\nurl = \"{url}\"\n")).unwrap();
        Notes { config: config.to_str().unwrap().to_owned(), home, tool }
    }

    fn ask(&self, more: &[&str]) -> CommandOutput {
        let enabled = format!("enabled_tools={}", self.tool);
        let args = [&["ask", "Note that I must buy milk", "--flow", "search", "--set", &enabled, "--config", &self.config], more].concat();
        CommandOutput::of(bare(&self.home, &args).output().unwrap())
    }

    fn answer(&self, word: &str) -> CommandOutput {
        let run = self.home.newest();
        CommandOutput::of(bare(&self.home, &["runs", "answer", &run, word, "--config", &self.config]).output().unwrap())
    }

    fn noted(&self) -> usize {
        std::fs::read_to_string(self.home.folder.path().join("notes/list.txt")).unwrap_or_default().matches("milk").count()
    }
}

#[test]
fn s11_a_server_of_the_users_own_is_asked_about_before_it_changes_anything() {
    let notes = Notes::new("notes.append", &json!({ "path": "list.txt", "content": "milk\n" }), false);
    let asked = notes.ask(&[]);
    asked.complains(4, &["the tool notes.append of the server notes", "milk", "notes is not trusted", " once|conversation|tool|server|no"]);
    assert_eq!(notes.noted(), 0);
    let refused = notes.answer("no");
    assert!(refused.code == Some(0) && refused.out.contains("It was not noted"), "{refused:?}");
    assert_eq!(notes.noted(), 0);

    for (word, noted, is_asked_again) in [("once", 1, true), ("yes", 2, true), ("tool", 3, false)] {
        assert_eq!(notes.ask(&[]).code, Some(4), "{word}");
        let answered = notes.answer(word);
        assert_eq!((answered.code, notes.noted()), (Some(0), noted), "{word}: {answered:?}");
        if !is_asked_again {
            assert_eq!((notes.ask(&[]).code, notes.noted()), (Some(0), noted + 1), "{word}");
        }
    }
    notes.home.well(&["tools", "permissions", "revoke", "notes.append"]);
    assert_eq!((notes.ask(&[]).code, notes.noted()), (Some(4), 4));
    for (given, noted) in [(&["--allow", "notes"][..], 5), (&["--allow", "notes.append"], 6), (&["--yes"], 7)] {
        let output = notes.ask(given);
        assert_eq!((output.code, notes.noted()), (Some(0), noted), "{given:?}: {output:?}");
    }
    assert_eq!((notes.ask(&[]).code, notes.noted()), (Some(4), 7), "that was for those runs");
}

#[test]
fn s11_a_servers_read_only_hint_counts_only_if_the_user_trusts_it() {
    for (is_trusted, code) in [(false, 4), (true, 0)] {
        let notes = Notes::new("notes.read", &json!({ "path": "old.txt" }), is_trusted);
        let asked = notes.ask(&[]);
        assert_eq!(asked.code, Some(code), "{asked:?}");
        assert_eq!(asked.err.contains("is declared read-only, but the server notes is not trusted"), !is_trusted, "{asked:?}");
    }
}
