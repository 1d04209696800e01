//! Searchable passages: full text, vectors and links over one folder on disk.
//!
//! ```text
//!   question ─┬─ full text ──┐
//!             ├─ vectors ────┼─ fuse ─ best five ─ passages they name ─┐
//!             └─ titles in it┘                                         │
//!               the same lists, and the named ones as one more ── fuse ┴─> passages
//! ```

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use crate::Error;
use crate::full_text::{FullText, State, StoredPassage, Writer};
use crate::fuse::{self, List};
use crate::links::{Links, Sampled};
use crate::passage::Passage;
use crate::shared::SharedWork;
use crate::vectors::{self, Filler, Key, Model, Progress, VectorCache};

/// Number of entries read from each list.
const DEPTH: usize = 100;
/// Number of top passages whose links are followed.
const HOP_FROM: usize = 5;
const HOPS_MAX: usize = 30;
/// Maximum number of titles matched in the question itself.
const SEEDS_MAX: usize = 10;
/// Cosine below which a passage is about something else; without it a greeting would find passages. Over the guide's 259 passages the nearest one to
/// greetings and questions about other things has at most .26, to questions about Baton .50 and more; to those of HotpotQA .36 and more.
const NEAR_MIN: f32 = 0.3;
/// Vectors and full text have equal weight; links have up to the same, where they proved useful.
const LINK_WEIGHT: f32 = 1.0;
/// A passage found by its title is either intended or a coincidence.
const SEED_WEIGHT: f32 = 0.5;
const QUESTION_BYTES_MAX: usize = 8 << 10;
const NO_SLOT: u32 = u32::MAX;
/// The file of a row that is deleted.
const NO_FILE: u32 = u32::MAX;

/// Passages of files, searchable by words and by vectors.
pub struct Corpus {
    full_text: FullText,
    cache: Arc<VectorCache>,
    model: Model,
    filler: Filler,
    now: RwLock<Arc<Snapshot>>,
    /// Serializes changes within this process; tantivy's lock does so between processes.
    changing: Mutex<()>,
}

/// Results, best first, and the lists that contributed.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The passages, best first.
    pub hits: Vec<Hit>,
    /// The ranked lists that were merged.
    pub lists: Vec<Used>,
}

/// A passage that a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// The file's name in the corpus.
    pub file: String,
    /// The passage.
    pub passage: Passage,
    /// When the file was last changed, in seconds since 1970.
    pub at: Option<i64>,
    /// 1 is first on every list.
    pub score: f32,
}

/// A list that contributed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Used {
    /// `words`, `vectors` and so on.
    pub name: &'static str,
    /// Its weight in the merged ranking.
    pub weight: f32,
    /// How many passages it had.
    pub found: usize,
}

/// Uncommitted changes.
pub struct Change<'a> {
    corpus: &'a Corpus,
    writer: Writer,
    _alone: std::sync::MutexGuard<'a, ()>,
}

