//! `encode_read_result`: the answer to one query of Prometheus remote read, a message `QueryResult`.
//!
//! Series i has the rows `offsets[i]` to `offsets[i + 1]`, and the labels that a text in the form of
//! `docs/format/labels.md` says. Its metric becomes the label `__name__`, at its place among the names. Labels with an
//! empty value are left out: for Prometheus they do not exist. Values keep their bits. A row that has a native histogram
//! is a sample of that kind; what its value is does not matter.

mod histogram;

use std::ops::Range;

use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array as _, BinaryArray};
use arrow_schema::DataType;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrow_ffi::Array;
use crate::values::Text;
use crate::wire::protobuf::{Malformed, put_bytes, put_varint, varint_length};
use histogram::put_histogram;

const NAME: &[u8] = b"__name__";

#[pyfunction]
#[pyo3(signature = (metric, labels, offsets, times, values, histograms = None))]
pub fn encode_read_result<'py>(
    py: Python<'py>,
    metric: &str,
    labels: Array,
    offsets: Array,
    times: Array,
    values: Array,
    histograms: Option<Array>,
) -> PyResult<Bound<'py, PyBytes>> {
    let Some(text) = Text::new(&labels.0) else {
        let kind = labels.0.data_type();
        return Err(PyTypeError::new_err(format!("labels: expected an array of strings, received {kind}")));
    };
    let (times, values) = (times.values::<Int64Type>("times")?, values.values::<Float64Type>("values")?);
    let offsets = offsets.values::<Int64Type>("offsets")?;
    check_offsets(&offsets, labels.0.len(), times.len(), values.len())?;
    let histograms = histograms.map(|array| binary(&array, times.len())).transpose()?;
    let encoded = py.detach(|| -> Result<_, Malformed> {
        let mut out = Vec::with_capacity(times.len() * 19 + labels.0.len() * 64);
        let (mut series, mut pairs) = (Vec::new(), Vec::new());
        for (row, bounds) in offsets.windows(2).enumerate() {
            let rows = bounds[0] as usize..bounds[1] as usize;
            series.clear();
            put_labels(metric, text.get(row).unwrap_or_default(), &mut pairs, &mut series);
            match &histograms {
                None => put_samples(&times[rows.clone()], &values[rows], &mut series),
                Some(histograms) => put_mixed(rows, &times, &values, histograms, &mut series)?,
            }
            put_bytes(1, &series, &mut out);
        }
        Ok(out)
    });
    Ok(PyBytes::new(py, &encoded?))
}

fn binary(array: &Array, rows: usize) -> PyResult<BinaryArray> {
    let kind = array.0.data_type();
    if *kind != DataType::Binary {
        return Err(PyTypeError::new_err(format!(
            "histograms: expected an array of binary, received {kind}"
        )));
    }
    if array.0.len() != rows {
        return Err(PyValueError::new_err("histograms: there must be as many as rows"));
    }
    Ok(BinaryArray::from(array.0.clone()))
}

/// Samples of both kinds: first those that are floats.
fn put_mixed(
    rows: Range<usize>,
    times: &[i64],
    values: &[f64],
    histograms: &BinaryArray,
    out: &mut Vec<u8>,
) -> Result<(), Malformed> {
    let mut message = Vec::new();
    for row in rows.clone().filter(|&row| histograms.is_null(row)) {
        put_samples(&times[row..=row], &values[row..=row], out);
    }
    for row in rows.filter(|&row| histograms.is_valid(row)) {
        message.clear();
        put_histogram(histograms.value(row), times[row], &mut message)?;
        put_bytes(4, &message, out);
    }
    Ok(())
}

fn check_offsets(offsets: &[i64], series: usize, times: usize, values: usize) -> PyResult<()> {
    let is_ascending = offsets.windows(2).all(|pair| pair[0] <= pair[1]);
    let fits = offsets.first() == Some(&0) && offsets.last() == Some(&(times as i64)) && times == values;
    if offsets.len() != series + 1 || !is_ascending || !fits {
        return Err(PyValueError::new_err("offsets: they do not divide the rows among the series"));
    }
    Ok(())
}

fn put_labels(metric: &str, text: &[u8], pairs: &mut Vec<u8>, out: &mut Vec<u8>) {
    let mut is_named = false;
    for pair in text.split(|&byte| byte == 0).filter(|pair| !pair.is_empty()) {
        let end = pair.iter().position(|&byte| byte == 1).unwrap_or(pair.len());
        let (name, value) = (unescape(&pair[..end]), unescape(pair.get(end + 1..).unwrap_or_default()));
        if !is_named && name.as_slice() > NAME {
            put_label(NAME, metric.as_bytes(), pairs, out);
            is_named = true;
        }
        if !value.is_empty() {
            put_label(&name, &value, pairs, out);
        }
    }
    if !is_named {
        put_label(NAME, metric.as_bytes(), pairs, out);
    }
}

fn put_label(name: &[u8], value: &[u8], pair: &mut Vec<u8>, out: &mut Vec<u8>) {
    pair.clear();
    put_bytes(1, name, pair);
    put_bytes(2, value, pair);
    put_bytes(1, pair, out);
}

fn unescape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            2 => out.push(bytes.next().map_or(2, |escaped| escaped.wrapping_sub(3))),
            _ => out.push(byte),
        }
    }
    out
}

fn put_samples(times: &[i64], values: &[f64], out: &mut Vec<u8>) {
    for (&time, value) in times.iter().zip(values) {
        let length = 9 + 1 + varint_length(time as u64);
        out.push(2 << 3 | 2);
        out.push(length as u8);
        out.push(1 << 3 | 1);
        out.extend_from_slice(&value.to_bits().to_le_bytes());
        out.push(2 << 3);
        put_varint(time as u64, out);
    }
}
