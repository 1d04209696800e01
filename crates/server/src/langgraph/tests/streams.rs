use super::*;

#[tokio::test]
async fn p3_every_stream_mode_sends_the_same_run() {
    let server = serve().await;
    let all = json!({ "stream_mode": ["values", "updates", "messages-tuple", "messages", "custom", "debug", "events", "tasks", "checkpoints"] });
    let frames = server.stream("/runs/stream", with(asks("tool"), all)).await;
    let names = names(&frames);
    assert_eq!((names[0], names.last().unwrap()), ("metadata", &"end"));
    for wanted in ["values", "updates", "messages", "messages/complete", "custom", "debug", "events", "tasks", "checkpoints"] {
        assert!(names.contains(&wanted), "{wanted} is missing: {names:?}");
    }
    let of = |name: &str| frames.iter().filter(|(event, ..)| event == name).map(|(_, data, _)| data.clone()).collect::<Vec<_>>();
    assert_eq!(of("updates")[0], json!({ "think": { "thought": "tool" } }));
    assert_eq!(of("custom"), [json!({ "thought": "tool" })]);
    assert_eq!(last(of("values").last().unwrap()), "to tool after 0: 1");
    assert_eq!((of("values")[0]["messages"][0]["content"].as_str(), of("values").len()), (Some("tool"), 3));
    assert_eq!((of("messages")[0][0]["type"].as_str(), of("messages")[1][0]["type"].as_str()), (Some("tool"), Some("ai")));
    let events: Vec<String> = of("events").iter().map(|event| event["event"].as_str().unwrap().to_owned()).collect();
    assert!(events.contains(&"on_tool_start".to_owned()) && events.contains(&"on_tool_end".to_owned()), "{events:?}");
    let failed = server.stream("/runs/stream", asks("fail")).await;
    let (name, data, _) = failed.iter().rev().find(|(name, ..)| name != "end").unwrap();
    assert_eq!((name.as_str(), &data["error"]), ("error", &json!("FlowError")));
    let values = server.json("POST", "/runs/wait", asks("fail")).await;
    assert_eq!(values["__error__"]["message"], "it hurts");
    let bare = server.json("POST", "/runs/wait", json!({ "assistant_id": "inc", "input": { "x": 1 } })).await;
    assert_eq!(bare, json!({ "x": 2 }));
}

/// Frames without the times of debug events: while a run goes on they are the time of sending, later that of storing.
fn timeless(frames: &[Frame]) -> Vec<Frame> {
    let mut frames = frames.to_vec();
    for (_, data, _) in &mut frames {
        if let Some(data) = data.as_object_mut() {
            data.remove("timestamp");
        }
    }
    frames
}

#[tokio::test]
async fn p3_a_stream_goes_on_from_any_of_its_frames() {
    let server = serve().await;
    let thread = server.thread().await;
    let modes = json!({ "stream_mode": ["values", "updates", "debug"], "stream_resumable": true });
    let whole = server.stream(&format!("/threads/{thread}/runs/stream"), with(asks("tool"), modes)).await;
    let run = whole[0].1["run_id"].as_str().unwrap().to_owned();
    let path = format!("/threads/{thread}/runs/{run}/stream?stream_mode=values&stream_mode=updates&stream_mode=debug");
    let get = async |id: &str| stream::parsed(&server.send("GET", &path, Value::Null, &[("last-event-id", id)]).await.1);
    assert_eq!(timeless(&get("-1").await), timeless(&whole));
    for (at, (_, _, id)) in whole.iter().enumerate().filter(|(_, (_, _, id))| id.is_some()) {
        assert_eq!(timeless(&get(id.as_deref().unwrap()).await), timeless(&whole[at + 1..]), "after frame {at}");
    }
    let (status, _) = server.send("GET", &path, Value::Null, &[("last-event-id", "1794705373191-0")]).await;
    assert_eq!(status, 422);
    let joined = server.json("GET", &format!("/threads/{thread}/runs/{run}/join"), Value::Null).await;
    assert_eq!(last(&joined), "to tool after 0: 1");
}

