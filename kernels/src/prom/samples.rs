//! `Samples`: what chosen series have in a range of time, found in many sorted sources and left where it lies.
//!
//! A source (a run in memory, a data file) is sorted by series and time. `SeriesStretches` tells which series it has, by
//! their numbers, and the stretch of rows of each; `SamplePiece` is a piece of its columns, from row `begin` on. `Samples`
//! finds for each chosen series the rows from `first` to `last`, both included, in all pieces. Series are in the order of
//! `chosen`, those without a row are left out; the samples of one ascend in time. Nothing is copied until somebody asks for
//! whole columns: who evaluates a series reads the pieces, or puts the pieces of one series together in a place of its own.
//!
//! Where pieces overlap in time, their rows of a series are merged: what they have in turns is copied to a piece of its own,
//! longer runs of rows stay where they are. Of rows with one series and time the one of the last piece is the newest, if
//! the caller says that pieces are in the order of their age; otherwise there are no `Samples`.

use std::cmp::Ordering;
use std::ops::Range;

use arrow_array::types::{Float64Type, Int64Type, UInt8Type, UInt32Type};
use arrow_buffer::ScalarBuffer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::arrow_ffi::{Array, ArrowArray, refuse_nulls};
use crate::errors::limit_exceeded;
use crate::prom::range::{self, Room, STALE, Series, Stretch};
use crate::rows::doubles::Doubles;
use crate::rows::times::{TimeSlice, Times, TimesRef, with_times};

const NOWHERE: u32 = u32::MAX;
/// So many rows of one piece in a row are not copied where pieces are merged.
const WHOLE_ROWS_MIN: usize = 64;
/// So many rows are looked at one by one for where a turn ends.
const TURN_ROWS: usize = 4;

/// Which series a source has, by number, and where.
#[pyclass(frozen, module = "tsdb._kernels")]
pub struct SeriesStretches {
    numbers: ScalarBuffer<u32>,
    /// The positions in the order of the numbers, if that is another one.
    by_number: Option<Vec<u32>>,
    offsets: ScalarBuffer<i64>,
    time_min: ScalarBuffer<i64>,
    time_max: ScalarBuffer<i64>,
}

#[pymethods]
impl SeriesStretches {
    /// The rows of the series `numbers[i]` are `offsets[i]` to `offsets[i + 1]`, their times `time_min[i]` to `time_max[i]`.
    #[new]
    fn new(numbers: Array, offsets: Array, time_min: Array, time_max: Array) -> PyResult<Self> {
        let numbers = numbers.values::<UInt32Type>("numbers")?;
        let offsets = offsets.values::<Int64Type>("offsets")?;
        let (time_min, time_max) =
            (time_min.values::<Int64Type>("time_min")?, time_max.values::<Int64Type>("time_max")?);
        let count = numbers.len();
        if offsets.len() != count + 1 || time_min.len() != count || time_max.len() != count {
            return Err(PyValueError::new_err("there must be a stretch and a span of time for each series"));
        }
        if offsets[0] < 0 || offsets.windows(2).any(|pair| pair[0] > pair[1]) {
            return Err(PyValueError::new_err("offsets must ascend from 0 or more"));
        }
        let by_number = (!numbers.is_sorted()).then(|| {
            let mut order: Vec<u32> = (0..count as u32).collect();
            order.sort_unstable_by_key(|&at| numbers[at as usize]);
            order
        });
        Ok(Self { numbers, by_number, offsets, time_min, time_max })
    }

    fn __len__(&self) -> usize {
        self.numbers.len()
    }

    /// Returns which pieces have rows of chosen series in a range of time; piece i starts at row `begins[i]`, the last
    /// one of `begins` is where the last piece ends.
    fn pieces(
        &self,
        py: Python<'_>,
        chosen: Array,
        first: i64,
        last: i64,
        begins: Array,
    ) -> PyResult<Vec<usize>> {
        let chosen = chosen.values::<UInt32Type>("chosen")?;
        let begins = begins.values::<Int64Type>("begins")?;
        if !begins.is_sorted() {
            return Err(PyValueError::new_err("begins must ascend"));
        }
        Ok(py.detach(|| {
            let places = Places::of(&chosen);
            let mut is_touched = vec![false; begins.len().saturating_sub(1)];
            self.each(&chosen, &places, |at, _| {
                let (start, stop) = (self.offsets[at], self.offsets[at + 1]);
                if start == stop || !self.overlaps(at, first, last) {
                    return;
                }
                let low = begins.partition_point(|&begin| begin <= start).saturating_sub(1);
                let high = begins.partition_point(|&begin| begin < stop).min(is_touched.len());
                is_touched[low.min(high)..high].fill(true);
            });
            is_touched.iter().enumerate().filter_map(|(number, &is)| is.then_some(number)).collect()
        }))
    }
}

