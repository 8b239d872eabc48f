//! `pick_stretches`: the rows of chosen series of a sorted source, as far as these reach into a range of time.
//!
//! Series i has the rows `offsets[i]` to before `offsets[i + 1]`, with times from `time_min[i]` to `time_max[i]`. Of the
//! chosen ones, in their order, those are left that have a row at a time from `first` to `last` or around it. Returned are,
//! one behind the other and each as long as there are series left: the series, where their rows start and stop, and their
//! first and last times; and then the earliest and the latest of all times, None if no series is left.

use arrow_array::types::Int64Type;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrow_ffi::ArrowArray;
use crate::held::Held;

#[pyfunction]
pub fn pick_stretches(
    chosen: Held<i64>,
    offsets: Held<i64>,
    time_min: Held<i64>,
    time_max: Held<i64>,
    first: i64,
    last: i64,
) -> PyResult<(ArrowArray, Option<(i64, i64)>)> {
    let (offsets, time_min, time_max) = (offsets.get(), time_min.get(), time_max.get());
    let count = time_min.len();
    if offsets.len() != count + 1 || time_max.len() != count {
        return Err(PyValueError::new_err("there must be a stretch and a span of time for each series"));
    }
    let mut left = Vec::with_capacity(chosen.get().len());
    for &series in chosen.get() {
        let at = usize::try_from(series).ok().filter(|&at| at < count);
        let at = at.ok_or_else(|| PyValueError::new_err(format!("there is no series {series}")))?;
        if time_max[at] >= first && time_min[at] <= last {
            left.push(at);
        }
    }
    let earliest = left.iter().map(|&at| time_min[at]).min();
    let latest = left.iter().map(|&at| time_max[at]).max();
    let mut table = Vec::with_capacity(5 * left.len());
    table.extend(left.iter().map(|&at| at as i64));
    for column in [offsets, &offsets[1..], time_min, time_max] {
        table.extend(left.iter().map(|&at| column[at]));
    }
    Ok((ArrowArray::from_values::<Int64Type>(table), earliest.zip(latest)))
}
