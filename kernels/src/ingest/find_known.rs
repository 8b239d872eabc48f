//! `find_known`: where the series of a request are, if all of them are known, in one region, and of checked tables.
//!
//! That is so for nearly every request, and then nothing else has to be looked at. The columns belong to the caller, who
//! may change them while he holds the interpreter: so it is not given up here.

use std::cell::Cell;

use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// The region of all, and their places in it; None if they have to be looked at one by one.
#[pyfunction]
pub fn find_known<'py>(
    py: Python<'py>,
    numbers: PyBuffer<u32>,
    region_of: PyBuffer<i32>,
    place_of: PyBuffer<u32>,
    table_of: PyBuffer<i32>,
    is_checked: PyBuffer<u8>,
) -> PyResult<Option<(i32, Bound<'py, PyBytes>)>> {
    let (numbers, regions) = (cells(py, &numbers)?, cells(py, &region_of)?);
    let (places, tables, is_checked) =
        (cells(py, &place_of)?, cells(py, &table_of)?, cells(py, &is_checked)?);
    let find = |number: &Cell<u32>| -> Option<(i32, u32)> {
        let at = number.get() as usize;
        let table = usize::try_from(tables.get(at)?.get()).ok()?;
        let region = regions.get(at)?.get();
        (region >= 0 && is_checked.get(table)?.get() != 0).then_some((region, places.get(at)?.get()))
    };
    let Some((region, _)) = numbers.first().and_then(find) else { return Ok(None) };
    let mut found = Vec::with_capacity(4 * numbers.len());
    for number in numbers {
        match find(number) {
            Some((same, place)) if same == region => found.extend_from_slice(&place.to_le_bytes()),
            _ => return Ok(None),
        }
    }
    Ok(Some((region, PyBytes::new(py, &found))))
}

fn cells<'a, T: Element>(_: Python<'a>, buffer: &'a PyBuffer<T>) -> PyResult<&'a [Cell<T>]> {
    let Some(column) = buffer.as_slice_ptr() else {
        return Err(PyValueError::new_err("a column is not one stretch of numbers"));
    };
    // SAFETY: the buffer holds its memory as long as it lives. Nobody else writes to it as long as the interpreter is
    // held, which the token shows and which is not given up, and cells make no claim beyond that.
    Ok(unsafe { &*(column.as_ptr() as *const [Cell<T>]) })
}
