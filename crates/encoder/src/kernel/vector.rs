//! What lies between the products. Loops without branches, which the compiler turns into wide instructions.

const EPSILON: f32 = 1e-12;
/// Factors of the error function's series and its slope, by Abramowitz and Stegun 7.1.26.
pub(super) const ERF_SERIES: [f32; 5] = [0.254_829_6, -0.284_496_74, 1.421_413_7, -1.453_152, 1.061_405_4];
pub(super) const ERF_SLOPE: f32 = 0.327_591_1;
/// Factors of the series of e to the power of x, for x from -ln 2 / 2 to ln 2 / 2.
pub(super) const EXP_SERIES: [f32; 6] = [1.0, 1.0, 0.5, 0.166_666_67, 0.041_666_668, 0.008_333_334];
/// Adding it leaves no bits for a fraction, so the low bits of the sum are the whole number.
pub(super) const SHIFT: f32 = 12_582_912.0;
/// The smallest power of two that is computed; smaller ones count as this one.
pub(super) const POWER_MIN: f32 = -126.0;

/// x times the normal distribution's share below x.
#[inline(always)]
pub(super) fn gelu(values: &mut [f32]) {
    for x in values {
        let y = x.abs() * std::f32::consts::FRAC_1_SQRT_2;
        let t = 1.0 / (1.0 + ERF_SLOPE * y);
        *x = 0.5 * (*x + x.abs() * (1.0 - t * polynomial(t, &ERF_SERIES) * exp(-y * y)));
    }
}

/// Makes the first `count` scores `e^((score - largest) · scale)` and the rest 0, and returns their sum.
#[inline(always)]
pub(super) fn softmax(scores: &mut [f32], count: usize, scale: f32) -> f32 {
    let (used, padding) = scores.split_at_mut(count);
    padding.fill(0.0);
    let largest = largest(used, |x| x);
    for score in used.iter_mut() {
        *score = exp((*score - largest) * scale);
    }
    sum(used, |x| x)
}

/// e to the power of x, for x up to 88; relative error below 1e-6.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    let z = (x * std::f32::consts::LOG2_E).max(POWER_MIN);
    let whole = z + SHIFT;
    let rest = (z - (whole - SHIFT)) * std::f32::consts::LN_2;
    let power = whole.to_bits().wrapping_sub(SHIFT.to_bits()).wrapping_add(127) << 23;
    polynomial(rest, &EXP_SERIES) * f32::from_bits(power)
}

/// The sum of `series[k] · x^k`.
#[inline(always)]
fn polynomial<const N: usize>(x: f32, series: &[f32; N]) -> f32 {
    series[..N - 1].iter().rev().fold(series[N - 1], |sum, factor| sum * x + factor)
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
    let mut lanes = [f32::MIN; 8];
    let (parts, rest) = values.as_chunks::<8>();
    for part in parts {
        for (lane, x) in lanes.iter_mut().zip(part) {
            *lane = lane.max(of(*x));
        }
    }
    let all = lanes.into_iter().fold(f32::MIN, f32::max);
    rest.iter().fold(all, |largest, x| largest.max(of(*x)))
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
