//! `TextFilters`: what the texts of each so many rows are made of, as filters; `text_needs`: what to look for in them.
//!
//! A filter is a Bloom filter over the hashes of words and pieces (`text_runs`). Pieces of three letters or digits are in
//! a bitmap of their own, one bit for each, where that takes less than their hashes do.
//!
//! Hash h sets the bits (h + i × (h rotated by 32 | 1)) mod size, for i below the filter's count; bit b is the bit b mod 8 of
//! byte b / 8. A filter whose count is 0 rules nothing out: its rows have more words than are kept in memory, or the
//! filters of all rows have become too large.

use std::collections::HashSet;
use std::f64::consts::LN_2;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

use arrow_array::types::{UInt8Type, UInt32Type, UInt64Type};
use arrow_array::{Array as _, BinaryArray};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::arrow_ffi::{Array, ArrowArray};
use crate::rows::text_runs::{Analyzer, CODES, Sink, hash_code};
use crate::values::Text;

const WORD_BITS: usize = 64;
const COUNT_MAX: f64 = 16.0;
/// More different words and pieces in the rows of one filter are not kept: they would take more than 16 MB.
const HASHES_MAX: usize = 1 << 20;
/// All filters of one column; Arrow's offsets have 32 bits.
const BYTES_MAX: usize = 1 << 30;

/// Hashes need not be hashed again.
#[derive(Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only numbers of 64 bits are hashed")
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

/// What the rows of one filter are made of.
struct Granule {
    hashes: HashSet<u64, BuildHasherDefault<AsIs>>,
    codes: Vec<u64>,
    rows: usize,
}

impl Granule {
    fn insert(&mut self, hash: u64) {
        if self.hashes.len() <= HASHES_MAX {
            self.hashes.insert(hash);
        }
    }
}

impl Sink for Granule {
    fn word(&mut self, hash: u64, _: Range<usize>) {
        self.insert(hash);
    }

    fn piece(&mut self, hash: u64) {
        self.insert(hash);
    }

    fn code(&mut self, code: usize) {
        self.codes[code / WORD_BITS] |= 1 << (code % WORD_BITS);
    }
}

/// Values of bytes that are put one behind the other.
struct Pages {
    bytes: Vec<u8>,
    offsets: Vec<i32>,
}

impl Pages {
    fn new() -> Self {
        Self { bytes: Vec::new(), offsets: vec![0] }
    }

    fn end(&mut self) {
        self.offsets.push(self.bytes.len() as i32);
    }

    fn take(&mut self, nulls: Option<NullBuffer>) -> ArrowArray {
        let own = std::mem::replace(self, Self::new());
        let offsets = OffsetBuffer::new(ScalarBuffer::from(own.offsets));
        ArrowArray::from_data(BinaryArray::new(offsets, own.bytes.into(), nulls).into_data())
    }
}

#[pyclass(module = "tsdb._kernels")]
pub struct TextFilters {
    analyzer: Analyzer,
    granularity: usize,
    bits_per_hash: f64,
    bytes_max: usize,
    granule: Granule,
    scratch: Vec<u8>,
    counts: Vec<u8>,
    bits: Pages,
    codes: Pages,
    has_codes: Vec<bool>,
}

#[pymethods]
impl TextFilters {
    #[new]
    fn new(granularity: usize, rate: f64, gram: usize, folds_case: bool, bytes_max: usize) -> PyResult<Self> {
        if granularity == 0 || gram == 0 || !(rate > 0.0 && rate <= 1.0) {
            return Err(PyValueError::new_err(
                "granularity, rate and gram must be above 0, and rate at most 1",
            ));
        }
        Ok(Self {
            analyzer: Analyzer { gram, folds_case },
            granularity,
            // A rate of 1 asks for nothing; the smallest filter answers that.
            bits_per_hash: -rate.min(0.9999).ln() / (LN_2 * LN_2),
            bytes_max: bytes_max.min(BYTES_MAX),
            granule: Granule {
                hashes: HashSet::default(),
                codes: vec![0; CODES.div_ceil(WORD_BITS)],
                rows: 0,
            },
            scratch: Vec::new(),
            counts: Vec::new(),
            bits: Pages::new(),
            codes: Pages::new(),
            has_codes: Vec::new(),
        })
    }

    /// Adds texts in the order of rows.
    fn add(&mut self, py: Python<'_>, texts: Array) -> PyResult<()> {
        let Some(text) = Text::new(&texts.0) else {
            let kind = texts.0.data_type();
            return Err(PyTypeError::new_err(format!(
                "texts: expected an array of strings, received {kind}"
            )));
        };
        let (rows, nulls) = (texts.0.len(), texts.0.nulls());
        py.detach(|| (0..rows).try_for_each(|row| self.add_row(&text, nulls, row)))
            .map_err(PyValueError::new_err)
    }

