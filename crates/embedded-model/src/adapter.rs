//! A low-rank change of pinned weights, shipped with the program, and the weights with that change applied.
//!
//! ```text
//!   base GGUF ── SHA-256 ──> dequantize ─ + b·a ─ pad to whole blocks ─ Q6_K ──> BASE.gguf.tuned-KEY.gguf      made once, beside the base
//!   adapter   ── SHA-256 ──────────────────┘
//! ```
//!
//! Only the matrices of the layers and the output matrix are in the file that is made; everything else is read from the base. They are Q6_K with rows
//! padded by zeros to whole blocks of 256, so that our own kernels can run networks whose width is not a multiple of that, whatever format the base has.
//! The key is made of both hashes and the format, so a file with the name is the right one. Files with other keys are removed when one is made.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use download::{copy_pieces, hex};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::EmbeddedError;
use super::gguf::Gguf;
use super::kernel::parts::each;
use super::weights::{Adapter, TUNED_MARK};

/// Changes when the file that is made would be another one.
const FORMAT: u32 = 1;
const FORMAT_KEY: &str = "baton.adapter.format";
/// What rows are padded to.
const BLOCK: usize = 256;
const HEADER_BYTES_MAX: usize = 1 << 20;

impl Adapter {
    fn factors(&self) -> Result<Factors, EmbeddedError> {
        let found = hex(&Sha256::digest(self.bytes));
        if found != self.sha256 {
            return Err(EmbeddedError::bug(format!("the adapter {} has the SHA-256 {found}, not {}", self.name, self.sha256)));
        }
        Factors::read(self.bytes)
    }

    /// The weights with this change, made if they are not there yet.
    pub(super) fn merged(&self, base: &Path) -> Result<PathBuf, EmbeddedError> {
        let factors = self.factors()?;
        let path = merged_path(base, &self.key());
        if path.is_file() {
            return Ok(path);
        }
        tracing::info!(adapter = self.name, "applying the adapter to the weights, once");
        self.check_base(base)?;
        remove_others(base);
        let partial = path.with_extension(format!("{}.partial", std::process::id()));
        let written = merge(&Gguf::open(base)?, &factors, &partial)
            .and_then(|()| fs::rename(&partial, &path).map_err(|error| EmbeddedError::damaged(format!("{}: {error}", path.display()))));
        if written.is_err() {
            let _ = fs::remove_file(&partial);
        }
        written.map(|()| path)
    }

    pub(super) fn key(&self) -> String {
        let key = Sha256::digest(format!("{} {} {FORMAT}", self.base_sha256, self.sha256));
        hex(&key)[..16].to_owned()
    }

    fn check_base(&self, base: &Path) -> Result<(), EmbeddedError> {
        let found = hash_of(base).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => EmbeddedError::NoWeights { path: base.into() },
            _ => EmbeddedError::damaged(format!("{}: {error}", base.display())),
        })?;
        if found == self.base_sha256 {
            return Ok(());
        }
        Err(EmbeddedError::damaged(format!(
            "the adapter {} belongs to weights with the SHA-256 {}, and {} has {found}",
            self.name,
            self.base_sha256,
            base.display()
        )))
    }
}

fn hash_of(path: &Path) -> std::io::Result<String> {
    let mut hash = Sha256::new();
    copy_pieces(&mut File::open(path)?, |bytes| {
        hash.update(bytes);
        Ok(())
    })?;
    Ok(hex(&hash.finalize()))
}

fn merged_path(base: &Path, key: &str) -> PathBuf {
    let mut name = base.as_os_str().to_owned();
    name.push(format!("{TUNED_MARK}{key}.gguf"));
    name.into()
}

/// What was made with other adapters or formats, and what was left of making it: one file for each base is kept. That one could not be removed costs disk only.
fn remove_others(base: &Path) {
    let (Some(folder), Some(name)) = (base.parent(), base.file_name()) else { return };
    let prefix = format!("{}{TUNED_MARK}", name.to_string_lossy());
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            // Prefixes that were computed with them are in a folder beside them.
            let _ = if entry.path().is_dir() { fs::remove_dir_all(entry.path()) } else { fs::remove_file(entry.path()) };
        }
    }
}

/// The change of one matrix is `b · a`.
struct Factor {
    rank: usize,
    width: usize,
    rows: usize,
    /// Rank after rank.
    a: Vec<f32>,
    /// Row after row.
    b: Vec<f32>,
}

/// By the name of the matrix, without `.weight`.
struct Factors(BTreeMap<String, Factor>);

#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: [usize; 2],
}

