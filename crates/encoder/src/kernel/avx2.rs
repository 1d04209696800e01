//! AVX2 and FMA: the product of a tile, GELU and attention are written with their instructions, the rest is compiled for them.

use std::arch::x86_64::*;

use super::attention::{COLLECTED, Collected, HEAD, KEYS, Keys, QUERIES, Queries, Scores};
use super::matrix::{Factors, PANEL_COLUMNS, TILE_ROWS, Tile};
use super::{Matrix, Rows, attention, matrix, vector};

#[target_feature(enable = "avx2")]
pub(super) fn multiply(rows: &Rows, matrix: &Matrix, out: &mut [f32]) {
    matrix::multiply(rows, matrix, out, |panel, group, factors| tile(panel, group, factors));
}

#[target_feature(enable = "avx2")]
pub(super) fn quantize(values: &[f32], rows: &mut Rows) {
    matrix::quantize(values, rows, |row| largest(row, _mm256_set1_ps(-0.0)));
}

/// As [`vector::gelu`].
#[target_feature(enable = "avx2,fma")]
pub(super) fn gelu(values: &mut [f32]) {
    let (parts, rest) = values.as_chunks_mut::<8>();
    for part in parts {
        let x = eight(part);
        let size = _mm256_andnot_ps(_mm256_set1_ps(-0.0), x);
        let y = _mm256_mul_ps(size, _mm256_set1_ps(std::f32::consts::FRAC_1_SQRT_2));
        let t = _mm256_div_ps(_mm256_set1_ps(1.0), _mm256_fmadd_ps(_mm256_set1_ps(vector::ERF_SLOPE), y, _mm256_set1_ps(1.0)));
        let series = _mm256_mul_ps(t, polynomial(t, &vector::ERF_SERIES));
        let tail = _mm256_mul_ps(series, exp(_mm256_sub_ps(_mm256_setzero_ps(), _mm256_mul_ps(y, y))));
        let doubled = _mm256_add_ps(x, _mm256_fnmadd_ps(size, tail, size));
        emptied(part, _mm256_mul_ps(_mm256_set1_ps(0.5), doubled));
    }
    vector::gelu(rest);
}

/// As [`vector::softmax`].
#[target_feature(enable = "avx2,fma")]
#[inline]
fn softmax(scores: &mut [f32], count: usize, scale: f32) -> f32 {
    let largest = largest(&scores[..count], _mm256_setzero_ps());
    let (scale, offset) = (_mm256_set1_ps(scale), _mm256_set1_ps(-largest * scale));
    let mut sums = _mm256_setzero_ps();
    let (used, padding) = scores.split_at_mut(count);
    padding.fill(0.0);
    let (parts, rest) = used.as_chunks_mut::<8>();
    for part in parts {
        let power = exp(_mm256_fmadd_ps(eight(part), scale, offset));
        sums = _mm256_add_ps(sums, power);
        emptied(part, power);
    }
    let mut lanes = [0.0; 8];
    emptied(&mut lanes, sums);
    let mut total: f32 = lanes.iter().sum();
    for score in rest {
        *score = vector::exp(*score * _mm256_cvtss_f32(scale) + _mm256_cvtss_f32(offset));
        total += *score;
    }
    total
}

/// As [`vector::largest`], of the values without the bits in `cleared`. Written by hand: compiled, the comparison became a masked store, which some
/// processors take many cycles for.
#[target_feature(enable = "avx2")]
#[inline]
fn largest(values: &[f32], cleared: __m256) -> f32 {
    let (parts, rest) = values.as_chunks::<8>();
    let (pairs, last) = parts.as_chunks::<2>();
    let (mut one, mut other) = (_mm256_set1_ps(f32::MIN), _mm256_set1_ps(f32::MIN));
    for [first, second] in pairs {
        one = _mm256_max_ps(one, _mm256_andnot_ps(cleared, eight(first)));
        other = _mm256_max_ps(other, _mm256_andnot_ps(cleared, eight(second)));
    }
    for part in last {
        one = _mm256_max_ps(one, _mm256_andnot_ps(cleared, eight(part)));
    }
    let mut lanes = [0.0; 8];
    emptied(&mut lanes, _mm256_max_ps(one, other));
    let clear = !_mm256_cvtss_f32(cleared).to_bits();
    let rest = rest.iter().map(|x| f32::from_bits(x.to_bits() & clear));
    lanes.into_iter().chain(rest).fold(f32::MIN, f32::max)
}

/// As [`vector::exp`].
#[target_feature(enable = "avx2,fma")]
#[inline]
fn exp(x: __m256) -> __m256 {
    let shift = _mm256_set1_ps(vector::SHIFT);
    let z = _mm256_max_ps(_mm256_mul_ps(x, _mm256_set1_ps(std::f32::consts::LOG2_E)), _mm256_set1_ps(vector::POWER_MIN));
    let whole = _mm256_add_ps(z, shift);
    let rest = _mm256_mul_ps(_mm256_sub_ps(z, _mm256_sub_ps(whole, shift)), _mm256_set1_ps(std::f32::consts::LN_2));
    let exponent = _mm256_sub_epi32(_mm256_castps_si256(whole), _mm256_set1_epi32(vector::SHIFT.to_bits().cast_signed() - 127));
    _mm256_mul_ps(polynomial(rest, &vector::EXP_SERIES), _mm256_castsi256_ps(_mm256_slli_epi32::<23>(exponent)))
}

