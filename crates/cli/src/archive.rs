//! A tar file that ends with a list of the SHA-256 of each entry. An archive without that list, or with other entries, is incomplete and is
//! rejected.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tempfile::NamedTempFile;

use crate::exit::{Result, ServiceError};
use service::private;

const MANIFEST: &str = "manifest.json";
const FORMAT: &str = "baton-archive";
const VERSION: u32 = 1;
/// Limit of the list; it has about 150 bytes per file.
const MANIFEST_BYTES_MAX: u64 = 256 << 20;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Manifest {
    format: String,
    version: u32,
    /// Content: `backup`, or `user NAME`.
    pub(crate) of: String,
    pub(crate) made_ms: i64,
    /// The version of Baton that made it.
    pub(crate) baton: String,
    files: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Entry {
    path: String,
    bytes: u64,
    sha256: String,
}

/// An archive under a temporary name until it is complete.
pub(crate) struct Writer {
    tar: tar::Builder<NamedTempFile>,
    to: PathBuf,
    entries: Vec<Entry>,
}

impl Writer {
    /// Existing files are not overwritten.
    pub(crate) fn create(to: &Path) -> Result<Writer> {
        if to.exists() {
            return Err(ServiceError::Usage(format!("{} exists already; name another file, or remove it first", to.display())));
        }
        let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let wrong = |error| ServiceError::Usage(format!("{} cannot be written: {error}", to.display()));
        // Temporary files are readable by this account only.
        let file = tempfile::Builder::new().prefix(".baton-archive-").tempfile_in(folder).map_err(wrong)?;
        Ok(Writer { tar: tar::Builder::new(file), to: to.to_owned(), entries: Vec::new() })
    }

    /// Adds a file under this path.
    pub(crate) fn add_file(&mut self, path: &Path, from: &Path) -> Result<()> {
        let mut file = match File::open(from) {
            Ok(file) => file,
            // Deleted in the meantime.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(ServiceError::Failed(format!("{} cannot be read: {error}", from.display()))),
        };
        let bytes = file.metadata()?.len();
        let found = self.add(path, &mut file, bytes)?;
        match found == bytes {
            true => Ok(()),
            false => Err(ServiceError::Failed(format!("{} became shorter while it was read; try again", from.display()))),
        }
    }

    pub(crate) fn add_text(&mut self, path: &Path, text: &str) -> Result<()> {
        self.add(path, &mut text.as_bytes(), text.len() as u64).map(drop)
    }

    fn add(&mut self, path: &Path, from: &mut dyn Read, bytes: u64) -> Result<u64> {
        let Some(name) = path.to_str() else {
            return Err(ServiceError::Failed(format!("the name of {} is not UTF-8; rename it first", path.display())));
        };
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes);
        header.set_mode(0o600);
        header.set_entry_type(tar::EntryType::Regular);
        let mut from = HashingReader { from: from.take(bytes), digest: Sha256::new(), bytes: 0 };
        self.tar.append_data(&mut header, path, &mut from)?;
        let entry = Entry { path: name.to_owned(), bytes, sha256: hex(&from.digest.finalize()) };
        self.entries.push(entry);
        Ok(from.bytes)
    }

    pub(crate) fn count(&self) -> usize {
        self.entries.len()
    }

    /// Writes the list, syncs, and renames the file.
    pub(crate) fn finish(mut self, of: String, made_ms: i64) -> Result<u64> {
        let files = std::mem::take(&mut self.entries);
        let manifest = Manifest { format: FORMAT.into(), version: VERSION, of, made_ms, baton: env!("CARGO_PKG_VERSION").into(), files };
        self.add_text(Path::new(MANIFEST), &serde_json::to_string(&manifest)?)?;
        let mut file = self.tar.into_inner()?;
        file.flush()?;
        file.as_file().sync_all()?;
        let bytes = file.as_file().metadata()?.len();
        file.persist_noclobber(&self.to).map_err(|error| ServiceError::Usage(format!("{} cannot be written: {}", self.to.display(), error.error)))?;
        Ok(bytes)
    }
}

/// Unpacks an archive into an empty folder, and verifies every file. `may_have` returns whether a path is allowed.
pub(crate) fn unpack(from: &Path, into: &Path, may_have: &dyn Fn(&Path) -> bool) -> Result<Manifest> {
    let wrong = |why: String| ServiceError::Failed(format!("{} cannot be used: {why}", from.display()));
    let file = File::open(from).map_err(|error| ServiceError::Usage(format!("{} cannot be read: {error}", from.display())))?;
    let mut tar = tar::Archive::new(io::BufReader::new(file));
    let mut found = Vec::new();
    let mut manifest = None;
    for entry in tar.entries().map_err(|error| wrong(error.to_string()))? {
        let mut entry = entry.map_err(|error| wrong(error.to_string()))?;
        let path = entry.path().map_err(|error| wrong(error.to_string()))?.into_owned();
        let is_plain = entry.header().entry_type() == tar::EntryType::Regular && path.components().all(|part| matches!(part, Component::Normal(_)));
        if !is_plain || path.as_os_str().is_empty() {
            return Err(wrong(format!("{:?} in it is no plain file", path.display().to_string())));
        }
        if manifest.is_some() {
            return Err(wrong("something stands behind its list of files".to_owned()));
        }
        if path == Path::new(MANIFEST) {
            let mut text = String::new();
            entry.take(MANIFEST_BYTES_MAX).read_to_string(&mut text).map_err(|error| wrong(error.to_string()))?;
            manifest = Some(serde_json::from_str::<Manifest>(&text).map_err(|error| wrong(format!("its list of files is wrong: {error}")))?);
            continue;
        }
        if !may_have(&path) {
            return Err(wrong(format!("{} does not belong into it", path.display())));
        }
        let bytes = entry.size();
        let name = path.to_str().ok_or_else(|| wrong("a name in it is not UTF-8".to_owned()))?.to_owned();
        let sha256 = copy(&mut entry, &into.join(&path)).map_err(|error| wrong(format!("{name}: {error}")))?;
        found.push(Entry { path: name, bytes, sha256 });
    }
    let Some(mut manifest) = manifest else { return Err(wrong("its list of files is missing, so that it is not complete".to_owned())) };
    if manifest.format != FORMAT || manifest.version != VERSION {
        return Err(wrong(format!("it is a {} of version {}; this Baton reads {FORMAT} {VERSION}", manifest.format, manifest.version)));
    }
    found.sort();
    manifest.files.sort();
    if let Some(other) = found.iter().find(|entry| manifest.files.binary_search(entry).is_err()) {
        return Err(wrong(format!("{} in it is not the file that was put in: its hash differs", other.path)));
    }
    if let Some(missing) = manifest.files.iter().find(|entry| found.binary_search(entry).is_err()) {
        return Err(wrong(format!("{} is missing in it", missing.path)));
    }
    Ok(manifest)
}

/// Writes a new file and returns the hash of its content.
fn copy(from: &mut dyn Read, to: &Path) -> io::Result<String> {
    if let Some(folder) = to.parent() {
        private::make_folder(folder)?;
    }
    let mut file = private::create_new(to)?;
    let mut from = HashingReader { from, digest: Sha256::new(), bytes: 0 };
    io::copy(&mut from, &mut file)?;
    file.sync_all()?;
    Ok(hex(&from.digest.finalize()))
}

struct HashingReader<R> {
    from: R,
    digest: Sha256,
    bytes: u64,
}

impl<R: Read> Read for HashingReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(into)?;
        self.digest.update(&into[..count]);
        self.bytes += count as u64;
        Ok(count)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
