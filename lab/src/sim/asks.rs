//! The effects requested by a node of a random flow: of every kind, with random dependencies, and with valid and invalid holes.

use graph::{Ask, Backoff, Message, Placeholder, Request, Usage};
use serde_json::{Value, json};

use super::dice::Dice;
use super::flow::{Flavour, Plan, State};

/// A question with one of these words is answered by cancelling a run: its own, or the root.
pub const CANCEL_ME: &str = "cancel-me";
pub const CANCEL_ROOT: &str = "cancel-root";

/// Parts of a reply that holes refer to. Not every reply has each.
const PARTS: [&str; 7] = ["", "/n", "/text", "/list/0", "/deep/er", "/score", "/missing"];

pub fn ask(plan: Plan, node: u64, state: &State) -> Ask {
    let mut dice = Dice::new(&[plan.seed, 4, plan.flow, node, state.digest]);
    let count = [0, 1, 1, 1, 2, 2, 3, 3, 4][dice.below(9) as usize];
    // Dependencies follow this order, not that of the indices: a DAG may be listed in any order.
    let mut order: Vec<usize> = (0..count).collect();
    dice.shuffle(&mut order);
    let mut requests: Vec<Option<Request>> = vec![None; count];
    for (at, &index) in order.iter().enumerate() {
        requests[index] = Some(request(plan, state, &mut dice, &order[..at]));
    }
    let mut ask = Ask { requests: requests.into_iter().flatten().collect() };
    if count > 0 && dice.pct(1) {
        ask.requests[0].needs.push(graph::Need { of: dice.below(2 * count as u64) as usize, even_if_failed: false });
    }
    ask
}

fn request(plan: Plan, state: &State, dice: &mut Dice, before: &[usize]) -> Request {
    let flavour = plan.flavour;
    let is_flat = flavour == Flavour::Thrifty;
    let attempts = if is_flat { 1 } else { 1 + dice.below(3) as u32 };
    let word = dice.below(1_000);
    let children = plan.flows - plan.flow - 1;
    let (request, holes) = match dice.below(100) {
        0..30 => (tool("look", word, json!({}), attempts), TOOL),
        30..45 => {
            let content = format!("think about ? and {word}");
            let messages = vec![Message { role: "user".into(), content }];
            (Request::from(graph::model("think", messages)), [("/messages/0/content", Some(12..13)), ("/purpose", None)])
        }
        45..58 => (tool("write", word, fate(flavour, dice, attempts), attempts), TOOL),
        58..70 if flavour.has_doubts() => (tool("send", word, fate(flavour, dice, attempts), attempts), TOOL),
        70..82 if children > 0 && flavour != Flavour::Timed => return child(plan, state, dice, before, children),
        82..88 => {
            let name = *dice.pick(if flavour.has_doubts() { &["far.look", "far.write", "far.send"] } else { &["far.look", "far.write", "far.look"] });
            let mut input = fate(flavour, dice, attempts);
            input["q"] = json!(word);
            (Request::from(graph::agent(name, input)), [("/input/q", None), ("/input/q", None)])
        }
        88..96 => {
            let may_cancel = matches!(flavour, Flavour::Wild | Flavour::Exact) && dice.pct(25);
            let about = if may_cancel { *dice.pick(&[CANCEL_ME, CANCEL_ROOT]) } else { "fine" };
            return with_needs(Request::from(graph::person(format!("is ? {about} with {word}"))), dice, before, &[("/prompt", Some(3..4))], is_flat);
        }
        _ => (tool("look", word, json!({}), attempts), TOOL),
    };
    let request = request
        .attempts(attempts)
        .deadline_ms(100 + dice.below(300))
        .backoff(Backoff { first_ms: 1 + dice.below(20), factor: 2, most_ms: 50 })
        .estimate(Usage { tokens_in: dice.below(60), tokens_out: dice.below(40), usd_micros: dice.below(50), calls: 0 })
        .label(format!("w{word}"));
    let request = if dice.pct(15) { request.last() } else { request };
    with_needs(request, dice, before, &holes, is_flat)
}

type FillTarget = (&'static str, Option<std::ops::Range<usize>>);

const TOOL: [FillTarget; 2] = [("/arguments/q", None), ("/arguments/text", Some(4..5))];

fn tool(name: &str, word: u64, mut arguments: Value, attempts: u32) -> Request {
    arguments["q"] = json!(word);
    arguments["text"] = json!("see ? now");
    Request::from(graph::tool(name, arguments)).attempts(attempts)
}

/// The outcome of an effect with side effects, encoded in its arguments: it succeeds within its attempts or never. After a person's `again`
/// the attempt numbers shift, and this must not affect the result.
fn fate(flavour: Flavour, dice: &mut Dice, attempts: u32) -> Value {
    let may_retry = flavour != Flavour::Thrifty;
    match dice.below(10) {
        0 => json!({ "fails": "always", "retry": may_retry && dice.pct(50) }),
        1 => json!({ "fails": "hang" }),
        2..4 if may_retry => json!({ "fails": dice.below(u64::from(attempts)), "retry": true }),
        _ => json!({ "fails": 0 }),
    }
}

fn child(plan: Plan, state: &State, dice: &mut Dice, before: &[usize], children: u64) -> Request {
    let flow = plan.flow + 1 + dice.below(children);
    let fuel = state.fuel.min(2);
    let input = if dice.pct(4) { json!({ "fuel": "none" }) } else { json!({ "digest": dice.roll() >> 12, "fuel": fuel, "note": null }) };
    // An hour: a child's deadline uses the real clock, and a cut run takes longer.
    let request = Request::from(graph::agent(format!("f{flow}"), input)).deadline_ms(3_600_000).label("child");
    with_needs(request, dice, before, &[("/input/note", None)], plan.flavour == Flavour::Thrifty)
}

fn with_needs(mut request: Request, dice: &mut Dice, before: &[usize], places: &[FillTarget], is_flat: bool) -> Request {
    if is_flat || before.is_empty() {
        return request;
    }
    if dice.pct(40) {
        let (at, within) = dice.pick(places).clone();
        let at = if dice.pct(3) { "/no/such/place" } else { at };
        request.holes.push(Placeholder { at: at.to_owned(), within, from: *dice.pick(before), part: (*dice.pick(&PARTS)).to_owned() });
    }
    if dice.pct(20) {
        request = request.after(*dice.pick(before));
    }
    if dice.pct(15) {
        request = request.after_any_outcome(*dice.pick(before));
    }
    request
}
