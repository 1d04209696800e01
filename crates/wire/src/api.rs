//! Our own API, `/api/…`: what goes in and out, as data. The document that describes it is made from these types.
//!
//! Times are milliseconds since 1970. Ranges and offsets are counted in UTF-16 code units, as browsers count.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

/// What went wrong, and what to do about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Error {
    pub error: ErrorBody,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorBody {
    pub kind: String,
    pub message: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    pub version: String,
    pub user: String,
    /// Whether one needs a token here.
    pub needs_token: bool,
    pub flows: Vec<Flow>,
    pub model: SelectedModel,
    pub documents: IndexInfo,
    /// Nothing was ever asked here by this user.
    pub first_run: bool,
    /// `viewer`, `user` or `operator`.
    #[serde(default)]
    pub role: String,
    /// What the user may spend a day, and has spent today; absent where nothing is limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowance: Option<Allowance>,
}

/// By the day of UTC. Limits that are absent do not exist.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Allowance {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd_per_day: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_day: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_per_day: Option<u64>,
    pub usd_today: f64,
    pub tokens_today: u64,
    pub runs_today: u64,
    /// The models that may be named; `default` is the server's own. Absent if all may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub models: Option<Vec<String>>,
    /// The tools and servers that may be called. Absent if all may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Flow {
    pub name: String,
    pub title: String,
    pub about: String,
    pub icon: String,
    /// It has a plan that a person can be asked to agree to.
    pub can_approve: bool,
    /// People choose it; others are parts and samples.
    pub is_shown: bool,
    /// Its nodes and where they lead.
    pub graph: Value,
    /// What a run of it can be started with under `settings`.
    pub settings: Vec<Setting>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Flows {
    pub flows: Vec<Flow>,
}

