use graph::{Effect, FailureKind, Message, Reply};
use serde_json::{Value, json};

use super::{COLUMNS, Intent, Row, export, import, intent_by_words};
use crate::played::{PlayedRun, failed, found, play, words};

fn history(turns: usize) -> Value {
    let turn = |n: usize| [json!({ "role": "user", "content": format!("q{n}") }), json!({ "role": "assistant", "content": format!("a{n}") })];
    (1..=turns).flat_map(turn).collect()
}

fn check(input: Value, intent: &Reply, stages: &Reply) -> PlayedRun {
    changed(input, intent, stages, &[])
}

fn changed(mut input: Value, intent: &Reply, stages: &Reply, other: &[(&str, Reply)]) -> PlayedRun {
    input["model"] = json!({ "is_small": false, "context_tokens": 32_000 });
    play("chat", input, &mut |effect, _| {
        if let Some((_, reply)) = other.iter().find(|(name, _)| *name == effect.name()) {
            return Some(reply.clone());
        }
        Some(match effect.name() {
            "intent" => intent.clone(),
            "plan" => stages.clone(),
            "search.search" => found("search.search", &[("trends", "Agents are the latest trend in AI.")]),
            "summary.summarize" => {
                Reply::ok(json!({ "text": "In short: agents.", "data": { "summary": "In short: agents.", "confidence": 0.6 }, "spans": [] }))
            }
            "answer" => Reply::ok("Agents are the latest trend in AI [1]."),
            other => panic!("{other}"),
        })
    })
}

fn intent(name: &str) -> Reply {
    Reply::ok(json!({ "intent": name }))
}

fn stages(names: &[&str]) -> Reply {
    Reply::ok(json!({ "stages": names }))
}

#[test]
fn the_verifier_judges_an_answer_unless_rules_are_set() {
    for (verify, is_judged) in [("fast", true), ("rules", false)] {
        let input = json!({ "question": "Latest trends in AI", "settings": { "verify": verify } });
        let end = play("chat", with_verifier(input), &mut |effect, _| {
            Some(match effect.name() {
                "intent" => intent("search"),
                "plan" => stages(&["search"]),
                "search.search" => found("search.search", &[("trends", "Agents are the latest trend in AI.")]),
                "answer" => Reply::ok("Agents are the latest trend in AI [1]."),
                other => panic!("{other}"),
            })
        });
        assert_eq!(end.count("tool evidence.judge"), usize::from(is_judged), "{:?}", end.effect_names());
        assert_eq!(end.output()["sentences"][0]["by"].as_str(), is_judged.then_some("verifier"));
    }
}

fn with_verifier(mut input: Value) -> Value {
    input["model"] = json!({ "is_small": false, "context_tokens": 32_000, "has_verifier": true });
    input
}

#[test]
fn c2_the_intent_is_detected_with_the_last_five_messages() {
    let end = check(json!({ "question": "Latest trends in AI", "history": history(4) }), &intent("search"), &stages(&["search"]));
    let Effect::CallModel(call) = &end.effects[0] else { panic!() };
    let prompt_text: Vec<&str> = call.messages[1..].iter().map(|message| message.content.as_str()).collect();
    assert_eq!(prompt_text, ["a2", "q3", "a3", "q4", "a4", "Latest trends in AI"]);
    assert_eq!(call.purpose, "intent");
    for (name, node) in [("search", "plan"), ("summarize", "plan"), ("conversation_query", "recall")] {
        let end = check(json!({ "question": "x", "history": history(2) }), &intent(name), &stages(&[name]));
        assert_eq!((&end.output()["intent"], end.path[1].as_str()), (&json!(name), node));
    }
}

#[test]
fn documents_that_the_user_named_are_searched_too_and_either_place_is_enough() {
    let question = json!({ "question": "Who keeps the light?", "docs": true });
    let documents = found("docs.search", &[("light", "Agents are kept by Olaf Brandt.")]);
    let away = failed(FailureKind::Network);
    let searched = |docs: &Reply, web: Option<&Reply>| {
        let mut other = vec![("docs.search", docs.clone())];
        other.extend(web.map(|web| ("search.search", web.clone())));
        changed(question.clone(), &intent("search"), &stages(&["search"]), &other)
    };
    let both = searched(&documents, None);
    let results = both.output()["results"]["search_results"].as_str().unwrap().to_owned();
    assert!(results.contains("Olaf Brandt") && results.contains("latest trend"), "{results}");
    let asked: Vec<&str> = both.effects.iter().map(Effect::name).filter(|name| name.ends_with(".search")).collect();
    assert_eq!(asked, ["docs.search", "search.search"]);
    for (docs, web, words) in [(&documents, Some(&away), "Olaf Brandt"), (&away, None, "latest trend")] {
        let end = searched(docs, web);
        let results = end.output()["results"]["search_results"].as_str().unwrap().to_owned();
        assert!(results.contains(words), "{results}");
        assert_eq!(end.output()["failed_stages"], json!([]));
    }
    assert_eq!(searched(&away, Some(&away)).output()["failed_stages"][0]["stage"], "search");
}

