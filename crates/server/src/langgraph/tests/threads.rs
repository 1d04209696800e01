use super::super::begin::BeginRequest;
use super::super::threads::ThreadRecord;
use super::*;

#[tokio::test]
async fn p3_a_thread_holds_a_conversation_with_its_state_and_history() {
    let server = serve().await;
    let thread = server.thread().await;
    let values = server.json("POST", &format!("/threads/{thread}/runs/wait"), asks("one")).await;
    assert_eq!((last(&values), values["messages"].as_array().unwrap().len()), ("to one after 0: null", 2));
    assert_eq!(values["output"]["sources"], json!(["a"]));
    let values = server.json("POST", &format!("/threads/{thread}/runs/wait"), asks("two")).await;
    assert_eq!(values["messages"].as_array().unwrap().len(), 4, "{values}");
    let state = server.json("GET", &format!("/threads/{thread}/state"), Value::Null).await;
    assert_eq!((&state["values"], &state["next"]), (&values, &json!([])));
    let past = server.json("POST", &format!("/threads/{thread}/history"), json!({ "limit": 20 })).await;
    let nexts: Vec<String> = past.as_array().unwrap().iter().map(|state| state["next"].to_string()).collect();
    assert_eq!(nexts, ["[]", r#"["tell"]"#, r#"["think"]"#, "[]", r#"["tell"]"#, r#"["think"]"#]);
    assert_eq!(last(&past[3]["values"]), "to one after 0: null");

    // From after the first answer, the second question is another one.
    let from = json!({ "checkpoint": { "checkpoint_id": past[3]["checkpoint_id"], "checkpoint_ns": "" } });
    let other = server.json("POST", &format!("/threads/{thread}/runs/wait"), with(asks("three"), from)).await;
    assert_eq!((last(&other), other["messages"].as_array().unwrap().len()), ("to three after 2: null", 4));
    // Nothing is called in the second step of the first run, so there is nothing to run again.
    let from = json!({ "assistant_id": "answers", "checkpoint_id": past[4]["checkpoint_id"] });
    let (status, reason) = server.refused("POST", &format!("/threads/{thread}/runs/wait"), from).await;
    assert!(status == 422 && reason.contains("use an earlier one"), "{status} {reason}");

    let copy = server.json("POST", &format!("/threads/{thread}/copy"), json!({})).await;
    assert_eq!(copy["values"]["messages"], other["messages"]);
    let changed = json!({ "values": { "messages": [{ "role": "user", "content": "by hand" }], "mood": "dry" } });
    let id = copy["thread_id"].as_str().unwrap();
    let checkpoint = server.json("POST", &format!("/threads/{id}/state"), changed).await;
    let state = server.json("GET", &format!("/threads/{id}/state"), Value::Null).await;
    assert_eq!((last(&state["values"]), &state["values"]["mood"]), ("by hand", &json!("dry")));
    assert_eq!(state["checkpoint_id"], checkpoint["checkpoint"]["checkpoint_id"]);
    let values = server.json("POST", &format!("/threads/{id}/runs/wait"), asks("four")).await;
    assert_eq!(last(&values), "to four after 5: null");
    let found = server.json("POST", "/threads/search", json!({ "limit": 5 })).await;
    assert_eq!(found.as_array().unwrap().len(), 2);
    assert_eq!(server.json("POST", "/threads/prune", json!({ "thread_ids": [id], "strategy": "keep_latest" })).await["pruned_count"], 1);
    assert_eq!(last(&server.json("GET", &format!("/threads/{id}"), Value::Null).await["values"]), "to four after 5: null");
    assert_eq!(server.send("DELETE", &format!("/threads/{id}"), Value::Null, &[]).await.0, 204);
    assert_eq!(server.refused("GET", &format!("/threads/{id}"), Value::Null).await.0, 404);
}

/// Each state has the whole conversation, so that a history grows with its square. A page of it is bounded, and pages reach all of it.
#[tokio::test]
async fn a_long_history_comes_in_pages_of_bounded_size() {
    let server = serve().await;
    let thread = server.thread().await;
    for number in 0..4 {
        let question = format!("{number} {}", "x".repeat(150_000));
        server.json("POST", &format!("/threads/{thread}/runs/wait"), asks(&question)).await;
    }
    let path = format!("/threads/{thread}/history");
    let (mut all, mut pages, mut before) = (Vec::new(), 0, Value::Null);
    loop {
        let (status, text) = server.send("POST", &path, json!({ "limit": 1000, "before": before }), &[]).await;
        assert_eq!(status, 200, "{}", text.chars().take(300).collect::<String>());
        let states: Vec<Value> = serde_json::from_str(&text).unwrap();
        assert!(text.len() < 8 << 20 || states.len() == 1, "{} bytes", text.len());
        let Some(last) = states.last() else { break };
        before = last["checkpoint_id"].clone();
        all.extend(states.into_iter().map(|state| state["checkpoint_id"].to_string()));
        pages += 1;
    }
    let count = all.len();
    all.sort();
    all.dedup();
    assert!(count == 12 && all.len() == 12 && pages > 1, "{count} states in {pages} pages");
}

/// Each thread has its whole conversation. A page of many is bounded, and pages reach all of them.
#[tokio::test]
async fn many_long_threads_come_in_pages_of_bounded_size() {
    let server = serve().await;
    for number in 0..30 {
        let thread = server.thread().await;
        server.json("POST", &format!("/threads/{thread}/runs/wait"), asks(&format!("{number} {}", "x".repeat(150_000)))).await;
    }
    let (mut all, mut pages) = (Vec::new(), 0);
    loop {
        let (status, text) = server.send("POST", "/threads/search", json!({ "limit": 1000, "offset": all.len() }), &[]).await;
        assert_eq!(status, 200, "{}", text.chars().take(300).collect::<String>());
        assert!(text.len() < 9 << 20, "{} bytes", text.len());
        let threads: Vec<Value> = serde_json::from_str(&text).unwrap();
        if threads.is_empty() {
            break;
        }
        all.extend(threads.into_iter().map(|thread| thread["thread_id"].to_string()));
        pages += 1;
    }
    all.sort();
    all.dedup();
    assert!(all.len() == 30 && pages > 1, "{} threads in {pages} pages", all.len());
}

#[tokio::test]
async fn p3_assistants_have_versions_schemas_and_a_graph() {
    let server = serve().await;
    let all = server.json("POST", "/assistants/search", json!({})).await;
    assert_eq!(all.as_array().unwrap().len(), 2);
    let built_in = all[0]["assistant_id"].as_str().unwrap();
    let drawn = server.json("GET", &format!("/assistants/{built_in}/graph"), Value::Null).await;
    assert_eq!((drawn["nodes"].as_array().unwrap().len(), &drawn["edges"][0]["target"]), (4, &json!("think")));
    let drawn = server.json("GET", &format!("/assistants/{built_in}/graph?xray=True"), Value::Null).await;
    assert_eq!((drawn["nodes"].as_array().unwrap().len(), &drawn["edges"][0]["target"]), (4, &json!("think:inc")), "{drawn}");
    assert_eq!(server.refused("GET", &format!("/assistants/{built_in}/graph?xray=deep"), Value::Null).await.0, 422);
    assert!(server.json("GET", &format!("/assistants/{built_in}/schemas"), Value::Null).await["input_schema"].is_object());
    assert_eq!(server.refused("PATCH", &format!("/assistants/{built_in}"), json!({ "name": "x" })).await.0, 403);
    let made = server.json("POST", "/assistants", json!({ "graph_id": "answers", "name": "mine", "metadata": { "a": 1 } })).await;
    let id = made["assistant_id"].as_str().unwrap();
    let changed = server.json("PATCH", &format!("/assistants/{id}"), json!({ "name": "ours" })).await;
    assert_eq!((&changed["version"], &changed["metadata"]), (&json!(2), &json!({ "a": 1 })));
    assert_eq!(server.json("POST", &format!("/assistants/{id}/latest"), json!({ "version": 1 })).await["name"], "mine");
    assert_eq!(server.json("POST", &format!("/assistants/{id}/versions"), json!({})).await.as_array().unwrap().len(), 2);
    let values = server.json("POST", "/runs/wait", with(asks("hi"), json!({ "assistant_id": id }))).await;
    assert!(last(&values).starts_with("to hi"));
    assert_eq!(server.json("POST", "/assistants/count", json!({ "metadata": { "a": 1 } })).await, json!(1));
    assert_eq!(server.send("DELETE", &format!("/assistants/{id}"), Value::Null, &[]).await.0, 204);
}

#[tokio::test]
async fn p3_items_are_found_by_namespace_filter_and_words() {
    let server = serve().await;
    for (namespace, key, value) in [
        (json!(["a", "b"]), "1", json!({ "n": 1, "text": "red apple" })),
        (json!(["a", "c"]), "2", json!({ "n": 2, "text": "green pear" })),
        (json!(["ab"]), "3", json!({ "n": 3 })),
    ] {
        assert_eq!(server.send("PUT", "/store/items", json!({ "namespace": namespace, "key": key, "value": value }), &[]).await.0, 204);
    }
    assert_eq!(server.json("GET", "/store/items?namespace=a.b&key=1", Value::Null).await["value"]["n"], 1);
    let found = async |body: Value| -> Vec<String> {
        let items = server.json("POST", "/store/items/search", body).await["items"].clone();
        items.as_array().unwrap().iter().map(|item| item["key"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(found(json!({ "namespace_prefix": ["a"] })).await.len(), 2);
    assert_eq!(found(json!({ "namespace_prefix": [], "filter": { "n": { "$gt": 2 } } })).await, ["3"]);
    assert_eq!(found(json!({ "namespace_prefix": ["a"], "query": "Pear" })).await, ["2"]);
    assert_eq!(server.json("POST", "/store/namespaces", json!({ "max_depth": 1 })).await["namespaces"], json!([["a"], ["ab"]]));
    assert_eq!(server.send("DELETE", "/store/items", json!({ "namespace": ["a", "b"], "key": "1" }), &[]).await.0, 204);
    assert_eq!(server.refused("GET", "/store/items?namespace=a.b&key=1", Value::Null).await.0, 404);
}

#[tokio::test]
async fn p8_threads_runs_and_items_are_each_users_own() {
    let graph = graph_of(service(Arc::new(MemoryStore::new())));
    let (ada, bob) = (caller("ada"), caller("bob"));
    let thread = graph.make_thread(&ada.who, None, ThreadRecord::default()).await.ok().unwrap();
    let request = serde_json::from_value(asks("hi")).unwrap();
    let started =
        Box::pin(graph.begin(BeginRequest { caller: &ada, thread: Some(&thread.id), request, run: None, is_watched: false })).await.ok().unwrap();
    graph.outcome(&ada.who, &thread.id, &started.run, false).await.ok().unwrap();
    assert!(graph.find_thread(&bob.who, &thread.id).await.ok().unwrap().is_none());
    assert!(graph.find_thread(&ada.who, &thread.id).await.ok().unwrap().is_some());
    let theirs = graph.make_thread(&bob.who, Some(&thread.id), ThreadRecord::default()).await.ok().unwrap();
    assert_ne!(theirs.engine, thread.engine, "the same id of two users is two threads");
    assert!(graph.run_in(&theirs, started.run.as_str()).await.is_err());
}

/// Filters are compared without copying them or what is filtered; here is what they mean.
#[test]
fn a_filter_is_contained_in_a_document() {
    let map = |value: Value| value.as_object().unwrap().clone();
    let document = map(json!({ "a": { "b": 1, "c": [1, 2] }, "d": null }));
    for (filter, wanted) in [
        (json!({}), true),
        (json!({ "a": { "b": 1 } }), true),
        (json!({ "a": { "b": 1, "c": [1, 2] }, "d": null }), true),
        (json!({ "a": { "b": 2 } }), false),
        (json!({ "a": { "c": [1] } }), false),
        (json!({ "a": 1 }), false),
        (json!({ "e": null }), false),
    ] {
        assert_eq!(contains(&document, &map(filter.clone())), wanted, "{filter}");
    }
}
