//! `prom_range` and `prom_instant`: from samples, series after series, to a matrix of series and steps.
//!
//! Series i has the samples `offsets[i]` to `offsets[i + 1]`, whose times ascend. Step j of `prom_range` looks at the
//! samples in `(ends[j] - range, ends[j]]`, of `prom_instant` at the last one in `(at[j] - lookback, at[j]]`. Steps
//! ascend. The matrices come row by row, a row for each series, with a byte for each cell that tells whether there is a
//! value. Stale samples must have been left out for `prom_range`; `prom_instant` knows them and gives no value for them.

use arrow_array::types::{Float64Type, Int64Type, UInt8Type};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrow_ffi::{Array, ArrowArray};
use crate::prom_extended;
use crate::prom_window::{self, Window};

/// How many threads one call may use, and how many cells are worth one of them.
const WORKERS_MAX: usize = 4;
const CELLS_PER_WORKER: usize = 16_384;

const STALE: u64 = 0x7ff0_0000_0000_0002;

struct Samples<'a> {
    offsets: &'a [i64],
    times: &'a [i64],
    values: &'a [f64],
}

struct Steps<'a> {
    ends: &'a [i64],
    ats: &'a [i64],
    first: &'a [f64],
    second: &'a [f64],
    range: i64,
    lookback: i64,
}

#[pyfunction]
#[pyo3(signature = (function, offsets, times, values, ends, ats, range_ms, first, second, extension = "", lookback_ms = 0))]
#[allow(clippy::too_many_arguments)]
pub fn prom_range(
    py: Python<'_>,
    function: &str,
    offsets: Array,
    times: Array,
    values: Array,
    ends: Array,
    ats: Array,
    range_ms: i64,
    first: Array,
    second: Array,
    extension: &str,
    lookback_ms: i64,
) -> PyResult<(ArrowArray, ArrowArray)> {
    let (offsets, times) = (offsets.values::<Int64Type>("offsets")?, times.values::<Int64Type>("times")?);
    let (values, ends) = (values.values::<Float64Type>("values")?, ends.values::<Int64Type>("ends")?);
    let ats = ats.values::<Int64Type>("ats")?;
    let (first, second) = (first.values::<Float64Type>("first")?, second.values::<Float64Type>("second")?);
    check(&offsets, times.len(), values.len())?;
    if [ats.len(), first.len(), second.len()].iter().any(|&len| len != ends.len()) {
        return Err(PyValueError::new_err("ends, ats, first and second must have the same length"));
    }
    let samples = Samples { offsets: &offsets, times: &times, values: &values };
    let steps = Steps {
        ends: &ends,
        ats: &ats,
        first: &first,
        second: &second,
        range: range_ms,
        lookback: lookback_ms,
    };
    let unknown = || PyValueError::new_err(format!("function: {extension}{function} is not known"));
    let (matrix, present) = match extension {
        "" => {
            let apply = prom_window::find(function).ok_or_else(unknown)?;
            py.detach(|| evaluate(&samples, &steps, 0, 0, apply))
        }
        "anchored" | "smoothed" => {
            let apply = prom_extended::find(function).ok_or_else(unknown)?;
            let is_smooth = extension == "smoothed";
            let ahead = if is_smooth { steps.lookback } else { 0 };
            py.detach(|| {
                evaluate(&samples, &steps, steps.lookback, ahead, |window, scratch| {
                    apply(window, is_smooth, scratch)
                })
            })
        }
        _ => return Err(unknown()),
    };
    Ok((ArrowArray::from_values::<Float64Type>(matrix), ArrowArray::from_values::<UInt8Type>(present)))
}

#[pyfunction]
pub fn prom_instant(
    py: Python<'_>,
    offsets: Array,
    times: Array,
    values: Array,
    ats: Array,
    lookback_ms: i64,
) -> PyResult<(ArrowArray, ArrowArray, ArrowArray)> {
    let (offsets, times) = (offsets.values::<Int64Type>("offsets")?, times.values::<Int64Type>("times")?);
    let (values, ats) = (values.values::<Float64Type>("values")?, ats.values::<Int64Type>("ats")?);
    check(&offsets, times.len(), values.len())?;
    let samples = Samples { offsets: &offsets, times: &times, values: &values };
    let (found, seen, present) = py.detach(|| latest(&samples, &ats, lookback_ms));
    Ok((
        ArrowArray::from_values::<Float64Type>(found),
        ArrowArray::from_values::<Int64Type>(seen),
        ArrowArray::from_values::<UInt8Type>(present),
    ))
}

