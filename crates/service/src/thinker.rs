//! The models, for the tool that writes summaries.

use std::sync::Arc;

use async_trait::async_trait;
use effects::Progress;
use graph::{Key, Message, ModelCall, TaskId};
use models::{Family, Models};
use tokio::sync::OnceCell;
use tools::summary::Prompt;
use tools::{Thinker, ThinkerTrouble};

use crate::config::Config;
use crate::error::Result;
use crate::mind::{self, Thinking};

pub(crate) struct Lent(Arc<Models>);

impl Lent {
    /// `None` if only extraction is available: the tool itself picks sentences better.
    pub(crate) fn of(models: &Arc<Models>) -> Option<Arc<dyn Thinker>> {
        (models.chosen().family != Family::Extract).then(|| Arc::new(Lent(models.clone())) as Arc<dyn Thinker>)
    }
}

#[async_trait]
impl Thinker for Lent {
    async fn think(&self, prompt: &Prompt) -> std::result::Result<String, ThinkerTrouble> {
        let message = |role: &str, content: &str| Message { role: role.to_owned(), content: content.to_owned() };
        let messages = vec![message("system", &prompt.system), message("user", &prompt.user)];
        // Words become tokens, with room for languages that need more of them.
        let tokens_max = u32::try_from(prompt.words.saturating_mul(3)).unwrap_or(u32::MAX).max(64);
        let call = ModelCall { purpose: "summary".to_owned(), messages, tokens_max: Some(tokens_max), ..ModelCall::default() };
        let run = engine::fresh();
        // A summary is asked for by a tool and not by a run, so its key is its own.
        let key = Key::of(&run.as_str().into(), &run, TaskId { step: 0, index: 0 });
        match self.0.answer(&call, &key, &Progress::nowhere()).await.result {
            Ok(value) => Ok(value.as_str().map_or_else(|| value.to_string(), str::to_owned)),
            Err(failure) => Err(ThinkerTrouble(failure.message)),
        }
    }
}

/// The model that `baton ask` would use, for a tool server that stands alone. Which one it is, is decided at the start; it is fetched and loaded when
/// the first text is to be written, so that the server answers its host at once.
pub struct OnDemand {
    thinking: Thinking,
    config: Config,
    models: OnceCell<Option<Arc<dyn Thinker>>>,
}

impl OnDemand {
    /// `None` if there is no model: then the tool picks sentences.
    pub async fn choose(thinking: Thinking, config: Config) -> Result<Option<Arc<dyn Thinker>>> {
        let choice = thinking.choose(&config).await?;
        mind::say(&choice);
        if choice.model.family == Family::Extract {
            return Ok(None);
        }
        Ok(Some(Arc::new(OnDemand { thinking, config, models: OnceCell::new() })))
    }

    async fn ready(&self) -> Result<Option<Arc<dyn Thinker>>> {
        let (models, _) = self.thinking.models(&self.config, false).await?;
        Ok(Lent::of(&Arc::new(models)))
    }
}

#[async_trait]
impl Thinker for OnDemand {
    async fn think(&self, prompt: &Prompt) -> std::result::Result<String, ThinkerTrouble> {
        let models = self.models.get_or_try_init(|| self.ready()).await;
        match models.map_err(|trouble| ThinkerTrouble(trouble.to_string()))? {
            Some(thinker) => thinker.think(prompt).await,
            None => Err(ThinkerTrouble("no model can be had; `baton doctor` says why".to_owned())),
        }
    }
}
