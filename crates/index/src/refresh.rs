//! Keeps an index of folders up to date: only changed files are read again.
//!
//! A manifest beside the index has size, time and hash of each file. It is written after the index, so that an interruption repeats work
//! but loses nothing. Hidden files and those in `.gitignore` are skipped, links are not followed, and every other skipped file is reported
//! with the reason.
//!
//! ```text
//!   scan ─► small text: read here, one owner after the other ──────────┐
//!      └──► other files: on threads, as its turns allow ── result ─┴─► index ─► commit: at the end, and while long files are read
//! ```
//!
//! While files are being read, the folders are scanned again if they changed, so that new files do not wait for all of the others.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use ignore::WalkBuilder;
use serde::Serialize;
use sha2::{Digest, Sha256};
use turns::{Owner, Turn};

use crate::corpus::Change;
use crate::folder::{Folders, VERSION, read_bytes};
use crate::manifest::{Entry, FileStamp, Manifest};
use crate::read::{self, Skipped};
use crate::reading::ReadingLog;
use crate::shared::{PassageKey, SharedPassages};
use crate::{Error, Passage, chunk, vectors};

/// Passages between commits, so that an interrupted large folder keeps its progress.
const COMMIT_PASSAGES: usize = 50_000;
/// Time between commits while long files are read and nothing else is left to do.
const COMMIT_EVERY: Duration = Duration::from_millis(500);
/// Time between two scans, and how many times longer than the last scan took.
const SCAN_EVERY: Duration = Duration::from_millis(500);
const SCAN_SHARE: u32 = 20;
const POLL: Duration = Duration::from_millis(50);

/// Result of a refresh.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Files in the index.
    pub files: usize,
    /// Passages in the index.
    pub passages: usize,
    /// Files that were indexed for the first time.
    pub added: usize,
    /// Files that were indexed again because they changed.
    pub changed: usize,
    /// Files that were removed from the index.
    pub removed: usize,
    /// Files that did not change.
    pub unchanged: usize,
    /// Files that are not in the index, and why.
    pub skipped: BTreeMap<String, Skipped>,
    /// Files that are still to be read; none when a refresh is over.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub waiting: BTreeSet<String>,
}

/// Progress of a refresh.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step<'a> {
    /// Folders are listed.
    Looking {
        /// Files that were found so far.
        files: usize,
    },
    /// A file is read.
    Reading {
        /// Its path.
        file: &'a str,
        /// Files that were read before it.
        done: usize,
        /// Files to read in this refresh.
        total: usize,
    },
    /// The index is written.
    Writing,
}

