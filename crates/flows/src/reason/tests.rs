use graph::{Effect, FailureKind, Outcome, Reply};
use serde_json::{Value, json};

use super::*;
use crate::played::{Played, failed, found, play, tools, words};

type Script<'s> = &'s [(&'s str, &'s [Reply])];

/// Replies in turn for whoever is named, the last stays; others do well.
fn check(input: Value, script: Script<'_>) -> Played {
    let mut heard = std::collections::BTreeMap::<String, usize>::new();
    play("reason", input, &mut |effect, _| {
        let at = heard.entry(effect.name().to_owned()).or_default();
        *at += 1;
        if let Some((_, replies)) = script.iter().find(|(name, _)| *name == effect.name()) {
            return Some(replies[(*at - 1).min(replies.len() - 1)].clone());
        }
        Some(usual(effect.name()))
    })
}

fn usual(name: &str) -> Reply {
    match name {
        "registry.tools" => all_tools(),
        "think" => Reply::ok(json!({ "analysis": "Two years are wanted.", "complexity": "moderate" })),
        "plan" => plan(&[("docs.search", json!({ "query": "bridge" }))]),
        "reflect" => reflection(true, false),
        "answer" => Reply::ok("The bridge was built in 1901 [1]."),
        "docs.search" | "web.search" => found(name, &[("bridge", "The bridge was built in 1901.")]),
        other => panic!("{other}"),
    }
}

fn all_tools() -> Reply {
    let text = |name: &str| json!({ "type": "object", "required": [name], "additionalProperties": false, "properties": { name: { "type": "string" }, "size": { "type": "integer" } } });
    tools(json!([
        { "name": "docs.search", "description": "Finds.", "schema": text("query"), "read_only": true },
        { "name": "web.search", "description": "Finds elsewhere.", "schema": text("query"), "read_only": true },
        { "name": "files.append", "description": "Appends.", "schema": text("text"), "read_only": false },
        { "name": "files.remove", "description": "Removes.", "schema": text("path"), "read_only": false, "destructive": true },
    ]))
}

fn plan(steps: &[(&str, Value)]) -> Reply {
    let steps: Vec<Value> = steps.iter().map(|(tool, arguments)| json!({ "description": "", "tool": tool, "arguments": arguments })).collect();
    Reply::ok(json!({ "steps": steps, "estimated_complexity": "moderate", "success_criteria": ["a year"] }))
}

fn reflection(goal_achieved: bool, should_continue: bool) -> Reply {
    Reply::ok(
        json!({ "goal_achieved": goal_achieved, "should_continue": should_continue, "issues_found": [], "plan_adjustments": "Look elsewhere.", "final_response": null }),
    )
}

fn large() -> Value {
    json!({ "is_small": false, "context_tokens": 32_000 })
}

/// Not simple, so every phase asks its model.
fn hard() -> Value {
    json!({ "question": "Think: how old is the bridge, and compare it with the tower.", "model": large() })
}

fn simple() -> Value {
    json!({ "question": "Find the year the bridge was built.", "model": large() })
}

fn with(mut input: Value, settings: Value) -> Value {
    input["settings"] = settings;
    input
}

#[test]
fn r1_the_phases_come_in_order_and_end_early() {
    let end = check(hard(), &[]);
    assert_eq!(end.path, ["decide", "iterate", "think", "plan", "execute", "reflect", "respond"]);
    assert_eq!((&end.output()["iterations"], &end.output()["way"]), (&json!(1), &json!("agentic")));
    assert!(end.output()["answer"].as_str().unwrap().starts_with("The bridge was built in 1901 [1]."));
    assert_eq!(end.said.len(), 2);
}

#[test]
fn r1_there_are_at_most_five_iterations() {
    for (settings, made) in [(json!(null), 5), (json!({ "max_iterations": 2 }), 2)] {
        let end = check(with(hard(), settings), &[("reflect", &[reflection(false, true)])]);
        assert_eq!((&end.output()["iterations"], end.count("model plan"), end.count("model think")), (&json!(made), made, 1));
        assert_eq!(end.count("model answer"), 1);
    }
    let end = check(hard(), &[("reflect", &[reflection(false, true), reflection(true, false)])]);
    assert_eq!(end.output()["iterations"], 2);
    assert_eq!(check(hard(), &[("reflect", &[reflection(false, false)])]).output()["iterations"], 1);
}

