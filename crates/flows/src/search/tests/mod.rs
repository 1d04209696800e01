// Values are more readable than references in test cases.
#![allow(clippy::needless_pass_by_value)]

mod approval;
mod synthesis;

use graph::{Effect, Failure, FailureKind, Outcome};
use serde_json::{Value, json};

use crate::driven::{DrivenRun, ScriptedReply, drive, passages, registry};

const FACT: &str = "After a crash the log is replayed from the last checkpoint.";
const OTHER: &str = "A commit took 0.34 ms on the NVMe disk.";

fn failed(kind: FailureKind) -> ScriptedReply {
    Err(Failure::new(kind, "no luck"))
}

fn task(number: usize, tool: &str, arguments: Value) -> Value {
    json!({ "task_number": number, "tool_name": tool, "tool_arguments": arguments, "description": format!("task {number}") })
}

fn planned(tasks: Vec<Value>) -> ScriptedReply {
    Ok(json!({ "reasoning": "because", "tasks": tasks }))
}

fn good_plan() -> ScriptedReply {
    planned(vec![task(1, "docs.search", json!({ "query": "crash log" })), task(2, "stories.search", json!({ "query": "commit time", "size": 3 }))])
}

fn good_answer() -> ScriptedReply {
    let html = "<div style=\"color:#333\"><h3>Crash</h3><p>After a crash the log is replayed from the last checkpoint [1]. \
                A commit took 0.34 ms on the NVMe disk [2]. <script>x()</script></p></div>";
    Ok(json!({ "reasoning": "both said so", "response_content": html }))
}

fn large() -> Value {
    json!({ "question": "How does it survive a crash?", "model": { "is_small": false, "context_tokens": 32_000 } })
}

fn with(mut input: Value, more: &Value) -> Value {
    for (name, value) in more.as_object().unwrap() {
        input[name] = value.clone();
    }
    input
}

/// All effects succeed, except where `changed` replies otherwise.
fn search(input: Value, mut changed: impl FnMut(&Effect, usize) -> Option<ScriptedReply>) -> DrivenRun {
    drive(&super::flow().unwrap(), input, |effect, before| {
        changed(effect, before).unwrap_or_else(|| match effect.name() {
            "registry.tools" => Ok(registry()),
            "plan" => good_plan(),
            "synthesis" => good_answer(),
            "docs.search" => Ok(passages(&[FACT])),
            "stories.search" => Ok(passages(&[OTHER])),
            other => panic!("no reply is defined for {other}"),
        })
    })
}

fn plan_is(plan: ScriptedReply) -> impl FnMut(&Effect, usize) -> Option<ScriptedReply> {
    move |effect, _| (effect.name() == "plan").then(|| plan.clone())
}

fn statuses(driven: &DrivenRun) -> Vec<&str> {
    driven.output()["thinking_steps"].as_array().unwrap().iter().map(|step| step["status"].as_str().unwrap()).collect()
}

#[test]
fn all_goes_well() {
    let driven = search(large(), |_, _| None);
    assert_eq!(driven.passed, ["initialize", "discover", "plan", "execute", "synthesize"]);
    let output = driven.output();
    assert!(driven.answer().contains("replayed from the last checkpoint [1]. A commit took 0.34 ms on the NVMe disk [2]."), "{}", driven.answer());
    assert_eq!((output["flow"].as_str(), output["reasoning"].as_str()), (Some("search"), Some("both said so")));
    assert_eq!(output["sources"].as_array().unwrap().len(), 2);
    assert!(output["sentences"].as_array().unwrap().iter().all(|sentence| sentence["status"] != "unsupported"), "{output}");
    let roles: Vec<&str> = driven.messages.iter().map(|(role, _)| role.as_str()).collect();
    assert_eq!(roles, ["user", "assistant"]);
    assert_eq!(driven.messages[1].1, driven.answer());
}

