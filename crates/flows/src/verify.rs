//! Checks whether passages support an answer. The check is made of effects, so that a replay decides as the run did.
//!
//! ```text
//!   text, passages ── Stage::Verifier ──▶ evidence.judge: each sentence with the passages that may support it, in one call; of a small model's
//!                                         answer also whether the passages answer the question with its short form
//!                  ── Stage::Model ─────▶ one call of a large model about the sentences that stay uncertain (`verify = "model"`)
//!                  ── Stage::Done ──────▶ Judged, for `evidence::Options::judged`
//! ```
//!
//! [`Check`] checks any text; a panel's critics use it. [`Unchecked`] checks a text that becomes an answer. A flow has one node for it that
//! leads to itself until the check is done. If the verifier or the model fails, the result of the previous stage stands, and a note records
//! why.

use evidence::{Form, JUDGE, JudgeReply, JudgeRequest, Judged, ModelDecision, ModelWord, Questions, ShortAnswer, Span, Spans, TitledText, Trust};
use graph::{Ask, Failure, FailureKind, Replies, Request};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::answer::{self, Answer};
use crate::claims::DraftAnswer;
use crate::input::ModelProfile;
use crate::prompt;

/// The setting `verify` of every flow that checks its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verify {
    /// Rules and the built-in verifier.
    #[default]
    Fast,
    /// The same, and the configured model, if it is a large one, for what stays uncertain.
    Model,
    /// Rules alone.
    Rules,
}

/// How a flow checks its text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckOptions<'m> {
    pub(crate) verify: Verify,
    pub(crate) model: &'m ModelProfile,
}

impl CheckOptions<'_> {
    fn has_verifier(&self) -> bool {
        self.verify != Verify::Rules && self.model.has_verifier
    }

    fn has_model(&self) -> bool {
        self.verify == Verify::Model && !self.model.is_small
    }
}

const DEADLINE_MS: u64 = 20_000;
const MODEL_DEADLINE_MS: u64 = 2 * 60 * 1_000;
const PROMPT: &str = include_str!("verify.md");
/// Sentences in one call of a model; the others keep the verifier's result.
const STATEMENTS_MAX: usize = 32;
const TOKENS_PER_STATEMENT: u32 = 40;

/// A text and the state of its check.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Check {
    pub(crate) text: String,
    stage: Stage,
    #[serde(default)]
    reply: Option<JudgeReply>,
    /// The sentences in question, and then the model's decision.
    #[serde(default)]
    uncertain: Vec<String>,
    #[serde(default)]
    decisions: Vec<(String, ModelDecision)>,
    #[serde(default)]
    pub(crate) failure: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Stage {
    Verifier,
    Model,
    #[default]
    Done,
}

impl Check {
    pub(crate) fn new(text: impl Into<String>, spans: &[Span], means: CheckOptions<'_>) -> Check {
        let mut check = Check { text: text.into(), ..Check::default() };
        if spans.is_empty() || !means.has_verifier() && !means.has_model() {
            return check;
        }
        check.stage = Stage::Verifier;
        if !means.has_verifier() || Questions::of(&check.text, &Spans::new(spans)).is_empty() {
            check.leave_verifier(spans, means);
        }
        check
    }

    pub(crate) fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    /// The next request; `None` once it is done.
    pub(crate) fn request(&self, spans: &[Span], means: CheckOptions<'_>) -> Option<Request> {
        self.request_with(spans, means, None)
    }

    /// The same; a short answer is judged beside the sentences.
    fn request_with(&self, spans: &[Span], means: CheckOptions<'_>, answer: Option<ShortAnswer>) -> Option<Request> {
        match self.stage {
            Stage::Verifier => {
                let questions = Questions::of(&self.text, &Spans::new(spans));
                let call = graph::tool(JUDGE, json!(JudgeRequest::new(questions.pairs()).with_answer(answer)));
                Some(Request::from(call).label("checking the answer").deadline_ms(DEADLINE_MS).last())
            }
            Stage::Model => Some(self.model_request(spans, means)),
            Stage::Done => None,
        }
    }

