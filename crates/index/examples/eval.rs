//! The evals without the rest of the program, to build alone: `cargo run --release -p index --example eval -- docs FILE HOME [MODELS]`.

use std::path::Path;

use index::{Model, Npm, Sources, eval};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, data, home, models @ ..] = arguments.as_slice() else {
        eprintln!("eval docs|tools DATA HOME [MODELS]");
        std::process::exit(2);
    };
    let model = match models.first() {
        Some(folder) => Model::in_folder(Path::new(folder), Sources { folder: None, npm: Some(Npm::default()) }),
        None => Model::none(),
    };
    let mut tell = |line: String| eprintln!("{line}");
    let measured = match what.as_str() {
        "docs" => eval::docs(Path::new(data), Path::new(home), &model, &mut tell),
        _ => eval::tools(Path::new(data), Path::new(home), &model, &mut tell),
    };
    match measured {
        Ok(measured) => println!("{measured:#?}"),
        Err(why) => {
            eprintln!("{why}");
            std::process::exit(1);
        }
    }
}
