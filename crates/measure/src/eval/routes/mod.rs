//! `baton eval routes`: how often `auto` picks the right flow, on our own labelled requests.
//!
//! Each request runs through the real flow `auto` until it starts the chosen flow: the tools of the request are listed to it, and its model
//! calls are made. `dev.jsonl` may be inspected while the router is changed; `held.jsonl` was written before and is only measured.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anstyle::Style;
use effects::{EffectHandler, Progress};
use flows::auto::classify::FLOWS;
use flows::auto::{Choice, DecidedBy, Router};
use flows::input::ModelProfile;
use graph::{Effect, Event, Failure, FailureKind, Graph, Message, Next, Reply, Run, Start};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use service::global_args::GlobalArgs;
use service::model_options::ModelOptions;
use service::wiring;
use service::{Result, ServiceError};
use terminal::remark;
use terminal::{BOLD, DIM, Table, paint};

/// Flows for requests: how often `auto` picks the right one
#[derive(clap::Args)]
#[command(after_help = "\
The set that comes with Baton has a split for development and two that are only measured. A set of your own has one JSON object a line: request,
flows (those that are right), and if you like language, split, history, docs and tools (names of sets in the built-in catalogue; [] for none).
`accuracy` is that of the whole router; `rules_only` counts what no rule decides as wrong; `classifier` asks no model.

Examples:
  baton eval routes --rules-only
  baton eval routes --model embedded --split held --json
  baton eval routes --data mine.jsonl --router model --model ollama/llama3.2")]
pub struct Routes {
    /// Requests to use instead of the built-in ones, as JSON lines
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// The model for requests where the classifier is unsure [default: see `baton doctor`]
    #[arg(long, value_name = "MODEL", conflicts_with = "rules_only")]
    model: Option<String>,
    /// Use no model: rules and classifier alone
    #[arg(long)]
    rules_only: bool,
    /// What decides where no rule does: the classifier, the model, or both
    #[arg(long, value_enum, default_value = "both", conflicts_with = "rules_only")]
    router: RouterArg,
    /// Only the requests of this split: dev, held or fresh
    #[arg(long, value_name = "SPLIT")]
    split: Option<String>,
    /// Only N of each half, spread over it
    #[arg(long, value_name = "N")]
    requests: Option<usize>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum RouterArg {
    Both,
    Classifier,
    Model,
}

const DEV: &str = include_str!("dev.jsonl");
const HELD: &str = include_str!("held.jsonl");
/// Written without knowledge of the other sets and of the classifier's training data, and not used for training or tuning.
const FRESH: &str = include_str!("fresh.jsonl");
/// Splits that are only measured: their requests are not shown.
const HIDDEN: [&str; 2] = ["held", "fresh"];
const TOOLS: &str = include_str!("tools.json");
/// A larger file is not a set of requests.
const DATA_BYTES_MAX: u64 = 16 << 20;

/// One labelled request.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    #[serde(default)]
    id: String,
    #[serde(default = "no_split")]
    split: String,
    #[serde(default = "no_language")]
    language: String,
    request: String,
    /// The right flows; it is counted under the first.
    flows: Vec<String>,
    #[serde(default)]
    history: Vec<Message>,
    #[serde(default)]
    docs: bool,
    /// Tool sets of the catalogue that are available.
    #[serde(default = "built_in_tools")]
    tools: Vec<String>,
}

fn no_split() -> String {
    "all".to_owned()
}

fn no_language() -> String {
    "unknown".to_owned()
}

fn built_in_tools() -> Vec<String> {
    vec!["builtin".to_owned()]
}

type Catalogue = BTreeMap<String, Vec<Value>>;

/// Right answers out of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
struct Share {
    requests: usize,
    right: usize,
    accuracy: f64,
}

impl Share {
    fn add(&mut self, is_right: bool) {
        self.requests += 1;
        self.right += usize::from(is_right);
        self.accuracy = self.right as f64 / self.requests as f64;
    }
}

