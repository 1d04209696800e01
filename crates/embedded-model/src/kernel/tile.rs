//! Weights in the layout of the products: 16 rows by 256 values, side by side.
//!
//! A tile holds for each four values of a row one lane of four bytes, and the lanes of 16 rows together, so that one instruction
//! multiplies 16 rows with the same four activations. Apart from that order the bits are the file's: 0.58 bytes a weight for
//! Q4_K (the file: 0.56) and 0.83 for Q6_K (0.82).
//!
//! ```text
//!   step s of a tile:  row 0: values 4s‥4s+3 │ row 1: values 4s‥4s+3 │ … │ row 15      64 bytes, one register
//! ```

/// Rows of a tile.
pub(super) const TALL: usize = 16;
/// Values of each row in a tile, as many as a block of the file has.
pub(super) const WIDE: usize = 256;

pub(super) const BLOCK4_BYTES: usize = 144;
pub(super) const BLOCK6_BYTES: usize = 210;

/// Value = `d` · scale · nibble − `dmin` · min, with a scale and a min for each 32 values.
///
/// All parts lie in the order in which they are read: streams beside each other came from memory at two thirds of the speed.
#[repr(C, align(64))]
pub(super) struct Tile4 {
    pub(super) parts: [Part4; 4],
    /// As the bits of an f16.
    pub(super) d: [u16; TALL],
    pub(super) dmin: [u16; TALL],
}

/// 64 values of each row.
#[repr(C)]
pub(super) struct Part4 {
    pub(super) scales: [[u8; TALL]; 2],
    /// Both of each row.
    pub(super) mins: [u8; 2 * TALL],
    /// Low nibbles are the first 32 values, high ones the others.
    pub(super) steps: [[u8; 64]; 8],
}

/// Value = `d` · scale · (six bits − 32), with a scale for each 16 values.
#[repr(C, align(64))]
pub(super) struct Tile6 {
    pub(super) parts: [Part6; 4],
    pub(super) d: [u16; TALL],
}

/// 64 values of each row, 32 and 32.
#[repr(C)]
pub(super) struct Part6 {
    /// Both of each row.
    pub(super) scales: [[i8; 2 * TALL]; 2],
    pub(super) halves: [[Steps6; 2]; 2],
}

/// Two steps in each of two times 16 values.
#[repr(C)]
pub(super) struct Steps6 {
    /// Two bits of each value: for the first step bits 4 and 5 for the first 16 values and 2 and 3 for the others, for the second
    /// step the same once the lane is rotated by 4.
    pub(super) rest: [u8; 64],
    /// Low nibble: the low four bits of a value of the first 16. High nibble: the *high* four bits of one of the others, which
    /// is then four times too large, and needs no shift.
    pub(super) steps: [[u8; 64]; 2],
}

/// Tiles that can be made of 16 rows of a file's blocks.
pub(super) trait Tile: Sync + Send + Sized {
    const BLOCK_BYTES: usize;

    /// Block `at` of each of the rows, all of the same number of bytes.
    fn fill(&mut self, rows: &[&[u8]; TALL], at: usize);
}

impl Tile for Tile4 {
    const BLOCK_BYTES: usize = BLOCK4_BYTES;

    fn fill(&mut self, rows: &[&[u8]; TALL], at: usize) {
        for (row, bytes) in rows.iter().enumerate() {
            let block = &bytes[at * BLOCK4_BYTES..][..BLOCK4_BYTES];
            self.d[row] = u16::from_le_bytes([block[0], block[1]]);
            self.dmin[row] = u16::from_le_bytes([block[2], block[3]]);
            let packed = &block[4..16];
            for part in 0..8 {
                let (scale, min) = if part < 4 {
                    (packed[part] & 63, packed[part + 4] & 63)
                } else {
                    let (high_scale, high_min) = (packed[part - 4] >> 6, packed[part] >> 6);
                    (packed[part + 4] & 15 | high_scale << 4, packed[part + 4] >> 4 | high_min << 4)
                };
                self.parts[part / 2].scales[part % 2][row] = scale;
                self.parts[part / 2].mins[2 * row + part % 2] = min;
            }
            // The file's order within a row is this one already.
            for (step, four) in block[16..].as_chunks::<4>().0.iter().enumerate() {
                self.parts[step / 8].steps[step % 8][4 * row..4 * row + 4].copy_from_slice(four);
            }
        }
    }
}

impl Tile for Tile6 {
    const BLOCK_BYTES: usize = BLOCK6_BYTES;

    fn fill(&mut self, rows: &[&[u8]; TALL], at: usize) {
        let mut values = [0_u8; WIDE];
        for (row, bytes) in rows.iter().enumerate() {
            let block = &bytes[at * BLOCK6_BYTES..][..BLOCK6_BYTES];
            self.d[row] = u16::from_le_bytes([block[208], block[209]]);
            for (part, &scale) in block[192..208].iter().enumerate() {
                self.parts[part / 4].scales[part / 2 % 2][2 * row + part % 2] = scale.cast_signed();
            }
            for half in 0..2 {
                let (low, high) = (&block[64 * half..][..64], &block[128 + 32 * half..][..32]);
                let values = &mut values[128 * half..][..128];
                for i in 0..32 {
                    values[i] = low[i] & 15 | (high[i] & 3) << 4;
                    values[i + 32] = low[i + 32] & 15 | (high[i] >> 2 & 3) << 4;
                    values[i + 64] = low[i] >> 4 | (high[i] >> 4 & 3) << 4;
                    values[i + 96] = low[i + 32] >> 4 | (high[i] >> 6) << 4;
                }
            }
            for two in 0..16 {
                let steps = &mut self.parts[two / 4].halves[two / 2 % 2][two % 2];
                let values = &values[two / 2 * 32 + two % 2 * 8..];
                for i in 0..8 {
                    steps.steps[i / 4][4 * row + i % 4] = values[i] & 15 | values[16 + i] >> 2 << 4;
                }
                for i in 0..4 {
                    // A lane that is rotated by 4 takes the high half of a byte into the low half of the next.
                    let (first, other) = (values[i] >> 4 << 4 | (values[16 + i] & 3) << 2, values[4 + i] >> 4 | (values[20 + (i + 1) % 4] & 3) << 6);
                    steps.rest[4 * row + i] = first | other;
                }
            }
        }
    }
}
