//! The result of a tool, in the form that flows use.

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
