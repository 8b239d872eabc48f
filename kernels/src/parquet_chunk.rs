//! `split_parquet_chunk` and `decode_parquet_pages`: plain columns of Parquet, without Arrow's reader.
//!
//! A column chunk is pages one behind the other, each with a header in Thrift's compact protocol. `split_parquet_chunk`
//! reads the headers of one chunk. Whoever calls it checks and decompresses the pages and hands them to
//! `decode_parquet_pages`, which makes one array of them. Only flat columns are read whose values are words of 4 or 8
//! bytes, in data pages of version 1 and the encodings PLAIN, DELTA_BINARY_PACKED, BYTE_STREAM_SPLIT and of a dictionary;
//! anything else is an error of another kind (`NotImplementedError`), and Arrow's reader has it.
//!
//! Nothing of a page is trusted: every length is checked against the bytes that are there, and an array is never longer
//! than `rows_max` says.

mod decode;
mod header;

use std::cell::Cell;

use arrow_array::PrimitiveArray;
use arrow_array::types::{ArrowPrimitiveType, Int8Type, Int16Type, Int32Type, Int64Type};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer};
use pyo3::exceptions::{PyNotImplementedError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use crate::arrow_ffi::ArrowArray;
use decode::{Word, decode_levels, decode_values};
use header::{Page, read_pages};

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

type PageTuple = (bool, usize, usize, usize, Option<u32>, usize, u32);

/// Returns for each page of a chunk whether it is the dictionary, where its bytes begin and end, how many they are
/// decompressed, their CRC-32 if it has one, how many values it has and in which encoding.
#[pyfunction]
pub fn split_parquet_chunk(chunk: PyBackedBytes) -> PyResult<Vec<PageTuple>> {
    let tuple = |page: Page| {
        (page.is_dictionary, page.begin, page.end, page.plain_bytes, page.crc, page.values, page.encoding)
    };
    Ok(read_pages(&chunk)?.into_iter().map(tuple).collect())
}

/// Returns the values of decompressed pages, each with how many values it has and its encoding, as int32 or int64; with
/// `narrow`, integers of 8 bytes as the narrowest of int8, int16, int32 and int64 that holds all of them.
#[pyfunction]
#[pyo3(signature = (pages, dictionary, *, word_bytes, nullable, rows_max, narrow = false))]
pub fn decode_parquet_pages(
    py: Python<'_>,
    pages: Vec<(PyBackedBytes, usize, u32)>,
    dictionary: Option<PyBackedBytes>,
    word_bytes: usize,
    nullable: bool,
    rows_max: usize,
    narrow: bool,
) -> PyResult<ArrowArray> {
    let pages: Vec<(&[u8], usize, u32)> =
        pages.iter().map(|(page, values, encoding)| (page.as_ref(), *values, *encoding)).collect();
    let dictionary = dictionary.as_deref();
    let found = py.detach(|| match word_bytes {
        4 => decode_whole::<Int32Type>(&pages, dictionary, nullable, rows_max),
        8 if narrow => decode_narrow(&pages, dictionary, nullable, rows_max),
        8 => decode_whole::<Int64Type>(&pages, dictionary, nullable, rows_max),
        _ => Err(Fault::Foreign(format!("values have {word_bytes} bytes"))),
    });
    Ok(found?)
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
        let (low, high) =
            values.iter().fold((0i64, 0i64), |(low, high), &value| (low.min(value), high.max(value)));
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
