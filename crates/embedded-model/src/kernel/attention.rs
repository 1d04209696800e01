//! What a token takes from those before it.

use super::lanes::{Lanes, exp};
use super::memory::BLOCK;

/// Several heads that share keys and values, one after the other in `q` (already scaled) and `out`, over the first `seen` tokens.
/// `16 · W` dimensions of the values are summed at a time: as many as there are registers for, beside six heads.
#[inline(always)]
pub(super) fn attend<L: Lanes, const W: usize>(q: &[f32], (keys, values): (&[u16], &[u16]), head: usize, seen: usize, out: &mut [f32]) {
    assert!(head > 0 && head.is_multiple_of(16) && q.len().is_multiple_of(head) && q.len() == out.len() && seen > 0);
    let blocks = seen.div_ceil(BLOCK);
    let (keys, values) = (&keys[..blocks * BLOCK * head], &values[..seen * head]);
    let mut scores = vec![0.0; q.len() / head * blocks * BLOCK];
    let mut at = 0;
    macro_rules! some {
        ($count:literal) => {
            let (q, out) = (&q[at * head..][..$count * head], &mut out[at * head..][..$count * head]);
            let scores = &mut scores[at * blocks * BLOCK..][..$count * blocks * BLOCK];
            some::<L, $count, W>(q, (keys, values), head, seen, scores, out);
            at += $count;
        };
    }
    let count = q.len() / head;
    while at + 6 <= count {
        some!(6);
    }
    while at + 2 <= count {
        some!(2);
    }
    if at < count {
        some!(1);
    }
    let _ = at;
}

#[inline(always)]
fn some<L: Lanes, const N: usize, const W: usize>(
    q: &[f32],
    (keys, values): (&[u16], &[u16]),
    head: usize,
    seen: usize,
    scores: &mut [f32],
    out: &mut [f32],
) {
    let length = scores.len() / N;
    let queries = rows::<N>(q, head);
    for (block, keys) in keys.as_chunks::<BLOCK>().0.chunks_exact(head).enumerate() {
        let mut sums = [L::splat(0.0); N];
        for (at, keys) in keys.iter().enumerate() {
            let keys = L::load_half(keys);
            for row in 0..N {
                sums[row] = keys.mul_add(L::splat(queries[row][at]), sums[row]);
            }
        }
        for (at, sum) in sums.into_iter().enumerate() {
            if let Some(scores) = scores[at * length + block * BLOCK..].first_chunk_mut() {
                sum.store(scores);
            }
        }
    }
    let mut shares = [0.0; N];
    for (scores, share) in scores.chunks_exact_mut(length).zip(&mut shares) {
        scores[seen..].fill(f32::NEG_INFINITY);
        *share = 1.0 / softmax_in_place::<L>(scores);
    }
    let mut from = 0;
    while from + 16 * W <= head {
        mix::<L, N, W>(scores, &shares, values, head, from, out);
        from += 16 * W;
    }
    while from < head {
        mix::<L, N, 1>(scores, &shares, values, head, from, out);
        from += 16;
    }
}

/// e to the power of each over the largest, and the sum of that.
#[inline(always)]
fn softmax_in_place<L: Lanes>(scores: &mut [f32]) -> f32 {
    let scores = scores.as_chunks_mut::<16>().0;
    let mut most = L::splat(f32::NEG_INFINITY);
    for scores in &*scores {
        most = most.max(L::load(scores));
    }
    let most = L::splat(most.largest());
    let mut sum = L::splat(0.0);
    for scores in scores {
        let power = exp(L::load(scores).sub(most));
        sum = sum.add(power);
        power.store(scores);
    }
    sum.sum()
}

/// `16 · W` dimensions of the values, each times its score.
#[inline(always)]
fn mix<L: Lanes, const N: usize, const W: usize>(scores: &[f32], shares: &[f32; N], values: &[u16], head: usize, from: usize, out: &mut [f32]) {
    let length = scores.len() / N;
    let scores = rows::<N>(scores, length);
    let mut sums = [[L::splat(0.0); W]; N];
    for (token, values) in values.chunks_exact(head).enumerate() {
        let values = values[from..].as_chunks::<16>().0;
        let mut wide = [L::splat(0.0); W];
        for at in 0..W {
            wide[at] = L::load_half(&values[at]);
        }
        for row in 0..N {
            let score = L::splat(scores[row][token]);
            for at in 0..W {
                sums[row][at] = wide[at].mul_add(score, sums[row][at]);
            }
        }
    }
    for (at, (sums, share)) in sums.iter().zip(shares).enumerate() {
        let out = out[at * head + from..].as_chunks_mut::<16>().0;
        for (sum, out) in sums.iter().zip(out) {
            sum.mul(L::splat(*share)).store(out);
        }
    }
}

#[inline(always)]
fn rows<const N: usize>(table: &[f32], width: usize) -> [&[f32]; N] {
    let mut rows = [table; N];
    for (at, row) in rows.iter_mut().enumerate() {
        *row = &table[at * width..][..width];
    }
    rows
}
