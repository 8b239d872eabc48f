//! The series that a parser knows: from the bytes of a key, as written, to a number.
//!
//! - A *key* is the measurement and its tags as they stand in the line, escapes and all. Finding a known key is
//!   one hash and one comparison, without looking at its tags.
//! - A *series* is a set of tags of a measurement. Keys that differ in the order of tags or in needless escapes
//!   are one series. Series are numbered from 0 within their measurement, in the order of appearance.
//! - A *shape* is a list of tag names in the order of a key.
//!
//! Nothing is ever removed: whoever wants to forget makes a new table. So a number means the same tags for as
//! long as anybody has the table.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use twox_hash::XxHash3_64;

const EMPTY: u32 = u32::MAX;
/// What an entry costs beside its bytes: hashes, slots, offsets, map entries.
const ENTRY_BYTES: usize = 160;

/// A key taken apart.
pub struct DecodedKey {
    pub measurement: String,
    /// Names and values, in the order written; no name twice.
    pub tags: Vec<(String, String)>,
}

/// What a key stands for.
#[derive(Clone, Copy)]
pub struct KeyEntry {
    pub measurement: u32,
    pub series: u32,
    pub shape: u32,
}

pub struct SeriesTable {
    pub generation: u64,
    seed: u64,
    known: RwLock<Known>,
}

#[derive(Default)]
pub struct Known {
    /// Open addressing; a power of two of places, each a position in `entries`.
    slots: Vec<u32>,
    hashes: Vec<u64>,
    entries: Vec<KeyEntry>,
    key_bytes: Vec<u8>,
    key_ends: Vec<usize>,
    pub measurements: Vec<Measurement>,
    by_name: HashMap<String, u32>,
    /// Of the bytes that are kept for series.
    series_bytes: usize,
}

#[derive(Default)]
pub struct Measurement {
    pub name: String,
    pub tag_names: Vec<String>,
    by_tag: HashMap<String, u32>,
    pub shapes: Vec<Box<[u32]>>,
    by_shape: HashMap<Box<[u32]>, u32>,
    /// The tags of each series; see `encode_tags`.
    pub series: Vec<Arc<[u8]>>,
    by_tags: HashMap<Arc<[u8]>, u32>,
}

impl SeriesTable {
    pub fn new(generation: u64, seed: u64) -> Self {
        Self { generation, seed, known: RwLock::default() }
    }

    pub fn hash(&self, key: &[u8]) -> u64 {
        XxHash3_64::oneshot_with_seed(self.seed, key)
    }

    pub fn read(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Learns a key, unless somebody was faster; returns its position.
    pub fn learn(&self, hash: u64, key: &[u8], decoded: DecodedKey) -> usize {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        match known.find(hash, key) {
            Some(position) => position,
            None => known.insert(hash, key, decoded),
        }
    }
}

impl Known {
    pub fn keys(&self) -> usize {
        self.entries.len()
    }

    pub fn nbytes(&self) -> usize {
        self.key_bytes.len() + self.series_bytes + ENTRY_BYTES * self.entries.len()
    }

    pub fn entry(&self, position: usize) -> KeyEntry {
        self.entries[position]
    }

    /// The bytes of the key at a position, if there is one.
    #[inline]
    pub fn key(&self, position: usize) -> Option<&[u8]> {
        let end = *self.key_ends.get(position)?;
        let start = if position == 0 { 0 } else { self.key_ends[position - 1] };
        Some(&self.key_bytes[start..end])
    }

    pub fn find(&self, hash: u64, key: &[u8]) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        loop {
            let position = self.slots[slot];
            if position == EMPTY {
                return None;
            }
            let position = position as usize;
            if self.hashes[position] == hash && self.key(position) == Some(key) {
                return Some(position);
            }
            slot = (slot + 1) & mask;
        }
    }

    fn insert(&mut self, hash: u64, key: &[u8], decoded: DecodedKey) -> usize {
        let position = self.entries.len();
        if (position + 1) * 2 > self.slots.len() {
            self.grow();
        }
        let measurement = self.measurement_of(decoded.measurement);
        let (series, shape, added) = self.measurements[measurement as usize].learn(&decoded.tags);
        self.series_bytes += added;
        self.entries.push(KeyEntry { measurement, series, shape });
        self.hashes.push(hash);
        self.key_bytes.extend_from_slice(key);
        self.key_ends.push(self.key_bytes.len());
        self.place(hash, position as u32);
        position
    }

    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(64);
        self.slots = vec![EMPTY; size];
        for position in 0..self.entries.len() {
            self.place(self.hashes[position], position as u32);
        }
    }

    fn place(&mut self, hash: u64, position: u32) {
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        while self.slots[slot] != EMPTY {
            slot = (slot + 1) & mask;
        }
        self.slots[slot] = position;
    }

    fn measurement_of(&mut self, name: String) -> u32 {
        if let Some(&number) = self.by_name.get(&name) {
            return number;
        }
        let number = self.measurements.len() as u32;
        self.series_bytes += 2 * name.len() + ENTRY_BYTES;
        self.measurements.push(Measurement { name: name.clone(), ..Measurement::default() });
        self.by_name.insert(name, number);
        number
    }
}

impl Measurement {
    /// The number of a series and the shape of its key, and how many bytes they took.
    fn learn(&mut self, tags: &[(String, String)]) -> (u32, u32, usize) {
        let mut added = 0;
        let shape: Box<[u32]> = tags
            .iter()
            .map(|(name, _)| {
                if let Some(&number) = self.by_tag.get(name) {
                    return number;
                }
                added += 2 * name.len() + ENTRY_BYTES;
                let number = self.tag_names.len() as u32;
                self.tag_names.push(name.clone());
                self.by_tag.insert(name.clone(), number);
                number
            })
            .collect();
        let mut parts: Vec<(u32, &str)> =
            shape.iter().zip(tags).map(|(&name, (_, value))| (name, value.as_str())).collect();
        parts.sort_unstable();
        let encoded = encode_tags(&parts);
        let shape_number = match self.by_shape.get(&shape) {
            Some(&number) => number,
            None => {
                let number = self.shapes.len() as u32;
                added += 8 * shape.len() + ENTRY_BYTES;
                self.shapes.push(shape.clone());
                self.by_shape.insert(shape, number);
                number
            }
        };
        if let Some(&number) = self.by_tags.get(encoded.as_slice()) {
            return (number, shape_number, added);
        }
        let number = self.series.len() as u32;
        let kept: Arc<[u8]> = encoded.into();
        added += kept.len();
        self.series.push(kept.clone());
        self.by_tags.insert(kept, number);
        (number, shape_number, added)
    }
}

/// For each tag in the order of the measurement's names: name (u32), length (u32), bytes.
fn encode_tags(parts: &[(u32, &str)]) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(parts.iter().map(|(_, value)| 8 + value.len()).sum());
    for (name, value) in parts {
        encoded.extend_from_slice(&name.to_le_bytes());
        encoded.extend_from_slice(&(value.len() as u32).to_le_bytes());
        encoded.extend_from_slice(value.as_bytes());
    }
    encoded
}

/// What `encode_tags` was given, piece by piece.
pub struct Tags<'a>(pub &'a [u8]);

impl<'a> Iterator for Tags<'a> {
    type Item = (usize, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, rest) = self.0.split_first_chunk::<4>()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let (value, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        self.0 = rest;
        Some((u32::from_le_bytes(*name) as usize, value))
    }
}
