//! An answer as a file: Markdown, HTML, DOCX or PDF. The server's downloads and the command line make theirs here.

use server::backend::{Export, Format};
use tools::document::{self, Document, DocumentError};

/// The bytes of the document.
pub async fn document(file: Export) -> Result<Vec<u8>, DocumentError> {
    // Written into a temporary folder, which is removed afterwards.
    let folder = tempfile::tempdir().map_err(|error| DocumentError::Broken(error.to_string()))?;
    let settings = document::Settings { folder: folder.path().to_owned(), ..document::Settings::default() };
    let format = match file.format {
        Format::Markdown => document::Format::Markdown,
        Format::Html => document::Format::Html,
        Format::Docx => document::Format::Docx,
        Format::Pdf => document::Format::Pdf,
    };
    let sources = file.sources.into_iter().map(|(title, address)| document::Source { title, address }).collect();
    let asked = document::DocumentRequest { markdown: file.markdown, format, title: Some(file.title), name: Some("answer".into()), sources };
    let created = Document::new(settings)?.create_document(asked).await?;
    let read = tokio::task::spawn_blocking(move || std::fs::read(&created.path)).await;
    read.map_err(|error| error.to_string()).and_then(|read| read.map_err(|error| error.to_string())).map_err(DocumentError::Broken)
}
