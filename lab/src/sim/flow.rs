//! Random flows: nodes in a row, with additional edges forward, back and to the end. What a node requests and where it goes follows from
//! the seed and a digest of everything its run has seen, so any difference persists to the end.
//!
//! ```text
//!   n0 ──► n1 ──► n2 ──► end        always
//!    ▲──────┘ ╲___________▲         at random; fuel in the state bounds the cycles
//! ```

use graph::{Budget, END, Go, Graph, Limits, Replies, Reply, Reserve};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::asks;
use super::dice::{Dice, hash, mix};

/// Features of a family of flows. No flavour has all of them, because some legitimately make the end depend on timing: an exhausted token
/// budget stops the last caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// Everything except budgets and clocks, including effects that only a person can decide.
    Wild,
    /// No unknown outcomes, so even costs and times must be equal.
    Exact,
    /// Phases and a time budget; no children, whose deadlines use the real clock.
    Timed,
    /// Budgets of tokens, money and calls; effects of one step are independent.
    Thrifty,
}

impl Flavour {
    pub fn has_doubts(self) -> bool {
        self == Flavour::Wild
    }
}

/// One flow of a family.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub seed: u64,
    pub flavour: Flavour,
    /// Its index in the family; it may call those after it.
    pub flow: u64,
    pub flows: u64,
}

/// The state of a random flow.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    /// Of everything seen so far.
    pub digest: u64,
    /// Remaining steps back.
    pub fuel: u32,
    /// The caller's input.
    pub note: Value,
    /// The digest after each step, to find where two runs diverged.
    pub trail: Vec<u64>,
}

/// All flows of a seed, the one to start first.
pub fn family(seed: u64, flavour: Flavour) -> Vec<Graph> {
    let flows = if flavour == Flavour::Timed { 1 } else { 1 + Dice::new(&[seed, 1]).below(3) };
    (0..flows).map(|flow| graph(Plan { seed, flavour, flow, flows })).collect()
}

fn graph(plan: Plan) -> Graph {
    let mut dice = Dice::new(&[plan.seed, 2, plan.flow]);
    let count = 1 + dice.below(4) as usize;
    let name = |at: usize| if at < count { format!("n{at}") } else { END.to_owned() };
    let mut builder = Graph::of::<State>(&format!("f{}", plan.flow));
    for at in 0..count {
        let mut edges = vec![name(at + 1)];
        for _ in 0..dice.below(3) {
            let to = name(dice.below(count as u64 + 1) as usize);
            if !edges.contains(&to) {
                edges.push(to);
            }
        }
        let node = at as u64;
        let declared = edges.clone();
        let ask = move |state: &State| asks::ask(plan, node, state);
        let fold = move |state: &mut State, replies: &Replies<'_>| fold(plan, node, &declared, state, replies);
        builder = builder.node(&name(at), (ask, fold), &edges.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let builder = builder.limits(Limits {
        steps_max: if dice.pct(10) { 4 } else { 64 },
        reply_bytes_max: if dice.pct(20) { 400 } else { 1 << 20 },
        depth_max: if dice.pct(10) { 1 } else { 8 },
        ..Limits::default()
    });
    let builder = match plan.flavour {
        Flavour::Wild | Flavour::Exact => builder,
        Flavour::Timed => builder
            .phase("first", 20 + dice.below(60), &[&name(0)])
            .phase("all", 30 + dice.below(200), &(0..count).map(name).collect::<Vec<_>>().iter().map(String::as_str).collect::<Vec<_>>())
            .budget(Budget {
                time_ms_max: Some(40 + dice.below(200)),
                reserve: Reserve { time_ms: dice.below(20), ..Reserve::default() },
                ..Budget::default()
            }),
        Flavour::Thrifty => builder.budget(Budget {
            tokens_max: dice.pct(60).then(|| 200 + dice.below(1_000)),
            usd_micros_max: dice.pct(30).then(|| 100 + dice.below(1_000)),
            calls_max: dice.pct(60).then(|| 2 + dice.below(12)),
            reserve: Reserve { tokens: dice.below(100), calls: dice.below(2), ..Reserve::default() },
            ..Budget::default()
        }),
    };
    builder.build().expect("every node leads to the next, and the last to the end")
}

fn fold(plan: Plan, node: u64, edges: &[String], state: &mut State, replies: &Replies<'_>) -> Go {
    let is_exact = !plan.flavour.has_doubts();
    let seen = replies.iter().fold(mix(&[state.digest, node, hash(state.note.to_string().as_bytes())]), |seen, reply| digest(seen, reply, is_exact));
    state.digest = mix(&[seen, replies.len() as u64]);
    state.trail.push(state.digest);
    let mut dice = Dice::new(&[plan.seed, 3, plan.flow, node, state.digest]);
    let way = &edges[0];
    let go = if dice.pct(2) {
        Go::fail(format!("gave up with {:x}", state.digest))
    } else if dice.pct(1) {
        Go::to("nowhere")
    } else if state.fuel == 0 {
        if edges.iter().any(|edge| edge == END) { Go::end() } else { Go::to(way.clone()) }
    } else {
        state.fuel -= 1;
        let to = if dice.pct(60) { way } else { dice.pick(edges) };
        if to == END { Go::end() } else { Go::to(to.clone()) }
    };
    let go = if dice.pct(40) { go.note("digest", state.digest) } else { go };
    let go = if dice.pct(30) { go.say("assistant", format!("step {} of {}: {:x}", state.trail.len(), plan.flow, state.digest)) } else { go };
    if dice.pct(5) { go.say("assistant", "and again").say("assistant", "and again") } else { go }
}

/// A cost replaced by a person's decision is unknown, so with unknown outcomes only results count.
fn digest(seen: u64, reply: &Reply, is_exact: bool) -> u64 {
    let words = match &reply.result {
        Ok(value) => value.to_string(),
        Err(failure) => format!("{failure} {:?}", failure.retry),
    };
    let seen = mix(&[seen, hash(words.as_bytes())]);
    if !is_exact {
        return seen;
    }
    mix(&[seen, reply.took_us, reply.usage.tokens_in, reply.usage.tokens_out, reply.usage.usd_micros, reply.usage.calls])
}
