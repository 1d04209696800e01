//! An index of folders: searching in it, and reading the files that are in it. [`crate::refresh`] keeps it up to date.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use turns::{TurnLimits, Turns};

use crate::Error;
use crate::corpus::{Answer, Corpus};
use crate::manifest::{FileStamp, Manifest};
use crate::owned::OwnedFolder;
use crate::passage::Location;
use crate::read::{ReadLimits, Skipped};
use crate::reader::{InProcess, Reader};
use crate::shared::SharedWork;
use crate::unused::InUse;
use crate::vectors::{Model, Progress};

/// Changed when reading or splitting changes: everything is read again.
pub(crate) const VERSION: u32 = 1;

/// Limits of an index of folders.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Files of all folders together.
    pub files_max: usize,
    /// Bytes of one file.
    pub file_bytes_max: u64,
    /// Passages of one file; the rest of the file is not indexed.
    pub file_passages_max: usize,
    /// For one file; small text files have no time limit.
    pub file_time_max: Duration,
    /// Bytes of an excerpt.
    pub excerpt_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            files_max: 200_000,
            file_bytes_max: 32 << 20,
            file_passages_max: 5_000,
            file_time_max: Duration::from_secs(30),
            excerpt_bytes_max: 64 << 10,
        }
    }
}

/// How long a request waits for a reader.
const READER_WAIT_MAX: Duration = Duration::from_secs(60);
/// Requests of one owner that wait for a reader. Each blocks a thread, so there are few.
const READER_WAITING_MAX: usize = 8;

fn reader_turns(at_once_max: usize) -> Arc<Turns> {
    Turns::new(TurnLimits { waiting_max: READER_WAITING_MAX, ..TurnLimits::one_each(at_once_max) })
}

/// An index of the files in folders.
pub struct Folders {
    pub(crate) roots: Vec<PathBuf>,
    pub(crate) home: PathBuf,
    pub(crate) corpus: Corpus,
    pub(crate) manifest: Mutex<Manifest>,
    pub(crate) limits: Limits,
    /// The root in which each file belongs to one user, if there is one.
    pub(crate) owned: Option<OwnedFolder>,
    pub(crate) reader: Arc<dyn Reader>,
    pub(crate) turns: Arc<Turns>,
    /// Work shared with other servers, for files that have an owner.
    pub(crate) shared: Option<Arc<dyn SharedWork>>,
    _in_use: InUse,
}

/// A part of one file.
#[derive(Clone, Debug, PartialEq)]
pub struct Excerpt {
    /// The path of the file.
    pub file: String,
    /// The part as text.
    pub text: String,
    /// Where the part is.
    pub place: Location,
    /// Number of lines, pages or paragraphs.
    pub total: u32,
    /// When the file was last changed, in seconds since 1970.
    pub at: Option<i64>,
    /// Whether the part ends early because of its limit.
    pub is_cut: bool,
}

impl Folders {
    /// Opens the index of these folders or files as of the last refresh. The index is stored in `home`.
    pub fn open(roots: &[PathBuf], home: &Path, model: &Model, limits: Limits) -> Result<Self, Error> {
        let mut real = Vec::new();
        for root in roots {
            let root = fs::canonicalize(root).map_err(|error| Error::folder(root, &error))?;
            if !root.is_dir() && !root.is_file() {
                return Err(Error::Folder { folder: root, why: "it is neither a folder nor a file".into() });
            }
            real.push(root);
        }
        crate::corpus::make_private(home).map_err(|error| Error::folder(home, &error))?;
        let home = fs::canonicalize(home).map_err(|error| Error::folder(home, &error))?;
        let in_use = InUse::mark(&home).map_err(|error| Error::folder(&home, &error))?;
        let manifest = Manifest::read(&home);
        if manifest.version != VERSION {
            // Without a manifest, the index may be of another version.
            let _ = fs::remove_dir_all(home.join("text"));
        }
        let corpus = Corpus::open(&home, model)?;
        let manifest = if corpus.passages() == 0 { Manifest::default() } else { manifest };
        Ok(Folders {
            roots: real,
            home,
            corpus,
            manifest: Mutex::new(Manifest { version: VERSION, ..manifest }),
            limits,
            owned: None,
            reader: Arc::new(InProcess),
            turns: reader_turns(InProcess.at_once_max()),
            shared: None,
            _in_use: in_use,
        })
    }

