//! Endpoints, prices and limits as data. What is built in is a start; the configuration is laid over it, row by row.
//!
//! ```toml
//! model = "openai/gpt-4.1-mini"                # what answers when neither flag nor flow names a model
//! fallbacks = ["ollama/qwen3:4b"]              # asked in order when that one cannot
//!
//! [endpoints.openrouter]                       # then: compat/openrouter/MODEL
//! url = "https://openrouter.ai/api/v1"
//! key = { env = "OPENROUTER_API_KEY" }         # or { file = "/run/secrets/openrouter" }; never the key itself
//! calls_max = 8                                # at once
//! calls_per_minute_max = 500
//!
//! [models."compat/openrouter/qwen/qwen3-8b"]
//! usd_per_million_in = 0.04
//! usd_per_million_out = 0.14
//! ```

use std::collections::BTreeMap;

use graph::Usage;
use serde::{Deserialize, Serialize};

use super::name::{Name, NameError};
use super::{Env, Family, name};
use secret::KeySource;

/// Sections `model`, `fallbacks`, `[endpoints]` and `[models]` of the configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Table {
    /// The model for calls that name none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<Name>,
    /// Models that are tried in order when the first cannot answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fallbacks: Vec<Name>,
    /// Servers by name; `compat/NAME/MODEL` refers to the name.
    pub endpoints: BTreeMap<String, Endpoint>,
    /// By full name.
    pub models: BTreeMap<String, Row>,
}

/// A server of models.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// The base address of its API.
    pub url: String,
    /// The API it offers.
    #[serde(default)]
    pub dialect: Dialect,
    /// Where its key comes from; `None` for servers without keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<KeySource>,
    /// Calls in flight at once; more wait their turn.
    #[serde(default = "calls_max")]
    pub calls_max: usize,
    /// Calls begun within any 60 s; more wait their turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls_per_minute_max: Option<u32>,
    /// Whether its limits count for all servers on one Postgres together [default: yes, unless the address is this machine's own].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<bool>,
}

impl Endpoint {
    /// Whether other servers use the same one.
    pub fn is_shared(&self) -> bool {
        self.shared.unwrap_or_else(|| !is_loopback(&self.url))
    }
}

fn is_loopback(url: &str) -> bool {
    let url = reqwest::Url::parse(url);
    let host = url.as_ref().ok().and_then(reqwest::Url::host_str).unwrap_or_default().trim_matches(['[', ']']);
    host.eq_ignore_ascii_case("localhost") || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The API of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dialect {
    /// `/chat/completions`, as OpenAI, vLLM, llama.cpp and nearly everyone has it.
    #[default]
    OpenaiChat,
    /// `/responses` of OpenAI.
    OpenaiResponses,
    /// `/messages` of Anthropic.
    Anthropic,
    /// `generateContent` of Google Gemini.
    Gemini,
    /// `/api/chat` of Ollama.
    Ollama,
    /// KServe v2 over gRPC.
    Triton,
}

/// What is known about one model. All of it may be absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Row {
    /// US dollars for a million input tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd_per_million_in: Option<f64>,
    /// US dollars for a million output tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd_per_million_out: Option<f64>,
    /// The size of the context window in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_tokens_max: Option<u32>,
    /// For a model with another API than its endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dialect: Option<Dialect>,
    /// Refuses a call that sets a temperature, so none is sent.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub temperature_fixed: bool,
    /// Has no schema mode, or one that does not work: the schema is put into words instead.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub schema_in_words: bool,
    /// For endpoints that take one text and not messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<Template>,
}

/// How messages become one text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Template {
    /// The texts of the messages, one after the other.
    #[default]
    Plain,
    /// `<|im_start|>ROLE … <|im_end|>` around each message.
    Chatml,
}

impl Default for Table {
    fn default() -> Self {
        let endpoint = |url: &str, dialect, key: Option<&str>, calls_max| Endpoint {
            url: url.to_owned(),
            dialect,
            key: key.map(|name| KeySource::Env(name.to_owned())),
            calls_max,
            calls_per_minute_max: None,
            shared: None,
        };
        let endpoints = [
            ("openai", endpoint("https://api.openai.com/v1", Dialect::OpenaiChat, Some("OPENAI_API_KEY"), 16)),
            ("anthropic", endpoint("https://api.anthropic.com/v1", Dialect::Anthropic, Some("ANTHROPIC_API_KEY"), 16)),
            ("gemini", endpoint("https://generativelanguage.googleapis.com/v1beta", Dialect::Gemini, Some("GEMINI_API_KEY"), 16)),
            ("ollama", endpoint("http://localhost:11434", Dialect::Ollama, None, 2)),
            ("triton", endpoint("http://localhost:8001", Dialect::Triton, None, 16)),
        ];
        Table {
            model: None,
            fallbacks: Vec::new(),
            endpoints: endpoints.map(|(name, endpoint)| (name.to_owned(), endpoint)).into(),
            models: KNOWN.iter().map(|known| (known.0.to_owned(), row(known))).collect(),
        }
    }
}

