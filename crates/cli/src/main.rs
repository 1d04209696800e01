//! The binary `baton`: parses the command line, runs the command, prints, and sets the exit code.
//!
//! Only code about the command line or the terminal belongs here. Configuration and wiring are in `service`, benchmarks and evaluations in
//! `measure`.

mod allocator;
mod answer;
mod approval;
mod archive;
mod command;
mod editor;
mod exit;
mod export;
mod find;
mod follow;
mod home;
mod listen_args;
mod log;
mod markdown;
mod notices;
mod plan;
mod question;
mod settings_table;
mod streamed;
mod style;
mod text_diff;
mod trace;
mod view;

use std::process::ExitCode;

use clap::Parser;
use service::GlobalArgs;

use command::Command;
use trace::Traces;

/// Answers questions and carries out research with models, tools and your documents, and checks every sentence against its sources. A run survives a
/// crash, and can be watched, stopped, resumed, replayed and forked.
#[derive(Parser)]
#[command(name = "baton", version, after_help = exit::with_codes(AFTER_HELP), disable_help_subcommand = true, max_term_width = 110)]
struct Baton {
    #[command(flatten)]
    globals: GlobalArgs,
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Examples:
  baton ask \"What is a relay baton?\"      ask, watch, and read the answer
  baton serve                             the page: http://127.0.0.1:8080
  baton chat                              talk: one thread, follow-ups, /commands
  baton doctor                            which model is used, and how to get a better one
  baton models pull                       fetch the embedded model now, for when there is no network
  baton runs list                         what ran, and how it went
  baton runs show 1f3a                    any unique part of an id will do
  baton runs resume --all                 go on with everything a crash interrupted
  baton bench engine                      measure this machine

Environment:
  ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY, OLLAMA_HOST    models of others
  BATON_DB, BATON_STORE, BATON_CONFIG    as --db, --store, --config
  BATON_NO_PULL                          as --no-pull
  BATON_TOKEN                            as --token of `serve`
  BATON_LOG                              what to log to stderr, e.g. debug or engine=trace
  BATON_LOG_FORMAT=json                  a JSON object a line, with times and run ids
  OTEL_EXPORTER_OTLP_ENDPOINT            a collector of traces, e.g. http://localhost:4318
  NO_COLOR                               no colours";

fn main() -> ExitCode {
    allocator::limit_arenas();
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, command, rest @ ..] = arguments.as_slice() {
        match command.as_str() {
            tools::code::WORKER_COMMAND => tools::code::worker_main(rest),
            tools::reader::READER_COMMAND => tools::reader::reader_main(rest),
            _ => {}
        }
    }
    take_cores();
    let baton = Baton::parse();
    service::notices::install(Box::new(notices::TerminalNotices::default()));
    let traces = Traces::from_environment();
    log::to_stderr(&traces);
    let exit = match baton.command.run(&baton.globals) {
        Ok(exit) => exit,
        Err(trouble) => exit::print_error(&trouble),
    };
    traces.finish();
    exit.code()
}

/// Number of threads of the embedded model. Its kernels read it once, from the environment.
#[allow(unsafe_code, reason = "the environment may be set as long as there is one thread, and here there is")]
fn take_cores() {
    use embedded_model::threads;
    if std::env::var_os(threads::VARIABLE).is_none() {
        // SAFETY: called by `main` before it starts any thread; only the allocator limit and the check for worker commands run before.
        unsafe { std::env::set_var(threads::VARIABLE, threads::wanted().to_string()) };
    }
}
