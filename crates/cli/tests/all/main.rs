//! End-to-end tests of the binary, each with its own database.

// Test helpers.
#![allow(clippy::unwrap_used)]

mod ask;
mod audit;
mod backup;
mod bench;
mod chat;
mod crash;
mod databases;
mod eval;
mod eval_tasks;
mod hostile_content;
mod injections;
mod inspect;
mod mcp;
mod memory;
mod models;
mod new_flow;
mod permissions;
mod postgres;
mod registry;
mod report;
mod restate;
mod restate_failover;
mod results;
mod roles;
mod runs;
mod serve;
mod serve_access;
mod serve_hostile;
mod serve_langserve;
mod serve_protocols;
mod serve_users;
mod settings;
mod tasks;
mod team;
mod tls;
mod traces;
mod users;
mod wrong;

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// A folder with a database, for one test.
struct Home {
    folder: tempfile::TempDir,
}

/// Output and exit status of a command.
#[derive(Debug)]
struct CommandOutput {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Home {
    fn new() -> Home {
        Home { folder: tempfile::tempdir().unwrap() }
    }

    fn db(&self) -> PathBuf {
        self.folder.path().join("baton.db")
    }

    /// A command that is not started yet, with a closed stdin.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
        command.args(args).env("BATON_DB", self.db()).env("XDG_CACHE_HOME", self.folder.path().join("cache"));
        command
            .env_remove("BATON_LOG")
            .env("BATON_SCRIPT", "sample")
            .env("BATON_NO_PULL", "1")
            // Ignores whatever listens on the default port of this machine.
            .env("BATON_REGISTRY_URL", "off")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn baton(&self, args: &[&str]) -> CommandOutput {
        CommandOutput::of(self.command(args).output().unwrap())
    }

    /// The same, and it must succeed.
    fn well(&self, args: &[&str]) -> CommandOutput {
        let output = self.baton(args);
        assert_eq!(output.code, Some(0), "{args:?}: {output:?}");
        output
    }

    fn runs(&self) -> Vec<Value> {
        self.well(&["runs", "list", "--json"]).lines()
    }

    fn newest(&self) -> String {
        self.runs()[0]["run"].as_str().unwrap().to_owned()
    }

    /// Number of calls that changed something in the sample script.
    fn changes(&self, tool: &str) -> usize {
        let text = std::fs::read_to_string(self.folder.path().join("baton.db.sample.jsonl")).unwrap_or_default();
        let of_tool = |line: &&str| serde_json::from_str::<Value>(line).unwrap()["effect"]["call_tool"]["tool"] == tool;
        text.lines().filter(of_tool).count()
    }

    fn script(&self, text: &str) -> String {
        let path = self.folder.path().join("world.script");
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl CommandOutput {
    fn of(output: Output) -> CommandOutput {
        let text = |bytes| String::from_utf8(bytes).expect("the program prints UTF-8");
        CommandOutput { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Every line of stdout as JSON.
    fn lines(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
    }

    #[track_caller]
    fn complains(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        for words in words {
            assert!(self.err.contains(words), "no {words:?} in {}", self.err);
        }
    }
}

const ANSWER: &str = "It is a relay baton: whoever holds it runs, and then hands it on. See https://example.org/baton.\n";

/// A script with one search tool, and a model whose answer goes beyond the results.
const LOOKS_UP: &str = r#"
when tool registry.tools reply {"text": "", "data": {"tools": [{"name": "docs.search", "description": "Searches", "read_only": true, "schema": {"type": "object", "required": ["query"], "properties": {"query": {"type": "string"}}}}]}, "spans": []}
when model plan reply {"reasoning": "because", "tasks": [{"task_number": 1, "tool_name": "docs.search", "tool_arguments": {"query": "crash"}, "description": "Look for crashes"}], "steps": [{"tool": "docs.search", "arguments": {"query": "crash"}, "description": "Look for crashes"}]} after 5ms tokens 60/10
when tool docs.search query~recovery reply {"text": "", "data": {"passages": [{"text": "Replayed from the log.", "title": "Recovery", "address": "https://example.org/wal"}]}, "spans": []} after 5ms
when tool docs.search reply {"text": "", "data": {"passages": [{"text": "After a crash the log is replayed from the last checkpoint.", "title": "Recovery", "address": "https://example.org/wal"}]}, "spans": []} after 5ms
when model synthesis text~"Replayed from the log" reply {"reasoning": "", "response_content": "Replayed from the log."} tokens 60/10
when model synthesis reply {"reasoning": "", "response_content": "After a crash the log is replayed from the last checkpoint [1]. The disk was 8 TB large [1]."} tokens 60/10
when model reflect reply {"goal_achieved": true, "issues_found": [], "continue_iteration": false}
when model answer reply "After a crash the log is replayed from the last checkpoint [1]."
"#;
