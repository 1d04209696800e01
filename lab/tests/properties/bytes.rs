//! Encoding round-trips, and invalid bytes never panic.

use std::sync::Arc;

use baton_lab::sim::case::{Case, Kind};
use baton_lab::sim::dice::Dice;
use baton_lab::sim::flow::Flavour;
use graph::{Budget, Digest, Entry, Failure, FailureKind, HeldCall, Parent, Reply, Retry, Run, RunId, Snapshot, Start, TaskId, Usage};
use proptest::prelude::*;
use serde_json::json;

use super::{any_json, any_text, config, drive};

fn any_task() -> impl Strategy<Value = TaskId> {
    (any::<u64>(), any::<u32>()).prop_map(TaskId::from)
}

fn any_reply() -> impl Strategy<Value = Reply> {
    let kind = prop::sample::select(vec![FailureKind::Network, FailureKind::InDoubt, FailureKind::Limit, FailureKind::Internal]);
    let retry = prop_oneof![Just(Retry::No), Just(Retry::Yes), any::<u64>().prop_map(Retry::AfterMs)];
    let failure = (kind, any_text(), retry, prop::option::of(any_text())).prop_map(|(kind, message, retry, output)| Failure {
        kind,
        message,
        retry,
        output,
        has_acted: false,
    });
    let usage =
        any::<(u64, u64, u64, u64)>().prop_map(|(tokens_in, tokens_out, usd_micros, calls)| Usage { tokens_in, tokens_out, usd_micros, calls });
    let result = prop_oneof![any_json().prop_map(Ok), failure.prop_map(Err)];
    (result, usage, any::<u64>()).prop_map(|(result, usage, took_us)| Reply { result, usage, took_us, about: None })
}

fn any_start() -> impl Strategy<Value = Start> {
    let parent = prop::option::of((any_text(), any_task()).prop_map(|(run, task)| Parent { run: RunId::from(run), task }));
    (any_text(), any_text(), any_text(), any_json(), parent, any::<u32>(), prop::option::of(any::<u64>())).prop_map(
        |(flow, thread, run, input, parent, depth, tokens_max)| Start {
            parent,
            depth,
            budget: Budget { tokens_max, ..Budget::default() },
            ..Start::new(&flow, thread, run, input)
        },
    )
}