impl SeriesStretches {
    fn overlaps(&self, at: usize, first: i64, last: i64) -> bool {
        self.time_max[at] >= first && self.time_min[at] <= last
    }

    /// Calls back with the position of each chosen series here and its place among the chosen ones.
    fn each(&self, chosen: &[u32], places: &Places, mut take: impl FnMut(usize, u32)) {
        let count = self.numbers.len();
        let steps = usize::BITS - count.leading_zeros();
        if chosen.len() * (steps as usize) < count {
            for (place, &number) in chosen.iter().enumerate() {
                if let Some(at) = self.find(number) {
                    take(at, place as u32);
                }
            }
            return;
        }
        for (at, &number) in self.numbers.iter().enumerate() {
            let place = places.get(number);
            if place != NOWHERE {
                take(at, place);
            }
        }
    }

    fn find(&self, number: u32) -> Option<usize> {
        match &self.by_number {
            None => self.numbers.binary_search(&number).ok(),
            Some(order) => {
                let found = order.binary_search_by_key(&number, |&at| self.numbers[at as usize]).ok()?;
                Some(order[found] as usize)
            }
        }
    }
}

/// Where series are among the chosen ones.
struct Places(Vec<u32>);

impl Places {
    fn of(chosen: &[u32]) -> Self {
        let mut places = vec![NOWHERE; chosen.iter().max().map_or(0, |&most| most as usize + 1)];
        for (place, &number) in chosen.iter().enumerate() {
            places[number as usize] = place as u32;
        }
        Self(places)
    }

    fn get(&self, number: u32) -> u32 {
        self.0.get(number as usize).copied().unwrap_or(NOWHERE)
    }
}

/// Times and values of neighbouring rows of a source, the first of which is row `begin`.
#[derive(Clone)]
#[pyclass(frozen, module = "tsdb._kernels")]
pub struct SamplePiece {
    begin: i64,
    times: Times,
    values: Doubles,
}

#[pymethods]
impl SamplePiece {
    #[new]
    fn new(begin: i64, times: Times, values: Array) -> PyResult<Self> {
        refuse_nulls(&values.0, "values")?;
        let Some(values) = Doubles::new(&values.0) else {
            return Err(PyTypeError::new_err(format!("values: {} are no doubles", values.0.data_type())));
        };
        if begin < 0 || times.len() != values.len() || times.len() > NOWHERE as usize {
            return Err(PyValueError::new_err("a piece begins at a row and has a time for each value"));
        }
        Ok(Self { begin, times, values })
    }

    fn __len__(&self) -> usize {
        self.times.len()
    }
}

/// Neighbouring rows of a piece that belong to one series.
#[derive(Clone, Copy)]
struct Segment {
    piece: u32,
    start: u32,
    stop: u32,
}

/// The samples of chosen series.
#[pyclass(frozen, module = "tsdb._kernels")]
pub struct Samples {
    pieces: Vec<SamplePiece>,
    segments: Vec<Segment>,
    /// The segments of series i are `bounds[i]` to `bounds[i + 1]`.
    bounds: Vec<usize>,
    /// How many samples come before those of series i.
    offsets: Vec<i64>,
    places: Vec<u32>,
}

type Part<'py> = (Bound<'py, SeriesStretches>, Bound<'py, SamplePiece>);

#[pymethods]
impl Samples {
    /// Finds samples; LimitExceeded if there are more than `samples_max`. Of samples with one time the one of the last
    /// part remains with `last_wins`; without it there are None if there are any.
    #[staticmethod]
    #[pyo3(signature = (parts, chosen, first, last, samples_max, *, last_wins = false))]
    fn find(
        py: Python<'_>,
        parts: Vec<Part<'_>>,
        chosen: Array,
        first: i64,
        last: i64,
        samples_max: usize,
        last_wins: bool,
    ) -> PyResult<Option<Self>> {
        let chosen = chosen.values::<UInt32Type>("chosen")?;
        let parts: Vec<(&SeriesStretches, &SamplePiece)> =
            parts.iter().map(|(stretches, piece)| (stretches.get(), piece.get())).collect();
        let found = py.detach(|| find(&parts, &chosen, first, last, last_wins));
        match found {
            Some(found) if found.len() > samples_max => {
                Err(limit_exceeded("samples", samples_max, found.len()))
            }
            found => Ok(found),
        }
    }

