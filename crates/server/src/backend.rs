//! What the API needs beyond the engine: how a question becomes a run, which model answers, which documents there are.
//!
//! The program implements this trait; the server depends on no vendor, folder or index.

use std::net::IpAddr;

use async_trait::async_trait;
use engine::Order;
use evidence::Span;
use graph::{ThreadId, ToolDefinition, UserId};
use serde_json::{Map, Value};
use wire::api;

use crate::problem::Problem;

/// A result whose error is the response.
pub type Result<T> = std::result::Result<T, Problem>;

/// What the program around the server provides: flows, models, documents and files.
#[async_trait]
pub trait Backend: Send + Sync + 'static {
    /// The flows, as people are shown them.
    fn flows(&self) -> Vec<api::Flow>;
    /// What to start for a question in a thread.
    fn order(&self, user: &UserId, thread: &ThreadId, new_run: &api::NewRun) -> Result<Order>;
    /// Whether there is such a flow.
    fn has_flow(&self, name: &str) -> bool {
        self.flows().iter().any(|flow| flow.name == name)
    }
    /// Whether a flow's input has room for a conversation that the caller keeps.
    fn takes_history(&self, flow: &str) -> bool;
    /// Input fields that every run of this user receives in addition to those of its caller, in every protocol.
    fn given(&self, user: &UserId) -> Map<String, Value>;
    /// The model that answers unless a request names another.
    fn chosen(&self) -> api::SelectedModel;
    /// Every source of models and its state.
    async fn models(&self) -> Result<api::Models>;
    /// The keys that models may need, and whether each is there.
    async fn keys(&self) -> Result<Vec<api::StoredKey>> {
        Ok(Vec::new())
    }
    /// Stores a key, or removes it. It counts for the next call.
    async fn set_key(&self, _name: &str, _value: Option<&str>) -> Result<()> {
        Err(Problem::invalid("keys cannot be stored here"))
    }
    /// Asks a model a short question, with the keys and endpoints as they are now.
    async fn test_model(&self, _model: &str) -> Result<api::TestedModel> {
        Err(Problem::invalid("models cannot be tried here"))
    }
    /// What a tool (`server.tool`) or a server is now; `None` where that is not known without asking the server.
    fn tool_definition(&self, _name: &str) -> Option<ToolDefinition> {
        None
    }
    /// A value as it is kept under that name of a preference; `null` takes it back.
    fn preference(&self, name: &str, value: &Value) -> Result<Option<Value>>;

    /// The documents that a user can search.
    async fn documents(&self, user: &UserId) -> Result<api::Documents>;
    /// The name is one that passed [`crate::name::plain`].
    async fn put_document(&self, user: &UserId, name: &str, bytes: Vec<u8>) -> Result<api::Uploaded>;
    /// A document that this user uploaded.
    async fn document(&self, user: &UserId, name: &str) -> Result<Vec<u8>>;
    /// Its text as it is indexed, from one line (page, paragraph) on.
    async fn document_text(&self, _user: &UserId, _name: &str, _from: u32) -> Result<api::DocumentText> {
        Err(Problem::not_found("document"))
    }
    /// Deletes a document that this user uploaded.
    async fn delete_document(&self, user: &UserId, name: &str) -> Result<()>;
    /// The text around a span in its document, if this user may read it.
    async fn excerpt(&self, user: &UserId, span: &Span) -> Option<api::Excerpt>;

    /// A file that runs of this thread wrote. Whether the thread is the caller's was checked before.
    async fn workspace_file(&self, thread: &ThreadId, path: &str) -> Result<Vec<u8>>;

    /// Whether an address belongs to the internet at large; what clients name is called only then.
    fn is_public(&self, address: IpAddr) -> bool;
    /// Whether webhooks and push notifications may be sent there.
    fn may_notify(&self, address: IpAddr) -> bool {
        self.is_public(address)
    }

    /// Removes the files that runs of a thread wrote, after the thread was deleted.
    async fn thread_deleted(&self, thread: &ThreadId) -> Result<()>;

    /// Bytes that are free where files are kept; `None` where that is unknown.
    fn disk_free_bytes(&self) -> Option<u64> {
        None
    }

    /// An answer as a file.
    async fn export(&self, file: Export) -> Result<Vec<u8>>;
    /// Markdown as an HTML fragment without scripts, styles and pictures.
    fn html(&self, markdown: &str) -> String;
}

