//! The writer: makes a file from the team's results, in the requested format, with its sources.
//!
//! ```text
//!   start ► write ────────────► create ► end
//!           model, if a large    document.create
//!           one is there
//! ```
//!
//! The research result already is a document: a summary, key points, sources. A large model improves it; where there is none, or it fails,
//! the result is written unchanged. The code adds the sources to the file, so that no model can lose them.

use graph::{Ask, END, Failure, Go, Graph, GraphError, Replies, Request};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{closing, handed, researcher};
use crate::descriptor::{Agent, Descriptor, InputKind, Visibility};
use crate::input::ModelProfile;
use crate::prompt::{self, Prompt};
use crate::settings::SettingsType;
use crate::turn::{self, Turn, Visit};

/// The flow's name.
pub const NAME: &str = "writer";
/// Its capability in plans.
pub const CAPABILITY: &str = "create_document";

/// Descriptor of this flow.
pub const FLOW: Descriptor = Descriptor {
    title: "Writer",
    description: "makes a file (PDF, DOCX, HTML or Markdown) out of what was found or said",
    visibility: Visibility::Internal,
    input: InputKind::Messages,
    settings: Some(SettingsType::of::<Settings>()),
    agent: Some(Agent { capability: CAPABILITY, aliases: &["DocumentCreator"], port: 8002 }),
    ..Descriptor::new(NAME, |_| flow())
};

/// Builds the graph.
pub fn flow() -> Result<Graph, GraphError> {
    Graph::of::<Writer>(NAME)
        .node("write", (ask_write, fold_write), &["create", END])
        .node("create", (ask_create, fold_create), &[END])
        .input(Writer::of)
        .output(|s| closing(&s.messages, &s.context, NAME, &s.last, &s.report, CAPABILITY))
        .recall(turn::recall(HISTORY_TURNS_MAX))
        .build()
}

/// User settings of this flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The file's format if the request names none.
    pub format: Format,
}

#[expect(missing_docs, reason = "comments at the variants would become part of the JSON schema of the setting")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    Markdown,
    Html,
    Docx,
    #[default]
    Pdf,
}

const DOCUMENT: Prompt = Prompt { long: include_str!("document.md"), short: include_str!("document.md") };
const DOCUMENT_TOKENS_MAX: u32 = 3_000;
const CREATE_MS_MAX: u64 = 120_000;
const HISTORY_TURNS_MAX: usize = 5;
const SOURCES_MAX: usize = 200;
const TITLE_CHARS_MAX: usize = 120;

