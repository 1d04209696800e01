use embedded_model::weights::{self, Pinned};
use models::{Family, Name};
use service::config::Config;
use service::global_args::GlobalArgs;
use service::model_options::{self, name_of};
use terminal::remark;

use crate::exit::{Exit, Result, ServiceError};

/// Remove the weights of an embedded model, and remains of an interrupted download
#[derive(clap::Args)]
pub(crate) struct Remove {
    /// Which model; `baton models list` names them
    name: String,
}

impl Remove {
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result<Exit> {
        let pinned = named(Some(&self.name))?;
        let folder = Config::read(globals)?.embedded.folder()?;
        let removed = match weights::remove(&pinned, &folder) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            other => other.map_err(|error| ServiceError::Failed(format!("{}: {error}", folder.display()))),
        };
        match removed? {
            true => remark(&format!("{} is removed", name_of(&pinned))),
            false => remark(&format!("{} was not here", name_of(&pinned))),
        }
        Ok(Exit::Well)
    }
}

/// With or without its namespace; `None` is the default model.
pub(super) fn named(name: Option<&str>) -> Result<Pinned> {
    let all = weights::all();
    match name.map(|name| name.strip_prefix("embedded/").unwrap_or(name)) {
        Some(name) => model_options::pinned(&Name { family: Family::Embedded, model: name.to_owned() }),
        None => all.into_iter().next().ok_or_else(|| ServiceError::Failed("this build knows no weights".into())),
    }
}
