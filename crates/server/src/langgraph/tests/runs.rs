use scripted::mangled;

use super::super::begin::BeginRequest;
use super::*;

#[tokio::test]
async fn p3_a_question_is_an_interrupt_and_resume_answers_it() {
    let server = serve().await;
    let thread = server.thread().await;
    let path = format!("/threads/{thread}/runs/stream");
    let frames = server.stream(&path, with(asks("ask"), json!({ "stream_mode": ["values", "updates"] }))).await;
    let interrupt = frames.iter().find_map(|(name, data, _)| (name == "updates").then(|| data.get("__interrupt__")).flatten()).unwrap();
    assert_eq!(interrupt[0]["value"]["question"], "Really?");
    let shown = server.json("GET", &format!("/threads/{thread}"), Value::Null).await;
    assert_eq!(shown["status"], "interrupted");
    let state = server.json("POST", &format!("/threads/{thread}/state/checkpoint"), json!({ "checkpoint": { "thread_id": thread } })).await;
    assert_eq!((&state["next"], &state["tasks"][0]["interrupts"][0]["id"]), (&json!(["think"]), &interrupt[0]["id"]));
    let resume =
        |answer: Value| json!({ "assistant_id": "answers", "command": { "resume": answer, "goto": [] }, "stream_mode": ["updates", "values"] });
    let id = interrupt[0]["id"].as_str().unwrap();
    let frames = server.stream(&path, resume(json!({ id: "yes" }))).await;
    assert_eq!(names(&frames)[..2], ["metadata", "updates"], "earlier events are not sent again: {frames:?}");
    assert_eq!(last(&frames.iter().rfind(|(name, ..)| name == "values").unwrap().1), "to ask after 0: \"yes\"");
    let (status, reason) = server.refused("POST", &path, resume(json!("again"))).await;
    assert!(status == 422 && reason.contains("waits for no answer"), "{reason}");
    // New input replaces a question that nobody answered.
    server.json("POST", &format!("/threads/{thread}/runs/wait"), asks("ask")).await;
    let values = server.json("POST", &format!("/threads/{thread}/runs/wait"), asks("never mind")).await;
    assert!(last(&values).starts_with("to never mind"), "{values}");
}

#[tokio::test]
async fn p3_a_second_run_is_refused_queued_or_takes_the_place_of_the_first() {
    let server = serve().await;
    let start = async |thread: &str, strategy: &str| {
        let run = server.json("POST", &format!("/threads/{thread}/runs"), asks("slow")).await;
        let second = with(asks("second"), json!({ "multitask_strategy": strategy }));
        (run["run_id"].as_str().unwrap().to_owned(), server.send("POST", &format!("/threads/{thread}/runs"), second, &[]).await)
    };
    let (rejecting, queueing, interrupting, back) = (server.thread().await, server.thread().await, server.thread().await, server.thread().await);
    assert_eq!(start(&rejecting, "reject").await.1.0, 409);
    let (_, (status, queued)) = start(&queueing, "enqueue").await;
    let queued: Value = serde_json::from_str(&queued).unwrap();
    assert_eq!((status, &queued["status"]), (200, &json!("pending")), "{queued}");
    let joined = server.json("GET", &format!("/threads/{queueing}/runs/{}/join", queued["run_id"].as_str().unwrap()), Value::Null).await;
    assert_eq!((last(&joined), joined["messages"].as_array().unwrap().len()), ("to second after 0: null", 4), "{joined}");
    let (first, _) = start(&interrupting, "interrupt").await;
    server.until(&format!("/threads/{interrupting}/runs/{first}"), |run| run["status"] == "interrupted").await;
    let (first, _) = start(&back, "rollback").await;
    assert_eq!(server.refused("GET", &format!("/threads/{back}/runs/{first}"), Value::Null).await.0, 404);
    server.until(&format!("/threads/{back}/state"), |state| last(&state["values"]).starts_with("to second")).await;
    let run = server.json("POST", &format!("/threads/{back}/runs"), asks("slow")).await["run_id"].as_str().unwrap().to_owned();
    assert_eq!(server.send("POST", &format!("/threads/{back}/runs/{run}/cancel?wait=1&action=interrupt"), Value::Null, &[]).await.0, 204);
    assert_eq!(server.json("GET", &format!("/threads/{back}/runs/{run}"), Value::Null).await["status"], "interrupted");
}

