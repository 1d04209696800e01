//! AVX-512 with VNNI: a step of a panel is one register, and one instruction multiplies and adds. What is not a product of tiles is that of AVX2.

use std::arch::x86_64::*;

use super::matrix::{Factors, PANEL_COLUMNS, TILE_ROWS, Tile};
use super::{Matrix, Rows, avx2, matrix};

#[target_feature(enable = "avx512f,avx512bw,avx512vnni,avx2,fma")]
pub(super) fn multiply(rows: &Rows, matrix: &Matrix, out: &mut [f32]) {
    matrix::multiply(rows, matrix, out, |panel, group, factors| tile(panel, group, factors));
}

#[target_feature(enable = "avx512f,avx512bw,avx512vnni,avx2,fma")]
pub(super) fn quantize(values: &[f32], rows: &mut Rows) {
    avx2::quantize(values, rows);
}

#[target_feature(enable = "avx512f,avx512bw,avx512vnni,avx2,fma")]
pub(super) fn gelu(values: &mut [f32]) {
    avx2::gelu(values);
}

#[target_feature(enable = "avx512f,avx512bw,avx512vnni,avx2,fma")]
pub(super) fn add_and_norm(values: &mut [f32], more: &[f32], gains: &[f32], offsets: &[f32]) {
    avx2::add_and_norm(values, more, gains, offsets);
}

#[target_feature(enable = "avx512f,avx512bw,avx512vnni,avx2,fma")]
pub(super) fn attend(qkv: &[f32], tokens: usize, heads: usize, out: &mut [f32]) {
    avx2::attend(qkv, tokens, heads, out);
}

/// Six rows by sixteen columns. Even and odd steps have sums of their own, so that twelve independent sums hide the latency of the instruction.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
#[inline]
#[allow(clippy::needless_range_loop, reason = "with iterators over the rows the sums are kept in memory")]
fn tile(panel: &[[i8; 2 * PANEL_COLUMNS]], group: &[[i32; TILE_ROWS]], factors: &Factors<'_>) -> Tile {
    let mut even = [_mm512_setzero_si512(); TILE_ROWS];
    let mut odd = [_mm512_setzero_si512(); TILE_ROWS];
    let (pairs, rest) = panel.as_chunks::<2>();
    let (group_pairs, group_rest) = group.as_chunks::<2>();
    for ([first, second], [one, other]) in pairs.iter().zip(group_pairs) {
        let (first, second) = (widened(first), widened(second));
        for row in 0..TILE_ROWS {
            even[row] = _mm512_dpwssd_epi32(even[row], first, _mm512_set1_epi32(one[row]));
            odd[row] = _mm512_dpwssd_epi32(odd[row], second, _mm512_set1_epi32(other[row]));
        }
    }
    if let (Some(weights), Some(activations)) = (rest.first(), group_rest.first()) {
        let weights = widened(weights);
        for row in 0..TILE_ROWS {
            even[row] = _mm512_dpwssd_epi32(even[row], weights, _mm512_set1_epi32(activations[row]));
        }
    }
    let (column_scales, bias) = (sixteen(factors.column_scales), sixteen(factors.bias));
    let mut out = [[0.0; PANEL_COLUMNS]; TILE_ROWS];
    for row in 0..TILE_ROWS {
        let sum = _mm512_cvtepi32_ps(_mm512_add_epi32(even[row], odd[row]));
        let scales = _mm512_mul_ps(_mm512_set1_ps(factors.row_scales[row]), column_scales);
        stored(&mut out[row], _mm512_add_ps(_mm512_mul_ps(sum, scales), bias));
    }
    out
}

#[target_feature(enable = "avx512f")]
#[inline]
#[expect(unsafe_code, reason = "a register is filled from memory")]
fn sixteen(values: &[f32; PANEL_COLUMNS]) -> __m512 {
    // SAFETY: the array has the 64 bytes of an unaligned load.
    unsafe { _mm512_loadu_ps(values.as_ptr()) }
}

#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
#[expect(unsafe_code, reason = "a register is filled from memory")]
fn widened(weights: &[i8; 2 * PANEL_COLUMNS]) -> __m512i {
    // SAFETY: the array has the 32 bytes of an unaligned load.
    let bytes = unsafe { _mm256_loadu_si256(weights.as_ptr().cast()) };
    _mm512_cvtepi8_epi16(bytes)
}

#[target_feature(enable = "avx512f")]
#[inline]
#[expect(unsafe_code, reason = "a register is emptied into memory")]
fn stored(out: &mut [f32; PANEL_COLUMNS], values: __m512) {
    // SAFETY: the array has the 64 bytes of an unaligned store.
    unsafe { _mm512_storeu_ps(out.as_mut_ptr(), values) }
}
