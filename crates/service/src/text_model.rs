//! The models, for the summary tool.

use std::sync::Arc;

use async_trait::async_trait;
use effects::Progress;
use graph::{Key, Message, ModelCall, TaskId};
use models::{Family, Models};
use tokio::sync::OnceCell;
use tools::summary::Prompt;
use tools::{TextModel, TextModelError};

use crate::config::Config;
use crate::error::Result;
use crate::model_options::{self, ModelOptions};

pub(crate) struct SharedModels(Arc<Models>);

impl SharedModels {
    pub(crate) fn of(models: &Arc<Models>) -> Arc<dyn TextModel> {
        Arc::new(SharedModels(models.clone()))
    }
}

#[async_trait]
impl TextModel for SharedModels {
    /// Where only extraction is available, the tool itself extracts sentences better. A key that is stored later changes that.
    fn is_available(&self) -> bool {
        self.0.chosen().family != Family::Extract
    }

    async fn generate(&self, prompt: &Prompt) -> std::result::Result<String, TextModelError> {
        let message = |role: &str, content: &str| Message { role: role.to_owned(), content: content.to_owned() };
        let messages = vec![message("system", &prompt.system), message("user", &prompt.user)];
        // Words to tokens, with room for languages that need more.
        let tokens_max = u32::try_from(prompt.words.saturating_mul(3)).unwrap_or(u32::MAX).max(64);
        let call = ModelCall { purpose: "summary".to_owned(), messages, tokens_max: Some(tokens_max), ..ModelCall::default() };
        let run = engine::new_run_id();
        // A tool requests a summary, not a run, so it has its own key.
        let key = Key::of(&run.as_str().into(), &run, TaskId { step: 0, index: 0 });
        match self.0.answer(&call, &key, &Progress::nowhere()).await.result {
            Ok(value) => Ok(value.as_str().map_or_else(|| value.to_string(), str::to_owned)),
            Err(failure) => Err(TextModelError(failure.message)),
        }
    }
}

/// The model that `baton ask` would use, for a separate tool server. It is chosen at the start, but downloaded and loaded for the first
/// text, so that the server answers its host immediately.
pub struct ModelOnDemand {
    model_options: ModelOptions,
    config: Config,
    models: OnceCell<Arc<dyn TextModel>>,
}

impl ModelOnDemand {
    /// `None` if there is no model: then the tool extracts sentences.
    pub async fn choose(model_options: ModelOptions, config: Config) -> Result<Option<Arc<dyn TextModel>>> {
        let choice = model_options.choose(&config).await?;
        model_options::print_choice(&choice);
        if choice.model.family == Family::Extract {
            return Ok(None);
        }
        Ok(Some(Arc::new(ModelOnDemand { model_options, config, models: OnceCell::new() })))
    }

    async fn ready(&self) -> Result<Arc<dyn TextModel>> {
        let (models, _) = self.model_options.models(&self.config, false).await?;
        Ok(SharedModels::of(&Arc::new(models)))
    }
}

#[async_trait]
impl TextModel for ModelOnDemand {
    async fn generate(&self, prompt: &Prompt) -> std::result::Result<String, TextModelError> {
        let models = self.models.get_or_try_init(|| self.ready()).await;
        let text_model = models.map_err(|trouble| TextModelError(trouble.to_string()))?;
        if !text_model.is_available() {
            return Err(TextModelError("there is no model; `baton doctor` says why".to_owned()));
        }
        text_model.generate(prompt).await
    }
}
