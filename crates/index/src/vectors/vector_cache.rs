//! A cache of vectors: a text's hash leads to 384 signed bytes and a scale.
//!
//! The file is a header and records, and is only appended to. A record truncated by a crash is cut off at the next opening; a file of
//! another model or version is created again, since everything in it can be recomputed. Text that is moved or restored finds its vector.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError, RwLock};

use sha2::{Digest, Sha256};

use super::net::WIDTH;

const HEAD: &[u8; 16] = b"baton-vectors-02";
const RECORD_BYTES: usize = 16 + 4 + WIDTH;

/// The hash of a vector's text.
pub(crate) type Key = u128;

pub(crate) fn key(text: &str) -> Key {
    let hash = Sha256::digest(text.as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash[..16]);
    u128::from_le_bytes(bytes)
}

#[derive(Default)]
pub(crate) struct VectorCache {
    file: Mutex<Option<File>>,
    kept: RwLock<CacheData>,
}

#[derive(Default)]
struct CacheData {
    slots: HashMap<Key, u32>,
    /// The factors that convert the bytes back.
    scales: Vec<f32>,
    bytes: Vec<i8>,
}

impl VectorCache {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(path)?;
        let mut content = Vec::new();
        file.read_to_end(&mut content)?;
        let mut kept = CacheData::default();
        let is_ours = content.starts_with(HEAD);
        let records = if is_ours { &content[HEAD.len()..] } else { &[] };
        for record in records.chunks_exact(RECORD_BYTES) {
            let (key, rest) = record.split_at(16);
            let (scale, bytes) = rest.split_at(4);
            let key = Key::from_le_bytes(key.try_into().unwrap_or_default());
            let scale = f32::from_le_bytes(scale.try_into().unwrap_or_default());
            kept.push(key, scale, bytes.iter().map(|byte| byte.cast_signed()));
        }
        if is_ours {
            file.set_len((HEAD.len() + records.len() / RECORD_BYTES * RECORD_BYTES) as u64)?;
        } else {
            file.set_len(0)?;
            file.write_all(HEAD)?;
        }
        Ok(VectorCache { file: Mutex::new(Some(file)), kept: RwLock::new(kept) })
    }

    pub(crate) fn slot(&self, key: Key) -> Option<u32> {
        self.read(|kept| kept.slots.get(&key).copied())
    }

    /// Takes normalized vectors. They are written, though not synced, when this returns.
    pub(crate) fn add(&self, vectors: &[(Key, Vec<f32>)]) -> io::Result<Vec<u32>> {
        let rounded: Vec<(Key, f32, Vec<i8>)> =
            vectors.iter().map(|(key, vector)| (*key, rounded(vector))).map(|(key, (scale, bytes))| (key, scale, bytes)).collect();
        self.add_rounded(&rounded)
    }

    /// Takes vectors as `record` gives them. What has another length gets no slot.
    pub(crate) fn add_records(&self, records: &[(Key, Vec<u8>)]) -> io::Result<HashMap<Key, u32>> {
        let fits = records.iter().filter(|(_, record)| record.len() == 4 + WIDTH);
        let parsed = fits.map(|(key, record)| {
            let (scale, bytes) = record.split_at(4);
            (*key, f32::from_le_bytes(scale.try_into().unwrap_or_default()), bytes.iter().map(|byte| byte.cast_signed()).collect::<Vec<i8>>())
        });
        let parsed: Vec<(Key, f32, Vec<i8>)> = parsed.filter(|(_, scale, _)| scale.is_finite()).collect();
        let slots = self.add_rounded(&parsed)?;
        Ok(parsed.iter().map(|(key, ..)| *key).zip(slots).collect())
    }

    /// A vector as it is stored: its scale and its values.
    pub(crate) fn record(&self, slot: u32) -> Option<Vec<u8>> {
        self.read(|kept| {
            let at = slot as usize * WIDTH;
            let bytes = kept.bytes.get(at..at + WIDTH)?;
            let mut record = kept.scales.get(slot as usize)?.to_le_bytes().to_vec();
            record.extend(bytes.iter().map(|byte| byte.cast_unsigned()));
            Some(record)
        })
    }

    fn add_rounded(&self, vectors: &[(Key, f32, Vec<i8>)]) -> io::Result<Vec<u32>> {
        let mut records = Vec::with_capacity(vectors.len() * RECORD_BYTES);
        let mut slots = Vec::with_capacity(vectors.len());
        {
            let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
            for (key, scale, bytes) in vectors {
                if let Some(slot) = kept.slots.get(key) {
                    slots.push(*slot);
                    continue;
                }
                records.extend_from_slice(&key.to_le_bytes());
                records.extend_from_slice(&scale.to_le_bytes());
                records.extend(bytes.iter().map(|byte| byte.cast_unsigned()));
                slots.push(kept.push(*key, *scale, bytes.iter().copied()));
            }
        }
        if let Some(file) = self.file.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            file.write_all(&records)?;
        }
        Ok(slots)
    }

    /// The cosine of each row and the question; `slots` gives the vector of a row, and rows without one are skipped.
    pub(crate) fn scores(&self, question: &[f32], slots: impl Iterator<Item = (u32, u32)>) -> Vec<(u32, f32)> {
        let (question_scale, question) = rounded(question);
        self.read(|kept| {
            let score = |slot: u32| {
                let at = slot as usize * WIDTH;
                Some(dot(&question, kept.bytes.get(at..at + WIDTH)?) as f32 * kept.scales.get(slot as usize)? * question_scale)
            };
            slots.filter_map(|(row, slot)| Some((row, score(slot)?))).collect()
        })
    }

    fn read<T>(&self, look: impl FnOnce(&CacheData) -> T) -> T {
        look(&self.kept.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl CacheData {
    fn push(&mut self, key: Key, scale: f32, bytes: impl Iterator<Item = i8>) -> u32 {
        let slot = self.scales.len() as u32;
        self.slots.insert(key, slot);
        self.scales.push(scale);
        self.bytes.extend(bytes);
        slot
    }
}

fn rounded(vector: &[f32]) -> (f32, Vec<i8>) {
    let largest = vector.iter().fold(f32::MIN_POSITIVE, |largest, value| largest.max(value.abs()));
    let scale = largest / 127.0;
    let mut bytes: Vec<i8> = vector.iter().map(|value| (value / scale).round() as i8).collect();
    bytes.resize(WIDTH, 0);
    (scale, bytes)
}

/// Products of signed bytes fit into sixteen bits, which allows vectorization.
fn dot(a: &[i8], b: &[i8]) -> i32 {
    a.iter().zip(b).map(|(x, y)| i32::from(i16::from(*x) * i16::from(*y))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector(seed: usize) -> Vec<f32> {
        let raw: Vec<f32> = (0..WIDTH).map(|at| ((at * 31 + seed * 97) % 201) as f32 / 100.0 - 1.0).collect();
        let length = raw.iter().map(|value| value * value).sum::<f32>().sqrt();
        raw.iter().map(|value| value / length).collect()
    }

    #[test]
    fn bytes_are_close_to_the_numbers() {
        let cache = VectorCache::default();
        let vectors: Vec<_> = (0..20).map(|seed| (key(&seed.to_string()), vector(seed))).collect();
        cache.add(&vectors).unwrap();
        for (row, score) in cache.scores(&vector(3), (0..20).map(|row| (row, row))) {
            let exact: f32 = vector(3).iter().zip(vector(row as usize)).map(|(a, b)| a * b).sum();
            assert!((score - exact).abs() < 0.01, "{row}: {score} {exact}");
        }
    }

    #[test]
    fn a_record_is_the_same_vector_in_another_cache() {
        let (here, there) = (VectorCache::default(), VectorCache::default());
        let slot = here.add(&[(7, vector(7))]).unwrap()[0];
        let record = here.record(slot).unwrap();
        let slots = there.add_records(&[(7, record.clone()), (8, b"short".to_vec())]).unwrap();
        assert_eq!((slots.get(&7), slots.get(&8)), (Some(&0), None));
        assert_eq!(there.record(0), Some(record));
        let question = vector(3);
        assert_eq!(here.scores(&question, [(0, slot)].into_iter()), there.scores(&question, [(0, 0)].into_iter()));
    }

    #[test]
    fn a_torn_record_is_cut_off_and_the_rest_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vectors");
        VectorCache::open(&path).unwrap().add(&[(1, vector(1)), (2, vector(2))]).unwrap();
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"half a record").unwrap();
        let cache = VectorCache::open(&path).unwrap();
        assert_eq!((cache.slot(1), cache.slot(2), cache.slot(3)), (Some(0), Some(1), None));
        cache.add(&[(3, vector(3)), (1, vector(1))]).unwrap();
        let cache = VectorCache::open(&path).unwrap();
        assert_eq!((cache.slot(2), cache.slot(3)), (Some(1), Some(2)));
        assert_eq!(std::fs::metadata(&path).unwrap().len() as usize, HEAD.len() + 3 * RECORD_BYTES);
    }

    #[test]
    fn a_file_of_another_kind_is_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vectors");
        std::fs::write(&path, "something else entirely, longer than a head").unwrap();
        assert_eq!(VectorCache::open(&path).unwrap().slot(1), None);
        assert_eq!(std::fs::read(&path).unwrap(), HEAD);
    }
}