/// A file format of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Markdown, with the sources as a list.
    Markdown,
    /// One HTML file without scripts.
    Html,
    /// A document for Word and similar programs.
    Docx,
    /// PDF.
    Pdf,
}

impl Format {
    /// The formats by file extension.
    pub const ALL: [(&'static str, Format); 4] = [("md", Format::Markdown), ("html", Format::Html), ("docx", Format::Docx), ("pdf", Format::Pdf)];

    /// The value of `Content-Type`.
    pub fn media_type(self) -> &'static str {
        match self {
            Format::Markdown => "text/markdown; charset=utf-8",
            Format::Html => "text/html; charset=utf-8",
            Format::Docx => "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
            Format::Pdf => "application/pdf",
        }
    }
}

/// A document to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct Export {
    /// The format of the file.
    pub format: Format,
    /// The title of the document.
    pub title: String,
    /// Without the list of sources; `[n]` cites the n-th.
    pub markdown: String,
    /// Title and address of each.
    pub sources: Vec<(String, String)>,
}

impl Export {
    /// An answer as a document: signs with one legend in place of remarks, its own title if it begins with one, and its sources as a list.
    pub fn of_answer(format: Format, title: &str, markdown: &str, sources: Vec<(String, String)>) -> Export {
        let body = evidence::answer_body(markdown, !sources.is_empty());
        let own = body.strip_prefix("# ").map(|rest| rest.split_once('\n').unwrap_or((rest, "")));
        let (title, body) = own.map_or((title, body), |(own, rest)| (own.trim(), rest.trim_start()));
        Export { format, title: title.to_owned(), markdown: with_legend(body), sources }
    }
}

/// Signs in place of the remarks after sentences, explained once at the end.
pub(crate) fn with_legend(markdown: &str) -> String {
    let signs = [
        (evidence::UNSUPPORTED_MARK, "†", "The sources do not support this sentence or row."),
        (evidence::CONTRADICTED_MARK, "§", "The sources state the contrary of this sentence or row."),
        (evidence::WEAK_MARK, "‡", "The sources support this sentence or row only weakly."),
    ];
    let used = signs.iter().filter(|(remark, ..)| markdown.contains(remark));
    let legend: Vec<String> = used.map(|(_, sign, words)| format!("{sign} {words}")).collect();
    let text = signs.iter().fold(markdown.to_owned(), |text, (remark, sign, _)| text.replace(remark, &format!(" {sign}")));
    if legend.is_empty() { text } else { format!("{text}\n\n---\n\n*{}*", legend.join(" ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_export_explains_its_signs_once() {
        let marked = "One [1]. *(not supported by the sources)*\n\n| a | b *(not supported by the sources)* |\n\nTwo. *(weakly supported)*";
        let text = with_legend(marked);
        assert_eq!((text.matches('†').count(), text.matches('‡').count()), (3, 2));
        assert_eq!(text.matches("do not support").count(), 1);
        assert!(!text.contains("(not supported") && text.contains("b † |"), "{text}");
        assert_eq!(with_legend("One [1]."), "One [1].");
    }

    #[test]
    fn a_document_with_a_title_keeps_it_and_lists_its_sources_once() {
        let sources = vec![("Log".to_owned(), "https://log.example".to_owned())];
        let export = Export::of_answer(
            Format::Markdown,
            "Write a report on logs",
            "# Logs\n\n## Summary\n\nOne [1].\n\n**Sources**\n\n1. Log",
            sources.clone(),
        );
        assert_eq!((export.title.as_str(), export.markdown.as_str()), ("Logs", "## Summary\n\nOne [1]."));
        let plain = Export::of_answer(Format::Markdown, "What?", "One [1].\n\n**Sources**\n\n1. Log", sources);
        assert_eq!((plain.title.as_str(), plain.markdown.as_str()), ("What?", "One [1]."));
    }
}
