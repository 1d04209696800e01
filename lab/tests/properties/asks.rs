//! `Ask::check` against a simple topological check.

use graph::{Ask, AskError, Limits, Placeholder, Request};
use proptest::prelude::*;
use serde_json::json;

use super::config;

/// Removes items without remaining dependencies, until nothing is left or nothing can be removed.
fn is_dag(needs: &[Vec<usize>]) -> bool {
    let mut left: Vec<usize> = (0..needs.len()).collect();
    loop {
        let (stuck, free): (Vec<usize>, Vec<usize>) = left.iter().partition(|&&at| needs[at].iter().any(|of| left.contains(of)));
        if stuck.is_empty() || free.is_empty() {
            return stuck.is_empty();
        }
        left = stuck;
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_check_agrees_with_a_naive_one(needs in prop::collection::vec(prop::collection::vec((0_usize..7, any::<bool>()), 0..3), 0..7)) {
        let count = needs.len();
        let mut ask = Ask::nothing();
        for of in &needs {
            ask.add(of.iter().fold(Request::from(graph::tool("t", json!({}))), |request, &(of, by_hole)| {
                if by_hole { request.hole(Placeholder::whole("/arguments", of, "")) } else { request.after(of) }
            }));
        }
        let plain: Vec<Vec<usize>> = needs.iter().map(|of| of.iter().map(|&(of, _)| of).collect()).collect();
        let dangles = plain.iter().flatten().any(|&of| of >= count);
        match ask.check(&Limits::default()) {
            Ok(()) => prop_assert!(!dangles && is_dag(&plain)),
            Err(AskError::Dangling { index, of, .. }) => prop_assert!(of >= count && plain[index].contains(&of)),
            Err(AskError::Cycle { .. }) => prop_assert!(!dangles && !is_dag(&plain)),
            Err(other) => prop_assert!(false, "{other}"),
        }
    }

    #[test]
    fn numbers_beyond_the_limits_are_named(count in 0_usize..20, most in 0_usize..20, attempts in 0_u32..9, attempts_max in 1_u32..9) {
        let limits = Limits { effects_per_ask_max: most, attempts_max, ..Limits::default() };
        let request = Request::from(graph::tool("t", json!({}))).attempts(attempts);
        let ask = Ask { requests: vec![request; count] };
        match ask.check(&limits) {
            Ok(()) => prop_assert!(count <= most && (count == 0 || (1..=attempts_max).contains(&attempts))),
            Err(e @ AskError::TooMany { .. }) => prop_assert!(count > most && e.to_string().contains("effects_per_ask_max"), "{e}"),
            Err(e @ AskError::Attempts { .. }) => prop_assert!(!(1..=attempts_max).contains(&attempts) && e.to_string().contains("attempts_max"), "{e}"),
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}
