//! The folders of `files` and `code`: one per thread below Baton's data folder, or one that the user named.
//!
//! ```text
//! PerThread   BASE/<thread>            created on first use; has no user data, so changes need no permission
//! Fixed       the user's own folder    for every thread; replaced files may be valuable
//! ```
//!
//! The thread is in each call's `_meta` ([`META_THREAD`]), which the hub sends to built-in servers only.
//!
//! Files written by a program of `code` are applied in two steps: they are recorded under the call's key, then put in place. A call that is
//! repeated after a crash finds the record, puts the same bytes in place and runs nothing, so that a program that appends appends once.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rmcp::model::JsonObject;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::ToolError;
use crate::files::root::{EntryKind, Root, WriteMode};
use crate::owner::unique_name;

/// In a call's `_meta`: the thread it is made for.
pub const META_THREAD: &str = "baton/thread";

/// Folder of calls without a thread, such as manual ones.
const NO_THREAD: &str = "default";
const FORMER_NAME_BYTES_MAX: usize = 40;
/// Number of records kept; older ones are dropped.
const RECORDS_MAX: usize = 256;
/// Limits of the files that a program is given, and of those it may change at once.
const FILES_MAX: usize = 500;
const FILES_BYTES_MAX: u64 = 16 << 20;

/// The folders in which threads have their files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workspaces {
    kind: Kind,
    records: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    PerThread { base: PathBuf },
    Fixed { folder: PathBuf },
}

/// A file of a workspace, whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileBytes {
    pub(crate) path: String,
    #[serde(with = "in_base64")]
    pub(crate) bytes: Vec<u8>,
}

/// What a program did to its workspace, and its reply.
#[derive(Serialize, Deserialize)]
struct Record<R> {
    reply: R,
    /// Empty once all of them are in place.
    files: Vec<FileBytes>,
}

impl Workspaces {
    /// One folder for each thread, below `base`.
    pub fn per_thread(base: PathBuf) -> Workspaces {
        let records = base.join(".records");
        Workspaces { kind: Kind::PerThread { base }, records }
    }

    /// One folder of the user for every thread; `records` is internal.
    pub fn fixed(folder: PathBuf, records: PathBuf) -> Workspaces {
        Workspaces { kind: Kind::Fixed { folder }, records }
    }

    /// Whether only runs write there.
    pub fn is_own(&self) -> bool {
        matches!(self.kind, Kind::PerThread { .. })
    }

    /// Where the files of a thread are.
    pub fn folder(&self, thread: Option<&str>) -> PathBuf {
        match &self.kind {
            Kind::PerThread { base } => {
                let thread = thread.unwrap_or(NO_THREAD);
                former_name(thread).map(|name| base.join(name)).filter(|folder| folder.is_dir()).unwrap_or_else(|| base.join(unique_name(thread)))
            }
            Kind::Fixed { folder } => folder.clone(),
        }
    }

    /// A file of a thread's own folder, whole. A folder of the user is not exposed: it has other files.
    pub fn read(&self, thread: &str, path: &str) -> Result<Vec<u8>, ToolError> {
        if !self.is_own() {
            return Err("the workspace is a folder on the machine of the server; open it there".into());
        }
        Root::open(&self.folder(Some(thread))).map_err(ToolError)?.bytes(path)
    }

    /// Fails early if the named folder cannot be used.
    pub(crate) fn check(&self) -> Result<(), String> {
        match &self.kind {
            Kind::PerThread { .. } => Ok(()),
            Kind::Fixed { folder } => Root::open(folder).map(drop),
        }
    }

    pub(crate) fn root(&self, meta: &JsonObject) -> Result<Root, ToolError> {
        let folder = self.folder(meta.get(META_THREAD).and_then(Value::as_str));
        if self.is_own() {
            make_private(&folder).map_err(|error| ToolError(format!("the workspace {} cannot be made: {error}", folder.display())))?;
        }
        Root::open(&folder).map_err(ToolError)
    }

