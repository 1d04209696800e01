//! The sources that a user chose for a run: servers, tools, and documents.
//!
//! A document is named as `document:NAME`, where `NAME` is the name of its file, its path, or a folder above it. With documents chosen, `docs.search` is asked
//! for more passages, and those of other documents are left out of its reply; `docs.read` of another document is refused.

use std::sync::Arc;

use evidence::Found;
use graph::{Effect, Job, Reply};
use serde_json::{Value, json};

const DOCUMENT: &str = "document:";
const DOCS: &str = "docs";
const SEARCH: &str = "docs.search";
const READ: &str = "docs.read";
/// The most that `docs.search` gives, so that enough is left.
const PASSAGES_MAX: usize = 50;
/// Passages that are kept of these.
const KEPT_MAX: usize = 12;

/// Why a tool may not be called in this run, if it may not.
pub(crate) fn refusal(job: &Job, tool: &str) -> Option<String> {
    let only = job.context.only.as_deref()?;
    if !is_chosen(only, tool) {
        return Some(format!("the tool {tool} is not among the sources that were chosen for this conversation"));
    }
    let Effect::CallTool(call) = &*job.effect else { return None };
    let file = call.arguments.get("file").and_then(Value::as_str).filter(|_| tool == READ)?;
    let names = documents(only);
    (!names.is_empty() && !is_of(&names, file)).then(|| format!("{file} is not among the documents that were chosen for this conversation"))
}

/// Whether a tool is among these sources.
pub(crate) fn is_chosen(only: &[String], tool: &str) -> bool {
    let server = tool.split_once('.').map_or(tool, |(server, _)| server);
    only.iter().any(|name| name == tool || name == server || (server == DOCS && name.starts_with(DOCUMENT)))
}

fn documents(only: &[String]) -> Vec<&str> {
    only.iter().filter_map(|name| name.strip_prefix(DOCUMENT)).collect()
}

fn is_of(names: &[&str], address: &str) -> bool {
    // `chosen/../other.md` is not below `chosen`.
    if address.split(['/', '\\']).any(|part| part == "..") {
        return false;
    }
    let file = address.rsplit(['/', '\\']).next().unwrap_or(address);
    let is_below = |folder: &str| address.strip_prefix(folder).is_some_and(|rest| rest.starts_with(['/', '\\']));
    names.iter().any(|name| *name == file || *name == address || is_below(name))
}

/// A search in chosen documents asks for more passages than it keeps.
pub(crate) fn widened(job: &Job) -> Option<Job> {
    let Effect::CallTool(call) = &*job.effect else { return None };
    if call.tool != SEARCH || documents(job.context.only.as_deref()?).is_empty() || !call.arguments.is_object() {
        return None;
    }
    let mut call = call.clone();
    call.arguments["size"] = json!(PASSAGES_MAX);
    Some(Job { effect: Arc::new(Effect::CallTool(call)), ..job.clone() })
}

/// The reply to a search without the passages of other documents.
pub(crate) fn limited(job: &Job, reply: Reply) -> Reply {
    let is_search = matches!(&*job.effect, Effect::CallTool(call) if call.tool == SEARCH);
    let names = documents(job.context.only.as_deref().unwrap_or_default());
    if !is_search || names.is_empty() {
        return reply;
    }
    Reply { result: reply.result.map(|value| without_others(value, &names)), ..reply }
}

fn without_others(value: Value, names: &[&str]) -> Value {
    let Ok(mut found) = serde_json::from_value::<Found>(value) else { return json!(Found::default()) };
    found.spans.retain(|span| span.address.as_deref().is_some_and(|address| is_of(names, address)));
    found.spans.truncate(KEPT_MAX);
    if let Some(passages) = found.data.get_mut("passages").and_then(Value::as_array_mut) {
        passages.retain(|passage| passage["address"].as_str().is_some_and(|address| is_of(names, address)));
        passages.truncate(KEPT_MAX);
    }
    found.text = match found.spans.is_empty() {
        true => "nothing was found in the chosen documents".to_owned(),
        false => found.spans.iter().map(|span| span.text.as_str()).collect::<Vec<_>>().join("\n\n"),
    };
    serde_json::to_value(found).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(tool: &str, arguments: Value, only: &[&str]) -> Job {
        let mut job = scripted::jobs(&[graph::tool(tool, arguments)]).remove(0);
        job.context.only = Some(only.iter().map(|name| (*name).to_owned()).collect());
        job
    }

    #[test]
    fn only_what_was_chosen_is_called_and_read() {
        let only = ["search", "mail.list", "document:rules.md"];
        for (tool, expected) in
            [("search.search", true), ("mail.list", true), ("mail.send", false), ("docs.search", true), ("docs.list", true), ("files.read", false)]
        {
            assert_eq!(refusal(&job(tool, json!({}), &only), tool).is_none(), expected, "{tool}");
        }
        let read = |file: &str| refusal(&job("docs.read", json!({ "file": file }), &only), "docs.read").is_none();
        assert!(read("/data/ada/rules.md") && !read("/data/ada/other.md") && !read("/data/rules.md/x"));
        let below = |file: &str| refusal(&job("docs.read", json!({ "file": file }), &["document:/data/law"]), "docs.read").is_none();
        assert!(
            below("/data/law/a.md") && !below("/data/law/../ada/other.md") && !below("/data/law\\..\\ada\\other.md") && !below("/data/lawless/a.md")
        );
        let mut free = job("mail.send", json!({}), &[]);
        free.context.only = None;
        assert_eq!(refusal(&free, "mail.send"), None);
        assert!(refusal(&job("mail.send", json!({}), &[]), "mail.send").is_some(), "nothing chosen is no tool at all");
    }

    #[test]
    fn a_search_keeps_the_chosen_documents() {
        let span = |address: &str| json!({ "text": address, "source": "docs.search", "address": address, "trust": "own" });
        let value = json!({ "text": "all", "data": { "passages": [{ "address": "/d/a.md" }, { "address": "/d/b.md" }] }, "spans": [span("/d/a.md"), span("/d/b.md"), span("/e/c.md")] });
        let job = job("docs.search", json!({ "query": "x" }), &["document:a.md", "document:/e"]);
        assert_eq!(widened(&job).map(|job| serde_json::to_value(&*job.effect).unwrap()["call_tool"]["arguments"]["size"].clone()), Some(json!(50)));
        let kept = limited(&job, Reply::ok(value)).result.unwrap();
        assert_eq!((kept["spans"].as_array().unwrap().len(), kept["text"].as_str().unwrap()), (2, "/d/a.md\n\n/e/c.md"));
        assert_eq!(kept["data"]["passages"], json!([{ "address": "/d/a.md" }]));
    }
}
