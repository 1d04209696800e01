//! The network on plain numbers, for processors with AVX-512 and its products of bytes (VNNI).
//!
//! A token is made by reading a gigabyte of weights once, so what counts is how few bytes they are and that nothing else takes
//! time beside reading them. candle's kernels are general: they hold Q4_K in 0.75 bytes a weight, and for one row wait for each
//! sum before they begin the next; between the products come small tensors, one thread each. Here a weight takes 0.58 bytes,
//! a product runs as fast as memory gives, and a pass is a handful of regions on all threads, with nothing allocated per
//! operation but its result.
//!
//! ```text
//!   tile        how weights lie in memory           activation   what they are multiplied with, in eight bits
//!   product     the inner loops                     matrix       a matrix of tiles; products on all threads
//!   memory      keys and values of the tokens       attention    a token over the memory
//!   network     the pass over all of it             parts        work on all threads       vector   registers
//! ```
//!
//! Everything is `#[target_feature]`, and safe but for the few places that say why: filling a register from an array, dividing
//! a result among threads, and the calls that rest on [`is_available`]. Whoever lacks such a processor, or has weights in other
//! formats, uses candle's kernels as before (`net.rs`).

mod activation;
mod attention;
#[expect(unsafe_code, reason = "tiles begin as zeros, and a matrix proves that the processor can multiply it")]
mod matrix;
mod memory;
#[expect(unsafe_code, reason = "a network has matrices, which prove that the processor is the right one")]
mod network;
#[expect(unsafe_code, reason = "a result is divided among threads")]
mod parts;
#[expect(unsafe_code, reason = "memory is asked for what will be read")]
mod product;
#[cfg(test)]
#[expect(unsafe_code, reason = "each test asks for the processor first")]
mod tests;
mod tile;
#[expect(unsafe_code, reason = "registers are filled from memory and emptied into it")]
mod vector;

pub(super) use memory::Memory;
pub(super) use network::Network;
use vector::is_available;
