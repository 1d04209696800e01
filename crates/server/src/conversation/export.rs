//! A conversation as one document: questions as headings, answers below them, and one list of sources.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use engine::result_of;
use evidence::Source;
use graph::{Outcome, RunId, UserId};
use store::{RunRow, Store, ThreadRow};

use super::branches;
use super::messages::Steps;
use crate::api::Api;
use crate::backend::{Export, Format, with_legend};
use crate::problem::Problem;
use crate::rendering::Renderer;
use crate::turn::rest::answered;

const TURNS_MAX: usize = 500;
/// Limit of one document: its questions, answers and sources together.
const TEXT_BYTES_MAX: usize = 4 << 20;
/// A longer text in brackets is no citation.
const CITATION_BYTES_MAX: usize = 200;
static RENDERER: LazyLock<Renderer> = LazyLock::new(|| Renderer::new(2));
const HEADING_CHARS_MAX: usize = 300;

/// One turn, as readers see it.
pub(crate) struct TurnText {
    pub(crate) question: String,
    /// Markdown without the list of sources; `[n]` cites the n-th of `sources`.
    pub(crate) answer: String,
    pub(crate) sources: Vec<Source>,
}

/// The turns of a thread: those that are named, or those of the newest branch.
pub(crate) async fn turns(store: &dyn Store, thread: &ThreadRow, runs: Option<Vec<RunId>>) -> Result<Vec<TurnText>, Problem> {
    let runs = match runs {
        Some(runs) => runs,
        None => branches::newest(store, thread).await?,
    };
    if runs.len() > TURNS_MAX {
        return Err(Problem::invalid(format!("a conversation of more than {TURNS_MAX} turns cannot be shown as one document")));
    }
    let mut room = Room { bytes: TEXT_BYTES_MAX };
    let mut asked = questions(store, thread, &runs, &mut room).await?;
    let mut turns = Vec::with_capacity(runs.len());
    for run in runs {
        let row = store.run(&run).await?.filter(|row| row.thread == thread.thread).ok_or_else(|| Problem::not_found("run in this thread"))?;
        let turn = turn(&row, asked.remove(&run));
        let of_source = |source: &Source| source.title.len() + source.address.as_ref().map_or(0, String::len);
        room.take(turn.answer.len() + turn.sources.iter().map(of_source).sum::<usize>())?;
        turns.push(turn);
    }
    Ok(turns)
}

/// The same beside the runtime: outcomes of runs have megabytes each.
pub(crate) async fn turns_beside(api: &Api, user: &UserId, thread: &ThreadRow, runs: Option<Vec<RunId>>) -> Result<Vec<TurnText>, Problem> {
    let (api, thread) = (api.clone(), thread.clone());
    RENDERER.place(user).await?.run_async(async move { turns(&**api.0.engine.store(), &thread, runs).await }).await?
}

/// The questions of these runs.
async fn questions(store: &dyn Store, thread: &ThreadRow, runs: &[RunId], room: &mut Room) -> Result<HashMap<RunId, String>, Problem> {
    let wanted: HashSet<&RunId> = runs.iter().collect();
    let (mut asked, mut steps) = (HashMap::new(), Steps::from(0));
    while asked.len() < wanted.len()
        && let Some(step) = steps.next(store, &thread.thread, usize::MAX).await?
    {
        for message in step.into_iter().filter(|message| message.role == "user" && wanted.contains(&message.run)) {
            if let Entry::Vacant(first) = asked.entry(message.run) {
                room.take(message.content.len())?;
                first.insert(message.content);
            }
        }
    }
    Ok(asked)
}

/// Bytes that a document may still have.
struct Room {
    bytes: usize,
}

impl Room {
    fn take(&mut self, bytes: usize) -> Result<(), Problem> {
        self.bytes = self.bytes.checked_sub(bytes).ok_or_else(|| {
            Problem::invalid(format!(
                "these turns have more than {} MiB of text, too much for one document; choose fewer of them",
                TEXT_BYTES_MAX >> 20
            ))
        })?;
        Ok(())
    }
}

/// The turns as one document of this user's.
pub(crate) async fn put_together(user: &UserId, title: &str, turns: Vec<TurnText>, format: Format) -> Result<Export, Problem> {
    let title = title.to_owned();
    RENDERER
        .run(user, move || {
            let mut document = document(&title, &turns, format);
            document.markdown = with_legend(&document.markdown);
            document
        })
        .await
}

fn turn(row: &RunRow, asked: Option<String>) -> TurnText {
    let question = asked.unwrap_or_else(|| row.title.clone());
    let closing = result_of(row);
    match closing.as_ref().map(|closing| &closing.outcome) {
        Some(Outcome::Done { output }) => {
            let answered = answered(output, closing.as_ref().map(|closing| closing.spent).unwrap_or_default());
            let answer = evidence::answer_body(&answered.text, !answered.sources.is_empty()).to_owned();
            TurnText { question, answer, sources: answered.sources }
        }
        Some(Outcome::Failed { .. }) => TurnText { question, answer: "*This run failed; there is no answer.*".to_owned(), sources: Vec::new() },
        Some(Outcome::Cancelled { .. }) => {
            TurnText { question, answer: "*This run was stopped; there is no answer.*".to_owned(), sources: Vec::new() }
        }
        None => TurnText { question, answer: "*There is no answer yet.*".to_owned(), sources: Vec::new() },
    }
}

