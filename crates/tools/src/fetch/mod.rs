//! Fetches a page: its readable text, title and date, as passages by heading.
//!
//! An address comes from a model or a page, so it may target something that only this machine can reach. [`guard`] checks the addresses
//! that are connected to; [`get`] limits the response; [`page`] extracts text.
//!
//! Limits: no scripts run, so pages rendered in the browser are nearly empty; a system proxy is not used, because the address behind it
//! could not be checked; PDF and DOCX need a reader process.

mod get;
mod guard;
pub(crate) mod page;
#[cfg(test)]
mod tests;
mod turns;

use std::sync::Arc;
use std::time::Duration;

use evidence::Trust;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::owner::META_USER;
use crate::reader::ReaderProcess;
use crate::{Builtin, Hints, Kind, Passage, Passages, Settings, Tool, ToolError, ToolOutput, Toolset};
use get::Getter;
pub use guard::is_public;
use guard::{AllowedHost, Lookup, SystemLookup};

/// The server `fetch`: web pages as text.
pub const KIND: Kind = Kind {
    name: "fetch",
    about: "Reads a web page: its readable text with title and date. Private and local addresses are refused",
    port: 8004,
    trust: Trust::Untrusted,
    make,
};

/// Limits of one page.
#[derive(Clone, Copy, Debug)]
struct Limits {
    time_max: Duration,
    body_bytes_max: usize,
    redirects_max: usize,
}

const LIMITS: Limits = Limits { time_max: Duration::from_secs(25), body_bytes_max: 8 << 20, redirects_max: 5 };

const REPLY_BYTES_MAX: usize = 32 << 10;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FetchArguments {
    /// The page's address, beginning with https:// or http://.
    url: String,
    /// For long pages: the passage to go on with, as `next` said; 0 is the beginning.
    #[serde(default)]
    from: Option<usize>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct FetchOutput {
    /// Where the page really was, after redirects.
    address: String,
    /// True if the page is at a host that the user allowed although its address may be private.
    #[serde(skip_serializing_if = "Option::is_none")]
    is_internal: Option<bool>,
    title: Option<String>,
    /// When it was published or last changed, as far as it says.
    at: Option<String>,
    passages: Vec<Passage>,
    /// How many passages the whole page has.
    total: usize,
    /// Where to go on, if the page does.
    next: Option<usize>,
}

fn make(kind: &Kind, settings: &Settings) -> Result<Builtin, String> {
    let allowed = settings.private_hosts.iter().map(|host| AllowedHost::read(host)).collect::<Result<Vec<_>, _>>()?;
    let lookup: Arc<dyn Lookup> = Arc::new(SystemLookup);
    Ok(around(kind, Getter::new(allowed, &lookup, LIMITS)?, settings.reader.clone()))
}

fn around(kind: &Kind, mut getter: Getter, reader: Option<Arc<ReaderProcess>>) -> Builtin {
    getter.has_reader = reader.is_some();
    let getter = Arc::new(getter);
    let fetch = Tool::new(
        "fetch",
        "Read a web page (HTML, text, Markdown, JSON, XML, PDF, DOCX) as readable passages with its title and date. Use it on addresses that `search` \
         found or the user named. Long pages come in parts: go on with `from`.",
        Hints::READS_WORLD,
        move |takes: FetchArguments, context| {
            let (getter, reader) = (Arc::clone(&getter), reader.clone());
            async move {
                let user = context.meta.get(META_USER).and_then(Value::as_str);
                fetch(&getter, reader.as_deref(), user, &takes).await
            }
        },
    );
    kind.around(Toolset::new(kind.name, kind.about, [fetch]))
}

async fn fetch(
    getter: &Getter,
    reader: Option<&ReaderProcess>,
    user: Option<&str>,
    takes: &FetchArguments,
) -> Result<ToolOutput<FetchOutput>, ToolError> {
    let got = getter.get(&takes.url).await.map_err(ToolError)?;
    let (address, is_internal) = (got.address.to_string(), got.is_internal.then_some(true));
    let page = page::read(got, reader, user).await.map_err(ToolError)?;
    let total = page.sections.len();
    let from = takes.from.unwrap_or(0);
    if from > 0 && from >= total {
        return Err(ToolError(format!("the page has {total} passages, so there is none at `from` {from}; begin with 0")));
    }
    let mut passages = Vec::new();
    let mut bytes = 0;
    for section in page.sections.into_iter().skip(from) {
        bytes += section.text.len();
        if bytes > REPLY_BYTES_MAX && !passages.is_empty() {
            break;
        }
        passages.push(Passage {
            text: section.text,
            title: page.title.clone(),
            address: Some(address.clone()),
            place: section.heading,
            at: page.at.clone(),
            confidence: None,
        });
    }
    let next = Some(from + passages.len()).filter(|next| *next < total);
    let mut text = if passages.is_empty() {
        format!("{address} has no readable text; it may build itself by scripts, which are not run here")
    } else {
        Passages(&passages).to_string()
    };
    if let Some(next) = next {
        text.push_str(&format!("\n\n(the page goes on: fetch it again with from {next}, of {total})"));
    }
    Ok(ToolOutput { text, data: FetchOutput { address, is_internal, title: page.title, at: page.at, passages, total, next } })
}
