//! What authors of flows look at in a run: its journal, its prompts, its state at a step, and what its nodes used.

use std::io::Write as _;

use engine::{Engine, History, Steps, changes};
use graph::{Effect, Event, RunId};
use serde_json::{Value, json};
use store::JournalLine;
use terminal::{BOLD, DIM, GREEN, RED, paint, took};

use crate::exit::{Exit, Result, ServiceError};

/// Lines that are read at once.
const PAGE_LINES: usize = 500;

pub(super) struct Inspected<'a> {
    pub(super) engine: &'a Engine,
    pub(super) run: &'a RunId,
    pub(super) as_json: bool,
}

impl Inspected<'_> {
    pub(super) async fn journal(&self) -> Result<Exit> {
        let mut out = std::io::stdout().lock();
        let mut from = 0;
        loop {
            let lines = self.engine.store().journal(self.run, from, PAGE_LINES).await?;
            for line in &lines {
                out.write_all(&line.bytes)?;
                out.write_all(b"\n")?;
            }
            if JournalLine::is_last_page(&lines, PAGE_LINES) {
                return Ok(Exit::Well);
            }
            from += lines.len() as u64;
        }
    }

    pub(super) async fn prompts(&self) -> Result<Exit> {
        let past = History::of(&**self.engine.store(), self.engine.flows(), self.run).await?;
        let mut out = anstream::stdout().lock();
        for numbered in &past.events {
            match &numbered.event {
                Event::Asked { task, attempt, effect, .. } => {
                    let Effect::CallModel(call) = &**effect else { continue };
                    if self.as_json {
                        writeln!(out, "{}", json!({ "task": task, "attempt": attempt, "call": call }))?;
                        continue;
                    }
                    writeln!(out, "{} {}", paint(BOLD, format!("{task} {}", call.purpose)), paint(DIM, format!("attempt {attempt}")))?;
                    for message in &call.messages {
                        writeln!(out, "{}\n{}\n", paint(DIM, format!("--- {}", message.role)), evidence::visible(&message.content))?;
                    }
                    if let Some(schema) = &call.schema {
                        writeln!(out, "{}\n{schema:#}\n", paint(DIM, "--- schema"))?;
                    }
                }
                Event::Replied { task, attempt, reply, .. } if reply.about.as_ref().is_some_and(|about| about.get("model").is_some()) => {
                    let reply_text = reply.result.as_ref().map_or_else(ToString::to_string, as_text);
                    match self.as_json {
                        true => writeln!(out, "{}", json!({ "task": task, "attempt": attempt, "reply": reply }))?,
                        false => writeln!(out, "{}\n{}\n", paint(DIM, format!("--- reply to {task}")), evidence::visible(&reply_text))?,
                    }
                }
                _ => {}
            }
        }
        Ok(Exit::Well)
    }

    pub(super) async fn state(&self, step: u64) -> Result<Exit> {
        let steps = self.steps().await?.steps;
        let Some(at) = steps.iter().position(|one| one.step == step) else {
            let last = steps.last().map_or(0, |last| last.step);
            return Err(ServiceError::Usage(format!("the run has no step {step}; its steps are 0 to {last}")));
        };
        let here = &steps[at];
        let changed = at.checked_sub(1).map(|before| changes(&steps[before].state, &here.state)).unwrap_or_default();
        let mut out = anstream::stdout().lock();
        if self.as_json {
            let changed: Vec<Value> = changed.iter().map(|one| json!({ "path": one.path, "before": one.before, "after": one.after })).collect();
            writeln!(out, "{}", json!({ "step": step, "node": here.node, "state": here.state, "changes": changed }))?;
            return Ok(Exit::Well);
        }
        writeln!(out, "{}\n{:#}", paint(BOLD, format!("step {step}: {}", here.node)), here.state)?;
        if !changed.is_empty() {
            writeln!(out, "\n{}", paint(BOLD, "changed by the step before"))?;
        }
        for one in changed {
            writeln!(out, "{}", one.path)?;
            for (sign, style, value) in [("-", RED, one.before), ("+", GREEN, one.after)] {
                if let Some(value) = value {
                    writeln!(out, "  {}", paint(style, format!("{sign} {}", evidence::visible(&value.to_string()))))?;
                }
            }
        }
        Ok(Exit::Well)
    }

    pub(super) async fn nodes(&self) -> Result<Exit> {
        let steps = self.steps().await?.steps;
        let mut names: Vec<&str> = Vec::new();
        for step in &steps {
            if !names.contains(&step.node.as_str()) {
                names.push(&step.node);
            }
        }
        let mut out = anstream::stdout().lock();
        for name in names {
            let own = || steps.iter().filter(|step| step.node == name);
            let used = own().fold(graph::Usage::default(), |sum, step| sum.plus(step.used));
            let took_us: u64 = own().map(|step| step.took_us).sum();
            let visits = own().count();
            match self.as_json {
                true => writeln!(out, "{}", json!({ "node": name, "visits": visits, "used": used, "took_us": took_us }))?,
                false => writeln!(out, "{:<20} {visits:>3}x  {}, {}", paint(BOLD, name), terminal::spent(&used), took(took_us))?,
            }
        }
        Ok(Exit::Well)
    }

    async fn steps(&self) -> Result<Steps> {
        Ok(Steps::of(&**self.engine.store(), self.engine.flows(), self.run).await?)
    }
}

fn as_text(value: &Value) -> String {
    value.as_str().map_or_else(|| format!("{value:#}"), str::to_owned)
}
