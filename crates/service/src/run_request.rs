//! From a question and its options to its run; the same for a single question and a session.

use engine::Order;
use flows::input::{ModelProfile, Question};
use flows::{Descriptor, Registry, Visibility};
use graph::{ALLOW_ALL, Breakpoint, Budget, RunContext, ThreadId};
use serde_json::{Map, Value, json};

use crate::budget;
use crate::config::Config;
use crate::error::{Result, ServiceError};
use crate::global_args::GlobalArgs;
use crate::model_options::ModelOptions;
use crate::settings;

/// Options of a single question and of a session.
#[derive(clap::Args)]
pub struct AskOptions {
    /// The flow that answers; `baton flows` lists them [default: auto, which picks one for each question]
    #[arg(long)]
    pub flow: Option<String>,
    /// The thread it belongs to [default: a new one]
    #[arg(long)]
    thread: Option<String>,
    /// Let a person approve or change the plan before it is carried out
    #[arg(long)]
    pub approve: bool,
    /// Remove unsupported sentences instead of only marking them
    #[arg(long)]
    pub strict: bool,
    /// Budget of a run: tokens=N,usd=X,time=30s,calls=N, any of them
    #[arg(long, value_parser = budget::parse, value_name = "LIMITS")]
    budget: Option<Budget>,
    /// A tool (server.tool) or a server whose calls need no permission here; may be repeated
    #[arg(long, value_name = "TOOL_OR_SERVER")]
    allow: Vec<String>,
    /// Allow every tool call without asking; meant for unattended jobs in a sandbox
    #[arg(long)]
    pub yes: bool,
    /// Wait before this node of the flow until a person continues the run, `*` for every node; may be repeated
    #[arg(long = "break", value_name = "NODE")]
    breakpoints: Vec<String>,
    /// A setting of the flow; `baton flows show FLOW` lists them. May be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    pub model_options: ModelOptions,
}

impl AskOptions {
    /// The named thread.
    pub fn thread(&self) -> Result<Option<ThreadId>> {
        self.thread.as_deref().map(thread).transpose()
    }

    /// The settings from `--set` for this flow.
    pub fn settings(&self, flow: &str, globals: &GlobalArgs) -> Result<Map<String, Value>> {
        settings::parse_all(&globals.flows, flow, &self.set)
    }

    /// A question with these options, and these settings of the flow.
    pub fn request<'a>(
        &self,
        flow: &'a str,
        question: &'a str,
        thread: Option<ThreadId>,
        globals: &'a GlobalArgs,
        set: &Map<String, Value>,
    ) -> Result<RunRequest<'a>> {
        let config = Config::for_run(globals)?;
        let has_docs = globals.script.is_none() && !self.model_options.servers.documents(&config).is_empty();
        let (approve, strict) = (self.approve, self.strict.then_some(true));
        let settings = config.settings.settings_for(flow, &json!(set)).map_err(|error| ServiceError::Usage(error.to_string()))?;
        let allowed = self.allowed(&config, globals)?;
        Ok(RunRequest {
            flow: find(flow, globals)?,
            registry: &globals.flows,
            question,
            thread,
            approve,
            strict,
            budget: self.budget.unwrap_or_default(),
            has_docs,
            settings,
            allowed,
            breakpoints: self.breakpoints.clone(),
        })
    }

    /// Permissions of these runs. A name that matches no server is an error.
    fn allowed(&self, config: &Config, globals: &GlobalArgs) -> Result<Vec<String>> {
        if globals.script.is_none() && !self.allow.is_empty() {
            let servers = self.model_options.servers.names(globals, config)?;
            self.allow.iter().try_for_each(|name| check_server_is_known(name, &servers))?;
        }
        let all = self.yes.then(|| ALLOW_ALL.to_owned());
        Ok(self.allow.iter().cloned().chain(all).collect())
    }
}

/// Whether a name is one of these servers, or a tool of one.
pub fn check_server_is_known(name: &str, servers: &[String]) -> Result<()> {
    let server = name.split_once('.').map_or(name, |(server, _)| server);
    match servers.iter().any(|known| known == server) {
        true => Ok(()),
        false => Err(ServiceError::Usage(format!(
            "there is no server {server:?}, so {name:?} is none of its tools; the servers are: {}",
            servers.join(", ")
        ))),
    }
}

