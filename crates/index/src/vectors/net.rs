//! all-MiniLM-L6-v2: six layers of BERT, mean of the tokens, normalized.
//!
//! Texts of a batch are concatenated instead of padded to the longest: the large products run over exactly the existing tokens, and only
//! attention handles one text at a time. So a batch needs no sorting and wastes nothing.

use std::path::Path;

use candle_core::{D, DType, Device, IndexOp, Result, Tensor, safetensors};
use candle_nn::ops;
use tokenizers::{Tokenizer, TruncationParams};

use super::gelu::gelu;

pub(crate) const WIDTH: usize = 384;
const HEADS: usize = 12;
const LAYERS: usize = 6;
const EPSILON: f32 = 1e-12;
/// The length the model was trained on; the rest of a text is not in its vector.
const TOKENS_MAX: usize = 256;

pub(crate) struct Net {
    tokenizer: Tokenizer,
    /// Half precision as in the file: rows are looked up, not multiplied.
    words: Tensor,
    /// Position and the single token type, added once.
    places: Tensor,
    norm: Norm,
    layers: Vec<Layer>,
}

struct Layer {
    attend: Linear,
    out: Linear,
    out_norm: Norm,
    up: Linear,
    down: Linear,
    down_norm: Norm,
}

struct Linear {
    /// Input by output, the layout of the product.
    weight: Tensor,
    bias: Tensor,
}

struct Norm {
    weight: Tensor,
    bias: Tensor,
}

impl Net {
    pub(crate) fn load(weights: &Path, tokenizer: &Path) -> std::result::Result<Self, String> {
        let mut tokenizer = Tokenizer::from_file(tokenizer).map_err(|error| error.to_string())?;
        tokenizer.with_padding(None);
        tokenizer.with_truncation(Some(TruncationParams { max_length: TOKENS_MAX, ..Default::default() })).map_err(|error| error.to_string())?;
        Self::build(weights, tokenizer).map_err(|error| error.to_string())
    }

    fn build(weights: &Path, tokenizer: Tokenizer) -> Result<Self> {
        let tensors = safetensors::load(weights, &Device::Cpu)?;
        let get = |name: &str| tensors.get(name).cloned().ok_or_else(|| candle_core::Error::Msg(format!("the weights lack {name}")));
        let float = |name: &str| get(name)?.to_dtype(DType::F32);
        let linear = |names: &[String]| {
            let weights = names.iter().map(|name| float(&format!("{name}.weight"))).collect::<Result<Vec<_>>>()?;
            let biases = names.iter().map(|name| float(&format!("{name}.bias"))).collect::<Result<Vec<_>>>()?;
            Ok::<_, candle_core::Error>(Linear { weight: Tensor::cat(&weights, 0)?.t()?.contiguous()?, bias: Tensor::cat(&biases, 0)? })
        };
        let norm =
            |name: &str| Ok::<_, candle_core::Error>(Norm { weight: float(&format!("{name}.weight"))?, bias: float(&format!("{name}.bias"))? });
        let layers = (0..LAYERS).map(|layer| {
            let name = |rest: &str| format!("encoder.layer.{layer}.{rest}");
            Ok(Layer {
                attend: linear(&["query", "key", "value"].map(|part| name(&format!("attention.self.{part}"))))?,
                out: linear(&[name("attention.output.dense")])?,
                out_norm: norm(&name("attention.output.LayerNorm"))?,
                up: linear(&[name("intermediate.dense")])?,
                down: linear(&[name("output.dense")])?,
                down_norm: norm(&name("output.LayerNorm"))?,
            })
        });
        let layers = layers.collect::<Result<Vec<_>>>()?;
        let kind = float("embeddings.token_type_embeddings.weight")?.i(0)?;
        Ok(Net {
            tokenizer,
            words: get("embeddings.word_embeddings.weight")?,
            places: float("embeddings.position_embeddings.weight")?.broadcast_add(&kind)?,
            norm: norm("embeddings.LayerNorm")?,
            layers,
        })
    }

    /// The tokens of a text, truncated to the model's length.
    pub(crate) fn tokens(&self, text: &str) -> std::result::Result<Vec<u32>, String> {
        let encoding = self.tokenizer.encode_fast(text, true).map_err(|error| error.to_string())?;
        Ok(encoding.get_ids().to_vec())
    }

    /// A normalized vector for each text.
    pub(crate) fn encode(&self, texts: &[Vec<u32>]) -> std::result::Result<Vec<Vec<f32>>, String> {
        self.forward(texts).map_err(|error| error.to_string())
    }

    fn forward(&self, texts: &[Vec<u32>]) -> Result<Vec<Vec<f32>>> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<u32> = texts.concat();
        let places: Vec<u32> = texts.iter().flat_map(|text| 0..text.len() as u32).collect();
        let count = ids.len();
        let words = self.words.index_select(&Tensor::from_vec(ids, count, &Device::Cpu)?, 0)?.to_dtype(DType::F32)?;
        let places = self.places.index_select(&Tensor::from_vec(places, count, &Device::Cpu)?, 0)?;
        let mut x = self.norm.of(&(words + places)?)?;
        for layer in &self.layers {
            let seen = layer.out.of(&attention(&layer.attend.of(&x)?, texts)?)?;
            x = layer.out_norm.of(&(x + seen)?)?;
            let thought = layer.down.of(&gelu(&layer.up.of(&x)?)?)?;
            x = layer.down_norm.of(&(x + thought)?)?;
        }
        let mut start = 0;
        let mut vectors = Vec::with_capacity(texts.len());
        for text in texts {
            let mut vector = x.narrow(0, start, text.len())?.mean(0)?.to_vec1::<f32>()?;
            let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
            vector.iter_mut().for_each(|value| *value /= length);
            vectors.push(vector);
            start += text.len();
        }
        Ok(vectors)
    }
}

/// Each text attends only to itself.
fn attention(x: &Tensor, texts: &[Vec<u32>]) -> Result<Tensor> {
    let scale = 1.0 / ((WIDTH / HEADS) as f64).sqrt();
    let mut start = 0;
    let mut seen = Vec::with_capacity(texts.len());
    for text in texts {
        // Tokens, then query/key/value, then heads: each head's rows must be contiguous.
        let own = x.narrow(0, start, text.len())?.reshape((text.len(), 3, HEADS, WIDTH / HEADS))?.permute((1, 2, 0, 3))?.contiguous()?;
        let (query, key, value) = ((own.i(0)? * scale)?, own.i(1)?, own.i(2)?);
        let weights = ops::softmax_last_dim(&query.matmul(&key.transpose(D::Minus1, D::Minus2)?)?)?;
        seen.push(weights.matmul(&value)?.transpose(0, 1)?.reshape((text.len(), WIDTH))?);
        start += text.len();
    }
    Tensor::cat(&seen, 0)
}

impl Linear {
    fn of(&self, x: &Tensor) -> Result<Tensor> {
        x.matmul(&self.weight)?.broadcast_add(&self.bias)
    }
}

impl Norm {
    fn of(&self, x: &Tensor) -> Result<Tensor> {
        ops::layer_norm(x, &self.weight, &self.bias, EPSILON)
    }
}