#[test]
fn r2_a_direct_answer_is_one_call() {
    let end = check(json!({ "question": "What is the capital of France?", "model": large() }), &[]);
    assert_eq!((end.asked(), &end.output()["why"]), (vec!["model answer".to_owned()], &json!("simple")));
    let quick = check(json!({ "question": "Quick: plan my day", "model": large() }), &[]);
    assert_eq!(quick.asked(), ["model answer"]);
    let told = check(with(json!({ "question": "Hello", "model": large() }), json!({ "way": "agentic" })), &[]);
    assert_eq!(told.output()["way"], "agentic");
}

#[test]
fn r3_a_plan_has_steps_complexity_criteria_and_tools() {
    let two = plan(&[("web.search", json!({ "query": "tower" })), ("docs.search", json!({ "query": "bridge" }))]);
    let end = check(hard(), &[("plan", &[two])]);
    let planned = &end.output()["plan"];
    assert_eq!((&planned["estimated_complexity"], &planned["success_criteria"]), (&json!("moderate"), &json!(["a year"])));
    assert_eq!(planned["required_tools"], json!(["docs.search", "web.search"]));
    assert_eq!(planned["steps"].as_array().unwrap().len(), 2);
}

#[test]
fn r3_steps_use_what_earlier_ones_found_and_others_go_side_by_side() {
    let chained = plan(&[
        ("docs.search", json!({ "query": "bridge" })),
        ("web.search", json!({ "query": "tower" })),
        ("web.search", json!({ "query": "more about {{1}}" })),
    ]);
    let mut waves = Vec::new();
    let graph = flow().unwrap();
    let mut run = graph::Run::start(&graph, graph::Start::new("reason", "t", "r", hard())).unwrap();
    while let graph::Next::Perform(jobs) = run.next() {
        waves.push(jobs.iter().map(|job| words(&job.effect)).collect::<Vec<_>>());
        for job in jobs {
            let reply = if job.effect.name() == "plan" { chained.clone() } else { usual(job.effect.name()) };
            run.feed(job.task, job.attempt, reply).unwrap();
        }
    }
    let tools: Vec<&Vec<String>> =
        waves.iter().filter(|wave| wave[0].contains("query") && wave[0].contains("search\"")).filter(|wave| !wave[0].contains("registry")).collect();
    assert_eq!((tools[0].len(), tools[1].len()), (2, 1), "{tools:?}");
    assert!(tools[1][0].contains("more about The bridge was built in 1901."), "{tools:?}");
}

#[test]
fn r3_a_plan_that_cannot_be_carried_out_is_mended() {
    let cases = [
        plan(&[("no.such", json!({ "query": "bridge year" }))]),
        plan(&[("docs.search", json!({ "query": "bridge year", "colour": "red" }))]),
        plan(&[("docs.search", json!({ "query": "{{4}}" })), ("docs.search", json!({ "query": "bridge year" }))]),
    ];
    for broken in cases {
        let end = check(hard(), &[("plan", std::slice::from_ref(&broken))]);
        assert_eq!(end.notes("plan_mended").len(), 1, "{broken:?}");
        assert!(end.effects.contains(&graph::tool("docs.search", json!({ "query": "bridge year" }))), "{:?}", end.asked());
        assert!(end.output()["answer"].as_str().unwrap().contains("1901"));
    }
    // A tool that may destroy something is not offered at all.
    let end = check(hard(), &[("plan", &[plan(&[("files.remove", json!({ "path": "/" }))])])]);
    assert_eq!(end.count("tool files.remove"), 0);
}

#[test]
fn r4_a_result_says_success_output_error_time_and_tool() {
    let slow = found("docs.search", &[("bridge", "The bridge was built in 1901.")]).taking_us(42_000);
    let end = check(hard(), &[("docs.search", &[slow])]);
    let result = &end.output()["results"][0];
    assert_eq!(result["success"], true);
    assert_eq!(result["output"]["text"], "The bridge was built in 1901.");
    assert_eq!((&result["error"], &result["execution_time_ms"], &result["tool_used"]), (&Value::Null, &json!(42), &json!("docs.search")));
}

