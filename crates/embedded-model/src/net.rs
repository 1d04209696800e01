//! The Qwen2 network, forward only: by [`kernel`](super::kernel) where it supports the formats of the weights, else over candle's
//! quantized kernels.
//!
//! candle's own version keeps its attention cache inside the weights, where it can be neither cut back nor shared. Here the
//! weights never change, and a [`Kv`] belongs to a call: it can be cut back, and forked at a common prefix.
//!
//! ```text
//!   ids ─ embed ─┬─ norm ─ q k v ─ rope ─ attend(Kv) ─ o ─(+)─┬─ norm ─ silu(gate)·up ─ down ─(+)─ … ─ norm ─ output
//!                └───────────────────────────────────────┘    └────────────────────────────────┘     last token only
//! ```

use candle_core::{DType, Device, Tensor};
use candle_nn::{ops, rotary_emb};

use super::blocks::{Matrix, Rows, Use};
use super::gguf::Gguf;
use super::kernel;
use super::kernels::{Kernels, list};
use super::{EmbeddedError, NetworkInfo};

pub(super) struct Net {
    embedding: Rows,
    body: Body,
    pub(super) sizes: Sizes,
}

enum Body {
    Tensors(Tensors),
    Own(kernel::Network),
}

/// The network by candle's kernels.
struct Tensors {
    layers: Vec<Layer>,
    norm: Tensor,
    output: Matrix,
    cos: Tensor,
    sin: Tensor,
    sizes: Sizes,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sizes {
    pub(super) layers: usize,
    pub(super) heads: usize,
    pub(super) heads_kv: usize,
    pub(super) head: usize,
    pub(super) norm_epsilon: f32,
    pub(super) rope_base: f32,
    pub(super) vocabulary: usize,
    /// The most tokens a prompt and its answer may have together.
    pub(super) context: usize,
}

impl Sizes {
    fn read(gguf: &Gguf, context_max: usize) -> Result<Self, EmbeddedError> {
        let architecture = gguf.text("general.architecture")?;
        if architecture != "qwen2" {
            return Err(EmbeddedError::damaged(format!("it holds a {architecture} network, and only qwen2 is known here")));
        }
        let width = gguf.count("qwen2.embedding_length")?;
        let heads = gguf.count("qwen2.attention.head_count")?;
        let heads_kv = gguf.count("qwen2.attention.head_count_kv")?;
        if !width.is_multiple_of(heads) || !heads.is_multiple_of(heads_kv) || !(width / heads).is_multiple_of(2) {
            return Err(EmbeddedError::damaged(format!("{heads} heads over {heads_kv} do not fit a width of {width}")));
        }
        let embedding = gguf.embedding()?;
        if embedding.width != width {
            return Err(EmbeddedError::damaged(format!("tokens have {} numbers and the network {width}", embedding.width)));
        }
        Ok(Sizes {
            layers: gguf.count("qwen2.block_count")?,
            heads,
            heads_kv,
            head: width / heads,
            norm_epsilon: gguf.float("qwen2.attention.layer_norm_rms_epsilon")?,
            rope_base: gguf.float("qwen2.rope.freq_base")?,
            vocabulary: embedding.rows,
            context: gguf.count("qwen2.context_length")?.min(context_max),
        })
    }
}

/// The name of the last matrix: some files have the one that embeds only.
fn output(gguf: &Gguf) -> &'static str {
    if gguf.has("output.weight") { "output.weight" } else { "token_embd.weight" }
}

struct Layer {
    norm_attention: Tensor,
    q: Projection,
    k: Projection,
    v: Projection,
    o: Matrix,
    norm_feed: Tensor,
    gate: Matrix,
    up: Matrix,
    down: Matrix,
}

struct Projection {
    weight: Matrix,
    bias: Tensor,
}

impl Net {
    /// `context_max` bounds what the file allows, since memory grows with it.
    pub(super) fn load(gguf: &Gguf, context_max: usize, kernels: Kernels) -> Result<Self, EmbeddedError> {
        let sizes = Sizes::read(gguf, context_max)?;
        let body = Body::load(gguf, &sizes, output(gguf), kernels)?;
        Ok(Net { embedding: Rows(gguf.embedding()?), body, sizes })
    }

