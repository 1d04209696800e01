//! The documents of a server: its configured folders, and each user's uploads, in one index that is kept up to date.
//!
//! Every user has a folder below `uploads`. The index keeps other users from finding or reading its files ([`index::OwnedFolder`]).

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use graph::UserId;
use index::{Error, Folders, Location, OwnedFolder, RefreshWatcher, Report, State};
use server::problem::{Problem, StatusCode};
use store::Store;
use wire::api;

use crate::caches;
use crate::error::{Result, ServiceError};
use crate::private;
use crate::shared_uploads::SharedUploads;
use crate::shared_work::StoreWork;
use crate::uploads::{self, folder_name};

/// Limits of one user's uploads.
const FILES_MAX: usize = 1_000;
/// Another process may be indexing the same folders.
const BUSY_FOR: Duration = Duration::from_secs(1);
const TRIES_MAX: u32 = 60;

#[derive(Clone)]
pub(crate) struct Library(Arc<Inner>);

struct Inner {
    folders: Arc<Folders>,
    /// The configured ones.
    named: Vec<PathBuf>,
    uploads: PathBuf,
    kept: UploadLimits,
    /// Where several servers share the uploads.
    shared: Option<SharedUploads>,
    looked: Mutex<LastRefresh>,
    wanted: tokio::sync::Notify,
    /// Something was uploaded or deleted since the folders were scanned.
    is_changed: AtomicBool,
}

impl Inner {
    fn want_refresh(&self) {
        self.is_changed.store(true, Ordering::SeqCst);
        self.wanted.notify_one();
    }
}

/// What is kept of what users upload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UploadLimits {
    /// Bytes that one user may have uploaded.
    pub(crate) bytes_max: u64,
    /// Older files are deleted.
    pub(crate) age_max: Option<Duration>,
}

/// The last refresh.
#[derive(Default)]
struct LastRefresh {
    /// Its start; files older than that were seen.
    began: Option<SystemTime>,
    report: Report,
    trouble: Option<String>,
}

impl Library {
    /// Reads the folders for the first time in the background.
    pub(crate) fn open(named: &[PathBuf], uploads: &Path, kept: UploadLimits, store: Arc<dyn Store>) -> Result<Library> {
        private::make_folder(uploads).map_err(|error| ServiceError::Folder(format!("the folder {} cannot be made: {error}", uploads.display())))?;
        let uploads = uploads.canonicalize()?;
        let roots: Vec<PathBuf> = named.iter().cloned().chain([uploads.clone()]).collect();
        let owned = OwnedFolder::new(&uploads, folder_name).map_err(|error| ServiceError::Folder(error.to_string()))?;
        let folders = caches::open_folders(&roots)?.with_owned(owned);
        let folders = Arc::new(match StoreWork::of(&store) {
            Some(work) => folders.with_shared_work(work),
            None => folders,
        });
        let shared = SharedUploads::open(store, &uploads).map_err(|error| {
            ServiceError::Folder(format!("the list of shared uploads in {} cannot be read: {error}; remove .shared.json there", uploads.display()))
        })?;
        let (looked, wanted) = (Mutex::default(), tokio::sync::Notify::new());
        let inner = Arc::new(Inner { folders, named: named.to_vec(), uploads, kept, shared, looked, wanted, is_changed: AtomicBool::new(false) });
        inner.want_refresh();
        if inner.shared.is_some() {
            tokio::spawn(keep_copy(Arc::downgrade(&inner)));
        }
        tokio::spawn(refresh_loop(Arc::downgrade(&inner)));
        if let Some(age_max) = kept.age_max {
            tokio::spawn(expire(Arc::downgrade(&inner), age_max));
        }
        Ok(Library(inner))
    }

    pub(crate) fn folders(&self) -> &Arc<Folders> {
        &self.0.folders
    }

    /// The folder of uploads.
    pub(crate) fn uploads(&self) -> &Path {
        &self.0.uploads
    }

