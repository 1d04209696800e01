//! Tool retrieval: words and vectors over tool descriptions, in memory.
//!
//! The whole question is one query. Querying for each of its clauses as well was tried, since a task has several steps, and found less: a
//! clause alone lacks the context of the task.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::Error;
use crate::fuse::{self, List};
use crate::vectors::{self, Filler, Key, Model, Progress, VectorCache};
use crate::words;

const DEPTH: usize = 100;
/// The usual BM25 constants.
const SATURATION: f32 = 1.2;
const LENGTH: f32 = 0.75;
/// Longer descriptions explain options; the purpose of a tool is at the beginning.
const DESCRIPTION_BYTES_MAX: usize = 2000;

/// A tool as its server describes it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tool {
    /// The server's name.
    pub server: String,
    /// The server's description, if any.
    pub about_server: String,
    /// The tool's name, without the server.
    pub name: String,
    /// What it does, as the server describes it.
    pub description: String,
    /// Names of its arguments.
    pub arguments: Vec<String>,
}

/// Descriptions of tools, searchable by words and by vectors.
pub struct Tools {
    listed: Arc<ToolTexts>,
    words: Bm25Index,
    cache: Arc<VectorCache>,
    model: Model,
    filler: Filler,
}

/// A tool that a search found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ToolHit {
    /// Index in the given list.
    pub index: usize,
    /// 1 is first on every list.
    pub score: f32,
}

impl Tools {
    /// Searchable by words immediately. Vectors are cached in the file, if there is one.
    pub fn new(tools: &[Tool], model: &Model, vectors: Option<&Path>) -> Result<Self, Error> {
        let cache = match vectors.filter(|_| model.is_wanted()) {
            Some(path) => VectorCache::open(path).map_err(|error| Error::folder(path, &error))?,
            None => VectorCache::default(),
        };
        let texts: Vec<String> = tools.iter().map(Tool::meaning).collect();
        let keys: Vec<Key> = texts.iter().map(|text| vectors::key(text)).collect();
        let slots = keys.iter().map(|key| AtomicU32::new(cache.slot(*key).unwrap_or(NO_SLOT))).collect();
        let listed = Arc::new(ToolTexts { texts, keys, slots });
        let cache = Arc::new(cache);
        let filler = Filler::new(model.clone(), cache.clone());
        filler.fill(listed.clone());
        Ok(Tools { listed, words: Bm25Index::of(tools), cache, model: model.clone(), filler })
    }

    /// Best first. Never waits for vectors: existing ones are used.
    pub fn search(&self, question: &str, size: usize) -> Vec<ToolHit> {
        let mut lists = vec![List { name: "words", weight: 1.0, rows: self.words.search(question) }];
        lists.extend(self.near(question, 1.0));
        fuse::fuse(&lists).into_iter().take(size).map(|(row, score)| ToolHit { index: row as usize, score }).collect()
    }

    /// The state of the vectors.
    pub fn progress(&self) -> Progress {
        self.filler.progress()
    }

    /// Blocks until the vectors are complete or have failed, or until the limit.
    pub fn wait(&self, limit: Duration) -> Progress {
        self.filler.wait(limit)
    }

    fn near(&self, question: &str, weight: f32) -> Option<List> {
        let slots: Vec<(u32, u32)> =
            (0..).zip(&self.listed.slots).map(|(row, slot)| (row, slot.load(Ordering::Relaxed))).filter(|(_, slot)| *slot != NO_SLOT).collect();
        // Tools are listed before anything else, so this does not wait for weights.
        if slots.is_empty() || !self.model.is_ready() {
            return None;
        }
        let vector = self.model.ask(question)?;
        let share = slots.len() as f32 / self.listed.slots.len() as f32;
        Some(List { name: "vectors", weight: weight * share, rows: fuse::best(self.cache.scores(&vector, slots.into_iter()), DEPTH) })
    }
}

const NO_SLOT: u32 = u32::MAX;

struct ToolTexts {
    texts: Vec<String>,
    keys: Vec<Key>,
    slots: Vec<AtomicU32>,
}

impl vectors::Corpus for ToolTexts {
    fn total(&self) -> usize {
        self.texts.len()
    }

    fn missing(&self) -> Vec<(u32, Key)> {
        let has_none = |row: &u32| self.slots[*row as usize].load(Ordering::Relaxed) == NO_SLOT;
        (0..self.texts.len() as u32).filter(has_none).map(|row| (row, self.keys[row as usize])).collect()
    }

    fn text(&self, row: u32) -> Option<String> {
        self.texts.get(row as usize).cloned()
    }

    fn filled(&self, row: u32, slot: u32) {
        self.slots[row as usize].store(slot, Ordering::Relaxed);
    }
}

impl Tool {
    /// The text of its vector: a name alone is not enough, and the server's name gives the topic.
    fn meaning(&self) -> String {
        let spelled = |name: &str| name.replace(['_', '-', '.', '/'], " ");
        format!("{} {}: {}", spelled(&self.server), spelled(&self.name), self.about())
    }

    fn about(&self) -> &str {
        let mut end = self.description.len().min(DESCRIPTION_BYTES_MAX);
        while !self.description.is_char_boundary(end) {
            end -= 1;
        }
        &self.description[..end]
    }

    fn terms(&self) -> Vec<String> {
        let texts = [self.server.as_str(), &self.about_server, &self.name, self.about()];
        texts.into_iter().chain(self.arguments.iter().map(String::as_str)).flat_map(words::terms).collect()
    }
}

/// BM25 over a list in memory.
struct Bm25Index {
    postings: HashMap<String, Vec<(u32, f32)>>,
    /// Length of each tool's text, relative to the mean.
    lengths: Vec<f32>,
}

impl Bm25Index {
    fn of(tools: &[Tool]) -> Self {
        let mut postings: HashMap<String, Vec<(u32, f32)>> = HashMap::new();
        let mut lengths = Vec::new();
        for (row, tool) in (0..).zip(tools) {
            let terms = tool.terms();
            lengths.push(terms.len() as f32);
            for term in terms {
                let rows = postings.entry(term).or_default();
                match rows.last_mut() {
                    Some((last, times)) if *last == row => *times += 1.0,
                    _ => rows.push((row, 1.0)),
                }
            }
        }
        let mean = (lengths.iter().sum::<f32>() / lengths.len().max(1) as f32).max(1.0);
        lengths.iter_mut().for_each(|length| *length /= mean);
        Bm25Index { postings, lengths }
    }

    fn search(&self, question: &str) -> Vec<u32> {
        let mut scores: HashMap<u32, f32> = HashMap::new();
        let count = self.lengths.len() as f32;
        for term in words::terms(question) {
            let Some(rows) = self.postings.get(&term) else { continue };
            let rarity = (1.0 + (count - rows.len() as f32 + 0.5) / (rows.len() as f32 + 0.5)).ln();
            for (row, times) in rows {
                let length = 1.0 - LENGTH + LENGTH * self.lengths[*row as usize];
                *scores.entry(*row).or_default() += rarity * times * (SATURATION + 1.0) / (times + SATURATION * length);
            }
        }
        fuse::best(scores.into_iter().collect(), DEPTH)
    }
}
