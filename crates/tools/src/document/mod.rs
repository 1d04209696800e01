//! `document`: writes a Markdown text as a file: Markdown, HTML, DOCX or PDF, with its sources as footnotes.
//!
//! The same request returns the same file (see `folder.rs`), so the tool is idempotent and safe to repeat after a crash.

mod autolink;
#[cfg(feature = "documents")]
mod docx;
mod folder;
mod html;
mod markdown;
mod page;
#[cfg(feature = "documents")]
mod pdf;
mod size;
#[cfg(all(test, feature = "documents"))]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use crate::Kind;
use crate::owner::{own_folder, user_of};
use evidence::Trust;
use rmcp::handler::server::wrapper::{Json, Parameters};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler, tool, tool_handler, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

/// The server `document`: files from Markdown.
pub const KIND: Kind = Kind {
    name: "document",
    about: "Writes Markdown as a file for people: Markdown, HTML, DOCX or PDF",
    port: 8009,
    trust: Trust::Computed,
    make: |kind, settings| {
        let settings = settings.document.clone().ok_or("name a folder for documents with --root")?;
        Document::new(settings).map(|document| kind.around(document)).map_err(|error| error.to_string())
    },
};

/// The `document` server's settings.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Where documents are written.
    pub folder: PathBuf,
    /// Bytes of the Markdown text.
    pub markdown_bytes_max: usize,
    /// Sources of one document.
    pub sources_max: usize,
    /// The finished file.
    pub file_bytes_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { folder: PathBuf::from("documents"), markdown_bytes_max: 2_000_000, sources_max: 500, file_bytes_max: 50_000_000 }
    }
}

/// Documents laid out at once in the whole process; each needs a processor and memory, so more wait.
static TURNS: Semaphore = Semaphore::const_new(2);

/// The server.
#[derive(Clone)]
pub struct Document {
    settings: Arc<Settings>,
}

/// Why a document was not written.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message of each variant describes it")]
pub enum DocumentError {
    #[error("{0}")]
    Invalid(String),
    #[error("{0}")]
    Folder(String),
    #[error("{0}")]
    Broken(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "a comment would become part of the schema of the tool")]
pub enum Format {
    Markdown,
    Html,
    Docx,
    Pdf,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "a comment would become part of the schema of the tool")]
pub struct Source {
    /// What it is called.
    #[serde(default)]
    pub title: String,
    /// Where it is found, best an https address.
    #[serde(default)]
    pub address: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Asked")]
#[expect(missing_docs, reason = "a comment would become part of the schema of the tool")]
pub struct DocumentRequest {
    /// The text, in Markdown: headings, lists, tables, links, bold, italic, code, quotes, footnotes. Cite a source by its number, as `[1]` or `[^1]`. Pictures become links, HTML is shown as text.
    pub markdown: String,
    /// What kind of file.
    pub format: Format,
    /// The title of the document.
    #[serde(default)]
    pub title: Option<String>,
    /// What to call the file, without its ending. Made from the title if left out.
    #[serde(default)]
    pub name: Option<String>,
    /// The sources that the text cites; the first is [1]. They become footnotes.
    #[serde(default)]
    pub sources: Vec<Source>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "a comment would become part of the schema of the tool")]
pub struct Created {
    pub path: String,
    pub bytes: u64,
    pub sha256: String,
    /// True when this very document had been made before, and is still as it was.
    pub already: bool,
    /// What a reader should know, such as characters that could not be shown.
    pub notices: Vec<String>,
}

#[tool_router]
impl Document {
    /// Creates the folder if it does not exist.
    pub fn new(mut settings: Settings) -> Result<Self, DocumentError> {
        let made = crate::workspace::make_private(&settings.folder).and_then(|()| settings.folder.canonicalize());
        settings.folder =
            made.map_err(|e| DocumentError::Folder(format!("make the folder {} for documents writable ({e})", settings.folder.display())))?;
        Ok(Self { settings: Arc::new(settings) })
    }

    #[tool(
        description = "Writes a document from Markdown as a file (markdown, html, docx or pdf) and gives its path. Existing files are never overwritten; the same document again gives the same file.",
        annotations(title = "Create a document", read_only_hint = false, destructive_hint = false, idempotent_hint = true, open_world_hint = false)
    )]
    async fn create(&self, Parameters(asked): Parameters<DocumentRequest>, context: RequestContext<RoleServer>) -> Result<Json<Created>, String> {
        let folder = own_folder(&self.settings.folder, user_of(&context.meta).as_deref());
        self.create_in(folder, asked).await.map(Json).map_err(|e| e.to_string())
    }
}

