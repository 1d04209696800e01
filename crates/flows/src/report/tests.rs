use graph::{Effect, FailureKind, Outcome, Reply};
use serde_json::{Value, json};

use super::{Report, Settings, estimate, sections};
use crate::input::{Input, ModelProfile, Price};
use crate::played::{PlayedRun, failed, found, play, usual_tools, words};

const LOG: &str = "After a crash the log is replayed from the last checkpoint.";
const COST: &str = "A commit takes 0.34 ms on the disk of the server.";

/// The sentence with a citation before its full stop.
fn cited(sentence: &str, number: usize) -> String {
    format!("{} [{number}].", sentence.trim_end_matches('.'))
}

#[allow(clippy::needless_pass_by_value, reason = "cases read better with values")]
fn input(settings: Value) -> Value {
    let model = json!({ "is_small": false, "context_tokens": 32_000, "has_verifier": true });
    json!({ "question": "Write a report on write-ahead logs.", "model": model, "settings": settings })
}

#[allow(clippy::needless_pass_by_value, reason = "cases read better with values")]
fn without_asking(more: Value) -> Value {
    let mut settings = json!({ "approve_outline": false });
    for (name, value) in more.as_object().unwrap() {
        settings[name] = value.clone();
    }
    input(settings)
}

fn outline() -> Reply {
    Reply::ok(json!({ "title": "Write-ahead logs", "ask_user": null, "sections": [
        { "heading": "Recovery", "question": "How does a write-ahead log recover after a crash?" },
        { "heading": "Cost", "question": "What does a commit to a write-ahead log cost?" },
    ] }))
}

/// All effects succeed, except where `changed` replies otherwise.
fn report(input: Value, mut changed: impl FnMut(&Effect) -> Option<Reply>) -> PlayedRun {
    play("report", input, &mut |effect, _| {
        if let Some(reply) = changed(effect) {
            return Some(reply);
        }
        let is_cost = words(effect).contains("What does a commit");
        Some(match effect.name() {
            "outline" => outline(),
            "person" => Reply::ok(json!({ "approve": true })),
            "search" => return None,
            "registry.tools" => usual_tools(),
            "plan" => {
                let query = if is_cost { "commit cost" } else { "crash recovery" };
                Reply::ok(
                    json!({ "reasoning": "r", "tasks": [{ "task_number": 1, "tool_name": "docs.search", "tool_arguments": { "query": query }, "description": "look" }] }),
                )
            }
            "docs.search" if words(effect).contains("commit cost") => found("docs.search", &[("log", LOG), ("cost", COST)]),
            "docs.search" => found("docs.search", &[("log", LOG)]),
            "synthesis" => {
                let text = match is_cost {
                    true => format!("<h2>Time</h2><p>{} {}</p>", cited(COST, 2), cited(LOG, 1)),
                    false => format!("<p>{}</p>", cited(LOG, 1)),
                };
                Reply::ok(json!({ "reasoning": "r", "response_content": text }))
            }
            "summary" => Reply::ok(json!({ "summary": format!("{} {}", cited(LOG, 1), cited(COST, 2)) })),
            other => panic!("no reply is defined for {other}"),
        })
    })
}

fn answer(run: &PlayedRun) -> &str {
    run.output()["answer"].as_str().unwrap()
}

#[test]
fn sections_become_one_checked_document_with_one_bibliography() {
    let run = report(without_asking(json!({})), |_| None);
    let text = answer(&run);
    let headings: Vec<&str> = text.lines().filter(|line| line.starts_with('#')).collect();
    assert_eq!(headings, ["# Write-ahead logs", "## Summary", "## Recovery", "## Cost", "### Time"], "{text}");
    // The page that both sections found is one source.
    let sources: Vec<&str> = run.output()["sources"].as_array().unwrap().iter().filter_map(|source| source["title"].as_str()).collect();
    assert_eq!(sources, ["log", "cost"], "{text}");
    assert!(text.contains("## Cost\n\n### Time\n\nA commit takes 0.34 ms on the disk of the server [2]."), "{text}");
    let statuses: Vec<&str> =
        run.output()["sentences"].as_array().unwrap().iter().filter_map(|one| one["status"].as_str()).filter(|one| *one != "no_claim").collect();
    assert_eq!(statuses, ["supported"; 5], "{:?}", run.output()["sentences"]);
    let passages: Vec<(u64, &str)> =
        run.output()["passages"].as_array().unwrap().iter().map(|one| (one["number"].as_u64().unwrap(), one["text"].as_str().unwrap())).collect();
    assert_eq!(passages, [(1, LOG), (2, COST)]);
    // Each part of the document is checked, and each section by its own run.
    assert_eq!(run.count(&format!("tool {}", evidence::JUDGE)), 3 + 2);
    assert_eq!((run.count("agent search"), run.count("model outline"), run.count("model summary")), (2, 1, 1));
    assert_eq!(run.messages.len(), 2);
    assert_eq!(run.messages[1].1, text);
}

