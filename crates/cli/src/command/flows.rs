use std::io::Write as _;

use crate::exit::{Exit, Result, Trouble};
use crate::text::{BOLD, DIM, paint};
use crate::wiring;

/// List the flows, or draw one
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  baton flows\n  baton flows research\n  baton flows research --mermaid > research.mmd")]
pub(crate) struct Flows {
    name: Option<String>,
    /// Draw it for Mermaid, as Markdown pages show it
    #[arg(long, requires = "name", conflicts_with = "json")]
    mermaid: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Flows {
    pub(crate) fn run(self) -> Result<Exit> {
        let flows = wiring::flows()?;
        let mut out = anstream::stdout().lock();
        let Some(name) = self.name else {
            for (name, graph) in &flows {
                match self.json {
                    true => writeln!(out, "{}", graph.json())?,
                    false => writeln!(out, "{name}")?,
                }
            }
            return Ok(Exit::Well);
        };
        let graph = flows.get(&name).ok_or_else(|| {
            let known: Vec<&str> = flows.keys().map(String::as_str).collect();
            Trouble::Usage(format!("there is no flow {name:?}; there are: {}", known.join(", ")))
        })?;
        match (self.mermaid, self.json) {
            (true, _) => write!(out, "{}", graph.mermaid())?,
            (_, true) => writeln!(out, "{}", graph.json())?,
            (false, false) => {
                let drawing = graph.json();
                let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
                writeln!(out, "{} starts at {}", paint(BOLD, &name), text(&drawing["start"]))?;
                for node in drawing["nodes"].as_array().into_iter().flatten() {
                    let to: Vec<String> = node["to"].as_array().into_iter().flatten().map(text).collect();
                    writeln!(out, "  {} {} {}", text(&node["name"]), paint(DIM, "→"), to.join(", "))?;
                }
            }
        }
        Ok(Exit::Well)
    }
}