/// Follows a refresh.
pub trait RefreshWatcher {
    /// Called at each step of the refresh.
    fn step(&mut self, _step: Step<'_>) {}

    /// Whether files may have changed since the last call.
    fn is_changed(&mut self) -> bool {
        false
    }

    /// Files that are not in `report.waiting` can be found now. Files that changed after `looked` are not in it.
    fn committed(&mut self, _looked: SystemTime, _report: &Report) {}
}

struct Steps<'a>(&'a mut dyn FnMut(Step<'_>));

impl RefreshWatcher for Steps<'_> {
    fn step(&mut self, step: Step<'_>) {
        (self.0)(step);
    }
}

impl Folders {
    /// Reads changed files. When this returns, all of them are in full text; vectors follow later.
    pub fn refresh(&self, on_step: &mut dyn FnMut(Step<'_>)) -> Result<Report, Error> {
        self.refresh_watched(&mut Steps(on_step))
    }

    /// The same, for a server: files that are added meanwhile are read too, and what is read can be found before the last file is.
    pub fn refresh_watched(&self, watcher: &mut dyn RefreshWatcher) -> Result<Report, Error> {
        let mut refresh = Refresh::new(self, watcher);
        refresh.look()?;
        if refresh.change.is_some() {
            // Only one process may change the index, so what is in this log was left by one that ended.
            let log = Mutex::new(ReadingLog::open(&self.home));
            refresh.read_suspects(&log)?;
            refresh.read_all(&log)?;
            refresh.commit(&log)?;
        }
        Ok(refresh.reported())
    }

    fn scan(&self, report: &mut Report, watcher: &mut dyn RefreshWatcher) -> BTreeMap<String, FileStamp> {
        let mut seen = BTreeMap::new();
        for root in &self.roots {
            let home = self.home.clone();
            let walk = WalkBuilder::new(root).require_git(false).git_global(false).filter_entry(move |entry| entry.path() != home).build();
            for entry in walk {
                let entry = match entry {
                    Ok(entry) => entry,
                    Err(error) => {
                        report.skipped.insert(error.to_string(), Skipped::Broken("the folder cannot be looked at".into()));
                        continue;
                    }
                };
                if !entry.file_type().is_some_and(|kind| kind.is_file()) {
                    continue;
                }
                let Some(name) = entry.path().to_str() else {
                    report.skipped.insert(entry.path().to_string_lossy().into_owned(), Skipped::Name);
                    continue;
                };
                if seen.len() >= self.limits.files_max {
                    report.skipped.insert(root.to_string_lossy().into_owned(), Skipped::TooMany { files_max: self.limits.files_max });
                    break;
                }
                // A file that was deleted meanwhile is skipped.
                if let Ok(about) = entry.metadata() {
                    seen.insert(name.to_owned(), FileStamp::of(&about));
                    if seen.len() % 1000 == 0 {
                        watcher.step(Step::Looking { files: seen.len() });
                    }
                }
            }
        }
        watcher.step(Step::Looking { files: seen.len() });
        seen
    }

    /// The same for files that are read in the same way: the title of a document may be its name.
    fn content_name(&self, path: &Path) -> String {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        format!("{VERSION}/{}/{name}", self.limits.file_passages_max)
    }

    fn owner_of(&self, file: &str) -> Owner {
        self.owned.as_ref().and_then(|owned| owned.owner_of(Path::new(file)))
    }

    /// The manifest entry of a file, and its passages if they changed.
    fn read_file(&self, file: &str, seen: FileStamp, known: Option<&Entry>, log: &Mutex<ReadingLog>) -> (Entry, Option<Vec<Passage>>) {
        let path = Path::new(file);
        let mut entry = Entry { size: seen.size, time: seen.time, is_settled: seen.is_settled(), hash: String::new(), skipped: None };
        let read = read_bytes(path, self.limits.file_bytes_max).and_then(|(bytes, _)| {
            entry.hash = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
            if known.is_some_and(|known| known.hash == entry.hash) {
                return Ok(None);
            }
            if lock(log).is_blocked(file, &entry.hash) {
                return Err(Skipped::Crashed("the program ended twice while it read this file".into()));
            }
            let is_small = read::is_small_text(path, bytes.len());
            let content = self.content_name(path);
            let work = self.shared.as_deref().filter(|_| self.owner_of(file).is_some());
            // Small text is read sooner than another server could be waited for.
            let ours = match work.map_or(SharedPassages::Unshared, |work| work.passages(&entry.hash, &content, !is_small)) {
                SharedPassages::Known(passages) => return Ok(Some(passages)),
                SharedPassages::Ours => work,
                SharedPassages::Unshared => None,
            };
            let begun = lock(log).begin(file, &entry.hash, !is_small);
            begun.map_err(|error| Skipped::NoReader(error.to_string()))?;
            let document = self.reader.read(path, bytes, self.read_limits());
            lock(log).end(file);
            let passages = document.map(|document| chunk::passages(document, self.limits.file_passages_max));
            match (ours, &passages) {
                (Some(work), Ok(passages)) => {
                    let keys: Vec<PassageKey> = passages.iter().map(|passage| vectors::key(&passage.meaning())).collect();
                    work.keep_passages(&entry.hash, &content, passages, &keys);
                }
                (Some(work), Err(_)) => work.release_passages(&entry.hash, &content),
                (None, _) => {}
            }
            passages.map(Some)
        });
        match read {
            Ok(Some(passages)) => (entry, Some(passages)),
            Ok(None) => {
                entry.skipped = known.and_then(|known| known.skipped.clone());
                (entry, None)
            }
            Err(why) => {
                if matches!(why, Skipped::NoReader(_) | Skipped::NotBuilt) {
                    // Not settled, so that it is tried again.
                    entry = Entry { is_settled: false, hash: String::new(), ..entry };
                }
                entry.skipped = Some(why);
                (entry, None)
            }
        }
    }
}

fn lock(log: &Mutex<ReadingLog>) -> MutexGuard<'_, ReadingLog> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Files to be read, by owner.
#[derive(Default)]
struct Queue {
    files: BTreeMap<Owner, VecDeque<(String, FileStamp)>>,
    count: usize,
    /// The owner of the file that was taken last.
    last: Owner,
}

impl Queue {
    fn push(&mut self, owner: Owner, file: String, stamp: FileStamp) {
        self.files.entry(owner).or_default().push_back((file, stamp));
        self.count += 1;
    }

