//! The kinds of documents that are kept for clients of LangGraph beside runs and their threads.

pub(super) use crate::records::{Pages, StoredRecord, get, list, put, remove};

pub(super) const THREAD: &str = "langgraph.thread";
pub(super) const RUN: &str = "langgraph.run";
pub(super) const ASSISTANT: &str = "langgraph.assistant";
/// Runs that are not begun yet.
pub(super) const QUEUED: &str = "langgraph.queued";
pub(super) const CRON: &str = "langgraph.cron";
pub(super) const ITEM: &str = "langgraph.item";
/// Runs whose end is still to be reported to an address.
pub(super) const WEBHOOK: &str = "langgraph.webhook";

/// Every kind of document that is kept for users.
pub(crate) const KINDS: [&str; 7] = [THREAD, RUN, ASSISTANT, QUEUED, CRON, ITEM, WEBHOOK];
