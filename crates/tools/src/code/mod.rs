//! `code`: runs a piece of Python and says what it printed and what came out, without giving it the machine.
//!
//! The Python is monty's: a subset, without packages, that has no files, network or processes of its own. It runs in a process
//! of its own behind the walls of `sandbox.rs`, which hold even if monty does not; see `tests/sandbox`.
//!
//! That process is this very program, started again with a hidden command: whoever embeds the server calls [`worker_main`] first thing in
//! `main` when that command is given.

mod runner;
pub mod sandbox;
mod worker;

use std::path::PathBuf;
use std::sync::Arc;

use rmcp::handler::server::tool::schema_for_output;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{CallToolResult, ContentBlock};
use rmcp::{ServerHandler, tool, tool_handler, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::Semaphore;

use crate::Kind;
use evidence::Trust;
use sandbox::Walls;

pub const KIND: Kind = Kind {
    name: "code",
    about: "Runs a piece of Python behind walls: no network, no files but its own, little time and memory",
    port: 8008,
    trust: Trust::Computed,
    make: |kind, settings| Ok(kind.around(Code::new(settings.code.clone()))),
};

/// The hidden command that makes this program a worker.
pub const WORKER_COMMAND: &str = "code-worker";

/// Runs as a worker; never comes back. `arguments` are those after [`WORKER_COMMAND`]. To be called before anything else is set up:
/// no runtime, no threads.
pub fn worker_main(arguments: &[String]) -> ! {
    sandbox::enter(arguments, worker::work)
}

/// The `code` server's settings.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The program and first arguments that start a worker; this program with [`WORKER_COMMAND`] if empty.
    pub worker: Vec<String>,
    /// Where each run's scratch folder is made; the system's temporary folder if not set.
    pub scratch: Option<PathBuf>,
    pub seconds_max: u64,
    pub memory_mib_max: u64,
    pub scratch_mib_max: u64,
    pub output_bytes_max: usize,
    pub result_bytes_max: usize,
    pub code_bytes_max: usize,
    pub inputs_bytes_max: usize,
    /// Runs at the same time; others wait.
    pub runs_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            worker: Vec::new(),
            scratch: None,
            seconds_max: 10,
            memory_mib_max: 512,
            scratch_mib_max: 64,
            output_bytes_max: 100_000,
            result_bytes_max: 100_000,
            code_bytes_max: 200_000,
            inputs_bytes_max: 1_000_000,
            runs_max: 4,
        }
    }
}

/// The server.
#[derive(Clone)]
pub struct Code {
    settings: Arc<Settings>,
    places: Arc<Semaphore>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunArguments {
    /// Python (a subset: no packages to import beyond a few of the standard library, no network). What it prints is given back, and the value of its last line if that is an expression.
    pub code: String,
    /// Values the code finds as variables, by name.
    #[serde(default)]
    pub inputs: Map<String, Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Ok,
    /// The code raised an exception; `error` is its traceback.
    Error,
    TimeLimit,
    MemoryLimit,
    OutputLimit,
    /// The interpreter itself ended; the sandbox contained it.
    Crashed,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Ran {
    pub outcome: Outcome,
    /// What was printed, as far as it is kept.
    pub stdout: String,
    /// The value of the last expression; what JSON has no word for is as Python prints it.
    pub result: Value,
    /// What went wrong, with the traceback where there is one, and what to do about it.
    pub error: Option<String>,
    pub milliseconds: u64,
    /// Walls of the sandbox that this machine does not allow, and why. Empty where all stand.
    pub walls_missing: Vec<String>,
    #[serde(skip)]
    #[schemars(skip)]
    pub walls: Walls,
}

#[tool_router]
impl Code {
    pub fn new(settings: Settings) -> Self {
        let places = Arc::new(Semaphore::new(settings.runs_max.max(1)));
        Self { settings: Arc::new(settings), places }
    }

    #[tool(
        description = "Runs a short Python program for calculations and for working on text and data, in a sandbox without network and files. Give data as `inputs`; print or end with an expression to get something back.",
        annotations(title = "Run Python", read_only_hint = true, destructive_hint = false, idempotent_hint = true, open_world_hint = false),
        output_schema = schema_for_output::<Ran>()
    )]
    async fn run_python(&self, Parameters(asked): Parameters<RunArguments>) -> CallToolResult {
        match self.run(asked).await {
            Ok(ran) => {
                let good = ran.outcome == Outcome::Ok;
                let text = said(&ran);
                let value = serde_json::to_value(ran).unwrap_or_default();
                let mut result = if good { CallToolResult::structured(value) } else { CallToolResult::structured_error(value) };
                result.content = vec![ContentBlock::text(text)];
                result
            }
            Err(why) => CallToolResult::error(vec![ContentBlock::text(why)]),
        }
    }
}

