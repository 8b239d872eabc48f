//! `encode_mysql_rows`: the rows of a record batch as packets of MySQL's result sets.
//!
//! A packet has its length in three bytes, a number that counts packets, and what it carries:
//!
//!     text      for every column a text behind its length, 0xfb for a null
//!     binary    0x00, a bit for every column that is null from the third bit on, the cells of the others
//!
//! What a cell looks like is in `cells`. Longer packets are cut into pieces of 2^24 - 1 bytes, the last of which is
//! shorter, be it empty. A call writes whole rows from `start` on, until there are `bytes_max` bytes or more, at least one
//! row, and says at which row, and with which number, the next call goes on.

use arrow_array::cast::AsArray;
use arrow_array::{Array as _, ArrayRef, make_array};
use arrow_schema::DataType;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrow_ffi::Array;
use crate::errors::{unsupported_type, unsupported_value};
use crate::wire::mysql::cells::{Column, Problem, Written};

/// A piece of a packet carries at most this much; one that carries as much is followed by another.
const PIECE_BYTES: usize = (1 << 24) - 1;
const HEADER_BYTES: usize = 4;
const NULL: u8 = 0xfb;
/// The bits of nulls in a binary row begin behind two that are not used.
const NULL_BITS_SKIPPED: usize = 2;

const RESERVED_BYTES_MAX: usize = 1 << 21;
const RESERVED_BYTES_PER_CELL: usize = 12;

#[pyfunction]
#[pyo3(signature = (batch, sequence, *, is_binary = false, start = 0, bytes_max = usize::MAX))]
pub fn encode_mysql_rows<'py>(
    py: Python<'py>,
    batch: Array,
    sequence: u8,
    is_binary: bool,
    start: usize,
    bytes_max: usize,
) -> PyResult<(Bound<'py, PyBytes>, usize, u8)> {
    let (mut columns, rows) = open(&batch, is_binary)?;
    let mut sequence = sequence;
    let (packets, next) = py.detach(|| {
        let expected = rows
            .saturating_sub(start)
            .saturating_mul(columns.len() + 1)
            .saturating_mul(RESERVED_BYTES_PER_CELL);
        let mut out = Vec::with_capacity(expected.min(bytes_max).min(RESERVED_BYTES_MAX));
        let mut row = start;
        while row < rows && (row == start || out.len() < bytes_max) {
            let begin = out.len();
            out.extend_from_slice(&[0; HEADER_BYTES]);
            let written = if is_binary {
                write_binary(&mut columns, row, &mut out)
            } else {
                write_text(&mut columns, row, &mut out)
            };
            written.map_err(|problem| explain(problem, row))?;
            sequence = finish_packet(&mut out, begin, sequence);
            row += 1;
        }
        Ok::<_, PyErr>((out, row))
    })?;
    Ok((PyBytes::new(py, &packets), next, sequence))
}

fn open(batch: &Array, is_binary: bool) -> PyResult<(Vec<Column>, usize)> {
    if !matches!(batch.0.data_type(), DataType::Struct(_)) {
        return Err(PyTypeError::new_err(format!(
            "expected a record batch, received an array of {}",
            batch.0.data_type()
        )));
    }
    let array: ArrayRef = make_array(batch.0.clone());
    let array = array.as_struct();
    let columns = array.fields().iter().zip(array.columns()).map(|(field, column)| {
        Column::open(field, column, is_binary)
            .map_err(|kind| unsupported_type("there is no form", field.name(), &kind))
    });
    Ok((columns.collect::<PyResult<_>>()?, array.len()))
}

fn write_text(columns: &mut [Column], row: usize, out: &mut Vec<u8>) -> Written {
    for column in columns {
        if column.is_null(row) {
            out.push(NULL);
        } else {
            column.write(row, out)?;
        }
    }
    Ok(())
}

fn write_binary(columns: &mut [Column], row: usize, out: &mut Vec<u8>) -> Written {
    out.push(0);
    let bits = out.len();
    out.resize(bits + (columns.len() + NULL_BITS_SKIPPED).div_ceil(8), 0);
    for (index, column) in columns.iter_mut().enumerate() {
        if column.is_null(row) {
            let bit = index + NULL_BITS_SKIPPED;
            out[bits + bit / 8] |= 1 << (bit % 8);
        } else {
            column.write(row, out)?;
        }
    }
    Ok(())
}

/// Writes the header of a packet that begins at `begin`, cuts it if it is too long, and returns the next number.
fn finish_packet(out: &mut Vec<u8>, begin: usize, sequence: u8) -> u8 {
    let size = out.len() - begin - HEADER_BYTES;
    if size < PIECE_BYTES {
        write_header(&mut out[begin..], size, sequence);
        return sequence.wrapping_add(1);
    }
    let whole = out.split_off(begin + HEADER_BYTES);
    out.truncate(begin);
    let mut number = sequence;
    // One piece more than there are full ones: the last may be empty.
    for piece in 0..=size / PIECE_BYTES {
        let carried = &whole[piece * PIECE_BYTES..size.min((piece + 1) * PIECE_BYTES)];
        let at = out.len();
        out.extend_from_slice(&[0; HEADER_BYTES]);
        write_header(&mut out[at..], carried.len(), number);
        out.extend_from_slice(carried);
        number = number.wrapping_add(1);
    }
    number
}

fn write_header(out: &mut [u8], size: usize, sequence: u8) {
    out[..3].copy_from_slice(&(size as u32).to_le_bytes()[..3]);
    out[3] = sequence;
}

fn explain(problem: Problem, row: usize) -> PyErr {
    match problem {
        Problem::Damaged => {
            PyValueError::new_err(format!("row {row} points outside of the arrays of the batch"))
        }
        Problem::Year(year) => unsupported_value(format!("the year {year} is outside of 0 to 9999"), row),
    }
}
