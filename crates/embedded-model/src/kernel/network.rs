//! The pass over all layers.

use candle_core::quantized::GgmlDType;

use super::super::EmbeddedError;
use super::super::gguf::Gguf;
use super::super::net::Sizes;
use super::activation::Block;
use super::matrix::{Epilogue, Format, Matrix, multiply, multiply_gated};
use super::memory::{LayerMemory, Memory};
use super::parts::each;
use super::set::Set;
use super::tile::WIDE;

pub(in super::super) struct Network {
    layers: Vec<Layer>,
    norm: Vec<f32>,
    output: Matrix,
    /// Half a head for each position.
    cos: Vec<f32>,
    sin: Vec<f32>,
    sizes: Sizes,
    /// The width in whole blocks: matrices that take it have zeros in the rest, and so have the activations.
    padded: usize,
    /// The epsilon of norms over padded rows.
    epsilon: f32,
    set: &'static Set,
}

struct Layer {
    norm_attention: Vec<f32>,
    q: Matrix,
    k: Matrix,
    v: Matrix,
    /// The biases of `q`, `k` and `v`.
    bias: Vec<f32>,
    o: Matrix,
    norm_feed: Vec<f32>,
    gate: Matrix,
    up: Matrix,
    down: Matrix,
}

impl Network {
    /// Whether all its matrices can be had in tiles.
    pub(in super::super) fn can_load(gguf: &Gguf, sizes: &Sizes, output: &str) -> Result<bool, EmbeddedError> {
        if !sizes.head.is_multiple_of(16) {
            return Ok(false);
        }
        let parts = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"];
        let names = (0..sizes.layers).flat_map(|at| parts.map(|part| format!("blk.{at}.{part}.weight"))).chain([output.to_owned()]);
        for name in names {
            let place = gguf.place(&name)?;
            if format(place.dtype).is_none() || !Matrix::fits(place.rows, place.width) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Only where [`Network::can_load`] returns true.
    pub(in super::super) fn load(gguf: &Gguf, sizes: &Sizes, output: &str, set: &'static Set) -> Result<Self, EmbeddedError> {
        let width = sizes.heads * sizes.head;
        let padded = width.next_multiple_of(WIDE);
        let output = matrix(gguf, set, output, (sizes.vocabulary, padded))?;
        let layers = (0..sizes.layers).map(|at| Layer::load(gguf, set, at, sizes)).collect::<Result<_, _>>()?;
        let norm = gains(gguf, "output_norm.weight", width)?;
        let epsilon = sizes.norm_epsilon * (width as f32 / padded as f32);
        let rates = (0..sizes.head / 2).map(|i| sizes.rope_base.powf(-2.0 * i as f32 / sizes.head as f32)).collect::<Vec<_>>();
        let angles = || (0..sizes.context).flat_map(|at| rates.iter().map(move |rate| at as f32 * rate));
        let (cos, sin) = (angles().map(f32::cos).collect(), angles().map(f32::sin).collect());
        Ok(Network { layers, norm, output, cos, sin, sizes: sizes.clone(), padded, epsilon, set })
    }

    /// Appends tokens to the `past` ones in memory, given a row of numbers for each. The logits after the last one, if wanted.
    pub(in super::super) fn forward(&self, memory: &mut Memory, past: usize, mut x: Vec<f32>, wants_logits: bool) -> Vec<f32> {
        let Sizes { heads, heads_kv, head, .. } = self.sizes;
        let width = heads * head;
        assert!(!x.is_empty() && x.len().is_multiple_of(width));
        let count = x.len() / width;
        let wide = self.padded / WIDE;
        let mut narrow = vec![Block::EMPTY; count * wide];
        let mut all = vec![0.0; count * (width + 2 * heads_kv * head)];
        let mut attended = vec![0.0; count * width];
        let mut gated = Vec::new();
        let mut broad = Vec::new();
        for (at, layer) in self.layers.iter().enumerate() {
            self.quantize_normed(&x, &layer.norm_attention, &mut narrow);
            multiply(&[&layer.q, &layer.k, &layer.v], &narrow, &mut all, Epilogue::Bias(&layer.bias));
            let mut layer_memory = memory.layer(at);
            self.rotate(&mut all, past);
            self.store(&all, past, &mut layer_memory);
            let group = width / heads_kv;
            each(&mut attended, group, |part, out| {
                let (token, kv) = (part / heads_kv, part % heads_kv);
                let q = &all[token * (width + 2 * heads_kv * head)..][kv * group..][..group];
                // SAFETY: a set is handed out only where the processor has its instructions.
                unsafe { (self.set.attend)(q, layer_memory.head(kv), head, past + token + 1, out) }
            });
            self.quantize_padded(&attended, &mut narrow);
            multiply(&[&layer.o], &narrow, &mut x, Epilogue::Add);
            self.quantize_normed(&x, &layer.norm_feed, &mut narrow);
            gated.resize(count * layer.gate.rows, 0.0);
            broad.resize(gated.len() / WIDE, Block::EMPTY);
            multiply_gated(&layer.gate, &layer.up, &narrow, &mut gated);
            self.quantize(&gated, &mut broad);
            multiply(&[&layer.down], &broad, &mut x, Epilogue::Add);
        }
        if !wants_logits {
            return Vec::new();
        }
        let last = &mut narrow[..wide];
        self.quantize_normed(&x[(count - 1) * width..], &self.norm, last);
        let mut logits = vec![0.0; self.output.rows];
        multiply(&[&self.output], last, &mut logits, Epilogue::Set);
        logits
    }

    /// Rotates queries and keys by their place, and scales the queries.
    fn rotate(&self, all: &mut [f32], past: usize) {
        let Sizes { heads, heads_kv, head, .. } = self.sizes;
        let half = head / 2;
        let scale = (head as f32).powf(-0.5);
        each(all, (heads + 2 * heads_kv) * head, |token, row| {
            let place = (past + token) * half;
            let (cos, sin) = (&self.cos[place..][..half], &self.sin[place..][..half]);
            for (at, values) in row.chunks_exact_mut(head).take(heads + heads_kv).enumerate() {
                let scale = if at < heads { scale } else { 1.0 };
                let (a, b) = values.split_at_mut(half);
                for (((a, b), cos), sin) in a.iter_mut().zip(b).zip(cos).zip(sin) {
                    (*a, *b) = ((*a * cos - *b * sin) * scale, (*a * sin + *b * cos) * scale);
                }
            }
        });
    }

    /// Keys and values of new tokens, in f16.
    fn store(&self, all: &[f32], past: usize, layer_memory: &mut LayerMemory<'_>) {
        let Sizes { heads, heads_kv, head, .. } = self.sizes;
        let mut both = vec![0_u16; 2 * head];
        for (token, row) in all.chunks_exact((heads + 2 * heads_kv) * head).enumerate() {
            let (keys, values) = row[heads * head..].split_at(heads_kv * head);
            for (at, (key, value)) in keys.chunks_exact(head).zip(values.chunks_exact(head)).enumerate() {
                // SAFETY: a set is handed out only where the processor has its instructions.
                unsafe {
                    (self.set.halve)(key, &mut both[..head]);
                    (self.set.halve)(value, &mut both[head..]);
                }
                layer_memory.put(at, past + token, &both[..head], &both[head..]);
            }
        }
    }

    fn quantize_normed(&self, x: &[f32], gains: &[f32], blocks: &mut [Block]) {
        let epsilon = self.epsilon;
        self.each_padded(x, blocks, |values, blocks| {
            // SAFETY: a set is handed out only where the processor has its instructions.
            unsafe { (self.set.quantize_normed)(values, gains, epsilon, blocks) };
        });
    }

    /// Rows of the network's width.
    fn quantize_padded(&self, x: &[f32], blocks: &mut [Block]) {
        self.each_padded(x, blocks, |values, blocks| {
            // SAFETY: a set is handed out only where the processor has its instructions.
            unsafe { (self.set.quantize)(values, blocks) };
        });
    }

    /// `work` for each row, with zeros behind it up to whole blocks.
    fn each_padded(&self, x: &[f32], blocks: &mut [Block], work: impl Fn(&[f32], &mut [Block]) + Sync) {
        let (width, padded) = (self.sizes.heads * self.sizes.head, self.padded);
        each(blocks, padded / WIDE, |row, blocks| {
            let values = &x[row * width..][..width];
            if width == padded {
                return work(values, blocks);
            }
            let mut whole = vec![0.0; padded];
            whole[..width].copy_from_slice(values);
            work(&whole, blocks);
        });
    }

    /// A few blocks at a time: of one token they are many.
    fn quantize(&self, x: &[f32], blocks: &mut [Block]) {
        const SOME: usize = 64;
        each(blocks, SOME, |part, blocks| {
            // SAFETY: a set is handed out only where the processor has its instructions.
            unsafe { (self.set.quantize)(&x[part * SOME * WIDE..][..blocks.len() * WIDE], blocks) };
        });
    }

    pub(in super::super) fn set(&self) -> &'static Set {
        self.set
    }

    /// Bytes of weights that are read for each token that is generated.
    pub(in super::super) fn token_bytes(&self) -> usize {
        self.output.bytes() + self.layers.iter().flat_map(Layer::matrices).map(Matrix::bytes).sum::<usize>()
    }

    /// Products of a weight and an activation for each token of a prompt.
    pub(in super::super) fn token_products(&self) -> usize {
        self.layers.iter().flat_map(Layer::matrices).map(|matrix| matrix.rows * matrix.width).sum()
    }
}

impl Layer {
    fn matrices(&self) -> [&Matrix; 7] {
        [&self.q, &self.k, &self.v, &self.o, &self.gate, &self.up, &self.down]
    }

