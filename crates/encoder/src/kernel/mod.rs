//! The arithmetic of the encoder: products of int8 weights with 16-bit activations, and the functions between them.
//!
//! Every function exists twice from one source: compiled for AVX2, and for whatever the target has. [`Kernel::detect`] chooses once.
//!
//! ```text
//!   activations (f32) ── quantize ──▶ Rows (i16 pairs, a scale a row) ── multiply with Matrix (i8 panels) ──▶ f32 + bias
//! ```

mod attention;
mod matrix;
mod vector;

pub use matrix::{Matrix, Rows};

use matrix::{PANEL_COLUMNS, TILE_ROWS, Tile};

/// Which of the two compilations runs here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// Compiled for AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// Compiled for any processor.
    Portable,
}

/// Calls the compilation for this processor.
macro_rules! dispatch {
    ($self:expr, $function:ident ( $($argument:expr),* )) => {
        match $self {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: this variant is only made where the processor has AVX2 and FMA.
            Kernel::Avx2 => unsafe { avx2::$function($($argument),*) },
            Kernel::Portable => portable::$function($($argument),*),
        }
    };
}

#[cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "functions compiled for AVX2 are called where it was detected"))]
impl Kernel {
    /// The fastest compilation that this processor can run.
    pub fn detect() -> Kernel {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
            return Kernel::Avx2;
        }
        Kernel::Portable
    }

    /// `out` = rows · matrix + bias. `out` has a row of `matrix.columns` values for each row.
    pub fn multiply(self, rows: &Rows, matrix: &Matrix, out: &mut [f32]) {
        assert_eq!((rows.width, out.len()), (matrix.width, rows.count * matrix.columns));
        dispatch!(self, multiply(rows, matrix, out));
    }

    /// Quantizes rows of `width` values to int8, each with its own scale.
    pub fn quantize(self, values: &[f32], width: usize, rows: &mut Rows) {
        rows.reset(values.len() / width, width);
        dispatch!(self, quantize(values, rows));
    }

    /// Applies GELU to each value in place.
    pub fn gelu(self, values: &mut [f32]) {
        dispatch!(self, gelu(values));
    }

    /// Adds `more` to `values`, then makes each row of mean 0 and variance 1, with gains and offsets.
    pub fn add_and_norm(self, values: &mut [f32], more: &[f32], gains: &[f32], offsets: &[f32]) {
        dispatch!(self, add_and_norm(values, more, gains, offsets));
    }

    /// Attention of one text over itself: `qkv` has query, key and value of each token side by side.
    pub fn attend(self, qkv: &[f32], tokens: usize, heads: usize, out: &mut [f32]) {
        dispatch!(self, attend(qkv, tokens, heads, out));
    }
}

/// The portable compilation.
mod portable {
    use super::{Matrix, Rows, attention, matrix, vector};

    pub(super) fn multiply(rows: &Rows, matrix: &Matrix, out: &mut [f32]) {
        matrix::multiply(rows, matrix, out, super::portable_tile);
    }

    pub(super) fn quantize(values: &[f32], rows: &mut Rows) {
        matrix::quantize(values, rows);
    }

    pub(super) fn gelu(values: &mut [f32]) {
        vector::gelu(values);
    }

    pub(super) fn add_and_norm(values: &mut [f32], more: &[f32], gains: &[f32], offsets: &[f32]) {
        vector::add_and_norm(values, more, gains, offsets);
    }

    pub(super) fn attend(qkv: &[f32], tokens: usize, heads: usize, out: &mut [f32]) {
        attention::attend(qkv, tokens, heads, out, attention::compared, attention::collected);
    }
}

