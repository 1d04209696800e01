//! Which model answers: chooses it, downloads its weights if necessary, and reports the choice.

use std::sync::Arc;
use std::time::Duration;

use effects::EffectHandler;
use effects::handlers::EffectHandlers;
use embedded_model::weights::{self, Pinned};
use embedded_model::{Embedded, Options};
use evidence::Entailment;
use flows::input::{ModelProfile, Price};
use mcp_hub::{ToolHandler, Tools};
use models::choice::{self, Choice, ModelRequest, Source};
use models::{Family, Model, Models, Name, cassette, remote};
use store::Store;
use verifier::Verifier;

use crate::config::Config;
use crate::error::{Result, ServiceError};
use crate::global_args::GlobalArgs;
use crate::hub::Servers;
use crate::notices;
use crate::pull;
use crate::text_model::SharedModels;

/// The options of every command that runs flows.
#[derive(clap::Args, Default)]
pub struct ModelOptions {
    /// The model to use: openai/…, anthropic/…, gemini/…, ollama/…, compat/NAME/…, triton/…, embedded/…, extract; `baton models list`
    /// [default: what `baton doctor` says]
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// Never download the embedded model's weights automatically
    #[arg(long, env = "BATON_NO_PULL", hide_env = true, value_parser = clap::builder::FalseyValueParser::new())]
    pub no_pull: bool,
    /// Record the replies of models and tools in FILE, to be played back
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    pub record: Option<std::path::PathBuf>,
    /// Play back a recording instead of calling models and tools; prompts depend on the model, so name the one it was made with
    #[arg(long, value_name = "FILE")]
    pub replay: Option<std::path::PathBuf>,
    #[command(flatten)]
    pub servers: Servers,
    /// A caller's model that replaces all others.
    #[arg(skip)]
    pub own_model: Option<Arc<dyn Model>>,
}

impl ModelOptions {
    /// Prepares models, tools and agents according to these options. Reports the chosen model unless `is_quiet`.
    pub async fn prepare(&self, globals: &GlobalArgs, config: &Config, store: Option<&Arc<dyn Store>>, is_quiet: bool) -> Result<EffectSetup> {
        let wrong = |error: cassette::CassetteError| ServiceError::Usage(error.to_string());
        if let Some(path) = &self.replay {
            let replaying = cassette::Replaying::open(path).map_err(wrong)?;
            // The prompts must match the recording, and they depend on the model. It is not called, so no key is needed.
            let named = self.model.as_deref().and_then(|name| name.parse().ok()).or_else(|| config.table().model);
            // Recordings and scripts have no verifier.
            let profile =
                ModelProfile { has_verifier: false, has_answer_check: false, ..named.map(|name| profile_of(&name, config)).unwrap_or_default() };
            return Ok(EffectSetup { handler: Arc::new(replaying), profile, tools: None, models: None, choice: None });
        }
        let (models, choice) = match &self.own_model {
            Some(model) => (with_own(model, config)?, None),
            None => {
                let (models, choice) = self.models(config, is_quiet).await?;
                if !is_quiet {
                    print_choice(&choice);
                }
                (models, Some(choice))
            }
        };
        if let Some(limits) = store.and_then(|store| store.call_limits()) {
            models.share_limits(&limits);
        }
        let keys = config.keys.clone();
        let models = Arc::new(models.with_key_lookup(Arc::new(move |name| keys.find(name))));
        let profile = profile_of(&models.chosen(), config);
        let registry = self.servers.registry(config).await?;
        if let Some(source) = registry.as_ref().filter(|_| !is_quiet) {
            notices::detail(&format!("registry {}", source.url));
        }
        let hub = self.servers.hub(globals, config, Some(SharedModels::of(&models)), registry.as_ref(), store)?;
        hub.list_local_tools().await;
        let tools = ToolHandler::new(hub.clone(), config.tools.allowed.clone()).with_judge(verifier);
        let handlers = EffectHandlers { models: Some(models.clone()), tools: Some(Arc::new(tools)), agents: Some(Arc::new(config.agents()?)) };
        let handler: Arc<dyn EffectHandler> = match &self.record {
            Some(path) => Arc::new(cassette::Recording::new(handlers, path).map_err(wrong)?),
            None => Arc::new(handlers),
        };
        Ok(EffectSetup { handler, profile, tools: Some(hub), models: Some(models), choice })
    }

    /// The model that would be used; nothing is downloaded or loaded.
    pub async fn choose(&self, config: &Config) -> Result<Choice> {
        choose(self.model.clone(), config, config.embedded.pull && !self.no_pull, OllamaLookup::IfNeeded).await
    }