#[test]
fn the_estimate_comes_before_the_sections_and_uses_prices() {
    let priced = json!({ "is_small": false, "context_tokens": 32_000, "price": { "usd_micros_per_million_in": 2_500_000, "usd_micros_per_million_out": 10_000_000 } });
    let mut asked = String::new();
    let mut input = input(json!({}));
    input["model"] = priced;
    let run = report(input, |effect| {
        if let Effect::AskPerson(question) = effect {
            asked.clone_from(&question.prompt);
        }
        None
    });
    let noted = run.notes("estimate")[0];
    assert_eq!((&noted["sections"], &noted["model_calls"]), (&json!(2), &json!(6)));
    assert!(asked.contains("Estimate for 2 sections: up to 6 model calls") && asked.contains("about $0."), "{asked}");
    let large = ModelProfile { is_small: false, context_tokens: 32_000, ..ModelProfile::default() };
    assert!(estimate(3, &large).words().contains("price of the model not known"));
    let price = Some(Price { usd_micros_per_million_in: 1_000_000, usd_micros_per_million_out: 0 });
    let one = estimate(3, &ModelProfile { price, ..large });
    assert_eq!(one.usd_micros, Some(one.tokens_in), "a dollar a million tokens is a millionth each");
    assert!(estimate(5, &large).tokens_in > estimate(3, &large).tokens_in);
}

#[test]
fn a_person_changes_the_outline_has_it_revised_or_declines_it_with_a_reason() {
    let run = report(input(json!({})), |effect| {
        effect.is_for_a_person().then(|| {
            let sections = json!([{ "heading": "Cost", "question": "What does a commit to a write-ahead log cost?" }]);
            Reply::ok(json!({ "approve": true, "sections": sections }))
        })
    });
    assert_eq!(run.count("agent search"), 1);
    assert!(!answer(&run).contains("## Recovery"), "{}", answer(&run));

    let mut asked = 0;
    let run = report(input(json!({})), |effect| {
        effect.is_for_a_person().then(|| {
            asked += 1;
            Reply::ok(if asked == 1 { json!({ "approve": false, "revise": "cover Postgres only" }) } else { json!({ "approve": true }) })
        })
    });
    let outlines: Vec<String> = run.effects.iter().filter(|effect| effect.name() == "outline").map(words).collect();
    assert_eq!((outlines.len(), asked), (2, 2));
    assert!(!outlines[0].contains("Postgres") && outlines[1].contains("cover Postgres only") && outlines[1].contains("1. Recovery:"), "{outlines:?}");

    let run = report(input(json!({})), |effect| effect.is_for_a_person().then(|| Reply::ok(json!({ "approve": false, "reason": "too broad" }))));
    assert_eq!((run.count("agent search"), &run.output()["declined"]), (0, &json!(true)));
    assert_eq!(answer(&run), "The outline was not approved, so nothing was researched: too broad.");
    assert_eq!(run.messages[1].1, answer(&run), "the planner of the next turn reads the reason in the conversation");

    let mut asked = Vec::new();
    let run = report(input(json!({})), |effect| {
        let Effect::AskPerson(question) = effect else { return None };
        asked.push(question.prompt.clone());
        Some(Reply::ok(if asked.len() == 1 { json!({ "approve": true, "sections": [] }) } else { json!({ "approve": true, "plan_hash": "other" }) }))
    });
    assert!(asked[1].starts_with("That cannot be run: an outline needs") && asked[2].contains("about plan other"), "{asked:?}");
    assert_eq!((asked.len(), run.count("agent search")), (5, 0), "after five tries it counts as declined");
}

