//! What this machine could do at most, measured: how fast memory is read, and how many products are made when nothing is read from it.

use std::hint::black_box;
use std::time::Instant;

use super::activation::Block;
use super::pool::pool;
use super::set::Set;
use super::tile::{TALL, Tile4, WIDE};
use crate::kernels::Limits;

/// Much more than caches hold.
const READ_BYTES: usize = 256 << 20;
const REPETITIONS: usize = 8;
const ROWS: usize = 64;

/// The best of several repetitions; it takes about a second, and 256 MiB meanwhile.
pub(in super::super) fn limits(set: &'static Set) -> Limits {
    let words = vec![1_u64; READ_BYTES / 8];
    const PART: usize = 1 << 17;
    let read = || {
        pool().run(words.len() / PART, |parts| {
            let mut sums = [0; 16];
            for some in words[parts.start * PART..parts.end * PART].as_chunks::<16>().0 {
                for (sum, word) in sums.iter_mut().zip(some) {
                    *sum ^= word;
                }
            }
            black_box(sums);
        });
    };
    let memory_gb_s = READ_BYTES as f64 / best(read) / 1e9;
    drop(words);

    const TILES: usize = 2;
    const TIMES: usize = 256;
    let tiles = Box::<[Tile4]>::new_zeroed_slice(TILES);
    // SAFETY: tiles are whole numbers throughout, which may all be zero.
    let tiles = unsafe { tiles.assume_init() };
    let x = vec![Block::EMPTY; ROWS * TILES];
    let multiply = || {
        pool().run(TIMES, |times| {
            let mut sums = [[0.0; TALL]; ROWS];
            for _ in times {
                // SAFETY: a set is handed out only where the processor has its instructions.
                unsafe { (set.product_4)(black_box(&tiles), &x, &mut sums) };
            }
            black_box(sums);
        });
    };
    let products_g_s = (TIMES * TILES * TALL * WIDE * ROWS) as f64 / best(multiply) / 1e9;
    Limits { memory_gb_s, products_g_s }
}

/// Seconds of the fastest repetition.
fn best(mut work: impl FnMut()) -> f64 {
    let time = |_| {
        let started = Instant::now();
        work();
        started.elapsed().as_secs_f64()
    };
    (0..REPETITIONS).map(time).fold(f64::INFINITY, f64::min)
}
