//! `prom_json`: a matrix of series and steps as the JSON of Prometheus' HTTP API.
//!
//! Each series with a value is `{"metric":…,"values":[[1.5,"2"],…]}`, or with `is_instant` `{"metric":…,"value":[1.5,"2"]}`;
//! there are commas between them, `head` before and `tail` behind all of them. `metrics` has the JSON of each series' labels. Times are milliseconds, written as
//! seconds. A cell of `cells` that is not -1 is a histogram of `pool`; they come as `histograms` beside `values`, which is
//! left out where all are histograms, or as `histogram`. Values are the shortest text that reads back the same, with an exponent below 1e-6 and from 1e21 on.

use std::io::Write;

use arrow_array::types::{Float64Type, Int64Type, UInt8Type};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::DataType;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrow_ffi::{Array, ArrowArray};
use crate::prom::histogram::pool::Histograms;
use crate::prom::histogram::text::write_json;
use crate::values::Text;
use crate::wire::text::value::json_string;
use crate::workers::workers;

/// How many threads one call may use, and from how many cells on.
const WORKERS_MAX: usize = 4;
const PARALLEL_CELLS_MIN: usize = 32_768;

/// The cells of one series.
struct Row<'a> {
    values: &'a [f64],
    present: &'a [u8],
    /// Empty if there are no histograms at all.
    cells: &'a [i32],
    pool: Option<&'a Histograms>,
}

#[pyfunction]
#[pyo3(signature = (metrics, values, present, times, is_instant, pool = None, cells = None, *, head = None, tail = None))]
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
    head: Option<&[u8]>,
    tail: Option<&[u8]>,
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
    let pieces = py.detach(|| encode(&text, rows, &whole, &times, is_instant));
    join(py, head.unwrap_or(b""), &pieces, tail.unwrap_or(b""))
}

/// Puts pieces together, with commas between those that are not empty.
fn join<'py>(py: Python<'py>, head: &[u8], pieces: &[Vec<u8>], tail: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let filled: Vec<&[u8]> = pieces.iter().filter(|piece| !piece.is_empty()).map(Vec::as_slice).collect();
    let size = filled.iter().map(|piece| piece.len()).sum::<usize>() + filled.len().saturating_sub(1);
    PyBytes::new_with(py, head.len() + size + tail.len(), |out| {
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            out[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(head);
        for (number, piece) in filled.iter().enumerate() {
            if number > 0 {
                put(b",");
            }
            put(piece);
        }
        put(tail);
        Ok(())
    })
}

/// The JSON of rows, by several threads if there is much of it.
fn encode(metrics: &Text, rows: usize, whole: &Row, times: &[i64], is_instant: bool) -> Vec<Vec<u8>> {
    let stamps = Stamps::new(times);
    let workers = workers(WORKERS_MAX);
    if whole.values.len() < PARALLEL_CELLS_MIN || workers < 2 || rows < 2 {
        return vec![encode_rows(metrics, 0..rows, whole, &stamps, is_instant)];
    }
    let share = rows.div_ceil(workers);
    let cut = |number: usize| (number * share).min(rows)..((number + 1) * share).min(rows);
    std::thread::scope(|scope| {
        let stamps = &stamps;
        let others: Vec<_> = (1..workers)
            .map(|number| scope.spawn(move || encode_rows(metrics, cut(number), whole, stamps, is_instant)))
            .collect();
        let mut pieces = vec![encode_rows(metrics, cut(0), whole, stamps, is_instant)];
        pieces.extend(others.into_iter().map(|other| match other.join() {
            Ok(piece) => piece,
            Err(panic) => std::panic::resume_unwind(panic),
        }));
        pieces
    })
}

fn encode_rows(
    metrics: &Text,
    rows: std::ops::Range<usize>,
    whole: &Row,
    stamps: &Stamps,
    is_instant: bool,
) -> Vec<u8> {
    let columns = stamps.len();
    let mut out = Vec::with_capacity(rows.len() * (columns * 36 + 256));
    for row in rows {
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
        if series.cells.is_empty() && !is_instant {
            write_floats(&mut out, &series, stamps);
        } else {
            for is_histogram in [false, true] {
                write_series(&mut out, &series, stamps, is_instant, is_histogram);
            }
        }
        out.push(b'}');
    }
    out
}

/// Writes the values of a series that has no histograms.
fn write_floats(out: &mut Vec<u8>, row: &Row, stamps: &Stamps) {
    out.extend_from_slice(b",\"values\":[");
    for (column, (&value, &has)) in row.values.iter().zip(row.present).enumerate() {
        if has != 0 {
            out.extend_from_slice(stamps.get(column));
            write_value(out, value);
            out.extend_from_slice(b"\"],");
        }
    }
    // There is a value, so there is a comma too many.
    out.pop();
    out.push(b']');
}

