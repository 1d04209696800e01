//! Tool calls that need permission: what an answer allows, for whom, and that it outlives the process.

use std::time::Duration;

use baton_engine::{Engine, Fork, Order, RunState};
use graph::{ALLOW_ALL, Graph, RunContext, RunId, Waiting, agent, tool};
use serde_json::{Value, json};
use store::Grant;

use crate::flows::{fan, line};
use crate::{Fixture, output};

const SCRIPT: &str = "when tool tickets.* reply \"closed\" once asks\nwhen tool notes.add reply \"added\" once asks\nwhen tool clock reply 1";

fn close(id: u32) -> graph::Effect {
    tool("tickets.close", json!({ "id": id }))
}

fn one() -> Vec<Graph> {
    vec![line("l", vec![close(1)])]
}

async fn start(engine: &Engine, flow: &str, user: &str, thread: &str) -> RunId {
    let order =
        Order { context: RunContext { user: user.into(), ..RunContext::default() }, thread: Some(thread.into()), ..Order::new(flow, json!({})) };
    engine.start(order).await.unwrap()
}

/// What the run asks now.
async fn asked(engine: &Engine, run: &RunId) -> Vec<Waiting> {
    match engine.wait(run).await.unwrap() {
        RunState::Parked(waiting) => waiting,
        other => panic!("it should ask: {other:?}"),
    }
}

async fn answer(engine: &Engine, run: &RunId, waiting: &Waiting, word: &str) {
    engine.answer(run, waiting.task, waiting.attempt, json!({ "allow": word })).await.unwrap();
}

async fn grants(fixture: &Fixture, user: &str) -> Vec<Grant> {
    fixture.store.permissions(&user.into()).await.unwrap().into_iter().map(|row| row.grant).collect()
}

/// Whether a new run of this user in this thread asks about its call. If it does, the answer is no.
async fn is_asked(engine: &Engine, flow: &str, user: &str, thread: &str) -> bool {
    let run = start(engine, flow, user, thread).await;
    match engine.wait(&run).await.unwrap() {
        RunState::Parked(waiting) => {
            answer(engine, &run, &waiting[0], "no").await;
            assert!(output(engine, &run).await.to_string().contains("refused"));
            true
        }
        _ => false,
    }
}

#[tokio::test]
async fn s11_an_answer_allows_the_call_the_conversation_the_tool_or_the_server() {
    let tickets = || "tickets.close".to_owned();
    for (word, grant) in [
        ("once", None),
        ("conversation", Some(Grant::Conversation { thread: "t".into(), tool: tickets() })),
        ("tool", Some(Grant::Tool { tool: tickets() })),
        ("server", Some(Grant::Server { server: "tickets".into() })),
    ] {
        let fixture = Fixture::new();
        let flows =
            vec![line("l", vec![close(1)]), line("other", vec![tool("tickets.open", json!({}))]), line("note", vec![tool("notes.add", json!({}))])];
        let engine = fixture.engine(SCRIPT, flows);
        let run = start(&engine, "l", "ada", "t").await;
        let waiting = asked(&engine, &run).await;
        let call = waiting[0].call.clone().unwrap();
        assert_eq!((call.tool.as_str(), call.server.as_str(), call.arguments.as_str()), ("tickets.close", "tickets", "{\"id\":1}"));
        assert_eq!(fixture.calls("tickets.close"), 0);
        answer(&engine, &run, &waiting[0], word).await;
        assert_eq!(grants(&fixture, "ada").await, grant.into_iter().collect::<Vec<_>>(), "{word}");
        assert_eq!(output(&engine, &run).await, json!(["closed"]), "{word}");
        let replayed = baton_engine::replay(&*fixture.store, engine.flows(), &run).await.unwrap();
        assert_eq!(replayed.difference, None, "{word}");

        let mut again = Vec::new();
        for (flow, user, thread) in [("l", "ada", "t"), ("l", "ada", "u"), ("other", "ada", "t"), ("note", "ada", "t"), ("l", "bob", "b")] {
            again.push(is_asked(&engine, flow, user, thread).await);
        }
        let expected = match word {
            "conversation" => [false, true, true, true, true],
            "tool" => [false, false, true, true, true],
            "server" => [false, false, false, true, true],
            _ => [true; 5],
        };
        assert_eq!(again, expected, "{word}: same thread, other thread, other tool, other server, other user");
    }
}

#[tokio::test]
async fn a_revoked_permission_is_asked_for_again() {
    let fixture = Fixture::new();
    let engine = fixture.engine(SCRIPT, one());
    let run = start(&engine, "l", "ada", "t").await;
    let waiting = asked(&engine, &run).await;
    answer(&engine, &run, &waiting[0], "tool").await;
    assert!(!is_asked(&engine, "l", "ada", "t").await);
    let row = fixture.store.permissions(&"ada".into()).await.unwrap().remove(0);
    assert!(fixture.store.revoke_permission(&"ada".into(), row.permission).await.unwrap());
    assert!(is_asked(&engine, "l", "ada", "t").await);
}

