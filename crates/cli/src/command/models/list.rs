use std::io::Write as _;

use embedded_model::weights;
use serde_json::json;
use service::config::Config;
use service::global_args::GlobalArgs;
use service::model_options::{self, OllamaLookup, name_of};
use service::wiring;
use terminal::{BOLD, DIM, GREEN, Table, YELLOW, bytes};

use crate::exit::{Exit, Result};

/// List the models that could answer, and what each one is missing
#[derive(clap::Args)]
pub(crate) struct List {
    /// Print JSON, one model per line
    #[arg(long)]
    json: bool,
}

/// One row of the table.
struct Row {
    name: String,
    is_ready: bool,
    /// A description, or what is missing.
    detail: String,
    usd_per_million: Option<(f64, f64)>,
}

impl List {
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result<Exit> {
        let config = Config::read(globals)?;
        let rows = wiring::block_on(rows(&config))?;
        let mut out = anstream::stdout().lock();
        if self.json {
            for Row { name, is_ready, detail, usd_per_million } in rows {
                let price = usd_per_million.map(|(usd_in, usd_out)| json!({ "in": usd_in, "out": usd_out }));
                writeln!(out, "{}", json!({ "model": name, "ready": is_ready, "detail": detail, "usd_per_million": price }))?;
            }
            return Ok(Exit::Well);
        }
        let mut table = Table::new(&["model", "state", "$/M in, out", ""]);
        for row in rows {
            let state = if row.is_ready { (GREEN, "ready".to_owned()) } else { (YELLOW, "absent".to_owned()) };
            let price = row.usd_per_million.map_or_else(String::new, |(usd_in, usd_out)| format!("{usd_in}, {usd_out}"));
            table.row([(BOLD, row.name), state, (DIM, price), (DIM, row.detail)]);
        }
        table.write(&mut out)?;
        Ok(Exit::Well)
    }
}

async fn rows(config: &Config) -> Result<Vec<Row>> {
    let folder = config.embedded.folder()?;
    let mut rows: Vec<Row> = Vec::new();
    for pinned in weights::all() {
        let is_ready = weights::is_there(&folder, &pinned);
        let detail = match is_ready {
            true => {
                let tuned = if pinned.adapter.is_some() { "tuned for Baton; " } else { "" };
                format!("runs in this process; {tuned}{}", weights::path(&folder, &pinned).display())
            }
            false => format!("`baton models pull {}` fetches {}; {}", pinned.name, bytes(pinned.bytes), pinned.license),
        };
        rows.push(Row { name: name_of(&pinned).to_string(), is_ready, detail, usd_per_million: Some((0.0, 0.0)) });
    }
    let table = config.table();
    let clients = models::remote::clients().map_err(|trouble| crate::exit::ServiceError::Failed(trouble.message))?;
    match models::choice::probe_ollama(&clients, &table, model_options::OLLAMA_PATIENCE).await {
        Ok(models) => rows.extend(models.into_iter().map(|model| Row {
            name: format!("ollama/{model}"),
            is_ready: true,
            detail: "from a running Ollama".into(),
            usd_per_million: Some((0.0, 0.0)),
        })),
        Err(why) => rows.push(Row { name: "ollama/…".into(), is_ready: false, detail: why, usd_per_million: None }),
    }
    let mut names: Vec<&String> = table.models.keys().collect();
    names.sort();
    for name in names {
        let Ok(parsed) = name.parse() else { continue };
        let row = table.row(&parsed);
        let (is_ready, detail) =
            match table.endpoint(&parsed).map(|endpoint| (endpoint, endpoint.key.as_ref().map(|key| key.find(&|name| config.key(name))))) {
                Ok((endpoint, None)) => (true, endpoint.url.clone()),
                Ok((endpoint, Some(Ok(_)))) => (true, format!("key found; {}", endpoint.url)),
                Ok((_, Some(Err(why)))) => (false, why),
                Err(error) => (false, error.to_string()),
            };
        let usd_per_million = row.usd_per_million_in.zip(row.usd_per_million_out);
        rows.push(Row { name: name.clone(), is_ready, detail, usd_per_million });
    }
    let choice = model_options::choose(None, config, config.embedded.pull, OllamaLookup::IfNeeded).await;
    if let Ok(choice) = choice
        && let Some(row) = rows.iter_mut().find(|row| row.name == choice.model.to_string())
    {
        row.detail = format!("taken when none is named; {}", row.detail);
    }
    rows.push(Row {
        name: "extract".into(),
        is_ready: true,
        detail: "no language model: answers with sentences from the evidence".into(),
        usd_per_million: Some((0.0, 0.0)),
    });
    Ok(rows)
}
