//! An answer with what it stands on: its sentences and how each is supported, its sources, and the very passages that are cited.
//!
//! How it ended is in the run's outcome; the passages are in the journals, as what tools replied and as what the model was shown. A sentence cites by
//! the number a passage had when it was shown, so the showing is looked up: the last time a model of the run that answered was given all the
//! numbers that are cited. Where no model was, passages are found by their source alone.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::LazyLock;

use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use engine::tree_history;
use evidence::{Found, Passage, Span};
use graph::{Effect, Event, FailureKind, NumberedEvent, Outcome, RunId, UserId};
use serde_json::Value;
use store::RunRow;
use wire::api;

use super::Api;
use crate::backend::{Export, Format};
use crate::guard::Identity;
use crate::problem::Problem;
use crate::rendering::Renderer;

/// Answers that are put together, and files that are made of them.
static RENDERER: LazyLock<Renderer> = LazyLock::new(|| Renderer::new(2));
static EXPORTER: LazyLock<Renderer> = LazyLock::new(|| Renderer::new(2));
/// Sentences of one answer that are reported. Flows cut answers before that; runs of older versions may have more.
const SENTENCES_MAX: usize = 5_000;

pub(super) async fn show(State(api): State<Api>, Extension(who): Extension<Identity>, Path(run): Path<String>) -> Result<Json<api::Answer>, Problem> {
    Ok(Json(of(&api, &who, &run).await?))
}

pub(super) async fn markdown(api: State<Api>, who: Extension<Identity>, run: Path<String>) -> Result<Response, Problem> {
    file(&api, &who, &run, Format::Markdown).await
}

pub(super) async fn html(api: State<Api>, who: Extension<Identity>, run: Path<String>) -> Result<Response, Problem> {
    file(&api, &who, &run, Format::Html).await
}

pub(super) async fn docx(api: State<Api>, who: Extension<Identity>, run: Path<String>) -> Result<Response, Problem> {
    file(&api, &who, &run, Format::Docx).await
}

pub(super) async fn pdf(api: State<Api>, who: Extension<Identity>, run: Path<String>) -> Result<Response, Problem> {
    file(&api, &who, &run, Format::Pdf).await
}

pub(super) async fn span(
    State(api): State<Api>,
    Extension(who): Extension<Identity>,
    Path((run, number)): Path<(String, String)>,
) -> Result<Json<api::SpanInPlace>, Problem> {
    let number: usize = number.parse().map_err(|_| Problem::not_found("span"))?;
    let (_, answer, replies) = answer(&api, &who, &run).await?;
    let span = answer.spans.into_iter().find(|span| span.n == number).ok_or_else(|| Problem::not_found("span"))?;
    let found = Span {
        text: span.text.clone(),
        source: span.source.clone(),
        title: span.title.clone(),
        address: span.address.clone(),
        place: span.place.clone(),
        ..Span::default()
    };
    let document = match api.0.backend.excerpt(&who.user, &found).await {
        Some(document) => Some(document),
        None => in_reply(&span, &replies),
    };
    Ok(Json(api::SpanInPlace { span, document }))
}

async fn file(api: &Api, who: &Identity, run: &str, format: Format) -> Result<Response, Problem> {
    let (row, answer, _) = answer(api, who, run).await?;
    let sources = answer.sources.iter().map(|source| (source.title.clone(), source.address.clone().unwrap_or_default())).collect();
    let export = Export::of_answer(format, &row.title, &answer.markdown, sources);
    let file_title = export.title.clone();
    let bytes = exported(api, &who.user, export).await?;
    let ending = Format::ALL.iter().find(|(_, known)| *known == format).map_or("txt", |(ending, _)| ending);
    let name = file_name(&file_title);
    // Never shown in our own origin, whatever is in it.
    let headers =
        [(header::CONTENT_TYPE, format.media_type().to_owned()), (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}.{ending}\""))];
    Ok((headers, bytes).into_response())
}

