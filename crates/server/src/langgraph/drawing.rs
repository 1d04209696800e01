//! The graph of a flow as LangGraph's clients draw it, with `xray` including the graphs of the flows that its nodes start.
//!
//! ```text
//!   a ─► call ─► b        one flow        a ─► call:x ─► call:y ─► b
//!                         several         a ─► call ─► call:flow:x ─► … ─► b, for each of them
//! ```

use std::collections::{BTreeMap, BTreeSet};

use engine::Flows;
use graph::{END, Graph};
use serde_json::{Value, json};

/// How deep the graphs of called flows are drawn into one another.
const LEVELS_MAX: u32 = 8;
/// Past that, called flows are drawn as the nodes that call them.
const NODES_MAX: usize = 2_000;

/// The levels that a query asks for: `true`, `false`, or their number.
pub(super) fn levels(xray: Option<&str>) -> Result<u32, String> {
    match xray.map(str::to_ascii_lowercase).as_deref() {
        None | Some("" | "false") => Ok(0),
        Some("true") => Ok(LEVELS_MAX),
        Some(number) => {
            number.parse::<u32>().map(|levels| levels.min(LEVELS_MAX)).map_err(|_| "xray is true, false or a number of levels".to_owned())
        }
    }
}

/// `None` if there is no such flow.
pub(super) fn drawn(flows: &Flows, flow: &str, levels: u32) -> Option<Value> {
    let graph = flows.get(flow)?;
    let mut drawing = Drawing { flows, nodes: vec![json!({ "id": "__start__", "type": "schema", "data": "__start__" })], edges: Vec::new() };
    let part = drawing.add(graph, "", levels, &[flow]);
    drawing.edges.insert(0, ("__start__".to_owned(), part.entry));
    drawing.nodes.push(json!({ "id": "__end__", "type": "schema", "data": "__end__" }));
    for exit in part.exits {
        drawing.edge(&exit, "__end__");
    }
    Some(drawing.json())
}

struct Drawing<'a> {
    flows: &'a Flows,
    nodes: Vec<Value>,
    edges: Vec<(String, String)>,
}

/// Where edges to a part of the drawing go, and where those that leave it come from.
struct Part {
    entry: String,
    exits: Vec<String>,
}

impl Drawing<'_> {
    fn add(&mut self, graph: &Graph, prefix: &str, levels: u32, above: &[&str]) -> Part {
        let drawing = graph.json();
        let targets = |node: &Value| node["to"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>();
        let nodes: Vec<(String, Vec<String>)> =
            drawing["nodes"].as_array().into_iter().flatten().filter_map(|node| Some((node["name"].as_str()?.to_owned(), targets(node)))).collect();
        let parts: BTreeMap<&str, Part> = nodes.iter().map(|(name, _)| (name.as_str(), self.node(graph, name, prefix, levels, above))).collect();
        let mut exits = Vec::new();
        for (name, targets) in &nodes {
            let Some(part) = parts.get(name.as_str()) else { continue };
            for target in targets {
                match parts.get(target.as_str()) {
                    Some(next) => part.exits.iter().for_each(|exit| self.edge(exit, &next.entry)),
                    None if target == END => exits.extend(part.exits.iter().cloned()),
                    None => {}
                }
            }
        }
        let start = drawing["start"].as_str().unwrap_or_default();
        let entry = parts.get(start).map(|part| part.entry.clone()).unwrap_or_default();
        Part { entry, exits }
    }

    /// One node, or the flows that it starts.
    fn node(&mut self, graph: &Graph, name: &str, prefix: &str, levels: u32, above: &[&str]) -> Part {
        let id = format!("{prefix}{name}");
        let flows = self.flows;
        let is_called = |flow: &&String| levels > 0 && flows.contains_key(flow.as_str()) && !above.contains(&flow.as_str());
        let called: Vec<&String> = graph.calls(name).iter().filter(is_called).collect();
        if called.is_empty() || self.nodes.len() > NODES_MAX {
            self.nodes.push(json!({ "id": id, "type": "runnable", "data": { "name": name } }));
            return Part { entry: id.clone(), exits: vec![id] };
        }
        let is_one = called.len() == 1;
        if !is_one {
            self.nodes.push(json!({ "id": id, "type": "runnable", "data": { "name": name } }));
        }
        let mut whole = Part { entry: id.clone(), exits: Vec::new() };
        for flow in called {
            let Some(child) = flows.get(flow.as_str()) else { continue };
            let below = if is_one { format!("{id}:") } else { format!("{id}:{flow}:") };
            let above: Vec<&str> = above.iter().copied().chain([flow.as_str()]).collect();
            let mut part = self.add(child, &below, levels - 1, &above);
            if part.exits.len() > 1 {
                let end = format!("{below}__end__");
                self.nodes.push(json!({ "id": end, "type": "schema", "data": "__end__" }));
                part.exits.iter().for_each(|exit| self.edge(exit, &end));
                part.exits = vec![end];
            }
            match is_one {
                true => whole.entry = part.entry,
                false => self.edge(&id, &part.entry),
            }
            whole.exits.extend(part.exits);
        }
        whole
    }

    fn edge(&mut self, source: &str, target: &str) {
        let edge = (source.to_owned(), target.to_owned());
        if !self.edges.contains(&edge) {
            self.edges.push(edge);
        }
    }

    fn json(self) -> Value {
        let mut sources = BTreeSet::new();
        let branching: BTreeSet<&str> =
            self.edges.iter().filter(|(source, _)| !sources.insert(source.as_str())).map(|(source, _)| source.as_str()).collect();
        let edge = |(source, target): &(String, String)| {
            let mut edge = json!({ "source": source, "target": target });
            if branching.contains(source.as_str()) {
                edge["conditional"] = json!(true);
            }
            edge
        };
        json!({ "nodes": self.nodes, "edges": self.edges.iter().map(edge).collect::<Vec<_>>() })
    }
}

