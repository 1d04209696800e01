//! From what a user says to the run that answers it; the same for one question and for a session.

use engine::{Door, Order};
use flows::input::ModelProfile;
use graph::{ALLOW_ALL, Budget, Graph, RunContext, ThreadId};
use serde_json::{Map, Value, json};

use crate::command::budget;
use crate::config::Config;
use crate::exit::{Result, Trouble};
use crate::mind::Thinking;
use crate::place::Place;
use crate::settings;
use crate::wiring;

/// How a user wants to be answered: the options of one question and of a session.
#[derive(clap::Args)]
pub(crate) struct Wishes {
    /// Which flow answers; `baton flows` lists them [default: auto, which picks one for each question]
    #[arg(long)]
    pub(crate) flow: Option<String>,
    /// The thread it belongs to [default: a new one]
    #[arg(long)]
    thread: Option<String>,
    /// Have a person agree to the plan, or change it, before it is carried out
    #[arg(long)]
    pub(crate) approve: bool,
    /// Remove sentences that nothing supports, and not only mark them
    #[arg(long)]
    pub(crate) strict: bool,
    /// What a run may spend: tokens=N,usd=X,time=30s,calls=N, any of them
    #[arg(long, value_parser = budget::parse, value_name = "LIMITS")]
    budget: Option<Budget>,
    /// A tool (server.tool) or a server whose calls need no permission here; may be given several times
    #[arg(long, value_name = "TOOL_OR_SERVER")]
    allow: Vec<String>,
    /// Allow every tool call without asking; meant for a job in a sandbox that nobody attends
    #[arg(long)]
    yes: bool,
    /// A setting of the flow; `baton flows show FLOW` lists them. May be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    pub(crate) thinking: Thinking,
}

impl Wishes {
    /// The thread that was named.
    pub(crate) fn thread(&self) -> Result<Option<ThreadId>> {
        self.thread.as_deref().map(thread).transpose()
    }

    /// What `--set` says for this flow.
    pub(crate) fn settings(&self, flow: &str) -> Result<Map<String, Value>> {
        settings::parse_all(flow, &self.set)
    }

    /// A question asked with these options, and these settings of the flow.
    pub(crate) fn asking<'a>(
        &self,
        flow: &'a str,
        question: &'a str,
        thread: Option<ThreadId>,
        place: &Place,
        set: &Map<String, Value>,
    ) -> Result<Asking<'a>> {
        let config = Config::for_run(place)?;
        let has_docs = place.script.is_none() && !self.thinking.servers.documents(&config).is_empty();
        let (approve, strict) = (self.approve, self.strict.then_some(true));
        let settings = config.settings.settings_for(flow, &json!(set)).map_err(|error| Trouble::Usage(error.to_string()))?;
        let allowed = self.allowed(&config, place)?;
        Ok(Asking { flow, question, thread, approve, strict, budget: self.budget.unwrap_or_default(), has_docs, settings, allowed })
    }

    /// What needs no permission in these runs. A name that fits no server is a mistake.
    fn allowed(&self, config: &Config, place: &Place) -> Result<Vec<String>> {
        if place.script.is_none() && !self.allow.is_empty() {
            let servers = self.thinking.servers.names(place, config)?;
            self.allow.iter().try_for_each(|name| must_be_known(name, &servers))?;
        }
        let all = self.yes.then(|| ALLOW_ALL.to_owned());
        Ok(self.allow.iter().cloned().chain(all).collect())
    }
}

/// Whether a name is one of these servers, or a tool of one.
pub(crate) fn must_be_known(name: &str, servers: &[String]) -> Result<()> {
    let server = name.split_once('.').map_or(name, |(server, _)| server);
    match servers.iter().any(|known| known == server) {
        true => Ok(()),
        false => {
            Err(Trouble::Usage(format!("there is no server {server:?}, so {name:?} is none of its tools; the servers are: {}", servers.join(", "))))
        }
    }
}

pub(crate) fn thread(named: &str) -> Result<ThreadId> {
    match named.trim() {
        "" => Err(Trouble::Usage("a thread needs a name; leave --thread away for a new one".into())),
        name => Ok(ThreadId::from(name)),
    }
}

