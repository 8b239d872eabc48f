//! `common_keys`: the keys, each a series and a time, that two or more sources have.
//!
//! A source has row ranges in the order of time: the rows `starts[i]` to `stops[i]` are of the series `series[i]`. Its times
//! come in chunks as they lie in memory: chunk number n has the rows from `offsets[n]` to before `offsets[n + 1]`. Only
//! where the ranges of a series overlap in time are rows compared. A key that three sources have is found in each pair of
//! them.

use arrow_array::types::Int64Type;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrow_ffi::ArrowArray;
use crate::held::Held;
use crate::rows::times::{TimeSlice as _, Times, TimesRef};

type Part = (Held<i64>, Held<i64>, Held<i64>, Held<i64>, Vec<usize>, Vec<Times>);

/// Returns of each pair of rows with one key the series and the time, and of both rows the source, the row, and the times before
/// and after it in its range, the least and the greatest number where there is none; None if there are more than `keys_max`.
#[pyfunction]
pub fn common_keys(py: Python<'_>, parts: Vec<Part>, keys_max: usize) -> PyResult<Option<Vec<ArrowArray>>> {
    let mut sources = Vec::with_capacity(parts.len());
    let mut ranges = vec![];
    for (number, (series, starts, stops, offsets, numbers, chunks)) in parts.iter().enumerate() {
        let source = Source::new(offsets.get(), numbers, chunks)?;
        let (series, starts, stops) = (series.get(), starts.get(), stops.get());
        if series.len() != starts.len() || series.len() != stops.len() {
            return Err(PyValueError::new_err("series, starts and stops must be equally long"));
        }
        for ((&series, &start), &stop) in series.iter().zip(starts).zip(stops) {
            if start < stop {
                ranges.push(Rows { series, source: number, ..source.rows(start, stop)? });
            }
        }
        sources.push(source);
    }
    let found = py.detach(|| find(&sources, ranges, keys_max));
    Ok(found.map(|pairs| {
        let column =
            |at: usize| ArrowArray::from_values::<Int64Type>(pairs.iter().map(|pair| pair[at]).collect());
        (0..10).map(column).collect()
    }))
}

/// Series and time; source, row, time before and time after; the same of the other.
type Pair = [i64; 10];

/// The times of a source.
struct Source<'a> {
    /// The first row of each chunk.
    begins: Vec<i64>,
    chunks: &'a [Times],
}

/// Rows of one series.
#[derive(Clone, Copy)]
struct Rows {
    series: i64,
    source: usize,
    start: i64,
    stop: i64,
    first: i64,
    last: i64,
}

impl<'a> Source<'a> {
    fn new(offsets: &[i64], numbers: &[usize], chunks: &'a [Times]) -> PyResult<Self> {
        let mut begins = Vec::with_capacity(chunks.len());
        let ascend = numbers.windows(2).all(|pair| pair[0] < pair[1]) && offsets.is_sorted();
        for (&number, chunk) in numbers.iter().zip(chunks) {
            match offsets.get(number..number + 2) {
                Some(&[begin, end]) if begin >= 0 && (end - begin) as usize == chunk.len() => {
                    begins.push(begin);
                }
                _ => return Err(PyValueError::new_err("chunks must be as long as offsets say")),
            }
        }
        if !ascend || numbers.len() != chunks.len() {
            return Err(PyValueError::new_err("chunks and offsets must ascend"));
        }
        Ok(Self { begins, chunks })
    }

    /// Checks that a range of rows lies in the chunks.
    fn rows(&self, start: i64, stop: i64) -> PyResult<Rows> {
        let mut row = start;
        while row < stop {
            match self.rest(row) {
                Some(rest) => row += rest.len() as i64,
                None => return Err(PyValueError::new_err(format!("no chunk has row {row}"))),
            }
        }
        Ok(Rows { series: 0, source: 0, start, stop, first: self.time(start), last: self.time(stop - 1) })
    }

    /// The times from a row to the end of its chunk.
    fn rest(&self, row: i64) -> Option<TimesRef<'a>> {
        let at = self.begins.partition_point(|&begin| begin <= row).checked_sub(1)?;
        let (first, rows) = ((row - self.begins[at]) as usize, self.chunks[at].len());
        (first < rows).then(|| self.chunks[at].part(first..rows))
    }

    fn time(&self, row: i64) -> i64 {
        self.rest(row).map_or(i64::MAX, |rest| rest.at(0))
    }

    /// The source and a row of a range, and the times around it.
    fn around(&self, rows: &Rows, row: i64) -> [i64; 4] {
        let before = if row > rows.start { self.time(row - 1) } else { i64::MIN };
        let after = if row + 1 < rows.stop { self.time(row + 1) } else { i64::MAX };
        [rows.source as i64, row, before, after]
    }

    /// The first row of a range with a time of at least `moment`, or its end.
    fn seek(&self, rows: &Rows, moment: i64) -> i64 {
        let (mut low, mut high) = (rows.start, rows.stop);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.time(middle) < moment {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

fn find(sources: &[Source<'_>], mut ranges: Vec<Rows>, keys_max: usize) -> Option<Vec<Pair>> {
    ranges.sort_unstable_by_key(|rows| (rows.series, rows.first));
    let mut pairs = vec![];
    for own in ranges.chunk_by(|one, other| one.series == other.series) {
        for (at, one) in own.iter().enumerate() {
            for other in own[at + 1..].iter().take_while(|other| other.first <= one.last) {
                if one.source != other.source {
                    compare(sources, one, other, &mut pairs);
                }
                if pairs.len() > keys_max {
                    return None;
                }
            }
        }
    }
    Some(pairs)
}

/// Adds the rows that two ranges have of the same time; the second one does not begin before the first.
fn compare(sources: &[Source<'_>], one: &Rows, other: &Rows, found: &mut Vec<Pair>) {
    let (source, others) = (&sources[one.source], &sources[other.source]);
    let mut left = Walk::new(source, source.seek(one, other.first), one.stop);
    let mut right = Walk::new(others, other.start, other.stop);
    while let (Some(early), Some(late)) = (left.time(), right.time()) {
        if early == late {
            let [source, row, before, after] = source.around(one, left.row);
            let own = [one.series, early, source, row, before, after];
            let other = others.around(other, right.row);
            found.push(std::array::from_fn(|at| if at < 6 { own[at] } else { other[at - 6] }));
        }
        if early <= late {
            left.step();
        }
        if late <= early {
            right.step();
        }
    }
}

/// Goes through rows, from chunk to chunk.
struct Walk<'a> {
    source: &'a Source<'a>,
    /// The times from `begin` to the end of its chunk.
    rest: Option<TimesRef<'a>>,
    begin: i64,
    row: i64,
    stop: i64,
}

impl<'a> Walk<'a> {
    fn new(source: &'a Source<'a>, row: i64, stop: i64) -> Self {
        Self { source, rest: source.rest(row), begin: row, row, stop }
    }

    fn time(&self) -> Option<i64> {
        let rest = self.rest.filter(|_| self.row < self.stop)?;
        Some(rest.at((self.row - self.begin) as usize))
    }

    fn step(&mut self) {
        self.row += 1;
        if self.rest.is_some_and(|rest| (self.row - self.begin) as usize >= rest.len()) {
            (self.rest, self.begin) = (self.source.rest(self.row), self.row);
        }
    }
}