#[tokio::test]
async fn a_permission_is_for_the_tool_as_it_was_and_is_asked_for_again_when_it_changed() {
    let script = |defined: &str| format!("when tool tickets.* reply \"closed\" once asks defined \"{defined}\"");
    for (word, noted) in [("conversation", "its description"), ("tool", "its description"), ("server", "the server's list of tools")] {
        let fixture = Fixture::new();
        let engine = fixture.engine(&script("Closes a ticket"), one());
        let run = start(&engine, "l", "ada", "t").await;
        let waiting = asked(&engine, &run).await;
        assert!(!waiting[0].question.prompt.contains("You allowed"), "{}", waiting[0].question.prompt);
        answer(&engine, &run, &waiting[0], word).await;
        output(&engine, &run).await;
        assert!(!is_asked(&engine, "l", "ada", "t").await, "{word}");
        drop(engine);

        let engine = fixture.engine(&script("Closes a ticket and tells everybody"), one());
        let run = start(&engine, "l", "ada", "t").await;
        let waiting = asked(&engine, &run).await;
        let prompt = &waiting[0].question.prompt;
        assert!(prompt.contains("You allowed") && prompt.contains(&format!("since then this changed: {noted}.")), "{word}: {prompt}");
        answer(&engine, &run, &waiting[0], word).await;
        output(&engine, &run).await;
        assert!(!is_asked(&engine, "l", "ada", "t").await, "{word}: it was given again");
        assert_eq!(grants(&fixture, "ada").await.len(), 1, "{word}: in the place of the old one");
        drop(engine);
        let engine = fixture.engine(&script("Closes a ticket"), one());
        assert!(is_asked(&engine, "l", "ada", "t").await, "{word}: the old one is another again");
    }
}

#[tokio::test]
async fn a_permission_from_before_definitions_were_kept_is_asked_for_once_more() {
    let fixture = Fixture::new();
    let grant = Grant::Tool { tool: "tickets.close".into() };
    let old = store::NewPermission { user: "ada".into(), grant, definition: None, created_ms: 1 };
    fixture.store.keep_permission(old).await.unwrap();
    let engine = fixture.engine(SCRIPT, one());
    let run = start(&engine, "l", "ada", "t").await;
    let waiting = asked(&engine, &run).await;
    assert!(waiting[0].question.prompt.contains("before definitions of tools were recorded"), "{}", waiting[0].question.prompt);
    answer(&engine, &run, &waiting[0], "tool").await;
    output(&engine, &run).await;
    assert!(!is_asked(&engine, "l", "ada", "t").await);
}

#[tokio::test]
async fn an_answer_does_not_settle_a_question_about_another_definition() {
    let fixture = Fixture::new();
    let script =
        "when tool tickets.close id=1 reply \"closed\" once asks defined \"one\"\nwhen tool tickets.close reply \"closed\" once asks defined \"two\"";
    let engine = fixture.engine(script, vec![fan("f", vec![close(1), close(2), close(3)])]);
    let run = start(&engine, "f", "ada", "t").await;
    let waiting = asked(&engine, &run).await;
    answer(&engine, &run, &waiting[1], "tool").await;
    let left = asked(&engine, &run).await;
    let open: Vec<_> = left.iter().map(|waiting| waiting.call.as_ref().unwrap().arguments.as_str()).collect();
    assert_eq!((open, fixture.calls("tickets.close")), (vec!["{\"id\":1}"], 2));
}

#[tokio::test]
async fn a_no_is_a_failure_that_the_flow_sees() {
    let fixture = Fixture::new();
    let engine = fixture.engine(SCRIPT, one());
    let run = start(&engine, "l", "ada", "t").await;
    let waiting = asked(&engine, &run).await;
    let refused = engine.answer(&run, waiting[0].task, waiting[0].attempt, json!({ "allow": "always" })).await.unwrap_err();
    assert!(refused.to_string().contains("once, conversation, tool, server, no"), "{refused}");
    answer(&engine, &run, &waiting[0], "no").await;
    assert_eq!(output(&engine, &run).await, json!([{ "failed": "refused", "why": "a person was asked to agree, and said no" }]));
    assert_eq!((fixture.calls("tickets.close"), grants(&fixture, "ada").await), (0, vec![]));
}

