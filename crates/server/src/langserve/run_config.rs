//! The configuration that a client sends with its inputs.

use std::sync::Arc;

use graph::ThreadId;
use serde_json::Value;
use wire::langserve::Config;

use super::{Caller, Refused, ServedFlow, Service};
use crate::api::thread_named;

/// Bytes of the settings of a run, which every run of a batch keeps.
const SETTINGS_BYTES_MAX: usize = 64 << 10;
const TAGS_MAX: usize = 100;
const TAG_BYTES_MAX: usize = 200;

/// What a client configures, checked and reduced to what a run needs. Runs of a batch share it.
pub(crate) struct RunConfig {
    /// Copied into the input of a run only when that is begun.
    pub(crate) settings: Arc<Value>,
    pub(crate) thread: Option<ThreadId>,
}

impl RunConfig {
    pub(crate) async fn of(service: &Service, served: &ServedFlow, caller: &Caller, config: &Config) -> Result<RunConfig, Refused> {
        let settings = served.settings.of(config)?;
        let bytes = serde_json::to_string(&settings).map_or(0, |text| text.len());
        if bytes > SETTINGS_BYTES_MAX {
            let words = format!("the settings have {bytes} bytes, more than the {SETTINGS_BYTES_MAX} allowed");
            return Err(Refused::wrong("too_long", &["config", "configurable"], words));
        }
        let tags = config.tags.as_deref().unwrap_or_default();
        if tags.len() > TAGS_MAX || tags.iter().any(|tag| tag.len() > TAG_BYTES_MAX) {
            let words = format!("there are at most {TAGS_MAX} tags of {TAG_BYTES_MAX} bytes each; every event of a stream repeats them");
            return Err(Refused::wrong("too_long", &["config", "tags"], words));
        }
        let thread = config.configurable.as_ref().and_then(|all| all.get("thread_id")).and_then(Value::as_str);
        let thread = match thread.filter(|name| !name.is_empty()) {
            Some(name) => Some(thread_named(&service.0.engine, &caller.who, name).await?),
            None => None,
        };
        Ok(RunConfig { settings: Arc::new(settings), thread })
    }
}