/// A document as a file.
pub(crate) async fn exported(api: &Api, user: &UserId, export: Export) -> Result<Vec<u8>, Problem> {
    let _place = EXPORTER.place(user).await?;
    api.0.backend.export(export).await
}

/// The characters of a title that any file system and any header accepts.
pub(super) fn file_name(title: &str) -> String {
    const CHARS_MAX: usize = 60;
    let plain: String = title.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { ' ' }).collect();
    let name: String = plain.split_whitespace().collect::<Vec<_>>().join("-").chars().take(CHARS_MAX).collect();
    if name.is_empty() { "answer".into() } else { name }
}

/// The tool's reply that a passage stands in, for one that is found nowhere else.
fn in_reply(span: &api::Span, replies: &[Found]) -> Option<api::Excerpt> {
    let is_it = |one: &&Span| one.text == span.text && one.place == span.place && one.task == span.task && one.source == span.source;
    let (text, range) = replies.iter().filter(|_| span.address.is_none()).find_map(|reply| {
        let one = reply.spans.iter().find(is_it)?;
        evidence::reply_at(reply, one)
    })?;
    let units = |bytes: usize| text.get(..bytes).map_or(0, |head| head.encode_utf16().count());
    let title = span.task.clone().unwrap_or_else(|| span.source.clone());
    let (start, end) = (units(range.start), units(range.end));
    Some(api::Excerpt { path: span.source.clone(), title, start, end, line: 1, text })
}

/// An answer with what it stands on.
pub(crate) async fn of(api: &Api, who: &Identity, run: &str) -> Result<api::Answer, Problem> {
    Ok(answer(api, who, run).await?.1)
}

/// A run, its answer, and all that tools replied on the way to it.
async fn answer(api: &Api, who: &Identity, run: &str) -> Result<(RunRow, api::Answer, Vec<Found>), Problem> {
    // Before the run is read: a long outcome takes a while too, and many of one user would keep others waiting.
    let place = RENDERER.place(&who.user).await?;
    let row = api.run(who, run).await?;
    let closing = engine::result_of(&row);
    let output = match closing.map(|closing| closing.outcome) {
        Some(Outcome::Done { output }) => output,
        Some(Outcome::Failed { fault }) => return Err(Problem::conflict(format!("there is no answer: the run failed ({fault})"))),
        Some(Outcome::Cancelled { reason }) => return Err(Problem::conflict(format!("there is no answer: the run was stopped ({reason})"))),
        None => return Err(Problem::conflict("there is no answer yet; the run's events say when there is")),
    };
    let api = api.clone();
    // Replaying a run and rendering its answer take a while for long ones.
    place
        .run_async(async move {
            let past = tree_history(&api.0.engine, &row.run).await;
            let (answer, replies) = assemble(&api, &row, output, &past);
            (row, answer, replies)
        })
        .await
}