#[test]
fn r4_a_failed_step_is_tried_with_other_arguments_then_another_way_then_reported() {
    let asked = plan(&[("docs.search", json!({ "query": "When was the \"bridge\" built?" }))]);
    let tried = |end: &Played| -> Vec<String> {
        end.effects.iter().filter(|effect| effect.name().ends_with(".search")).map(|effect| format!("{} {}", effect.name(), words(effect))).collect()
    };
    let nothing = Reply::ok(json!({ "text": " ", "spans": [] }));
    let good = usual("docs.search");
    let second = check(hard(), &[("plan", std::slice::from_ref(&asked)), ("docs.search", &[nothing.clone(), good])]);
    assert!(tried(&second)[1].contains("\"bridge built\""), "{:?}", tried(&second));
    assert_eq!((&second.output()["results"][0]["attempts"], &second.output()["results"][0]["success"]), (&json!(2), &json!(true)));
    let third = check(hard(), &[("plan", std::slice::from_ref(&asked)), ("docs.search", std::slice::from_ref(&nothing))]);
    assert_eq!((&third.output()["results"][0]["attempts"], &third.output()["results"][0]["tool_used"]), (&json!(3), &json!("web.search")));
    let never = check(hard(), &[("plan", &[asked]), ("docs.search", &[nothing]), ("web.search", &[failed(FailureKind::Tool)])]);
    let result = &never.output()["results"][0];
    assert_eq!((&result["success"], &result["attempts"], &result["error"]), (&json!(false), &json!(3), &json!("tool: no luck")));
    let told = never.effects.iter().find(|effect| effect.name() == "reflect").map(words).unwrap();
    assert!(told.contains("failed: tool: no luck"), "{told}");
}

#[test]
fn r4_what_changes_something_is_never_done_twice() {
    let append = plan(&[("files.append", json!({ "text": "x" }))]);
    for kind in [FailureKind::Tool, FailureKind::InDoubt, FailureKind::Timeout, FailureKind::Network] {
        let end =
            check(hard(), &[("plan", std::slice::from_ref(&append)), ("files.append", &[failed(kind)]), ("reflect", &[reflection(false, false)])]);
        assert_eq!((end.count("tool files.append"), end.count("tool docs.search")), (1, 0), "{kind}");
        assert_eq!(end.output()["results"][0]["success"], false);
    }
}

#[test]
fn r4_what_needs_a_failed_step_is_not_done() {
    let chained = plan(&[("docs.search", json!({ "query": "bridge" })), ("web.search", json!({ "query": "{{1}}" }))]);
    let end = check(hard(), &[("plan", &[chained]), ("docs.search", &[failed(FailureKind::Budget)])]);
    let results = &end.output()["results"];
    assert_eq!((&results[0]["success"], &results[1]["error"]), (&json!(false), &json!("it needs what step 1 did not find")));
    // One that succeeds at the second try is still used.
    let chained = plan(&[("docs.search", json!({ "query": "the bridge" })), ("web.search", json!({ "query": "{{1}}" }))]);
    let end = check(hard(), &[("plan", &[chained]), ("docs.search", &[failed(FailureKind::Invalid), usual("docs.search")])]);
    assert_eq!(end.output()["results"][1]["success"], true);
    assert!(end.effects.contains(&graph::tool("web.search", json!({ "query": "The bridge was built in 1901." }))), "{:?}", end.effects);
}

#[test]
fn r5_reflection_decides_and_its_words_reach_the_planner_and_the_answer() {
    let better = json!({ "goal_achieved": false, "should_continue": true, "issues_found": ["The tower is missing."], "plan_adjustments": "Search the tower.", "final_response": "no" });
    let end = check(hard(), &[("reflect", &[Reply::ok(better), reflection(true, false)])]);
    let plans: Vec<String> = end.effects.iter().filter(|effect| effect.name() == "plan").map(words).collect();
    assert!(
        !plans[0].contains("tower is missing") && plans[1].contains("- The tower is missing.") && plans[1].contains("Search the tower."),
        "{}",
        plans[1]
    );
    assert_eq!((&end.output()["reflections"][0]["final_response"], end.count("model answer")), (&Value::Null, 1), "not reached is no answer");
    let done = json!({ "goal_achieved": true, "should_continue": false, "issues_found": [], "plan_adjustments": null, "final_response": "It was built in 1901 [1][7]." });
    let end = check(hard(), &[("reflect", &[Reply::ok(done)])]);
    assert_eq!((end.count("model answer"), &end.output()["refused"]), (0, &json!([7])));
    assert!(end.output()["answer"].as_str().unwrap().starts_with("It was built in 1901 [1]."), "{}", end.output());
}

