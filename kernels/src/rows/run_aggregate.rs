//! `SeriesRuns`: aggregates over runs of rows instead of rows.
//!
//! A source is sorted by series and time, so the rows of a series that fall into one bucket of time are neighbours: a
//! run. Rows come in chunks (a row group, a piece of memory). Of each chunk `add` takes stretches, each with the
//! rows of one series and the group its series belongs to, and cuts them into runs where the bucket changes. Runs of one
//! group and one bucket share a cell. Bucket n holds the times from `origin + n * width` to before the next one, with an
//! origin below the width; a width of 0 means that time is not looked at, and every stretch is a run of bucket 0.
//!
//! `cells` numbers the cells, ascending by group and bucket; from then on there are no more runs. `aggregate` takes
//! columns, each with one array per chunk, and gives for each cell and column
//!
//! - `count`   how many values are not null,
//! - `sum`     their sum, as int64 or uint64 that wraps for integers, as float64 for floats,
//! - `total`   their sum as float64,
//! - `min`, `max`  in the type of the column; floats have their total order, in which NaN is the greatest,
//! - `spread`  the mean and the sum of the squares of what differs from it (two arrays), as float64.
//!
//! A cell whose count is 0 has zeros. `ends` tells for each cell the chunk, the row and the time of its newest or oldest
//! row, and `end_values` what columns have there. Floats are added one after the other in short runs, as anybody would, and in lanes in long ones.

mod cells;
mod fold;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::types::{Int64Type, UInt32Type};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrow_ffi::{Array, ArrowArray};
use crate::errors::limit_exceeded;
use crate::held::Held;
use crate::rows::times::{TimeSlice as _, Times, with_times};
use cells::{Run, cut_stretch, narrow, number_cells};
use fold::{Column, State};

/// Less than this many values are not worth a second thread.
const PARALLEL_VALUES_MIN: usize = 200_000;

/// Runs of rows, of which aggregates can be made.
#[pyclass(module = "tsdb._kernels")]
pub struct SeriesRuns {
    width: i64,
    origin: i64,
    runs_max: usize,
    runs: Vec<Run>,
    /// Where the runs of each chunk end.
    ends: Vec<usize>,
    /// The rows of each chunk that its runs reach to, at least.
    lengths: Vec<usize>,
    times: Vec<Option<Times>>,
    cells: Option<usize>,
}

#[pymethods]
impl SeriesRuns {
    #[new]
    #[pyo3(signature = (*, width = 0, origin = 0, runs_max = 1 << 26))]
    fn new(width: i64, origin: i64, runs_max: usize) -> PyResult<Self> {
        if width < 0 || origin < 0 || origin > (width - 1).max(0) {
            return Err(PyValueError::new_err(format!(
                "origin: {origin} is not from 0 to before the width {width}"
            )));
        }
        let (runs, ends, lengths, times) = (vec![], vec![], vec![], vec![]);
        Ok(Self { width, origin, runs_max, runs, ends, lengths, times, cells: None })
    }

    /// Takes the stretches of one more chunk, of their rows only those whose times are from the first to the
    /// second of `within`, both included, and returns how many runs they make. A chunk without any is forgotten.
    #[pyo3(signature = (starts, stops, groups, times_of_rows = None, within = None))]
    fn add(
        &mut self,
        py: Python<'_>,
        starts: Held<i64>,
        stops: Held<i64>,
        groups: Held<i64>,
        times_of_rows: Option<Times>,
        within: Option<(i64, i64)>,
    ) -> PyResult<usize> {
        if self.cells.is_some() {
            return Err(PyValueError::new_err("the cells are numbered already"));
        }
        let (starts, stops, groups) = (starts.get(), stops.get(), groups.get());
        let chunk_times = times_of_rows;
        if chunk_times.is_none() && (self.width > 0 || within.is_some()) {
            return Err(PyValueError::new_err("times: buckets and a range of time need them"));
        }
        let rows = chunk_times.as_ref().map_or(u32::MAX as usize, |times| times.len());
        let length = check_stretches(starts, stops, groups, rows)?;
        let before = self.runs.len();
        let (first, last) = within.unwrap_or((i64::MIN, i64::MAX));
        let (width, origin, runs_max, runs) = (self.width, self.origin, self.runs_max, &mut self.runs);
        py.detach(|| {
            for ((&start, &stop), &group) in starts.iter().zip(stops.iter()).zip(groups.iter()) {
                let whole = Run { start: start as u32, stop: stop as u32, cell: 0, group, bucket: 0 };
                match &chunk_times {
                    Some(times) => with_times!(times.all(), times => {
                        cut_stretch(runs, narrow(whole, times, first, last), times, origin, width);
                    }),
                    None if start < stop => runs.push(whole),
                    None => (),
                }
                if runs.len() > runs_max {
                    break;
                }
            }
        });
        if self.runs.len() > self.runs_max {
            return Err(limit_exceeded("runs", self.runs_max, self.runs.len()));
        }
        let added = self.runs.len() - before;
        if added > 0 {
            self.ends.push(self.runs.len());
            self.lengths.push(length);
            self.times.push(chunk_times);
        }
        Ok(added)
    }

