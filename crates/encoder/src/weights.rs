//! Weights from a file in the safetensors format: int8 with a scale a row as `lab/train` writes them, or halves and floats, which are made int8 here.

use std::borrow::Cow;

use half::f16;
use safetensors::{Dtype, SafeTensors};

use crate::encoder::{Norm, WIDTH};
use crate::kernel::Matrix;

/// Why weights could not be loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message of each variant says what it is")]
pub enum WeightsError {
    #[error("the weights cannot be read: {0}")]
    Format(String),
    #[error("the weights lack {0} or have it in another shape")]
    Tensor(String),
}

/// The tensors of a file, by name. Nothing is copied until it is asked for.
pub struct Weights<'b> {
    tensors: SafeTensors<'b>,
}

/// A matrix in int8 with the scale of each row.
struct Int8<'b> {
    bytes: Cow<'b, [u8]>,
    scales: Vec<f32>,
    width: usize,
}

/// A row of [`WIDTH`] values for each number; rows are looked up where they lie.
pub struct Table<'b> {
    bytes: Cow<'b, [u8]>,
    scales: Vec<f32>,
}

impl Table<'_> {
    /// Independent of the file it came from.
    pub fn into_owned(self) -> Table<'static> {
        Table { bytes: Cow::Owned(self.bytes.into_owned()), scales: self.scales }
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.scales.len()
    }

    pub(crate) fn row(&self, at: usize) -> impl Iterator<Item = f32> {
        let scale = self.scales[at];
        self.bytes[at * WIDTH..][..WIDTH].iter().map(move |byte| f32::from(byte.cast_signed()) * scale)
    }
}

impl<'b> Weights<'b> {
    /// Reads the header of a safetensors file; tensors are read later.
    pub fn read(bytes: &'b [u8]) -> Result<Self, WeightsError> {
        let tensors = SafeTensors::deserialize(bytes).map_err(|error| WeightsError::Format(error.to_string()))?;
        Ok(Weights { tensors })
    }

    /// All numbers of a tensor.
    pub fn floats(&self, name: &str) -> Result<Vec<f32>, WeightsError> {
        let (kind, _, bytes) = self.tensor(name)?;
        match kind {
            Dtype::F32 => Ok(bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect()),
            Dtype::F16 => Ok(bytes.as_chunks::<2>().0.iter().map(|two| f16::from_le_bytes(*two).to_f32()).collect()),
            _ => Err(wrong(name)),
        }
    }

    /// The same of a known number of values.
    pub fn floats_of(&self, name: &str, count: usize) -> Result<Vec<f32>, WeightsError> {
        let values = self.floats(name)?;
        if values.len() == count { Ok(values) } else { Err(wrong(name)) }
    }

    /// `NAME.weight` and `NAME.bias`.
    pub fn norm(&self, name: &str) -> Result<Norm, WeightsError> {
        Ok(Norm { gains: self.floats_of(&format!("{name}.weight"), WIDTH)?, offsets: self.floats_of(&format!("{name}.bias"), WIDTH)? })
    }

