//! Which model answers when none is named, and why: flag, configuration, a key in the environment, a running Ollama, the
//! embedded model, extraction. The state of every option is kept, with what to do about each that fails, for `baton doctor`.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::remote::Clients;
use super::{Env, Name, NameError, Table};

/// The user's choices, in order of precedence.
#[derive(Clone, Debug, Default)]
pub struct ModelRequest {
    /// The name given with `--model`.
    pub flag: Option<String>,
}

/// What is known about the embedded model without loading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Embedded {
    /// Its weights are here.
    Ready(Name),
    /// Its weights are downloaded when it is first used.
    Downloads {
        /// Its name.
        name: Name,
        /// The size of the weights, for people.
        size: String,
    },
    /// It cannot be used.
    Absent {
        /// The reason.
        why: String,
        /// What would make it work.
        todo: String,
    },
}

/// The model that answers, and how it was chosen.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Choice {
    /// The model that was chosen.
    pub model: Name,
    /// Which option it was.
    pub by: Source,
    /// All of them, in order.
    pub ways: Vec<ModelCandidate>,
}

/// Where the name of a model came from, in the order in which sources are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// `--model`.
    Flag,
    /// `model` in the configuration.
    Configuration,
    /// A provider's key in an environment variable.
    Environment,
    /// A model of a running Ollama.
    Ollama,
    /// The model that runs in this process.
    Embedded,
    /// Answers made of sentences of the evidence, without a model.
    Extraction,
}

/// One way to a model, and how it stands.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelCandidate {
    /// Where the name came from.
    pub source: Source,
    /// The model, if this source names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<Name>,
    /// Whether the model can be used.
    pub state: State,
    /// The reason for the state, for `baton doctor`.
    pub detail: String,
    /// What would make it work; empty if it does.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub todo: String,
}

/// Whether the model of a source can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It can be called.
    Ready,
    /// It was not requested, or it is not installed.
    Absent,
    /// It was asked for and cannot work.
    Broken,
}

/// A model that was named and cannot be had. Never replaced by another one.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}; {}", .0.detail, .0.todo)]
pub struct UnusableModel(pub Box<ModelCandidate>, pub Vec<ModelCandidate>);

/// Looks at every option. `ollama` is what [`probe_ollama`] found.
pub fn choose(
    request: &ModelRequest,
    table: &Table,
    env: Env<'_>,
    ollama: Result<Vec<String>, String>,
    embedded: &Embedded,
) -> Result<Choice, UnusableModel> {
    let named = |source, text: Option<Result<Name, NameError>>, how: &str| match text {
        None => ModelCandidate { source, model: None, state: State::Absent, detail: "not given".to_owned(), todo: how.to_owned() },
        Some(Err(error)) => ModelCandidate { source, model: None, state: State::Broken, detail: error.to_string(), todo: how.to_owned() },
        Some(Ok(name)) => usable(source, name, table, env, embedded),
    };
    let flag = request.flag.as_deref().map(str::parse);
    let ways = vec![
        named(Source::Flag, flag, "name a model with --model"),
        named(Source::Configuration, table.model.clone().map(Ok), "set `model` in the configuration"),
        by_key(table, env),
        by_ollama(ollama),
        match embedded {
            Embedded::Ready(name) => ready(Source::Embedded, name.clone(), "runs in this process"),
            Embedded::Downloads { name, size } => ready(Source::Embedded, name.clone(), &downloads(size)),
            Embedded::Absent { why, todo } => {
                ModelCandidate { source: Source::Embedded, model: None, state: State::Absent, detail: why.clone(), todo: todo.clone() }
            }
        },
        ready(Source::Extraction, Name::extract(), "no language model: answers with sentences from the evidence"),
    ];
    // A model that was named is used or reported; one that was only detected may be skipped.
    for way in &ways {
        match (way.state, way.source, &way.model) {
            (State::Broken, Source::Flag | Source::Configuration, _) => return Err(UnusableModel(Box::new(way.clone()), ways)),
            (State::Ready, source, Some(model)) => return Ok(Choice { model: model.clone(), by: source, ways: ways.clone() }),
            _ => {}
        }
    }
    Ok(Choice { model: Name::extract(), by: Source::Extraction, ways })
}

fn ready(source: Source, name: Name, detail: &str) -> ModelCandidate {
    ModelCandidate { source, model: Some(name), state: State::Ready, detail: detail.to_owned(), todo: String::new() }
}

fn downloads(size: &str) -> String {
    format!("runs in this process; its weights ({size}) are downloaded when it is first used")
}