    /// Takes stretches, ascending, that may reach over several chunks: chunk i has the rows from `offsets[i]` to before
    /// `offsets[i + 1]`. Only the chunks of these numbers are looked at; `times_of_rows` has the times of each. Returns
    /// how many runs each of them makes; one without any is forgotten.
    #[pyo3(signature = (starts, stops, groups, offsets, numbers, times_of_rows = None, within = None))]
    #[allow(clippy::too_many_arguments)]
    fn add_chunks(
        &mut self,
        py: Python<'_>,
        starts: Held<i64>,
        stops: Held<i64>,
        groups: Held<i64>,
        offsets: Held<i64>,
        numbers: Vec<usize>,
        times_of_rows: Option<Vec<Times>>,
        within: Option<(i64, i64)>,
    ) -> PyResult<Vec<usize>> {
        if self.cells.is_some() {
            return Err(PyValueError::new_err("the cells are numbered already"));
        }
        let stretches = Stretches { starts: starts.get(), stops: stops.get(), groups: groups.get() };
        check_stretches(stretches.starts, stretches.stops, stretches.groups, i64::MAX as usize)?;
        let chunk_times = times_of_rows;
        if chunk_times.is_none() && (self.width > 0 || within.is_some()) {
            return Err(PyValueError::new_err("times: buckets and a range of time need them"));
        }
        let bounds = bounds_of(offsets.get(), &numbers, chunk_times.as_deref())?;
        let within = within.unwrap_or((i64::MIN, i64::MAX));
        let added = py.detach(|| {
            let mut chunk_times = chunk_times.map(Vec::into_iter);
            bounds
                .iter()
                .map(|&(begin, end)| {
                    let own = chunk_times.as_mut().and_then(Iterator::next);
                    self.add_chunk(&stretches, begin, end, own, within)
                })
                .collect::<Vec<_>>()
        });
        if self.runs.len() > self.runs_max {
            return Err(limit_exceeded("runs", self.runs_max, self.runs.len()));
        }
        Ok(added)
    }

    /// Numbers the cells and returns the group and the bucket of each.
    fn cells(&mut self, py: Python<'_>) -> (ArrowArray, ArrowArray) {
        let runs = &mut self.runs;
        let (groups, buckets) = py.detach(|| number_cells(runs));
        self.cells = Some(groups.len());
        (ArrowArray::from_values::<Int64Type>(groups), ArrowArray::from_values::<Int64Type>(buckets))
    }

    /// Returns how many rows each cell has.
    fn rows(&self) -> PyResult<ArrowArray> {
        let mut rows = vec![0i64; self.cell_count()?];
        for run in &self.runs {
            rows[run.cell as usize] += i64::from(run.stop - run.start);
        }
        Ok(ArrowArray::from_values::<Int64Type>(rows))
    }

    /// How many rows all runs have.
    #[getter]
    fn row_count(&self) -> u64 {
        self.runs.iter().map(|run| u64::from(run.stop - run.start)).sum()
    }

    /// Returns for each column its states, in the order in which they are asked for. A count is None if no value of the
    /// column's chunks is null: then it is how many rows a cell has. Of a column that has `doubles`, chunks may be held as
    /// integers.
    #[pyo3(signature = (columns, states, *, doubles = None, threads = 1))]
    fn aggregate(
        &self,
        py: Python<'_>,
        columns: Vec<Vec<Array>>,
        states: Vec<Vec<String>>,
        doubles: Option<Vec<bool>>,
        threads: usize,
    ) -> PyResult<Vec<Vec<Option<ArrowArray>>>> {
        let cell_count = self.cell_count()?;
        if columns.len() != states.len() {
            return Err(PyValueError::new_err("states: there must be a list for each column"));
        }
        let doubles = doubles.unwrap_or_else(|| vec![false; columns.len()]);
        if doubles.len() != columns.len() {
            return Err(PyValueError::new_err("doubles: there must be one for each column"));
        }
        let jobs: Vec<(Column, Vec<State>)> = columns
            .iter()
            .zip(&states)
            .zip(doubles)
            .map(|((chunks, names), is_double)| {
                let wanted = names.iter().map(|name| State::parse(name)).collect::<PyResult<_>>()?;
                Ok((Column::new(chunks, &self.lengths, is_double)?, wanted))
            })
            .collect::<PyResult<_>>()?;
        Ok(py.detach(|| self.fold_all(&jobs, cell_count, threads)))
    }

