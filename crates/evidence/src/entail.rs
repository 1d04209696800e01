//! Whether a text supports a sentence, as a model computes it. Only the interface; the model is in the crate `verifier`.

/// One question to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair<'p> {
    /// The text of one span, with its title.
    pub evidence: &'p str,
    pub claim: &'p str,
}

/// Calibrated probabilities; what is left of one is that the evidence does not decide.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Judgement {
    pub supported: f32,
    pub contradicted: f32,
}

pub trait Entailment: Send + Sync {
    /// A judgement for each pair, in their order. The same pairs give the same judgements, in whatever batches they come.
    fn judge(&self, pairs: &[Pair<'_>]) -> Vec<Judgement>;

    /// How much the rules count beside this model.
    fn weights(&self) -> DecisionWeights;
}

/// Log odds that the findings of the rules add to the model's, as fitted on held-out training data (`lab/train`).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DecisionWeights {
    /// Of the model's own log odds.
    pub model: f32,
    pub constant: f32,
    /// The rules found support.
    pub supported: f32,
    pub number: f32,
    pub date: f32,
    pub name: f32,
    pub negation: f32,
    pub opposite: f32,
    pub swapped: f32,
}

impl DecisionWeights {
    /// In the order of the fields; `None` for another number of values.
    pub fn from_slice(values: &[f32]) -> Option<Self> {
        let [model, constant, supported, number, date, name, negation, opposite, swapped] = *values else { return None };
        Some(DecisionWeights { model, constant, supported, number, date, name, negation, opposite, swapped })
    }
}