    /// Appends the tokens to what `kv` has seen. The logits after the last one, if wanted: the output matrix is the largest.
    pub(super) fn forward(&self, kv: &mut Kv, ids: &[u32], wants_logits: bool) -> Result<Vec<f32>, EmbeddedError> {
        if ids.is_empty() || kv.len + ids.len() > kv.capacity.min(self.sizes.context) {
            return Err(EmbeddedError::bug(format!("{} tokens do not fit after {} of {}", ids.len(), kv.len, kv.capacity)));
        }
        let wrong = |error: candle_core::Error| EmbeddedError::damaged(format!("the network cannot be computed: {error}"));
        let x = self.embedding.get(ids).map_err(wrong)?;
        let logits = match (&self.body, &mut kv.room) {
            (Body::Tensors(tensors), KvMemory::Tensors(room)) => tensors.run(room, kv.len, x, wants_logits).map_err(wrong)?,
            (Body::Own(network), KvMemory::Own(memory)) => network.forward(memory, kv.len, x, wants_logits),
            (Body::Tensors(_), KvMemory::Own(_)) | (Body::Own(_), KvMemory::Tensors(_)) => {
                return Err(EmbeddedError::bug("this memory is another network's"));
            }
        };
        kv.len += ids.len();
        Ok(logits)
    }

    pub(super) fn info(&self) -> NetworkInfo {
        match &self.body {
            Body::Tensors(_) => NetworkInfo { kernels: Kernels::Candle, token_bytes: None, token_products: None },
            Body::Own(network) => NetworkInfo {
                kernels: network.set().name.parse().unwrap_or_default(),
                token_bytes: Some(network.token_bytes()),
                token_products: Some(network.token_products()),
            },
        }
    }

    /// Room for so many tokens.
    pub(super) fn kv(&self, capacity: usize) -> Result<Kv, EmbeddedError> {
        let room = match &self.body {
            Body::Tensors(_) => KvMemory::tensors(&self.sizes, capacity)?,
            Body::Own(_) => KvMemory::Own(kernel::Memory::new(&self.sizes, capacity)),
        };
        Ok(Kv { room, len: 0, capacity })
    }
}

impl Body {
    fn load(gguf: &Gguf, sizes: &Sizes, output: &str, kernels: Kernels) -> Result<Self, EmbeddedError> {
        let can_load = kernel::Network::can_load(gguf, sizes, output)?;
        match (kernels, kernels.set(), can_load) {
            (Kernels::Candle, ..) | (Kernels::Auto, _, false) | (Kernels::Auto, None, true) => {
                tracing::debug!(%kernels, "the network runs on candle's kernels");
                Tensors::load(gguf, sizes, output).map(Body::Tensors)
            }
            (_, Some(set), true) => {
                tracing::debug!(%kernels, "the network runs on the {} kernels", set.name);
                Ok(Body::Own(kernel::Network::load(gguf, sizes, output, set)?))
            }
            (_, None, _) => {
                let why = format!("this processor cannot run the {kernels} kernels, but {}", list(&Kernels::available()));
                Err(EmbeddedError::BadKernels { why })
            }
            (_, Some(_), false) => {
                let why = format!("these weights are not Q4_K and Q6_K in whole tiles, as the {kernels} kernels need; auto or candle can run them");
                Err(EmbeddedError::BadKernels { why })
            }
        }
    }
}

impl Tensors {
    fn load(gguf: &Gguf, sizes: &Sizes, output: &str) -> Result<Self, EmbeddedError> {
        // The largest first, while there is most room for its making. Only ever the last token's likelihoods are wanted.
        let output = matrix(gguf, output, Use::Single)?;
        let layers = (0..sizes.layers).map(|at| Layer::load(gguf, at)).collect::<Result<_, _>>()?;
        let norm = vector(gguf, "output_norm.weight")?;
        let (cos, sin) = rope_tables(sizes).map_err(EmbeddedError::damaged)?;
        Ok(Tensors { layers, norm, output, cos, sin, sizes: sizes.clone() })
    }

