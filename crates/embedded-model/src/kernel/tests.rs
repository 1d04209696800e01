//! Each set that this processor runs against the same done slowly, and to the bit against the scalar one.

use candle_core::Device;
use candle_core::quantized::{GgmlDType, QStorage, QTensor};

use super::activation::Block;
use super::matrix::{Epilogue, Format, Matrix, multiply, multiply_gated};
use super::memory::Memory;
use super::set::{SCALAR, Set, available};

/// Random numbers that are always the same.
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn float(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1_u64 << 24) as f32 - 0.5
    }

    fn floats(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.float()).collect()
    }
}

/// Bytes as a file may have them; `is_wild` has many of the largest scales, and few sensible ones.
fn blocks(format: Format, count: usize, random: &mut Random, is_wild: bool) -> Vec<u8> {
    let scale = |random: &mut Random| {
        let scale = if is_wild { [0.0, 1.0, -3.0, 6e-8, 0.01][(random.bits() % 5) as usize] } else { random.float() * 0.01 };
        half::f16::from_f32(scale).to_le_bytes()
    };
    let (size, scales): (usize, &[usize]) = match format {
        Format::Q4K => (144, &[0, 2]),
        Format::Q6K => (210, &[208]),
    };
    let mut bytes: Vec<u8> =
        (0..count * size).map(|_| if is_wild && random.bits().is_multiple_of(4) { 255 } else { (random.bits() >> 33) as u8 }).collect();
    for block in bytes.chunks_mut(size) {
        for &at in scales {
            block[at..at + 2].copy_from_slice(&scale(random));
        }
    }
    bytes
}

/// Bytes of a matrix as a file has them.
struct Stored {
    format: Format,
    rows: usize,
    width: usize,
    bytes: Vec<u8>,
}

impl Stored {
    fn new(format: Format, rows: usize, width: usize, random: &mut Random, is_wild: bool) -> Self {
        Stored { format, rows, width, bytes: blocks(format, rows * width / 256, random, is_wild) }
    }

    fn matrix(&self, set: &'static Set) -> Matrix {
        let row_bytes = self.bytes.len() / self.rows;
        let read = |row: usize, to: &mut [u8]| {
            to.copy_from_slice(&self.bytes[row * row_bytes..][..to.len()]);
            Ok::<(), ()>(())
        };
        Matrix::load(set, self.format, (self.rows, self.width), read).unwrap()
    }

    /// The weights as plain numbers, by candle.
    fn weights(&self) -> Vec<f32> {
        let dtype = match self.format {
            Format::Q4K => GgmlDType::Q4K,
            Format::Q6K => GgmlDType::Q6K,
        };
        let storage = QStorage::from_data(self.bytes.clone().into(), &Device::Cpu, dtype).unwrap();
        let weights = QTensor::new(storage, (self.rows, self.width)).unwrap().dequantize(&Device::Cpu).unwrap();
        weights.flatten_all().unwrap().to_vec1().unwrap()
    }
}

fn quantized(set: &Set, x: &[f32]) -> Vec<Block> {
    let mut blocks = vec![Block::EMPTY; x.len() / 256];
    // SAFETY: the processor has the instructions of each set in these tests.
    unsafe { (set.quantize)(x, &mut blocks) };
    blocks
}

fn normed(set: &Set, x: &[f32], gains: &[f32]) -> Vec<Block> {
    let mut blocks = vec![Block::EMPTY; x.len() / 256];
    // SAFETY: as above.
    unsafe { (set.quantize_normed)(x, gains, 1e-6, &mut blocks) };
    blocks
}

/// What the eight bits stand for.
fn meant(blocks: &[Block]) -> Vec<f32> {
    let values = |block: &Block| block.words.iter().flat_map(|word| word.to_le_bytes()).map(|byte| f32::from(byte.cast_signed())).collect::<Vec<_>>();
    blocks.iter().flat_map(|block| values(block).into_iter().map(|value| value * block.scale)).collect()
}

fn is_same(a: &[Block], b: &[Block]) -> bool {
    let parts = |block: &Block| (block.words, block.offsets, block.sums, block.sums_16, block.scale.to_bits());
    a.iter().map(parts).eq(b.iter().map(parts))
}

/// The sum of products, and the sum of their sizes, which bounds what rounding may do.
fn slow(weights: &[f32], x: &[f32]) -> (f64, f64) {
    let terms = weights.iter().zip(x).map(|(weight, x)| f64::from(*weight) * f64::from(*x));
    terms.fold((0.0, 1e-30), |(sum, size), term| (sum + term, size + term.abs()))
}

