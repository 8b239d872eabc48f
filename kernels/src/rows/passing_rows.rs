//! `passing_rows`: the rows of stretches for which a mask is true, and the stretch that each is of.
//!
//! The mask begins at row `first` of a source. Stretches ascend and do not overlap; `starts[i]` to before `stops[i]` are
//! the rows of stretch i, and only these are looked at. A row whose mask is null does not pass.

use arrow_array::types::Int64Type;
use arrow_array::{Array as _, BooleanArray};
use arrow_schema::DataType;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::arrow_ffi::{Array, ArrowArray};
use crate::held::Held;

#[pyfunction]
pub fn passing_rows(
    mask: Array,
    first: usize,
    starts: Held<i64>,
    stops: Held<i64>,
) -> PyResult<(ArrowArray, ArrowArray)> {
    if mask.0.data_type() != &DataType::Boolean {
        return Err(PyTypeError::new_err(format!(
            "mask: expected booleans, received {}",
            mask.0.data_type()
        )));
    }
    let (starts, stops) = (starts.get(), stops.get());
    if starts.len() != stops.len() {
        return Err(PyValueError::new_err("there must be a stop for each start"));
    }
    let mask = BooleanArray::from(mask.0);
    let passing = match mask.nulls() {
        Some(nulls) => mask.values() & nulls.inner(),
        None => mask.values().clone(),
    };
    let (mut rows, mut owners) = (Vec::new(), Vec::new());
    for (owner, (&start, &stop)) in starts.iter().zip(stops).enumerate() {
        let low = usize::try_from(start).ok().and_then(|start| start.checked_sub(first));
        let high = usize::try_from(stop).ok().and_then(|stop| stop.checked_sub(first));
        let (Some(low), Some(high)) = (low, high.filter(|&high| high <= passing.len())) else {
            return Err(PyValueError::new_err(format!("the mask does not reach from row {start} to {stop}")));
        };
        if low >= high {
            continue;
        }
        rows.extend(passing.slice(low, high - low).set_indices().map(|row| start + row as i64));
        owners.resize(rows.len(), owner as i64);
    }
    Ok((ArrowArray::from_values::<Int64Type>(rows), ArrowArray::from_values::<Int64Type>(owners)))
}
