//! What lies between the products. Loops without branches, which the compiler turns into wide instructions.

const EPSILON: f32 = 1e-12;
/// x times the normal distribution's share below x, by Abramowitz and Stegun 7.1.26.
#[inline(always)]
pub(super) fn gelu(values: &mut [f32]) {
    for x in values {
        let y = x.abs() * std::f32::consts::FRAC_1_SQRT_2;
        let t = 1.0 / (1.0 + 0.327_591_1 * y);
        let series = t * (0.254_829_6 + t * (-0.284_496_74 + t * (1.421_413_7 + t * (-1.453_152 + t * 1.061_405_4))));
        *x = 0.5 * (*x + x.abs() * (1.0 - series * exp(-y * y)));
    }
}

/// e to the power of x, for x up to 88; relative error below 1e-6.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    /// Adding it leaves no bits for a fraction, so the low bits of the sum are the whole number.
    const SHIFT: f32 = 12_582_912.0;
    let z = (x * std::f32::consts::LOG2_E).max(-126.0);
    let whole = z + SHIFT;
    let rest = (z - (whole - SHIFT)) * std::f32::consts::LN_2;
    let series = 1.0 + rest * (1.0 + rest * (0.5 + rest * (0.166_666_67 + rest * (0.041_666_668 + rest * 0.008_333_334))));
    let power = whole.to_bits().wrapping_sub(SHIFT.to_bits()).wrapping_add(127) << 23;
    series * f32::from_bits(power)
}

#[inline(always)]
pub(super) fn add_and_norm(values: &mut [f32], more: &[f32], gains: &[f32], offsets: &[f32]) {
    let width = gains.len();
    for (row, more) in values.chunks_exact_mut(width).zip(more.chunks_exact(width)) {
        for (x, more) in row.iter_mut().zip(more) {
            *x += more;
        }
        let mean = sum(row, |x| x) / width as f32;
        let variance = sum(row, |x| (x - mean) * (x - mean)) / width as f32;
        let per = 1.0 / (variance + EPSILON).sqrt();
        for ((x, gain), offset) in row.iter_mut().zip(gains).zip(offsets) {
            *x = (*x - mean) * per * gain + offset;
        }
    }
}

/// The largest of some values, in eight lanes like [`sum`]; `f32::MIN` of none.
#[inline(always)]
pub(super) fn largest(values: &[f32], of: impl Fn(f32) -> f32) -> f32 {
    let larger = |a: f32, b: f32| if a > b { a } else { b };
    let mut lanes = [f32::MIN; 8];
    let (parts, rest) = values.as_chunks::<8>();
    for part in parts {
        for (lane, x) in lanes.iter_mut().zip(part) {
            *lane = larger(of(*x), *lane);
        }
    }
    let all = lanes.into_iter().fold(f32::MIN, larger);
    rest.iter().fold(all, |largest, x| larger(of(*x), largest))
}

/// In eight sums side by side: one after the other they would have to wait for each other.
#[inline(always)]
pub(super) fn sum(values: &[f32], of: impl Fn(f32) -> f32) -> f32 {
    let mut sums = [0.0; 8];
    let (parts, rest) = values.as_chunks::<8>();
    for part in parts {
        for (sum, x) in sums.iter_mut().zip(part) {
            *sum += of(*x);
        }
    }
    sums.iter().sum::<f32>() + rest.iter().map(|x| of(*x)).sum::<f32>()
}