#[test]
fn products_are_those_of_the_weights_and_the_same_by_each_set() {
    let mut random = Random(88_172_645_463_325_252);
    for (format, is_wild) in [(Format::Q4K, false), (Format::Q4K, true), (Format::Q6K, false), (Format::Q6K, true)] {
        for (rows, width) in [(16, 256), (32, 512), (48, 768), (16, 2304)] {
            let stored = Stored::new(format, rows, width, &mut random, is_wild);
            let (weights, scalar) = (stored.weights(), stored.matrix(&SCALAR));
            for count in [1, 2, 3, 4, 5, 7, 8, 13, 16, 67] {
                let x: Vec<f32> = (0..count * width).map(|i| if is_wild && i % 97 == 0 { 40.0 } else { random.float() }).collect();
                let x = quantized(&SCALAR, &x);
                let mut expected = vec![f32::NAN; count * rows];
                multiply(&[&scalar], &x, &mut expected, Epilogue::Set);
                let meant = meant(&x);
                for (at, found) in expected.iter().enumerate() {
                    let (sum, size) = slow(&weights[at % rows * width..][..width], &meant[at / rows * width..][..width]);
                    assert!((f64::from(*found) - sum).abs() < 2e-5 * size, "{format:?} {is_wild} {rows}·{width}, {count}: {found} for {sum}");
                }
                for set in available() {
                    let mut found = vec![f32::NAN; count * rows];
                    multiply(&[&stored.matrix(set)], &x, &mut found, Epilogue::Set);
                    assert_eq!(found, expected, "{}: {format:?} {is_wild} {rows}·{width}, {count}", set.name);
                }
            }
        }
    }
}

/// All weights and activations are the largest or the smallest there are, so that any sum that can overflow does.
#[test]
fn the_largest_products_do_not_overflow() {
    for format in [Format::Q4K, Format::Q6K] {
        for byte in [0x00, 0xff] {
            let mut stored = Stored::new(format, 16, 512, &mut Random(1), false);
            let (size, scales): (usize, &[usize]) = if format == Format::Q4K { (144, &[0, 2]) } else { (210, &[208]) };
            stored.bytes.fill(byte);
            for block in stored.bytes.chunks_mut(size) {
                if format == Format::Q6K {
                    // −128 and 127, the largest scales of either sign.
                    block[192..208].copy_from_slice(&[0x80, 0x7f].repeat(8));
                }
                for &at in scales {
                    block[at..at + 2].copy_from_slice(&half::f16::from_f32(0.01).to_le_bytes());
                }
            }
            for sign in [1.0, -1.0] {
                for count in [1, 6] {
                    let x = quantized(&SCALAR, &vec![sign; count * 512]);
                    let results = available().into_iter().map(|set| {
                        let mut found = vec![f32::NAN; count * 16];
                        multiply(&[&stored.matrix(set)], &x, &mut found, Epilogue::Set);
                        found
                    });
                    let results: Vec<Vec<f32>> = results.collect();
                    assert!(results.iter().all(|found| found == &results[0] && found[0].is_finite()), "{format:?} {byte} {sign} {count}");
                    let (sum, size) = slow(&stored.weights()[..512], &meant(&x)[..512]);
                    assert!((f64::from(results[0][0]) - sum).abs() <= 2e-5 * size, "{} for {sum}", results[0][0]);
                }
            }
        }
    }
}

#[test]
fn several_products_lie_beside_each_other_and_are_added() {
    for set in available() {
        let mut random = Random(7);
        let mut matrix = |format, rows| Stored::new(format, rows, 512, &mut random, false).matrix(set);
        let parts = [matrix(Format::Q4K, 32), matrix(Format::Q6K, 16), matrix(Format::Q4K, 48)];
        let up = matrix(Format::Q6K, 32);
        let x = quantized(set, &random.floats(3 * 512));
        let bias = random.floats(96);
        let mut all = vec![0.0; 3 * 96];
        multiply(&[&parts[0], &parts[1], &parts[2]], &x, &mut all, Epilogue::Bias(&bias));
        let mut from = 0;
        for part in &parts {
            let mut alone = vec![1.0; 3 * part.rows];
            multiply(&[part], &x, &mut alone, Epilogue::Add);
            for (at, alone) in alone.iter().enumerate() {
                let (row, column) = (at / part.rows, from + at % part.rows);
                assert!((alone - 1.0 + bias[column] - all[row * 96 + column]).abs() < 1e-5);
            }
            from += part.rows;
        }
        let gate = &parts[0];
        let (mut gates, mut ups, mut gated) = (vec![0.0; 3 * 32], vec![0.0; 3 * 32], vec![0.0; 3 * 32]);
        multiply(&[gate], &x, &mut gates, Epilogue::Set);
        multiply(&[&up], &x, &mut ups, Epilogue::Set);
        multiply_gated(gate, &up, &x, &mut gated);
        for ((gate, up), found) in gates.iter().zip(&ups).zip(&gated) {
            let expected = gate / (1.0 + (-gate).exp()) * up;
            assert!((expected - found).abs() <= 1e-6 * (1.0 + expected.abs()), "{found} for {expected}");
        }
    }
}