#[tool_handler(name = "code", instructions = "Python for exact calculation and data work. No network, no packages, nothing is kept between runs.")]
impl ServerHandler for Code {}

impl Code {
    /// Errors are what the caller can mend before anything runs; what the code itself does wrong is an outcome.
    pub async fn run(&self, asked: RunArguments) -> Result<Ran, String> {
        let settings = &self.settings;
        if asked.code.trim().is_empty() || asked.code.len() > settings.code_bytes_max {
            return Err(format!("`code` must have 1 to {} bytes", settings.code_bytes_max));
        }
        let inputs_bytes = serde_json::to_string(&asked.inputs).map_or(0, |text| text.len());
        if inputs_bytes > settings.inputs_bytes_max {
            return Err(format!("`inputs` have {inputs_bytes} bytes, more than the {} allowed; give less of them", settings.inputs_bytes_max));
        }
        let _place = self.places.acquire().await.map_err(|e| e.to_string())?;
        runner::run(settings.clone(), asked).await
    }
}

fn said(ran: &Ran) -> String {
    let mut text = ran.stdout.clone();
    let mut line = |words: &str| {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(words);
    };
    if let Some(error) = &ran.error {
        line(error);
    } else if !ran.result.is_null() {
        line(&format!("=> {}", ran.result));
    } else if ran.stdout.is_empty() {
        line("It ran, printed nothing and ended without a value: print something, or end with an expression.");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tool_says_what_it_is() {
        let tools = Code::tool_router().list_all();
        let [tool] = tools.as_slice() else { panic!("{tools:?}") };
        let hints = tool.annotations.as_ref().unwrap();
        assert_eq!((&*tool.name, hints.read_only_hint, hints.open_world_hint), ("run_python", Some(true), Some(false)));
        let schema = serde_json::to_value(tool.output_schema.as_deref().unwrap()).unwrap();
        assert!(schema["properties"]["stdout"].is_object() && schema["properties"].get("walls").is_none(), "{schema:#}");
        assert_eq!(serde_json::to_value(&*tool.input_schema).unwrap()["required"], serde_json::json!(["code"]));
    }

    #[test]
    fn what_is_said_helps() {
        let ran = |stdout: &str, result: Value, error: Option<&str>| Ran {
            outcome: if error.is_some() { Outcome::Error } else { Outcome::Ok },
            stdout: stdout.into(),
            result,
            error: error.map(Into::into),
            milliseconds: 1,
            walls_missing: Vec::new(),
            walls: Walls::default(),
        };
        let cases = [
            (ran("a", Value::Null, None), "a"),
            (ran("a\n", 3.into(), None), "a\n=> 3"),
            (ran("a", Value::Null, Some("Oops")), "a\nOops"),
            (ran("", Value::Null, None), "It ran, printed nothing and ended without a value: print something, or end with an expression."),
        ];
        for (ran, wanted) in cases {
            assert_eq!(said(&ran), wanted);
        }
    }
}