fn any_entry() -> impl Strategy<Value = Entry> {
    let asked = any_json().prop_map(|value| Digest::of(&graph::tool("t", value)));
    prop_oneof![
        any_start().prop_map(|start| Entry::Started(Box::new(start))),
        (any_task(), any::<u32>(), asked, any_reply()).prop_map(|(task, attempt, asked, reply)| Entry::Replied {
            task,
            attempt,
            asked,
            reply: Arc::new(reply)
        }),
        (any_task(), any::<u32>()).prop_map(|(task, attempt)| Entry::Doubted { task, attempt }),
        (any_task(), any::<u32>(), any_text(), proptest::option::of((any_text(), any_text(), any_text()))).prop_map(|(task, attempt, why, call)| {
            let call = call.map(|(tool, server, arguments)| HeldCall {
                definition: Box::new(graph::ToolDefinition { description: server.clone(), ..Default::default() }),
                tool,
                server,
                sources: vec![arguments.clone()],
                arguments,
            });
            Entry::Held { task, attempt, why, call }
        }),
        (any::<u64>(), any_json()).prop_map(|(step, patch)| Entry::Edited { step, patch: Arc::new(patch) }),
        any_text().prop_map(|reason| Entry::Cancelled { reason }),
    ]
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn entries_survive(entry in any_entry()) {
        let bytes = entry.encode();
        let read = Entry::decode(&bytes).unwrap();
        prop_assert_eq!(read.encode(), bytes);
        prop_assert_eq!(read, entry);
    }

    #[test]
    fn any_bytes_are_an_entry_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = Entry::decode(&bytes);
        let _ = Snapshot::decode(&bytes);
    }

    /// Nearly valid input is harder than random input.
    #[test]
    fn damaged_entries_are_an_entry_or_an_error(entry in any_entry(), at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>()) {
        let mut bytes = entry.encode();
        let at = at.index(bytes.len());
        if cut { bytes.truncate(at) } else { bytes[at] = byte }
        if let Ok(read) = Entry::decode(&bytes) {
            prop_assert_eq!(Entry::decode(&read.encode()).unwrap(), read);
        }
    }

    /// A run of a random flow, resumed from a snapshot at any step or from the start with the rest of its journal: the same end, by the
    /// same events.
    #[test]
    fn a_run_rebuilt_from_a_snapshot_is_the_same_run(seed in any_seed(), at in any::<prop::sample::Index>()) {
        let (case, start) = some_run(seed);
        let graph = &case.flows[0];
        let mut whole = Run::start(graph, start).unwrap();
        let (outcome, journal) = drive(&mut whole, |job| reply_to(seed, job));
        // As in the journal: with the graph's own budget, if no other was set.
        let Entry::Started(start) = &journal[0] else { panic!("a journal begins with a start") };

        let at = at.index(journal.len()) + 1;
        let mut part = Run::start(graph, (**start).clone()).unwrap();
        let mut is_restored = false;
        let mut events = Vec::new();
        for (seq, entry) in journal.iter().enumerate().skip(1) {
            if seq >= at && !is_restored {
                part.settle();
                if let Some(snapshot) = part.snapshot() {
                    is_restored = true;
                    let bytes = snapshot.encode();
                    let read = Snapshot::decode(&bytes).unwrap();
                    prop_assert_eq!(&read.encode(), &bytes);
                    events = part.take_events();
                    part = Run::restore(graph, (**start).clone(), read).unwrap();
                    part.settle();
                    // The events of the step are published again, under their old numbers.
                    let again = part.take_events();
                    let first = again.first().map_or(u64::MAX, |again| again.seq);
                    events.retain(|numbered| numbered.seq < first);
                    events.extend(again);
                }
            }
            part.apply(entry.clone()).unwrap();
        }
        part.settle();
        events.extend(part.take_events());
        prop_assert_eq!(part.outcome(), Some(&outcome));
        prop_assert_eq!((part.spent(), part.elapsed_us(), part.entries()), (whole.spent(), whole.elapsed_us(), whole.entries()));
        prop_assert_eq!(events, whole.take_events());
    }

    /// The same from any line of the journal, continuing by itself. Replies then come in another order, which must not matter.
    #[test]
    fn a_run_rebuilt_from_a_prefix_ends_the_same(seed in any_seed(), at in any::<prop::sample::Index>()) {
        let (case, start) = some_run(seed);
        let graph = &case.flows[0];
        let (outcome, journal) = drive(&mut Run::start(graph, start.clone()).unwrap(), |job| reply_to(seed, job));
        let mut part = Run::start(graph, start).unwrap();
        for entry in &journal[1..=at.index(journal.len())] {
            part.apply(Entry::decode(&entry.encode()).unwrap()).unwrap();
        }
        let (end, _) = drive(&mut part, |job| reply_to(seed, job));
        if is_order_free(&case) {
            prop_assert_eq!(end, outcome);
        }
    }
}

/// Seeds of random graphs; the others are of the sample flows.
pub(super) fn any_seed() -> impl Strategy<Value = u64> {
    (0_u64..50_000, 2_u64..20).prop_map(|(twenties, rest)| 20 * twenties + rest)
}

pub(super) fn some_run(seed: u64) -> (Case, Start) {
    let case = Case::of(seed);
    let start = Start::new(case.flows[0].name(), "t", "r", case.orders[0].input.clone());
    (case, start)
}

/// Budgets of tokens and calls are spent in request order; only there does the order matter.
pub(super) fn is_order_free(case: &Case) -> bool {
    case.kind != Kind::Random(Flavour::Thrifty)
}

/// A reply that follows from the attempt alone.
pub(super) fn reply_to(seed: u64, job: &graph::Job) -> Reply {
    let mut dice = Dice::new(&[seed, u64::from_le_bytes(job.key.bytes()[..8].try_into().unwrap()), u64::from(job.attempt)]);
    let reply = if dice.pct(25) {
        Reply::failed(Failure::new(FailureKind::Network, "no").retry())
    } else {
        Reply::ok(json!({ "n": dice.below(9), "text": "äö", "list": [1], "deep": { "er": 2 } }))
    };
    reply.taking_us(1 + dice.below(9_000)).using(Usage { tokens_in: dice.below(50), ..Usage::default() })
}
