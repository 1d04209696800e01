//! What a token takes from those before it. Loops are plain for the reason that `product` gives.

use std::arch::x86_64::*;

use super::memory::BLOCK;
use super::vector::{exp, floats, halves, put};

/// Several heads that share keys and values, one after the other in `q` (already scaled) and `out`, over the first `seen` tokens.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
pub(super) fn attend(q: &[f32], (keys, values): (&[u16], &[u16]), head: usize, seen: usize, out: &mut [f32]) {
    assert!(head > 0 && head.is_multiple_of(16) && q.len().is_multiple_of(head) && q.len() == out.len() && seen > 0);
    let blocks = seen.div_ceil(BLOCK);
    let (keys, values) = (&keys[..blocks * BLOCK * head], &values[..seen * head]);
    let mut scores = vec![0.0; q.len() / head * blocks * BLOCK];
    let mut at = 0;
    macro_rules! some {
        ($count:literal) => {
            let (q, out) = (&q[at * head..][..$count * head], &mut out[at * head..][..$count * head]);
            let scores = &mut scores[at * blocks * BLOCK..][..$count * blocks * BLOCK];
            some::<$count>(q, (keys, values), head, seen, scores, out);
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

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
fn some<const N: usize>(q: &[f32], (keys, values): (&[u16], &[u16]), head: usize, seen: usize, scores: &mut [f32], out: &mut [f32]) {
    let length = scores.len() / N;
    let rows = rows::<N>(q, head);
    for (block, keys) in keys.as_chunks::<BLOCK>().0.chunks_exact(head).enumerate() {
        let mut sums = [_mm512_setzero_ps(); N];
        for (at, keys) in keys.iter().enumerate() {
            let keys = _mm512_cvtph_ps(halves(keys));
            for row in 0..N {
                sums[row] = _mm512_fmadd_ps(keys, _mm512_set1_ps(rows[row][at]), sums[row]);
            }
        }
        for (at, sum) in sums.into_iter().enumerate() {
            if let Some(scores) = scores[at * length + block * BLOCK..].first_chunk_mut() {
                put(scores, sum);
            }
        }
    }
    let mut shares = [0.0; N];
    for (scores, share) in scores.chunks_exact_mut(length).zip(&mut shares) {
        scores[seen..].fill(f32::NEG_INFINITY);
        *share = 1.0 / soften(scores);
    }
    let mut from = 0;
    while from + 64 <= head {
        mix::<N, 4>(scores, &shares, values, head, from, out);
        from += 64;
    }
    while from < head {
        mix::<N, 1>(scores, &shares, values, head, from, out);
        from += 16;
    }
}

/// e to the power of each over the largest, and the sum of that.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
fn soften(scores: &mut [f32]) -> f32 {
    let scores = scores.as_chunks_mut::<16>().0;
    let mut most = _mm512_set1_ps(f32::NEG_INFINITY);
    for scores in &*scores {
        most = _mm512_max_ps(most, floats(scores));
    }
    let most = _mm512_set1_ps(_mm512_reduce_max_ps(most));
    let mut sum = _mm512_setzero_ps();
    for scores in scores {
        let power = exp(_mm512_sub_ps(floats(scores), most));
        sum = _mm512_add_ps(sum, power);
        put(scores, power);
    }
    _mm512_reduce_add_ps(sum)
}

/// `16 · W` dimensions of the values, each times its score.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
fn mix<const N: usize, const W: usize>(scores: &[f32], shares: &[f32; N], values: &[u16], head: usize, from: usize, out: &mut [f32]) {
    let length = scores.len() / N;
    let scores = rows::<N>(scores, length);
    let mut sums = [[_mm512_setzero_ps(); W]; N];
    for (token, values) in values.chunks_exact(head).enumerate() {
        let values = values[from..].as_chunks::<16>().0;
        let mut wide = [_mm512_setzero_ps(); W];
        for at in 0..W {
            wide[at] = _mm512_cvtph_ps(halves(&values[at]));
        }
        for row in 0..N {
            let score = _mm512_set1_ps(scores[row][token]);
            for at in 0..W {
                sums[row][at] = _mm512_fmadd_ps(wide[at], score, sums[row][at]);
            }
        }
    }
    for (at, (sums, share)) in sums.iter().zip(shares).enumerate() {
        let out = out[at * head + from..].as_chunks_mut::<16>().0;
        for (sum, out) in sums.iter().zip(out) {
            put(out, _mm512_mul_ps(*sum, _mm512_set1_ps(*share)));
        }
    }
}

#[inline]
fn rows<const N: usize>(table: &[f32], width: usize) -> [&[f32]; N] {
    let mut rows = [table; N];
    for (at, row) in rows.iter_mut().enumerate() {
        *row = &table[at * width..][..width];
    }
    rows
}
