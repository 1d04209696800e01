//! `code`: runs a Python program in a sandbox and returns its output and result.
//!
//! The Python is monty: a subset without packages, which has no files, network or processes of its own. It runs in a separate process
//! inside `sandbox`, which holds even if monty does not; see `tests/sandbox`.
//!
//! That process is this program, started again with a hidden command: an embedder calls [`worker_main`] first in `main` when that command
//! is given.

mod protocol;
mod runner;
pub mod sandbox;
#[cfg(feature = "code")]
mod worker;

use std::path::PathBuf;
use std::sync::Arc;

use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::tool::schema_for_output;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{CallToolResult, ContentBlock, JsonObject};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler, tool, tool_handler, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::Semaphore;

use crate::files::root::Root;
use crate::mail::META_KEY;
use crate::workspace::{FileBytes, Workspaces, refuse_files, shown_files};
use crate::{Kind, ToolError};
use evidence::Trust;
use sandbox::Restrictions;

/// The server `code`: Python in a sandbox.
pub const KIND: Kind = Kind {
    name: "code",
    about: "Runs a piece of Python in a sandbox: no network, no files but those of its workspace, little time and memory",
    port: 8008,
    trust: Trust::Computed,
    make: |kind, settings| match unsupported() {
        Some(reason) => Err(reason.to_owned()),
        None => Ok(kind.around(Code::new(settings.code.clone(), settings.workspaces.clone()))),
    },
};

/// The hidden command that runs this program as a worker.
pub const WORKER_COMMAND: &str = "code-worker";

/// Runs as a worker; never returns. `arguments` are those after [`WORKER_COMMAND`]. Call it before anything else is set up: no runtime, no
/// threads.
pub fn worker_main(arguments: &[String]) -> ! {
    // Programs of users; whoever waits for an answer goes first.
    turns::give_way();
    #[cfg(feature = "code")]
    sandbox::enter(arguments, worker::work);
    #[cfg(not(feature = "code"))]
    {
        let _ = arguments;
        eprintln!("{NOT_BUILT}");
        std::process::exit(70)
    }
}

const NOT_BUILT: &str = "this binary was built without Python; build it with the feature `code`";

/// Why programs cannot run on this system, if they cannot.
pub fn unsupported() -> Option<&'static str> {
    if cfg!(feature = "code") { sandbox::unsupported() } else { Some(NOT_BUILT) }
}

/// The `code` server's settings.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The program and first arguments that start a worker; if empty, this program with [`WORKER_COMMAND`].
    pub worker: Vec<String>,
    /// Where each run's scratch folder is created; the system's temporary folder if not set.
    pub scratch: Option<PathBuf>,
    /// Time of a run.
    pub seconds_max: u64,
    /// Memory of a run.
    pub memory_mib_max: u64,
    /// Files in the scratch folder of a run.
    pub scratch_mib_max: u64,
    /// Printed text; the rest is dropped.
    pub output_bytes_max: usize,
    /// The value of the last expression as JSON.
    pub result_bytes_max: usize,
    /// The code of a run.
    pub code_bytes_max: usize,
    /// The input values of a run as JSON.
    pub inputs_bytes_max: usize,
    /// Concurrent runs; others wait.
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
    workspaces: Option<Workspaces>,
    tools: ToolRouter<Code>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "a comment would become part of the schema of the tool")]
pub struct RunArguments {
    /// Python (a subset: no packages beyond a few of the standard library, no network). Files of the workspace are opened by their path. What it prints is given back, and the value of its last line if that is an expression.
    pub code: String,
    /// Values the code finds as variables, by name.
    #[serde(default)]
    pub inputs: Map<String, Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "a comment would become part of the schema of the tool")]
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
#[expect(missing_docs, reason = "a comment would become part of the schema of the tool")]
pub struct CodeResult {
    pub outcome: Outcome,
    /// What was printed, as far as it is kept.
    pub stdout: String,
    /// The value of the last expression; what JSON has no word for is as Python prints it.
    pub result: Value,
    /// What went wrong, with the traceback where there is one, and what to do about it.
    pub error: Option<String>,
    /// Files it wrote or changed in the workspace. A program that fails changes none.
    #[serde(default)]
    pub files: Vec<WrittenFile>,
    pub milliseconds: u64,
    /// Walls of the sandbox that this machine does not allow, and why. Empty where all stand.
    pub walls_missing: Vec<String>,
    #[serde(skip)]
    #[schemars(skip)]
    pub walls: Restrictions,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "a comment would become part of the schema of the tool")]
