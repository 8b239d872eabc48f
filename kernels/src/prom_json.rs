//! `prom_json`: a matrix of series and steps as the JSON of Prometheus' HTTP API.
//!
//! Each series with a value is `{"metric":…,"values":[[1.5,"2"],…]}`, or with `is_instant` `{"metric":…,"value":[1.5,"2"]}`;
//! there are commas between them. `metrics` has the JSON of each series' labels. Times are milliseconds, written as
//! seconds. Values are the shortest text that reads back the same, with an exponent below 1e-6 and from 1e21 on.

use std::io::Write;

use arrow_array::types::{Float64Type, Int64Type, UInt8Type};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrow_ffi::Array;
use crate::values::Text;

#[pyfunction]
pub fn prom_json<'py>(
    py: Python<'py>,
    metrics: Array,
    values: Array,
    present: Array,
    times: Array,
    is_instant: bool,
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
    let out = py.detach(|| encode(&text, rows, &values, &present, &times, is_instant));
    Ok(PyBytes::new(py, &out))
}

fn encode(
    metrics: &Text,
    rows: usize,
    values: &[f64],
    present: &[u8],
    times: &[i64],
    is_instant: bool,
) -> Vec<u8> {
    let stamps: Vec<Vec<u8>> = times.iter().map(|&ms| stamp(ms)).collect();
    let columns = times.len();
    let mut out = Vec::with_capacity(values.len() * 24 + rows * 64);
    for row in 0..rows {
        let cells = row * columns..(row + 1) * columns;
        let (values, present) = (&values[cells.clone()], &present[cells]);
        if present.iter().all(|&has| has == 0) {
            continue;
        }
        if !out.is_empty() {
            out.push(b',');
        }
        out.extend_from_slice(b"{\"metric\":");
        out.extend_from_slice(metrics.get(row).unwrap_or(b"{}"));
        out.extend_from_slice(if is_instant { b",\"value\":" } else { b",\"values\":[" });
        let mut is_first = true;
        for column in (0..columns).filter(|&column| present[column] != 0) {
            if !is_first {
                out.push(b',');
            }
            is_first = false;
            out.push(b'[');
            out.extend_from_slice(&stamps[column]);
            out.extend_from_slice(b",\"");
            write_value(&mut out, values[column]);
            out.extend_from_slice(b"\"]");
        }
        out.extend_from_slice(if is_instant { b"}" } else { b"]}" });
    }
    out
}

fn stamp(ms: i64) -> Vec<u8> {
    let mut out = Vec::new();
    let (sign, rest) = if ms < 0 { ("-", ms.unsigned_abs()) } else { ("", ms as u64) };
    let (seconds, millis) = (rest / 1000, rest % 1000);
    let _ =
        if millis == 0 { write!(out, "{sign}{seconds}") } else { write!(out, "{sign}{seconds}.{millis:03}") };
    out
}

fn write_value(out: &mut Vec<u8>, value: f64) {
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
