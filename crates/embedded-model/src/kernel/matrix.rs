//! A matrix in tiles, and its products on all threads.

use super::activation::Block;
use super::parts::{Column, each, each_column};
use super::set::Set;
use super::tile::{TALL, Tile, Tile4, Tile6, WIDE};

pub(super) struct Matrix {
    tiles: Tiles,
    pub(super) rows: usize,
    pub(super) width: usize,
    pub(super) set: &'static Set,
}

enum Tiles {
    Four(Box<[Tile4]>),
    Six(Box<[Tile6]>),
}

/// How the file holds a matrix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Format {
    Q4K,
    Q6K,
}

/// Bytes of the file that are read at a time, so that they are rearranged into tiles while in the cache.
const READ_BYTES: usize = 1 << 20;

/// Rows of activations that are multiplied with a column of tiles before the next ones: their sums are kept on the stack.
const ROWS_MAX: usize = 64;

impl Matrix {
    /// `read` fills what it is given with the bytes of the rows from a number on.
    pub(super) fn load<E>(
        set: &'static Set,
        format: Format,
        (rows, width): (usize, usize),
        read: impl FnMut(usize, &mut [u8]) -> Result<(), E>,
    ) -> Result<Self, E> {
        assert!(Matrix::fits(rows, width));
        let tiles = match format {
            Format::Q4K => Tiles::Four(tiles(rows, width, read)?),
            Format::Q6K => Tiles::Six(tiles(rows, width, read)?),
        };
        Ok(Matrix { tiles, rows, width, set })
    }

    pub(super) fn fits(rows: usize, width: usize) -> bool {
        rows > 0 && width > 0 && rows.is_multiple_of(TALL) && width.is_multiple_of(WIDE)
    }

    pub(super) fn bytes(&self) -> usize {
        match &self.tiles {
            Tiles::Four(tiles) => size_of_val::<[_]>(tiles),
            Tiles::Six(tiles) => size_of_val::<[_]>(tiles),
        }
    }

    /// 16 rows of the matrix times each row of `x`.
    fn column(&self, column: usize, x: &[Block], sums: &mut [[f32; TALL]]) {
        let wide = self.width / WIDE;
        // SAFETY: a set is handed out only where the processor has its instructions.
        match &self.tiles {
            Tiles::Four(tiles) => unsafe { (self.set.product_4)(&tiles[column * wide..][..wide], x, sums) },
            Tiles::Six(tiles) => unsafe { (self.set.product_6)(&tiles[column * wide..][..wide], x, sums) },
        }
    }
}

/// Its tiles lie row of tiles after row of tiles.
fn tiles<T: Tile, E>(rows: usize, width: usize, mut read: impl FnMut(usize, &mut [u8]) -> Result<(), E>) -> Result<Box<[T]>, E> {
    let wide = width / WIDE;
    let row_bytes = wide * T::BLOCK_BYTES;
    let tiles = Box::<[T]>::new_zeroed_slice(rows / TALL * wide);
    // SAFETY: tiles are whole numbers throughout, which may all be zero.
    let mut tiles = unsafe { tiles.assume_init() };
    let some = (READ_BYTES / (TALL * row_bytes)).max(1);
    let mut bytes = vec![0; some.min(rows / TALL) * TALL * row_bytes];
    for (at, tiles) in tiles.chunks_mut(some * wide).enumerate() {
        let bytes = &mut bytes[..tiles.len() / wide * TALL * row_bytes];
        read(at * some * TALL, bytes)?;
        let bytes = &*bytes;
        each(tiles, wide, |column, tiles| {
            let rows = &bytes[column * TALL * row_bytes..];
            let rows: [&[u8]; TALL] = std::array::from_fn(|row| &rows[row * row_bytes..][..row_bytes]);
            for (at, tile) in tiles.iter_mut().enumerate() {
                tile.fill(&rows, at);
            }
        });
    }
    Ok(tiles)
}

/// What is done with a product.
#[derive(Clone, Copy)]
pub(super) enum Epilogue<'a> {
    Set,
    /// Added to what is there.
    Add,
    /// These are added, one to each column.
    Bias(&'a [f32]),
}

/// Several matrices times the same activations, the results beside each other: `out` has a row for each row of `x`.
pub(super) fn multiply(matrices: &[&Matrix], x: &[Block], out: &mut [f32], then: Epilogue<'_>) {
    let (Some(width), total) = (matrices.first().map(|matrix| matrix.width), matrices.iter().map(|matrix| matrix.rows).sum::<usize>()) else {
        return;
    };
    let rows = x.len() / (width / WIDE);
    assert!(matrices.iter().all(|matrix| matrix.width == width) && out.len() == rows * total && x.len() == rows * (width / WIDE));
    assert!(!matches!(then, Epilogue::Bias(bias) if bias.len() != total));
    each_column(out, total, |column, mut out| {
        let (mut at, mut within) = (0, column);
        while within >= matrices[at].rows / TALL {
            within -= matrices[at].rows / TALL;
            at += 1;
        }
        let matrix = matrices[at];
        each_rows(x, width, &mut out, |x, from, out| {
            let mut sums = [[0.0; TALL]; ROWS_MAX];
            let sums = &mut sums[..x.len() / (width / WIDE)];
            matrix.column(within, x, sums);
            for (at, sums) in sums.iter().enumerate() {
                let out = out.row(from + at);
                match then {
                    Epilogue::Set => *out = *sums,
                    Epilogue::Add => add(out, sums),
                    Epilogue::Bias(bias) => {
                        *out = *sums;
                        add(out, &bias.as_chunks().0[column]);
                    }
                }
            }
        });
    });
}

/// silu(gate · x) times up · x.
pub(super) fn multiply_gated(gate: &Matrix, up: &Matrix, x: &[Block], out: &mut [f32]) {
    let rows = x.len() / (gate.width / WIDE);
    assert!(gate.width == up.width && gate.rows == up.rows && out.len() == rows * gate.rows && x.len() == rows * (gate.width / WIDE));
    each_column(out, gate.rows, |column, mut out| {
        each_rows(x, gate.width, &mut out, |x, from, out| {
            let (mut gates, mut ups) = ([[0.0; TALL]; ROWS_MAX], [[0.0; TALL]; ROWS_MAX]);
            let count = x.len() / (gate.width / WIDE);
            let (gates, ups) = (&mut gates[..count], &mut ups[..count]);
            gate.column(column, x, gates);
            up.column(column, x, ups);
            // SAFETY: a set is handed out only where the processor has its instructions.
            unsafe { (gate.set.gate)(gates, ups) };
            for (at, gated) in gates.iter().enumerate() {
                *out.row(from + at) = *gated;
            }
        });
    });
}

/// `work` for at most [`ROWS_MAX`] rows of activations at a time, with the number of the first.
fn each_rows(x: &[Block], width: usize, out: &mut Column<'_>, mut work: impl FnMut(&[Block], usize, &mut Column<'_>)) {
    let wide = width / WIDE;
    for from in (0..out.rows()).step_by(ROWS_MAX) {
        let count = ROWS_MAX.min(out.rows() - from);
        work(&x[from * wide..][..count * wide], from, out);
    }
}

fn add(to: &mut [f32; TALL], values: &[f32; TALL]) {
    for (to, value) in to.iter_mut().zip(values) {
        *to += value;
    }
}
