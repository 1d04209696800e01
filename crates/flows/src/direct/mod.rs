//! The shortest path: the question goes to the model, and its reply is the answer, streamed as it is generated. If the user named
//! documents, the matching passages are included, and the answer is checked against them.
//!
//! ```text
//!   start ► look_up ► answer ► check ► end
//!           docs.search,  model    verifier, if documents were found
//!           if `docs`
//! ```
//!
//! If documents cannot be searched, a note states it and the run continues. If the model fails, the run fails; passages found are in its note
//! `found_before_failure`. If a budget ended or the reply was unusable, the passages are the answer. The stream is unchecked model text;
//! citations are checked when it is complete, and the run's output contains the result.

use evidence::Span;
use graph::{Ask, END, Go, Graph, GraphError, Message, Replies, Request};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::answer::{self, Answer};
use crate::claims;
use crate::context;
use crate::descriptor::{Descriptor, Needs, Routing};
use crate::follow_up;
use crate::input::{self, Input, ModelProfile};
use crate::no_model;
use crate::prompt::{self, Prompt};
use crate::settings::SettingsType;
use crate::toolbox::DOCUMENTS;
use crate::verify::{CheckOptions, Unchecked, Verify};

/// Descriptor of this flow.
pub const FLOW: Descriptor = Descriptor {
    title: "Direct answer",
    description: "Answers at once, from the model's knowledge or one search of the documents",
    routing: Some(Routing {
        purpose: "general knowledge, explanations, translations, short texts, small talk; nothing has to be looked up or done",
        examples: &["What is a volcano?"],
        needs: Needs::Nothing,
        substitutes: &["chat", "search", "reason"],
        may_be_replaced: false,
    }),
    answer: Some(ANSWER),
    settings: Some(SettingsType::of::<Settings>()),
    ..Descriptor::new("direct", |_| flow())
};

/// Builds the graph.
pub fn flow() -> Result<Graph, GraphError> {
    Graph::of::<Direct>("direct")
        .node("look_up", (ask_docs, fold_docs), &["answer"])
        .node("answer", (ask, fold), &["check", END])
        .node("check", (ask_check, fold_check), &["check", END])
        .input(|input: Input<Settings>| Direct {
            settings: input.settings.unwrap_or_default(),
            question: input.question,
            history: input::recent(&input.history, HISTORY_TURNS_MAX),
            model: input.model,
            strict: input.strict,
            docs: input.docs,
            shown: Vec::new(),
            unchecked: None,
            answer: Answer::default(),
            declined: None,
        })
        .output(output)
        .recall(context::recall(HISTORY_TURNS_MAX))
        .build()
}

/// User settings of this flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Who checks the answer: `fast` (rules and the verifier), `model` (a large model also decides what stays uncertain), or `rules`.
    pub verify: Verify,
    /// The model may decline what needs a tool; `auto` then hands the request to a flow that has tools.
    #[schemars(skip)]
    pub may_decline: bool,
}

/// The exact reply of a model that declines.
const DECLINES: &str = "[needs a tool]";
const DECLINED: &str = "This needs a tool, and the direct flow has none. Ask with `--flow reason`.";

/// The purpose of a call whose text is the answer. Clients may show it while it is streamed.
pub const ANSWER: &str = crate::ANSWER_CALL;

const SYSTEM: Prompt = Prompt { long: include_str!("system.md"), short: include_str!("system.small.md") };
const DOCS_SIZE: usize = 8;
const DOCS_MS_MAX: u64 = 30_000;
const HISTORY_TURNS_MAX: usize = 10;
const TOKENS_MAX: u32 = 1_024;
const DEADLINE_MS: u64 = 5 * 60 * 1_000;
const FOUND: &str = "No model answered; this is what the documents say:";

#[derive(Serialize, Deserialize)]
struct Direct {
    #[serde(default)]
    settings: Settings,
    question: String,
    history: Vec<Message>,
    model: ModelProfile,
    strict: bool,
    docs: bool,
    /// The passages shown to the model, `[1]` first.
    shown: Vec<Span>,
    /// The model's answer until it is checked.
    #[serde(default)]
    unchecked: Option<Unchecked>,
    answer: Answer,
    /// Why the model did not answer.
    #[serde(default)]
    declined: Option<String>,
}