#[test]
fn s1_two_model_calls_however_many_tasks() {
    for is_small in [true, false] {
        for count in 1..=20 {
            let tasks = (1..=count).map(|number| task(number, "docs.search", json!({ "query": format!("aspect {number}") }))).collect();
            let input = with(large(), &json!({ "model": { "is_small": is_small } }));
            let driven = search(input, plan_is(planned(tasks)));
            // A small model's searches of the documents are followed by one for the question itself.
            assert_eq!((driven.models("").len(), driven.tools().len()), (2, count + usize::from(is_small)));
            assert_eq!(driven.models("")[0].purpose, "plan");
            assert_eq!(driven.models("")[1].purpose, "synthesis");
            assert!(driven.models("").iter().all(|call| call.schema.is_some() && call.tokens_max.is_some()));
        }
    }
}

#[test]
fn s2_tools_are_discovered_and_only_enabled_ones_offered() {
    let tools = |settings: Value| {
        let driven = search(with(large(), &json!({ "settings": settings })), plan_is(failed(FailureKind::Network)));
        driven.note("tools").cloned().unwrap()
    };
    assert_eq!(tools(json!({})), json!(["docs.search", "files.remove", "web.fetch", "stories.search"]), "what destroys is offered too");
    assert_eq!(tools(json!({ "enabled_tools": ["stories"] })), json!(["stories.search"]));
    assert_eq!(tools(json!({ "enabled_tools": ["files.remove", "docs"] })), json!(["files.remove", "docs.search"]));
    let driven = search(large(), |_, _| None);
    assert!(driven.models("plan")[0].messages[0].content.contains("- stories.search(query: string, size?: integer) [read-only]: Searches stories"));
    // A tool that is not enabled is not used.
    let input = with(large(), &json!({ "settings": { "enabled_tools": ["stories"] } }));
    let driven = search(input, |_, _| None);
    assert_eq!(driven.tools(), [("stories.search", &json!({ "query": "commit time", "size": 3 }))]);
    assert_eq!(statuses(&driven), ["failed", "completed"]);
}

#[test]
fn s2_without_tools_there_is_still_an_answer_and_it_states_that() {
    for reply in [Ok(json!({ "data": { "tools": [] } })), failed(FailureKind::Network), Ok(json!("gibberish"))] {
        let driven = search(large(), |effect, _| match effect.name() {
            "registry.tools" => Some(reply.clone()),
            "synthesis" => Some(Ok(json!({ "reasoning": "", "response_content": "<p>Nothing was found.</p>" }))),
            _ => None,
        });
        assert!(driven.note("no_tools").is_some());
        assert_eq!((driven.models("").len(), driven.answer()), (1, "Nothing was found."));
        assert!(driven.models("")[0].messages[0].content.contains("Nothing was found"));
    }
}

#[test]
fn s3_the_plan_is_held_to_the_tools_before_anything_is_called() {
    let tasks = vec![
        task(1, "docs.search", json!({ "query": "crash" })),
        task(2, "docs.search", json!({ "qery": "typo" })),
        task(3, "rm.everything", json!({})),
        task(4, "docs.search", json!({ "query": 4 })),
        task(5, "web.fetch", json!({ "url": "{{3}}" })),
        task(6, "web.fetch", json!({ "url": "{{9}}" })),
        task(7, "docs.search", json!({ "query": "crash" })),
    ];
    let driven = search(large(), plan_is(planned(tasks)));
    assert_eq!(driven.tools(), [("docs.search", &json!({ "query": "crash" }))]);
    let steps = driven.output()["thinking_steps"].as_array().unwrap();
    let errors: Vec<&str> = steps.iter().skip(1).map(|step| step["error"].as_str().unwrap()).collect();
    let expected =
        ["has no argument \"qery\"", "there is no tool", "must be of type string", "needs task 3", "does not come before", "the same as task 1"];
    // A missing argument is reported before an unknown one.
    for (error, expected) in errors.iter().zip(["needs the argument \"query\""].iter().chain(&expected[1..])) {
        assert!(error.starts_with("not called: ") && error.contains(expected), "{error}");
    }
    assert!(driven.note("plan_fallback").is_none());
    let plan = driven.note("plan").unwrap();
    assert_eq!((&plan["reasoning"], &plan["tasks"][0]["description"]), (&json!("because"), &json!("task 1")));
}