/// The document in a format; the caller adds signs and a legend to the Markdown.
fn document(title: &str, turns: &[TurnText], format: Format) -> Export {
    let mut sources: Vec<(String, String)> = Vec::new();
    let mut known: HashMap<(String, String), usize> = HashMap::new();
    let mut parts = Vec::with_capacity(turns.len());
    for turn in turns {
        let numbers: Vec<usize> = turn
            .sources
            .iter()
            .map(|source| {
                let one = (source.title.clone(), source.address.clone().unwrap_or_default());
                *known.entry(one).or_insert_with_key(|one| {
                    sources.push(one.clone());
                    sources.len()
                })
            })
            .collect();
        parts.push(format!("{}\n\n{}", heading(&turn.question), renumbered(&turn.answer, &numbers)));
    }
    Export { format, title: title.to_owned(), markdown: parts.join("\n\n"), sources }
}

/// A long question is cut in the heading and stands below it in full.
fn heading(question: &str) -> String {
    let line = question.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown: String = line.chars().take(HEADING_CHARS_MAX).flat_map(|c| "\\`*_[]<>#|".contains(c).then_some('\\').into_iter().chain([c])).collect();
    match line.chars().count() > HEADING_CHARS_MAX {
        true => format!("## {shown}…\n\n{}", question.lines().map(|line| format!("> {line}")).collect::<Vec<_>>().join("\n")),
        false => format!("## {shown}"),
    }
}

/// Citations `[n]` and `[n, m]` with other numbers: `numbers[n - 1]` in place of `n`. Code blocks stay as they are.
fn renumbered(markdown: &str, numbers: &[usize]) -> String {
    let mut is_code = false;
    let lines = markdown.split('\n').map(|line| {
        if line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~") {
            is_code = !is_code;
            return line.to_owned();
        }
        if is_code { line.to_owned() } else { renumbered_line(line, numbers) }
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn renumbered_line(line: &str, numbers: &[usize]) -> String {
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(start) = rest.find('[') {
        let (before, from) = rest.split_at(start);
        text.push_str(before);
        // A line of brackets only must not be looked through once for each of them.
        let near = &from[..from.floor_char_boundary(CITATION_BYTES_MAX)];
        let cited = near.find(']').and_then(|end| {
            let parsed: Option<Vec<usize>> = from[1..end].split(',').map(|part| part.trim().parse().ok()).collect();
            let mapped: Option<Vec<String>> = parsed?.into_iter().map(|n: usize| Some(numbers.get(n.checked_sub(1)?)?.to_string())).collect();
            Some((mapped?, end))
        });
        match cited {
            Some((mapped, end)) => {
                text.push_str(&format!("[{}]", mapped.join(", ")));
                rest = &from[end + 1..];
            }
            None => {
                text.push('[');
                rest = &from[1..];
            }
        }
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sources_of_all_answers_are_one_list() {
        let source = |title: &str| Source { title: title.into(), address: Some(format!("https://{title}.example")), ..Source::default() };
        let turns = [
            TurnText { question: "One?".into(), answer: "A [1] b [2].".into(), sources: vec![source("x"), source("y")] },
            TurnText {
                question: "*Two* of\nthem".into(),
                answer: "C [1, 2] [9] [z](u).\n```\n[1]\n```".into(),
                sources: vec![source("y"), source("z")],
            },
        ];
        let made = document("T", &turns, Format::Markdown);
        assert_eq!(made.sources.iter().map(|(title, _)| title.as_str()).collect::<Vec<_>>(), ["x", "y", "z"]);
        assert_eq!(made.markdown, "## One?\n\nA [1] b [2].\n\n## \\*Two\\* of them\n\nC [2, 3] [9] [z](u).\n```\n[1]\n```");
    }

    /// Once for each bracket, this takes hours.
    #[test]
    fn a_line_of_brackets_is_looked_through_once() {
        for line in ["[".repeat(2_000_000), format!("{}]", "[1,".repeat(700_000)), "[é".repeat(700_000)] {
            assert_eq!(renumbered_line(&line, &[7]), line);
        }
        let many = "[1]".repeat(500_000);
        assert_eq!(renumbered_line(&many, &[7]), "[7]".repeat(500_000));
    }

    #[test]
    fn many_sources_are_listed_once_each() {
        let source = |number: usize| Source { title: format!("t{number}"), ..Source::default() };
        let turn = |from: usize| TurnText { question: "q".into(), answer: "a [1]".into(), sources: (from..from + 2_000).map(source).collect() };
        let turns: Vec<TurnText> = (0..100).map(|at| turn(at * 1_000)).collect();
        assert_eq!(document("T", &turns, Format::Markdown).sources.len(), 101_000);
    }

    #[test]
    fn text_beyond_the_limit_is_refused() {
        let mut room = Room { bytes: 10 };
        room.take(6).unwrap();
        room.take(4).unwrap();
        assert!(room.take(1).unwrap_err().message.contains("choose fewer"));
    }
}
