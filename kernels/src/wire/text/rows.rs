//! `encode_json_rows` and its siblings: the rows of a record batch as text.
//!
//!     rows      [1,"a"],[2,null]
//!     objects   {"n":1,"s":"a"},{"n":2,"s":null}
//!     lines     {"n":1,"s":"a"}␊{"n":2,"s":null}␊
//!     csv       1,a␍␊2,␍␊
//!     table     │ 1 │ "a" │␊ …, every cell filled up to the width of its column
//!
//! What a cell looks like is in `column`, how cells make a row in `line`. A call writes whole rows from
//! `start` on, until there are `bytes_max` bytes or more, at least one row, and says at which row the next call goes on.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::{Array as _, make_array};
use arrow_schema::{DataType, Field, TimeUnit};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrow_ffi::Array;
use crate::errors::unsupported_type;
use crate::wire::text::column::{Column, Damaged, Form, Written, object_key};
use crate::wire::text::line::Line;

/// What is set aside for a chunk before its size is known.
const RESERVED_BYTES_MAX: usize = 1 << 21;
const RESERVED_BYTES_PER_CELL: usize = 16;

const JSON: Form = Form { is_csv: false, epoch: None };

type Chunk<'py> = (Bound<'py, PyBytes>, usize);

/// With `continues`, the rows follow others, and a comma stands before the first as well.
#[pyfunction]
#[pyo3(signature = (batch, *, start = 0, bytes_max = usize::MAX, epoch = None, continues = false))]
pub fn encode_json_rows<'py>(
    py: Python<'py>,
    batch: Array,
    start: usize,
    bytes_max: usize,
    epoch: Option<&str>,
    continues: bool,
) -> PyResult<Chunk<'py>> {
    let form = Form { is_csv: false, epoch: epoch.map(parse_unit).transpose()? };
    let (mut line, rows) = open_line(&batch, form, comma_before)?;
    encode(py, start..rows, line.cells(), bytes_max, |row, out| {
        out.extend_from_slice(if row > start || continues { b",[" } else { b"[" });
        line.write(row, out)?;
        out.push(b']');
        Ok(())
    })
}

#[pyfunction]
#[pyo3(signature = (batch, *, start = 0, bytes_max = usize::MAX, continues = false))]
pub fn encode_json_objects<'py>(
    py: Python<'py>,
    batch: Array,
    start: usize,
    bytes_max: usize,
    continues: bool,
) -> PyResult<Chunk<'py>> {
    let (mut line, rows) = open_line(&batch, JSON, key_before)?;
    encode(py, start..rows, line.cells(), bytes_max, |row, out| {
        out.extend_from_slice(if row > start || continues { b",{" } else { b"{" });
        line.write(row, out)?;
        out.push(b'}');
        Ok(())
    })
}

#[pyfunction]
#[pyo3(signature = (batch, *, start = 0, bytes_max = usize::MAX))]
pub fn encode_json_lines<'py>(
    py: Python<'py>,
    batch: Array,
    start: usize,
    bytes_max: usize,
) -> PyResult<Chunk<'py>> {
    let (mut line, rows) = open_line(&batch, JSON, key_before)?;
    encode(py, start..rows, line.cells(), bytes_max, |row, out| {
        out.push(b'{');
        line.write(row, out)?;
        out.extend_from_slice(b"}\n");
        Ok(())
    })
}

#[pyfunction]
#[pyo3(signature = (batch, *, start = 0, bytes_max = usize::MAX))]
pub fn encode_csv_rows<'py>(
    py: Python<'py>,
    batch: Array,
    start: usize,
    bytes_max: usize,
) -> PyResult<Chunk<'py>> {
    let form = Form { is_csv: true, epoch: None };
    let (mut line, rows) = open_line(&batch, form, comma_before)?;
    encode(py, start..rows, line.cells(), bytes_max, |row, out| {
        let begin = out.len();
        line.write(row, out)?;
        if out.len() == begin {
            // Readers skip empty lines, and this row counts.
            out.extend_from_slice(b"\"\"");
        }
        out.extend_from_slice(b"\r\n");
        Ok(())
    })
}

