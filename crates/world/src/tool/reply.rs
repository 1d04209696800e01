//! What a tool said, as a flow sees it.

use evidence::{Found, Span, Trust};
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::Value;

/// Text and data of one result together. More is no answer but a download.
pub const RESULT_BYTES_MAX: usize = 4 << 20;

/// Everything readable in a result, in its order. What is not text is named, not copied.
pub(crate) fn text(result: &CallToolResult) -> String {
    let parts: Vec<String> = result.content.iter().map(block).filter(|part| !part.is_empty()).collect();
    parts.join("\n\n")
}

fn block(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => format!("[an image, {}, {} bytes in base64]", image.mime_type, image.data.len()),
        ContentBlock::Audio(audio) => format!("[a sound, {}, {} bytes in base64]", audio.mime_type, audio.data.len()),
        ContentBlock::Resource(resource) => match &resource.resource {
            ResourceContents::TextResourceContents { text, .. } => text.clone(),
            ResourceContents::BlobResourceContents { uri, blob, .. } => format!("[{uri}, {} bytes in base64]", blob.len()),
            _ => String::new(),
        },
        ContentBlock::ResourceLink(link) => format!("[{}: {}]", link.name, link.uri),
        _ => String::new(),
    }
}

/// How much there is, as far as a flow will see it.
pub(crate) fn bytes(text: &str, data: &Value) -> usize {
    let data = if data.is_null() { 0 } else { data.to_string().len() };
    text.len() + data
}

/// Turns a result into evidence: its `passages` one by one, or else its text as one span.
pub(crate) fn found(source: &str, trust: Trust, text: String, data: Value) -> Found {
    let field = |passage: &Value, name: &str| passage.get(name).and_then(Value::as_str).map(str::to_owned);
    let passages = data.get("passages").and_then(Value::as_array);
    let mut spans: Vec<Span> = passages
        .into_iter()
        .flatten()
        .filter_map(|passage| {
            let text = field(passage, "text").filter(|text| !text.trim().is_empty())?;
            let (title, address) = (field(passage, "title"), field(passage, "address"));
            Some(Span { text, source: source.to_owned(), title, address, place: field(passage, "place"), at: field(passage, "at"), trust })
        })
        .collect();
    if passages.is_none() && !text.trim().is_empty() {
        spans.push(Span { text: text.clone(), source: source.to_owned(), trust, ..Span::default() });
    }
    Found { text, data, spans }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn passages_become_spans_and_other_text_is_one() {
        let data = json!({"passages": [{"text": "a", "title": "T", "address": "f.md", "place": "1", "at": "2026"}, {"text": " "}]});
        let spans = found("docs.search", Trust::Own, "whole".into(), data).spans;
        assert_eq!(spans.len(), 1);
        assert_eq!((spans[0].text.as_str(), spans[0].title.as_deref(), spans[0].trust), ("a", Some("T"), Trust::Own));
        assert_eq!(found("x.y", Trust::Untrusted, "whole".into(), json!({"n": 1})).spans[0].text, "whole");
        assert!(found("x.y", Trust::Untrusted, "none".into(), json!({"passages": []})).spans.is_empty(), "nothing was found");
        assert!(found("x.y", Trust::Untrusted, " ".into(), Value::Null).spans.is_empty());
    }
}
