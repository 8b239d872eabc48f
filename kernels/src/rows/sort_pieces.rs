//! `sort_pieces`: rows that came in pieces, sorted by series, time and sequence, as a run of the memtable has them.
//!
//! Each piece has series of its own, and `places` says for all of them, piece behind piece, which rank they have among
//! `series`. A piece's sequences are an array, or a number from which they count up.
//!
//! Rows are dealt out to their series in the order in which they came, which for most series is that of time already;
//! only a series whose rows are not in order is sorted. With `drop_overwritten` the newest of the rows with one series
//! and time remains. Rows are numbered piece behind piece; the answer has, of the rows that remain, these numbers, times
//! and sequences, and of the series that have rows their ranks, where they begin and the time they cover.

use std::ops::Range;

use arrow_array::types::{Int64Type, UInt32Type, UInt64Type};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyInt;

use crate::arrow_ffi::{Array, ArrowArray};
use crate::held::Held;

pub enum Sequences {
    From(u64),
    Each(Held<u64>),
}

impl<'py> FromPyObject<'_, 'py> for Sequences {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(match object.is_instance_of::<PyInt>() {
            true => Self::From(object.extract()?),
            false => Self::Each(object.extract()?),
        })
    }
}

#[pyclass(frozen, module = "tsdb._kernels")]
pub struct SortedPieces {
    #[pyo3(get)]
    order: ArrowArray,
    #[pyo3(get)]
    times: ArrowArray,
    #[pyo3(get)]
    sequences: ArrowArray,
    #[pyo3(get)]
    series: ArrowArray,
    #[pyo3(get)]
    offsets: ArrowArray,
    #[pyo3(get)]
    time_min: ArrowArray,
    #[pyo3(get)]
    time_max: ArrowArray,
    /// The least and the greatest time, the least and the greatest sequence.
    #[pyo3(get)]
    bounds: (i64, i64, u64, u64),
    /// Whether no two of the rows have one series and time.
    #[pyo3(get)]
    is_unique: bool,
}

#[pyfunction]
#[pyo3(signature = (places, counts, index, times, sequences, *, series, drop_overwritten))]
#[expect(clippy::too_many_arguments, reason = "they are the columns of the pieces and what to do with them")]
pub fn sort_pieces(
    py: Python<'_>,
    places: Array,
    counts: Vec<usize>,
    index: Vec<Held<u32>>,
    times: Vec<Held<i64>>,
    sequences: Vec<Sequences>,
    series: usize,
    drop_overwritten: bool,
) -> PyResult<SortedPieces> {
    let places = places.values::<UInt32Type>("places")?;
    if [index.len(), times.len(), sequences.len()] != [counts.len(); 3] {
        return Err(PyValueError::new_err("counts, index, times and sequences differ in number"));
    }
    let mut pieces = Vec::with_capacity(counts.len());
    let mut first = 0usize;
    for (((count, index), times), sequences) in counts.iter().zip(&index).zip(&times).zip(&sequences) {
        let last = first.saturating_add(*count);
        let places =
            places.get(first..last).ok_or_else(|| PyValueError::new_err("counts exceed the places"))?;
        pieces.push(Piece { places, index: index.get(), times: times.get(), sequences });
        first = last;
    }
    py.detach(|| sort(&pieces, series, drop_overwritten)).map_err(PyValueError::new_err)
}

struct Piece<'a> {
    places: &'a [u32],
    index: &'a [u32],
    times: &'a [i64],
    sequences: &'a Sequences,
}

