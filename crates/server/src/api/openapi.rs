//! The description of the API: a table of what there is, with the schemas of its types.
//!
//! It is served, and committed as `crates/server/openapi.json`; a test fails when that is stale and renews it.

use std::sync::LazyLock;

use axum::http::header;
use axum::response::IntoResponse;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};
use wire::{api, inspect};

static DOCUMENT: LazyLock<String> = LazyLock::new(|| format!("{:#}\n", document()));

pub(super) async fn get() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], DOCUMENT.as_str())
}

/// The whole, as OpenAPI 3.1.
pub fn document() -> Value {
    let mut book = SchemaBook::new();
    let b = &mut book;
    let all = [
        Op::get("/api/status", "The caller, the flows and the selected model").json::<api::Status>(b, 200),
        Op::get("/api/flows", "The flows, their graphs and their settings").json::<api::Flows>(b, 200),
        Op::get("/api/flows/{name}/graph.mmd", "A flow's graph, for Mermaid").named("name").text(200, "text/plain").refuses(&[404]),
        Op::get("/api/threads", "The user's threads, most recently used first")
            .query("limit", "How many, at most 500", &json!({ "type": "integer", "minimum": 1, "maximum": 500 }))
            .query("before", "The last thread of the page before", &json!({ "type": "string" }))
            .query("q", "Words in its title, its tags or its messages", &json!({ "type": "string", "maxLength": 100 }))
            .query("tag", "Only those with this tag", &json!({ "type": "string" }))
            .query("pinned", "Only those that are pinned", &json!({ "type": "boolean" }))
            .json::<api::Threads>(b, 200)
            .refuses(&[404, 422]),
        Op::get("/api/threads/{thread}", "The messages of a thread, and its runs")
            .named("thread")
            .query("from", "The number of the first message", &json!({ "type": "integer", "minimum": 0 }))
            .query("limit", "How many messages, at most 1000", &json!({ "type": "integer", "minimum": 1, "maximum": 1_000 }))
            .json::<api::Conversation>(b, 200)
            .refuses(&[404, 422]),
        Op::new("patch", "/api/threads/{thread}", "Gives a thread a title or tags, or pins it")
            .named("thread")
            .body::<api::ChangeThread>(b)
            .json::<api::Thread>(b, 200)
            .refuses(&[404, 422, 507]),
        Op::get("/api/threads/{thread}/shares", "The links through which anybody can read this thread")
            .named("thread")
            .json::<api::Shares>(b, 200)
            .refuses(&[404]),
        Op::new("post", "/api/threads/{thread}/shares", "Makes a link through which anybody can read turns of this thread")
            .named("thread")
            .body::<api::NewShare>(b)
            .json::<api::Share>(b, 201)
            .refuses(&[404, 409, 422, 507]),
        Op::new("delete", "/api/threads/{thread}/shares/{id}", "Revokes a link").named("thread").named("id").empty(204).refuses(&[404]),
        Op::get("/api/threads/{thread}/export/{ending}", "The conversation as a file: md, html, docx or pdf")
            .named("thread")
            .named("ending")
            .query("runs", "The turns in their order, with commas between them; those of the newest branch otherwise", &json!({ "type": "string" }))
            .text(200, "application/octet-stream")
            .refuses(&[404, 409, 422]),
        Op::get("/share/{token}", "A shared conversation, to read; needs no token but that of the link")
            .named("token")
            .text(200, "text/html")
            .refuses(&[404]),
        Op::new("delete", "/api/threads/{thread}", "Deletes a thread with everything in it").named("thread").empty(204).refuses(&[404, 409]),
        Op::get("/api/threads/{thread}/files/{path}", "A file that a run of this thread wrote into its workspace")
            .named("thread")
            .named("path")
            .text(200, "application/octet-stream")
            .refuses(&[404]),
        Op::get("/api/feed", "Threads as they change: events `thread` (a Thread) and `gone`").text(200, "text/event-stream"),
        Op::new("post", "/api/runs", "Starts a run; the same Idempotency-Key again is the same run")
            .header("Idempotency-Key", "Names the run, so that asking twice starts it once")
            .query("wait", "Answers with the whole run when it rests", &json!({ "type": "string", "enum": ["0", "1"] }))
            .body::<api::NewRun>(b)
            .json::<api::RunPosted>(b, 201)
            .json::<api::RunPosted>(b, 200)
            .refuses(&[404, 409, 422, 507]),
        Op::get("/api/runs", "The user's runs, newest first")
            .query("thread", "Only of this thread", &json!({ "type": "string" }))
            .query("status", "Only these, with commas between them", &json!({ "type": "string" }))
            .query("before", "The last run of the page before", &json!({ "type": "string" }))
            .query("limit", "How many, at most 500", &json!({ "type": "integer", "minimum": 1, "maximum": 500 }))
            .json::<api::Runs>(b, 200)
            .refuses(&[404, 409, 422]),
        Op::get("/api/runs/{run}", "A run, how it ended, and what it asks").named("run").json::<api::Run>(b, 200).refuses(&[404, 409]),
        Op::get("/api/runs/{run}/events", "Events of a run and all below it: `told`, `delta` and `end`")
            .named("run")
            .query("after", "The id of the last event that was received", &json!({ "type": "string" }))
            .header("Last-Event-ID", "The same, as browsers send it")
            .events::<api::RunEvent>(b, "told")
            .refuses(&[404, 422]),
        Op::new("post", "/api/runs/{run}/cancel", "Ends a run and all below it")
            .named("run")
            .body::<api::Cancel>(b)
            .json::<api::DeliveryResult>(b, 202)
            .refuses(&[404, 409, 422]),
        Op::new("post", "/api/runs/{run}/resume", "Resumes a run that no process drives")
            .named("run")
            .body::<api::EmptyObject>(b)
            .json::<api::DeliveryResult>(b, 202)
            .refuses(&[404, 409, 422]),
        Op::new("post", "/api/runs/{run}/answer", "Gives a person's answer to what the run asks")
            .named("run")
            .body::<api::GiveAnswer>(b)
            .json::<api::DeliveryResult>(b, 202)
            .refuses(&[404, 409, 422]),
        Op::new("post", "/api/runs/{run}/fork", "Starts a run with the past of this one up to a step, and edits")
            .named("run")
            .body::<api::Fork>(b)
            .json::<api::Started>(b, 201)
            .refuses(&[404, 409, 422, 507]),
        Op::get("/api/runs/{run}/answer", "The answer, its sentences, its sources, the passages they cite")
            .named("run")
            .json::<api::Answer>(b, 200)
            .refuses(&[404, 409]),
        download("md", "text/markdown"),
        download("html", "text/html"),
        download("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
        download("pdf", "application/pdf"),
        Op::get("/api/runs/{run}/steps", "The steps of a run, and what its nodes used")
            .named("run")
            .json::<inspect::Steps>(b, 200)
            .refuses(&[404, 409]),
        Op::get("/api/runs/{run}/steps/{step}", "The state of the flow on entering a step, and what changed")
            .named("run")
            .named("step")
            .json::<inspect::StepState>(b, 200)
            .refuses(&[404, 409]),
        Op::get("/api/runs/{run}/journal", "The journal of a run as it is stored, at most 200 lines at once")
            .named("run")
            .query("from", "The number of the first line", &json!({ "type": "integer", "minimum": 0 }))
            .json::<inspect::Journal>(b, 200)
            .refuses(&[404, 422]),
        Op::get("/api/runs/{run}/spans/{number}", "A cited passage in its place in its document")
            .named("run")
            .number("number")
            .json::<api::SpanInPlace>(b, 200)
            .refuses(&[404, 409]),
        Op::new(
            "post",
            "/api/query",
            "Asks by intent and returns what each executed stage found; without a thread it continues the client's conversation",
        )
        .header("X-Client-Id", "Which of the user's clients asks; each has a conversation of its own, and those that send none share one")
        .body::<api::Query>(b)
        .json::<api::QueryAnswer>(b, 200)
        .refuses(&[404, 409, 422, 507]),
        Op::get("/api/models", "Every way to a model, and how it stands").json::<api::Models>(b, 200).refuses(&[409]),
        Op::new("post", "/api/models/test", "Asks a model a short question; for operators")
            .body::<api::TestModel>(b)
            .json::<api::TestedModel>(b, 200)
            .refuses(&[409, 422]),
        Op::get("/api/keys", "Which keys are there, without their values; for operators").json::<api::Keys>(b, 200),
        Op::new("put", "/api/keys/{name}", "Stores a key, which counts for the next call; for operators")
            .named("name")
            .body::<api::SetKey>(b)
            .empty(204)
            .refuses(&[422]),
        Op::new("delete", "/api/keys/{name}", "Removes a stored key; for operators").named("name").empty(204).refuses(&[404, 422]),
        Op::get("/api/memory", "What runs left for later ones").json::<api::Memory>(b, 200),
        Op::new("delete", "/api/memory", "Forgets all of it").empty(204),
        Op::new("delete", "/api/memory/{note}", "Forgets one note").number("note").empty(204).refuses(&[404]),
        Op::get("/api/documents", "Folders, the user's files, and the index").json::<api::Documents>(b, 200),
        Op::get("/api/documents/{name}", "The text of a document as it is indexed, a part at a time")
            .named("name")
            .query("from", "The first line, page or paragraph", &json!({ "type": "integer", "minimum": 1 }))
            .json::<api::DocumentText>(b, 200)
            .refuses(&[404, 422]),
        Op::new("put", "/api/documents/{name}", "Gives a document, at most 20 MB unless the server allows more or less")
            .named("name")
            .raw()
            .json::<api::Uploaded>(b, 201)
            .refuses(&[404, 422]),
        Op::new("delete", "/api/documents/{name}", "Takes a document away").named("name").empty(204).refuses(&[404, 422]),
        Op::get("/api/permissions", "The tool calls that the user allowed for good").json::<api::Permissions>(b, 200),
        Op::new("delete", "/api/permissions/{id}", "Takes a permission back").number("id").empty(204).refuses(&[404]),
        Op::get("/api/settings", "What the user prefers").json::<Map<String, Value>>(b, 200),
        Op::new("patch", "/api/settings", "Sets what the user prefers; null takes it back")
            .body::<Map<String, Value>>(b)
            .json::<Map<String, Value>>(b, 200)
            .refuses(&[422]),
        Op::get("/api/session", "How one can sign in at the page, beside with a token").json::<api::SignInWays>(b, 200),
        Op::new("post", "/api/session", "Shows a token once; a cookie from then on").body::<api::NewSession>(b).empty(204).refuses(&[422]),
        Op::new("delete", "/api/session", "Forgets the cookie").empty(204),
        Op::get("/api/openapi.json", "This document").json::<Map<String, Value>>(b, 200),
        Op::get("/healthz", "Whether the server answers").json::<api::HealthStatus>(b, 200),
        Op::get("/readyz", "Whether its database does").json::<api::HealthStatus>(b, 200),
        Op::get("/metrics", "Numbers for Prometheus").text(200, "text/plain"),
    ];
    let error = b.schema::<api::Error>();
    let mut paths = Map::new();
    for op in all {
        let (path, method) = (op.path.clone(), op.method);
        paths.entry(path).or_insert_with(|| json!({}))[method] = op.value(&error);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Baton",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Plans, looks things up, checks, and answers with sources. Times are milliseconds since 1970; tools are under /api/registry.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "paths": paths,
        "components": {
            "schemas": book.generator.take_definitions(true),
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer" },
                "session": { "type": "apiKey", "in": "cookie", "name": crate::guard::COOKIE },
            },
        },
        "security": [{}, { "token": [] }, { "session": [] }],
    })
}