pub struct WrittenFile {
    pub path: String,
    pub bytes: u64,
}

#[tool_router]
impl Code {
    /// Without `workspaces` a program can read and keep no files.
    pub fn new(settings: Settings, workspaces: Option<Workspaces>) -> Self {
        let places = Arc::new(Semaphore::new(settings.runs_max.max(1)));
        let mut tools = Self::tool_router();
        // Without a workspace nothing outlives a run; in a user's folder a program may replace files.
        let (is_read_only, is_destructive) = workspaces.as_ref().map_or((true, false), |workspaces| (false, !workspaces.is_own()));
        for route in tools.map.values_mut() {
            if let Some(hints) = &mut route.attr.annotations {
                (hints.read_only_hint, hints.destructive_hint) = (Some(is_read_only), Some(is_destructive));
            }
        }
        Self { settings: Arc::new(settings), places, workspaces, tools }
    }

    #[tool(
        description = "Runs a short Python program for calculations and for working on text, data and the files of the workspace, in a sandbox without network. Give data as `inputs`, open files by their path; print or end with an expression to get something back. Files it writes are kept if it ends well.",
        annotations(title = "Run Python", read_only_hint = false, destructive_hint = false, idempotent_hint = true, open_world_hint = false),
        output_schema = schema_for_output::<CodeResult>()
    )]
    async fn run_python(&self, context: RequestContext<RoleServer>, Parameters(asked): Parameters<RunArguments>) -> CallToolResult {
        let meta = context.meta.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        match self.run_in_workspace(asked, meta).await {
            Ok(ran) => {
                let good = ran.outcome == Outcome::Ok;
                let text = result_text(&ran);
                let value = serde_json::to_value(ran).unwrap_or_default();
                let mut result = if good { CallToolResult::structured(value) } else { CallToolResult::structured_error(value) };
                result.content = vec![ContentBlock::text(text)];
                result
            }
            Err(why) => CallToolResult::error(vec![ContentBlock::text(why)]),
        }
    }
}

#[tool_handler(
    router = self.tools,
    name = "code",
    instructions = "Python for exact calculation and data work. No network, no packages; nothing but files of the workspace is kept between runs."
)]
impl ServerHandler for Code {}

impl Code {
    /// Runs a program without a workspace.
    pub async fn run(&self, asked: RunArguments) -> Result<CodeResult, String> {
        self.check(&asked)?;
        let _place = self.places.acquire().await.map_err(|e| e.to_string())?;
        runner::run(self.settings.clone(), asked, Vec::new()).await.map(|(ran, _)| ran)
    }

    /// Runs a program over the files of the call's thread, and stores those it wrote. A call repeated with its key changes them once.
    pub async fn run_in_workspace(&self, asked: RunArguments, meta: JsonObject) -> Result<CodeResult, String> {
        let Some(workspaces) = self.workspaces.clone() else { return self.run(asked).await };
        self.check(&asked)?;
        let _place = self.places.acquire().await.map_err(|e| e.to_string())?;
        let key = meta.get(META_KEY).and_then(Value::as_str).map(str::to_owned);
        let before = {
            let (workspaces, key, code) = (workspaces.clone(), key.clone(), asked.code.clone());
            blocking(move || {
                let root = workspaces.root(&meta)?;
                match key.map(|key| workspaces.replied::<CodeResult>(&key, &root)).transpose()?.flatten() {
                    Some(ran) => Ok(EarlierCall::Ran(ran)),
                    None => shown_files(&root, &code).map(|(files, left_out)| EarlierCall::Files { root, files, left_out }),
                }
            })
            .await?
        };
        let (root, files, left_out) = match before {
            EarlierCall::Ran(ran) => return Ok(ran),
            EarlierCall::Files { root, files, left_out } => (root, files, left_out),
        };
        let (mut ran, written) = runner::run(self.settings.clone(), asked, files).await?;
        if left_out > 0 && ran.outcome == Outcome::Error {
            let words = format!("(the workspace is large, and {left_out} of its files were not shown to the program; name a file to have it there)");
            ran.error = Some(format!("{}\n{words}", ran.error.unwrap_or_default()));
        }
        if ran.outcome != Outcome::Ok {
            return Ok(ran);
        }
        if let Some(why) = refuse_files(&written) {
            return Ok(CodeResult { outcome: Outcome::OutputLimit, error: Some(why), ..ran });
        }
        ran.files = written.iter().map(|file| WrittenFile { path: file.path.clone(), bytes: file.bytes.len() as u64 }).collect();
        ran.files.sort_by(|a, b| a.path.cmp(&b.path));
        blocking(move || workspaces.put(key.as_deref(), &root, ran, written)).await
    }

