//! Pseudo-random numbers from a seed, independent of library versions.

/// A stream of numbers from a seed (splitmix64, written out so that an old seed still reproduces its failure).
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    pub fn new(parts: &[u64]) -> Self {
        Dice(mix(parts))
    }

    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        scramble(self.0)
    }

    /// Less than `count`, which must not be 0.
    pub fn below(&mut self, count: u64) -> u64 {
        self.roll() % count
    }

    pub fn pct(&mut self, pct: u64) -> bool {
        self.below(100) < pct
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at as u64 + 1) as usize);
        }
    }
}

/// One number from several; order matters.
pub fn mix(parts: &[u64]) -> u64 {
    parts.iter().fold(0x6a09_e667_f3bc_c908, |mixed, part| scramble(mixed.rotate_left(23) ^ part.wrapping_add(0x9e37_79b9_7f4a_7c15)))
}

/// A number for a text (FNV, then mixed).
pub fn hash(bytes: &[u8]) -> u64 {
    scramble(bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)))
}

fn scramble(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
