//! AVX2: 256-bit registers, products of bytes in pairs to 16 bits (`vpmaddubsw`).
//!
//! The sums of products of one scale's values are kept in 16 bits as long as they fit, since widening them costs as much as
//! multiplying. Unsigned weights times activations between −127 and 127:
//!
//! ```text
//!   Q4_K   pairs ≤ 2 · 15 · 127 = 3810;  eight of them ≤ 30480    all 32 values of a scale
//!   Q6_K   pairs ≤ 2 · 63 · 127 = 16002; two of them ≤ 32004      eight of the 16 values of a scale
//! ```
//!
//! Then `vpmaddwd` multiplies with the scale and adds the pairs in 32 bits. Nothing saturates, so sums are exact.
//!
//! Two ways through a tile. One row of activations reads weights once, from memory, and unpacks them in registers. Several rows
//! share an unpacked copy of the tile, which stays in the first-level cache.
//!
//! Plain loops for the reason that `lanes` gives.

use std::arch::x86_64::*;

use super::activation::Block;
use super::tile::{TALL, Tile4, Tile6};

mod lanes;
pub(super) use lanes::Two;

/// Whether this processor has all that the functions here are compiled for.
pub(super) fn is_available() -> bool {
    use std::arch::is_x86_feature_detected as has;
    has!("avx2") && has!("fma") && has!("f16c")
}

/// Rows of activations that are multiplied with the same registers of weights.
const ROWS: usize = 4;

macro_rules! product {
    ($name:ident, $tile:ty, $single:ident, $unpack:ident, $several:ident) => {
        /// 16 rows of weights times each row of activations. A row has as many blocks as there are tiles.
        #[target_feature(enable = "avx2,fma,f16c")]
        pub(super) fn $name(tiles: &[$tile], x: &[Block], sums: &mut [[f32; TALL]]) {
            let wide = tiles.len();
            assert!(x.len() == wide * sums.len());
            if sums.len() == 1 {
                sums[0] = $single(tiles, x);
                return;
            }
            sums.fill([0.0; TALL]);
            let mut unpacked = Unpacked::EMPTY;
            for (at, tile) in tiles.iter().enumerate() {
                $unpack(tile, &mut unpacked);
                let mut row = 0;
                macro_rules! some {
                    ($count:expr) => {
                        let mut some = [&Block::EMPTY; $count];
                        for (more, some) in some.iter_mut().enumerate() {
                            *some = &x[(row + more) * wide + at];
                        }
                        if let Some(sums) = sums[row..].first_chunk_mut() {
                            $several::<$count>(&unpacked, some, sums);
                        }
                        row += $count;
                    };
                }
                while row + ROWS <= sums.len() {
                    ahead(x, (row + ROWS) * wide + at, wide);
                    some!(ROWS);
                }
                match sums.len() - row {
                    3 => {
                        some!(3);
                    }
                    2 => {
                        some!(2);
                    }
                    1 => {
                        some!(1);
                    }
                    _ => {}
                }
                let _ = row;
            }
        }
    };
}

product!(product_4, Tile4, single_4, unpack_4, several_4);
product!(product_6, Tile6, single_6, unpack_6, several_6);

/// The next rows' blocks are asked for, since they do not lie beside each other.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn ahead(x: &[Block], from: usize, stride: usize) {
    for row in 0..ROWS {
        if let Some(block) = x.get(from + row * stride) {
            let start = std::ptr::from_ref(block).cast::<i8>();
            for line in 0..size_of::<Block>() / 64 {
                _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(64 * line));
            }
        }
    }
}

/// Asks for what will be read soon, as much as `now` is large.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn ahead_of<T>(now: &T) {
    let there = std::ptr::from_ref(now).cast::<i8>().wrapping_add(AHEAD_BYTES);
    for line in 0..size_of::<T>().div_ceil(64) {
        _mm_prefetch::<_MM_HINT_T0>(there.wrapping_add(64 * line));
    }
}

/// About a tile of Q4_K. One row from memory: 11.8 GB/s without, 14 to 18 with this, no more with twice as much (AMD EPYC, Zen 3).
const AHEAD_BYTES: usize = 2432;

/// A tile in the layout for several rows.
#[repr(C, align(64))]
struct Unpacked {
    /// For each four values one unsigned byte each, of rows 0‥7 and 8‥15.
    steps: [[__m256i; 2]; 64],
    /// For each 32 values (Q4_K) or 16 values (Q6_K) the scale of each row, twice.
    scales: [[__m256i; 2]; 16],
    /// For each 64 values (Q4_K: both mins) or 32 values (Q6_K: both scales), as pairs.
    pairs: [[__m256i; 2]; 8],
    d: [__m256; 2],
    dmin: [__m256; 2],
}

