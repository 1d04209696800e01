use std::io::Write as _;

use audit::EventKind;
use graph::UserId;
use server::api::permissions;
use service::audited;
use service::config::Config;
use service::global_args::GlobalArgs;
use service::hub::Servers;
use service::run_request::check_server_is_known;
use service::wiring;
use store::{Grant, NewPermission, Store};
use terminal::{BOLD, DIM, age, now_ms, paint};

use crate::exit::{Exit, Result, ServiceError};

/// What tools may do without asking you
#[derive(clap::Args)]
#[command(after_help = "Examples:
  baton tools permissions
  baton tools permissions allow notes.add     this tool; a server's name allows all of its tools
  baton tools permissions revoke notes.add    by name, or by the number that the list shows

A tool that may change something is asked about before it is called, unless it is allowed here, in the configuration ([tools] allowed),
or for one run with --allow. The hints of a server count only if its entry in mcp.json says \"trusted\": true.")]
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
                None | Some(Action::List) => self.list(&*store).await?,
                Some(Action::Revoke { name }) => self.revoke(&*store, name, globals).await?,
                Some(Action::Allow { name }) => self.allow(&*store, name, globals).await?,
            }
            Ok(Exit::Well)
        })
    }

    async fn list(&self, store: &dyn Store) -> Result<()> {
        let mut out = anstream::stdout();
        let rows = store.permissions(&UserId::default()).await?;
        if rows.is_empty() && !self.json {
            writeln!(out, "no tool is allowed for good")?;
        }
        for row in rows {
            if self.json {
                writeln!(out, "{}", serde_json::to_string(&permissions::described(&row))?)?;
                continue;
            }
            let scope = match &row.grant {
                Grant::Conversation { thread, .. } => format!("this tool, in the conversation {thread}"),
                Grant::Tool { .. } => "this tool, always".to_owned(),
                Grant::Server { .. } => "every tool of this server, always".to_owned(),
            };
            let when = paint(DIM, format!("{} ago", age(row.created_ms, now_ms())));
            writeln!(out, "{:>4}  {}  {scope}  {when}", row.permission, paint(BOLD, evidence::visible(row.grant.name())))?;
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
                writeln!(std::io::stdout(), "{}", serde_json::to_string(&permissions::described(row))?)?;
            }
        }
        Ok(())
    }

    async fn allow(&self, store: &dyn Store, name: &str, globals: &GlobalArgs) -> Result<()> {
        check_server_is_known(name, &self.servers.names(globals, &Config::read(globals)?)?)?;
        let grant = match name.contains('.') {
            true => Grant::Tool { tool: name.to_owned() },
            false => Grant::Server { server: name.to_owned() },
        };
        let permission = NewPermission { user: UserId::default(), grant, created_ms: now_ms() };
        audited::record(globals, EventKind::PermissionAllowed, |event| event.tool(name))?;
        let number = store.keep_permission(permission).await?;
        if self.json {
            let rows = store.permissions(&UserId::default()).await?;
            for row in rows.into_iter().filter(|row| row.permission == number) {
                writeln!(std::io::stdout(), "{}", serde_json::to_string(&permissions::described(&row))?)?;
            }
        }
        Ok(())
    }
}
