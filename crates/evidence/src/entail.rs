//! The interface of a model that judges whether a text supports a sentence. The model is in the crate `verifier`.

use serde::{Deserialize, Serialize};

/// One question to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair<'p> {
    /// The text of one span, with its title.
    pub evidence: &'p str,
    /// The sentence to judge.
    pub claim: &'p str,
}

/// Calibrated probabilities; the rest to one means that the evidence does not decide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// The evidence states the claim.
    pub supported: f32,
    /// The evidence states the contrary.
    pub contradicted: f32,
}

impl Judgement {
    /// A whole text's judgement with that of an excerpt of it. The log odds are averaged: the excerpt has less beside the point, the whole has
    /// what the excerpt refers to.
    #[must_use]
    pub fn with_excerpt(self, excerpt: Judgement) -> Judgement {
        let mean = (log_odds(self.supported) + log_odds(excerpt.supported)) / 2.0;
        let supported = 1.0 / (1.0 + (-mean).exp());
        // The rest is split as it is on average.
        let share = |one: Judgement| one.contradicted / (1.0 - one.supported).max(1e-4);
        let contradicted = ((share(self) + share(excerpt)) / 2.0).clamp(0.0, 1.0) * (1.0 - supported);
        Judgement { supported, contradicted }
    }
}

/// Log odds of a probability, clamped to the precision of a small model.
pub(crate) fn log_odds(probability: f32) -> f32 {
    let probability = probability.clamp(1e-4, 1.0 - 1e-4);
    (probability / (1.0 - probability)).ln()
}

/// A short answer with its question and the passages it was given from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShortAnswer {
    /// The question in full.
    pub question: String,
    /// A few words.
    pub answer: String,
    /// The ones that matter most first: a model reads as many as fit.
    pub passages: Vec<TitledText>,
}

/// A passage as a model reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TitledText {
    /// Empty if it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// The whole text.
    pub text: String,
}

/// A model that judges whether a text supports a sentence.
pub trait Entailment: Send + Sync {
    /// A judgement for each pair, in their order. Results do not depend on the batching.
    fn judge(&self, pairs: &[Pair<'_>]) -> Vec<Judgement>;

    /// Calibrated probability that the passages state that this is the answer to the question. `None` if this model cannot judge it.
    fn judge_answer(&self, _answer: &ShortAnswer) -> Option<f32> {
        None
    }

    /// The weights of the rules beside this model.
    fn weights(&self) -> DecisionWeights;
}

/// Log odds that the findings of the rules add to the model's, as fitted on held-out training data (`lab/train`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DecisionWeights {
    /// Factor of the model's own log odds.
    pub model: f32,
    /// Added to every claim.
    pub constant: f32,
    /// The rules found support.
    pub supported: f32,
    /// A number is not in the evidence.
    pub number: f32,
    /// A date is not in the evidence.
    pub date: f32,
    /// A name is not in the evidence.
    pub name: f32,
    /// One of the two is negated.
    pub negation: f32,
    /// The two have opposite words.
    pub opposite: f32,
    /// The two have roles or values exchanged.
    pub swapped: f32,
}

impl DecisionWeights {
    /// In the order of the fields; `None` for another number of values.
    pub fn from_slice(values: &[f32]) -> Option<Self> {
        let [model, constant, supported, number, date, name, negation, opposite, swapped] = *values else { return None };
        Some(DecisionWeights { model, constant, supported, number, date, name, negation, opposite, swapped })
    }
}

/// The tool that judges pairs. The host answers it in-process, without a server.
pub const JUDGE: &str = "evidence.judge";

/// The arguments of [`JUDGE`]: texts, claims, and the pairs to judge.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JudgeRequest {
    texts: Vec<String>,
    claims: Vec<String>,
    /// Indexes of a text and a claim.
    pairs: Vec<(usize, usize)>,
    /// A short answer to judge beside the pairs. Journals from before the answer check have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    answer: Option<ShortAnswer>,
}