#[tokio::test]
async fn p3_what_is_wrong_or_impossible_is_refused_in_langgraphs_form() {
    let server = serve().await;
    let thread = server.thread().await;
    let path = format!("/threads/{thread}/runs/wait");
    for (path, body, status, reason) in [
        (path.as_str(), json!({ "assistant_id": "nobody", "input": {} }), 422, "there are: answers, inc"),
        (path.as_str(), json!({ "input": {} }), 422, "assistant_id"),
        (path.as_str(), json!([1]), 422, "dictionary"),
        (path.as_str(), with(asks("x"), json!({ "interrupt_before": ["nobody"] })), 422, "interrupt_before"),
        (path.as_str(), with(asks("x"), json!({ "interrupt_after": ["nobody"] })), 422, "think, tell"),
        (path.as_str(), with(asks("x"), json!({ "command": { "goto": "tell" } })), 422, "goto"),
        (path.as_str(), with(asks("x"), json!({ "after_seconds": -1 })), 422, "after_seconds"),
        (path.as_str(), with(asks("x"), json!({ "webhook": "http://127.0.0.1/x" })), 422, "webhook"),
        (path.as_str(), with(asks("x"), json!({ "checkpoint_id": "1ef" })), 404, "Checkpoint"),
        (path.as_str(), json!({ "assistant_id": "answers" }), 422, "input is needed"),
        (path.as_str(), with(asks("x"), json!({ "config": { "configurable": { "odd": 1 } } })), 422, "no settings"),
        ("/threads/nowhere/runs/wait", asks("x"), 404, "not found"),
        ("/runs/crons", with(asks("x"), json!({ "schedule": "every day" })), 422, "five fields"),
        ("/assistants", json!({ "graph_id": "nobody" }), 422, "there is no graph"),
    ] {
        let (found, text) = server.refused("POST", path, body.clone()).await;
        assert!(found == status && text.contains(reason), "{path} {body}: {found} {text}");
    }
    let created =
        server.json("POST", "/threads/8b4c6e5e-0000-4000-8000-000000000001/runs/wait", with(asks("x"), json!({ "if_not_exists": "create" }))).await;
    assert!(last(&created).starts_with("to x"));
}

#[tokio::test]
async fn p8_queued_runs_and_crons_survive_a_restart() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let server = serve_on(store.clone()).await;
    let thread = server.thread().await;
    let run = server.json("POST", &format!("/threads/{thread}/runs"), with(asks("later"), json!({ "after_seconds": 1.5 }))).await;
    assert_eq!(run["status"], "pending");
    let cron = server.json("POST", &format!("/threads/{thread}/runs/crons"), with(asks("often"), json!({ "schedule": "0 0 1 1 *" }))).await;
    assert_eq!((&cron["enabled"], cron["next_run_date"].is_string()), (&json!(true), true));
    // Another server over the same store; nothing of the first is left in memory that it would need.
    let other = serve_on(store.clone()).await;
    other.until(&format!("/threads/{thread}/runs/{}", run["run_id"].as_str().unwrap()), |run| run["status"] == "success").await;
    // Its time comes; by its schedule, only at the next new year.
    let user = graph::UserId::default();
    let id = cron["cron_id"].as_str().unwrap();
    let mut stored = store.record(&user, records::CRON, id).await.unwrap().unwrap();
    stored.value["next_ms"] = json!(now_ms() - 1);
    store.put_record(store::NewRecord { user, kind: stored.kind, key: stored.key, value: stored.value, at_ms: now_ms() }).await.unwrap();
    let state = other.until(&format!("/threads/{thread}/state"), |state| last(&state["values"]).starts_with("to often")).await;
    assert_eq!(state["values"]["messages"].as_array().unwrap().len(), 4, "two servers begin it once: {state}");
    assert_eq!(server.json("POST", "/runs/crons/search", json!({})).await.as_array().unwrap().len(), 1);
    assert_eq!(server.send("DELETE", &format!("/runs/crons/{id}"), Value::Null, &[]).await.0, 204);
}

