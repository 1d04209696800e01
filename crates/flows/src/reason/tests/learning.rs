//! Reflection, what a run remembers, and what it asks the person.

use super::*;

#[test]
fn r5_reflection_decides_and_its_text_reaches_the_planner_and_the_answer() {
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
fn r8_a_plan_that_worked_is_remembered_and_used_again() {
    let first = check(hard(), &[]);
    let remembered = first.output()["to_remember"].clone();
    let kinds: Vec<&str> = remembered.as_array().unwrap().iter().filter_map(|one| one["kind"].as_str()).collect();
    assert!(kinds.contains(&"plan") && kinds.contains(&"pattern"), "{kinds:?}");
    let again = check(with(hard(), json!({ "remembered": remembered })), &[]);
    assert_eq!((again.count("model plan"), again.count("tool docs.search")), (0, 1));
    assert!(again.output()["answer"].as_str().unwrap().contains("1901"));
    // Its tools must still exist.
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
    // Not even after a failed iteration, nor in the harmless one after it.
    let end = check(
        hard(),
        &[
            ("plan", &[append, usual("plan")]),
            ("files.append", &[failed(FailureKind::Tool)]),
            ("reflect", &[reflection(false, true), reflection(true, false)]),
        ],
    );
    assert_eq!((&end.output()["to_remember"], end.count("tool docs.search")), (&json!([]), 1));
    // A plan inserted by someone else is not used either.
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
fn r8_what_reflection_found_is_advice_to_the_next_planner() {
    let missed = reflection(false, false);
    let first = check(hard(), &[("reflect", &[missed])]);
    let remembered = first.output()["to_remember"].clone();
    let again = check(with(hard(), json!({ "remembered": remembered })), &[]);
    let prompt_text = again.effects.iter().find(|effect| effect.name() == "plan").map(words).unwrap();
    assert!(prompt_text.contains("A similar request taught this: Look elsewhere."), "{prompt_text}");
    assert_eq!(again.count("model reflect"), 1, "new results are judged anew");
}

#[test]
fn r5_the_call_that_answers_one_step_may_reply_that_something_is_missing() {
    let missing = Reply::ok("MISSING: the year of the tower");
    let end = check(simple(), &[("answer", &[missing, Reply::ok("The bridge was built in 1901 [1].")])]);
    assert_eq!((&end.output()["iterations"], end.count("model reflect")), (&json!(2), 0));
    let again = end.effects.iter().rfind(|effect| effect.name() == "plan").map(words).unwrap();
    assert!(again.contains("- the year of the tower"), "{again}");
    // In the last iteration nothing can be reported as missing.
    let last = check(with(simple(), json!({ "max_iterations": 1 })), &[("answer", &[Reply::ok("The bridge was built in 1901 [1].")])]);
    assert!(!words(last.effects.iter().find(|effect| effect.name() == "answer").unwrap()).contains("MISSING"));
}

#[test]
fn r13_what_only_the_user_knows_is_asked() {
    let unclear =
        Reply::ok(json!({ "steps": [], "ask_user": "Which bridge do you mean?", "estimated_complexity": "simple", "success_criteria": [] }));
    let script: Script<'_> = &[("plan", &[unclear.clone(), usual("plan")]), ("person", &[Reply::ok("The stone one")])];
    let end = check(simple(), script);
    assert!(end.effects.iter().any(|effect| matches!(effect, Effect::AskPerson(question) if question.prompt == "Which bridge do you mean?")));
    let again = end.effects.iter().rfind(|effect| effect.name() == "plan").map(words).unwrap();
    assert!(again.contains("The user was asked: Which bridge do you mean?\nThe user answered: The stone one"), "{again}");
    assert!(end.output()["answer"].as_str().unwrap().contains("1901"));
    // The number of questions is limited, and none is asked if a quick answer is wanted.
    let ever = check(
        simple(),
        &[("plan", std::slice::from_ref(&unclear)), ("person", &[failed(FailureKind::Cancelled)]), ("answer", &[Reply::ok("Some bridge.")])],
    );
    assert_eq!((ever.count("person person"), &ever.output()["answer"]), (2, &json!("Some bridge.")));
    let quick = check(with(simple(), json!({ "depth": "quick" })), &[("plan", &[unclear]), ("answer", &[Reply::ok("Some bridge.")])]);
    assert_eq!(quick.count("person person"), 0);
}

#[test]
fn a_plan_waits_for_a_person_if_asked_to() {
    let mut input = hard();
    input["approve"] = json!("plan");
    let yes = check(input.clone(), &[("person", &[Reply::ok(json!({ "approve": true }))])]);
    assert!(yes.path.contains(&"approve_plan".to_owned()) && yes.count("tool docs.search") == 1);
    let changed = json!({ "approve": true, "steps": [{ "tool": "web.search", "arguments": { "query": "mine" } }] });
    let changed = check(input.clone(), &[("person", &[Reply::ok(changed)])]);
    assert!(changed.effects.contains(&graph::tool("web.search", json!({ "query": "mine" }))) && changed.count("tool docs.search") == 0);
    let no = check(input.clone(), &[("person", &[Reply::ok(json!({ "approve": false }))])]);
    assert_eq!((&no.output()["answer"], no.count("tool docs.search")), (&json!("I was asked not to carry out this plan."), 0));
    let no = check(input.clone(), &[("person", &[Reply::ok(json!({ "approve": false, "reason": "too slow" }))])]);
    assert_eq!(no.output()["answer"], "I was asked not to carry out this plan: too slow.");
    let revise = Reply::ok(json!({ "approve": false, "revise": "use the web" }));
    let revised = check(input, &[("person", &[revise, Reply::ok(json!({ "approve": true }))])]);
    let plans: Vec<String> = revised.effects.iter().filter(|effect| effect.name() == "plan").map(words).collect();
    assert!(plans.len() == 2 && plans[1].contains("- use the web") && plans[1].contains("docs.search"), "{plans:?}");
}
