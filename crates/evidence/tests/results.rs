//! Replies of every shape: their spans, and the sentences they support (S6, S12).

// Test helpers; cases are more readable with values than with references.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

use baton_evidence::{Form, Found, Options, Span, Spans, Status, Strict, Trust, cite, found, pick, task_label};
use serde_json::{Value, json};

/// A reply as a flow has it: split, and labelled with its call.
fn reply(tool: &str, arguments: &Value, text: &str, data: Option<Value>) -> Found {
    let mut found = found(tool, Trust::Untrusted, text, data.as_ref());
    let label = task_label(tool, arguments);
    found.spans.iter_mut().for_each(|span| span.task = Some(label.clone()));
    found
}

/// Each sentence, checked against all spans, and whether it must be supported.
fn check(spans: &[Span], cases: &[(bool, &str)]) {
    let read = Spans::new(spans);
    for (is_true, sentence) in cases {
        let checked = read.check(sentence, &Options::default());
        let worst = checked.sentences.iter().max_by_key(|sentence| sentence.status).unwrap();
        let is_supported = worst.status == Status::Supported;
        assert_eq!(is_supported, *is_true, "{sentence}: {worst:?}\nin {:#?}", spans.iter().map(|span| &span.text).take(8).collect::<Vec<_>>());
    }
}

fn stories(total: usize, rows: &[(&str, &str, &str, u32, &[&str])]) -> Value {
    let stories: Vec<Value> = rows
        .iter()
        .map(|(id, title, status, points, tags)| json!({ "id": id, "points": points, "status": status, "tags": tags, "text": format!("As a team we want {title}."), "title": title }))
        .collect();
    let passages: Vec<Value> = stories
        .iter()
        .map(|story| {
            let tags = story["tags"].as_array().unwrap().iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ");
            let text = format!(
                "{}: {} {} Tags: {tags}. Status: {}. Points: {}.",
                story["id"].as_str().unwrap(), story["title"].as_str().unwrap(), story["text"].as_str().unwrap(), story["status"].as_str().unwrap(), story["points"]
            );
            json!({ "text": text, "title": format!("{} {}", story["id"].as_str().unwrap(), story["title"].as_str().unwrap()), "address": format!("stories:{}", story["id"].as_str().unwrap()) })
        })
        .collect();
    json!({ "total": total, "matched": "all", "stories": stories, "passages": passages })
}

const ROWS: &[(&str, &str, &str, u32, &[&str])] = &[
    ("ST-118", "Show upstream errors", "done", 3, &["api"]),
    ("ST-124", "Retry upstream calls", "done", 5, &["backend"]),
    ("ST-131", "Cache upstream replies", "ready", 13, &[]),
    ("ST-140", "Alert on slow upstream", "backlog", 2, &["ops"]),
    ("ST-152", "Rotate upstream keys", "ready", 5, &[]),
];

fn shown(found: &Found) -> Vec<(Form, Option<&str>, &str)> {
    found.spans.iter().map(|span| (span.form, span.place.as_deref(), span.text.as_str())).collect()
}

#[test]
fn s6_totals_beside_passages_are_evidence_too() {
    let part = reply("stories.search_stories", &json!({ "query": "upstream" }), "Found 12 stories", Some(stories(12, ROWS)));
    assert_eq!(part.spans.iter().filter(|span| span.rank.is_some()).count(), 5);
    assert_eq!(shown(&part)[5..], [(Form::Scalars, Some("total"), "total: 12")], "a list that is a part is not added up");
    let whole = reply("stories.search_stories", &json!({ "query": "upstream" }), "Found 5 stories", Some(stories(5, ROWS)));
    let derived = &whole.spans[6];
    assert_eq!((derived.form, derived.place.as_deref(), derived.facts.is_empty()), (Form::Derived, Some("stories"), false));
    assert!(
        derived.text.starts_with("stories: 5 rows\nrows by status: done 2, ready 2, backlog 1\nrows by tags: api 1, backend 1, ops 1"),
        "{}",
        derived.text
    );
    // Rows without a passage are kept.
    let data =
        json!({ "passages": [{ "text": "One thing.", "title": "T" }], "prices": [{ "item": "tea", "price": 3 }, { "item": "rice", "price": 4 }] });
    let both = reply("shop.look", &json!({}), "", Some(data));
    assert!(shown(&both).contains(&(Form::Rows, Some("prices[1]"), "item: rice\nprice: 4")), "{both:?}");
}