#[cfg(test)]
mod tests {
    use graph::{Ask, Go, Replies};

    use super::*;

    fn flow(name: &str, nodes: &[(&str, &[&str], &[&str])]) -> Graph {
        let node = || (|_: &Value| Ask::nothing(), |_: &mut Value, _: &Replies<'_>| Go::end());
        let build = |builder: graph::Builder<Value>, (name, to, calls): &(&str, &[&str], &[&str])| {
            let builder = builder.node(name, node(), to);
            if calls.is_empty() { builder } else { builder.calls(name, calls.iter().copied()) }
        };
        nodes.iter().fold(Graph::of::<Value>(name), build).build().unwrap()
    }

    fn flows() -> Flows {
        let all = [
            flow("child", &[("x", &["y", END], &[]), ("y", &[END], &["parent", "leaf"])]),
            flow("leaf", &[("z", &[END], &[])]),
            flow("parent", &[("a", &["b"], &["child"]), ("b", &["b", END], &["child", "leaf", "nobody"])]),
        ];
        all.into_iter().map(|graph| (graph.name().to_owned(), graph)).collect()
    }

    fn edges(drawn: &Value) -> Vec<String> {
        let mark = |edge: &Value| if edge["conditional"] == true { "?" } else { "" };
        let edge = |edge: &Value| format!("{}{}>{}", edge["source"].as_str().unwrap(), mark(edge), edge["target"].as_str().unwrap());
        drawn["edges"].as_array().unwrap().iter().map(edge).collect()
    }

    #[test]
    fn called_flows_are_drawn_to_the_level_that_is_wanted() {
        let flows = flows();
        let plain = drawn(&flows, "parent", 0).unwrap();
        assert_eq!(edges(&plain), ["__start__>a", "a>b", "b?>b", "b?>__end__"]);
        let one = drawn(&flows, "parent", 1).unwrap();
        let lines = edges(&one);
        for line in ["__start__>a:x", "a:x?>a:y", "a:x?>a:__end__", "a:y>a:__end__", "a:__end__>b", "b?>b:child:x", "b?>b:leaf:z", "b:leaf:z?>b"] {
            assert!(lines.iter().any(|known| known == line), "{line} is missing: {lines:?}");
        }
        let ids = |drawn: &Value| drawn["nodes"].as_array().unwrap().iter().map(|node| node["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
        // The parent is not drawn into itself, and flows that are not there are not drawn.
        let two = ids(&drawn(&flows, "parent", 2).unwrap());
        assert!(two.contains(&"a:y:z".to_owned()) && !two.iter().any(|id| id.contains("parent") || id.contains("nobody")), "{two:?}");
        let mut unique = two.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), two.len(), "{two:?}");
        assert_eq!(drawn(&flows, "nobody", 1), None);
    }

    #[test]
    fn levels_are_read_as_the_sdk_sends_them() {
        assert_eq!(
            [None, Some("false"), Some("False"), Some("true"), Some("True"), Some("0"), Some("2"), Some("99")].map(|xray| levels(xray).unwrap()),
            [0, 0, 0, LEVELS_MAX, LEVELS_MAX, 0, 2, LEVELS_MAX]
        );
        assert!(levels(Some("-1")).is_err() && levels(Some("all")).is_err());
    }
}