/// What stands before each value: `[1.5,"`.
struct Stamps {
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl Stamps {
    fn new(times: &[i64]) -> Self {
        let (mut text, mut ends) = (Vec::with_capacity(times.len() * 16), vec![0]);
        for &ms in times {
            text.push(b'[');
            write_stamp(&mut text, ms);
            text.extend_from_slice(b",\"");
            ends.push(text.len());
        }
        Self { text, ends }
    }

    fn len(&self) -> usize {
        self.ends.len() - 1
    }

    fn get(&self, column: usize) -> &[u8] {
        &self.text[self.ends[column]..self.ends[column + 1]]
    }

    /// Without the quotation mark, for what is not a text.
    fn bare(&self, column: usize) -> &[u8] {
        &self.text[self.ends[column]..self.ends[column + 1] - 1]
    }
}

/// Writes the floats of a series, or its histograms.
fn write_series(out: &mut Vec<u8>, row: &Row, stamps: &Stamps, is_instant: bool, is_histogram: bool) {
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
        match row.cells.get(column).and_then(|&cell| row.pool?.get(cell)) {
            Some(histogram) => {
                out.extend_from_slice(stamps.bare(column));
                write_json(out, histogram);
                out.push(b']');
            }
            None => {
                out.extend_from_slice(stamps.get(column));
                write_value(out, row.values[column]);
                out.extend_from_slice(b"\"]");
            }
        }
    }
    if !is_first && !is_instant {
        out.push(b']');
    }
}

fn write_stamp(out: &mut Vec<u8>, ms: i64) {
    let (seconds, millis) = (ms.unsigned_abs() / 1000, ms.unsigned_abs() % 1000);
    if ms < 0 {
        out.push(b'-');
    }
    write_integer(out, seconds);
    if millis > 0 {
        let _ = write!(out, ".{millis:03}");
    }
}

fn write_integer(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    while number >= 10 {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    at -= 1;
    digits[at] = b'0' + number as u8;
    out.extend_from_slice(&digits[at..]);
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
    if size < 9e15 && value == value as i64 as f64 {
        // An integer; the sign of a negative zero is kept.
        if value.is_sign_negative() {
            out.push(b'-');
        }
        return write_integer(out, size as u64);
    }
    let mut buffer = zmij::Buffer::new();
    let text = buffer.format_finite(value);
    if !(1e-4..1e15).contains(&size) && text.contains('e') {
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

/// The labels of each series as a JSON object: label i is `names[i]`, and of series j `values[i][codes[i][j]]`. Code 0 stands for
/// a label that a series does not have.
#[pyfunction]
pub fn prom_labels(
    py: Python<'_>,
    names: Vec<String>,
    values: Vec<Array>,
    codes: Vec<Array>,
    rows: usize,
) -> PyResult<ArrowArray> {
    if names.len() != values.len() || names.len() != codes.len() {
        return Err(PyValueError::new_err("there must be values and codes for each name"));
    }
    let mut columns = Vec::with_capacity(names.len());
    for ((name, values), codes) in names.iter().zip(&values).zip(&codes) {
        let text = Text::new(&values.0)
            .ok_or_else(|| PyValueError::new_err("values: expected arrays of strings"))?;
        let codes = codes.values::<Int64Type>("codes")?;
        if codes.len() != rows {
            return Err(PyValueError::new_err("codes: there must be one for each series"));
        }
        let mut key = vec![];
        json_string(name.as_bytes(), &mut key);
        key.push(b':');
        columns.push((key, text, codes));
    }
    let (offsets, out) = py.detach(|| {
        let (mut offsets, mut out) = (Vec::with_capacity(rows + 1), Vec::with_capacity(rows * 192));
        offsets.push(0_i64);
        for row in 0..rows {
            out.push(b'{');
            for (key, text, codes) in &columns {
                let code = codes[row];
                let value =
                    usize::try_from(code).ok().filter(|&code| code > 0).and_then(|code| text.get(code));
                if let Some(value) = value {
                    if out.last() != Some(&b'{') {
                        out.push(b',');
                    }
                    out.extend_from_slice(key);
                    json_string(value, &mut out);
                }
            }
            out.push(b'}');
            offsets.push(out.len() as i64);
        }
        (offsets, out)
    });
    let data = ArrayData::builder(DataType::LargeUtf8)
        .len(rows)
        .add_buffer(Buffer::from_vec(offsets))
        .add_buffer(Buffer::from_vec(out))
        .build();
    data.map(ArrowArray::from_data).map_err(|error| PyValueError::new_err(error.to_string()))
}