/// The same functions for AVX2 and FMA; the product of a tile is written with its instructions.
#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::*;

    use super::attention::{COLLECTED, Collected, HEAD, KEYS, Keys, QUERIES, Queries, Scores};
    use super::matrix::{PANEL_COLUMNS, TILE_ROWS, Tile};
    use super::{Matrix, Rows, attention, matrix, vector};

    #[target_feature(enable = "avx2")]
    pub(super) fn multiply(rows: &Rows, matrix: &Matrix, out: &mut [f32]) {
        matrix::multiply(rows, matrix, out, |panel, group| tile(panel, group));
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn quantize(values: &[f32], rows: &mut Rows) {
        matrix::quantize(values, rows);
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn gelu(values: &mut [f32]) {
        vector::gelu(values);
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn add_and_norm(values: &mut [f32], more: &[f32], gains: &[f32], offsets: &[f32]) {
        vector::add_and_norm(values, more, gains, offsets);
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn attend(qkv: &[f32], tokens: usize, heads: usize, out: &mut [f32]) {
        attention::attend(qkv, tokens, heads, out, |queries, keys| compared(queries, keys), |scores, values| collected(scores, values));
    }

    /// Six rows by sixteen columns: twelve sums stay in registers, and each weight that was widened to 16 bits is used six times.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn tile(panel: &[[i8; 2 * PANEL_COLUMNS]], group: &[[i32; TILE_ROWS]]) -> Tile {
        let mut sums = [[_mm256_setzero_si256(); 2]; TILE_ROWS];
        for (weights, activations) in panel.iter().zip(group) {
            let (first, second) = widened(weights);
            for (sums, two) in sums.iter_mut().zip(activations) {
                let two = _mm256_set1_epi32(*two);
                sums[0] = _mm256_add_epi32(sums[0], _mm256_madd_epi16(two, first));
                sums[1] = _mm256_add_epi32(sums[1], _mm256_madd_epi16(two, second));
            }
        }
        let mut out = [[0; PANEL_COLUMNS]; TILE_ROWS];
        for (out, sums) in out.iter_mut().zip(sums) {
            stored(out, sums);
        }
        out
    }

    /// Four queries by sixteen keys: eight sums stay in registers.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    fn compared(queries: &Queries, keys: &Keys) -> Scores {
        let mut sums = [[_mm256_setzero_ps(); 2]; QUERIES];
        for (d, keys) in keys.iter().enumerate() {
            let (first, second) = (eight(&keys[..8]), eight(&keys[8..]));
            for (sums, query) in sums.iter_mut().zip(queries) {
                let query = _mm256_set1_ps(query[d]);
                sums[0] = _mm256_fmadd_ps(query, first, sums[0]);
                sums[1] = _mm256_fmadd_ps(query, second, sums[1]);
            }
        }
        let mut out = [[0.0; KEYS]; QUERIES];
        for (out, sums) in out.iter_mut().zip(sums) {
            for (out, sum) in out.as_chunks_mut::<8>().0.iter_mut().zip(sums) {
                emptied(out, sum);
            }
        }
        out
    }

    /// Two queries by the 32 values of a head: eight sums stay in registers.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    fn collected(scores: [&[f32]; COLLECTED], values: &[[f32; HEAD]]) -> Collected {
        let mut sums = [[_mm256_setzero_ps(); HEAD / 8]; COLLECTED];
        for ((one, other), values) in scores[0].iter().zip(scores[1]).zip(values) {
            let by = [_mm256_set1_ps(*one), _mm256_set1_ps(*other)];
            for (at, values) in values.as_chunks::<8>().0.iter().enumerate() {
                let values = eight(values);
                sums[0][at] = _mm256_fmadd_ps(by[0], values, sums[0][at]);
                sums[1][at] = _mm256_fmadd_ps(by[1], values, sums[1][at]);
            }
        }
        let mut out = [[0.0; HEAD]; COLLECTED];
        for (out, sums) in out.iter_mut().zip(sums) {
            for (out, sum) in out.as_chunks_mut::<8>().0.iter_mut().zip(sums) {
                emptied(out, sum);
            }
        }
        out
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    #[expect(unsafe_code, reason = "a register is filled from memory")]
    fn eight(values: &[f32]) -> __m256 {
        assert!(values.len() >= 8);
        // SAFETY: there are the 32 bytes of an unaligned load.
        unsafe { _mm256_loadu_ps(values.as_ptr()) }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    #[expect(unsafe_code, reason = "a register is emptied into memory")]
    fn emptied(out: &mut [f32; 8], sum: __m256) {
        // SAFETY: the array has the 32 bytes of an unaligned store.
        unsafe { _mm256_storeu_ps(out.as_mut_ptr(), sum) }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    #[expect(unsafe_code, reason = "registers are filled from memory")]
    fn widened(weights: &[i8; 2 * PANEL_COLUMNS]) -> (__m256i, __m256i) {
        let start = weights.as_ptr().cast::<__m128i>();
        // SAFETY: the array has the 32 bytes of two unaligned loads.
        let (first, second) = unsafe { (_mm_loadu_si128(start), _mm_loadu_si128(start.add(1))) };
        (_mm256_cvtepi8_epi16(first), _mm256_cvtepi8_epi16(second))
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    #[expect(unsafe_code, reason = "registers are emptied into memory")]
    fn stored(out: &mut [i32; PANEL_COLUMNS], sums: [__m256i; 2]) {
        let start = out.as_mut_ptr().cast::<__m256i>();
        // SAFETY: the array has room for the 64 bytes of two unaligned stores.
        unsafe {
            _mm256_storeu_si256(start, sums[0]);
            _mm256_storeu_si256(start.add(1), sums[1]);
        }
    }
}

fn portable_tile(panel: &[[i8; 2 * PANEL_COLUMNS]], group: &[[i32; TILE_ROWS]]) -> Tile {
    let mut sums = [[0; PANEL_COLUMNS]; TILE_ROWS];
    for (weights, activations) in panel.iter().zip(group) {
        for (sums, two) in sums.iter_mut().zip(activations) {
            let (low, high) = (i32::from(*two as i16), *two >> 16);
            for (sum, pair) in sums.iter_mut().zip(weights.as_chunks::<2>().0) {
                *sum += low * i32::from(pair[0]) + high * i32::from(pair[1]);
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(count: usize, seed: u64) -> Vec<f32> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / 8_388_608.0 - 1.0
        };
        (0..count).map(|_| next()).collect()
    }

    fn kernels() -> Vec<Kernel> {
        let mut all = vec![Kernel::Portable];
        if Kernel::detect() != Kernel::Portable {
            all.push(Kernel::detect());
        }
        all
    }

    #[test]
    fn products_are_those_of_the_weights() {
        for (count, width, columns) in [(1, 32, 16), (7, 64, 48), (13, 384, 32)] {
            let weights: Vec<i8> = numbers(width * columns, 3).iter().map(|x| (x * 127.0) as i8).collect();
            let scales: Vec<f32> = numbers(columns, 5).iter().map(|x| x.abs() / 100.0).collect();
            let bias = numbers(columns, 7);
            let matrix = Matrix::new(&weights, scales.clone(), bias.clone(), width);
            let x = numbers(count * width, 11);
            for kernel in kernels() {
                let (mut rows, mut out) = (Rows::default(), vec![f32::NAN; count * columns]);
                kernel.quantize(&x, width, &mut rows);
                kernel.multiply(&rows, &matrix, &mut out);
                for (at, found) in out.iter().enumerate() {
                    let (row, column) = (at / columns, at % columns);
                    let exact: f32 =
                        (0..width).map(|k| x[row * width + k] * f32::from(weights[column * width + k]) * scales[column]).sum::<f32>() + bias[column];
                    assert!((found - exact).abs() < 2e-3 * (1.0 + exact.abs()), "{kernel:?} {count}·{width}·{columns}: {found} for {exact}");
                }
            }
        }
    }

    #[test]
    fn attention_is_a_mean_by_likeness() {
        let (tokens, heads, width) = (19, 2, 64);
        let qkv = numbers(tokens * 3 * width, 17);
        for kernel in kernels() {
            let mut out = vec![0.0; tokens * width];
            kernel.attend(&qkv, tokens, heads, &mut out);
            for (token, head, at) in [(0, 0, 0), (5, 1, 31), (18, 0, 7)] {
                let part = |of: usize, which: usize, d: usize| f64::from(qkv[of * 3 * width + which * width + head * 32 + d]);
                let powers: Vec<f64> =
                    (0..tokens).map(|of| ((0..32).map(|d| part(token, 0, d) * part(of, 1, d)).sum::<f64>() / 32_f64.sqrt()).exp()).collect();
                let exact = (0..tokens).map(|of| powers[of] * part(of, 2, at)).sum::<f64>() / powers.iter().sum::<f64>();
                let found = f64::from(out[token * width + head * 32 + at]);
                assert!((found - exact).abs() < 1e-4, "{kernel:?}: {found} for {exact}");
            }
        }
    }
}
