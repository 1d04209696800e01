//! The layers. Texts of a batch lie end to end without padding: products run over all tokens at once, attention over one text at a time.

use crate::kernel::{Kernel, Matrix, Rows};
use crate::weights::{Table, Weights, WeightsError};

/// Values of a token.
pub const WIDTH: usize = 384;
/// Values of a token inside a layer.
pub const INNER: usize = 1_536;
/// Tokens of the longest text.
pub const POSITIONS_MAX: usize = 512;
const HEADS: usize = 12;
/// Word pieces of the vocabulary.
pub const WORDS: usize = 30_522;

/// The tokens of one text.
#[derive(Clone, Debug, PartialEq)]
pub struct Text {
    /// Token ids, at most [`POSITIONS_MAX`].
    pub ids: Vec<u32>,
    /// Where the second part begins, whose tokens are of the second type; the length of the text if it has one part.
    pub second_start: usize,
}

impl Text {
    /// A text of one part.
    pub fn whole(ids: Vec<u32>) -> Text {
        Text { second_start: ids.len(), ids }
    }
}

/// What an encoder is made of.
pub struct Parts<'b> {
    /// The embedding of each word piece.
    pub words: Table<'b>,
    /// The embedding of each position.
    pub positions: Table<'b>,
    /// Two rows: of the first part's tokens and of the second's.
    pub types: Vec<f32>,
    /// Applied to the sum of the embeddings.
    pub norm: Norm,
    /// From the first to the last.
    pub layers: Vec<Layer>,
}

impl<'b> Parts<'b> {
    /// The parts in a file of `lab/train`. The word embeddings may come from another file.
    pub fn read(weights: &Weights<'b>, words: &Weights<'b>, layers: usize) -> Result<Self, WeightsError> {
        let layer = |number: usize| {
            let name = |part: &str| format!("layers.{number}.{part}");
            Ok(Layer {
                qkv: weights.matrix(&name("qkv"), WIDTH, 3 * WIDTH)?,
                out: weights.matrix(&name("out"), WIDTH, WIDTH)?,
                out_norm: weights.norm(&name("out_norm"))?,
                up: weights.matrix(&name("up"), WIDTH, INNER)?,
                down: weights.matrix(&name("down"), INNER, WIDTH)?,
                down_norm: weights.norm(&name("down_norm"))?,
            })
        };
        Ok(Parts {
            words: words.table("words.weight", WORDS)?,
            positions: weights.table("positions.weight", POSITIONS_MAX)?,
            types: weights.floats_of("types.weight", 2 * WIDTH)?,
            norm: weights.norm("norm")?,
            layers: (0..layers).map(layer).collect::<Result<_, WeightsError>>()?,
        })
    }
}

/// The weights of one layer.
pub struct Layer {
    /// Query, key and value projections, side by side.
    pub qkv: Matrix,
    /// The projection of the attention's output.
    pub out: Matrix,
    /// Applied after attention and its residual.
    pub out_norm: Norm,
    /// From [`WIDTH`] to [`INNER`] values.
    pub up: Matrix,
    /// From [`INNER`] back to [`WIDTH`] values.
    pub down: Matrix,
    /// Applied after the inner layer and its residual.
    pub down_norm: Norm,
}

/// A layer normalization.
pub struct Norm {
    /// A factor for each value.
    pub gains: Vec<f32>,
    /// An addend for each value.
    pub offsets: Vec<f32>,
}

/// Ready to encode. The caller keeps ids below the number of words and texts within [`POSITIONS_MAX`].
pub struct Encoder<'b> {
    kernel: Kernel,
    parts: Parts<'b>,
}

/// Memory of one thread, used again for each batch.
#[derive(Default)]
pub struct Scratch {
    x: Vec<f32>,
    wide: Vec<f32>,
    narrow: Vec<f32>,
    seen: Vec<f32>,
    /// Quantized input of the next multiplication; callers may use it for a head of their own.
    pub rows: Rows,
}

impl<'b> Encoder<'b> {
    /// Computes with the kernel of the process.
    pub fn new(parts: Parts<'b>) -> Encoder<'b> {
        Encoder { kernel: Kernel::of_process(), parts }
    }

    /// The arithmetic of this encoder, for what follows it.
    pub fn kernel(&self) -> Kernel {
        self.kernel
    }

    /// A row of [`WIDTH`] values for each token of the texts, one text after the other.
    pub fn forward<'s>(&self, texts: &[&Text], scratch: &'s mut Scratch) -> (&'s [f32], &'s mut Rows) {
        let kernel = self.kernel;
        let tokens: usize = texts.iter().map(|text| text.ids.len()).sum();
        self.embed(texts, scratch);
        let Scratch { x, wide, narrow, seen, rows } = scratch;
        narrow.resize(tokens * WIDTH, 0.0);
        seen.resize(tokens * WIDTH, 0.0);
        for layer in &self.parts.layers {
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
        (x, rows)
    }

    /// The mean of each text's rows, for the output of [`Encoder::forward`].
    pub fn means<'r>(texts: &'r [&Text], rows: &'r [f32]) -> impl Iterator<Item = [f32; WIDTH]> + 'r {
        let mut start = 0;
        texts.iter().map(move |text| {
            let own = &rows[start * WIDTH..(start + text.ids.len()) * WIDTH];
            start += text.ids.len();
            let mut mean = [0.0; WIDTH];
            for row in own.chunks_exact(WIDTH) {
                mean.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
            }
            mean.map(|sum| sum / text.ids.len().max(1) as f32)
        })
    }

    fn embed(&self, texts: &[&Text], scratch: &mut Scratch) {
        let Parts { words, positions, types, norm, .. } = &self.parts;
        let x = &mut scratch.x;
        x.clear();
        for text in texts {
            for (place, id) in text.ids.iter().enumerate() {
                let kind = &types[if place < text.second_start { 0 } else { WIDTH }..][..WIDTH];
                let sum = words.row(*id as usize).zip(positions.row(place)).zip(kind);
                x.extend(sum.map(|((word, position), kind)| word + position + kind));
            }
        }
        scratch.narrow.clear();
        scratch.narrow.resize(x.len(), 0.0);
        self.kernel.add_and_norm(x, &scratch.narrow, &norm.gains, &norm.offsets);
    }
}
