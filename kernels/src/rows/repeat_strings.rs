//! `repeat_strings`: a column of strings that comes in runs of equal values.
//!
//! Run i is `values[ranks[i]]` in `lengths[i]` rows. The answer is the two buffers of an Arrow string array: its
//! offsets, one more than there are rows, and its bytes. A null takes no bytes; the caller knows where nulls are.

use arrow_array::types::{Int32Type, Int64Type, UInt8Type};
use arrow_buffer::NullBuffer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::arrow_ffi::{Array, ArrowArray};
use crate::values::Text;

#[pyfunction]
pub fn repeat_strings(
    py: Python<'_>,
    values: Array,
    ranks: Array,
    lengths: Array,
) -> PyResult<(ArrowArray, ArrowArray)> {
    let Some(text) = Text::new(&values.0) else {
        let kind = values.0.data_type();
        return Err(PyTypeError::new_err(format!("values: expected an array of strings, received {kind}")));
    };
    let (ranks, lengths) = (ranks.values::<Int64Type>("ranks")?, lengths.values::<Int64Type>("lengths")?);
    if ranks.len() != lengths.len() {
        let (runs, given) = (ranks.len(), lengths.len());
        return Err(PyValueError::new_err(format!("{runs} ranks, but {given} lengths")));
    }
    let nulls = values.0.nulls();
    let (offsets, bytes) =
        py.detach(|| repeat(&text, nulls, &ranks, &lengths)).map_err(PyValueError::new_err)?;
    Ok((ArrowArray::from_values::<Int32Type>(offsets), ArrowArray::from_values::<UInt8Type>(bytes)))
}

fn repeat(
    text: &Text,
    nulls: Option<&NullBuffer>,
    ranks: &[i64],
    lengths: &[i64],
) -> Result<(Vec<i32>, Vec<u8>), String> {
    let mut runs = Vec::with_capacity(ranks.len());
    let (mut rows, mut size) = (0usize, 0usize);
    for (&rank, &length) in ranks.iter().zip(lengths) {
        let value = find(text, nulls, rank).ok_or_else(|| format!("ranks: there is no value {rank}"))?;
        let length = usize::try_from(length).map_err(|_| format!("lengths: {length} is negative"))?;
        rows = rows.saturating_add(length);
        size = size.saturating_add(value.len().saturating_mul(length));
        runs.push((value, length));
    }
    if rows >= i32::MAX as usize || size > i32::MAX as usize {
        return Err(format!("{rows} rows of {size} bytes do not fit one array of strings"));
    }
    let mut offsets = Vec::with_capacity(rows + 1);
    let mut bytes = Vec::with_capacity(size);
    offsets.push(0);
    for (value, length) in runs {
        let (start, step) = (bytes.len() as i32, value.len() as i32);
        offsets.extend((1..=length as i32).map(|row| start + row * step));
        fill(&mut bytes, value, length);
    }
    Ok((offsets, bytes))
}

/// The value at a rank, nothing for a null; `None` when there is no such rank.
fn find<'a>(text: &'a Text, nulls: Option<&NullBuffer>, rank: i64) -> Option<&'a [u8]> {
    let row = usize::try_from(rank).ok()?;
    match nulls {
        Some(nulls) if row < nulls.len() && nulls.is_null(row) => Some(&[]),
        _ => text.get(row),
    }
}

/// Appends a value `length` times; what is there already is doubled, so that most bytes move in long copies.
fn fill(bytes: &mut Vec<u8>, value: &[u8], length: usize) {
    let start = bytes.len();
    let end = start + value.len() * length;
    if start == end {
        return;
    }
    bytes.extend_from_slice(value);
    while bytes.len() < end {
        let more = (bytes.len() - start).min(end - bytes.len());
        bytes.extend_from_within(start..start + more);
    }
}
