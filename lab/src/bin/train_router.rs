//! Trains the router's classifier and writes its weights: `cargo run -p baton-lab --bin train_router`.

use std::process::ExitCode;

use baton_lab::router::{TrainingSet, WEIGHTS, root};

const FOLDS: usize = 5;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let set = TrainingSet::read()?;
    let (right, all) = set.cross_validate(FOLDS);
    println!("{right} of {all} right when left out ({FOLDS} folds)");
    let classifier = set.train();
    let known = set.lines.iter().filter(|line| set.is_right(&classifier, line)).count();
    println!("{known} of {all} right when trained on");
    let bytes = classifier.to_bytes();
    std::fs::write(root().join(WEIGHTS), &bytes).map_err(|error| format!("{WEIGHTS}: {error}"))?;
    println!("{WEIGHTS}: {} bytes", bytes.len());
    Ok(())
}