fn check(offsets: &[i64], times: usize, values: usize) -> PyResult<()> {
    if times != values {
        return Err(PyValueError::new_err(format!("there are {times} times and {values} values")));
    }
    let is_ordered = offsets.windows(2).all(|pair| pair[0] <= pair[1]);
    let is_inside = offsets.first().is_none_or(|&first| first >= 0)
        && offsets.last().is_none_or(|&last| usize::try_from(last).is_ok_and(|last| last <= times));
    if is_ordered && is_inside {
        Ok(())
    } else {
        Err(PyValueError::new_err("offsets must ascend and lie inside of the samples"))
    }
}

fn evaluate(
    samples: &Samples,
    steps: &Steps,
    behind: i64,
    ahead: i64,
    apply: impl Fn(&Window, &mut Vec<f64>) -> Option<f64> + Sync,
) -> (Vec<f64>, Vec<u8>) {
    let (rows, columns) = (samples.offsets.len().saturating_sub(1), steps.ends.len());
    let mut matrix = vec![0.0; rows * columns];
    let mut present = vec![0_u8; rows * columns];
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(WORKERS_MAX);
    if rows * columns < CELLS_PER_WORKER || workers < 2 {
        evaluate_rows(samples, steps, behind, ahead, &apply, 0, &mut matrix, &mut present);
        return (matrix, present);
    }
    let share = rows.div_ceil(workers);
    std::thread::scope(|scope| {
        let pieces = matrix.chunks_mut(share * columns).zip(present.chunks_mut(share * columns));
        for (number, (values, mask)) in pieces.enumerate() {
            let apply = &apply;
            scope.spawn(move || {
                evaluate_rows(samples, steps, behind, ahead, apply, number * share, values, mask);
            });
        }
    });
    (matrix, present)
}

/// Fills the cells of the rows from `first` on.
#[allow(clippy::too_many_arguments)]
fn evaluate_rows(
    samples: &Samples,
    steps: &Steps,
    behind: i64,
    ahead: i64,
    apply: &impl Fn(&Window, &mut Vec<f64>) -> Option<f64>,
    first: usize,
    matrix: &mut [f64],
    present: &mut [u8],
) {
    let columns = steps.ends.len();
    if columns == 0 {
        return;
    }
    let mut scratch = Vec::new();
    for row in 0..matrix.len() / columns {
        let (from, to) = (samples.offsets[first + row] as usize, samples.offsets[first + row + 1] as usize);
        let (times, values) = (&samples.times[from..to], &samples.values[from..to]);
        let is_rising = !values.windows(2).any(|pair| pair[1] < pair[0]);
        let (mut low, mut high) = (0, 0);
        for column in 0..columns {
            let end = steps.ends[column];
            let start = end.saturating_sub(steps.range);
            let (left, right) = (start.saturating_sub(behind), end.saturating_add(ahead));
            while high < times.len() && times[high] <= right {
                high += 1;
            }
            while low < high && times[low] <= left {
                low += 1;
            }
            if low == high {
                continue;
            }
            let window = Window {
                times: &times[low..high],
                values: &values[low..high],
                start,
                end,
                at: steps.ats[column],
                first: steps.first[column],
                second: steps.second[column],
                is_rising,
            };
            if let Some(value) = apply(&window, &mut scratch) {
                matrix[row * columns + column] = value;
                present[row * columns + column] = 1;
            }
        }
    }
}

fn latest(samples: &Samples, ats: &[i64], lookback: i64) -> (Vec<f64>, Vec<i64>, Vec<u8>) {
    let (rows, columns) = (samples.offsets.len().saturating_sub(1), ats.len());
    let mut found = vec![0.0; rows * columns];
    let mut seen = vec![0_i64; rows * columns];
    let mut present = vec![0_u8; rows * columns];
    for row in 0..rows {
        let (from, to) = (samples.offsets[row] as usize, samples.offsets[row + 1] as usize);
        let (times, values) = (&samples.times[from..to], &samples.values[from..to]);
        let mut high = 0;
        for (column, &at) in ats.iter().enumerate() {
            while high < times.len() && times[high] <= at {
                high += 1;
            }
            if high == 0 {
                continue;
            }
            let (time, value) = (times[high - 1], values[high - 1]);
            if time > at.saturating_sub(lookback) && value.to_bits() != STALE {
                let cell = row * columns + column;
                (found[cell], seen[cell], present[cell]) = (value, time, 1);
            }
        }
    }
    (found, seen, present)
}
