//! `run_boundaries`: where each series starts in rows that are sorted by series, and the time it covers.
//!
//! A run is a stretch of neighbouring rows with the same series. For each run the answer has its first row,
//! its least and its greatest time; the times within a run may have any order.

use arrow_array::types::{Int64Type, UInt32Type};
use pyo3::prelude::*;

use crate::arrow_ffi::{Array, ArrowArray};
use crate::rows::keys::{Series, SeriesId, check_length, check_rows_max, times, with_series};

#[pyfunction]
pub fn run_boundaries(
    py: Python<'_>,
    series: Array,
    ts: Array,
) -> PyResult<(ArrowArray, ArrowArray, ArrowArray)> {
    check_rows_max(&series, u32::MAX as usize)?;
    check_length("ts", &ts, &series)?;
    let (ids, times) = (Series::new(&series)?, times(&ts)?);
    let runs = py.detach(|| with_series!(&ids, ids => find_runs(ids, &times)));
    Ok((
        ArrowArray::from_values::<UInt32Type>(runs.starts),
        ArrowArray::from_values::<Int64Type>(runs.ts_min),
        ArrowArray::from_values::<Int64Type>(runs.ts_max),
    ))
}

#[derive(Default)]
struct Runs {
    starts: Vec<u32>,
    ts_min: Vec<i64>,
    ts_max: Vec<i64>,
}

fn find_runs<S: SeriesId>(series: &[S], ts: &[i64]) -> Runs {
    let mut runs = Runs::default();
    let mut start = 0;
    for run in series.chunk_by(|left, right| left == right) {
        let times = &ts[start..start + run.len()];
        let range = times.iter().fold((i64::MAX, i64::MIN), |(min, max), &ts| (min.min(ts), max.max(ts)));
        runs.starts.push(start as u32);
        runs.ts_min.push(range.0);
        runs.ts_max.push(range.1);
        start += run.len();
    }
    runs
}
