//! What is multiplied with the weights, in eight bits: each 256 values share a scale. Loops are plain for the reason
//! that `product` gives.

use std::arch::x86_64::*;

use super::tile::WIDE;
use super::vector::{floats, put, put_bytes};

#[derive(Clone)]
#[repr(C, align(64))]
pub(super) struct Block {
    /// Four values each, as the products take them.
    pub(super) words: [i32; WIDE / 4],
    /// What Q6_K begins to count from, in each 16 values: −32 times their sum, and four times that for each second.
    pub(super) offsets: [i32; WIDE / 16],
    /// The sums of each 32 values, two in a word.
    pub(super) sums: [i32; WIDE / 64],
    pub(super) scale: f32,
}

impl Block {
    pub(super) const EMPTY: Block = Block { words: [0; 64], offsets: [0; 16], sums: [0; 4], scale: 0.0 };
}

/// `blocks` has one for each 256 of `values`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
pub(super) fn quantize(values: &[f32], blocks: &mut [Block]) {
    assert_eq!(values.len(), blocks.len() * WIDE);
    for (values, block) in values.as_chunks().0.iter().zip(blocks) {
        quantize_one(values, block);
    }
}

/// The same after the values were made of common size (RMS norm), each with its gain.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
pub(super) fn quantize_normed(values: &[f32], gains: &[f32], epsilon: f32, blocks: &mut [Block]) {
    assert!(values.len() == blocks.len() * WIDE && values.len() == gains.len());
    let mut squares = _mm512_setzero_ps();
    for part in values.as_chunks().0 {
        squares = _mm512_fmadd_ps(floats(part), floats(part), squares);
    }
    let size = (_mm512_reduce_add_ps(squares) / values.len() as f32 + epsilon).sqrt();
    let per = _mm512_set1_ps(1.0 / size);
    for ((values, gains), block) in values.as_chunks::<WIDE>().0.iter().zip(gains.as_chunks::<WIDE>().0).zip(blocks) {
        let mut normed = [0.0; WIDE];
        let (values, gains, parts) = (values.as_chunks().0, gains.as_chunks().0, normed.as_chunks_mut().0);
        for at in 0..WIDE / 16 {
            put(&mut parts[at], _mm512_mul_ps(_mm512_mul_ps(floats(&values[at]), per), floats(&gains[at])));
        }
        quantize_one(&normed, block);
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
fn quantize_one(values: &[f32; WIDE], block: &mut Block) {
    let parts = values.as_chunks::<16>().0;
    let mut most = _mm512_setzero_ps();
    for part in parts {
        most = _mm512_max_ps(most, _mm512_abs_ps(floats(part)));
    }
    let most = _mm512_reduce_max_ps(most);
    block.scale = most / 127.0;
    let per = _mm512_set1_ps(if most > 0.0 { 127.0 / most } else { 0.0 });
    let mut sums = [0_i32; WIDE / 16];
    let words = block.words.as_chunks_mut().0;
    for at in 0..WIDE / 16 {
        let whole = _mm512_cvtps_epi32(_mm512_mul_ps(floats(&parts[at]), per));
        put_bytes(&mut words[at], whole);
        sums[at] = _mm512_reduce_add_epi32(whole);
        block.offsets[at] = sums[at].wrapping_mul(if at % 2 == 0 { -32 } else { -128 });
    }
    for at in 0..WIDE / 64 {
        // Each at most 32 · 127, so it fits half a word; only of values that are no numbers it may be anything.
        let first = sums[4 * at].wrapping_add(sums[4 * at + 1]);
        let other = sums[4 * at + 2].wrapping_add(sums[4 * at + 3]);
        block.sums[at] = first & 0xffff | other << 16;
    }
}