fn output(s: &Direct) -> Value {
    let mut output = s.answer.output("direct");
    if let Some(why) = &s.declined {
        output.insert("declined".into(), json!(why));
    }
    Value::Object(output)
}

impl Direct {
    fn full_question(&self) -> String {
        follow_up::in_full(&self.question, &self.history)
    }

    /// Whether the answer is requested as facts, each with its passage.
    fn is_in_facts(&self) -> bool {
        claims::is_asked(&self.model, self.shown.len())
    }

    fn means(&self) -> CheckOptions<'_> {
        CheckOptions { verify: self.settings.verify, model: &self.model }
    }

    fn messages(&self) -> Vec<Message> {
        let declines = if self.settings.may_decline { DECLINES } else { "" };
        let context = json!({ "has_evidence": !self.shown.is_empty(), "wants_documents": self.docs, "declines": declines });
        let system = if self.is_in_facts() { claims::PROMPT } else { SYSTEM.of(&self.model) };
        let system = claims::with_abstention(&prompt::render(system, context), &self.model, self.shown.len());
        let mut messages = vec![prompt::system(system)];
        messages.extend(input::fitted(&self.history, self.model.history_tokens()));
        messages.extend(answer::messages(&self.shown));
        messages.push(prompt::user(prompt::clipped(&self.question, self.model.question_tokens())));
        messages
    }
}

fn ask_docs(s: &Direct) -> Ask {
    if !s.docs {
        return Ask::nothing();
    }
    let call = graph::tool(DOCUMENTS, json!({ "query": prompt::clipped(&s.full_question(), 300), "size": DOCS_SIZE }));
    Ask::one(Request::from(call).label("searching the documents").attempts(2).deadline_ms(DOCS_MS_MAX))
}

fn fold_docs(s: &mut Direct, replies: &Replies<'_>) -> Go {
    if replies.is_empty() {
        return Go::to("answer");
    }
    match replies.parse::<evidence::Found>(0) {
        Ok(found) => {
            let budget = s.model.evidence_tokens(prompt::tokens_of(&s.messages()), TOKENS_MAX);
            s.shown = answer::pick(&found.spans, &s.full_question(), budget);
            Go::to("answer").note("evidence", json!({ "passages": found.spans.len(), "shown": s.shown.len() }))
        }
        Err(failure) => Go::to("answer").note("docs_failed", failure.to_string()),
    }
}

fn ask(s: &Direct) -> Ask {
    let schema = claims::schema(&s.model, s.shown.len());
    Ask::one(prompt::call(ANSWER, s.messages(), schema, TOKENS_MAX).label("answering").deadline_ms(DEADLINE_MS).last())
}

fn fold(s: &mut Direct, replies: &Replies<'_>) -> Go {
    let go = match claims::read_reply(replies, s.is_in_facts()) {
        Ok(draft) if s.settings.may_decline && draft.markdown.trim().starts_with(DECLINES) => {
            s.declined = Some("it needs a tool".to_owned());
            s.answer = answer::finish(DECLINED, &[], false);
            Go::end().note("declined", "it needs a tool")
        }
        Ok(draft) => {
            let unchecked = Unchecked::new(draft, s.shown.clone(), s.strict, s.means()).for_question(&s.full_question(), s.means());
            return checked(s, unchecked);
        }
        Err(failure) if s.shown.is_empty() || no_model::is_down(&failure) => return no_model::fail("direct", &failure.message, &s.shown),
        Err(failure) => {
            s.answer = answer::finish(&answer::listed(FOUND, &s.shown), &s.shown, false);
            Go::end().note("answer_failed", failure.to_string())
        }
    };
    ended(s, go)
}

fn ask_check(s: &Direct) -> Ask {
    s.unchecked.as_ref().map_or_else(Ask::nothing, |unchecked| unchecked.ask(s.means()))
}

fn fold_check(s: &mut Direct, replies: &Replies<'_>) -> Go {
    let mut unchecked = s.unchecked.take().unwrap_or_default();
    unchecked.fold(s.means(), replies);
    checked(s, unchecked)
}

fn checked(s: &mut Direct, unchecked: Unchecked) -> Go {
    if !unchecked.is_done() {
        s.unchecked = Some(unchecked);
        return Go::to("check");
    }
    let (answer, failure) = unchecked.finish();
    s.answer = answer;
    let go = failure.into_iter().fold(Go::end(), |go, why| go.note("check_failed", why));
    ended(s, go)
}

