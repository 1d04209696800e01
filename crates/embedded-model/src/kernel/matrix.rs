//! A matrix in tiles, and its products on all threads.

use std::arch::x86_64::*;

use super::activation::Block;
use super::parts::{Column, each, each_column};
use super::product::{column_4, column_6};
use super::tile::{TALL, Tile, Tile4, Tile6, WIDE};
use super::vector::{exp, floats, is_available, put};

pub(super) struct Matrix {
    tiles: Tiles,
    pub(super) rows: usize,
    pub(super) width: usize,
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

/// So much is read of the file at a time, to be laid out anew while it is in the cache.
const READ_BYTES: usize = 1 << 20;

impl Matrix {
    /// `read` fills what it is given with the bytes of the rows from a number on.
    pub(super) fn load<E>(format: Format, rows: usize, width: usize, read: impl FnMut(usize, &mut [u8]) -> Result<(), E>) -> Result<Self, E> {
        assert!(is_available() && Matrix::fits(rows, width));
        let tiles = match format {
            Format::Q4K => Tiles::Four(tiles(rows, width, read)?),
            Format::Q6K => Tiles::Six(tiles(rows, width, read)?),
        };
        Ok(Matrix { tiles, rows, width })
    }

    pub(super) fn fits(rows: usize, width: usize) -> bool {
        rows > 0 && width > 0 && rows.is_multiple_of(TALL) && width.is_multiple_of(WIDE)
    }

    /// 16 rows times each row of `x`, and their sums to `sink` with the number of the row.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
    fn column(&self, column: usize, x: &[Block], sink: impl FnMut(usize, __m512)) {
        let wide = self.width / WIDE;
        match &self.tiles {
            Tiles::Four(tiles) => column_4_all(&tiles[column * wide..][..wide], x, sink),
            Tiles::Six(tiles) => column_6_all(&tiles[column * wide..][..wide], x, sink),
        }
    }
}

/// Each row of a table is `width` bytes; its tiles lie row of tiles after row of tiles.
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

macro_rules! all_rows {
    ($name:ident, $column:ident, $tile:ty) => {
        /// As many rows at a time as registers hold the sums of.
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
        fn $name(tiles: &[$tile], x: &[Block], mut sink: impl FnMut(usize, __m512)) {
            let wide = tiles.len();
            let rows = x.len() / wide;
            let mut at = 0;
            macro_rules! some {
                ($count:literal) => {
                    let mut some = [x; $count];
                    for (more, some) in some.iter_mut().enumerate() {
                        *some = &x[(at + more) * wide..][..wide];
                    }
                    let sums = $column::<$count>(tiles, some);
                    for (more, sums) in sums.iter().enumerate() {
                        sink(at + more, *sums);
                    }
                    at += $count;
                };
            }
            while at + 8 <= rows {
                some!(8);
            }
            if at + 4 <= rows {
                some!(4);
            }
            if at + 2 <= rows {
                some!(2);
            }
            if at < rows {
                some!(1);
            }
            let _ = at;
        }
    };
}

all_rows!(column_4_all, column_4, Tile4);
all_rows!(column_6_all, column_6, Tile6);

/// What becomes of a product.
#[derive(Clone, Copy)]
pub(super) enum Then<'a> {
    Set,
    /// Added to what is there.
    Add,
    /// These are added, one to each column.
    Bias(&'a [f32]),
}

/// Several matrices times the same activations, the results beside each other: `out` has a row for each row of `x`.
pub(super) fn multiply(matrices: &[&Matrix], x: &[Block], out: &mut [f32], then: Then<'_>) {
    let (Some(width), total) = (matrices.first().map(|matrix| matrix.width), matrices.iter().map(|matrix| matrix.rows).sum::<usize>()) else {
        return;
    };
    let rows = x.len() / (width / WIDE);
    assert!(matrices.iter().all(|matrix| matrix.width == width) && out.len() == rows * total && x.len() == rows * (width / WIDE));
    assert!(!matches!(then, Then::Bias(bias) if bias.len() != total));
    each_column(out, total, |column, mut out| {
        let (mut matrix, mut within) = (matrices[0], column);
        for next in &matrices[1..] {
            if within < matrix.rows / TALL {
                break;
            }
            within -= matrix.rows / TALL;
            matrix = next;
        }
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
        fn one(matrix: &Matrix, within: usize, x: &[Block], then: Then<'_>, column: usize, out: &mut Column<'_>) {
            let bias = match then {
                Then::Bias(bias) => floats(&bias.as_chunks().0[column]),
                Then::Set | Then::Add => _mm512_setzero_ps(),
            };
            let is_added = matches!(then, Then::Add);
            matrix.column(within, x, |row, sums| {
                let out = out.row(row);
                let before = if is_added { floats(out) } else { bias };
                put(out, _mm512_add_ps(before, sums));
            });
        }
        // SAFETY: a matrix is made only where `is_available`.
        unsafe { one(matrix, within, x, then, column, &mut out) }
    });
}

/// silu(gate · x) times up · x.
pub(super) fn multiply_gated(gate: &Matrix, up: &Matrix, x: &[Block], out: &mut [f32]) {
    let rows = x.len() / (gate.width / WIDE);
    assert!(gate.width == up.width && gate.rows == up.rows && out.len() == rows * gate.rows && x.len() == rows * (gate.width / WIDE));
    each_column(out, gate.rows, |column, mut out| {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
        fn one(gate: &Matrix, up: &Matrix, x: &[Block], column: usize, out: &mut Column<'_>) {
            gate.column(column, x, |row, gate| put(out.row(row), gate));
            up.column(column, x, |row, up| {
                let out = out.row(row);
                let gate = floats(out);
                let less = exp(_mm512_sub_ps(_mm512_setzero_ps(), gate));
                let silu = _mm512_div_ps(gate, _mm512_add_ps(less, _mm512_set1_ps(1.0)));
                put(out, _mm512_mul_ps(silu, up));
            });
        }
        // SAFETY: a matrix is made only where `is_available`.
        unsafe { one(gate, up, x, column, &mut out) }
    });
}
