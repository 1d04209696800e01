//! AVX-512 with products of bytes (VNNI).
//!
//! Plain loops here, and no closures: what is compiled for these registers cannot be inlined into what is not, and of iterators
//! not everything is inlined either. A call for each tile was measured to cost a tenth of the speed, closures half of it.

use std::arch::x86_64::*;

use super::activation::Block;
use super::lanes::Lanes;
use super::tile::{TALL, Tile4, Tile6};

/// Whether this processor has all that the functions here are compiled for.
pub(super) fn is_available() -> bool {
    macro_rules! all { ($($feature:tt)*) => { $(std::arch::is_x86_feature_detected!($feature))&&* } }
    all!("avx512f" "avx512bw" "avx512dq" "avx512vl" "avx512vnni" "avx2" "fma" "f16c")
}

macro_rules! product {
    ($name:ident, $column:ident, $tile:ty) => {
        /// 16 rows of weights times each row of activations, as many at a time as registers hold the sums of.
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
        pub(super) fn $name(tiles: &[$tile], x: &[Block], sums: &mut [[f32; TALL]]) {
            let wide = tiles.len();
            let rows = sums.len();
            let mut at = 0;
            macro_rules! some {
                ($count:literal) => {
                    let mut some = [x; $count];
                    for (more, some) in some.iter_mut().enumerate() {
                        *some = &x[(at + more) * wide..][..wide];
                    }
                    let found = $column::<$count>(tiles, some);
                    for more in 0..$count {
                        Wide(found[more]).store(&mut sums[at + more]);
                    }
                    at += $count;
                };
            }
            while at + 8 <= rows {
                some!(8);
            }
            if at + 4 <= rows {
                some!(4);
            }
            if at + 2 <= rows {
                some!(2);
            }
            if at < rows {
                some!(1);
            }
            let _ = at;
        }
    };
}

product!(product_4, column_4, Tile4);
product!(product_6, column_6, Tile6);

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

macro_rules! load {
    ($name:ident, $from:ty, $to:ty) => {
        #[inline]
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
        fn $name(from: &$from) -> $to {
            const { assert!(size_of::<$from>() == size_of::<$to>()) };
            // SAFETY: as many bytes are there, all of which may be anything.
            unsafe { std::ptr::from_ref(from).cast::<$to>().read_unaligned() }
        }
    };
}

load!(bytes, [u8; 64], __m512i);
load!(bytes_32, [u8; 32], __m256i);
load!(signed_32, [i8; 32], __m256i);
load!(bytes_16, [u8; 16], __m128i);
load!(halves, [u16; 16], __m256i);

#[derive(Clone, Copy)]
pub(super) struct Wide(__m512);

const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

// SAFETY of every block here: the trait is used only where the processor has these instructions, and each address is that of an
// array of the size that is read or written.
impl Lanes for Wide {
    #[inline(always)]
    fn splat(value: f32) -> Self {
        Wide(unsafe { _mm512_set1_ps(value) })
    }
    #[inline(always)]
    fn load(from: &[f32; 16]) -> Self {
        Wide(unsafe { _mm512_loadu_ps(from.as_ptr()) })
    }
    #[inline(always)]
    fn store(self, to: &mut [f32; 16]) {
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), self.0) }
    }
    #[inline(always)]
    fn load_half(from: &[u16; 16]) -> Self {
        Wide(unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.as_ptr().cast())) })
    }
    #[inline(always)]
    fn store_half(self, to: &mut [u16; 16]) {
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), _mm512_cvtps_ph::<NEAREST>(self.0)) }
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Wide(unsafe { _mm512_add_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Wide(unsafe { _mm512_sub_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Wide(unsafe { _mm512_mul_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        Wide(unsafe { _mm512_div_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn min(self, other: Self) -> Self {
        Wide(unsafe { _mm512_min_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn max(self, other: Self) -> Self {
        Wide(unsafe { _mm512_max_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn abs(self) -> Self {
        Wide(unsafe { _mm512_abs_ps(self.0) })
    }
    #[inline(always)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        Wide(unsafe { _mm512_fmadd_ps(self.0, factor.0, addend.0) })
    }
    #[inline(always)]
    fn round(self) -> Self {
        Wide(unsafe { _mm512_roundscale_ps::<NEAREST>(self.0) })
    }
    #[inline(always)]
    fn times_power_of_two(self, power: Self) -> Self {
        Wide(unsafe { _mm512_scalef_ps(self.0, power.0) })
    }
    #[inline(always)]
    fn store_bytes(self, to: &mut [i32; 4]) -> i32 {
        unsafe {
            let whole = _mm512_cvtps_epi32(self.0);
            _mm_storeu_si128(to.as_mut_ptr().cast(), _mm512_cvtsepi32_epi8(whole));
            _mm512_reduce_add_epi32(whole)
        }
    }
    #[inline(always)]
    fn sum(self) -> f32 {
        unsafe { _mm512_reduce_add_ps(self.0) }
    }
    #[inline(always)]
    fn largest(self) -> f32 {
        unsafe { _mm512_reduce_max_ps(self.0) }
    }
}
