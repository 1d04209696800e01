//! AVX2 and FMA: the product of a tile and the sums of attention are written with their instructions, the rest is compiled for them.

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
#[allow(clippy::needless_range_loop, reason = "with iterators over the rows the sums are kept in memory")]
fn tile(panel: &[[i8; 2 * PANEL_COLUMNS]], group: &[[i32; TILE_ROWS]]) -> Tile {
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
    let mut out = [[0; PANEL_COLUMNS]; TILE_ROWS];
    for row in 0..TILE_ROWS {
        stored(&mut out[row], [left[row], right[row]]);
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