#[test]
fn r6_a_world_that_hangs_in_any_phase_still_gives_an_answer_in_time() {
    let limits = Limits::default();
    for hanging in ["registry.tools", "think", "plan", "docs.search", "web.search", "reflect", "all but the answer"] {
        let end = play("reason", hard(), &mut |effect, deadline_ms| {
            let hangs = effect.name() == hanging || (hanging == "all but the answer" && effect.name() != "answer");
            let late = || failed(FailureKind::Timeout).taking_us(deadline_ms * 1_000);
            Some(if hangs { late() } else { usual(effect.name()) })
        });
        assert!(end.output()["answer"].as_str().unwrap().contains("1901"), "{hanging}: {}", end.output());
        assert!(end.took_us <= limits.iteration_ms * 1_000, "{hanging}: {} ms", end.took_us / 1_000);
        assert_eq!(end.output()["iterations"], 1);
        if hanging != "docs.search" && hanging != "web.search" {
            assert!(!end.output()["degraded"].as_array().unwrap().is_empty(), "{hanging}");
        }
    }
}

#[test]
fn r6_limits_are_the_documents_and_can_be_others() {
    let phases =
        |limits| with_limits(limits)["phases"].as_array().unwrap().iter().map(|phase| phase["limit_ms"].as_u64().unwrap()).collect::<Vec<_>>();
    assert_eq!(phases(Limits::default()), [10_000, 15_000, 10_000, 60_000]);
    assert_eq!(phases(serde_json::from_value(json!({ "plan_ms": 40_000 })).unwrap()), [10_000, 40_000, 10_000, 60_000]);
    // An effect has no longer than its phase.
    let mut seen = Vec::new();
    let _ = play("reason", hard(), &mut |effect, deadline_ms| {
        seen.push((effect.name().to_owned(), deadline_ms));
        Some(usual(effect.name()))
    });
    for (name, limit) in [("think", 10_000), ("plan", 15_000), ("reflect", 10_000)] {
        assert!(seen.iter().any(|(seen, deadline)| seen == name && *deadline <= limit), "{name}: {seen:?}");
    }
}

fn with_limits(limits: Limits) -> Value {
    super::with(limits).unwrap().json()
}

#[test]
fn r8_a_plan_that_worked_is_remembered_and_used_again() {
    let first = check(hard(), &[]);
    let remembered = first.output()["to_remember"].clone();
    let kinds: Vec<&str> = remembered.as_array().unwrap().iter().filter_map(|one| one["kind"].as_str()).collect();
    assert!(kinds.contains(&"plan") && kinds.contains(&"pattern"), "{kinds:?}");
    let again = check(with(hard(), json!({ "remembered": remembered })), &[]);
    assert_eq!((again.count("model think"), again.count("model plan"), again.count("tool docs.search")), (0, 0, 1));
    assert!(again.output()["answer"].as_str().unwrap().contains("1901"));
    // Its tools must still be there.
    let gone = check(with(hard(), json!({ "remembered": remembered })), &[("registry.tools", &[tools(json!([]))])]);
    assert_eq!(gone.count("tool docs.search"), 0);
}