#[test]
fn a_question_is_asked_once_and_only_where_the_planner_has_one() {
    let run = report(without_asking(json!({})), |effect| match effect {
        Effect::AskPerson(question) => {
            assert_eq!(question.prompt, "For which database?");
            Some(Reply::ok(json!("Postgres")))
        }
        _ if effect.name() == "outline" && !words(effect).contains("The user answered") => {
            Some(Reply::ok(json!({ "title": "", "sections": [], "ask_user": "For which database?" })))
        }
        _ => None,
    });
    assert_eq!((run.count("person person"), run.count("model outline")), (1, 2));
    assert!(run.effects.iter().any(|effect| effect.name() == "outline" && words(effect).contains("The user answered: Postgres")));
    let run = report(without_asking(json!({ "clarify": false })), |effect| {
        (effect.name() == "outline").then(|| Reply::ok(json!({ "title": "", "sections": [], "ask_user": "For which database?" })))
    });
    assert_eq!(run.count("person person"), 0);
    assert!(run.notes("outline_fallback")[0]["why"].as_str().unwrap().contains("0 of at least 2"));
}

#[test]
fn without_a_usable_outline_a_fixed_one_is_researched() {
    for reply in [failed(FailureKind::Invalid), Reply::ok(json!("no idea")), Reply::ok(json!({ "sections": ["Only one"] }))] {
        let mut small = without_asking(json!({}));
        small["model"] = json!({ "is_small": true, "context_tokens": 8_192 });
        let run = report(small, |effect| match effect.name() {
            "outline" => Some(reply.clone()),
            "plan" => Some(Reply::ok(json!({ "tasks": [{ "tool_name": "docs.search", "tool_arguments": { "query": "crash recovery" } }] }))),
            "synthesis" => Some(Reply::ok(json!({ "facts": [{ "sentence": LOG, "source": 1 }], "short_answer": "" }))),
            _ => None,
        });
        assert_eq!(run.notes("outline_fallback").len(), 1);
        let plan = run.notes("plan")[0];
        assert_eq!(plan["title"], "Write-ahead logs");
        assert_eq!(plan["sections"][0], json!({ "heading": "Overview", "question": "write-ahead logs: overview and background" }));
        assert_eq!((run.count("agent search"), run.count("model summary")), (3, 0), "a small model writes no summary");
        assert!(answer(&run).contains("## Overview"), "{}", answer(&run));
    }
}

/// What a small model answers in one word is no beginning of a section, nor a line of the summary.
#[test]
fn a_section_does_not_begin_with_a_bare_short_answer() {
    let small_report = |synthesis: Value| {
        let mut small = without_asking(json!({}));
        small["model"] = json!({ "is_small": true, "context_tokens": 8_192 });
        report(small, |effect| match effect.name() {
            "plan" => Some(Reply::ok(json!({ "tasks": [{ "tool_name": "docs.search", "tool_arguments": { "query": "crash recovery" } }] }))),
            "synthesis" => Some(Reply::ok(synthesis.clone())),
            _ => None,
        })
    };
    for short in ["checkpoint", "the last checkpoint", "from the last checkpoint of the log"] {
        let run = small_report(json!({ "facts": [{ "sentence": LOG, "source": 1 }], "short_answer": short }));
        let text = answer(&run);
        let sentence = cited(LOG, 1);
        assert!(text.contains(&format!("## Recovery\n\n{sentence}")) && text.contains(&format!("## Summary\n\n- {sentence}")), "{short}: {text}");
        assert!(!text.contains(&format!("**{short}**")), "{short}: {text}");
    }
}

#[test]
fn a_first_paragraph_is_kept_unless_it_is_only_a_short_answer() {
    let text = |answer: &str| {
        let found = super::document::Found::read(&json!({ "answer": answer })).unwrap();
        match found.renumbered(&mut Vec::new(), 9) {
            super::Progress::Written { text, .. } => text,
            other => panic!("{other:?}"),
        }
    };
    for (answer, expected) in [
        ("Yes.\n\nThe log is replayed.", "The log is replayed."),
        ("**Bath, Maine**\n\nHe was born there.", "He was born there."),
        ("**50 grams** *(not supported by the sources)*\n\nIt is light.", "It is light."),
        ("**50 grams**", "Short answer: **50 grams**"),
        ("It weighs fifty grams at least.\n\nMore.", "It weighs fifty grams at least.\n\nMore."),
        ("## Weight\n\nMore.", "### Weight\n\nMore."),
        ("- one\n- two\n\nMore.", "- one\n- two\n\nMore."),
        ("1. one\n\nMore.", "1. one\n\nMore."),
        ("Two parts:\n\n- one\n- two", "Two parts:\n\n- one\n- two"),
    ] {
        assert_eq!(text(answer), expected, "{answer}");
    }
}