#[test]
fn c2_without_a_usable_intent_the_words_of_the_question_decide() {
    let cases = [
        ("Latest trends in AI", Intent::Search),
        ("Summarize", Intent::Summarize),
        ("Can you sum up what we discussed?", Intent::Summarize),
        ("TL;DR", Intent::Summarize),
        ("What did we discuss earlier?", Intent::ConversationQuery),
        ("What was my last question?", Intent::ConversationQuery),
        ("What is a summa cum laude?", Intent::Search),
    ];
    for (question, expected) in cases {
        assert_eq!(intent_by_words(question), expected, "{question}");
        for nothing in [failed(FailureKind::Timeout), Reply::ok("hm"), intent("dance")] {
            let end = check(json!({ "question": question, "history": history(2) }), &nothing, &failed(FailureKind::Timeout));
            assert_eq!(end.output()["intent"], json!(expected), "{question}");
            assert_eq!(end.notes("intent")[0]["by"], "words");
        }
    }
}

#[test]
fn s7_a_reply_in_the_wrong_form_is_still_read() {
    let refused = |words: &str| Reply::failed(graph::Failure::new(FailureKind::Invalid, "it does not fit").with_output(words));
    for (words, expected, by) in [
        ("I would summarize.", Intent::Summarize, "model"),
        ("{\"intent\": \"conversation_query\", \"why\": \"…\"}", Intent::ConversationQuery, "model"),
        ("search or summarize", Intent::Search, "words"),
        ("hm", Intent::Search, "words"),
    ] {
        let end = check(json!({ "question": "Latest trends", "history": history(2) }), &refused(words), &refused("[]"));
        assert_eq!((&end.output()["intent"], &end.notes("intent")[0]["by"]), (&json!(expected), &json!(by)), "{words}");
    }
}

#[test]
fn c3_only_needed_stages_are_planned() {
    // Intent, reply of the planner, planned stages.
    let cases = [
        ("search", stages(&["search"]), json!(["search"])),
        ("search", stages(&[]), json!(["search"])),
        ("search", stages(&["summarize", "search", "search"]), json!(["search", "summarize"])),
        ("summarize", stages(&["summarize"]), json!(["summarize"])),
        ("summarize", failed(FailureKind::Network), json!(["summarize"])),
        ("search", Reply::ok("search, I think"), json!(["search"])),
        ("search", stages(&["insights"]), json!(["search"])),
    ];
    for (name, planned, expected) in cases {
        let end = check(json!({ "question": "x", "history": history(2) }), &intent(name), &planned);
        assert_eq!((&end.output()["planned_stages"], &end.output()["executed_stages"]), (&expected, &expected), "{name} {planned:?}");
    }
}

#[test]
fn c3_a_small_models_intent_decides_the_stages() {
    let input = json!({ "question": "And after a crash?", "history": history(1), "model": { "is_small": true, "context_tokens": 4_096 } });
    let end = play("chat", input, &mut |effect, _| {
        Some(match effect.name() {
            "intent" => intent("search"),
            "search.search" => found("search.search", &[("trends", "Agents are the latest trend in AI.")]),
            "answer" => Reply::ok(json!({ "facts": [{ "sentence": "Agents are the latest trend in AI.", "source": 1 }], "short_answer": "agents" })),
            other => panic!("{other}"),
        })
    });
    assert_eq!((&end.output()["executed_stages"], &end.output()["sources"][0]["address"]), (&json!(["search"]), &json!("https://trends.example")));
}

