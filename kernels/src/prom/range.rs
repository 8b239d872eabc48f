//! `prom_range` and `prom_instant`: from samples, series after series, to a matrix of series and steps.
//!
//! Series i has the samples `offsets[i]` to `offsets[i + 1]`, whose times ascend. Step j of `prom_range` looks at the
//! samples in `(ends[j] - range, ends[j]]`, of `prom_instant` at the last one in `(at[j] - lookback, at[j]]`. Steps
//! ascend. The matrices come row by row, a row for each series, with a byte for each cell that tells whether there is a
//! value. Stale samples must have been left out for `prom_range`; `prom_instant` knows them and gives no value for them.
//! `Samples` has both for samples that are left where they lie.

use std::ops::Range;

use arrow_array::types::{Float64Type, Int64Type, UInt8Type};
use arrow_buffer::ScalarBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrow_ffi::{Array, ArrowArray};
use crate::prom::extended;
use crate::prom::window::{self, Added, Totals, Window};
use crate::rows::doubles::Doubles;
use crate::rows::times::{TimeSlice, TimesRef, with_times};
use crate::workers::workers;

/// How many threads one call may use, and how many cells are worth one of them.
const WORKERS_MAX: usize = 4;
const CELLS_PER_WORKER: usize = 16_384;

/// How many samples are looked at one after the other before larger steps are taken.
const NEAR: usize = 4;

pub const STALE: u64 = 0x7ff0_0000_0000_0002;

/// Series of samples, wherever they are.
pub trait Series: Sync {
    /// How many series there are.
    fn count(&self) -> usize;

    /// How many samples a series has.
    fn size(&self, row: usize) -> usize;

    /// The times and values of a series, without stale samples; `room` is where to put them together.
    fn row<'a>(&'a self, row: usize, room: &'a mut Room) -> (&'a [i64], &'a [f64]);

    /// The times and values of a series as they lie, one stretch after the other, none of them empty.
    fn stretches(&self, row: usize) -> impl Iterator<Item = Stretch<'_>>;
}

/// Neighbouring samples of one series, as they lie.
pub struct Stretch<'a> {
    pub times: TimesRef<'a>,
    /// What these rows of it are.
    pub values: &'a Doubles,
    pub rows: Range<usize>,
}

impl Stretch<'_> {
    pub fn append_to(&self, times: &mut Vec<i64>, values: &mut Vec<f64>) {
        self.times.append_to(times);
        self.values.append(self.rows.clone(), values);
    }
}

/// Where the samples of one series are put together.
#[derive(Default)]
pub struct Room {
    pub times: Vec<i64>,
    pub values: Vec<f64>,
}

/// Samples in columns, series after series.
struct Columns {
    offsets: ScalarBuffer<i64>,
    times: ScalarBuffer<i64>,
    values: Doubles,
}

impl Columns {
    fn new(offsets: &Array, times: &Array, values: &Array) -> PyResult<Self> {
        let (offsets, times) = (offsets.values::<Int64Type>("offsets")?, times.values::<Int64Type>("times")?);
        let values = values.values::<Float64Type>("values")?;
        check(&offsets, times.len(), values.len())?;
        Ok(Self { offsets, times, values: Doubles::Wide(values) })
    }

    fn rows(&self, row: usize) -> std::ops::Range<usize> {
        self.offsets[row] as usize..self.offsets[row + 1] as usize
    }
}

impl Series for Columns {
    fn count(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    fn size(&self, row: usize) -> usize {
        self.rows(row).len()
    }

    fn row<'a>(&'a self, row: usize, room: &'a mut Room) -> (&'a [i64], &'a [f64]) {
        (&self.times[self.rows(row)], self.values.part(self.rows(row), &mut room.values))
    }

    fn stretches(&self, row: usize) -> impl Iterator<Item = Stretch<'_>> {
        let rows = self.rows(row);
        let times = TimesRef::Wide(&self.times[rows.clone()]);
        (!rows.is_empty()).then_some(Stretch { times, values: &self.values, rows }).into_iter()
    }
}

pub struct Steps {
    ends: ScalarBuffer<i64>,
    ats: ScalarBuffer<i64>,
    first: ScalarBuffer<f64>,
    second: ScalarBuffer<f64>,
    range: i64,
    lookback: i64,
}