    /// Rows of [`WIDTH`] values, at most `rows_max`.
    pub fn table(&self, name: &str, rows_max: usize) -> Result<Table<'b>, WeightsError> {
        let Int8 { bytes, mut scales, width } = self.int8(name)?;
        if width != WIDTH {
            return Err(wrong(name));
        }
        let bytes = match bytes {
            Cow::Borrowed(bytes) => Cow::Borrowed(&bytes[..bytes.len().min(rows_max * WIDTH)]),
            Cow::Owned(mut bytes) => {
                bytes.truncate(rows_max * WIDTH);
                bytes.shrink_to_fit();
                Cow::Owned(bytes)
            }
        };
        scales.truncate(rows_max);
        Ok(Table { bytes, scales })
    }

    /// One product of the layers `names`, whose columns stand side by side: `NAME.weight` and `NAME.bias` of each.
    pub fn matrix(&self, names: &[String], width: usize, columns: usize) -> Result<Matrix, WeightsError> {
        let (mut weights, mut scales, mut bias) = (Vec::new(), Vec::new(), Vec::new());
        for name in names {
            let own = self.int8(&format!("{name}.weight"))?;
            if own.width != width {
                return Err(wrong(name));
            }
            weights.extend(own.bytes.iter().map(|byte| byte.cast_signed()));
            bias.extend(self.floats_of(&format!("{name}.bias"), own.scales.len())?);
            scales.extend(own.scales);
        }
        if scales.len() != columns {
            return Err(wrong(&names.join(", ")));
        }
        Ok(Matrix::new(&weights, scales, bias, width))
    }

    fn int8(&self, name: &str) -> Result<Int8<'b>, WeightsError> {
        let (kind, shape, bytes) = self.tensor(name)?;
        let [rows, width] = *shape.as_slice() else { return Err(wrong(name)) };
        if kind == Dtype::I8 {
            return Ok(Int8 { bytes: Cow::Borrowed(bytes), scales: self.floats_of(&format!("{name}.scale"), rows)?, width });
        }
        let values = self.floats(name)?;
        let (mut bytes, mut scales) = (Vec::with_capacity(values.len()), Vec::with_capacity(rows));
        for row in values.chunks_exact(width.max(1)) {
            let scale = row.iter().fold(0.0_f32, |largest, x| largest.max(x.abs())) / 127.0;
            let per = if scale > 0.0 { 1.0 / scale } else { 0.0 };
            bytes.extend(row.iter().map(|x| ((x * per).round() as i8).cast_unsigned()));
            scales.push(scale);
        }
        Ok(Int8 { bytes: Cow::Owned(bytes), scales, width })
    }

    /// Its type, its shape and its bytes. The format's reader has checked that they agree.
    fn tensor(&self, name: &str) -> Result<(Dtype, Vec<usize>, &'b [u8]), WeightsError> {
        let view = self.tensors.tensor(name).map_err(|_| wrong(name))?;
        Ok((view.dtype(), view.shape().to_vec(), view.data()))
    }
}

fn wrong(name: &str) -> WeightsError {
    WeightsError::Tensor(name.to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use safetensors::tensor::TensorView;

    use super::*;

    fn file(tensors: &[(&str, Dtype, Vec<usize>, Vec<u8>)]) -> Vec<u8> {
        let views: HashMap<String, TensorView<'_>> =
            tensors.iter().map(|(name, kind, shape, bytes)| ((*name).to_owned(), TensorView::new(*kind, shape.clone(), bytes).unwrap())).collect();
        safetensors::serialize(views, None).unwrap()
    }

    #[test]
    fn halves_become_int8_with_a_scale_a_row() {
        let values: Vec<f32> = (0..3 * WIDTH).map(|at| (at as f32 - 500.0) / 300.0).collect();
        let halves: Vec<u8> = values.iter().flat_map(|x| f16::from_f32(*x).to_le_bytes()).collect();
        let bytes = file(&[("words", Dtype::F16, vec![3, WIDTH], halves)]);
        let table = Weights::read(&bytes).unwrap().table("words", 2).unwrap();
        assert_eq!(table.rows(), 2, "no more rows than wanted");
        for (row, exact) in values.chunks_exact(WIDTH).take(2).enumerate() {
            let largest = exact.iter().fold(0.0_f32, |largest, x| largest.max(x.abs()));
            assert!(table.row(row).zip(exact).all(|(found, exact)| (found - exact).abs() <= largest / 127.0));
        }
    }

    #[test]
    fn what_is_missing_or_of_another_shape_is_named() {
        let floats = |count: usize| vec![0; 4 * count];
        let bytes = file(&[("a.weight", Dtype::F32, vec![2, 4], floats(8)), ("a.bias", Dtype::F32, vec![3], floats(3))]);
        let weights = Weights::read(&bytes).unwrap();
        for error in [weights.table("a.weight", 2).err(), weights.table("b", 2).err(), weights.matrix(&["a".to_owned()], 4, 2).err()] {
            assert!(matches!(error, Some(WeightsError::Tensor(_))), "{error:?}");
        }
        assert!(matches!(Weights::read(b"no"), Err(WeightsError::Format(_))));
    }
}
