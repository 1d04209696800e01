//! The activation function, vectorized.
//!
//! Candle computes one number at a time, with branches, and takes as long as a good part of the matrix products. This is the error function
//! by Abramowitz and Stegun (7.1.26), exact to six digits, without branches so that the compiler vectorizes it.

use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Tensor};

pub(super) fn gelu(x: &Tensor) -> Result<Tensor> {
    x.apply_op1_no_bwd(&Gelu)
}

struct Gelu;

impl CustomOp1 for Gelu {
    fn name(&self) -> &'static str {
        "gelu"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (start, end) = layout.contiguous_offsets().ok_or_else(|| candle_core::Error::Msg("gelu wants its numbers in a row".into()))?;
        let CpuStorage::F32(values) = storage else {
            return Err(candle_core::Error::Msg("gelu wants single precision".into()));
        };
        Ok((CpuStorage::F32(values[start..end].iter().map(|x| one(*x)).collect()), layout.shape().clone()))
    }
}

#[inline(always)]
fn one(x: f32) -> f32 {
    let y = x.abs() * std::f32::consts::FRAC_1_SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * y);
    let series = t * (0.254_829_6 + t * (-0.284_496_74 + t * (1.421_413_7 + t * (-1.453_152 + t * 1.061_405_4))));
    let tail = series * exp_of_minus(y * y);
    // The tail is the distance to one on the side of the sign.
    0.5 * (x + x.abs() * (1.0 - tail))
}

/// e to the power of minus `y`, with `y >= 0`: a power of two by its bits, the rest by a series.
#[inline(always)]
fn exp_of_minus(y: f32) -> f32 {
    /// Adding it removes the fraction, so the sum is rounded and its low bits are the integer.
    const ROUNDER: f32 = 12_582_912.0;
    let z = (-y * std::f32::consts::LOG2_E).max(-126.0);
    let rounded = z + ROUNDER;
    let rest = (z - (rounded - ROUNDER)) * std::f32::consts::LN_2;
    let series = 1.0 + rest * (1.0 + rest * (0.5 + rest * (0.166_666_67 + rest * (0.041_666_668 + rest * 0.008_333_334))));
    let power = rounded.to_bits().wrapping_sub(ROUNDER.to_bits()).wrapping_add(127) << 23;
    series * f32::from_bits(power)
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    #[test]
    fn it_is_the_same_function() {
        let values: Vec<f32> = (-4000..4000).map(|at| at as f32 / 200.0).chain([f32::MIN_POSITIVE, 0.0, -0.0, 1e4, -1e4]).collect();
        let x = Tensor::new(values.as_slice(), &Device::Cpu).unwrap();
        let (ours, theirs) = (gelu(&x).unwrap().to_vec1::<f32>().unwrap(), x.gelu_erf().unwrap().to_vec1::<f32>().unwrap());
        for ((x, ours), theirs) in values.iter().zip(ours).zip(theirs) {
            assert!((ours - theirs).abs() <= 2e-6 * theirs.abs().max(1.0), "{x}: {ours} {theirs}");
        }
    }
}