fn sort(pieces: &[Piece<'_>], series: usize, drop_overwritten: bool) -> Result<SortedPieces, String> {
    check(pieces, series)?;
    let starts = starts_of(pieces, series)?;
    let mut dealt = Dealt::of(pieces, &starts);
    let mut stretches = Stretches::default();
    let mut is_unique = true;
    let mut end = 0; // of what remains
    for (rank, bounds) in starts.windows(2).enumerate().filter(|(_, bounds)| bounds[0] < bounds[1]) {
        let mut rows = bounds[0] as usize..bounds[1] as usize;
        if !dealt.is_increasing(rows.clone()) {
            dealt.sort(rows.clone());
            is_unique &= dealt.is_increasing(rows.clone());
            if drop_overwritten {
                rows.end = dealt.drop_overwritten(rows.clone());
            }
        }
        stretches.push(rank, end, &dealt.times[rows.clone()]);
        end = dealt.move_to(rows, end);
    }
    dealt.truncate(end);
    stretches.finish(dealt, is_unique || drop_overwritten)
}

fn check(pieces: &[Piece<'_>], series: usize) -> Result<(), String> {
    let mut rows = 0;
    for piece in pieces {
        let count = piece.times.len();
        rows += count;
        if piece.index.len() != count {
            return Err(format!("{} of index, but {count} times", piece.index.len()));
        }
        match piece.sequences {
            Sequences::From(first) if first.checked_add(count as u64).is_none() => {
                return Err("a sequence has more than 64 bits".into());
            }
            Sequences::Each(each) if each.get().len() != count => {
                return Err(format!("{} sequences, but {count} times", each.get().len()));
            }
            _ => {}
        }
        if piece.places.iter().max().is_some_and(|&place| place as usize >= series) {
            return Err(format!("a place is not among {series} series"));
        }
    }
    match rows {
        0 => Err("there are no rows".into()),
        _ if rows > u32::MAX as usize => Err(format!("{rows} rows in one call, at most {}", u32::MAX)),
        _ => Ok(()),
    }
}

/// Where the rows of each series will begin, and where the last ones will end.
fn starts_of(pieces: &[Piece<'_>], series: usize) -> Result<Vec<u32>, String> {
    let mut starts = vec![0u32; series + 1];
    for piece in pieces {
        for &at in piece.index {
            let Some(&rank) = piece.places.get(at as usize) else {
                return Err(format!("a row names series {at}, its piece has {}", piece.places.len()));
            };
            starts[rank as usize + 1] += 1;
        }
    }
    let mut total = 0;
    for start in &mut starts {
        total += *start;
        *start = total;
    }
    Ok(starts)
}

/// Rows by series, of each series in the order in which they came.
struct Dealt {
    order: Vec<u32>,
    times: Vec<i64>,
    sequences: Vec<u64>,
}

impl Dealt {
    fn of(pieces: &[Piece<'_>], starts: &[u32]) -> Self {
        let rows = starts.last().map_or(0, |&rows| rows as usize);
        let mut dealt = Self { order: vec![0; rows], times: vec![0; rows], sequences: vec![0; rows] };
        let mut next = starts.to_vec();
        let mut first = 0;
        for piece in pieces {
            match piece.sequences {
                Sequences::From(base) => dealt.deal(piece, first, &mut next, |row| base + row as u64),
                Sequences::Each(each) => {
                    let each = each.get();
                    dealt.deal(piece, first, &mut next, |row| each[row]);
                }
            }
            first += piece.times.len() as u32;
        }
        dealt
    }

    #[inline]
    fn deal(&mut self, piece: &Piece<'_>, first: u32, next: &mut [u32], sequence: impl Fn(usize) -> u64) {
        // Slices of their own, so that the loop need not look where the columns are for each row.
        let (order, times, sequences) = (&mut self.order[..], &mut self.times[..], &mut self.sequences[..]);
        let places = piece.places;
        for (row, (&at, &time)) in piece.index.iter().zip(piece.times).enumerate() {
            let next = &mut next[places[at as usize] as usize];
            let place = *next as usize;
            *next += 1;
            order[place] = first + row as u32;
            times[place] = time;
            sequences[place] = sequence(row);
        }
    }

    fn is_increasing(&self, rows: Range<usize>) -> bool {
        self.times[rows].is_sorted_by(|left, right| left < right)
    }

    /// Sorts the rows of one series, which came in the order of their numbers.
    fn sort(&mut self, rows: Range<usize>) {
        if self.times[rows.clone()].is_sorted() && self.sequences[rows.clone()].is_sorted() {
            return;
        }
        let mut keys: Vec<(i64, u64, u32)> =
            rows.clone().map(|row| (self.times[row], self.sequences[row], self.order[row])).collect();
        keys.sort(); // rather than unstable: it is fast where only a few rows came late
        for (row, key) in rows.zip(keys) {
            (self.times[row], self.sequences[row], self.order[row]) = key;
        }
    }

    /// Keeps of sorted rows of one series the last one of each time; where they end.
    fn drop_overwritten(&mut self, rows: Range<usize>) -> usize {
        let mut end = rows.start;
        for row in rows.clone() {
            if end > rows.start && self.times[end - 1] == self.times[row] {
                end -= 1;
            }
            self.times[end] = self.times[row];
            self.sequences[end] = self.sequences[row];
            self.order[end] = self.order[row];
            end += 1;
        }
        end
    }

    /// Moves rows to the end of what remains; where that ends then.
    fn move_to(&mut self, rows: Range<usize>, end: usize) -> usize {
        if rows.start != end {
            self.times.copy_within(rows.clone(), end);
            self.sequences.copy_within(rows.clone(), end);
            self.order.copy_within(rows.clone(), end);
        }
        end + rows.len()
    }

    fn truncate(&mut self, end: usize) {
        self.times.truncate(end);
        self.sequences.truncate(end);
        self.order.truncate(end);
    }
}

#[derive(Default)]
struct Stretches {
    series: Vec<i64>,
    offsets: Vec<i64>,
    time_min: Vec<i64>,
    time_max: Vec<i64>,
}

impl Stretches {
    fn push(&mut self, rank: usize, start: usize, times: &[i64]) {
        self.series.push(rank as i64);
        self.offsets.push(start as i64);
        self.time_min.push(times[0]);
        self.time_max.push(times[times.len() - 1]);
    }

    fn finish(mut self, dealt: Dealt, is_unique: bool) -> Result<SortedPieces, String> {
        let bounds = || {
            let times = (*self.time_min.iter().min()?, *self.time_max.iter().max()?);
            Some((times.0, times.1, *dealt.sequences.iter().min()?, *dealt.sequences.iter().max()?))
        };
        let bounds = bounds().ok_or("there are no rows")?;
        self.offsets.push(dealt.order.len() as i64);
        Ok(SortedPieces {
            order: ArrowArray::from_values::<UInt32Type>(dealt.order),
            times: ArrowArray::from_values::<Int64Type>(dealt.times),
            sequences: ArrowArray::from_values::<UInt64Type>(dealt.sequences),
            series: ArrowArray::from_values::<Int64Type>(self.series),
            offsets: ArrowArray::from_values::<Int64Type>(self.offsets),
            time_min: ArrowArray::from_values::<Int64Type>(self.time_min),
            time_max: ArrowArray::from_values::<Int64Type>(self.time_max),
            bounds,
            is_unique,
        })
    }
}
