//! Answers a question from lookups.
//!
//! ```text
//!            ┌──────── rejected, with feedback, at most twice ────────┐
//!            ▼                                                        │
//!   start ► plan ► look_up ► critic ──────────────────────────────────┤
//!            model   search ┐  model                                  │ approved, or enough
//!                    search ┼► fetch the first hit                    ▼
//!                    search ┘                        end ◄ no ─── approve ── yes ► answer ► note_it ► end
//!                                                                  a person, if asked to    model    notes.append
//! ```
//!
//! No failure ends the run: an unusable plan becomes one lookup, a failed lookup is left out, a failed critic counts as approval, and a
//! missing answer is replaced by the list of sources.

use graph::{Ask, Backoff, END, Effect, Go, Graph, GraphError, Message, ModelCall, Placeholder, Question, Replies, Request};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::descriptor::{Descriptor, InputKind, Visibility};

/// Descriptor of this flow.
pub const FLOW: Descriptor = Descriptor {
    title: "Research",
    visibility: Visibility::Sample,
    input: InputKind::Own(|question| json!({ "question": question.text, "approve": question.approve })),
    approvals: &["approve"],
    ..Descriptor::new("research", |_| flow())
};

/// Builds the graph.
pub fn flow() -> Result<Graph, GraphError> {
    Graph::of::<Research>("research")
        .node("plan", (ask_plan, fold_plan), &["look_up"])
        .node("look_up", (ask_lookups, fold_lookups), &["critic"])
        .node("critic", (ask_critic, fold_critic), &["plan", "approve"])
        .node("approve", (ask_person, fold_person), &["answer", END])
        .node("answer", (ask_answer, fold_answer), &["note_it"])
        .node("note_it", (ask_note, fold_note), &[END])
        .output(|s| json!({ "answer": s.answer, "sources": s.sources, "rounds": s.rounds }))
        .build()
}

const LOOKUPS_MAX: usize = 4;
const REJECTS_MAX: u32 = 2;

