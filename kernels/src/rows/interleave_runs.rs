//! `interleave_runs`: columns that hold some rows of each series, laid out series by series.
//!
//! A chunk has, one after the other, `counts[i]` rows of the series at `places[i]`. In the answer the rows of the series
//! at place p are those from `offsets[p]` to before `offsets[p + 1]`: first what the first chunk has of it, then the
//! second, and so on. Values are of 8 bytes and not null.

use arrow_array::types::Int64Type;
use arrow_buffer::{Buffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_schema::DataType;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::arrow_ffi::{Array, ArrowArray, refuse_nulls};

#[pyfunction]
pub fn interleave_runs(
    py: Python<'_>,
    chunks: Vec<Array>,
    places: Vec<Array>,
    counts: Vec<Array>,
    offsets: Array,
) -> PyResult<ArrowArray> {
    let Some(first) = chunks.first() else {
        return Err(PyValueError::new_err("there are no chunks"));
    };
    if places.len() != chunks.len() || counts.len() != chunks.len() {
        return Err(PyValueError::new_err("chunks, places and counts differ in number"));
    }
    let kind = first.0.data_type().clone();
    let offsets = offsets.values::<Int64Type>("offsets")?;
    let mut runs = Vec::with_capacity(chunks.len());
    for ((chunk, places), counts) in chunks.iter().zip(&places).zip(&counts) {
        if *chunk.0.data_type() != kind {
            return Err(PyTypeError::new_err("chunks are of different types"));
        }
        refuse_nulls(&chunk.0, "chunks")?;
        let values = words(&chunk.0)?;
        runs.push((values, places.values::<Int64Type>("places")?, counts.values::<Int64Type>("counts")?));
    }
    let laid = py.detach(|| lay_out(&runs, &offsets)).map_err(PyValueError::new_err)?;
    let rows = laid.len();
    let data = ArrayData::builder(kind).len(rows).add_buffer(Buffer::from_vec(laid)).build();
    data.map(ArrowArray::from_data).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// The values of a column as what they are in memory.
fn words(data: &ArrayData) -> PyResult<ScalarBuffer<u64>> {
    match data.data_type() {
        DataType::Int64 | DataType::UInt64 | DataType::Float64 | DataType::Timestamp(_, _) => {
            Ok(ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len()))
        }
        kind => Err(PyTypeError::new_err(format!("chunks: expected values of 8 bytes, received {kind}"))),
    }
}

type Chunk = (ScalarBuffer<u64>, ScalarBuffer<i64>, ScalarBuffer<i64>);

fn lay_out(chunks: &[Chunk], offsets: &[i64]) -> Result<Vec<u64>, String> {
    let rows = match (offsets.first(), offsets.last()) {
        (Some(0), Some(&rows)) if offsets.is_sorted() => rows as usize,
        _ => return Err("offsets do not ascend from 0".into()),
    };
    let given: usize = chunks.iter().map(|(values, _, _)| values.len()).sum();
    if given != rows {
        return Err(format!("the chunks have {given} rows, the offsets {rows}"));
    }
    let mut laid = vec![0; rows];
    let mut next: Vec<usize> = offsets.iter().map(|&offset| offset as usize).collect();
    for (values, places, counts) in chunks {
        if places.len() != counts.len() {
            return Err(format!("{} places, but {} counts", places.len(), counts.len()));
        }
        let mut at = 0usize;
        for (&place, &count) in places.iter().zip(counts.iter()) {
            let place = usize::try_from(place).ok().filter(|&place| place + 1 < offsets.len());
            let place = place.ok_or("there is no such place")?;
            let count = usize::try_from(count).map_err(|_| "a count is negative")?;
            let from = values.get(at..at.saturating_add(count)).ok_or("the counts exceed a chunk")?;
            let (start, limit) = (next[place], offsets[place + 1] as usize);
            let into = laid.get_mut(start..start + count).filter(|_| start + count <= limit);
            into.ok_or("a series has more rows than its offsets say")?.copy_from_slice(from);
            next[place] = start + count;
            at += count;
        }
        if at != values.len() {
            return Err("the counts do not cover a chunk".into());
        }
    }
    Ok(laid)
}