#[pyfunction]
#[pyo3(signature = (batch, widths, *, start = 0, bytes_max = usize::MAX))]
pub fn encode_table_rows<'py>(
    py: Python<'py>,
    batch: Array,
    widths: Vec<usize>,
    start: usize,
    bytes_max: usize,
) -> PyResult<Chunk<'py>> {
    let (mut columns, rows) = open(&batch, JSON)?;
    if columns.len() != widths.len() {
        return Err(PyValueError::new_err(format!("{} columns, but {} widths", columns.len(), widths.len())));
    }
    encode(py, start..rows, columns.len(), bytes_max, |row, out| {
        for (column, width) in columns.iter_mut().zip(&widths) {
            out.extend_from_slice("│ ".as_bytes());
            let cell = out.len();
            column.write(row, out)?;
            let length = count_characters(&out[cell..]);
            out.resize(out.len() + width.saturating_sub(length) + 1, b' ');
        }
        out.extend_from_slice("│\n".as_bytes());
        Ok(())
    })
}

/// The number of characters of the widest cell of each column, as `encode_table_rows` writes it.
#[pyfunction]
pub fn measure_table_cells(py: Python<'_>, batch: Array) -> PyResult<Vec<usize>> {
    let (mut columns, rows) = open(&batch, JSON)?;
    py.detach(|| {
        let mut cell = Vec::new();
        let widths = columns.iter_mut().map(|column| {
            (0..rows).try_fold(0, |width, row| {
                cell.clear();
                column.write(row, &mut cell).map_err(|Damaged| damaged(row))?;
                Ok(count_characters(&cell).max(width))
            })
        });
        widths.collect()
    })
}

fn parse_unit(name: &str) -> PyResult<TimeUnit> {
    Ok(match name {
        "s" => TimeUnit::Second,
        "ms" => TimeUnit::Millisecond,
        "us" => TimeUnit::Microsecond,
        "ns" => TimeUnit::Nanosecond,
        _ => {
            return Err(PyValueError::new_err(format!("epoch: expected s, ms, us or ns, received {name:?}")));
        }
    })
}

fn encode<'py>(
    py: Python<'py>,
    rows: Range<usize>,
    cells: usize,
    bytes_max: usize,
    mut write_row: impl FnMut(usize, &mut Vec<u8>) -> Written + Send,
) -> PyResult<Chunk<'py>> {
    let (text, next) = py.detach(|| {
        let expected = rows.len().saturating_mul(cells + 1).saturating_mul(RESERVED_BYTES_PER_CELL);
        let mut out = Vec::with_capacity(expected.min(bytes_max).min(RESERVED_BYTES_MAX));
        let mut row = rows.start;
        while row < rows.end && (row == rows.start || out.len() < bytes_max) {
            write_row(row, &mut out).map_err(|Damaged| damaged(row))?;
            row += 1;
        }
        Ok::<_, PyErr>((out, row))
    })?;
    Ok((PyBytes::new(py, &text), next))
}

fn open(batch: &Array, form: Form) -> PyResult<(Vec<Column>, usize)> {
    let array = make_array(batch.0.clone());
    let array = array.as_struct_opt().ok_or_else(|| not_a_batch(batch.0.data_type()))?;
    let columns = array
        .fields()
        .iter()
        .zip(array.columns())
        .map(|(field, column)| Column::open(field, column, form).map_err(|kind| no_text(field, &kind)));
    Ok((columns.collect::<PyResult<_>>()?, array.len()))
}

/// `before` says what stands before the cells of a column, by its number.
fn open_line(batch: &Array, form: Form, before: fn(usize, &Field) -> Vec<u8>) -> PyResult<(Line, usize)> {
    let array = make_array(batch.0.clone());
    let array = array.as_struct_opt().ok_or_else(|| not_a_batch(batch.0.data_type()))?;
    let mut line = Line::new(array.len());
    for (number, (field, column)) in array.fields().iter().zip(array.columns()).enumerate() {
        line.add(before(number, field), field, column, form).map_err(|kind| no_text(field, &kind))?;
    }
    Ok((line, array.len()))
}

fn comma_before(number: usize, _: &Field) -> Vec<u8> {
    if number > 0 { b",".to_vec() } else { Vec::new() }
}

fn key_before(number: usize, field: &Field) -> Vec<u8> {
    [comma_before(number, field), object_key(field.name())].concat()
}

fn no_text(field: &Field, kind: &str) -> PyErr {
    unsupported_type("there is no text", field.name(), kind)
}

/// Bytes that do not continue a character of UTF-8.
fn count_characters(text: &[u8]) -> usize {
    text.iter().filter(|&&byte| byte & 0xc0 != 0x80).count()
}

fn not_a_batch(kind: &DataType) -> PyErr {
    PyTypeError::new_err(format!("expected a record batch, received an array of {kind}"))
}

fn damaged(row: usize) -> PyErr {
    PyValueError::new_err(format!("row {row} points outside of the arrays of the batch"))
}
