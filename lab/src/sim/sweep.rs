//! Runs seeds one after another, each cut at every point, until the requested number of cut runs.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::case::{Case, Pace};
use super::check::compare;
use super::dice::Dice;
use super::harness::{Options, Record, run};
use super::home::{Home, InFile, InMemory};

#[derive(Clone, Copy, Debug)]
pub struct Sweep {
    pub first_seed: u64,
    /// Number of cut runs.
    pub runs: u64,
    pub threads: usize,
    /// Over files instead of memory.
    pub in_files: bool,
    /// Maximum number of cuts per seed, spread evenly over its points, to cover more seeds when runs are expensive.
    pub cuts_per_seed_max: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    pub seeds: u64,
    pub runs: u64,
    pub cuts: u64,
    pub performances: u64,
    pub failures: Vec<Failure>,
}

/// Everything needed to reproduce it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub seed: u64,
    pub cuts: Vec<u64>,
    pub why: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let cuts: Vec<String> = self.cuts.iter().map(ToString::to_string).collect();
        let flag = if cuts.is_empty() { String::new() } else { format!(" --cut {}", cuts.join(",")) };
        write!(
            f,
            "seed {} cut at {:?}: {}\n  again: cargo run -p baton-lab --bin simulate -- --seed {}{flag}",
            self.seed, self.cuts, self.why, self.seed
        )
    }
}

/// A few are enough; the rest are usually the same.
const FAILURES_MAX: usize = 8;

pub fn sweep(sweep: Sweep) -> Sum {
    let next_seed = AtomicU64::new(sweep.first_seed);
    let done = AtomicU64::new(0);
    let is_enough = AtomicBool::new(false);
    let sum = Mutex::new(Sum::default());
    std::thread::scope(|scope| {
        for _ in 0..sweep.threads.max(1) {
            scope.spawn(|| {
                while !is_enough.load(Ordering::Relaxed) {
                    let part = one_seed(next_seed.fetch_add(1, Ordering::Relaxed), &sweep);
                    let runs = done.fetch_add(part.runs, Ordering::Relaxed) + part.runs;
                    let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
                    sum.add(part);
                    if runs >= sweep.runs || sum.failures.len() >= FAILURES_MAX {
                        is_enough.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    sum.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// One run of one seed as a sweep would make it, and its uncut run for comparison.
pub fn one(seed: u64, cuts: &[u64], in_files: bool, is_loud: bool) -> Result<(), String> {
    let case = Case::of(seed);
    let uncut = attempt(&case, &[], in_files, Options { is_watched: true, is_loud: is_loud && cuts.is_empty(), ..Options::default() })?;
    if cuts.is_empty() {
        return Ok(());
    }
    let options = Options { is_loud, ..options(&case, cuts) };
    compare(&uncut, &attempt(&case, cuts, in_files, options)?, has_costs(&case))
}

fn one_seed(seed: u64, sweep: &Sweep) -> Sum {
    let case = Case::of(seed);
    let mut sum = Sum { seeds: 1, ..Sum::default() };
    let uncut = match attempt(&case, &[], sweep.in_files, Options { is_watched: true, ..Options::default() }) {
        Ok(uncut) => uncut,
        Err(why) => {
            sum.failures.push(Failure { seed, cuts: Vec::new(), why });
            return sum;
        }
    };
    for cuts in all_cuts(seed, uncut.points, sweep.cuts_per_seed_max) {
        sum.runs += 1;
        let cut = attempt(&case, &cuts, sweep.in_files, options(&case, &cuts));
        let why = match cut {
            Ok(cut) => {
                sum.cuts += cut.deaths as u64;
                sum.performances += cut.performances;
                compare(&uncut, &cut, has_costs(&case)).err()
            }
            Err(why) => Some(why),
        };
        if let Some(why) = why {
            sum.failures.push(Failure { seed, cuts, why });
            if sum.failures.len() >= FAILURES_MAX {
                break;
            }
        }
    }
    sum
}

/// Every point by itself, then some double and triple cuts. A first number beyond all points is a run without a cut, but with another order
/// of replies.
fn all_cuts(seed: u64, points: u64, most: u64) -> Vec<Vec<u64>> {
    let mut dice = Dice::new(&[seed, 11]);
    let step = points.div_ceil(most.max(1)).max(1);
    let singles = (0..points).step_by(step as usize).map(|point| vec![point]);
    let more = (0..points.min(most) / 4).map(|_| {
        let mut cuts = vec![dice.below(points), dice.below(points.max(2) / 2)];
        if dice.pct(30) {
            cuts.push(dice.below(points.max(4) / 4));
        }
        cuts
    });
    let more: Vec<_> = more.collect();
    singles.chain(more).chain([vec![points + 1_000], vec![points + 1_001]]).collect()
}

/// The first life has the order of the uncut run, so that its points are the counted ones; unless it is not cut.
fn options(case: &Case, cuts: &[u64]) -> Options {
    let first = cuts.first().copied().unwrap_or(0);
    let is_uncut = first >= 1_000;
    Options { is_watched: (first + case.seed).is_multiple_of(4), shuffle: if is_uncut { first } else { 0 }, is_loud: false }
}

fn has_costs(case: &Case) -> bool {
    case.pace != Pace::Slow
}

fn attempt(case: &Case, cuts: &[u64], in_files: bool, options: Options) -> Result<Record, String> {
    if !in_files {
        return run(case, &InMemory::default(), cuts, options);
    }
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let home: Box<dyn Home> = Box::new(InFile(folder.path().join("sim.db")));
    run(case, &*home, cuts, options)
}

impl Sum {
    fn add(&mut self, part: Sum) {
        self.seeds += part.seeds;
        self.runs += part.runs;
        self.cuts += part.cuts;
        self.performances += part.performances;
        self.failures.extend(part.failures);
    }
}