fn assemble(api: &Api, row: &RunRow, mut output: Value, past: &[(RunId, Vec<NumberedEvent>)]) -> (api::Answer, Vec<Found>) {
    let answering = answering_run(api, row, past);
    let events = past.iter().find(|(run, _)| *run == answering).map(|(_, events)| events.as_slice()).unwrap_or_default();
    let last_message = past.first().into_iter().flat_map(|(_, events)| events).rev().find_map(|numbered| match &numbered.event {
        Event::Said { role, content } if role == "assistant" => Some(content.clone()),
        _ => None,
    });
    let markdown = match (output.get("answer").unwrap_or(&output), last_message) {
        (Value::String(answer), _) => answer.clone(),
        (_, Some(message)) => message,
        (other, None) => format!("```json\n{}\n```", serde_json::to_string_pretty(other).unwrap_or_default()),
    };
    // Flows that check nothing have no such lists, or others of the same name.
    let mut list = |name: &str| output.get_mut(name).map(Value::take).unwrap_or_default();
    let sources: Vec<evidence::Source> = serde_json::from_value(list("sources")).unwrap_or_default();
    let mut sentences = list("sentences");
    if let Value::Array(sentences) = &mut sentences {
        sentences.truncate(SENTENCES_MAX);
    }
    let sentences: Vec<evidence::Sentence> = serde_json::from_value(sentences).unwrap_or_default();
    let files = serde_json::from_value(list("files")).unwrap_or_default();
    let replies = found(past);
    // A flow that cites passages which none of its models was shown lists them itself.
    let passages: Vec<Passage> = serde_json::from_value(list("passages")).unwrap_or_default();
    let spans = match passages.is_empty() {
        true => spans(&sources, &sentences, events, &replies),
        false => passages.into_iter().map(|Passage { number, span }| as_api(number, span)).collect(),
    };
    let (model, is_extracted) = model_of(events);
    let answer = api::Answer {
        html: output.get("html").and_then(Value::as_str).map_or_else(|| api.0.backend.html(&markdown), str::to_owned),
        plain: output.get("plain").and_then(Value::as_str).map_or_else(|| markdown.clone(), str::to_owned),
        sentences: api_sentences(&sentences, &markdown),
        body: evidence::answer_body(&markdown, !sources.is_empty()).to_owned(),
        sources: sources
            .into_iter()
            .map(|of| api::Source { title: of.title, address: of.address, places: of.places, spans: of.spans, at: of.at })
            .collect(),
        spans,
        files,
        is_extracted,
        limit_reached: past.iter().flat_map(|(_, events)| events).find_map(|numbered| limit_of(&numbered.event)),
        flow: output.get("flow").and_then(Value::as_str).unwrap_or(&row.flow).to_owned(),
        run: answering.to_string(),
        model,
        markdown,
    };
    (answer, replies)
}

/// The run that gave the answer: a flow that delegates passes on the answer of the flow it started.
fn answering_run(api: &Api, row: &RunRow, past: &[(RunId, Vec<NumberedEvent>)]) -> RunId {
    if !api.0.engine.flows().get(&row.flow).is_some_and(graph::Graph::delegates) {
        return row.run.clone();
    }
    let events = past.first().map(|(_, events)| events.as_slice()).unwrap_or_default();
    let answered = |task: &graph::TaskId| {
        events.iter().any(|numbered| matches!(&numbered.event, Event::Replied { task: of, reply, .. } if of == task && reply.result.is_ok()))
    };
    let child = events.iter().rev().find_map(|numbered| match &numbered.event {
        Event::Asked { task, effect, .. } if matches!(**effect, Effect::CallAgent(_)) && answered(task) => {
            Some(graph::child_run(graph::Key::of(&row.thread, &row.run, *task)))
        }
        _ => None,
    });
    child.unwrap_or_else(|| row.run.clone())
}

/// The model that wrote the answer, which is the last that replied, and whether it only picked sentences.
fn model_of(events: &[NumberedEvent]) -> (Option<String>, bool) {
    let last = events.iter().rev().find_map(|numbered| match &numbered.event {
        Event::Replied { reply, .. } if reply.result.is_ok() => reply.about.as_ref().filter(|about| about.get("model").is_some()),
        _ => None,
    });
    let model = last.and_then(|about| about["model"].as_str()).map(str::to_owned);
    let is_extracted = model.as_deref() == Some("extract") || last.is_some_and(|about| about["extracted"] == true);
    (model, is_extracted)
}

/// The limit of the budget for which an effect was not performed.
fn limit_of(event: &Event) -> Option<api::BudgetLimit> {
    let failure = match event {
        Event::Skipped { failure, .. } => failure,
        Event::Replied { reply, .. } => reply.result.as_ref().err()?,
        _ => return None,
    };
    let name = failure.message.split_once("_max = ").filter(|_| failure.kind == FailureKind::Budget)?.0;
    match name.rsplit(' ').next()? {
        "tokens" => Some(api::BudgetLimit::Tokens),
        "usd_micros" => Some(api::BudgetLimit::Usd),
        "calls" => Some(api::BudgetLimit::Calls),
        "time_ms" => Some(api::BudgetLimit::Time),
        _ => None,
    }
}

