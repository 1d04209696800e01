//! The network on plain numbers, with kernels of our own.
//!
//! A token is made by reading a gigabyte of weights once, so what counts is how few bytes they are and that nothing else takes
//! time beside reading them. candle's kernels are general: they hold Q4_K in 0.75 bytes a weight, and for one row wait for each
//! sum before they begin the next; between the products come small tensors, one thread each. Here a weight takes 0.58 bytes,
//! a product runs as fast as memory gives, and a pass is a handful of regions on all threads, with nothing allocated per
//! operation but its result. A prompt is bounded by arithmetic instead: each weight that is read is multiplied with many rows.
//!
//! ```text
//!   tile        how weights lie in memory           activation   what they are multiplied with, in eight bits
//!   matrix      a matrix of tiles; its products     attention    a token over the memory
//!   memory      keys and values of the tokens       network      the pass over all of it
//!   parts       work on all threads of the pool     limits       what this machine could do at most
//!
//!   set         the tables of functions: avx512, avx2, neon, scalar      lanes   16 numbers, by each of them
//! ```
//!
//! Only products and `Lanes` are written for each instruction set. Weights lie the same for all. All sets give the same bits,
//! since products are sums of whole numbers and everything else is rounded in the same order; tests compare each with `scalar`.
//! Weights in other formats use candle's kernels (`net.rs`).

mod activation;
mod attention;
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "registers are filled from memory and emptied into it")]
mod avx2;
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "registers are filled from memory and emptied into it")]
mod avx512;
mod lanes;
#[expect(unsafe_code, reason = "functions of a set are called, which is handed out only where the processor has the instructions")]
mod limits;
#[expect(unsafe_code, reason = "tiles begin as zeros, and functions of a set are called")]
mod matrix;
mod memory;
#[cfg(target_arch = "aarch64")]
#[expect(unsafe_code, reason = "registers are filled from memory and emptied into it")]
mod neon;
#[expect(unsafe_code, reason = "functions of a set are called, which is handed out only where the processor has the instructions")]
mod network;
#[expect(unsafe_code, reason = "a result is divided among threads")]
pub(super) mod parts;
#[expect(unsafe_code, reason = "a job is borrowed by threads that the caller waits for")]
mod pool;
mod scalar;
mod set;
#[cfg(test)]
#[expect(unsafe_code, reason = "each set is asked for, so the processor has its instructions")]
mod tests;
mod tile;

pub(super) use limits::limits;
pub(super) use memory::Memory;
pub(super) use network::Network;
pub(super) use set::{Set, available};