#[test]
fn s6_text_and_data_of_a_reply_are_used_once() {
    let data = json!({ "count": 2, "items": [{ "key": "OR-7", "state": "open" }, { "key": "OR-9", "state": "closed" }] });
    let expected = reply("t.list", &json!({}), "", Some(data.clone()));
    assert_eq!(expected.spans.len(), 4);
    for text in [
        data.to_string(),
        serde_json::to_string_pretty(&data).unwrap(),
        "{\"key\": \"OR-7\", \"state\": \"open\"}\n\n{\"key\": \"OR-9\", \"state\": \"closed\"}".to_owned(),
    ] {
        assert_eq!(reply("t.list", &json!({}), &text, Some(data.clone())).spans, expected.spans, "{text}");
    }
    // The text is kept, together with what only the data contains.
    let found = reply("t.list", &json!({}), "Two tickets were touched since Monday by the night shift.", Some(data));
    assert_eq!((found.spans.len(), found.spans[0].text.starts_with("Two tickets")), (5, true), "{found:?}");
    // A text with all the rows needs only their totals.
    let listed = reply(
        "files.list",
        &json!({}),
        "a.txt takes 12 bytes in this folder\nb.txt takes 30 bytes",
        Some(json!({ "entries": [{ "bytes": 12, "name": "a.txt" }, { "bytes": 30, "name": "b.txt" }], "kind": "folder" })),
    );
    assert_eq!(shown(&listed)[1], (Form::Derived, Some("entries"), "entries: 2 rows\nbytes: sum 42, minimum 12, maximum 30, mean 21"));
    assert_eq!(listed.spans.len(), 2);
}

#[test]
fn s12_the_documents_question_is_answered_by_totals() {
    let all = reply("stories.search_stories", &json!({ "query": "upstream", "size": 5 }), "", Some(stories(12, ROWS)));
    let tagged = reply("stories.search_stories", &json!({ "query": "upstream tag:*", "size": 2 }), "", Some(stories(5, &ROWS[..2])));
    let spans: Vec<Span> = all.spans.into_iter().chain(tagged.spans).collect();
    check(
        &spans,
        &[
            (true, "12 stories have the upstream keyword."),
            (true, "There are 12 stories with the keyword upstream."),
            (true, "Twelve stories match the upstream keyword, and 5 of them have tags."),
            (true, "Of the 12 upstream stories, 5 have a tag."),
            (true, "5 upstream stories have tags."),
            (false, "13 stories have the upstream keyword."),
            (false, "There are 13 stories with the keyword upstream."),
            (false, "12 stories have the upstream keyword, and 3 of them have tags."),
            (false, "4 upstream stories have tags."),
            (false, "12 stories have the downstream keyword of Kowalski."),
        ],
    );
}

#[test]
fn s12_rows_are_counted_for_what_the_sentence_names() {
    let found = reply("stories.search_stories", &json!({ "query": "upstream" }), "", Some(stories(5, ROWS)));
    check(
        &found.spans,
        &[
            (true, "5 stories have the upstream keyword. 2 of them are done."),
            (true, "2 of the 5 upstream stories are done."),
            (true, "2 upstream stories are done, 2 are ready and 1 is in the backlog."),
            (true, "3 of the stories have tags."),
            (true, "The upstream stories have 28 points in total."),
            (true, "The largest story has 13 points."),
            (true, "The stories have an average of 5.6 points."),
            (true, "The done stories have 8 points together."),
            (false, "5 upstream stories are done."),
            (false, "3 upstream stories are done."),
            (false, "13 stories have the upstream keyword."),
            (false, "The upstream stories have 29 points in total."),
            (false, "The stories have an average of 13 points."),
            (false, "The done stories have 28 points together."),
            (false, "28 stories have the upstream keyword."),
        ],
    );
}

