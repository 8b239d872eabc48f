//! `merge_sorted`: sources that are sorted by series, time and sequence, put together in one such order.
//!
//! A source has stretches of rows, one behind the other: the next `lengths[i]` rows are of the series of rank
//! `places[i]`, which ascend. Rows are numbered source behind source. The answer has, of the rows that remain, these
//! numbers, the ranks, times and sequences.
//!
//! Memtables and files mostly follow each other in time: then the stretches of a series are copied one behind the other,
//! and no row is compared with another source's. Where stretches overlap, or rows of one of them have the same time,
//! their rows are sorted.
//!
//! With `dedup` the newest of the rows with one series and time remains, and if that is a delete (op 1) only with
//! `keep_tombstones`; without it, all rows do.

use std::ops::Range;

use arrow_array::types::{Int64Type, UInt32Type, UInt64Type};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrow_ffi::ArrowArray;
use crate::held::Held;

const DELETE: u8 = 1;

type Answer = (ArrowArray, ArrowArray, ArrowArray, ArrowArray);

#[pyfunction]
#[pyo3(signature = (places, lengths, times, sequences, ops, *, dedup, keep_tombstones))]
#[expect(clippy::too_many_arguments, reason = "they are the columns of the sources and what to do with them")]
pub fn merge_sorted(
    py: Python<'_>,
    places: Vec<Held<i64>>,
    lengths: Vec<Held<i64>>,
    times: Vec<Held<i64>>,
    sequences: Vec<Held<u64>>,
    ops: Vec<Option<Held<u8>>>,
    dedup: bool,
    keep_tombstones: bool,
) -> PyResult<Answer> {
    if [lengths.len(), times.len(), sequences.len(), ops.len()] != [places.len(); 4] {
        return Err(PyValueError::new_err("places, lengths, times, sequences and ops differ in number"));
    }
    let mut sources = Vec::with_capacity(places.len());
    let mut first = 0;
    for (number, places) in places.iter().enumerate() {
        let source = Source {
            places: places.get(),
            lengths: lengths[number].get(),
            times: times[number].get(),
            sequences: sequences[number].get(),
            ops: ops[number].as_ref().map(Held::get),
            first,
            series: 0,
            row: 0,
        };
        source.check().map_err(PyValueError::new_err)?;
        first += source.times.len();
        sources.push(source);
    }
    if first > u32::MAX as usize {
        return Err(PyValueError::new_err(format!("{first} rows in one call, at most {}", u32::MAX)));
    }
    let merged = py.detach(|| Merged::of(&mut sources, first, dedup, keep_tombstones));
    Ok((
        ArrowArray::from_values::<UInt32Type>(merged.order),
        ArrowArray::from_values::<UInt32Type>(merged.ranks),
        ArrowArray::from_values::<Int64Type>(merged.times),
        ArrowArray::from_values::<UInt64Type>(merged.sequences),
    ))
}

struct Source<'a> {
    places: &'a [i64],
    lengths: &'a [i64],
    times: &'a [i64],
    sequences: &'a [u64],
    ops: Option<&'a [u8]>,
    /// The number of its first row among those of all.
    first: usize,
    /// How many of its series and of its rows are done.
    series: usize,
    row: usize,
}