    /// Whether this user has any documents.
    pub(crate) fn has_any(&self, user: &UserId) -> bool {
        !self.0.named.is_empty() || fs::read_dir(self.folder(user)).is_ok_and(|mut files| files.next().is_some())
    }

    pub(crate) fn list(&self, user: &UserId) -> api::Documents {
        let mut found = Vec::new();
        for entry in fs::read_dir(self.folder(user)).into_iter().flatten().flatten() {
            let (Ok(about), Some(name)) = (entry.metadata(), entry.file_name().to_str().map(str::to_owned)) else { continue };
            if !name.starts_with('.') && about.is_file() {
                found.push((entry, about, name));
            }
        }
        let looked = self.0.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let mut files = Vec::with_capacity(found.len());
        for (entry, about, name) in found {
            let written = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let path = entry.path();
            let path = path.to_str().unwrap_or_default();
            let skipped = looked.report.skipped.get(path);
            let is_read = looked.began.is_some_and(|began| began > written) && !looked.report.waiting.contains(path);
            let (state, why) = match (is_read, skipped) {
                (false, _) => (api::DocumentState::Waiting, looked.trouble.clone()),
                (true, Some(why)) => (api::DocumentState::Failed, Some(why.to_string())),
                (true, None) => (api::DocumentState::Indexed, None),
            };
            let updated_ms = written.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX));
            files.push(api::Document { name, bytes: about.len(), updated_ms, state, why });
        }
        let is_looked_at = looked.began.is_some();
        drop(looked);
        files.sort_by(|a, b| b.updated_ms.cmp(&a.updated_ms).then_with(|| a.name.cmp(&b.name)));
        let progress = self.0.folders.progress();
        let index = api::Index {
            passages: self.0.folders.size().1 as u64,
            vectors: progress.done as u64,
            is_filling: !is_looked_at || matches!(progress.state, State::Loading | State::Filling),
        };
        api::Documents { folders: self.0.named.iter().map(|folder| folder.display().to_string()).collect(), files, index }
    }

    /// Stores a file with a valid name, replacing one of the same name.
    pub(crate) async fn put(&self, user: &UserId, name: &str, bytes: Vec<u8>) -> std::result::Result<api::Uploaded, Problem> {
        if !is_readable(name, &bytes) {
            let words = "that is neither text nor PDF nor DOCX, and could not be read; Markdown, text, HTML, PDF, DOCX and source code can";
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "invalid", words));
        }
        let Some(shared) = &self.0.shared else {
            let (library, user, name) = (self.clone(), user.clone(), name.to_owned());
            return blocking(move || library.put_here(&user, &name, &bytes)).await;
        };
        match shared.put(user, name, &bytes, FILES_MAX as u64, self.0.kept.bytes_max).await? {
            true => {
                self.0.want_refresh();
                Ok(api::Uploaded { name: name.to_owned(), bytes: bytes.len() as u64 })
            }
            false => Err(self.too_much()),
        }
    }

    fn too_much(&self) -> Problem {
        let words = format!("at most {FILES_MAX} files and {} bytes; delete some first (uploads_bytes_max of the server)", self.0.kept.bytes_max);
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "limit", words)
    }

    fn put_here(&self, user: &UserId, name: &str, bytes: &[u8]) -> std::result::Result<api::Uploaded, Problem> {
        let folder = self.folder(user);
        let failed = |error: std::io::Error| Problem::internal(&format!("{}: {error}", folder.display()));
        private::make_folder(&folder).map_err(failed)?;
        let others: Vec<u64> = fs::read_dir(&folder)
            .map_err(failed)?
            .flatten()
            .filter(|entry| entry.file_name() != *name)
            .filter_map(|entry| entry.metadata().ok().map(|about| about.len()))
            .collect();
        if others.len() >= FILES_MAX || others.iter().sum::<u64>() + bytes.len() as u64 > self.0.kept.bytes_max {
            return Err(self.too_much());
        }
        // Atomic; the index ignores hidden files.
        let mut file = tempfile::Builder::new().prefix(".upload-").tempfile_in(&folder).map_err(failed)?;
        file.write_all(bytes).map_err(failed)?;
        file.persist(folder.join(name)).map_err(|error| failed(error.error))?;
        self.0.want_refresh();
        Ok(api::Uploaded { name: name.to_owned(), bytes: bytes.len() as u64 })
    }

    pub(crate) fn read(&self, user: &UserId, name: &str) -> std::result::Result<Vec<u8>, Problem> {
        fs::read(self.folder(user).join(name)).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Problem::not_found("document"),
            _ => Problem::internal(&error),
        })
    }

    /// The text of a document as it is indexed, from one line (page, paragraph) on, up to the limit of an excerpt.
    pub(crate) fn text(&self, user: &UserId, name: &str, from: u32) -> std::result::Result<api::DocumentText, Problem> {
        let path = self.folder(user).join(name);
        if !path.is_file() {
            return Err(Problem::not_found("document"));
        }
        let address = path.to_string_lossy();
        let read = self.0.folders.read_for(Some(user.as_str()), &address, Some(from), None);
        // Users see the name that they gave, not the path on the server.
        let read = read.map_err(|error| Problem::invalid(error.to_string().replace(&*address, name)))?;
        let (from, to) = match read.place {
            Location::Page(page) => (page, page),
            Location::Lines(from, to) | Location::Paragraphs(from, to) => (from, to),
        };
        Ok(api::DocumentText { name: name.to_owned(), text: read.text, from, to, total: read.total })
    }

    pub(crate) async fn remove(&self, user: &UserId, name: &str) -> std::result::Result<(), Problem> {
        let Some(shared) = &self.0.shared else {
            let (library, user, name) = (self.clone(), user.clone(), name.to_owned());
            return blocking(move || library.remove_here(&user, &name)).await;
        };
        match shared.remove(user, name).await? {
            true => {
                self.0.want_refresh();
                Ok(())
            }
            false => Err(Problem::not_found("document")),
        }
    }

    fn remove_here(&self, user: &UserId, name: &str) -> std::result::Result<(), Problem> {
        match fs::remove_file(self.folder(user).join(name)) {
            Ok(()) => {
                self.0.want_refresh();
                Ok(())
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(Problem::not_found("document")),
            Err(error) => Err(Problem::internal(&error)),
        }
    }

    fn folder(&self, user: &UserId) -> PathBuf {
        self.0.uploads.join(folder_name(user.as_str()))
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> std::result::Result<T, Problem> + Send + 'static) -> std::result::Result<T, Problem> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(Problem::internal(&error)))
}

/// On a thread that gives way to requests, as do the threads that it starts.
async fn in_background<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> std::io::Result<T> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let work = move || {
        turns::give_way();
        // The library may be gone meanwhile.
        let _ = sender.send(work());
    };
    std::thread::Builder::new().name("index".to_owned()).spawn(work)?;
    receiver.await.map_err(|_| std::io::Error::other("it panicked"))
}