    /// Returns for each cell the chunk, the row and the time of its newest row, or of its oldest.
    #[pyo3(signature = (*, newest))]
    fn ends(&self, py: Python<'_>, newest: bool) -> PyResult<(ArrowArray, ArrowArray, ArrowArray)> {
        let count = self.cell_count()?;
        if self.times.iter().any(Option::is_none) {
            return Err(PyValueError::new_err("times: the ends of runs need them"));
        }
        let (chunks, rows, found) = py.detach(|| self.find_ends(count, newest));
        Ok((
            ArrowArray::from_values::<UInt32Type>(chunks),
            ArrowArray::from_values::<UInt32Type>(rows),
            ArrowArray::from_values::<Int64Type>(found),
        ))
    }

    /// Returns what columns, each with one array per chunk, have in the newest row of each cell, or in its oldest.
    #[pyo3(signature = (columns, *, newest))]
    fn end_values(
        &self,
        py: Python<'_>,
        columns: Vec<Vec<Array>>,
        newest: bool,
    ) -> PyResult<Vec<ArrowArray>> {
        let count = self.cell_count()?;
        if self.times.iter().any(Option::is_none) {
            return Err(PyValueError::new_err("times: the ends of runs need them"));
        }
        let columns: Vec<Column> = columns
            .iter()
            .map(|chunks| Column::new(chunks, &self.lengths, false))
            .collect::<PyResult<_>>()?;
        Ok(py.detach(|| {
            let (chunks, rows, _) = self.find_ends(count, newest);
            columns.iter().map(|column| column.take(&chunks, &rows)).collect()
        }))
    }
}

impl SeriesRuns {
    /// Takes what stretches have of one chunk.
    fn add_chunk(
        &mut self,
        stretches: &Stretches<'_>,
        begin: i64,
        end: i64,
        chunk_times: Option<Times>,
        (first, last): (i64, i64),
    ) -> usize {
        let before = self.runs.len();
        let mut length = 0;
        let mut at = stretches.stops.partition_point(|&stop| stop <= begin);
        while at < stretches.starts.len() && stretches.starts[at] < end && self.runs.len() <= self.runs_max {
            let (start, stop) =
                (stretches.starts[at].max(begin) - begin, stretches.stops[at].min(end) - begin);
            let group = stretches.groups[at];
            at += 1;
            if start >= stop {
                continue;
            }
            let whole = Run { start: start as u32, stop: stop as u32, cell: 0, group, bucket: 0 };
            match &chunk_times {
                Some(times) => with_times!(times.all(), times => {
                    let wanted = narrow(whole, times, first, last);
                    cut_stretch(&mut self.runs, wanted, times, self.origin, self.width);
                }),
                None => self.runs.push(whole),
            }
            length = length.max(stop as usize);
        }
        let added = self.runs.len() - before;
        if added > 0 {
            self.ends.push(self.runs.len());
            self.lengths.push(length);
            self.times.push(chunk_times);
        }
        added
    }

    fn cell_count(&self) -> PyResult<usize> {
        self.cells.ok_or_else(|| PyValueError::new_err("the cells are not numbered yet"))
    }

    /// The runs of chunk after chunk.
    fn chunks(&self) -> impl Iterator<Item = &[Run]> {
        self.ends.iter().scan(0, |start, &end| Some(&self.runs[std::mem::replace(start, end)..end]))
    }

