use anstyle::Style;
use flows::Visibility;
use graph::Graph;
use serde_json::{Value, json};
use service::config::Config;
use service::global_args::GlobalArgs;
use service::wiring;
use terminal::remark;
use terminal::{BOLD, DIM, Table, paint};

use crate::exit::{Exit, Result, ServiceError};
use crate::settings_table;

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
    /// Draw it as Mermaid
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

/// Show a flow's purpose, its graph, and its settings with types, defaults and bounds
#[derive(clap::Args)]
struct Show {
    name: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Flows {
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result<Exit> {
        self.print(globals, &mut anstream::stdout().lock())
    }

    fn print(self, globals: &GlobalArgs, out: &mut impl std::io::Write) -> Result<Exit> {
        let flows = wiring::flows(globals)?;
        let find = |name: &str| {
            flows.get(name).ok_or_else(|| {
                let known: Vec<&str> = flows.keys().map(String::as_str).collect();
                ServiceError::Usage(format!("there is no flow {name:?}; there are: {}", known.join(", ")))
            })
        };
        match (self.command, self.name) {
            (Some(Command::Show(show)), _) => show.print(find(&show.name)?, globals, out)?,
            (None, None) => {
                if self.json {
                    for graph in flows.values() {
                        writeln!(out, "{}", graph.json())?;
                    }
                    return Ok(Exit::Well);
                }
                let mut table = Table::new(&["flow", "what it does"]);
                for flow in globals.flows.iter().filter(|flow| self.all || flow.visibility == Visibility::Listed) {
                    table.row([(BOLD, flow.name.to_owned()), (Style::new(), flow.description.to_owned())]);
                }
                table.write(out)?;
                let more = if self.all { "" } else { "; --all lists the internal ones too" };
                remark(&format!("`baton flows show NAME` shows a flow's steps and settings{more}"));
            }
            (None, Some(name)) => {
                let graph = find(&name)?;
                match (self.mermaid, self.json) {
                    (true, _) => write!(out, "{}", graph.mermaid())?,
                    (_, true) => writeln!(out, "{}", graph.json())?,
                    (false, false) => draw(graph, out)?,
                }
            }
        }
        Ok(Exit::Well)
    }
}

impl Show {
    fn print(&self, graph: &Graph, globals: &GlobalArgs, out: &mut impl std::io::Write) -> Result<()> {
        let name = graph.name();
        let all = Config::for_run(globals)?.settings.list(name);
        let (title, purpose) = globals.flows.get(name).map(|flow| (flow.title, flow.description)).unwrap_or_default();
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
                writeln!(out, "{}", settings_table::table(&all))?;
                writeln!(out)?;
                writeln!(out, "Set one with --set KEY=VALUE, or for good under [flows.{name}] in the configuration.")?;
            }
        }
        Ok(())
    }
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

#[cfg(test)]
mod tests {
    use flows::{Descriptor, Needs, Registry, Routing};
    use graph::{Ask, END, Go, GraphError, Replies};
    use serde::{Deserialize, Serialize};
    use service::run_request;

    use super::*;

    /// A complete minimal flow: it repeats the question.
    const ECHO: Descriptor = Descriptor {
        title: "Echo",
        description: "Repeats the question",
        icon: "conversation",
        routing: Some(Routing { purpose: "repeats", examples: &[], needs: Needs::Nothing, substitutes: &[], may_be_replaced: true }),
        ..Descriptor::new("echo", echo)
    };

    #[derive(Serialize, Deserialize)]
    struct Echo {
        question: String,
    }

    fn echo(_: &Registry) -> std::result::Result<Graph, GraphError> {
        let fold = |s: &mut Echo, _: &Replies<'_>| Go::end().say("assistant", s.question.as_str());
        Graph::of::<Echo>("echo").node("repeat", (|_: &Echo| Ask::nothing(), fold), &[END]).output(|s| json!({ "answer": s.question })).build()
    }

    fn globals(folder: &tempfile::TempDir) -> GlobalArgs {
        let mut globals = GlobalArgs::new(folder.path().join("baton.db"), folder.path().join("baton.toml"));
        std::fs::write(folder.path().join("baton.toml"), "").unwrap();
        globals.script = Some("sample".into());
        globals.flows = Registry::default().with(ECHO);
        globals
    }

    #[test]
    fn a_flow_that_is_added_to_the_list_is_in_the_listing_of_the_command_line() {
        let folder = tempfile::tempdir().unwrap();
        let globals = globals(&folder);
        assert!(printed(&globals, None).lines().any(|line| line.starts_with("echo ") && line.ends_with("Repeats the question")));
        let shown = printed(&globals, Some("echo"));
        assert!(shown.starts_with("Echo: Repeats the question") && shown.contains("It has no settings."), "{shown}");
        assert_eq!(run_request::flow(Some("echo"), &globals).unwrap(), "echo");
        let settings = Config::for_run(&globals).unwrap().settings.settings_for("auto", &Value::Null).unwrap();
        assert_eq!(settings["flows"][6], "echo", "the router may pick it: {settings}");
        assert!(run_request::check_can_approve("echo", &globals.flows).is_err());
    }

    /// The command's output: the list, or one flow.
    fn printed(globals: &GlobalArgs, name: Option<&str>) -> String {
        let mut out = Vec::new();
        let command = name.map(|name| Command::Show(Show { name: name.to_owned(), json: false }));
        Flows { command, name: None, all: false, mermaid: false, json: false }.print(globals, &mut out).expect("it can be printed");
        anstream::adapter::strip_str(&String::from_utf8_lossy(&out)).to_string()
    }
}
