//! A long mixed load on the real server, as a command.
//!
//! ```text
//! soak                            half an hour with 16 clients against the `baton` beside this program; exits with 1 on a problem
//!     --minutes M    --clients N    --seed N    --baton FILE    --json    one object instead of the table
//! ```
//!
//! `baton_lab::soak::report` documents the criteria, and so does the last line it prints.

use std::path::PathBuf;
use std::process::ExitCode;

use baton_lab::soak::{Order, soak};
use serde_json::json;

#[tokio::main]
async fn main() -> ExitCode {
    let (order, is_json) = match read(std::env::args().skip(1)) {
        Ok(read) => read,
        Err(why) => {
            eprintln!("{why}\nusage: soak [--minutes M] [--clients N] [--seed N] [--baton FILE] [--json]");
            return ExitCode::from(2);
        }
    };
    let report = match soak(&order).await {
        Ok(report) => report,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::from(2);
        }
    };
    let troubles = report.troubles();
    match is_json {
        true => println!("{}", json!({ "is_well": troubles.is_empty(), "troubles": troubles, "report": report })),
        false => print!("{report}"),
    }
    if troubles.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn read(mut words: impl Iterator<Item = String>) -> Result<(Order, bool), String> {
    let beside = std::env::current_exe().map(|this| this.with_file_name("baton")).unwrap_or_else(|_| PathBuf::from("baton"));
    let mut order = Order { baton: beside, minutes: 30.0, clients: 16, seed: 1, is_telling: true };
    let mut is_json = false;
    while let Some(word) = words.next() {
        let mut next = || words.next().ok_or_else(|| format!("{word} wants something"));
        match word.as_str() {
            "--minutes" => order.minutes = number(&word, &next()?)?,
            "--clients" => order.clients = number(&word, &next()?)?,
            "--seed" => order.seed = number(&word, &next()?)?,
            "--baton" => order.baton = next()?.into(),
            "--json" => is_json = true,
            _ => return Err(format!("what is {word}?")),
        }
    }
    match order.minutes.is_finite() && order.minutes > 0.0 {
        true => Ok((order, is_json)),
        false => Err("--minutes wants a time".into()),
    }
}

fn number<T: std::str::FromStr<Err: std::fmt::Display>>(word: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|error| format!("{word} {text}: {error}"))
}
