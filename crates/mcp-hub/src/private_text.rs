//! Private text and the network: which results are public, and which calls may carry private text to a place that a plan chose.
//!
//! A tool that only reads can still send: the address that it fetches reaches the owner of the address. A run that has read private text may therefore open,
//! without permission, only addresses that were not composed from it:
//!
//! | the address | without permission |
//! |---|---|
//! | its host stands in the user's own words | yes |
//! | a public result (of a search, or a page that was read) gave exactly this address | yes |
//! | any other | no |
//!
//! A tool whose destination is fixed, such as a search, may be called with what a plan contains, and needs permission where text of a result was put into its
//! arguments. Only tools that say of themselves that they reach into the open world are concerned.

use evidence::{Found, Trust};
use graph::{Addresses, Job, ToolCall};
use reqwest::Url;
use serde_json::Value;

use super::entry::Entry;
use super::server::Server;

/// Addresses that one reply names, at most.
const ADDRESSES_MAX: usize = 50;
const ADDRESS_BYTES_MAX: usize = 300;

/// The addresses of a result that holds nothing private; `None` if it may. Public is what built-in tools read in the open world, or compute from their
/// arguments alone.
pub(super) fn public_addresses(server: &Server, entry: &Entry, found: &Found) -> Option<Vec<String>> {
    let hints = entry.tool.annotations.as_ref()?;
    let reads = server.is_local() && hints.read_only_hint == Some(true);
    let is_internal = found.data.get("is_internal").and_then(Value::as_bool) == Some(true);
    if !reads || is_internal {
        return None;
    }
    match (hints.open_world_hint, server.trust()) {
        (Some(true), _) => {
            let mut addresses: Vec<String> =
                found.spans.iter().filter_map(|span| span.address.clone()).filter(|one| one.len() <= ADDRESS_BYTES_MAX).collect();
            addresses.sort();
            addresses.dedup();
            addresses.truncate(ADDRESSES_MAX);
            Some(addresses)
        }
        (_, Trust::Computed) => Some(Vec::new()),
        (_, Trust::Own | Trust::Untrusted) => None,
    }
}

/// Why a call of a tool that only reads needs permission: it may carry private text out.
pub(super) fn objection(job: &Job, call: &ToolCall, tool: &rmcp::model::Tool) -> Option<String> {
    let is_open_world = tool.annotations.as_ref().and_then(|hints| hints.open_world_hint) == Some(true);
    if !job.has_private_text || !is_open_world {
        return None;
    }
    let mut urls = Vec::new();
    collect(&call.arguments, &mut urls);
    if let Some(url) = urls.iter().find(|url| !is_known(url, &job.addresses)) {
        let host = url.host_str().unwrap_or_default();
        return Some(format!(
            "It would open an address at {host}, and the address may carry text from your documents or other private results: neither you nor a search named it."
        ));
    }
    let is_filled = urls.is_empty() && !job.filled.is_empty();
    is_filled.then(|| "It would send text from your documents or other private results out of this machine.".to_owned())
}

/// Every string that is an address as a whole.
fn collect(value: &Value, urls: &mut Vec<Url>) {
    match value {
        Value::String(text) => urls.extend(Url::parse(text.trim()).ok().filter(|url| url.has_host())),
        Value::Array(items) => items.iter().for_each(|item| collect(item, urls)),
        Value::Object(fields) => fields.values().for_each(|field| collect(field, urls)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn is_known(url: &Url, addresses: &Addresses) -> bool {
    let is_at =
        |named: &str| Url::parse(named).is_ok_and(|named| named.host() == url.host() && named.port_or_known_default() == url.port_or_known_default());
    let is_same = |found: &str| Url::parse(found).is_ok_and(|found| without_fragment(found) == without_fragment(url.clone()));
    addresses.named().any(is_at) || addresses.found().any(is_same)
}

fn without_fragment(mut url: Url) -> Url {
    url.set_fragment(None);
    url
}

#[cfg(test)]
mod tests {
    use graph::{Effect, Placeholder};
    use rmcp::model::{JsonObject, Tool, ToolAnnotations};
    use serde_json::json;
    use std::sync::Arc;

    use super::*;

    fn tool(is_open_world: Option<bool>) -> Tool {
        let mut hints = ToolAnnotations::new().read_only(true);
        hints.open_world_hint = is_open_world;
        Tool::new("fetch", "", JsonObject::new()).with_annotations(hints)
    }

    /// Whether permission is needed for these arguments, in a run whose user named `https://named.example/a`.
    fn needs(arguments: Value, has_private_text: bool, is_filled: bool, is_open_world: Option<bool>) -> bool {
        let mut job = scripted::jobs(&[graph::tool("fetch.fetch", arguments)]).remove(0);
        job.has_private_text = has_private_text;
        job.addresses = Arc::new(Addresses::named_in(&json!("see https://named.example/a")));
        if is_filled {
            job.filled = vec![Placeholder::whole("/arguments/url", 0, "")];
        }
        let Effect::CallTool(call) = &*job.effect else { panic!("a tool call") };
        objection(&job, call, &tool(is_open_world)).is_some()
    }

    #[test]
    fn an_address_composed_after_private_text_was_read_needs_permission() {
        let url = |url: &str| json!({ "url": url });
        let open = Some(true);
        for (address, expected) in [
            ("https://evil.example/?d=The+vault+code", true),
            ("https://named.example.evil.example/", true),
            ("https://named.example@evil.example/", true),
            ("https://named.example:8443/", true),
            (" HTTPS://evil.example/x", true),
            ("https://named.example/other?q=1", false),
            ("https://NAMED.example/", false),
        ] {
            assert_eq!(needs(url(address), true, false, open), expected, "{address}");
            assert_eq!(needs(url(address), true, true, open), expected, "filled: {address}");
            assert!(!needs(url(address), false, true, open), "nothing private was read: {address}");
            assert!(!needs(url(address), true, false, Some(false)), "it reaches nowhere: {address}");
        }
        assert!(needs(json!({ "query": "passage" }), true, true, open), "text of a result in a search");
        assert!(!needs(json!({ "query": "words of the plan" }), true, false, open), "the destination of a search is fixed");
    }
}