/// Takes over what is uploaded and deleted on other servers. Ends with the library.
async fn keep_copy(library: std::sync::Weak<Inner>) {
    let Some(mut changes) = library.upgrade().and_then(|inner| inner.shared.as_ref().map(SharedUploads::changes)) else { return };
    loop {
        let Some(inner) = library.upgrade() else { return };
        let Some(shared) = &inner.shared else { return };
        match shared.sync().await {
            Ok(true) => inner.want_refresh(),
            Ok(false) => {}
            Err(error) => tracing::warn!("uploads of other servers could not be compared, trying again: {error}"),
        }
        drop(inner);
        SharedUploads::next_change(&mut changes).await;
    }
}

/// Whether the index has a reader for it. Damaged content is detected when it is read.
fn is_readable(name: &str, bytes: &[u8]) -> bool {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase()).unwrap_or_default();
    match ending.as_str() {
        "pdf" => bytes.starts_with(b"%PDF-"),
        "docx" | "docm" => bytes.starts_with(b"PK\x03\x04"),
        _ => {
            let is_wide = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
            is_wide || (!bytes.contains(&0) && std::str::from_utf8(bytes).is_ok())
        }
    }
}

/// How often old files are looked for.
const EXPIRE_EVERY: Duration = Duration::from_secs(600);

