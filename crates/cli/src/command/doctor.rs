use std::io::Write as _;
use std::path::Path;

use embedded_model::{Kernels, threads};
use models::choice::{Choice, State};
use serde_json::{Value, json};
use server::limits;
use service::config::Config;
use service::global_args::GlobalArgs;
use service::hub::Servers;
use service::model_options::{self, OllamaLookup};
use service::wiring;
use store::{RunFilter, Status};
use terminal::{BOLD, DIM, GREEN, RED, YELLOW, paint};

use crate::exit::{Exit, Result};

/// Show which model would be used and why, the state of the others, and how to fix each one that fails
#[derive(clap::Args)]
pub(crate) struct Doctor {
    /// As for `ask`: check this model
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// As for `ask`: weights are not downloaded
    #[arg(long, env = "BATON_NO_PULL", hide_env = true, value_parser = clap::builder::FalseyValueParser::new())]
    no_pull: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Doctor {
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result<Exit> {
        let config = Config::read(globals)?;
        let folder = config.embedded.folder()?;
        let choice =
            wiring::block_on(model_options::choose(self.model.clone(), &config, config.embedded.pull && !self.no_pull, OllamaLookup::Always));
        let mut places = places(globals, &config, &folder)?;
        let (registry, agents) = wiring::block_on(elsewhere(&config))?;
        (places["registry"], places["agents"]) = (json!(registry), json!(agents));
        (places["store"], places["given up"]) = wiring::block_on(store(globals))?;
        let kernels: Vec<&str> = Kernels::available().into_iter().map(Kernels::name).collect();
        let mut out = anstream::stdout().lock();
        if self.json {
            let model = match &choice {
                Ok(choice) => serde_json::to_value(choice)?,
                Err(trouble) => json!({ "error": trouble.to_string() }),
            };
            writeln!(out, "{}", json!({ "model": model, "places": places, "threads": threads::wanted(), "kernels": kernels }))?;
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
            "{} {} for the embedded model (set {} to change it)",
            paint(DIM, format!("{:14}", "threads")),
            threads::wanted(),
            threads::VARIABLE
        )?;
        writeln!(out, "{} {} run on this processor", paint(DIM, format!("{:14}", "kernels")), kernels.join(", "))?;
        // The error itself is printed like any other.
        choice.map(|_| Exit::Well)
    }
}

fn ways(out: &mut impl std::io::Write, choice: &Choice) -> Result<()> {
    writeln!(out, "model {}: {}\n", paint(BOLD, &choice.model), model_options::reason(choice.by))?;
    for way in &choice.ways {
        let mark = match way.state {
            State::Ready if way.source == choice.by => paint(GREEN, "✓"),
            State::Ready => paint(DIM, "✓"),
            State::Absent => paint(YELLOW, "–"),
            State::Broken => paint(RED, "✗"),
        };
        let model = way.model.as_ref().map(|model| format!("{model}: ")).unwrap_or_default();
        writeln!(out, "{mark} {:14} {model}{}", model_options::word(way.source), way.detail)?;
        if !way.todo.is_empty() {
            writeln!(out, "  {:14} {} {}", "", paint(DIM, "→"), way.todo)?;
        }
    }
    Ok(())
}

/// Descriptions of the registry and the external agents that would be used.
async fn elsewhere(config: &Config) -> Result<(String, String)> {
    let registry = match Servers::of_environment().registry(config).await? {
        Some(source) if source.is_trusted => format!("{} (trusted)", source.url),
        Some(source) => format!("{} (not trusted; [tools] registry_trusted)", source.url),
        None => format!("none; one at http://localhost:{} or named by [tools] registry would be used", config.team.registry_port()),
    };
    let found = config.agents()?.list().await;
    let word = |agent: &Value, name: &str| evidence::visible(agent[name].as_str().unwrap_or_default());
    let line = |agent: &Value| format!("{} at {} ({})", word(agent, "name"), word(agent, "address"), word(agent, "why"));
    let agents: Vec<String> = found.data["agents"].as_array().into_iter().flatten().map(line).collect();
    let none = || "none; flows of this process do their work (`baton up` starts a team)".to_owned();
    Ok((registry, if agents.is_empty() { none() } else { agents.join(", ") }))
}

/// Whether the store answers, and the runs that were given up because they ended their process again and again.
async fn store(globals: &GlobalArgs) -> Result<(Value, Value)> {
    const SHOWN_MAX: usize = 20;
    if globals.shared()?.is_none() && !globals.path()?.exists() {
        return Ok((json!("empty"), json!("none")));
    }
    let store = match globals.open().await {
        Ok(store) => store,
        Err(error) => return Ok((json!(format!("cannot be used: {error}")), json!("unknown"))),
    };
    let unfinished = RunFilter { statuses: vec![Status::Running, Status::Waiting], limit: UNFINISHED_MAX, ..RunFilter::default() };
    let read = async { Ok::<_, engine::EngineError>((store.runs(unfinished).await?.len(), engine::abandoned_runs(&*store, SHOWN_MAX).await?)) };
    let (unfinished, given_up) = match read.await {
        Ok(found) => found,
        Err(error) => return Ok((json!(format!("cannot be read: {error}")), json!("unknown"))),
    };
    let more = if unfinished == UNFINISHED_MAX { " or more" } else { "" };
    let given_up = match given_up.as_slice() {
        [] => "none".to_owned(),
        runs => {
            let names: Vec<&str> = runs.iter().map(|given_up| given_up.run.as_str()).collect();
            format!("{} (their process ended again and again; `baton runs resume ID` tries one again)", names.join(", "))
        }
    };
    Ok((json!(format!("answers; {unfinished}{more} unfinished runs")), json!(given_up)))
}

/// Unfinished runs that are counted.
const UNFINISHED_MAX: usize = 1_000;

fn places(globals: &GlobalArgs, config: &Config, folder: &Path) -> Result<Value> {
    let is_there = |path: &Path| if path.exists() { path.display().to_string() } else { format!("{} (not there yet)", path.display()) };
    let usual = || dirs::config_dir().map(|folder| format!("none; it would be {}", folder.join("baton").join("baton.toml").display()));
    let configuration = config.path.as_deref().map(is_there).or_else(usual).unwrap_or_else(|| "none".into());
    let conversations = match config.memory.conversation_days {
        0 => "kept until you delete them ([memory] conversation_days = N lets them expire)".to_owned(),
        days => format!("deleted after {days} days without use ([memory] conversation_days)"),
    };
    let set =
        limits::ALL.iter().filter_map(|limit| Some((limit.name, config.server.limits.get(limit.name)?)).filter(|(_, value)| *value != limit.default));
    let set: Vec<String> = set.map(|(name, value)| format!("{name} = {value}")).collect();
    let server = match set.as_slice() {
        [] => "default limits (`baton serve --help` lists them; [server] sets them)".to_owned(),
        set => format!("{} ([server]; other limits are the defaults)", set.join(", ")),
    };
    let weights = is_there(folder);
    let database = match globals.shared()? {
        Some(at) => format!("{}, and files beside {}", at.name(), globals.path()?.display()),
        None => is_there(&globals.path()?),
    };
    Ok(json!({ "configuration": configuration, "database": database, "weights": weights, "conversations": conversations, "server": server }))
}
