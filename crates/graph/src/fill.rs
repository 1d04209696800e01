//! Puts parts of replies into the holes of an effect that needed them.

use serde_json::Value;

use crate::{Effect, Failure, FailureKind, Placeholder};

/// `reply_of` gives the successful reply of an earlier effect. What does not fit is a failure the flow can read, because the
/// reference may come from a model's plan.
pub(crate) fn fill<'a>(effect: &Effect, holes: &[Placeholder], mut reply_of: impl FnMut(usize) -> Option<&'a Value>) -> Result<Effect, Failure> {
    let wrong = |message: String| Failure::new(FailureKind::Reference, message);
    let mut whole = serde_json::to_value(effect).map_err(|e| wrong(e.to_string()))?;
    // The enum's tag is the one outer key; pointers are relative to the body below it.
    let body = whole.as_object_mut().and_then(|tagged| tagged.values_mut().next()).ok_or_else(|| wrong("effect has no body".into()))?;

    // Later ranges first, so that earlier ones keep their place.
    let mut ordered: Vec<&Placeholder> = holes.iter().collect();
    ordered.sort_by_key(|hole| std::cmp::Reverse(start(hole)));
    let mut filled_from: Vec<(&str, usize)> = Vec::new();
    if let Some((a, b)) = clash(holes) {
        return Err(wrong(format!("the places {:?} and {:?} lie in one another, and only one of them can be filled", a.at, b.at)));
    }

    for hole in ordered {
        let reply = reply_of(hole.from).ok_or_else(|| wrong(format!("effect {} has no reply to take {:?} from", hole.from, hole.part)))?;
        let part = reply.pointer(&hole.part).ok_or_else(|| wrong(format!("the reply of effect {} has nothing at {:?}", hole.from, hole.part)))?;
        let Some(range) = hole.within.clone() else {
            *body.pointer_mut(&hole.at).ok_or_else(|| wrong(format!("there is no place {:?} in the {} call", hole.at, effect.kind())))? =
                part.clone();
            continue;
        };
        let place = body.pointer_mut(&hole.at);
        let Some(Value::String(text)) = place else {
            return Err(wrong(format!("there is no text at {:?} in the {} call", hole.at, effect.kind())));
        };
        let overlaps = filled_from.iter().any(|&(at, from)| at == hole.at && range.end > from);
        if overlaps || range.start > range.end || text.get(range.clone()).is_none() {
            return Err(wrong(format!("bytes {range:?} of {:?} are not a place that can be filled", hole.at)));
        }
        filled_from.push((&hole.at, range.start));
        let words = match part {
            Value::String(words) => words.clone(),
            other => other.to_string(),
        };
        text.replace_range(range, &words);
    }
    // A list would be read as the fields in their order, and a reply could name a tool.
    if !body.is_object() {
        return Err(wrong(format!("the whole {} call cannot be filled with something that is no call", effect.kind())));
    }
    serde_json::from_value(whole).map_err(|e| wrong(format!("the {} call is not valid once its references are filled: {e}", effect.kind())))
}

/// Two holes of which one replaces the whole of what the other one changes.
fn clash(holes: &[Placeholder]) -> Option<(&Placeholder, &Placeholder)> {
    let inside = |inner: &Placeholder, outer: &Placeholder| {
        outer.within.is_none() && inner.at.strip_prefix(&outer.at).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    holes.iter().enumerate().find_map(|(at, a)| holes[at + 1..].iter().find(|b| inside(a, b) || inside(b, a)).map(|b| (a, b)))
}

fn start(hole: &Placeholder) -> usize {
    hole.within.as_ref().map_or(0, |range| range.start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(arguments: Value, holes: &[Placeholder], expected: Result<Value, &str>) {
        let replies = [json!({"title": "Ada", "year": 1815, "list": ["x"]}), json!("text"), json!(["other tool", {}])];
        let filled = fill(&crate::tool("t", arguments), holes, |i| replies.get(i));
        match (filled, expected) {
            (Ok(Effect::CallTool(call)), Ok(want)) => assert_eq!(call.arguments, want),
            (Err(failure), Err(want)) => assert!(failure.message.contains(want), "{failure}"),
            (got, want) => panic!("got {got:?}, wanted {want:?}"),
        }
    }

    #[test]
    fn whole_values_and_parts_of_text() {
        check(json!({"q": null}), &[Placeholder::whole("/arguments/q", 0, "/list")], Ok(json!({"q": ["x"]})));
        check(
            json!({"q": "born: ?, name: ?"}),
            &[Placeholder::within("/arguments/q", 6..7, 0, "/year"), Placeholder::within("/arguments/q", 15..16, 0, "/title")],
            Ok(json!({"q": "born: 1815, name: Ada"})),
        );
    }

    #[test]
    fn text_that_looks_like_a_reference_stays_text() {
        check(json!({"q": "{\"from\":0}", "$ref": "0"}), &[], Ok(json!({"q": "{\"from\":0}", "$ref": "0"})));
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        check(json!({"q": 1}), &[Placeholder::whole("/arguments/q", 0, "/nothing")], Err("nothing at \"/nothing\""));
        check(json!({"q": 1}), &[Placeholder::whole("/arguments/zz/y", 0, "")], Err("no place"));
        check(json!({"q": 1}), &[Placeholder::whole("/arguments/q", 9, "")], Err("no reply"));
        check(json!({"q": 1}), &[Placeholder::within("/arguments/q", 0..1, 0, "/year")], Err("no text"));
        check(json!({"q": "ä"}), &[Placeholder::within("/arguments/q", 0..1, 0, "/year")], Err("not a place"));
        check(
            json!({"q": "abc"}),
            &[Placeholder::within("/arguments/q", 0..2, 0, "/year"), Placeholder::within("/arguments/q", 1..3, 0, "/year")],
            Err("not a place"),
        );
        check(json!({}), &[Placeholder::whole("/tool", 0, "/list")], Err("not valid"));
        check(json!({}), &[Placeholder::whole("", 2, "")], Err("no call"));
        check(
            json!({"q": "abc"}),
            &[Placeholder::whole("/arguments", 0, ""), Placeholder::within("/arguments/q", 0..1, 0, "/year")],
            Err("one another"),
        );
        check(json!({"q": "abc"}), &[Placeholder::whole("/arguments/q", 0, ""), Placeholder::whole("/arguments/q", 0, "/year")], Err("one another"));
    }
}