    /// How many samples there are.
    fn __len__(&self) -> usize {
        self.offsets.last().map_or(0, |&count| count as usize)
    }

    /// How many series have samples.
    #[getter]
    fn series(&self) -> usize {
        self.places.len()
    }

    /// For each series its place among the chosen ones.
    #[getter]
    fn places(&self) -> ArrowArray {
        ArrowArray::from_values::<UInt32Type>(self.places.clone())
    }

    /// Returns offsets, times and values, as copies: series after series.
    fn columns(&self, py: Python<'_>) -> (ArrowArray, ArrowArray, ArrowArray) {
        let (times, values) = py.detach(|| self.laid_out());
        (
            ArrowArray::from_values::<Int64Type>(self.offsets.clone()),
            ArrowArray::from_values::<Int64Type>(times),
            ArrowArray::from_values::<Float64Type>(values),
        )
    }

    /// Like `prom_instant`; the times of samples come only if they are asked for.
    fn instant(
        &self,
        py: Python<'_>,
        ats: Array,
        lookback_ms: i64,
        has_times: bool,
    ) -> PyResult<(ArrowArray, Option<ArrowArray>, ArrowArray)> {
        let ats = ats.values::<Int64Type>("ats")?;
        let (found, seen, present) = py.detach(|| range::latest(self, &ats, lookback_ms, has_times));
        Ok((
            ArrowArray::from_values::<Float64Type>(found),
            has_times.then(|| ArrowArray::from_values::<Int64Type>(seen)),
            ArrowArray::from_values::<UInt8Type>(present),
        ))
    }

    /// Like `prom_range`; stale samples are left out.
    #[pyo3(signature = (function, ends, ats, range_ms, first, second, extension = "", lookback_ms = 0))]
    #[allow(clippy::too_many_arguments)]
    fn range(
        &self,
        py: Python<'_>,
        function: &str,
        ends: Array,
        ats: Array,
        range_ms: i64,
        first: Array,
        second: Array,
        extension: &str,
        lookback_ms: i64,
    ) -> PyResult<(ArrowArray, ArrowArray)> {
        let steps = range::Steps::new(&ends, &ats, range_ms, &first, &second, lookback_ms)?;
        range::apply(py, self, &steps, function, extension)
    }
}

impl Samples {
    fn len(&self) -> usize {
        self.__len__()
    }

    fn segment(&self, segment: Segment) -> Stretch<'_> {
        let piece = &self.pieces[segment.piece as usize];
        let rows = segment.start as usize..segment.stop as usize;
        Stretch { times: piece.times.part(rows.clone()), values: &piece.values, rows }
    }

    fn laid_out(&self) -> (Vec<i64>, Vec<f64>) {
        let (mut times, mut values) = (Vec::with_capacity(self.len()), Vec::with_capacity(self.len()));
        for &segment in &self.segments {
            self.segment(segment).append_to(&mut times, &mut values);
        }
        (times, values)
    }
}

impl Series for Samples {
    fn count(&self) -> usize {
        self.places.len()
    }

    fn size(&self, row: usize) -> usize {
        (self.offsets[row + 1] - self.offsets[row]) as usize
    }

    fn row<'a>(&'a self, row: usize, room: &'a mut Room) -> (&'a [i64], &'a [f64]) {
        let segments = &self.segments[self.bounds[row]..self.bounds[row + 1]];
        let Room { times, values } = room;
        if let [one] = segments {
            let Stretch { times: own, values: doubles, rows } = self.segment(*one);
            if !has_stale(doubles, rows.clone()) {
                return (own.numbers(times), doubles.part(rows, values));
            }
        }
        times.clear();
        values.clear();
        for &segment in segments {
            let stretch = self.segment(segment);
            if has_stale(stretch.values, stretch.rows.clone()) {
                for (at, row) in stretch.rows.enumerate() {
                    let value = stretch.values.at(row);
                    if value.to_bits() != STALE {
                        times.push(stretch.times.at(at));
                        values.push(value);
                    }
                }
            } else {
                stretch.append_to(times, values);
            }
        }
        (times, values)
    }

    fn stretches(&self, row: usize) -> impl Iterator<Item = Stretch<'_>> {
        self.segments[self.bounds[row]..self.bounds[row + 1]].iter().map(|&segment| self.segment(segment))
    }
}

/// Without leaving early, because there is hardly ever one and so several are looked at at once. What is held as
/// integers has none.
fn has_stale(values: &Doubles, rows: Range<usize>) -> bool {
    let stale = |found, value: &f64| found | (value.to_bits() == STALE);
    values.wide_part(rows).is_some_and(|values| values.iter().fold(false, stale))
}