    fn load(gguf: &Gguf, set: &'static Set, at: usize, sizes: &Sizes) -> Result<Self, EmbeddedError> {
        let (width, kv) = (sizes.heads * sizes.head, sizes.heads_kv * sizes.head);
        let name = |part: &str| format!("blk.{at}.{part}");
        let padded = width.next_multiple_of(WIDE);
        let feed = gguf.place(&name("ffn_gate.weight"))?.rows;
        let matrix = |part: &str, rows: usize, width: usize| matrix(gguf, set, &name(part), (rows, width));
        let vector = |part: &str, length: usize| vector(gguf, &name(part), length);
        let biases = [vector("attn_q.bias", width)?, vector("attn_k.bias", kv)?, vector("attn_v.bias", kv)?];
        Ok(Layer {
            norm_attention: gains(gguf, &name("attn_norm.weight"), width)?,
            q: matrix("attn_q.weight", width, padded)?,
            k: matrix("attn_k.weight", kv, padded)?,
            v: matrix("attn_v.weight", kv, padded)?,
            bias: biases.concat(),
            o: matrix("attn_output.weight", width, padded)?,
            norm_feed: gains(gguf, &name("ffn_norm.weight"), width)?,
            gate: matrix("ffn_gate.weight", feed, padded)?,
            up: matrix("ffn_up.weight", feed, padded)?,
            down: matrix("ffn_down.weight", width, feed)?,
        })
    }
}

fn format(dtype: GgmlDType) -> Option<Format> {
    match dtype {
        GgmlDType::Q4K => Some(Format::Q4K),
        GgmlDType::Q6K => Some(Format::Q6K),
        _ => None,
    }
}

fn matrix(gguf: &Gguf, set: &'static Set, name: &str, (rows, width): (usize, usize)) -> Result<Matrix, EmbeddedError> {
    let place = gguf.place(name)?;
    let wrong = |why: String| EmbeddedError::damaged(format!("tensor {name}: {why}"));
    let format = format(place.dtype).filter(|_| (place.rows, place.width) == (rows, width));
    let format = format.ok_or_else(|| wrong(format!("{} rows of {} {:?}, not {rows} of {width}", place.rows, place.width, place.dtype)))?;
    Matrix::load(set, format, (rows, width), |row, bytes| place.fill(row, bytes)).map_err(|error| wrong(error.to_string()))
}

/// The gains of a norm for padded rows. The mean square of a padded row is the smaller by the share of its own values, and so are the gains' squares.
fn gains(gguf: &Gguf, name: &str, width: usize) -> Result<Vec<f32>, EmbeddedError> {
    let padded = width.next_multiple_of(WIDE);
    let mut gains = vector(gguf, name, width)?;
    if padded != width {
        let share = (width as f32 / padded as f32).sqrt();
        gains.iter_mut().for_each(|gain| *gain *= share);
        gains.resize(padded, 0.0);
    }
    Ok(gains)
}

fn vector(gguf: &Gguf, name: &str, length: usize) -> Result<Vec<f32>, EmbeddedError> {
    let wrong = |why: String| EmbeddedError::damaged(format!("tensor {name}: {why}"));
    let values = gguf.tensor(name)?.dequantize(&candle_core::Device::Cpu).and_then(|tensor| tensor.flatten_all()?.to_vec1::<f32>());
    let values = values.map_err(|error| wrong(error.to_string()))?;
    if values.len() == length { Ok(values) } else { Err(wrong(format!("{} values, not {length}", values.len()))) }
}
