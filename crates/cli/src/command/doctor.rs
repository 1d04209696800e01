use std::io::Write as _;
use std::path::Path;

use serde_json::{Value, json};
use world::model::choice::{Choice, Source, State};
use world::model::embedded::threads;

use crate::config::Config;
use crate::exit::{Exit, Result};
use crate::mind::{self, Look};
use crate::place::Place;
use crate::text::{BOLD, DIM, GREEN, RED, YELLOW, paint};
use crate::wiring;

/// Say which model would think and why, how every other way stands, and what to do about each that fails
#[derive(clap::Args)]
pub(crate) struct Doctor {
    /// As for `ask`: what if this model were named?
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Doctor {
    pub(crate) fn run(self, place: &Place) -> Result<Exit> {
        let config = Config::read(place)?;
        let folder = config.embedded.folder()?;
        let choice = wiring::block_on(mind::choose(self.model.clone(), &config, config.embedded.pull, Look::Always));
        let places = places(place, &config, &folder)?;
        let mut out = anstream::stdout().lock();
        if self.json {
            let model = match &choice {
                Ok(choice) => serde_json::to_value(choice)?,
                Err(trouble) => json!({ "error": trouble.to_string() }),
            };
            writeln!(out, "{}", json!({ "model": model, "places": places, "threads": threads::wanted() }))?;
            return choice.map(|_| Exit::Well);
        }
        if let Ok(choice) = &choice {
            ways(&mut out, choice)?;
        }
        writeln!(out)?;
        for (name, value) in places.as_object().into_iter().flatten() {
            writeln!(out, "{} {}", paint(DIM, format!("{name:14}")), value.as_str().unwrap_or_default())?;
        }
        writeln!(
            out,
            "{} {} for the embedded model (CANDLE_NUM_THREADS says otherwise)",
            paint(DIM, format!("{:14}", "threads")),
            threads::wanted()
        )?;
        // The trouble itself is told like every other.
        choice.map(|_| Exit::Well)
    }
}

fn ways(out: &mut impl std::io::Write, choice: &Choice) -> Result<()> {
    writeln!(out, "{} thinks: {}\n", paint(BOLD, &choice.model), reason(choice.by))?;
    for way in &choice.ways {
        let mark = match way.state {
            State::Ready if way.source == choice.by => paint(GREEN, "✓"),
            State::Ready => paint(DIM, "✓"),
            State::Absent => paint(YELLOW, "–"),
            State::Broken => paint(RED, "✗"),
        };
        let model = way.model.as_ref().map(|model| format!("{model}: ")).unwrap_or_default();
        writeln!(out, "{mark} {:14} {model}{}", word(way.source), way.detail)?;
        if !way.todo.is_empty() {
            writeln!(out, "  {:14} {} {}", "", paint(DIM, "→"), way.todo)?;
        }
    }
    Ok(())
}

pub(crate) fn reason(by: Source) -> &'static str {
    match by {
        Source::Flag => "--model names it",
        Source::Configuration => "the configuration names it",
        Source::Environment => "its key is in the environment, and nothing more urgent was said",
        Source::Ollama => "Ollama runs here, and nothing more urgent was said",
        Source::Embedded => "it runs in this process, and nothing better was found",
        Source::Extraction => "nothing else is there",
    }
}

pub(crate) fn word(source: Source) -> &'static str {
    match source {
        Source::Flag => "--model",
        Source::Configuration => "configuration",
        Source::Environment => "key",
        Source::Ollama => "Ollama",
        Source::Embedded => "embedded",
        Source::Extraction => "extraction",
    }
}

fn places(place: &Place, config: &Config, folder: &Path) -> Result<Value> {
    let is_there = |path: &Path| if path.exists() { path.display().to_string() } else { format!("{} (not there yet)", path.display()) };
    let usual = || dirs::config_dir().map(|folder| format!("none; it would be {}", folder.join("baton").join("baton.toml").display()));
    let configuration = config.path.as_deref().map(is_there).or_else(usual).unwrap_or_else(|| "none".into());
    Ok(json!({ "configuration": configuration, "database": is_there(&place.path()?), "weights": is_there(folder) }))
}