    fn fold_all(
        &self,
        jobs: &[(Column, Vec<State>)],
        cell_count: usize,
        threads: usize,
    ) -> Vec<Vec<Option<ArrowArray>>> {
        let chunks: Vec<&[Run]> = self.chunks().collect();
        let rows: usize = self.runs.iter().map(|run| (run.stop - run.start) as usize).sum();
        let workers =
            if rows * jobs.len() < PARALLEL_VALUES_MIN { 1 } else { threads.clamp(1, jobs.len().max(1)) };
        let fold = |(column, states): &(Column, Vec<State>)| column.fold(&chunks, cell_count, states);
        if workers == 1 {
            return jobs.iter().map(fold).collect();
        }
        let next = AtomicUsize::new(0);
        let done = Mutex::new(vec![Vec::new(); jobs.len()]);
        std::thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    while let Some((at, job)) = take_next(&next, jobs) {
                        let arrays = fold(job);
                        done.lock().expect("no fold panics while it holds the lock")[at] = arrays;
                    }
                });
            }
        });
        done.into_inner().expect("no fold panics while it holds the lock")
    }

    fn find_ends(&self, count: usize, newest: bool) -> (Vec<u32>, Vec<u32>, Vec<i64>) {
        let mut found = (vec![u32::MAX; count], vec![0; count], vec![0; count]);
        for (chunk, (runs, times)) in self.chunks().zip(&self.times).enumerate() {
            let Some(times) = times.as_ref().map(Times::all) else { continue };
            for run in runs {
                let (row, cell) = (if newest { run.stop - 1 } else { run.start }, run.cell as usize);
                let time = times.at(row as usize);
                let is_better = if newest { time >= found.2[cell] } else { time < found.2[cell] };
                if found.0[cell] == u32::MAX || is_better {
                    (found.0[cell], found.1[cell], found.2[cell]) = (chunk as u32, row, time);
                }
            }
        }
        found
    }
}

/// Neighbouring rows of one series each, ascending, with the groups of their series.
struct Stretches<'a> {
    starts: &'a [i64],
    stops: &'a [i64],
    groups: &'a [i64],
}

/// Returns where the chunks of some numbers begin and end.
fn bounds_of(offsets: &[i64], numbers: &[usize], times: Option<&[Times]>) -> PyResult<Vec<(i64, i64)>> {
    if times.is_some_and(|times| times.len() != numbers.len()) {
        return Err(PyValueError::new_err("numbers and times must be equally many"));
    }
    let bounds_of_chunk = |(at, &number): (usize, &usize)| {
        let Some(&[begin, end]) = offsets.get(number..).and_then(<[i64]>::first_chunk) else {
            return Err(PyValueError::new_err(format!("there is no chunk {number}")));
        };
        let rows = times.map_or(i64::from(u32::MAX), |times| times[at].len() as i64);
        if begin < 0 || end < begin || end - begin > rows {
            return Err(PyValueError::new_err(format!("chunk {at}: {begin} to {end} are not {rows} rows")));
        }
        Ok((begin, end))
    };
    numbers.iter().enumerate().map(bounds_of_chunk).collect()
}

/// Returns the numbers of the chunks that rows of ascending stretches lie in; chunk i has the rows from `offsets[i]` to
/// before `offsets[i + 1]`. The second number is how many rows the stretches have.
#[pyfunction]
pub fn touched_chunks(
    starts: Held<i64>,
    stops: Held<i64>,
    offsets: Held<i64>,
) -> PyResult<(Vec<usize>, i64)> {
    let (starts, stops, offsets) = (starts.get(), stops.get(), offsets.get());
    check_stretches(starts, stops, starts, i64::MAX as usize)?;
    let is_touched = |begin: i64, end: i64| {
        let low = stops.partition_point(|&stop| stop <= begin);
        starts[low..]
            .iter()
            .zip(&stops[low..])
            .take_while(|(start, _)| **start < end)
            .any(|(start, stop)| start < stop)
    };
    let chunks = offsets.windows(2).enumerate();
    let touched = chunks.filter(|(_, pair)| is_touched(pair[0], pair[1])).map(|(number, _)| number);
    Ok((touched.collect(), starts.iter().zip(stops).map(|(start, stop)| stop - start).sum()))
}

fn take_next<'a, T>(next: &AtomicUsize, jobs: &'a [T]) -> Option<(usize, &'a T)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    jobs.get(at).map(|job| (at, job))
}

/// Returns how many rows a chunk must have for its stretches.
fn check_stretches(starts: &[i64], stops: &[i64], groups: &[i64], rows: usize) -> PyResult<usize> {
    if starts.len() != stops.len() || starts.len() != groups.len() {
        return Err(PyValueError::new_err("starts, stops and groups must be equally long"));
    }
    let is_wrong = |(&start, &stop): (&i64, &i64)| start < 0 || start > stop || stop as usize > rows;
    if let Some(at) = starts.iter().zip(stops).position(is_wrong) {
        return Err(PyValueError::new_err(format!(
            "stretch {at}: rows {} to {} are not a stretch of {rows} rows",
            starts[at], stops[at]
        )));
    }
    Ok(stops.iter().copied().max().unwrap_or(0) as usize)
}
