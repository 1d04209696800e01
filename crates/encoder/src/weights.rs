//! Weights from a file in the safetensors format, as `lab/train` writes them: matrices are int8 with a scale a row, everything else is floats.

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
    bytes: &'b [u8],
    scales: Vec<f32>,
    width: usize,
}

/// A row of [`WIDTH`] values for each number; rows are looked up where they lie in the file.
pub struct Table<'b> {
    bytes: &'b [u8],
    scales: Vec<f32>,
}

impl Table<'_> {
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

    /// All numbers of a tensor of floats.
    pub fn floats(&self, name: &str) -> Result<Vec<f32>, WeightsError> {
        match self.tensor(name)? {
            (Dtype::F32, _, bytes) => Ok(bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect()),
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

    /// Rows of [`WIDTH`] values.
    pub fn table(&self, name: &str, rows: usize) -> Result<Table<'b>, WeightsError> {
        let Int8 { bytes, scales, width } = self.int8(name)?;
        if (width, scales.len()) != (WIDTH, rows) {
            return Err(wrong(name));
        }
        Ok(Table { bytes, scales })
    }

    /// `NAME.weight` and `NAME.bias`, from `width` values to `columns`.
    pub fn matrix(&self, name: &str, width: usize, columns: usize) -> Result<Matrix, WeightsError> {
        let own = self.int8(&format!("{name}.weight"))?;
        if (own.width, own.scales.len()) != (width, columns) {
            return Err(wrong(name));
        }
        let weights: Vec<i8> = own.bytes.iter().map(|byte| byte.cast_signed()).collect();
        Ok(Matrix::new(&weights, own.scales, self.floats_of(&format!("{name}.bias"), columns)?, width))
    }

    fn int8(&self, name: &str) -> Result<Int8<'b>, WeightsError> {
        match self.tensor(name)? {
            (Dtype::I8, shape, bytes) => {
                let [rows, width] = *shape.as_slice() else { return Err(wrong(name)) };
                Ok(Int8 { bytes, scales: self.floats_of(&format!("{name}.scale"), rows)?, width })
            }
            _ => Err(wrong(name)),
        }
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
    fn rows_of_a_table_are_scaled_where_they_lie() {
        let values: Vec<i8> = (0..2 * WIDTH).map(|at| (at % 255) as u8 as i8).collect();
        let scales: Vec<u8> = [0.5_f32, 2.0].iter().flat_map(|scale| scale.to_le_bytes()).collect();
        let bytes = file(&[
            ("words", Dtype::I8, vec![2, WIDTH], values.iter().map(|value| value.cast_unsigned()).collect()),
            ("words.scale", Dtype::F32, vec![2], scales),
        ]);
        let weights = Weights::read(&bytes).unwrap();
        let table = weights.table("words", 2).unwrap();
        for (row, scale) in [(0, 0.5), (1, 2.0)] {
            assert!(table.row(row).eq(values[row * WIDTH..][..WIDTH].iter().map(|value| f32::from(*value) * scale)));
        }
        assert!(weights.table("words", 3).is_err(), "another number of rows");
    }

    #[test]
    fn what_is_missing_or_of_another_shape_is_named() {
        let floats = |count: usize| vec![0; 4 * count];
        let bytes = file(&[("a.weight", Dtype::F32, vec![2, 4], floats(8)), ("a.bias", Dtype::F32, vec![3], floats(3))]);
        let weights = Weights::read(&bytes).unwrap();
        for error in [weights.table("a.weight", 2).err(), weights.table("b", 2).err(), weights.matrix("a", 4, 2).err()] {
            assert!(matches!(error, Some(WeightsError::Tensor(_))), "{error:?}");
        }
        assert!(matches!(Weights::read(b"no"), Err(WeightsError::Format(_))));
    }
}