#[test]
fn c5_a_summary_of_what_was_just_found_is_checked_against_it() {
    let summary = |text: &str| Reply::ok(json!({ "text": text, "data": { "summary": text, "confidence": 0.6 }, "spans": [] }));
    let both = stages(&["search", "summarize"]);
    for (text, status) in [("Agents are the latest trend in AI.", "supported"), ("Agents earned 40 million in Norway.", "unsupported")] {
        let end = changed(json!({ "question": "x", "history": history(1) }), &intent("search"), &both, &[("summary.summarize", summary(text))]);
        assert_eq!((&end.output()["sentences"][0]["status"], end.count("model answer")), (&json!(status), 0), "{}", end.output());
    }
}

#[test]
fn c3_what_a_row_holds_is_not_computed_again() {
    let row = json!({ "query": "Latest trends", "turn": 1, "search_results": "Agents are the latest trend in AI.", "search_confidence": 0.9 });
    let input = json!({ "question": "latest trends", "history": history(1), "settings": { "row": row } });
    let end = check(input, &intent("search"), &stages(&["search"]));
    assert_eq!((end.count("tool search.search"), end.count("model plan")), (0, 0));
    assert_eq!((&end.output()["planned_stages"], &end.output()["results"]), (&json!([]), &json!({})), "only what was executed");
    assert!(end.output()["answer"].as_str().unwrap().starts_with("Agents are the latest trend in AI [1]."), "{}", end.output());
    // A row of another question is ignored, and a partial row is completed.
    let other = json!({ "question": "Other", "settings": { "row": { "query": "Latest trends", "search_results": "x" } } });
    assert_eq!(check(other, &intent("search"), &stages(&["search"])).count("tool search.search"), 1);
    let half = json!({ "question": "Latest trends", "history": history(1), "settings": { "row": row } });
    let end = check(half, &intent("summarize"), &stages(&["search", "summarize"]));
    assert_eq!(end.output()["executed_stages"], json!(["summarize"]));
    let prompt_text = end.effects.iter().find(|effect| effect.name() == "plan").map(words).unwrap();
    assert!(prompt_text.contains("need not run again: search"), "{prompt_text}");
}

#[test]
fn c4_search_stores_text_and_confidence() {
    let end = check(json!({ "question": "Latest trends in AI" }), &intent("search"), &stages(&["search"]));
    assert!(end.effects.contains(&graph::tool("search.search", json!({ "query": "Latest trends in AI" }))));
    let output = end.output();
    assert_eq!(output["row"]["search_results"], "Agents are the latest trend in AI.");
    assert_eq!((&output["row"]["search_confidence"], &output["row"]["turn"]), (&json!(0.8), &json!(1)));
    assert_eq!(output["sources"][0]["address"], "https://trends.example");
    assert_eq!(end.messages[1].1, output["answer"].as_str().unwrap());
}

#[test]
fn a_follow_up_is_searched_with_what_it_follows() {
    let history = json!([{ "role": "user", "content": "Who won the cup in 2019?" }, { "role": "assistant", "content": "Ada." }]);
    let row = json!({ "query": "And in 2020?", "search_results": "of another cup" });
    let input = json!({ "question": "And in 2020?", "history": history, "settings": { "row": row } });
    let end = check(input, &intent("search"), &stages(&["search"]));
    assert!(end.effects.contains(&graph::tool("search.search", json!({ "query": "Who won the cup in 2019? And in 2020?" }))), "{:?}", end.effects);
    assert_eq!((&end.output()["row"]["query"], end.messages[0].1.as_str()), (&json!("And in 2020?"), "And in 2020?"), "the message is kept");
}

