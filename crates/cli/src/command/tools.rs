mod permissions;

use std::io::Write as _;
use std::time::Duration;

use audit::What;
use effects::Progress;
use graph::{Failure, FailureKind};
use mcp_hub::{CallOptions, REGISTRY, ServerStatus, ToolInfo, Tools as Hub, import};
use serde_json::Value;
use service::audited;
use service::config::Config;
use service::global_args::GlobalArgs;
use service::hub::{self, Servers};
use service::wiring;
use terminal::remark;
use terminal::{BOLD, DIM, paint};

use crate::exit::{Exit, Result, ServiceError};

/// List, look at, call and find tools
#[derive(clap::Subcommand)]
#[command(after_help = "Examples:
  baton tools list --mcp mcp.json
  baton tools show notes.search
  baton tools call notes.search '{\"query\": \"relay\"}'
  baton tools search \"send a message\"
  baton tools disable notes.delete
  baton tools permissions                 what may be called without asking; `revoke notes.add` takes it back")]
pub(crate) enum Tools {
    /// All tools of all servers
    List {
        #[command(flatten)]
        servers: Servers,
        /// Print JSON, one tool a line
        #[arg(long)]
        json: bool,
    },
    /// One tool with its parameters
    Show {
        name: String,
        #[command(flatten)]
        servers: Servers,
        #[arg(long)]
        json: bool,
    },
    /// Call a tool and print what it says
    Call {
        name: String,
        /// Its arguments, as JSON
        #[arg(default_value = "{}", value_name = "JSON")]
        arguments: String,
        #[command(flatten)]
        servers: Servers,
        /// Seconds to wait at most
        #[arg(long, default_value_t = 60, value_name = "SECONDS")]
        deadline: u64,
        /// Print the whole result as JSON
        #[arg(long)]
        json: bool,
    },
    /// The tools that fit a question best
    Search {
        query: String,
        #[arg(long, default_value_t = 10)]
        size: usize,
        #[command(flatten)]
        servers: Servers,
        #[arg(long)]
        json: bool,
    },
    /// Switch a tool or a whole server on, for good
    Enable {
        name: String,
        /// For an imported server: a variable of the environment that it may have; may be given several times
        #[arg(long = "variable", value_name = "NAME")]
        variables: Vec<String>,
        #[command(flatten)]
        servers: Servers,
    },
    /// Switch a tool or a whole server off, for good
    Disable {
        name: String,
        #[command(flatten)]
        servers: Servers,
    },
    /// Which tools you allowed for good, and take it back
    Permissions(permissions::Permissions),
}

impl Tools {
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result<Exit> {
        if let Tools::Permissions(permissions) = self {
            return permissions.run(globals);
        }
        wiring::block_on(async {
            let config = Config::read(globals)?;
            if let Tools::Enable { name, variables, .. } = &self
                && !variables.is_empty()
            {
                import::allow_variables(&hub::imported(globals)?, name, variables).map_err(ServiceError::Usage)?;
            }
            let registry = self.servers().registry(&config).await?;
            let hub = self.servers().hub(globals, &config, None, registry.as_ref())?;
            hub.meet_registry().await;
            self.record(globals)?;
            let done = self.work(&hub).await;
            // What a stranger's list makes this program start is shown to whoever turned it on.
            if let (Ok(_), Tools::Enable { name, .. }) = (&done, &self)
                && hub::is_imported(globals, name)?
                && let Some(how) = hub.reached_by(name)
            {
                remark(&format!("{name} is on: it {}", evidence::visible(&how)));
            }
            hub.close().await;
            done
        })
    }

    /// What changes something is in the audit log before it is done.
    fn record(&self, globals: &GlobalArgs) -> Result<()> {
        match self {
            Tools::Call { name, arguments, .. } => {
                let arguments = Value::from(arguments.as_str());
                audited::record(globals, What::ToolCall, |event| event.tool(name.as_str()).arguments(&arguments).detail("by `baton tools call`"))
            }
            Tools::Enable { name, .. } => audited::record(globals, What::ToolEnabled, |event| event.tool(name.as_str())),
            Tools::Disable { name, .. } => audited::record(globals, What::ToolDisabled, |event| event.tool(name.as_str())),
            Tools::List { .. } | Tools::Show { .. } | Tools::Search { .. } | Tools::Permissions(_) => Ok(()),
        }
    }

