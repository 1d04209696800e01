//! Executing the steps of a plan: order, retries, side effects, calls.

use super::*;

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
fn r4_a_result_has_success_output_error_time_and_tool() {
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
    let tried = |end: &PlayedRun| -> Vec<String> {
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
    let prompt_text = never.effects.iter().find(|effect| effect.name() == "reflect").map(words).unwrap();
    assert!(prompt_text.contains("failed: tool: no luck"), "{prompt_text}");
}

#[test]
fn r4_what_changes_something_is_never_done_twice() {
    let append = plan(&[("files.append", json!({ "text": "x" }))]);
    for kind in [FailureKind::Tool, FailureKind::InDoubt, FailureKind::Timeout, FailureKind::Network, FailureKind::Refused] {
        // Not even if the reflection wants to continue and the planner plans it again.
        for reflected in [reflection(false, false), reflection(false, true)] {
            let script: Script<'_> = &[("plan", std::slice::from_ref(&append)), ("files.append", &[failed(kind)]), ("reflect", &[reflected])];
            let end = check(hard(), script);
            assert_eq!((end.count("tool files.append"), end.count("tool docs.search")), (1, 0), "{kind}");
            assert_eq!(end.output()["results"][0]["success"], false);
            assert!(end.output()["answer"].as_str().unwrap().contains("Not done: files.append: "), "{kind}: {}", end.output()["answer"]);
        }
    }
}

#[test]
fn r4_what_changes_something_is_done_in_order_and_not_after_a_failure() {
    let steps = plan(&[
        ("docs.search", json!({ "query": "a" })),
        ("files.append", json!({ "text": "1" })),
        ("web.search", json!({ "query": "b" })),
        ("files.append", json!({ "text": "2" })),
    ]);
    let done = Reply::ok(json!({ "text": "written", "spans": [] }));
    let waves = |append: &Reply| {
        let graph = flow().unwrap();
        let mut run = graph::Run::start(&graph, graph::Start::new("reason", "t", "r", simple())).unwrap();
        let mut waves = Vec::new();
        while let graph::Next::Perform(jobs) = run.next() {
            waves.push(jobs.iter().map(|job| job.effect.name().to_owned()).collect::<Vec<_>>().join(" "));
            for job in jobs {
                let reply = match job.effect.name() {
                    "plan" => steps.clone(),
                    "files.append" => append.clone(),
                    name => usual(name),
                };
                run.feed(job.task, job.attempt, reply).unwrap();
            }
        }
        waves
    };
    assert_eq!(waves(&done)[2..6], ["docs.search", "files.append", "web.search", "files.append"]);
    let stopped = waves(&failed(FailureKind::Tool));
    assert_eq!(stopped[2..5], ["docs.search", "files.append", "web.search"]);
    assert_eq!(stopped.iter().filter(|wave| wave.contains("files.append")).count(), 1, "{stopped:?}");
}

#[test]
fn r4_what_was_done_is_not_done_again_in_a_later_iteration() {
    let first = plan(&[("files.append", json!({ "text": "x" })), ("web.search", json!({ "query": "tower" }))]);
    let done = Reply::ok(json!({ "text": "notes.txt is written and holds 2 bytes", "data": { "path": "notes.txt", "bytes": 2 }, "spans": [] }));
    let script: Script<'_> = &[("plan", &[first]), ("files.append", &[done]), ("reflect", &[reflection(false, true), reflection(true, false)])];
    let end = check(hard(), script);
    assert_eq!((end.count("tool files.append"), end.count("tool web.search")), (1, 2), "looking up twice does no harm");
    let again = end.effects.iter().rfind(|effect| effect.name() == "plan").map(words).unwrap();
    assert!(again.contains("Already done, not to be repeated:\n- files.append {\"text\":\"x\"}: notes.txt is written"), "{again}");
    assert_eq!(end.output()["files"], json!([{ "path": "notes.txt", "bytes": 2 }]));
}

#[test]
fn r4_what_needs_a_failed_step_is_not_done() {
    let chained = plan(&[("docs.search", json!({ "query": "bridge" })), ("web.search", json!({ "query": "{{1}}" }))]);
    let end = check(hard(), &[("plan", &[chained]), ("docs.search", &[failed(FailureKind::Budget)])]);
    let results = &end.output()["results"];
    assert_eq!((&results[0]["success"], &results[1]["error"]), (&json!(false), &json!("it needs what step 1 did not find")));
    // A step that succeeds on the second try is used.
    let chained = plan(&[("docs.search", json!({ "query": "the bridge" })), ("web.search", json!({ "query": "{{1}}" }))]);
    let end = check(hard(), &[("plan", &[chained]), ("docs.search", &[failed(FailureKind::Invalid), usual("docs.search")])]);
    assert_eq!(end.output()["results"][1]["success"], true);
    assert!(end.effects.contains(&graph::tool("web.search", json!({ "query": "The bridge was built in 1901." }))), "{:?}", end.effects);
}

/// Milliseconds with a model of 1,000 ms and tools of 100 ms, with parallel calls counted once.
fn took_ms(input: Value, script: Script<'_>) -> u64 {
    let graph = flow().unwrap();
    let mut run = graph::Run::start(&graph, graph::Start::new("reason", "t", "r", input)).unwrap();
    let mut took_ms = 0;
    while let graph::Next::Perform(jobs) = run.next() {
        took_ms += jobs.iter().map(|job| if job.effect.kind() == "model" { 1_000 } else { 100 }).max().unwrap_or_default();
        for job in jobs {
            let reply = script
                .iter()
                .find(|(name, _)| *name == job.effect.name())
                .map_or_else(|| usual(job.effect.name()), |(_, replies)| replies[0].clone());
            run.feed(job.task, job.attempt, reply).unwrap();
        }
    }
    took_ms
}

#[test]
fn r12_a_plan_of_one_step_takes_one_model_call_or_two() {
    let mut drafted = json!({ "analysis": "A year is wanted.", "steps": [{ "tool": "docs.search", "arguments": { "query": "bridge" } }], "estimated_complexity": "simple", "success_criteria": [] });
    drafted["answer"] = json!("The bridge was built in 1901.");
    let supported: Script<'_> = &[("plan", &[Reply::ok(drafted.clone())])];
    let calls = |end: &PlayedRun| end.effects.iter().filter(|effect| effect.kind() == "model").count();
    // The planner's draft, checked against the step's result.
    let end = check(simple(), supported);
    assert_eq!((calls(&end), end.path.last().unwrap().as_str()), (1, "respond"));
    assert!(end.output()["answer"].as_str().unwrap().starts_with("The bridge was built in 1901 [1]."), "{}", end.output());
    // The results do not support it, so a model must read them.
    drafted["answer"] = json!("The bridge was built in 1899.");
    let end = check(simple(), &[("plan", &[Reply::ok(drafted)])]);
    assert_eq!((calls(&end), end.count("model answer")), (2, 1));
    assert!(!end.output()["answer"].as_str().unwrap().contains("1899"));
    let direct = took_ms(with(simple(), json!({ "way": "direct" })), &[]);
    let ratio = |script: Script<'_>| took_ms(simple(), script) as f64 / direct as f64;
    assert!(ratio(supported) < 2.0, "{}", ratio(supported));
    assert!(ratio(&[]) < 2.5, "plan and answer, no more: {}", ratio(&[]));
    // No step is needed: the plan contains the answer.
    let none = Reply::ok(json!({ "steps": [], "answer": "Paris.", "estimated_complexity": "simple", "success_criteria": [] }));
    let end = check(simple(), &[("plan", std::slice::from_ref(&none))]);
    assert_eq!((calls(&end), &end.output()["answer"]), (1, &json!("Paris.")));
}

#[test]
fn a_small_model_looks_up_the_question_itself_and_then_what_its_first_answer_names() {
    let small = |settings: Value| {
        let model = json!({ "is_small": true, "context_tokens": 8_192 });
        with(json!({ "question": "Where was the designer of the bridge born?", "docs": true, "model": model }), settings)
    };
    let facts = |sentence: &str, short: &str| Reply::ok(json!({ "facts": [{ "sentence": sentence, "source": 1 }], "short_answer": short }));
    let first = found("docs.search", &[("bridge", "The bridge was designed by Ida Lundgren.")]);
    let second =
        found("docs.search", &[("bridge", "The bridge was designed by Ida Lundgren."), ("Ida Lundgren", "Ida Lundgren was born in Varnholm.")]);
    let answers = [facts("The bridge was designed by Ida Lundgren.", "Ida Lundgren"), facts("Ida Lundgren was born in Varnholm.", "Varnholm")];
    let queries = |end: &PlayedRun| -> Vec<String> {
        let query = |effect: &Effect| match effect {
            Effect::CallTool(call) if call.tool == "docs.search" => call.arguments["query"].as_str().map(str::to_owned),
            _ => None,
        };
        end.effects.iter().filter_map(query).collect()
    };
    let end = check(small(json!({})), &[("answer", &answers), ("docs.search", &[first.clone(), first.clone(), second])]);
    let asked = queries(&end);
    assert_eq!(asked[..2], ["bridge", "Where was the designer of the bridge born?"]);
    assert!(asked[2].starts_with("Where was the designer of the bridge born? Ida Lundgren"), "{}", asked[2]);
    assert_eq!((asked.len(), &end.output()["short"]), (3, &json!("Varnholm")));
    // Nothing new is found, so the first answer stands and no further model call is made.
    let end = check(small(json!({})), &[("answer", &answers), ("docs.search", std::slice::from_ref(&first))]);
    assert_eq!((queries(&end).len(), end.count("model answer"), &end.output()["short"]), (3, 1, &json!("Ida Lundgren")));
    // With depth `quick` there is one lookup.
    let end = check(small(json!({ "depth": "quick", "way": "agentic" })), &[("answer", &answers), ("docs.search", &[first])]);
    assert_eq!((queries(&end).len(), end.count("model answer")), (2, 1));
}