#[tokio::test]
async fn p3_a_run_waits_before_and_after_the_nodes_that_a_client_names() {
    let server = serve().await;
    let go_on = |more: Value| {
        let mut body = json!({ "assistant_id": "answers", "input": null });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let wait = async |thread: &str, body: Value| server.json("POST", &format!("/threads/{thread}/runs/wait"), body).await;
    let with = |mut body: Value, name: &str, value: Value| {
        body[name] = value;
        body
    };
    let state = async |thread: &str| server.json("GET", &format!("/threads/{thread}/state"), Value::Null).await;
    let next = |state: &Value| (state["next"].clone(), state["interrupts"].clone());
    // Before one node, which calls nothing itself, and then to the end.
    for (name, value) in [("interrupt_before", json!(["tell"])), ("interrupt_after", json!(["think"])), ("interrupt_after", json!("*"))] {
        let thread = server.thread().await;
        let values = wait(&thread, with(asks("tool"), name, value.clone())).await;
        assert_eq!(values.get("__interrupt__"), None, "{name} {value}: {values}");
        assert_eq!(next(&state(&thread).await), (json!(["tell"]), json!([])), "{name} {value}");
        assert_eq!(server.json("GET", &format!("/threads/{thread}"), Value::Null).await["status"], "interrupted");
        let done = wait(&thread, go_on(json!({}))).await;
        assert_eq!(done["messages"][1]["content"], "to tool after 0: 1", "{name} {value}: {done}");
        assert_eq!(next(&state(&thread).await).0, json!([]));
    }
    // Step by step; the last one is given no interrupts.
    let thread = server.thread().await;
    wait(&thread, with(asks("tool"), "interrupt_before", json!("*"))).await;
    assert_eq!(next(&state(&thread).await).0, json!(["think"]));
    let (status, reason) = server.refused("POST", &format!("/threads/{thread}/runs/wait"), go_on(json!({ "interrupt_before": ["nobody"] }))).await;
    assert!(status == 422 && reason.contains("think, tell"), "{reason}");
    wait(&thread, go_on(json!({ "interrupt_before": "*" }))).await;
    assert_eq!(next(&state(&thread).await).0, json!(["tell"]));
    let frames = server.stream(&format!("/threads/{thread}/runs/stream"), go_on(json!({ "stream_mode": ["values"] }))).await;
    let (_, last, _) = frames.iter().rev().find(|(event, ..)| event == "values").unwrap();
    assert_eq!(last["messages"][1]["content"], "to tool after 0: 1");
    // A command goes on as well, in the same run and with its interrupts; new input takes the place of a run that waits.
    let thread = server.thread().await;
    wait(&thread, with(asks("tool"), "interrupt_before", json!("*"))).await;
    let frames = server
        .stream(
            &format!("/threads/{thread}/runs/stream"),
            json!({ "assistant_id": "answers", "command": { "resume": "yes" }, "stream_mode": ["updates"] }),
        )
        .await;
    assert!(frames.iter().any(|(event, data, _)| event == "updates" && data["__interrupt__"] == json!([])), "{frames:?}");
    assert_eq!(next(&state(&thread).await).0, json!(["tell"]));
    assert_eq!(wait(&thread, asks("else")).await["messages"].as_array().unwrap().last().unwrap()["content"], "to else after 0: null");
}

#[tokio::test]
async fn p3_a_command_goes_on_at_a_node_in_another_run() {
    let server = serve().await;
    let goes = |goto: &str| json!({ "assistant_id": "answers", "command": { "goto": goto } });
    let wait = |thread: &str| format!("/threads/{thread}/runs/wait");
    let thread = server.thread().await;
    let (status, words) = server.refused("POST", &wait(&thread), goes("think")).await;
    assert!(status == 422 && words.contains("send input first"), "{words}");
    let first = server.json("POST", &wait(&thread), asks("tool")).await;
    // Where it was: the second of these calls nothing.
    for node in ["think", "tell"] {
        let again = server.json("POST", &wait(&thread), goes(node)).await;
        assert_eq!((last(&again), again["messages"].as_array().unwrap().len()), (last(&first), 2), "{node}: {again}");
    }
    assert_eq!(server.json("GET", &format!("/threads/{thread}/runs"), Value::Null).await.as_array().unwrap().len(), 3);
    let (status, words) = server.refused("POST", &wait(&thread), goes("nowhere")).await;
    assert!(status == 422 && words.contains("there are: think, tell"), "{words}");
    // Where it was not: past a question that nobody answered.
    let thread = server.thread().await;
    let asked = server.json("POST", &wait(&thread), asks("ask")).await;
    assert!(asked["__interrupt__"].is_array(), "{asked}");
    let (status, _) = server.refused("POST", &wait(&thread), goes("nowhere")).await;
    assert_eq!((status, &server.json("GET", &format!("/threads/{thread}"), Value::Null).await["status"]), (422, &json!("interrupted")));
    let past = server.json("POST", &wait(&thread), goes("tell")).await;
    assert_eq!(last(&past), "to ask after 0: null", "{past}");
    assert_eq!(server.json("GET", &format!("/threads/{thread}"), Value::Null).await["status"], "idle");
    // A stream shows the node.
    let frames = server.stream(&format!("/threads/{thread}/runs/stream"), with(goes("think"), json!({ "stream_mode": "updates" }))).await;
    assert!(frames.iter().any(|(_, data, _)| data["__interrupt__"].is_array()), "{frames:?}");
    // With a change of the state, and from a checkpoint.
    let thread = server.thread().await;
    let counts = server.json("POST", &wait(&thread), json!({ "assistant_id": "inc", "input": { "x": 1 } })).await;
    assert_eq!(counts["x"], 2);
    let past = server.json("POST", &format!("/threads/{thread}/history"), json!({})).await;
    let command = json!({ "assistant_id": "inc", "command": { "goto": ["inc"], "update": { "x": 40 } }, "checkpoint_id": past[0]["checkpoint_id"] });
    assert_eq!(server.json("POST", &wait(&thread), command).await["x"], 41);
    let (status, words) = server
        .refused("POST", &wait(&thread), json!({ "assistant_id": "inc", "command": { "goto": "inc", "update": { "x": "many", "y": null } } }))
        .await;
    assert!(status == 422 && words.contains("update"), "{words}");
}

#[tokio::test]
async fn p3_crons_have_the_time_zone_that_a_client_names() {
    let server = serve().await;
    let cron = with(asks("often"), json!({ "schedule": "0 9 * * *", "timezone": "Europe/Berlin" }));
    let made = server.json("POST", "/runs/crons", cron.clone()).await;
    let next = made["next_run_date"].as_str().unwrap();
    assert!(next.ends_with("T07:00:00Z") || next.ends_with("T08:00:00Z"), "{made}");
    assert_eq!(made["timezone"], "Europe/Berlin");
    let changed = server.json("PATCH", &format!("/runs/crons/{}", made["cron_id"].as_str().unwrap()), json!({ "timezone": "Asia/Kolkata" })).await;
    assert!(changed["next_run_date"].as_str().unwrap().ends_with("T03:30:00Z"), "{changed}");
    let (status, words) = server.refused("POST", "/runs/crons", with(cron, json!({ "timezone": "Mars/Olympus" }))).await;
    assert!(status == 422 && words.contains("Europe/Berlin"), "{words}");
}

/// Clients that send mangled requests. `BATON_MANGLED` is their number, 2,000 by default.
#[tokio::test]
async fn p8_mangled_requests_never_panic_or_hang() {
    let graph = graph_of(service(Arc::new(MemoryStore::new())));
    let nobody = caller("nobody");
    let whole = json!({
        "assistant_id": "answers", "input": { "messages": [{ "type": "human", "content": "hi" }, ["ai", "y"]] }, "stream_mode": ["values", "updates"],
        "config": { "tags": ["t"], "metadata": {}, "recursion_limit": 25, "configurable": { "checkpoint_ns": "" } }, "metadata": { "a": [1] },
        "command": null, "checkpoint": null, "multitask_strategy": "enqueue", "if_not_exists": "create", "on_completion": "delete",
    })
    .to_string();
    let (mut good, mut refused) = (0, 0);
    for bytes in mangled::mangled(whole.as_bytes(), 0x9e37_79b9_7f4a_7c15).take(mangled::count()) {
        let call = async {
            let request = crate::langserve::read(&bytes)?;
            let started = Box::pin(graph.begin(BeginRequest { caller: &nobody, thread: None, request, run: None, is_watched: false })).await?;
            graph.outcome(&nobody.who, &started.thread.id, &started.run, true).await
        };
        let answered = Box::pin(tokio::time::timeout(Duration::from_secs(10), call)).await;
        match answered.unwrap_or_else(|_| panic!("it hangs on {}", String::from_utf8_lossy(&bytes))) {
            Ok(_) => good += 1,
            Err(why) => {
                refused += 1;
                assert!(matches!(why.status.as_u16(), 404 | 422) && !why.message().is_empty(), "{} {}", why.status, why.message());
            }
        }
    }
    assert!(good > 0 && refused > 0, "{good} good, {refused} refused");
}
