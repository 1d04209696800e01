//! Sixteen values in four registers.

use std::arch::aarch64::*;

use super::super::lanes::Lanes;

#[derive(Clone, Copy)]
pub(in super::super) struct Four([float32x4_t; 4]);

/// An instruction on all registers.
macro_rules! all {
    ($name:ident, $instruction:ident) => {
        #[inline(always)]
        fn $name(self, other: Self) -> Self {
            let mut result = self;
            for at in 0..4 {
                result.0[at] = unsafe { $instruction(self.0[at], other.0[at]) };
            }
            result
        }
    };
}

// SAFETY of every block here: every aarch64 processor has these instructions, and each address is that of an array of the size that
// is read or written.
impl Lanes for Four {
    all!(add, vaddq_f32);
    all!(sub, vsubq_f32);
    all!(mul, vmulq_f32);
    all!(div, vdivq_f32);
    all!(min, vminq_f32);
    all!(max, vmaxq_f32);

    #[inline(always)]
    fn splat(value: f32) -> Self {
        Four([unsafe { vdupq_n_f32(value) }; 4])
    }
    #[inline(always)]
    fn load(from: &[f32; 16]) -> Self {
        let mut result = Four::splat(0.0);
        for at in 0..4 {
            result.0[at] = unsafe { vld1q_f32(from.as_ptr().add(4 * at)) };
        }
        result
    }
    #[inline(always)]
    fn store(self, to: &mut [f32; 16]) {
        for at in 0..4 {
            unsafe { vst1q_f32(to.as_mut_ptr().add(4 * at), self.0[at]) };
        }
    }
    #[inline(always)]
    fn load_half(from: &[u16; 16]) -> Self {
        let mut result = Four::splat(0.0);
        for at in 0..4 {
            result.0[at] = from_half(&from.as_chunks::<4>().0[at]);
        }
        result
    }
    #[inline(always)]
    fn store_half(self, to: &mut [u16; 16]) {
        let mut values = [0.0; 16];
        self.store(&mut values);
        // Only keys and values of new tokens are stored.
        for at in 0..16 {
            to[at] = half::f16::from_f32(values[at]).to_bits();
        }
    }
    #[inline(always)]
    fn abs(mut self) -> Self {
        for at in 0..4 {
            self.0[at] = unsafe { vabsq_f32(self.0[at]) };
        }
        self
    }
    #[inline(always)]
    fn mul_add(mut self, factor: Self, addend: Self) -> Self {
        for at in 0..4 {
            self.0[at] = unsafe { vfmaq_f32(addend.0[at], self.0[at], factor.0[at]) };
        }
        self
    }
    #[inline(always)]
    fn round(mut self) -> Self {
        for at in 0..4 {
            self.0[at] = unsafe { vrndnq_f32(self.0[at]) };
        }
        self
    }
    #[inline(always)]
    fn times_power_of_two(mut self, power: Self) -> Self {
        // In two steps, since the power itself may be no normal number.
        for at in 0..4 {
            self.0[at] = unsafe {
                let power = vcvtnq_s32_f32(power.0[at]);
                let half = vshrq_n_s32::<1>(power);
                let factor = |power| vreinterpretq_f32_s32(vshlq_n_s32::<23>(vaddq_s32(power, vdupq_n_s32(127))));
                vmulq_f32(vmulq_f32(self.0[at], factor(half)), factor(vsubq_s32(power, half)))
            };
        }
        self
    }
    #[inline(always)]
    fn store_bytes(self, to: &mut [i32; 4]) -> i32 {
        unsafe {
            let mut sum = vdupq_n_s32(0);
            for (to, values) in to.iter_mut().zip(self.0) {
                let whole = vcvtnq_s32_f32(values);
                sum = vaddq_s32(sum, whole);
                let words = vqmovn_s32(whole);
                let bytes = vqmovn_s16(vcombine_s16(words, words));
                *to = vget_lane_s32::<0>(vreinterpret_s32_s8(bytes));
            }
            vaddvq_s32(sum)
        }
    }
    #[inline(always)]
    fn sum(self) -> f32 {
        unsafe {
            let [a, b, c, d] = self.0;
            let sum = vaddq_f32(vaddq_f32(a, c), vaddq_f32(b, d));
            let sum = vadd_f32(vget_low_f32(sum), vget_high_f32(sum));
            vget_lane_f32::<0>(sum) + vget_lane_f32::<1>(sum)
        }
    }
    #[inline(always)]
    fn largest(self) -> f32 {
        unsafe {
            let [a, b, c, d] = self.0;
            vmaxvq_f32(vmaxq_f32(vmaxq_f32(a, b), vmaxq_f32(c, d)))
        }
    }
}

/// From the bits of f16 values: exponent and fraction are moved to their places in an f32 that is 2¹¹² times too small, which also makes
/// small values normal. Infinities keep the largest exponent.
#[inline(always)]
pub(super) fn from_half(from: &[u16; 4]) -> float32x4_t {
    unsafe {
        let bits = vmovl_u16(vld1_u16(from.as_ptr()));
        let size = vshlq_n_u32::<13>(vandq_u32(bits, vdupq_n_u32(0x7fff)));
        let value = vmulq_f32(vreinterpretq_f32_u32(size), vdupq_n_f32(f32::from_bits((127 + 112) << 23)));
        let is_infinite = vcgeq_u32(size, vdupq_n_u32(0x7c00 << 13));
        let infinite = vandq_u32(is_infinite, vdupq_n_u32(0x7f80_0000));
        let sign = vshlq_n_u32::<16>(vandq_u32(bits, vdupq_n_u32(0x8000)));
        vreinterpretq_f32_u32(vorrq_u32(vreinterpretq_u32_f32(value), vorrq_u32(infinite, sign)))
    }
}