#[test]
fn c3_what_was_searched_is_remembered_in_its_thread_and_a_summary_is_not() {
    let graph = super::flow().unwrap();
    let note = |question: &str, value: Value| graph::Note {
        kind: "row".into(),
        key: json!(question.to_lowercase()),
        value,
        reach: graph::NoteScope::Thread,
        ms_max: None,
    };
    let notes = vec![note(
        "Latest trends in AI",
        json!({ "query": "Latest trends in AI", "turn": 4, "search_results": "Agents are the latest trend in AI." }),
    )];
    let context = graph::Context { notes, turns: 40, ..graph::Context::default() };
    let mut input = json!({ "question": "latest trends in ai" });
    assert!(graph.recall(&mut input, &context));
    assert_eq!(input["settings"]["turn"], 41);
    let end = check(input, &intent("search"), &stages(&["search"]));
    assert_eq!((end.count("tool search.search"), &end.output()["row"]["turn"]), (0, &json!(41)));
    let mut other = json!({ "question": "Other trends in AI" });
    assert!(!graph.recall(&mut other, &context));
    assert_eq!(other["settings"].get("row"), None);

    // The notes that a run keeps.
    let left = |question: &str, name: &str| {
        let mut run = graph::Run::start(&graph, graph::Start::new("chat", "t", "r", json!({ "question": question, "history": history(3) }))).unwrap();
        while let graph::Next::Perform(jobs) = run.next() {
            for job in jobs {
                let reply = match job.effect.name() {
                    "intent" => intent(name),
                    "plan" => stages(&[name]),
                    "search.search" => found("search.search", &[("trends", "Agents.")]),
                    _ => Reply::ok(json!({ "text": "In short.", "spans": [] })),
                };
                run.feed(job.task, job.attempt, reply).unwrap();
            }
        }
        run.notes()
    };
    let kept = left("Latest trends in AI", "search");
    assert_eq!((kept.len(), &kept[0].key, &kept[0].value["search_results"]), (1, &json!("latest trends in ai"), &json!("Agents.")));
    assert_eq!(left("Summarize all of this talk", "summarize"), []);
}

#[test]
fn c4_a_search_that_fails_or_finds_nothing_is_reported() {
    let nothing = Reply::ok(json!({ "text": "", "data": null, "spans": [] }));
    for (reply, expected) in [(failed(FailureKind::Refused), "no luck"), (nothing, "found nothing")] {
        let end = changed(json!({ "question": "x" }), &intent("search"), &stages(&["search"]), &[("search.search", reply)]);
        assert!(end.output()["answer"].as_str().unwrap().contains(expected), "{}", end.output());
        assert_eq!((&end.output()["executed_stages"], &end.output()["failed_stages"][0]["stage"]), (&json!([]), &json!("search")));
        assert_eq!(end.count("model answer"), 0);
    }
    // The budget ended before an answer was written: the results are listed with citations.
    let end = changed(json!({ "question": "x" }), &intent("search"), &stages(&["search"]), &[("answer", failed(FailureKind::Budget))]);
    assert!(end.output()["answer"].as_str().unwrap().contains("Agents are the latest trend in AI [1]"), "{}", end.output());
}

#[test]
fn a_model_that_is_down_fails_the_run_and_what_was_found_stays() {
    let down = || failed(FailureKind::Network);
    let is_failed =
        |end: &PlayedRun| matches!(&end.outcome, graph::Outcome::Failed { fault } if fault.to_string().contains("no model answered: no luck"));
    let end = changed(json!({ "question": "x" }), &down(), &down(), &[("answer", down())]);
    assert!(is_failed(&end), "{:?}", end.outcome);
    assert!(end.notes(crate::no_model::FOUND)[0]["answer"].as_str().unwrap().contains("Agents are the latest trend in AI [1]"));
    assert!(end.messages.is_empty());
    let nothing = Reply::ok(json!({ "text": "", "data": null, "spans": [] }));
    let end = changed(json!({ "question": "x" }), &down(), &down(), &[("search.search", nothing)]);
    assert!(is_failed(&end), "nothing found: {:?}", end.outcome);
    let end = changed(json!({ "question": "What did we discuss?", "history": history(2) }), &down(), &down(), &[("answer", down())]);
    assert!(is_failed(&end), "recall: {:?}", end.outcome);
    let extracted = Reply::ok(json!({ "text": "a1", "data": { "summary": "a1", "confidence": 1.0, "how": "extracted" }, "spans": [] }));
    let summed = |intent: &Reply| {
        changed(json!({ "question": "Summarize", "history": history(2) }), intent, &down(), &[("summary.summarize", extracted.clone())])
    };
    assert!(is_failed(&summed(&down())), "a summary that no model wrote");
    assert_eq!(summed(&intent("summarize")).output()["answer"], "a1", "without a model extraction is an answer");
}