    /// The models for these options, with weights downloaded if necessary, and the chosen one.
    pub async fn models(&self, config: &Config, is_quiet: bool) -> Result<(Models, Choice)> {
        let mut choice = self.choose(config).await?;
        let folder = config.embedded.folder()?;
        if choice.model.family == Family::Embedded {
            let pinned = pinned(&choice.model)?;
            if !weights::is_there(&folder, &pinned)
                && let Err(why) = pull::pull(&pinned, &folder, weights::Sources::all(None), is_quiet).await
            {
                // A model that was named explicitly is not replaced.
                if matches!(choice.by, Source::Flag | Source::Configuration) || matches!(why, ServiceError::Stopped(..)) {
                    return Err(why);
                }
                if !is_quiet {
                    notices::note(&format!("{why}"));
                }
                choice = choose(self.model.clone(), config, false, OllamaLookup::IfNeeded).await?;
            }
        }
        let models =
            Models::new(config.table(), choice.model.clone(), &|name| config.key(name)).map_err(|trouble| ServiceError::Usage(trouble.message))?;
        Ok((with_embedded(models, config)?, choice))
    }
}

/// Prepared effect handlers, and their properties.
pub struct EffectSetup {
    /// Performs all effects.
    pub handler: Arc<dyn EffectHandler>,
    /// Properties of the model that flows adapt to.
    pub profile: ModelProfile,
    /// The tools, unless a script or a recording answers.
    pub tools: Option<Tools>,
    /// The models, unless a script or a recording answers.
    pub models: Option<Arc<Models>>,
    /// The chosen model, unless a script or a recording answers.
    pub choice: Option<Choice>,
}

/// The built-in model that judges sentences.
pub fn verifier() -> std::result::Result<&'static dyn Entailment, String> {
    match Verifier::shared() {
        Ok(verifier) => Ok(verifier),
        Err(error) => Err(error.to_string()),
    }
}

/// The profile of a model for flows: they prompt a small one differently, and fit prompts into its context.
pub(crate) fn profile_of(name: &Name, config: &Config) -> ModelProfile {
    const UNKNOWN_TOKENS: u32 = 32_768;
    match name.family {
        Family::Embedded | Family::Extract => {
            let context_tokens = u32::try_from(config.embedded.options().context_tokens_max).unwrap_or(u32::MAX);
            let can_abstain = name.family == Family::Embedded && weights::adapter_of(&name.model).is_some();
            // Extraction copies sentences and answers nothing.
            let has_answer_check = name.family == Family::Embedded;
            ModelProfile { is_small: true, context_tokens, has_verifier: true, has_answer_check, can_abstain, price: Some(FREE) }
        }
        _ => {
            let row = config.table().row(name);
            ModelProfile {
                is_small: false,
                context_tokens: row.context_tokens_max.unwrap_or(UNKNOWN_TOKENS),
                has_verifier: true,
                has_answer_check: false,
                can_abstain: false,
                price: row
                    .usd_per_million_in
                    .zip(row.usd_per_million_out)
                    .map(|(usd_in, usd_out)| Price { usd_micros_per_million_in: micros(usd_in), usd_micros_per_million_out: micros(usd_out) }),
            }
        }
    }
}

/// A model in this process costs no money.
const FREE: Price = Price { usd_micros_per_million_in: 0, usd_micros_per_million_out: 0 };

fn micros(usd: f64) -> u64 {
    (usd.max(0.0) * 1_000_000.0).round() as u64
}

/// The models with a caller's own, which is used for every call. It counts as a large one.
fn with_own(model: &Arc<dyn Model>, config: &Config) -> Result<Models> {
    let name = Name { family: Family::Compat("own".to_owned()), model: "model".to_owned() };
    let models = Models::new(config.table(), name.clone(), &|name| config.key(name)).map_err(|trouble| ServiceError::Usage(trouble.message))?;
    Ok(models.with(name, model.clone()))
}

/// Adds every downloaded model. Each is loaded when it is first called.
fn with_embedded(mut models: Models, config: &Config) -> Result<Models> {
    let folder = config.embedded.folder()?;
    for pinned in weights::all() {
        if weights::is_there(&folder, &pinned) {
            let options = Options { adapter: pinned.adapter, ..config.embedded.options() };
            let model = Embedded::with(weights::path(&folder, &pinned), options);
            models = models.with(name_of(&pinned), Arc::new(model));
        }
    }
    Ok(models)
}

/// Whether to look for a running Ollama.
#[derive(Clone, Copy, PartialEq)]
pub enum OllamaLookup {
    /// Only if no model is named.
    IfNeeded,
    /// Always, for listings.
    Always,
}

