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
        let removed = removed?;
        remark(&removal_message(&pinned, removed, weights::is_there(&folder, &pinned)));
        Ok(Exit::Well)
    }
}

/// What was removed, and what that means for models that use the same weights.
fn removal_message(pinned: &Pinned, removed: bool, weights_stay: bool) -> String {
    let name = name_of(pinned);
    let others: Vec<Pinned> = weights::sharing(pinned);
    let list = others.iter().map(|other| name_of(other).to_string()).collect::<Vec<_>>().join(", ");
    match (removed, others.first()) {
        (_, Some(other)) if weights_stay => {
            let what = if removed { "is removed" } else { "had nothing of its own here" };
            format!("{name} {what}; its weights are those of {list} and stay (`baton models remove {}` removes them)", other.name)
        }
        (true, Some(_)) => format!("{name} is removed, and with it what {list} needs of these weights"),
        (true, None) => format!("{name} is removed"),
        (false, _) => format!("{name} was not here"),
    }
}

/// With or without its namespace; `None` is the default model.
pub(super) fn named(name: Option<&str>) -> Result<Pinned> {
    let all = weights::all();
    match name.map(|name| name.strip_prefix("embedded/").unwrap_or(name)) {
        Some(name) => model_options::pinned(&Name { family: Family::Embedded, model: name.to_owned() }),
        None => all.into_iter().next().ok_or_else(|| ServiceError::Failed("this build has no list of weights".into())),
    }
}
