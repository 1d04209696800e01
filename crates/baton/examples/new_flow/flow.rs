//! The flow: one node that has a model answer a question from a text.
//!
//! A node is two pure functions. `ask` returns what is needed (here one model call), `fold` applies the replies to the state and returns the next node.
//! Neither does IO, so a run can be replayed after a crash, and tested as a value (see the tests below).

use baton::models::evidence;
use baton::{Ask, END, Effect, Go, Graph, GraphError, Message, ModelCall, Replies, Request};
use serde::{Deserialize, Serialize};

/// The name under which runs of this flow are stored.
pub(crate) const NAME: &str = "new_flow";

/// The prompt is a file, so that it can be read and changed as text. `{sentences}` stands for the setting.
const PROMPT: &str = include_str!("answer.md");

/// What a caller may change.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Settings {
    /// The longest answer, in sentences.
    pub sentences: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { sentences: 3 }
    }
}

/// What a run starts with, and what it has found out so far. It is stored as JSON.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct State {
    pub question: String,
    /// The name of the text, for citations.
    pub source: String,
    pub text: String,
    pub settings: Settings,
    pub answer: String,
}

pub(crate) fn flow() -> Result<Graph, GraphError> {
    Graph::of::<State>(NAME).node("answer", (ask, fold), &[END]).build()
}

fn ask(state: &State) -> Ask {
    let prompt = PROMPT.replace("{sentences}", &state.settings.sentences.to_string());
    let messages = vec![Message::system(prompt), evidence::message(&state.source, &state.text), Message::user(&state.question)];
    let call = ModelCall { purpose: "answer".into(), messages, tokens_max: Some(500), ..ModelCall::default() };
    // A second attempt if the provider is busy; a limit on the time of each.
    Ask::one(Request::from(Effect::CallModel(call)).attempts(2).deadline_ms(60_000))
}

fn fold(state: &mut State, replies: &Replies<'_>) -> Go {
    match replies.parse(0) {
        Ok(answer) => {
            state.answer = answer;
            Go::end()
        }
        Err(failure) => Go::fail(format!("there is no answer: {}", failure.message)),
    }
}

#[cfg(test)]
mod tests {
    use baton::{Failure, FailureKind, Next, Outcome, Reply, Run, Start};
    use serde_json::json;

    use super::*;

    /// Runs the flow as a value: no engine, no model, no clock. Returns the prompt it sent and how it ended.
    fn run(reply: Reply) -> (String, Outcome) {
        let graph = flow().expect("the graph is complete");
        let input = json!({ "question": "How tall?", "source": "tower.txt", "text": "It is 330 m tall.", "settings": { "sentences": 1 } });
        let mut run = Run::start(&graph, Start::new(NAME, "thread", "run", input)).expect("the input fits the state");
        let Next::Perform(jobs) = run.next() else { panic!("the flow asks for something first") };
        let [job] = jobs.as_slice() else { panic!("it asks for one thing") };
        let Effect::CallModel(call) = &*job.effect else { panic!("it asks a model") };
        let prompt = call.messages.iter().map(|message| message.content.as_str()).collect::<Vec<_>>().join("\n");
        run.feed(job.task, job.attempt, reply).expect("the reply is expected");
        let Next::Done(outcome) = run.next() else { panic!("one reply ends the run") };
        (prompt, (*outcome).clone())
    }

    #[test]
    fn the_answer_is_the_output() {
        let (prompt, outcome) = run(Reply::ok("330 m."));
        assert!(prompt.contains("at most 1 sentence") && prompt.contains("It is 330 m tall.") && prompt.contains("How tall?"), "{prompt}");
        assert_eq!(outcome.output().expect("it ends well")["answer"], "330 m.");
    }

    #[test]
    fn a_model_that_fails_fails_the_run() {
        let (_, outcome) = run(Reply::failed(Failure::new(FailureKind::Refused, "no key")));
        assert!(matches!(outcome, Outcome::Failed { .. }), "{outcome:?}");
    }
}
