//! `LineParser`: the InfluxDB line protocol, from the bytes of a body to columns per measurement.
//!
//!     measurement[,tag=value…] field=value[,field=value…] [timestamp]
//!
//! - Lines end with LF, CR LF or the body. Blank lines and lines that begin with `#` hold nothing. Spaces before a
//!   line, behind it, and more than one between its parts mean nothing.
//! - In measurements `\,` and `\ ` stand for what follows the backslash; in names and values of tags and names of
//!   fields `\=` does too. Any other backslash is itself.
//! - A value is a float `1`, `-1.5e3`, `.5`; an integer `1i`, `1u`; a boolean `t`, `T`, `true`, `True`, `TRUE`, or the
//!   same of false; or text in double quotes, in which `\"` and `\\` stand for `"` and `\` and line feeds for themselves.
//!   There is no NaN and no infinity.
//! - A timestamp is an integer, times `factor`; without one the row has the default time.
//! - Refused: a tag or field that a line has twice, a tag without a value, a field with two types in one body, a name
//!   that is a tag and a field in one body, numbers out of range, bytes that are not UTF-8. The first such place ends the
//!   reading, with line and column.
//! - Refused as well, because a small body must not take all memory: more than `CELLS_MAX` values, and more bytes of new
//!   keys than the parser may keep at all.
//!
//! The parser keeps the keys it has seen (see `series`): for a key it knows it does not look at the tags. When they are
//! more than it may keep, the next body begins with an empty table, a new *generation*.

mod columns;
mod number;
mod scan;
mod series;
mod tags;

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::types::{Int64Type, UInt8Type, UInt32Type};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrow_ffi::{Array, ArrowArray};
use crate::errors::malformed_line;
use columns::Finished;
use scan::{Bad, Limits, Times, parse_body};
use series::SeriesTable;
use tags::{pack_tags, tag_columns};

/// Values of one body, counting those that rows lack: half a gigabyte of numbers.
const CELLS_MAX: usize = 1 << 26;

/// Numbers the tables of all parsers of the process.
static GENERATIONS: AtomicU64 = AtomicU64::new(1);

/// A parser of the line protocol that remembers series between bodies. Any thread may use it at any time.
#[pyclass(frozen, module = "tsdb._kernels")]
pub struct LineParser {
    keys_max: usize,
    bytes_max: usize,
    table: Mutex<Arc<SeriesTable>>,
}

/// The tags of the series of one measurement, by their numbers.
#[derive(Clone)]
#[pyclass(frozen, module = "tsdb._kernels")]
pub struct LineTags {
    table: Arc<SeriesTable>,
    measurement: u32,
}

/// The rows of one measurement of a body.
#[pyclass(frozen, module = "tsdb._kernels")]
pub struct LineRows {
    #[pyo3(get)]
    tags: LineTags,
    #[pyo3(get)]
    name: String,
    #[pyo3(get)]
    series_bound: usize,
    #[pyo3(get)]
    tag_names: Vec<String>,
    #[pyo3(get)]
    columns: Vec<String>,
    #[pyo3(get)]
    series: ArrowArray,
    #[pyo3(get)]
    index: ArrowArray,
    #[pyo3(get)]
    times: ArrowArray,
    #[pyo3(get)]
    lines: ArrowArray,
    #[pyo3(get)]
    fields: ArrowArray,
}

#[pymethods]
impl LineParser {
    #[new]
    fn new(keys_max: usize, bytes_max: usize) -> Self {
        Self { keys_max, bytes_max, table: Mutex::new(new_table()) }
    }

    #[pyo3(signature = (body, *, factor, default_time))]
    fn parse(&self, py: Python<'_>, body: &[u8], factor: i64, default_time: i64) -> PyResult<Vec<LineRows>> {
        py.detach(|| {
            let table = self.current();
            let times = Times { factor, default: default_time };
            let limits = Limits { cells: CELLS_MAX, learnt_bytes: self.bytes_max };
            let finished = parse_body(body, &table, &times, &limits).map_err(refuse)?;
            Ok(finished.into_iter().map(|rows| LineRows::new(table.clone(), rows)).collect())
        })
    }

    /// Forgets all keys.
    fn reset(&self) {
        *self.table.lock().unwrap_or_else(PoisonError::into_inner) = new_table();
    }

    /// How many keys are known.
    #[getter]
    fn keys(&self) -> usize {
        self.table.lock().unwrap_or_else(PoisonError::into_inner).read().keys()
    }

    #[getter]
    fn nbytes(&self) -> usize {
        self.table.lock().unwrap_or_else(PoisonError::into_inner).read().nbytes()
    }
}

impl LineParser {
    /// The table for the next body: an empty one if that of the last has become too large.
    fn current(&self) -> Arc<SeriesTable> {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = {
            let known = table.read();
            known.keys() > self.keys_max || known.nbytes() > self.bytes_max
        };
        if is_full {
            *table = new_table();
        }
        table.clone()
    }
}

impl LineRows {
    fn new(table: Arc<SeriesTable>, rows: Finished) -> Self {
        Self {
            tags: LineTags { table, measurement: rows.measurement },
            name: rows.name,
            series_bound: rows.series_bound,
            tag_names: rows.tag_names,
            columns: rows.columns,
            series: ArrowArray::from_values::<UInt32Type>(rows.series),
            index: ArrowArray::from_values::<UInt32Type>(rows.index),
            times: ArrowArray::from_values::<Int64Type>(rows.times),
            lines: ArrowArray::from_values::<Int64Type>(rows.lines),
            fields: ArrowArray::from_columns(rows.fields),
        }
    }
}

#[pymethods]
impl LineRows {
    /// Whose numbers `series` are.
    #[getter]
    fn source(&self) -> (u64, u32) {
        (self.tags.table.generation, self.tags.measurement)
    }

    fn __len__(&self) -> usize {
        self.times.__len__()
    }
}

#[pymethods]
impl LineTags {
    fn read(&self, py: Python<'_>, series: Array) -> PyResult<Vec<(String, ArrowArray)>> {
        let numbers = series.values::<UInt32Type>("series")?;
        let columns =
            py.detach(|| tag_columns(&self.table.read().measurements[self.measurement as usize], &numbers));
        let columns =
            columns.ok_or_else(|| PyValueError::new_err("series: a number that was never given"))?;
        Ok(columns.into_iter().map(|(name, data)| (name, ArrowArray::from_data(data))).collect())
    }

    fn pack(&self, py: Python<'_>, series: Array, names: Vec<String>) -> PyResult<ArrowArray> {
        let numbers = series.values::<UInt32Type>("series")?;
        let known =
            || pack_tags(&self.table.read().measurements[self.measurement as usize], &numbers, &names);
        let packed = py.detach(known);
        let packed = packed.ok_or_else(|| PyValueError::new_err("series: a number that was never given"))?;
        Ok(ArrowArray::from_values::<UInt8Type>(packed))
    }
}

fn new_table() -> Arc<SeriesTable> {
    let seed = RandomState::new().hash_one(0);
    Arc::new(SeriesTable::new(GENERATIONS.fetch_add(1, Ordering::Relaxed), seed))
}

fn refuse(bad: Bad) -> PyErr {
    malformed_line(bad.message, bad.line, bad.column)
}
