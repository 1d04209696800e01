//! The 512-bit registers: how they are filled and emptied, and what products and attention share.

use std::arch::x86_64::*;

/// Whether this processor has all that the functions here are compiled for.
pub(super) fn is_available() -> bool {
    macro_rules! all { ($($feature:tt)*) => { $(std::arch::is_x86_feature_detected!($feature))&&* } }
    all!("avx512f" "avx512bw" "avx512dq" "avx512vl" "avx512vnni" "avx2" "fma" "f16c")
}

macro_rules! load {
    ($name:ident, $from:ty, $to:ty) => {
        #[inline]
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
        pub(super) fn $name(from: &$from) -> $to {
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
load!(floats, [f32; 16], __m512);

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
pub(super) fn put(to: &mut [f32; 16], values: __m512) {
    // SAFETY: there is room for 64 bytes.
    unsafe { std::ptr::from_mut(to).cast::<__m512>().write_unaligned(values) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
pub(super) fn put_halves(to: &mut [u16; 16], values: __m512) {
    let values = _mm512_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(values);
    // SAFETY: there is room for 32 bytes.
    unsafe { std::ptr::from_mut(to).cast::<__m256i>().write_unaligned(values) }
}

/// Sixteen whole numbers between −128 and 127, as four words of four.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
pub(super) fn put_bytes(to: &mut [i32; 4], values: __m512i) {
    // SAFETY: there is room for 16 bytes.
    unsafe { std::ptr::from_mut(to).cast::<__m128i>().write_unaligned(_mm512_cvtsepi32_epi8(values)) }
}

/// e to the power of each. Far below zero it is zero; relative error below 3e-7.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
pub(super) fn exp(x: __m512) -> __m512 {
    // Below this there are no normal numbers; above the other it is infinite.
    let x = _mm512_max_ps(_mm512_min_ps(x, _mm512_set1_ps(89.0)), _mm512_set1_ps(-88.0));
    let whole = _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(_mm512_mul_ps(x, _mm512_set1_ps(std::f32::consts::LOG2_E)));
    // ln 2 in two parts, so that the remainder is exact.
    let rest = _mm512_fnmadd_ps(whole, _mm512_set1_ps(0.693_359_4), x);
    let rest = _mm512_fnmadd_ps(whole, _mm512_set1_ps(-2.121_944_4e-4), rest);
    let mut power = _mm512_set1_ps(1.0 / 5040.0);
    for over in [720.0_f32, 120.0, 24.0, 6.0, 2.0, 1.0, 1.0] {
        power = _mm512_fmadd_ps(power, rest, _mm512_set1_ps(1.0 / over));
    }
    _mm512_scalef_ps(power, whole)
}
