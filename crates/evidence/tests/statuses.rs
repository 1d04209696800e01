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
fn check_statuses(answer: &str, expected: &[(Status, &[usize], &[&str])]) {
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
fn problems_are_described_in_text() {
    use Status::{NoClaim, Supported, Unsupported, Weak};
    check_statuses("The WHO was founded on April 7, 1948 [1].", &[(Supported, &[1], &[])]);
    check_statuses("The WHO has 193 member states [1].", &[(Unsupported, &[1], &["the number 193 is not in [1]"])]);
    check_statuses("The WHO was founded in 1949 [1].", &[(Unsupported, &[1], &["the year 1949 is not in [1]"])]);
    check_statuses("Its seat is in Vienna [1].", &[(Unsupported, &[1], &["the name Vienna is not in [1]"])]);
    check_statuses("`fsync_ms` counts the microseconds [2].", &[(Unsupported, &[2], &["`fsync_ms` is not in [2]"])]);
    check_statuses(
        "It is said that \"the log is deleted\" after a crash [2].",
        &[(Unsupported, &[2], &["the words \"the log is deleted\" are not in [2]"])],
    );
    check_statuses("Tea contains alcohol [3].", &[(Unsupported, &[3], &["it affirms “contain”, which [3] denies"])]);
    check_statuses("The price of tea fell by 4% in Kenya [3].", &[(Weak, &[3], &["it says “fell” where [3] says “rose”"])]);
    check_statuses(
        "See https://made.up/page for the log after a crash [2].",
        &[(Unsupported, &[2], &["the address https://made.up/page is not in [2]"])],
    );
    check_statuses("The log is replayed from the last checkpoint [8].", &[(Supported, &[2], &["it cites [8], which does not exist"])]);
    // No citation, or the wrong one: the supporting span is found.
    check_statuses("The log is replayed from the last checkpoint.", &[(Supported, &[2], &[])]);
    check_statuses(
        "The price of tea rose by 4% in Kenya [2].",
        &[(Unsupported, &[3], &["the number 4 is not in [2]", "the name Kenya is not in [2]"])],
    );
    check_statuses(
        "## What I found\n\nHere is what I found:\n\nIs it so? The sources do not say when tea was discovered. I hope this helps!",
        &[(NoClaim, &[], &[]), (NoClaim, &[], &[]), (NoClaim, &[], &[]), (NoClaim, &[], &[]), (NoClaim, &[], &[])],
    );
    // A sentence that looks like an introduction is still a claim if it contains a fact.
    check_statuses("Here is the seat: Vienna in 1948.", &[(Unsupported, &[], &["the name Vienna is not in [1]"])]);
    check_statuses("", &[]);
}

#[test]
fn likeness_lifts_a_paraphrase_and_never_a_wrong_fact() {
    let spans = spans();
    let read = Spans::new(&spans);
    let alike = |_: &str, _: &str| Some(0.93);
    let with_likeness = Options { likeness: Some(&alike), ..Options::default() };
    let status = |answer: &str, options: &Options<'_>| read.check(answer, options).sentences[0].status;
    let paraphrase = "Recovery reads the log again [2].";
    assert_eq!((status(paraphrase, &Options::default()), status(paraphrase, &with_likeness)), (Status::Weak, Status::Supported));
    for wrong in ["Recovery reads 12 logs again [2].", "Recovery reads the log of Oracle again [2].", "Tea contains alcohol [3].", "Dogs bark [2]."] {
        assert_ne!(status(wrong, &with_likeness), Status::Supported, "{wrong}");
    }
}

/// The status of one claim about one text, with its problems.
fn about(claim: &str, text: &str) -> (Status, Vec<String>) {
    let spans = [Span { text: text.into(), source: "t.t".into(), ..Span::default() }];
    let sentence = check(&format!("{claim} [1]"), &spans, &Options::default()).sentences.remove(0);
    (sentence.status, sentence.problems.into_iter().map(|problem| problem.words).collect())
}

#[test]
fn years_and_ranks_are_found_in_other_forms() {
    for (claim, text) in [
        ("Rodríguez caught the perfect game in 1994.", "Rodríguez caught the perfect game on 1994-07-28."),
        ("The club had a debt in the 2010-2011 season.", "The club had a debt in the 2010–11 season."),
        ("Critics praised season 1 of the series.", "Critics praised the first season of the series."),
        ("Critics praised the third season of the series.", "Critics praised season 3 of the series."),
    ] {
        assert_eq!(about(claim, text), (Status::Supported, Vec::new()), "{claim}");
    }
    for (claim, text) in [
        ("Rodríguez caught the perfect game in 1995.", "Rodríguez caught the perfect game on 1994-07-28."),
        ("The club had a debt in the 2010-2012 season.", "The club had a debt in the 2010–11 season."),
        ("Critics praised season 2 of the series.", "Critics praised the first season of the series."),
        ("Critics praised season 1 of the series.", "Critics praised the first episode of the series."),
        ("Critics praised the third season of the series.", "Critics praised season 4 of the series."),
    ] {
        assert_eq!(about(claim, text).0, Status::Unsupported, "{claim}");
    }
}

#[test]
fn a_date_without_its_year_is_undecided() {
    let text = "11 March: the ministry confirmed two new cases in the capital.";
    let (status, problems) = about("The ministry confirmed two new cases in the capital on 11 March 2020.", text);
    assert_eq!((status, problems), (Status::Unsupported, vec!["[1] has 11 March 2020 without its year".to_owned()]));
    let (_, problems) = about("The ministry confirmed two new cases in the capital on 12 March 2020.", text);
    assert_eq!(problems, ["the date 12 March 2020 is not in [1]"]);
}

#[test]
fn a_title_in_quotation_marks_is_a_name() {
    let text = "She recorded the album The Glass Harbour with Ida Holm in Bergen.";
    assert_eq!(about("She recorded “The Glass Harbour” with Ida Holm in Bergen.", text), (Status::Supported, Vec::new()));
    let (status, problems) = about("She recorded “The Glass Lighthouse” with Ida Holm in Bergen.", text);
    assert_eq!((status, problems), (Status::Unsupported, vec!["the name Lighthouse (of “Glass Lighthouse”) is not in [1]".to_owned()]));
    assert_eq!(about("She recorded the album and said “never again”.", text).0, Status::Unsupported);
}

#[test]
fn an_excerpt_is_the_title_and_the_sentences_nearest_to_a_text() {
    let filler = "Boats leave the quay every morning and come back when it is dark. The museum shows old nets, oars and barrels to its visitors.";
    let text = format!("{filler} The lighthouse was built by Ida Holm. {filler}");
    let spans = [
        Span { title: Some("Harbour".into()), text, source: "t.t".into(), ..Span::default() },
        Span { text: "The lighthouse was built by Ida Holm.".into(), source: "t.t".into(), ..Span::default() },
    ];
    let excerpts = Spans::new(&spans).excerpts("Ida Holm built the lighthouse.");
    assert_eq!(excerpts, [Some("Harbour. The lighthouse was built by Ida Holm.".to_owned()), None]);
    assert_eq!(Spans::new(&spans).excerpts("Ostriches run."), [None, None]);
}
