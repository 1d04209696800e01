//! Hostile users beside others, as a command.
//!
//! ```text
//! hostile                        50 users, 5 of them hostile, for half an hour, against the `baton` beside this program with 1 GiB; exits with 1 if it is not well
//!     --minutes M | --seconds S    --users N    --hostile N    --memory-mib N    --baton FILE    --any-time    do not judge latencies
//!     --attacks documents,requests,flood,half-open,streams,slow-bodies,guesses    only these
//! ```

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use baton_lab::hostile::{Attack, Order, run};

#[tokio::main]
async fn main() -> ExitCode {
    let (order, judges_time) = match read(std::env::args().skip(1)) {
        Ok(read) => read,
        Err(why) => {
            eprintln!(
                "{why}\nusage: hostile [--minutes M | --seconds S] [--users N] [--hostile N] [--memory-mib N] [--baton FILE] [--attacks NAME,…] [--any-time]"
            );
            return ExitCode::from(2);
        }
    };
    match run(&order).await {
        Ok(report) => {
            print!("{report}");
            let troubles = report.troubles(judges_time);
            for trouble in &troubles {
                println!("WRONG {trouble}");
            }
            if troubles.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(2)
        }
    }
}

fn read(mut words: impl Iterator<Item = String>) -> Result<(Order, bool), String> {
    let beside = std::env::current_exe().map(|this| this.with_file_name("baton")).unwrap_or_else(|_| PathBuf::from("baton"));
    let attacks = Attack::ALL.map(|(_, attack)| attack).to_vec();
    let mut order = Order { baton: beside, lasting: Duration::from_secs(1_800), users: 50, hostile: 5, attacks, memory_bytes_max: 1 << 30 };
    let mut judges_time = true;
    while let Some(word) = words.next() {
        if word == "--any-time" {
            judges_time = false;
            continue;
        }
        let value = words.next().ok_or_else(|| format!("{word} wants a value"))?;
        let number = || value.parse::<u64>().map_err(|error| format!("{word} {value}: {error}"));
        match word.as_str() {
            "--minutes" => order.lasting = Duration::from_secs(number()?.saturating_mul(60)),
            "--seconds" => order.lasting = Duration::from_secs(number()?),
            "--users" => order.users = number()? as usize,
            "--hostile" => order.hostile = number()? as usize,
            "--memory-mib" => order.memory_bytes_max = number()? << 20,
            "--baton" => order.baton = value.into(),
            "--attacks" => order.attacks = value.split(',').map(attack).collect::<Result<_, _>>()?,
            _ => return Err(format!("there is no argument {word}")),
        }
    }
    match order.hostile < order.users && order.lasting >= Duration::from_secs(8) {
        true => Ok((order, judges_time)),
        false => Err("fewer hostile users than users, and at least 8 seconds".to_owned()),
    }
}

fn attack(name: &str) -> Result<Attack, String> {
    let known = || Attack::ALL.map(|(name, _)| name).join(", ");
    let found = Attack::ALL.iter().find(|(known, _)| *known == name);
    found.map(|(_, attack)| *attack).ok_or_else(|| format!("there is no attack {name:?}; there are: {}", known()))
}
