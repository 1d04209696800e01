//! Properties for arbitrary text, and run time.

use std::time::Instant;

use baton_evidence::{Options, PickOptions, Span, Spans, Strict, Trust, citations, cite, defused, fenced, found, message_content, pick, tokens};
use proptest::prelude::*;

/// Pieces with a meaning in this crate, combined at random.
const PIECES: &[&str] = &[
    "[1]",
    "[2]",
    "[9]",
    "[0]",
    "[[",
    "]]",
    "[1, 2]",
    "[1-3]",
    "[",
    "]",
    "(",
    ")",
    "](http://x.example)",
    "![",
    "【1】",
    "【",
    "】",
    "`",
    "``",
    "```",
    "~~~",
    "\n",
    "\n\n",
    "\n```\n",
    "# ",
    "- ",
    "1. ",
    "| ",
    " |",
    "|---|",
    "> ",
    "\"",
    "“",
    "”",
    "«",
    "»",
    "「",
    "」",
    "...",
    "…",
    ".",
    "! ",
    "? ",
    "。",
    "Dr. ",
    "U.S. ",
    "e.g. ",
    "3.14",
    "1,200",
    "12 million",
    "$5",
    "50%",
    "2024-05-06",
    "May 5, 1821",
    "half a ",
    "twenty-one",
    "10:30",
    "NASA ",
    "Zoë ",
    "Marie Curie ",
    "was not ",
    "born ",
    "in ",
    "Warsaw",
    "the log ",
    "is replayed",
    " ",
    "日本",
    "é",
    "e\u{301}",
    "\u{200b}",
    "\u{202e}",
    "\u{1b}[31m",
    "\u{1b}]0;",
    "<|im_start|>",
    "<|",
    "|>",
    "</s>",
    "[INST]",
    "İ",
    "ß",
    "👩‍👩‍👧",
    "Sources:\n",
    "[1]: http://x.example\n",
    "\r\n",
    "\t",
    "'s",
    "n't",
    "°C",
    "km/h",
    "v1.2.3",
    "a_b",
    "::",
    "+",
    "#",
    "**",
    "*",
    "_",
    "=",
    "http://x.example/a.b?c",
    "{\"a\": [1, {\"b\": 2}]}",
    "\0",
    "ﬁ",
    "ǅ",
    "٣",
];

fn any_text() -> impl Strategy<Value = String> {
    let pieces = prop::collection::vec(prop::sample::select(PIECES), 0..60).prop_map(|pieces| pieces.concat());
    prop_oneof![3 => pieces, 1 => any::<String>(), 1 => "\\PC{0,80}"]
}