    /// Takes the reply to [`Check::request`].
    pub(crate) fn take(&mut self, spans: &[Span], means: CheckOptions<'_>, reply: Result<&Value, Failure>) {
        let taken = match self.stage {
            Stage::Verifier => reply.and_then(|value| self.take_judgements(spans, value)),
            Stage::Model => reply.and_then(|value| self.take_decisions(spans, means, value)),
            Stage::Done => Ok(()),
        };
        if let Err(failure) = taken {
            self.failure = Some(failure.to_string());
        }
        match self.stage {
            Stage::Verifier => self.leave_verifier(spans, means),
            Stage::Model | Stage::Done => self.stage = Stage::Done,
        }
    }

    /// The judgements so far; `None` if there is none.
    pub(crate) fn judged(&self, spans: &[Span]) -> Option<Judged> {
        let judged = self.reply.as_ref().and_then(|reply| Questions::of(&self.text, &Spans::new(spans)).judged(&reply.judgements, reply.weights));
        match self.decisions.is_empty() {
            true => judged,
            false => Some(judged.unwrap_or_default().with_decisions(self.decisions.iter().cloned())),
        }
    }

    fn leave_verifier(&mut self, spans: &[Span], means: CheckOptions<'_>) {
        self.stage = Stage::Done;
        if means.has_model() {
            self.uncertain = self.judged(spans).unwrap_or_default().uncertain(&self.text, &Spans::new(spans));
            self.uncertain.truncate(STATEMENTS_MAX);
            if !self.uncertain.is_empty() {
                self.stage = Stage::Model;
            }
        }
    }

    fn take_judgements(&mut self, spans: &[Span], value: &Value) -> Result<(), Failure> {
        let reply = JudgeReply::deserialize(value).map_err(|error| Failure::new(FailureKind::Invalid, error.to_string()))?;
        let asked = Questions::of(&self.text, &Spans::new(spans)).pairs().count();
        if asked != reply.judgements.len() {
            return Err(Failure::new(FailureKind::Invalid, "the verifier returned another number of judgements than pairs"));
        }
        self.reply = Some(reply);
        Ok(())
    }

    /// The passages that fit beside the statements, and the messages with them.
    fn model_messages(&self, spans: &[Span], means: CheckOptions<'_>) -> (Vec<graph::Message>, Vec<Span>) {
        let statements: Vec<String> = self.uncertain.iter().enumerate().map(|(at, text)| format!("{}. {text}", at + 1)).collect();
        let statements = prompt::user(statements.join("\n"));
        let mut messages = vec![prompt::system(PROMPT.to_owned())];
        let used = prompt::tokens_of(&messages) + prompt::tokens_of(std::slice::from_ref(&statements));
        let (evidence, shown) = answer::show(spans, &statements.content, means.model.evidence_tokens(used, self.model_tokens()));
        messages.extend(evidence);
        messages.push(statements);
        (messages, shown)
    }

    fn model_tokens(&self) -> u32 {
        (self.uncertain.len() as u32 + 1) * TOKENS_PER_STATEMENT
    }

    fn model_request(&self, spans: &[Span], means: CheckOptions<'_>) -> Request {
        let (messages, shown) = self.model_messages(spans, means);
        let verdict = json!({
            "type": "object",
            "required": ["statement", "verdict", "source"],
            "additionalProperties": false,
            "properties": {
                "statement": { "type": "integer", "minimum": 1, "maximum": self.uncertain.len() },
                "verdict": { "enum": ["supported", "contradicted", "not_supported"] },
                "source": { "type": ["integer", "null"], "minimum": 1, "maximum": shown.len() },
            },
        });
        let schema = json!({
            "type": "object",
            "required": ["verdicts"],
            "additionalProperties": false,
            "properties": { "verdicts": { "type": "array", "items": verdict, "maxItems": self.uncertain.len() } },
        });
        let call = prompt::call("verify", messages, Some(schema), self.model_tokens());
        call.label("checking uncertain sentences").deadline_ms(MODEL_DEADLINE_MS).last()
    }

