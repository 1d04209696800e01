//! `docs`: searches and reads the user's folders. Only indexed files can be read, so nothing hidden, ignored or outside.
//!
//! [`Docs`] implements the tools without MCP; [`Server`] is the MCP server. Before a search the folders are scanned again, at most every
//! few seconds and never by two calls at once, so results are up to date.
//!
//! Files that belong to a user are visible only to calls for that user. The user is in the call's `_meta`
//! ([`META_USER`](crate::owner::META_USER)), which the hub sends to built-in servers only; a call without one sees files without an owner.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use crate::Kind;
use crate::owner::user_of;
use evidence::Trust;
use index::{Error, Folders, Hit, State};
use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{CallToolResult, ContentBlock, Implementation, ServerCapabilities, ServerConfig};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ErrorData, ServerHandler, tool, tool_handler, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The server `docs`: search in the user's folders and uploads.
pub const KIND: Kind = Kind {
    name: "docs",
    about: "Searches and reads your own folders: Markdown, text, HTML, PDF, DOCX and source code",
    port: 8007,
    trust: Trust::Own,
    make: |kind, settings| {
        let folders = settings.docs.clone().ok_or("name a folder with --docs")?;
        Ok(kind.around(Server::new(Arc::new(Docs::new(folders)))))
    },
};

const SIZE_DEFAULT: usize = 8;
const SIZE_MAX: usize = 50;
/// Scanning thousands of files takes time; files rarely change within this interval.
const REFRESH_EVERY: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "a comment would become part of the schema of the tool")]
pub struct Search {
    /// What to look for: a question or words.
    pub query: String,
    /// How many passages to give, 8 if not said, at most 50.
    #[serde(default)]
    pub size: Option<usize>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "a comment would become part of the schema of the tool")]
pub struct Read {
    /// The file's path as a search gave it in `address`.
    pub file: String,
    /// The first line (page of a PDF, paragraph of a DOCX), counted from 1.
    #[serde(default)]
    pub from: Option<u32>,
    /// The last one, included.
    #[serde(default)]
    pub to: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "a comment would become part of the schema of the tool")]
pub struct Passages {
    pub passages: Vec<Passage>,
    /// By which lists they were found: full text, vectors, titles, links.
    pub lists: Vec<String>,
    /// Remarks for the caller: vectors are still being computed, the text was cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "a comment would become part of the schema of the tool")]
pub struct Passage {
    pub text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    pub address: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f32>,
}

/// The tools' implementation. Errors are messages for the caller.
pub struct Docs {
    folders: Arc<Folders>,
    looked: Mutex<Option<Instant>>,
    /// The folders were scanned at least once; before that there may be nothing to find.
    has_looked: AtomicBool,
}

impl Docs {
    /// The tools over an index.
    pub fn new(folders: Arc<Folders>) -> Self {
        Docs { folders, looked: Mutex::new(None), has_looked: AtomicBool::new(false) }
    }

    /// Blocks on files: not for an async thread.
    pub fn search(&self, user: Option<&str>, takes: &Search) -> Result<Passages, String> {
        if takes.query.trim().is_empty() {
            return Err("`query` is empty; give a question or words to look for".into());
        }
        let stale = self.refresh();
        let size = takes.size.unwrap_or(SIZE_DEFAULT).clamp(1, SIZE_MAX);
        let answer = self.folders.search_for(user, &takes.query, size).map_err(|error| error.to_string())?;
        let lists = answer.lists.iter().filter(|list| list.found > 0).map(|list| list.name.to_owned()).collect();
        let progress = self.folders.progress();
        let vectors = match progress.state {
            State::Off | State::Ready => None,
            State::Failed(why) => Some(format!("without vectors: {why}")),
            _ => Some(format!("vectors are still being filled in: {} of {} passages", progress.done, progress.total)),
        };
        let note = match (vectors, stale) {
            (Some(a), Some(b)) => Some(format!("{a}; {b}")),
            (a, b) => a.or(b),
        };
        Ok(Passages { passages: answer.hits.into_iter().map(passage).collect(), lists, note })
    }

    /// A part of a file that this user may read. Blocks on files.
    pub fn read(&self, user: Option<&str>, takes: &Read) -> Result<Passages, String> {
        let excerpt = self.folders.read_for(user, &takes.file, takes.from, takes.to).map_err(|error| error.to_string())?;
        let note = excerpt.is_cut.then(|| format!("cut: there is more, up to {}; ask again with `from`", excerpt.total));
        let passage = Passage {
            text: excerpt.text,
            title: None,
            address: excerpt.file,
            place: Some(format!("{} of {}", excerpt.place, excerpt.total)),
            at: excerpt.at.and_then(written),
            confidence: None,
        };
        Ok(Passages { passages: vec![passage], lists: Vec::new(), note })
    }

