//! The cross-encoder: the shared encoder over `[CLS] evidence [SEP] claim [SEP]`, and a head over the first token and the mean of all.

use encoder::{Encoder, Matrix, Parts, Scratch, Text, WIDTH, Weights, WeightsError};

pub(crate) struct Net<'b> {
    encoder: Encoder<'b>,
    head_up: Matrix,
    head: Vec<f32>,
    head_bias: Vec<f32>,
}

impl<'b> Net<'b> {
    /// The word embeddings may be in another file.
    pub(crate) fn load(weights: &Weights<'b>, words: &Weights<'b>, layers: usize) -> Result<Self, WeightsError> {
        Ok(Net {
            encoder: Encoder::new(Parts::read(weights, words, layers)?),
            head_up: weights.matrix("head_up", 2 * WIDTH, WIDTH)?,
            head: weights.floats_of("head.weight", 3 * WIDTH)?,
            head_bias: weights.floats_of("head.bias", 3)?,
        })
    }

    /// Logits of supported, contradicted and not enough, for each text.
    pub(crate) fn forward(&self, texts: &[&Text], scratch: &mut Scratch) -> Vec<[f32; 3]> {
        let (rows, quantized) = self.encoder.forward(texts, scratch);
        let mut pooled = Vec::with_capacity(texts.len() * 2 * WIDTH);
        let mut start = 0;
        for (text, mean) in texts.iter().zip(Encoder::means(texts, rows)) {
            pooled.extend_from_slice(&rows[start * WIDTH..][..WIDTH]);
            pooled.extend(mean);
            start += text.ids.len();
        }
        let kernel = self.encoder.kernel();
        let mut hidden = vec![0.0; texts.len() * WIDTH];
        kernel.quantize(&pooled, 2 * WIDTH, quantized);
        kernel.multiply(quantized, &self.head_up, &mut hidden);
        kernel.gelu(&mut hidden);
        let logit = |row: &[f32], label: usize| {
            row.iter().zip(&self.head[label * WIDTH..][..WIDTH]).map(|(x, weight)| x * weight).sum::<f32>() + self.head_bias[label]
        };
        hidden.chunks_exact(WIDTH).map(|row| [logit(row, 0), logit(row, 1), logit(row, 2)]).collect()
    }
}