fn api_sentences(sentences: &[evidence::Sentence], markdown: &str) -> Vec<api::Sentence> {
    let units = utf16_offsets(markdown, sentences.iter().flat_map(|sentence| [sentence.range.start, sentence.range.end]));
    let unit = |byte: usize| units.get(&byte).copied().unwrap_or(0);
    let converted = sentences.iter().map(|sentence| api::Sentence {
        text: sentence.text.clone(),
        status: match sentence.status {
            evidence::Status::Supported => api::SentenceStatus::Supported,
            evidence::Status::Weak => api::SentenceStatus::Weak,
            evidence::Status::Unsupported => api::SentenceStatus::Unsupported,
            evidence::Status::Contradicted => api::SentenceStatus::Contradicted,
            evidence::Status::NoClaim => api::SentenceStatus::NoClaim,
            evidence::Status::NotChecked => api::SentenceStatus::NotChecked,
        },
        score: sentence.score,
        cites: sentence.cites.clone(),
        range: (unit(sentence.range.start), unit(sentence.range.end)),
        problems: sentence.problems.iter().map(|problem| problem.words.clone()).collect(),
        by: match sentence.by {
            evidence::DecidedBy::Rules => api::DecidedBy::Rules,
            evidence::DecidedBy::Verifier => api::DecidedBy::Verifier,
            evidence::DecidedBy::Model => api::DecidedBy::Model,
        },
        contradicted_by: sentence.contradicted_by,
    });
    converted.collect()
}

/// How many UTF-16 units stand before each of these bytes, in one pass over the text. Bytes within a character or beyond the text are left out.
fn utf16_offsets(text: &str, bytes: impl Iterator<Item = usize>) -> BTreeMap<usize, usize> {
    let mut offsets: BTreeMap<usize, usize> = bytes.filter(|byte| text.is_char_boundary(*byte)).map(|byte| (byte, 0)).collect();
    let (mut at, mut units) = (0, 0);
    for (byte, offset) in &mut offsets {
        units += text[at..*byte].encode_utf16().count();
        (at, *offset) = (*byte, units);
    }
    offsets
}

/// The passages that are cited, by their numbers.
fn spans(sources: &[evidence::Source], sentences: &[evidence::Sentence], events: &[NumberedEvent], replies: &[Found]) -> Vec<api::Span> {
    let mut numbers: Vec<usize> = sources
        .iter()
        .flat_map(|source| &source.spans)
        .chain(sentences.iter().flat_map(|one| one.cites.iter().chain(&one.contradicted_by)))
        .copied()
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    let Some(&last) = numbers.last() else { return Vec::new() };
    let found: Vec<&Span> = replies.iter().flat_map(|reply| &reply.spans).collect();
    let by_number: HashMap<usize, &evidence::Source> =
        sources.iter().rev().flat_map(|source| source.spans.iter().map(move |number| (*number, source))).collect();
    let source_of = |number: usize| by_number.get(&number).copied();
    let fits = |shown: &[&str]| {
        let is_of = |number: usize, source: &evidence::Source| {
            let line = shown[number - 1].lines().next().unwrap_or_default();
            let name = source.address.as_deref().and_then(|address| address.rsplit(['/', '\\']).next()).filter(|name| !name.is_empty());
            line.contains(source.title.as_str()) || name.is_some_and(|name| line.contains(name))
        };
        shown.len() >= last && numbers.iter().all(|&number| number > 0 && source_of(number).is_none_or(|source| is_of(number, source)))
    };
    let shown = events.iter().rev().find_map(|numbered| {
        let Event::Asked { effect, .. } = &numbered.event else { return None };
        let Effect::CallModel(call) = &**effect else { return None };
        let shown: Vec<&str> = call.messages.iter().filter(|message| message.role == "evidence").map(|message| message.content.as_str()).collect();
        fits(&shown).then_some(shown)
    });
    // Written once, not once a citation.
    let contents: Vec<String> = if shown.is_some() { found.iter().map(|span| evidence::message_content(span)).collect() } else { Vec::new() };
    let mut used = HashSet::new();
    let whole = |number: usize| -> Option<api::Span> {
        let span = match &shown {
            Some(shown) => by_content(shown[number - 1], &found, &contents),
            None => {
                let source = source_of(number)?;
                let is_it = |span: &Span| match &source.address {
                    Some(address) => span.address.as_ref() == Some(address),
                    None => span.task.as_ref().or(span.title.as_ref()) == Some(&source.title),
                };
                let place = found.iter().enumerate().position(|(at, span)| is_it(span) && !used.contains(&at))?;
                used.insert(place);
                found[place].clone()
            }
        };
        Some(as_api(number, span))
    };
    numbers.into_iter().filter_map(whole).collect()
}