#[test]
fn c5_a_summary_is_of_the_last_three_responses() {
    let end = check(json!({ "question": "Summarize", "history": history(5) }), &intent("summarize"), &stages(&["summarize"]));
    assert!(end.effects.contains(&graph::tool("summary.summarize", json!({ "texts": ["Response 1: a3", "Response 2: a4", "Response 3: a5"] }))));
    assert_eq!(end.output()["answer"], "In short: agents.");
    assert_eq!(end.output()["results"], json!({ "summary": "In short: agents.", "summary_confidence": 0.6 }));
    let one = check(json!({ "question": "Summarize", "history": history(1) }), &intent("summarize"), &stages(&["summarize"]));
    assert!(one.effects.contains(&graph::tool("summary.summarize", json!({ "texts": ["Response 1: a1"] }))));
    let none = check(json!({ "question": "Summarize" }), &intent("summarize"), &stages(&["summarize"]));
    assert_eq!(none.count("tool summary.summarize"), 0);
    assert!(none.output()["answer"].as_str().unwrap().starts_with("There is nothing to sum up yet"), "{}", none.output());
    // Planned together, the summary also covers the results just found.
    let both = check(json!({ "question": "Find and sum up", "history": history(3) }), &intent("search"), &stages(&["search", "summarize"]));
    let texts = json!({ "texts": ["Response 1: a2", "Response 2: a3", "Response 3: Agents are the latest trend in AI."] });
    assert!(both.effects.contains(&graph::tool("summary.summarize", texts)), "{:?}", both.effects);
}

#[test]
fn c6_a_conversation_query_is_answered_from_the_history_alone() {
    let end = check(json!({ "question": "What did we discuss?", "history": history(3) }), &intent("conversation_query"), &stages(&["search"]));
    assert_eq!(end.path, ["intent", "recall"]);
    assert_eq!((end.count("model plan"), end.effects.iter().filter(|effect| effect.kind() == "tool").count()), (0, 0));
    let prompt_text = words(end.effects.last().unwrap());
    assert!(prompt_text.contains("user: q1\nassistant: a1") && prompt_text.contains("assistant: a3"), "{prompt_text}");
    assert_eq!(end.output()["executed_stages"], json!(["conversation_query"]));
    let fallback = changed(
        json!({ "question": "What did we discuss?", "history": history(2) }),
        &intent("conversation_query"),
        &stages(&[]),
        &[("answer", failed(FailureKind::Budget))],
    );
    assert_eq!(fallback.output()["answer"], "You asked, in this order:\n\n- q1\n- q2");
    let none = check(json!({ "question": "What did we discuss?" }), &intent("conversation_query"), &stages(&[]));
    assert_eq!((&none.output()["answer"], none.count("model answer")), (&json!("We have not talked about anything yet."), 0));
}

#[test]
fn c8_the_response_has_intent_stages_results_and_the_last_five_messages() {
    let end = check(json!({ "question": "Latest trends in AI", "history": history(4) }), &intent("search"), &stages(&["search"]));
    let output = end.output();
    assert_eq!(
        (&output["intent"], &output["planned_stages"], &output["executed_stages"]),
        (&json!("search"), &json!(["search"]), &json!(["search"]))
    );
    let results = json!({ "search_results": "Agents are the latest trend in AI.", "search_confidence": 0.8 });
    assert_eq!(output["results"], results);
    let last: Vec<Message> = serde_json::from_value(output["last_messages"].clone()).unwrap();
    let last: Vec<&str> = last.iter().map(|message| message.content.as_str()).collect();
    assert_eq!(last, ["a3", "q4", "a4", "Latest trends in AI", output["answer"].as_str().unwrap()]);
    assert_eq!(end.messages.len(), 2);
}

fn row(query: &str, text: &str) -> Row {
    Row { query: query.into(), turn: 3, search_results: text.into(), search_confidence: Some(0.25), summary: text.into(), ..Row::default() }
}

#[test]
fn c7_rows_are_read_from_csv_as_they_were_written() {
    let hostile = [
        "plain",
        "",
        " spaces ",
        "comma, \"quoted\"",
        "two\nlines\r\nand more\r",
        "=1+1",
        "+49 1",
        "-3",
        "@sum(A1)",
        "\t=x",
        "\r=x",
        "'=x",
        "''=x",
        "'quoted'",
        "'",
        "=cmd|' /C calc'!A0",
        "ä 漢字 🦀",
        "\u{feff}bom",
        "a;b\tc",
        "\\\"",
        "NULL",
        "\"",
    ];
    let rows: Vec<Row> = hostile.iter().map(|text| row(text, text)).collect();
    let text = export(&rows).unwrap();
    assert_eq!(text.lines().next().unwrap(), COLUMNS.join(","));
    assert_eq!(import(&text).unwrap(), rows);
    assert_eq!(import(&export(&[]).unwrap()).unwrap(), []);
}