    fn take_decisions(&mut self, spans: &[Span], means: CheckOptions<'_>, value: &Value) -> Result<(), Failure> {
        #[derive(Deserialize)]
        struct Verdicts {
            verdicts: Vec<Verdict>,
        }
        #[derive(Deserialize)]
        struct Verdict {
            statement: usize,
            verdict: ModelWord,
            #[serde(default)]
            source: Option<usize>,
        }
        let wrong = |why: String| Failure::new(FailureKind::Invalid, format!("the model's verdicts cannot be read: {why}"));
        let json = prompt::json_in(value).ok_or_else(|| wrong(prompt::shown(value)))?;
        let Verdicts { verdicts } = serde_json::from_value(json).map_err(|error| wrong(error.to_string()))?;
        let (_, shown) = self.model_messages(spans, means);
        for Verdict { statement, verdict, source } in verdicts {
            let text = statement.checked_sub(1).and_then(|at| self.uncertain.get(at));
            let source = source.and_then(|number| shown.get(number.checked_sub(1)?)).and_then(|span| number_of(span, spans));
            if let Some(text) = text.filter(|text| self.decisions.iter().all(|(known, _)| known != *text)) {
                self.decisions.push((text.clone(), ModelDecision { verdict, source }));
            }
        }
        Ok(())
    }
}

/// The number of a shown span, or of the span it is a part of.
fn number_of(shown: &Span, spans: &[Span]) -> Option<usize> {
    let is_it =
        |span: &Span| span.title == shown.title && span.address == shown.address && span.place == shown.place && span.text.contains(&shown.text);
    spans.iter().position(|span| answer::is_same(span, shown)).or_else(|| spans.iter().position(is_it)).map(|at| at + 1)
}

/// A text until it is checked; then an answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Unchecked {
    /// The question in full, if a short answer to it is to be judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    question: Option<String>,
    #[serde(rename = "said")]
    draft: DraftAnswer,
    shown: Vec<Span>,
    is_strict: bool,
    check: Check,
}

impl Unchecked {
    pub(crate) fn new(draft: DraftAnswer, shown: Vec<Span>, is_strict: bool, means: CheckOptions<'_>) -> Unchecked {
        let draft = draft.without_headings(&shown);
        let check = Check::new(draft.markdown.as_str(), &shown, means);
        Unchecked { question: None, draft, shown, is_strict, check }
    }

    /// The same for the answer to a question: its short form is judged too, if the model's answers are and it was given from passages of documents.
    pub(crate) fn for_question(mut self, question: &str, means: CheckOptions<'_>) -> Unchecked {
        let is_judged = means.model.has_answer_check && self.draft.short.is_some() && !self.is_strict && self.shown.iter().all(is_passage);
        self.question = is_judged.then(|| question.to_owned());
        self
    }

    fn short_answer(&self) -> Option<ShortAnswer> {
        let (question, answer) = (self.question.clone()?, self.draft.short.clone()?);
        let passages = in_order_of_use(&self.draft.markdown, &answer, &self.shown);
        let titled = |span: &Span| TitledText { title: span.title.clone().unwrap_or_default(), text: span.text.clone() };
        Some(ShortAnswer { question, answer, passages: passages.into_iter().take(PASSAGES_MAX).map(titled).collect() })
    }

    pub(crate) fn is_done(&self) -> bool {
        self.check.is_done()
    }

    pub(crate) fn ask(&self, means: CheckOptions<'_>) -> Ask {
        Ask { requests: self.check.request_with(&self.shown, means, self.short_answer()).into_iter().collect() }
    }

    pub(crate) fn fold(&mut self, means: CheckOptions<'_>, replies: &Replies<'_>) {
        self.check.take(&self.shown, means, replies.value(0));
    }

