//! The model of requests that name none. It changes while the service runs when an operator stores or removes a key.

use std::sync::{Arc, PoisonError, RwLock};

use engine::Engine;
use flows::input::ModelProfile;
use models::Models;
use models::choice::{Choice, Source};
use server::allowance::Allowances;

use crate::config::Config;
use crate::model_options::{self, EffectSetup};

pub(crate) struct SelectedModel {
    /// `None` where a script or a recording answers.
    models: Option<Arc<Models>>,
    engine: Engine,
    allowances: Allowances,
    now: RwLock<Selection>,
}

struct Selection {
    /// Its name and why it was chosen; `None` where nothing was to choose.
    choice: Option<(String, Source)>,
    profile: ModelProfile,
}

impl SelectedModel {
    pub(crate) fn new(setup: &EffectSetup, engine: Engine, allowances: Allowances) -> SelectedModel {
        let choice = setup.choice.as_ref().map(|choice| (choice.model.to_string(), choice.by));
        SelectedModel { models: setup.models.clone(), engine, allowances, now: RwLock::new(Selection { choice, profile: setup.profile }) }
    }

    /// Its name, and why it was chosen.
    pub(crate) fn choice(&self) -> Option<(String, Source)> {
        self.now.read().unwrap_or_else(PoisonError::into_inner).choice.clone()
    }

    pub(crate) fn profile(&self) -> ModelProfile {
        self.now.read().unwrap_or_else(PoisonError::into_inner).profile
    }

    /// Another choice after a key was stored or removed. It counts only where a key decides: an Ollama that was started meanwhile changes nothing. Runs
    /// that were started keep their model.
    pub(crate) fn replace(&self, choice: &Choice, config: &Config) {
        let (Some(models), Some((name, by))) = (&self.models, self.choice()) else { return };
        let new_name = choice.model.to_string();
        if new_name == name || (by != Source::Environment && choice.by != Source::Environment) {
            return;
        }
        models.choose(choice.model.clone());
        self.engine.set_default_model(&new_name);
        self.allowances.set_servers_model(&new_name);
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        *now = Selection { profile: model_options::profile_of(&choice.model, config), choice: Some((new_name, choice.by)) };
    }
}
