//! Names of models. They always include the provider, so that a typing error is an error and never selects another provider.
//!
//! ```text
//! openai/gpt-4o-mini      anthropic/claude-sonnet-4-5     gemini/gemini-2.5-flash     ollama/qwen3:4b
//! compat/NAME/MODEL       an OpenAI-compatible server that the configuration calls NAME
//! triton/MODEL            embedded/MODEL                  extract
//! ```

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A name that is well-formed. Whether the model exists is known only to its endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name {
    /// The provider.
    pub family: Family,
    /// What the endpoint calls it; empty for `extract`.
    pub model: String,
}

/// The provider of a model.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// OpenAI.
    OpenAi,
    /// Anthropic.
    Anthropic,
    /// Google Gemini.
    Gemini,
    /// An Ollama server.
    Ollama,
    /// A server in the configuration, by the name it has there.
    Compat(String),
    /// A server of KServe v2 over gRPC.
    Triton,
    /// A model in this process.
    Embedded,
    /// Answers without a model, see [`extract`](crate::extract).
    Extract,
}

const FAMILIES: [(&str, Family); 6] = [
    ("openai", Family::OpenAi),
    ("anthropic", Family::Anthropic),
    ("gemini", Family::Gemini),
    ("ollama", Family::Ollama),
    ("triton", Family::Triton),
    ("embedded", Family::Embedded),
];

const EXTRACT: &str = "extract";

/// Why a text names no model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message of each variant describes it")]
pub enum NameError {
    #[error("there is no model {name:?}; {}", hint(.nearest))]
    Unknown { name: String, nearest: Vec<String> },
    #[error("{name:?} names no model; write {family}/ and then the model's name")]
    Empty { name: String, family: String },
}

impl Name {
    /// The name of the model that needs no weights and no network.
    pub fn extract() -> Self {
        Name { family: Family::Extract, model: String::new() }
    }

    /// The endpoint's name in the table.
    pub fn endpoint(&self) -> &str {
        match &self.family {
            Family::OpenAi => "openai",
            Family::Anthropic => "anthropic",
            Family::Gemini => "gemini",
            Family::Ollama => "ollama",
            Family::Compat(name) => name,
            Family::Triton => "triton",
            Family::Embedded => "embedded",
            Family::Extract => EXTRACT,
        }
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        if text == EXTRACT {
            return Ok(Name::extract());
        }
        let unknown = || NameError::Unknown { name: text.to_owned(), nearest: nearest(text, &[]) };
        let (first, rest) = text.split_once('/').ok_or_else(unknown)?;
        let (family, model) = if first == "compat" {
            let (server, model) = rest.split_once('/').unwrap_or((rest, ""));
            if server.is_empty() || model.is_empty() {
                return Err(NameError::Empty { name: text.to_owned(), family: "compat/NAME".to_owned() });
            }
            (Family::Compat(server.to_owned()), model)
        } else {
            let (_, family) = FAMILIES.iter().find(|(name, _)| *name == first).ok_or_else(unknown)?;
            (family.clone(), rest)
        };
        // `::` is genai's own separator, and would cut the name.
        if model.is_empty() || model.contains("::") || model.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(NameError::Empty { name: text.to_owned(), family: first.to_owned() });
        }
        Ok(Name { family, model: model.to_owned() })
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.family {
            Family::Extract => f.write_str(EXTRACT),
            Family::Compat(server) => write!(f, "compat/{server}/{}", self.model),
            _ => write!(f, "{}/{}", self.endpoint(), self.model),
        }
    }
}

impl TryFrom<String> for Name {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        text.parse()
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.to_string()
    }
}

/// The known names most like this one, best first: the built-in ones and `others`.
pub(crate) fn nearest(text: &str, others: &[String]) -> Vec<String> {
    let text = text.to_lowercase();
    let last = text.rsplit('/').next().unwrap_or(&text);
    let mut scored: Vec<(f64, String)> = super::table::known_models()
        .map(str::to_owned)
        .chain(others.iter().cloned())
        .chain(FAMILIES.iter().map(|(family, _)| format!("{family}/…")))
        .chain(["compat/NAME/…".to_owned(), EXTRACT.to_owned()])
        .map(|name| {
            // A bare `gpt-4o` is nearest to `openai/gpt-4o`, so the part after the slash counts by itself too.
            let tail = name.rsplit('/').next().unwrap_or(&name);
            (strsim::jaro_winkler(&text, &name).max(strsim::jaro_winkler(last, tail) - 0.02), name)
        })
        .filter(|(score, _)| *score > 0.75)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    scored.dedup_by(|a, b| a.1 == b.1);
    scored.into_iter().take(3).map(|(_, name)| name).collect()
}

pub(crate) fn hint(nearest: &[String]) -> String {
    if nearest.is_empty() {
        let families = FAMILIES.map(|(name, _)| format!("{name}/…")).join(", ");
        format!("names are {families}, compat/NAME/… or {EXTRACT}")
    } else {
        format!("the nearest are {}", nearest.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_and_write_the_same() {
        for text in [
            "openai/gpt-4o",
            "anthropic/claude-sonnet-4-5",
            "gemini/gemini-2.5-pro",
            "ollama/qwen3:4b",
            "compat/openrouter/meta/llama-3",
            "triton/ensemble",
            "embedded/qwen2.5-coder-1.5b",
            "extract",
        ] {
            let name: Name = text.parse().unwrap();
            assert_eq!(name.to_string(), text);
            assert_eq!(serde_json::from_value::<Name>(serde_json::json!(text)).unwrap(), name);
        }
        let name: Name = "compat/openrouter/meta/llama-3".parse().unwrap();
        assert_eq!((name.endpoint(), name.model.as_str()), ("openrouter", "meta/llama-3"));
    }

    #[test]
    fn an_unknown_name_is_an_error_that_shows_the_nearest() {
        for (wrong, right) in [
            ("gpt-4o", "openai/gpt-4o"),
            ("opnai/gpt-4o", "openai/gpt-4o"),
            ("claude-sonnet-4-5", "anthropic/claude-sonnet-4-5"),
            ("google/gemini-2.5-flash", "gemini/gemini-2.5-flash"),
            ("exctract", "extract"),
        ] {
            let error = wrong.parse::<Name>().unwrap_err().to_string();
            assert!(error.contains(right), "{wrong}: {error}");
        }
        let error = "zzz".parse::<Name>().unwrap_err().to_string();
        assert!(error.contains("compat/NAME/…"), "{error}");
    }

    #[test]
    fn a_name_without_a_model_is_an_error() {
        for text in ["openai/", "compat/x", "compat//m", "compat/x/", "openai/a b", "", "/", "extract/x"] {
            assert!(text.parse::<Name>().is_err(), "{text:?}");
        }
    }
}
