//! The key columns that the kernels of the region engine share: series, time, sequence.
//!
//! A series is a `uint32` (rank) or a `uint64` (id); a time is an `int64` or a timestamp of any unit, read as
//! its number. None of them has nulls, and all columns of one call have the same length.

use arrow_array::types::{UInt32Type, UInt64Type};
use arrow_buffer::ScalarBuffer;
use arrow_schema::DataType;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::arrow_ffi::{Array, refuse_nulls};

/// A series as a kernel sees it: something to compare.
pub trait SeriesId: Copy + Ord + Into<u64> + Send + Sync {}
impl SeriesId for u32 {}
impl SeriesId for u64 {}

pub enum Series {
    Narrow(ScalarBuffer<u32>),
    Wide(ScalarBuffer<u64>),
}

impl Series {
    pub fn new(array: &Array) -> PyResult<Self> {
        match array.0.data_type() {
            DataType::UInt32 => Ok(Self::Narrow(array.values::<UInt32Type>("series")?)),
            DataType::UInt64 => Ok(Self::Wide(array.values::<UInt64Type>("series")?)),
            other => Err(PyTypeError::new_err(format!(
                "series: expected an array of UInt32 or UInt64, received {other}"
            ))),
        }
    }
}

/// Runs the same code for either width of series.
macro_rules! with_series {
    ($series:expr, $ids:ident => $body:expr) => {
        match $series {
            $crate::rows::keys::Series::Narrow($ids) => $body,
            $crate::rows::keys::Series::Wide($ids) => $body,
        }
    };
}
pub(crate) use with_series;

pub fn times(array: &Array) -> PyResult<ScalarBuffer<i64>> {
    let data = &array.0;
    match data.data_type() {
        DataType::Int64 | DataType::Timestamp(_, _) => {
            refuse_nulls(data, "ts")?;
            Ok(ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len()))
        }
        other => Err(PyTypeError::new_err(format!(
            "ts: expected an array of Int64 or Timestamp, received {other}"
        ))),
    }
}

/// Refuses a column that is longer or shorter than the series column.
pub fn check_length(name: &str, array: &Array, series: &Array) -> PyResult<()> {
    if array.0.len() == series.0.len() {
        return Ok(());
    }
    Err(PyValueError::new_err(format!(
        "{name} has {} rows, but series has {}",
        array.0.len(),
        series.0.len()
    )))
}

/// Row numbers leave as 32 bits (and as signed ones where a number may be absent).
pub fn check_rows_max(series: &Array, rows_max: usize) -> PyResult<()> {
    if series.0.len() <= rows_max {
        return Ok(());
    }
    Err(PyValueError::new_err(format!(
        "{} rows in one call, at most {rows_max} are possible",
        series.0.len()
    )))
}