    fn run(&self, room: &[(Tensor, Tensor)], past: usize, x: Vec<f32>, wants_logits: bool) -> candle_core::Result<Vec<f32>> {
        let width = self.sizes.heads * self.sizes.head;
        let count = x.len() / width;
        let mut x = Tensor::from_vec(x, (count, width), &Device::Cpu)?;
        let cos = self.cos.narrow(0, past, count)?;
        let sin = self.sin.narrow(0, past, count)?;
        let mask = if count > 1 { Some(causal_mask(past, count)?) } else { None };
        for (layer, (keys, values)) in self.layers.iter().zip(room) {
            let normed = ops::rms_norm(&x, &layer.norm_attention, self.sizes.norm_epsilon)?;
            let attended = self.attend(layer, &normed, (keys, values), past, (&cos, &sin), mask.as_ref())?;
            x = (x + layer.o.forward(&attended)?)?;
            let normed = ops::rms_norm(&x, &layer.norm_feed, self.sizes.norm_epsilon)?;
            let [gate, up] = Matrix::forward_all([&layer.gate, &layer.up], &normed)?;
            let gated = (ops::silu(&gate)? * up)?;
            x = (x + layer.down.forward(&gated)?)?;
        }
        if !wants_logits {
            return Ok(Vec::new());
        }
        let last = x.narrow(0, count - 1, 1)?.contiguous()?;
        let last = ops::rms_norm(&last, &self.norm, self.sizes.norm_epsilon)?;
        self.output.forward(&last)?.flatten_all()?.to_vec1()
    }

    fn attend(
        &self,
        layer: &Layer,
        x: &Tensor,
        (keys, values): (&Tensor, &Tensor),
        past: usize,
        (cos, sin): (&Tensor, &Tensor),
        mask: Option<&Tensor>,
    ) -> candle_core::Result<Tensor> {
        let Sizes { heads, heads_kv, head, .. } = self.sizes;
        let (count, seen, group) = (x.dim(0)?, past + x.dim(0)?, heads / heads_kv);
        let by_head = |x: Tensor, heads: usize| x.reshape((1, count, heads, head))?.transpose(1, 2)?.contiguous();
        let [q, k] = Matrix::forward_all([&layer.q.weight, &layer.k.weight], x)?;
        let v = layer.v.weight.forward(x)?.broadcast_add(&layer.v.bias)?;
        let q = rotary_emb::rope(&by_head(q.broadcast_add(&layer.q.bias)?, heads)?, cos, sin)?;
        let k = rotary_emb::rope(&by_head(k.broadcast_add(&layer.k.bias)?, heads_kv)?, cos, sin)?.squeeze(0)?;
        let v = by_head(v, heads_kv)?.squeeze(0)?;
        keys.slice_set(&k, 1, past)?;
        values.slice_set(&v, 1, past)?;
        // The heads that share a key lie side by side, so one product serves the group.
        let q = (q.reshape((heads_kv, group * count, head))? * (head as f64).powf(-0.5))?;
        let mut scores = q.matmul(&keys.narrow(1, 0, seen)?.transpose(1, 2)?)?;
        if let Some(mask) = mask {
            scores = scores.reshape((heads_kv, group, count, seen))?.broadcast_add(mask)?.reshape((heads_kv, group * count, seen))?;
        }
        let mixed = ops::softmax_last_dim(&scores)?.matmul(&values.narrow(1, 0, seen)?)?;
        mixed.reshape((heads, count, head))?.transpose(0, 1)?.reshape((count, heads * head))
    }
}

impl Layer {
    fn load(gguf: &Gguf, at: usize) -> Result<Self, EmbeddedError> {
        let name = |part: &str| format!("blk.{at}.{part}");
        let matrix = |part: &str| matrix(gguf, &name(part), Use::Batches);
        let [q, k, v, o] = [matrix("attn_q.weight")?, matrix("attn_k.weight")?, matrix("attn_v.weight")?, matrix("attn_output.weight")?];
        let [gate, up, down] = [matrix("ffn_gate.weight")?, matrix("ffn_up.weight")?, matrix("ffn_down.weight")?];
        let vector = |part: &str| vector(gguf, &name(part));
        Ok(Layer {
            q: Projection { weight: q, bias: vector("attn_q.bias")? },
            k: Projection { weight: k, bias: vector("attn_k.bias")? },
            v: Projection { weight: v, bias: vector("attn_v.bias")? },
            o,
            norm_attention: vector("attn_norm.weight")?,
            norm_feed: vector("ffn_norm.weight")?,
            gate,
            up,
            down,
        })
    }
}

