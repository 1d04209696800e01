//! Whether a call may be performed twice, by the annotations of the tool and the trust in its server.
//!
//! | the server | the tool has | a call is |
//! |---|---|---|
//! | built in, or `trusted` in the configuration | `readOnlyHint` or `idempotentHint` | repeatable |
//! | the same | `_meta["baton/lookup"]` names a tool of its own | checkable: that tool is called with `{"key": …}` |
//! | the same | nothing of this | once |
//! | any other | anything | once |
//!
//! MCP calls annotations hints that a client must not act on unless it trusts the server. Here they decide whether an act may be
//! performed again after a crash without a person's word: a foreign server that calls its `transfer_money` read-only would be paid
//! twice. To be wrong in the other direction costs a question to a person, after a crash, and nothing else.
//!
//! A tool that is checkable gets the effect's key in the call's `_meta["baton/key"]`, and its look-up tool answers
//! `{"done": true, "result": …}`, `{"done": false}` or `{"done": null}` (nobody knows) as structured content.

use rmcp::model::Tool;

use effects::Repeatability;

/// In a call's `_meta`: the effect's key, the same for every attempt.
pub const KEY: &str = "baton/key";
/// In a call's `_meta`: a person wants it done, even if it may have been done before.
pub const AGAIN: &str = "baton/again";
/// In a call's `_meta`, for built-in servers only: the thread it is made for.
pub const THREAD: &str = "baton/thread";
/// In a call's `_meta`, for built-in servers only: the user it is made for.
pub const USER: &str = "baton/user";
/// In a tool's `_meta`: the name of the tool on the same server that knows whether a call with a key took place.
pub const LOOK_UP: &str = "baton/lookup";

pub(crate) fn repeatability(tool: &Tool, is_trusted: bool) -> Repeatability {
    let has = |hint: fn(&rmcp::model::ToolAnnotations) -> Option<bool>| tool.annotations.as_ref().and_then(hint) == Some(true);
    match is_trusted {
        false => Repeatability::Once,
        true if has(|hints| hints.read_only_hint) || has(|hints| hints.idempotent_hint) => Repeatability::Repeatable,
        true if look_up(tool).is_some() => Repeatability::Checkable,
        true => Repeatability::Once,
    }
}

pub(crate) fn look_up(tool: &Tool) -> Option<&str> {
    tool.meta.as_ref()?.0.get(LOOK_UP)?.as_str()
}

#[cfg(test)]
mod tests {
    use rmcp::model::{JsonObject, MetaObject, ToolAnnotations};
    use serde_json::json;

    use super::*;

    #[test]
    fn hints_count_only_for_trusted_servers() {
        let plain = Tool::new("t", "", JsonObject::new());
        let hints = |hints: ToolAnnotations| plain.clone().with_annotations(hints);
        let meta: JsonObject = serde_json::from_value(json!({ LOOK_UP: "look_up" })).unwrap();
        let cases = [
            (plain.clone(), Repeatability::Once),
            (hints(ToolAnnotations::new().read_only(true)), Repeatability::Repeatable),
            (hints(ToolAnnotations::new().idempotent(true)), Repeatability::Repeatable),
            (hints(ToolAnnotations::new().read_only(false).destructive(false)), Repeatability::Once),
            (plain.clone().with_meta(MetaObject(meta)), Repeatability::Checkable),
        ];
        for (tool, expected) in cases {
            assert_eq!(repeatability(&tool, true), expected, "{tool:?}");
            assert_eq!(repeatability(&tool, false), Repeatability::Once, "{tool:?}");
        }
    }
}
