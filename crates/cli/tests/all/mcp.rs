//! The built-in tool servers as separate processes.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::Home;
use crate::models::{bare, openai};

#[test]
fn servers_are_listed_with_their_ports() {
    let home = Home::new();
    let list = home.well(&["mcp"]).out;
    for words in ["search", "8001", "summary", "8002", "fetch", "calc", "files", "stories"] {
        assert!(list.contains(words), "{words}: {list}");
    }
    let lines = home.well(&["mcp", "--json"]).lines();
    assert!(lines.iter().any(|line| line["name"] == "calc" && line["trust"] == "computed"), "{lines:?}");
}

#[test]
fn a_server_that_cannot_be_built_is_an_error_with_a_reason() {
    let home = Home::new();
    home.baton(&["mcp", "chess"]).complains(2, &["no built-in server `chess`", "search"]);
    home.baton(&["mcp", "files", "--stdio"]).complains(2, &["--root"]);
    home.baton(&["mcp", "files", "--stdio", "--root", "/no/such/folder"]).complains(2, &["/no/such/folder"]);
    home.baton(&["mcp", "fetch", "--stdio", "--allow-host", "a/b"]).complains(2, &["a/b"]);
    home.baton(&["mcp", "calc", "--stdio", "--port", "1"]).complains(2, &["--port"]);
}

/// An MCP client over the standard input and output of a server.
struct StdioSession {
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    /// What the server called itself.
    server: Value,
}

impl StdioSession {
    fn open(child: &mut Child) -> StdioSession {
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut session = StdioSession { input: child.stdin.take().unwrap(), lines, server: Value::Null };
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } });
        session.server = session.request(1, "initialize", &params)["serverInfo"].clone();
        writeln!(session.input, "{}", json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).unwrap();
        session
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.request(2, "tools/call", &json!({ "name": tool, "arguments": arguments }))
    }

    fn request(&mut self, id: u64, method: &str, params: &Value) -> Value {
        writeln!(self.input, "{}", json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).unwrap();
        let mut replies = self.lines.by_ref().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
        let reply = replies.find(|message| message["id"] == id).unwrap();
        reply["result"].clone()
    }
}

#[test]
fn x5_a_server_supports_mcp_over_standard_input_and_output() {
    let home = Home::new();
    std::fs::write(home.folder.path().join("note.txt"), "hello from a file").unwrap();
    let root = home.folder.path().to_str().unwrap().to_owned();
    let mut child = home.command(&["mcp", "files", "--stdio", "--root", &root]).stdin(Stdio::piped()).spawn().unwrap();
    let mut session = StdioSession::open(&mut child);
    assert_eq!(session.server["name"], "baton-files");
    let read = session.call("read", &json!({ "path": "note.txt" }));
    assert_eq!(read["structuredContent"]["passages"][0]["text"], "hello from a file", "{read}");
    drop(session);
    assert!(child.wait().unwrap().success(), "it ends with its input");
}

/// Result of a separate summary server for two texts, and what it printed.
fn summed_up(home: &Home, args: &[&str]) -> (Value, String) {
    let mut command = bare(home, &[&["mcp", "summary", "--stdio"], args].concat());
    let mut child = command.env("HERE_KEY", "sk-very-secret").stdin(Stdio::piped()).spawn().unwrap();
    let mut session = StdioSession::open(&mut child);
    let texts = json!({ "texts": ["A write-ahead log is a log that is written first.", "Pages are written later."] });
    let result = session.call("summarize", &texts)["structuredContent"].clone();
    drop(session);
    let printed = String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap();
    (result, printed)
}

#[test]
fn c5_a_summary_server_that_stands_alone_uses_the_model_that_ask_would() {
    let home = Home::new();
    let config = home.folder.path().join("baton.toml");
    let url = openai(&["A log ", "that is ", "written first."]);
    std::fs::write(&config, format!("model = \"compat/here/small\"\n[endpoints.here]\nurl = \"{url}\"\nkey = {{ env = \"HERE_KEY\" }}\n")).unwrap();
    let config = config.to_str().unwrap();
    let (written, printed) = summed_up(&home, &["--config", config]);
    assert_eq!((&written["how"], &written["summary"]), (&json!("model"), &json!("A log that is written first.")), "{written}");
    assert!(printed.contains("model compat/here/small (the configuration)"), "{printed}");
    // The flag wins over the configuration, and without a model sentences are extracted.
    let (picked, printed) = summed_up(&home, &["--config", config, "--model", "extract"]);
    assert_eq!(picked["how"], "extracted", "{picked}");
    assert!(printed.contains("model extract (--model)"), "{printed}");
    let (picked, _) = summed_up(&home, &["--no-pull"]);
    assert_eq!(picked["how"], "extracted", "{picked}");
    home.baton(&["mcp", "calc", "--stdio", "--model", "extract"]).complains(2, &["--model is for `baton mcp summary`"]);
    home.baton(&["mcp", "summary", "--stdio", "--model", "gpt-4o"]).complains(2, &["openai/gpt-4o"]);
}
