//! Researches every topic in a child run, and mails the results.
//!
//! ```text
//!            research ┐
//!   start ►  research ┼► gather ► mail ► end
//!            research ┘     │   mail.send, once
//!            child runs     └─ no topics ──► end
//! ```
//!
//! A failed child is a line in the report; so is a topic beyond the limit.

use graph::{Ask, END, Go, Graph, GraphError, Replies, Request};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::descriptor::{Descriptor, InputKind, Visibility};
use crate::input;

/// Descriptor of this flow.
pub const FLOW: Descriptor =
    Descriptor { title: "Team", visibility: Visibility::Sample, input: InputKind::Own(topics_of), ..Descriptor::new("team", |_| flow()) };

/// Builds the graph.
pub fn flow() -> Result<Graph, GraphError> {
    Graph::of::<Team>("team")
        .node("gather", (ask_children, fold_children), &["mail", END])
        .node("mail", (ask_mail, fold_mail), &[END])
        .calls("gather", ["research"])
        .output(|s| json!({ "findings": s.findings, "mailed": s.mailed }))
        .build()
}

/// A question is a list of topics separated by `;` or line breaks.
fn topics_of(question: &input::Question<'_>) -> Value {
    let topics: Vec<&str> = question.text.split([';', '\n']).map(str::trim).filter(|topic| !topic.is_empty()).collect();
    json!({ "topics": topics })
}

const TOPICS_MAX: usize = 32;
const CHILD_MS_MAX: u64 = 10 * 60 * 1_000;

#[derive(Serialize, Deserialize)]
struct Team {
    topics: Vec<String>,
    #[serde(default)]
    findings: Vec<Finding>,
    #[serde(default)]
    mailed: bool,
}

#[derive(Serialize, Deserialize)]
struct Finding {
    topic: String,
    #[serde(flatten)]
    result: Found,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Found {
    Answer(String),
    Failed(String),
}

fn ask_children(s: &Team) -> Ask {
    let child =
        |topic: &String| Request::from(graph::agent("research", json!({ "question": topic }))).label(topic.as_str()).deadline_ms(CHILD_MS_MAX);
    Ask { requests: s.topics.iter().take(TOPICS_MAX).map(child).collect() }
}

fn fold_children(s: &mut Team, replies: &Replies<'_>) -> Go {
    if s.topics.is_empty() {
        return Go::end().note("findings", "no topics were given");
    }
    let found = |index: usize| match replies.value(index) {
        _ if index >= TOPICS_MAX => Found::Failed(format!("not researched: topics_max = {TOPICS_MAX}")),
        Ok(value) => Found::Answer(value.get("answer").and_then(Value::as_str).map_or_else(|| value.to_string(), str::to_owned)),
        Err(failure) => Found::Failed(failure.to_string()),
    };
    s.findings = s.topics.iter().enumerate().map(|(index, topic)| Finding { topic: topic.clone(), result: found(index) }).collect();
    let answered = s.findings.iter().filter(|finding| matches!(finding.result, Found::Answer(_))).count();
    let summary = format!("{answered} of {} topics answered", s.findings.len());
    Go::to("mail").note("findings", summary.as_str()).say("assistant", format!("{summary}.\n{}", report(&s.findings)))
}

fn ask_mail(s: &Team) -> Ask {
    let mail = graph::tool("mail.send", json!({ "subject": "What the team found", "text": report(&s.findings) }));
    Ask::one(Request::from(mail).attempts(3).label("mailing the report"))
}

fn fold_mail(s: &mut Team, replies: &Replies<'_>) -> Go {
    match replies.value(0) {
        Ok(_) => {
            s.mailed = true;
            Go::end()
        }
        Err(failure) => Go::end().note("mail_failed", failure.to_string()),
    }
}

fn report(findings: &[Finding]) -> String {
    let line = |finding: &Finding| match &finding.result {
        Found::Answer(answer) => format!("{}: {answer}", finding.topic),
        Found::Failed(why) => format!("{}: not answered ({why})", finding.topic),
    };
    findings.iter().map(line).collect::<Vec<_>>().join("\n")
}
