//! `cut_rows`: row ranges without some of their rows.
//!
//! Row ranges are those of the series of a source, in order: the rows `starts[i]` to `stops[i]`, with times from `time_min[i]` to
//! `time_max[i]`. Of each row to leave out, in order, the times of the rows before and after it are known. What is left of a
//! range may be several: the first of each are one set, the second ones another, and so on.

use arrow_array::types::Int64Type;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrow_ffi::ArrowArray;
use crate::held::Held;

/// Series, start, stop, first and last time, one column each.
type Set = [Vec<i64>; 5];

/// Returns sets of ranges, each as columns: the place of the series, start, stop, first and last time. None if there would be
/// more than `sets_max`.
#[pyfunction]
pub fn cut_rows(
    starts: Held<i64>,
    stops: Held<i64>,
    time_min: Held<i64>,
    time_max: Held<i64>,
    left_out: (Held<i64>, Held<i64>, Held<i64>),
    sets_max: usize,
) -> PyResult<Option<Vec<[ArrowArray; 5]>>> {
    let (starts, stops, time_min, time_max) = (starts.get(), stops.get(), time_min.get(), time_max.get());
    let (rows, before, after) = (left_out.0.get(), left_out.1.get(), left_out.2.get());
    if [stops.len(), time_min.len(), time_max.len()] != [starts.len(); 3] {
        return Err(PyValueError::new_err("each range must have a start, a stop and two times"));
    }
    if before.len() != rows.len() || after.len() != rows.len() || !rows.is_sorted() {
        return Err(PyValueError::new_err("rows must be in order, each with the times around it"));
    }
    let mut sets: Vec<Set> = vec![];
    let mut next = 0;
    for series in 0..starts.len() {
        let (mut start, stop) = (starts[series], stops[series]);
        let (mut first, last) = (time_min[series], time_max[series]);
        let mut pieces = 0;
        let mut add = |start: i64, stop: i64, first: i64, last: i64| {
            if start < stop {
                if pieces == sets.len() {
                    sets.push(Set::default());
                }
                for (column, value) in sets[pieces].iter_mut().zip([series as i64, start, stop, first, last])
                {
                    column.push(value);
                }
                pieces += 1;
            }
        };
        while rows.get(next).is_some_and(|&row| row < start) {
            next += 1;
        }
        while rows.get(next).is_some_and(|&row| row < stop) {
            add(start, rows[next], first, before[next]);
            (start, first) = (rows[next] + 1, after[next]);
            next += 1;
        }
        add(start, stop, first, last);
        if sets.len() > sets_max {
            return Ok(None);
        }
    }
    let arrays = |set: Set| set.map(ArrowArray::from_values::<Int64Type>);
    Ok(Some(sets.into_iter().map(arrays).collect()))
}