    /// Returns the count, the bits and the bitmap of each filter, and begins anew.
    fn finish(&mut self, py: Python<'_>) -> (ArrowArray, ArrowArray, ArrowArray) {
        py.detach(|| {
            if self.granule.rows > 0 {
                self.cut();
            }
        });
        let nulls = NullBuffer::from(std::mem::take(&mut self.has_codes));
        (
            ArrowArray::from_values::<UInt8Type>(std::mem::take(&mut self.counts)),
            self.bits.take(None),
            self.codes.take(Some(nulls)),
        )
    }
}

impl TextFilters {
    fn add_row(&mut self, text: &Text, nulls: Option<&NullBuffer>, row: usize) -> Result<(), String> {
        if nulls.is_none_or(|nulls| nulls.is_valid(row)) {
            let value = text.get(row).ok_or_else(|| format!("texts: row {row} is outside of the array"))?;
            self.analyzer.visit(value, &mut self.scratch, &mut self.granule);
        }
        self.granule.rows += 1;
        if self.granule.rows == self.granularity {
            self.cut();
        }
        Ok(())
    }

    /// Makes the filter of the rows so far.
    fn cut(&mut self) {
        let granule = &mut self.granule;
        let codes: usize = granule.codes.iter().map(|word| word.count_ones() as usize).sum();
        let is_full = granule.hashes.len() > HASHES_MAX;
        let has_bitmap = codes as f64 * self.bits_per_hash > CODES as f64;
        if !has_bitmap && !is_full {
            granule.hashes.extend(set_bits(&granule.codes).map(hash_code));
        }
        let items = granule.hashes.len();
        let bits = ((items as f64 * self.bits_per_hash).ceil() as usize).max(1).next_multiple_of(WORD_BITS);
        let size = bits / 8 + if has_bitmap { CODES / 8 } else { 0 };
        let is_kept = !is_full && self.bits.bytes.len() + self.codes.bytes.len() + size <= self.bytes_max;
        if is_kept {
            let count = (bits as f64 / items.max(1) as f64 * LN_2).round().clamp(1.0, COUNT_MAX) as u8;
            self.counts.push(count);
            set(&mut self.bits.bytes, bits, count, &granule.hashes);
        } else {
            self.counts.push(0);
            self.bits.bytes.extend([0; WORD_BITS / 8]);
        }
        self.bits.end();
        self.has_codes.push(is_kept && has_bitmap);
        if is_kept && has_bitmap {
            self.codes.bytes.extend(granule.codes.iter().flat_map(|word| word.to_le_bytes()));
        }
        self.codes.end();
        granule.hashes.clear();
        granule.codes.fill(0);
        granule.rows = 0;
    }
}

fn set_bits(words: &[u64]) -> impl Iterator<Item = usize> {
    words.iter().enumerate().filter(|&(_, &word)| word != 0).flat_map(|(at, &word)| {
        (0..WORD_BITS).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at * WORD_BITS + bit)
    })
}

/// Appends a filter of so many bits with the bits of hashes set.
fn set<'a>(bytes: &mut Vec<u8>, bits: usize, count: u8, hashes: impl IntoIterator<Item = &'a u64>) {
    let start = bytes.len();
    bytes.resize(start + bits / 8, 0);
    let own = &mut bytes[start..];
    for &hash in hashes {
        let step = hash.rotate_left(32) | 1;
        let mut place = hash;
        for _ in 0..count {
            let bit = (place % bits as u64) as usize;
            own[bit / 8] |= 1 << (bit % 8);
            place = place.wrapping_add(step);
        }
    }
}

/// What a text must be made of to hold another.
struct Needs {
    hashes: Vec<u64>,
    codes: Vec<u32>,
    /// Words that begin before this may be the end of a longer one.
    first: usize,
    /// Words that end after this may be the beginning of a longer one.
    last: usize,
}

impl Sink for Needs {
    fn word(&mut self, hash: u64, range: Range<usize>) {
        if range.start >= self.first && range.end <= self.last {
            self.hashes.push(hash);
        }
    }

    fn piece(&mut self, hash: u64) {
        self.hashes.push(hash);
    }

    fn code(&mut self, code: usize) {
        self.codes.push(code as u32);
    }
}

/// Returns the hashes and the pieces of three letters or digits that filters of texts that hold `text` have, and the hashes
/// of these pieces for filters without a bitmap.
#[pyfunction]
pub fn text_needs(
    text: &str,
    starts_word: bool,
    ends_word: bool,
    gram: usize,
    folds_case: bool,
) -> PyResult<(ArrowArray, ArrowArray, ArrowArray)> {
    if gram == 0 {
        return Err(PyValueError::new_err("gram must be above 0"));
    }
    let (first, last) = (usize::from(!starts_word), text.len().saturating_sub(usize::from(!ends_word)));
    let mut needs = Needs { hashes: Vec::new(), codes: Vec::new(), first, last };
    Analyzer { gram, folds_case }.visit(text.as_bytes(), &mut Vec::new(), &mut needs);
    let own = needs.codes.iter().map(|&code| hash_code(code as usize)).collect();
    Ok((
        ArrowArray::from_values::<UInt64Type>(needs.hashes),
        ArrowArray::from_values::<UInt32Type>(needs.codes),
        ArrowArray::from_values::<UInt64Type>(own),
    ))
}
