//! `sort_keys`: the order of rows by (series, ts, sequence); rows with equal keys keep their order.
//!
//! The work depends on what the rows already are:
//!
//! 1. Rows in order are seen in one pass and answered with the identity.
//! 2. Rows with equal keys keep their order, so trailing key columns that are in order by themselves need not
//!    be looked at: a sequence that grows with the row number, as after any append, and with it the time if
//!    that grows too.
//! 3. Rows that come in spans of one series, each in order (sorted parts one behind the other, batches of one
//!    device), are sorted by span: see `spans`.
//! 4. Anything else is sorted row by row, as packed integers: see `packed`.

mod packed;
mod spans;

use arrow_array::types::{UInt32Type, UInt64Type};
use pyo3::prelude::*;

use self::spans::Spans;
use crate::arrow_ffi::{Array, ArrowArray};
use crate::rows::keys::{Series, SeriesId, check_length, check_rows_max, times, with_series};

#[pyfunction]
#[pyo3(signature = (series, ts, sequence = None))]
pub fn sort_keys(py: Python<'_>, series: Array, ts: Array, sequence: Option<Array>) -> PyResult<ArrowArray> {
    check_rows_max(&series, u32::MAX as usize)?;
    check_length("ts", &ts, &series)?;
    let times = times(&ts)?;
    let sequences = match &sequence {
        Some(array) => {
            check_length("sequence", array, &series)?;
            Some(array.values::<UInt64Type>("sequence")?)
        }
        None => None,
    };
    let ids = Series::new(&series)?;
    let order = py.detach(|| with_series!(&ids, ids => order_of(ids, &times, sequences.as_deref())));
    Ok(ArrowArray::from_values::<UInt32Type>(order))
}

fn order_of<S: SeriesId>(series: &[S], ts: &[i64], sequence: Option<&[u64]>) -> Vec<u32> {
    if is_in_order(series, ts, sequence) {
        return (0..series.len() as u32).collect();
    }
    let sequence = sequence.filter(|sequence| !sequence.is_sorted());
    let ts = Some(ts).filter(|ts| sequence.is_some() || !ts.is_sorted());
    let columns = Columns { series, ts, sequence };
    match Spans::find(&columns) {
        Some(spans) => spans.order(),
        None => packed::order(&columns),
    }
}

fn is_in_order<S: SeriesId>(series: &[S], ts: &[i64], sequence: Option<&[u64]>) -> bool {
    // Slices that visibly have one length spare the loop its bounds checks.
    let rows = series.len();
    let (ts, sequence) = (&ts[..rows], sequence.map(|sequence| &sequence[..rows]));
    (1..rows).all(|row| {
        if series[row] != series[row - 1] {
            series[row] > series[row - 1]
        } else if ts[row] != ts[row - 1] {
            ts[row] > ts[row - 1]
        } else {
            sequence.is_none_or(|sequence| sequence[row] >= sequence[row - 1])
        }
    })
}

/// The key columns that decide the order.
struct Columns<'a, S> {
    series: &'a [S],
    ts: Option<&'a [i64]>,
    sequence: Option<&'a [u64]>,
}

impl<S: SeriesId> Columns<'_, S> {
    fn rows(&self) -> usize {
        self.series.len()
    }

    /// Where a row stands among those of its series.
    fn place(&self, row: u32) -> (i64, u64) {
        let row = row as usize;
        (self.ts.map_or(0, |ts| ts[row]), self.sequence.map_or(0, |sequence| sequence[row]))
    }

    /// Whether a row has a lesser place than the row before it. Says the same as comparing their places, but
    /// the sequence is rarely read.
    #[inline]
    fn descends_in_series(&self, row: usize) -> bool {
        match self.ts {
            Some(ts) if ts[row] != ts[row - 1] => ts[row] < ts[row - 1],
            _ => self.sequence.is_some_and(|sequence| sequence[row] < sequence[row - 1]),
        }
    }

    /// How often a row's key is less than that of the row before it; the counting stops at `enough`.
    fn count_descents(&self, enough: usize) -> usize {
        let series = self.series;
        let descends = |row: usize| match series[row] == series[row - 1] {
            true => self.descends_in_series(row),
            false => series[row] < series[row - 1],
        };
        (1..series.len()).filter(|&row| descends(row)).take(enough).count()
    }

    /// The keys of some rows only.
    fn take(&self, rows: &[u32]) -> OwnedColumns<S> {
        OwnedColumns {
            series: take(self.series, rows),
            ts: self.ts.map(|ts| take(ts, rows)),
            sequence: self.sequence.map(|sequence| take(sequence, rows)),
        }
    }
}

fn take<T: Copy>(values: &[T], rows: &[u32]) -> Vec<T> {
    rows.iter().map(|&row| values[row as usize]).collect()
}

struct OwnedColumns<S> {
    series: Vec<S>,
    ts: Option<Vec<i64>>,
    sequence: Option<Vec<u64>>,
}

impl<S> OwnedColumns<S> {
    fn borrow(&self) -> Columns<'_, S> {
        Columns { series: &self.series, ts: self.ts.as_deref(), sequence: self.sequence.as_deref() }
    }
}
