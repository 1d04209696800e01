//! `baton eval critics`: drafts with planted faults, and correct ones, judged like the panel's critics do.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Instant;

use anstyle::Style;
use effects::{EffectHandler, Progress};
use evidence::Spans;
use flows::Verify;
use flows::input::ModelProfile;
use flows::panel::CriticDecision;
use flows::panel::drafts::{self, Fault, LabelledDraft};
use flows::panel::review::{feedback, is_rejected, review};
use graph::{Graph, Next, Outcome, Run, Start};
use serde::Serialize;
use serde_json::json;

use service::global_args::GlobalArgs;
use service::model_options::{self, ModelOptions};
use service::wiring;
use service::{Result, ServiceError};
use terminal::remark;
use terminal::{BOLD, DIM, Table, paint};

/// Drafts with known faults: how many of them critics reject, and how many correct ones they pass
#[derive(clap::Args)]
#[command(after_help = "\
40 drafts with one planted fault each (wrong number, wrong name, no source, off topic) and 20 sound ones come with Baton; --data names another
set, one JSON object a line: {\"id\", \"fault\": wrong_number | wrong_name | no_source | off_topic | none, \"question\", \"step\"?, \"draft\",
\"passages\": [{\"title\", \"text\"}], \"replies\": [{\"tool\", \"arguments\", \"text\", \"data\"}]}.

Examples:
  baton eval critics --rules-only
  baton eval critics --rules-only --verify rules
  baton eval critics --model embedded --json")]
pub struct Critics {
    /// The model that judges what rules leave open [default: see `baton doctor`]
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Only the check against the evidence and the rules, without a language model
    #[arg(long, conflicts_with = "model")]
    rules_only: bool,
    /// How drafts are checked against their evidence: fast (rules and the verifier), model (also the model, if it is a large one), or rules
    #[arg(long, value_name = "WHO", default_value = "fast", value_parser = ["fast", "model", "rules"])]
    verify: String,
    /// Another set of drafts
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Default, Serialize)]
struct Measured {
    /// `rules` if no model was used.
    model: String,
    verify: Verify,
    drafts: usize,
    rejected_faulty_pct: f64,
    passed_sound_pct: f64,
    by_fault: BTreeMap<String, FaultCounts>,
    /// Drafts that the rules left to the model, and its own judgement of those.
    asked: usize,
    model_rejected_faulty: usize,
    model_rejected_sound: usize,
    /// Drafts without a usable verdict of the model; they count as passed.
    failed: usize,
    seconds: f64,
}

#[derive(Debug, Default, Serialize)]
struct FaultCounts {
    drafts: usize,
    rejected: usize,
    rejected_pct: f64,
}

impl Critics {
    pub(super) fn run(self, globals: &GlobalArgs) -> Result<()> {
        let drafts = match &self.data {
            None => drafts::builtin(),
            Some(path) => {
                let text =
                    std::fs::read_to_string(path).map_err(|error| ServiceError::Usage(format!("{} cannot be read: {error}", path.display())))?;
                drafts::read(&text).map_err(|why| format!("{}: {why}", path.display()))
            }
        };
        let drafts = drafts.map_err(ServiceError::Usage)?;
        let verify: Verify = serde_json::from_value(json!(self.verify))?;
        let measured = if self.rules_only {
            by_rules(&drafts, verify, self.json)?
        } else {
            wiring::block_on_all_cores(self.by_model(globals, &drafts, verify))?
        };
        let mut out = anstream::stdout().lock();
        if self.json {
            writeln!(out, "{}", serde_json::to_string(&measured)?)?;
        } else {
            table(&measured).write(&mut out)?;
        }
        Ok(())
    }

    async fn by_model(&self, globals: &GlobalArgs, drafts: &[LabelledDraft], verify: Verify) -> Result<Measured> {
        let model_options = ModelOptions { model: self.model.clone(), ..ModelOptions::default() };
        let setup = wiring::prepare_effects(globals, &model_options, None, self.json).await?;
        let graph = drafts::critic().map_err(|error| ServiceError::Failed(format!("the critic's graph is wrong: {error}")))?;
        let name = setup.choice.as_ref().map(|choice| choice.model.to_string()).or_else(|| self.model.clone());
        let mut measured = Measured { model: name.unwrap_or_else(|| "default".to_owned()), verify, ..Measured::default() };
        let began = Instant::now();
        for one in drafts {
            match judged(&graph, setup.handler.as_ref(), setup.profile, one, verify).await? {
                Ok(judged) => {
                    if let Some(is_out) = judged.model_rejects {
                        measured.asked += 1;
                        let count = if one.fault == Fault::None { &mut measured.model_rejected_sound } else { &mut measured.model_rejected_faulty };
                        *count += usize::from(is_out);
                    }
                    measured.take(one, judged.is_rejected, &judged.feedback, self.json);
                }
                Err(why) => {
                    measured.asked += 1;
                    measured.failed += 1;
                    measured.take(one, false, &why, self.json);
                }
            }
        }
        measured.finish(began.elapsed().as_secs_f64());
        Ok(measured)
    }
}

