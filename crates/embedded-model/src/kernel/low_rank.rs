//! A low-rank change of a matrix, computed beside it: `b · (a · x)` is added to what the matrix gives, so that weights keep their format and their speed.

use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};

use super::super::adapter::Factor;
use super::activation::Block;
use super::lanes::Lanes;
use super::matrix::{Epilogue, Format, Matrix, multiply};
use super::set::Set;
use super::tile::{BLOCK6_BYTES, TALL, WIDE};

pub(super) struct LowRank {
    /// In Q6_K, its rows filled up with zeros to whole tiles.
    a: Matrix,
    /// For each 16 rows of the matrix and each rank those rows, as the bits of f16 values.
    b: Box<[[u16; TALL]]>,
}

impl LowRank {
    /// `factor` is for a matrix of so many rows and so wide, both in whole tiles.
    pub(super) fn new(set: &'static Set, factor: &Factor) -> candle_core::Result<Self> {
        let Factor { rank, width, rows, .. } = *factor;
        let ranks = rank.next_multiple_of(TALL);
        let mut a = factor.a.clone();
        a.resize(ranks * width, 0.0);
        let a = QTensor::quantize(&Tensor::from_vec(a, (ranks, width), &Device::Cpu)?, GgmlDType::Q6K)?;
        let bytes = a.data()?;
        let row_bytes = width / WIDE * BLOCK6_BYTES;
        let a = Matrix::load(set, Format::Q6K, (ranks, width), |row, to: &mut [u8]| {
            to.copy_from_slice(&bytes[row * row_bytes..][..to.len()]);
            Ok::<(), candle_core::Error>(())
        })?;
        let mut b = vec![[0; TALL]; rows / TALL * ranks].into_boxed_slice();
        let mut values = [0.0; TALL];
        for (at, halves) in b.iter_mut().enumerate().filter(|(at, _)| at % ranks < rank) {
            for (row, value) in values.iter_mut().enumerate() {
                *value = factor.b[(at / ranks * TALL + row) * rank + at % ranks];
            }
            // SAFETY: a set is handed out only where the processor has its instructions.
            unsafe { (set.halve)(&values, halves) };
        }
        Ok(LowRank { a, b })
    }

    /// `a · x`, a row for each row of `x`.
    pub(super) fn values(&self, x: &[Block]) -> Vec<f32> {
        let mut values = vec![0.0; x.len() / (self.a.width / WIDE) * self.a.rows];
        multiply(&[&self.a], x, &mut values, Epilogue::Set);
        values
    }

    /// Adds the change to 16 rows of the product, given the [`values`](LowRank::values) from the token `from` on.
    pub(super) fn add(&self, column: usize, values: &[f32], from: usize, sums: &mut [[f32; TALL]]) {
        let ranks = self.a.rows;
        let values = &values[from * ranks..][..sums.len() * ranks];
        // SAFETY: a set is handed out only where the processor has its instructions.
        unsafe { (self.a.set.add_low_rank)(&self.b[column * ranks..][..ranks], values, sums) }
    }

    pub(super) fn bytes(&self) -> usize {
        self.a.bytes() + size_of_val::<[_]>(&self.b)
    }
}

#[inline(always)]
pub(super) fn add_low_rank<L: Lanes>(b: &[[u16; TALL]], values: &[f32], sums: &mut [[f32; TALL]]) {
    for (values, sums) in values.chunks_exact(b.len()).zip(sums) {
        let mut sum = L::load(sums);
        for (value, b) in values.iter().zip(b) {
            sum = L::load_half(b).mul_add(L::splat(*value), sum);
        }
        sum.store(sums);
    }
}
