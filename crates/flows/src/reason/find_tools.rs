//! The tool-search step: the planner describes a tool that is not among those listed.

use graph::{Ask, Go, Replies};
use serde_json::json;

use super::Reason;
use crate::toolbox::{self, REGISTRY, Toolbox};

/// Maximum number of tool-search steps of one run.
const TOOL_SEARCHES_MAX: u32 = 2;

pub(super) fn ask(s: &Reason) -> Ask {
    s.wanted_tools.as_deref().map_or_else(Ask::nothing, |query| Ask::one(toolbox::ask_more(query)))
}

/// Tools found come first; after the last search the step is not offered again.
pub(super) fn fold(s: &mut Reason, replies: &Replies<'_>) -> Go {
    let query = s.wanted_tools.take().unwrap_or_default();
    s.tool_searches += 1;
    let found = match Toolbox::read(replies, 0) {
        Ok(found) => found.enabled(&s.settings.enabled_tools),
        Err(failure) => {
            s.degraded.push(format!("no more tools could be found: {failure}"));
            Toolbox::default()
        }
    };
    let note = json!({ "query": query, "found": found.names() });
    let known = std::mem::take(&mut s.toolbox);
    s.toolbox = found.with(known);
    if s.tool_searches >= TOOL_SEARCHES_MAX {
        s.toolbox.tools.retain(|tool| tool.name != REGISTRY);
    }
    Go::to("plan").note("tools_found", note)
}
