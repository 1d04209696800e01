//! What is multiplied with the weights, in eight bits: each 256 values share a scale.

use super::lanes::Lanes;
use super::tile::WIDE;

#[derive(Clone)]
#[repr(C, align(64))]
pub(super) struct Block {
    /// Four values each, as the products take them.
    pub(super) words: [i32; WIDE / 4],
    /// What Q6_K begins to count from, in each 16 values: −32 times their sum, and four times that for each second.
    pub(super) offsets: [i32; WIDE / 16],
    /// The sums of each 32 values, two in a word.
    pub(super) sums: [i32; WIDE / 64],
    /// The sums of each 16 values, two in a word.
    pub(super) sums_16: [i32; WIDE / 32],
    pub(super) scale: f32,
}

impl Block {
    pub(super) const EMPTY: Block = Block { words: [0; 64], offsets: [0; 16], sums: [0; 4], sums_16: [0; 8], scale: 0.0 };
}

/// `blocks` has one for each 256 of `values`.
#[inline(always)]
pub(super) fn quantize<L: Lanes>(values: &[f32], blocks: &mut [Block]) {
    assert_eq!(values.len(), blocks.len() * WIDE);
    for (values, block) in values.as_chunks().0.iter().zip(blocks) {
        quantize_one::<L>(values, block);
    }
}

/// The same after the values were divided by their root mean square, each times its gain.
#[inline(always)]
pub(super) fn quantize_normed<L: Lanes>(values: &[f32], gains: &[f32], epsilon: f32, blocks: &mut [Block]) {
    assert!(values.len() == blocks.len() * WIDE && values.len() == gains.len());
    let mut squares = L::splat(0.0);
    for part in values.as_chunks().0 {
        let part = L::load(part);
        squares = part.mul_add(part, squares);
    }
    let size = (squares.sum() / values.len() as f32 + epsilon).sqrt();
    let per = L::splat(1.0 / size);
    for ((values, gains), block) in values.as_chunks::<WIDE>().0.iter().zip(gains.as_chunks::<WIDE>().0).zip(blocks) {
        let mut normed = [0.0; WIDE];
        let (values, gains, parts) = (values.as_chunks().0, gains.as_chunks().0, normed.as_chunks_mut().0);
        for at in 0..WIDE / 16 {
            L::load(&values[at]).mul(per).mul(L::load(&gains[at])).store(&mut parts[at]);
        }
        quantize_one::<L>(&normed, block);
    }
}

#[inline(always)]
fn quantize_one<L: Lanes>(values: &[f32; WIDE], block: &mut Block) {
    let parts = values.as_chunks::<16>().0;
    let mut most = L::splat(0.0);
    for part in parts {
        most = most.max(L::load(part).abs());
    }
    let most = most.largest();
    block.scale = most / 127.0;
    let per = L::splat(if most > 0.0 { 127.0 / most } else { 0.0 });
    let mut sums = [0_i32; WIDE / 16];
    let words = block.words.as_chunks_mut().0;
    for at in 0..WIDE / 16 {
        sums[at] = L::load(&parts[at]).mul(per).store_bytes(&mut words[at]);
        block.offsets[at] = sums[at].wrapping_mul(if at % 2 == 0 { -32 } else { -128 });
    }
    // Each at most 32 · 127, so it fits half a word; only of values that are no numbers it may be anything.
    for at in 0..WIDE / 32 {
        block.sums_16[at] = pair(sums[2 * at], sums[2 * at + 1]);
    }
    for at in 0..WIDE / 64 {
        block.sums[at] = pair(sums[4 * at].wrapping_add(sums[4 * at + 1]), sums[4 * at + 2].wrapping_add(sums[4 * at + 3]));
    }
}

#[inline(always)]
fn pair(first: i32, other: i32) -> i32 {
    first & 0xffff | other << 16
}
