//! `baton eval answers`: complete questions, answered by a flow over the set's own passages, by a model and by extraction alone.
//!
//! Every part is real: the passages are files in a folder, `docs` searches them, a flow asks and cites.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anstyle::Style;
use engine::{Engine, Order, RunResult, RunState};
use flows::input::ModelProfile;
use graph::Outcome;
use index::eval::{QuestionSet, exam};
use serde::Serialize;
use serde_json::{Value, json};
use service::caches;
use service::global_args::GlobalArgs;
use service::hub::Servers;
use service::model_options::ModelOptions;
use service::wiring;
use service::{Result, ServiceError};
use store::MemoryStore;
use terminal::remark;
use terminal::{BOLD, DIM, Table, paint};

use super::score::{Score, score};
use crate::Verdict;

/// Answers to questions: HotpotQA, 2WikiMultihopQA or MuSiQue as JSON, answered over its own passages
#[derive(clap::Args)]
#[command(after_help = "\
Each question is one run of the flow, with the set's passages as documents. Exact match and F1 compare the short answer that leads the text with the
few words of the known one; where a model gave none, the whole text, which then hardly ever matches. `holds` is how often the known answer stands
in the text. A question with an empty \"answer\" is one that the passages do not answer: saying so is right, and any other answer is wrong.

--model and --flow may be given several times; every flow is measured with every model, and with extraction.

Examples:
  baton eval answers --data hotpot100.json --model embedded --questions 20
  baton eval answers --data hotpot100.json --model embedded --flow direct --flow search
  baton eval answers --data hotpot100.json --model extract --json")]
pub struct Answers {
    #[arg(long, value_name = "PATH")]
    data: PathBuf,
    /// The model that answers [default: see `baton doctor`]
    #[arg(long, value_name = "MODEL")]
    model: Vec<String>,
    /// The flow that answers
    #[arg(long, default_value = "direct")]
    flow: Vec<String>,
    /// Only the first N
    #[arg(long, value_name = "N")]
    questions: Option<usize>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Result of one model.
#[derive(Debug, Default, Serialize)]
struct Measured {
    model: String,
    flow: String,
    questions: usize,
    /// Runs that ended without an answer.
    failed: usize,
    exact_match: f64,
    f1: f64,
    /// Share of answers that contain the known one.
    holds: f64,
    /// Share of all sentences that their sources support.
    supported_rate: f64,
    /// Answers that say that the passages contain none.
    abstained: usize,
    /// Precision: the share of abstentions for which there really is no answer. Recall: the share of unanswerable questions with an
    /// abstention. `None` without such questions.
    abstention_precision: Option<f64>,
    abstention_recall: Option<f64>,
    /// Citations of something that was not retrieved. There must be none.
    fabricated_citations: usize,
    tokens: u64,
    tokens_per_question: f64,
    seconds: f64,
    seconds_per_question: f64,
    #[serde(skip)]
    sentences: (usize, usize),
    /// Unanswerable questions, and how many of those were left unanswered.
    #[serde(skip)]
    unanswerable: (usize, usize),
}

const EXTRACT: &str = "extract";

impl Answers {
    pub(super) fn run(self, globals: &GlobalArgs) -> Result<Verdict> {
        let mut exam = exam(&self.data).map_err(ServiceError::Failed)?;
        exam.questions.truncate(self.questions.unwrap_or(usize::MAX));
        let folder = write_passages(&exam)?;
        let mut all = Vec::new();
        wiring::block_on_all_cores(async {
            let named = self.model.iter().filter(|model| *model != EXTRACT).cloned().map(Some);
            let models = named.chain(self.model.is_empty().then_some(None)).chain([Some(EXTRACT.to_owned())]);
            for model in models {
                for flow in &self.flow {
                    all.push(measure(globals, model.clone(), flow, &exam, &folder).await?);
                }
            }
            Ok(())
        })?;
        let mut out = anstream::stdout().lock();
        if self.json {
            writeln!(out, "{}", json!({ "answers": all }))?;
        } else {
            table(&all).write(&mut out)?;
        }
        Ok(if all.iter().any(|one| one.fabricated_citations > 0) { Verdict::Failed } else { Verdict::Passed })
    }
}

async fn measure(globals: &GlobalArgs, model: Option<String>, flow: &str, exam: &QuestionSet, folder: &Path) -> Result<Measured> {
    let name = model.clone().unwrap_or_else(|| "default".to_owned());
    let model_options = ModelOptions { model, servers: Servers::over(folder.to_owned()), ..ModelOptions::default() };
    let (engine, profile) = wiring::engine_over(Arc::new(MemoryStore::new()), globals, &model_options, false).await?;
    let mut measured = Measured { model: name, flow: flow.to_owned(), ..Measured::default() };
    let began = Instant::now();
    for (number, (question, known)) in (1..).zip(&exam.questions) {
        let closing = answer(&engine, flow, question, profile).await?;
        let line = measured.take(&closing, known, folder);
        remark(&paint(DIM, format!("{number} of {}: {question} → {line} ({known})", exam.questions.len())));
    }
    measured.finish(began.elapsed().as_secs_f64());
    Ok(measured)
}

async fn answer(engine: &Engine, flow: &str, question: &str, profile: ModelProfile) -> Result<RunResult> {
    let input = json!({ "question": question, "model": profile, "docs": true });
    let run = engine.start(Order::new(flow, input)).await?;
    match engine.wait(&run).await? {
        RunState::Over(closing) => Ok((*closing).clone()),
        RunState::Parked(_) | RunState::Going | RunState::Lost(_) => Err(ServiceError::Failed(format!("the run of {question:?} waits for a person"))),
    }
}

/// Whether a text states that the passages contain no answer.
fn is_abstention(text: &str) -> bool {
    let is_whole = [flows::NOT_ANSWERED, evidence::NOTHING_LEFT, models::extract::NOTHING_KNOWN].contains(&text.trim());
    is_whole || text.starts_with(flows::NOT_SUPPORTED)
}

impl Measured {
    /// Adds one answer; returns a line about it.
    fn take(&mut self, closing: &RunResult, known: &str, folder: &Path) -> String {
        self.questions += 1;
        self.tokens += closing.spent.tokens_in + closing.spent.tokens_out;
        let Outcome::Done { output } = &closing.outcome else {
            self.failed += 1;
            return "no answer".to_owned();
        };
        let text = output["answer"].as_str().unwrap_or_default();
        let body = evidence::answer_body(text, true);
        let citations = evidence::citations(body);
        let mut uncited = body.to_owned();
        for citation in citations.iter().rev() {
            uncited.replace_range(citation.range.clone(), "");
        }
        let is_abstention = is_abstention(&uncited);
        self.abstained += usize::from(is_abstention);
        if known.trim().is_empty() {
            self.unanswerable.0 += 1;
            self.unanswerable.1 += usize::from(is_abstention);
        }
        let Score { is_exact, f1, holds } = match (is_abstention, known.trim().is_empty()) {
            (true, is_right) | (false, is_right @ true) => {
                let is_right = is_abstention && is_right;
                Score { is_exact: is_right, f1: f64::from(u8::from(is_right)), holds: is_right }
            }
            (false, false) => Score { holds: score(&uncited, known).holds, ..score(output["short"].as_str().unwrap_or(&uncited), known) },
        };
        self.exact_match += f64::from(u8::from(is_exact));
        self.holds += f64::from(u8::from(holds));
        self.f1 += f1;
        let sources = output["sources"].as_array().map(Vec::as_slice).unwrap_or_default();
        let is_ours = |source: &Value| source["address"].as_str().is_some_and(|address| is_within(address, folder));
        let is_real = |number: &usize| number.checked_sub(1).and_then(|at| sources.get(at)).is_some_and(is_ours);
        self.fabricated_citations += citations.iter().flat_map(|citation| &citation.numbers).filter(|number| !is_real(number)).count();
        let sentences = output["sentences"].as_array().map(Vec::as_slice).unwrap_or_default();
        self.sentences.0 += sentences.iter().filter(|sentence| sentence["status"] == "supported").count();
        self.sentences.1 += sentences.len();
        uncited.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(120).collect()
    }