    /// Why results may be older than the files, if they may.
    fn refresh(&self) -> Option<String> {
        let mut looked = match self.looked.try_lock() {
            Ok(looked) => looked,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // The first search indexes the folders, and concurrent ones wait for that.
            Err(TryLockError::WouldBlock) if !self.has_looked.load(Ordering::Acquire) => self.looked.lock().unwrap_or_else(PoisonError::into_inner),
            // Another call is scanning; the current index is used.
            Err(TryLockError::WouldBlock) => return Some("the folders are being indexed".into()),
        };
        if looked.is_some_and(|looked| looked.elapsed() < REFRESH_EVERY) {
            return None;
        }
        let refreshed = self.folders.refresh(&mut |_| ());
        *looked = Some(Instant::now());
        self.has_looked.store(true, Ordering::Release);
        match refreshed {
            Ok(_) => None,
            Err(error @ Error::Busy) => Some(error.to_string()),
            Err(error) => Some(format!("the folders could not be looked at: {error}")),
        }
    }
}

fn passage(hit: Hit) -> Passage {
    Passage {
        place: hit.passage.place(),
        title: Some(hit.passage.title).filter(|title| !title.is_empty()),
        text: hit.passage.text,
        address: hit.file,
        at: hit.at.and_then(written),
        confidence: Some((hit.score.clamp(0.0, 1.0) * 1000.0).round() / 1000.0),
    }
}

fn written(seconds: i64) -> Option<String> {
    OffsetDateTime::from_unix_timestamp(seconds).ok()?.format(&Rfc3339).ok()
}

impl Passages {
    /// The text form, for people and models.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (number, passage) in (1..).zip(&self.passages) {
            let place = passage.place.as_ref().map(|place| format!(", {place}")).unwrap_or_default();
            let _ = writeln!(text, "[{number}] {}{place}\n{}\n", passage.address, passage.text);
        }
        if self.passages.is_empty() {
            text.push_str("Nothing was found.\n");
        }
        if let Some(note) = &self.note {
            let _ = writeln!(text, "({note})");
        }
        text
    }
}

/// The MCP server `docs`.
#[derive(Clone)]
pub struct Server {
    docs: Arc<Docs>,
    tool_router: ToolRouter<Self>,
}

#[tool_router(router = tool_router)]
impl Server {
    /// The MCP server over the tools.
    pub fn new(docs: Arc<Docs>) -> Self {
        Server { docs, tool_router: Self::tool_router() }
    }

    #[tool(
        name = "search",
        description = "Search the user's own documents (Markdown, text, HTML, PDF, DOCX, source code). Gives passages with file, heading and lines.",
        annotations(title = "Search documents", read_only_hint = true, destructive_hint = false, idempotent_hint = true, open_world_hint = false),
        output_schema = rmcp::handler::server::tool::schema_for_output::<Passages>()
    )]
    async fn search(&self, Parameters(takes): Parameters<Search>, context: RequestContext<RoleServer>) -> Result<CallToolResult, ErrorData> {
        let user = user_of(&context.meta);
        self.run(move |docs| docs.search(user.as_deref(), &takes)).await
    }

    #[tool(
        name = "read",
        description = "Read lines of a file that a search found (pages of a PDF, paragraphs of a DOCX).",
        annotations(title = "Read a document", read_only_hint = true, destructive_hint = false, idempotent_hint = true, open_world_hint = false),
        output_schema = rmcp::handler::server::tool::schema_for_output::<Passages>()
    )]
    async fn read(&self, Parameters(takes): Parameters<Read>, context: RequestContext<RoleServer>) -> Result<CallToolResult, ErrorData> {
        let user = user_of(&context.meta);
        self.run(move |docs| docs.read(user.as_deref(), &takes)).await
    }

    async fn run(&self, work: impl FnOnce(&Docs) -> Result<Passages, String> + Send + 'static) -> Result<CallToolResult, ErrorData> {
        let docs = self.docs.clone();
        let done = tokio::task::spawn_blocking(move || work(&docs)).await.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        Ok(match done {
            Ok(passages) => {
                let data = serde_json::to_value(&passages).map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
                let mut result = CallToolResult::structured(data);
                result.content = vec![ContentBlock::text(passages.text())];
                result
            }
            Err(mistake) => CallToolResult::error(vec![ContentBlock::text(mistake)]),
        })
    }
}