/// A segment on its way to its series.
struct Hit {
    place: u32,
    time: i64,
    segment: Segment,
}

fn find(
    parts: &[(&SeriesStretches, &SamplePiece)],
    chosen: &[u32],
    first: i64,
    last: i64,
    last_wins: bool,
) -> Option<Samples> {
    let places = Places::of(chosen);
    let mut hits = Vec::new();
    for (number, (stretches, piece)) in parts.iter().enumerate() {
        let end = piece.begin + piece.times.len() as i64;
        stretches.each(chosen, &places, |at, place| {
            let start = stretches.offsets[at].max(piece.begin) - piece.begin;
            let stop = stretches.offsets[at + 1].min(end) - piece.begin;
            if start >= stop || !stretches.overlaps(at, first, last) {
                return;
            }
            let times = piece.times.part(start as usize..stop as usize);
            let (low, high) = with_times!(times, times => narrow(times, first, last));
            if low < high {
                let (begin, end) = (start as u32 + low as u32, start as u32 + high as u32);
                let segment = Segment { piece: number as u32, start: begin, stop: end };
                hits.push(Hit { place, time: times.at(low), segment });
            }
        });
    }
    if !hits.is_sorted_by_key(|hit| (hit.place, hit.time)) {
        hits = by_place(hits, chosen.len());
    }
    arrange(parts, &hits, last_wins)
}

/// Hits in the order of their places, and of time where those of one place are not.
fn by_place(hits: Vec<Hit>, count: usize) -> Vec<Hit> {
    let mut next = vec![0_usize; count + 1];
    hits.iter().for_each(|hit| next[hit.place as usize + 1] += 1);
    for place in 0..count {
        next[place + 1] += next[place];
    }
    let bounds = next.clone();
    let mut order = vec![0_u32; hits.len()];
    for (number, hit) in hits.iter().enumerate() {
        order[next[hit.place as usize]] = number as u32;
        next[hit.place as usize] += 1;
    }
    for pair in bounds.windows(2) {
        let own = &mut order[pair[0]..pair[1]];
        if !own.is_sorted_by_key(|&number| hits[number as usize].time) {
            own.sort_by_key(|&number| hits[number as usize].time);
        }
    }
    order
        .iter()
        .map(|&number| {
            let hit = &hits[number as usize];
            Hit { place: hit.place, time: hit.time, segment: hit.segment }
        })
        .collect()
}

/// Makes samples of hits in order; None if there are samples of one time and not known which is the newest.
fn arrange(parts: &[(&SeriesStretches, &SamplePiece)], hits: &[Hit], last_wins: bool) -> Option<Samples> {
    let mut merger =
        Merger { parts, last_wins, segments: Vec::with_capacity(hits.len()), times: vec![], values: vec![] };
    let (mut bounds, mut offsets, mut places) = (vec![0], vec![0], vec![]);
    let mut count = 0;
    for own in hits.chunk_by(|one, other| one.place == other.place) {
        let done = merger.segments.len();
        merger.add(own)?;
        count += merger.segments[done..]
            .iter()
            .map(|segment| i64::from(segment.stop - segment.start))
            .sum::<i64>();
        bounds.push(merger.segments.len());
        offsets.push(count);
        places.push(own[0].place);
    }
    let (segments, merged) = merger.finish()?;
    let pieces = parts.iter().map(|(_, piece)| (*piece).clone()).chain(merged).collect();
    Some(Samples { pieces, segments, bounds, offsets, places })
}

/// What is left of a segment, and the time of its first row.
#[derive(Clone, Copy)]
struct Rest {
    segment: Segment,
    time: i64,
}

/// The rows that are next where segments overlap.
struct Turn {
    /// Whose rows they are.
    chosen: usize,
    rows: usize,
    /// Whether others have a row of the same time, which is older.
    is_shared: bool,
}

/// Puts the segments of series in order, merged where they overlap.
struct Merger<'a> {
    parts: &'a [(&'a SeriesStretches, &'a SamplePiece)],
    last_wins: bool,
    segments: Vec<Segment>,
    /// What was copied: a piece behind all others.
    times: Vec<i64>,
    values: Vec<f64>,
}

