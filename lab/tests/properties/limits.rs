//! Limits: whatever they are and whatever comes, none is exceeded, and the error names the one that applied.

use graph::{Ask, END, FailureKind, Fault, Go, Graph, Limits, Outcome, Replies, Reply, Request, Run, RunError, Start};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{begin, config, drive, failure_of};

/// A flow that loops until it is stopped, with `width` effects each time.
fn endless(width: usize, limits: Limits) -> Graph {
    let ask = move |_: &Value| Ask { requests: vec![Request::from(graph::tool("t", json!({}))); width] };
    let fold = |state: &mut Value, replies: &Replies<'_>| {
        *state = replies.iter().map(super::shown).collect();
        if state.as_array().is_some_and(|state| state.len() == 77) { Go::end() } else { Go::to("round") }
    };
    Graph::of::<Value>("endless").node("round", (ask, fold), &["round", END]).limits(limits).build().unwrap()
}

fn nested(depth: usize) -> Value {
    (1..depth).fold(json!(1), |inner, at| if at % 2 == 0 { json!([inner]) } else { json!({ "in": inner }) })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn steps_and_effects_are_never_passed(steps_max in 0_u64..20, effects_per_ask_max in 0_usize..6, width in 0_usize..6) {
        let graph = endless(width, Limits { steps_max, effects_per_ask_max, ..Limits::default() });
        let mut run = begin(&graph, Value::Null);
        let mut performed = 0;
        let (outcome, _) = drive(&mut run, |_| {
            performed += 1;
            Reply::ok(1)
        });
        let Outcome::Failed { fault } = &*outcome else { panic!("it cannot end well: {outcome:?}") };
        if width > effects_per_ask_max && steps_max > 0 {
            prop_assert!(matches!(fault, Fault::Ask { .. }) && fault.to_string().contains("effects_per_ask_max"), "{fault}");
            prop_assert_eq!(performed, 0);
        } else {
            prop_assert!(matches!(fault, Fault::Steps { .. }) && fault.to_string().contains("steps_max"), "{fault}");
            prop_assert_eq!(performed as u64, steps_max * width as u64);
        }
    }

    #[test]
    fn a_reply_too_large_or_too_deep_is_a_failure_that_names_the_limit(
        length in 0_usize..300, depth in 1_usize..40, reply_bytes_max in 0_usize..300, json_depth_max in 1_usize..40,
    ) {
        let limits = Limits { reply_bytes_max, json_depth_max, steps_max: 1, ..Limits::default() };
        let reply = json!([nested(depth), "x".repeat(length)]);
        let is_too_deep = depth + 1 > json_depth_max;
        let bytes = reply.to_string().len();
        let mut run = begin(&endless(1, limits), Value::Null);
        let (_, journal) = drive(&mut run, |_| Reply::ok(reply.clone()));
        let state = run.state().unwrap();
        let why = state[0]["why"].as_str().unwrap_or_default();
        match failure_of(&state, 0) {
            None => {
                // Numbers count as five bytes each, with a small margin for commas.
                prop_assert!(!is_too_deep && bytes <= reply_bytes_max + 8, "{bytes} bytes, {depth} deep");
            }
            Some(kind) => {
                prop_assert_eq!(kind, FailureKind::Limit);
                prop_assert!(if is_too_deep { why.contains("json_depth_max") } else { why.contains("reply_bytes_max") }, "{}", why);
                prop_assert!(is_too_deep || bytes + 8 + 4 * depth > reply_bytes_max, "{bytes} bytes would have been fine: {}", why);
                // A refused reply is not in the journal either.
                prop_assert!(journal[1].encode().len() < 500 );
            }
        }
    }

    #[test]
    fn an_input_too_large_or_too_deep_is_refused(length in 0_usize..300, depth in 1_usize..40, input_bytes_max in 0_usize..300, json_depth_max in 1_usize..40) {
        let graph = endless(0, Limits { input_bytes_max, json_depth_max, ..Limits::default() });
        let input = json!([nested(depth), "x".repeat(length)]);
        match Run::start(&graph, Start::new("endless", "t", "r", input.clone())) {
            Ok(_) => prop_assert!(depth < json_depth_max && input.to_string().len() <= input_bytes_max + 8),
            Err(e @ RunError::Input { .. }) => {
                prop_assert!(e.to_string().contains("input_bytes_max") || e.to_string().contains("json_depth_max"), "{e}");
            }
            Err(other) => prop_assert!(false, "{other}"),
        }
    }

    #[test]
    fn attempts_end_and_no_wait_is_longer_than_allowed(attempts in 1_u32..8, waits in prop::collection::vec(0_u64..2_000, 8), retry_after_ms_max in 0_u64..2_000) {
        let request = Request::from(graph::tool("t", json!({}))).attempts(attempts);
        let fold = |state: &mut Value, replies: &Replies<'_>| {
            *state = replies.iter().map(super::shown).collect();
            Go::end()
        };
        let limits = Limits { retry_after_ms_max, ..Limits::default() };
        let graph = Graph::of::<Value>("retry").node("n", (move |_: &Value| Ask::one(request.clone()), fold), &[END]).limits(limits).build().unwrap();
        let mut run = begin(&graph, Value::Null);
        let mut made = Vec::new();
        drive(&mut run, |job| {
            made.push(job.after_ms);
            Reply::failed(graph::Failure::new(FailureKind::Network, "no").retry_after_ms(waits[job.attempt as usize - 1]))
        });
        let allowed = waits.iter().take(attempts as usize - 1).take_while(|&&ms| ms <= retry_after_ms_max).copied();
        let expected: Vec<u64> = std::iter::once(0).chain(allowed).collect();
        prop_assert_eq!(made, expected);
    }
}
