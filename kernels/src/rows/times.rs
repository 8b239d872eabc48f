//! Times of rows as they lie in memory: as numbers of 64 bits, or as how many steps they are after the first.
//!
//! The times of a row group span hours and mostly come in even steps, so that each is `first + step * count` with a
//! count of 16 or 32 bits. `SteppedTimes` holds them so; kernels take either form as `Times` and read it where it lies.
//! Code that looks at many times is written for any `TimeSlice` and compiled for each (`with_times`); code that looks at
//! a few takes a `TimesRef`, which finds out at each time which it is.

use std::ops::Range;

use arrow_array::types::Int64Type;
use arrow_buffer::{ArrowNativeType, ScalarBuffer};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::arrow_ffi::{Array, ArrowArray};
use crate::held::Held;
use crate::rows::keys::times;

/// Neighbouring times.
pub trait TimeSlice: Copy {
    fn len(self) -> usize;

    fn at(self, row: usize) -> i64;

    fn part(self, rows: Range<usize>) -> Self;

    /// The first and the last one.
    #[inline]
    fn ends(self) -> Option<(i64, i64)> {
        let last = self.len().checked_sub(1)?;
        Some((self.at(0), self.at(last)))
    }

    /// How many times fulfil a condition that only the first ones do.
    #[inline]
    fn partition_point(self, is_before: impl Fn(i64) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if is_before(self.at(middle)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// How many times, which ascend, come before a moment. Measurements come in even steps, so it is looked for where it
    /// would be then, and around that.
    fn seek(self, moment: i64) -> usize {
        let Some((first, last)) = self.ends() else { return 0 };
        if first >= moment {
            return 0;
        }
        if last < moment {
            return self.len();
        }
        // From here on the time at `low` is before the moment, that at `high` is not; distances fit 64 bits without a sign.
        let (mut low, mut high) = (0, self.len() - 1);
        let distance = |from: i64, to: i64| to.wrapping_sub(from) as u64 as f64;
        let guess = (distance(first, moment) / distance(first, last) * high as f64) as usize;
        let guess = guess.clamp(1, high);
        let mut reach = 1;
        if self.at(guess) < moment {
            low = guess;
            while low + reach < high && self.at(low + reach) < moment {
                low += reach;
                reach *= 2;
            }
            high = high.min(low + reach);
        } else {
            high = guess;
            while high > low + reach && self.at(high - reach) >= moment {
                high -= reach;
                reach *= 2;
            }
            low = low.max(high.saturating_sub(reach));
        }
        low + 1 + self.part(low + 1..high).partition_point(|time| time < moment)
    }
}

impl TimeSlice for &[i64] {
    #[inline]
    fn len(self) -> usize {
        self.len()
    }

    #[inline]
    fn at(self, row: usize) -> i64 {
        self[row]
    }

    #[inline]
    fn part(self, rows: Range<usize>) -> Self {
        &self[rows]
    }
}

/// Times as numbers of steps.
#[derive(Clone, Copy)]
pub struct Steps<C> {
    first: i64,
    step: i64,
    counts: C,
}

impl<C> Steps<C> {
    #[inline]
    fn time(&self, count: impl Into<i64>) -> i64 {
        self.first.wrapping_add(self.step.wrapping_mul(count.into()))
    }
}

impl<T: Copy + Into<i64>> TimeSlice for Steps<&[T]> {
    #[inline]
    fn len(self) -> usize {
        self.counts.len()
    }

    #[inline]
    fn at(self, row: usize) -> i64 {
        self.time(self.counts[row])
    }

    #[inline]
    fn part(self, rows: Range<usize>) -> Self {
        Self { counts: &self.counts[rows], ..self }
    }
}

impl<T: Copy + Into<u32> + Into<i64>> Steps<&[T]> {
    /// Adds the times to numbers. There is an instruction that multiplies several numbers of 32 bits at once, but none
    /// for 64 bits.
    fn append_to(self, numbers: &mut Vec<i64>) {
        match u32::try_from(self.step) {
            Ok(step) => numbers.extend(self.counts.iter().map(|&count| {
                let count: u32 = count.into();
                self.first.wrapping_add((u64::from(step) * u64::from(count)) as i64)
            })),
            Err(_) => numbers.extend(self.counts.iter().map(|&count| self.time(count))),
        }
    }
}

impl<T: ArrowNativeType> Steps<ScalarBuffer<T>> {
    fn part(&self, rows: Range<usize>) -> Steps<&[T]> {
        Steps { first: self.first, step: self.step, counts: &self.counts[rows] }
    }
}

/// A column of times.
#[derive(Clone)]
pub enum Times {
    Wide(ScalarBuffer<i64>),
    Middle(Steps<ScalarBuffer<u32>>),
    Narrow(Steps<ScalarBuffer<u16>>),
}

/// Some of them.
#[derive(Clone, Copy)]
pub enum TimesRef<'a> {
    Wide(&'a [i64]),
    Middle(Steps<&'a [u32]>),
    Narrow(Steps<&'a [u16]>),
}

/// Runs the same code for each form of times.
macro_rules! with_times {
    ($times:expr, $slice:ident => $body:expr) => {
        match $times {
            $crate::rows::times::TimesRef::Wide($slice) => $body,
            $crate::rows::times::TimesRef::Middle($slice) => $body,
            $crate::rows::times::TimesRef::Narrow($slice) => $body,
        }
    };
}
pub(crate) use with_times;

impl Times {
    pub fn len(&self) -> usize {
        match self {
            Self::Wide(times) => times.len(),
            Self::Middle(steps) => steps.counts.len(),
            Self::Narrow(steps) => steps.counts.len(),
        }
    }

    #[inline]
    pub fn at(&self, row: usize) -> i64 {
        match self {
            Self::Wide(times) => times[row],
            Self::Middle(steps) => steps.time(steps.counts[row]),
            Self::Narrow(steps) => steps.time(steps.counts[row]),
        }
    }

    #[inline]
    pub fn part(&self, rows: Range<usize>) -> TimesRef<'_> {
        match self {
            Self::Wide(times) => TimesRef::Wide(&times[rows]),
            Self::Middle(steps) => TimesRef::Middle(steps.part(rows)),
            Self::Narrow(steps) => TimesRef::Narrow(steps.part(rows)),
        }
    }

    pub fn all(&self) -> TimesRef<'_> {
        self.part(0..self.len())
    }

    /// What is held for them.
    fn bytes(&self) -> usize {
        match self {
            Self::Wide(times) => size_of_val(&times[..]),
            Self::Middle(steps) => size_of_val(&steps.counts[..]),
            Self::Narrow(steps) => size_of_val(&steps.counts[..]),
        }
    }

    /// Returns times as steps; None if they would not be shorter.
    fn stepped(times: &[i64]) -> Option<Self> {
        let Pace { first, last, step } = Pace::of(times)?;
        let span = last.checked_sub(first).filter(|&span| span < ROUND_BITS)?;
        let share = 1.0 / step as f64;
        if span / step <= i64::from(u16::MAX) {
            let counts = times.iter().map(|&time| count_steps(time - first, share) as u16).collect();
            return Some(Self::Narrow(Steps { first, step, counts }));
        }
        (span / step <= i64::from(u32::MAX)).then(|| {
            let counts = times.iter().map(|&time| count_steps(time - first, share) as u32).collect();
            Self::Middle(Steps { first, step, counts })
        })
    }
}

/// The bits of the double 2^52: what is between it and the next power of two are all whole numbers.
const ROUND: u64 = 0x4330_0000_0000_0000;
const ROUND_BITS: i64 = 1 << 52;

/// Divides a distance below 2^52, of which `share` is one part, in a way that compiles to what works on several at once:
/// low bits of doubles are integers. The number of steps is below 2^32, so that rounding takes away the error of `share`.
#[inline]
fn count_steps(distance: i64, share: f64) -> u64 {
    let whole = f64::from_bits(ROUND | distance as u64) - ROUND_BITS as f64;
    (whole * share + ROUND_BITS as f64).to_bits()
}

/// The least and the greatest of times, and the greatest step in which they follow each other.
struct Pace {
    first: i64,
    last: i64,
    step: i64,
}

impl Pace {
    fn of(times: &[i64]) -> Option<Self> {
        let &start = times.first()?;
        let (mut first, mut last, mut step, mut usual, mut before) = (start, start, 0, 0, start);
        for part in times.chunks(EVEN) {
            let is_even = part[0].wrapping_sub(before) == usual
                && part.windows(2).fold(0, |other, pair| other | (pair[1].wrapping_sub(pair[0]) ^ usual))
                    == 0;
            if is_even {
                // Distances are as before, so that the ends are the least and the greatest.
                before = part[part.len() - 1];
                first = first.min(part[0]).min(before);
                last = last.max(part[0]).max(before);
                continue;
            }
            for &time in part {
                let distance = time.wrapping_sub(before);
                before = time;
                (first, last) = (first.min(time), last.max(time));
                if distance != usual && step != 1 {
                    step = common_divisor(distance.unsigned_abs(), step);
                    usual = distance;
                }
            }
        }
        Some(Self { first, last, step: i64::try_from(step.max(1)).ok()? })
    }
}

/// So many times are looked at together for whether they come in even steps.
const EVEN: usize = 128;

fn common_divisor(mut one: u64, mut other: u64) -> u64 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

impl<'py> FromPyObject<'_, 'py> for Times {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(stepped) = object.cast::<SteppedTimes>() {
            return Ok(stepped.get().0.clone());
        }
        Ok(Self::Wide(times(&object.extract()?)?))
    }
}

