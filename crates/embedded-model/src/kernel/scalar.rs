//! The kernels without special instructions: for processors that have none of the others, and what the others are tested against.

use super::activation::Block;
use super::lanes::Lanes;
use super::tile::{TALL, Tile4, Tile6, WIDE};

/// 16 rows of weights times each row of activations. A row has as many blocks as there are tiles.
pub(super) fn product_4(tiles: &[Tile4], x: &[Block], sums: &mut [[f32; TALL]]) {
    let (wide, mut values) = (tiles.len(), [[0; TALL]; WIDE]);
    sums.fill([0.0; TALL]);
    for (at, tile) in tiles.iter().enumerate() {
        unpack_4(tile, &mut values);
        for (x, sums) in x.iter().skip(at).step_by(wide).zip(&mut *sums) {
            let (mut scaled, mut less) = ([0; TALL], [0; TALL]);
            for part in 0..8 {
                let (tile, whole) = (&tile.parts[part / 2], products(&values, x, 32 * part, 32));
                let sum = sum_of(x.sums[part / 2], part % 2);
                for row in 0..TALL {
                    scaled[row] += whole[row] * i32::from(tile.scales[part % 2][row]);
                    less[row] += i32::from(tile.mins[2 * row + part % 2]) * sum;
                }
            }
            for row in 0..TALL {
                let whole = scaled[row] as f32 * float(tile.d[row]);
                let whole = (-(less[row] as f32)).mul_add(float(tile.dmin[row]), whole);
                sums[row] = whole.mul_add(x.scale, sums[row]);
            }
        }
    }
}

pub(super) fn product_6(tiles: &[Tile6], x: &[Block], sums: &mut [[f32; TALL]]) {
    let (wide, mut values) = (tiles.len(), [[0; TALL]; WIDE]);
    sums.fill([0.0; TALL]);
    for (at, tile) in tiles.iter().enumerate() {
        unpack_6(tile, &mut values);
        for (x, sums) in x.iter().skip(at).step_by(wide).zip(&mut *sums) {
            let mut scaled = [0; TALL];
            for part in 0..16 {
                let (scales, whole) = (&tile.parts[part / 4].scales[part / 2 % 2], products(&values, x, 16 * part, 16));
                let offset = 32 * sum_of(x.sums_16[part / 2], part % 2);
                for row in 0..TALL {
                    scaled[row] += (whole[row] - offset) * i32::from(scales[2 * row + part % 2]);
                }
            }
            for row in 0..TALL {
                let whole = scaled[row] as f32 * float(tile.d[row]);
                sums[row] = whole.mul_add(x.scale, sums[row]);
            }
        }
    }
}

/// The weights of a tile before scale and offset, value by value.
fn unpack_4(tile: &Tile4, values: &mut [[i16; TALL]; WIDE]) {
    for (at, values) in values.iter_mut().enumerate() {
        let bytes = &tile.parts[at / 64].steps[at % 32 / 4];
        for (row, value) in values.iter_mut().enumerate() {
            *value = i16::from(bytes[4 * row + at % 4] >> (at / 32 % 2 * 4) & 15);
        }
    }
}

fn unpack_6(tile: &Tile6, values: &mut [[i16; TALL]; WIDE]) {
    for (at, values) in values.iter_mut().enumerate() {
        // Of 32 values the first 16 and the others; in each of them four steps of four values.
        let (is_other, step, byte) = (at / 16 % 2 == 1, at / 4 % 4, at % 4);
        let steps = &tile.parts[at / 64].halves[at / 32 % 2][step / 2];
        for (row, value) in values.iter_mut().enumerate() {
            let lane = |bytes: &[u8; 64]| u32::from_le_bytes([bytes[4 * row], bytes[4 * row + 1], bytes[4 * row + 2], bytes[4 * row + 3]]);
            let rest = (lane(&steps.rest).rotate_left(if step % 2 == 1 { 4 } else { 0 }) >> (8 * byte)) as u8;
            let both = steps.steps[step % 2][4 * row + byte];
            *value = i16::from(if is_other { (both & 0xf0 | rest & 0x0c) >> 2 } else { both & 0x0f | rest & 0x30 });
        }
    }
}