#[tokio::test]
async fn one_answer_settles_the_open_questions_it_covers() {
    let fixture = Fixture::new();
    let flow = fan("f", vec![close(1), close(2), tool("tickets.open", json!({})), close(3)]);
    let engine = fixture.engine(SCRIPT, vec![flow]);
    let run = start(&engine, "f", "ada", "t").await;
    let waiting = asked(&engine, &run).await;
    assert_eq!(waiting.len(), 4);
    answer(&engine, &run, &waiting[1], "tool").await;
    let left = asked(&engine, &run).await;
    let tools: Vec<_> = left.iter().map(|waiting| waiting.call.as_ref().unwrap().tool.as_str()).collect();
    assert_eq!((tools, fixture.calls("tickets.close")), (vec!["tickets.open"], 3));
    // An answer to what is settled already changes nothing.
    answer(&engine, &run, &waiting[0], "server").await;
    assert_eq!(grants(&fixture, "ada").await, [Grant::Tool { tool: "tickets.close".into() }]);
    answer(&engine, &run, &left[0], "once").await;
    assert_eq!(output(&engine, &run).await, json!(["closed", "closed", "closed", "closed"]));
    assert_eq!(baton_engine::replay(&*fixture.store, engine.flows(), &run).await.unwrap().difference, None);
}

#[tokio::test]
async fn one_answer_settles_what_parallel_children_ask() {
    let fixture = Fixture::new();
    let flows = vec![fan("parent", vec![agent("l", json!({})), agent("l", json!({})), agent("l", json!({}))]), line("l", vec![close(1)])];
    let engine = fixture.engine(SCRIPT, flows);
    let run = start(&engine, "parent", "ada", "t").await;
    engine.wait(&run).await.unwrap();
    let row = fixture.store.run(&run).await.unwrap().unwrap();
    let open = engine.open_questions(&row).await.unwrap();
    assert_eq!(open.len(), 3);
    answer(&engine, &open[0].run, &open[0].waiting, "conversation").await;
    while !fixture.store.run(&run).await.unwrap().unwrap().status.is_over() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(output(&engine, &run).await, json!([["closed"], ["closed"], ["closed"]]));
    assert_eq!(grants(&fixture, "ada").await.len(), 1);
}

#[tokio::test]
async fn a_run_in_flight_uses_a_permission_from_its_next_call_on() {
    let fixture = Fixture::new();
    let engine = fixture.engine(SCRIPT, vec![line("l", vec![close(1)]), line("long", vec![graph::person("Go on?"), close(2)])]);
    let long = start(&engine, "long", "ada", "u").await;
    let pause = asked(&engine, &long).await;
    let run = start(&engine, "l", "ada", "t").await;
    let waiting = asked(&engine, &run).await;
    answer(&engine, &run, &waiting[0], "server").await;
    engine.answer(&long, pause[0].task, pause[0].attempt, json!("yes")).await.unwrap();
    assert_eq!(output(&engine, &long).await, json!(["yes", "closed"]));
}

#[tokio::test]
async fn what_a_run_is_allowed_when_it_starts_holds_for_it_and_its_children_after_a_restart_too() {
    let flows = || vec![line("parent", vec![graph::person("Go on?"), agent("l", json!({})), close(2)]), line("l", vec![close(1)])];
    for (allowed, is_free) in [("tickets.close", true), ("tickets", true), (ALLOW_ALL, true), ("tickets.open", false), ("notes", false)] {
        let fixture = Fixture::new();
        let engine = fixture.engine(SCRIPT, flows());
        let order = Order { context: RunContext { allowed: vec![allowed.to_owned()], ..RunContext::default() }, ..Order::new("parent", json!({})) };
        let run = engine.start(order).await.unwrap();
        let pause = asked(&engine, &run).await;
        drop(engine);

        let engine = fixture.engine(SCRIPT, flows());
        engine.answer(&run, pause[0].task, pause[0].attempt, json!("yes")).await.unwrap();
        if !is_free {
            assert!(matches!(engine.wait(&run).await.unwrap(), RunState::Parked(_)), "{allowed}");
            continue;
        }
        assert_eq!(output(&engine, &run).await, json!(["yes", ["closed"], "closed"]), "{allowed}");
        assert_eq!(grants(&fixture, "local").await, [], "it was given for this run");
        assert!(is_asked(&engine, "l", "local", "other").await, "another run is asked");
        let fork = engine.fork(&run, Fork { at_step: 2, ..Fork::default() }).await.unwrap();
        assert!(matches!(engine.wait(&fork).await.unwrap(), RunState::Parked(_)), "a fork is another run");
    }
}