fn spans() -> Vec<Span> {
    let span =
        |text: &str, address: Option<&str>| Span { text: text.into(), source: "t.t".into(), address: address.map(str::to_owned), ..Span::default() };
    vec![
        span("Marie Curie was born in Warsaw on 7 November 1867.", Some("https://a.example")),
        span("After a crash the log is replayed; it took 3.14 s and 1,200 pages.", Some("https://a.example")),
        span("", None),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_answer_is_checked_and_cited_without_a_citation_of_nothing(answer in any_text(), strict in prop::sample::select(&[Strict::Mark, Strict::Remove, Strict::Leave][..])) {
        let spans = spans();
        let read = Spans::new(&spans);
        let checked = read.check(&answer, &Options::default());
        let mut last = 0;
        for sentence in &checked.sentences {
            prop_assert!(answer.get(sentence.range.clone()).is_some_and(|text| !text.is_empty()));
            prop_assert!(sentence.range.start >= last, "{:?}", checked);
            last = sentence.range.end;
            prop_assert!(sentence.cites.iter().chain(&sentence.found).all(|number| (1..=3).contains(number)));
            prop_assert!((0.0..=1.0).contains(&sentence.score));
        }
        let cited = cite(&answer, &read, strict, &Options::default());
        for citation in citations(&cited.body) {
            prop_assert!(citation.numbers.iter().all(|number| (1..=cited.sources.len()).contains(number)), "{:?}", cited);
        }
        for source in &cited.sources {
            prop_assert!(!source.spans.is_empty() && source.spans.iter().all(|number| (1..=3).contains(number)));
        }
        for sentence in &cited.checked.sentences {
            prop_assert!(cited.body.get(sentence.range.clone()).is_some(), "{:?}", cited);
        }
        cited.to_markdown();
        cited.to_plain();
    }

    #[test]
    fn any_span_is_read_picked_and_fenced(text in any_text(), question in any_text(), budget in 0_usize..200) {
        let cut = found("t.t", Trust::Untrusted, &text, None);
        prop_assert!(cut.spans.iter().all(|span| span.text.len() <= baton_evidence::SPAN_BYTES_MAX));
        let one = Span { text: text.clone(), title: Some(question.clone()), place: Some(text.clone()), source: question.clone(), ..Span::default() };
        let all: Vec<Span> = cut.spans.iter().cloned().chain([one.clone()]).collect();
        let read = Spans::new(&all);
        let picked = pick(&question, &read, budget, &PickOptions::default());
        prop_assert!(picked.tokens <= budget);
        prop_assert_eq!(picked.spans.len() + picked.left_out + picked.repeated, all.len());
        read.check(&question, &Options::default());
        let safe = defused(&text);
        prop_assert!(!safe.contains("<|") && !safe.contains("|>") && !safe.contains("</s>") && !safe.contains("[INST]"), "{:?}", safe);
        prop_assert!(!safe.chars().any(|c| (c.is_control() && c != '\n' && c != '\t') || ('\u{202a}'..='\u{202e}').contains(&c)), "{:?}", safe);
        // The fence closes once, at the end.
        let block = fenced(&one, 1);
        let fence = block.lines().last().unwrap();
        prop_assert_eq!(block.lines().filter(|line| line.trim_start().starts_with(fence)).count(), 2, "{:?}", block);
        let content = message_content(&one);
        prop_assert!(content.starts_with("Source: ") && content.lines().next().unwrap().len() > 8);
        tokens(&text);
    }
}

#[test]
fn long_and_deep_input_stays_quick() {
    let spans = spans();
    let read = Spans::new(&spans);
    for text in [
        "[".repeat(20_000),
        "`".repeat(20_001),
        "\"a. ".repeat(8_000),
        "“".repeat(20_000),
        "[1]".repeat(8_000),
        "](".repeat(20_000),
        "x".repeat(200_000),
        "A. ".repeat(20_000),
        "<|".repeat(20_000),
        "1,".repeat(20_000),
    ] {
        let started = Instant::now();
        let cited = cite(&text, &read, Strict::Mark, &Options::default());
        println!("{:>9.1?} for {} bytes of {:?}", started.elapsed(), text.len(), &text.chars().take(4).collect::<String>());
        assert!(citations(&cited.body).iter().all(|citation| citation.numbers.iter().all(|number| *number <= cited.sources.len())));
        defused(&text);
        found("t.t", Trust::Untrusted, &text, None);
    }
}

/// Prints without asserting: machines differ. `cargo test --release -p evidence --test promises -- speed --nocapture`
#[test]
fn speed_of_a_thousand_sentences_against_two_hundred_spans() {
    let set = include_str!("checked/tuning.txt").to_owned() + include_str!("checked/held_out.txt");
    let texts: Vec<String> =
        set.split("\n\n").map(|block| block.lines().filter_map(|line| line.strip_prefix("> ")).collect::<Vec<_>>().join(" ")).collect();
    let sentences: Vec<&str> = set.lines().filter_map(|line| line.strip_prefix("supported: ").or_else(|| line.strip_prefix("number: "))).collect();
    let spans: Vec<Span> =
        (0..200).map(|n| Span { text: format!("{} Copy {n}.", texts[n % texts.len()]), source: "t.t".into(), ..Span::default() }).collect();
    let started = Instant::now();
    let read = Spans::new(&spans);
    println!("200 spans read in {:?}", started.elapsed());
    for (name, cited) in [("cited", true), ("uncited, looked up", false)] {
        let lines =
            (0..1_000).map(|n| format!("{}{}", sentences[n % sentences.len()], if cited { format!(" [{}]", n % 200 + 1) } else { String::new() }));
        let answer = lines.collect::<Vec<_>>().join("\n\n");
        let started = Instant::now();
        let checked = read.check(&answer, &Options::default());
        println!("{} sentences, {name}: {:?}", checked.sentences.len(), started.elapsed());
        assert!(checked.sentences.len() >= 1_000);
    }
}
