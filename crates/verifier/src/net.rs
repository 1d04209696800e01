//! The cross-encoder: six layers of BERT over `[CLS] evidence [SEP] claim [SEP]`, and a head over the first token and the mean of all.
//!
//! Texts of a batch lie end to end without padding: products run over all tokens at once, attention over one text at a time.

use crate::LoadError;
use crate::file::Tensors;
use crate::kernel::{Kernel, Matrix, Rows};

const WIDTH: usize = 384;
const INNER: usize = 1_536;
const HEADS: usize = 12;
const LAYERS: usize = 6;
pub(crate) const POSITIONS_MAX: usize = 512;

/// The tokens of one text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Text {
    pub(crate) ids: Vec<u32>,
    /// Where the claim begins; its tokens are of the second type.
    pub(crate) claim_start: usize,
}

pub(crate) struct Net<'b> {
    kernel: Kernel,
    /// Rows are looked up where they lie in the file.
    words: (&'b [u8], Vec<f32>),
    positions: (&'b [u8], Vec<f32>),
    types: Vec<f32>,
    norm: Norm,
    layers: Vec<Layer>,
    head_up: Matrix,
    head: Vec<f32>,
    head_bias: Vec<f32>,
}

struct Layer {
    qkv: Matrix,
    out: Matrix,
    out_norm: Norm,
    up: Matrix,
    down: Matrix,
    down_norm: Norm,
}

struct Norm {
    gains: Vec<f32>,
    offsets: Vec<f32>,
}

/// Memory of one thread, used again for each batch.
#[derive(Default)]
pub(crate) struct Scratch {
    x: Vec<f32>,
    wide: Vec<f32>,
    narrow: Vec<f32>,
    seen: Vec<f32>,
    rows: Rows,
}

impl<'b> Net<'b> {
    pub(crate) fn load(tensors: &Tensors<'b>) -> Result<Self, LoadError> {
        let matrix = |name: &str, width: usize, columns: usize| {
            let (bytes, scales, found) = tensors.matrix(&format!("{name}.weight"))?;
            let bias = tensors.floats(&format!("{name}.bias"))?;
            if found != width || scales.len() != columns || bias.len() != columns {
                return Err(LoadError::Tensor(name.to_owned()));
            }
            let weights: Vec<i8> = bytes.iter().map(|byte| byte.cast_signed()).collect();
            Ok(Matrix::new(&weights, scales, bias, width))
        };
        let floats = |name: &str, count: usize| {
            let values = tensors.floats(name)?;
            if values.len() == count { Ok(values) } else { Err(LoadError::Tensor(name.to_owned())) }
        };
        let norm = |name: &str| -> Result<Norm, LoadError> {
            Ok(Norm { gains: floats(&format!("{name}.weight"), WIDTH)?, offsets: floats(&format!("{name}.bias"), WIDTH)? })
        };
        let table = |name: &str| {
            let (bytes, scales, width) = tensors.matrix(name)?;
            if width == WIDTH { Ok((bytes, scales)) } else { Err(LoadError::Tensor(name.to_owned())) }
        };
        let layers = (0..LAYERS).map(|layer| -> Result<Layer, LoadError> {
            let name = |part: &str| format!("layers.{layer}.{part}");
            Ok(Layer {
                qkv: matrix(&name("qkv"), WIDTH, 3 * WIDTH)?,
                out: matrix(&name("out"), WIDTH, WIDTH)?,
                out_norm: norm(&name("out_norm"))?,
                up: matrix(&name("up"), WIDTH, INNER)?,
                down: matrix(&name("down"), INNER, WIDTH)?,
                down_norm: norm(&name("down_norm"))?,
            })
        });
        Ok(Net {
            kernel: Kernel::detect(),
            words: table("words.weight")?,
            positions: table("positions.weight")?,
            types: floats("types.weight", 2 * WIDTH)?,
            norm: norm("norm")?,
            layers: layers.collect::<Result<_, _>>()?,
            head_up: matrix("head_up", 2 * WIDTH, WIDTH)?,
            head: floats("head.weight", 3 * WIDTH)?,
            head_bias: floats("head.bias", 3)?,
        })
    }

    /// Logits of supported, contradicted and not enough, for each text.
    pub(crate) fn forward(&self, texts: &[&Text], scratch: &mut Scratch) -> Vec<[f32; 3]> {
        let kernel = self.kernel;
        let tokens: usize = texts.iter().map(|text| text.ids.len()).sum();
        self.embed(texts, scratch);
        let Scratch { x, wide, narrow, seen, rows } = scratch;
        narrow.resize(tokens * WIDTH, 0.0);
        seen.resize(tokens * WIDTH, 0.0);
        for layer in &self.layers {
            wide.resize(tokens * 3 * WIDTH, 0.0);
            kernel.quantize(x, WIDTH, rows);
            kernel.multiply(rows, &layer.qkv, wide);
            let mut start = 0;
            for text in texts {
                let end = start + text.ids.len();
                kernel.attend(&wide[start * 3 * WIDTH..end * 3 * WIDTH], text.ids.len(), HEADS, &mut seen[start * WIDTH..end * WIDTH]);
                start = end;
            }
            kernel.quantize(seen, WIDTH, rows);
            kernel.multiply(rows, &layer.out, narrow);
            kernel.add_and_norm(x, narrow, &layer.out_norm.gains, &layer.out_norm.offsets);
            wide.resize(tokens * INNER, 0.0);
            kernel.quantize(x, WIDTH, rows);
            kernel.multiply(rows, &layer.up, wide);
            kernel.gelu(wide);
            kernel.quantize(wide, INNER, rows);
            kernel.multiply(rows, &layer.down, narrow);
            kernel.add_and_norm(x, narrow, &layer.down_norm.gains, &layer.down_norm.offsets);
        }
        self.classify(texts, scratch)
    }

    fn embed(&self, texts: &[&Text], scratch: &mut Scratch) {
        let x = &mut scratch.x;
        x.clear();
        for text in texts {
            for (place, id) in text.ids.iter().enumerate() {
                let (word, position) = (row(&self.words, *id as usize), row(&self.positions, place));
                let kind = &self.types[if place < text.claim_start { 0 } else { WIDTH }..][..WIDTH];
                x.extend(word.zip(position).zip(kind).map(|((word, position), kind)| word + position + kind));
            }
        }
        scratch.narrow.clear();
        scratch.narrow.resize(x.len(), 0.0);
        self.kernel.add_and_norm(x, &scratch.narrow, &self.norm.gains, &self.norm.offsets);
    }

    fn classify(&self, texts: &[&Text], scratch: &mut Scratch) -> Vec<[f32; 3]> {
        let mut pooled = Vec::with_capacity(texts.len() * 2 * WIDTH);
        let mut start = 0;
        for text in texts {
            let own = &scratch.x[start * WIDTH..(start + text.ids.len()) * WIDTH];
            pooled.extend_from_slice(&own[..WIDTH]);
            let mut mean = [0.0; WIDTH];
            for row in own.chunks_exact(WIDTH) {
                mean.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
            }
            pooled.extend(mean.iter().map(|sum| sum / text.ids.len() as f32));
            start += text.ids.len();
        }
        let mut hidden = vec![0.0; texts.len() * WIDTH];
        self.kernel.quantize(&pooled, 2 * WIDTH, &mut scratch.rows);
        self.kernel.multiply(&scratch.rows, &self.head_up, &mut hidden);
        self.kernel.gelu(&mut hidden);
        let logit = |row: &[f32], label: usize| {
            row.iter().zip(&self.head[label * WIDTH..][..WIDTH]).map(|(x, weight)| x * weight).sum::<f32>() + self.head_bias[label]
        };
        hidden.chunks_exact(WIDTH).map(|row| [logit(row, 0), logit(row, 1), logit(row, 2)]).collect()
    }
}

fn row<'t>((bytes, scales): &'t (&[u8], Vec<f32>), at: usize) -> impl Iterator<Item = f32> + 't {
    let scale = scales[at];
    bytes[at * WIDTH..][..WIDTH].iter().map(move |byte| f32::from(byte.cast_signed()) * scale)
}