fn products(values: &[[i16; TALL]; WIDE], x: &Block, from: usize, count: usize) -> [i32; TALL] {
    let mut sums = [0; TALL];
    for (at, values) in values.iter().enumerate().skip(from).take(count) {
        let x = i16::from(x.words[at / 4].to_le_bytes()[at % 4].cast_signed());
        for (sum, value) in sums.iter_mut().zip(values) {
            *sum += i32::from(*value * x);
        }
    }
    sums
}

/// One of the two sums in a word.
fn sum_of(pair: i32, at: usize) -> i32 {
    if at == 0 { i32::from(pair as i16) } else { pair >> 16 }
}

fn float(bits: u16) -> f32 {
    half::f16::from_bits(bits).to_f32()
}

#[derive(Clone, Copy)]
pub(super) struct Scalar([f32; 16]);

impl Scalar {
    #[inline(always)]
    fn with(mut self, other: Self, apply: impl Fn(f32, f32) -> f32) -> Self {
        for at in 0..16 {
            self.0[at] = apply(self.0[at], other.0[at]);
        }
        self
    }

    #[inline(always)]
    fn each(self, apply: impl Fn(f32) -> f32) -> Self {
        Scalar(self.0.map(apply))
    }
}

impl Lanes for Scalar {
    #[inline(always)]
    fn splat(value: f32) -> Self {
        Scalar([value; 16])
    }
    #[inline(always)]
    fn load(from: &[f32; 16]) -> Self {
        Scalar(*from)
    }
    #[inline(always)]
    fn store(self, to: &mut [f32; 16]) {
        *to = self.0;
    }
    #[inline(always)]
    fn load_half(from: &[u16; 16]) -> Self {
        Scalar(from.map(float))
    }
    #[inline(always)]
    fn store_half(self, to: &mut [u16; 16]) {
        *to = self.0.map(|value| half::f16::from_f32(value).to_bits());
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.with(other, |a, b| a + b)
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self.with(other, |a, b| a - b)
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self.with(other, |a, b| a * b)
    }
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        self.with(other, |a, b| a / b)
    }
    #[inline(always)]
    fn min(self, other: Self) -> Self {
        self.with(other, |a, b| if a < b { a } else { b })
    }
    #[inline(always)]
    fn max(self, other: Self) -> Self {
        self.with(other, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    fn abs(self) -> Self {
        self.each(f32::abs)
    }
    #[inline(always)]
    fn mul_add(mut self, factor: Self, addend: Self) -> Self {
        for at in 0..16 {
            self.0[at] = self.0[at].mul_add(factor.0[at], addend.0[at]);
        }
        self
    }
    #[inline(always)]
    fn round(self) -> Self {
        self.each(f32::round_ties_even)
    }
    #[inline(always)]
    fn times_power_of_two(self, power: Self) -> Self {
        // In two steps, since the power itself may be no normal number.
        let factor = |power: i32| f32::from_bits((power + 127).cast_unsigned() << 23);
        self.with(power, |value, power| {
            let power = power as i32;
            value * factor(power >> 1) * factor(power - (power >> 1))
        })
    }
    #[inline(always)]
    fn store_bytes(self, to: &mut [i32; 4]) -> i32 {
        let bytes = self.round().0.map(|value| value as i8);
        for (word, four) in to.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *word = i32::from_le_bytes(four.map(i8::cast_unsigned));
        }
        bytes.iter().map(|&byte| i32::from(byte)).sum()
    }
    #[inline(always)]
    fn sum(mut self) -> f32 {
        for width in [8, 4, 2, 1] {
            for at in 0..width {
                self.0[at] += self.0[at + width];
            }
        }
        self.0[0]
    }
    #[inline(always)]
    fn largest(self) -> f32 {
        self.0.into_iter().fold(f32::NEG_INFINITY, f32::max)
    }
}