/// A question that is about to be answered.
pub(crate) struct Asking<'a> {
    /// One that there is; see [`flow`].
    pub(crate) flow: &'a str,
    pub(crate) question: &'a str,
    /// The thread it continues; a new one otherwise.
    pub(crate) thread: Option<ThreadId>,
    /// A person agrees to the plan.
    pub(crate) approve: bool,
    /// What the user prefers otherwise.
    pub(crate) strict: Option<bool>,
    pub(crate) budget: Budget,
    /// There are documents to answer from.
    pub(crate) has_docs: bool,
    /// As `Configured::settings_for` makes them.
    pub(crate) settings: Value,
    /// Tools and servers that need no permission in this run.
    pub(crate) allowed: Vec<String>,
}

/// The flow that was named, or the usual one. Known before anything is made ready for it.
pub(crate) fn flow(named: Option<&str>, place: &Place) -> Result<String> {
    // A script plays the samples' world.
    let usual = if place.script.is_some() { "research" } else { "auto" };
    let flow = named.unwrap_or(usual);
    let known = wiring::flows()?;
    if !known.contains_key(flow) {
        return Err(engine::EngineError::NoFlow { flow: flow.into(), known: known.into_keys().collect() }.into());
    }
    Ok(flow.to_owned())
}

/// Whether a flow can put its plan before a person, and if not, which ones can.
pub(crate) fn must_plan(flow: &str) -> Result<()> {
    let known = wiring::flows()?;
    if known.get(flow).is_some_and(can_plan) {
        return Ok(());
    }
    let others: Vec<&str> = known.values().filter(|graph| can_plan(graph)).map(Graph::name).collect();
    Err(Trouble::Usage(format!("the flow {flow} has no plan to approve; --approve goes with --flow {}", others.join(", "))))
}

/// Whether a flow can put its plan before a person. The front door passes the wish on to the flow it takes.
pub(crate) fn can_plan(graph: &Graph) -> bool {
    graph.name() == FRONT_DOOR.flow || nodes(graph).iter().any(|node| node.starts_with("approve"))
}

fn nodes(graph: &Graph) -> Vec<String> {
    let drawing = graph.json();
    drawing["nodes"].as_array().into_iter().flatten().filter_map(|node| node["name"].as_str().map(str::to_owned)).collect()
}

impl Asking<'_> {
    /// What to start. What was said and learnt before is the engine's to add.
    pub(crate) fn order(self, mind: ModelProfile) -> Result<Order> {
        if self.approve {
            must_plan(self.flow)?;
        }
        Ok(Order {
            title: Some(self.question.chars().take(TITLE_CHARS_MAX).collect()),
            budget: self.budget,
            thread: self.thread.clone(),
            context: RunContext { allowed: self.allowed.clone(), ..RunContext::default() },
            ..Order::new(self.flow, self.input(mind))
        })
    }

    /// What each flow wants to be told.
    fn input(&self, mind: ModelProfile) -> Value {
        match self.flow {
            "team" => {
                let topics: Vec<&str> = self.question.split([';', '\n']).map(str::trim).filter(|topic| !topic.is_empty()).collect();
                json!({ "topics": topics })
            }
            "research" => json!({ "question": self.question, "approve": self.approve }),
            _ => {
                let mut input = json!({
                    "question": self.question,
                    "model": mind,
                    "docs": self.has_docs,
                    "approve": if self.approve { "plan" } else { "none" },
                    "settings": self.settings,
                });
                // Left out, it is what the user prefers.
                if let Some(strict) = self.strict {
                    input["strict"] = json!(strict);
                }
                input
            }
        }
    }
}

/// Where a question goes that names no flow.
pub(crate) const FRONT_DOOR: Door = Door { flow: "auto", steps: (1, 4) };

/// What `auto` may choose from.
pub(crate) const BEHIND_THE_FRONT_DOOR: [&str; 6] = ["direct", "search", "chat", "reason", "panel", "supervise"];

const TITLE_CHARS_MAX: usize = 120;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flow_with_a_plan_can_have_it_approved_and_the_others_say_which_can() {
        for flow in ["auto", "panel", "reason", "research", "search", "supervise"] {
            assert!(must_plan(flow).is_ok(), "{flow}");
        }
        for flow in ["chat", "direct", "team", "panel_expert"] {
            let why = must_plan(flow).unwrap_err().to_string();
            assert!(why.contains("--flow auto, panel, reason, research, search, supervise"), "{why}");
        }
    }
}
