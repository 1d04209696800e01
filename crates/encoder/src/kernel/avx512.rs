//! AVX-512 with VNNI: a step of a panel is one register, and one instruction multiplies and adds. What is not a product of tiles is that of AVX2.

use std::arch::x86_64::*;

use super::matrix::{PANEL_COLUMNS, TILE_ROWS, Tile};
use super::{Matrix, Rows, avx2, matrix};

#[target_feature(enable = "avx512f,avx512bw,avx512vnni,avx2,fma")]
pub(super) fn multiply(rows: &Rows, matrix: &Matrix, out: &mut [f32]) {
    matrix::multiply(rows, matrix, out, |panel, group| tile(panel, group));
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
fn tile(panel: &[[i8; 2 * PANEL_COLUMNS]], group: &[[i32; TILE_ROWS]]) -> Tile {
    let mut sums = [[_mm512_setzero_si512(); TILE_ROWS]; 2];
    let (pairs, rest) = panel.as_chunks::<2>();
    let (group_pairs, group_rest) = group.as_chunks::<2>();
    for (weights, activations) in pairs.iter().zip(group_pairs) {
        for ((sums, weights), activations) in sums.iter_mut().zip(weights).zip(activations) {
            add_step(sums, weights, activations);
        }
    }
    for (weights, activations) in rest.iter().zip(group_rest) {
        add_step(&mut sums[0], weights, activations);
    }
    let mut out = [[0; PANEL_COLUMNS]; TILE_ROWS];
    for ((out, even), odd) in out.iter_mut().zip(sums[0]).zip(sums[1]) {
        stored(out, _mm512_add_epi32(even, odd));
    }
    out
}

#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
#[inline]
fn add_step(sums: &mut [__m512i; TILE_ROWS], weights: &[i8; 2 * PANEL_COLUMNS], activations: &[i32; TILE_ROWS]) {
    let weights = widened(weights);
    for (sum, two) in sums.iter_mut().zip(activations) {
        *sum = _mm512_dpwssd_epi32(*sum, weights, _mm512_set1_epi32(*two));
    }
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
fn stored(out: &mut [i32; PANEL_COLUMNS], sum: __m512i) {
    // SAFETY: the array has the 64 bytes of an unaligned store.
    unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), sum) }
}
