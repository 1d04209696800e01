use std::io::Read as _;

use engine::Order;
use graph::{Budget, ThreadId};
use serde_json::{Value, json};

use super::budget;
use crate::exit::{Exit, Result, Trouble};
use crate::follow::Follow;
use crate::place::Place;
use crate::wiring;

/// Ask a question: run a flow here, watch it work, print its answer
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Ask {
    /// The question; `-` reads it from stdin. For the flow team: topics with `;` between them
    #[arg(required = true, num_args = 1.., value_name = "QUESTION")]
    question: Vec<String>,
    /// Which flow to run; `baton flows` lists them
    #[arg(long, default_value = "research")]
    flow: String,
    /// The thread it belongs to [default: a new one]
    #[arg(long)]
    thread: Option<String>,
    /// Have a person agree before the answer is written
    #[arg(long)]
    approve: bool,
    /// What the run may spend: tokens=N,usd=X,time=30s,calls=N, any of them
    #[arg(long, value_parser = budget::parse, value_name = "LIMITS")]
    budget: Option<Budget>,
    /// Print one JSON object a line: the events, then how it ended
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
The answer goes to stdout, everything else to stderr.

Examples:
  baton ask \"What is a relay baton?\"
  baton ask \"What is a relay baton?\" --approve --budget usd=0.05,time=2m
  baton ask --flow team \"batons; relays; runners\"
  baton ask \"…\" --json | jq -r 'select(.event == \"replied\") | .task'

Ctrl-C stops gracefully; `baton runs resume RUN` goes on where it was.";

impl Ask {
    pub(crate) fn run(self, place: &Place) -> Result<Exit> {
        let order = self.order()?;
        wiring::block_on(async {
            let engine = wiring::new_engine(place)?;
            if !self.json {
                wiring::say_sample(place);
            }
            let run = engine.start(order).await?;
            Follow::new(&engine, &run, self.json)?.until_rest().await
        })
    }

    fn order(&self) -> Result<Order> {
        let question = match self.question.as_slice() {
            [dash] if dash == "-" => std::io::read_to_string(std::io::stdin().take(QUESTION_BYTES_MAX))?,
            words => words.join(" "),
        };
        let question = question.trim();
        if question.is_empty() {
            return Err(Trouble::Usage("what is the question? e.g. baton ask \"What is a relay baton?\"".into()));
        }
        let thread = match self.thread.as_deref().map(str::trim) {
            Some("") => return Err(Trouble::Usage("a thread needs a name; leave --thread away for a new one".into())),
            thread => thread.map(ThreadId::from),
        };
        let budget = self.budget.unwrap_or_default();
        Ok(Order { thread, budget, title: Some(question.chars().take(120).collect()), ..Order::new(&self.flow, self.input(question)?) })
    }

    /// What each flow wants to be told.
    fn input(&self, question: &str) -> Result<Value> {
        match (self.flow.as_str(), self.approve) {
            ("team", true) => Err(Trouble::Usage("the flow team asks nobody; --approve goes with --flow research".into())),
            ("team", false) => {
                let topics: Vec<&str> = question.split([';', '\n']).map(str::trim).filter(|topic| !topic.is_empty()).collect();
                Ok(json!({ "topics": topics }))
            }
            (_, approve) => Ok(json!({ "question": question, "approve": approve })),
        }
    }
}

/// The limit of a run's input is the graph's; this one only keeps a wrong file from filling the memory.
const QUESTION_BYTES_MAX: u64 = 8 << 20;