fn download(ending: &str, media_type: &'static str) -> Op {
    let path = format!("/api/runs/{{run}}/answer.{ending}");
    Op::new("get", &path, "The answer as a file").named("run").text(200, media_type).refuses(&[404, 409, 422])
}

struct SchemaBook {
    generator: SchemaGenerator,
}

impl SchemaBook {
    fn new() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
        SchemaBook { generator: settings.for_deserialize().into_generator() }
    }

    fn schema<T: JsonSchema>(&mut self) -> Schema {
        self.generator.subschema_for::<T>()
    }
}

/// One thing that can be asked.
struct Op {
    method: &'static str,
    path: String,
    summary: &'static str,
    parameters: Vec<Value>,
    body: Option<Value>,
    responses: Map<String, Value>,
    refuses: Vec<u16>,
}

impl Op {
    fn get(path: &str, summary: &'static str) -> Op {
        Op::new("get", path, summary)
    }

    fn new(method: &'static str, path: &str, summary: &'static str) -> Op {
        // Problems that any call may return: malformed, no token, not from here, too much, busy.
        let mut refuses = vec![400, 401, 403, 429, 503];
        if matches!(method, "post" | "put" | "patch") {
            refuses.extend([408, 413, 415]);
        }
        Op { method, path: path.to_owned(), summary, parameters: Vec::new(), body: None, responses: Map::new(), refuses }
    }

