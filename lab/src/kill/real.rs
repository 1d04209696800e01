//! The built-in flows, with effects that must not repeat: model calls, a mail, a line appended to a file.
//!
//! Every run has its own errand number. The model (`provider::scripted_thought`) uses that number in every tool call, so the mailbox and the file
//! show how often each run did what it should do once.

use std::path::{Path, PathBuf};

use engine::Order;
use graph::{Key, Waiting};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::traces::{Trace, Traces};
use crate::person::wanted;
use crate::provider::dialect::Dialect;
use crate::provider::mailbox;
use crate::provider::scripted_thought::{LEDGER, errand_in};
use crate::setup::{Setup, profile};

/// Arguments of one life of the victim.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VictimArguments {
    pub folder: PathBuf,
    pub life: u64,
    pub first: u64,
    pub target: u64,
    pub model: String,
    pub web: String,
    pub smtp_port: u16,
}

impl VictimArguments {
    pub fn setup(&self) -> Setup {
        Setup {
            // Identifies the life in the server's log, however late a request of a killed process arrives.
            key: format!("life-{}", self.life),
            smtp_port: Some(self.smtp_port),
            ..Setup::new(Dialect::OpenaiChat, &self.model, &self.web, &self.folder)
        }
    }
}

pub const FLOWS: [&str; 7] = ["search", "chat", "reason", "panel", "auto", "direct", "report"];

pub fn flow_of(number: u64) -> &'static str {
    FLOWS[(number % FLOWS.len() as u64) as usize]
}

pub fn order(number: u64) -> Order {
    let flow = flow_of(number);
    let question = match flow {
        "reason" => format!("Think about errand {number} and write it down: what do the stories say about upstream, and what is {number} + 1?"),
        "auto" => format!("Please look up errand {number} in the stories."),
        _ => format!("Errand {number}: what is a relay?"),
    };
    let searching = json!({ "enabled_tools": ["stories.search_stories", "calc.calculate", "search.search", "files.append", "mail.send"] });
    let settings = match flow {
        "search" => searching,
        // Its sections only read, because two of them would send two mails.
        "report" => {
            let reading = json!({ "enabled_tools": ["stories.search_stories", "calc.calculate", "search.search"] });
            json!({ "approve_outline": false, "clarify": false, "sections": 2, "each": { "search": reading } })
        }
        "auto" => json!({ "flows": ["direct", "search", "chat", "reason", "panel"], "each": { "search": searching } }),
        _ => Value::Null,
    };
    Order::new(flow, json!({ "question": question, "model": profile(), "settings": settings }))
}

/// What must have happened outside when the run is over. Panels and reports only read here, and a chat only searches.
pub fn due(number: u64) -> SideEffects {
    match flow_of(number) {
        "search" | "auto" | "reason" => SideEffects { mails: 1, lines: 1 },
        _ => SideEffects { mails: 0, lines: 0 },
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SideEffects {
    pub mails: usize,
    pub lines: usize,
}

/// The external effects so far.
pub fn outside(folder: &Path, number: u64) -> SideEffects {
    let ledger = std::fs::read_to_string(Setup::root(folder).join(LEDGER)).unwrap_or_default();
    let mails = mailbox::subjects(&mailbox_of(folder));
    SideEffects {
        mails: mails.iter().filter(|subject| errand_in(subject) == Some(number)).count(),
        lines: ledger.lines().filter(|line| errand_in(line) == Some(number)).count(),
    }
}

pub fn mailbox_of(folder: &Path) -> PathBuf {
    folder.join("mailbox")
}

/// The person: approves everything, and for effects of unknown outcome checks the traces.
pub fn person(folder: &Path, traces: &Traces, key: Key, waiting: &Waiting) -> Value {
    match wanted(waiting) {
        "allow" => return json!({ "allow": true }),
        other => assert_eq!(other, "verdict", "nobody was to be asked this: {waiting:?}"),
    }
    let prompt = &waiting.question.prompt;
    let seen = outside(folder, errand_in(prompt).expect("it is about an errand"));
    let happened = if prompt.contains("tool mail.send") { seen.mails > 0 } else { seen.lines > 0 };
    traces.log(&Trace::Verdict { key, attempt: waiting.attempt, happened });
    match happened {
        true => json!({ "verdict": "done", "value": { "text": "done", "data": null, "spans": [] } }),
        false => json!({ "verdict": "again" }),
    }
}