/// A model that was named: is there an endpoint for it, and a key?
fn usable(source: Source, name: Name, table: &Table, env: Env<'_>, embedded: &Embedded) -> ModelCandidate {
    use super::Family;
    let broken = |detail: String, todo: String| ModelCandidate { source, model: Some(name.clone()), state: State::Broken, detail, todo };
    match (&name.family, embedded) {
        (Family::Extract, _) => return ready(source, name, "named"),
        (Family::Embedded, Embedded::Ready(_)) => return ready(source, name, "named; runs in this process"),
        (Family::Embedded, Embedded::Downloads { size, .. }) => return ready(source, name, &format!("named; {}", downloads(size))),
        (Family::Embedded, Embedded::Absent { why, todo }) => return broken(why.clone(), todo.clone()),
        _ => {}
    }
    let endpoint = match table.endpoint(&name) {
        Ok(endpoint) => endpoint,
        Err(error) => return broken(error.to_string(), "add the endpoint to the configuration, or use one that is there".to_owned()),
    };
    match endpoint.key.as_ref().map(|key| key.find(env)) {
        Some(Err(why)) => broken(format!("{name}: {why}"), "or name another model with --model".to_owned()),
        Some(Ok(_)) => ready(source, name, &format!("named; key found; {}", endpoint.url)),
        None => ready(source, name, &format!("named; {}", endpoint.url)),
    }
}

/// A good and inexpensive model of the first vendor whose key is there.
const BY_KEY: [(&str, &str); 3] =
    [("anthropic", "anthropic/claude-haiku-4-5"), ("openai", "openai/gpt-4.1-mini"), ("gemini", "gemini/gemini-2.5-flash")];

fn by_key(table: &Table, env: Env<'_>) -> ModelCandidate {
    let mut tried = Vec::new();
    for (endpoint, model) in BY_KEY {
        let Some(source) = table.endpoints.get(endpoint).and_then(|endpoint| endpoint.key.as_ref()) else { continue };
        match (source.find(env), model.parse()) {
            (Ok(_), Ok(name)) => return ready(Source::Environment, name, &format!("a key for {endpoint} was found")),
            (Err(_), _) => tried.push(endpoint),
            (Ok(_), Err(_)) => {}
        }
    }
    let todo = "set one of ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY, or store it in the settings of the page".to_owned();
    ModelCandidate { source: Source::Environment, model: None, state: State::Absent, detail: format!("no key for {}", tried.join(", ")), todo }
}

fn by_ollama(found: Result<Vec<String>, String>) -> ModelCandidate {
    let source = Source::Ollama;
    match found {
        Err(why) => ModelCandidate { source, model: None, state: State::Absent, detail: why, todo: "start it with `ollama serve`".to_owned() },
        Ok(models) => {
            let chats = models.iter().filter(|model| !model.contains("embed"));
            match chats.clone().find_map(|model| format!("ollama/{model}").parse().ok()) {
                Some(name) => ready(source, name, &format!("runs, with {}", models.join(", "))),
                None => ModelCandidate {
                    source,
                    model: None,
                    state: State::Broken,
                    detail: "runs, and has no model to talk to".to_owned(),
                    todo: "get one with `ollama pull qwen3:4b`".to_owned(),
                },
            }
        }
    }
}

/// The largest list of models that is read from Ollama.
const TAGS_BYTES_MAX: usize = 4 << 20;