    /// Files below this folder are visible to their owner only.
    #[must_use]
    pub fn with_owned(mut self, owned: OwnedFolder) -> Self {
        self.owned = Some(owned);
        self
    }

    /// Files with an owner are read, and their vectors computed, by one of several servers that have them.
    #[must_use]
    pub fn with_shared_work(mut self, work: Arc<dyn SharedWork>) -> Self {
        self.corpus.share_vectors(work.clone());
        self.shared = Some(work);
        self
    }

    /// Untrusted files are parsed by `reader`, not in this process.
    #[must_use]
    pub fn with_reader(self, reader: Arc<dyn Reader>) -> Self {
        Folders { turns: reader_turns(reader.at_once_max()), reader, ..self }
    }

    /// Searches the files without an owner.
    pub fn search(&self, question: &str, size: usize) -> Result<Answer, Error> {
        self.search_for(None, question, size)
    }

    /// Searches the files that a user may see.
    pub fn search_for(&self, user: Option<&str>, question: &str, size: usize) -> Result<Answer, Error> {
        match &self.owned {
            None => self.corpus.search(question, size),
            Some(owned) => self.corpus.search_among(question, size, Some(&|file| owned.may_see(user, Path::new(file)))),
        }
    }

    /// Reads a file without an owner; see [`Folders::read_for`].
    pub fn read(&self, file: &str, from: Option<u32>, to: Option<u32>) -> Result<Excerpt, Error> {
        self.read_for(None, file, from, to)
    }

    /// Lines (pages of a PDF, paragraphs of a DOCX) of an indexed file that a user may see, counted from one, inclusive.
    pub fn read_for(&self, user: Option<&str>, file: &str, from: Option<u32>, to: Option<u32>) -> Result<Excerpt, Error> {
        let path = self.find(user, file)?;
        let name = path.to_string_lossy().into_owned();
        let broken = |why: String| Error::NotHere(format!("{name} cannot be read: {why}"));
        let (bytes, seen) = read_bytes(&path, self.limits.file_bytes_max).map_err(|skipped| broken(skipped.to_string()))?;
        let from = from.unwrap_or(1).max(1);
        let (total, parts) = self.parts(user, &path, bytes, from).map_err(|skipped| broken(skipped.to_string()))?;
        let to = to.unwrap_or(u32::MAX).min(total);
        if from > to {
            return Err(Error::NotHere(format!("{name} ends at {total}; there is nothing from {from}")));
        }
        let mut text = String::new();
        let mut last = from;
        let mut is_cut = false;
        for (number, part) in parts.iter().filter(|(number, _)| (from..=to).contains(number)) {
            if text.len() + part.len() > self.limits.excerpt_bytes_max {
                is_cut = true;
                if text.is_empty() {
                    text.extend(part.chars().take(self.limits.excerpt_bytes_max / 4));
                }
                break;
            }
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(part);
            last = *number;
        }
        let place = match path.extension().map(|ending| ending.to_string_lossy().to_lowercase()).as_deref() {
            Some("pdf") if from == last => Location::Page(from),
            Some("docx" | "docm") => Location::Paragraphs(from, last),
            _ => Location::Lines(from, last),
        };
        Ok(Excerpt { file: name, text, place, total, at: seen.seconds(), is_cut })
    }

    /// The folders that are indexed.
    pub fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    /// Files that can be found, and passages in them.
    pub fn size(&self) -> (usize, usize) {
        (self.manifest().files.values().filter(|entry| entry.skipped.is_none()).count(), self.corpus.passages())
    }

    /// The weight of links between passages here, from 0 to 1.
    pub fn links_worth(&self) -> f32 {
        self.corpus.links_worth()
    }

    /// The state of the vectors.
    pub fn progress(&self) -> Progress {
        self.corpus.progress()
    }

    /// Blocks until the vectors are complete or have failed, or until the limit.
    pub fn wait(&self, limit: Duration) -> Progress {
        self.corpus.wait(limit)
    }

    pub(crate) fn read_limits(&self) -> ReadLimits {
        ReadLimits { bytes_max: self.limits.file_bytes_max, time_max: self.limits.file_time_max }
    }