impl Steps {
    pub fn new(
        ends: &Array,
        ats: &Array,
        range: i64,
        first: &Array,
        second: &Array,
        lookback: i64,
    ) -> PyResult<Self> {
        let (ends, ats) = (ends.values::<Int64Type>("ends")?, ats.values::<Int64Type>("ats")?);
        let (first, second) =
            (first.values::<Float64Type>("first")?, second.values::<Float64Type>("second")?);
        if [ats.len(), first.len(), second.len()].iter().any(|&len| len != ends.len()) {
            return Err(PyValueError::new_err("ends, ats, first and second must have the same length"));
        }
        Ok(Self { ends, ats, first, second, range, lookback })
    }
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
    let samples = Columns::new(&offsets, &times, &values)?;
    let steps = Steps::new(&ends, &ats, range_ms, &first, &second, lookback_ms)?;
    apply(py, &samples, &steps, function, extension)
}

/// How far a function looks beyond its window, and what it adds up.
#[derive(Clone, Copy)]
struct Reach {
    behind: i64,
    ahead: i64,
    added: Added,
}

/// Evaluates a function by its name.
pub fn apply(
    py: Python<'_>,
    samples: &impl Series,
    steps: &Steps,
    function: &str,
    extension: &str,
) -> PyResult<(ArrowArray, ArrowArray)> {
    let unknown = || PyValueError::new_err(format!("function: {extension}{function} is not known"));
    let (matrix, present) = match extension {
        "" => {
            let apply = window::find(function).ok_or_else(unknown)?;
            let reach = Reach { behind: 0, ahead: 0, added: Added::by(function) };
            py.detach(|| evaluate(samples, steps, reach, apply))
        }
        "anchored" | "smoothed" => {
            let apply = extended::find(function).ok_or_else(unknown)?;
            let is_smooth = extension == "smoothed";
            let ahead = if is_smooth { steps.lookback } else { 0 };
            let reach = Reach { behind: steps.lookback, ahead, added: Added::Nothing };
            py.detach(|| evaluate(samples, steps, reach, |window, scratch| apply(window, is_smooth, scratch)))
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
    let samples = Columns::new(&offsets, &times, &values)?;
    let ats = ats.values::<Int64Type>("ats")?;
    let (found, seen, present) = py.detach(|| latest(&samples, &ats, lookback_ms, true));
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

/// Runs work on a matrix of rows, by several threads if there is much to do: with the number of the first row and the
/// cells of each share.
fn share_rows<A: Send, B: Send>(
    rows: usize,
    columns: usize,
    work: usize,
    matrix: &mut [A],
    present: &mut [B],
    run: impl Fn(usize, &mut [A], &mut [B]) + Sync,
) {
    let workers = workers(WORKERS_MAX);
    if work < CELLS_PER_WORKER || workers < 2 || rows < 2 || columns == 0 {
        return run(0, matrix, present);
    }
    let share = rows.div_ceil(workers);
    std::thread::scope(|scope| {
        let mut pieces =
            matrix.chunks_mut(share * columns).zip(present.chunks_mut(share * columns)).enumerate();
        // The first share is for the thread that is here already.
        let own = pieces.next();
        for (number, (values, mask)) in pieces {
            let run = &run;
            scope.spawn(move || run(number * share, values, mask));
        }
        if let Some((_, (values, mask))) = own {
            run(0, values, mask);
        }
    });
}

fn evaluate(
    samples: &impl Series,
    steps: &Steps,
    reach: Reach,
    apply: impl Fn(&Window, &mut Vec<f64>) -> Option<f64> + Sync,
) -> (Vec<f64>, Vec<u8>) {
    let (rows, columns) = (samples.count(), steps.ends.len());
    let mut matrix = vec![0.0; rows * columns];
    let mut present = vec![0_u8; rows * columns];
    let work = rows * columns + (0..rows).map(|row| samples.size(row)).sum::<usize>() / 4;
    share_rows(rows, columns, work, &mut matrix, &mut present, |first, values, mask| {
        evaluate_rows(samples, steps, reach, &apply, first, values, mask);
    });
    (matrix, present)
}

/// Fills the cells of the rows from `first` on.
fn evaluate_rows(
    samples: &impl Series,
    steps: &Steps,
    reach: Reach,
    apply: &impl Fn(&Window, &mut Vec<f64>) -> Option<f64>,
    first: usize,
    matrix: &mut [f64],
    present: &mut [u8],
) {
    let columns = steps.ends.len();
    if columns == 0 {
        return;
    }
    let (mut scratch, mut room, mut totals) = (Vec::new(), Room::default(), Totals::new(reach.added));
    for row in 0..matrix.len() / columns {
        let (times, values) = samples.row(first + row, &mut room);
        totals.read(values);
        let (mut low, mut high) = (0, 0);
        for column in 0..columns {
            let end = steps.ends[column];
            let start = end.saturating_sub(steps.range);
            let (left, right) = (start.saturating_sub(reach.behind), end.saturating_add(reach.ahead));
            high += times[high..].iter().position(|&time| time > right).unwrap_or(times.len() - high);
            low += times[low..high].iter().position(|&time| time > left).unwrap_or(high - low);
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
                total: totals.within(low, high),
            };
            if let Some(value) = apply(&window, &mut scratch) {
                matrix[row * columns + column] = value;
                present[row * columns + column] = 1;
            }
        }
    }
}

type Latest = (Vec<f64>, Vec<i64>, Vec<u8>);

/// The last sample at each time, and, if they are wanted, the times of these samples.
pub fn latest(samples: &impl Series, ats: &[i64], lookback: i64, has_times: bool) -> Latest {
    let (rows, columns) = (samples.count(), ats.len());
    let mut found = vec![0.0; rows * columns];
    let mut present = vec![0_u8; rows * columns];
    let mut seen = vec![0_i64; if has_times { rows * columns } else { 0 }];
    if has_times {
        for row in 0..rows {
            let cells = row * columns..(row + 1) * columns;
            let (values, mask) = (&mut found[cells.clone()], &mut present[cells.clone()]);
            latest_of(samples, row, ats, lookback, values, mask, &mut seen[cells]);
        }
        return (found, seen, present);
    }
    let work = rows * columns;
    share_rows(rows, columns, work, &mut found, &mut present, |first, values, mask| {
        let cells = values.chunks_mut(columns.max(1)).zip(mask.chunks_mut(columns.max(1)));
        for (row, (values, mask)) in cells.enumerate() {
            latest_of(samples, first + row, ats, lookback, values, mask, &mut []);
        }
    });
    (found, seen, present)
}

/// Fills the cells of one series; `seen` may be empty.
fn latest_of(
    samples: &impl Series,
    row: usize,
    ats: &[i64],
    lookback: i64,
    values: &mut [f64],
    mask: &mut [u8],
    seen: &mut [i64],
) {
    let mut stretches = samples.stretches(row).peekable();
    let mut column = 0;
    while let Some(stretch) = stretches.next() {
        let until = stretches.peek().map_or(ats.len(), |next| {
            let begin = next.times.at(0);
            column + ats[column..].partition_point(|&at| at < begin)
        });
        let own = column..until;
        let seen = seen.get_mut(own.clone()).unwrap_or_default();
        let cells =
            Cells { ats: &ats[own.clone()], values: &mut values[own.clone()], mask: &mut mask[own], seen };
        with_times!(stretch.times, times => cells.fill(times, &stretch, lookback));
        column = until;
    }
}

/// Steps that find their samples in one stretch.
struct Cells<'a> {
    ats: &'a [i64],
    values: &'a mut [f64],
    mask: &'a mut [u8],
    /// Empty if the times of samples are not wanted.
    seen: &'a mut [i64],
}

impl Cells<'_> {
    fn fill(self, times: impl TimeSlice, stretch: &Stretch<'_>, lookback: i64) {
        let mut next = 0;
        for (column, &at) in self.ats.iter().enumerate() {
            next += gallop(times.part(next..times.len()), at);
            let Some(found) = next.checked_sub(1) else { continue };
            let (time, value) = (times.at(found), stretch.values.at(stretch.rows.start + found));
            if time > at.saturating_sub(lookback) && value.to_bits() != STALE {
                (self.values[column], self.mask[column]) = (value, 1);
                if let Some(seen) = self.seen.get_mut(column) {
                    *seen = time;
                }
            }
        }
    }
}

/// How many times are not after a moment, of which few are expected.
fn gallop(times: impl TimeSlice, moment: i64) -> usize {
    let mut step = 1;
    let mut low = 0;
    // Most often a step is about as long as samples are apart.
    while low < NEAR {
        if low == times.len() || times.at(low) > moment {
            return low;
        }
        low += 1;
    }
    while low + step <= times.len() && times.at(low + step - 1) <= moment {
        low += step;
        step *= 2;
    }
    let high = (low + step - 1).min(times.len());
    low + times.part(low..high).partition_point(|time| time <= moment)
}