#[test]
fn s4_an_unusable_plan_becomes_one_task_and_the_run_notes_it() {
    let unusable = [
        failed(FailureKind::Network),
        failed(FailureKind::Budget),
        Ok(json!("I would search the documents.")),
        Ok(json!({ "reasoning": "x" })),
        Ok(json!({ "tasks": [] })),
        Ok(json!({ "tasks": "many" })),
        Ok(Value::Null),
        planned(vec![task(1, "unknown.tool", json!({ "query": "x" }))]),
        planned(vec![task(1, "docs.search", json!({}))]),
    ];
    for plan in unusable {
        let driven = search(large(), plan_is(plan.clone()));
        assert_eq!(driven.tools(), [("docs.search", &json!({ "query": "How does it survive a crash?" }))], "{plan:?}");
        let why = driven.note("plan_fallback").unwrap();
        assert!(why["instead"].as_str().unwrap().contains("docs.search") && !why["why"].as_str().unwrap().is_empty(), "{why}");
        assert_eq!((driven.models("synthesis").len(), statuses(&driven).as_slice()), (1, &["completed"][..]));
        assert!(driven.answer().contains("[1]"));
    }
    // A plan with text around it, or with numbers as text, is usable.
    let text = "Here:\n```json\n{\"tasks\": [{\"task_number\": \"1\", \"tool\": \"docs.search\", \"arguments\": {\"query\": \"x\"}}]}\n```";
    assert!(search(large(), plan_is(Ok(json!(text)))).note("plan_fallback").is_none());
}

#[test]
fn s5_tasks_go_from_pending_to_their_end_and_results_stay_whole() {
    let long = "The log is long. ".repeat(5_000);
    let driven = search(large(), |effect, _| match effect.name() {
        "docs.search" => Some(Ok(json!({ "text": long, "spans": [] }))),
        "stories.search" => Some(failed(FailureKind::Tool)),
        _ => None,
    });
    assert_eq!(driven.note("plan").unwrap()["tasks"][0]["status"], "pending");
    assert_eq!(statuses(&driven), ["completed", "failed"]);
    let steps = &driven.output()["thinking_steps"];
    assert_eq!(steps[0]["result"]["text"].as_str().unwrap().len(), long.len());
    assert_eq!(steps[1]["error"], "tool: no luck");
    assert_eq!(
        driven.note("tasks").unwrap()[1],
        json!({ "task_number": 2, "tool_name": "stories.search", "status": "failed", "error": "tool: no luck" })
    );
}

#[test]
fn s5_independent_tasks_run_at_once_and_dependent_ones_after_what_they_use() {
    let tasks = vec![
        task(1, "docs.search", json!({ "query": "a" })),
        task(2, "stories.search", json!({ "query": "b" })),
        task(3, "web.fetch", json!({ "url": "{{1.url}}" })),
        task(4, "docs.search", json!({ "query": "more about {{2}} please" })),
    ];
    let mut is_first = true;
    let driven = search(large(), |effect, _| match effect.name() {
        "plan" => Some(planned(tasks.clone())),
        "docs.search" if std::mem::take(&mut is_first) => Some(Ok(passages(&[FACT]))),
        "stories.search" => Some(Ok(json!({ "text": "beta", "spans": [] }))),
        "web.fetch" => Some(Ok(passages(&["The page says more."]))),
        _ => None,
    });
    let batch: Vec<Vec<&str>> = driven.batches.iter().map(|batch| batch.iter().map(Effect::name).collect()).collect();
    assert_eq!(batch[2], ["docs.search", "stories.search"]);
    assert_eq!(batch[3], ["web.fetch", "docs.search"]);
    let calls = driven.tools();
    assert_eq!(calls[2].1, &json!({ "url": format!("https://example.org/{}", FACT.len()) }));
    assert_eq!(calls[3].1, &json!({ "query": "more about beta please" }));
    // Only the result of the failed task is missing.
    let driven = search(large(), |effect, _| match effect.name() {
        "plan" => Some(planned(tasks.clone())),
        "stories.search" => Some(failed(FailureKind::Tool)),
        "web.fetch" => Some(Ok(passages(&["The page says more."]))),
        _ => None,
    });
    assert_eq!(statuses(&driven), ["completed", "failed", "completed", "failed"]);
}