    fn pop_of(&mut self, owner: &Owner) -> Option<(String, FileStamp)> {
        let files = self.files.get_mut(owner)?;
        let file = files.pop_front();
        self.count -= usize::from(file.is_some());
        if files.is_empty() {
            self.files.remove(owner);
        }
        file
    }

    /// One file of each owner in turn.
    fn pop(&mut self) -> Option<(String, FileStamp)> {
        let after = self.files.range((Bound::Excluded(&self.last), Bound::Unbounded)).next().or_else(|| self.files.iter().next());
        let owner = after?.0.clone();
        self.last.clone_from(&owner);
        self.pop_of(&owner)
    }

    fn remove(&mut self, file: &str) {
        self.files.retain(|_, files| {
            files.retain(|(queued, _)| queued != file);
            !files.is_empty()
        });
        self.count = self.files.values().map(VecDeque::len).sum();
    }

    fn names(&self) -> impl Iterator<Item = &String> {
        self.files.values().flatten().map(|(file, _)| file)
    }
}

/// What was read of a file.
struct Read {
    file: String,
    stamp: FileStamp,
    entry: Entry,
    passages: Option<Vec<Passage>>,
}

struct Refresh<'a, 'w> {
    folders: &'a Folders,
    watcher: &'w mut dyn RefreshWatcher,
    report: Report,
    /// The last scan: what was there, when it began, how long it took.
    seen: BTreeMap<String, FileStamp>,
    looked: SystemTime,
    look_again_at: Instant,
    manifest: Manifest,
    change: Option<Change<'a>>,
    /// Files and passages since the last commit, and when that was.
    files_pending: usize,
    passages_pending: usize,
    committed: Instant,
    small: Queue,
    large: Queue,
    /// On threads.
    reading: BTreeSet<String>,
    done: usize,
}

impl<'a, 'w> Refresh<'a, 'w> {
    fn new(folders: &'a Folders, watcher: &'w mut dyn RefreshWatcher) -> Refresh<'a, 'w> {
        let manifest = folders.manifest().clone();
        Refresh {
            folders,
            watcher,
            report: Report::default(),
            seen: BTreeMap::new(),
            looked: SystemTime::now(),
            look_again_at: Instant::now(),
            manifest,
            change: None,
            files_pending: 0,
            passages_pending: 0,
            committed: Instant::now(),
            small: Queue::default(),
            large: Queue::default(),
            reading: BTreeSet::new(),
            done: 0,
        }
    }

