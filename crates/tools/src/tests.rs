//! Properties of every server.

use std::collections::BTreeSet;
use std::sync::Arc;

use rmcp::service::ServiceExt as _;
use rmcp::transport::StreamableHttpClientTransport;
use serde_json::{Value, json};

use crate::testing::{Session, session_of, session_with};
use crate::workspace::Workspaces;
use crate::{Settings, serve};

fn settings(root: &std::path::Path) -> Settings {
    Settings { workspaces: Some(Workspaces::fixed(root.to_owned(), root.join("../records"))), ..Settings::bare() }
}

#[test]
fn the_list_has_no_doubles() {
    let names: BTreeSet<&str> = crate::KINDS.iter().map(|kind| kind.name).collect();
    let ports: BTreeSet<u16> = crate::KINDS.iter().map(|kind| kind.port).collect();
    assert_eq!((names.len(), ports.len()), (crate::KINDS.len(), crate::KINDS.len()));
    assert_eq!(crate::kind("search").map(|kind| kind.port), Some(8001));
    assert_eq!(crate::kind("summary").map(|kind| kind.port), Some(8002));
}

#[test]
fn a_server_without_a_setting_is_an_error_that_names_it() {
    let (ready, unready) = crate::all(&Settings::bare());
    assert_eq!(ready.len() + unready.len(), crate::KINDS.len());
    let files = unready.iter().find(|lack| lack.name == "files").expect("files needs a folder");
    assert!(files.to_string().contains("--root"), "{files}");
}

#[tokio::test]
async fn tools_have_all_annotations_that_the_engine_relies_on() {
    let root = tempfile::tempdir().unwrap();
    let (ready, _) = crate::all(&settings(root.path()));
    for builtin in ready {
        let name = builtin.name;
        let session = session_of(builtin).await;
        assert!(!session.tools.is_empty(), "{name}");
        for tool in &session.tools {
            let hints = tool.annotations.as_ref().unwrap_or_else(|| panic!("{name}.{} has no annotations", tool.name));
            let all = [hints.read_only_hint, hints.idempotent_hint, hints.destructive_hint, hints.open_world_hint];
            assert!(all.iter().all(Option::is_some), "{name}.{}", tool.name);
            assert!(tool.output_schema.is_some(), "{name}.{}", tool.name);
            assert!(tool.description.as_ref().is_some_and(|about| about.len() > 40), "{name}.{}", tool.name);
            let properties = tool.input_schema["properties"].as_object().unwrap();
            for (argument, schema) in properties {
                assert!(schema.get("description").is_some(), "{name}.{} does not say what `{argument}` is", tool.name);
            }
            assert_eq!(tool.input_schema.get("additionalProperties"), Some(&Value::Bool(false)), "{name}.{}", tool.name);
        }
    }
}

#[tokio::test]
async fn wrong_arguments_are_answered_with_right_ones() {
    let root = tempfile::tempdir().unwrap();
    for (server, tool, required) in [
        ("search", "search", "query"),
        ("fetch", "fetch", "url"),
        ("calc", "calculate", "expression"),
        ("files", "read", "path"),
        ("files", "list", "path"),
        ("files", "find", "pattern"),
        ("stories", "search_stories", "query"),
    ] {
        let session = session_with(server, &settings(root.path())).await;
        let part = format!("{required} (string, required)");
        session.refuses(tool, json!({required: {"deep": [1]}}), &[tool, &part]).await;
        session.refuses(tool, json!({required: "x", "wibble": 1}), &["wibble", &part]).await;
        if tool != "list" {
            session.refuses(tool, json!({}), &[&part]).await;
        }
    }
}

#[tokio::test]
async fn the_same_over_http() {
    let (sender, address) = tokio::sync::oneshot::channel();
    let builtin = crate::kind("calc").unwrap().build(&Settings::bare()).unwrap();
    let listening = serve::http(builtin, "127.0.0.1:0".parse().unwrap(), move |address| sender.send(address).unwrap());
    let server = tokio::spawn(listening);
    let address = address.await.unwrap();
    let url = format!("http://{address}/mcp");

    let transport = StreamableHttpClientTransport::from_uri(url.clone());
    let session = Session::over(().serve(transport).await.unwrap()).await;
    assert_eq!(session.call("calculate", json!({"expression": "6 * 7"})).await.data["result"], "42");

    let http = reqwest::Client::new();
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params":
        {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
    let post =
        |body: String| http.post(&url).header("accept", "application/json, text/event-stream").header("content-type", "application/json").body(body);

    // The handshake of earlier revisions: a session is opened and named.
    let old = post(list.to_string()).send().await.unwrap();
    assert_eq!(old.status(), 200);
    assert!(old.headers().contains_key("mcp-session-id"));
    assert!(old.text().await.unwrap().contains("2025-11-25"));

    // The current revision: no handshake, everything is in the request.
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"}});
    let now = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {"_meta": meta}});
    let now = post(now.to_string()).header("mcp-protocol-version", "2026-07-28").header("mcp-method", "tools/list").send().await.unwrap();
    assert_eq!(now.status(), 200);
    assert!(!now.headers().contains_key("mcp-session-id"));
    assert!(now.text().await.unwrap().contains("calculate"));

    // A foreign origin, a foreign host, too large a body, and invalid JSON.
    let rows = [
        ("origin", "https://evil.example", list.to_string(), 403),
        ("origin", "null", list.to_string(), 403),
        ("host", "evil.example", list.to_string(), 403),
        ("origin", "http://localhost:5173", list.to_string(), 200),
        ("x-none", "", format!("{{\"jsonrpc\": \"{}\"", "x".repeat(5 << 20)), 413),
    ];
    for (header, value, body, status) in rows {
        let answer = post(body).header(header, value).send().await.unwrap();
        assert_eq!(answer.status(), status, "{header}: {value}");
    }
    assert!(post("{".repeat(100_000)).send().await.unwrap().status().is_client_error());
    server.abort();
}

#[tokio::test]
async fn only_this_machine_is_listened_to() {
    let builtin = crate::kind("calc").unwrap().build(&Settings::bare()).unwrap();
    let error = serve::http(Arc::clone(&builtin), "0.0.0.0:0".parse().unwrap(), |_| ()).await.unwrap_err();
    assert!(error.contains("127.0.0.1"), "{error}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let error = serve::http(builtin, taken.local_addr().unwrap(), |_| ()).await.unwrap_err();
    assert!(error.contains("--port"), "{error}");
}
