//! `decode_parquet_chunk`: plain columns of Parquet, without Arrow's reader.
//!
//!     bytes of a chunk ─▶ headers of pages ─▶ checksums ─▶ decompressed ─▶ one array
//!
//! A column chunk is pages one behind the other, each with a header in Thrift's compact protocol. Only flat columns are
//! read whose values are words of 4 or 8 bytes, in data pages of version 1, in zstd or not compressed, and in the encodings
//! PLAIN, DELTA_BINARY_PACKED, BYTE_STREAM_SPLIT and of a dictionary; anything else is an error of another kind
//! (`NotImplementedError`), and Arrow's reader has it.
//!
//! Nothing of a page is trusted: every length is checked against the bytes that are there, and neither a page nor the
//! array takes more memory than `rows_max` rows can.

mod decode;
mod header;

use std::borrow::Cow;
use std::cell::{Cell, RefCell};

use arrow_array::PrimitiveArray;
use arrow_array::types::{ArrowPrimitiveType, Int8Type, Int16Type, Int32Type, Int64Type};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer};
use pyo3::exceptions::{PyNotImplementedError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use crate::arrow_ffi::ArrowArray;
pub use decode::varint;
use decode::{Word, decode_levels, decode_values};
use header::read_pages;

/// What is wrong with a page.
pub enum Fault {
    /// It is not what Parquet says it should be.
    Damaged(String),
    /// It is fine, and of a kind that is not read here.
    Foreign(String),
}

impl From<Fault> for PyErr {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Damaged(text) => PyValueError::new_err(text),
            Fault::Foreign(text) => PyNotImplementedError::new_err(text),
        }
    }
}

pub fn damaged<T>(text: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::Damaged(text.into()))
}

/// Returns the values of a chunk as int32 or int64; with `narrow`, integers of 8 bytes as the narrowest of int8, int16,
/// int32 and int64 that holds all of them.
#[pyfunction]
#[pyo3(signature = (chunk, *, is_compressed, word_bytes, nullable, rows_max, narrow = false))]
pub fn decode_parquet_chunk(
    py: Python<'_>,
    chunk: PyBackedBytes,
    is_compressed: bool,
    word_bytes: usize,
    nullable: bool,
    rows_max: usize,
    narrow: bool,
) -> PyResult<ArrowArray> {
    let chunk: &[u8] = &chunk;
    let found = py.detach(|| {
        let (dictionary, pages) = unpack(chunk, is_compressed, plain_bytes_max(rows_max, word_bytes))?;
        let pages: Vec<(&[u8], usize, u32)> =
            pages.iter().map(|(page, values, encoding)| (page.as_ref(), *values, *encoding)).collect();
        let dictionary = dictionary.as_deref();
        match word_bytes {
            4 => decode_whole::<Int32Type>(&pages, dictionary, nullable, rows_max),
            8 if narrow => decode_narrow(&pages, dictionary, nullable, rows_max),
            8 => decode_whole::<Int64Type>(&pages, dictionary, nullable, rows_max),
            _ => Err(Fault::Foreign(format!("values have {word_bytes} bytes"))),
        }
    });
    Ok(found?)
}

/// What pages may take that are decompressed: of each row a level, a value and one in the dictionary, and heads of blocks.
fn plain_bytes_max(rows: usize, word_bytes: usize) -> usize {
    rows.saturating_mul(2 * word_bytes + 1).saturating_add(PLAIN_BYTES_SPARE)
}
const PLAIN_BYTES_SPARE: usize = 1 << 16;

type Unpacked<'a> = (Option<Cow<'a, [u8]>>, Vec<(Cow<'a, [u8]>, usize, u32)>);

/// Checks and decompresses pages: the dictionary, if there is one, and those with values.
fn unpack(chunk: &[u8], is_compressed: bool, bytes_max: usize) -> Result<Unpacked<'_>, Fault> {
    let (mut dictionary, mut pages) = (None, Vec::new());
    let found = read_pages(chunk)?;
    let plain_bytes = found.iter().map(|page| page.plain_bytes).fold(0usize, usize::saturating_add);
    if plain_bytes > bytes_max {
        return Err(Fault::Foreign(format!("its pages have {plain_bytes} bytes")));
    }
    for page in found {
        let packed = &chunk[page.begin..page.end];
        if page.crc.is_some_and(|crc| crc32fast::hash(packed) != crc) {
            return damaged("the CRC of a page is wrong");
        }
        let plain = if is_compressed {
            Cow::Owned(decompress(packed, page.plain_bytes)?)
        } else {
            Cow::Borrowed(packed)
        };
        if plain.len() != page.plain_bytes {
            return damaged(format!("a page has {} bytes, expected {}", plain.len(), page.plain_bytes));
        }
        match page.is_dictionary {
            true => dictionary = Some(plain),
            false => pages.push((plain, page.values, page.encoding)),
        }
    }
    Ok((dictionary, pages))
}