    /// The answer, and why the check was reduced, if it was.
    pub(crate) fn finish(self) -> (Answer, Option<String>) {
        let judged = self.check.judged(&self.shown);
        let answered = self.check.reply.as_ref().and_then(|reply| reply.answered);
        (answer::finish_judged(self.draft, &self.shown, self.is_strict, judged.as_ref(), answered), self.check.failure)
    }
}

/// Passages that are sent with a short answer; no more of usual length can be read at once.
const PASSAGES_MAX: usize = 8;

/// Prose of a document or page. Results of tools are not: what is computed from them need not be stated anywhere.
fn is_passage(span: &Span) -> bool {
    span.form == Form::Text && span.trust != Trust::Computed && (span.title.is_some() || span.address.is_some())
}

/// What the text cites first, then what has the words of the short answer, then the others as they were found. `lab/train/answers_data.py` has the same order.
fn in_order_of_use<'s>(markdown: &str, short: &str, shown: &'s [Span]) -> Vec<&'s Span> {
    let cited: Vec<usize> =
        evidence::citations(markdown).iter().flat_map(|citation| &citation.numbers).filter_map(|number| number.checked_sub(1)).collect();
    let short = plain_words(short);
    let has_short = |span: &Span| {
        let text = format!("{} {}", span.text, span.title.as_deref().unwrap_or_default());
        !short.is_empty() && !["yes", "no"].contains(&short.as_str()) && plain_words(&text).contains(&short)
    };
    let mut places: Vec<usize> = (0..shown.len()).collect();
    let rank = |at: &usize| match cited.iter().position(|number| number == at) {
        Some(place) => (0, place),
        None if has_short(&shown[*at]) => (1, *at),
        None => (2, *at),
    };
    places.sort_by_cached_key(rank);
    places.into_iter().map(|at| &shown[at]).collect()
}

