//! Documents, answers and the passages they cite, as resources.
//!
//! ```text
//! baton://documents/{name}               a document that the user uploaded
//! baton://runs/{run}/answer              an answer, as Markdown
//! baton://runs/{run}/sources/{number}    the passages of the n-th source of an answer
//! ```

use base64::Engine as _;
use rmcp::model::{ErrorData, ReadResourceResponse, ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use serde_json::json;
use store::{RunFilter, Status};

use super::failed;
use crate::api::{Api, answer};
use crate::guard::Identity;
use crate::name;
use crate::problem::Problem;

const DOCUMENTS: &str = "baton://documents/";
const RUNS: &str = "baton://runs/";
/// Of one document. The transport keeps what it sends in memory until it is read, as text of JSON.
const DOCUMENT_BYTES_MAX: u64 = 1 << 20;
/// The newest answers that are listed.
const ANSWERS_MAX: usize = 50;

pub(super) fn source_uri(run: &str, number: usize) -> String {
    format!("{RUNS}{run}/sources/{number}")
}

pub(super) fn templates() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new(format!("{DOCUMENTS}{{name}}"), "document").with_description("A document that you uploaded"),
        ResourceTemplate::new(format!("{RUNS}{{run}}/answer"), "answer").with_description("The answer of a run").with_mime_type("text/markdown"),
        ResourceTemplate::new(format!("{RUNS}{{run}}/sources/{{number}}"), "source")
            .with_description("The passages that an answer cites from one source")
            .with_mime_type("text/plain"),
    ]
}

pub(super) async fn list(api: &Api, who: &Identity) -> Result<Vec<Resource>, Problem> {
    let mut all = Vec::new();
    for file in api.0.backend.documents(&who.user).await?.files {
        all.push(Resource::new(format!("{DOCUMENTS}{}", encoded(&file.name)), file.name).with_size(file.bytes));
    }
    let filter = RunFilter {
        statuses: vec![Status::Done],
        user: Some(who.user.clone()),
        roots_only: true,
        limit: ANSWERS_MAX,
        outcome_bytes_max: Some(0),
        ..RunFilter::default()
    };
    for row in api.0.engine.store().runs(filter).await? {
        let title = if row.title.is_empty() { row.run.to_string() } else { row.title };
        all.push(Resource::new(format!("{RUNS}{}/answer", row.run), title).with_mime_type("text/markdown"));
    }
    Ok(all)
}

pub(super) async fn read(api: &Api, who: &Identity, uri: &str) -> Result<ReadResourceResponse, ErrorData> {
    let missing = || ErrorData::resource_not_found(format!("there is no resource {uri:?}; resources/list names them"), Some(json!({ "uri": uri })));
    let refused = |problem: Problem| if problem.status == axum::http::StatusCode::NOT_FOUND { missing() } else { failed(&problem) };
    if let Some(name) = uri.strip_prefix(DOCUMENTS) {
        let name = decoded(name).ok_or_else(missing)?;
        let name = name::plain(&name).map_err(|_| missing())?.to_owned();
        let listed = api.0.backend.documents(&who.user).await.map_err(refused)?.files.into_iter().find(|file| file.name == name);
        if listed.ok_or_else(missing)?.bytes > DOCUMENT_BYTES_MAX {
            let words =
                format!("{name} has more than {DOCUMENT_BYTES_MAX} bytes; ask a flow about it, or read it in parts from /api/documents/NAME?from=N");
            return Err(ErrorData::invalid_params(words, None));
        }
        let bytes = api.0.backend.document(&who.user, &name).await.map_err(refused)?;
        let contents = match String::from_utf8(bytes) {
            Ok(text) => ResourceContents::text(text, uri),
            Err(error) => ResourceContents::blob(base64::engine::general_purpose::STANDARD.encode(error.into_bytes()), uri),
        };
        return Ok(ReadResourceResult::new(vec![contents]).into());
    }
    let (run, part) = uri.strip_prefix(RUNS).and_then(|rest| rest.split_once('/')).ok_or_else(missing)?;
    let whole = answer::of(api, who, run).await.map_err(refused)?;
    let contents = match part.strip_prefix("sources/").map(str::parse::<usize>) {
        None if part == "answer" => ResourceContents::text(whole.markdown, uri).with_mime_type("text/markdown"),
        Some(Ok(number)) => {
            let source = number.checked_sub(1).and_then(|at| whole.sources.get(at)).ok_or_else(missing)?;
            let passages: Vec<&str> = whole.spans.iter().filter(|span| source.spans.contains(&span.n)).map(|span| span.text.as_str()).collect();
            let address = source.address.as_deref().unwrap_or_default();
            ResourceContents::text(format!("{}\n{address}\n\n{}", source.title, passages.join("\n\n")), uri)
        }
        None | Some(Err(_)) => return Err(missing()),
    };
    Ok(ReadResourceResult::new(vec![contents]).into())
}

/// Everything but letters, digits, dots, dashes and underscores as `%XX`.
fn encoded(name: &str) -> String {
    name.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' => char::from(byte).to_string(),
            other => format!("%{other:02X}"),
        })
        .collect()
}

fn decoded(name: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::new(), name.as_bytes());
    while let [first, more @ ..] = rest {
        if *first == b'%' {
            let hex = std::str::from_utf8(more.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(hex, 16).ok()?);
            rest = &more[2..];
        } else {
            bytes.push(*first);
            rest = more;
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_carried_by_addresses() {
        for name in ["notes.md", "Übersicht 2024.pdf", "a%b"] {
            assert_eq!(decoded(&encoded(name)).as_deref(), Some(name));
        }
        assert_eq!(encoded("a b"), "a%20b");
        assert!(decoded("%").is_none() && decoded("%zz").is_none() && decoded("%ff").is_none());
    }
}
