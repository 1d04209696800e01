//! The simulation as a command.
//!
//! ```text
//! simulate --runs 100000                 that many cut runs; exits with 1 if one differs from its uncut run
//! simulate --seed 7                      one seed, uncut, verbose
//! simulate --seed 7 --cut 12[,3[,…]]     its first life cut at point 12, its second at 3
//!     --from SEED    start at another seed     --files    over SQLite files instead of memory     --threads N
//! ```

use std::process::ExitCode;
use std::time::Instant;

use baton_lab::sim::sweep::{Sweep, one, sweep};

fn main() -> ExitCode {
    let arguments = match Arguments::read(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(why) => {
            eprintln!("{why}\nusage: simulate [--runs N] [--from SEED] [--threads N] [--files] | --seed N [--cut K[,K…]] [--files]");
            return ExitCode::from(2);
        }
    };
    match arguments.seed {
        Some(seed) => match one(seed, &arguments.cuts, arguments.sweep.in_files, true) {
            Ok(()) => {
                println!("seed {seed} cut at {:?}: no difference", arguments.cuts);
                ExitCode::SUCCESS
            }
            Err(why) => {
                println!("seed {seed} cut at {:?}: {why}", arguments.cuts);
                ExitCode::FAILURE
            }
        },
        None => all(arguments.sweep),
    }
}

fn all(order: Sweep) -> ExitCode {
    let started = Instant::now();
    let sum = sweep(order);
    let seconds = started.elapsed().as_secs_f64();
    for failure in &sum.failures {
        println!("{failure}");
    }
    println!(
        "{} runs of {} seeds, {} cuts, {} performances in {seconds:.1} s ({:.0} runs/s on {} threads): {}",
        sum.runs,
        sum.seeds,
        sum.cuts,
        sum.performances,
        sum.runs as f64 / seconds,
        order.threads,
        if sum.failures.is_empty() { "no difference".to_owned() } else { format!("{} differences", sum.failures.len()) }
    );
    if sum.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

struct Arguments {
    sweep: Sweep,
    seed: Option<u64>,
    cuts: Vec<u64>,
}

impl Arguments {
    fn read(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let sweep = Sweep { first_seed: 0, runs: 10_000, threads, in_files: false, cuts_per_seed_max: u64::MAX };
        let mut arguments = Arguments { sweep, seed: None, cuts: Vec::new() };
        while let Some(word) = words.next() {
            let mut number = || -> Result<u64, String> {
                let text = words.next().ok_or_else(|| format!("{word} wants a number"))?;
                text.parse().map_err(|e| format!("{word} {text}: {e}"))
            };
            match word.as_str() {
                "--runs" => arguments.sweep.runs = number()?,
                "--from" => arguments.sweep.first_seed = number()?,
                "--threads" => arguments.sweep.threads = number()? as usize,
                "--files" => arguments.sweep.in_files = true,
                "--seed" => arguments.seed = Some(number()?),
                "--cut" => {
                    let text = words.next().ok_or("--cut wants points")?;
                    arguments.cuts = text.split(',').map(str::parse).collect::<Result<_, _>>().map_err(|e| format!("--cut {text}: {e}"))?;
                }
                _ => return Err(format!("what is {word}?")),
            }
        }
        Ok(arguments)
    }
}