fn matrix(gguf: &Gguf, name: &str, used: Use) -> Result<Matrix, EmbeddedError> {
    Matrix::load(gguf.place(name)?, used).map_err(|error| EmbeddedError::damaged(format!("tensor {name}: {error}")))
}

fn vector(gguf: &Gguf, name: &str) -> Result<Tensor, EmbeddedError> {
    gguf.tensor(name)?.dequantize(&Device::Cpu).map_err(|error| EmbeddedError::damaged(format!("{name}: {error}")))
}

fn rope_tables(sizes: &Sizes) -> candle_core::Result<(Tensor, Tensor)> {
    let half = sizes.head / 2;
    let rates: Vec<f32> = (0..half).map(|i| sizes.rope_base.powf(-2.0 * i as f32 / sizes.head as f32)).collect();
    let angles = (0..sizes.context).flat_map(|at| rates.iter().map(move |rate| at as f32 * rate)).collect::<Vec<_>>();
    let angles = Tensor::from_vec(angles, (sizes.context, half), &Device::Cpu)?;
    Ok((angles.cos()?, angles.sin()?))
}

/// A token sees itself and all before it.
fn causal_mask(past: usize, count: usize) -> candle_core::Result<Tensor> {
    let seen = past + count;
    let cells = (0..count).flat_map(|row| (0..seen).map(move |at| if at <= past + row { 0.0 } else { f32::NEG_INFINITY }));
    Tensor::from_vec(cells.collect::<Vec<f32>>(), (count, seen), &Device::Cpu)
}

/// What the network remembers of the tokens so far: keys and values of each layer, in room that was laid out in advance.
/// Pages that no token has reached cost address space only.
pub(super) struct Kv {
    room: KvMemory,
    len: usize,
    capacity: usize,
}

enum KvMemory {
    Tensors(Vec<(Tensor, Tensor)>),
    Own(kernel::Memory),
}

impl KvMemory {
    fn tensors(sizes: &Sizes, capacity: usize) -> Result<Self, EmbeddedError> {
        let room = || Tensor::zeros((sizes.heads_kv, capacity, sizes.head), DType::F32, &Device::Cpu);
        let layers = (0..sizes.layers).map(|_| Ok((room()?, room()?))).collect::<candle_core::Result<_>>().map_err(EmbeddedError::bug)?;
        Ok(KvMemory::Tensors(layers))
    }
}

impl Kv {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(super) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// What can be kept in files: that of our own kernels.
    pub(super) fn own(&self) -> Option<&kernel::Memory> {
        match &self.room {
            KvMemory::Own(memory) => Some(memory),
            KvMemory::Tensors(_) => None,
        }
    }

    /// The first `len` tokens of a memory that has room for `capacity`.
    pub(super) fn of(memory: kernel::Memory, len: usize, capacity: usize) -> Self {
        Kv { room: KvMemory::Own(memory), len, capacity }
    }

    /// A copy of the first `len` tokens, in room of its own.
    pub(super) fn fork(&self, sizes: &Sizes, len: usize, capacity: usize) -> Result<Self, EmbeddedError> {
        let len = len.min(self.len).min(capacity);
        let room = match &self.room {
            KvMemory::Own(memory) => KvMemory::Own(memory.fork(len, capacity)),
            KvMemory::Tensors(from) => {
                let room = KvMemory::tensors(sizes, capacity)?;
                let copy = |from: &Tensor, to: &Tensor| to.slice_set(&from.narrow(1, 0, len)?.contiguous()?, 1, 0);
                let KvMemory::Tensors(to) = &room else { return Err(EmbeddedError::bug("a copy is of the same kind")) };
                for ((keys, values), (new_keys, new_values)) in from.iter().zip(to).filter(|_| len > 0) {
                    copy(keys, new_keys).and_then(|()| copy(values, new_values)).map_err(EmbeddedError::bug)?;
                }
                room
            }
        };
        Ok(Kv { room, len, capacity })
    }
}
