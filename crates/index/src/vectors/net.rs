//! The encoder of the binary, the mean of a text's tokens, normalized. Texts are computed in batches of like length, one batch per thread.

use encoder::{Encoder, Parts, Scratch, Text, WORDS, Weights, WeightsError, builtin};
use rayon::prelude::*;
use tokenizers::{Tokenizer, TruncationParams};

pub(crate) use encoder::WIDTH;

/// The length the model was trained on; the rest of a text is not in its vector.
const TOKENS_MAX: usize = 256;
/// Tokens computed at once on one thread: enough for the weights to be read rarely, few enough to stay in the cache.
const BATCH_TOKENS_MAX: usize = 256;

pub(crate) struct Net {
    tokenizer: Tokenizer,
    encoder: Encoder<'static>,
}

impl Net {
    pub(crate) fn load() -> Result<Self, String> {
        let mut tokenizer = Tokenizer::from_bytes(builtin::TOKENIZER).map_err(|error| error.to_string())?;
        tokenizer.with_padding(None);
        tokenizer.with_truncation(Some(TruncationParams { max_length: TOKENS_MAX, ..Default::default() })).map_err(|error| error.to_string())?;
        if tokenizer.get_vocab_size(true) != WORDS {
            return Err("the tokenizer does not have the words of the weights".into());
        }
        let parts = parts().map_err(|error| error.to_string())?;
        Ok(Net { tokenizer, encoder: Encoder::new(parts) })
    }

    /// The tokens of a text, truncated to the model's length.
    pub(crate) fn tokens(&self, text: &str) -> Result<Vec<u32>, String> {
        let encoding = self.tokenizer.encode_fast(text, true).map_err(|error| error.to_string())?;
        Ok(encoding.get_ids().to_vec())
    }

    /// A normalized vector for each text, on the threads of the pool that this is called in.
    pub(crate) fn encode(&self, texts: Vec<Vec<u32>>) -> Vec<Vec<f32>> {
        let texts: Vec<Text> = texts.into_iter().map(Text::whole).collect();
        let mut order: Vec<usize> = (0..texts.len()).collect();
        order.sort_by_key(|at| texts[*at].ids.len());
        let batches = batches(&order, &texts);
        let encoded = batches.par_iter().map_init(Scratch::default, |scratch, batch| {
            let texts: Vec<&Text> = batch.iter().map(|at| &texts[*at]).collect();
            let (rows, _) = self.encoder.forward(&texts, scratch);
            Encoder::means(&texts, rows).map(normalized).collect::<Vec<_>>()
        });
        let encoded: Vec<Vec<Vec<f32>>> = encoded.collect();
        let mut vectors = vec![Vec::new(); texts.len()];
        for (at, vector) in order.iter().zip(encoded.into_iter().flatten()) {
            vectors[*at] = vector;
        }
        vectors
    }
}

fn parts() -> Result<Parts<'static>, WeightsError> {
    Parts::read(&Weights::read(builtin::VECTORS)?, &Weights::read(builtin::VERIFIER)?, builtin::VECTORS_LAYERS)
}

/// Texts of like length together, so that the threads' shares take about as long.
fn batches<'o>(order: &'o [usize], texts: &[Text]) -> Vec<&'o [usize]> {
    let mut batches = Vec::new();
    let mut rest = order;
    while !rest.is_empty() {
        let mut tokens = 0;
        let fits = rest.iter().take_while(|at| {
            tokens += texts[**at].ids.len();
            tokens <= BATCH_TOKENS_MAX
        });
        let (batch, after) = rest.split_at(fits.count().max(1));
        batches.push(batch);
        rest = after;
    }
    batches
}

fn normalized(mean: [f32; WIDTH]) -> Vec<f32> {
    let length = mean.iter().map(|value| value * value).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
    mean.iter().map(|value| value / length).collect()
}

/// Gives the calling thread the lowest priority.
pub(super) fn give_way() {
    // Without permission to change it, the thread works like any other.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, 19) {
        tracing::debug!(%error, "vectors are computed with normal priority");
    }
}