#[tool_handler(
    name = "document",
    instructions = "Turns Markdown into files for people. Pass the sources that the text cites, so that they become footnotes."
)]
impl ServerHandler for Document {}

impl Document {
    /// Writes a document into the folder of the settings.
    pub async fn create_document(&self, asked: DocumentRequest) -> Result<Created, DocumentError> {
        self.create_in(self.settings.folder.clone(), asked).await
    }

    async fn create_in(&self, folder: PathBuf, asked: DocumentRequest) -> Result<Created, DocumentError> {
        let settings = Settings { folder, ..(*self.settings).clone() };
        let turn = TURNS.acquire().await.map_err(|e| DocumentError::Broken(e.to_string()))?;
        let work = move || {
            let created = create(&settings, &asked);
            // Not earlier: the work continues when the caller is gone.
            drop(turn);
            created
        };
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let thread = std::thread::Builder::new().name("document".to_owned());
        let work = move || {
            // Making a PDF takes a processor for seconds.
            turns::give_way();
            let _ = sender.send(work());
        };
        thread.spawn(work).map_err(|e| DocumentError::Broken(e.to_string()))?;
        receiver.await.unwrap_or_else(|_| Err(DocumentError::Broken("writing the document crashed; try another format".to_owned())))
    }
}

fn create(settings: &Settings, asked: &DocumentRequest) -> Result<Created, DocumentError> {
    if asked.markdown.trim().is_empty() || asked.markdown.len() > settings.markdown_bytes_max {
        return Err(DocumentError::Invalid(format!("`markdown` must have 1 to {} bytes; split what is longer", settings.markdown_bytes_max)));
    }
    if asked.sources.len() > settings.sources_max {
        return Err(DocumentError::Invalid(format!("{} sources are more than the {} allowed", asked.sources.len(), settings.sources_max)));
    }
    let title = asked.title.as_deref();
    let name = folder::safe_name(asked.name.as_deref().or(title).unwrap_or("document"));
    let extension = match asked.format {
        Format::Markdown => "md",
        Format::Html => "html",
        Format::Docx => "docx",
        Format::Pdf => "pdf",
    };
    let digest = folder::hex(&serde_json::to_vec(asked).map_err(|e| DocumentError::Broken(e.to_string()))?);
    let made = folder::make(&settings.folder, &name, extension, &digest, || {
        let page = page::read(&asked.markdown, title, &asked.sources)?;
        if asked.format != Format::Markdown {
            page.check_size()?;
        }
        let (bytes, notices) = match asked.format {
            Format::Markdown => (markdown::write(&asked.markdown, title, &asked.sources).into_bytes(), Vec::new()),
            Format::Html => (html::write(&page).into_bytes(), Vec::new()),
            #[cfg(feature = "documents")]
            Format::Docx => (docx::write(&page)?, Vec::new()),
            #[cfg(feature = "documents")]
            Format::Pdf => {
                let pdf = pdf::write(&page)?;
                let notice = (!pdf.missing.is_empty()).then(|| missing_characters(&pdf.missing));
                (pdf.bytes, notice.into_iter().collect())
            }
            #[cfg(not(feature = "documents"))]
            Format::Docx | Format::Pdf => {
                let why = "this binary was built without PDF and DOCX; use markdown or html, or build it with the feature `documents`";
                return Err(DocumentError::Invalid(why.into()));
            }
        };
        if bytes.len() > settings.file_bytes_max {
            return Err(DocumentError::Invalid(format!(
                "the file would have {} bytes, more than the {} allowed; split the text",
                bytes.len(),
                settings.file_bytes_max
            )));
        }
        Ok((bytes, notices))
    })?;
    Ok(Created { path: made.path.display().to_string(), bytes: made.bytes, sha256: made.sha256, already: made.already, notices: made.notices })
}

#[cfg(feature = "documents")]
fn missing_characters(missing: &std::collections::BTreeSet<char>) -> String {
    let (count, some) = (missing.len(), missing.iter().take(20).collect::<String>());
    format!(
        "no font on this machine has {count} of the characters ({some}); the PDF shows empty boxes for them. Install a font that has them, or use html or docx."
    )
}