#[test]
fn sections_that_failed_are_named_and_an_unreachable_model_fails_the_run() {
    let is_cost = |effect: &Effect| matches!(effect, Effect::CallAgent(_)) && words(effect).contains("What does a commit");
    let run = report(without_asking(json!({})), |effect| is_cost(effect).then(|| failed(FailureKind::Tool)));
    assert!(answer(&run).contains("## Recovery") && !answer(&run).contains("## Cost\n"), "{}", answer(&run));
    let (body, sources) = answer(&run).split_once("\n\n**Sources**\n").unwrap();
    assert!(body.ends_with("## Not covered\n\n- Cost: no luck") && sources.contains("log"), "{body}");
    assert_eq!(
        run.output()["sections"][1],
        json!({ "heading": "Cost", "question": "What does a commit to a write-ahead log cost?", "status": "failed", "error": "no luck" })
    );
    let run = report(without_asking(json!({})), |effect| matches!(effect, Effect::CallAgent(_)).then(|| failed(FailureKind::Tool)));
    assert!(answer(&run).starts_with("Nothing was found for any section of the report.\n\n## Not covered"), "{}", answer(&run));
    let run = report(without_asking(json!({})), |effect| {
        matches!(effect, Effect::CallModel(call) if call.purpose != "outline").then(|| failed(FailureKind::Network))
    });
    assert!(matches!(&run.outcome, Outcome::Failed { .. }), "{:?}", run.outcome);
}

#[test]
fn a_summary_that_fails_is_replaced_by_the_first_sentences_of_the_sections() {
    let run = report(without_asking(json!({})), |effect| (effect.name() == "summary").then(|| failed(FailureKind::Invalid)));
    assert_eq!(run.notes("summary_failed").len(), 1);
    assert!(
        answer(&run).contains("## Summary\n\n- After a crash the log is replayed from the last checkpoint [1].\n- A commit takes"),
        "{}",
        answer(&run)
    );
}

#[test]
fn so_many_sections_at_a_time_each_with_what_is_reserved_for_it() {
    let settings = Settings { parallel: 2, ..Settings::default() };
    let input: Input<Settings> = serde_json::from_value(json!({ "question": "q", "settings": settings })).unwrap();
    let mut state = Report::of(input);
    state.sections = (1..=5).filter_map(|at| super::outline::section(&format!("Part {at}"), "")).collect();
    let asked = sections::ask(&state);
    let needs: Vec<Vec<usize>> = asked.requests.iter().map(|request| request.needs.iter().map(|need| need.of).collect()).collect();
    assert_eq!(needs, [vec![], vec![], vec![0], vec![1], vec![2]]);
    assert!(asked.requests.iter().all(|request| request.estimate.tokens() > 0 && request.estimate.calls > 0));
    assert_eq!(asked.requests[1].label, "section 2 of 5: Part 2");
}

#[test]
fn a_section_that_does_not_fit_into_the_budget_is_tried_alone_with_less() {
    let mut refused = 0;
    let run = report(without_asking(json!({})), |effect| {
        let is_first = matches!(effect, Effect::CallAgent(_)) && words(effect).contains("What does a commit") && refused < 2;
        refused += usize::from(is_first);
        is_first.then(|| failed(FailureKind::Budget))
    });
    assert_eq!(run.path.iter().filter(|node| *node == "sections").count(), 3);
    assert!(answer(&run).contains("## Cost"), "{}", answer(&run));
    let run = report(without_asking(json!({})), |effect| {
        (matches!(effect, Effect::CallAgent(_)) && words(effect).contains("What does a commit")).then(|| failed(FailureKind::Budget))
    });
    assert_eq!(run.count("agent search"), 1 + 4);
    assert!(answer(&run).contains("- Cost: no luck"), "{}", answer(&run));
}

#[test]
fn only_a_request_for_a_report_is_routed_here() {
    let registry = crate::Registry::default();
    let chosen = |question: &str| crate::auto::choose(question, &["direct", "search", "supervise"], &registry).map(|choice| choice.flow);
    for question in ["Write a report on tidal power.", "please write a report about our logs", "Schreibe einen Bericht über Gezeiten"] {
        assert_eq!(chosen(question).as_deref(), Some("report"), "{question}");
    }
    for question in [
        "What does the report on tides say?",
        "Write a report about coffee as a PDF.",
        "Write a report on tea and mail it to Ann",
        "Did you write a report on tea?",
    ] {
        assert_ne!(chosen(question).as_deref(), Some("report"), "{question}");
    }
}
