//! Damaged variants of bytes, for tests of parsers of untrusted input.

/// An endless sequence of variants with a few errors each: a byte changed, removed or inserted, a piece repeated, the end cut off. The same seed
/// gives the same sequence.
pub fn mangled(whole: &[u8], seed: u64) -> impl Iterator<Item = Vec<u8>> {
    let mut dice = Xorshift(seed | 1);
    std::iter::repeat_with(move || {
        let mut bytes = whole.to_vec();
        for _ in 0..=dice.below(ERRORS_MAX) {
            dice.damage(&mut bytes);
        }
        bytes
    })
}

/// How many a test tries: `BATON_MANGLED`, or a small number by default.
pub fn count() -> usize {
    const USUAL: usize = 2_000;
    count_or(USUAL)
}

/// The same for a test whose inputs cost more, with its own small number.
pub fn count_or(usual: usize) -> usize {
    std::env::var("BATON_MANGLED").ok().and_then(|count| count.parse().ok()).unwrap_or(usual)
}

const ERRORS_MAX: usize = 5;
/// What JSON is sensitive to.
const MARKS: &[u8] = b"{}[]\",:0\\";

/// Marsaglia's xorshift: nothing here needs better chance than that.
struct Xorshift(u64);

impl Xorshift {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit.max(1) as u64) as usize
    }

    fn damage(&mut self, bytes: &mut Vec<u8>) {
        if bytes.len() < 2 {
            return;
        }
        let at = self.below(bytes.len());
        match self.below(5) {
            0 => bytes[at] = self.below(256) as u8,
            1 => drop(bytes.remove(at)),
            2 => bytes.insert(at, MARKS[self.below(MARKS.len())]),
            // A cut hides whatever else is wrong, so it is rarer.
            3 if self.below(4) == 0 => bytes.truncate(at.max(1)),
            _ => {
                let from = self.below(bytes.len());
                let piece = bytes[from.min(at)..from.max(at)].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_mangles_the_same_and_seldom_leaves_anything_whole() {
        let whole = br#"{"a": [1, "two", null]}"#;
        let some = |seed| mangled(whole, seed).take(200).collect::<Vec<_>>();
        assert_eq!(some(7), some(7));
        assert_ne!(some(7), some(8));
        assert!(some(7).iter().filter(|bytes| bytes.as_slice() == whole).count() < 20);
    }
}