    /// Scans the folders, removes what is gone, and queues what changed.
    fn look(&mut self) -> Result<(), Error> {
        let begun = Instant::now();
        self.looked = SystemTime::now();
        self.report.skipped.clear();
        self.seen = self.folders.scan(&mut self.report, &mut *self.watcher);
        (self.small, self.large) = (Queue { last: self.small.last.take(), ..Queue::default() }, Queue::default());
        let mut stale = 0;
        for (file, stamp) in &self.seen {
            if self.reading.contains(file) || self.manifest.is_current(file, stamp) {
                continue;
            }
            stale += 1;
            let owner = self.folders.owner_of(file);
            let is_small = read::is_small_text(Path::new(file), usize::try_from(stamp.size).unwrap_or(usize::MAX));
            let queue = if is_small { &mut self.small } else { &mut self.large };
            queue.push(owner, file.clone(), *stamp);
        }
        self.report.unchanged = self.seen.len() - stale - self.reading.len().min(self.seen.len() - stale);
        let gone: Vec<String> = self.manifest.files.keys().filter(|file| !self.seen.contains_key(*file)).cloned().collect();
        if !gone.is_empty() || stale > 0 {
            let change = self.changing()?;
            gone.iter().for_each(|file| change.remove(file));
            self.files_pending += gone.len();
        }
        for file in gone {
            let was = self.manifest.files.remove(&file);
            self.report.removed += usize::from(was.is_some_and(|was| was.skipped.is_none()));
        }
        self.look_again_at = Instant::now() + SCAN_EVERY.max(begun.elapsed() * SCAN_SHARE);
        Ok(())
    }

    fn changing(&mut self) -> Result<&mut Change<'a>, Error> {
        match &mut self.change {
            Some(change) => Ok(change),
            none => Ok(none.insert(self.folders.corpus.change()?)),
        }
    }

    /// Files that were being read when the process ended: one at a time, so that a second end shows which of them it was.
    fn read_suspects(&mut self, log: &Mutex<ReadingLog>) -> Result<(), Error> {
        let files: Vec<String> = self.small.names().chain(self.large.names()).filter(|file| lock(log).is_suspect(file)).cloned().collect();
        for file in files {
            let Some(stamp) = self.seen.get(&file).copied() else { continue };
            self.small.remove(&file);
            self.large.remove(&file);
            self.read_here(file, stamp, log)?;
        }
        Ok(())
    }

    fn read_all(&mut self, log: &Mutex<ReadingLog>) -> Result<(), Error> {
        let (sender, results) = channel();
        std::thread::scope(|scope| {
            loop {
                if Instant::now() >= self.look_again_at && self.watcher.is_changed() {
                    self.look()?;
                }
                while let Some((file, stamp, turn)) = self.next_large() {
                    let (folders, known, sender) = (self.folders, self.manifest.files.get(&file).cloned(), sender.clone());
                    self.reading.insert(file.clone());
                    scope.spawn(move || read_on_thread(folders, file, stamp, known.as_ref(), log, turn, &sender));
                }
                if let Some((file, stamp)) = self.small.pop() {
                    self.read_here(file, stamp, log)?;
                } else if self.reading.is_empty() && self.large.files.is_empty() {
                    return Ok(());
                } else {
                    if self.files_pending > 0 && self.committed.elapsed() >= COMMIT_EVERY {
                        self.commit(log)?;
                    }
                    if let Ok(read) = results.recv_timeout(POLL) {
                        self.take(read, log)?;
                    }
                }
                while let Ok(read) = results.try_recv() {
                    self.take(read, log)?;
                }
            }
        })
    }

    /// The next file to be read on a thread: of the owner who used the readers least.
    fn next_large(&mut self) -> Option<(String, FileStamp, Turn)> {
        let turns = &self.folders.turns;
        let mut owners: Vec<(Duration, &Owner)> = self.large.files.keys().map(|owner| (turns.used(owner), owner)).collect();
        owners.sort_unstable();
        let (owner, turn) = owners.into_iter().find_map(|(_, owner)| Some((owner.clone(), turns.try_take(owner)?)))?;
        let (file, stamp) = self.large.pop_of(&owner)?;
        self.report_reading(&file);
        Some((file, stamp, turn))
    }