    /// An indexed file that the user may see, by its full path or by the path below a root. Nothing else can be read, and another user's
    /// file is reported as missing.
    fn find(&self, user: Option<&str>, file: &str) -> Result<PathBuf, Error> {
        let manifest = self.manifest();
        let is_known = |path: &Path| path.to_str().is_some_and(|name| manifest.files.get(name).is_some_and(|entry| entry.skipped.is_none()));
        let may_see = |path: &Path| self.owned.as_ref().is_none_or(|owned| owned.may_see(user, path));
        let missing = || Error::NotHere(format!("there is no {file:?} among the indexed files; use a path that a search gave"));
        let wanted = Path::new(file);
        let shared = self.roots.iter().filter(|root| self.owned.as_ref().is_none_or(|owned| owned.folder() != root.as_path())).cloned();
        let own = user.and_then(|user| self.owned.as_ref().map(|owned| owned.folder_of(user)));
        let candidates = std::iter::once(wanted.to_owned()).chain(shared.chain(own).map(|root| root.join(wanted)));
        let path = candidates.into_iter().find(|path| is_known(path) && may_see(path)).ok_or_else(missing)?;
        // It may have become a link since it was indexed.
        let real = fs::canonicalize(&path).map_err(|_| missing())?;
        if !self.roots.iter().any(|root| real.starts_with(root)) || !is_known(&real) {
            return Err(Error::NotHere(format!("{} leads out of the folders", path.display())));
        }
        if may_see(&real) { Ok(real) } else { Err(missing()) }
    }

    /// The number of lines, pages or paragraphs of a file, and those starting at `from`, up to about the size of an excerpt.
    fn parts(&self, user: Option<&str>, path: &Path, bytes: Vec<u8>, from: u32) -> Result<(u32, Vec<(u32, String)>), Skipped> {
        if let Ok(text) = std::str::from_utf8(&bytes) {
            let total = u32::try_from(text.lines().count()).unwrap_or(u32::MAX);
            let mut left = self.limits.excerpt_bytes_max + 2;
            let lines = (1..).zip(text.lines()).skip(from as usize - 1).take_while(|(_, line)| {
                let is_wanted = left > 0;
                left = left.saturating_sub(line.len() + 1);
                is_wanted
            });
            return Ok((total, lines.map(|(number, line)| (number, line.to_owned())).collect()));
        }
        let mut parts: BTreeMap<u32, String> = BTreeMap::new();
        // A user with many long documents waits behind their own.
        let reader_of = user.and_then(|user| self.owned.as_ref().map(|owned| owned.name_of(user)));
        let turn = self.turns.take_blocking(reader_of, READER_WAIT_MAX);
        let _turn = turn.ok_or_else(|| Skipped::NoReader("too many documents are being read; try again later".into()))?;
        for block in self.reader.read(path, bytes, self.read_limits())?.blocks {
            let number = match block.place {
                Some(Location::Page(number) | Location::Paragraphs(number, _) | Location::Lines(number, _)) => number,
                None => 1,
            };
            let part = parts.entry(number).or_default();
            if !part.is_empty() {
                part.push('\n');
            }
            part.push_str(&block.text);
        }
        let total = parts.keys().next_back().copied().unwrap_or(0);
        Ok((total, parts.into_iter().collect()))
    }

    pub(crate) fn manifest(&self) -> MutexGuard<'_, Manifest> {
        self.manifest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn read_bytes(path: &Path, bytes_max: u64) -> Result<(Vec<u8>, FileStamp), Skipped> {
    let broken = |error: std::io::Error| Skipped::Broken(error.to_string());
    let file = File::open(path).map_err(broken)?;
    let about = file.metadata().map_err(broken)?;
    if about.len() > bytes_max {
        return Err(Skipped::TooLarge { bytes_max });
    }
    let mut bytes = Vec::new();
    // It may grow while it is read.
    file.take(bytes_max + 1).read_to_end(&mut bytes).map_err(broken)?;
    if bytes.len() as u64 > bytes_max { Err(Skipped::TooLarge { bytes_max }) } else { Ok((bytes, FileStamp::of(&about))) }
}