    fn servers(&self) -> &Servers {
        match self {
            Tools::Permissions(permissions) => &permissions.servers,
            Tools::List { servers, .. } | Tools::Show { servers, .. } | Tools::Call { servers, .. } => servers,
            Tools::Search { servers, .. } | Tools::Enable { servers, .. } | Tools::Disable { servers, .. } => servers,
        }
    }

    async fn work(&self, hub: &Hub) -> Result<Exit> {
        let mut out = anstream::stdout();
        match self {
            Tools::List { json, .. } => {
                for tool in hub.list().await {
                    line(&mut out, &tool, None, *json)?;
                }
                complain(hub);
            }
            Tools::Search { query, size, json, .. } => {
                for (tool, score) in hub.search(query, *size).await {
                    line(&mut out, &tool, Some(score), *json)?;
                }
                complain(hub);
            }
            Tools::Show { name, json, .. } => {
                let tool = hub.describe(name).await.map_err(trouble)?;
                match json {
                    true => writeln!(out, "{}", serde_json::to_string(&server::registry::tool(&tool))?)?,
                    false => {
                        writeln!(out, "{}\n{}\n", paint(BOLD, &tool.name), tool.description)?;
                        writeln!(out, "{}", serde_json::to_string_pretty(&tool.schema)?)?;
                    }
                }
            }
            Tools::Call { name, arguments, deadline, json, .. } => {
                let arguments: Value =
                    serde_json::from_str(arguments).map_err(|error| ServiceError::Usage(format!("the arguments are not valid JSON: {error}")))?;
                // Progress is for the person who waits.
                let progress = Progress::to(|text| eprint!("{text}"));
                let options = CallOptions { deadline: Duration::from_secs(*deadline), progress, ..CallOptions::default() };
                let found = hub.call(name, &arguments, &options).await.map_err(trouble)?;
                match json {
                    true => writeln!(out, "{}", serde_json::to_string(&found)?)?,
                    false => writeln!(out, "{}", found.text)?,
                }
            }
            // It needs no hub, and was done before one was made.
            Tools::Permissions(_) => {}
            Tools::Enable { name, .. } => hub.enable(name, true).await.map_err(trouble)?,
            Tools::Disable { name, .. } => hub.enable(name, false).await.map_err(trouble)?,
        }
        Ok(Exit::Well)
    }
}

fn line(out: &mut impl std::io::Write, tool: &ToolInfo, score: Option<f32>, json: bool) -> Result<()> {
    if json {
        let tool = server::registry::tool(tool);
        let text = match score {
            Some(score) => serde_json::to_string(&wire::registry::Hit { score, tool })?,
            None => serde_json::to_string(&tool)?,
        };
        return Ok(writeln!(out, "{text}")?);
    }
    let first = tool.description.lines().next().unwrap_or_default();
    let off = if tool.enabled { "" } else { " (off)" };
    Ok(writeln!(out, "{}{off}  {}", paint(BOLD, &tool.name), paint(DIM, first))?)
}

/// A list that is shorter than it should be says so.
fn complain(hub: &Hub) {
    for health in hub.health() {
        // Of the registry the hub has said so.
        if let (true, ServerStatus::Down { why, .. }) = (health.enabled && health.server != REGISTRY, &health.status) {
            // Nowhere is left to complain to.
            let _ = writeln!(anstream::stderr(), "{}", paint(DIM, format!("{} is down: {why}", health.server)));
        }
    }
}

fn trouble(failure: Failure) -> ServiceError {
    match failure.kind {
        FailureKind::Refused | FailureKind::Invalid => ServiceError::Usage(failure.message),
        _ => ServiceError::Failed(failure.message),
    }
}
