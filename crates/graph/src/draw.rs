//! A graph as a picture: Mermaid for people, JSON for the page.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::graph::Inner;
use crate::{END, Graph};

impl Graph {
    /// The graph as a Mermaid flowchart.
    pub fn mermaid(&self) -> String {
        mermaid(&self.0)
    }

    /// The graph as JSON: nodes, edges, phases.
    pub fn json(&self) -> Value {
        let inner = &self.0;
        json!({
            "name": &*inner.name,
            "start": &*inner.nodes[inner.start].name,
            "nodes": inner.nodes.iter().map(|place| json!({
                "name": &*place.name,
                "to": place.edges.iter().map(|&to| &**self.node_name(to)).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
            "phases": inner.phases.iter().map(|phase| json!({
                "name": &*phase.name,
                "limit_ms": phase.limit_us / 1_000,
                "nodes": phase.nodes.iter().map(|&node| &*inner.nodes[node].name).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
        })
    }
}

pub(crate) fn mermaid(inner: &Inner) -> String {
    let mut text = String::from("flowchart TD\n");
    // Not `end`: that word closes a block in Mermaid.
    let id = |at: usize| if at == inner.nodes.len() { "out".to_owned() } else { format!("n{at}") };
    writeln!(text, "    start([start]) --> {}", id(inner.start)).expect("writing to a string");
    for (at, place) in inner.nodes.iter().enumerate() {
        writeln!(text, "    {}[\"{}\"]", id(at), place.name.replace('"', "#quot;")).expect("writing to a string");
    }
    writeln!(text, "    {}([{END}])", id(inner.nodes.len())).expect("writing to a string");
    for (at, place) in inner.nodes.iter().enumerate() {
        for &to in &place.edges {
            writeln!(text, "    {} --> {}", id(at), id(to)).expect("writing to a string");
        }
    }
    text
}