/// The sum of `series[k] · x^k`. A loop: a closure that an iterator calls is not compiled for these instructions.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn polynomial<const N: usize>(x: __m256, series: &[f32; N]) -> __m256 {
    let mut sum = _mm256_set1_ps(series[N - 1]);
    for at in (0..N - 1).rev() {
        sum = _mm256_fmadd_ps(sum, x, _mm256_set1_ps(series[at]));
    }
    sum
}

#[target_feature(enable = "avx2")]
pub(super) fn add_and_norm(values: &mut [f32], more: &[f32], gains: &[f32], offsets: &[f32]) {
    vector::add_and_norm(values, more, gains, offsets);
}

#[target_feature(enable = "avx2,fma")]
pub(super) fn attend(qkv: &[f32], tokens: usize, heads: usize, out: &mut [f32]) {
    let (compared, collected) =
        (|queries: &Queries, keys: &Keys| compared(queries, keys), |scores: [&[f32]; COLLECTED], values: &[[f32; HEAD]]| collected(scores, values));
    attention::attend(qkv, tokens, heads, out, compared, |scores, count, scale| softmax(scores, count, scale), collected);
}

/// Six rows by sixteen columns: twelve sums stay in registers, and each weight that was widened to 16 bits is used six times.
#[target_feature(enable = "avx2")]
#[inline]
#[allow(clippy::needless_range_loop, reason = "with iterators over the rows the sums are kept in memory")]
fn tile(panel: &[[i8; 2 * PANEL_COLUMNS]], group: &[[i32; TILE_ROWS]], factors: &Factors<'_>) -> Tile {
    let mut left = [_mm256_setzero_si256(); TILE_ROWS];
    let mut right = [_mm256_setzero_si256(); TILE_ROWS];
    for (weights, activations) in panel.iter().zip(group) {
        let (first, second) = widened(weights);
        for row in 0..TILE_ROWS {
            let two = _mm256_set1_epi32(activations[row]);
            left[row] = _mm256_add_epi32(left[row], _mm256_madd_epi16(two, first));
            right[row] = _mm256_add_epi32(right[row], _mm256_madd_epi16(two, second));
        }
    }
    let mut out = [[0.0; PANEL_COLUMNS]; TILE_ROWS];
    for (half, sums) in [left, right].iter().enumerate() {
        let (column_scales, bias) = (eight(&factors.column_scales[8 * half..]), eight(&factors.bias[8 * half..]));
        for row in 0..TILE_ROWS {
            let scales = _mm256_mul_ps(_mm256_set1_ps(factors.row_scales[row]), column_scales);
            let values = _mm256_add_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(sums[row]), scales), bias);
            emptied(&mut out[row].as_chunks_mut::<8>().0[half], values);
        }
    }
    out
}

/// Four queries by sixteen keys: eight sums stay in registers.
#[target_feature(enable = "avx2,fma")]
#[inline]
#[allow(clippy::needless_range_loop, reason = "with iterators over the rows the sums are kept in memory")]
fn compared(queries: &Queries, keys: &Keys) -> Scores {
    let mut left = [_mm256_setzero_ps(); QUERIES];
    let mut right = [_mm256_setzero_ps(); QUERIES];
    for (d, keys) in keys.iter().enumerate() {
        let (first, second) = (eight(&keys[..8]), eight(&keys[8..]));
        for row in 0..QUERIES {
            let query = _mm256_set1_ps(queries[row][d]);
            left[row] = _mm256_fmadd_ps(query, first, left[row]);
            right[row] = _mm256_fmadd_ps(query, second, right[row]);
        }
    }
    let mut out = [[0.0; KEYS]; QUERIES];
    for row in 0..QUERIES {
        let (halves, _) = out[row].as_chunks_mut::<8>();
        emptied(&mut halves[0], left[row]);
        emptied(&mut halves[1], right[row]);
    }
    out
}

/// Two queries by the 32 values of a head: eight sums stay in registers.
#[target_feature(enable = "avx2,fma")]
#[inline]
#[allow(clippy::needless_range_loop, reason = "with iterators over the parts the sums are kept in memory")]
fn collected(scores: [&[f32]; COLLECTED], values: &[[f32; HEAD]]) -> Collected {
    const PARTS: usize = HEAD / 8;
    let mut one_sums = [_mm256_setzero_ps(); PARTS];
    let mut other_sums = [_mm256_setzero_ps(); PARTS];
    for ((one, other), values) in scores[0].iter().zip(scores[1]).zip(values) {
        let (one, other) = (_mm256_set1_ps(*one), _mm256_set1_ps(*other));
        for part in 0..PARTS {
            let values = eight(&values[8 * part..]);
            one_sums[part] = _mm256_fmadd_ps(one, values, one_sums[part]);
            other_sums[part] = _mm256_fmadd_ps(other, values, other_sums[part]);
        }
    }
    let mut out = [[0.0; HEAD]; COLLECTED];
    for (out, sums) in out.iter_mut().zip([one_sums, other_sums]) {
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