/// A setting of a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Setting {
    pub name: String,
    pub kind: SettingKind,
    /// What it is if the request does not set it: the configured value, or the built-in one; `null` if it is not set at all then.
    pub default: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum: Option<Number>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maximum: Option<Number>,
    /// Of the kind `choice`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    pub help: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SettingKind {
    /// A whole number.
    Integer,
    Number,
    Boolean,
    Text,
    /// One of `choices`.
    Choice,
    /// A list of texts.
    List,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SelectedModel {
    pub name: String,
    pub why: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IndexInfo {
    pub folders: Vec<String>,
    pub passages: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Threads {
    pub threads: Vec<Thread>,
    /// Where the next page begins: give it as `before`.
    pub next: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Thread {
    pub thread: String,
    pub title: String,
    /// How the last answer begins.
    pub preview: String,
    pub messages: u64,
    /// Of its newest run.
    pub flow: Option<String>,
    pub status: Option<RunStatus>,
    pub run: Option<String>,
    pub created_ms: i64,
    pub updated_ms: i64,
    /// Listed before the others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_pinned: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

/// What a user changes about a thread. What is absent stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ChangeThread {
    /// An empty title is the first question again.
    pub title: Option<String>,
    pub is_pinned: Option<bool>,
    pub tags: Option<Vec<String>>,
}

/// Who may read a thread through a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Shares {
    pub shares: Vec<Share>,
}

/// A link through which anybody can read some turns of a thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Share {
    /// Names it for revoking; it does not open anything.
    pub id: String,
    pub turns: usize,
    pub created_ms: i64,
    /// The path of the link. Only given when it is made, because the server keeps a digest of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// What a link shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NewShare {
    /// The runs whose questions and answers are shown, in their order; those of the newest branch otherwise.
    pub runs: Option<Vec<String>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeletedThread {
    pub thread: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Conversation {
    pub thread: Thread,
    pub messages: Vec<Message>,
    /// The newest first; without those that other runs started.
    pub runs: Vec<Run>,
    /// The number of the first message of the next page.
    pub next: Option<u64>,
    /// Runs that do not follow the run before them: the run that each follows, or `""` at the beginning of the conversation.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub after: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Message {
    pub seq: u64,
    pub run: String,
    pub role: String,
    pub content: String,
    pub created_ms: i64,
}

/// What to run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewRun {
    pub question: String,
    /// `auto`, if left out, picks one.
    #[serde(default)]
    pub flow: Option<String>,
    /// The thread it continues; a new one otherwise.
    #[serde(default)]
    pub thread: Option<String>,
    /// The model; if left out, the one that the server selected.
    #[serde(default)]
    pub model: Option<String>,
    /// A person agrees to the plan before it is carried out.
    #[serde(default)]
    pub approve: bool,
    /// Sentences that nothing supports are removed; what the user prefers otherwise.
    #[serde(default)]
    pub strict: Option<bool>,
    #[serde(default)]
    pub budget: Option<Budget>,
    /// Tool calls that need no permission in this run: `server.tool`, a server, or `*` for all, which is meant for jobs in a sandbox.
    #[serde(default)]
    pub allow: Vec<String>,
    /// Settings of the flow by name, as `GET /api/flows` lists them; what is left out is as configured.
    #[serde(default)]
    pub settings: BTreeMap<String, Value>,
    /// The run of the thread that it follows: a branch of the conversation, which does not include what was said after that run. `""` is the
    /// beginning. All of the thread if left out.
    #[serde(default)]
    pub after: Option<String>,
    /// The only sources that may be used: `server.tool`, a server, or `document:NAME` for a document. All of them if left out.
    #[serde(default)]
    pub only: Option<Vec<String>>,
    /// Nodes of the flow before which the run waits until a person answers `{"continue": true}`; `*` is every node.
    #[serde(default)]
    pub breakpoints: Vec<String>,
}

/// What a run may spend.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Budget {
    pub tokens: Option<u64>,
    pub usd: Option<f64>,
    pub time_ms: Option<u64>,
    pub calls: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Started {
    pub run: String,
    pub thread: String,
}

/// What `POST /api/runs` answers: the run, or with `wait` all of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum RunPosted {
    Waited(Box<Run>),
    Started(Started),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Runs {
    pub runs: Vec<Run>,
    pub next: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    Running,
    /// Only a person can move it.
    Asking,
    /// A run below it asks.
    Waiting,
    Done,
    Failed,
    Cancelled,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    pub run: String,
    pub thread: String,
    pub flow: String,
    /// The run that started it.
    pub parent: Option<String>,
    pub title: String,
    pub status: RunStatus,
    pub created_ms: i64,
    pub updated_ms: i64,
    /// How it ended, and with what.
    pub outcome: Option<Value>,
    /// Tokens, millionths of a dollar, calls.
    pub spent: Value,
    pub elapsed_ms: u64,
    /// What it and the runs below it ask people.
    pub waiting: Vec<Waiting>,
    /// It continues the run before it in its thread, which was stopped or failed. Only set where a thread lists its runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_resumed: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Waiting {
    /// The run that asks: the one to answer.
    pub run: String,
    /// Step and index.
    pub task: (u64, u32),
    pub attempt: u32,
    /// `plan` if a plan is to be agreed to, `question` otherwise.
    pub kind: WaitingKind,
    pub question: String,
    /// What a good answer looks like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// The plan as it is: the lists that an answer may change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Value>,
    /// The tool call that waits for permission. The answer is `{"allow": "once"}`, or `conversation`, `tool`, `server` or `no`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<HeldCall>,
}

/// A tool call that waits for permission. Long values are shortened, and nothing in the text is invisible.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeldCall {
    /// `server.tool`
    pub tool: String,
    pub server: String,
    /// JSON text.
    pub arguments: String,
    /// Where the arguments came from.
    pub sources: Vec<String>,
    pub why: String,
}

/// What the user allowed for good.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Permissions {
    pub permissions: Vec<Permission>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Permission {
    pub id: u64,
    pub scope: PermissionScope,
    /// `server.tool`, or the server.
    pub name: String,
    /// Of a conversation: which one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    pub created_ms: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PermissionScope {
    /// One tool in one conversation.
    Conversation,
    /// One tool in every conversation.
    Tool,
    /// Every tool of a server.
    Server,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WaitingKind {
    Plan,
    Question,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Cancel {
    pub reason: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EmptyObject {}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeliveryResult {
    pub delivery: Delivery,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// It is in the journal.
    Taken,
    /// Another process drives the run and will find it.
    Posted,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GiveAnswer {
    pub task: (u64, u32),
    pub attempt: u32,
    pub value: Value,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fork {
    /// The first step that is done anew.
    pub at_step: u64,
    /// A JSON merge patch for the state on entering it.
    #[serde(default)]
    pub patch: Option<Value>,
    /// Replies for effects of that step, by their index.
    #[serde(default)]
    pub replies: BTreeMap<u32, Value>,
    /// A new thread otherwise.
    #[serde(default)]
    pub thread: Option<String>,
    /// Nodes before which the new run waits, `*` for every one; not before the first that it runs.
    #[serde(default)]
    pub breakpoints: Vec<String>,
}

/// An answer, and what it stands on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// With `[n]` for the n-th source, and the list of sources.
    pub markdown: String,
    /// A sanitized fragment.
    pub html: String,
    pub plain: String,
    pub sentences: Vec<Sentence>,
    /// `[1]` is the first.
    pub sources: Vec<Source>,
    /// Those that are cited.
    pub spans: Vec<Span>,
    /// What the run wrote into the workspace of its thread: `GET /api/threads/{thread}/files/{path}` gives each.
    #[serde(default)]
    pub files: Vec<WrittenFile>,
    /// No model wrote it: sentences were picked.
    pub is_extracted: bool,
    /// The limit of the budget for which steps were left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_reached: Option<BudgetLimit>,
    pub flow: String,
    /// The run that gave it: this one, or the one it passed the question to.
    pub run: String,
    pub model: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WrittenFile {
    pub path: String,
    pub bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sentence {
    pub text: String,
    pub status: SentenceStatus,
    pub score: f32,
    /// Numbers of spans.
    pub cites: Vec<usize>,
    /// Where it stands in `markdown`.
    pub range: (usize, usize),
    /// What is wrong with it, in words.
    pub problems: Vec<String>,
    /// Who decided.
    #[serde(default)]
    pub by: DecidedBy,
    /// Of a contradicted sentence, the number of the span that states the contrary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contradicted_by: Option<usize>,
}

/// Who decided whether a sentence is supported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DecidedBy {
    #[default]
    Rules,
    /// The small entailment model that is part of the binary.
    Verifier,
    /// The configured language model (`verify = "model"`).
    Model,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SentenceStatus {
    Supported,
    Weak,
    Unsupported,
    /// A source states the contrary.
    Contradicted,
    /// A heading, a question, an introduction.
    NoClaim,
    /// It was compared with no source, or is in a language that cannot be checked.
    NotChecked,
}

/// A limit of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BudgetLimit {
    Tokens,
    Usd,
    Calls,
    Time,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Source {
    pub title: String,
    pub address: Option<String>,
    pub places: Vec<String>,
    /// Numbers of spans.
    pub spans: Vec<usize>,
    /// When it was published, as the source says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Span {
    pub n: usize,
    pub text: String,
    /// The tool it came from.
    pub source: String,
    pub title: Option<String>,
    pub address: Option<String>,
    pub place: Option<String>,
    /// `untrusted`, `own` or `computed`.
    pub trust: String,
    /// The call that found it: `stories.search (query: upstream)`.
    pub task: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SpanInPlace {
    pub span: Span,
    /// The document around it, if it is one that this server can read; otherwise the tool's reply it stands in.
    pub document: Option<Excerpt>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Excerpt {
    pub path: String,
    pub title: String,
    pub text: String,
    /// Where the span stands in `text`.
    pub start: usize,
    pub end: usize,
    /// The number of the first line of `text` (page of a PDF, paragraph of a DOCX).
    pub line: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Query {
    pub query: String,
    /// The thread it continues; `new` begins another conversation. Left out, the client's newest conversation goes on.
    #[serde(default)]
    pub thread: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueryAnswer {
    pub intent: String,
    pub planned_stages: Vec<String>,
    pub executed_stages: Vec<String>,
    pub results: Results,
    /// The last five.
    pub messages: Vec<ChatMessage>,
    pub thread: String,
    pub run: String,
}

/// Only of executed stages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Results {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search_results: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search_confidence: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary_confidence: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation_response: Option<Value>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChatMessage {
    pub role: String,
    pub content: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Models {
    pub chosen: SelectedModel,
    pub options: Vec<ModelOption>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelOption {
    pub name: String,
    pub title: String,
    pub state: ModelState,
    pub detail: String,
    /// What would make it work.
    pub todo: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModelState {
    Ready,
    Missing,
    Failed,
    Off,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Documents {
    pub folders: Vec<String>,
    /// What the user gave.
    pub files: Vec<Document>,
    pub index: Index,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Document {
    pub name: String,
    pub bytes: u64,
    pub updated_ms: i64,
    pub state: DocumentState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DocumentState {
    Indexed,
    Waiting,
    Failed,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Index {
    pub passages: u64,
    pub vectors: u64,
    pub is_filling: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Uploaded {
    pub name: String,
    pub bytes: u64,
}

/// The text of a document as it is indexed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DocumentText {
    pub name: String,
    pub text: String,
    /// The first and the last line (page of a PDF, paragraph of a DOCX) of `text`, and how many the document has.
    pub from: u32,
    pub to: u32,
    pub total: u32,
}

/// How one can sign in beside with a token.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SignInWays {
    /// The provider of OpenID Connect, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<SignInProvider>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SignInProvider {
    /// What the button says.
    pub title: String,
    /// Where the browser goes to sign in; `?to=/path` is where it returns to.
    pub start: String,
    /// Where it goes after signing out, if the session at the provider is to end too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSession {
    pub token: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HealthStatus {
    pub ok: bool,
}

/// Keys of models and tools, by the variable of the environment that each stands for. Values are never given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Keys {
    pub keys: Vec<StoredKey>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StoredKey {
    /// `OPENAI_API_KEY`
    pub name: String,
    pub state: KeyState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyState {
    Missing,
    /// In the environment of the server, which counts before what is stored.
    Environment,
    Stored,
}

#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetKey {
    pub value: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestModel {
    /// `family/model`
    pub model: String,
}

/// What a model answered to a short question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TestedModel {
    pub model: String,
    pub text: String,
    pub took_ms: u64,
}

/// What runs left for later runs of this user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Memory {
    pub notes: Vec<MemoryNote>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryNote {
    pub id: u64,
    pub flow: String,
    pub kind: String,
    pub key: Value,
    pub value: Value,
    pub thread: String,
    pub created_ms: i64,
    pub until_ms: i64,
}
