//! `encode_json_rows` and its siblings: the rows of a record batch as text.
//!
//!     rows      [1,"a"],[2,null]
//!     objects   {"n":1,"s":"a"},{"n":2,"s":null}
//!     lines     {"n":1,"s":"a"}␊{"n":2,"s":null}␊
//!     csv       1,a␍␊2,␍␊
//!     table     │ 1 │ "a" │␊ …, every cell filled up to the width of its column
//!
//! What a cell looks like is in `encode_column`. A call writes whole rows from `start` on, until there are
//! `bytes_max` bytes or more, at least one row, and says at which row the next call goes on.

use arrow_array::cast::AsArray;
use arrow_array::{Array as _, ArrayRef, make_array};
use arrow_schema::{DataType, TimeUnit};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrow_ffi::Array;
use crate::encode_column::{Column, Damaged, Form, Written, object_key};
use crate::encode_text::append;

/// What is set aside for a chunk before its size is known.
const RESERVED_BYTES_MAX: usize = 1 << 21;
const RESERVED_BYTES_PER_CELL: usize = 16;

const JSON: Form = Form { is_csv: false, epoch: None };

type Chunk<'py> = (Bound<'py, PyBytes>, usize);

#[pyfunction]
#[pyo3(signature = (batch, *, start = 0, bytes_max = usize::MAX, epoch = None))]
pub fn encode_json_rows<'py>(
    py: Python<'py>,
    batch: Array,
    start: usize,
    bytes_max: usize,
    epoch: Option<&str>,
) -> PyResult<Chunk<'py>> {
    let form = Form { is_csv: false, epoch: epoch.map(parse_unit).transpose()? };
    encode(py, &batch, form, start, bytes_max, |columns, row, is_first, out| {
        out.extend_from_slice(if is_first { b"[" } else { b",[" });
        write_cells(columns, row, out)?;
        out.push(b']');
        Ok(())
    })
}

#[pyfunction]
#[pyo3(signature = (batch, *, start = 0, bytes_max = usize::MAX))]
pub fn encode_json_objects<'py>(
    py: Python<'py>,
    batch: Array,
    start: usize,
    bytes_max: usize,
) -> PyResult<Chunk<'py>> {
    let keys = object_keys(&batch)?;
    encode(py, &batch, JSON, start, bytes_max, |columns, row, is_first, out| {
        if !is_first {
            out.push(b',');
        }
        write_object(&keys, columns, row, out)
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
    let keys = object_keys(&batch)?;
    encode(py, &batch, JSON, start, bytes_max, |columns, row, _, out| {
        write_object(&keys, columns, row, out)?;
        out.push(b'\n');
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
    encode(py, &batch, form, start, bytes_max, |columns, row, _, out| {
        let line = out.len();
        write_cells(columns, row, out)?;
        if out.len() == line {
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
    let DataType::Struct(fields) = batch.0.data_type() else {
        return Err(not_a_batch(batch.0.data_type()));
    };
    if fields.len() != widths.len() {
        return Err(PyValueError::new_err(format!("{} columns, but {} widths", fields.len(), widths.len())));
    }
    encode(py, &batch, JSON, start, bytes_max, |columns, row, _, out| {
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
    batch: &Array,
    form: Form,
    start: usize,
    bytes_max: usize,
    mut write_row: impl FnMut(&mut [Column], usize, bool, &mut Vec<u8>) -> Written + Send,
) -> PyResult<Chunk<'py>> {
    let (mut columns, rows) = open(batch, form)?;
    let (text, next) = py.detach(|| {
        let cells = rows.saturating_sub(start).saturating_mul(columns.len() + 1);
        let expected = cells.saturating_mul(RESERVED_BYTES_PER_CELL);
        let mut out = Vec::with_capacity(expected.min(bytes_max).min(RESERVED_BYTES_MAX));
        let mut row = start;
        while row < rows && (row == start || out.len() < bytes_max) {
            write_row(&mut columns, row, row == start, &mut out).map_err(|Damaged| damaged(row))?;
            row += 1;
        }
        Ok::<_, PyErr>((out, row))
    })?;
    Ok((PyBytes::new(py, &text), next))
}

fn open(batch: &Array, form: Form) -> PyResult<(Vec<Column>, usize)> {
    if !matches!(batch.0.data_type(), DataType::Struct(_)) {
        return Err(not_a_batch(batch.0.data_type()));
    }
    let array: ArrayRef = make_array(batch.0.clone());
    let array = array.as_struct();
    let columns = array.fields().iter().zip(array.columns()).map(|(field, column)| {
        Column::open(field, column, form).map_err(|kind| {
            PyTypeError::new_err(format!("column {:?}: there is no text for values of {kind}", field.name()))
        })
    });
    Ok((columns.collect::<PyResult<_>>()?, array.len()))
}

fn object_keys(batch: &Array) -> PyResult<Vec<Vec<u8>>> {
    let DataType::Struct(fields) = batch.0.data_type() else {
        return Err(not_a_batch(batch.0.data_type()));
    };
    Ok(fields.iter().map(|field| object_key(field.name())).collect())
}

fn write_object(keys: &[Vec<u8>], columns: &mut [Column], row: usize, out: &mut Vec<u8>) -> Written {
    out.push(b'{');
    for (index, (column, key)) in columns.iter_mut().zip(keys).enumerate() {
        if index > 0 {
            out.push(b',');
        }
        append(key, out);
        column.write(row, out)?;
    }
    out.push(b'}');
    Ok(())
}

fn write_cells(columns: &mut [Column], row: usize, out: &mut Vec<u8>) -> Written {
    for (index, column) in columns.iter_mut().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        column.write(row, out)?;
    }
    Ok(())
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
