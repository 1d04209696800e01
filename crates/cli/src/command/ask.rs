use std::io::Read as _;

use engine::Order;
use flows::input::Mind;
use graph::{Budget, ThreadId};
use serde_json::{Value, json};

use super::budget;
use crate::config::Config;
use crate::exit::{Exit, Result, Trouble};
use crate::follow::Follow;
use crate::mind::Thinking;
use crate::place::Place;
use crate::wiring;

/// Ask a question: run a flow here, watch it work, print its answer
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Ask {
    /// The question; `-` reads it from stdin. For the flow team: topics with `;` between them
    #[arg(required = true, num_args = 1.., value_name = "QUESTION")]
    question: Vec<String>,
    /// Which flow to run; `baton flows` lists them [default: auto]
    #[arg(long)]
    flow: Option<String>,
    /// The thread it belongs to [default: a new one]
    #[arg(long)]
    thread: Option<String>,
    /// Have a person agree to the plan before it is carried out
    #[arg(long)]
    approve: bool,
    /// Remove sentences that nothing supports, and not only mark them
    #[arg(long)]
    strict: bool,
    /// What the run may spend: tokens=N,usd=X,time=30s,calls=N, any of them
    #[arg(long, value_parser = budget::parse, value_name = "LIMITS")]
    budget: Option<Budget>,
    #[command(flatten)]
    thinking: Thinking,
    /// Print one JSON object a line: the events, then how it ended
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
  baton ask \"…\" --json | jq -r 'select(.event == \"replied\") | .task'

Ctrl-C stops gracefully; `baton runs resume RUN` goes on where it was.";

impl Ask {
    pub(crate) fn run(self, place: &Place) -> Result<Exit> {
        let question = self.question()?;
        let flow = self.flow(place)?;
        wiring::block_on(async {
            let (engine, mind) = wiring::new_engine(place, &self.thinking, self.json).await?;
            let thread = self.thread()?;
            let has_docs = place.script.is_none() && !self.thinking.servers.documents(&Config::read(place)?).is_empty();
            let input = self.input(&flow, &question, mind, has_docs)?;
            let title = Some(question.chars().take(TITLE_CHARS_MAX).collect());
            let run = engine::fresh();
            let budget = self.budget.unwrap_or_default();
            let order = Order { thread, run: Some(run.clone()), budget, title, ..Order::new(&flow, input) };
            let follow = Follow::new(&engine, &run, self.json)?;
            engine.start(order).await?;
            follow.until_rest().await
        })
    }

    fn question(&self) -> Result<String> {
        let question = match self.question.as_slice() {
            [dash] if dash == "-" => std::io::read_to_string(std::io::stdin().take(QUESTION_BYTES_MAX))?,
            words => words.join(" "),
        };
        match question.trim() {
            "" => Err(Trouble::Usage("what is the question? e.g. baton ask \"What is a relay baton?\"".into())),
            question => Ok(question.to_owned()),
        }
    }

    fn thread(&self) -> Result<Option<ThreadId>> {
        match self.thread.as_deref().map(str::trim) {
            Some("") => Err(Trouble::Usage("a thread needs a name; leave --thread away for a new one".into())),
            thread => Ok(thread.map(ThreadId::from)),
        }
    }

    /// Known before anything is made ready for it.
    fn flow(&self, place: &Place) -> Result<String> {
        // A script plays the samples' world.
        let usual = if place.script.is_some() { "research" } else { "auto" };
        let flow = self.flow.as_deref().unwrap_or(usual);
        let known = wiring::flows()?;
        if !known.contains_key(flow) {
            return Err(engine::EngineError::NoFlow { flow: flow.into(), known: known.into_keys().collect() }.into());
        }
        Ok(flow.to_owned())
    }

    /// What each flow wants to be told. What was said and learnt before is the engine's to add.
    fn input(&self, flow: &str, question: &str, mind: Mind, has_docs: bool) -> Result<Value> {
        match (flow, self.approve) {
            ("team" | "direct" | "chat" | "reason", true) => {
                Err(Trouble::Usage(format!("the flow {flow} asks nobody; --approve goes with --flow search, panel or auto")))
            }
            ("team", false) => {
                let topics: Vec<&str> = question.split([';', '\n']).map(str::trim).filter(|topic| !topic.is_empty()).collect();
                Ok(json!({ "topics": topics }))
            }
            ("research", approve) => Ok(json!({ "question": question, "approve": approve })),
            (_, approve) => {
                let mut input = json!({
                    "question": question,
                    "model": mind,
                    "docs": has_docs,
                    "approve": if approve { "plan" } else { "none" },
                    "settings": (flow == "auto").then(|| json!({ "flows": BEHIND_THE_FRONT_DOOR })),
                });
                // Left out, it is what the user prefers.
                if self.strict {
                    input["strict"] = json!(true);
                }
                Ok(input)
            }
        }
    }
}

/// What `auto` may choose from.
const BEHIND_THE_FRONT_DOOR: [&str; 5] = ["direct", "search", "chat", "reason", "panel"];

const TITLE_CHARS_MAX: usize = 120;

/// The limit of a run's input is the graph's; this one only keeps a wrong file from filling the memory.
const QUESTION_BYTES_MAX: u64 = 8 << 20;
