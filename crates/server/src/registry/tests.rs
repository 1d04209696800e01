use std::net::SocketAddr;

use evidence::Trust;
use futures::FutureExt as _;
use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, ListToolsResult, PaginatedRequestParams, Tool};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ServerHandler, ServiceExt as _};
use serde_json::Value;

use super::*;

#[derive(Clone)]
struct Echo;

impl ServerHandler for Echo {
    fn get_info(&self) -> rmcp::model::ServerConfig {
        rmcp::model::ServerConfig::new(rmcp::model::ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(&self, _: Option<PaginatedRequestParams>, _: RequestContext<RoleServer>) -> Result<ListToolsResult, ErrorData> {
        let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
        let Value::Object(schema) = schema else { unreachable!() };
        Ok(ListToolsResult::with_all_items(vec![Tool::new("say", "Says a text again", schema)]))
    }

    async fn call_tool(&self, request: CallToolRequestParams, _: RequestContext<RoleServer>) -> Result<CallToolResponse, ErrorData> {
        let text = request.arguments.unwrap_or_default()["text"].as_str().unwrap_or_default().to_owned();
        Ok(match text.as_str() {
            "fail" => CallToolResult::error(vec![ContentBlock::text("no voice")]),
            _ => CallToolResult::success(vec![ContentBlock::text(text)]),
        }
        .into())
    }
}

struct TestServer {
    base: String,
    folder: tempfile::TempDir,
}

async fn serve() -> TestServer {
    let folder = tempfile::tempdir().unwrap();
    let echo = |pipe| {
        async move {
            if let Ok(service) = Echo.serve(pipe).await {
                let _ = service.waiting().await;
            }
        }
        .boxed()
    };
    let tools = Tools::builder().with_local("echo", Trust::Computed, echo).with_memory(folder.path().join("tools.json")).build();
    let guard = Guard::new(None);
    let listener = guard.bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let router = Registry::new(tools, Some(folder.path().join("imported.json"))).router(&guard);
    tokio::spawn(async move { crate::serve(listener, router).await });
    TestServer { base, folder }
}

impl TestServer {
    async fn get(&self, path: &str) -> (u16, Value) {
        let response = reqwest::get(format!("{}{path}", self.base)).await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }

    async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        let response = reqwest::Client::new().post(format!("{}{path}", self.base)).json(&body).send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }
}

#[tokio::test]
async fn s2_tools_are_listed_described_called_found_and_switched() {
    let registry = serve().await;
    assert_eq!(registry.get("/health").await.1["status"], "ok");
    let (_, list) = registry.get("/tools").await;
    assert_eq!((list["tools"][0]["name"].as_str(), list["tools"][0]["enabled"].as_bool()), (Some("echo.say"), Some(true)));
    assert_eq!(registry.get("/tools/echo.say").await.1["schema"]["required"], json!(["text"]));
    let (_, called) = registry.post("/tools/echo.say/call", json!({"arguments": {"text": "hello"}})).await;
    assert_eq!((called["text"].as_str(), called["spans"][0]["trust"].as_str()), (Some("hello"), Some("computed")));
    assert_eq!(registry.get("/search?q=say+it+again&size=3").await.1["tools"][0]["name"], "echo.say");
    assert_eq!(registry.get("/servers").await.1["servers"][0]["health"], "up");
    registry.post("/tools/echo.say/disable", json!({})).await;
    assert_eq!(registry.get("/tools?enabled=true").await.1["tools"], json!([]));
    assert_eq!(registry.post("/tools/echo.say/call", json!({"arguments": {"text": "a"}})).await.0, 404);
    registry.post("/tools/echo.say/enable", json!({})).await;
    assert_eq!(registry.get("/tools?enabled=true").await.1["tools"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn mistakes_have_a_status_and_a_message() {
    let registry = serve().await;
    for (path, body, status, part) in [
        ("/tools/echo.sai/call", json!({"arguments": {}}), 404, "did you mean echo.say?"),
        ("/tools/echo.say/call", json!({"arguments": {}}), 400, "It takes text (string, required)"),
        ("/tools/echo.say/call", json!({"arguments": {"text": "fail"}}), 422, "no voice"),
        ("/tools/echo.say/call", json!({"arguments": {"text": "a"}, "dead_line": 3}), 422, "dead_line"),
        ("/tools/nobody/enable", json!({}), 404, "no tool"),
        ("/import", json!({"list": {"x": 1}}), 400, "not a list"),
        ("/import", json!({"address": "file:///etc/passwd"}), 502, "no http(s) address"),
        ("/nothing", json!({}), 404, "there is nothing here"),
    ] {
        let (got, error) = registry.post(path, body).await;
        assert_eq!(got, status, "{path}: {error}");
        assert!(error["error"]["message"].as_str().unwrap().contains(part), "{path}: {error}");
    }
}

#[tokio::test]
async fn requests_of_pages_of_other_sites_are_refused() {
    let registry = serve().await;
    for path in ["/tools", "/mcp"] {
        let response = reqwest::Client::new().get(format!("{}{path}", registry.base)).header("origin", "https://evil.example").send().await.unwrap();
        assert_eq!(response.status(), 403, "{path}");
        let response = reqwest::Client::new().get(format!("{}{path}", registry.base)).header("host", "evil.example").send().await.unwrap();
        assert_eq!(response.status(), 403, "{path}");
    }
}

#[tokio::test]
async fn an_import_is_written_down_and_switched_off() {
    let registry = serve().await;
    let list = json!([{"name": "a/notes", "description": "n", "packages": [{"registryType": "npm", "identifier": "notes", "version": "1.0.0"}]}]);
    let (status, imported) = registry.post("/import", json!({"list": list})).await;
    assert_eq!((status, &imported["added"]), (200, &json!(["notes"])));
    let (_, servers) = registry.get("/servers").await;
    let notes = servers["servers"].as_array().unwrap().iter().find(|server| server["name"] == "notes").unwrap();
    assert_eq!((notes["enabled"].as_bool(), notes["health"].as_str()), (Some(false), Some("idle")));
    assert!(registry.folder.path().join("imported.json").exists());
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(registry.folder.path().join("imported.json")).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
}

/// Switching on a server that is a program would start it.
#[tokio::test]
async fn a_program_is_started_only_when_its_command_line_is_confirmed() {
    let registry = serve().await;
    let list = json!([{"name": "a/notes", "description": "n", "packages": [{"registryType": "npm", "identifier": "notes", "version": "1.0.0"}]}]);
    registry.post("/import", json!({"list": list})).await;
    let is_enabled = async || {
        let (_, servers) = registry.get("/servers").await;
        servers["servers"].as_array().unwrap().iter().find(|server| server["name"] == "notes").unwrap()["enabled"].as_bool().unwrap()
    };
    for body in [json!({}), json!({"confirm": "npx something-else"})] {
        let (status, refused) = registry.post("/servers/notes/enable", body).await;
        assert_eq!((status, refused["error"]["kind"].as_str()), (409, Some("confirm")), "{refused}");
        assert!(refused["error"]["program"].as_str().unwrap().contains("notes@1.0.0"), "{refused}");
        assert!(!is_enabled().await);
    }
    let (_, refused) = registry.post("/servers/notes/enable", json!({})).await;
    let (status, enabled) = registry.post("/servers/notes/enable", json!({"confirm": refused["error"]["program"]})).await;
    assert_eq!((status, is_enabled().await), (200, true), "{enabled}");
}

/// The registry is a server of another hub, and passes changes on.
#[tokio::test]
async fn s2_a_hub_can_stand_on_a_registry() {
    let registry = serve().await;
    let above = Tools::builder().with_server("below", mcp_hub::ServerConfig::http(format!("{}/mcp", registry.base))).build();
    let names: Vec<String> = above.list().await.iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(names, ["below.echo.say"]);
    let found = above.call("below.echo.say", &json!({"text": "through two"}), &CallOptions::default()).await.unwrap();
    assert_eq!((found.text.as_str(), found.spans[0].trust), ("through two", Trust::Untrusted));
    let failure = above.call("below.echo.say", &json!({"text": "fail"}), &CallOptions::default()).await.unwrap_err();
    assert!(failure.message.contains("no voice"), "{failure}");
    // A change of a server below is reported above.
    registry.post("/tools/echo.say/disable", json!({})).await;
    let gone = async {
        while !above.cached().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), gone).await.expect("the change is received");
}
