//! The tools a server has: asked for, kept, and believed as far as the server is.

use std::sync::{Arc, PoisonError};

use graph::{Failure, FailureKind};
use rmcp::model::{ClientRequest, ListToolsRequest, PaginatedRequestParams, ServerResult, Tool};
use rmcp::service::ServiceError;

use super::open::words;
use super::{Link, Server};
use crate::auth::{Refusal, refusal};
use crate::entry::Entry;
use crate::source::{self, REGISTRY};

const PAGES_MAX: usize = 100;
const TOOLS_MAX: usize = 2_000;

impl Server {
    pub(crate) fn tools(&self) -> Arc<Vec<Arc<Entry>>> {
        self.tools.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Tools as they were when somebody last looked, from before this process.
    pub(crate) fn remember(&self, tools: Vec<Tool>) {
        self.shelve(tools);
    }

    /// The list of tools, asked for again now.
    pub(crate) async fn relist(&self, link: &Link) -> Result<(), Failure> {
        self.list(link).await.map_err(|why| Failure::new(FailureKind::Network, format!("{}: {why}", self.name)).retry())
    }

    /// Asks past the SDK's cache: we ask only when we have a reason to.
    pub(super) async fn list(&self, link: &Link) -> Result<(), String> {
        if link.peer().peer_info().is_some_and(|info| info.capabilities.tools.is_none()) {
            self.shelve(Vec::new());
            return Ok(());
        }
        let mut tools = Vec::new();
        let mut cursor = None;
        for _ in 0..PAGES_MAX {
            let page = self.page(link, cursor.take()).await;
            let page = match page {
                Ok(ServerResult::ListToolsResult(page)) => page,
                Ok(_) => return Err("its list of tools is something else".into()),
                Err(error) => return Err(self.stderr_tail.after(&format!("it did not list its tools: {}", words(&error)))),
            };
            tools.extend(page.tools);
            cursor = page.next_cursor;
            if tools.len() >= TOOLS_MAX {
                tracing::warn!(server = %self.name, "only the first {TOOLS_MAX} tools are used");
                tools.truncate(TOOLS_MAX);
                break;
            }
            if cursor.is_none() {
                break;
            }
        }
        self.shelve(tools);
        Ok(())
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

    fn shelve(&self, tools: Vec<Tool>) {
        let is_believed = self.is_believed();
        let tools = if self.name == REGISTRY { source::usable(tools) } else { tools };
        let mut shelf = self.tools.write().unwrap_or_else(PoisonError::into_inner);
        if shelf.len() == tools.len() && shelf.iter().zip(&tools).all(|(old, new)| old.tool == *new) {
            return;
        }
        *shelf = Arc::new(tools.into_iter().map(|tool| Arc::new(Entry::new(&self.name, tool, is_believed))).collect());
        drop(shelf);
        self.tell();
    }
}
