//! Vectors with the weights of the binary.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use baton_index::{Corpus, Model, Passage, State, Tool, Tools};
use tempfile::TempDir;

const PASSAGES: [&str; 5] = [
    "The physician examined the ill child.",
    "Interest rates were raised by the central bank.",
    "The orchestra rehearsed a symphony.",
    "He repaired the engine of the old car.",
    "Penguins live in the southern hemisphere.",
];

fn fill(corpus: &Corpus) {
    let mut change = corpus.change().unwrap();
    for (number, text) in PASSAGES.iter().enumerate() {
        change.replace(&number.to_string(), None, vec![Passage { text: (*text).into(), ..Default::default() }]).unwrap();
    }
    change.commit().unwrap();
}

#[test]
fn meaning_is_found_without_a_common_word() {
    let model = Model::builtin();
    let home = TempDir::new().unwrap();
    let corpus = Corpus::open(home.path(), &model).unwrap();
    fill(&corpus);
    let progress = corpus.wait(Duration::from_secs(300));
    assert_eq!((progress.state, progress.done, progress.total), (State::Ready, 5, 5));
    for (question, number) in [
        ("a doctor and her sick patient", 0),
        ("monetary policy got tighter", 1),
        ("classical music concert", 2),
        ("mechanic fixing an automobile motor", 3),
    ] {
        let answer = corpus.search(question, 1).unwrap();
        assert_eq!(answer.hits[0].passage.text, PASSAGES[number], "{question}");
        assert!(answer.lists.iter().any(|list| list.name == "vectors" && list.weight == 1.0));
    }
    for question in ["Hello there", "What is 2 + 2?"] {
        assert_eq!(corpus.search(question, 5).unwrap().hits, [], "{question}");
    }
    // After reopening, nothing is computed again.
    drop(corpus);
    let corpus = Corpus::open(home.path(), &model).unwrap();
    assert_eq!(corpus.progress().done, 5);
    assert_eq!(corpus.wait(Duration::from_secs(60)).per_second, None);
}

#[test]
fn filling_stops_when_dropped_and_goes_on_later() {
    let model = Model::builtin();
    let home = TempDir::new().unwrap();
    let corpus = Corpus::open(home.path(), &model).unwrap();
    let mut change = corpus.change().unwrap();
    let passages =
        (0..400).map(|number| Passage { text: format!("{} Number {number}. ", PASSAGES[number % 5]).repeat(5), ..Default::default() }).collect();
    change.replace("many", None, passages).unwrap();
    change.commit().unwrap();
    while corpus.progress().done == 0 {
        let progress = corpus.wait(Duration::from_millis(50));
        assert!(!matches!(progress.state, State::Failed(_)), "{progress:?}");
    }
    drop(corpus);
    let corpus = Corpus::open(home.path(), &model).unwrap();
    assert!(corpus.progress().done > 0);
    assert_eq!(corpus.wait(Duration::from_secs(600)).done, 400);
}

#[test]
fn tools_are_found_by_meaning() {
    let model = Model::builtin();
    let tool = |name: &str, description: &str| Tool { name: name.into(), description: description.into(), ..Default::default() };
    let tools =
        [tool("send_mail", "Send an e-mail message"), tool("get_weather", "Weather forecast for a city"), tool("run_sql", "Query a database")];
    let tools = Tools::new(&tools, &model, None).unwrap();
    assert_eq!(tools.wait(Duration::from_secs(300)).state, State::Ready);
    assert_eq!(tools.search("will it rain tomorrow in Oslo", 1)[0].index, 1);
}
