//! `encode_postgres_rows` and `encode_postgres_copy`: the rows of a record batch as messages of PostgreSQL's protocol.
//!
//!     rows      D length columns (length cell)…      or d … in place of D: a row of COPY in binary
//!     copy      d length line                        a line of COPY in text or CSV
//!
//! What a cell looks like is in `cells`. A call writes whole rows from `start` on, until there are
//! `bytes_max` bytes or more, at least one row, and says at which row the next call goes on.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrow_ffi::Array;
use crate::wire::postgres::cells::{Column, Look, open_batch, sized};
use crate::wire::postgres::text::Style;
use crate::wire::text::column::{Damaged, Written};

const RESERVED_BYTES_MAX: usize = 1 << 21;
const RESERVED_BYTES_PER_CELL: usize = 16;

type Chunk<'py> = (Bound<'py, PyBytes>, usize);

#[pyfunction]
#[pyo3(signature = (batch, *, binary, style, is_copy = false, start = 0, bytes_max = usize::MAX))]
pub fn encode_postgres_rows<'py>(
    py: Python<'py>,
    batch: Array,
    binary: Vec<bool>,
    style: &str,
    is_copy: bool,
    start: usize,
    bytes_max: usize,
) -> PyResult<Chunk<'py>> {
    let style = parse_style(style)?;
    let looks: Vec<Look> = binary.into_iter().map(|is_binary| Look { is_binary, style }).collect();
    let tag = if is_copy { b'd' } else { b'D' };
    encode(py, &batch, &looks, tag, start, bytes_max, |columns, row, out| {
        out.extend_from_slice(&(columns.len() as i16).to_be_bytes());
        columns.iter_mut().try_for_each(|column| sized(column, row, out))
    })
}

#[pyfunction]
#[pyo3(signature = (
    batch, *, style, delimiter, null, quote = None, escape = b'"', forced = Vec::new(), start = 0, bytes_max = usize::MAX
))]
#[expect(clippy::too_many_arguments, reason = "each is an option of COPY")]
pub fn encode_postgres_copy<'py>(
    py: Python<'py>,
    batch: Array,
    style: &str,
    delimiter: u8,
    null: &[u8],
    quote: Option<u8>,
    escape: u8,
    forced: Vec<bool>,
    start: usize,
    bytes_max: usize,
) -> PyResult<Chunk<'py>> {
    let look = Look { is_binary: false, style: parse_style(style)? };
    let looks = vec![look; batch.0.child_data().len()];
    let mut cell = Vec::new();
    encode(py, &batch, &looks, b'd', start, bytes_max, |columns, row, out| {
        let is_alone = columns.len() == 1;
        for (index, column) in columns.iter_mut().enumerate() {
            if index > 0 {
                out.push(delimiter);
            }
            if column.is_null(row) {
                out.extend_from_slice(null);
                continue;
            }
            cell.clear();
            column.write(row, &mut cell)?;
            match quote {
                None => copy_text(&cell, delimiter, out),
                Some(quote) => {
                    let is_forced = forced.get(index) == Some(&true);
                    let must = is_forced || needs_quotes(&cell, delimiter, quote, null, is_alone);
                    copy_csv(&cell, must, quote, escape, out);
                }
            }
        }
        out.push(b'\n');
        Ok(())
    })
}

/// A field of COPY's text form.
fn copy_text(cell: &[u8], delimiter: u8, out: &mut Vec<u8>) {
    for &byte in cell {
        let letter = match byte {
            b'\\' => b'\\',
            0x08 => b'b',
            0x09 => b't',
            0x0a => b'n',
            0x0b => b'v',
            0x0c => b'f',
            0x0d => b'r',
            _ if byte == delimiter => byte,
            _ => {
                out.push(byte);
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', letter]);
    }
}

/// Whether a field would be misread without quotes: as several, as a null, or as the end of the data.
fn needs_quotes(cell: &[u8], delimiter: u8, quote: u8, null: &[u8], is_alone: bool) -> bool {
    cell == null
        || (is_alone && cell == b"\\.")
        || cell.iter().any(|&byte| byte == delimiter || byte == quote || matches!(byte, b'\r' | b'\n'))
}

fn copy_csv(cell: &[u8], is_quoted: bool, quote: u8, escape: u8, out: &mut Vec<u8>) {
    if !is_quoted {
        out.extend_from_slice(cell);
        return;
    }
    out.push(quote);
    for &byte in cell {
        if byte == quote || byte == escape {
            out.push(escape);
        }
        out.push(byte);
    }
    out.push(quote);
}

fn parse_style(words: &str) -> PyResult<Style> {
    Style::parse(words).map_err(|word| PyValueError::new_err(format!("style: unknown word {word:?}")))
}

fn encode<'py>(
    py: Python<'py>,
    batch: &Array,
    looks: &[Look],
    tag: u8,
    start: usize,
    bytes_max: usize,
    mut write_row: impl FnMut(&mut [Column], usize, &mut Vec<u8>) -> Written + Send,
) -> PyResult<Chunk<'py>> {
    let (mut columns, rows) = open_batch(&batch.0, looks)?;
    let (bytes, next) = py.detach(|| {
        let cells = rows.saturating_sub(start).saturating_mul(columns.len() + 1);
        let expected = cells.saturating_mul(RESERVED_BYTES_PER_CELL);
        let mut out = Vec::with_capacity(expected.min(bytes_max).min(RESERVED_BYTES_MAX));
        let mut row = start;
        while row < rows && (row == start || out.len() < bytes_max) {
            let begin = out.len();
            out.extend_from_slice(&[tag, 0, 0, 0, 0]);
            write_row(&mut columns, row, &mut out).map_err(|Damaged| damaged(row))?;
            let Ok(length) = i32::try_from(out.len() - begin - 1) else {
                return Err(PyValueError::new_err(format!("row {row} is too large for one message")));
            };
            out[begin + 1..begin + 5].copy_from_slice(&length.to_be_bytes());
            row += 1;
        }
        Ok::<_, PyErr>((out, row))
    })?;
    Ok((PyBytes::new(py, &bytes), next))
}

fn damaged(row: usize) -> PyErr {
    PyValueError::new_err(format!("row {row} points outside of the arrays of the batch"))
}