#[tokio::test]
async fn p3_a_threads_stream_has_its_runs_one_after_another() {
    let server = serve().await;
    let thread = server.thread().await;
    let (path, wait) = (format!("/threads/{thread}/stream"), format!("/threads/{thread}/runs/wait"));
    let mut all = server.open(&path, &[]).await;
    let mut ends = server.open(&format!("{path}?stream_mode=lifecycle"), &[]).await;
    server.json("POST", &wait, with(asks("tool"), json!({ "stream_mode": ["updates"] }))).await;
    server.json("POST", &wait, asks("two")).await;
    let events = all.until_done(2).await;
    let run = |frames: &[Frame]| frames[0].1["run_id"].clone();
    let second = events.iter().position(|(_, data, _)| data["status"] == "run_done").unwrap() + 1;
    let (first, other) = events.split_at(second);
    assert!(names(first).contains(&"updates") && !names(first).contains(&"values"), "{first:?}");
    assert!(names(other).contains(&"values") && !names(other).contains(&"updates") && run(first) != run(other), "{other:?}");
    assert_eq!((names(first)[0], &first.last().unwrap().1["run_id"]), ("metadata", &run(first)));
    assert_eq!(names(&ends.until_done(2).await), ["metadata"; 4]);
    // From any frame on, the rest; and from the first one.
    let mut cuts = 0;
    for (at, (.., id)) in events.iter().enumerate().filter(|(at, (.., id))| id.is_some() && at + 1 < events.len()) {
        let left = dones(&events[at + 1..]);
        let rest = server.open(&path, &[("last-event-id", id.as_deref().unwrap())]).await.until_done(left).await;
        assert_eq!(rest, events[at + 1..], "after {at}");
        cuts += 1;
    }
    assert!(cuts > 4, "{events:?}");
    assert_eq!(server.open(&path, &[("last-event-id", "-1")]).await.until_done(2).await, events);
    // A run that waits counts as done, and goes on when it is answered.
    server.json("POST", &wait, asks("ask")).await;
    let events = all.until_done(3).await;
    assert!(events.iter().any(|(_, data, _)| data["__interrupt__"].is_array()), "{events:?}");
    let mut late = server.open(&path, &[]).await;
    server.json("POST", &wait, json!({ "assistant_id": "answers", "command": { "resume": "yes" } })).await;
    for stream in [&mut all, &mut late] {
        let runs = dones(&stream::parsed(&stream.text)) + 1;
        let events = stream.until_done(runs).await;
        let (_, values, _) = events.iter().rev().find(|(name, ..)| name == "values").unwrap();
        assert_eq!(last(values), "to ask after 0: \"yes\"", "{events:?}");
    }
    // What a client writes, and what is wrong.
    let mut states = server.open(&format!("{path}?stream_mode=state_update"), &[]).await;
    server.json("POST", &format!("/threads/{thread}/state"), json!({ "values": { "mood": "dry" } })).await;
    let chunk = tokio::time::timeout(Duration::from_secs(20), states.response.chunk()).await.unwrap().unwrap().unwrap();
    let events = stream::parsed(std::str::from_utf8(&chunk).unwrap());
    assert_eq!((names(&events), &events[0].1["state"]["values"]["mood"]), (vec!["state_update"], &json!("dry")));
    assert_eq!(server.refused("GET", &format!("{path}?stream_mode=values"), Value::Null).await.0, 422);
    let (status, text) = server.send("GET", &path, Value::Null, &[("last-event-id", "17-0")]).await;
    assert_eq!(status, 422, "{text}");
    // The stream of a thread that is deleted ends.
    assert_eq!(server.send("DELETE", &format!("/threads/{thread}"), Value::Null, &[]).await.0, 204);
    let ended = async { while all.response.chunk().await.unwrap().is_some() {} };
    tokio::time::timeout(Duration::from_secs(20), ended).await.unwrap();
}