impl<'a> TimesRef<'a> {
    /// Returns them as numbers: where they lie, or in a room.
    #[inline]
    pub fn numbers(self, room: &'a mut Vec<i64>) -> &'a [i64] {
        match self {
            Self::Wide(times) => times,
            _ => {
                room.clear();
                self.append_to(room);
                room
            }
        }
    }

    /// Adds them to numbers.
    #[inline]
    pub fn append_to(self, numbers: &mut Vec<i64>) {
        match self {
            Self::Wide(times) => numbers.extend_from_slice(times),
            Self::Middle(steps) => steps.append_to(numbers),
            Self::Narrow(steps) => steps.append_to(numbers),
        }
    }
}

impl TimeSlice for TimesRef<'_> {
    #[inline]
    fn len(self) -> usize {
        with_times!(self, times => TimeSlice::len(times))
    }

    #[inline]
    fn at(self, row: usize) -> i64 {
        with_times!(self, times => times.at(row))
    }

    #[inline]
    fn part(self, rows: Range<usize>) -> Self {
        match self {
            Self::Wide(times) => Self::Wide(times.part(rows)),
            Self::Middle(steps) => Self::Middle(steps.part(rows)),
            Self::Narrow(steps) => Self::Narrow(steps.part(rows)),
        }
    }
}