#[test]
fn s12_cells_and_columns_of_tables() {
    let csv = "area,orders,revenue\nNorth,120,48000\nSouth,95,39900\nEast,143,61200\nWest,88,30100\n";
    let markdown = "Here it is.\n\n| area | orders | revenue |\n|---|---|---|\n| North | 120 | 48,000 |\n| South | 95 | 39,900 |\n| East | 143 | 61,200 |\n| West | 88 | 30,100 |\n";
    for text in [csv, markdown] {
        let found = reply("db.query", &json!({ "sql": "select area, orders, revenue from sales" }), text, None);
        assert!(
            shown(&found)
                .iter()
                .any(|(form, place, text)| *form == Form::Rows && *place == Some("row 3") && text.starts_with("area: East\norders: 143")),
            "{found:?}"
        );
        check(
            &found.spans,
            &[
                (true, "East had 143 orders."),
                (true, "South had a revenue of 39,900."),
                (true, "The total revenue of all areas was 179,200."),
                (true, "The highest revenue of an area was 61,200."),
                (true, "On average an area had 111.5 orders."),
                (false, "East had 134 orders."),
                (false, "South had a revenue of 48,000."),
                (false, "The total revenue of all areas was 197,200."),
                (false, "The lowest revenue of an area was 61,200."),
                (false, "The total orders of all areas were 179,200."),
            ],
        );
    }
}

#[test]
fn s12_records_code_output_and_plain_text() {
    let tickets = json!({ "count": 4, "items": [
        { "assignee": "Maya Lind", "hours": 6, "key": "OR-7", "state": "open" },
        { "key": "OR-9", "assignee": "Jon Reyes", "state": "closed", "hours": 3 },
        { "key": "OR-12", "assignee": "Maya Lind", "state": "open", "hours": 9 },
        { "key": "OR-15", "assignee": "Ravi Shah", "state": "open", "hours": 4 },
    ] });
    let found = reply("tracker.list_tickets", &json!({ "project": "Orion" }), "", Some(tickets));
    check(
        &found.spans,
        &[
            (true, "Orion has 4 tickets."),
            (true, "Three tickets of Orion are open."),
            (true, "The open tickets take 19 hours in total."),
            (true, "OR-15 is assigned to Ravi Shah."),
            (false, "Two tickets of Orion are open."),
            (false, "Orion has 3 tickets."),
            (false, "OR-15 is assigned to Jon Kowalski."),
            (false, "The open tickets take 22 hours in total."),
        ],
    );
    let ran = json!({ "outcome": "ok", "stdout": "mean: 18\n", "result": null, "error": null, "milliseconds": 19, "walls_missing": [] });
    let code = reply("code.run_python", &json!({ "code": "print('mean:', mean([4, 8, 15, 16, 23, 42]))" }), &ran.to_string(), Some(ran));
    check(&code.spans, &[(true, "The mean is 18."), (false, "The mean is 19."), (false, "The mean is 15.")]);
    let count = reply("shop.count_orders", &json!({ "customer": "Acme", "year": 2023 }), "27", None);
    check(
        &count.spans,
        &[
            (true, "Acme placed 27 orders in 2023."),
            (false, "Acme placed 28 orders in 2023."),
            (false, "Acme placed 27 orders in 2022."),
            (false, "Acme was founded by a customer in 2023."),
            (false, "Zenith placed 27 orders in 2023."),
        ],
    );
}

/// Arguments come from the model: they support nothing by themselves.
#[test]
fn s12_the_words_of_a_call_are_no_evidence() {
    let query = json!({ "query": "Ottokar Kowalski invented the telephone in 1871" });
    for (text, data) in [
        ("No results.", None),
        ("", Some(json!({ "total": 0 }))),
        ("", Some(json!({ "total": 3, "items": [{ "title": "History of the telephone" }, { "title": "Bells" }, { "title": "Wires" }] }))),
    ] {
        let found = reply("web.search", &query, text, data);
        check(
            &found.spans,
            &[
                (false, "Ottokar Kowalski invented the telephone."),
                (false, "The telephone was invented in 1871."),
                (false, "In 1871 Kowalski invented 1871 telephones."),
            ],
        );
    }
}

