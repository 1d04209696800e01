//! Tasks with the built-in tools.

use graph::{Effect, FailureKind, Reply};
use serde_json::{Value, json};

use super::{check, flow, large, plan, reflection, simple, usual, with};
use crate::played::{PlayedRun, failed, play, tools, words};

fn task_tools() -> Reply {
    let object = |required: &[&str], properties: Value| json!({ "type": "object", "required": required, "additionalProperties": false, "properties": properties });
    let text = json!({ "type": "string" });
    tools(json!([
        { "name": "search.search", "description": "Searches the web.", "schema": object(&["query"], json!({ "query": text })), "read_only": true },
        { "name": "files.read", "description": "Reads a file.", "schema": object(&["path"], json!({ "path": text })), "read_only": true },
        { "name": "files.write", "description": "Writes a file.", "schema": object(&["path", "content", "mode"], json!({ "path": text, "content": text, "mode": { "enum": ["create", "replace"] } })), "read_only": false, "destructive": true },
        { "name": "code.run_python", "description": "Runs Python.", "schema": object(&["code"], json!({ "code": text, "inputs": { "type": "object" } })), "read_only": true },
        { "name": "calc.calculate", "description": "Calculates.", "schema": object(&["expression"], json!({ "expression": text })), "read_only": true },
    ]))
}

#[allow(clippy::needless_pass_by_value, reason = "cases read better with values")]
fn reply_of(tool: &str, text: &str, data: Value) -> Reply {
    let trust = if tool.starts_with("files") { evidence::Trust::Own } else { evidence::Trust::Computed };
    Reply::ok(json!(evidence::found(tool, trust, text, Some(&data))))
}

/// Replies of the built-in tools.
fn task_reply(effect: &Effect) -> Reply {
    let Effect::CallTool(call) = effect else { return usual(effect.name()) };
    let argument = |name: &str| call.arguments[name].as_str().unwrap_or_default().to_owned();
    match call.tool.as_str() {
        "registry.tools" => task_tools(),
        "files.read" => {
            let content = "day,rain\nmon,2\ntue,5\n";
            let data = json!({ "path": argument("path"), "passages": [{ "text": content, "title": "data.csv" }] });
            reply_of("files.read", &format!("{}, lines 1-3:\n{content}", argument("path")), data)
        }
        "files.write" => {
            let bytes = argument("content").len();
            let text = format!("{} is written and holds {bytes} bytes", argument("path"));
            reply_of("files.write", &text, json!({ "path": argument("path"), "bytes": bytes }))
        }
        "code.run_python" => reply_of("code.run_python", "3.5\n", json!({ "outcome": "ok", "stdout": "3.5\n", "result": null, "error": null })),
        "calc.calculate" => {
            let text = format!("{} = 522", argument("expression"));
            reply_of(
                "calc.calculate",
                &text,
                json!({ "expression": argument("expression"), "result": "522", "exact": true, "passages": [{ "text": text }] }),
            )
        }
        other => panic!("{other}"),
    }
}

fn task(question: &str, is_small: bool, planned: &Reply) -> PlayedRun {
    let model = if is_small { json!({ "is_small": true, "context_tokens": 8_192 }) } else { large() };
    play("reason", json!({ "question": question, "model": model }), &mut |effect, _| {
        Some(match effect.name() {
            "plan" => planned.clone(),
            "answer" => Reply::ok("It is done."),
            _ => task_reply(effect),
        })
    })
}

