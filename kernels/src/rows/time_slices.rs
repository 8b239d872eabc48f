//! `time_slices`: the part of each stretch of rows that lies in a range of time.
//!
//! Stretch i is the rows `offsets[i]` to `offsets[i + 1]`, whose times ascend. The answer has for each stretch where
//! its rows from `first` to `last`, both included, start and stop; where there are none, start and stop are equal.

use arrow_array::types::Int64Type;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrow_ffi::{Array, ArrowArray};
use crate::rows::keys::times;

#[pyfunction]
pub fn time_slices(
    py: Python<'_>,
    offsets: Array,
    ts: Array,
    first: i64,
    last: i64,
) -> PyResult<(ArrowArray, ArrowArray)> {
    let (offsets, times) = (offsets.values::<Int64Type>("offsets")?, times(&ts)?);
    check_offsets(&offsets, times.len())?;
    let (starts, stops) = py.detach(|| find_slices(&offsets, &times, first, last));
    Ok((ArrowArray::from_values::<Int64Type>(starts), ArrowArray::from_values::<Int64Type>(stops)))
}

fn check_offsets(offsets: &[i64], rows: usize) -> PyResult<()> {
    if let Some(at) = offsets.windows(2).position(|pair| pair[0] > pair[1]) {
        return Err(PyValueError::new_err(format!("offsets: {} is larger than its successor", offsets[at])));
    }
    let outside = |&offset: &i64| usize::try_from(offset).map_or(true, |offset| offset > rows);
    match offsets.first().into_iter().chain(offsets.last()).find(|&offset| outside(offset)) {
        Some(offset) => Err(PyValueError::new_err(format!("offsets: {offset} is outside of {rows} rows"))),
        None => Ok(()),
    }
}

fn find_slices(offsets: &[i64], times: &[i64], first: i64, last: i64) -> (Vec<i64>, Vec<i64>) {
    offsets
        .windows(2)
        .map(|pair| {
            let stretch = &times[pair[0] as usize..pair[1] as usize];
            let start = stretch.partition_point(|&time| time < first);
            let stop = start + stretch[start..].partition_point(|&time| time <= last);
            (pair[0] + start as i64, pair[0] + stop as i64)
        })
        .unzip()
}
