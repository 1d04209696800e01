//! What performs the effects of many users: models, tools and agents, and what each user may do with them.

use std::sync::Arc;

use server::allowance::Allowances;
use store::Store;

use crate::config::Config;
use crate::error::{Result, ServiceError};
use crate::global_args::GlobalArgs;
use crate::hub;
use crate::library::{Library, UploadLimits};
use crate::model_options::{EffectSetup, ModelOptions};
use crate::shared_tools;
use crate::tool_access::ToolAccess;
use crate::user_tool_filter::UserToolFilter;
use crate::wiring;

pub(crate) struct Performing {
    pub(crate) config: Config,
    pub(crate) library: Library,
    pub(crate) setup: EffectSetup,
    /// What `setup` has, within the limits of each user.
    pub(crate) handler: Arc<UserToolFilter>,
    pub(crate) allowances: Allowances,
}

impl Performing {
    pub(crate) async fn prepare(
        globals: &GlobalArgs,
        model_options: &mut ModelOptions,
        store: &Arc<dyn Store>,
        is_quiet: bool,
    ) -> Result<Performing> {
        let config = Config::for_run(globals)?;
        let uploads = hub::folder(globals)?.join("uploads");
        let kept = UploadLimits { bytes_max: config.server.limits.uploads_bytes_max, age_max: config.memory.uploads_age_max() };
        let library = Library::open(&model_options.servers.documents(&config), &uploads, kept, store.clone())?;
        model_options.servers.open_index = Some(library.folders().clone());
        let setup = wiring::prepare_effects(globals, model_options, Some(store), is_quiet).await?;
        if let Some(tools) = &setup.tools {
            shared_tools::share(store, tools, hub::imported(globals)?);
        }
        let workspaces = model_options.servers.workspaces(&hub::folder(globals)?, &config);
        let servers_model = setup.choice.as_ref().map(|choice| choice.model.to_string());
        let allowances = Allowances::new(config.users()?, store.clone(), servers_model);
        if config.server.oidc.is_some() {
            allowances.load_groups().await.map_err(|problem| ServiceError::Failed(problem.message))?;
        }
        let access = ToolAccess::new(config.tools.users.as_deref(), &workspaces);
        let handler = UserToolFilter::new(setup.handler.clone(), access, allowances.clone());
        Ok(Performing { config, library, setup, handler, allowances })
    }
}