/// Names of formats. The last one in a request counts.
const FORMATS: [(&str, Format); 9] = [
    ("pdf", Format::Pdf),
    ("docx", Format::Docx),
    ("word document", Format::Docx),
    ("word file", Format::Docx),
    ("html", Format::Html),
    ("web page", Format::Html),
    ("webpage", Format::Html),
    ("markdown", Format::Markdown),
    (".md", Format::Markdown),
];

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Source {
    title: String,
    address: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Writer {
    messages: Vec<Turn>,
    context: Map<String, Value>,
    model: ModelProfile,
    format: Format,
    title: String,
    markdown: String,
    sources: Vec<Source>,
    last: Option<Turn>,
    report: String,
}

impl Writer {
    fn of(visit: Visit<Settings>) -> Writer {
        let settings = visit.settings.unwrap_or_default();
        let asked = visit.request_text();
        let (title, markdown, sources) = material(&visit.messages);
        Writer {
            format: format_in(&asked).unwrap_or(settings.format),
            messages: visit.messages,
            context: visit.context,
            model: visit.model,
            title,
            markdown,
            sources,
            last: None,
            report: String::new(),
        }
    }

    fn give_up(&mut self, why: &str) -> Go {
        self.last = Some(Turn::given_up(NAME, CAPABILITY, why));
        Go::end().say("user", turn::request_text(&self.messages)).say("assistant", why)
    }
}

fn format_in(request: &str) -> Option<Format> {
    let text = request.to_lowercase();
    let places = FORMATS.iter().filter_map(|(name, format)| text.rfind(name).map(|at| (at, *format)));
    places.max_by_key(|(at, _)| *at).map(|(_, format)| format)
}

/// The material of the document: the research result, or else the agents' messages.
fn material(messages: &[Turn]) -> (String, String, Vec<Source>) {
    let title_of = |text: &str| text.lines().next().unwrap_or_default().trim().chars().take(TITLE_CHARS_MAX).collect::<String>();
    let Some(summary) = handed(messages, researcher::CAPABILITY).and_then(|data| data.get("research_summary").cloned()) else {
        let replies = messages.iter().filter(|turn| turn.role == "assistant" && turn::signal(&turn.content) == turn::Signal::None);
        let replies: Vec<&str> = replies.map(|turn| turn.content.trim()).filter(|text| !text.is_empty()).collect();
        return (title_of(&turn::request_text(messages)), replies.join("\n\n"), Vec::new());
    };
    let text = |name: &str| summary.get(name).and_then(Value::as_str).unwrap_or_default().trim().to_owned();
    let list = |name: &str| summary.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let mut markdown = text("summary");
    let points: Vec<String> = list("key_points").iter().filter_map(Value::as_str).map(|point| format!("- {}", point.trim())).collect();
    if !points.is_empty() {
        markdown.push_str(&format!("\n\n## Key points\n\n{}", points.join("\n")));
    }
    (title_of(&text("topic")), markdown, list("sources").iter().take(SOURCES_MAX).map(source_of).collect())
}

/// `Title (https://…)`, an address, a title, or an object with both: researchers differ.
fn source_of(source: &Value) -> Source {
    let field = |name: &str| source.get(name).and_then(Value::as_str).map(str::to_owned);
    let Some(text) = source.as_str() else {
        let address = field("address").or_else(|| field("url")).or_else(|| field("link")).unwrap_or_default();
        return Source { title: field("title").unwrap_or_else(|| address.clone()), address };
    };
    let text = text.trim();
    match text.strip_suffix(')').and_then(|text| text.rsplit_once(" (")) {
        Some((title, address)) => Source { title: title.to_owned(), address: address.to_owned() },
        None if text.contains("://") => Source { title: text.to_owned(), address: text.to_owned() },
        None => Source { title: text.to_owned(), address: String::new() },
    }
}

fn ask_write(s: &Writer) -> Ask {
    if s.model.is_small || s.markdown.trim().is_empty() {
        return Ask::nothing();
    }
    let sources: Vec<String> = s.sources.iter().enumerate().map(|(at, source)| format!("[{}] {} {}", at + 1, source.title, source.address)).collect();
    let text = prompt::render(DOCUMENT.of(&s.model), json!({ "title": s.title, "sources": sources }));
    let tokens_max = (s.model.context_tokens as usize).saturating_sub(DOCUMENT_TOKENS_MAX as usize + 2_000);
    let messages = vec![
        prompt::system(text),
        prompt::message("evidence", format!("Source: the research\n{}", prompt::clipped(&evidence::defused(&s.markdown), tokens_max))),
        prompt::user(prompt::clipped(&turn::request_text(&s.messages), s.model.question_tokens())),
    ];
    let schema = json!({
        "type": "object",
        "required": ["title", "markdown"],
        "additionalProperties": false,
        "properties": { "title": { "type": "string", "maxLength": TITLE_CHARS_MAX }, "markdown": { "type": "string", "minLength": 1 } },
    });
    Ask::one(prompt::call("document", messages, Some(schema), DOCUMENT_TOKENS_MAX).label("writing the document"))
}

fn fold_write(s: &mut Writer, replies: &Replies<'_>) -> Go {
    #[derive(Deserialize)]
    struct Written {
        #[serde(default)]
        title: String,
        markdown: String,
    }
    if s.markdown.trim().is_empty() {
        return s.give_up("There is nothing to write about: there are no results or replies yet.");
    }
    let go = Go::to("create");
    if replies.is_empty() {
        return go;
    }
    match prompt::read::<Written>(replies, 0) {
        Ok(written) if !written.markdown.trim().is_empty() => {
            if !written.title.trim().is_empty() {
                s.title = written.title.trim().chars().take(TITLE_CHARS_MAX).collect();
            }
            s.markdown = written.markdown;
            go
        }
        Ok(_) => go.note("as_it_was", "the model wrote nothing, so the document is what research handed in"),
        Err(failure) => go.note("as_it_was", format!("the model wrote no document ({failure}), so it is what research handed in")),
    }
}

fn ask_create(s: &Writer) -> Ask {
    let arguments = json!({ "markdown": s.markdown, "format": s.format, "title": s.title, "sources": s.sources });
    Ask::one(Request::from(graph::tool("document.create", arguments)).label("creating the file").attempts(3).deadline_ms(CREATE_MS_MAX))
}

fn fold_create(s: &mut Writer, replies: &Replies<'_>) -> Go {
    #[derive(Deserialize)]
    struct Created {
        path: String,
        #[serde(default)]
        bytes: u64,
        #[serde(default)]
        sha256: String,
    }
    let made = replies.parse::<evidence::Found>(0).and_then(|found| {
        let wrong =
            |error: serde_json::Error| Failure::new(graph::FailureKind::Invalid, format!("document.create did not say what it made: {error}"));
        serde_json::from_value::<Created>(found.data).map_err(wrong)
    });
    match made {
        Ok(Created { path, bytes, sha256 }) => {
            let document = json!({ "path": path, "format": s.format, "title": s.title, "bytes": bytes, "sha256": sha256, "sources": s.sources });
            s.last = Some(Turn::contract(NAME, CAPABILITY, &json!({ "document": document })));
            s.report = format!("{:?} is written to `{path}` ({bytes} bytes, {} sources)", s.title, s.sources.len());
            Go::end().note("document", document).say("user", turn::request_text(&s.messages)).say("assistant", s.report.clone())
        }
        Err(failure) => s.give_up(&format!("The file could not be made: {}", failure.message)),
    }
}
