//! `prom_json`: a matrix of series and steps as the JSON of Prometheus' HTTP API.
//!
//! Each series with a value is `{"metric":…,"values":[[1.5,"2"],…]}`, or with `is_instant` `{"metric":…,"value":[1.5,"2"]}`;
//! there are commas between them. `metrics` has the JSON of each series' labels. Times are milliseconds, written as
//! seconds. A cell of `cells` that is not -1 is a histogram of `pool`; they come as `histograms` beside `values`, which is
//! left out where all are histograms, or as `histogram`. Values are the shortest text that reads back the same, with an exponent below 1e-6 and from 1e21 on.

use std::io::Write;

use arrow_array::types::{Float64Type, Int64Type, UInt8Type};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrow_ffi::Array;
use crate::histogram::pool::Histograms;
use crate::histogram::text::write_json;
use crate::values::Text;

/// The cells of one series.
struct Row<'a> {
    values: &'a [f64],
    present: &'a [u8],
    /// Empty if there are no histograms at all.
    cells: &'a [i32],
    pool: Option<&'a Histograms>,
}

#[pyfunction]
#[pyo3(signature = (metrics, values, present, times, is_instant, pool = None, cells = None))]
#[allow(clippy::too_many_arguments)]
pub fn prom_json<'py>(
    py: Python<'py>,
    metrics: Array,
    values: Array,
    present: Array,
    times: Array,
    is_instant: bool,
    pool: Option<&Histograms>,
    cells: Option<Array>,
) -> PyResult<Bound<'py, PyBytes>> {
    let text = Text::new(&metrics.0)
        .ok_or_else(|| PyValueError::new_err("metrics: expected an array of strings"))?;
    let (values, present) =
        (values.values::<Float64Type>("values")?, present.values::<UInt8Type>("present")?);
    let times = times.values::<Int64Type>("times")?;
    let rows = metrics.0.len();
    if values.len() != present.len() || values.len() != rows * times.len() {
        return Err(PyValueError::new_err("values and present must have a cell for each series and time"));
    }
    let cells = match (pool, &cells) {
        (Some(pool), Some(cells)) => pool.cells(cells)?,
        _ => Vec::new(),
    };
    if !cells.is_empty() && cells.len() != values.len() {
        return Err(PyValueError::new_err("cells: there must be one for each series and time"));
    }
    let whole = Row { values: &values, present: &present, cells: &cells, pool };
    let out = py.detach(|| encode(&text, rows, &whole, &times, is_instant));
    Ok(PyBytes::new(py, &out))
}

fn encode(metrics: &Text, rows: usize, whole: &Row, times: &[i64], is_instant: bool) -> Vec<u8> {
    let stamps: Vec<Vec<u8>> = times.iter().map(|&ms| stamp(ms)).collect();
    let columns = times.len();
    let mut out = Vec::with_capacity(whole.values.len() * 24 + rows * 64);
    for row in 0..rows {
        let cells = row * columns..(row + 1) * columns;
        let series = Row {
            values: &whole.values[cells.clone()],
            present: &whole.present[cells.clone()],
            cells: whole.cells.get(cells).unwrap_or(&[]),
            pool: whole.pool,
        };
        if series.present.iter().all(|&has| has == 0) {
            continue;
        }
        if !out.is_empty() {
            out.push(b',');
        }
        out.extend_from_slice(b"{\"metric\":");
        out.extend_from_slice(metrics.get(row).unwrap_or(b"{}"));
        for is_histogram in [false, true] {
            write_series(&mut out, &series, &stamps, is_instant, is_histogram);
        }
        out.push(b'}');
    }
    out
}

/// Writes the floats of a series, or its histograms.
fn write_series(out: &mut Vec<u8>, row: &Row, stamps: &[Vec<u8>], is_instant: bool, is_histogram: bool) {
    let is_wanted = |&column: &usize| {
        row.present[column] != 0 && (row.cells.get(column).is_some_and(|&cell| cell >= 0)) == is_histogram
    };
    let mut is_first = true;
    for column in (0..row.values.len()).filter(is_wanted) {
        out.extend_from_slice(match (is_first, is_instant, is_histogram) {
            (false, _, _) => b",",
            (true, true, false) => b",\"value\":",
            (true, true, true) => b",\"histogram\":",
            (true, false, false) => b",\"values\":[",
            (true, false, true) => b",\"histograms\":[",
        });
        is_first = false;
        out.push(b'[');
        out.extend_from_slice(&stamps[column]);
        match row.cells.get(column).and_then(|&cell| row.pool?.get(cell)) {
            Some(histogram) => {
                out.push(b',');
                write_json(out, histogram);
                out.push(b']');
            }
            None => {
                out.extend_from_slice(b",\"");
                write_value(out, row.values[column]);
                out.extend_from_slice(b"\"]");
            }
        }
    }
    if !is_first && !is_instant {
        out.push(b']');
    }
}

fn stamp(ms: i64) -> Vec<u8> {
    let mut out = Vec::new();
    let (sign, rest) = if ms < 0 { ("-", ms.unsigned_abs()) } else { ("", ms as u64) };
    let (seconds, millis) = (rest / 1000, rest % 1000);
    let _ =
        if millis == 0 { write!(out, "{sign}{seconds}") } else { write!(out, "{sign}{seconds}.{millis:03}") };
    out
}

pub fn write_value(out: &mut Vec<u8>, value: f64) {
    if value.is_nan() {
        return out.extend_from_slice(b"NaN");
    }
    if value.is_infinite() {
        return out.extend_from_slice(if value > 0.0 { b"+Inf" } else { b"-Inf" });
    }
    let size = value.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        return write_exponent(out, value);
    }
    if value == value.trunc() && size < 9e15 {
        // An integer; the sign of a negative zero is kept.
        let _ = if value == 0.0 && value.is_sign_negative() {
            write!(out, "-0")
        } else {
            write!(out, "{}", value as i64)
        };
        return;
    }
    let mut buffer = zmij::Buffer::new();
    let text = buffer.format_finite(value);
    if text.contains('e') {
        let _ = write!(out, "{value}");
    } else {
        out.extend_from_slice(text.as_bytes());
    }
}

/// `1e+21`, `2.5e-07`: at least two digits in the exponent.
fn write_exponent(out: &mut Vec<u8>, value: f64) {
    let text = format!("{value:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if exponent < 0 { '-' } else { '+' };
    let _ = write!(out, "{mantissa}e{sign}{:02}", exponent.abs());
}
