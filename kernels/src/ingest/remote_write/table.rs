//! The series that a parser has met: by the bytes a sender writes for its labels, and by what it is.
//!
//! A sender repeats the labels of a series byte by byte, so those bytes, its key, find it. The first time, labels are
//! read, and the series may turn out to be known under another key, with its labels in another order.
//!
//! Senders repeat the order of their series too. So each key remembers which one came behind it, and that one is
//! compared first (`Trail`): most series of a request are found without hashing anything.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::ingest::interner::Interner;
use crate::ingest::remote_write::labels::{Series, read_series};
use crate::wire::protobuf::Malformed;

/// What comes behind a key of which that is not known, and before the first one.
pub const NO_KEY: u32 = u32::MAX;

/// What is known of a key; its bytes are in `SeriesTable::by_key`.
struct Key {
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
                self.bytes += series.bytes();
                self.series.push(series);
                self.by_identity.insert(&identity)
            }
        };
        self.keys.push(Key { series, next: AtomicU32::new(NO_KEY) });
        Ok(self.by_key.insert(key))
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

/// Follows the series of one request through the table.
pub struct Trail<'t> {
    table: &'t SeriesTable,
    last: u32,
}

impl<'t> Trail<'t> {
    pub fn new(table: &'t SeriesTable) -> Self {
        Self { table, last: NO_KEY }
    }

    /// The key that is expected next, and how long it is, if a message begins with it.
    ///
    /// A key is made of whole fields, so the message goes on behind it with a field, which may be one more label.
    #[inline]
    pub fn guess(&self, message: &[u8]) -> Option<(u32, usize)> {
        let number = self.table.keys.get(self.last as usize)?.next.load(Ordering::Relaxed);
        let key = self.table.by_key.name(number)?;
        message.starts_with(key).then_some((number, key.len()))
    }

    /// Goes on to the key that was expected.
    #[inline]
    pub fn follow(&mut self, number: u32) -> u32 {
        self.last = number;
        number
    }

    /// Goes on to a key; its number, `NO_KEY` if it is not known.
    pub fn find(&mut self, key: &[u8]) -> u32 {
        let before = self.table.keys.get(self.last as usize);
        let expected = before.map_or(NO_KEY, |before| before.next.load(Ordering::Relaxed));
        let is_expected = self.table.by_key.name(expected) == Some(key);
        self.last = match is_expected {
            true => expected,
            false => self.table.by_key.find(key).unwrap_or(NO_KEY),
        };
        if let Some(before) = before.filter(|_| !is_expected && self.last != NO_KEY) {
            before.next.store(self.last, Ordering::Relaxed);
        }
        self.last
    }
}
