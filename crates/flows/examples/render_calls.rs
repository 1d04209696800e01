//! Writes the model calls that flows make, for training data: the prompts are the flows' own, not copies of them.
//!
//! Reads one JSON object a line and writes one a line:
//!
//! ```text
//! {"flow": "direct", "input": {…}, "tools": {"docs.search": [reply, …]}, "models": [{…}, …]}
//!   -> {"call": {"purpose", "messages", "schema"}}          the first model call that `models` has no reply for
//!   -> {"output": …, "notes": {…}}                          the run ended before; notes tell what the flow made of the replies
//! ```
//!
//! A tool's last reply is repeated; a tool that is not named fails. `panel_critic` is a flow here as well.

use std::collections::HashMap;
use std::io::{BufRead, Write};

use graph::{Effect, Event, Failure, FailureKind, Graph, Next, Reply, Run, Start, Usage};
use serde::Deserialize;
use serde_json::{Map, Value, json};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    flow: String,
    input: Value,
    #[serde(default)]
    tools: HashMap<String, Vec<Value>>,
    #[serde(default)]
    models: Vec<Value>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut graphs = baton_flows::all()?;
    graphs.push(baton_flows::panel::drafts::critic()?);
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for (number, line) in (1..).zip(std::io::stdin().lock().lines()) {
        let line: Line = serde_json::from_str(&line?).map_err(|error| format!("line {number}: {error}"))?;
        let graph = graphs.iter().find(|graph| graph.name() == line.flow).ok_or_else(|| format!("line {number}: no flow {:?}", line.flow))?;
        let rendered = render(graph, line).unwrap_or_else(|why| json!({ "error": why }));
        writeln!(out, "{rendered}")?;
    }
    Ok(())
}

fn render(graph: &Graph, line: Line) -> Result<Value, String> {
    let mut run = Run::start(graph, Start::new(graph.name(), "thread", "run", line.input)).map_err(|error| error.to_string())?;
    let mut models = line.models.into_iter();
    let mut calls: HashMap<String, usize> = HashMap::new();
    let outcome = loop {
        let due: Vec<_> = match run.next() {
            Next::Perform(jobs) => jobs.into_iter().map(|job| (job.task, job.attempt, (*job.effect).clone())).collect(),
            Next::Wait(_) => return Err("the run waits for a person".into()),
            Next::Await => return Err("the run waits for a reply".into()),
            Next::Done(outcome) => break (*outcome).clone(),
        };
        for (task, attempt, effect) in due {
            let result = match &effect {
                Effect::CallModel(call) => match models.next() {
                    Some(reply) => Ok(reply),
                    None => return Ok(json!({ "call": { "purpose": call.purpose, "messages": call.messages, "schema": call.schema } })),
                },
                Effect::CallTool(call) => {
                    let count = calls.entry(call.tool.clone()).or_default();
                    *count += 1;
                    let replies = line.tools.get(&call.tool);
                    let reply = replies.and_then(|replies| replies.get(*count - 1).or(replies.last()));
                    reply.cloned().ok_or_else(|| Failure::new(FailureKind::Refused, format!("{} is not there", call.tool)))
                }
                other => Err(Failure::new(FailureKind::Refused, format!("{} is not there", other.name()))),
            };
            let reply = Reply { result, usage: Usage::default(), took_us: 0, about: None };
            run.feed(task, attempt, reply).map_err(|error| error.to_string())?;
        }
    };
    let notes: Map<String, Value> = run
        .take_events()
        .into_iter()
        .filter_map(|numbered| match numbered.event {
            Event::Noted { name, value, .. } => Some((name, value)),
            _ => None,
        })
        .collect();
    Ok(json!({ "output": outcome.output(), "notes": notes }))
}