impl Table {
    /// The built-in table with the user's rows over it: an endpoint replaces one of the same name, and a model's row
    /// changes only the fields it sets.
    pub fn with_defaults(self) -> Table {
        let mut whole = Table { model: self.model, fallbacks: self.fallbacks, ..Table::default() };
        whole.endpoints.extend(self.endpoints);
        for (name, row) in self.models {
            let at = whole.models.entry(name).or_default();
            *at = Row {
                usd_per_million_in: row.usd_per_million_in.or(at.usd_per_million_in),
                usd_per_million_out: row.usd_per_million_out.or(at.usd_per_million_out),
                context_tokens_max: row.context_tokens_max.or(at.context_tokens_max),
                dialect: row.dialect.or(at.dialect),
                temperature_fixed: row.temperature_fixed || at.temperature_fixed,
                schema_in_words: row.schema_in_words || at.schema_in_words,
                template: row.template.or(at.template),
            };
        }
        whole
    }

    /// What usual environment variables say: `OLLAMA_HOST`, `OPENAI_BASE_URL` and their like.
    pub fn with_environment(mut self, env: Env<'_>) -> Table {
        for (variable, endpoint) in [
            ("OPENAI_BASE_URL", "openai"),
            ("ANTHROPIC_BASE_URL", "anthropic"),
            ("GEMINI_BASE_URL", "gemini"),
            ("OLLAMA_HOST", "ollama"),
            ("TRITON_URL", "triton"),
        ] {
            let Some(url) = env(variable).map(|url| url.trim().to_owned()).filter(|url| !url.is_empty()) else { continue };
            if let Some(endpoint) = self.endpoints.get_mut(endpoint) {
                endpoint.url = if url.contains("://") { url } else { format!("http://{url}") };
            }
        }
        self
    }

    /// The endpoint of a model; an error that suggests similar names if it is not configured.
    pub fn endpoint(&self, name: &Name) -> Result<&Endpoint, NameError> {
        self.endpoints.get(name.endpoint()).ok_or_else(|| {
            let servers = self.endpoints.keys().filter(|server| !BUILT_IN.contains(&server.as_str()));
            let others: Vec<String> = servers.map(|server| format!("compat/{server}/{}", name.model)).collect();
            let mut nearest = name::nearest(&name.to_string(), &others);
            if let Family::Compat(_) = name.family {
                nearest.retain(|near| others.contains(near));
            }
            NameError::Unknown { name: name.to_string(), nearest }
        })
    }

    /// Prices and limits of a model; all fields empty if it has no row.
    pub fn row(&self, name: &Name) -> Row {
        self.models.get(&name.to_string()).cloned().unwrap_or_default()
    }
}

impl Row {
    /// In millionths of a dollar, which is what a dollar per million tokens makes of one token. `None`: not known.
    pub fn price(&self, usage: Usage) -> Option<u64> {
        let part = |tokens: u64, price: Option<f64>| if tokens == 0 { Some(0.0) } else { price.map(|price| tokens as f64 * price) };
        let sum = part(usage.tokens_in, self.usd_per_million_in)? + part(usage.tokens_out, self.usd_per_million_out)?;
        Some(sum.max(0.0).round() as u64)
    }
}

/// Names that exist for certain, for those who mistype one.
pub(crate) fn known_models() -> impl Iterator<Item = &'static str> {
    KNOWN.iter().map(|known| known.0)
}

const BUILT_IN: [&str; 5] = ["openai", "anthropic", "gemini", "ollama", "triton"];

fn calls_max() -> usize {
    8
}