    fn finish(&mut self, seconds: f64) {
        let count = self.questions.max(1) as f64;
        for sum in [&mut self.exact_match, &mut self.f1, &mut self.holds] {
            *sum /= count;
        }
        let (unanswerable, left) = self.unanswerable;
        let share = |all: usize| (unanswerable > 0 && all > 0).then(|| left as f64 / all as f64);
        (self.abstention_precision, self.abstention_recall) = (share(self.abstained), share(unanswerable));
        self.supported_rate = self.sentences.0 as f64 / self.sentences.1.max(1) as f64;
        (self.seconds, self.seconds_per_question) = (seconds, seconds / count);
        self.tokens_per_question = self.tokens as f64 / count;
    }
}

fn is_within(address: &str, folder: &Path) -> bool {
    let folder = std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    Path::new(address).starts_with(folder)
}

/// The passages as files, so that they are found like any document. Existing ones are kept.
fn write_passages(exam: &QuestionSet) -> Result<PathBuf> {
    let folder = caches::eval_folder("answers")?;
    let cannot = |error: std::io::Error| ServiceError::Failed(format!("{}: {error}", folder.display()));
    std::fs::create_dir_all(&folder).map_err(cannot)?;
    let mut wanted = std::collections::HashSet::new();
    for (number, (title, text)) in exam.passages.iter().enumerate() {
        let name = format!("{number:05}.md");
        let content = format!("# {title}\n\n{text}\n");
        let path = folder.join(&name);
        if std::fs::read_to_string(&path).ok().as_deref() != Some(content.as_str()) {
            std::fs::write(&path, content).map_err(cannot)?;
        }
        wanted.insert(name);
    }
    for entry in std::fs::read_dir(&folder).map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        if !entry.file_name().to_str().is_some_and(|name| wanted.contains(name)) {
            std::fs::remove_file(entry.path()).map_err(cannot)?;
        }
    }
    Ok(folder)
}

fn table(all: &[Measured]) -> Table {
    let names: Vec<String> = all.iter().map(|one| format!("{}, {}", one.model, one.flow)).collect();
    let head: Vec<&str> = std::iter::once("").chain(names.iter().map(String::as_str)).collect();
    let mut table = Table::new(&head);
    let optional = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
    let mut row = |what: &str, value: &dyn Fn(&Measured) -> String| {
        table.row(std::iter::once((Style::new(), what.to_owned())).chain(all.iter().map(|one| (BOLD, value(one)))));
    };
    row("questions", &|one| one.questions.to_string());
    row("without an answer", &|one| one.failed.to_string());
    row("exact match", &|one| format!("{:.3}", one.exact_match));
    row("F1", &|one| format!("{:.3}", one.f1));
    row("holds the answer", &|one| format!("{:.3}", one.holds));
    row("supported sentences", &|one| format!("{:.3}", one.supported_rate));
    row("abstained", &|one| one.abstained.to_string());
    row("abstention precision", &|one| optional(one.abstention_precision));
    row("abstention recall", &|one| optional(one.abstention_recall));
    row("fabricated citations", &|one| one.fabricated_citations.to_string());
    row("tokens a question", &|one| format!("{:.0}", one.tokens_per_question));
    row("seconds a question", &|one| format!("{:.1}", one.seconds_per_question));
    table
}