impl Unpacked {
    // SAFETY: registers may be all zeros.
    const EMPTY: Unpacked = unsafe { std::mem::zeroed() };
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn unpack_4(tile: &Tile4, to: &mut Unpacked) {
    let low = _mm256_set1_epi8(0x0f);
    for pair in 0..4 {
        let part = &tile.parts[pair];
        ahead_of(part);
        for step in 0..8 {
            for half in 0..2 {
                let both = bytes(&part.steps[step], half);
                to.steps[16 * pair + step][half] = _mm256_and_si256(both, low);
                to.steps[16 * pair + 8 + step][half] = _mm256_and_si256(_mm256_srli_epi16::<4>(both), low);
            }
        }
        for half in 0..2 {
            to.scales[2 * pair][half] = scales_4(&part.scales[0], half);
            to.scales[2 * pair + 1][half] = scales_4(&part.scales[1], half);
            to.pairs[pair][half] = _mm256_cvtepu8_epi16(bytes_16(&part.mins, half));
        }
    }
    to.d = floats(&tile.d);
    to.dmin = floats(&tile.dmin);
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn unpack_6(tile: &Tile6, to: &mut Unpacked) {
    for group in 0..8 {
        let part = &tile.parts[group / 2];
        if group % 2 == 0 {
            ahead_of(part);
        }
        for half in 0..2 {
            for step in 0..4 {
                let (first, other) = weights_6(&part.halves[group % 2][step / 2], step % 2, half);
                to.steps[8 * group + step][half] = first;
                to.steps[8 * group + 4 + step][half] = other;
            }
            let pairs = _mm256_cvtepi8_epi16(signed_16(&part.scales[group % 2], half));
            to.pairs[group][half] = pairs;
            (to.scales[2 * group][half], to.scales[2 * group + 1][half]) = twice(pairs);
        }
    }
    to.d = floats(&tile.d);
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn several_4<const N: usize>(tile: &Unpacked, x: [&Block; N], sums: &mut [[f32; TALL]; N]) {
    let mut scaled = [[_mm256_setzero_si256(); 2]; N];
    for part in 0..8 {
        let mut whole = [[_mm256_setzero_si256(); 2]; N];
        for step in 8 * part..8 * part + 8 {
            let [first, other] = tile.steps[step];
            for row in 0..N {
                let x = _mm256_set1_epi32(x[row].words[step]);
                whole[row][0] = _mm256_add_epi16(whole[row][0], _mm256_maddubs_epi16(first, x));
                whole[row][1] = _mm256_add_epi16(whole[row][1], _mm256_maddubs_epi16(other, x));
            }
        }
        for row in 0..N {
            for half in 0..2 {
                scaled[row][half] = _mm256_add_epi32(scaled[row][half], _mm256_madd_epi16(whole[row][half], tile.scales[part][half]));
            }
        }
    }
    for row in 0..N {
        for (half, scaled) in scaled[row].into_iter().enumerate() {
            let mut less = _mm256_setzero_si256();
            for pair in 0..4 {
                less = _mm256_add_epi32(less, _mm256_madd_epi16(tile.pairs[pair][half], _mm256_set1_epi32(x[row].sums[pair])));
            }
            let whole = _mm256_mul_ps(_mm256_cvtepi32_ps(scaled), tile.d[half]);
            let whole = _mm256_fnmadd_ps(_mm256_cvtepi32_ps(less), tile.dmin[half], whole);
            add(&mut sums[row], half, whole, x[row].scale);
        }
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn several_6<const N: usize>(tile: &Unpacked, x: [&Block; N], sums: &mut [[f32; TALL]; N]) {
    let mut scaled = [[_mm256_setzero_si256(); 2]; N];
    for part in 0..16 {
        for two in 0..2 {
            let step = 4 * part + 2 * two;
            let ([first, other], [next_first, next_other]) = (tile.steps[step], tile.steps[step + 1]);
            for row in 0..N {
                let (now, next) = (_mm256_set1_epi32(x[row].words[step]), _mm256_set1_epi32(x[row].words[step + 1]));
                let whole = _mm256_add_epi16(_mm256_maddubs_epi16(first, now), _mm256_maddubs_epi16(next_first, next));
                scaled[row][0] = _mm256_add_epi32(scaled[row][0], _mm256_madd_epi16(whole, tile.scales[part][0]));
                let whole = _mm256_add_epi16(_mm256_maddubs_epi16(other, now), _mm256_maddubs_epi16(next_other, next));
                scaled[row][1] = _mm256_add_epi32(scaled[row][1], _mm256_madd_epi16(whole, tile.scales[part][1]));
            }
        }
    }
    for row in 0..N {
        for (half, scaled) in scaled[row].into_iter().enumerate() {
            let mut less = _mm256_setzero_si256();
            for group in 0..8 {
                less = _mm256_add_epi32(less, _mm256_madd_epi16(tile.pairs[group][half], _mm256_set1_epi32(x[row].sums_16[group])));
            }
            let whole = _mm256_sub_epi32(scaled, _mm256_slli_epi32::<5>(less));
            add(&mut sums[row], half, _mm256_mul_ps(_mm256_cvtepi32_ps(whole), tile.d[half]), x[row].scale);
        }
    }
}

/// One row of activations, rows 0‥7 and 8‥15 side by side, so that weights are read in the order in which they lie.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn single_4(tiles: &[Tile4], x: &[Block]) -> [f32; TALL] {
    let low = _mm256_set1_epi8(0x0f);
    let mut sums = [0.0; TALL];
    for (tile, x) in tiles.iter().zip(x) {
        let mut scaled = [_mm256_setzero_si256(); 2];
        let mut less = [_mm256_setzero_si256(); 2];
        for (pair, part) in tile.parts.iter().enumerate() {
            ahead_of(part);
            let mut even = [_mm256_setzero_si256(); 2];
            let mut odd = [_mm256_setzero_si256(); 2];
            for step in 0..8 {
                let now = _mm256_set1_epi32(x.words[16 * pair + step]);
                let next = _mm256_set1_epi32(x.words[16 * pair + 8 + step]);
                for half in 0..2 {
                    let both = bytes(&part.steps[step], half);
                    even[half] = _mm256_add_epi16(even[half], _mm256_maddubs_epi16(_mm256_and_si256(both, low), now));
                    let high = _mm256_and_si256(_mm256_srli_epi16::<4>(both), low);
                    odd[half] = _mm256_add_epi16(odd[half], _mm256_maddubs_epi16(high, next));
                }
            }
            let sums = _mm256_set1_epi32(x.sums[pair]);
            for half in 0..2 {
                let even = _mm256_madd_epi16(even[half], scales_4(&part.scales[0], half));
                let odd = _mm256_madd_epi16(odd[half], scales_4(&part.scales[1], half));
                scaled[half] = _mm256_add_epi32(scaled[half], _mm256_add_epi32(even, odd));
                less[half] = _mm256_add_epi32(less[half], _mm256_madd_epi16(_mm256_cvtepu8_epi16(bytes_16(&part.mins, half)), sums));
            }
        }
        let (d, dmin) = (floats(&tile.d), floats(&tile.dmin));
        for (half, scaled) in scaled.into_iter().enumerate() {
            let whole = _mm256_mul_ps(_mm256_cvtepi32_ps(scaled), d[half]);
            let whole = _mm256_fnmadd_ps(_mm256_cvtepi32_ps(less[half]), dmin[half], whole);
            add(&mut sums, half, whole, x.scale);
        }
    }
    sums
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn single_6(tiles: &[Tile6], x: &[Block]) -> [f32; TALL] {
    let mut sums = [0.0; TALL];
    for (tile, x) in tiles.iter().zip(x) {
        let mut scaled = [_mm256_setzero_si256(); 2];
        let mut less = [_mm256_setzero_si256(); 2];
        for group in 0..8 {
            let part = &tile.parts[group / 2];
            if group % 2 == 0 {
                ahead_of(part);
            }
            let sums = _mm256_set1_epi32(x.sums_16[group]);
            for half in 0..2 {
                let pairs = _mm256_cvtepi8_epi16(signed_16(&part.scales[group % 2], half));
                let (scale_even, scale_odd) = twice(pairs);
                less[half] = _mm256_add_epi32(less[half], _mm256_madd_epi16(pairs, sums));
                for two in 0..2 {
                    let steps = &part.halves[group % 2][two];
                    let ((first, other), (next_first, next_other)) = (weights_6(steps, 0, half), weights_6(steps, 1, half));
                    let word = 8 * group + 2 * two;
                    let even = _mm256_maddubs_epi16(first, _mm256_set1_epi32(x.words[word]));
                    let even = _mm256_add_epi16(even, _mm256_maddubs_epi16(next_first, _mm256_set1_epi32(x.words[word + 1])));
                    let odd = _mm256_maddubs_epi16(other, _mm256_set1_epi32(x.words[word + 4]));
                    let odd = _mm256_add_epi16(odd, _mm256_maddubs_epi16(next_other, _mm256_set1_epi32(x.words[word + 5])));
                    let both = _mm256_add_epi32(_mm256_madd_epi16(even, scale_even), _mm256_madd_epi16(odd, scale_odd));
                    scaled[half] = _mm256_add_epi32(scaled[half], both);
                }
            }
        }
        let d = floats(&tile.d);
        for (half, scaled) in scaled.into_iter().enumerate() {
            let whole = _mm256_sub_epi32(scaled, _mm256_slli_epi32::<5>(less[half]));
            add(&mut sums, half, _mm256_mul_ps(_mm256_cvtepi32_ps(whole), d[half]), x.scale);
        }
    }
    sums
}

/// One step of the first 16 values and of the others, six bits each.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn weights_6(steps: &super::tile::Steps6, step: usize, half: usize) -> (__m256i, __m256i) {
    let rest = bytes(&steps.rest, half);
    let rest = if step == 0 { rest } else { _mm256_or_si256(_mm256_slli_epi32::<4>(rest), _mm256_srli_epi32::<28>(rest)) };
    let both = bytes(&steps.steps[step], half);
    // Where the mask has ones, four bits of the value; two more are the rest.
    let low = _mm256_set1_epi8(0x0f);
    let first = _mm256_or_si256(_mm256_and_si256(both, low), _mm256_and_si256(rest, _mm256_set1_epi8(0x30)));
    let other = _mm256_or_si256(_mm256_andnot_si256(low, both), _mm256_and_si256(rest, _mm256_set1_epi8(0x0c)));
    // It is four times too large; its two lowest bits are zeros, so no byte loses any to the next.
    (first, _mm256_srli_epi16::<2>(other))
}

/// The scales of eight rows, twice each, from a byte for each of 16 rows.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn scales_4(scales: &[u8; 16], half: usize) -> __m256i {
    let scales = _mm256_broadcastsi128_si256(bytes_16(scales, 0));
    let none = -1;
    let order = |from: i8| {
        let [a, b, c, d] = [from, from + 1, from + 2, from + 3];
        let [e, f, g, h] = [from + 4, from + 5, from + 6, from + 7];
        _mm256_setr_epi8(
            a, none, a, none, b, none, b, none, c, none, c, none, d, none, d, none, e, none, e, none, f, none, f, none, g, none, g, none, h, none, h,
            none,
        )
    };
    _mm256_shuffle_epi8(scales, if half == 0 { order(0) } else { order(8) })
}

/// The first of each pair of 16 bits twice, and the second of each twice.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn twice(pairs: __m256i) -> (__m256i, __m256i) {
    let first = _mm256_blend_epi16::<0b1010_1010>(pairs, _mm256_slli_epi32::<16>(pairs));
    let second = _mm256_blend_epi16::<0b0101_0101>(pairs, _mm256_srli_epi32::<16>(pairs));
    (first, second)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add(sums: &mut [f32; TALL], half: usize, whole: __m256, scale: f32) {
    let sums = &mut sums.as_chunks_mut::<8>().0[half];
    // SAFETY: the array has eight values.
    unsafe { _mm256_storeu_ps(sums.as_mut_ptr(), _mm256_fmadd_ps(whole, _mm256_set1_ps(scale), _mm256_loadu_ps(sums.as_ptr()))) }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn bytes(from: &[u8; 64], half: usize) -> __m256i {
    // SAFETY: the half has 32 bytes.
    unsafe { _mm256_loadu_si256(from.as_chunks::<32>().0[half].as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn bytes_16<const N: usize>(from: &[u8; N], part: usize) -> __m128i {
    // SAFETY: the part has 16 bytes.
    unsafe { _mm_loadu_si128(from.as_chunks::<16>().0[part].as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn signed_16(from: &[i8; 32], part: usize) -> __m128i {
    // SAFETY: the part has 16 bytes.
    unsafe { _mm_loadu_si128(from.as_chunks::<16>().0[part].as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn floats(from: &[u16; 16]) -> [__m256; 2] {
    let [first, other] = from.as_chunks::<8>().0 else { return [_mm256_setzero_ps(); 2] };
    // SAFETY: each has eight values of 16 bits.
    unsafe { [_mm256_cvtph_ps(_mm_loadu_si128(first.as_ptr().cast())), _mm256_cvtph_ps(_mm_loadu_si128(other.as_ptr().cast()))] }
}