#[test]
fn s8_a_follow_up_receives_the_last_ten_turns() {
    let history: Vec<Value> = (1..=12)
        .flat_map(|turn| {
            [json!({ "role": "user", "content": format!("question {turn}?") }), json!({ "role": "assistant", "content": format!("answer {turn}") })]
        })
        .collect();
    let driven = search(with(large(), &json!({ "history": history })), |_, _| None);
    for call in driven.models("") {
        let received: Vec<&str> =
            call.messages.iter().filter(|message| message.role != "evidence").skip(1).map(|message| message.content.as_str()).collect();
        assert_eq!((received.len(), received[0], received[19]), (21, "question 3?", "answer 12"), "{}", call.purpose);
    }
}

#[test]
fn s9_one_pass_by_default_and_more_turn_on_planning_again() {
    let unfinished = || Ok(json!({ "reasoning": "", "response_content": format!("{FACT} [1]"), "missing": "how long a commit takes" }));
    let one = search(large(), |effect, _| (effect.name() == "synthesis").then(unfinished));
    assert_eq!((one.models("").len(), one.output()["iterations"].as_u64()), (2, Some(1)));
    assert!(one.models("synthesis")[0].schema.as_ref().unwrap().pointer("/properties/missing").is_none());

    let input = with(large(), &json!({ "settings": { "max_turn_iterations": 3 } }));
    let first = || planned(vec![task(1, "docs.search", json!({ "query": "crash" }))]);
    let second = || planned(vec![task(1, "stories.search", json!({ "query": "commit" }))]);
    let two = search(input.clone(), |effect, before| match (effect.name(), before) {
        ("plan", 0) => Some(first()),
        ("plan", _) => Some(second()),
        ("synthesis", 0) => Some(unfinished()),
        _ => None,
    });
    assert_eq!((two.models("").len(), two.output()["iterations"].as_u64()), (4, Some(2)));
    let again = &two.models("plan")[1].messages;
    assert!(
        again[0].content.contains("Still missing: how long a commit takes")
            && again[0].content.contains("- docs.search {\"query\":\"crash\"} (completed)")
    );
    assert!(again.iter().any(|message| message.role == "evidence"));
    assert!(two.answer().contains("last checkpoint [1]. A commit took 0.34 ms on the NVMe disk [2]."), "evidence of both turns: {}", two.answer());
    assert_eq!(statuses(&two), ["completed", "completed"]);
    assert_eq!(two.messages.len(), 2);

    // It stops at its limit, when there is nothing more to plan, and when nothing is missing.
    let never = search(input.clone(), |effect, before| match effect.name() {
        "plan" => Some(planned(vec![task(1, "docs.search", json!({ "query": format!("crash {before}") }))])),
        "synthesis" => Some(unfinished()),
        _ => None,
    });
    assert_eq!((never.models("").len(), never.output()["iterations"].as_u64()), (6, Some(3)));
    for plan in [Ok(json!({ "reasoning": "", "tasks": [] })), failed(FailureKind::Network)] {
        let stuck = search(input.clone(), |effect, before| match (effect.name(), before) {
            ("plan", 1..) => Some(plan.clone()),
            ("synthesis", _) => Some(unfinished()),
            _ => None,
        });
        assert_eq!((stuck.models("plan").len(), stuck.models("synthesis").len(), stuck.messages.len()), (2, 1, 2));
        assert!(stuck.answer().contains("last checkpoint. [1]"), "{}", stuck.answer());
    }
    assert_eq!(search(input, |_, _| None).models("").len(), 2);
}

#[test]
fn s10_nothing_but_the_cached_list_is_asked_before_the_plan() {
    let driven = search(large(), |_, _| None);
    let first: Vec<(&str, &str)> = driven.batches[..2].iter().flatten().map(|effect| (effect.kind(), effect.name())).collect();
    assert_eq!(first, [("tool", "registry.tools"), ("model", "plan")]);
}

#[test]
fn bad_input_is_refused_with_a_message() {
    let graph = super::flow().unwrap();
    for input in [json!({ "question": " \u{0} " }), json!({ "question": "x".repeat(200_000) }), json!({ "question": "q", "thinking_steps": [] })] {
        assert!(graph::Run::start(&graph, graph::Start::new("search", "t", "r", input)).is_err());
    }
    let foreign = search(with(large(), &json!({ "question": "Wie übersteht es einen Absturz? 崩溃后?" })), |_, _| None);
    assert!(matches!(foreign.outcome, Outcome::Done { .. }));
}

