//! `baton models bench`: speed of reading, writing and planning of the embedded model, its memory, and llama.cpp as a peer.
//!
//! ```text
//!   rounds of: free text ─ the same prefix again ─ fifty plans ──> the best round of each number ──> report
//!              each asked of both, alternating, when there is a peer
//! ```

mod llamacpp;
mod ours;
mod report;
mod requests;

use std::path::PathBuf;

use embedded_model::{Kernels, threads, weights};
use graph::ModelCall;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use service::{Result, ServiceError};
use terminal::remark;

use self::llamacpp::LlamaCpp;
use self::ours::EmbeddedContestant;
use self::report::{Numbers, Report};
use super::durable::median;
use super::setup::load;
use super::wrong;
use crate::Verdict;

/// Measure the embedded model: speed, plans, memory
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct ModelsBench {
    /// Measure a peer as well, alternating, and print both
    #[arg(long, value_name = "PEER")]
    versus: Option<Peer>,
    /// Number of rounds; the best round of each number counts
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Number of the fifty planning requests to make
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=50))]
    plans: u32,
    /// The weights [default: those of `baton models pull`]
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// Threads to compute on, for both [default: the physical cores that this process may use]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
    /// The kernels of the model: auto, avx512, avx2, neon-dot, neon, scalar or candle
    #[arg(long, value_name = "NAME", default_value_t = Kernels::Auto)]
    kernels: Kernels,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
    /// The measured process
    #[arg(long, hide = true)]
    child: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Peer {
    Llamacpp,
}

const AFTER_HELP: &str = "\
`--versus llamacpp` installs PyPI's xllamacpp into the user's cache folder (needs python3 with venv; later runs need no network)
and starts its server on this machine with the same weights and as many threads.

Ends with 1 if a plan was not valid, or if the model took more memory than it may.

Examples:
  baton models bench
  baton models bench --json --rounds 3
  baton models bench --kernels avx2
  baton models bench --versus llamacpp --plans 10";

/// Result of one call.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CallResult {
    output: Value,
    /// It ended by itself, not at the limit.
    is_whole: bool,
    tokens_prompt: usize,
    tokens_cached: usize,
    tokens_answer: usize,
    tokens_forced: usize,
    /// Until the first token, and from there to the last.
    prompt_ms: f64,
    answer_ms: f64,
    wall_ms: f64,
}

/// A measured model.
pub(crate) trait Contestant {
    /// The inner error is a missing answer; the outer one ends the measurement.
    fn ask(&mut self, call: &ModelCall) -> Result<std::result::Result<CallResult, String>>;
    /// Its peak memory.
    fn end(&mut self) -> Result<f64>;
}

impl ModelsBench {
    /// Measures and prints.
    pub fn run(&self) -> Result<Verdict> {
        run(self)
    }
}

fn run(args: &ModelsBench) -> Result<Verdict> {
    let weights = args.weights.clone().map_or_else(pulled, Ok)?;
    if args.child {
        return ours::child(&weights, args.kernels).map(|()| Verdict::Passed);
    }
    let threads = args.threads.map_or_else(threads::wanted, usize::from);
    let load_before = load();
    let mut ours = EmbeddedContestant::start(&weights, threads, args.kernels)?;
    let mut theirs = args.versus.map(|Peer::Llamacpp| LlamaCpp::start(&weights, threads)).transpose()?;
    let plans: Vec<ModelCall> = requests::plans()?.into_iter().take(args.plans as usize).collect();
    let (mut our_numbers, mut their_numbers) = (Numbers::default(), Numbers::default());
    our_numbers.load_ms = ours.load_ms;
    for round in 1..=args.rounds {
        let (mut our_round, mut their_round) = (Round::default(), Round::default());
        for (at, step) in steps(round, &plans).enumerate() {
            remark(&format!("round {round} of {}: {step}", args.rounds));
            // The first one finds cold caches, so they alternate.
            let is_peer_first = !(at + round as usize).is_multiple_of(2);
            if let (true, Some(theirs)) = (is_peer_first, &mut theirs) {
                their_round.take(&step, theirs)?;
            }
            our_round.take(&step, &mut ours)?;
            if let (false, Some(theirs)) = (is_peer_first, &mut theirs) {
                their_round.take(&step, theirs)?;
            }
        }
        our_numbers.keep_best(&our_round);
        their_numbers.keep_best(&their_round);
    }
    our_numbers.peak_rss_mb = ours.end()?;
    let theirs = match &mut theirs {
        None => None,
        Some(theirs) => {
            their_numbers.load_ms = theirs.load_ms;
            their_numbers.peak_rss_mb = theirs.end()?;
            Some((theirs.version.clone(), their_numbers))
        }
    };
    let computed = ours.computed.clone();
    let report = Report { ours: our_numbers, theirs, computed, threads, plans: plans.len(), rounds: args.rounds, load_before, load_after: load() };
    match args.json {
        true => report.print_json()?,
        false => report.print()?,
    }
    Ok(if report.is_well() { Verdict::Passed } else { Verdict::Failed })
}

