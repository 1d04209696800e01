//! Weights and activations in the order in which the products read them.
//!
//! ```text
//!   panel: 16 columns;  step k: column 0: k, k+1 │ column 1: k, k+1 │ … │ column 15     32 bytes of i8
//!   group: 6 rows;      step k: row 0: k, k+1 │ … │ row 5                               6 words of two i16
//! ```

/// Columns of a panel: two registers of eight sums.
pub(super) const PANEL_COLUMNS: usize = 16;
/// Rows of a group: with 16 columns, as many sums as registers hold.
pub(super) const TILE_ROWS: usize = 6;
/// The largest activation. Sums of `WIDTH_MAX` products with weights up to 127 stay below 2³¹.
const ACTIVATION_MAX: f32 = 8_000.0;
const WIDTH_MAX: usize = 2_048;

/// The result of one tile: `sum · row scale · column scale + bias`.
pub(super) type Tile = [[f32; PANEL_COLUMNS]; TILE_ROWS];

/// What turns the whole numbers of a tile into its result.
pub(super) struct Factors<'a> {
    pub(super) row_scales: &'a [f32; TILE_ROWS],
    pub(super) column_scales: &'a [f32; PANEL_COLUMNS],
    pub(super) bias: &'a [f32; PANEL_COLUMNS],
}

/// The weights of one layer, by output column.
pub struct Matrix {
    panels: Vec<[i8; 2 * PANEL_COLUMNS]>,
    scales: Vec<f32>,
    bias: Vec<f32>,
    pub(crate) width: usize,
    pub(crate) columns: usize,
}

impl Matrix {
    /// `weights` has `width` values for each column, one column after the other.
    pub fn new(weights: &[i8], scales: Vec<f32>, bias: Vec<f32>, width: usize) -> Matrix {
        let columns = scales.len();
        assert!(width.is_multiple_of(2) && width <= WIDTH_MAX && columns.is_multiple_of(PANEL_COLUMNS));
        assert!(weights.len() == width * columns && bias.len() == columns);
        let mut panels = vec![[0; 2 * PANEL_COLUMNS]; columns / PANEL_COLUMNS * width / 2];
        for (panel, steps) in panels.chunks_exact_mut(width / 2).enumerate() {
            for column in 0..PANEL_COLUMNS {
                let values = &weights[(panel * PANEL_COLUMNS + column) * width..][..width];
                for (step, two) in steps.iter_mut().zip(values.as_chunks::<2>().0) {
                    step[2 * column..2 * column + 2].copy_from_slice(two);
                }
            }
        }
        Matrix { panels, scales, bias, width, columns }
    }
}

/// Activations as 16-bit numbers, in groups of rows; a buffer that is used again.
#[derive(Default)]
pub struct Rows {
    groups: Vec<[i32; TILE_ROWS]>,
    scales: Vec<f32>,
    pub(crate) count: usize,
    pub(crate) width: usize,
}

impl Rows {
    pub(super) fn reset(&mut self, count: usize, width: usize) {
        assert!(width.is_multiple_of(2));
        self.groups.clear();
        self.groups.resize(count.div_ceil(TILE_ROWS) * width / 2, [0; TILE_ROWS]);
        self.scales.clear();
        self.scales.resize(count.next_multiple_of(TILE_ROWS), 0.0);
        (self.count, self.width) = (count, width);
    }
}

/// `largest` finds the largest absolute value of a row.
#[inline(always)]
pub(super) fn quantize(values: &[f32], rows: &mut Rows, largest: impl Fn(&[f32]) -> f32) {
    let steps = rows.width / 2;
    for (row, (values, scale)) in values.chunks_exact(rows.width).zip(&mut rows.scales).enumerate() {
        let largest = largest(values);
        *scale = largest / ACTIVATION_MAX;
        let per = if largest > 0.0 { ACTIVATION_MAX / largest } else { 0.0 };
        let group = &mut rows.groups[row / TILE_ROWS * steps..][..steps];
        for (step, two) in group.iter_mut().zip(values.as_chunks::<2>().0) {
            let (low, high) = (rounded(two[0] * per), rounded(two[1] * per));
            step[row % TILE_ROWS] = (low & 0xffff) | (high << 16);
        }
    }
}

/// To the nearest whole number, for values far below 2²².
#[inline(always)]
fn rounded(x: f32) -> i32 {
    /// Adding it leaves no bits for a fraction, so the low bits of the sum are the whole number.
    const SHIFT: f32 = 12_582_912.0;
    (x + SHIFT).to_bits().wrapping_sub(SHIFT.to_bits()).cast_signed()
}

#[inline(always)]
pub(super) fn multiply(
    rows: &Rows,
    matrix: &Matrix,
    out: &mut [f32],
    tile: impl Fn(&[[i8; 2 * PANEL_COLUMNS]], &[[i32; TILE_ROWS]], &Factors<'_>) -> Tile,
) {
    let steps = rows.width / 2;
    let column_scales = matrix.scales.as_chunks::<PANEL_COLUMNS>().0;
    let biases = matrix.bias.as_chunks::<PANEL_COLUMNS>().0;
    let row_scales = rows.scales.as_chunks::<TILE_ROWS>().0;
    // A panel stays in the nearest cache while all rows pass by.
    for (at, ((panel, column_scales), bias)) in matrix.panels.chunks_exact(steps).zip(column_scales).zip(biases).enumerate() {
        let groups = rows.groups.chunks_exact(steps).zip(row_scales);
        for ((group, row_scales), out) in groups.zip(out.chunks_mut(TILE_ROWS * matrix.columns)) {
            let tile = tile(panel, group, &Factors { row_scales, column_scales, bias });
            for (out, tile) in out.chunks_exact_mut(matrix.columns).zip(&tile) {
                out[at * PANEL_COLUMNS..][..PANEL_COLUMNS].copy_from_slice(tile);
            }
        }
    }
}
