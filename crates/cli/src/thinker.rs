//! The models, lent to a tool that writes.

use std::sync::Arc;

use async_trait::async_trait;
use graph::{Key, Message, ModelCall, TaskId};
use tools::summary::Prompt;
use tools::{Thinker, ThinkerTrouble};
use world::Progress;
use world::model::{Family, Models};

pub(crate) struct Lent(Arc<Models>);

impl Lent {
    /// Nobody, if they could only pick sentences: the tools do that better with what they know of the texts.
    pub(crate) fn of(models: &Arc<Models>) -> Option<Arc<dyn Thinker>> {
        (models.chosen().family != Family::Extract).then(|| Arc::new(Lent(models.clone())) as Arc<dyn Thinker>)
    }
}

#[async_trait]
impl Thinker for Lent {
    async fn think(&self, prompt: &Prompt) -> Result<String, ThinkerTrouble> {
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