type Known = (&'static str, f64, f64, u32);

/// Name, dollars per million tokens in and out, context. List prices at the end of 2025; the configuration corrects them.
const KNOWN: &[Known] = &[
    ("openai/gpt-4o", 2.5, 10.0, 128_000),
    ("openai/gpt-4o-mini", 0.15, 0.6, 128_000),
    ("openai/gpt-4.1", 2.0, 8.0, 1_047_576),
    ("openai/gpt-4.1-mini", 0.4, 1.6, 1_047_576),
    ("openai/gpt-4.1-nano", 0.1, 0.4, 1_047_576),
    ("openai/gpt-5", 1.25, 10.0, 400_000),
    ("openai/gpt-5-mini", 0.25, 2.0, 400_000),
    ("openai/gpt-5-nano", 0.05, 0.4, 400_000),
    ("openai/o3", 2.0, 8.0, 200_000),
    ("openai/o4-mini", 1.1, 4.4, 200_000),
    ("anthropic/claude-opus-4-1", 15.0, 75.0, 200_000),
    ("anthropic/claude-sonnet-4-5", 3.0, 15.0, 200_000),
    ("anthropic/claude-haiku-4-5", 1.0, 5.0, 200_000),
    ("gemini/gemini-2.5-pro", 1.25, 10.0, 1_048_576),
    ("gemini/gemini-2.5-flash", 0.3, 2.5, 1_048_576),
    ("gemini/gemini-2.5-flash-lite", 0.1, 0.4, 1_048_576),
];

fn row(&(name, usd_in, usd_out, context): &Known) -> Row {
    Row {
        usd_per_million_in: Some(usd_in),
        usd_per_million_out: Some(usd_out),
        context_tokens_max: Some(context),
        dialect: None,
        temperature_fixed: name.starts_with("openai/gpt-5") || name.starts_with("openai/o"),
        schema_in_words: false,
        template: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn the_users_rows_lie_over_the_built_in_ones() {
        let own: Table = serde_json::from_value(json!({
            "model": "compat/here/small",
            "endpoints": {"here": {"url": "http://localhost:9"}},
            "models": {"openai/gpt-4o": {"usd_per_million_in": 1.0}, "compat/here/small": {"context_tokens_max": 4096}},
        }))
        .unwrap();
        let table = own.with_defaults();
        let gpt = table.row(&"openai/gpt-4o".parse().unwrap());
        assert_eq!((gpt.usd_per_million_in, gpt.usd_per_million_out), (Some(1.0), Some(10.0)));
        let name: Name = "compat/here/small".parse().unwrap();
        assert_eq!(table.endpoint(&name).unwrap().dialect, Dialect::OpenaiChat);
        assert_eq!(table.row(&name).context_tokens_max, Some(4096));
        assert!(table.endpoint(&"anthropic/x".parse().unwrap()).is_ok());
    }

    #[test]
    fn a_server_nobody_configured_is_an_error_that_shows_the_nearest() {
        let own: Table = serde_json::from_value(json!({"endpoints": {"openrouter": {"url": "http://x"}}})).unwrap();
        let error = own.with_defaults().endpoint(&"compat/openruter/m".parse().unwrap()).unwrap_err().to_string();
        assert!(error.contains("compat/openrouter/m"), "{error}");
    }

    #[test]
    fn a_key_in_the_configuration_is_refused() {
        let wrong = json!({"endpoints": {"x": {"url": "http://x", "key": "sk-123"}}});
        assert!(serde_json::from_value::<Table>(wrong).is_err());
        let wrong = json!({"endpoints": {"x": {"url": "http://x", "api_key": "sk-123"}}});
        assert!(serde_json::from_value::<Table>(wrong).is_err());
    }

    #[test]
    fn endpoints_of_this_machine_are_shared_only_if_configured() {
        let shared = |url: &str, shared: Value| {
            let endpoint: Endpoint = serde_json::from_value(json!({"url": url, "shared": shared})).unwrap();
            endpoint.is_shared()
        };
        for url in ["http://localhost:11434", "http://127.0.0.1:1", "http://[::1]:1/v1", "http://LOCALHOST/"] {
            assert!(!shared(url, Value::Null) && shared(url, json!(true)), "{url}");
        }
        for url in ["https://api.openai.com/v1", "http://localhost.example", "http://10.0.0.1:80"] {
            assert!(shared(url, Value::Null) && !shared(url, json!(false)), "{url}");
        }
    }

    #[test]
    fn prices_are_exact_in_millionths() {
        let table = Table::default();
        let usage = Usage { tokens_in: 1_000, tokens_out: 500, ..Usage::default() };
        assert_eq!(table.row(&"openai/gpt-4o".parse().unwrap()).price(usage), Some(7_500));
        assert_eq!(table.row(&"ollama/x".parse().unwrap()).price(usage), None);
        assert_eq!(Row::default().price(Usage::default()), Some(0));
    }

    #[test]
    fn the_environment_moves_endpoints() {
        let env = |name: &str| (name == "OLLAMA_HOST").then(|| "box:1234".to_owned());
        assert_eq!(Table::default().with_environment(&env).endpoints["ollama"].url, "http://box:1234");
    }
}
