//! The shortest way: the question goes to the model, and what it says is the answer, word by word as it comes.
//!
//! ```text
//!   start ► answer ► end
//! ```

use graph::{Ask, END, Effect, Go, Graph, GraphError, Message, ModelCall, Replies, Request};
use serde::{Deserialize, Serialize};
use serde_json::json;

pub fn flow() -> Result<Graph, GraphError> {
    Graph::of::<Direct>("direct")
        .node("answer", (ask, fold), &[END])
        .input(|Input { question, history }| Direct { question, history, answer: String::new() })
        .output(|s| json!({ "answer": s.answer }))
        .build()
}

/// The purpose of a call whose words are the answer itself. Whoever watches may show them as they come.
pub const ANSWER: &str = "answer";

const SYSTEM: &str = include_str!("system.md");
const TOKENS_MAX: u32 = 1_024;
const DEADLINE_MS: u64 = 5 * 60 * 1_000;
const ATTEMPTS_MAX: u32 = 3;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    #[serde(deserialize_with = "not_empty")]
    question: String,
    #[serde(default)]
    history: Vec<Message>,
}

fn not_empty<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    match String::deserialize(deserializer)?.trim() {
        "" => Err(serde::de::Error::custom("the question is empty")),
        question => Ok(question.to_owned()),
    }
}

#[derive(Serialize, Deserialize)]
struct Direct {
    question: String,
    history: Vec<Message>,
    answer: String,
}

fn ask(s: &Direct) -> Ask {
    let message = |role: &str, content: &str| Message { role: role.to_owned(), content: content.to_owned() };
    let mut messages = vec![message("system", SYSTEM.trim())];
    messages.extend(s.history.iter().cloned());
    messages.push(message("user", &s.question));
    let call = ModelCall { purpose: ANSWER.to_owned(), messages, tokens_max: Some(TOKENS_MAX), ..ModelCall::default() };
    Ask::one(Request::from(Effect::CallModel(call)).label("answering").attempts(ATTEMPTS_MAX).deadline_ms(DEADLINE_MS).last())
}

fn fold(s: &mut Direct, replies: &Replies<'_>) -> Go {
    match replies.value(0) {
        Ok(value) => {
            s.answer = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            Go::end().say("user", s.question.as_str()).say("assistant", s.answer.as_str())
        }
        Err(failure) => Go::fail(format!("no model answered: {}", failure.message)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use graph::{Failure, FailureKind, Next, Outcome, Reply, Run, Start};
    use serde_json::Value;

    fn check(input: Value, reply: Reply) -> (Vec<Message>, Outcome) {
        let graph = flow().unwrap();
        let mut run = Run::start(&graph, Start::new("direct", "t", "r", input)).unwrap();
        let Next::Perform(jobs) = run.next() else { panic!("one call is due") };
        let [job] = jobs.as_slice() else { panic!("one call, not {}", jobs.len()) };
        let Effect::CallModel(call) = &*job.effect else { panic!("a model is asked") };
        let messages = call.messages.clone();
        run.feed(job.task, job.attempt, reply).unwrap();
        match run.next() {
            Next::Done(outcome) => (messages, (*outcome).clone()),
            other => panic!("it should be over, but {other:?}"),
        }
    }

    #[test]
    fn what_the_model_says_is_the_answer_and_the_thread_is_heard() {
        let history = json!([{ "role": "user", "content": "Hello" }, { "role": "assistant", "content": "Hi" }]);
        let (messages, outcome) = check(json!({ "question": " Why? ", "history": history }), Reply::ok("Because."));
        let roles: Vec<&str> = messages.iter().map(|message| message.role.as_str()).collect();
        assert_eq!(roles, ["system", "user", "assistant", "user"]);
        assert_eq!(messages[3].content, "Why?");
        assert_eq!(outcome, Outcome::Done { output: json!({ "answer": "Because." }) });
    }

    #[test]
    fn nobody_answers_is_a_failure_a_person_can_read() {
        let (_, outcome) = check(json!({ "question": "Why?" }), Reply::failed(Failure::new(FailureKind::Refused, "no key")));
        assert!(matches!(outcome, Outcome::Failed { ref fault } if fault.to_string().contains("no model answered: no key")), "{outcome:?}");
    }

    #[test]
    fn only_the_question_and_the_history_come_from_outside() {
        let graph = flow().unwrap();
        for input in [json!({ "question": " " }), json!({ "question": "Why?", "answer": "preset" }), json!({})] {
            assert!(Run::start(&graph, Start::new("direct", "t", "r", input.clone())).is_err(), "{input}");
        }
    }
}
