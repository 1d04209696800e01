//! Keys and values of the tokens so far, as f16.
//!
//! ```text
//!   keys     head ─ 16 tokens ─ dimension ─ token     one register: a dimension of 16 tokens
//!   values   head ─ token ─ dimension                 one register: 16 dimensions of a token
//! ```

use std::io::{self, Read, Write};

use super::super::net::Sizes;
use super::super::prefix_files::Stored;

/// Tokens whose keys lie side by side.
pub(super) const BLOCK: usize = 16;

pub(in super::super) struct Memory {
    layers: Vec<Layer>,
    heads: usize,
    head: usize,
    capacity: usize,
}

/// Room that was laid out in advance: pages that no token has reached cost address space only.
pub(super) struct Layer {
    pub(super) keys: Vec<u16>,
    pub(super) values: Vec<u16>,
}

impl Memory {
    pub(in super::super) fn new(sizes: &Sizes, capacity: usize) -> Self {
        Memory::with(sizes.layers, sizes.heads_kv, sizes.head, capacity)
    }

    pub(super) fn with(layers: usize, heads: usize, head: usize, capacity: usize) -> Self {
        let capacity = capacity.next_multiple_of(BLOCK);
        let zeros = || vec![0; heads * capacity * head];
        Memory { layers: (0..layers).map(|_| Layer { keys: zeros(), values: zeros() }).collect(), heads, head, capacity }
    }

    /// A copy of the first `len` tokens.
    pub(in super::super) fn fork(&self, len: usize, capacity: usize) -> Self {
        let mut fork = Memory::with(self.layers.len(), self.heads, self.head, capacity);
        // Keys come in whole blocks; of tokens after `len` nothing is ever read before it is written.
        let count = len.next_multiple_of(BLOCK).min(self.capacity).min(fork.capacity) * self.head;
        for (from, to) in self.layers.iter().zip(&mut fork.layers) {
            for (from, to) in [(&from.keys, &mut to.keys), (&from.values, &mut to.values)] {
                let heads = from.chunks(self.capacity * self.head).zip(to.chunks_mut(fork.capacity * self.head));
                for (from, to) in heads {
                    to[..count].copy_from_slice(&from[..count]);
                }
            }
        }
        fork
    }

    pub(super) fn layer(&mut self, at: usize) -> LayerMemory<'_> {
        LayerMemory { layer: &mut self.layers[at], head: self.head, capacity: self.capacity }
    }
}

/// Head after head, of each the keys and then the values; keys in whole blocks.
impl Stored for Memory {
    fn write(&self, len: usize, to: &mut impl Write) -> io::Result<()> {
        let count = len.next_multiple_of(BLOCK).min(self.capacity) * self.head;
        let mut bytes = Vec::with_capacity(count * 2);
        for layer in &self.layers {
            for head in layer.keys.chunks(self.capacity * self.head).chain(layer.values.chunks(self.capacity * self.head)) {
                bytes.clear();
                bytes.extend(head[..count].iter().flat_map(|number| number.to_le_bytes()));
                to.write_all(&bytes)?;
            }
        }
        Ok(())
    }

    fn read(&self, len: usize, capacity: usize, from: &mut impl Read) -> io::Result<Self> {
        let mut memory = Memory::with(self.layers.len(), self.heads, self.head, capacity);
        let count = len.next_multiple_of(BLOCK) * self.head;
        let size = memory.capacity * self.head;
        let mut bytes = vec![0; count * 2];
        for layer in &mut memory.layers {
            for head in layer.keys.chunks_mut(size).chain(layer.values.chunks_mut(size)) {
                from.read_exact(&mut bytes)?;
                let (numbers, _) = bytes.as_chunks::<2>();
                for (to, number) in head.iter_mut().zip(numbers) {
                    *to = u16::from_le_bytes(*number);
                }
            }
        }
        Ok(memory)
    }
}

/// One layer's.
pub(super) struct LayerMemory<'a> {
    layer: &'a mut Layer,
    head: usize,
    capacity: usize,
}

impl LayerMemory<'_> {
    /// The keys of head `at` in whole blocks, and its values.
    pub(super) fn head(&self, at: usize) -> (&[u16], &[u16]) {
        let size = self.capacity * self.head;
        (&self.layer.keys[at * size..][..size], &self.layer.values[at * size..][..size])
    }

    /// One head's key and value of one token, in f16.
    pub(super) fn put(&mut self, head: usize, token: usize, key: &[u16], value: &[u16]) {
        assert!(token < self.capacity && key.len() == self.head && value.len() == self.head);
        let start = head * self.capacity * self.head;
        let keys = &mut self.layer.keys[start + token / BLOCK * BLOCK * self.head..][..BLOCK * self.head];
        for (to, key) in keys.iter_mut().skip(token % BLOCK).step_by(BLOCK).zip(key) {
            *to = *key;
        }
        self.layer.values[start + token * self.head..][..self.head].copy_from_slice(value);
    }
}