#[test]
fn c7_an_import_adds_the_messages_of_its_rows_to_the_thread() {
    let rows = vec![row("What is \u{0}it?", "=1+1"), Row { query: "Nothing came".into(), turn: 9, ..Row::default() }];
    let end = play(super::IMPORT, json!({ "rows": rows }), &mut |effect, _| panic!("{effect:?}"));
    assert_eq!(end.output()["rows"], json!(rows));
    let messages: Vec<(&str, &str)> = end.messages.iter().map(|(role, content)| (role.as_str(), content.as_str())).collect();
    assert_eq!(messages, [("user", "What is \u{0}it?"), ("assistant", "=1+1"), ("user", "Nothing came")]);
}

#[test]
fn c7_no_cell_is_a_formula_to_a_spreadsheet() {
    for text in ["=1+1", "+1", "-1", "@x", "\t=1", "\r=1", "'=1"] {
        let written = export(&[row(text, text)]).unwrap();
        let mut reader = ::csv::Reader::from_reader(written.as_bytes());
        let record = reader.records().next().unwrap().unwrap();
        assert!(!record.iter().any(|cell| cell.starts_with(['=', '+', '-', '@', '\t', '\r'])), "{record:?}");
    }
}

#[test]
fn c7_files_of_others_are_read_and_mistakes_named() {
    let good = "\u{feff}turn,query\r\n7,\"What, now?\"\r\n,again\r\n";
    let rows = import(good).unwrap();
    assert_eq!((rows[0].query.as_str(), rows[0].turn, rows[1].turn), ("What, now?", 7, 2));
    let cases = [
        ("query,color\nx,red\n", Some(1), "no column \"color\""),
        ("turn\n1\n", Some(1), "\"query\" is missing"),
        ("query,query\na,b\n", Some(1), "twice"),
        ("query,turn\nx,-1\n", Some(2), "turn must be a whole number"),
        ("query,search_confidence\nx,0.5\ny,very\n", Some(3), "from 0 to 1"),
        ("query,search_confidence\nx,NaN\n", Some(2), "from 0 to 1"),
        ("query,turn\nx\n", Some(2), "fields"),
        ("", Some(1), "\"query\" is missing"),
    ];
    for (text, row, why) in cases {
        let error = import(text).unwrap_err();
        assert!(error.row == row && error.why.contains(why), "{text:?}: {error:?}");
    }
}

#[test]
fn c5_answers_about_the_conversation_are_not_summarized() {
    let graph = super::flow().unwrap();
    let message = |role: &str, content: &str| Message { role: role.into(), content: content.into() };
    let messages = vec![
        message("user", "Latest trends in AI"),
        message("assistant", "Agents are the latest trend in AI [1]."),
        message("user", "What did I ask first?"),
        message("assistant", "You asked about trends."),
    ];
    let context = graph::Context { history: messages.clone(), without_findings: vec![3], turns: 2, ..graph::Context::default() };
    // As a run of its own, and as the child of a run that passes on the end of the history.
    for given in [None, Some(json!(messages[1..]))] {
        let mut input = json!({ "question": "Summarize" });
        if let Some(given) = given {
            input["history"] = given;
        }
        graph.recall(&mut input, &context);
        let end = check(input, &intent("summarize"), &stages(&["summarize"]));
        let texts = json!({ "texts": ["Response 1: Agents are the latest trend in AI [1]."] });
        assert!(end.effects.contains(&graph::tool("summary.summarize", texts)), "{:?}", end.effects);
        let planned = end.effects.iter().find(|effect| effect.name() == "plan").map(words).unwrap();
        assert!(planned.contains("there are 1"), "{planned}");
        assert_eq!(end.output()["without_findings"], false);
    }
    // Without other messages there is nothing to summarize.
    let only_talk = graph::Context { history: messages[2..].to_vec(), without_findings: vec![1], turns: 1, ..graph::Context::default() };
    let mut input = json!({ "question": "Summarize" });
    graph.recall(&mut input, &only_talk);
    let end = check(input, &intent("summarize"), &stages(&["summarize"]));
    assert_eq!(end.count("tool summary.summarize"), 0);
    assert!(end.output()["answer"].as_str().unwrap().starts_with("There is nothing to sum up yet"), "{}", end.output());
    assert_eq!(end.output()["without_findings"], true, "that nothing was found is no finding");
    // The output states whether the answer has findings.
    let talk = check(json!({ "question": "What did we discuss?", "history": history(2) }), &intent("conversation_query"), &stages(&[]));
    assert_eq!(talk.output()["without_findings"], true);
}
