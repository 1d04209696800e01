//! Passage retrieval for multi-hop questions: the paragraphs of all questions form one corpus.
//!
//! Formats: the JSON of HotpotQA (also as columns, and 2WikiMultihopQA, which has the same form) and of MuSiQue, as one array or one object
//! per line, and BEIR folders (`corpus.jsonl`, `queries.jsonl`, `qrels/test.tsv`).

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Measured, measure};
use crate::vectors::State;
use crate::{Corpus, Model, Passage};

/// Time to wait for vectors, since their quality is measured.
const VECTORS_MAX: Duration = Duration::from_secs(3600);

/// `home` keeps the index and its vectors; with the same data only the questions take time.
pub fn docs(data: &Path, home: &Path, model: &Model, report: &mut dyn FnMut(String)) -> Result<Measured, String> {
    let set = if data.is_dir() { beir(data)? } else { questions(data)? };
    let corpus = Corpus::open(home, model).map_err(|error| error.to_string())?;
    let began = Instant::now();
    let mut change = corpus.change().map_err(|error| error.to_string())?;
    for (number, (title, text)) in set.passages.iter().enumerate() {
        let passage = Passage { title: title.clone(), text: text.clone(), ..Default::default() };
        change.replace(&number.to_string(), None, vec![passage]).map_err(|error| error.to_string())?;
    }
    // Removes rows of an earlier, larger set.
    for number in set.passages.len()..corpus.passages() {
        change.remove(&number.to_string());
    }
    change.commit().map_err(|error| error.to_string())?;
    let index_seconds = began.elapsed().as_secs_f64();
    report(format!("{} passages are searchable after {index_seconds:.1} s; links are worth {:.2} here", set.passages.len(), corpus.links_worth()));
    let progress = wait(report, |limit| corpus.wait(limit))?;
    let find = |question: &str| {
        let answer = corpus.search(question, 20).map_err(|error| error.to_string())?;
        Ok(answer.hits.iter().filter_map(|hit| hit.file.parse::<usize>().ok()).collect())
    };
    let measured = measure(&set.questions, find)?;
    Ok(Measured {
        items: set.passages.len(),
        index_seconds,
        vectors: progress.state == State::Ready,
        vectors_per_second: progress.per_second,
        absent: set.absent,
        ..measured
    })
}

/// Waits for the vectors and reports progress.
pub(super) fn wait(report: &mut dyn FnMut(String), mut wait: impl FnMut(Duration) -> crate::Progress) -> Result<crate::Progress, String> {
    let began = Instant::now();
    loop {
        let progress = wait(Duration::from_secs(5));
        match &progress.state {
            State::Failed(why) => return Err(format!("{why}; --no-vectors measures without them")),
            State::Off | State::Ready => return Ok(progress),
            _ if began.elapsed() > VECTORS_MAX => return Err("the vectors took too long".into()),
            state => {
                report(format!("vectors: {state:?}, {} of {} ({:.0}/s)", progress.done, progress.total, progress.per_second.unwrap_or_default()));
            }
        }
    }
}

/// Questions with known answers, and the passages of all of them, each with its title.
pub struct QuestionSet {
    /// Title and text of each passage.
    pub passages: Vec<(String, String)>,
    /// Each question and its answer.
    pub questions: Vec<(String, String)>,
}

/// The questions of a set that have an answer in it.
pub fn exam(data: &Path) -> Result<QuestionSet, String> {
    let set = questions(data)?;
    let asked = set.questions.into_iter().map(|(question, _)| question);
    let questions: Vec<(String, String)> = asked.zip(set.answers).filter_map(|(question, answer)| Some((question, answer?))).collect();
    if questions.is_empty() {
        return Err(format!("{} has no questions with an \"answer\"", data.display()));
    }
    Ok(QuestionSet { passages: set.passages, questions })
}

#[derive(Default)]
struct Set {
    passages: Vec<(String, String)>,
    numbers: HashMap<(String, String), usize>,
    questions: Vec<(String, HashSet<usize>)>,
    /// One per question.
    answers: Vec<Option<String>>,
    absent: usize,
}

impl Set {
    fn number(&mut self, title: &str, text: &str) -> usize {
        let key = (title.to_owned(), text.to_owned());
        *self.numbers.entry(key).or_insert_with_key(|key| {
            self.passages.push(key.clone());
            self.passages.len() - 1
        })
    }
}

fn questions(path: &Path) -> Result<Set, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let rows: Vec<Value> = match serde_json::from_str(&text) {
        Ok(Value::Array(rows)) => rows,
        Ok(row) => vec![row],
        Err(_) => lines(&text)?,
    };
    let mut set = Set::default();
    for row in &rows {
        let question = row["question"].as_str().ok_or("a row has no \"question\"")?;
        let mut gold = HashSet::new();
        if let Some(paragraphs) = row["paragraphs"].as_array() {
            for paragraph in paragraphs {
                let number = set.number(text_of(&paragraph["title"]), text_of(&paragraph["paragraph_text"]));
                if paragraph["is_supporting"] == true {
                    gold.insert(number);
                }
            }
        } else {
            let wanted: HashSet<&str> =
                pairs(&row["supporting_facts"], "title", "sent_id").into_iter().filter_map(|(title, _)| title.as_str()).collect();
            let mut found = HashSet::new();
            for (title, sentences) in pairs(&row["context"], "title", "sentences") {
                let title = text_of(title);
                let text: Vec<&str> = sentences.as_array().into_iter().flatten().map(text_of).collect();
                let number = set.number(title, text.concat().trim());
                if wanted.contains(title) {
                    gold.insert(number);
                    found.insert(title);
                }
            }
            set.absent += wanted.len() - found.len();
        }
        set.questions.push((question.to_owned(), gold));
        set.answers.push(row["answer"].as_str().map(str::to_owned));
    }
    Ok(set)
}

/// Pairs in a row, or as two columns.
fn pairs<'a>(value: &'a Value, first: &str, second: &str) -> Vec<(&'a Value, &'a Value)> {
    match value {
        Value::Array(rows) => rows.iter().map(|row| (&row[0], &row[1])).collect(),
        columns => columns[first].as_array().into_iter().flatten().zip(columns[second].as_array().into_iter().flatten()).collect(),
    }
}

fn beir(folder: &Path) -> Result<Set, String> {
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).map_err(|error| format!("{}: {error}", folder.join(name).display()));
    let mut set = Set::default();
    let mut passages = HashMap::new();
    for row in lines(&read("corpus.jsonl")?)? {
        let number = set.number(text_of(&row["title"]), text_of(&row["text"]));
        passages.insert(text_of(&row["_id"]).to_owned(), number);
    }
    let mut gold: HashMap<String, HashSet<usize>> = HashMap::new();
    for line in read("qrels/test.tsv")?.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [question, passage, score] = fields[..] else { continue };
        if score.parse::<i32>().is_ok_and(|score| score > 0) {
            match passages.get(passage) {
                Some(number) => drop(gold.entry(question.to_owned()).or_default().insert(*number)),
                None => set.absent += 1,
            }
        }
    }
    for row in lines(&read("queries.jsonl")?)? {
        if let Some(gold) = gold.remove(text_of(&row["_id"])) {
            set.questions.push((text_of(&row["text"]).to_owned(), gold));
        }
    }
    Ok(set)
}

fn lines(text: &str) -> Result<Vec<Value>, String> {
    text.lines().filter(|line| !line.trim().is_empty()).map(|line| serde_json::from_str(line).map_err(|error| error.to_string())).collect()
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
