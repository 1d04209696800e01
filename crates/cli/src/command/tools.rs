mod login;
mod permissions;

use std::io::Write as _;
use std::time::Duration;

use audit::EventKind;
use effects::Progress;
use graph::{Failure, FailureKind};
use mcp_hub::{CallOptions, Logout, REGISTRY, Revocation, ServerStatus, ToolInfo, Tools as Hub, import};
use serde_json::Value;
use service::audited;
use service::config::Config;
use service::global_args::GlobalArgs;
use service::hub::{self, Servers};
use service::wiring;
use terminal::remark;
use terminal::{BOLD, DIM, paint};

use crate::exit::{Exit, Result, ServiceError};

/// List, show, call and search tools
#[derive(clap::Subcommand)]
#[command(after_help = "Examples:
  baton tools list --mcp mcp.json
  baton tools show notes.search
  baton tools call notes.search '{\"query\": \"relay\"}'
  baton tools search \"send a message\"
  baton tools disable notes.delete
  baton tools login orders                sign in at a remote server that wants OAuth; `logout orders` forgets the tokens
  baton tools permissions                 what may be called without asking; `revoke notes.add` takes it back")]
pub(crate) enum Tools {
    /// List all tools of all servers
    List {
        #[command(flatten)]
        servers: Servers,
        /// Print JSON, one tool per line
        #[arg(long)]
        json: bool,
    },
    /// Show one tool with its parameters
    Show {
        name: String,
        #[command(flatten)]
        servers: Servers,
        #[arg(long)]
        json: bool,
    },
    /// Call a tool and print its result
    Call {
        name: String,
        /// Its arguments, as JSON
        #[arg(default_value = "{}", value_name = "JSON")]
        arguments: String,
        #[command(flatten)]
        servers: Servers,
        /// Timeout in seconds
        #[arg(long, default_value_t = 60, value_name = "SECONDS")]
        deadline: u64,
        /// Print the whole result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Find the tools that fit a question best
    Search {
        query: String,
        #[arg(long, default_value_t = 10)]
        size: usize,
        #[command(flatten)]
        servers: Servers,
        #[arg(long)]
        json: bool,
    },
    /// Enable a tool or a whole server permanently
    Enable {
        name: String,
        /// For an imported server: an environment variable that it may read; may be repeated
        #[arg(long = "variable", value_name = "NAME")]
        variables: Vec<String>,
        #[command(flatten)]
        servers: Servers,
    },
    /// Disable a tool or a whole server permanently
    Disable {
        name: String,
        #[command(flatten)]
        servers: Servers,
    },
    /// Sign in at a remote MCP server with OAuth, in a browser
    Login(login::Login),
    /// Forget the OAuth tokens of a remote MCP server
    Logout {
        server: String,
        #[command(flatten)]
        servers: Servers,
    },
    /// List and revoke permanent permissions of tools
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
            let hub = self.servers().hub(globals, &config, None, registry.as_ref(), None)?;
            hub.list_registry_tools().await;
            self.record(globals)?;
            let done = self.work(&hub).await;
            // A command line from an imported list is shown when its server is enabled.
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

    /// A change is recorded in the audit log before it is made.
    fn record(&self, globals: &GlobalArgs) -> Result<()> {
        match self {
            Tools::Call { name, arguments, .. } => {
                let arguments = Value::from(arguments.as_str());
                audited::record(globals, EventKind::ToolCall, |event| event.tool(name.as_str()).arguments(&arguments).detail("by `baton tools call`"))
            }
            Tools::Enable { name, .. } => audited::record(globals, EventKind::ToolEnabled, |event| event.tool(name.as_str())),
            Tools::Disable { name, .. } => audited::record(globals, EventKind::ToolDisabled, |event| event.tool(name.as_str())),
            Tools::Login(login) => {
                audited::record(globals, EventKind::ServerSignIn, |event| event.tool(login.server.as_str()).detail("begun by `baton tools login`"))
            }
            Tools::Logout { server, .. } => audited::record(globals, EventKind::ServerSignOut, |event| event.tool(server.as_str())),
            Tools::List { .. } | Tools::Show { .. } | Tools::Search { .. } | Tools::Permissions(_) => Ok(()),
        }
    }

    fn servers(&self) -> &Servers {
        match self {
            Tools::Permissions(permissions) => &permissions.servers,
            Tools::Login(login) => &login.servers,
            Tools::Logout { servers, .. } => servers,
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
                warn_if_incomplete(hub);
            }
            Tools::Search { query, size, json, .. } => {
                for (tool, score) in hub.search(query, *size).await {
                    line(&mut out, &tool, Some(score), *json)?;
                }
                warn_if_incomplete(hub);
            }
            Tools::Show { name, json, .. } => {
                let tool = hub.describe(name).await.map_err(service_error)?;
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
                // Progress is shown to a waiting user.
                let progress = Progress::to(|text| eprint!("{text}"));
                let options = CallOptions { deadline: Duration::from_secs(*deadline), progress, ..CallOptions::default() };
                let found = hub.call(name, &arguments, &options).await.map_err(service_error)?;
                match json {
                    true => writeln!(out, "{}", serde_json::to_string(&found)?)?,
                    false => writeln!(out, "{}", found.text)?,
                }
            }
            // Needs no hub and was handled before.
            Tools::Permissions(_) => {}
            Tools::Login(login) => login.work(hub).await?,
            Tools::Logout { server, .. } => {
                let Logout { had_tokens, revocation } = hub.logout(server).await.map_err(service_error)?;
                remark(&match (had_tokens, revocation) {
                    (false, _) => format!("there were no tokens of {server}"),
                    (true, Revocation::Done) => format!("the tokens of {server} are removed, and its authorization server has ended the grant"),
                    (true, Revocation::NotOffered) => {
                        format!("the tokens of {server} are removed; its authorization server cannot be asked to end the grant: revoke it there")
                    }
                    (true, Revocation::Failed(why)) => {
                        format!(
                            "the tokens of {server} are removed; the grant was not ended ({}): revoke it at its authorization server",
                            evidence::visible(&why)
                        )
                    }
                });
            }
            Tools::Enable { name, .. } => hub.enable(name, true).await.map_err(service_error)?,
            Tools::Disable { name, .. } => hub.enable(name, false).await.map_err(service_error)?,
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

/// Warns if the list is incomplete.
fn warn_if_incomplete(hub: &Hub) {
    for health in hub.health() {
        // The hub has already reported the registry.
        if let (true, ServerStatus::Down { why, .. }) = (health.enabled && health.server != REGISTRY, &health.status) {
            // stderr is the last place to report to.
            let _ = writeln!(anstream::stderr(), "{}", paint(DIM, format!("{} is down: {why}", health.server)));
        }
    }
}

fn service_error(failure: Failure) -> ServiceError {
    match failure.kind {
        FailureKind::Refused | FailureKind::Invalid => ServiceError::Usage(failure.message),
        _ => ServiceError::Failed(failure.message),
    }
}
