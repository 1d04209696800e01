//! Products of tiles and activations.
//!
//! Plain loops here, and no closures: what is compiled for these registers cannot be inlined into what is not, and of iterators
//! not everything is inlined either. A call for each tile was measured to cost a tenth of the speed, closures half of it.

use std::arch::x86_64::*;

use super::activation::Block;
use super::tile::{Tile4, Tile6};
use super::vector::{bytes, bytes_16, bytes_32, halves, signed_32};

/// 16 rows of weights times `N` rows of activations, all as long as there are tiles: 16 sums for each row.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
pub(super) fn column_4<const N: usize>(tiles: &[Tile4], x: [&[Block]; N]) -> [__m512; N] {
    let low = _mm512_set1_epi8(0x0f);
    let high = _mm512_set1_epi8(0xf0_u8.cast_signed());
    let mut sums = [_mm512_setzero_ps(); N];
    for (at, tile) in tiles.iter().enumerate() {
        let x = blocks(&x, at);
        let mut scaled = [_mm512_setzero_si512(); N];
        let mut less = [_mm512_setzero_si512(); N];
        for (pair, part) in tile.parts.iter().enumerate() {
            let mut even = [_mm512_setzero_si512(); N];
            let mut odd = [_mm512_setzero_si512(); N];
            for step in 0..8 {
                let both = bytes(&part.steps[step]);
                ahead::<N>(part.steps[step].as_ptr());
                let (first, other) = (_mm512_and_si512(both, low), _mm512_and_si512(both, high));
                for row in 0..N {
                    even[row] = _mm512_dpbusd_epi32(even[row], first, word(x[row], 16 * pair + step));
                    odd[row] = _mm512_dpbusd_epi32(odd[row], other, word(x[row], 16 * pair + 8 + step));
                }
            }
            let scale_even = _mm512_cvtepu8_epi32(bytes_16(&part.scales[0]));
            let scale_odd = _mm512_cvtepu8_epi32(bytes_16(&part.scales[1]));
            for row in 0..N {
                // The high nibbles were taken as they are, sixteen times too large.
                let odd = _mm512_srai_epi32::<4>(odd[row]);
                let both = _mm512_add_epi32(_mm512_mullo_epi32(even[row], scale_even), _mm512_mullo_epi32(odd, scale_odd));
                scaled[row] = _mm512_add_epi32(scaled[row], both);
            }
            let mins = _mm512_cvtepu8_epi16(bytes_32(&part.mins));
            ahead::<N>(part.mins.as_ptr());
            for row in 0..N {
                less[row] = _mm512_dpwssd_epi32(less[row], mins, _mm512_set1_epi32(x[row].sums[pair]));
            }
        }
        ahead::<N>(tile.d.as_ptr().cast());
        let (d, dmin) = (_mm512_cvtph_ps(halves(&tile.d)), _mm512_cvtph_ps(halves(&tile.dmin)));
        for row in 0..N {
            let whole = _mm512_mul_ps(_mm512_cvtepi32_ps(scaled[row]), d);
            let whole = _mm512_fnmadd_ps(_mm512_cvtepi32_ps(less[row]), dmin, whole);
            sums[row] = _mm512_fmadd_ps(whole, _mm512_set1_ps(x[row].scale), sums[row]);
        }
    }
    sums
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
pub(super) fn column_6<const N: usize>(tiles: &[Tile6], x: [&[Block]; N]) -> [__m512; N] {
    /// Bits of the first where the mask has ones, of the other where it has none.
    const CHOOSE: i32 = 0xca;
    let low = _mm512_set1_epi8(0x0f);
    let high = _mm512_set1_epi8(0xf0_u8.cast_signed());
    let middle = _mm512_set1_epi8(0x3c);
    let mut sums = [_mm512_setzero_ps(); N];
    for (at, tile) in tiles.iter().enumerate() {
        let x = blocks(&x, at);
        let mut scaled = [_mm512_setzero_si512(); N];
        for group in 0..8 {
            let part = &tile.parts[group / 2];
            let half = &part.halves[group % 2];
            let mut even = [_mm512_setzero_si512(); N];
            let mut odd = [_mm512_setzero_si512(); N];
            for row in 0..N {
                even[row] = _mm512_set1_epi32(x[row].offsets[2 * group]);
                odd[row] = _mm512_set1_epi32(x[row].offsets[2 * group + 1]);
            }
            for step in 0..4 {
                let steps = &half[step / 2];
                let rest = bytes(&steps.rest);
                let rest = if step % 2 == 0 { rest } else { _mm512_rol_epi32::<4>(rest) };
                let rest = _mm512_and_si512(rest, middle);
                let both = bytes(&steps.steps[step % 2]);
                ahead::<N>(steps.steps[step % 2].as_ptr());
                let first = _mm512_ternarylogic_epi32::<CHOOSE>(low, both, rest);
                let other = _mm512_ternarylogic_epi32::<CHOOSE>(high, both, rest);
                for row in 0..N {
                    even[row] = _mm512_dpbusd_epi32(even[row], first, word(x[row], 8 * group + step));
                    odd[row] = _mm512_dpbusd_epi32(odd[row], other, word(x[row], 8 * group + 4 + step));
                }
            }
            ahead::<N>(half[0].rest.as_ptr());
            ahead::<N>(half[1].rest.as_ptr());
            let scales = _mm512_cvtepi8_epi16(signed_32(&part.scales[group % 2]));
            ahead::<N>(part.scales[group % 2].as_ptr().cast());
            let scale_even = _mm512_srai_epi32::<16>(_mm512_slli_epi32::<16>(scales));
            let scale_odd = _mm512_srai_epi32::<16>(scales);
            for row in 0..N {
                // These were taken four times too large.
                let odd = _mm512_srai_epi32::<2>(odd[row]);
                let both = _mm512_add_epi32(_mm512_mullo_epi32(even[row], scale_even), _mm512_mullo_epi32(odd, scale_odd));
                scaled[row] = _mm512_add_epi32(scaled[row], both);
            }
        }
        ahead::<N>(tile.d.as_ptr().cast());
        let d = _mm512_cvtph_ps(halves(&tile.d));
        for row in 0..N {
            let whole = _mm512_mul_ps(_mm512_cvtepi32_ps(scaled[row]), d);
            sums[row] = _mm512_fmadd_ps(whole, _mm512_set1_ps(x[row].scale), sums[row]);
        }
    }
    sums
}

/// The block at one place of each row.
#[inline]
fn blocks<'a, const N: usize>(x: &[&'a [Block]; N], at: usize) -> [&'a Block; N] {
    let mut blocks = [&Block::EMPTY; N];
    for row in 0..N {
        blocks[row] = &x[row][at];
    }
    blocks
}

/// The same four activations for 16 rows of weights.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
fn word(block: &Block, at: usize) -> __m512i {
    _mm512_set1_epi32(block.words[at])
}

/// Asks for what will be read soon, so that memory is not idle while several rows are computed. One row is computed faster than
/// memory gives; there the processor's own looking ahead is the better one (42 GB/s against 33).
#[inline]
fn ahead<const N: usize>(of: *const u8) {
    if N > 1 {
        let there = of.cast::<i8>().wrapping_add(AHEAD_BYTES);
        // SAFETY: it is a hint, and may name an address where nothing is.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(there) }
    }
}

/// About a tile. Measured at eight rows: without 14 GB/s, half of this 19, this and twice this 22.
const AHEAD_BYTES: usize = 2432;
