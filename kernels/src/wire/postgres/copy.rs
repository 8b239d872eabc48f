//! `parse_postgres_copy`: rows of PostgreSQL's binary COPY as columns of bytes.
//!
//! A row is the number of its cells (16 bits), then for each cell its length (32 bits, -1 for a null) and its bytes; the
//! highest byte comes first. After the last row comes the number -1. What stands before the first row is no concern of
//! this file.
//!
//! Only whole rows are taken. Reading stops at the mark of the end, at a row that has not come whole, and at a row that
//! cannot be one: then the answer says what is wrong with it, and the rows before it are there all the same.

use arrow_array::Array as _;
use arrow_array::builder::BinaryBuilder;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrow_ffi::ArrowArray;

const END_MARK: i16 = -1;
const NULL: i32 = -1;

/// Columns, number of rows, where the first row begins that was not taken, whether the end was marked, what is wrong.
type Answer = (Vec<ArrowArray>, usize, usize, bool, Option<String>);

#[pyfunction]
pub fn parse_postgres_copy(py: Python<'_>, body: &[u8], columns: usize) -> PyResult<Answer> {
    if body.len() > i32::MAX as usize {
        return Err(PyValueError::new_err("more bytes than one array can hold"));
    }
    Ok(py.detach(|| parse(body, columns)))
}

/// A row that has not come whole, or what is wrong with it.
enum Stop {
    Incomplete,
    Malformed(String),
}

fn parse(body: &[u8], columns: usize) -> Answer {
    let mut builders: Vec<BinaryBuilder> = (0..columns).map(|_| BinaryBuilder::new()).collect();
    let mut cells = Vec::with_capacity(columns);
    let (mut rows, mut at) = (0, 0);
    let (mut is_ended, mut problem) = (false, None);
    while let Some(count) = take::<2>(body, at).map(i16::from_be_bytes) {
        if count == END_MARK {
            (at, is_ended) = (at + 2, true);
            break;
        }
        match parse_row(body, at + 2, count, columns, &mut cells) {
            Ok(next) => at = next,
            Err(Stop::Incomplete) => break,
            Err(Stop::Malformed(what)) => {
                problem = Some(what);
                break;
            }
        }
        for (builder, cell) in builders.iter_mut().zip(&cells) {
            builder.append_option(*cell);
        }
        rows += 1;
    }
    let arrays = builders.iter_mut().map(|each| ArrowArray::from_data(each.finish().into_data())).collect();
    (arrays, rows, at, is_ended, problem)
}

/// Find the cells of the row whose first cell begins at `at`; the place behind them.
fn parse_row<'a>(
    body: &'a [u8],
    mut at: usize,
    count: i16,
    columns: usize,
    cells: &mut Vec<Option<&'a [u8]>>,
) -> Result<usize, Stop> {
    if usize::try_from(count) != Ok(columns) {
        return Err(Stop::Malformed(format!("row field count is {count}, expected {columns}")));
    }
    cells.clear();
    for _ in 0..columns {
        let length = take::<4>(body, at).map(i32::from_be_bytes).ok_or(Stop::Incomplete)?;
        at += 4;
        if length == NULL {
            cells.push(None);
            continue;
        }
        let Ok(length) = usize::try_from(length) else {
            return Err(Stop::Malformed(format!("invalid field size {length}")));
        };
        cells.push(Some(body.get(at..at + length).ok_or(Stop::Incomplete)?));
        at += length;
    }
    Ok(at)
}

fn take<const N: usize>(body: &[u8], at: usize) -> Option<[u8; N]> {
    body.get(at..at + N)?.try_into().ok()
}