fn as_api(number: usize, span: Span) -> api::Span {
    let trust = serde_json::to_value(span.trust).ok().and_then(|trust| trust.as_str().map(str::to_owned)).unwrap_or_default();
    let Span { text, source, title, address, place, task, .. } = span;
    api::Span { n: number, text, source, title, address, place, trust, task }
}

/// The passage that was shown so. One that was only shown in part is that part. `contents` are those of `found`, as a model is shown them.
fn by_content(content: &str, found: &[&Span], contents: &[String]) -> Span {
    let (head, text) = content.split_once('\n').unwrap_or(("", content));
    let halves = |at: usize| contents[at].split_once('\n').unwrap_or_default();
    // Of several with these words, the one with this first line; older versions of this program wrote another.
    let first =
        |fits: &dyn Fn(&usize) -> bool| (0..found.len()).filter(fits).find(|at| halves(*at).0 == head).or_else(|| (0..found.len()).find(fits));
    if let Some(at) = first(&|at| halves(*at).1 == text) {
        return found[at].clone();
    }
    let part = text.trim();
    match first(&|at| halves(*at).1.contains(part)) {
        Some(at) => Span { text: text.to_owned(), ..found[at].clone() },
        None => Span {
            text: text.to_owned(),
            title: Some(head.trim_start_matches("Source: ").to_owned()).filter(|title| !title.is_empty()),
            ..Span::default()
        },
    }
}

/// Everything that tools replied to any run of the family, each span labelled with its call as the flows do it.
fn found(past: &[(RunId, Vec<NumberedEvent>)]) -> Vec<Found> {
    let mut all = Vec::new();
    for (_, events) in past {
        let mut calls = HashMap::new();
        for numbered in events {
            if let Event::Asked { task, effect, .. } = &numbered.event
                && let Effect::CallTool(call) = &**effect
            {
                calls.entry(*task).or_insert(call);
            }
        }
        for numbered in events {
            let Event::Replied { task, reply, .. } = &numbered.event else { continue };
            let Ok(value) = &reply.result else { continue };
            let (Some(call), Ok(mut found)) = (calls.get(task), serde_json::from_value::<Found>(value.clone())) else { continue };
            if found.spans.is_empty() {
                let data = Some(&found.data).filter(|data| !data.is_null());
                found = evidence::found(&call.tool, evidence::Trust::Untrusted, &found.text, data);
            }
            label(&mut found.spans, call);
            all.push(found);
        }
    }
    all
}

fn label(spans: &mut [Span], call: &graph::ToolCall) {
    let label = evidence::task_label(&call.tool, &call.arguments);
    spans.iter_mut().filter(|span| span.task.is_none()).for_each(|span| span.task = Some(label.clone()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_counted_in_one_pass() {
        let text = "aü😀b";
        let offsets = utf16_offsets(text, [8, 0, 3, 1, 4, 99, 7].into_iter());
        assert_eq!(offsets.into_iter().collect::<Vec<_>>(), [(0, 0), (1, 1), (3, 2), (7, 4), (8, 5)]);
        // A pass for each sentence takes minutes.
        let long = "A b. ".repeat(200_000);
        assert_eq!(utf16_offsets(&long, (0..long.len()).step_by(5)).len(), 200_000);
    }
}