#[test]
fn r8_nothing_with_side_effects_is_remembered_or_recalled() {
    let append = plan(&[("files.append", json!({ "text": "x" }))]);
    let done = Reply::ok(json!({ "text": "done", "spans": [] }));
    let end = check(
        hard(),
        &[("plan", std::slice::from_ref(&append)), ("files.append", std::slice::from_ref(&done)), ("reflect", &[reflection(true, false)])],
    );
    let kinds: Vec<&str> = end.output()["to_remember"].as_array().unwrap().iter().filter_map(|one| one["kind"].as_str()).collect();
    assert_eq!((kinds, end.count("tool files.append")), (Vec::<&str>::new(), 1));
    // Not even of a turn that failed to do it, nor of the harmless turn after it.
    let end = check(
        hard(),
        &[
            ("plan", &[append, usual("plan")]),
            ("files.append", &[failed(FailureKind::Tool)]),
            ("reflect", &[reflection(false, true), reflection(true, false)]),
        ],
    );
    assert_eq!((&end.output()["to_remember"], end.count("tool docs.search")), (&json!([]), 1));
    // Nor is a plan taken that somebody put there.
    let planted = json!([{ "kind": "plan", "key": key(hard()["question"].as_str().unwrap()), "value": {
        "steps": [{ "tool": "files.append", "arguments": { "text": "evil" } }], "estimated_complexity": "simple" } }]);
    let end = check(with(hard(), json!({ "remembered": planted })), &[]);
    assert_eq!((end.count("tool files.append"), end.count("model plan")), (0, 1));
}

#[test]
fn r8_a_remembered_plan_that_did_not_do_is_forgotten() {
    let remembered = check(hard(), &[]).output()["to_remember"].clone();
    let missed = check(with(hard(), json!({ "remembered": remembered })), &[("reflect", &[reflection(false, false)])]);
    assert_eq!(missed.count("model plan"), 0);
    let plans: Vec<&Value> = missed.output()["to_remember"].as_array().unwrap().iter().filter(|one| one["kind"] == "plan").collect();
    assert_eq!((plans.len(), &plans[0]["value"]), (1, &Value::Null), "null takes the place of the old one");
}

#[test]
fn s7_a_plan_in_the_wrong_form_is_still_read() {
    let said = json!({ "steps": [{ "tool": "web.search", "arguments": { "query": "tower" } }], "note": "no complexity" }).to_string();
    let refused = Reply::failed(graph::Failure::new(FailureKind::Invalid, "it does not fit").saying(format!("Here:\n{said}")));
    let end = check(hard(), &[("plan", &[refused])]);
    assert!(
        end.effects.contains(&graph::tool("web.search", json!({ "query": "tower" }))) && end.output()["degraded"] == json!([]),
        "{}",
        end.output()
    );
}

#[test]
fn a_follow_up_is_looked_up_with_what_it_follows() {
    let history = json!([{ "role": "user", "content": "Find the winner of the cup in 2019." }, { "role": "assistant", "content": "Ada." }]);
    let input = json!({ "question": "And in 2020?", "history": history, "model": large(), "settings": { "way": "agentic" } });
    let end = check(input, &[]);
    assert!(
        end.effects.contains(&graph::tool("docs.search", json!({ "query": "Find the winner of the cup in 2019. And in 2020?" }))),
        "{:?}",
        end.effects
    );
    assert_eq!(end.said[0].1, "And in 2020?", "the thread keeps what was said");
}

#[test]
fn r8_what_reflection_found_is_advice_to_the_next_planner() {
    let missed = reflection(false, false);
    let first = check(hard(), &[("reflect", &[missed])]);
    let remembered = first.output()["to_remember"].clone();
    let again = check(with(hard(), json!({ "remembered": remembered })), &[]);
    let told = again.effects.iter().find(|effect| effect.name() == "plan").map(words).unwrap();
    assert!(told.contains("A similar request taught this: Look elsewhere."), "{told}");
    assert_eq!(again.count("model reflect"), 1, "new results are judged anew");
}