impl<'a> Merger<'a> {
    fn piece_of(&self, segment: Segment) -> &'a SamplePiece {
        self.parts[segment.piece as usize].1
    }

    fn times_of(&self, segment: Segment) -> TimesRef<'a> {
        self.piece_of(segment).times.part(segment.start as usize..segment.stop as usize)
    }

    /// Adds what a series has.
    fn add(&mut self, hits: &[Hit]) -> Option<()> {
        let is_apart = hits.windows(2).all(|pair| {
            let before = pair[0].segment;
            self.times_of(before).ends().is_some_and(|(_, last)| last < pair[1].time)
        });
        if is_apart {
            self.segments.extend(hits.iter().map(|hit| hit.segment));
            return Some(());
        }
        let mut open: Vec<Rest> =
            hits.iter().map(|hit| Rest { segment: hit.segment, time: hit.time }).collect();
        let mut copied = self.times.len();
        while !open.is_empty() {
            let Turn { chosen, rows, is_shared } = self.next_turn(&open)?;
            let Rest { segment: mut own, time } = open[chosen];
            own.stop = own.start + rows as u32;
            if rows < WHOLE_ROWS_MIN {
                self.copy(own, time);
            } else {
                copied = self.close(copied);
                self.segments.push(own);
            }
            if is_shared {
                open.retain_mut(|rest| rest.time != time || self.skip(rest, 1));
            } else if !self.skip(&mut open[chosen], rows) {
                open.remove(chosen);
            }
        }
        self.close(copied);
        Some(())
    }

    /// Copies a few rows, the first of which has a known time.
    fn copy(&mut self, own: Segment, time: i64) {
        let piece = self.piece_of(own);
        if own.start + 1 == own.stop {
            self.times.push(time);
            self.values.push(piece.values.at(own.start as usize));
            return;
        }
        let rows = own.start as usize..own.stop as usize;
        piece.times.part(rows.clone()).append_to(&mut self.times);
        piece.values.append(rows, &mut self.values);
    }

    /// Leaves rows out; returns whether any are left then.
    fn skip(&self, rest: &mut Rest, rows: usize) -> bool {
        let Segment { start, stop, .. } = &mut rest.segment;
        *start += rows as u32;
        if start == stop {
            return false;
        }
        rest.time = self.piece_of(rest.segment).times.at(rest.segment.start as usize);
        true
    }

    /// Chooses the segment whose rows are next, and how many of them; None if it is not known which of two is newer.
    fn next_turn(&self, open: &[Rest]) -> Option<Turn> {
        let (mut chosen, mut is_shared, mut bound) = (0, false, None);
        for (at, rest) in open.iter().enumerate().skip(1) {
            let earliest = open[chosen].time;
            match rest.time.cmp(&earliest) {
                Ordering::Less => (chosen, is_shared, bound) = (at, false, Some(earliest)),
                Ordering::Equal => {
                    is_shared = true;
                    if rest.segment.piece > open[chosen].segment.piece {
                        chosen = at;
                    }
                }
                Ordering::Greater => bound = Some(bound.map_or(rest.time, |bound: i64| bound.min(rest.time))),
            }
        }
        if is_shared && !self.last_wins {
            return None;
        }
        let times = self.times_of(open[chosen].segment);
        let rows = match bound {
            _ if is_shared => 1,
            None => times.len(),
            Some(bound) => with_times!(times, times => rows_before(times, bound)),
        };
        Some(Turn { chosen, rows, is_shared })
    }

    /// Makes a segment of what was copied since; returns how much there is by now.
    fn close(&mut self, copied: usize) -> usize {
        let all = self.times.len();
        if copied < all {
            let piece = self.parts.len() as u32;
            self.segments.push(Segment { piece, start: copied as u32, stop: all as u32 });
        }
        all
    }

    fn finish(self) -> Option<(Vec<Segment>, Option<SamplePiece>)> {
        if self.times.len() > NOWHERE as usize {
            return None;
        }
        let merged = (!self.times.is_empty()).then(|| SamplePiece {
            begin: 0,
            times: Times::Wide(self.times.into()),
            values: Doubles::Wide(self.values.into()),
        });
        Some((self.segments, merged))
    }
}

/// How many rows come before a moment; the first one does. Where rows take turns, there are few.
fn rows_before(times: impl TimeSlice, moment: i64) -> usize {
    let near = times.len().min(TURN_ROWS);
    (1..near).find(|&row| times.at(row) >= moment).unwrap_or_else(|| times.seek(moment))
}

/// The rows from `first` to `last`.
fn narrow(times: impl TimeSlice, first: i64, last: i64) -> (usize, usize) {
    let low = times.seek(first);
    let rest = times.part(low..times.len());
    (low, low + if last == i64::MAX { rest.len() } else { rest.seek(last + 1) })
}