/// Asks a running Ollama for its models, and does not wait long for one that is not there.
pub async fn probe_ollama(clients: &Clients, table: &Table, patience: Duration) -> Result<Vec<String>, String> {
    let endpoint = table.endpoints.get("ollama").ok_or("no endpoint `ollama` is configured")?;
    let url = reqwest::Url::parse(&format!("{}/api/tags", endpoint.url.trim_end_matches('/'))).map_err(|e| format!("{:?}: {e}", endpoint.url))?;
    let ask = async {
        let mut response = clients.for_url(&url).get(url.clone()).send().await.map_err(|_| format!("nothing answers at {}", endpoint.url))?;
        let status = response.status();
        let other = || format!("{} is not an Ollama server (status {status})", endpoint.url);
        // Another program may listen there, and send an endless reply.
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|_| other())? {
            if bytes.len() + chunk.len() > TAGS_BYTES_MAX {
                return Err(other());
            }
            bytes.extend_from_slice(&chunk);
        }
        let body: Value = serde_json::from_slice(&bytes).map_err(|_| other())?;
        let models = body.get("models").and_then(Value::as_array).ok_or_else(|| format!("{} is not an Ollama server", endpoint.url))?;
        Ok(models.iter().filter_map(|model| model.get("name")?.as_str().map(str::to_owned)).collect())
    };
    let late = || format!("nothing answered at {} within {} ms", endpoint.url, patience.as_millis());
    tokio::time::timeout(patience, ask).await.unwrap_or_else(|_| Err(late()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn absent() -> Embedded {
        Embedded::Absent { why: "no weights".into(), todo: "baton models pull".into() }
    }

    fn check(flag: Option<&str>, config: Option<&str>, keys: &[&str], ollama: &[&str], embedded: &Embedded) -> Result<(String, Source), String> {
        let table = Table { model: config.map(|name| name.parse().unwrap()), ..Table::default() };
        let env = |name: &str| keys.contains(&name).then(|| "secret-key".to_owned());
        let ollama = if ollama.is_empty() { Err("nothing there".into()) } else { Ok(ollama.iter().map(|&m| m.to_owned()).collect()) };
        let request = ModelRequest { flag: flag.map(str::to_owned) };
        match choose(&request, &table, &env, ollama, embedded) {
            Ok(choice) => {
                let words = serde_json::to_string(&choice).unwrap();
                assert!(!words.contains("secret-key"));
                assert_eq!(choice.ways.len(), 6);
                assert!(choice.ways.iter().all(|way| way.state == State::Ready || !way.todo.is_empty()));
                Ok((choice.model.to_string(), choice.by))
            }
            Err(unusable) => Err(unusable.to_string()),
        }
    }

    #[test]
    fn the_first_that_works_is_taken() {
        let here = Embedded::Ready("embedded/small".parse().unwrap());
        let keys = ["OPENAI_API_KEY"];
        let cases = [
            (check(Some("extract"), Some("openai/x"), &keys, &["q"], &here), "extract", Source::Flag),
            (check(None, Some("openai/x"), &keys, &["q"], &here), "openai/x", Source::Configuration),
            (check(None, None, &keys, &["q"], &here), "openai/gpt-4.1-mini", Source::Environment),
            (check(None, None, &[], &["nomic-embed-text", "qwen3:4b"], &here), "ollama/qwen3:4b", Source::Ollama),
            (check(None, None, &[], &["nomic-embed-text"], &here), "embedded/small", Source::Embedded),
            (check(None, None, &[], &[], &absent()), "extract", Source::Extraction),
        ];
        for (got, model, source) in cases {
            assert_eq!(got, Ok((model.to_owned(), source)));
        }
    }

    #[test]
    fn what_was_named_is_never_replaced_by_something_else() {
        let keys = ["ANTHROPIC_API_KEY"];
        assert!(check(Some("gpt-4o"), None, &keys, &[], &absent()).unwrap_err().contains("openai/gpt-4o"));
        assert!(check(Some("openai/gpt-4o"), None, &keys, &[], &absent()).unwrap_err().contains("OPENAI_API_KEY"));
        assert!(check(None, Some("compat/x/y"), &keys, &[], &absent()).is_err());
        assert!(check(Some("embedded/small"), None, &keys, &[], &absent()).unwrap_err().contains("baton models pull"));
    }

    #[test]
    fn doctor_gets_data() {
        let choice = choose(&ModelRequest::default(), &Table::default(), &|_| None, Err("nothing there".into()), &absent()).unwrap();
        let value = serde_json::to_value(&choice).unwrap();
        assert_eq!(value["by"], json!("extraction"));
        assert_eq!(
            value["ways"][3],
            json!({"source": "ollama", "state": "absent", "detail": "nothing there", "todo": "start it with `ollama serve`"})
        );
    }

    /// Anybody may listen at Ollama's port.
    #[tokio::test]
    async fn an_answer_without_end_is_not_read() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let sent = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = [0_u8; 1024];
            let _ = stream.read(&mut head).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{\"models\": [").await;
            let mut sent = 0_usize;
            while stream.write_all(&[b' '; 65_536]).await.is_ok() && sent < 1 << 30 {
                sent += 65_536;
            }
            sent
        });
        let mut table = Table::default();
        table.endpoints.get_mut("ollama").unwrap().url = url;
        let refused = probe_ollama(&crate::remote::clients().unwrap(), &table, Duration::from_secs(60)).await.unwrap_err();
        assert!(refused.contains("is not an Ollama server"), "{refused}");
        // What the sockets hold is sent beyond that.
        assert!(sent.await.unwrap() < TAGS_BYTES_MAX + (16 << 20));
    }
}
