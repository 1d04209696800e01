//! The tools of a server: listed, cached, and trusted as far as the server is.

use std::sync::{Arc, PoisonError};

use graph::{Failure, FailureKind};
use rmcp::model::{ClientRequest, ListToolsRequest, PaginatedRequestParams, ServerResult, Tool};
use rmcp::service::ServiceError;

use super::open::error_text;
use super::{Link, Server};
use crate::auth::{Refusal, refusal};
use crate::entry::Entry;
use crate::source::{self, REGISTRY};

const PAGES_MAX: usize = 100;
const TOOLS_MAX: usize = 2_000;
/// Bytes of one tool's definition, and of all that a server has: they are kept, validated against and shown to planners.
const TOOL_BYTES_MAX: usize = 256 << 10;
const TOOLS_BYTES_MAX: usize = 8 << 20;

impl Server {
    pub(crate) fn tools(&self) -> Arc<Vec<Arc<Entry>>> {
        self.tools.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Tools as they were when somebody last looked, from before this process.
    pub(crate) fn remember(&self, tools: Vec<Tool>) {
        self.store_tools(tools);
    }

    /// Lists the tools again now.
    pub(crate) async fn relist(&self, link: &Link) -> Result<(), Failure> {
        self.list(link).await.map_err(|why| Failure::new(FailureKind::Network, format!("{}: {why}", self.name)).retry())
    }

    /// Asks past the SDK's cache: we ask only when we have a reason to.
    pub(super) async fn list(&self, link: &Link) -> Result<(), String> {
        if link.peer().peer_info().is_some_and(|info| info.capabilities.tools.is_none()) {
            self.store_tools(Vec::new());
            return Ok(());
        }
        let mut tools = Vec::new();
        let mut bytes_left = TOOLS_BYTES_MAX;
        let mut cursor = None;
        for _ in 0..PAGES_MAX {
            let page = self.page(link, cursor.take()).await;
            let page = match page {
                Ok(ServerResult::ListToolsResult(page)) => page,
                Ok(_) => return Err("its list of tools is something else".into()),
                Err(error) => return Err(self.stderr_tail.after(&format!("it did not list its tools: {}", error_text(&error)))),
            };
            let is_whole = self.take(page.tools, &mut tools, &mut bytes_left);
            cursor = page.next_cursor;
            if !is_whole {
                tracing::warn!(server = %self.name, "only its first {} tools are used: {TOOLS_MAX} tools and {TOOLS_BYTES_MAX} bytes at most", tools.len());
                break;
            }
            if cursor.is_none() {
                break;
            }
        }
        self.store_tools(tools);
        Ok(())
    }

    /// Takes over what there is room for, and returns whether that was all. A definition that is too large by itself is left out.
    fn take(&self, page: Vec<Tool>, tools: &mut Vec<Tool>, bytes_left: &mut usize) -> bool {
        for tool in page {
            let bytes = serde_json::to_vec(&tool).map_or(usize::MAX, |bytes| bytes.len());
            if bytes > TOOL_BYTES_MAX {
                tracing::warn!(server = %self.name, "a tool is left out: its definition has more than {TOOL_BYTES_MAX} bytes");
                continue;
            }
            if tools.len() >= TOOLS_MAX || bytes > *bytes_left {
                return false;
            }
            *bytes_left -= bytes;
            tools.push(tool);
        }
        true
    }

    /// One page of the list. A server that wants authorization only now gets it, once.
    async fn page(&self, link: &Link, cursor: Option<String>) -> Result<ServerResult, ServiceError> {
        let request = || {
            let params = PaginatedRequestParams::default().with_cursor(cursor.clone());
            ClientRequest::ListToolsRequest(ListToolsRequest { params: Some(params), ..ListToolsRequest::default() })
        };
        let first = link.peer().send_request(request()).await;
        let refused = match &first {
            Err(ServiceError::TransportSend(sent)) => refusal(&*sent.error),
            _ => None,
        };
        let authorized = match refused {
            Some(Refusal::Nobody(challenge)) => self.authorize_again(&challenge).await,
            Some(Refusal::TooLittle { challenge }) => self.step_up(&challenge).await,
            None => return first,
        };
        match authorized {
            Ok(()) => link.peer().send_request(request()).await,
            Err(_) => first,
        }
    }

    fn store_tools(&self, tools: Vec<Tool>) {
        let is_trusted = self.is_trusted();
        let tools = if self.name == REGISTRY { source::usable(tools) } else { tools };
        let mut current = self.tools.write().unwrap_or_else(PoisonError::into_inner);
        if current.len() == tools.len() && current.iter().zip(&tools).all(|(old, new)| old.tool == *new) {
            return;
        }
        *current = Arc::new(tools.into_iter().map(|tool| Arc::new(Entry::new(&self.name, tool, is_trusted))).collect());
        drop(current);
        self.notify_changed();
    }
}
