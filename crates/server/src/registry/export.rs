//! All tools that are switched on, as one MCP server.

use audit::{Event, EventKind, Recorder};
use effects::Progress;
use mcp_hub::repeatability::{AGAIN, KEY};
use mcp_hub::{CallOptions, Tools};
use rmcp::ServerHandler;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, Implementation, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, ServerCapabilities, ServerConfig, SubscriptionFilter, Tool,
};
use rmcp::service::{NotificationContext, RequestContext, RoleServer, SubscriptionContext};
use serde_json::Value;
use tokio::sync::mpsc;

use super::DEADLINE_MAX;

/// Clients may cache a list this long, because changes are announced.
const FRESH_MS: u64 = 60_000;
const PROGRESS_WAITING_MAX: usize = 64;

pub(super) struct Export {
    tools: Tools,
    recorder: Option<Recorder>,
}

impl Export {
    pub(super) fn new(tools: Tools, recorder: Option<Recorder>) -> Self {
        Export { tools, recorder }
    }
}

impl ServerHandler for Export {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build())
            .with_server_info(Implementation::new("baton-registry", env!("CARGO_PKG_VERSION")))
            .with_instructions("Tools of several servers in one place. A tool is called server.tool.")
    }

    async fn list_tools(&self, _: Option<PaginatedRequestParams>, _: RequestContext<RoleServer>) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.exported().await).with_ttl_ms(FRESH_MS).with_cache_scope(CacheScope::Private))
    }

    /// The transport compares parameters with the headers they stand in.
    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools.exported_one(name)
    }

    async fn call_tool(&self, request: CallToolRequestParams, context: RequestContext<RoleServer>) -> Result<CallToolResponse, ErrorData> {
        let name = request.name.to_string();
        // What another registry offers is not passed on.
        if self.tools.describe(&name).await.is_err() || self.tools.is_from_registry(&name) {
            return Err(ErrorData::invalid_params(format!("there is no tool {name:?}"), None));
        }
        let key = context.meta.0.0.get(KEY).and_then(Value::as_str).map(str::to_owned);
        let is_allowed = context.meta.0.0.get(AGAIN).and_then(Value::as_bool) == Some(true);
        let (sender, mut receiver) = mpsc::channel::<String>(PROGRESS_WAITING_MAX);
        let token = context.meta.get_progress_token();
        // Progress that cannot be sent at once is dropped.
        let progress =
            if token.is_some() { Progress::to(move |text| drop(sender.try_send(text.trim_end().to_owned()))) } else { Progress::nowhere() };
        let options = CallOptions { key, is_allowed, deadline: DEADLINE_MAX, progress, ..CallOptions::default() };
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        if let Some(recorder) = &self.recorder {
            // Only the operator comes here; see `service`.
            let event =
                Event::new(EventKind::ToolCall, graph::UserId::default().as_str()).tool(name.as_str()).arguments(&arguments).detail("over MCP");
            recorder.record(event).await.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        }
        let calling = self.tools.call_plain(&name, &arguments, &options);
        tokio::pin!(calling);
        let mut steps = 0.0;
        let result = loop {
            tokio::select! {
                result = &mut calling => break result,
                () = context.ct.cancelled() => return Err(ErrorData::internal_error("cancelled", None)),
                Some(text) = receiver.recv() => {
                    steps += 1.0;
                    if let Some(token) = token.clone() {
                        // Nobody may be listening any more.
                        let _ = context.peer.notify_progress(ProgressNotificationParam::new(token, steps).with_message(text)).await;
                    }
                }
            }
        };
        Ok(match result {
            Ok(result) => result.into(),
            // An error that the caller can correct.
            Err(failure) => CallToolResult::error(vec![ContentBlock::text(failure.to_string())]).into(),
        })
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let mut accepted = SubscriptionFilter::new();
        accepted.tools_list_changed = requested.tools_list_changed;
        Some(accepted)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut watch = Watch::new(&self.tools).await;
        // Something may have changed while the subscription was made.
        if context.sink().notify_tool_list_changed().await.is_err() {
            return Ok(());
        }
        loop {
            tokio::select! {
                () = watch.change() => {
                    if context.sink().notify_tool_list_changed().await.is_err() {
                        return Ok(());
                    }
                }
                () = context.cancelled() => return Ok(()),
            }
        }
    }

    /// Notifies clients of earlier revisions over their session.
    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let tools = self.tools.clone();
        tokio::spawn(async move {
            let mut watch = Watch::new(&tools).await;
            loop {
                watch.change().await;
                if context.peer.notify_tool_list_changed().await.is_err() {
                    return;
                }
            }
        });
    }
}

/// Detects changes of the list. The hub also announces changes of health, which are ignored here.
struct Watch {
    tools: Tools,
    changes: tokio::sync::watch::Receiver<u64>,
    last: Vec<Tool>,
}

impl Watch {
    async fn new(tools: &Tools) -> Self {
        let changes = tools.changes();
        Watch { tools: tools.clone(), changes, last: tools.exported().await }
    }

    async fn change(&mut self) {
        loop {
            if self.changes.changed().await.is_err() {
                return std::future::pending().await;
            }
            let now = self.tools.exported().await;
            if now != self.last {
                self.last = now;
                return;
            }
        }
    }
}