/// Result of one half.
#[derive(Debug, Default, Serialize)]
struct Measured {
    requests: usize,
    /// Accuracy of the whole router.
    accuracy: f64,
    /// Rules alone; undecided requests count as wrong.
    rules_only: f64,
    /// Share of the requests decided by a rule.
    decided_by_rules: f64,
    /// Rules and classifier.
    classifier: f64,
    /// Requests that needed the model.
    asked_model: usize,
    /// The model's share of right decisions.
    model: Share,
    per_flow: BTreeMap<String, Share>,
    per_language: BTreeMap<String, Share>,
    /// Identifiers of misrouted requests.
    wrong: Vec<String>,
    seconds: f64,
    seconds_per_request: f64,
    #[serde(skip)]
    all: Share,
    #[serde(skip)]
    by_rules: Share,
    #[serde(skip)]
    by_classifier: Share,
    #[serde(skip)]
    ruled: usize,
}

/// The complete report.
#[derive(Debug, Serialize)]
struct Report {
    /// The model for requests where the classifier was unsure, if one was used.
    model: Option<String>,
    router: Router,
    #[serde(flatten)]
    halves: BTreeMap<String, Measured>,
}

impl Routes {
    pub(super) fn run(self, globals: &GlobalArgs) -> Result<()> {
        let catalogue: Catalogue = serde_json::from_str(TOOLS)?;
        let cases = self.cases(&catalogue)?;
        let report = wiring::block_on_all_cores(self.measure(globals, &cases, &catalogue))?;
        let mut out = anstream::stdout().lock();
        if self.json {
            writeln!(out, "{}", serde_json::to_string(&report)?)?;
        } else {
            table(&report).write(&mut out)?;
        }
        Ok(())
    }

    fn cases(&self, catalogue: &Catalogue) -> Result<Vec<Case>> {
        let (name, text) = match &self.data {
            None => ("the built-in set".to_owned(), format!("{DEV}{HELD}{FRESH}")),
            Some(path) => {
                let cannot = |error: std::io::Error| ServiceError::Usage(format!("{} cannot be read: {error}", path.display()));
                if std::fs::metadata(path).map_err(cannot)?.len() > DATA_BYTES_MAX {
                    return Err(ServiceError::Usage(format!("{} has more than {DATA_BYTES_MAX} bytes; split it", path.display())));
                }
                (path.display().to_string(), std::fs::read_to_string(path).map_err(cannot)?)
            }
        };
        let mut cases = Vec::new();
        for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
            let wrong = |why: String| ServiceError::Usage(format!("{name}, line {number}: {why}"));
            let mut case: Case = serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
            if case.id.is_empty() {
                case.id = number.to_string();
            }
            let unknown = case.flows.iter().find(|flow| !FLOWS.contains(&flow.as_str()));
            if let Some(flow) = unknown {
                return Err(wrong(format!("there is no flow {flow:?} to choose; there are {}", FLOWS.join(", "))));
            }
            if case.flows.is_empty() {
                return Err(wrong("`flows` names no flow".to_owned()));
            }
            if let Some(set) = case.tools.iter().find(|set| !catalogue.contains_key(*set)) {
                let known: Vec<&str> = catalogue.keys().map(String::as_str).collect();
                return Err(wrong(format!("there is no set of tools {set:?}; there are {}", known.join(", "))));
            }
            cases.push(case);
        }
        let splits: std::collections::BTreeSet<String> = cases.iter().map(|case| case.split.clone()).collect();
        if let Some(split) = &self.split {
            if !splits.contains(split) {
                let known: Vec<&str> = splits.iter().map(String::as_str).collect();
                return Err(ServiceError::Usage(format!("{name} has no split {split:?}; it has {}", known.join(", "))));
            }
            cases.retain(|case| case.split == *split);
        }
        if let Some(count) = self.requests {
            cases = splits.iter().flat_map(|split| spread(cases.iter().filter(|case| case.split == *split), count)).collect();
        }
        Ok(cases)
    }

    async fn measure(&self, globals: &GlobalArgs, cases: &[Case], catalogue: &Catalogue) -> Result<Report> {
        let graph = flows::auto::flow(&globals.flows).map_err(|error| ServiceError::Failed(format!("the flow auto is wrong: {error}")))?;
        let (handler, profile, name): (Option<Arc<dyn EffectHandler>>, ModelProfile, Option<String>) = if self.rules_only {
            (None, ModelProfile::default(), None)
        } else {
            let model_options = ModelOptions { model: self.model.clone(), ..ModelOptions::default() };
            let setup = Box::pin(wiring::prepare_effects(globals, &model_options, None, false)).await?;
            let name = setup.choice.as_ref().map_or_else(|| "script".to_owned(), |choice| choice.model.to_string());
            (Some(setup.handler), setup.profile, Some(name))
        };
        let router = match self.router {
            _ if self.rules_only => Router::Classifier,
            RouterArg::Both => Router::Both,
            RouterArg::Classifier => Router::Classifier,
            RouterArg::Model => Router::Model,
        };
        let mut halves: BTreeMap<String, Measured> = BTreeMap::new();
        for (number, case) in (1..).zip(cases) {
            let began = Instant::now();
            let routed = route(&graph, case, router, profile, handler.as_deref(), catalogue).await?;
            let took = began.elapsed();
            let bare = match router {
                Router::Classifier => routed.clone(),
                Router::Both | Router::Model => route(&graph, case, Router::Classifier, profile, None, catalogue).await?,
            };
            let is_right = |choice: &Choice| case.flows.contains(&choice.flow);
            // Held-out requests are not shown.
            let is_hidden = HIDDEN.contains(&case.split.as_str());
            let shown = if is_hidden { &case.id } else { &case.request };
            if handler.is_some() {
                remark(&paint(DIM, format!("{number} of {}: {shown} → {} ({:.1} s)", cases.len(), routed.choice.flow, took.as_secs_f64())));
            } else if !is_right(&routed.choice) && !is_hidden {
                remark(&paint(DIM, format!("{shown} → {}, expected {}", routed.choice.flow, case.flows.join(" or "))));
            }
            halves.entry(case.split.clone()).or_default().add(case, &routed, &bare.choice, took, is_right);
        }
        halves.values_mut().for_each(Measured::finish);
        Ok(Report { model: name, router, halves })
    }
}

