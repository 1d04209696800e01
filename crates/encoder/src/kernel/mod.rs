//! The arithmetic of the encoder: products of int8 weights with 16-bit activations, and the functions between them.
//!
//! Every function has one source and is compiled for each set of instructions: AVX-512 with VNNI, AVX2, and whatever the target has. The products of tiles
//! are written with the instructions of a set; they are of whole numbers, so that all sets have the same result to the bit. [`Kernel::of_process`] is the
//! fastest one, unless the program set another.
//!
//! ```text
//!   activations (f32) ── quantize ──▶ Rows (i16 pairs, a scale a row) ── multiply with Matrix (i8 panels) ──▶ f32 + bias
//! ```

mod attention;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod matrix;
mod vector;

use std::sync::OnceLock;

pub use matrix::{Matrix, Rows};

use matrix::{Factors, PANEL_COLUMNS, TILE_ROWS, Tile};

/// A set of instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// AVX-512 with VNNI.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// Compiled for any processor.
    Portable,
}

/// What [`Kernel::set_for_process`] set.
static OF_PROCESS: OnceLock<Kernel> = OnceLock::new();

/// Calls the compilation for this processor.
macro_rules! dispatch {
    ($self:expr, $function:ident ( $($argument:expr),* )) => {
        match $self {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: this variant is only made where the processor has AVX-512 with BW and VNNI, and AVX2 and FMA.
            Kernel::Avx512 => unsafe { avx512::$function($($argument),*) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: this variant is only made where the processor has AVX2 and FMA.
            Kernel::Avx2 => unsafe { avx2::$function($($argument),*) },
            Kernel::Portable => portable::$function($($argument),*),
        }
    };
}

#[cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "functions compiled for a set of instructions are called where it was detected"))]
impl Kernel {
    /// The set of this process: the one that [`Kernel::set_for_process`] set, or the fastest that this processor has.
    pub fn of_process() -> Kernel {
        OF_PROCESS.get().copied().unwrap_or_else(|| Kernel::available()[0])
    }

    /// Makes encoders that are loaded from now on use this set. Only the first call has an effect, so that a process computes with one set throughout;
    /// a set that this processor does not have is not taken either. Returns whether this set is the one of the process now.
    pub fn set_for_process(self) -> bool {
        Kernel::available().contains(&self) && *OF_PROCESS.get_or_init(|| self) == self
    }

    /// The sets that this processor has, the fastest first.
    pub fn available() -> Vec<Kernel> {
        let mut all = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            let has_avx2 = has!("avx2") && has!("fma");
            if has_avx2 && has!("avx512f") && has!("avx512bw") && has!("avx512vnni") {
                all.push(Kernel::Avx512);
            }
            if has_avx2 {
                all.push(Kernel::Avx2);
            }
        }
        all.push(Kernel::Portable);
        all
    }

    /// The name in settings and reports.
    pub fn name(self) -> &'static str {
        match self {
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 => "avx512",
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => "avx2",
            Kernel::Portable => "portable",
        }
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
        matrix::quantize(values, rows, |row| vector::largest(row, f32::abs));
    }

    pub(super) fn gelu(values: &mut [f32]) {
        vector::gelu(values);
    }

    pub(super) fn add_and_norm(values: &mut [f32], more: &[f32], gains: &[f32], offsets: &[f32]) {
        vector::add_and_norm(values, more, gains, offsets);
    }

    pub(super) fn attend(qkv: &[f32], tokens: usize, heads: usize, out: &mut [f32]) {
        attention::attend(qkv, tokens, heads, out, attention::compared, vector::softmax, attention::collected);
    }
}

/// One row after the other, so that the sums of a row stay in registers.
fn portable_tile(panel: &[[i8; 2 * PANEL_COLUMNS]], group: &[[i32; TILE_ROWS]], factors: &Factors<'_>) -> Tile {
    std::array::from_fn(|row| {
        let mut sums = [0; PANEL_COLUMNS];
        for (weights, activations) in panel.iter().zip(group) {
            let two = activations[row];
            let (low, high) = (i32::from(two as i16), two >> 16);
            for (sum, pair) in sums.iter_mut().zip(weights.as_chunks::<2>().0) {
                *sum += low * i32::from(pair[0]) + high * i32::from(pair[1]);
            }
        }
        let scale = factors.row_scales[row];
        std::array::from_fn(|column| sums[column] as f32 * (scale * factors.column_scales[column]) + factors.bias[column])
    })
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

    #[test]
    fn products_are_those_of_the_weights() {
        for (count, width, columns) in [(1, 32, 16), (7, 64, 48), (13, 384, 32)] {
            let weights: Vec<i8> = numbers(width * columns, 3).iter().map(|x| (x * 127.0) as i8).collect();
            let scales: Vec<f32> = numbers(columns, 5).iter().map(|x| x.abs() / 100.0).collect();
            let bias = numbers(columns, 7);
            let matrix = Matrix::new(&weights, scales.clone(), bias.clone(), width);
            let x = numbers(count * width, 11);
            for kernel in Kernel::available() {
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
    fn all_sets_have_the_same_products() {
        let (count, width, columns) = (31, 386, 48);
        let weights: Vec<i8> = numbers(width * columns, 23).iter().map(|x| (x * 127.0) as i8).collect();
        let matrix = Matrix::new(&weights, numbers(columns, 29), numbers(columns, 31), width);
        let x = numbers(count * width, 37);
        let products = |kernel: Kernel| {
            let (mut rows, mut out) = (Rows::default(), vec![f32::NAN; count * columns]);
            Kernel::Portable.quantize(&x, width, &mut rows);
            kernel.multiply(&rows, &matrix, &mut out);
            out.into_iter().map(f32::to_bits).collect::<Vec<_>>()
        };
        for kernel in Kernel::available() {
            assert_eq!(products(kernel), products(Kernel::Portable), "{kernel:?}");
        }
    }

    #[test]
    fn gelu_is_x_times_the_normal_share_below_x() {
        /// Simpson's rule from 0 to x.
        fn share_below(x: f64) -> f64 {
            const PARTS: usize = 200;
            let (step, density) = (x / PARTS as f64, |x: f64| (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt());
            let inner = (1..PARTS).map(|at| density(at as f64 * step) * if at % 2 == 1 { 4.0 } else { 2.0 });
            0.5 + step / 3.0 * (density(0.0) + inner.sum::<f64>() + density(x))
        }
        // Not a multiple of eight, so that the last ones are computed one by one.
        let x: Vec<f32> = (0..1_003).map(|at| (at as f32 - 501.0) / 50.0).chain([-80.0, 80.0, f32::MIN_POSITIVE]).collect();
        for kernel in Kernel::available() {
            let mut found = x.clone();
            kernel.gelu(&mut found);
            for (x, found) in x.iter().zip(&found) {
                let exact = f64::from(*x) * share_below(f64::from(*x).clamp(-12.0, 12.0));
                assert!((f64::from(*found) - exact).abs() < 2e-6 * (1.0 + exact.abs()), "{kernel:?}: gelu({x}) = {found}, not {exact}");
            }
        }
    }

    #[test]
    fn a_process_has_one_set() {
        let [first, others @ ..] = &Kernel::available()[..] else { unreachable!("there is always the portable one") };
        assert!(first.set_for_process());
        assert!(others.iter().all(|other| !other.set_for_process()), "the first one stays");
        assert_eq!(Kernel::of_process(), *first);
    }

    #[test]
    fn attention_is_a_mean_by_likeness() {
        let (tokens, heads, width) = (19, 2, 64);
        let qkv = numbers(tokens * 3 * width, 17);
        for kernel in Kernel::available() {
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
