use baton_graph::{Ask, END, Go, Graph, GraphError, Replies};
use serde_json::json;

use crate::Recording;

/// A graph of nodes that do nothing, by their edges.
fn check(nodes: &[(&str, &[&str])], expected: Result<(), GraphError>) {
    let builder = nodes.iter().fold(Graph::of::<Recording>("g"), |builder, (name, edges)| {
        builder.node(name, (|_: &Recording| Ask::nothing(), |_: &mut Recording, _: &Replies<'_>| Go::end()), edges)
    });
    assert_eq!(builder.build().map(drop), expected);
}

fn names(node: &str) -> (String, String) {
    ("g".into(), node.into())
}

#[test]
fn a_sound_graph_is_built() {
    check(&[("a", &["b", END]), ("b", &["a"])], Ok(()));
}

#[test]
fn mistakes_name_the_node() {
    let (graph, node) = names("a");
    check(&[("a", &["nowhere"])], Err(GraphError::UnknownTarget { graph, node, target: "nowhere".into() }));
    let (graph, node) = names("b");
    check(&[("a", &[END]), ("b", &[END])], Err(GraphError::Unreachable { graph, node }));
    let (graph, node) = names("b");
    check(&[("a", &["b", END]), ("b", &["b"])], Err(GraphError::NoWayOut { graph, node }));
    let (graph, node) = names("a");
    check(&[("a", &[END]), ("a", &[END])], Err(GraphError::Twice { graph, node }));
    let (graph, node) = names(END);
    check(&[(END, &[END])], Err(GraphError::Reserved { graph, node }));
    check(&[], Err(GraphError::Empty { graph: "g".into() }));
    let dangling = GraphError::UnknownTarget { graph: "g".into(), node: "a".into(), target: "b".into() };
    assert_eq!(dangling.to_string(), "graph g: node a has an edge to b, which is not one of its nodes");
}

#[test]
fn a_graph_can_be_drawn() {
    let node = || (|_: &Recording| Ask::nothing(), |_: &mut Recording, _: &Replies<'_>| Go::end());
    let graph = Graph::of::<Recording>("draw")
        .node("plan \"it\"", node(), &["do"])
        .node("do", node(), &["plan \"it\"", END])
        .phase("work", 500, &["do"])
        .build()
        .unwrap();
    let expected = "flowchart TD\n    start([start]) --> n0\n    n0[\"plan #quot;it#quot;\"]\n    n1[\"do\"]\n    out([end])\n    n0 --> n1\n    n1 --> n0\n    n1 --> out\n";
    assert_eq!(graph.mermaid(), expected);
    assert_eq!(
        graph.json(),
        json!({
            "name": "draw",
            "start": "plan \"it\"",
            "nodes": [{ "name": "plan \"it\"", "to": ["do"] }, { "name": "do", "to": ["plan \"it\"", "end"] }],
            "phases": [{ "name": "work", "limit_ms": 500, "nodes": ["do"] }],
        })
    );
}

#[test]
fn a_phase_over_unknown_nodes_is_refused() {
    let node = || (|_: &Recording| Ask::nothing(), |_: &mut Recording, _: &Replies<'_>| Go::end());
    let built = Graph::of::<Recording>("g").node("a", node(), &[END]).phase("p", 1, &["b"]).build();
    assert_eq!(built.map(drop), Err(GraphError::UnknownPhaseNode { graph: "g".into(), phase: "p".into(), node: "b".into() }));
}
