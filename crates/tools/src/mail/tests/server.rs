//! The server through an MCP client.

use rmcp::ServiceExt;
use rmcp::model::{CallToolRequestParams, RequestMetaObject, RequestParamsMeta};
use serde_json::json;

use super::*;

#[tokio::test]
async fn tools_are_described_and_keys_come_from_meta() {
    let home = tempfile::tempdir().unwrap();
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let mail = Mail::new(settings(&home)).unwrap();
    let serving = tokio::spawn(async move { mail.serve(theirs).await.unwrap().waiting().await });
    let client = ().serve(ours).await.unwrap();
    let tools = client.list_all_tools().await.unwrap();
    // Name; read-only, destructive, idempotent.
    let wanted = [
        ("draft", (Some(false), Some(false), Some(true))),
        ("look_up", (Some(true), None, None)),
        ("send", (Some(false), Some(true), Some(false))),
        ("settle", (Some(false), Some(true), Some(true))),
    ];
    let mut found: Vec<_> = tools
        .iter()
        .map(|tool| {
            let hints = tool.annotations.as_ref().unwrap();
            assert!(tool.output_schema.is_some() && tool.description.is_some());
            (&*tool.name, (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint))
        })
        .collect();
    found.sort();
    assert_eq!(found, wanted);
    let schema = serde_json::to_value(&tools.iter().find(|tool| tool.name == "send").unwrap().input_schema).unwrap();
    assert_eq!(schema["required"], json!(["to", "subject", "body"]), "{schema:#}");
    assert!(schema["properties"]["key"].is_object() && schema["properties"]["attachments"]["description"].is_string(), "{schema:#}");

    let arguments = json!({"to": ["a@b.cd"], "subject": "s", "body": "b"});
    let keyed = |tool: &'static str, arguments: Value, key: Option<&str>| {
        let mut call = CallToolRequestParams::new(tool).with_arguments(arguments.as_object().unwrap().clone());
        if let Some(key) = key {
            let mut meta = RequestMetaObject::new();
            meta.insert(META_KEY.into(), json!(key));
            call.set_meta(meta);
        }
        call
    };
    let without = client.call_tool(keyed("send", arguments.clone(), None)).await.unwrap();
    assert_eq!(without.is_error, Some(true));
    assert_eq!(without.meta.as_ref().unwrap()["baton/done"], json!(false));
    let sent = client.call_tool(keyed("send", arguments, Some("effect 7"))).await.unwrap().structured_content.unwrap();
    assert_eq!(sent["outcome"], "dry_run");
    let looked = client.call_tool(keyed("look_up", json!({"key": "effect 7"}), None)).await.unwrap().structured_content.unwrap();
    assert_eq!((&looked["done"], &looked["result"]["message_id"]), (&json!(true), &sent["message_id"]));
    let unknown = client.call_tool(keyed("look_up", json!({"key": "another"}), None)).await.unwrap().structured_content.unwrap();
    assert_eq!(unknown["done"], json!(false));
    let draft =
        client.call_tool(keyed("draft", json!({"to": ["a@b.cd"], "subject": "s", "body": "b"}), None)).await.unwrap().structured_content.unwrap();
    assert!(std::path::Path::new(draft["path"].as_str().unwrap()).is_file());
    client.cancel().await.unwrap();
    serving.await.unwrap().unwrap();
}