/// The words in lower case without articles and punctuation.
fn plain_words(text: &str) -> String {
    let lower = text.to_lowercase();
    let words = lower.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !["", "a", "an", "the"].contains(word));
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use evidence::{DecidedBy, DecisionWeights, Judgement, Status};

    const LARGE: ModelProfile =
        ModelProfile { is_small: false, context_tokens: 32_000, has_verifier: true, has_answer_check: false, can_abstain: false, price: None };

    fn spans() -> Vec<Span> {
        let span = |title: &str, text: &str| Span { text: text.into(), title: Some(title.into()), source: "docs.search".into(), ..Span::default() };
        vec![span("Log", "After a crash the log is replayed from the last checkpoint."), span("Port", "The harbour stays free of ice all winter.")]
    }

    const ANSWER: &str = "Recovery starts where the state was saved most recently [1]. The harbour freezes in winter [2].";

    fn judgements(check: &Check, supported: f32, contradicted: f32) -> Value {
        let pairs = Questions::of(&check.text, &Spans::new(&spans())).pairs().count();
        let weights = DecisionWeights { model: 1.0, ..DecisionWeights::default() };
        json!(JudgeReply { judgements: vec![Judgement { supported, contradicted }; pairs], weights, answered: None })
    }

    fn statuses(check: &Check) -> Vec<(Status, DecidedBy, Option<usize>)> {
        let judged = check.judged(&spans());
        let draft = DraftAnswer { markdown: ANSWER.into(), short: None };
        let answer = answer::finish_judged(draft, &spans(), false, judged.as_ref(), None);
        answer.sentences.iter().map(|sentence| (sentence.status, sentence.by, sentence.contradicted_by)).collect()
    }

    #[test]
    fn who_is_asked_follows_from_the_setting_and_the_model() {
        let small = ModelProfile { is_small: true, ..LARGE };
        let blind = ModelProfile { has_verifier: false, ..LARGE };
        let asked = |verify, model: &ModelProfile| {
            let means = CheckOptions { verify, model };
            Check::new(ANSWER, &spans(), means).request(&spans(), means).map(|request| request.effect.name().to_owned())
        };
        assert_eq!(asked(Verify::Fast, &LARGE).as_deref(), Some(JUDGE));
        assert_eq!(asked(Verify::Model, &small).as_deref(), Some(JUDGE));
        assert_eq!((asked(Verify::Rules, &LARGE), asked(Verify::Fast, &blind)), (None, None));
        assert_eq!(asked(Verify::Model, &blind).as_deref(), Some("verify"), "without a verifier a large model judges what the rules leave open");
        let means = CheckOptions { verify: Verify::Fast, model: &LARGE };
        assert!(Check::new(ANSWER, &[], means).is_done());
    }

    #[test]
    fn an_answer_whose_facts_have_no_support_begins_with_that() {
        let small = ModelProfile { is_small: true, ..LARGE };
        let means = CheckOptions { verify: Verify::Fast, model: &small };
        let draft = |fact: &str| DraftAnswer { markdown: format!("**the winter** [2].\n\n{fact} [2]."), short: Some("the winter".into()) };
        let invented = "The harbour was painted by Edvard Munch in 1893";
        // In the second case all parts are in the passages, and perhaps only the citation is wrong.
        for (fact, is_answered) in [(invented, false), ("The log of the harbour is replayed in winter", true)] {
            let mut unchecked = Unchecked::new(draft(fact), spans(), false, means);
            let reply = judgements(&unchecked.check, 0.02, 0.01);
            unchecked.check.take(&spans(), means, Ok(&reply));
            let answer = unchecked.finish().0;
            assert_eq!((answer.text.starts_with(crate::NOT_SUPPORTED), answer.short.is_some()), (!is_answered, is_answered), "{}", answer.text);
            let last = answer.sentences.last().unwrap();
            assert!(answer.body[last.range.clone()].starts_with(fact), "ranges are in the body: {}", answer.body);
        }
    }

    const QUESTION: &str = "When is the harbour free of ice?";

    fn small_answer(shown: Vec<Span>, is_strict: bool, model: &ModelProfile) -> Unchecked {
        let means = CheckOptions { verify: Verify::Fast, model };
        let markdown = "**all winter** [2].\n\nThe harbour stays free of ice all winter [2].".to_owned();
        Unchecked::new(DraftAnswer { markdown, short: Some("all winter".into()) }, shown, is_strict, means).for_question(QUESTION, means)
    }

    #[test]
    fn a_short_answer_from_passages_is_judged_with_what_it_cites_first() {
        let small = ModelProfile { is_small: true, has_answer_check: true, ..LARGE };
        let asked = |shown: Vec<Span>, is_strict: bool, model: &ModelProfile| {
            let unchecked = small_answer(shown, is_strict, model);
            let ask = unchecked.ask(CheckOptions { verify: Verify::Fast, model });
            let graph::Effect::CallTool(call) = &ask.requests[0].effect else { panic!("{ask:?}") };
            JudgeRequest::deserialize(&call.arguments).unwrap().answer().cloned()
        };
        let more = |span: Span| spans().into_iter().chain([span]).collect::<Vec<_>>();
        let winter = Span { title: Some("Winter".into()), text: "All winter there is snow.".into(), ..Span::default() };
        let answer = asked(more(winter.clone()), false, &small).unwrap();
        assert_eq!((answer.question.as_str(), answer.answer.as_str()), (QUESTION, "all winter"));
        let titles: Vec<&str> = answer.passages.iter().map(|passage| passage.title.as_str()).collect();
        assert_eq!(titles, ["Port", "Winter", "Log"], "cited, with the words of the answer, the rest");
        assert_eq!(asked(spans(), false, &ModelProfile { has_answer_check: false, ..small }), None, "as before there was the check");
        assert_eq!(asked(spans(), true, &small), None, "strict removes what is not supported");
        for result in [
            Span { form: Form::Scalars, ..winter.clone() },
            Span { form: Form::Rows, ..winter.clone() },
            Span { form: Form::Derived, ..winter.clone() },
            Span { trust: Trust::Computed, ..winter.clone() },
            Span { title: None, ..winter },
        ] {
            assert_eq!(asked(more(result), false, &small), None, "results of tools are not passages");
        }
    }

    #[test]
    fn an_improbable_short_answer_is_not_given_as_the_answer() {
        let small = ModelProfile { is_small: true, has_answer_check: true, ..LARGE };
        let means = CheckOptions { verify: Verify::Fast, model: &small };
        for (answered, is_given) in [(Some(0.02), false), (Some(0.98), true), (None, true)] {
            let mut unchecked = small_answer(spans(), false, &small);
            let mut reply = judgements(&unchecked.check, 0.98, 0.0);
            if let Some(probability) = answered {
                reply["answered"] = json!(probability);
            }
            unchecked.check.take(&spans(), means, Ok(&reply));
            let answer = unchecked.finish().0;
            assert_eq!((answer.text.starts_with(crate::NOT_SUPPORTED), answer.short.is_some()), (!is_given, is_given), "{}", answer.text);
            assert!(answer.text.contains("The harbour stays free of ice all winter [1]."), "its facts stay: {}", answer.text);
        }
    }

    #[test]
    fn what_the_verifier_leaves_uncertain_goes_to_a_large_model_in_one_call() {
        for (verify, model, is_asked) in
            [(Verify::Model, LARGE, true), (Verify::Fast, LARGE, false), (Verify::Model, ModelProfile { is_small: true, ..LARGE }, false)]
        {
            let means = CheckOptions { verify, model: &model };
            let mut check = Check::new(ANSWER, &spans(), means);
            let reply = judgements(&check, 0.45, 0.1);
            check.take(&spans(), means, Ok(&reply));
            let request = check.request(&spans(), means);
            assert_eq!(request.is_some(), is_asked, "{verify:?}");
            let Some(request) = request else { continue };
            let graph::Effect::CallModel(call) = &request.effect else { panic!("{request:?}") };
            assert_eq!(call.messages.iter().filter(|message| message.role == "evidence").count(), 2);
            assert!(call.messages.last().is_some_and(|last| last.content.starts_with("1. Recovery") && last.content.contains("2. The harbour")));
            let verdicts = json!({ "verdicts": [
                { "statement": 1, "verdict": "supported", "source": 1 },
                { "statement": 2, "verdict": "contradicted", "source": 2 },
                { "statement": 9, "verdict": "supported", "source": 7 },
            ] });
            check.take(&spans(), means, Ok(&verdicts));
            assert!(check.is_done() && check.failure.is_none());
            assert_eq!(statuses(&check), [(Status::Supported, DecidedBy::Model, None), (Status::Contradicted, DecidedBy::Model, Some(2))]);
        }
    }

    #[test]
    fn what_is_certain_is_not_asked_again_and_failures_leave_what_was_known() {
        let means = CheckOptions { verify: Verify::Model, model: &LARGE };
        let mut certain = Check::new("Recovery starts where the state was saved most recently [1].", &spans(), means);
        let reply = judgements(&certain, 0.99, 0.0);
        certain.take(&spans(), means, Ok(&reply));
        assert!(certain.is_done(), "{certain:?}");
        let mut check = Check::new(ANSWER, &spans(), means);
        check.take(&spans(), means, Err(Failure::new(FailureKind::Refused, "no verifier")));
        assert!(check.failure.as_ref().is_some_and(|why| why.contains("no verifier")) && !check.is_done());
        check.take(&spans(), means, Ok(&json!("no idea")));
        assert!(check.is_done() && check.failure.as_ref().is_some_and(|why| why.contains("verdicts cannot be read")), "{check:?}");
        assert!(statuses(&check).iter().all(|(_, by, _)| *by == DecidedBy::Rules));
        let wrong = json!({ "judgements": [], "weights": DecisionWeights::default() });
        let means = CheckOptions { verify: Verify::Fast, model: &LARGE };
        let mut check = Check::new(ANSWER, &spans(), means);
        check.take(&spans(), means, Ok(&wrong));
        assert!(check.is_done() && check.failure.as_ref().is_some_and(|why| why.contains("another number")), "{check:?}");
    }
}
