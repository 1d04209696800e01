//! The model: from pairs of texts to judgements.

use std::sync::OnceLock;

use encoder::{Scratch, Text, Weights, WeightsError, builtin};
use evidence::{DecisionWeights, Entailment, Judgement, Pair, ShortAnswer};

use super::LoadError;
use super::answers::AnswerCheck;
use super::net::Net;
use super::tokens::Words;

/// Tokens computed at once on one thread: enough for the weights to be read rarely, few enough to stay in the cache.
const BATCH_TOKENS_MAX: usize = 512;
/// Threads that judge. Judging stands beside other work, so it never takes all cores of a large machine.
const THREADS_MAX: usize = 4;

/// The model, ready to judge. About 45 MB with the answer check; one is enough for a process, see [`Verifier::shared`].
pub struct Verifier<'b> {
    net: Net<'b>,
    words: Words,
    calibration: Calibration,
    weights: DecisionWeights,
    answers: Option<AnswerCheck<'b>>,
    threads: rayon::ThreadPool,
}

/// From the margin of a window's logits and the length of its evidence to the probability of support.
struct Calibration {
    slope: f32,
    length: f32,
    constant: f32,
}

impl Verifier<'static> {
    /// The model of this binary, loaded when it is first wanted.
    pub fn shared() -> Result<&'static Verifier<'static>, LoadError> {
        static SHARED: OnceLock<Result<Verifier<'static>, LoadError>> = OnceLock::new();
        let load = || Verifier::load(builtin::VERIFIER, builtin::TOKENIZER)?.with_answers(builtin::ANSWERS, builtin::VERIFIER);
        SHARED.get_or_init(load).as_ref().map_err(Clone::clone)
    }
}

impl<'b> Verifier<'b> {
    /// Reads weights and tokenizer and starts the threads.
    pub fn load(weights: &'b [u8], tokenizer: &[u8]) -> Result<Self, LoadError> {
        let tensors = Weights::read(weights)?;
        let numbers = tensors.floats("calibration")?;
        let [slope, length, constant] = *numbers.as_slice() else { return Err(WeightsError::Tensor("calibration".to_owned()).into()) };
        let decision = tensors.floats("decision")?;
        let weights = DecisionWeights::from_slice(&decision).ok_or_else(|| WeightsError::Tensor("decision".to_owned()))?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = rayon::ThreadPoolBuilder::new().num_threads(cores.min(THREADS_MAX)).thread_name(|_| "verifier".to_owned()).build();
        Ok(Verifier {
            net: Net::load(&tensors, &tensors, builtin::VERIFIER_LAYERS)?,
            words: Words::load(tokenizer)?,
            calibration: Calibration { slope, length, constant },
            weights,
            answers: None,
            threads: threads.map_err(|error| LoadError::Threads(error.to_string()))?,
        })
    }

    /// The same with the answer check, whose word embeddings are those of `words`.
    pub fn with_answers(self, weights: &'b [u8], words: &'b [u8]) -> Result<Self, LoadError> {
        Ok(Verifier { answers: Some(AnswerCheck::load(weights, words)?), ..self })
    }

    /// Logits of the answer check, as the training scripts compute them; the first one is of a right answer. `None` without the check.
    pub fn answer_logits(&self, answer: &ShortAnswer) -> Option<[f32; 3]> {
        self.answers.as_ref().map(|check| check.logits(&self.words, answer))
    }

    /// Logits of supported, contradicted and not enough of one pair's first window, as the training scripts compute them.
    pub fn logits(&self, evidence: &str, claim: &str) -> [f32; 3] {
        let windows = self.words.windows(evidence, claim);
        windows.first().map_or([0.0; 3], |window| self.net.forward(&[window], &mut Scratch::default())[0])
    }

    fn logits_of(&self, texts: &[Text]) -> Vec<[f32; 3]> {
        // Texts of like length together: a thread's share then takes about as long as another's.
        let mut order: Vec<usize> = (0..texts.len()).collect();
        order.sort_by_key(|at| texts[*at].ids.len());
        let mut batches: Vec<Vec<usize>> = Vec::new();
        let mut tokens = 0;
        for at in order {
            tokens += texts[at].ids.len();
            match batches.last_mut() {
                Some(batch) if tokens <= BATCH_TOKENS_MAX => batch.push(at),
                _ => {
                    tokens = texts[at].ids.len();
                    batches.push(vec![at]);
                }
            }
        }
        let mut found = vec![[0.0; 3]; texts.len()];
        let judged: Vec<Vec<[f32; 3]>> = self.threads.install(|| {
            use rayon::prelude::*;
            let batch = |scratch: &mut Scratch, batch: &Vec<usize>| {
                let texts: Vec<&Text> = batch.iter().map(|at| &texts[*at]).collect();
                self.net.forward(&texts, scratch)
            };
            batches.par_iter().map_init(Scratch::default, batch).collect()
        });
        for (at, logits) in batches.iter().flatten().zip(judged.iter().flatten()) {
            found[*at] = *logits;
        }
        found
    }
}

impl Entailment for Verifier<'_> {
    fn judge(&self, pairs: &[Pair<'_>]) -> Vec<Judgement> {
        let windows: Vec<Vec<Text>> = pairs.iter().map(|pair| self.words.windows(pair.evidence, pair.claim)).collect();
        let counts: Vec<usize> = windows.iter().map(Vec::len).collect();
        let texts: Vec<Text> = windows.into_iter().flatten().collect();
        let logits = self.logits_of(&texts);
        let mut rest: &[[f32; 3]] = &logits;
        let mut lengths = texts.iter().map(|text| text.second_start);
        let mut judged = Vec::with_capacity(pairs.len());
        for count in counts {
            let (own, after) = rest.split_at(count);
            rest = after;
            let all = own.iter().zip(lengths.by_ref()).map(|(logits, length)| self.calibration.judgement(*logits, length));
            // The window that supports most; among those that do not, the one that contradicts most.
            let best = all.max_by(|a, b| {
                (a.supported.max(0.5), a.supported.max(a.contradicted))
                    .partial_cmp(&(b.supported.max(0.5), b.supported.max(b.contradicted)))
                    .unwrap_or(std::cmp::Ordering::Equal)
            });
            judged.push(best.unwrap_or_default());
        }
        judged
    }

    fn judge_answer(&self, answer: &ShortAnswer) -> Option<f32> {
        self.answers.as_ref().map(|check| check.probability(&self.words, answer))
    }

    fn weights(&self) -> DecisionWeights {
        self.weights
    }
}

impl From<WeightsError> for LoadError {
    fn from(error: WeightsError) -> Self {
        LoadError::Weights(error.to_string())
    }
}

impl Calibration {
    fn judgement(&self, [supported, contradicted, unknown]: [f32; 3], evidence_tokens: usize) -> Judgement {
        let largest = contradicted.max(unknown);
        let against = largest + ((contradicted - largest).exp() + (unknown - largest).exp()).ln();
        let length = (evidence_tokens as f32 / 64.0).ln();
        let odds = self.slope * (supported - against) + self.length * length + self.constant;
        let supported = 1.0 / (1.0 + (-odds).exp());
        let share = 1.0 / (1.0 + (unknown - contradicted).exp());
        Judgement { supported, contradicted: (1.0 - supported) * share }
    }
}