/// A thread by the name that the user gave.
pub fn thread(named: &str) -> Result<ThreadId> {
    match named.trim() {
        "" => Err(ServiceError::Usage("a thread needs a name; omit --thread for a new one".into())),
        name => Ok(ThreadId::from(name)),
    }
}

/// A question for which a run is to be started.
pub struct RunRequest<'a> {
    /// The flows that exist.
    pub registry: &'a Registry,
    /// The flow to run.
    pub flow: &'a Descriptor,
    /// The question.
    pub question: &'a str,
    /// The thread it continues; a new one otherwise.
    pub thread: Option<ThreadId>,
    /// A person approves the plan.
    pub approve: bool,
    /// `None` means the user's preference.
    pub strict: Option<bool>,
    /// Limits of the run.
    pub budget: Budget,
    /// There are documents to answer from.
    pub has_docs: bool,
    /// From `Configured::settings_for`.
    pub settings: Value,
    /// Tools and servers that need no permission in this run.
    pub allowed: Vec<String>,
    /// Nodes before which it waits.
    pub breakpoints: Vec<String>,
}

/// The named flow, or the default one. Checked before anything else is prepared.
pub fn flow(named: Option<&str>, globals: &GlobalArgs) -> Result<String> {
    // A script replaces the tools that the samples call.
    let default = if globals.script.is_some() { globals.flows.default_sample() } else { globals.flows.default_flow() };
    let name = named.or(default.map(|flow| flow.name)).unwrap_or_default();
    Ok(find(name, globals)?.name.to_owned())
}

fn find<'p>(flow: &str, globals: &'p GlobalArgs) -> Result<&'p Descriptor> {
    // Parts of other flows are not offered.
    let known = || globals.flows.iter().filter(|flow| flow.visibility == Visibility::Listed).map(|flow| flow.name.to_owned()).collect();
    globals.flows.get(flow).ok_or_else(|| engine::EngineError::NoFlow { flow: flow.into(), known: known() }.into())
}

/// Whether a flow can ask a person to approve its plan; the error names those that can.
pub fn check_can_approve(flow: &str, registry: &Registry) -> Result<()> {
    if registry.get(flow).is_some_and(|flow| registry.can_approve(flow)) {
        return Ok(());
    }
    let mut others: Vec<&str> = registry.iter().filter(|flow| registry.can_approve(flow)).map(|flow| flow.name).collect();
    others.sort_unstable();
    Err(ServiceError::Usage(format!("the flow {flow} has no plan to approve; --approve goes with --flow {}", others.join(", "))))
}

impl RunRequest<'_> {
    /// The order for the engine, which adds the notes of earlier runs.
    pub fn order(self, model: ModelProfile) -> Result<Order> {
        if self.approve {
            check_can_approve(self.flow.name, self.registry)?;
        }
        let question =
            Question { text: self.question, model, docs: self.has_docs, approve: self.approve, strict: self.strict, settings: &self.settings };
        Ok(Order {
            title: Some(self.question.chars().take(TITLE_CHARS_MAX).collect()),
            budget: self.budget,
            thread: self.thread.clone(),
            context: RunContext {
                allowed: self.allowed.clone(),
                breakpoints: self.breakpoints.iter().map(|node| Breakpoint::new(node.as_str())).collect(),
                ..RunContext::default()
            },
            ..Order::new(self.flow.name, self.flow.input_for(&question))
        })
    }
}

const TITLE_CHARS_MAX: usize = 120;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flow_with_a_plan_can_have_it_approved_and_the_others_name_those_that_can() {
        let registry = Registry::default();
        let planning = ["auto", "panel", "reason", "report", "research", "search", "supervise"];
        for flow in planning {
            assert!(check_can_approve(flow, &registry).is_ok(), "{flow}");
        }
        for flow in ["chat", "direct", "team", "panel_expert"] {
            let why = check_can_approve(flow, &registry).unwrap_err().to_string();
            let named: Vec<&str> = why.split_once("--flow ").unwrap().1.split(", ").collect();
            assert!(named.is_sorted() && planning.iter().all(|flow| named.contains(flow)) && !named.contains(&flow), "{why}");
        }
    }
}
