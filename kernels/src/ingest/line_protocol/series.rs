//! The series that a parser knows: from the bytes of a key, as written, to a number.
//!
//! - A *key* is the measurement and its tags as they stand in the line, escapes and all. Finding a known key is
//!   one hash and one comparison, without looking at its tags.
//! - A *series* is a set of tags of a measurement. Keys that differ in the order of tags or in needless escapes
//!   are one series. Series are numbered from 0 within their measurement, in the order of appearance.
//! - A *shape* is a list of tag names in the order of a key.
//!
//! Nothing is ever removed: to forget, make a new table. So a number means the same tags for as
//! long as anybody has the table.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use twox_hash::XxHash3_64;

const EMPTY: u32 = u32::MAX;
/// What an entry costs beside its bytes: hashes, slots, offsets, map entries.
const ENTRY_BYTES: usize = 160;
const MEASUREMENT_BYTES: usize = 800;

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
    pub tags: Vec<Tag>,
    by_tag: HashMap<String, u32>,
    pub shapes: Vec<Box<[u32]>>,
    by_shape: HashMap<Box<[u32]>, u32>,
    /// The tags of each series.
    pub series: Vec<Arc<[TagValue]>>,
    by_tags: HashMap<Arc<[TagValue]>, u32>,
}

/// A tag of a measurement and the values that it has had, numbered in the order of appearance.
pub struct Tag {
    pub name: String,
    value_bytes: Vec<u8>,
    value_ends: Vec<usize>,
    by_value: HashMap<Box<str>, u32>,
}

/// A value by the numbers of its tag and of itself; the tags of a series are in the order of tags.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TagValue {
    pub tag: u32,
    pub value: u32,
}

impl Tag {
    fn new(name: String) -> Self {
        Self { name, value_bytes: Vec::new(), value_ends: Vec::new(), by_value: HashMap::new() }
    }

    pub fn values(&self) -> usize {
        self.value_ends.len()
    }

    pub fn value(&self, number: u32) -> &[u8] {
        let number = number as usize;
        let start = if number == 0 { 0 } else { self.value_ends[number - 1] };
        &self.value_bytes[start..self.value_ends[number]]
    }

    fn learn(&mut self, value: &str, added: &mut usize) -> u32 {
        if let Some(&number) = self.by_value.get(value) {
            return number;
        }
        let number = self.value_ends.len() as u32;
        *added += 2 * value.len() + ENTRY_BYTES / 2;
        self.value_bytes.extend_from_slice(value.as_bytes());
        self.value_ends.push(self.value_bytes.len());
        self.by_value.insert(value.into(), number);
        number
    }
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

    /// Learns a key, unless somebody was faster; returns its position and how many bytes that took.
    pub fn learn(&self, hash: u64, key: &[u8], decoded: DecodedKey) -> (usize, usize) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(position) = known.find(hash, key) {
            return (position, 0);
        }
        let before = known.nbytes();
        let position = known.insert(hash, key, decoded);
        (position, known.nbytes() - before)
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
        self.series_bytes += 2 * name.len() + MEASUREMENT_BYTES;
        self.measurements.push(Measurement { name: name.clone(), ..Measurement::default() });
        self.by_name.insert(name, number);
        number
    }
}

impl Measurement {
    /// The number of a series and the shape of its key, and how many bytes they took.
    fn learn(&mut self, written: &[(String, String)]) -> (u32, u32, usize) {
        let mut added = 0;
        let mut tags = Vec::with_capacity(written.len());
        for (name, value) in written {
            let tag = self.tag_of(name, &mut added);
            let value = self.tags[tag as usize].learn(value, &mut added);
            tags.push(TagValue { tag, value });
        }
        let shape = self.shape_of(tags.iter().map(|value| value.tag).collect(), &mut added);
        tags.sort_unstable();
        if let Some(&number) = self.by_tags.get(tags.as_slice()) {
            return (number, shape, added);
        }
        let number = self.series.len() as u32;
        let tags: Arc<[TagValue]> = tags.into();
        added += size_of_val(&*tags);
        self.series.push(tags.clone());
        self.by_tags.insert(tags, number);
        (number, shape, added)
    }

    fn tag_of(&mut self, name: &str, added: &mut usize) -> u32 {
        if let Some(&number) = self.by_tag.get(name) {
            return number;
        }
        *added += 2 * name.len() + ENTRY_BYTES;
        let number = self.tags.len() as u32;
        self.tags.push(Tag::new(name.into()));
        self.by_tag.insert(name.into(), number);
        number
    }

    fn shape_of(&mut self, shape: Box<[u32]>, added: &mut usize) -> u32 {
        if let Some(&number) = self.by_shape.get(&shape) {
            return number;
        }
        *added += 2 * size_of_val(&*shape) + ENTRY_BYTES;
        let number = self.shapes.len() as u32;
        self.shapes.push(shape.clone());
        self.by_shape.insert(shape, number);
        number
    }

    pub fn find_tag(&self, name: &str) -> Option<u32> {
        self.by_tag.get(name).copied()
    }
}
