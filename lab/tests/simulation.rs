//! The simulation as `./check` runs it. Each difference prints its seed and cuts, and the command that reproduces it.
//!
//! `BATON_SIM_RUNS` sets the number of cut runs; `cargo run --release -p baton-lab --bin simulate -- --runs N` is the same without a test.

use baton_lab::sim::sweep::{Sum, Sweep, sweep};

#[test]
fn cut_anywhere_a_run_ends_as_if_it_had_not_been() {
    check(Sweep { first_seed: 0, runs: runs(100_000), threads: threads(), in_files: false, cuts_per_seed_max: u64::MAX });
}

/// Fewer, because every run creates a file: the same engine over SQLite.
#[test]
fn so_it_does_over_sqlite() {
    check(Sweep { first_seed: 500_000, runs: runs(100_000) / 100, threads: threads(), in_files: true, cuts_per_seed_max: 8 });
}

fn check(order: Sweep) {
    let sum: Sum = sweep(order);
    println!("{} runs of {} seeds, {} cuts, {} performances", sum.runs, sum.seeds, sum.cuts, sum.performances);
    let words: Vec<String> = sum.failures.iter().map(ToString::to_string).collect();
    assert!(words.is_empty(), "\n{}", words.join("\n"));
}

fn runs(default: u64) -> u64 {
    std::env::var("BATON_SIM_RUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