fn ended(s: &Direct, go: Go) -> Go {
    let go = if s.shown.is_empty() { go } else { go.note("answer", s.answer.summary()) };
    go.say("user", s.question.as_str()).say("assistant", s.answer.text.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driven::{DrivenRun, ScriptedReply, drive, passages};
    use evidence::{DecisionWeights, JUDGE, JudgeReply, JudgeRequest, Judgement};
    use graph::{Failure, FailureKind, Outcome, Run, Start};

    const FACT: &str = "After a crash the log is replayed from the last checkpoint.";

    #[allow(clippy::needless_pass_by_value, reason = "cases read better with values")]
    fn direct(input: Value, docs: ScriptedReply, answer: ScriptedReply) -> DrivenRun {
        drive(&flow().unwrap(), input, |effect, _| match effect.name() {
            DOCUMENTS => docs.clone(),
            ANSWER => answer.clone(),
            other => panic!("{other} is not asked"),
        })
    }

    fn failed(kind: FailureKind, words: &str) -> ScriptedReply {
        Err(Failure::new(kind, words))
    }

    #[test]
    fn the_reply_of_the_model_is_the_answer_and_the_prompt_has_the_thread() {
        let history = json!([{ "role": "user", "content": "Hello" }, { "role": "assistant", "content": "Hi" }]);
        let driven = direct(json!({ "question": " Why? ", "history": history }), Ok(json!(null)), Ok(json!("Because.")));
        assert_eq!(driven.effects().count(), 1, "documents are only asked when they were named");
        let call = driven.models(ANSWER)[0];
        let roles: Vec<&str> = call.messages.iter().map(|message| message.role.as_str()).collect();
        assert_eq!(roles, ["system", "user", "assistant", "user"]);
        assert_eq!((call.messages[3].content.as_str(), &call.schema), ("Why?", &None));
        assert_eq!((driven.answer(), driven.output()["flow"].as_str()), ("Because.", Some("direct")));
        assert_eq!(driven.messages, [("user".to_owned(), "Why?".to_owned()), ("assistant".to_owned(), "Because.".to_owned())]);
    }

    #[test]
    fn documents_go_with_the_question_and_the_answer_is_held_to_them() {
        let input = json!({ "question": "What happens after a crash?", "docs": true });
        let raw = "After a crash the log is replayed from the last checkpoint. It takes 7 hours [1][4].";
        let driven = direct(input.clone(), Ok(passages(&[FACT])), Ok(json!(raw)));
        assert_eq!(driven.tools(), [(DOCUMENTS, &json!({ "query": "What happens after a crash?", "size": 8 }))]);
        let call = driven.models(ANSWER)[0];
        assert!(call.messages.iter().any(|message| message.role == "evidence" && message.content.contains(FACT)));
        assert!(driven.answer().contains("last checkpoint [1]. It takes 7 hours [1]. *(not supported by the sources)*"), "{}", driven.answer());
        assert_eq!((&driven.output()["refused"], driven.output()["sources"].as_array().unwrap().len()), (&json!([4]), 1));
        let mut strict = input;
        strict["strict"] = json!(true);
        assert!(!direct(strict, Ok(passages(&[FACT])), Ok(json!(raw))).answer().contains("7 hours"));
    }

    #[test]
    fn the_verifier_supports_other_words_and_without_it_the_rules_decide() {
        let input = |has_verifier: bool| json!({ "question": "What happens after a crash?", "docs": true, "model": { "is_small": false, "context_tokens": 32_000, "has_verifier": has_verifier } });
        let raw = "Recovery starts where the state was saved most recently [1].";
        let run = |has_verifier: bool, reply: &dyn Fn(usize) -> ScriptedReply| {
            drive(&flow().unwrap(), input(has_verifier), |effect, _| match (effect.name(), effect) {
                (DOCUMENTS, _) => Ok(passages(&[FACT])),
                (ANSWER, _) => Ok(json!(raw)),
                (JUDGE, graph::Effect::CallTool(call)) => {
                    let request: JudgeRequest = serde_json::from_value(call.arguments.clone()).unwrap();
                    reply(request.pairs().unwrap().len())
                }
                (other, _) => panic!("{other} is not asked"),
            })
        };
        let weights = DecisionWeights { model: 1.0, ..DecisionWeights::default() };
        let supported = |count: usize| {
            Ok(json!(JudgeReply { judgements: vec![Judgement { supported: 0.9, contradicted: 0.0 }; count], weights, answered: None }))
        };
        let judged = run(true, &supported);
        assert_eq!(judged.output()["sentences"][0]["status"], "supported", "{}", judged.answer());
        assert_eq!(judged.output()["sentences"][0]["by"], "verifier");
        let none = run(false, &|_| panic!("it is not asked"));
        assert_ne!(none.output()["sentences"][0]["status"], "supported");
        // If the verifier fails, the rules alone decide.
        for wrong in [failed(FailureKind::Refused, "no verifier"), Ok(json!({ "judgements": [], "weights": weights }))] {
            let driven = run(true, &|_| wrong.clone());
            assert!(driven.note("check_failed").is_some());
            assert_eq!(driven.answer(), none.answer());
        }
    }

    #[test]
    fn a_small_model_names_facts_and_their_passages_and_then_answers_in_a_few_words() {
        let input = json!({ "question": "From where is the log replayed?", "docs": true });
        let facts = |short: &str| Ok(json!({ "facts": [{ "sentence": FACT, "source": 1 }], "short_answer": short }));
        let driven = direct(input.clone(), Ok(passages(&[FACT])), facts("the last checkpoint"));
        assert_eq!(driven.models(ANSWER)[0].schema.as_ref().unwrap()["properties"]["facts"]["items"]["properties"]["source"]["maximum"], 1);
        assert!(driven.answer().starts_with("**the last checkpoint** [1].\n\nAfter a crash the log is replayed"), "{}", driven.answer());
        assert_eq!(driven.output()["short"], "the last checkpoint");
        // A short answer is checked against the passages of its facts.
        let made_up = direct(input.clone(), Ok(passages(&[FACT])), facts("the year 1874"));
        assert!(made_up.answer().contains("1874") && made_up.answer().contains("*(not supported by the sources)*"), "{}", made_up.answer());
        let mut strict = input;
        strict["strict"] = json!(true);
        let strict = direct(strict, Ok(passages(&[FACT])), facts("the year 1874"));
        assert!(!strict.answer().contains("1874") && strict.output().get("short").is_none(), "{}", strict.answer());
        let large = json!({ "is_small": false, "context_tokens": 32_000 });
        let large = direct(json!({ "question": "Why?", "docs": true, "model": large }), Ok(passages(&[FACT])), Ok(json!("{\"facts\": []}")));
        assert_eq!((&large.models(ANSWER)[0].schema, large.answer().contains("facts")), (&None, true), "a large one writes as it likes");
    }

    #[test]
    fn a_journal_from_before_the_answer_check_replays() {
        let question = "From where is the log replayed?";
        let facts = json!({ "facts": [{ "sentence": FACT, "source": 1 }], "short_answer": "the last checkpoint" });
        let weights = DecisionWeights { model: 1.0, ..DecisionWeights::default() };
        let graph = flow().unwrap();
        for (has_answer_check, answered) in [(false, None), (true, Some(0.01))] {
            let mut model = json!({ "is_small": true, "context_tokens": 8_192, "has_verifier": true });
            if has_answer_check {
                model["has_answer_check"] = json!(true);
            }
            let start = || Start::new("direct", "thread", "run", json!({ "question": question, "docs": true, "model": model }));
            let mut run = Run::start(&graph, start()).unwrap();
            let (mut entries, mut judged) = (Vec::new(), Vec::new());
            while let graph::Next::Perform(jobs) = run.next() {
                for job in jobs {
                    let value = match (job.effect.name(), &*job.effect) {
                        (DOCUMENTS, _) => passages(&[FACT]),
                        (ANSWER, _) => facts.clone(),
                        (JUDGE, graph::Effect::CallTool(call)) => {
                            judged.push(call.arguments.clone());
                            let count = call.arguments["pairs"].as_array().unwrap().len();
                            json!(JudgeReply { judgements: vec![Judgement { supported: 0.9, contradicted: 0.0 }; count], weights, answered })
                        }
                        (other, _) => panic!("{other} is not asked"),
                    };
                    entries.extend(run.feed(job.task, job.attempt, graph::Reply::ok(value)).unwrap());
                }
            }
            // Digests of requests are in the journal: a run that began without the check must not ask for it now.
            let fields: Vec<&str> = judged[0].as_object().unwrap().keys().map(String::as_str).collect();
            assert_eq!((judged.len(), fields.contains(&"answer"), fields.len()), (1, has_answer_check, if has_answer_check { 4 } else { 3 }));
            let mut again = Run::start(&graph, start()).unwrap();
            entries.into_iter().for_each(|entry| again.apply(entry).unwrap());
            let graph::Next::Done(replayed) = again.next() else { panic!("the journal is whole") };
            let output = replayed.output().unwrap();
            assert_eq!(run.outcome().and_then(|outcome| outcome.output()), Some(output));
            assert_eq!(output.get("short").is_some(), !has_answer_check, "{}", output["answer"]);
        }
    }

    #[test]
    fn documents_that_cannot_be_searched_are_a_note() {
        for docs in [failed(FailureKind::Network, "gone"), Ok(json!("gibberish"))] {
            let driven = direct(json!({ "question": "Why?", "docs": true }), docs, Ok(json!("Because.")));
            assert!(driven.note("docs_failed").is_some());
            assert_eq!(driven.answer(), "Because.");
        }
        let nothing = direct(json!({ "question": "Why?", "docs": true }), Ok(passages(&[])), Ok(json!("Because.")));
        assert_eq!(nothing.note("evidence"), Some(&json!({ "passages": 0, "shown": 0 })));
    }

    #[test]
    fn a_follow_up_is_looked_for_with_what_it_follows() {
        let history = json!([{ "role": "user", "content": "Who won in 2019?" }, { "role": "assistant", "content": "Ada." }]);
        let driven = direct(json!({ "question": "And in 2020?", "history": history, "docs": true }), Ok(passages(&[])), Ok(json!("Bob.")));
        assert_eq!(driven.tools()[0].1["query"], "Who won in 2019? And in 2020?");
    }

    #[test]
    fn without_a_model_the_run_fails_and_what_was_found_stays() {
        let silent = || failed(FailureKind::Refused, "no key");
        let driven = direct(json!({ "question": "Why?" }), Ok(json!(null)), silent());
        assert!(matches!(driven.outcome, Outcome::Failed { ref fault } if fault.to_string().contains("no model answered: no key")));
        let input = json!({ "question": "What after a crash?", "docs": true });
        let down = direct(input.clone(), Ok(passages(&[FACT])), silent());
        assert!(matches!(down.outcome, Outcome::Failed { ref fault } if fault.to_string().contains("no model answered: no key")));
        assert!(down.note(no_model::FOUND).unwrap()["answer"].as_str().unwrap().contains("last checkpoint [1]"));
        assert!(down.messages.is_empty(), "a failed run adds nothing to the conversation: {:?}", down.messages);
        // An exhausted budget is not a missing model.
        let found = direct(input, Ok(passages(&[FACT])), failed(FailureKind::Budget, "tokens"));
        assert!(found.answer().starts_with(FOUND) && found.answer().contains("last checkpoint [1]"), "{}", found.answer());
    }

    #[test]
    fn only_the_question_and_what_belongs_to_it_come_from_outside() {
        let graph = flow().unwrap();
        for input in [json!({ "question": " " }), json!({ "question": "Why?", "answer": "preset" }), json!({})] {
            assert!(Run::start(&graph, Start::new("direct", "t", "r", input.clone())).is_err(), "{input}");
        }
    }

    #[test]
    fn x2_a_model_may_decline_what_needs_a_tool_if_the_caller_allows_it() {
        let declines = Ok(json!(" [needs a tool]"));
        let input = json!({ "question": "Delete a.txt", "settings": { "may_decline": true } });
        let driven = direct(input.clone(), Ok(json!(null)), declines.clone());
        assert!(driven.models(ANSWER)[0].messages[0].content.contains(DECLINES));
        assert_eq!((driven.answer(), &driven.output()["declined"]), (DECLINED, &json!("it needs a tool")));
        // Otherwise the prompt does not offer it, and the text is the answer.
        let usual = direct(json!({ "question": "Delete a.txt" }), Ok(json!(null)), declines);
        assert!(!usual.models(ANSWER)[0].messages[0].content.contains(DECLINES));
        assert_eq!((usual.answer(), usual.output().get("declined")), ("[needs a tool]", None));
        let answered = direct(input, Ok(json!(null)), Ok(json!("It is done.")));
        assert_eq!((answered.answer(), answered.output().get("declined")), ("It is done.", None));
    }
}
