//! The pass over all layers.

use candle_core::quantized::GgmlDType;

use super::super::Trouble;
use super::super::gguf::Gguf;
use super::super::net::Sizes;
use super::activation::{Block, quantize, quantize_normed};
use super::attention::attend;
use super::matrix::{Format, Matrix, Then, multiply, multiply_gated};
use super::memory::{Memory, Room};
use super::parts::each;
use super::tile::WIDE;
use super::vector::{floats, put_halves};

pub(in super::super) struct Network {
    layers: Vec<Layer>,
    norm: Vec<f32>,
    output: Matrix,
    /// Of each place half a head.
    cos: Vec<f32>,
    sin: Vec<f32>,
    sizes: Sizes,
}

struct Layer {
    norm_attention: Vec<f32>,
    q: Matrix,
    k: Matrix,
    v: Matrix,
    /// Of the three.
    bias: Vec<f32>,
    o: Matrix,
    norm_feed: Vec<f32>,
    gate: Matrix,
    up: Matrix,
    down: Matrix,
}

impl Network {
    /// Whether all its matrices can be had in tiles, and this processor multiplies them.
    pub(in super::super) fn can_load(gguf: &Gguf, sizes: &Sizes, output: &str) -> Result<bool, Trouble> {
        if !super::is_available() || !sizes.head.is_multiple_of(16) {
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

    /// Only where [`Network::can_load`] says so.
    pub(in super::super) fn load(gguf: &Gguf, sizes: &Sizes, output: &str) -> Result<Self, Trouble> {
        let width = sizes.heads * sizes.head;
        let output = matrix(gguf, output, sizes.vocabulary, width)?;
        let layers = (0..sizes.layers).map(|at| Layer::load(gguf, at, sizes)).collect::<Result<_, _>>()?;
        let norm = vector(gguf, "output_norm.weight", width)?;
        let rates = (0..sizes.head / 2).map(|i| sizes.rope_base.powf(-2.0 * i as f32 / sizes.head as f32)).collect::<Vec<_>>();
        let angles = || (0..sizes.context).flat_map(|at| rates.iter().map(move |rate| at as f32 * rate));
        let (cos, sin) = (angles().map(f32::cos).collect(), angles().map(f32::sin).collect());
        Ok(Network { layers, norm, output, cos, sin, sizes: sizes.clone() })
    }

    /// Appends tokens to the `past` ones in memory, given a row of numbers for each. The logits after the last one, if wanted.
    pub(in super::super) fn forward(&self, memory: &mut Memory, past: usize, mut x: Vec<f32>, wants_logits: bool) -> Vec<f32> {
        let Sizes { heads, heads_kv, head, norm_epsilon, .. } = self.sizes;
        let width = heads * head;
        assert!(!x.is_empty() && x.len().is_multiple_of(width));
        let count = x.len() / width;
        let wide = width / WIDE;
        let mut narrow = vec![Block::EMPTY; count * wide];
        let mut all = vec![0.0; count * (width + 2 * heads_kv * head)];
        let mut attended = vec![0.0; count * width];
        let mut gated = Vec::new();
        let mut broad = Vec::new();
        for (at, layer) in self.layers.iter().enumerate() {
            normed(&x, &layer.norm_attention, norm_epsilon, &mut narrow);
            multiply(&[&layer.q, &layer.k, &layer.v], &narrow, &mut all, Then::Bias(&layer.bias));
            let mut room = memory.layer(at);
            self.turn(&mut all, past);
            remember(&all, width, heads_kv, head, past, &mut room);
            let group = width / heads_kv;
            each(&mut attended, group, |part, out| {
                let (token, kv) = (part / heads_kv, part % heads_kv);
                let q = &all[token * (width + 2 * heads_kv * head)..][kv * group..][..group];
                // SAFETY: there is a network, so there are matrices, which are made only where `is_available`.
                unsafe { attend(q, room.head(kv), head, past + token + 1, out) }
            });
            plain(&attended, &mut narrow);
            multiply(&[&layer.o], &narrow, &mut x, Then::Add);
            normed(&x, &layer.norm_feed, norm_epsilon, &mut narrow);
            gated.resize(count * layer.gate.rows, 0.0);
            broad.resize(gated.len() / WIDE, Block::EMPTY);
            multiply_gated(&layer.gate, &layer.up, &narrow, &mut gated);
            plain(&gated, &mut broad);
            multiply(&[&layer.down], &broad, &mut x, Then::Add);
        }
        if !wants_logits {
            return Vec::new();
        }
        let last = &mut narrow[..wide];
        normed(&x[(count - 1) * width..], &self.norm, norm_epsilon, last);
        let mut logits = vec![0.0; self.output.rows];
        multiply(&[&self.output], last, &mut logits, Then::Set);
        logits
    }

    /// Turns queries and keys by their place, and scales the queries.
    fn turn(&self, all: &mut [f32], past: usize) {
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
}

fn remember(all: &[f32], width: usize, heads: usize, head: usize, past: usize, room: &mut Room<'_>) {
    let mut both = vec![0_u16; 2 * head];
    for (token, row) in all.chunks_exact(width + 2 * heads * head).enumerate() {
        let (keys, values) = row[width..].split_at(heads * head);
        for (at, (key, value)) in keys.chunks_exact(head).zip(values.chunks_exact(head)).enumerate() {
            // SAFETY: there is a network, so there are matrices, which are made only where `is_available`.
            unsafe {
                shorten(key, &mut both[..head]);
                shorten(value, &mut both[head..]);
            }
            room.put(at, past + token, &both[..head], &both[head..]);
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
fn shorten(from: &[f32], to: &mut [u16]) {
    for (from, to) in from.as_chunks::<16>().0.iter().zip(to.as_chunks_mut::<16>().0) {
        put_halves(to, floats(from));
    }
}

fn normed(x: &[f32], gains: &[f32], epsilon: f32, blocks: &mut [Block]) {
    let wide = gains.len() / WIDE;
    // SAFETY: there is a network, so there are matrices, which are made only where `is_available`.
    each(blocks, wide, |row, blocks| unsafe { quantize_normed(&x[row * gains.len()..][..gains.len()], gains, epsilon, blocks) });
}

/// A few blocks at a time: of one token they are many.
fn plain(x: &[f32], blocks: &mut [Block]) {
    // SAFETY: there is a network, so there are matrices, which are made only where `is_available`.
    each(blocks, 64, |part, blocks| unsafe { quantize(&x[part * 64 * WIDE..][..blocks.len() * WIDE], blocks) });
}

impl Layer {
    fn load(gguf: &Gguf, at: usize, sizes: &Sizes) -> Result<Self, Trouble> {
        let (width, kv) = (sizes.heads * sizes.head, sizes.heads_kv * sizes.head);
        let name = |part: &str| format!("blk.{at}.{part}");
        let feed = gguf.place(&name("ffn_gate.weight"))?.rows;
        let matrix = |part: &str, rows: usize, width: usize| matrix(gguf, &name(part), rows, width);
        let vector = |part: &str, length: usize| vector(gguf, &name(part), length);
        let biases = [vector("attn_q.bias", width)?, vector("attn_k.bias", kv)?, vector("attn_v.bias", kv)?];
        Ok(Layer {
            norm_attention: vector("attn_norm.weight", width)?,
            q: matrix("attn_q.weight", width, width)?,
            k: matrix("attn_k.weight", kv, width)?,
            v: matrix("attn_v.weight", kv, width)?,
            bias: biases.concat(),
            o: matrix("attn_output.weight", width, width)?,
            norm_feed: vector("ffn_norm.weight", width)?,
            gate: matrix("ffn_gate.weight", feed, width)?,
            up: matrix("ffn_up.weight", feed, width)?,
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

fn matrix(gguf: &Gguf, name: &str, rows: usize, width: usize) -> Result<Matrix, Trouble> {
    let place = gguf.place(name)?;
    let wrong = |why: String| Trouble::damaged(format!("tensor {name}: {why}"));
    let format = format(place.dtype).filter(|_| (place.rows, place.width) == (rows, width));
    let format = format.ok_or_else(|| wrong(format!("{} rows of {} {:?}, not {rows} of {width}", place.rows, place.width, place.dtype)))?;
    Matrix::load(format, rows, width, |row, bytes| place.fill(row, bytes)).map_err(|error| wrong(error.to_string()))
}

fn vector(gguf: &Gguf, name: &str, length: usize) -> Result<Vec<f32>, Trouble> {
    let wrong = |why: String| Trouble::damaged(format!("tensor {name}: {why}"));
    let values = gguf.tensor(name)?.dequantize(&candle_core::Device::Cpu).and_then(|tensor| tensor.flatten_all()?.to_vec1::<f32>());
    let values = values.map_err(|error| wrong(error.to_string()))?;
    if values.len() == length { Ok(values) } else { Err(wrong(format!("{} values, not {length}", values.len()))) }
}
