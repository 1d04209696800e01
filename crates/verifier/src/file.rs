//! The weights file: the length of a JSON header (8 bytes, little endian), the header, then the tensors it names. `lab/train/model.py` writes it.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::LoadError;

#[derive(Deserialize)]
struct Entry {
    dtype: Kind,
    shape: Vec<usize>,
    data_offsets: (usize, usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
enum Kind {
    I8,
    F32,
}

/// The tensors of a file, by name. Nothing is copied until it is asked for.
pub(crate) struct Tensors<'b> {
    entries: BTreeMap<String, Entry>,
    data: &'b [u8],
}

impl<'b> Tensors<'b> {
    pub(crate) fn read(bytes: &'b [u8]) -> Result<Self, LoadError> {
        let (length, rest) = bytes.split_first_chunk::<8>().ok_or(LoadError::Truncated)?;
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| LoadError::Truncated)?;
        let (header, data) = rest.split_at_checked(length).ok_or(LoadError::Truncated)?;
        let entries: BTreeMap<String, Entry> = serde_json::from_slice(header).map_err(|error| LoadError::Header(error.to_string()))?;
        Ok(Tensors { entries, data })
    }

    /// Numbers of a matrix in int8, with the scale of each row, and the width of a row.
    pub(crate) fn matrix(&self, name: &str) -> Result<(&'b [u8], Vec<f32>, usize), LoadError> {
        let (bytes, shape) = self.bytes(name, Kind::I8)?;
        let [rows, width] = *shape else { return Err(LoadError::Tensor(name.to_owned())) };
        let scales = self.floats(&format!("{name}.scale"))?;
        if scales.len() != rows || bytes.len() != rows * width {
            return Err(LoadError::Tensor(name.to_owned()));
        }
        Ok((bytes, scales, width))
    }

    pub(crate) fn floats(&self, name: &str) -> Result<Vec<f32>, LoadError> {
        let (bytes, _) = self.bytes(name, Kind::F32)?;
        Ok(bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect())
    }

    fn bytes(&self, name: &str, kind: Kind) -> Result<(&'b [u8], &[usize]), LoadError> {
        let wrong = || LoadError::Tensor(name.to_owned());
        let entry = self.entries.get(name).filter(|entry| entry.dtype == kind).ok_or_else(wrong)?;
        let bytes = self.data.get(entry.data_offsets.0..entry.data_offsets.1).ok_or_else(wrong)?;
        let size = if kind == Kind::I8 { 1 } else { 4 };
        if entry.shape.iter().product::<usize>() * size != bytes.len() {
            return Err(wrong());
        }
        Ok((bytes, &entry.shape))
    }
}
