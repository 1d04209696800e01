//! The output folder: safe names, nothing is overwritten, and the same document is not written twice.
//!
//! A request (text, format, title, name, sources) has a digest, and `.made/DIGEST.json` records its file and the hash of its content. It is
//! written before the file gets its name, so a crash between the two is repaired by repeating the request. A file that was changed or
//! removed since is left alone, and the document is written under the next number.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::DocumentError;

const NAME_CHARS_MAX: usize = 80;
/// Maximum number of files with the same base name.
const NUMBER_MAX: u32 = 10_000;

pub(super) struct CreatedFile {
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    pub(super) sha256: String,
    pub(super) already: bool,
    pub(super) notices: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    file: String,
    sha256: String,
    #[serde(default)]
    notices: Vec<String>,
}

/// The file written for this request before, or a new one.
pub(super) fn make(
    folder: &Path,
    name: &str,
    extension: &str,
    digest: &str,
    write: impl FnOnce() -> Result<(Vec<u8>, Vec<String>), DocumentError>,
) -> Result<CreatedFile, DocumentError> {
    let trouble =
        |e: io::Error| DocumentError::Folder(format!("{} cannot be written to ({e}); check the document settings' `folder`", folder.display()));
    let ledger = folder.join(".made");
    fs::create_dir_all(&ledger).map_err(trouble)?;
    let entry_path = ledger.join(format!("{digest}.json"));
    if let Some(entry) = fs::read(&entry_path).ok().and_then(|bytes| serde_json::from_slice::<Entry>(&bytes).ok())
        && let Ok(bytes) = fs::read(folder.join(&entry.file))
        && hex(&bytes) == entry.sha256
    {
        return Ok(CreatedFile {
            path: folder.join(entry.file),
            bytes: bytes.len() as u64,
            sha256: entry.sha256,
            already: true,
            notices: entry.notices,
        });
    }
    let (bytes, notices) = write()?;
    let sha256 = hex(&bytes);
    let beside = ledger.join(format!("{digest}.{}.new", std::process::id()));
    put(&beside, &bytes).map_err(trouble)?;
    for number in 1..=NUMBER_MAX {
        let file = if number == 1 { format!("{name}.{extension}") } else { format!("{name}-{number}.{extension}") };
        let path = folder.join(&file);
        if path.symlink_metadata().is_ok() {
            continue;
        }
        let entry = serde_json::to_vec(&Entry { file, sha256: sha256.clone(), notices: notices.clone() })
            .map_err(|e| DocumentError::Broken(e.to_string()))?;
        let entry_beside = ledger.join(format!("{digest}.{}.entry", std::process::id()));
        put(&entry_beside, &entry)
            .and_then(|()| fs::rename(&entry_beside, &entry_path))
            .and_then(|()| File::open(&ledger)?.sync_all())
            .map_err(trouble)?;
        // The kernel refuses the name if it was taken meanwhile.
        match rustix::fs::renameat_with(CWD, &beside, CWD, &path, RenameFlags::NOREPLACE) {
            Ok(()) => {
                File::open(folder).and_then(|folder| folder.sync_all()).map_err(trouble)?;
                return Ok(CreatedFile { path, bytes: bytes.len() as u64, sha256, already: false, notices });
            }
            Err(rustix::io::Errno::EXIST) => {}
            Err(e) => return Err(trouble(e.into())),
        }
    }
    Err(DocumentError::Folder(format!("there are {NUMBER_MAX} files called {name} already; clear them away or use another name")))
}

/// A valid single path component on every system, from any text.
pub(super) fn safe_name(requested: &str) -> String {
    let mut name = String::new();
    for c in requested.chars() {
        match c {
            c if c.is_alphanumeric() || matches!(c, '_' | '.' | '-') => name.push(c),
            _ if !name.ends_with('-') => name.push('-'),
            _ => {}
        }
        if name.chars().count() >= NAME_CHARS_MAX {
            break;
        }
    }
    let name = name.trim_matches(['.', '-']).to_owned();
    // Names that Windows reserves for devices.
    let stem = name.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let device = matches!(stem.as_str(), "con" | "prn" | "aux" | "nul") || (stem.len() == 4 && (stem.starts_with("com") || stem.starts_with("lpt")));
    match (name.is_empty(), device) {
        (true, _) => "document".into(),
        (false, true) => format!("document-{name}"),
        (false, false) => name,
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
