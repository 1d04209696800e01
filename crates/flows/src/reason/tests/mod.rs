mod learning;
mod steps;
mod tasks;

use graph::{Effect, FailureKind, Outcome, Reply};
use serde_json::{Value, json};

use super::*;
use crate::played::{PlayedRun, failed, found, play, tools, words};

type Script<'s> = &'s [(&'s str, &'s [Reply])];

/// Replies in turn for the named effects, the last one repeats; others succeed.
fn check(input: Value, script: Script<'_>) -> PlayedRun {
    let mut received = std::collections::BTreeMap::<String, usize>::new();
    play("reason", input, &mut |effect, _| {
        let at = received.entry(effect.name().to_owned()).or_default();
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
    Reply::ok(json!({ "analysis": "A year is wanted.", "steps": steps, "estimated_complexity": "moderate", "success_criteria": ["a year"] }))
}

fn reflection(goal_achieved: bool, should_continue: bool) -> Reply {
    Reply::ok(
        json!({ "goal_achieved": goal_achieved, "should_continue": should_continue, "issues_found": [], "plan_adjustments": "Look elsewhere.", "final_response": null }),
    )
}

fn large() -> Value {
    json!({ "is_small": false, "context_tokens": 32_000 })
}

/// A question for which every phase calls its model.
fn hard() -> Value {
    json!({ "question": "Think: how old is the bridge, and compare it with the tower.", "model": large(), "settings": { "depth": "deep" } })
}

fn simple() -> Value {
    json!({ "question": "Find the year the bridge was built.", "model": large() })
}

#[allow(clippy::needless_pass_by_value, reason = "cases read better with values")]
fn with(mut input: Value, settings: Value) -> Value {
    for (name, value) in settings.as_object().unwrap() {
        input["settings"][name] = value.clone();
    }
    input
}

#[test]
fn r1_the_phases_come_in_order_and_end_early() {
    let end = check(hard(), &[]);
    assert_eq!(end.path, ["decide", "iterate", "think", "plan", "execute", "reflect", "respond"]);
    assert_eq!((&end.output()["iterations"], &end.output()["way"]), (&json!(1), &json!("agentic")));
    assert!(end.output()["answer"].as_str().unwrap().starts_with("The bridge was built in 1901 [1]."));
    assert_eq!(end.messages.len(), 2);
}

#[test]
fn r1_there_are_at_most_five_iterations() {
    let two = plan(&[("docs.search", json!({ "query": "bridge" })), ("web.search", json!({ "query": "tower" }))]);
    let run =
        |settings: Value, reflections: &[Reply]| check(with(simple(), settings), &[("plan", std::slice::from_ref(&two)), ("reflect", reflections)]);
    let ever = reflection(false, true);
    for (settings, made) in [(json!({}), 5), (json!({ "max_iterations": 2 }), 2), (json!({ "depth": "deep" }), 10), (json!({ "depth": "quick" }), 1)]
    {
        let end = run(settings.clone(), std::slice::from_ref(&ever));
        assert_eq!((&end.output()["iterations"], end.count("model plan")), (&json!(made), made), "{settings}");
        assert_eq!(end.count("model answer"), 1);
    }
    assert_eq!(run(json!({}), &[ever, reflection(true, false)]).output()["iterations"], 2);
    assert_eq!(run(json!({}), &[reflection(false, false)]).output()["iterations"], 1);
}

#[test]
fn the_verifier_judges_the_answer_and_the_words_of_a_reflection_unless_rules_are_set() {
    let answered = json!({ "goal_achieved": true, "should_continue": false, "issues_found": [], "plan_adjustments": null, "final_response": "The bridge was built in 1901 [1]." });
    for (input, script) in [(simple(), None), (hard(), Some(Reply::ok(answered)))] {
        for (verify, is_judged) in [("fast", true), ("rules", false)] {
            let mut input = with(input.clone(), json!({ "verify": verify }));
            input["model"]["has_verifier"] = json!(true);
            let script: Vec<(&str, &[Reply])> = script.iter().map(|reply| ("reflect", std::slice::from_ref(reply))).collect();
            let end = check(input, &script);
            assert_eq!(end.count("tool evidence.judge"), usize::from(is_judged), "{:?}", end.effect_names());
            assert_eq!(end.output()["sentences"][0]["by"].as_str(), is_judged.then_some("verifier"));
            assert_eq!(end.path.last().map(String::as_str), Some(if is_judged { "check" } else { "respond" }));
        }
    }
}

#[test]
fn r2_a_direct_answer_is_one_call() {
    let end = check(json!({ "question": "What is the capital of France?", "model": large() }), &[]);
    // The tools are listed, because the question could be about one of them.
    assert_eq!((end.effect_names(), &end.output()["why"]), (vec!["tool registry.tools".to_owned(), "model answer".to_owned()], &json!("simple")));
    let quick = check(json!({ "question": "Quick: what is a plan?", "model": large() }), &[]);
    assert_eq!(quick.effect_names(), ["tool registry.tools", "model answer"]);
    let prompt_text = check(with(json!({ "question": "Hello", "model": large() }), json!({ "way": "agentic" })), &[]);
    assert_eq!(prompt_text.output()["way"], "agentic");
}

#[test]
fn r2_a_question_that_names_one_of_the_tools_is_planned() {
    let schema = json!({ "type": "object", "required": ["query"], "properties": { "query": { "type": "string" } } });
    let listed = tools(json!([{ "name": "stories.search_stories", "schema": schema, "read_only": true }]));
    let planned = plan(&[("stories.search_stories", json!({ "query": "tag:payments" }))]);
    let script: Script<'_> = &[
        ("registry.tools", &[listed]),
        ("plan", &[planned]),
        ("stories.search_stories", &[found("stories.search_stories", &[("stories", "Found 15 stories.")])]),
        ("answer", &[Reply::ok("15 stories carry it [1].")]),
    ];
    let asked = |question: &str| check(json!({ "question": question, "model": large() }), script);
    let end = asked("How many of the team's stories carry the tag payments?");
    assert_eq!((&end.output()["why"], end.count("tool stories.search_stories")), (&json!("names_tool"), 1));
    assert_eq!(asked("What is the capital of France?").output()["why"], "simple");
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
fn r14_a_plan_that_cannot_be_used_is_made_again_with_its_error_then_simplified_then_left_out() {
    let good = plan(&[("docs.search", json!({ "query": "bridge year" }))]);
    let cases = [
        (plan(&[("no.such", json!({ "query": "bridge year" }))]), "there is no tool \"no.such\""),
        (plan(&[("docs.search", json!({ "query": "bridge year", "colour": "red" }))]), "has no argument \"colour\""),
        (plan(&[("docs.search", json!({ "query": "{{4}}" }))]), "it refers to step 4, which is not before it"),
        (Reply::ok(json!({ "thoughts": "none" })), "it has no `steps`"),
        (Reply::ok("I would search."), "there is no JSON in the reply"),
    ];
    for (broken, why) in cases {
        let end = check(simple(), &[("plan", &[broken.clone(), good.clone()])]);
        let asked: Vec<String> = end.effects.iter().filter(|effect| effect.name() == "plan").map(words).collect();
        assert!(asked.len() == 2 && !asked[0].contains("could not be used") && asked[1].contains(why), "{why}: {asked:?}");
        assert!(end.output()["answer"].as_str().unwrap().contains("1901") && end.output()["degraded"] == json!([]), "{}", end.output());
        // The third plan may have one step; if it fails too, the answer is direct and `degraded` states that.
        let never = check(simple(), &[("plan", &[broken]), ("answer", &[Reply::ok("I do not know.")])]);
        let Effect::CallModel(last) = never.effects.iter().rfind(|effect| effect.name() == "plan").unwrap() else { panic!() };
        assert_eq!((never.count("model plan"), &last.schema.as_ref().unwrap()["properties"]["steps"]["maxItems"]), (3, &json!(1)));
        assert!(last.messages[0].content.contains("Plan one single step now"));
        assert_eq!((never.count("tool docs.search"), &never.output()["answer"]), (0, &json!("I do not know.")));
        assert!(never.output()["degraded"][0].as_str().unwrap().contains(why), "{}", never.output());
    }
}

#[test]
fn r14_without_a_usable_plan_in_a_later_iteration_the_results_so_far_are_reported() {
    // Two steps, so that the first iteration ends with a reflection.
    let good = plan(&[("docs.search", json!({ "query": "bridge" })), ("web.search", json!({ "query": "tower" }))]);
    let broken = plan(&[("no.such", json!({}))]);
    let end = check(simple(), &[("plan", &[good, broken]), ("reflect", &[reflection(false, true)])]);
    assert_eq!((end.count("model plan"), end.count("model reflect"), end.count("tool docs.search")), (4, 1, 1), "{:?}", end.effect_names());
    assert!(end.output()["answer"].as_str().unwrap().contains("1901"), "{}", end.output());
    assert!(end.output()["degraded"].to_string().contains("no.such"), "{}", end.output());
}

#[test]
fn s11_every_tool_is_offered_to_the_planner_and_labelled() {
    let remove = plan(&[("files.remove", json!({ "path": "old.txt" }))]);
    let removed = Reply::ok(json!({ "text": "old.txt is removed", "spans": [] }));
    let end = check(simple(), &[("plan", &[remove]), ("files.remove", &[removed])]);
    assert_eq!(end.count("tool files.remove"), 1, "whether it may run is the permission check's to say");
    let prompt_text = end.effects.iter().find(|effect| effect.name() == "plan").map(words).unwrap();
    assert!(prompt_text.contains("- files.remove(path: string, size?: integer) [may change something]: Removes."), "{prompt_text}");
    assert!(prompt_text.contains("- docs.search(query: string, size?: integer) [read-only]: Finds."), "{prompt_text}");
    let only = check(with(simple(), json!({ "enabled_tools": ["web"] })), &[("plan", &[plan(&[("web.search", json!({ "query": "x" }))])])]);
    let prompt_text = only.effects.iter().find(|effect| effect.name() == "plan").map(words).unwrap();
    assert!(
        prompt_text.contains("- web.search(") && !prompt_text.contains("- docs.search(") && !prompt_text.contains("- registry.tools("),
        "{prompt_text}"
    );
}

#[test]
fn s11_a_planner_that_misses_a_tool_looks_for_more() {
    let close = tools(
        json!([{ "name": "tickets.close", "description": "Closes a ticket.", "schema": { "type": "object", "required": ["id"], "properties": { "id": { "type": "integer" } } } }]),
    );
    let search = plan(&[("registry.tools", json!({ "query": "close a ticket" }))]);
    let closing = plan(&[("tickets.close", json!({ "id": 7 }))]);
    let closed = Reply::ok(json!({ "text": "Ticket 7 is closed.", "spans": [] }));
    let input = json!({ "question": "Close ticket 7", "model": large() });
    // As many as a listing holds: there may be more.
    let mut many: Vec<Value> = (0..24).map(|number| json!({ "name": format!("other.tool{number}"), "schema": {} })).collect();
    many.push(json!({ "name": "docs.search", "schema": { "type": "object", "required": ["query"], "properties": { "query": { "type": "string" } } }, "read_only": true }));
    let full = tools(json!(many));
    let listings = [full.clone(), full, close];
    let end = check(input.clone(), &[("registry.tools", &listings), ("plan", &[search.clone(), closing]), ("tickets.close", &[closed])]);
    assert_eq!((end.count("tool tickets.close"), end.count("model plan")), (1, 2));
    assert!(end.effects.contains(&graph::tool("registry.tools", json!({ "query": "close a ticket", "size": 8 }))));
    assert_eq!(end.notes("tools_found")[0]["found"], json!(["tickets.close"]));
    // The number of searches is limited.
    let ever = check(input, &[("registry.tools", &listings), ("plan", &[search]), ("answer", &[Reply::ok("No tool can do that.")])]);
    assert_eq!((ever.notes("tools_found").len(), &ever.output()["answer"]), (2, &json!("No tool can do that.")));
}

#[test]
fn r6_a_world_that_hangs_in_any_phase_still_gives_an_answer_in_time() {
    let limits = Limits::default();
    for hanging in ["registry.tools", "plan", "docs.search", "web.search", "reflect", "all but the answer"] {
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
fn r6_limits_are_the_documents_and_a_user_can_set_others() {
    let phases: Vec<u64> = flow().unwrap().json()["phases"].as_array().unwrap().iter().map(|phase| phase["limit_ms"].as_u64().unwrap()).collect();
    assert_eq!(phases, [10_000, 15_000, 10_000, 60_000, 480_000, 600_000]);
    // The deadline of an effect is within that of its phase.
    let deadline = |input: Value, name: &str| {
        let mut seen = Vec::new();
        let _ = play("reason", input, &mut |effect, deadline_ms| {
            seen.push((effect.name().to_owned(), deadline_ms));
            Some(usual(effect.name()))
        });
        seen.iter().find(|(seen, _)| seen == name).unwrap_or_else(|| panic!("{name}: {seen:?}")).1
    };
    assert_eq!((deadline(hard(), "registry.tools"), deadline(hard(), "plan"), deadline(hard(), "reflect")), (10_000, 15_000, 10_000));
    let set = || with(hard(), json!({ "think_seconds_max": 2, "plan_seconds_max": 40, "reflect_seconds_max": 3 }));
    assert_eq!((deadline(set(), "registry.tools"), deadline(set(), "plan"), deadline(set(), "reflect")), (2_000, 40_000, 3_000));
    assert_eq!(deadline(with(hard(), json!({ "iteration_seconds_max": 4 })), "plan"), 4_000);
    let mut small = hard();
    small["model"] = json!({ "is_small": true, "context_tokens": 8_192 });
    assert_eq!(deadline(small, "plan"), 150_000, "a small model is slow");
}

#[test]
fn r14_the_whole_run_has_a_time_limit_and_keeps_time_for_the_answer() {
    // Every call takes its whole deadline.
    let run = |seconds: u32| {
        let input = with(hard(), json!({ "run_seconds_max": seconds, "iteration_seconds_max": 3_000, "reflect_seconds_max": 3_000 }));
        play("reason", input, &mut |effect, deadline_ms| {
            let reply = if effect.name() == "reflect" { reflection(false, true) } else { usual(effect.name()) };
            // The two tool listings run in parallel, but times are added up here.
            Some(reply.taking_us(match effect.name() {
                "answer" => 500_000,
                "registry.tools" => 0,
                _ => deadline_ms * 900,
            }))
        })
    };
    for seconds in [5, 60, 200] {
        let end = run(seconds);
        assert!(end.took_us <= u64::from(seconds) * 1_000_000, "{seconds}: {}", end.took_us);
        assert!(end.output()["answer"].as_str().unwrap().contains("1901"), "{seconds}: {}", end.output());
    }
    assert!(run(5).output()["iterations"].as_u64() < run(200).output()["iterations"].as_u64());
    // A model that never replies ends the run in time and with a message.
    let silent = play("reason", with(hard(), json!({ "run_seconds_max": 30 })), &mut |effect, deadline_ms| {
        Some(if effect.kind() == "model" { failed(FailureKind::Timeout).taking_us(deadline_ms * 1_000) } else { usual(effect.name()) })
    });
    assert!(silent.took_us <= 30_000_000, "{}", silent.took_us);
}

#[test]
fn s7_a_plan_in_the_wrong_form_is_still_read() {
    let reply = json!({ "steps": [{ "tool": "web.search", "arguments": { "query": "tower" } }], "note": "no complexity" }).to_string();
    let refused = Reply::failed(graph::Failure::new(FailureKind::Invalid, "it does not fit").with_output(format!("Here:\n{reply}")));
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
    // No model plans, so the question itself is looked up.
    let end = check(input, &[("plan", &[failed(FailureKind::Refused)])]);
    assert!(
        end.effects.contains(&graph::tool("docs.search", json!({ "query": "Find the winner of the cup in 2019. And in 2020?" }))),
        "{:?}",
        end.effects
    );
    assert_eq!(end.messages[0].1, "And in 2020?", "the thread keeps the message");
}

#[test]
fn r9_a_model_that_fails_leads_to_the_direct_mode_and_then_to_a_message() {
    let tried = check(simple(), &[("answer", &[failed(FailureKind::Tool), Reply::ok("It was built in 1901.")])]);
    assert_eq!((tried.path.last().unwrap().as_str(), tried.count("model answer")), ("direct", 2));
    assert!(tried.output()["answer"].as_str().unwrap().starts_with("It was built in 1901 [1]."), "{}", tried.output());
    // The model is down: the run fails, and the results found are in a note.
    let mut question = hard();
    question["question"] = json!("How old is the bridge?");
    let run = |kind: FailureKind| check(question.clone(), &[("plan", &[failed(kind)]), ("reflect", &[failed(kind)]), ("answer", &[failed(kind)])]);
    let down = run(FailureKind::Refused);
    assert!(matches!(&down.outcome, Outcome::Failed { fault } if fault.to_string().contains("no model answered: no luck")), "{:?}", down.outcome);
    let found = down.notes(crate::no_model::FOUND)[0]["answer"].as_str().unwrap();
    assert!(found.contains("The bridge was built in 1901 [1]"), "{found}");
    // An exhausted budget is not a missing model: the results are listed.
    let listed = run(FailureKind::Budget);
    assert!(listed.output()["answer"].as_str().unwrap().contains("The bridge was built in 1901 [1]"), "{}", listed.output());
    // Nothing was found either: the run fails with a message.
    let nothing = check(json!({ "question": "What is it?", "model": large() }), &[("answer", &[failed(FailureKind::Refused)])]);
    assert!(
        matches!(&nothing.outcome, Outcome::Failed { fault } if fault.to_string().contains("no model answered: no luck")),
        "{:?}",
        nothing.outcome
    );
    // The engine retries transient failures with back-off.
    let passing = Reply::failed(graph::Failure::new(FailureKind::Network, "reset").retry());
    let end = check(json!({ "question": "What is it?", "model": large() }), &[("answer", &[passing.clone(), passing, Reply::ok("It is.")])]);
    assert_eq!((end.count("model answer"), &end.output()["answer"]), (3, &json!("It is.")));
}

#[test]
fn r13_depth_sets_how_much_is_done() {
    let two = plan(&[("docs.search", json!({ "query": "bridge" })), ("web.search", json!({ "query": "tower" }))]);
    let run = |depth: &str| check(with(simple(), json!({ "depth": depth })), &[("plan", std::slice::from_ref(&two))]);
    assert_eq!([run("quick").count("model reflect"), run("normal").count("model reflect"), run("deep").count("model reflect")], [0, 1, 1]);
    assert_eq!(check(with(simple(), json!({ "depth": "deep" })), &[]).count("model reflect"), 1, "also of one step");
    let who =
        |depth: &str| check(with(json!({ "question": "Who is she?", "model": large() }), json!({ "depth": depth })), &[]).output()["way"].clone();
    assert_eq!((who("quick"), who("normal"), who("deep")), (json!("direct"), json!("direct"), json!("agentic")));
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
    let Effect::CallModel(call) = end.effects.iter().find(|effect| effect.name() == "reflect").unwrap() else { panic!() };
    assert_eq!(call.schema.as_ref().unwrap()["required"], json!(["goal_achieved", "should_continue"]));
    assert!(end.output()["answer"].as_str().unwrap().contains("1901"));
}

#[test]
fn a_small_model_sees_the_tools_that_change_nothing_first_where_it_is_asked_a_question() {
    let sql = json!({ "type": "object", "required": ["sql"], "properties": { "sql": { "type": "string", "description": "One statement." } } });
    let listed = tools(json!([
        { "name": "db.execute", "description": "Changes data.", "schema": sql, "read_only": false },
        { "name": "db.query", "description": "Runs a SELECT.", "schema": sql, "read_only": true },
    ]));
    let prompt_text = |question: &str| {
        let input = json!({ "question": question, "model": { "is_small": true, "context_tokens": 8_192 }, "settings": { "way": "agentic" } });
        let end = check(input, &[("registry.tools", std::slice::from_ref(&listed)), ("plan", &[plan(&[])])]);
        let prompt_text = words(end.effects.iter().find(|effect| effect.name() == "plan").unwrap());
        assert!(prompt_text.contains("db.query(sql: string (One statement.)) [read-only]"), "{prompt_text}");
        prompt_text.find("db.query(").unwrap() < prompt_text.find("db.execute(").unwrap()
    };
    assert_eq!((prompt_text("How many customers live in Bern?"), prompt_text("Delete the customers in Bern")), (true, false));
}