impl Source<'_> {
    fn check(&self) -> Result<(), String> {
        let rows = self.times.len();
        if self.lengths.len() != self.places.len() {
            return Err(format!("{} places, but {} lengths", self.places.len(), self.lengths.len()));
        }
        if self.sequences.len() != rows || self.ops.is_some_and(|ops| ops.len() != rows) {
            return Err(format!("sequences or ops are not as many as the {rows} times"));
        }
        if self.lengths.iter().any(|&length| length < 0)
            || self.lengths.iter().map(|&length| length as u128).sum::<u128>() != rows as u128
        {
            return Err(format!("the lengths do not make up {rows} rows"));
        }
        let is_ascending = self.places.is_sorted_by(|left, right| left < right);
        let in_range = |place: Option<&i64>| place.is_none_or(|&place| u32::try_from(place).is_ok());
        if !is_ascending || !in_range(self.places.first()) || !in_range(self.places.last()) {
            return Err("the places do not ascend from 0".into());
        }
        Ok(())
    }

    /// The rows of a series, which is the next one or is not there; they are done then.
    fn take(&mut self, rank: i64) -> Option<Range<usize>> {
        if self.places.get(self.series) != Some(&rank) {
            return None;
        }
        let rows = self.row..self.row + self.lengths[self.series] as usize;
        (self.series, self.row) = (self.series + 1, rows.end);
        (!rows.is_empty()).then_some(rows)
    }

    /// Whether all of some rows of one series remain if no other source has rows among them.
    fn remains(&self, rows: Range<usize>, drops_deletes: bool) -> bool {
        self.times[rows.clone()].is_sorted_by(|left, right| left < right)
            && !(drops_deletes && self.ops.is_some_and(|ops| ops[rows].contains(&DELETE)))
    }
}

struct Merged {
    order: Vec<u32>,
    ranks: Vec<u32>,
    times: Vec<i64>,
    sequences: Vec<u64>,
}

impl Merged {
    fn of(sources: &mut [Source<'_>], rows: usize, dedup: bool, keep_tombstones: bool) -> Self {
        let drops_deletes = dedup && !keep_tombstones;
        let mut merged = Self {
            order: Vec::with_capacity(rows),
            ranks: Vec::with_capacity(rows),
            times: Vec::with_capacity(rows),
            sequences: Vec::with_capacity(rows),
        };
        let mut stretches: Vec<(usize, Range<usize>)> = Vec::new();
        while let Some(&rank) = sources.iter().filter_map(|source| source.places.get(source.series)).min() {
            stretches.clear();
            for (number, source) in sources.iter_mut().enumerate() {
                stretches.extend(source.take(rank).map(|rows| (number, rows)));
            }
            stretches.sort_by_key(|(number, rows)| sources[*number].times[rows.start]);
            let last = |(number, rows): &(usize, Range<usize>)| sources[*number].times[rows.end - 1];
            let first = |(number, rows): &(usize, Range<usize>)| sources[*number].times[rows.start];
            let is_apart = stretches.is_sorted_by(|left, right| last(left) < first(right))
                && stretches
                    .iter()
                    .all(|(number, rows)| sources[*number].remains(rows.clone(), drops_deletes));
            if is_apart {
                stretches.iter().for_each(|(number, rows)| merged.copy(&sources[*number], rows.clone()));
            } else {
                merged.weave(sources, &stretches, dedup, drops_deletes);
            }
            merged.ranks.resize(merged.order.len(), rank as u32);
        }
        merged
    }

    fn copy(&mut self, source: &Source<'_>, rows: Range<usize>) {
        self.order.extend((source.first + rows.start) as u32..(source.first + rows.end) as u32);
        self.times.extend_from_slice(&source.times[rows.clone()]);
        self.sequences.extend_from_slice(&source.sequences[rows]);
    }

    /// Appends the rows of one series in order.
    fn weave(
        &mut self,
        sources: &[Source<'_>],
        stretches: &[(usize, Range<usize>)],
        dedup: bool,
        drops_deletes: bool,
    ) {
        let key = |source: &Source<'_>, row: usize| {
            let op = source.ops.map_or(0, |ops| ops[row]);
            (source.times[row], source.sequences[row], (source.first + row) as u32, op)
        };
        let mut rows: Vec<(i64, u64, u32, u8)> = Vec::new();
        for (number, stretch) in stretches {
            rows.extend(stretch.clone().map(|row| key(&sources[*number], row)));
        }
        rows.sort(); // finds the stretches and merges them
        for (at, &(time, sequence, row, op)) in rows.iter().enumerate() {
            let is_newest = rows.get(at + 1).is_none_or(|next| next.0 != time);
            if !dedup || is_newest && !(drops_deletes && op == DELETE) {
                self.order.push(row);
                self.times.push(time);
                self.sequences.push(sequence);
            }
        }
    }
}
