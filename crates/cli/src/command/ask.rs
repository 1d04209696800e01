use std::io::Read as _;

use service::global_args::GlobalArgs;
use service::run_request::{self, AskOptions};
use service::wiring;

use crate::exit::{self, Exit, Result, ServiceError};
use crate::follow::{self, OnInterrupt};

/// Ask a question: run a flow here, watch it work, print its answer
#[derive(clap::Args)]
#[command(after_help = exit::with_codes(AFTER_HELP))]
pub(crate) struct Ask {
    /// The question; `-` reads it from stdin. For the flow team: topics separated by `;`
    #[arg(required = true, num_args = 1.., value_name = "QUESTION")]
    question: Vec<String>,
    #[command(flatten)]
    options: AskOptions,
    /// Print one JSON object per line: the events, then the result
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
The answer goes to stdout as it comes, everything else to stderr.

Examples:
  baton ask \"What is a write-ahead log?\"
  baton ask \"And what is it called in Postgres?\" --thread wal
  baton ask \"…\" --model ollama/qwen3:4b --budget tokens=4000,time=2m
  baton ask \"…\" --record tape.jsonl          then, without any model: --replay tape.jsonl
  baton ask \"…\" --flow search --approve     shows the plan first; y, n, or e to change it in $EDITOR
  baton ask \"…\" --flow search --set max_turn_iterations=3 --set enabled_tools=docs,calc
  baton ask \"…\" --json | jq -r 'select(.event == \"replied\") | .task'

Ctrl-C stops gracefully; `baton runs resume RUN` goes on where it was.";

impl Ask {
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result<Exit> {
        let question = words(&self.question, "what is the question? e.g. baton ask \"What is a relay baton?\"")?;
        let options = &self.options;
        let flow = run_request::flow(options.flow.as_deref(), globals)?;
        if options.approve {
            run_request::check_can_approve(&flow, &globals.flows)?;
        }
        let request = options.request(&flow, &question, options.thread()?, globals, &options.settings(&flow, globals)?)?;
        wiring::block_on(async {
            let (engine, profile) = wiring::new_engine(globals, &options.model_options, self.json).await?;
            let order = request.order(profile)?;
            Ok(follow::drive(&engine, order, self.json, OnInterrupt::Stop).await?.1)
        })
    }
}

/// The words of a command, or stdin for `-`. `missing` is the error message if there are none.
pub(super) fn words(given: &[String], missing: &str) -> Result<String> {
    let question = match given {
        [dash] if dash == "-" => std::io::read_to_string(std::io::stdin().take(QUESTION_BYTES_MAX))?,
        words => words.join(" "),
    };
    match question.trim() {
        "" => Err(ServiceError::Usage(missing.to_owned())),
        question => Ok(question.to_owned()),
    }
}

/// The graph limits the input of a run; this only keeps a wrong file from filling the memory.
const QUESTION_BYTES_MAX: u64 = 8 << 20;
