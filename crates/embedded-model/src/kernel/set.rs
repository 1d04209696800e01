//! The sets of kernels, one for each instruction set, as tables of functions.

use super::activation::{self, Block};
use super::lanes;
use super::tile::{TALL, Tile4, Tile6};
use super::{attention, scalar};

/// What one instruction set computes. All sets give the same bits for finite values.
///
/// The functions may be called only where the processor has the instructions; a set is handed out only there ([`available`]).
pub(in super::super) struct Set {
    pub(in super::super) name: &'static str,
    pub(super) product_4: unsafe fn(&[Tile4], &[Block], &mut [[f32; TALL]]),
    pub(super) product_6: unsafe fn(&[Tile6], &[Block], &mut [[f32; TALL]]),
    pub(super) quantize: unsafe fn(&[f32], &mut [Block]),
    pub(super) quantize_normed: unsafe fn(&[f32], &[f32], f32, &mut [Block]),
    pub(super) attend: unsafe fn(&[f32], KeysValues<'_>, usize, usize, &mut [f32]),
    pub(super) gate: unsafe fn(&mut [[f32; TALL]], &[[f32; TALL]]),
    pub(super) halve: unsafe fn(&[f32], &mut [u16]),
}

/// The keys of a head in whole blocks, and its values (see `memory`).
type KeysValues<'a> = (&'a [u16], &'a [u16]);

/// The sets that this processor can run, the fastest first.
pub(in super::super) fn available() -> Vec<&'static Set> {
    let mut sets: Vec<&'static Set> = Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        if super::avx512::is_available() {
            sets.push(&AVX512);
        }
        if super::avx2::is_available() {
            sets.push(&AVX2);
        }
    }
    #[cfg(target_arch = "aarch64")]
    {
        if super::neon::has_dot_product() {
            sets.push(&NEON_DOT);
        }
        sets.push(&NEON);
    }
    sets.push(&SCALAR);
    sets
}

/// A set whose generic parts are compiled for an instruction set. `$wide`: see `attention::attend`.
macro_rules! set {
    ($name:literal, $lanes:ty, $wide:literal, $product_4:expr, $product_6:expr $(, $features:literal)?) => {{
        $(#[target_feature(enable = $features)])?
        fn quantize(values: &[f32], blocks: &mut [Block]) {
            activation::quantize::<$lanes>(values, blocks);
        }
        $(#[target_feature(enable = $features)])?
        fn quantize_normed(values: &[f32], gains: &[f32], epsilon: f32, blocks: &mut [Block]) {
            activation::quantize_normed::<$lanes>(values, gains, epsilon, blocks);
        }
        $(#[target_feature(enable = $features)])?
        fn attend(q: &[f32], kv: KeysValues<'_>, head: usize, seen: usize, out: &mut [f32]) {
            attention::attend::<$lanes, $wide>(q, kv, head, seen, out);
        }
        $(#[target_feature(enable = $features)])?
        fn gate(gates: &mut [[f32; TALL]], ups: &[[f32; TALL]]) {
            for (gate, up) in gates.iter_mut().zip(ups) {
                lanes::gate::<$lanes>(gate, up);
            }
        }
        $(#[target_feature(enable = $features)])?
        fn halve(from: &[f32], to: &mut [u16]) {
            lanes::halve::<$lanes>(from, to);
        }
        Set { name: $name, product_4: $product_4, product_6: $product_6, quantize, quantize_normed, attend, gate, halve }
    }};
}

pub(super) static SCALAR: Set = set!("scalar", scalar::Scalar, 1, scalar::product_4, scalar::product_6);

#[cfg(target_arch = "x86_64")]
static AVX2: Set = {
    use super::avx2::{Two, product_4, product_6};
    set!("avx2", Two, 1, product_4, product_6, "avx2,fma,f16c")
};

#[cfg(target_arch = "x86_64")]
static AVX512: Set = {
    use super::avx512::{Wide, product_4, product_6};
    set!("avx512", Wide, 4, product_4, product_6, "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")
};

#[cfg(target_arch = "aarch64")]
static NEON: Set = {
    use super::neon::{Four, product_4, product_6};
    set!("neon", Four, 1, product_4, product_6, "neon")
};

#[cfg(target_arch = "aarch64")]
static NEON_DOT: Set = {
    use super::neon::{Four, product_4_dot, product_6_dot};
    set!("neon-dot", Four, 1, product_4_dot, product_6_dot, "neon,dotprod")
};