/// Deletes files that were uploaded too long ago, for all servers where they are shared. Ends with the library.
async fn expire(library: std::sync::Weak<Inner>, age_max: Duration) {
    loop {
        let Some(inner) = library.upgrade() else { return };
        let library_now = Library(inner);
        let folder = library_now.0.uploads.clone();
        let old = tokio::task::spawn_blocking(move || uploads::older_than(&folder, age_max, SystemTime::now())).await;
        let old = old.unwrap_or_else(|error| {
            tracing::error!("looking for old documents crashed: {error}");
            Vec::new()
        });
        let mut count = 0;
        for (user, name) in &old {
            match library_now.remove(user, name).await {
                Ok(()) => count += 1,
                Err(problem) => tracing::warn!(%user, "a document is too old and cannot be deleted: {}", problem.message),
            }
        }
        if count > 0 {
            tracing::info!("{count} uploaded documents were deleted because of their age (upload_days in [memory])");
        }
        drop(library_now);
        tokio::time::sleep(EXPIRE_EVERY).await;
    }
}

/// Updates what the library can find while a refresh goes on, and gives the refresh what was uploaded meanwhile.
struct Watcher(Arc<Inner>);

impl RefreshWatcher for Watcher {
    fn is_changed(&mut self) -> bool {
        self.0.is_changed.swap(false, Ordering::SeqCst)
    }

    fn committed(&mut self, looked: SystemTime, report: &Report) {
        // Made before the lock is taken: this thread has a low priority, and requests wait for the lock.
        let now = LastRefresh { began: Some(looked), report: report.clone(), trouble: None };
        let before = std::mem::replace(&mut *self.0.looked.lock().unwrap_or_else(PoisonError::into_inner), now);
        drop(before);
    }
}

/// Refreshes the index after each change. Ends with the library.
async fn refresh_loop(library: std::sync::Weak<Inner>) {
    let mut tries = 0;
    loop {
        let Some(inner) = library.upgrade() else { return };
        if tries == 0 {
            // Holds the library only briefly, so that it can be dropped.
            if tokio::time::timeout(BUSY_FOR, inner.wanted.notified()).await.is_err() {
                continue;
            }
        }
        let began = SystemTime::now();
        inner.is_changed.store(false, Ordering::SeqCst);
        let mut watcher = Watcher(inner.clone());
        let refreshed = in_background(move || watcher.0.folders.clone().refresh_watched(&mut watcher)).await;
        let mut looked = inner.looked.lock().unwrap_or_else(PoisonError::into_inner);
        match refreshed {
            Ok(Ok(report)) => {
                // The folders may have been scanned again since.
                *looked = LastRefresh { began: looked.began.max(Some(began)), report, trouble: None };
                tries = 0;
            }
            Ok(Err(Error::Busy)) if tries < TRIES_MAX => {
                tries += 1;
                drop(looked);
                tokio::time::sleep(BUSY_FOR).await;
            }
            Ok(Err(error)) => {
                tracing::warn!("the documents could not be looked at: {error}");
                looked.trouble = Some(error.to_string());
                tries = 0;
            }
            Err(error) => {
                tracing::error!("looking at the documents crashed: {error}");
                looked.trouble = Some("looking at the documents crashed".to_owned());
                tries = 0;
            }
        }
    }
}