/// Creates a folder and missing parents for this account only: an index contains the documents' text.
pub(crate) fn make_private(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

impl Corpus {
    /// Opens or creates the index in this folder. An unreadable one is created again: everything in it can be recomputed.
    pub fn open(folder: &Path, model: &Model) -> Result<Self, Error> {
        let text = folder.join("text");
        let make = |folder: &Path| make_private(folder).map_err(|error| Error::folder(folder, &error));
        make(&text)?;
        let cache = if model.is_wanted() {
            VectorCache::open(&folder.join("vectors")).map_err(|error| Error::folder(folder, &error))?
        } else {
            VectorCache::default()
        };
        let cache = Arc::new(cache);
        let opened = |text: &Path| {
            let full_text = FullText::open(text)?;
            Ok::<_, Error>((Arc::new(Snapshot::read(&full_text, &cache)?), full_text))
        };
        let (now, full_text) = match opened(&text) {
            Ok(opened) => opened,
            Err(error) => {
                tracing::warn!(%error, "the index in {} is created again", folder.display());
                std::fs::remove_dir_all(&text).map_err(|error| Error::folder(&text, &error))?;
                make(&text)?;
                opened(&text)?
            }
        };
        let filler = Filler::new(model.clone(), cache.clone());
        filler.fill(now.clone());
        Ok(Corpus { full_text, cache, model: model.clone(), filler, now: RwLock::new(now), changing: Mutex::new(()) })
    }

    /// Begins a change; other changes wait until it is committed or dropped.
    pub fn change(&self) -> Result<Change<'_>, Error> {
        let alone = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Change { corpus: self, writer: self.full_text.writer()?, _alone: alone })
    }

    pub(crate) fn share_vectors(&self, work: Arc<dyn SharedWork>) {
        self.filler.share(work);
    }

    /// How many passages there are.
    pub fn passages(&self) -> usize {
        self.now().rows.len()
    }

    /// The weight of links here, from 0 to 1.
    pub fn links_worth(&self) -> f32 {
        self.now().links.worth
    }

    /// The state of the vectors.
    pub fn progress(&self) -> Progress {
        self.filler.progress()
    }

    /// Blocks until the vectors are complete or have failed, or until the limit.
    pub fn wait(&self, limit: Duration) -> Progress {
        self.filler.wait(limit)
    }

    /// Never waits for passages' vectors: existing ones are used. The first question may wait for the weights.
    pub fn search(&self, question: &str, size: usize) -> Result<Answer, Error> {
        self.search_among(question, size, None)
    }

    /// The same among the files that `may_see` accepts. Other files are excluded before any list is cut, so they displace nothing.
    pub fn search_among(&self, question: &str, size: usize, may_see: Option<&dyn Fn(&str) -> bool>) -> Result<Answer, Error> {
        let question = cut(question);
        let now = self.now();
        let visible = may_see.map(|may_see| Arc::new(now.visible(may_see)));
        let is_visible = |row: u32| visible.as_ref().is_none_or(|visible| visible.get(row as usize).copied().unwrap_or(false));
        let search = || now.state.search(question, DEPTH, visible.as_ref());
        // Each takes several milliseconds and runs on its own core.
        let (found, vector) = match now.has_vectors() {
            true => self.model.ask_beside(question, search),
            false => (search(), None),
        };
        let mut lists = vec![List { name: "full text", weight: 1.0, rows: found? }];
        if let Some(vector) = vector {
            let rows: Vec<u32> = now.rows.iter().copied().filter(|row| is_visible(*row)).collect();
            let slots = rows.iter().filter_map(|row| Some((*row, now.slot(*row)?)));
            let scores = self.cache.scores(&vector, slots);
            // An incomplete list would penalize the rest, so its weight is its share.
            let weight = scores.len() as f32 / rows.len().max(1) as f32;
            let near = scores.into_iter().filter(|(_, cosine)| *cosine >= NEAR_MIN).collect();
            lists.push(List { name: "vectors", weight, rows: fuse::best(near, DEPTH) });
        }
        self.add_named_passages(&now, question, &is_visible, &mut lists)?;
        let mut hits = Vec::new();
        for (row, score) in fuse::fuse(&lists).into_iter().take(size) {
            let StoredPassage { file, at, passage } = now.state.kept(row)?;
            hits.push(Hit { file, passage, at, score });
        }
        let lists =
            lists.iter().filter(|list| list.weight > 0.0).map(|list| Used { name: list.name, weight: list.weight, found: list.rows.len() }).collect();
        Ok(Answer { hits, lists })
    }

    /// Adds passages named in the question, and those named by the best results so far.
    fn add_named_passages(&self, now: &Snapshot, question: &str, is_visible: &dyn Fn(u32) -> bool, lists: &mut Vec<List>) -> Result<(), Error> {
        let worth = now.links.worth;
        if worth <= 0.0 {
            return Ok(());
        }
        let by_itself: HashMap<u32, f32> = fuse::fuse(lists).into_iter().collect();
        let seeds = now
            .links
            .named(question)
            .into_iter()
            .filter(|named| is_visible(named.row))
            .map(|named| (named.row, named.words as f32 + by_itself.get(&named.row).copied().unwrap_or_default()));
        lists.push(List { name: "titles", weight: SEED_WEIGHT * worth, rows: fuse::best(seeds.collect(), SEEDS_MAX) });
        let so_far = fuse::fuse(lists);
        let scores: HashMap<u32, f32> = so_far.iter().copied().collect();
        let mut named: HashMap<u32, f32> = HashMap::new();
        for (place, (row, _)) in so_far.iter().take(HOP_FROM).enumerate() {
            let StoredPassage { file, passage, .. } = now.state.kept(*row)?;
            // A name shared by many passages counts less for each.
            let by_name = now.links.named(&passage.text).into_iter().map(|named| (named.row, 1.0 / (named.namesakes as f32).sqrt()));
            let written = passage.links.iter().filter_map(|link| Some((now.links.target(&file, link)?, 1.0)));
            let mut seen = Vec::new();
            for (target, sureness) in by_name.chain(written) {
                if target != *row && is_visible(target) && !seen.contains(&target) {
                    seen.push(target);
                    *named.entry(target).or_default() += sureness / (1.0 + place as f32);
                }
            }
        }
        // Which passages name it, and its own score.
        let scored = named.into_iter().map(|(row, by)| (row, by + scores.get(&row).copied().unwrap_or_default()));
        lists.push(List { name: "links", weight: LINK_WEIGHT * worth, rows: fuse::best(scored.collect(), HOPS_MAX) });
        Ok(())
    }

    fn now(&self) -> Arc<Snapshot> {
        self.now.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Change<'_> {
    /// Removes all passages of a file.
    pub fn remove(&mut self, file: &str) {
        self.writer.remove(file);
    }

    /// Replaces the content of this file. The time is its last change, in seconds since 1970.
    pub fn replace(&mut self, file: &str, at: Option<i64>, passages: Vec<Passage>) -> Result<(), Error> {
        self.writer.remove(file);
        for passage in passages {
            self.writer.add(&StoredPassage { file: file.into(), at, passage })?;
        }
        Ok(())
    }

    /// Durable and searchable when this returns; vectors follow later.
    pub fn commit(self) -> Result<(), Error> {
        self.writer.commit()?;
        let now = Arc::new(Snapshot::read(&self.corpus.full_text, &self.corpus.cache)?);
        *self.corpus.now.write().unwrap_or_else(PoisonError::into_inner) = now.clone();
        self.corpus.filler.fill(now);
        Ok(())
    }
}