    fn named(self, name: &str) -> Op {
        self.parameter(json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string", "minLength": 1 } }))
    }

    fn number(self, name: &str) -> Op {
        self.parameter(json!({ "name": name, "in": "path", "required": true, "schema": { "type": "integer", "minimum": 1 } }))
    }

    fn query(self, name: &str, about: &str, schema: &Value) -> Op {
        self.parameter(json!({ "name": name, "in": "query", "required": false, "description": about, "schema": schema }))
    }

    fn header(self, name: &str, about: &str) -> Op {
        let schema = json!({ "type": "string", "pattern": "^[!-~]{1,200}$" });
        self.parameter(json!({ "name": name, "in": "header", "required": false, "description": about, "schema": schema }))
    }

    fn parameter(mut self, parameter: Value) -> Op {
        self.parameters.push(parameter);
        self
    }

    fn body<T: JsonSchema>(mut self, book: &mut SchemaBook) -> Op {
        self.body = Some(json!({ "required": true, "content": { "application/json": { "schema": book.schema::<T>() } } }));
        self
    }

    fn raw(mut self) -> Op {
        let schema = json!({ "type": "string", "format": "binary" });
        self.body = Some(json!({ "required": true, "content": { "application/octet-stream": { "schema": schema } } }));
        self
    }

    fn json<T: JsonSchema>(self, book: &mut SchemaBook, status: u16) -> Op {
        let schema = book.schema::<T>();
        self.response(status, &json!({ "application/json": { "schema": schema } }))
    }

    fn text(self, status: u16, media_type: &str) -> Op {
        self.response(status, &json!({ media_type: { "schema": { "type": "string" } } }))
    }

    /// A stream of events, with the schema of the data of those that have this name.
    fn events<T: JsonSchema>(self, book: &mut SchemaBook, name: &str) -> Op {
        let schema = book.schema::<T>();
        self.response(200, &json!({ "text/event-stream": { "schema": { "type": "string" }, "x-event-data": { name: schema } } }))
    }

    fn empty(self, status: u16) -> Op {
        self.response(status, &Value::Null)
    }

    fn response(mut self, status: u16, content: &Value) -> Op {
        let words = match status {
            201 => "It was made",
            202 => "It was passed on",
            204 => "It is done",
            _ => "It is this",
        };
        let mut response = json!({ "description": words });
        if !content.is_null() {
            response["content"] = content.clone();
        }
        self.responses.insert(status.to_string(), response);
        self
    }

    fn refuses(mut self, statuses: &[u16]) -> Op {
        self.refuses.extend(statuses);
        self
    }

    fn value(mut self, error: &Schema) -> Value {
        for status in &self.refuses {
            let words = match status {
                400 => "It is malformed",
                401 => "A token is needed",
                403 => "It may not be asked from there, or by this user",
                404 => "It does not exist, or it belongs to another user",
                408 => "The body took too long",
                409 => "Not as things stand",
                413 => "It is too large",
                415 => "Not with this type",
                422 => "It is invalid; the message has the reason",
                429 => "Too much at once",
                507 => "The user's conversations take as much as allowed; delete some first",
                _ => "Busy, or stopping; try again",
            };
            let response = json!({ "description": words, "content": { "application/json": { "schema": error } } });
            self.responses.insert(status.to_string(), response);
        }
        let mut value = json!({ "summary": self.summary, "responses": self.responses });
        if !self.parameters.is_empty() {
            value["parameters"] = json!(self.parameters);
        }
        if let Some(body) = self.body {
            value["requestBody"] = body;
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The committed description is the one that is served.
    #[test]
    fn the_committed_description_is_not_stale() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        if committed != *DOCUMENT {
            std::fs::write(path, DOCUMENT.as_str()).unwrap();
            panic!("{path} was stale; it is not any more. Look at what changed, and commit it");
        }
    }
}
