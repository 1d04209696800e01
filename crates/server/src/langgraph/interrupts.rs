//! `interrupt_before` and `interrupt_after`: nodes at which a run waits until a client lets it go on, as breakpoints of the engine.
//!
//! A run that waits so is `interrupted` and has no `__interrupt__`: it asks nothing. A run without input goes on from there, with the interrupts that it names itself.

use engine::OpenQuestion;
use graph::{Breakpoint, EVERY_NODE, Question};
use serde_json::Value;
use store::RunRow;
use wire::langgraph::{OneOrMany, RunCreate};

use super::{LangGraph, invalid, not_found};
use crate::langserve::Refused;

/// After the first step, which nothing comes before.
const AFTER_FIRST: u64 = 1;

/// Whether a run waits with this question only because a client wanted it to stop there.
pub(super) fn is_breakpoint(open: &OpenQuestion) -> bool {
    open.waiting.call.is_none() && asks_to_go_on(&open.waiting.question)
}

/// Whether a question is that of a breakpoint.
pub(super) fn asks_to_go_on(question: &Question) -> bool {
    let Some(schema) = &question.schema else { return false };
    let is_required = schema["required"].as_array().is_some_and(|required| required.len() == 1 && required[0] == "continue");
    is_required && schema["properties"]["continue"]["type"] == "boolean" && schema["properties"]["patch"].is_object()
}

impl LangGraph {
    /// Whether a run waits at a breakpoint.
    pub(super) async fn is_paused(&self, row: &RunRow) -> Result<bool, Refused> {
        let open = self.open_questions(Some(row)).await?;
        Ok(!open.is_empty() && open.iter().all(is_breakpoint))
    }

    /// Where a run of this flow is to wait.
    pub(super) fn breakpoints(&self, flow: &str, request: &RunCreate) -> Result<Vec<Breakpoint>, Refused> {
        let named = |list: &Option<OneOrMany<String>>| list.clone().map(OneOrMany::into_vec).unwrap_or_default();
        let (before, after) = (named(&request.interrupt_before), named(&request.interrupt_after));
        if before.is_empty() && after.is_empty() {
            return Ok(Vec::new());
        }
        let graph = self.engine().flows().get(flow).ok_or_else(|| not_found("Graph", flow))?.json();
        breakpoints_of(&graph, &before, &after).map_err(invalid)
    }
}

fn breakpoints_of(graph: &Value, before: &[String], after: &[String]) -> Result<Vec<Breakpoint>, String> {
    let node = |node: &Value| -> Option<(String, Vec<String>)> {
        let to = node["to"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
        Some((node["name"].as_str()?.to_owned(), to))
    };
    let nodes: Vec<(String, Vec<String>)> = graph["nodes"].as_array().into_iter().flatten().filter_map(node).collect();
    let find = |field: &str, name: &str| {
        let known = || nodes.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
        let found = nodes.iter().find(|(known, _)| known == name);
        found.ok_or_else(|| format!("{field}: there is no node {:?}; there are: {}", name.chars().take(100).collect::<String>(), known()))
    };
    let mut all: Vec<Breakpoint> = Vec::new();
    let mut add = |one: Breakpoint| {
        if !all.contains(&one) {
            all.push(one);
        }
    };
    for name in before {
        if name != EVERY_NODE {
            find("interrupt_before", name)?;
        }
        add(Breakpoint::new(name.as_str()));
    }
    for name in after {
        if name == EVERY_NODE {
            add(Breakpoint { from_step: AFTER_FIRST, ..Breakpoint::new(EVERY_NODE) });
            continue;
        }
        let (_, targets) = find("interrupt_after", name)?;
        for target in targets.iter().filter(|target| *target != graph::END) {
            // The engine waits before nodes, so this one must have no other way to it.
            let others: Vec<&str> =
                nodes.iter().filter(|(other, to)| other != name && to.contains(target)).map(|(other, _)| other.as_str()).collect();
            if !others.is_empty() {
                return Err(format!(
                    "interrupt_after {name:?}: {target} comes after {} too; name {target} in interrupt_before, or use \"*\"",
                    others.join(", ")
                ));
            }
            add(Breakpoint { from_step: AFTER_FIRST, ..Breakpoint::new(target.as_str()) });
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nodes_to_wait_after_are_nodes_to_wait_before() {
        let graph = json!({ "start": "plan", "nodes": [
            { "name": "plan", "to": ["act"] }, { "name": "act", "to": ["act", "check", "tell"] }, { "name": "check", "to": ["tell"] }, { "name": "tell", "to": ["file", graph::END] },
            { "name": "file", "to": [graph::END] },
        ] });
        let read = |before: &[&str], after: &[&str]| {
            let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
            breakpoints_of(&graph, &owned(before), &owned(after))
                .map(|all| all.into_iter().map(|one| (one.before, one.from_step)).collect::<Vec<_>>())
        };
        assert_eq!(read(&["*"], &[]).unwrap(), [("*".to_owned(), 0)]);
        assert_eq!(read(&["act", "act"], &["*"]).unwrap(), [("act".to_owned(), 0), ("*".to_owned(), 1)]);
        assert_eq!(read(&[], &["tell"]).unwrap(), [("file".to_owned(), 1)]);
        assert_eq!(read(&[], &["file"]).unwrap(), []);
        for (before, after, words) in [
            (&["nobody"][..], &[][..], "plan, act, check, tell, file"),
            (&[][..], &["nobody"][..], "interrupt_after"),
            // `act` is also reached from `plan`, `tell` from `check`.
            (&[][..], &["plan"][..], "act comes after act"),
            (&[][..], &["check"][..], "tell comes after act"),
        ] {
            let why = read(before, after).unwrap_err();
            assert!(why.contains(words), "{why}");
        }
    }
}