/// One state of the index with its in-memory data.
struct Snapshot {
    state: State,
    /// Rows that are not deleted.
    rows: Vec<u32>,
    keys: HashMap<u32, Key>,
    /// The vector slot of each row, filled in over time.
    slots: Vec<AtomicU32>,
    links: Links,
    /// The files, and for each row the index of its file.
    files: Vec<String>,
    file_of: Vec<u32>,
}

impl Snapshot {
    fn read(full_text: &FullText, cache: &VectorCache) -> Result<Self, Error> {
        let state = full_text.state()?;
        let slots: Vec<AtomicU32> = (0..state.rows).map(|_| AtomicU32::new(NO_SLOT)).collect();
        let file_of = vec![NO_FILE; state.rows as usize];
        let mut now = Snapshot { state, rows: Vec::new(), keys: HashMap::new(), slots, links: Links::default(), files: Vec::new(), file_of };
        let mut links = Links::default();
        let Snapshot { state, rows, keys, slots, files, file_of, .. } = &mut now;
        let mut numbers: HashMap<String, u32> = HashMap::new();
        state.all(|row, StoredPassage { file, passage, .. }| {
            rows.push(row);
            file_of[row as usize] = *numbers.entry(file.clone()).or_insert_with(|| {
                files.push(file.clone());
                files.len() as u32 - 1
            });
            let key = vectors::key(&passage.meaning());
            keys.insert(row, key);
            if let Some(slot) = cache.slot(key) {
                slots[row as usize].store(slot, Ordering::Relaxed);
            }
            links.place(&file, None, row);
            if passage.part == 0 {
                links.name(&passage.title, row);
                if let Some(heading) = passage.headings.last() {
                    links.place(&file, Some(heading), row);
                }
            }
        })?;
        let mut text = |row: u32| now.state.kept(row).ok().map(|kept| kept.passage.text);
        let chosen = links.sample(&now.rows, &mut text);
        let sample = chosen.into_iter().map(|row| {
            let StoredPassage { passage, .. } = now.state.kept(row)?;
            Ok(Sampled { row, title: passage.title, text: passage.text })
        });
        let sample = sample.collect::<Result<Vec<_>, Error>>()?;
        links.measure(&sample, now.rows.len(), &|term| now.state.passages_with(term).unwrap_or_default());
        now.links = links;
        Ok(now)
    }

    /// For each row whether `may_see` accepts its file.
    fn visible(&self, may_see: &dyn Fn(&str) -> bool) -> Vec<bool> {
        let files: Vec<bool> = self.files.iter().map(|file| may_see(file)).collect();
        self.file_of.iter().map(|file| files.get(*file as usize).copied().unwrap_or(false)).collect()
    }

    fn slot(&self, row: u32) -> Option<u32> {
        let slot = self.slots[row as usize].load(Ordering::Relaxed);
        (slot != NO_SLOT).then_some(slot)
    }

    fn has_vectors(&self) -> bool {
        self.rows.iter().any(|row| self.slot(*row).is_some())
    }
}

impl vectors::Corpus for Snapshot {
    fn total(&self) -> usize {
        self.rows.len()
    }

    fn missing(&self) -> Vec<(u32, Key)> {
        self.rows.iter().filter(|row| self.slot(**row).is_none()).filter_map(|row| Some((*row, *self.keys.get(row)?))).collect()
    }

    fn text(&self, row: u32) -> Option<String> {
        self.state.kept(row).ok().map(|kept| kept.passage.meaning())
    }

    fn filled(&self, row: u32, slot: u32) {
        self.slots[row as usize].store(slot, Ordering::Relaxed);
    }
}

fn cut(question: &str) -> &str {
    let mut end = question.len().min(QUESTION_BYTES_MAX);
    while !question.is_char_boundary(end) {
        end -= 1;
    }
    &question[..end]
}