    fn read_here(&mut self, file: String, stamp: FileStamp, log: &Mutex<ReadingLog>) -> Result<(), Error> {
        self.report_reading(&file);
        let (entry, passages) = self.folders.read_file(&file, stamp, self.manifest.files.get(&file), log);
        self.take(Read { file, stamp, entry, passages }, log)
    }

    fn report_reading(&mut self, file: &str) {
        let total = self.done + self.reading.len() + self.small.count + self.large.count + 1;
        self.watcher.step(Step::Reading { file, done: self.done, total });
    }

    fn take(&mut self, read: Read, log: &Mutex<ReadingLog>) -> Result<(), Error> {
        let Read { file, stamp, entry, passages } = read;
        self.reading.remove(&file);
        self.done += 1;
        // It was deleted while it was read.
        let Some(seen) = self.seen.get(&file).copied() else { return Ok(()) };
        if seen != stamp {
            self.large.push(self.folders.owner_of(&file), file.clone(), seen);
        }
        let known = self.manifest.files.get(&file);
        match (known.filter(|known| known.skipped.is_none()), &passages) {
            (Some(known), None) if known.hash == entry.hash => self.report.unchanged += 1,
            (Some(_), Some(_)) => self.report.changed += 1,
            (None, Some(_)) => self.report.added += 1,
            (Some(_), None) => self.report.removed += 1,
            (None, None) => {}
        }
        self.files_pending += 1;
        if let Some(passages) = passages {
            self.passages_pending += passages.len();
            self.changing()?.replace(&file, seen.seconds(), passages)?;
        } else if entry.skipped.is_some() {
            self.changing()?.remove(&file);
        }
        self.manifest.files.insert(file, entry);
        if self.passages_pending > COMMIT_PASSAGES { self.commit(log) } else { Ok(()) }
    }

    fn commit(&mut self, log: &Mutex<ReadingLog>) -> Result<(), Error> {
        let home = &self.folders.home;
        self.watcher.step(Step::Writing);
        lock(log).save().map_err(|error| Error::folder(home, &error))?;
        if let Some(change) = self.change.take() {
            change.commit()?;
        }
        self.manifest.write(home).map_err(|error| Error::folder(home, &error))?;
        *self.folders.manifest() = self.manifest.clone();
        (self.files_pending, self.passages_pending, self.committed) = (0, 0, Instant::now());
        let report = self.reported();
        self.watcher.committed(self.looked, &report);
        Ok(())
    }

    fn reported(&self) -> Report {
        let mut report = self.report.clone();
        let files = &self.manifest.files;
        report.skipped.extend(files.iter().filter_map(|(file, entry)| Some((file.clone(), entry.skipped.clone()?))));
        report.files = files.values().filter(|entry| entry.skipped.is_none()).count();
        report.passages = self.folders.corpus.passages();
        report.waiting = self.small.names().chain(self.large.names()).chain(&self.reading).cloned().collect();
        report
    }
}

fn read_on_thread(
    folders: &Folders,
    file: String,
    stamp: FileStamp,
    known: Option<&Entry>,
    log: &Mutex<ReadingLog>,
    turn: Turn,
    results: &Sender<Read>,
) {
    let read = catch_unwind(AssertUnwindSafe(|| folders.read_file(&file, stamp, known, log)));
    let (entry, passages) = read.unwrap_or_else(|_| {
        let skipped = Some(Skipped::Crashed("the program failed while it read this file".into()));
        (Entry { size: stamp.size, time: stamp.time, is_settled: stamp.is_settled(), hash: String::new(), skipped }, None)
    });
    drop(turn);
    // The refresh may have failed meanwhile.
    let _ = results.send(Read { file, stamp, entry, passages });
}

impl Report {
    /// Number of skipped files per reason, most frequent first.
    pub fn reasons(&self) -> Vec<(String, usize)> {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for skipped in self.skipped.values() {
            *counts.entry(skipped.to_string()).or_default() += 1;
        }
        let mut reasons: Vec<(String, usize)> = counts.into_iter().collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        reasons
    }
}