enum Step<'a> {
    Free(ModelCall),
    Again(ModelCall),
    Plan(usize, &'a ModelCall),
}

impl std::fmt::Display for Step<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Step::Free(_) => write!(f, "a long prompt and free text"),
            Step::Again(_) => write!(f, "the same beginning again"),
            Step::Plan(at, call) => write!(f, "plan {}: {}", at + 1, call.messages.last().map_or("", |message| &message.content).escape_debug()),
        }
    }
}

fn steps(round: u32, plans: &[ModelCall]) -> impl Iterator<Item = Step<'_>> {
    let speeds = [Step::Free(requests::free(round)), Step::Again(requests::again(round))];
    speeds.into_iter().chain(plans.iter().enumerate().map(|(at, plan)| Step::Plan(at, plan)))
}

/// Result of one round.
#[derive(Default)]
struct Round {
    prompt_tok_s: f64,
    gen_tok_s: f64,
    gen_tokens: usize,
    prefix_hit_ms: f64,
    asked: usize,
    /// Times of the plans that were received.
    plan_ms: Vec<f64>,
    plan_tokens: usize,
    plan_tokens_forced: usize,
    /// Why some were invalid.
    invalid: Vec<String>,
}

impl Round {
    fn take(&mut self, step: &Step<'_>, contestant: &mut dyn Contestant) -> Result<()> {
        match step {
            Step::Free(call) => {
                let asked = contestant.ask(call)?.map_err(wrong)?;
                // The first token belongs to the prompt.
                if asked.tokens_answer < 2 || asked.prompt_ms <= 0.0 || asked.answer_ms <= 0.0 {
                    return Err(wrong(format!("there is nothing to measure in {asked:?}")));
                }
                self.prompt_tok_s = (asked.tokens_prompt - asked.tokens_cached) as f64 / asked.prompt_ms * 1e3;
                self.gen_tok_s = (asked.tokens_answer - 1) as f64 / asked.answer_ms * 1e3;
                self.gen_tokens = asked.tokens_answer;
            }
            Step::Again(call) => self.prefix_hit_ms = contestant.ask(call)?.map_err(wrong)?.prompt_ms,
            Step::Plan(at, call) => {
                self.asked += 1;
                let judged = contestant.ask(call)?.and_then(|asked| {
                    self.plan_ms.push(asked.wall_ms);
                    self.plan_tokens += asked.tokens_answer;
                    self.plan_tokens_forced += asked.tokens_forced;
                    judge(call, &asked)
                });
                if let Err(why) = judged {
                    self.invalid.push(format!("plan {}: {why}", at + 1));
                }
            }
        }
        Ok(())
    }
}

/// With a validator that is independent of grammars.
fn judge(call: &ModelCall, asked: &CallResult) -> std::result::Result<(), String> {
    if !asked.is_whole {
        return Err("it was cut off".into());
    }
    let Some(schema) = &call.schema else { return Ok(()) };
    match structured::check(asked.output.clone(), schema) {
        Ok(read) if read.is_repaired => Err(format!("it had to be repaired: {}", asked.output)),
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

fn pulled() -> Result<PathBuf> {
    let folder = dirs::cache_dir().ok_or_else(|| ServiceError::Failed("this user has no cache folder; name the weights with --weights".into()))?;
    let folder = folder.join("baton").join("models");
    let there = weights::all().into_iter().find(|model| weights::is_there(&folder, model)).map(|model| weights::path(&folder, &model));
    there.ok_or_else(|| ServiceError::Failed(format!("there are no weights in {}; `baton models pull` fetches them", folder.display())))
}

/// In millions of bytes, of a process by its id or `self`.
fn peak_rss_mb(process: &str) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let kb = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
    kb.unwrap_or(0.0) * 1.024 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn plans_are_judged_by_their_schema() {
        let call = &requests::plans().unwrap()[20];
        let asked = |output: Value, is_whole| CallResult {
            output,
            is_whole,
            tokens_prompt: 1,
            tokens_cached: 0,
            tokens_answer: 1,
            tokens_forced: 0,
            prompt_ms: 1.0,
            answer_ms: 1.0,
            wall_ms: 1.0,
        };
        let plan = |tool: &str| json!({"reasoning": "", "tasks": [{"task_number": 1, "tool_name": tool, "tool_arguments": {"query": "q"}, "description": ""}]});
        assert_eq!(judge(call, &asked(plan("search"), true)), Ok(()));
        assert!(judge(call, &asked(plan("search"), false)).is_err());
        assert!(judge(call, &asked(plan("serch"), true)).is_err());
        assert!(judge(call, &asked(json!({"tasks": []}), true)).is_err());
    }
}
