//! A fleet of workers with failures, in simulated time.
//!
//! ```text
//! fleet [--workers 100] [--runs-per-s 50] [--seconds 60] [--seed 1]     exits with 1 if a run was lost or a mail sent twice
//!       [--kill-every-s 120] [--away-s 5] [--cut-every-s 240] [--cut-s 10]
//! ```

use std::process::ExitCode;
use std::time::Instant;

use baton_lab::fleet::{Plan, simulate};

fn main() -> ExitCode {
    let plan = match read(std::env::args().skip(1)) {
        Ok(plan) => plan,
        Err(why) => {
            eprintln!(
                "{why}\nusage: fleet [--workers N] [--runs-per-s N] [--seconds N] [--seed N] [--kill-every-s N] [--away-s N] [--cut-every-s N] [--cut-s N]"
            );
            return ExitCode::from(2);
        }
    };
    let started = Instant::now();
    match simulate(plan) {
        Ok(report) => {
            println!("{}", serde_json::to_string(&report).expect("numbers can be written as JSON"));
            eprintln!("{plan:?}: {:.0} simulated seconds in {:.1} s", report.ended_after_s, started.elapsed().as_secs_f64());
            match report.lost == 0 && report.mails_wrong == 0 {
                true => ExitCode::SUCCESS,
                false => ExitCode::FAILURE,
            }
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn read(mut arguments: impl Iterator<Item = String>) -> Result<Plan, String> {
    let mut plan = Plan::default();
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} needs a number"))?;
        let number: u64 = value.parse().map_err(|_| format!("{name} needs a number, not {value:?}"))?;
        match name.as_str() {
            "--workers" if (1..=1_000).contains(&number) => plan.workers = number as usize,
            "--runs-per-s" if number <= 10_000 => plan.runs_per_s = number,
            "--seconds" if number <= 3_600 => plan.seconds = number,
            "--seed" => plan.seed = number,
            "--kill-every-s" if number > 0 => plan.kill_every_s = number,
            "--away-s" => plan.away_s = number,
            "--cut-every-s" if number > 0 => plan.cut_every_s = number,
            "--cut-s" => plan.cut_s = number,
            _ => return Err(format!("{name} {number} is unknown or out of range")),
        }
    }
    Ok(plan)
}
