//! Sixteen `f32` values, and what activations, attention and gates do with them.
//!
//! Each instruction set implements this once; what is computed with it is written once (`activation`, `attention`, `gate`).
//! All implementations give the same bits for finite values: operations are rounded once, and sums are made in one order.
//!
//! Methods are `inline(always)` and become instructions only inside a function that is compiled for them, so generic code here is
//! called from such a function alone (see `set`). Loops are plain for the same reason: a closure is compiled on its own.

/// Implementations may be used only where the processor has their instructions.
pub(super) trait Lanes: Copy {
    fn splat(value: f32) -> Self;
    fn load(from: &[f32; 16]) -> Self;
    fn store(self, to: &mut [f32; 16]);
    /// From the bits of f16 values.
    fn load_half(from: &[u16; 16]) -> Self;
    /// To the bits of f16 values, rounded to nearest, ties to even.
    fn store_half(self, to: &mut [u16; 16]);
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;
    fn min(self, other: Self) -> Self;
    fn max(self, other: Self) -> Self;
    fn abs(self) -> Self;
    /// `self · factor + addend`, rounded once.
    fn mul_add(self, factor: Self, addend: Self) -> Self;
    /// To the nearest whole number, ties to even.
    fn round(self) -> Self;
    /// Times two to the power of whole numbers between −252 and 254.
    fn times_power_of_two(self, power: Self) -> Self;
    /// The values as four words of four signed bytes, and their sum. They are rounded as `round` does; between −127 and 127.
    fn store_bytes(self, to: &mut [i32; 4]) -> i32;
    /// Halves are added until one value is left.
    fn sum(self) -> f32;
    fn largest(self) -> f32;
}

/// e to the power of each. Far below zero it is nearly zero, far above it is infinite; relative error below 3e-7.
#[inline(always)]
pub(super) fn exp<L: Lanes>(x: L) -> L {
    // Below this there are no normal numbers; above the other it is infinite.
    let x = x.min(L::splat(89.0)).max(L::splat(-88.0));
    let whole = x.mul(L::splat(std::f32::consts::LOG2_E)).round();
    // ln 2 in two parts, so that the remainder is exact.
    let rest = whole.mul_add(L::splat(-0.693_359_4), x);
    let rest = whole.mul_add(L::splat(2.121_944_4e-4), rest);
    let mut power = L::splat(1.0 / 5040.0);
    for over in [720.0_f32, 120.0, 24.0, 6.0, 2.0, 1.0, 1.0] {
        power = power.mul_add(rest, L::splat(1.0 / over));
    }
    power.times_power_of_two(whole)
}

/// silu(gate) · up, in place of the gate.
#[inline(always)]
pub(super) fn gate<L: Lanes>(gates: &mut [f32; 16], up: &[f32; 16]) {
    let gate = L::load(gates);
    let less = exp(L::splat(0.0).sub(gate));
    gate.div(less.add(L::splat(1.0))).mul(L::load(up)).store(gates);
}

/// To f16.
#[inline(always)]
pub(super) fn halve<L: Lanes>(from: &[f32], to: &mut [u16]) {
    for (from, to) in from.as_chunks().0.iter().zip(to.as_chunks_mut().0) {
        L::load(from).store_half(to);
    }
}