/// Evenly spread, so that every flow and language is represented.
fn spread<'c>(cases: impl Iterator<Item = &'c Case>, count: usize) -> Vec<Case> {
    let all: Vec<&Case> = cases.collect();
    let count = count.min(all.len());
    (0..count).map(|at| all[at * all.len() / count].clone()).collect()
}

/// The decision of `auto`, and whether it used a model.
#[derive(Clone, Debug)]
struct Routed {
    choice: Choice,
    has_asked: bool,
}

/// Runs `auto` until it starts a flow.
async fn route(
    graph: &Graph,
    case: &Case,
    router: Router,
    profile: ModelProfile,
    handler: Option<&dyn EffectHandler>,
    catalogue: &Catalogue,
) -> Result<Routed> {
    let input = json!({
        "question": case.request,
        "history": case.history,
        "model": profile,
        "docs": case.docs,
        "settings": { "flows": FLOWS, "router": router },
    });
    let wrong = |why: String| ServiceError::Failed(format!("{}: {why}", case.id));
    let mut run = Run::start(graph, Start::new("auto", "eval", "eval", input)).map_err(|error| wrong(error.to_string()))?;
    let mut has_asked = false;
    loop {
        let jobs = match run.next() {
            Next::Perform(jobs) => jobs,
            Next::Done(outcome) => return Err(wrong(format!("it ended without choosing a flow: {outcome:?}"))),
            Next::Wait(_) | Next::Await => return Err(wrong("it waits for a person".to_owned())),
        };
        for job in jobs {
            let reply = match &*job.effect {
                Effect::CallAgent(_) => {
                    let chosen = run.take_events().into_iter().rev().find_map(|numbered| match numbered.event {
                        Event::Noted { name, value, .. } if name == "flow" => serde_json::from_value::<Choice>(value).ok(),
                        _ => None,
                    });
                    let choice = chosen.ok_or_else(|| wrong("it noted no choice".to_owned()))?;
                    return Ok(Routed { choice, has_asked });
                }
                Effect::CallTool(call) if call.tool == flows::toolbox::REGISTRY => Reply::ok(listing(case, &call.arguments, catalogue)),
                Effect::CallModel(_) => match handler {
                    Some(handler) => {
                        has_asked = true;
                        handler.perform(&job, &Progress::nowhere()).await
                    }
                    None => Reply::failed(Failure::new(FailureKind::Refused, "no model is asked")),
                },
                other => return Err(wrong(format!("it asked for {} {}", other.kind(), other.name()))),
            };
            run.feed(job.task, job.attempt, reply).map_err(|error| wrong(error.to_string()))?;
        }
    }
}

