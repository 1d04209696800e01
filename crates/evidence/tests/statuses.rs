//! The result of a check: status, supporting spans, and problems as text.

use baton_evidence::{Options, Span, Spans, Status, check};

fn spans() -> Vec<Span> {
    let span = |title: &str, text: &str| Span {
        title: Some(title.into()),
        text: text.into(),
        source: "t.t".into(),
        address: Some(format!("https://example.org/{title}")),
        ..Span::default()
    };
    vec![
        span("who", "The World Health Organization was founded on 7 April 1948. Its seat is in Geneva, and it has 194 member states."),
        span("wal", "After a crash the log is replayed from the last checkpoint. `fsync_us` counts the microseconds."),
        span("tea", "Tea does not contain alcohol. The price of tea rose by 4% in Kenya."),
    ]
}

/// Each sentence's status, with its problems.
fn told(answer: &str, expected: &[(Status, &[usize], &[&str])]) {
    let spans = spans();
    let checked = check(answer, &spans, &Options::default());
    let seen: Vec<(Status, Vec<usize>, Vec<&str>)> = checked
        .sentences
        .iter()
        .map(|s| {
            (
                s.status,
                if s.found.is_empty() { s.cites.clone() } else { s.found.clone() },
                s.problems.iter().map(|problem| problem.words.as_str()).collect(),
            )
        })
        .collect();
    let expected: Vec<(Status, Vec<usize>, Vec<&str>)> =
        expected.iter().map(|(status, spans, words)| (*status, spans.to_vec(), words.to_vec())).collect();
    assert_eq!(seen, expected, "{answer}");
}

#[test]
fn problems_are_told_in_words() {
    use Status::{NoClaim, Supported, Unsupported, Weak};
    told("The WHO was founded on April 7, 1948 [1].", &[(Supported, &[1], &[])]);
    told("The WHO has 193 member states [1].", &[(Unsupported, &[1], &["the number 193 is not in [1]"])]);
    told("The WHO was founded in 1949 [1].", &[(Unsupported, &[1], &["the year 1949 is not in [1]"])]);
    told("Its seat is in Vienna [1].", &[(Unsupported, &[1], &["the name Vienna is not in [1]"])]);
    told("`fsync_ms` counts the microseconds [2].", &[(Unsupported, &[2], &["`fsync_ms` is not in [2]"])]);
    told("It is said that \"the log is deleted\" after a crash [2].", &[(Unsupported, &[2], &["the words \"the log is deleted\" are not in [2]"])]);
    told("Tea contains alcohol [3].", &[(Unsupported, &[3], &["it affirms “contain”, which [3] denies"])]);
    told("The price of tea fell by 4% in Kenya [3].", &[(Weak, &[3], &["it says “fell” where [3] says “rose”"])]);
    told("See https://made.up/page for the log after a crash [2].", &[(Unsupported, &[2], &["the address https://made.up/page is not in [2]"])]);
    told("The log is replayed from the last checkpoint [8].", &[(Supported, &[2], &["it cites [8], which does not exist"])]);
    // No citation, or the wrong one: the supporting span is found.
    told("The log is replayed from the last checkpoint.", &[(Supported, &[2], &[])]);
    told("The price of tea rose by 4% in Kenya [2].", &[(Unsupported, &[3], &["the number 4 is not in [2]", "the name Kenya is not in [2]"])]);
    told(
        "## What I found\n\nHere is what I found:\n\nIs it so? The sources do not say when tea was discovered. I hope this helps!",
        &[(NoClaim, &[], &[]), (NoClaim, &[], &[]), (NoClaim, &[], &[]), (NoClaim, &[], &[]), (NoClaim, &[], &[])],
    );
    // A sentence that looks like an introduction is still a claim if it contains a fact.
    told("Here is the seat: Vienna in 1948.", &[(Unsupported, &[], &["the name Vienna is not in [1]"])]);
    told("", &[]);
}

#[test]
fn likeness_lifts_a_paraphrase_and_never_a_wrong_fact() {
    let spans = spans();
    let read = Spans::new(&spans);
    let alike = |_: &str, _: &str| Some(0.93);
    let vouched = Options { likeness: Some(&alike), ..Options::default() };
    let status = |answer: &str, options: &Options<'_>| read.check(answer, options).sentences[0].status;
    let paraphrase = "Recovery reads the log again [2].";
    assert_eq!((status(paraphrase, &Options::default()), status(paraphrase, &vouched)), (Status::Weak, Status::Supported));
    for wrong in ["Recovery reads 12 logs again [2].", "Recovery reads the log of Oracle again [2].", "Tea contains alcohol [3].", "Dogs bark [2]."] {
        assert_ne!(status(wrong, &vouched), Status::Supported, "{wrong}");
    }
}