    /// The reply of an earlier call with this key, after its files are in place.
    pub(crate) fn replied<R: Serialize + DeserializeOwned>(&self, key: &str, root: &Root) -> Result<Option<R>, ToolError> {
        let path = self.record(key, root);
        // Earlier versions had all records in one folder.
        let path = if path.exists() { path } else { self.records.join(record_name(key)) };
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(ToolError(format!("the record {} cannot be read: {error}", path.display()))),
        };
        let Record { reply, files } =
            serde_json::from_slice(&bytes).map_err(|error| ToolError(format!("the record {} is damaged ({error}); delete it", path.display())))?;
        put_all(root, &files)?;
        Ok(Some(reply))
    }

    /// Puts the files of a program in place. With a key, they are recorded on disk first.
    pub(crate) fn put<R: Serialize>(&self, key: Option<&str>, root: &Root, reply: R, files: Vec<FileBytes>) -> Result<R, ToolError> {
        if files.is_empty() {
            return Ok(reply);
        }
        let Some(key) = key else {
            put_all(root, &files)?;
            return Ok(reply);
        };
        let failed = |error: std::io::Error| ToolError(format!("what the program wrote cannot be recorded in {}: {error}", self.records.display()));
        let mut record = Record { reply, files };
        self.write_record(key, root, &record).map_err(failed)?;
        put_all(root, &record.files)?;
        record.files = Vec::new();
        self.write_record(key, root, &record).map_err(failed)?;
        drop_old_records(&self.records_of(root));
        Ok(record.reply)
    }

    /// Per thread, so that they are deleted with it.
    fn records_of(&self, root: &Root) -> PathBuf {
        if self.is_own() { self.records.join(root.name()) } else { self.records.clone() }
    }

    fn record(&self, key: &str, root: &Root) -> PathBuf {
        self.records_of(root).join(record_name(key))
    }

    /// Removes the folder of a deleted thread, and its records. A folder of the user is kept. Returns whether there was one.
    pub fn remove(&self, thread: &str) -> std::io::Result<bool> {
        if !self.is_own() {
            return Ok(false);
        }
        let folder = self.folder(Some(thread));
        let records = folder.file_name().map(|name| self.records.join(name));
        let mut is_found = false;
        for path in [Some(folder), records].into_iter().flatten() {
            match fs::remove_dir_all(&path) {
                Ok(()) => is_found = true,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(is_found)
    }

    fn write_record(&self, key: &str, root: &Root, record: &impl Serialize) -> std::io::Result<()> {
        let path = self.record(key, root);
        let folder = self.records_of(root);
        make_private(&folder)?;
        let beside = path.with_extension(format!("{}.tmp", std::process::id()));
        let mut file = fs::File::create(&beside)?;
        file.write_all(&serde_json::to_vec(record)?)?;
        file.sync_all()?;
        fs::rename(&beside, &path)?;
        fs::File::open(&folder)?.sync_all()
    }
}

fn record_name(key: &str) -> String {
    format!("{}.json", hex(&Sha256::digest(key.as_bytes())[..16]))
}

fn drop_old_records(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let is_record = |entry: &fs::DirEntry| entry.path().is_file();
    let aged = |entry: fs::DirEntry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()));
    let mut records: Vec<_> = entries.flatten().filter(is_record).filter_map(aged).collect();
    let surplus = records.len().saturating_sub(RECORDS_MAX);
    records.sort();
    for (_, path) in &records[..surplus] {
        if let Err(error) = fs::remove_file(path) {
            tracing::warn!(record = %path.display(), "an old record cannot be removed: {error}");
        }
    }
}

/// The files given to a program: first those it names, then others, as many as fit. The second value is the number left out.
pub(crate) fn shown_files(root: &Root, program: &str) -> Result<(Vec<FileBytes>, usize), ToolError> {
    let mut entries = root.files()?;
    let is_named = |path: &str| path.rsplit('/').next().is_some_and(|name| program.contains(name));
    // Hidden folders contain data of tools.
    let is_hidden = |path: &str| path.split('/').any(|part| part.starts_with('.'));
    entries.retain(|entry| entry.kind == EntryKind::File && (is_named(&entry.path) || !is_hidden(&entry.path)));
    entries.sort_by(|a, b| (!is_named(&a.path), &a.path).cmp(&(!is_named(&b.path), &b.path)));
    let mut files = Vec::new();
    let (mut bytes_left, mut left_out) = (FILES_BYTES_MAX, 0);
    for entry in entries {
        if files.len() == FILES_MAX || entry.bytes > bytes_left {
            left_out += 1;
            continue;
        }
        // An unreadable file is left out.
        let Ok(bytes) = root.bytes(&entry.path) else { continue };
        bytes_left = bytes_left.saturating_sub(bytes.len() as u64);
        files.push(FileBytes { path: entry.path, bytes });
    }
    Ok((files, left_out))
}

/// Why a program's files are rejected, if they are too many or too large.
pub(crate) fn refuse_files(files: &[FileBytes]) -> Option<String> {
    let bytes: usize = files.iter().map(|file| file.bytes.len()).sum();
    let is_too_much = files.len() > FILES_MAX || bytes as u64 > FILES_BYTES_MAX;
    is_too_much.then(|| {
        let mib = FILES_BYTES_MAX >> 20;
        format!("it wrote {} files with {bytes} bytes; at most {FILES_MAX} files and {mib} MiB are kept, so none of them were", files.len())
    })
}

fn put_all(root: &Root, files: &[FileBytes]) -> Result<(), ToolError> {
    files.iter().try_for_each(|file| root.write(&file.path, &file.bytes, WriteMode::Replace).map(drop))
}

/// The folder's name in earlier versions, whose digest was so short that another thread's name could be chosen to collide. Only for a
/// thread whose whole name is in it, which is unique.
fn former_name(thread: &str) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let is_whole = !thread.is_empty() && thread.len() <= FORMER_NAME_BYTES_MAX && thread.chars().all(is_plain);
    is_whole.then(|| format!("{thread}-{}", hex(&Sha256::digest(thread.as_bytes())[..4])))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Creates a folder and missing parents, for this account only.
pub(crate) fn make_private(folder: &Path) -> std::io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