#[derive(Serialize, Deserialize)]
struct Research {
    question: String,
    /// Whether a person must approve before the answer is written.
    #[serde(default)]
    approve: bool,
    #[serde(default)]
    lookups: Vec<String>,
    #[serde(default)]
    sources: Vec<Source>,
    /// What the critic found missing.
    #[serde(default)]
    feedback: String,
    /// Number of plans so far.
    #[serde(default)]
    rounds: u32,
    #[serde(default)]
    answer: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Source {
    #[serde(default)]
    title: String,
    url: String,
    #[serde(default)]
    text: String,
}

fn ask_plan(s: &Research) -> Ask {
    let mut task = format!("Question: {}\nReply with a JSON list of at most {LOOKUPS_MAX} short search queries that would answer it.", s.question);
    if !s.feedback.is_empty() {
        task.push_str(&format!("\nAn earlier search was rejected: {}", s.feedback));
    }
    let schema = json!({ "type": "array", "items": { "type": "string" }, "maxItems": LOOKUPS_MAX });
    Ask::one(patient(model("plan", task, Some(schema))).label("planning"))
}

fn fold_plan(s: &mut Research, replies: &Replies<'_>) -> Go {
    s.rounds += 1;
    let planned = replies.value(0).map_err(|failure| failure.to_string()).and_then(|value| lookups_in(value).ok_or_else(|| shown(value)));
    let go = Go::to("look_up");
    match planned {
        Ok(lookups) => {
            s.lookups = lookups;
            go.note("plan", s.lookups.clone())
        }
        Err(why) => {
            s.lookups = vec![s.question.clone()];
            go.note("plan", s.lookups.clone()).note("plan_unusable", why)
        }
    }
}

/// One search per lookup, all in parallel, and the page of the first hit of the first search.
fn ask_lookups(s: &Research) -> Ask {
    let mut ask = Ask::nothing();
    for query in &s.lookups {
        ask.add(patient(graph::tool("search", json!({ "query": query }))).label(format!("searching {query}")));
    }
    if !s.lookups.is_empty() {
        let fetch = patient(graph::tool("fetch", json!({ "url": null }))).label("reading the first hit");
        ask.add(fetch.hole(Placeholder::whole("/arguments/url", 0, "/hits/0/url")));
    }
    ask
}

fn fold_lookups(s: &mut Research, replies: &Replies<'_>) -> Go {
    #[derive(Deserialize)]
    struct Found {
        hits: Vec<Source>,
    }
    let mut failed = Vec::new();
    for (index, query) in s.lookups.iter().enumerate() {
        match replies.parse::<Found>(index) {
            Ok(found) => found.hits.into_iter().for_each(|hit| keep(&mut s.sources, hit)),
            Err(failure) => failed.push(json!({ "lookup": query, "why": failure.to_string() })),
        }
    }
    match replies.parse::<Source>(s.lookups.len()) {
        Ok(page) => keep(&mut s.sources, page),
        Err(failure) => failed.push(json!({ "lookup": "fetch", "why": failure.to_string() })),
    }
    let go = Go::to("critic").note("sources", s.sources.len());
    if failed.is_empty() { go } else { go.note("lookups_failed", failed) }
}

fn ask_critic(s: &Research) -> Ask {
    let task = format!(
        "Question: {}\nRound {}. Are these sources enough to answer it? \
         Reply {{\"approve\": true}} or {{\"approve\": false, \"feedback\": \"what is missing\"}}.\n{}",
        s.question,
        s.rounds,
        listed(&s.sources)
    );
    let schema = json!({
        "type": "object",
        "required": ["approve"],
        "properties": { "approve": { "type": "boolean" }, "feedback": { "type": "string" } },
    });
    Ask::one(patient(model("critic", task, Some(schema))).label("judging the sources"))
}

fn fold_critic(s: &mut Research, replies: &Replies<'_>) -> Go {
    #[derive(Deserialize)]
    struct Verdict {
        approve: bool,
        #[serde(default)]
        feedback: String,
    }
    match replies.parse::<Verdict>(0) {
        Ok(Verdict { approve: true, .. }) => Go::to("approve").note("critic", "approved"),
        Ok(Verdict { approve: false, feedback }) if s.rounds <= REJECTS_MAX => {
            s.feedback = if feedback.is_empty() { "no reason was given".to_owned() } else { feedback };
            Go::to("plan").note("critic", format!("rejected: {}", s.feedback))
        }
        Ok(Verdict { approve: false, .. }) => Go::to("approve").note("critic", format!("rejected, but {REJECTS_MAX} rejections are enough")),
        Err(failure) => Go::to("approve").note("critic", format!("no usable reply ({failure})")),
    }
}

fn ask_person(s: &Research) -> Ask {
    if !s.approve {
        return Ask::nothing();
    }
    let schema = json!({ "type": "object", "required": ["approve"], "properties": { "approve": { "type": "boolean" } } });
    let prompt = format!("May I answer {:?} from these sources?\n{}", s.question, listed(&s.sources));
    Ask::one(Request::from(Effect::AskPerson(Question { prompt, schema: Some(schema) })).label("asking for approval"))
}

fn fold_person(s: &mut Research, replies: &Replies<'_>) -> Go {
    if replies.is_empty() || replies.value(0).is_ok_and(is_yes) {
        return Go::to("answer");
    }
    s.answer = "I was asked not to answer this.".to_owned();
    Go::end().note("approval", "declined").say("assistant", s.answer.as_str())
}

fn ask_answer(s: &Research) -> Ask {
    let task = format!("Question: {}\nAnswer it briefly from these sources and name their addresses.\n{}", s.question, listed(&s.sources));
    Ask::one(patient(model("answer", task, None)).label("answering").last())
}

fn fold_answer(s: &mut Research, replies: &Replies<'_>) -> Go {
    let answered = replies.value(0).map_err(|failure| failure.to_string()).and_then(|value| match value {
        Value::String(text) if !text.trim().is_empty() => Ok(text.clone()),
        other => Err(format!("not a text: {}", shown(other))),
    });
    let go = Go::to("note_it");
    let go = match answered {
        Ok(answer) => {
            s.answer = answer;
            go
        }
        Err(why) => {
            s.answer = if s.sources.is_empty() {
                format!("I found nothing about {:?}.", s.question)
            } else {
                format!("I could not write an answer, but this is what I found:\n{}", listed(&s.sources))
            };
            go.note("answer_failed", why)
        }
    };
    go.say("assistant", s.answer.as_str())
}

fn ask_note(s: &Research) -> Ask {
    Ask::one(patient(graph::tool("notes.append", json!({ "question": s.question, "answer": s.answer }))).label("saving a note"))
}

fn fold_note(_: &mut Research, replies: &Replies<'_>) -> Go {
    match replies.value(0) {
        Ok(_) => Go::end(),
        Err(failure) => Go::end().note("note_failed", failure.to_string()),
    }
}

fn model(purpose: &str, task: String, schema: Option<Value>) -> Effect {
    let messages = vec![
        Message { role: "system".into(), content: "You help to answer questions from sources.".into() },
        Message { role: "user".into(), content: task },
    ];
    Effect::CallModel(ModelCall { purpose: purpose.into(), messages, schema, ..ModelCall::default() })
}

fn patient(effect: Effect) -> Request {
    Request::from(effect).attempts(3).deadline_ms(30_000).backoff(Backoff { first_ms: 20, factor: 2, most_ms: 1_000 })
}

/// The queries of a plan, if it has any. Models wrap lists in objects and JSON in text.
fn lookups_in(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Array(items) => {
            let queries = items.iter().map(|item| item.as_str().map(str::trim)).collect::<Option<Vec<_>>>()?;
            let lookups: Vec<String> = queries.into_iter().filter(|query| !query.is_empty()).take(LOOKUPS_MAX).map(str::to_owned).collect();
            (!lookups.is_empty()).then_some(lookups)
        }
        Value::Object(map) => map.get("lookups").filter(|inner| inner.is_array()).and_then(lookups_in),
        Value::String(text) => serde_json::from_str(text).ok().filter(|inner: &Value| !inner.is_string()).as_ref().and_then(lookups_in),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// One source per address; of two texts the longer one is kept.
fn keep(sources: &mut Vec<Source>, new: Source) {
    match sources.iter_mut().find(|source| source.url == new.url) {
        None => sources.push(new),
        Some(known) if new.text.len() > known.text.len() => known.text = new.text,
        Some(_) => {}
    }
}

fn listed(sources: &[Source]) -> String {
    let lines: Vec<String> = sources.iter().map(|source| format!("- {} ({}): {}", source.title, source.url, source.text)).collect();
    lines.join("\n")
}

fn is_yes(value: &Value) -> bool {
    match value {
        Value::Bool(yes) => *yes,
        Value::String(word) => matches!(word.trim().to_lowercase().as_str(), "yes" | "y" | "ok" | "approve" | "true"),
        Value::Object(map) => map.get("approve") == Some(&Value::Bool(true)),
        Value::Null | Value::Number(_) | Value::Array(_) => false,
    }
}

/// The start of a reply, for an error message.
fn shown(value: &Value) -> String {
    value.to_string().chars().take(200).collect()
}