#[test]
fn s12_a_citation_names_the_call_and_the_place() {
    let found = reply("stories.search_stories", &json!({ "query": "upstream" }), "", Some(json!({ "matched": "all", "total": 12 })));
    let cited = cite("12 stories have the upstream keyword.", &Spans::new(&found.spans), Strict::Mark, &Options::default());
    assert_eq!(cited.body, "12 stories have the upstream keyword [1].");
    assert!(cited.to_plain().ends_with("[1] stories.search_stories (query: upstream), matched, total"), "{}", cited.to_plain());
    assert!(cited.to_markdown().ends_with("1. stories.search\\_stories (query: upstream), matched, total"), "{}", cited.to_markdown());
    let shown = baton_evidence::message_content(&found.spans[0]);
    assert_eq!(shown, "Source: stories.search_stories (query: upstream) · matched, total\nmatched: all\ntotal: 12");
}

#[test]
fn s6_a_total_has_room_before_everything_else() {
    let found = reply("stories.search_stories", &json!({ "query": "upstream" }), "", Some(stories(12, ROWS)));
    let picked = pick("Which stories speak of retry and cache?", &Spans::new(&found.spans), 120, &baton_evidence::PickOptions::default());
    assert!(picked.spans.iter().any(|one| one.content.ends_with("total: 12")) && picked.tokens <= 120, "{picked:?}");
    assert!(picked.spans.len() > 1, "{picked:?}");
}

#[test]
fn s6_old_journals_still_read_and_nothing_is_unbounded() {
    let old: Span = serde_json::from_value(json!({ "text": "x", "source": "t.t" })).unwrap();
    assert_eq!((old.form, old.task, old.facts.len()), (Form::Text, None, 0));
    let rows: Vec<Value> =
        (0..20_000).map(|n| json!({ "id": n, "name": format!("row {n}"), "kind": if n % 2 == 0 { "even" } else { "odd" } })).collect();
    let found = reply("db.all", &json!({}), "", Some(json!({ "rows": rows })));
    assert!(found.spans.len() <= baton_evidence::SPANS_MAX && found.spans.iter().all(|span| span.text.len() <= baton_evidence::SPAN_BYTES_MAX));
    assert!(found.spans.iter().any(|span| span.form == Form::Derived), "what rows come to is not pushed out by them");
    check(&found.spans[..1], &[(true, "10,000 rows are even."), (false, "9,000 rows are even.")]);
}

#[test]
fn s6_lists_in_rows_are_rows_of_their_own() {
    let order = |n: usize| json!({ "customer": format!("C{n}"), "lines": [{ "item": "tea", "price": n }, { "item": "rice", "price": 2 * n }] });
    let found = reply("shop.orders", &json!({}), "", Some(json!({ "orders": [order(3), order(5)], "page": { "size": 50 } })));
    let places: Vec<&str> = found.spans.iter().filter_map(|span| span.place.as_deref()).collect();
    let expected = [
        "page",
        "orders",
        "orders[0]",
        "orders[0].lines",
        "orders[0].lines[0]",
        "orders[0].lines[1]",
        "orders[1]",
        "orders[1].lines",
        "orders[1].lines[0]",
        "orders[1].lines[1]",
    ];
    assert_eq!(places, expected, "{found:?}");
    assert_eq!(found.spans[2].text, "customer: C3");
    let (text, range) = baton_evidence::reply_at(&found, &found.spans[9]).unwrap();
    assert!(text[range.clone()].contains("\"price\": 10"), "{}", &text[range]);
    // Only some lists of a reply are counted, however many it has.
    let many = reply("shop.orders", &json!({}), "", Some(json!({ "orders": (0..40).map(order).collect::<Vec<_>>() })));
    assert_eq!(many.spans.iter().filter(|span| span.form == Form::Derived).count(), 8);
}