/// The reply of [`JUDGE`]: a judgement for each pair, and the weights of the rules.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JudgeReply {
    /// One for each pair, in the order of the request.
    pub judgements: Vec<Judgement>,
    /// The weights of the rules beside the model that judged.
    pub weights: DecisionWeights,
    /// Probability that the passages answer the question with the short answer of the request, if it has one and the model can judge it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered: Option<f32>,
}

impl JudgeRequest {
    /// A text or claim of several pairs is sent once.
    pub fn new<'p>(pairs: impl Iterator<Item = Pair<'p>>) -> JudgeRequest {
        let mut request = JudgeRequest::default();
        for pair in pairs {
            let pair = (index_in(&mut request.texts, pair.evidence), index_in(&mut request.claims, pair.claim));
            request.pairs.push(pair);
        }
        request
    }

    /// The same with a short answer to judge.
    #[must_use]
    pub fn with_answer(self, answer: Option<ShortAnswer>) -> JudgeRequest {
        JudgeRequest { answer, ..self }
    }

    /// The short answer to judge, if there is one.
    pub fn answer(&self) -> Option<&ShortAnswer> {
        self.answer.as_ref()
    }

    /// `None` if an index is out of range.
    pub fn pairs(&self) -> Option<Vec<Pair<'_>>> {
        let pair = |(text, claim): &(usize, usize)| Some(Pair { evidence: self.texts.get(*text)?, claim: self.claims.get(*claim)? });
        self.pairs.iter().map(pair).collect()
    }
}

fn index_in(list: &mut Vec<String>, text: &str) -> usize {
    list.iter().position(|known| known == text).unwrap_or_else(|| {
        list.push(text.to_owned());
        list.len() - 1
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_counts_as_much_as_the_whole() {
        let (yes, no) = (Judgement { supported: 0.9, contradicted: 0.05 }, Judgement { supported: 0.1, contradicted: 0.9 });
        let both = yes.with_excerpt(no);
        assert!((both.supported - 0.5).abs() < 1e-4 && (both.contradicted - 0.375).abs() < 1e-4, "{both:?}");
        assert!((no.with_excerpt(no).contradicted - 0.9).abs() < 1e-4);
    }

    #[test]
    fn a_request_has_each_text_once_and_its_pairs_in_order() {
        let pairs = [("t", "a"), ("t", "b"), ("u", "b")].map(|(evidence, claim)| Pair { evidence, claim });
        let request = JudgeRequest::new(pairs.into_iter());
        assert_eq!((request.texts.len(), request.claims.len(), request.pairs().unwrap()), (2, 2, pairs.to_vec()));
        let wrong: JudgeRequest = serde_json::from_str(r#"{"texts":["t"],"claims":["a"],"pairs":[[0,1]]}"#).unwrap();
        assert_eq!(wrong.pairs(), None);
    }

    #[test]
    fn a_request_without_a_short_answer_is_written_as_before() {
        let request = JudgeRequest::new([Pair { evidence: "t", claim: "a" }].into_iter());
        assert_eq!(serde_json::to_string(&request).unwrap(), r#"{"texts":["t"],"claims":["a"],"pairs":[[0,0]]}"#);
        let earlier = r#"{"judgements":[],"weights":{"model":1.0,"constant":0.0,"supported":0.0,"number":0.0,"date":0.0,"name":0.0,"negation":0.0,"opposite":0.0,"swapped":0.0}}"#;
        let reply: JudgeReply = serde_json::from_str(earlier).unwrap();
        assert_eq!((reply.answered, serde_json::to_string(&reply).unwrap().as_str()), (None, earlier));
        let answer = ShortAnswer { question: "q".into(), answer: "b".into(), passages: vec![TitledText { title: String::new(), text: "t".into() }] };
        let request = request.with_answer(Some(answer.clone()));
        let read: JudgeRequest = serde_json::from_value(serde_json::to_value(&request).unwrap()).unwrap();
        assert_eq!(read.answer(), Some(&answer));
    }
}