/// The tools of a request as `registry.tools` lists them: those that share words with it first, up to the requested number.
fn listing(case: &Case, arguments: &Value, catalogue: &Catalogue) -> Value {
    let words = |text: &str| -> Vec<String> {
        text.to_lowercase()
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| word.len() > 2)
            .map(|word| word.trim_end_matches('s').to_owned())
            .collect()
    };
    let asked = words(&case.request);
    let count = |text: &Value| words(text.as_str().unwrap_or_default()).iter().filter(|word| asked.contains(word)).count();
    let mut tools: Vec<&Value> = case.tools.iter().filter_map(|set| catalogue.get(set)).flatten().collect();
    tools.sort_by_key(|tool| std::cmp::Reverse(3 * count(&tool["name"]) + count(&tool["description"])));
    let size = arguments["size"].as_u64().and_then(|size| usize::try_from(size).ok()).unwrap_or(tools.len());
    tools.truncate(size);
    json!({ "text": "", "data": { "tools": tools }, "spans": [] })
}

impl Measured {
    fn add(&mut self, case: &Case, routed: &Routed, bare: &Choice, took: Duration, is_right: impl Fn(&Choice) -> bool) {
        let right = is_right(&routed.choice);
        let by_rule = routed.choice.by == DecidedBy::Rule;
        self.all.add(right);
        self.by_rules.add(right && by_rule);
        self.by_classifier.add(is_right(bare));
        self.ruled += usize::from(by_rule);
        if routed.has_asked {
            self.model.add(right);
        }
        if let Some(flow) = case.flows.first() {
            self.per_flow.entry(flow.clone()).or_default().add(right);
        }
        self.per_language.entry(case.language.clone()).or_default().add(right);
        if !right {
            self.wrong.push(case.id.clone());
        }
        self.seconds += took.as_secs_f64();
    }

    fn finish(&mut self) {
        self.requests = self.all.requests;
        self.accuracy = self.all.accuracy;
        self.rules_only = self.by_rules.accuracy;
        self.classifier = self.by_classifier.accuracy;
        self.asked_model = self.model.requests;
        let count = self.requests.max(1) as f64;
        self.decided_by_rules = self.ruled as f64 / count;
        self.seconds_per_request = self.seconds / count;
    }
}

fn table(report: &Report) -> Table {
    let halves: Vec<(&String, &Measured)> = report.halves.iter().collect();
    let head: Vec<&str> = std::iter::once("").chain(halves.iter().map(|(name, _)| name.as_str())).collect();
    let mut table = Table::new(&head);
    let mut row = |what: &str, value: &dyn Fn(&Measured) -> String| {
        table.row(std::iter::once((Style::new(), what.to_owned())).chain(halves.iter().map(|(_, half)| (BOLD, value(half)))));
    };
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let of = |share: Option<&Share>| share.map_or_else(String::new, |share| format!("{} of {}", share.right, share.requests));
    row("requests", &|half| half.requests.to_string());
    row("right", &|half| percent(half.accuracy));
    row("right by rules alone", &|half| percent(half.rules_only));
    row("right without a model", &|half| percent(half.classifier));
    row("asked the model", &|half| half.asked_model.to_string());
    row("of these right", &|half| of(Some(&half.model)));
    for flow in FLOWS {
        row(flow, &|half| of(half.per_flow.get(flow)));
    }
    let languages: std::collections::BTreeSet<&String> = report.halves.values().flat_map(|half| half.per_language.keys()).collect();
    for language in languages {
        row(language, &|half| of(half.per_language.get(language)));
    }
    row("seconds a request", &|half| format!("{:.2}", half.seconds_per_request));
    table
}

#[cfg(test)]
mod tests;
