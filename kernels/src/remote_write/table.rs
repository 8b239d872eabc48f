//! The series that a parser has met: by the bytes a sender writes for its labels, and by what it is.
//!
//! A sender repeats the labels of a series byte by byte, so those bytes, its key, find it. The first time, labels are
//! read, and the series may turn out to be known under another key, with its labels in another order.
//!
//! Senders repeat the order of their series too. So each key remembers which one came behind it, and that one is
//! compared first: most series of a request are found without hashing anything.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::interner::Interner;
use crate::protobuf::Malformed;
use crate::remote_write::labels::{Series, read_series};

/// What comes behind a key of which that is not known, and before the first one.
pub const NO_KEY: u32 = u32::MAX;

struct Key {
    bytes: Arc<[u8]>,
    series: u32,
    /// The key that came behind this one the last time.
    next: AtomicU32,
}

pub struct SeriesTable {
    by_key: Interner,
    keys: Vec<Key>,
    by_identity: Interner,
    series: Vec<Series>,
    bytes: usize,
}

impl SeriesTable {
    pub fn new() -> Self {
        Self {
            by_key: Interner::new(),
            keys: Vec::new(),
            by_identity: Interner::new(),
            series: Vec::new(),
            bytes: 0,
        }
    }

    /// The number of a key, which comes behind the key `last`.
    #[inline]
    pub fn find(&self, key: &[u8], last: u32) -> Option<u32> {
        let before = self.keys.get(last as usize);
        if let Some(before) = before {
            let guess = before.next.load(Ordering::Relaxed);
            if self.keys.get(guess as usize).is_some_and(|next| *next.bytes == *key) {
                return Some(guess);
            }
        }
        let found = self.by_key.find(key)?;
        if let Some(before) = before {
            before.next.store(found, Ordering::Relaxed);
        }
        Some(found)
    }

    /// The series that a key stands for.
    #[inline]
    pub fn series_of(&self, key: u32) -> u32 {
        self.keys[key as usize].series
    }

    /// The number of a key, a new one if need be.
    pub fn intern(&mut self, key: &[u8], is_strict: bool) -> Result<u32, Malformed> {
        if let Some(number) = self.by_key.find(key) {
            return Ok(number);
        }
        let series = read_series(key, is_strict)?;
        let identity = series.identity();
        let series = match self.by_identity.find(&identity) {
            Some(number) => number,
            None => {
                let number = self.series.len() as u32;
                self.bytes += series.bytes();
                self.series.push(series);
                self.by_identity.insert(&identity, number);
                number
            }
        };
        let number = self.keys.len() as u32;
        let bytes = self.by_key.insert(key, number);
        self.keys.push(Key { bytes, series, next: AtomicU32::new(NO_KEY) });
        Ok(number)
    }

    pub fn get(&self, number: u32) -> &Series {
        &self.series[number as usize]
    }

    /// How many names it keeps: at least as many as series.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// About what it takes.
    pub fn bytes(&self) -> usize {
        self.bytes + self.by_key.bytes() + self.by_identity.bytes() + self.keys.len() * size_of::<Key>()
    }
}
