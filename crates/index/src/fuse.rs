//! Merges several rankings by rank and not by score, since scores of different lists are not comparable.
//!
//! Reciprocal rank fusion: each list adds `weight / (60 + rank)` to its entries.

use std::collections::HashMap;

const PLACE_OFFSET: f32 = 60.0;

/// One ranking, best first, and its weight.
#[derive(Clone, Debug)]
pub(crate) struct List {
    pub(crate) name: &'static str,
    pub(crate) weight: f32,
    pub(crate) rows: Vec<u32>,
}

/// Best first. The score is relative to a row that is first on every list.
pub(crate) fn fuse(lists: &[List]) -> Vec<(u32, f32)> {
    let best: f32 = lists.iter().filter(|list| !list.rows.is_empty()).map(|list| list.weight / (PLACE_OFFSET + 1.0)).sum();
    let mut scores: HashMap<u32, f32> = HashMap::new();
    for list in lists.iter().filter(|list| list.weight > 0.0) {
        for (place, row) in list.rows.iter().enumerate() {
            *scores.entry(*row).or_default() += list.weight / (PLACE_OFFSET + 1.0 + place as f32);
        }
    }
    let mut rows: Vec<(u32, f32)> = scores.into_iter().map(|(row, score)| (row, score / best)).collect();
    // Ties are ordered by row, so that the result is deterministic.
    rows.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    rows
}

/// The best `count` of what was scored, the best first.
pub(crate) fn best(mut scored: Vec<(u32, f32)>, count: usize) -> Vec<u32> {
    let order = |a: &(u32, f32), b: &(u32, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
    if scored.len() > count && count > 0 {
        scored.select_nth_unstable_by(count - 1, order);
        scored.truncate(count);
    }
    scored.sort_by(order);
    scored.truncate(count);
    scored.into_iter().map(|(row, _)| row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(lists: &[(f32, &[u32])], expected: &[u32]) {
        let lists: Vec<List> = lists.iter().map(|(weight, rows)| List { name: "", weight: *weight, rows: rows.to_vec() }).collect();
        let found = fuse(&lists);
        assert_eq!(found.iter().map(|(row, _)| *row).collect::<Vec<_>>(), expected);
        assert!(found.iter().all(|(_, score)| *score > 0.0 && *score <= 1.0001), "{found:?}");
    }

    #[test]
    fn lists_become_one() {
        check(&[], &[]);
        check(&[(1.0, &[3, 1])], &[3, 1]);
        // Second twice beats first once.
        check(&[(1.0, &[1, 9]), (1.0, &[2, 9])], &[9, 1, 2]);
        check(&[(1.0, &[1, 2]), (0.5, &[2, 1])], &[1, 2]);
        check(&[(1.0, &[1, 2]), (0.0, &[7])], &[1, 2]);
        check(&[(1.0, &[5]), (1.0, &[4])], &[4, 5]);
    }

    #[test]
    fn the_best_come_first() {
        assert_eq!(best(vec![(1, 0.1), (2, 0.9), (3, 0.5), (0, 0.9)], 3), [0, 2, 3]);
        assert_eq!(best(vec![(1, 0.1)], 3), [1]);
        assert_eq!(best(vec![(1, 0.1)], 0), [0; 0]);
    }
}