impl Factors {
    fn read(bytes: &[u8]) -> Result<Self, EmbeddedError> {
        let wrong = |why: String| EmbeddedError::bug(format!("the adapter cannot be read: {why}"));
        let (length, rest) = bytes.split_first_chunk::<8>().ok_or_else(|| wrong("it is empty".into()))?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok().filter(|length| *length <= HEADER_BYTES_MAX.min(rest.len()));
        let (header, data) = rest.split_at(length.ok_or_else(|| wrong("its header does not end".into()))?);
        let mut header: BTreeMap<String, serde_json::Value> = serde_json::from_slice(header).map_err(|error| wrong(error.to_string()))?;
        header.remove("__metadata__");
        let mut tensors = BTreeMap::new();
        for (name, entry) in header {
            let entry: Entry = serde_json::from_value(entry).map_err(|error| wrong(format!("{name}: {error}")))?;
            let [start, end] = entry.data_offsets;
            let data = data.get(start..end).ok_or_else(|| wrong(format!("{name} lies outside of the file")))?;
            let values: Vec<f32> = match entry.dtype.as_str() {
                "I8" => data.iter().map(|&byte| f32::from(byte.cast_signed())).collect(),
                "F32" => data.as_chunks().0.iter().map(|&word| f32::from_le_bytes(word)).collect(),
                other => return Err(wrong(format!("{name} is {other}, not I8 or F32"))),
            };
            if Some(values.len()) != entry.shape.iter().try_fold(1_usize, |product, &size| product.checked_mul(size)) {
                return Err(wrong(format!("{name} has {} values for the shape {:?}", values.len(), entry.shape)));
            }
            tensors.insert(name, (entry.shape, values));
        }
        let names: Vec<String> = tensors.keys().filter_map(|name| name.strip_suffix(".a").map(str::to_owned)).collect();
        let mut factors = BTreeMap::new();
        for name in names {
            let mut take = |part: &str| tensors.remove(&format!("{name}.{part}")).ok_or_else(|| wrong(format!("{name} has no {part}")));
            let ((a_shape, mut a), (_, a_scale), (b_shape, mut b), (_, b_scale)) = (take("a")?, take("a_scale")?, take("b")?, take("b_scale")?);
            let (&[rank, width], &[rows, b_rank]) = (a_shape.as_slice(), b_shape.as_slice()) else {
                return Err(wrong(format!("{name} is no pair of matrices")));
            };
            if rank == 0 || width == 0 || b_rank != rank || a_scale.len() != rank || b_scale.len() != rank {
                return Err(wrong(format!("{name}: its parts do not fit together")));
            }
            a.chunks_exact_mut(width).zip(&a_scale).for_each(|(row, scale)| row.iter_mut().for_each(|value| *value *= scale));
            b.chunks_exact_mut(rank).for_each(|row| row.iter_mut().zip(&b_scale).for_each(|(value, scale)| *value *= scale));
            factors.insert(name, Factor { rank, width, rows, a, b });
        }
        match tensors.keys().next() {
            Some(name) => Err(wrong(format!("{name} belongs to nothing"))),
            None => Ok(Factors(factors)),
        }
    }
}

/// Writes the changed matrices.
fn merge(base: &Gguf, factors: &Factors, path: &Path) -> Result<(), EmbeddedError> {
    let mut tensors = Vec::new();
    for (name, factor) in &factors.0 {
        let weight = format!("{name}.weight");
        let place = base.place(&weight)?;
        if (place.rows, place.width) != (factor.rows, factor.width) {
            return Err(EmbeddedError::damaged(format!(
                "tensor {weight}: it has {} rows of {}, and the adapter is for {} of {}",
                place.rows, place.width, factor.rows, factor.width
            )));
        }
        tensors.push((weight.clone(), padded(base, &weight, Some(factor))?));
    }
    let output = if base.has("output.weight") { "output.weight" } else { "token_embd.weight" };
    tensors.push(("output.weight".to_owned(), padded(base, output, None)?));
    let all: Vec<(&str, &QTensor)> = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    let cannot = |error: String| EmbeddedError::damaged(format!("{} cannot be written: {error}", path.display()));
    let mut file = BufWriter::new(File::create(path).map_err(|error| cannot(error.to_string()))?);
    gguf_file::write(&mut file, &[(FORMAT_KEY, &Value::U32(FORMAT))], &all).map_err(|error| cannot(error.to_string()))?;
    file.flush().and_then(|()| file.get_ref().sync_all()).map_err(|error| cannot(error.to_string()))
}

/// A matrix of the base with its change, its rows padded with zeros, in Q6_K.
fn padded(base: &Gguf, name: &str, factor: Option<&Factor>) -> Result<QTensor, EmbeddedError> {
    let wrong = |error: candle_core::Error| EmbeddedError::damaged(format!("tensor {name}: {error}"));
    let place = base.place(name)?;
    let (rows, width) = (place.rows, place.width);
    let values = base.tensor(name)?.dequantize(&Device::Cpu).and_then(|tensor| tensor.flatten_all()?.to_vec1::<f32>()).map_err(wrong)?;
    let wide = width.next_multiple_of(BLOCK);
    let mut all = vec![0.0_f32; rows * wide];
    each(&mut all, wide, |row, out| {
        out[..width].copy_from_slice(&values[row * width..][..width]);
        let Some(factor) = factor else { return };
        for (a, b) in factor.a.chunks_exact(width).zip(&factor.b[row * factor.rank..][..factor.rank]) {
            out.iter_mut().zip(a).for_each(|(out, a)| *out += a * b);
        }
    });
    Tensor::from_vec(all, (rows, wide), &Device::Cpu).and_then(|tensor| QTensor::quantize(&tensor, GgmlDType::Q6K)).map_err(wrong)
}

#[cfg(test)]
mod tests;