#[test]
fn r15_files_code_and_sums_are_carried_out_and_the_answer_lists_what_was_done() {
    let cases = [
        ("Calculate 12% of 4350", "calc.calculate", json!({ "expression": "12% of 4350" }), "12% of 4350 = 522 [1]"),
        ("Execute this Python code: print(3.5)", "code.run_python", json!({ "code": "print(3.5)" }), "3.5 [1]"),
        (
            "Create a file hello.txt with the text Hello",
            "files.write",
            json!({ "path": "hello.txt", "content": "Hello", "mode": "create" }),
            "hello.txt is written and holds 5 bytes [1]",
        ),
    ];
    for (question, tool, arguments, answer) in cases {
        let end = task(question, true, &plan(&[(tool, arguments.clone())]));
        assert!(end.effects.contains(&graph::tool(tool, arguments.clone())), "{:?}", end.effect_names());
        assert!(end.output()["answer"].as_str().unwrap().starts_with(answer), "{}", end.output()["answer"]);
        assert_eq!((end.count("model plan"), end.count("model answer"), end.count("tool search.search")), (1, 0, 0), "{question}");
        assert_eq!(end.output()["sources"].as_array().unwrap().len(), 1);
        // A large model is shown the results and writes the answer.
        let end = task(question, false, &plan(&[(tool, arguments)]));
        let prompt_text = end.effects.iter().find(|effect| effect.name() == "answer").map(words).unwrap();
        assert!(prompt_text.contains(answer.trim_end_matches(" [1]")), "{prompt_text}");
    }
    let written =
        task("Create a file hello.txt", true, &plan(&[("files.write", json!({ "path": "hello.txt", "content": "Hello", "mode": "create" }))]));
    assert_eq!(written.output()["files"], json!([{ "path": "hello.txt", "bytes": 5 }]));
}

#[test]
fn r15_a_chain_hands_plain_values_on() {
    let chain = plan(&[
        ("files.read", json!({ "path": "data.csv" })),
        ("code.run_python", json!({ "code": "print(mean(text))", "inputs": { "text": "{{1}}" } })),
        ("files.write", json!({ "path": "mean.txt", "content": "{{2}}", "mode": "create" })),
    ]);
    let question = "Read data.csv, compute the mean of column 2 in Python, write it to mean.txt";
    for is_small in [true, false] {
        let end = task(question, is_small, &chain);
        let code = json!({ "code": "print(mean(text))", "inputs": { "text": "day,rain\nmon,2\ntue,5\n" } });
        assert!(end.effects.contains(&graph::tool("code.run_python", code)), "{:?}", end.effects);
        assert!(
            end.effects.contains(&graph::tool("files.write", json!({ "path": "mean.txt", "content": "3.5", "mode": "create" }))),
            "{:?}",
            end.effects
        );
        assert_eq!(end.output()["files"], json!([{ "path": "mean.txt", "bytes": 3 }]));
        if is_small {
            assert!(
                end.output()["answer"].as_str().unwrap().starts_with("3.5 [1]\n\nmean.txt is written and holds 3 bytes [2]"),
                "{}",
                end.output()["answer"]
            );
        }
    }
}

#[test]
fn r15_an_exact_request_needs_no_planning() {
    let never = failed(FailureKind::Internal);
    let end = task("(3 + 4) * 12", false, &never);
    assert_eq!((end.count("model plan"), end.count("tool calc.calculate")), (0, 1));
    let end = task("code.run_python `print(3.5)`", false, &never);
    assert_eq!((end.count("model plan"), end.output()["answer"].as_str().unwrap().starts_with("3.5 [1]")), (0, true), "{}", end.output());
    // Keywords alone do not skip planning.
    for question in ["Execute this Python code: print(6*7)", "Create a file hello.txt", "Calculate 12% of 4350", "Find the year"] {
        assert_eq!(task(question, false, &plan(&[])).count("model plan"), 1, "{question}");
    }
}