    /// Errors are problems that the caller can fix before anything runs; errors of the code itself are an outcome.
    fn check(&self, asked: &RunArguments) -> Result<(), String> {
        let settings = &self.settings;
        if asked.code.trim().is_empty() || asked.code.len() > settings.code_bytes_max {
            return Err(format!("`code` must have 1 to {} bytes", settings.code_bytes_max));
        }
        let inputs_bytes = serde_json::to_string(&asked.inputs).map_or(0, |text| text.len());
        if inputs_bytes > settings.inputs_bytes_max {
            return Err(format!("`inputs` have {inputs_bytes} bytes, more than the {} allowed; give less of them", settings.inputs_bytes_max));
        }
        Ok(())
    }
}

enum EarlierCall {
    /// The same call was made before a crash.
    Ran(CodeResult),
    Files {
        root: Root,
        files: Vec<FileBytes>,
        left_out: usize,
    },
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, ToolError> + Send + 'static) -> Result<T, String> {
    match tokio::task::spawn_blocking(work).await {
        Ok(end) => end.map_err(|mistake| mistake.0),
        Err(_) => Err("the disk work broke off; try again".to_owned()),
    }
}

fn result_text(ran: &CodeResult) -> String {
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
    } else if ran.stdout.is_empty() && ran.files.is_empty() {
        line("It ran, printed nothing and ended without a value: print something, or end with an expression.");
    }
    for file in &ran.files {
        line(&format!("{} is written and holds {} bytes", file.path, file.bytes));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tool_declares_its_annotations() {
        let tools = Code::tool_router().list_all();
        let [tool] = tools.as_slice() else { panic!("{tools:?}") };
        let hints = tool.annotations.as_ref().unwrap();
        assert_eq!((&*tool.name, hints.read_only_hint, hints.open_world_hint), ("run_python", Some(false), Some(false)));
        let schema = serde_json::to_value(tool.output_schema.as_deref().unwrap()).unwrap();
        assert!(schema["properties"]["stdout"].is_object() && schema["properties"].get("walls").is_none(), "{schema:#}");
        assert_eq!(serde_json::to_value(&*tool.input_schema).unwrap()["required"], serde_json::json!(["code"]));
    }

    #[test]
    fn the_text_of_a_result_names_the_next_step() {
        let ran = |stdout: &str, result: Value, error: Option<&str>| CodeResult {
            outcome: if error.is_some() { Outcome::Error } else { Outcome::Ok },
            stdout: stdout.into(),
            result,
            error: error.map(Into::into),
            files: Vec::new(),
            milliseconds: 1,
            walls_missing: Vec::new(),
            walls: Restrictions::default(),
        };
        let cases = [
            (ran("a", Value::Null, None), "a"),
            (ran("a\n", 3.into(), None), "a\n=> 3"),
            (ran("a", Value::Null, Some("Oops")), "a\nOops"),
            (ran("", Value::Null, None), "It ran, printed nothing and ended without a value: print something, or end with an expression."),
        ];
        for (ran, wanted) in cases {
            assert_eq!(result_text(&ran), wanted);
        }
    }
}
