//! Imports rows of the specification's `state.csv` into a conversation.
//!
//! An import is a run, so it is atomic, survives a crash and can be inspected. It requests no effects. Its output has the rows unchanged,
//! which an export reads; their messages go into the thread.

use graph::{Ask, END, Go, Graph, GraphError, Limits, Replies};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Row;
use crate::descriptor::{Descriptor, InputKind, Visibility};

/// The flow's name.
pub const IMPORT: &str = "chat_import";

/// Descriptor of this flow.
pub const FLOW: Descriptor = Descriptor {
    title: "Chat import",
    visibility: Visibility::Internal,
    input: InputKind::Own(|question| question.input()),
    ..Descriptor::new(IMPORT, |_| flow())
};

/// Builds the graph.
pub fn flow() -> Result<Graph, GraphError> {
    Graph::of::<Rows>(IMPORT)
        .node("take_over", (|_: &Rows| Ask::nothing(), take_over), &[END])
        // The file has its own size limit, and the whole file is one run.
        .limits(Limits { input_bytes_max: 512 << 20, ..Limits::default() })
        .output(|s| json!({ "answer": format!("{} rows are in the thread now.", s.rows.len()), "flow": IMPORT, "rows": s.rows }))
        .build()
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rows {
    rows: Vec<Row>,
}

fn take_over(s: &mut Rows, _: &Replies<'_>) -> Go {
    let mut go = Go::end();
    for row in &s.rows {
        go = go.say("user", row.query.as_str());
        // The result of the last executed stage is what the user saw.
        let reply_text = [&row.insights, &row.reviewed_summary, &row.summary, &row.search_results].into_iter().find(|text| !text.trim().is_empty());
        go = reply_text.into_iter().fold(go, |go, text| go.say("assistant", text.as_str()));
    }
    go
}