#[test]
fn r15_the_planner_sees_examples_of_the_tools_at_hand_and_no_others() {
    let prompt_text =
        |is_small| task("Create a file", is_small, &plan(&[])).effects.iter().find(|effect| effect.name() == "plan").map(words).unwrap();
    for is_small in [true, false] {
        let prompt_text = prompt_text(is_small);
        assert!(prompt_text.contains(r#"{"steps":[{"#) && prompt_text.contains("costs.csv") && prompt_text.contains(r#"{{2}}"#), "{prompt_text}");
    }
    assert!(prompt_text(true).contains("(7 + 5) / 2") && !prompt_text(false).contains("8% of 1250"));
    let without = check(simple(), &[]);
    assert!(!words(without.effects.iter().find(|effect| effect.name() == "plan").unwrap()).contains("costs.csv"));
}

#[test]
fn r15_nothing_that_was_refused_or_failed_is_reported_as_done() {
    let write = plan(&[("files.write", json!({ "path": "hello.txt", "content": "Hello", "mode": "create" }))]);
    for is_small in [true, false] {
        let model = if is_small { json!({ "is_small": true, "context_tokens": 8_192 }) } else { large() };
        let end = play("reason", json!({ "question": "Create a file hello.txt", "model": model }), &mut |effect, _| {
            Some(match effect.name() {
                "plan" => write.clone(),
                "files.write" => Reply::failed(graph::Failure::new(FailureKind::Refused, "a person was asked to agree, and said no")),
                "answer" => Reply::ok("The file was created."),
                _ => task_reply(effect),
            })
        });
        let answer = end.output()["answer"].as_str().unwrap();
        assert!(answer.contains("Not done: files.write: refused: a person was asked to agree, and said no"), "{answer}");
        assert_eq!((end.count("tool files.write"), end.count("model reflect"), &end.output()["files"]), (1, 0, &json!([])), "no is no");
        let prompt_text = end.effects.iter().find(|effect| effect.name() == "answer").map(words).unwrap();
        assert!(prompt_text.contains("failed: refused: a person was asked to agree"), "{prompt_text}");
    }
}

#[test]
fn r14_a_request_to_act_that_nobody_plans_is_not_looked_up_instead() {
    for kind in [FailureKind::Timeout, FailureKind::Refused, FailureKind::Limit] {
        let end = task("Create a file hello.txt", true, &failed(kind));
        assert_eq!((end.count("tool search.search"), end.count("tool files.write")), (0, 0), "{kind}");
        let prompt_text = end.effects.iter().find(|effect| effect.name() == "answer").map(words).unwrap();
        assert!(prompt_text.contains("did not work; say so:\n- not planned: ") && prompt_text.contains("You cannot act here"), "{prompt_text}");
        // A question can be looked up as it is.
        let question =
            check(with(json!({ "question": "How old is the bridge?", "model": large() }), json!({ "way": "agentic" })), &[("plan", &[failed(kind)])]);
        assert_eq!(question.count("tool docs.search"), 1, "{kind}");
    }
}

#[test]
fn s11_a_permission_question_names_the_arguments_that_come_from_results() {
    let chain =
        plan(&[("files.read", json!({ "path": "a.txt" })), ("files.write", json!({ "path": "b.txt", "content": "Copy: {{1}}", "mode": "create" }))]);
    let graph = flow().unwrap();
    let input = json!({ "question": "Copy a.txt to b.txt", "model": large() });
    let mut run = graph::Run::start(&graph, graph::Start::new("reason", "t", "r", input)).unwrap();
    let mut filled = Vec::new();
    while let graph::Next::Perform(jobs) = run.next() {
        for job in jobs {
            if job.effect.name() == "files.write" {
                filled = job.filled.iter().map(|hole| hole.at.clone()).zip(job.filled_by.clone()).collect();
            }
            let reply = if job.effect.name() == "plan" { chain.clone() } else { task_reply(&job.effect) };
            run.feed(job.task, job.attempt, reply).unwrap();
        }
    }
    assert_eq!(filled, [("/arguments/content".to_owned(), "files.read".to_owned())]);
}

#[test]
fn r15_code_that_fails_is_planned_again_with_its_error() {
    let first = plan(&[("code.run_python", json!({ "code": "print(x)" }))]);
    let second = plan(&[("code.run_python", json!({ "code": "print(3.5)" }))]);
    let mut plans = [first, second].into_iter();
    let mut runs = 0;
    let end =
        play("reason", json!({ "question": "Run print(x) in Python", "model": { "is_small": true, "context_tokens": 8_192 } }), &mut |effect, _| {
            Some(match effect.name() {
                "plan" => plans.next().unwrap(),
                "code.run_python" => {
                    runs += 1;
                    if runs == 1 { Reply::failed(graph::Failure::new(FailureKind::Tool, "NameError: x")) } else { task_reply(effect) }
                }
                _ => task_reply(effect),
            })
        });
    assert_eq!((runs, end.count("tool search.search")), (2, 0), "code is never looked up");
    let again = end.effects.iter().rfind(|effect| effect.name() == "plan").map(words).unwrap();
    assert!(again.contains("NameError: x") && again.contains("print(x)"), "{again}");
    assert!(end.output()["answer"].as_str().unwrap().starts_with("3.5 [1]"), "{}", end.output()["answer"]);
}

#[test]
fn r14_a_tool_whose_failed_call_a_small_model_plans_again_is_not_offered_any_more() {
    let calculate = plan(&[("calc.calculate", json!({ "expression": "3.5 apples" }))]);
    let run = plan(&[("code.run_python", json!({ "code": "print(3.5)" }))]);
    let input =
        json!({ "question": "How much are 3.5 apples?", "model": { "is_small": true, "context_tokens": 8_192 }, "settings": { "way": "agentic" } });
    let mut plans = [calculate.clone(), calculate, run].into_iter();
    let end = play("reason", input, &mut |effect, _| {
        Some(match effect.name() {
            "plan" => plans.next().unwrap(),
            "calc.calculate" => Reply::failed(graph::Failure::new(FailureKind::Invalid, "apples are not a unit")),
            _ => task_reply(effect),
        })
    });
    let offers: Vec<bool> =
        end.effects.iter().filter(|effect| effect.name() == "plan").map(|effect| words(effect).contains("- calc.calculate(")).collect();
    assert_eq!(offers, [true, true, false]);
    assert!(end.output()["answer"].as_str().unwrap().starts_with("3.5 [1]"), "{}", end.output()["answer"]);
}

#[test]
fn a_short_result_replaces_its_wrong_summary_by_a_small_model() {
    let input = json!({ "question": "How many lines has data.csv?", "model": { "is_small": true, "context_tokens": 8_192 }, "settings": { "way": "agentic" } });
    let answered = |answer: Value| {
        let end = play("reason", input.clone(), &mut |effect, _| {
            Some(match effect.name() {
                "plan" => plan(&[("files.read", json!({ "path": "data.csv" }))]),
                "reflect" => reflection(true, false),
                "answer" => Reply::ok(answer.clone()),
                _ => task_reply(effect),
            })
        });
        end.output()["answer"].as_str().unwrap().to_owned()
    };
    let fact = |text: &str, short: &str| json!({ "facts": [{ "sentence": text, "source": 1 }], "short_answer": short });
    let wrong = answered(fact("data.csv holds 77 rows.", "77"));
    assert!(wrong.starts_with("files.read [1]") && wrong.contains("day,rain\nmon,2\ntue,5") && !wrong.contains("77"), "{wrong}");
    let right = answered(fact("mon,2", "mon,2"));
    assert!(right.contains("mon,2") && !right.starts_with("files.read"), "{right}");
}

#[test]
fn a_small_model_without_a_usable_plan_does_not_claim_that_it_acted() {
    let itself = plan(&[("files.write", json!({ "path": "b.txt", "content": "{{1}}", "mode": "create" }))]);
    let input =
        |question: &str| json!({ "question": question, "model": { "is_small": true, "context_tokens": 8_192 }, "settings": { "way": "agentic" } });
    let script = |effect: &Effect| match effect.name() {
        "registry.tools" => task_tools(),
        "plan" => itself.clone(),
        "answer" => Reply::ok("I copied a.txt to b.txt."),
        _ => task_reply(effect),
    };
    let end = play("reason", input("Copy a.txt to b.txt."), &mut |effect, _| Some(script(effect)));
    let answer = end.output()["answer"].as_str().unwrap();
    assert!(answer.starts_with("Nothing was done") && answer.contains("add a step before it") && !answer.contains("I copied"), "{answer}");
    assert_eq!((end.count("model plan"), end.count("model answer"), end.count("tool files.write")), (3, 0, 0));
}