/// One run of the critic's graph, driven here without a journal.
async fn judged(
    graph: &Graph,
    handler: &dyn EffectHandler,
    profile: ModelProfile,
    one: &LabelledDraft,
    verify: Verify,
) -> Result<std::result::Result<CriticDecision, String>> {
    let failed = |why: String| ServiceError::Failed(format!("{}: {why}", one.id));
    let id = engine::new_run_id();
    let start = Start::new(graph.name(), id.as_str(), id.as_str(), json!({ "draft": one, "model": profile, "verify": verify }));
    let mut run = Run::start(graph, start).map_err(|error| failed(error.to_string()))?;
    loop {
        match run.next() {
            Next::Perform(jobs) => {
                for job in jobs {
                    let reply = handler.perform(&job, &Progress::nowhere()).await;
                    run.feed(job.task, job.attempt, reply).map_err(|error| failed(error.to_string()))?;
                }
            }
            Next::Done(outcome) => {
                return match &*outcome {
                    Outcome::Done { output } => Ok(match output["error"].as_str() {
                        Some(why) => Err(why.to_owned()),
                        None => Ok(serde_json::from_value(output.clone())?),
                    }),
                    other => Err(failed(format!("{other:?}"))),
                };
            }
            Next::Wait(_) | Next::Await => return Err(failed("a critic must not wait for a person".to_owned())),
        }
    }
}

fn by_rules(drafts: &[LabelledDraft], verify: Verify, is_quiet: bool) -> Result<Measured> {
    let verifier = match verify {
        Verify::Rules => None,
        Verify::Fast | Verify::Model => Some(model_options::verifier().map_err(ServiceError::Failed)?),
    };
    let mut measured = Measured { model: "rules".to_owned(), verify, ..Measured::default() };
    let began = Instant::now();
    for one in drafts {
        let spans = one.spans();
        let claims = one.draft(&spans, None).claims().to_owned();
        let judged = verifier.and_then(|verifier| evidence::Judged::by(verifier, &claims, &Spans::new(&spans)));
        let findings = review(&one.draft(&spans, judged.as_ref()));
        measured.take(one, is_rejected(&findings), &feedback(&findings), is_quiet);
    }
    measured.finish(began.elapsed().as_secs_f64());
    Ok(measured)
}

impl Measured {
    fn take(&mut self, one: &LabelledDraft, is_out: bool, why: &str, is_quiet: bool) {
        self.drafts += 1;
        let name = serde_json::to_value(one.fault).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default();
        let of = self.by_fault.entry(name).or_default();
        of.drafts += 1;
        of.rejected += usize::from(is_out);
        if !is_quiet {
            remark(&paint(DIM, format!("{}: {} {why}", one.id, if is_out { "rejected" } else { "passed" })));
        }
    }

    fn finish(&mut self, seconds: f64) {
        let share = |some: usize, all: usize| if all == 0 { 0.0 } else { (some as f64 * 1_000.0 / all as f64).round() / 10.0 };
        let (mut faulty, mut sound) = ((0, 0), (0, 0));
        for (name, of) in &mut self.by_fault {
            of.rejected_pct = share(of.rejected, of.drafts);
            let sums = if name == "none" { &mut sound } else { &mut faulty };
            *sums = (sums.0 + of.rejected, sums.1 + of.drafts);
        }
        self.rejected_faulty_pct = share(faulty.0, faulty.1);
        self.passed_sound_pct = share(sound.1 - sound.0, sound.1);
        self.seconds = (seconds * 10.0).round() / 10.0;
    }
}

fn table(measured: &Measured) -> Table {
    let mut table = Table::new(&["", measured.model.as_str()]);
    let mut row = |what: &str, value: String| table.row([(Style::new(), what.to_owned()), (BOLD, value)]);
    row("faulty drafts rejected", format!("{:.1}%", measured.rejected_faulty_pct));
    row("sound drafts passed", format!("{:.1}%", measured.passed_sound_pct));
    for (name, of) in &measured.by_fault {
        row(&format!("{} rejected", name.replace('_', " ")), format!("{} of {}", of.rejected, of.drafts));
    }
    if measured.asked > 0 {
        row("left to the model", measured.asked.to_string());
        row("of those the model rejects, faulty and sound", format!("{}, {}", measured.model_rejected_faulty, measured.model_rejected_sound));
        row("without a usable verdict", measured.failed.to_string());
    }
    row("seconds", format!("{:.1}", measured.seconds));
    table
}