/// Times that are held as numbers of steps.
#[pyclass(frozen, module = "tsdb._kernels")]
pub struct SteppedTimes(Times);

#[pymethods]
impl SteppedTimes {
    /// Returns times (int64 or timestamps, in any order) as steps; None if that does not make them shorter.
    #[staticmethod]
    fn pack(py: Python<'_>, ts: Array) -> PyResult<Option<Self>> {
        let wide = times(&ts)?;
        Ok(py.detach(|| Times::stepped(&wide)).map(Self))
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// The bytes that are held.
    #[getter]
    fn nbytes(&self) -> usize {
        self.0.bytes()
    }

    /// Returns the times of row ranges, one after the other, as int64.
    fn read(&self, starts: Held<i64>, stops: Held<i64>) -> PyResult<ArrowArray> {
        let (starts, stops) = (starts.get(), stops.get());
        let rows = self.0.len() as i64;
        let is_wrong = |(&start, &stop): (&i64, &i64)| start < 0 || start > stop || stop > rows;
        if starts.len() != stops.len() || starts.iter().zip(stops).any(is_wrong) {
            return Err(PyValueError::new_err(format!("there are {rows} rows, and not all of these ranges")));
        }
        let ranges = || starts.iter().zip(stops).map(|(&start, &stop)| start as usize..stop as usize);
        let mut numbers = Vec::with_capacity(ranges().map(|range| range.len()).sum());
        ranges().for_each(|range| self.0.part(range).append_to(&mut numbers));
        Ok(ArrowArray::from_values::<Int64Type>(numbers))
    }

    /// All times as an array of int64, by the Arrow PyCapsule protocol.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let mut numbers = Vec::with_capacity(self.0.len());
        self.0.all().append_to(&mut numbers);
        ArrowArray::from_values::<Int64Type>(numbers).__arrow_c_array__(py, requested_schema)
    }
}
