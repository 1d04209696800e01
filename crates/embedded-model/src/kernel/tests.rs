//! Each part against the same done slowly. On a processor without these registers there is nothing to test.

use candle_core::quantized::{GgmlDType, QStorage, QTensor};
use candle_core::{Device, Tensor};

use super::activation::{Block, quantize, quantize_normed};
use super::attention::attend;
use super::is_available;
use super::matrix::{Format, Matrix, Then, multiply, multiply_gated};
use super::memory::Memory;

/// Numbers that look like chance and are always the same.
struct Chance(u64);

impl Chance {
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
fn blocks(format: Format, count: usize, chance: &mut Chance, is_wild: bool) -> Vec<u8> {
    let scale = |chance: &mut Chance| {
        let scale = if is_wild { [0.0, 1.0, -3.0, 6e-8, 0.01][(chance.bits() % 5) as usize] } else { chance.float() * 0.01 };
        half::f16::from_f32(scale).to_le_bytes()
    };
    let (size, scales): (usize, &[usize]) = match format {
        Format::Q4K => (144, &[0, 2]),
        Format::Q6K => (210, &[208]),
    };
    let mut bytes: Vec<u8> =
        (0..count * size).map(|_| if is_wild && chance.bits().is_multiple_of(4) { 255 } else { (chance.bits() >> 33) as u8 }).collect();
    for block in bytes.chunks_mut(size) {
        for &at in scales {
            block[at..at + 2].copy_from_slice(&scale(chance));
        }
    }
    bytes
}

/// A matrix, and its weights as plain numbers by candle.
fn matrix(format: Format, rows: usize, width: usize, chance: &mut Chance, is_wild: bool) -> (Matrix, Vec<f32>) {
    let bytes = blocks(format, rows * width / 256, chance, is_wild);
    let row_bytes = bytes.len() / rows;
    let read = |row: usize, to: &mut [u8]| {
        to.copy_from_slice(&bytes[row * row_bytes..][..to.len()]);
        Ok::<(), ()>(())
    };
    let matrix = Matrix::load(format, rows, width, read).unwrap();
    let dtype = match format {
        Format::Q4K => GgmlDType::Q4K,
        Format::Q6K => GgmlDType::Q6K,
    };
    let storage = QStorage::from_data(bytes.into(), &Device::Cpu, dtype).unwrap();
    let weights = QTensor::new(storage, (rows, width)).unwrap().dequantize(&Device::Cpu).unwrap();
    (matrix, numbers(&weights))
}

fn numbers(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

fn quantized(x: &[f32]) -> Vec<Block> {
    let mut blocks = vec![Block::EMPTY; x.len() / 256];
    // SAFETY: each test asks `is_available` first.
    unsafe { quantize(x, &mut blocks) };
    blocks
}

/// What the eight bits stand for.
fn meant(blocks: &[Block]) -> Vec<f32> {
    let values =
        |block: &Block| block.words.iter().flat_map(|word| word.to_le_bytes()).map(|byte| f32::from(byte.cast_signed()) * block.scale).collect();
    blocks.iter().flat_map(|block: &Block| -> Vec<f32> { values(block) }).collect()
}

/// The product, and how large its terms are together, by which errors are to be judged.
fn slow(weights: &[f32], x: &[f32]) -> (f64, f64) {
    let terms = weights.iter().zip(x).map(|(a, b)| f64::from(*a) * f64::from(*b));
    terms.fold((0.0, 1e-30), |(sum, size), term| (sum + term, size + term.abs()))
}

#[test]
fn products_are_those_of_the_weights() {
    if !is_available() {
        return;
    }
    let mut chance = Chance(88_172_645_463_325_252);
    for (format, is_wild) in [(Format::Q4K, false), (Format::Q4K, true), (Format::Q6K, false), (Format::Q6K, true)] {
        for (rows, width) in [(16, 256), (32, 512), (48, 768)] {
            let (matrix, weights) = matrix(format, rows, width, &mut chance, is_wild);
            for count in [1, 2, 3, 5, 7, 8, 13, 16] {
                let x: Vec<f32> = (0..count * width).map(|i| if is_wild && i % 97 == 0 { 40.0 } else { chance.float() }).collect();
                let x = quantized(&x);
                let mut out = vec![f32::NAN; count * rows];
                multiply(&[&matrix], &x, &mut out, Then::Set);
                let meant = meant(&x);
                for (at, found) in out.iter().enumerate() {
                    let (sum, size) = slow(&weights[at % rows * width..][..width], &meant[at / rows * width..][..width]);
                    assert!((f64::from(*found) - sum).abs() < 2e-5 * size, "{format:?} {is_wild} {rows}·{width}, {count}: {found} for {sum}");
                }
            }
        }
    }
}

#[test]
fn several_products_lie_beside_each_other_and_are_added() {
    if !is_available() {
        return;
    }
    let mut chance = Chance(7);
    let parts = [(Format::Q4K, 32), (Format::Q6K, 16), (Format::Q4K, 48)].map(|(format, rows)| matrix(format, rows, 512, &mut chance, false).0);
    let x = quantized(&chance.floats(3 * 512));
    let bias = chance.floats(96);
    let mut all = vec![0.0; 3 * 96];
    multiply(&[&parts[0], &parts[1], &parts[2]], &x, &mut all, Then::Bias(&bias));
    let mut from = 0;
    for part in &parts {
        let mut alone = vec![1.0; 3 * part.rows];
        multiply(&[part], &x, &mut alone, Then::Add);
        for (at, alone) in alone.iter().enumerate() {
            let (row, column) = (at / part.rows, from + at % part.rows);
            assert!((alone - 1.0 + bias[column] - all[row * 96 + column]).abs() < 1e-5);
        }
        from += part.rows;
    }
    let [gate, _, _] = &parts;
    let (up, _) = matrix(Format::Q6K, 32, 512, &mut chance, false);
    let (mut gates, mut ups, mut gated) = (vec![0.0; 3 * 32], vec![0.0; 3 * 32], vec![0.0; 3 * 32]);
    multiply(&[gate], &x, &mut gates, Then::Set);
    multiply(&[&up], &x, &mut ups, Then::Set);
    multiply_gated(gate, &up, &x, &mut gated);
    for ((gate, up), found) in gates.iter().zip(&ups).zip(&gated) {
        let expected = gate / (1.0 + (-gate).exp()) * up;
        assert!((expected - found).abs() <= 1e-6 * (1.0 + expected.abs()), "{found} for {expected}");
    }
}

#[test]
fn eight_bits_are_as_near_as_they_can_be() {
    if !is_available() {
        return;
    }
    let mut chance = Chance(3);
    let x: Vec<f32> = chance.floats(768).into_iter().enumerate().map(|(i, x)| x * [1.0, 1e-9, 1e9][i / 256]).collect();
    for (x, near) in x.chunks(256).zip(meant(&quantized(&x)).chunks(256)) {
        let most = x.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
        assert!(x.iter().zip(near).all(|(x, near)| (x - near).abs() <= most / 253.0));
    }
    assert!(meant(&quantized(&[0.0; 256])).iter().all(|x| *x == 0.0));
    // What is not a number is told by the result, and nothing worse.
    for bad in [f32::NAN, f32::INFINITY] {
        let mut x = chance.floats(256);
        x[9] = bad;
        quantized(&x);
    }
    let gains = chance.floats(768);
    let mut blocks = vec![Block::EMPTY; 3];
    // SAFETY: the processor has it, as was asked above.
    unsafe { quantize_normed(&x, &gains, 1e-6, &mut blocks) };
    let size = (x.iter().map(|x| x * x).sum::<f32>() / 768.0 + 1e-6).sqrt();
    let normed: Vec<f32> = x.iter().zip(&gains).map(|(x, gain)| x / size * gain).collect();
    for (normed, near) in normed.chunks(256).zip(meant(&blocks).chunks(256)) {
        let most = normed.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
        assert!(normed.iter().zip(near).all(|(x, near)| (x - near).abs() <= most / 250.0));
    }
}

#[test]
fn attention_is_a_mean_by_likeness() {
    if !is_available() {
        return;
    }
    let mut chance = Chance(5);
    for (heads, head, seen) in [(1, 16, 1), (2, 32, 15), (6, 128, 16), (7, 64, 17), (9, 80, 100)] {
        let mut memory = Memory::with(1, 2, head, seen);
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        let half = |x: &f32| half::f16::from_f32(*x);
        for token in 0..seen {
            // The other head's are to be left alone, and so is what comes after.
            memory.layer(0).put(0, token, &vec![0x7c00; head], &vec![0x7c00; head]);
            let (key, value): (Vec<_>, Vec<_>) = (chance.floats(head).iter().map(half).collect(), chance.floats(head).iter().map(half).collect());
            let bits = |halves: &[half::f16]| halves.iter().map(|half| half.to_bits()).collect::<Vec<_>>();
            memory.layer(0).put(1, token, &bits(&key), &bits(&value));
            keys.push(key);
            values.push(value);
        }
        let memory = memory.fork(seen, seen + 20);
        let mut memory = memory.fork(seen, seen);
        let q: Vec<f32> = chance.floats(heads * head).iter().map(|q| q * 4.0).collect();
        let mut out = vec![f32::NAN; heads * head];
        // SAFETY: the processor has it, as was asked above.
        unsafe { attend(&q, memory.layer(0).head(1), head, seen, &mut out) };
        for (q, out) in q.chunks(head).zip(out.chunks(head)) {
            let powers: Vec<f64> = keys.iter().map(|key| key.iter().zip(q).map(|(k, q)| k.to_f64() * f64::from(*q)).sum::<f64>().exp()).collect();
            let sum: f64 = powers.iter().sum();
            for (at, found) in out.iter().enumerate() {
                let expected: f64 = powers.iter().zip(&values).map(|(power, value)| power / sum * value[at].to_f64()).sum();
                assert!((expected - f64::from(*found)).abs() < 1e-5, "{heads} heads of {head} over {seen}: {found} for {expected}");
            }
        }
    }
}