/// Until virtual time `ms` after the answer; then everything is dropped, as by a kill.
fn killed_after_answer(fixture: &Fixture, script: &str, word: &str, ms: u64) -> RunId {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let engine = fixture.engine(script, one());
        let run = start(&engine, "l", "ada", "t").await;
        let waiting = asked(&engine, &run).await;
        answer(&engine, &run, &waiting[0], word).await;
        // The change takes place in the middle of its time.
        assert_eq!((grants(fixture, "ada").await.len(), fixture.outside.changes().len()), (1, 0), "allowed before it is performed");
        tokio::time::sleep(Duration::from_millis(ms)).await;
        run
    })
}

fn after<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(future)
}

#[test]
fn a_permission_is_durable_before_the_call_and_written_once_wherever_the_process_is_killed() {
    let script = "when tool tickets.close reply \"closed\" after 10ms checkable asks";
    for ms in [0, 3, 8, 20] {
        let fixture = Fixture::new();
        let run = killed_after_answer(&fixture, script, "tool", ms);
        after(async {
            let engine = fixture.engine(script, one());
            engine.recover().await.unwrap();
            assert_eq!(output(&engine, &run).await, json!(["closed"]), "killed after {ms} ms");
            assert_eq!(grants(&fixture, "ada").await, [Grant::Tool { tool: "tickets.close".into() }], "killed after {ms} ms");
            assert!(!is_asked(&engine, "l", "ada", "t").await);
        });
        assert_eq!(fixture.outside.changes().values().copied().collect::<Vec<_>>(), [1, 1], "each call once, killed after {ms} ms");
    }
}

#[test]
fn a_call_that_was_begun_is_looked_up_and_not_asked_about_again() {
    let script = "when tool tickets.close reply \"closed\" after 10ms checkable asks";
    let fixture = Fixture::new();
    let (first, second): (RunId, RunId) = {
        let first = killed_after_answer(&fixture, script, "tool", 20);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let second = runtime.block_on(async {
            let engine = fixture.engine(script, one());
            let run = start(&engine, "l", "ada", "u").await;
            tokio::time::sleep(Duration::from_millis(8)).await;
            run
        });
        (first, second)
    };
    after(async {
        let row = fixture.store.permissions(&"ada".into()).await.unwrap().remove(0);
        fixture.store.revoke_permission(&"ada".into(), row.permission).await.unwrap();
        let engine = fixture.engine(script, one());
        engine.recover().await.unwrap();
        for run in [first, second] {
            assert_eq!(output(&engine, &run).await, json!(["closed"]));
        }
    });
    assert_eq!(fixture.outside.changes().values().copied().collect::<Vec<_>>(), [1, 1]);
}

#[tokio::test]
async fn a_question_of_an_older_journal_is_answered_as_it_was() {
    let fixture = Fixture::new();
    let engine = fixture.engine(SCRIPT, one());
    let run = start(&engine, "l", "ada", "t").await;
    asked(&engine, &run).await;
    // As it was written before questions named their tool.
    let line = fixture.store.journal(&run, 1, 1).await.unwrap().remove(0).bytes;
    let mut entry: Value = serde_json::from_slice(&line).unwrap();
    entry["held"].as_object_mut().unwrap().remove("call").unwrap();
    let old = Fixture::new();
    let start_line = fixture.store.journal(&run, 0, 1).await.unwrap().remove(0).bytes;
    let lease = old.store.claim(&"t".into(), "old", 0, 1).await.unwrap();
    let new = store::NewRun { flow: "l".into(), parent: None, title: String::new(), user: "ada".into() };
    let lines = vec![start_line, serde_json::to_vec(&entry).unwrap()];
    let status = Some(store::Status::Asking);
    let commit = store::Commit { new: Some(new), lines, status, release: true, ..store::Commit::new(run.clone(), lease, 0, 0) };
    // Entries begin with their version.
    let commit = store::Commit { lines: commit.lines.iter().map(|line| versioned(line)).collect(), ..commit };
    old.store.commit(commit).await.unwrap();

    let engine = old.engine(SCRIPT, one());
    let waiting = engine.waiting(&run).await.unwrap();
    assert!(waiting[0].call.is_none() && waiting[0].question.prompt.contains("May Baton perform tool tickets.close?"), "{waiting:?}");
    assert!(engine.answer(&run, waiting[0].task, waiting[0].attempt, json!({ "allow": "tool" })).await.is_err());
    engine.answer(&run, waiting[0].task, waiting[0].attempt, json!({ "allow": true })).await.unwrap();
    assert_eq!(output(&engine, &run).await, json!(["closed"]));
}

/// serde_json sorts fields by name; the version comes first.
fn versioned(line: &[u8]) -> Vec<u8> {
    let mut entry: Value = serde_json::from_slice(line).unwrap();
    let fields = entry.as_object_mut().unwrap();
    fields.remove("v");
    let mut bytes = b"{\"v\":1,".to_vec();
    bytes.extend_from_slice(&entry.to_string().as_bytes()[1..]);
    bytes
}
