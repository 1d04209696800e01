//! How often passages are said to contradict each other: `conflicts FILE`, a file in HotpotQA's form, whose passages hardly ever do. Prints each finding and the
//! share of questions with one.

use baton_verifier::Verifier;
use evidence::{Judged, Span, Spans};
use serde_json::Value;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("conflicts FILE")?;
    let model = Verifier::shared().map_err(|error| error.to_string())?;
    let rows: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(path)?)?;
    let mut flagged = 0;
    for row in &rows {
        let titles = row["context"]["title"].as_array().ok_or("a row has no titles")?;
        let texts = row["context"]["sentences"].as_array().ok_or("a row has no sentences")?;
        let span = |(title, text): (&Value, &Value)| Span {
            text: text.as_array().into_iter().flatten().filter_map(Value::as_str).collect(),
            title: title.as_str().map(str::to_owned),
            source: "docs.search".to_owned(),
            ..Span::default()
        };
        let spans: Vec<Span> = titles.iter().zip(texts).map(span).collect();
        // The first passage as the answer: what it says is asked about, so that the passages are compared.
        let answer = spans.first().map(|span| span.text.clone()).unwrap_or_default();
        let judged = Judged::by(model, &answer, &Spans::new(&spans)).unwrap_or_default();
        flagged += usize::from(!judged.conflicts().is_empty());
        for conflict in judged.conflicts() {
            println!("{:?}: {:?}", row["question"].as_str().unwrap_or_default(), conflict.sentences);
        }
    }
    println!("{flagged} of {} questions", rows.len());
    Ok(())
}