#[test]
fn r9_a_model_that_fails_leads_to_the_direct_way_and_then_to_words() {
    let tried = check(simple(), &[("answer", &[failed(FailureKind::Tool), Reply::ok("It was built in 1901.")])]);
    assert_eq!((tried.path.last().unwrap().as_str(), tried.count("model answer")), ("direct", 2));
    assert!(tried.output()["answer"].as_str().unwrap().starts_with("It was built in 1901 [1]."), "{}", tried.output());
    // Nothing writes: what was found is listed.
    let listed = check(
        hard(),
        &[
            ("think", &[failed(FailureKind::Refused)]),
            ("plan", &[failed(FailureKind::Refused)]),
            ("reflect", &[failed(FailureKind::Refused)]),
            ("answer", &[failed(FailureKind::Refused)]),
        ],
    );
    assert!(listed.output()["answer"].as_str().unwrap().contains("The bridge was built in 1901 [1]"), "{}", listed.output());
    // Nothing was found either: an error in words.
    let nothing = check(json!({ "question": "What is it?", "model": large() }), &[("answer", &[failed(FailureKind::Refused)])]);
    assert!(
        matches!(&nothing.outcome, Outcome::Failed { fault } if fault.to_string().contains("no model answered: no luck")),
        "{:?}",
        nothing.outcome
    );
    // Back-off is the machine's: a failure that may pass is tried again by it.
    let passing = Reply::failed(graph::Failure::new(FailureKind::Network, "reset").retry());
    let end = check(json!({ "question": "What is it?", "model": large() }), &[("answer", &[passing.clone(), passing, Reply::ok("It is.")])]);
    assert_eq!((end.count("model answer"), &end.output()["answer"]), (3, &json!("It is.")));
}

#[test]
fn r12_a_simple_request_costs_one_model_call_as_the_direct_way_does() {
    let agentic = check(simple(), &[]);
    let direct = check(with(simple(), json!({ "way": "direct" })), &[]);
    let calls = |end: &Played| end.effects.iter().filter(|effect| effect.kind() == "model").count();
    assert_eq!((&agentic.output()["way"], calls(&agentic), calls(&direct)), (&json!("agentic"), 1, 1));
    assert!(agentic.output()["answer"].as_str().unwrap().contains("[1]"));
    // With a model of a fixed delay and tools at a tenth of it.
    let timed = |input: Value| {
        play("reason", input, &mut |effect, _| Some(usual(effect.name()).taking_us(if effect.kind() == "model" { 1_000_000 } else { 100_000 })))
            .took_us
    };
    let ratio = timed(simple()) as f64 / timed(with(simple(), json!({ "way": "direct" }))) as f64;
    assert!(ratio < 2.0, "{ratio}");
}

#[test]
fn without_tools_the_agentic_way_is_the_direct_one() {
    for nothing in [failed(FailureKind::Network), tools(json!([]))] {
        let end = check(hard(), &[("registry.tools", &[nothing]), ("answer", &[Reply::ok("It is so.")])]);
        assert_eq!((&end.output()["answer"], end.count("model plan"), end.count("model reflect")), (&json!("It is so."), 0, 0));
    }
}

#[test]
fn a_small_model_gets_the_short_forms() {
    let mut input = hard();
    input["model"] = json!({ "is_small": true, "context_tokens": 8_192 });
    let small = plan(&[("docs.search", json!({ "query": "bridge" }))]);
    let end = check(input, &[("plan", &[small]), ("reflect", &[Reply::ok(json!({ "goal_achieved": true, "should_continue": false }))])]);
    assert_eq!(end.count("model think"), 0);
    let Effect::CallModel(call) = end.effects.iter().find(|effect| effect.name() == "reflect").unwrap() else { panic!() };
    assert_eq!(call.schema.as_ref().unwrap()["required"], json!(["goal_achieved", "should_continue"]));
    assert!(end.output()["answer"].as_str().unwrap().contains("1901"));
}

#[test]
fn a_plan_waits_for_a_person_if_asked_to() {
    let mut input = hard();
    input["approve"] = json!("plan");
    let yes = check(input.clone(), &[("person", &[Reply::ok(json!({ "approve": true }))])]);
    assert!(yes.path.contains(&"approve_plan".to_owned()) && yes.count("tool docs.search") == 1);
    let mended = json!({ "approve": true, "steps": [{ "tool": "web.search", "arguments": { "query": "mine" } }] });
    let mended = check(input.clone(), &[("person", &[Reply::ok(mended)])]);
    assert!(mended.effects.contains(&graph::tool("web.search", json!({ "query": "mine" }))) && mended.count("tool docs.search") == 0);
    let no = check(input, &[("person", &[Reply::ok(json!({ "approve": false }))])]);
    assert_eq!((&no.output()["answer"], no.count("tool docs.search")), (&json!("I was asked not to carry out this plan."), 0));
}