/// Time for the answer of a running Ollama.
pub const OLLAMA_PATIENCE: Duration = Duration::from_millis(400);

/// `embedded` alone means the default one.
const EMBEDDED: &str = "embedded";

/// The model for a command; an error if a named one cannot be used.
pub async fn choose(flag: Option<String>, config: &Config, may_pull: bool, look: OllamaLookup) -> Result<Choice> {
    let flag = match flag.as_deref() {
        Some(EMBEDDED) => Some(name_of(&default_weights()?).to_string()),
        _ => flag,
    };
    let table = config.table();
    let folder = config.embedded.folder()?;
    let named = flag.as_deref().and_then(|flag| flag.parse().ok()).or_else(|| table.model.clone());
    let wanted = named.clone().filter(|name: &Name| name.family == Family::Embedded);
    let pinned = wanted.as_ref().map_or_else(default_weights, pinned)?;
    let embedded = match weights::is_there(&folder, &pinned) {
        _ if !embedded_model::IS_BUILT => choice::Embedded::Absent {
            why: "this binary was built without it".to_owned(),
            todo: "name another model with --model, or build it with the feature `embedded-model`".to_owned(),
        },
        true => choice::Embedded::Ready(name_of(&pinned)),
        false if may_pull => choice::Embedded::Downloads { name: name_of(&pinned), size: pull::size_text(pinned.bytes) },
        false => choice::Embedded::Absent {
            why: format!("the weights of {} are not here", name_of(&pinned)),
            todo: format!("fetch them with `baton models pull` ({})", pull::size_text(pinned.bytes)),
        },
    };
    let ollama = match (look, flag.is_some() || table.model.is_some()) {
        (OllamaLookup::IfNeeded, true) => Err("not looked for, since a model was named".to_owned()),
        (OllamaLookup::IfNeeded, false) | (OllamaLookup::Always, _) => {
            let clients = remote::clients().map_err(|trouble| ServiceError::Failed(trouble.message))?;
            choice::probe_ollama(&clients, &table, OLLAMA_PATIENCE).await
        }
    };
    choice::choose(&ModelRequest { flag }, &table, &|name| config.key(name), ollama, &embedded)
        .map_err(|unusable| ServiceError::Usage(unusable.to_string()))
}

/// The full name of pinned weights.
pub fn name_of(pinned: &Pinned) -> Name {
    Name { family: Family::Embedded, model: pinned.name.clone() }
}

fn default_weights() -> Result<Pinned> {
    weights::all().into_iter().next().ok_or_else(|| ServiceError::Failed("this build has no list of weights".into()))
}

/// The weights of a name.
pub fn pinned(name: &Name) -> Result<Pinned> {
    let all = weights::all();
    let known: Vec<String> = all.iter().map(|pinned| name_of(pinned).to_string()).collect();
    let unknown = || ServiceError::Usage(format!("there is no model {name}; embedded are: {}", known.join(", ")));
    all.into_iter().find(|pinned| pinned.name == name.model).ok_or_else(unknown)
}

/// Why a model was chosen.
pub fn reason(by: Source) -> &'static str {
    match by {
        Source::Flag => "--model names it",
        Source::Configuration => "the configuration names it",
        Source::Environment => "a key for it was found, and no model was named",
        Source::Ollama => "Ollama is running, and no model was named",
        Source::Embedded => "it runs in this process; no model was named, and neither a key nor Ollama was found",
        Source::Extraction => "no language model was found",
    }
}

/// A source of models, in one word.
pub fn word(source: Source) -> &'static str {
    match source {
        Source::Flag => "--model",
        Source::Configuration => "configuration",
        Source::Environment => "key",
        Source::Ollama => "Ollama",
        Source::Embedded => "embedded",
        Source::Extraction => "extraction",
    }
}

/// Reports the chosen model and, without any model, how to get one.
pub fn print_choice(choice: &Choice) {
    let by = match choice.by {
        Source::Flag => "--model",
        Source::Configuration => "the configuration",
        Source::Environment => "a key was found",
        Source::Ollama => "a running Ollama",
        Source::Embedded => "embedded",
        Source::Extraction => "no language model was found",
    };
    notices::detail(&format!("model {} ({by})", choice.model));
    if choice.model.family == Family::Extract && choice.by == Source::Extraction {
        notices::note(
            "no language model was found, so answers consist of sentences from your documents. For a model on this machine: `baton models pull`; \
             for a provider's: set ANTHROPIC_API_KEY or OPENAI_API_KEY. `baton doctor` lists all options",
        );
    }
}