#[test]
fn gates_and_halves_are_the_same_by_each_set() {
    let mut random = Random(11);
    let mut some = |scale: f32| std::array::from_fn::<f32, 16, _>(|_| random.float() * scale);
    let gates: Vec<[f32; 16]> = [1e-30, 1e-3, 1.0, 10.0, 80.0, 200.0, 1e5, 1e30].map(&mut some).to_vec();
    let ups: Vec<[f32; 16]> = gates.iter().map(|_| some(2.0)).collect();
    let numbers: Vec<f32> = gates.as_flattened().iter().chain(ups.as_flattened()).copied().chain([0.0, -0.0, 65504.0, 65520.0]).collect();
    let numbers = &numbers[..numbers.len() / 16 * 16];
    let results = |set: &Set| {
        let (mut gates, mut halves) = (gates.clone(), vec![0; numbers.len()]);
        // SAFETY: as above.
        unsafe {
            (set.gate)(&mut gates, &ups);
            (set.halve)(numbers, &mut halves);
        }
        (gates.as_flattened().iter().map(|gate| gate.to_bits()).collect::<Vec<_>>(), halves)
    };
    for set in available() {
        assert_eq!(results(set), results(&SCALAR), "{}", set.name);
    }
}

#[test]
fn eight_bits_are_as_near_as_they_can_be() {
    let mut random = Random(3);
    let x: Vec<f32> = random.floats(768).into_iter().enumerate().map(|(i, x)| x * [1.0, 1e-9, 1e9][i / 256]).collect();
    let gains = random.floats(768);
    for (x, near) in x.chunks(256).zip(meant(&quantized(&SCALAR, &x)).chunks(256)) {
        let most = x.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
        assert!(x.iter().zip(near).all(|(x, near)| (x - near).abs() <= most / 253.0));
    }
    let size = (x.iter().map(|x| x * x).sum::<f32>() / 768.0 + 1e-6).sqrt();
    let expected: Vec<f32> = x.iter().zip(&gains).map(|(x, gain)| x / size * gain).collect();
    for (expected, near) in expected.chunks(256).zip(meant(&normed(&SCALAR, &x, &gains)).chunks(256)) {
        let most = expected.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
        assert!(expected.iter().zip(near).all(|(x, near)| (x - near).abs() <= most / 250.0));
    }
    for set in available() {
        assert!(is_same(&quantized(set, &x), &quantized(&SCALAR, &x)), "{}", set.name);
        assert!(is_same(&normed(set, &x, &gains), &normed(&SCALAR, &x, &gains)), "{}", set.name);
        assert!(meant(&quantized(set, &[0.0; 256])).iter().all(|x| *x == 0.0));
        // What is not a number gives some result, and nothing worse.
        for bad in [f32::NAN, f32::INFINITY] {
            let mut x = random.floats(256);
            x[9] = bad;
            quantized(set, &x);
        }
    }
}

#[test]
fn attention_is_a_mean_by_likeness() {
    let mut random = Random(5);
    for (heads, head, seen) in [(1, 16, 1), (2, 32, 15), (6, 128, 16), (7, 64, 17), (9, 80, 100)] {
        let mut memory = Memory::with(1, 2, head, seen);
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        let half = |x: &f32| half::f16::from_f32(*x);
        for token in 0..seen {
            // The other head's are to be left alone, and so is what comes after.
            memory.layer(0).put(0, token, &vec![0x7c00; head], &vec![0x7c00; head]);
            let (key, value): (Vec<_>, Vec<_>) = (random.floats(head).iter().map(half).collect(), random.floats(head).iter().map(half).collect());
            let bits = |halves: &[half::f16]| halves.iter().map(|half| half.to_bits()).collect::<Vec<_>>();
            memory.layer(0).put(1, token, &bits(&key), &bits(&value));
            keys.push(key);
            values.push(value);
        }
        let memory = memory.fork(seen, seen + 20);
        let mut memory = memory.fork(seen, seen);
        let q: Vec<f32> = random.floats(heads * head).iter().map(|q| q * 4.0).collect();
        let mut attend = |set: &Set| {
            let mut out = vec![f32::NAN; heads * head];
            // SAFETY: as above.
            unsafe { (set.attend)(&q, memory.layer(0).head(1), head, seen, &mut out) };
            out
        };
        let scalar = attend(&SCALAR);
        for (q, out) in q.chunks(head).zip(scalar.chunks(head)) {
            let powers: Vec<f64> = keys.iter().map(|key| key.iter().zip(q).map(|(k, q)| k.to_f64() * f64::from(*q)).sum::<f64>().exp()).collect();
            let sum: f64 = powers.iter().sum();
            for (at, found) in out.iter().enumerate() {
                let expected: f64 = powers.iter().zip(&values).map(|(power, value)| power / sum * value[at].to_f64()).sum();
                assert!((expected - f64::from(*found)).abs() < 1e-5, "{heads} heads of {head} over {seen}: {found} for {expected}");
            }
        }
        for set in available() {
            assert_eq!(attend(set), scalar, "{}: {heads} heads of {head} over {seen}", set.name);
        }
    }
}
