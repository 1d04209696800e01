//! Attention of one text over itself: each query is compared with all keys, and collects the values by the result.
//!
//! ```text
//!   4 queries · 16 keys ──▶ scores ── softmax ──▶ 2 queries: sum of score · value
//! ```

/// Values of a head.
pub(super) const HEAD: usize = 32;
/// Queries that are compared with the same keys at once, so that each key is read once for all of them.
pub(super) const QUERIES: usize = 4;
/// Keys that are compared at once: two registers of eight for each query.
pub(super) const KEYS: usize = 16;
/// Queries whose results are collected at once: with the values of a head, as many sums as registers hold.
pub(super) const COLLECTED: usize = 2;

/// Queries of a group, a row of values each.
pub(super) type Queries = [[f32; HEAD]; QUERIES];
/// Keys of a block, by dimension, so that their scores are computed side by side.
pub(super) type Keys = [[f32; KEYS]; HEAD];
pub(super) type Scores = [[f32; KEYS]; QUERIES];
pub(super) type Collected = [[f32; HEAD]; COLLECTED];

/// `compared` and `collected` are the two products, as below or written for a processor; `softmax` turns the scores of a query into weights and returns
/// their sum.
#[inline(always)]
pub(super) fn attend(
    qkv: &[f32],
    tokens: usize,
    heads: usize,
    out: &mut [f32],
    compared: impl Fn(&Queries, &Keys) -> Scores,
    softmax: impl Fn(&mut [f32], usize, f32) -> f32,
    collected: impl Fn([&[f32]; COLLECTED], &[[f32; HEAD]]) -> Collected,
) {
    let width = heads * HEAD;
    assert!(qkv.len() == tokens * 3 * width && out.len() == tokens * width);
    // Padded to whole blocks. Padding gets no weight, and its results are not stored.
    let (keys_count, queries_count) = (tokens.next_multiple_of(KEYS), tokens.next_multiple_of(QUERIES));
    let mut keys = vec![[[0.0_f32; KEYS]; HEAD]; keys_count / KEYS];
    let mut values = vec![[0.0_f32; HEAD]; tokens];
    let mut queries = vec![[0.0_f32; HEAD]; queries_count];
    let mut scores = vec![0.0_f32; QUERIES * keys_count];
    let scale = 1.0 / (HEAD as f32).sqrt();
    for head in 0..heads {
        for (token, row) in qkv.chunks_exact(3 * width).enumerate() {
            let block = &mut keys[token / KEYS];
            for (by_token, key) in block.iter_mut().zip(&row[width + head * HEAD..][..HEAD]) {
                by_token[token % KEYS] = *key;
            }
            // Arrays, which are copied in registers.
            let (own, _) = row.as_chunks::<HEAD>();
            queries[token] = own[head];
            values[token] = own[2 * heads + head];
        }
        for (group, queries) in queries.as_chunks::<QUERIES>().0.iter().enumerate() {
            for (block, keys) in keys.iter().enumerate() {
                let found = compared(queries, keys);
                for (query, found) in found.iter().enumerate() {
                    scores[query * keys_count + block * KEYS..][..KEYS].copy_from_slice(found);
                }
            }
            let mut totals = [1.0; QUERIES];
            for (scores, total) in scores.chunks_exact_mut(keys_count).zip(&mut totals) {
                *total = softmax(scores, tokens, scale);
            }
            for (pair, scores) in scores.chunks_exact(COLLECTED * keys_count).enumerate() {
                let (first, second) = scores.split_at(keys_count);
                let collected = collected([&first[..tokens], &second[..tokens]], &values);
                for (at, collected) in collected.iter().enumerate() {
                    let query = pair * COLLECTED + at;
                    let token = group * QUERIES + query;
                    if token < tokens {
                        let out = &mut out[token * width + head * HEAD..][..HEAD];
                        out.iter_mut().zip(collected).for_each(|(out, sum)| *out = sum / totals[query]);
                    }
                }
            }
        }
    }
}

/// The products of some queries with a block of keys.
pub(super) fn compared(queries: &Queries, keys: &Keys) -> Scores {
    let mut sums = [[0.0; KEYS]; QUERIES];
    for (d, keys) in keys.iter().enumerate() {
        for (sums, query) in sums.iter_mut().zip(queries) {
            for (sum, key) in sums.iter_mut().zip(keys) {
                *sum += query[d] * key;
            }
        }
    }
    sums
}

/// The values of all tokens, each by its score.
pub(super) fn collected(scores: [&[f32]; COLLECTED], values: &[[f32; HEAD]]) -> Collected {
    let mut sums = [[0.0; HEAD]; COLLECTED];
    for ((first, second), values) in scores[0].iter().zip(scores[1]).zip(values) {
        for (sums, score) in sums.iter_mut().zip([first, second]) {
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum += score * value;
            }
        }
    }
    sums
}
