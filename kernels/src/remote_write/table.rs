//! The series that a parser has met: by the bytes a sender writes for its labels, and by what it is.
//!
//! A sender repeats the labels of a series byte by byte, so those bytes find it. The first time, labels are read, and
//! the series may turn out to be known under other bytes, with its labels in another order.

use crate::interner::Interner;
use crate::protobuf::Malformed;
use crate::remote_write::labels::{Series, read_series};

pub struct SeriesTable {
    by_key: Interner,
    by_identity: Interner,
    series: Vec<Series>,
    bytes: usize,
}

impl SeriesTable {
    pub fn new() -> Self {
        Self { by_key: Interner::new(), by_identity: Interner::new(), series: Vec::new(), bytes: 0 }
    }

    #[inline]
    pub fn find(&self, key: &[u8]) -> Option<u32> {
        self.by_key.find(key)
    }

    /// The number of the series with these labels, a new one if need be.
    pub fn intern(&mut self, key: &[u8], is_strict: bool) -> Result<u32, Malformed> {
        if let Some(number) = self.find(key) {
            return Ok(number);
        }
        let series = read_series(key, is_strict)?;
        let identity = series.identity();
        let number = match self.by_identity.find(&identity) {
            Some(number) => number,
            None => {
                let number = self.series.len() as u32;
                self.bytes += series.bytes();
                self.series.push(series);
                self.by_identity.insert(&identity, number);
                number
            }
        };
        self.by_key.insert(key, number);
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
        self.bytes + self.by_key.bytes() + self.by_identity.bytes()
    }
}
