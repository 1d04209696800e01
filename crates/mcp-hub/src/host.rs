//! Our end of a connection: who we say we are, and what a server may ask of us in the middle of a call.
//!
//! Sampling and roots are on their way out of MCP; servers of the earlier revisions still ask for them.
#![allow(deprecated, reason = "kept for servers that speak the earlier revisions")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams, ElicitResult, ElicitationAction,
    ErrorData, Implementation, InputRequest, InputRequests, InputResponses, ListRootsResult, ProgressNotificationParam, ProgressToken,
    ProtocolVersion,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use tokio::sync::Notify;

use effects::Progress;

/// Handles requests that a server sends while it performs a call. Without a handler they are refused.
#[async_trait]
pub trait ServerRequestHandler: Send + Sync + 'static {
    /// The capabilities that are declared to servers; they may request nothing else.
    fn capabilities(&self) -> ClientCapabilities;

    /// Asks the user for input. By default it is declined.
    async fn elicit(&self, _params: ElicitRequestParams) -> Result<ElicitResult, ErrorData> {
        Ok(ElicitResult::new(ElicitationAction::Decline))
    }

    /// Lets the server use a model. By default it is refused.
    async fn sample(&self, _params: CreateMessageRequestParams) -> Result<CreateMessageResult, ErrorData> {
        Err(ErrorData::invalid_request("sampling is not available", None))
    }

    /// The folders that the server may use. By default none.
    async fn roots(&self) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::default())
    }
}

pub(crate) struct Host {
    pub(crate) request_handler: Option<Arc<dyn ServerRequestHandler>>,
    /// The server reported that its list of tools has changed.
    pub(crate) changed: Arc<Notify>,
    pub(crate) listeners: Listeners,
    /// What is offered in a handshake, to servers that have one.
    pub(crate) revision: ProtocolVersion,
}

/// The receivers of progress, by the token of their call.
#[derive(Clone, Default)]
pub(crate) struct Listeners(Arc<Mutex<HashMap<ProgressToken, Progress>>>);

impl Listeners {
    /// Until the guard is dropped, progress with this token is sent there.
    pub(crate) fn add(&self, token: ProgressToken, progress: Progress) -> Listening {
        self.all().insert(token.clone(), progress);
        Listening { listeners: self.clone(), token }
    }

    fn send(&self, param: &ProgressNotificationParam) {
        let listener = self.all().get(&param.progress_token).cloned();
        let Some(listener) = listener else { return };
        let progress = match param.total {
            Some(total) => format!("{}/{total}", param.progress),
            None => param.progress.to_string(),
        };
        match param.message.as_deref() {
            Some(message) => listener.send(&format!("{message} ({progress})\n")),
            None => listener.send(&format!("{progress}\n")),
        }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<ProgressToken, Progress>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct Listening {
    listeners: Listeners,
    token: ProgressToken,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.listeners.all().remove(&self.token);
    }
}

impl Host {
    /// Answers for a call that cannot go on without them.
    pub(crate) async fn answers(&self, requests: InputRequests) -> Result<InputResponses, ErrorData> {
        let mut answers = InputResponses::new();
        for (name, request) in requests {
            let answer = match request {
                InputRequest::Elicitation(request) => serde_json::to_value(self.elicit(request.params).await?),
                InputRequest::CreateMessage(request) => serde_json::to_value(self.sample(request.params).await?),
                InputRequest::ListRoots(_) => serde_json::to_value(self.roots().await?),
                _ => return Err(ErrorData::invalid_request(format!("{name}: an unknown kind of question"), None)),
            };
            answers.insert(name, answer.map_err(|error| ErrorData::internal_error(error.to_string(), None))?);
        }
        Ok(answers)
    }

    async fn elicit(&self, params: ElicitRequestParams) -> Result<ElicitResult, ErrorData> {
        match &self.request_handler {
            Some(handler) => handler.elicit(params).await,
            None => Ok(ElicitResult::new(ElicitationAction::Decline)),
        }
    }

    async fn sample(&self, params: CreateMessageRequestParams) -> Result<CreateMessageResult, ErrorData> {
        match &self.request_handler {
            Some(handler) => handler.sample(params).await,
            None => Err(ErrorData::invalid_request("sampling is not available", None)),
        }
    }

    async fn roots(&self) -> Result<ListRootsResult, ErrorData> {
        match &self.request_handler {
            Some(handler) => handler.roots().await,
            None => Ok(ListRootsResult::default()),
        }
    }
}

impl ClientHandler for Host {
    fn get_info(&self) -> ClientConfig {
        let capabilities = self.request_handler.as_ref().map(|handler| handler.capabilities()).unwrap_or_default();
        ClientConfig::new(capabilities, Implementation::new("baton", env!("CARGO_PKG_VERSION"))).with_protocol_version(self.revision.clone())
    }

    async fn create_elicitation(&self, request: ElicitRequestParams, _: RequestContext<RoleClient>) -> Result<ElicitResult, ErrorData> {
        self.elicit(request).await
    }

    async fn create_message(&self, params: CreateMessageRequestParams, _: RequestContext<RoleClient>) -> Result<CreateMessageResult, ErrorData> {
        self.sample(params).await
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        self.roots().await
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.listeners.send(&params);
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }
}
