//! aarch64: 128-bit registers, with the instruction for products of bytes (`sdot`) where the processor has it.
//!
//! A register of weights is four values of four rows. Without `sdot`, products are summed in 16 bits as long as they fit: 32 values
//! of Q4_K ≤ 8 · 15 · 127 = 15240, 16 of Q6_K ≤ 4 · 63 · 127 = 32004 in each lane.

use std::arch::aarch64::*;

use super::activation::Block;
use super::tile::{TALL, Tile4, Tile6};

mod lanes;
pub(super) use lanes::Four;

pub(super) fn has_dot_product() -> bool {
    std::arch::is_aarch64_feature_detected!("dotprod")
}

/// Sums of products of bytes, four rows of weights beside each other.
trait Sums: Copy {
    fn zero() -> Self;
    /// Adds four products to each row's sum.
    fn add(self, weights: int8x16_t, x: int8x16_t) -> Self;
    fn rows(self) -> int32x4_t;
}

/// By `sdot`; used only where the processor has it.
#[derive(Clone, Copy)]
struct Dot(int32x4_t);

impl Sums for Dot {
    #[inline(always)]
    fn zero() -> Self {
        // SAFETY: every aarch64 processor has it.
        Dot(unsafe { vdupq_n_s32(0) })
    }
    #[inline(always)]
    fn add(self, weights: int8x16_t, x: int8x16_t) -> Self {
        let mut sums = self.0;
        // SAFETY: it changes the one register that it names.
        unsafe {
            std::arch::asm!(
                ".arch_extension dotprod",
                "sdot {sums:v}.4s, {weights:v}.16b, {x:v}.16b",
                sums = inout(vreg) sums, weights = in(vreg) weights, x = in(vreg) x,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        Dot(sums)
    }
    #[inline(always)]
    fn rows(self) -> int32x4_t {
        self.0
    }
}

/// Without it: rows 0 and 1, rows 2 and 3, a lane for each of the four values.
#[derive(Clone, Copy)]
struct Plain(int16x8_t, int16x8_t);

impl Sums for Plain {
    #[inline(always)]
    fn zero() -> Self {
        // SAFETY: every aarch64 processor has it.
        unsafe { Plain(vdupq_n_s16(0), vdupq_n_s16(0)) }
    }
    #[inline(always)]
    fn add(self, weights: int8x16_t, x: int8x16_t) -> Self {
        // SAFETY: every aarch64 processor has it.
        unsafe { Plain(vmlal_s8(self.0, vget_low_s8(weights), vget_low_s8(x)), vmlal_high_s8(self.1, weights, x)) }
    }
    #[inline(always)]
    fn rows(self) -> int32x4_t {
        // SAFETY: every aarch64 processor has it.
        unsafe { vpaddq_s32(vpaddlq_s16(self.0), vpaddlq_s16(self.1)) }
    }
}

#[target_feature(enable = "neon,dotprod")]
pub(super) fn product_4_dot(tiles: &[Tile4], x: &[Block], sums: &mut [[f32; TALL]]) {
    product_4_by::<Dot>(tiles, x, sums);
}

#[target_feature(enable = "neon,dotprod")]
pub(super) fn product_6_dot(tiles: &[Tile6], x: &[Block], sums: &mut [[f32; TALL]]) {
    product_6_by::<Dot>(tiles, x, sums);
}

#[target_feature(enable = "neon")]
pub(super) fn product_4(tiles: &[Tile4], x: &[Block], sums: &mut [[f32; TALL]]) {
    product_4_by::<Plain>(tiles, x, sums);
}

#[target_feature(enable = "neon")]
pub(super) fn product_6(tiles: &[Tile6], x: &[Block], sums: &mut [[f32; TALL]]) {
    product_6_by::<Plain>(tiles, x, sums);
}

/// Rows of activations four at a time, then one at a time.
macro_rules! by_rows {
    ($name:ident, $some:ident, $tile:ty) => {
        /// 16 rows of weights times each row of activations. A row has as many blocks as there are tiles.
        #[inline(always)]
        fn $name<S: Sums>(tiles: &[$tile], x: &[Block], sums: &mut [[f32; TALL]]) {
            let wide = tiles.len();
            assert!(x.len() == wide * sums.len());
            sums.fill([0.0; TALL]);
            let mut row = 0;
            macro_rules! some {
                ($count:literal) => {
                    if let Some(sums) = sums[row..].first_chunk_mut() {
                        for (at, tile) in tiles.iter().enumerate() {
                            let mut some = [&Block::EMPTY; $count];
                            for (more, some) in some.iter_mut().enumerate() {
                                *some = &x[(row + more) * wide + at];
                            }
                            $some::<S, $count>(tile, some, sums);
                        }
                    }
                    row += $count;
                };
            }
            while row + 4 <= sums.len() {
                some!(4);
            }
            while row < sums.len() {
                some!(1);
            }
        }
    };
}

by_rows!(product_4_by, tile_4, Tile4);
by_rows!(product_6_by, tile_6, Tile6);

#[inline(always)]
fn tile_4<S: Sums, const N: usize>(tile: &Tile4, x: [&Block; N], sums: &mut [[f32; TALL]; N]) {
    // SAFETY: every aarch64 processor has these instructions.
    unsafe {
        let low = vdupq_n_u8(0x0f);
        for quarter in 0..4 {
            let mut scaled = [vdupq_n_s32(0); N];
            let mut less = [vdupq_n_s32(0); N];
            for (pair, part) in tile.parts.iter().enumerate() {
                let mut even = [S::zero(); N];
                let mut odd = [S::zero(); N];
                for step in 0..8 {
                    let both = bytes(&part.steps[step], quarter);
                    let first = vreinterpretq_s8_u8(vandq_u8(both, low));
                    let other = vreinterpretq_s8_u8(vshrq_n_u8::<4>(both));
                    for row in 0..N {
                        even[row] = even[row].add(first, word(x[row], 16 * pair + step));
                        odd[row] = odd[row].add(other, word(x[row], 16 * pair + 8 + step));
                    }
                }
                let scale = |at: usize| numbers(std::array::from_fn(|row| i32::from(part.scales[at][4 * quarter + row])));
                let min = |at: usize| numbers(std::array::from_fn(|row| i32::from(part.mins[2 * (4 * quarter + row) + at])));
                let (scale_even, scale_odd, min_even, min_odd) = (scale(0), scale(1), min(0), min(1));
                for row in 0..N {
                    scaled[row] = vmlaq_s32(vmlaq_s32(scaled[row], even[row].rows(), scale_even), odd[row].rows(), scale_odd);
                    let pair = x[row].sums[pair];
                    less[row] = vmlaq_n_s32(vmlaq_n_s32(less[row], min_even, i32::from(pair as i16)), min_odd, pair >> 16);
                }
            }
            let (d, dmin) = (floats(&tile.d, quarter), floats(&tile.dmin, quarter));
            for row in 0..N {
                let whole = vmulq_f32(vcvtq_f32_s32(scaled[row]), d);
                let whole = vfmsq_f32(whole, vcvtq_f32_s32(less[row]), dmin);
                add(&mut sums[row], quarter, whole, x[row].scale);
            }
        }
    }
}

#[inline(always)]
fn tile_6<S: Sums, const N: usize>(tile: &Tile6, x: [&Block; N], sums: &mut [[f32; TALL]; N]) {
    // SAFETY: every aarch64 processor has these instructions.
    unsafe {
        let (low, high) = (vdupq_n_u8(0x0f), vdupq_n_u8(0x30));
        for quarter in 0..4 {
            let mut scaled = [vdupq_n_s32(0); N];
            for group in 0..8 {
                let part = &tile.parts[group / 2];
                let mut even = [S::zero(); N];
                let mut odd = [S::zero(); N];
                for step in 0..4 {
                    let steps = &part.halves[group % 2][step / 2];
                    let rest = bytes(&steps.rest, quarter);
                    let lanes = vreinterpretq_u32_u8(rest);
                    let turned = vreinterpretq_u8_u32(vsriq_n_u32::<28>(vshlq_n_u32::<4>(lanes), lanes));
                    let rest = if step % 2 == 0 { rest } else { turned };
                    let both = bytes(&steps.steps[step % 2], quarter);
                    // Where the mask has ones, bits of the rest.
                    let first = vorrq_u8(vandq_u8(both, low), vandq_u8(rest, high));
                    let other = vorrq_u8(vbicq_u8(both, low), vandq_u8(rest, vdupq_n_u8(0x0c)));
                    let (first, other) = (vreinterpretq_s8_u8(first), vreinterpretq_s8_u8(vshrq_n_u8::<2>(other)));
                    for row in 0..N {
                        even[row] = even[row].add(first, word(x[row], 8 * group + step));
                        odd[row] = odd[row].add(other, word(x[row], 8 * group + 4 + step));
                    }
                }
                let scales = &part.scales[group % 2];
                let scale = |at: usize| numbers(std::array::from_fn(|row| i32::from(scales[2 * (4 * quarter + row) + at])));
                let (scale_even, scale_odd) = (scale(0), scale(1));
                for row in 0..N {
                    let pair = x[row].sums_16[group];
                    let (even, odd) = (even[row].rows(), odd[row].rows());
                    let even = vsubq_s32(even, vdupq_n_s32(32 * i32::from(pair as i16)));
                    let odd = vsubq_s32(odd, vdupq_n_s32(32 * (pair >> 16)));
                    scaled[row] = vmlaq_s32(vmlaq_s32(scaled[row], even, scale_even), odd, scale_odd);
                }
            }
            let d = floats(&tile.d, quarter);
            for row in 0..N {
                add(&mut sums[row], quarter, vmulq_f32(vcvtq_f32_s32(scaled[row]), d), x[row].scale);
            }
        }
    }
}

#[inline(always)]
fn bytes(from: &[u8; 64], quarter: usize) -> uint8x16_t {
    // SAFETY: the quarter has 16 bytes.
    unsafe { vld1q_u8(from.as_chunks::<16>().0[quarter].as_ptr()) }
}

/// The same four activations for four rows.
#[inline(always)]
fn word(x: &Block, at: usize) -> int8x16_t {
    // SAFETY: every aarch64 processor has it.
    unsafe { vreinterpretq_s8_s32(vdupq_n_s32(x.words[at])) }
}

#[inline(always)]
fn numbers(from: [i32; 4]) -> int32x4_t {
    // SAFETY: the array has four values.
    unsafe { vld1q_s32(from.as_ptr()) }
}

#[inline(always)]
fn floats(from: &[u16; 16], quarter: usize) -> float32x4_t {
    lanes::from_half(&from.as_chunks::<4>().0[quarter])
}

#[inline(always)]
fn add(sums: &mut [f32; TALL], quarter: usize, whole: float32x4_t, scale: f32) {
    let sums = &mut sums.as_chunks_mut::<4>().0[quarter];
    // SAFETY: the array has four values.
    unsafe { vst1q_f32(sums.as_mut_ptr(), vfmaq_n_f32(vld1q_f32(sums.as_ptr()), whole, scale)) }
}