#[tool_handler(router = self.tool_router)]
impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        info.server_info = Implementation::new("docs", env!("CARGO_PKG_VERSION"));
        info.with_instructions("The user's own documents. Search first, then read around what was found.")
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use index::{Limits, Model};
    use rmcp::ServiceExt;
    use rmcp::model::CallToolRequestParams;
    use serde_json::{Value, json};
    use tempfile::TempDir;

    use super::*;

    struct TestServer {
        folder: TempDir,
        _home: TempDir,
        server: Server,
    }

    fn place() -> TestServer {
        let (folder, home) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        fs::write(
            folder.path().join("guide.md"),
            "# Guide\n\n## Leases\n\nA lease is renewed every ten seconds.\n\n## Parking\n\nA parked run leaves memory.\n",
        )
        .unwrap();
        fs::write(folder.path().join(".secret.md"), "# Hidden\n\nThe lease of the secret.\n").unwrap();
        let folders = Folders::open(&[folder.path().into()], home.path(), &Model::none(), Limits::default()).unwrap();
        let server = Server::new(Arc::new(Docs::new(Arc::new(folders))));
        TestServer { folder, _home: home, server }
    }

    /// Calls over MCP, like a client.
    async fn call(place: &TestServer, tool: &'static str, arguments: Value) -> CallToolResult {
        let (here, there) = tokio::io::duplex(1 << 16);
        let server = place.server.clone();
        let serving = tokio::spawn(async move { server.serve(there).await.unwrap().waiting().await });
        let client = ().serve(here).await.unwrap();
        let tools = client.list_all_tools().await.unwrap();
        assert_eq!(tools.len(), 2);
        assert!(tools.iter().all(|tool| tool.annotations.as_ref().unwrap().read_only_hint == Some(true) && tool.output_schema.is_some()));
        let result = client.call_tool(CallToolRequestParams::new(tool).with_arguments(arguments.as_object().unwrap().clone())).await.unwrap();
        if let Some(data) = &result.structured_content {
            let schema = tools.iter().find(|one| one.name == tool).and_then(|one| one.output_schema.clone()).unwrap();
            assert!(jsonschema::is_valid(&Value::Object((*schema).clone()), data), "{tool} does not keep its own promise: {data}");
        }
        client.cancel().await.unwrap();
        serving.await.unwrap().unwrap();
        result
    }

    fn text_of(result: &CallToolResult) -> String {
        serde_json::to_value(&result.content).unwrap()[0]["text"].as_str().unwrap().to_owned()
    }

    #[tokio::test]
    async fn a_search_gives_file_heading_and_lines() {
        let place = place();
        let result = call(&place, "search", json!({"query": "how often is a lease renewed", "size": 1})).await;
        let data = result.structured_content.clone().unwrap();
        let file = fs::canonicalize(place.folder.path().join("guide.md")).unwrap();
        let passage = &data["passages"][0];
        assert_eq!(passage["text"], "A lease is renewed every ten seconds.");
        assert_eq!(passage["title"], "Leases");
        assert_eq!(passage["address"], file.to_str().unwrap());
        assert_eq!(passage["place"], "Guide > Leases, line 5");
        assert!(passage["at"].as_str().unwrap().ends_with('Z'));
        assert_eq!(data["passages"].as_array().unwrap().len(), 1);
        assert!(text_of(&result).contains("A lease is renewed"));
    }

    #[tokio::test]
    async fn a_search_that_finds_nothing_is_an_empty_list() {
        let result = call(&place(), "search", json!({"query": "xylophone"})).await;
        assert_eq!(result.structured_content.unwrap()["passages"], json!([]));
    }

    #[tokio::test]
    async fn searches_beside_the_first_one_wait_for_the_index() {
        let place = place();
        let search = |query: &'static str| call(&place, "search", json!({ "query": query }));
        let (first, second, third) = tokio::join!(search("lease"), search("parked run"), search("renewed"));
        for result in [first, second, third] {
            let passages = result.structured_content.unwrap()["passages"].as_array().unwrap().len();
            assert!(passages > 0, "the index was not ready");
        }
    }

    #[tokio::test]
    async fn lines_of_an_indexed_file_can_be_read_and_nothing_else() {
        let place = place();
        call(&place, "search", json!({"query": "lease"})).await;
        let result = call(&place, "read", json!({"file": "guide.md", "from": 7, "to": 9})).await;
        assert_eq!(result.structured_content.unwrap()["passages"][0]["text"], "## Parking\n\nA parked run leaves memory.");
        for file in [".secret.md", "../../etc/passwd", "/etc/passwd", "guide.md/../.secret.md", ""] {
            let result = call(&place, "read", json!({ "file": file })).await;
            assert_eq!(result.is_error, Some(true), "{file}");
            assert!(text_of(&result).contains("use a path that a search gave"), "{}", text_of(&result));
        }
        #[cfg(unix)]
        {
            fs::remove_file(place.folder.path().join("guide.md")).unwrap();
            std::os::unix::fs::symlink("/etc/passwd", place.folder.path().join("guide.md")).unwrap();
            let result = call(&place, "read", json!({"file": "guide.md"})).await;
            assert!(text_of(&result).contains("leads out of the folders"), "{}", text_of(&result));
        }
    }

    #[tokio::test]
    async fn mistakes_are_words() {
        let place = place();
        assert!(text_of(&call(&place, "search", json!({"query": "  "})).await).contains("`query` is empty"));
        call(&place, "search", json!({"query": "lease"})).await;
        assert!(text_of(&call(&place, "read", json!({"file": "guide.md", "from": 99})).await).contains("ends at 9"));
        assert!(text_of(&call(&place, "search", json!({"query": "zebra"})).await).contains("Nothing was found"));
    }
}