mod in_base64 {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        STANDARD.decode(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, bytes: &str) -> FileBytes {
        FileBytes { path: path.into(), bytes: bytes.into() }
    }

    #[test]
    fn every_thread_has_a_folder_of_its_own_whatever_it_is_called() {
        let workspaces = Workspaces::per_thread(PathBuf::from("base"));
        let names: std::collections::BTreeSet<PathBuf> =
            ["wal", "WAL", "w/al", "../..", "", ".records", "über"].into_iter().map(|thread| workspaces.folder(Some(thread))).collect();
        assert_eq!(names.len(), 7);
        for folder in names {
            let name = folder.strip_prefix("base").unwrap().to_str().unwrap().to_owned();
            assert!(!name.contains(['/', '.']) && !name.is_empty(), "{name}");
        }
    }

    #[test]
    fn a_folder_of_an_earlier_version_is_found_by_its_own_thread_alone() {
        let home = tempfile::tempdir().unwrap();
        let workspaces = Workspaces::per_thread(home.path().to_owned());
        fs::create_dir(home.path().join(former_name("budget").unwrap())).unwrap();
        assert!(workspaces.folder(Some("budget")).is_dir());
        // Names that were only partly in the folder's name.
        assert!(former_name("bud get").is_none() && former_name(&"x".repeat(41)).is_none() && former_name("").is_none());
    }

    #[test]
    fn files_of_a_repeated_call_are_put_in_place_once() {
        let home = tempfile::tempdir().unwrap();
        let workspaces = Workspaces::per_thread(home.path().to_owned());
        let root = workspaces.root(&JsonObject::new()).unwrap();
        assert_eq!(workspaces.replied::<String>("k", &root).unwrap(), None);
        let reply = workspaces.put(Some("k"), &root, "said".to_owned(), vec![file("log/a.txt", "one")]).unwrap();
        assert_eq!((reply.as_str(), root.bytes("log/a.txt").unwrap()), ("said", b"one".to_vec()));
        // Later changes are kept: the record no longer holds the file.
        root.write("log/a.txt", b"two", WriteMode::Replace).unwrap();
        assert_eq!(workspaces.replied::<String>("k", &root).unwrap().as_deref(), Some("said"));
        assert_eq!(root.bytes("log/a.txt").unwrap(), b"two");
        // Stopped between the record and the files: the next call puts them in place.
        workspaces.write_record("k2", &root, &Record { reply: "again", files: vec![file("b.txt", "late")] }).unwrap();
        assert_eq!(workspaces.replied::<String>("k2", &root).unwrap().as_deref(), Some("again"));
        assert_eq!(root.bytes("b.txt").unwrap(), b"late");
    }

    #[test]
    fn a_deleted_thread_leaves_neither_files_nor_records() {
        let home = tempfile::tempdir().unwrap();
        let workspaces = Workspaces::per_thread(home.path().to_owned());
        let meta = |thread: &str| JsonObject::from_iter([(META_THREAD.to_owned(), Value::from(thread))]);
        for thread in ["one", "other"] {
            let root = workspaces.root(&meta(thread)).unwrap();
            workspaces.put(Some(thread), &root, "printed the marker".to_owned(), vec![file("a.txt", "marker")]).unwrap();
        }
        assert!(workspaces.remove("one").unwrap() && !workspaces.remove("one").unwrap());
        let root = workspaces.root(&meta("other")).unwrap();
        assert_eq!(root.bytes("a.txt").unwrap(), b"marker");
        assert_eq!(workspaces.replied::<String>("other", &root).unwrap().as_deref(), Some("printed the marker"));
        let root = workspaces.root(&meta("one")).unwrap();
        assert!(root.bytes("a.txt").is_err());
        assert_eq!(workspaces.replied::<String>("one", &root).unwrap(), None);
        // A folder of the user is not deleted.
        fs::create_dir(home.path().join("own")).unwrap();
        assert!(!Workspaces::fixed(home.path().join("own"), home.path().join("records")).remove("one").unwrap());
        assert!(home.path().join("own").is_dir());
    }

    #[test]
    fn a_program_is_shown_what_it_names_first() {
        let home = tempfile::tempdir().unwrap();
        let workspaces = Workspaces::fixed(home.path().join("own"), home.path().join("records"));
        fs::create_dir_all(home.path().join("own/.git")).unwrap();
        let root = workspaces.root(&JsonObject::new()).unwrap();
        for (path, text) in [("a.txt", "a"), ("data/z.csv", "1,2"), (".git/config", "x"), (".env", "secret")] {
            root.write(path, text.as_bytes(), WriteMode::Create).unwrap();
        }
        let names = |program: &str| shown_files(&root, program).unwrap().0.into_iter().map(|file| file.path).collect::<Vec<_>>().join(" ");
        assert_eq!(names("open('z.csv')"), "data/z.csv a.txt");
        assert_eq!(names("open('.env')"), ".env a.txt data/z.csv");
        assert!(refuse_files(&vec![file("a", ""); FILES_MAX + 1]).is_some() && refuse_files(&[file("a", "x")]).is_none());
    }
}
