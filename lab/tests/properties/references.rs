//! Holes: filled exactly, or a failure of kind `Reference`. Nothing else, for any arguments, replies and pointers.

use graph::{Ask, Effect, FailureKind, Placeholder, Reply, Request};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{any_json, any_text, begin, config, drive, failure_of, once};

fn any_pointer() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "(/[a-c0]){1,3}", Just("/".to_owned()), Just("/~01~1".to_owned()), Just("no slash".to_owned()), "\\PC{0,5}",]
}

fn any_hole() -> impl Strategy<Value = Placeholder> {
    let at = prop_oneof![any_pointer().prop_map(|pointer| format!("/arguments{pointer}")), any_pointer(), Just("/tool".to_owned())];
    let within = prop::option::of((0_usize..10, 0_usize..10).prop_map(|(a, b)| a..b));
    (at, within, any_pointer()).prop_map(|(at, within, part)| Placeholder { at, within, from: 0, part })
}

/// A reference implementation of filling: all whole values, then texts from the end.
fn filled(arguments: &Value, reply: &Value, holes: &[Placeholder]) -> Option<(String, Value)> {
    let mut body = json!({ "tool": "t", "arguments": arguments });
    let mut ordered = holes.to_vec();
    ordered.sort_by_key(|hole| std::cmp::Reverse(hole.within.as_ref().map_or(0, |range| range.start)));
    for hole in &ordered {
        let part = reply.pointer(&hole.part)?;
        let place = body.pointer_mut(&hole.at)?;
        match &hole.within {
            None => *place = part.clone(),
            Some(range) => {
                let text = place.as_str()?;
                let words = part.as_str().map_or_else(|| part.to_string(), str::to_owned);
                *place = Value::from(format!("{}{words}{}", text.get(..range.start)?, text.get(range.clone()).and_then(|_| text.get(range.end..))?));
            }
        }
    }
    Some((body["tool"].as_str()?.to_owned(), body["arguments"].take()))
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn one_hole_is_filled_exactly_or_refused(arguments in any_json(), reply in any_json(), hole in any_hole()) {
        check(arguments, &reply, vec![hole]);
    }

    #[test]
    fn several_holes_are_filled_exactly_or_refused(arguments in any_json(), reply in any_json(), holes in prop::collection::vec(any_hole(), 2..4)) {
        check(arguments, &reply, holes);
    }

    /// Most random holes do not match; these are made to fit.
    #[test]
    fn holes_that_fit_are_filled(text in any_text(), words in any_text(), cuts in (0_usize..20, 0_usize..20)) {
        let near = |at: usize| (0..=at.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap();
        let (a, b) = (near(cuts.0), near(cuts.1));
        let range = a.min(b)..a.max(b);
        let expected = format!("{}{words}{}", &text[..range.start], &text[range.end..]);
        let hole = Placeholder::within("/arguments/text", range, 0, "/words");
        prop_assert_eq!(check(json!({ "text": text }), &json!({ "words": words }), vec![hole]), Some(json!({ "text": expected })));
    }
}

/// Requests an effect and another with holes into its reply; the second echoes its arguments.
fn check(arguments: Value, reply: &Value, holes: Vec<Placeholder>) -> Option<Value> {
    let mut ask = Ask::one(graph::tool("first", json!({})));
    let mut second = Request::from(graph::tool("t", arguments.clone()));
    second.holes = holes.clone();
    ask.add(second);
    let mut run = begin(&once(ask), Value::Null);
    let mut asked = None;
    let (outcome, _) = drive(&mut run, |job| match &*job.effect {
        _ if job.task.index == 0 => Reply::ok(reply.clone()),
        Effect::CallTool(call) => {
            asked = Some((call.tool.clone(), call.arguments.clone()));
            Reply::ok(1)
        }
        other => panic!("nobody asked {other:?}"),
    });
    let output = outcome.output().unwrap();
    match &asked {
        Some(asked) => assert_eq!(Some(asked), filled(&arguments, reply, &holes).as_ref(), "{holes:?}"),
        None => assert_eq!(failure_of(output, 1), Some(FailureKind::Reference), "{output}"),
    }
    if holes.len() == 1 && asked.is_none() {
        assert_eq!(filled(&arguments, reply, &holes), None, "it would have fitted: {output}");
    }
    asked.map(|(_, arguments)| arguments)
}