thread_local! {
    static DECOMPRESSOR: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

fn decompress(packed: &[u8], bytes: usize) -> Result<Vec<u8>, Fault> {
    let found = DECOMPRESSOR.with_borrow_mut(|own| {
        if own.is_none() {
            *own = Some(zstd::bulk::Decompressor::new()?);
        }
        own.as_mut().map_or_else(|| Ok(Vec::new()), |own| own.decompress(packed, bytes))
    });
    found.or_else(|error| damaged(format!("a page cannot be decompressed: {error}")))
}

type Pages<'a> = [(&'a [u8], usize, u32)];

fn decode_whole<T: ArrowPrimitiveType>(
    pages: &Pages<'_>,
    dictionary: Option<&[u8]>,
    nullable: bool,
    rows_max: usize,
) -> Result<ArrowArray, Fault>
where
    T::Native: Word,
{
    let mut values = Vec::new();
    let nulls = decode_pages::<T::Native>(pages, dictionary, nullable, rows_max, &mut values)?;
    Ok(ArrowArray::new(PrimitiveArray::<T>::new(values.into(), nulls)))
}

thread_local! {
    /// Where values are before they are narrowed: memory that is new would cost more than decoding.
    static SCRATCH: Cell<Vec<i64>> = const { Cell::new(Vec::new()) };
}
const SCRATCH_VALUES_MAX: usize = 1 << 18;

fn decode_narrow(
    pages: &Pages<'_>,
    dictionary: Option<&[u8]>,
    nullable: bool,
    rows_max: usize,
) -> Result<ArrowArray, Fault> {
    let mut values = SCRATCH.take();
    values.clear();
    let found = decode_pages(pages, dictionary, nullable, rows_max, &mut values).map(|nulls| {
        let (low, high) = bounds(&values);
        let fits = |bits: u32| low >= -(1 << (bits - 1)) && high < 1 << (bits - 1);
        match () {
            () if fits(8) => narrowed::<Int8Type>(&values, nulls, |value| value as i8),
            () if fits(16) => narrowed::<Int16Type>(&values, nulls, |value| value as i16),
            () if fits(32) => narrowed::<Int32Type>(&values, nulls, |value| value as i32),
            () => narrowed::<Int64Type>(&values, nulls, |value| value),
        }
    });
    if values.capacity() <= SCRATCH_VALUES_MAX {
        SCRATCH.set(values);
    }
    found
}

/// Bounds that fit into as many bits as the least and the greatest value. Bits that any or all values have are found three
/// times as fast as these two; they are bounds if no two values differ in their signs.
fn bounds(values: &[i64]) -> (i64, i64) {
    let (any, all) = values.iter().fold((0, -1), |(any, all), &value| (any | value, all & value));
    match () {
        () if any >= 0 => (0, any),
        () if all < 0 => (all, 0),
        () => values.iter().fold((0, 0), |(low, high), &value| (low.min(value), high.max(value))),
    }
}

fn narrowed<T: ArrowPrimitiveType>(
    values: &[i64],
    nulls: Option<NullBuffer>,
    convert: impl Fn(i64) -> T::Native,
) -> ArrowArray {
    let narrow: Vec<T::Native> = values.iter().map(|&value| convert(value)).collect();
    ArrowArray::new(PrimitiveArray::<T>::new(narrow.into(), nulls))
}

/// Appends the values of pages to an empty list and returns which are null.
fn decode_pages<N: Word>(
    pages: &Pages<'_>,
    dictionary: Option<&[u8]>,
    nullable: bool,
    rows_max: usize,
    values: &mut Vec<N>,
) -> Result<Option<NullBuffer>, Fault> {
    let rows = pages.iter().map(|&(_, values, _)| values).fold(0usize, usize::saturating_add);
    if rows > rows_max {
        return damaged(format!("its pages have {rows} rows, expected {rows_max}"));
    }
    let dictionary: Option<Vec<N>> = dictionary.map(decode::words).transpose()?;
    values.reserve(rows);
    let mut validity: Option<BooleanBufferBuilder> = None;
    for &(page, count, encoding) in pages {
        let mut rest = page;
        let before = values.len();
        let levels = if nullable { decode_levels(&mut rest, count)? } else { None };
        let present = levels.as_ref().map_or(count, |levels| levels.iter().filter(|&&valid| valid).count());
        decode_values(rest, encoding, dictionary.as_deref(), present, values)?;
        if values.len() != before + present {
            return damaged("a page has fewer values than its header says");
        }
        if let (None, Some(_)) = (&validity, &levels) {
            let mut builder = BooleanBufferBuilder::new(rows);
            builder.append_n(before, true);
            validity = Some(builder);
        }
        match (&mut validity, &levels) {
            (Some(builder), Some(levels)) => {
                builder.append_slice(levels);
                spread(values, before, levels);
            }
            (Some(builder), None) => builder.append_n(count, true),
            _ => (),
        }
    }
    Ok(validity.map(|mut builder| NullBuffer::new(builder.finish())))
}

/// Moves the values of a page, which lie together, to the rows that have one.
fn spread<N: Word>(values: &mut Vec<N>, before: usize, levels: &[bool]) {
    let mut from = values.len();
    values.resize(before + levels.len(), N::default());
    for (row, &valid) in levels.iter().enumerate().rev() {
        let value = if valid {
            from -= 1;
            values[from]
        } else {
            N::default()
        };
        values[before + row] = value;
    }
}
