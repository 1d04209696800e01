use std::io::Write as _;

use anstyle::Style;
use graph::Graph;
use serde_json::{Value, json};

use crate::config::Config;
use crate::exit::{Exit, Result, Trouble};
use crate::follow::remark;
use crate::place::Place;
use crate::settings;
use crate::text::{BOLD, DIM, Table, paint};
use crate::wiring;

/// List the flows, draw one, or show one with its settings
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(
    after_help = "Examples:\n  baton flows\n  baton flows show search\n  baton flows research\n  baton flows research --mermaid > research.mmd"
)]
pub(crate) struct Flows {
    #[command(subcommand)]
    command: Option<Command>,
    /// The flow to draw
    name: Option<String>,
    /// List internal flows too: parts of other flows, agents of the team, and samples
    #[arg(long, conflicts_with_all = ["name", "json"])]
    all: bool,
    /// Draw it for Mermaid, as Markdown pages show it
    #[arg(long, requires = "name", conflicts_with = "json")]
    mermaid: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Subcommand)]
enum Command {
    Show(Show),
}

/// Show what a flow is for, its graph, and its settings with types, defaults and bounds
#[derive(clap::Args)]
struct Show {
    name: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Name, title and purpose of the flows that people choose. The others are parts of these, or samples.
pub(crate) const SHOWN: [(&str, &str, &str); 7] = [
    ("auto", "Choose for me", "Picks the way that suits the question"),
    ("direct", "Direct answer", "Answers at once, from knowledge or one look into the documents"),
    ("search", "Search", "Plans, looks things up with tools and answers with sources"),
    ("chat", "Conversation", "Goes by intent: search, summarize, or talk about what was said"),
    ("reason", "Think it through", "Plans in steps, reflects on what it found, and answers"),
    ("panel", "Panel", "Several work on it and critics check before it is answered"),
    ("supervise", "Carry out a job", "Researches, writes a document or a mail, and asks before it sends anything"),
];

impl Flows {
    pub(crate) fn run(self, place: &Place) -> Result<Exit> {
        let flows = wiring::flows()?;
        let mut out = anstream::stdout().lock();
        let find = |name: &str| {
            flows.get(name).ok_or_else(|| {
                let known: Vec<&str> = flows.keys().map(String::as_str).collect();
                Trouble::Usage(format!("there is no flow {name:?}; there are: {}", known.join(", ")))
            })
        };
        match (self.command, self.name) {
            (Some(Command::Show(show)), _) => show.print(find(&show.name)?, place, &mut out)?,
            (None, None) => {
                if self.json {
                    for graph in flows.values() {
                        writeln!(out, "{}", graph.json())?;
                    }
                    return Ok(Exit::Well);
                }
                let shown = flows.keys().filter(|name| self.all || SHOWN.iter().any(|(flow, _, _)| flow == name));
                let mut table = Table::new(&["flow", "what it does"]);
                for name in shown {
                    table.row([(BOLD, name.clone()), (Style::new(), presented(name).1)]);
                }
                table.write(&mut out)?;
                let more = if self.all { "" } else { "; --all lists the internal ones too" };
                remark(&format!("`baton flows show NAME` shows a flow's steps and settings{more}"));
            }
            (None, Some(name)) => {
                let graph = find(&name)?;
                match (self.mermaid, self.json) {
                    (true, _) => write!(out, "{}", graph.mermaid())?,
                    (_, true) => writeln!(out, "{}", graph.json())?,
                    (false, false) => draw(graph, &mut out)?,
                }
            }
        }
        Ok(Exit::Well)
    }
}

impl Show {
    fn print(&self, graph: &Graph, place: &Place, out: &mut impl std::io::Write) -> Result<()> {
        let name = graph.name();
        let all = Config::for_run(place)?.settings.list(name);
        let (title, purpose) = presented(name);
        if self.json {
            let shown = json!({ "name": name, "title": title, "purpose": purpose, "graph": graph.json(), "settings": all });
            writeln!(out, "{shown}")?;
            return Ok(());
        }
        match purpose.is_empty() {
            true => writeln!(out, "{}", paint(BOLD, title))?,
            false => writeln!(out, "{}: {purpose}", paint(BOLD, title))?,
        }
        writeln!(out)?;
        draw(graph, out)?;
        writeln!(out)?;
        match all.is_empty() {
            true => writeln!(out, "It has no settings.")?,
            false => {
                writeln!(out, "{}", settings::table(&all))?;
                writeln!(out)?;
                writeln!(out, "Set one with --set KEY=VALUE, or for good under [flows.{name}] in the configuration.")?;
            }
        }
        Ok(())
    }
}

/// Title and purpose of a flow; agents of the team have a purpose only.
fn presented(name: &str) -> (String, String) {
    let agent = flows::specialist::ALL.iter().find(|one| one.flow == name);
    match SHOWN.iter().find(|(flow, _, _)| *flow == name) {
        Some((_, title, purpose)) => ((*title).to_owned(), (*purpose).to_owned()),
        None => (capitalized(name), agent.map(|one| one.about.to_owned()).unwrap_or_default()),
    }
}

pub(crate) fn capitalized(name: &str) -> String {
    let words = name.replace('_', " ");
    let mut letters = words.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

fn draw(graph: &Graph, out: &mut impl std::io::Write) -> Result<()> {
    let drawing = graph.json();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    writeln!(out, "{} starts at {}", paint(BOLD, graph.name()), text(&drawing["start"]))?;
    for node in drawing["nodes"].as_array().into_iter().flatten() {
        let to: Vec<String> = node["to"].as_array().into_iter().flatten().map(text).collect();
        writeln!(out, "  {} {} {}", text(&node["name"]), paint(DIM, "→"), to.join(", "))?;
    }
    Ok(())
}