#[test]
fn a_follow_up_is_looked_up_with_what_it_follows() {
    let history = json!([{ "role": "user", "content": "Who won the cup in 2019?" }, { "role": "assistant", "content": "Ada." }]);
    let input = with(large(), &json!({ "question": "And in 2020?", "history": history }));
    // No plan can be used, so the question itself is looked up.
    let driven = search(input, plan_is(failed(FailureKind::Invalid)));
    assert_eq!(driven.tools()[0].1["query"], "Who won the cup in 2019? And in 2020?");
    let asked = driven.effects().find(|effect| effect.name() == "registry.tools").unwrap();
    assert!(matches!(asked, Effect::CallTool(call) if call.arguments["query"] == "Who won the cup in 2019? And in 2020?"), "{asked:?}");
    let messages = &driven.models("synthesis")[0].messages;
    assert_eq!(
        (messages.last().unwrap().content.as_str(), driven.messages[0].1.as_str()),
        ("And in 2020?", "And in 2020?"),
        "a prompt with the conversation needs no help"
    );
}

#[test]
fn s11_what_may_change_something_is_planned_labelled_and_never_tried_twice() {
    let remove = planned(vec![task(1, "files.remove", json!({ "url": "old.txt" })), task(2, "docs.search", json!({ "query": "old" }))]);
    let mut removals = 0;
    let driven = search(with(large(), &json!({ "question": "Remove old.txt" })), |effect, _| match effect.name() {
        "plan" => Some(remove.clone()),
        "files.remove" => {
            removals += 1;
            Some(Err(Failure::new(FailureKind::Network, "reset").retry()))
        }
        "docs.search" => Some(Err(Failure::new(FailureKind::Network, "reset").retry())),
        _ => None,
    });
    assert!(driven.models("plan")[0].messages[0].content.contains("- files.remove(url: string) [may change something]: Removes"));
    let looked_up = driven.tools().iter().filter(|(tool, _)| *tool == "docs.search").count();
    assert_eq!((removals, looked_up, statuses(&driven)), (1, 2, vec!["failed", "failed"]));
}

#[test]
fn s11_with_more_turns_the_planner_can_ask_for_other_tools() {
    let close = json!([{ "name": "tickets.close", "description": "Closes", "schema": { "type": "object", "required": ["id"], "properties": { "id": { "type": "integer" } } } }]);
    let run = |settings: Value, wanted: usize| {
        let close = close.clone();
        // As many as a listing holds: there may be more.
        let mut full = registry();
        let listed = full["data"]["tools"].as_array_mut().unwrap();
        while listed.len() < 24 {
            listed.push(json!({ "name": format!("other.tool{}", listed.len()), "schema": {} }));
        }
        search(with(large(), &json!({ "question": "Close ticket 7", "settings": settings })), move |effect, before| match (effect.name(), before) {
            ("registry.tools", 0) => Some(Ok(full.clone())),
            ("registry.tools", 1..) => Some(Ok(json!({ "data": { "tools": close } }))),
            ("plan", n) if n < wanted => Some(planned(vec![task(1, "registry.tools", json!({ "query": "close a ticket" }))])),
            ("plan", _) => Some(planned(vec![task(1, "tickets.close", json!({ "id": 7 }))])),
            ("tickets.close", _) => Some(Ok(json!({ "text": "Ticket 7 is closed.", "spans": [] }))),
            _ => None,
        })
    };
    let found = run(json!({ "max_turn_iterations": 2 }), 1);
    assert_eq!(found.tools(), [("tickets.close", &json!({ "id": 7 }))]);
    assert_eq!((found.output()["iterations"].as_u64(), found.note("tools_found").unwrap()["found"][0].as_str()), (Some(1), Some("tickets.close")));
    let ever = run(json!({ "max_turn_iterations": 2 }), 9);
    assert_eq!(ever.note("plan_fallback").is_some() as usize + ever.notes.iter().filter(|(name, _)| name == "tools_found").count(), 3);
    // By default there is no such step, so that two model calls suffice.
    let default = run(json!({}), 9);
    assert!(!default.models("plan")[0].messages[0].content.contains("registry.tools") && default.models("").len() == 2);
}
