use std::io::Write as _;
use std::sync::Arc;

use audit::EventKind;
use graph::{ToolDefinition, UserId};
use mcp_hub::Tools;
use server::api::permissions;
use service::audited;
use service::config::Config;
use service::global_args::GlobalArgs;
use service::hub::Servers;
use service::run_request::check_server_is_known;
use service::wiring;
use store::{Grant, NewPermission, PermissionCheck, PermissionRow, Store};
use terminal::{BOLD, DIM, age, now_ms, paint};
use wire::api::{self, PermissionState};

use crate::exit::{Exit, Result, ServiceError};

/// What tools may do without asking you
#[derive(clap::Args)]
#[command(after_help = "Examples:
  baton tools permissions
  baton tools permissions allow notes.add     this tool; a server's name allows all of its tools
  baton tools permissions revoke notes.add    by name, or by the number that the list shows

A tool that may change something is asked about before it is called, unless it is allowed here, in the configuration ([tools] allowed),
or for one run with --allow. A permission is for what the tool and its server are when it is given: when they change, you are asked again. The hints of a server count only if its entry in mcp.json says \"trusted\": true.")]
pub(crate) struct Permissions {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    pub(super) servers: Servers,
    /// Print JSON, one permission per line
    #[arg(long, global = true)]
    json: bool,
}

#[derive(clap::Subcommand)]
enum Action {
    /// List them
    List,
    /// Revoke permissions, by name or number
    Revoke {
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Allow a tool (server.tool) or a whole server permanently
    Allow {
        #[arg(value_name = "TOOL_OR_SERVER")]
        name: String,
    },
}

impl Permissions {
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result<Exit> {
        wiring::block_on(async {
            let store = globals.open_or_make().await?;
            match &self.action {
                None | Some(Action::List) => self.list(&store, globals).await?,
                Some(Action::Revoke { name }) => self.revoke(&*store, name, globals).await?,
                Some(Action::Allow { name }) => self.allow(&store, name, globals).await?,
            }
            Ok(Exit::Well)
        })
    }

    /// Starts no server: what the tools are is what was last seen of them.
    async fn list(&self, store: &Arc<dyn Store>, globals: &GlobalArgs) -> Result<()> {
        let mut out = anstream::stdout();
        let rows = store.permissions(&UserId::default()).await?;
        let hub = match globals.script {
            Some(_) => None,
            None => Some(self.servers.hub(globals, &Config::read(globals)?, None, None, Some(store))?),
        };
        if rows.is_empty() && !self.json {
            writeln!(out, "no tool is allowed for good")?;
        }
        for row in rows {
            let described = described(&row, hub.as_ref());
            if self.json {
                writeln!(out, "{}", serde_json::to_string(&described)?)?;
                continue;
            }
            let scope = match &row.grant {
                Grant::Conversation { thread, .. } => format!("this tool, in the conversation {thread}"),
                Grant::Tool { .. } => "this tool, always".to_owned(),
                Grant::Server { .. } => "every tool of this server, always".to_owned(),
            };
            let when = paint(DIM, format!("{} ago", age(row.created_ms, now_ms())));
            let state = match described.state {
                PermissionState::Valid | PermissionState::Unknown => String::new(),
                PermissionState::Changed => format!("  asked about again, because this changed: {}", changed_parts(&row, hub.as_ref())),
                PermissionState::Unbound => "  asked about again, because it was given before definitions of tools were recorded".to_owned(),
            };
            writeln!(out, "{:>4}  {}  {scope}  {when}{state}", row.permission, paint(BOLD, evidence::visible(row.grant.name())))?;
        }
        Ok(())
    }

    /// All permissions of that name, whatever their scope.
    async fn revoke(&self, store: &dyn Store, name: &str, globals: &GlobalArgs) -> Result<()> {
        let user = UserId::default();
        let rows = store.permissions(&user).await?;
        let meant: Vec<_> = rows.iter().filter(|row| row.grant.name() == name || row.permission.to_string() == name).collect();
        if meant.is_empty() {
            return Err(ServiceError::Usage(format!("{name:?} is not allowed; `baton tools permissions` lists what is")));
        }
        for row in meant {
            store.revoke_permission(&user, row.permission).await?;
            audited::record(globals, EventKind::PermissionRevoked, |event| event.tool(row.grant.name()))?;
            if self.json {
                writeln!(std::io::stdout(), "{}", serde_json::to_string(&described(row, None))?)?;
            }
        }
        Ok(())
    }

    async fn allow(&self, store: &Arc<dyn Store>, name: &str, globals: &GlobalArgs) -> Result<()> {
        let config = Config::read(globals)?;
        check_server_is_known(name, &self.servers.names(globals, &config)?)?;
        let registry = self.servers.registry(&config).await?;
        let hub = self.servers.hub(globals, &config, None, registry.as_ref(), Some(store))?;
        hub.list_registry_tools().await;
        // The permission is for what the tool is now, so its server is asked.
        let definition = hub.connected_definition(name).await.map_err(super::service_error);
        hub.close().await;
        let definition = Some(definition?);
        let grant = match name.contains('.') {
            true => Grant::Tool { tool: name.to_owned() },
            false => Grant::Server { server: name.to_owned() },
        };
        let permission = NewPermission { user: UserId::default(), grant, definition, created_ms: now_ms() };
        audited::record(globals, EventKind::PermissionAllowed, |event| event.tool(name))?;
        let number = store.keep_permission(permission).await?;
        if self.json {
            let rows = store.permissions(&UserId::default()).await?;
            for row in rows.into_iter().filter(|row| row.permission == number) {
                writeln!(std::io::stdout(), "{}", serde_json::to_string(&permissions::described(&row, row.definition.as_ref()))?)?;
            }
        }
        Ok(())
    }
}

/// What is known of the tool without asking its server.
fn known_definition(name: &str, hub: Option<&Tools>) -> Option<ToolDefinition> {
    hub.and_then(|hub| hub.known_definition(name))
}

fn described(row: &PermissionRow, hub: Option<&Tools>) -> api::Permission {
    permissions::described(row, known_definition(row.grant.name(), hub).as_ref())
}

fn changed_parts(row: &PermissionRow, hub: Option<&Tools>) -> String {
    match known_definition(row.grant.name(), hub).map(|now| row.check(&now)) {
        Some(PermissionCheck::Changed(parts)) => parts.iter().map(|part| part.as_text()).collect::<Vec<_>>().join(", "),
        Some(PermissionCheck::Valid | PermissionCheck::Unbound) | None => String::new(),
    }
}
