//! Sixteen values in two registers.

use std::arch::x86_64::*;

use super::super::lanes::Lanes;

#[derive(Clone, Copy)]
pub(in super::super) struct Two(__m256, __m256);

const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

/// An instruction on both registers.
macro_rules! both {
    ($name:ident, $instruction:ident) => {
        #[inline(always)]
        fn $name(self, other: Self) -> Self {
            unsafe { Two($instruction(self.0, other.0), $instruction(self.1, other.1)) }
        }
    };
}

// SAFETY of every block here: the trait is used only where the processor has these instructions, and each address is that of an
// array of the size that is read or written.
impl Lanes for Two {
    both!(add, _mm256_add_ps);
    both!(sub, _mm256_sub_ps);
    both!(mul, _mm256_mul_ps);
    both!(div, _mm256_div_ps);
    both!(min, _mm256_min_ps);
    both!(max, _mm256_max_ps);

    #[inline(always)]
    fn splat(value: f32) -> Self {
        unsafe { Two(_mm256_set1_ps(value), _mm256_set1_ps(value)) }
    }
    #[inline(always)]
    fn load(from: &[f32; 16]) -> Self {
        unsafe { Two(_mm256_loadu_ps(from.as_ptr()), _mm256_loadu_ps(from.as_ptr().add(8))) }
    }
    #[inline(always)]
    fn store(self, to: &mut [f32; 16]) {
        unsafe {
            _mm256_storeu_ps(to.as_mut_ptr(), self.0);
            _mm256_storeu_ps(to.as_mut_ptr().add(8), self.1);
        }
    }
    #[inline(always)]
    fn load_half(from: &[u16; 16]) -> Self {
        let from = from.as_ptr().cast::<__m128i>();
        unsafe { Two(_mm256_cvtph_ps(_mm_loadu_si128(from)), _mm256_cvtph_ps(_mm_loadu_si128(from.add(1)))) }
    }
    #[inline(always)]
    fn store_half(self, to: &mut [u16; 16]) {
        let to = to.as_mut_ptr().cast::<__m128i>();
        unsafe {
            _mm_storeu_si128(to, _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(self.0));
            _mm_storeu_si128(to.add(1), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(self.1));
        }
    }
    #[inline(always)]
    fn abs(self) -> Self {
        unsafe {
            let sign = _mm256_set1_ps(-0.0);
            Two(_mm256_andnot_ps(sign, self.0), _mm256_andnot_ps(sign, self.1))
        }
    }
    #[inline(always)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        unsafe { Two(_mm256_fmadd_ps(self.0, factor.0, addend.0), _mm256_fmadd_ps(self.1, factor.1, addend.1)) }
    }
    #[inline(always)]
    fn round(self) -> Self {
        unsafe { Two(_mm256_round_ps::<NEAREST>(self.0), _mm256_round_ps::<NEAREST>(self.1)) }
    }
    #[inline(always)]
    fn times_power_of_two(self, power: Self) -> Self {
        unsafe { Two(times_power_of_two(self.0, power.0), times_power_of_two(self.1, power.1)) }
    }
    #[inline(always)]
    fn store_bytes(self, to: &mut [i32; 4]) -> i32 {
        unsafe {
            let (first, other) = (_mm256_cvtps_epi32(self.0), _mm256_cvtps_epi32(self.1));
            // Packing takes from each half of both in turn.
            let words = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi32(first, other));
            let bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words));
            _mm_storeu_si128(to.as_mut_ptr().cast(), bytes);
            let sum = _mm256_add_epi32(first, other);
            let sum = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256::<1>(sum));
            let sum = _mm_add_epi32(sum, _mm_shuffle_epi32::<0b01_00_11_10>(sum));
            _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32::<0b10_11_00_01>(sum)))
        }
    }
    #[inline(always)]
    fn sum(self) -> f32 {
        unsafe {
            let sum = _mm256_add_ps(self.0, self.1);
            let sum = _mm_add_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps::<1>(sum));
            let sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
            _mm_cvtss_f32(_mm_add_ss(sum, _mm_movehdup_ps(sum)))
        }
    }
    #[inline(always)]
    fn largest(self) -> f32 {
        unsafe {
            let most = _mm256_max_ps(self.0, self.1);
            let most = _mm_max_ps(_mm256_castps256_ps128(most), _mm256_extractf128_ps::<1>(most));
            let most = _mm_max_ps(most, _mm_movehl_ps(most, most));
            _mm_cvtss_f32(_mm_max_ss(most, _mm_movehdup_ps(most)))
        }
    }
}

/// In two steps, since the power itself may be no normal number.
#[inline]
#[target_feature(enable = "avx2")]
fn times_power_of_two(value: __m256, power: __m256) -> __m256 {
    let power = _mm256_cvtps_epi32(power);
    let half = _mm256_srai_epi32::<1>(power);
    let bias = _mm256_set1_epi32(127);
    let first = _mm256_slli_epi32::<23>(_mm256_add_epi32(half, bias));
    let other = _mm256_slli_epi32::<23>(_mm256_add_epi32(_mm256_sub_epi32(power, half), bias));
    _mm256_mul_ps(_mm256_mul_ps(value, _mm256_castsi256_ps(first)), _mm256_castsi256_ps(other))
}
