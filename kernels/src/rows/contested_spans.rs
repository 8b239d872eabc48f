//! `contested_spans`: where two or more sources may have rows of one series at the same time.
//!
//! A source has series, each with its earliest and its latest time, of which only a range of time counts. Series are the same
//! if both of their hashes are. Spans are compared with the hull of those of all earlier sources: more may be called contested
//! than is, never less.

use arrow_array::types::Int64Type;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrow_ffi::ArrowArray;
use crate::held::Held;
use crate::rows::series_numbers::Known;

/// Both hashes of each series, its earliest and its latest time, and the first and the last time that count.
type Part = (Held<u64>, Held<u64>, Held<i64>, Held<i64>, i64, i64);
type Answer = ([ArrowArray; 3], usize, Vec<ArrowArray>);

/// So many series are compared in less time than it takes to give the interpreter lock away and to get it back.
const FEW_MAX: usize = 1024;

/// Returns the first and the last time of each contested span and the number of its series; how many series there are; and
/// the numbers of the series of each source, nothing if all have the same ones. None if nothing is contested.
#[pyfunction]
pub fn contested_spans(py: Python<'_>, parts: Vec<Part>) -> PyResult<Option<Answer>> {
    let parts = parts.iter().map(Spans::new).collect::<PyResult<Vec<_>>>()?;
    let series: usize = parts.iter().map(|part| part.tsid.len()).sum();
    let found = if series <= FEW_MAX { find(&parts) } else { py.detach(|| find(&parts)) };
    let Some(found) = found else { return Ok(None) };
    let array = ArrowArray::from_values::<Int64Type>;
    Ok(Some((found.spans.map(array), found.count, found.places.into_iter().map(array).collect())))
}

struct Spans<'a> {
    tsid: &'a [u64],
    check: &'a [u64],
    time_min: &'a [i64],
    time_max: &'a [i64],
    first: i64,
    last: i64,
}

struct Found {
    spans: [Vec<i64>; 3],
    count: usize,
    places: Vec<Vec<i64>>,
}

impl<'a> Spans<'a> {
    fn new((tsid, check, time_min, time_max, first, last): &'a Part) -> PyResult<Self> {
        let (tsid, check, time_min, time_max) = (tsid.get(), check.get(), time_min.get(), time_max.get());
        if [check.len(), time_min.len(), time_max.len()] != [tsid.len(); 3] {
            return Err(PyValueError::new_err("each series must have two hashes and two times"));
        }
        Ok(Self { tsid, check, time_min, time_max, first: *first, last: *last })
    }
}

fn find(parts: &[Spans]) -> Option<Found> {
    let (count, places) = number(parts);
    let mut hulls = vec![(i64::MAX, i64::MIN); count];
    let mut spans = [vec![], vec![], vec![]];
    for (at, part) in parts.iter().enumerate() {
        for series in 0..part.tsid.len() {
            let (first, last) = (part.time_min[series].max(part.first), part.time_max[series].min(part.last));
            if first > last {
                continue;
            }
            let number = places.get(at).map_or(series, |own| own[series] as usize);
            let (earliest, latest) = hulls[number];
            let (low, high) = (first.max(earliest), last.min(latest));
            if low <= high {
                for (column, value) in spans.iter_mut().zip([low, high, number as i64]) {
                    column.push(value);
                }
            }
            hulls[number] = (first.min(earliest), last.max(latest));
        }
    }
    (!spans[0].is_empty()).then_some(Found { spans, count, places })
}

/// How many series there are, and the numbers of those of each source; none if all have the same ones.
fn number(parts: &[Spans]) -> (usize, Vec<Vec<i64>>) {
    let Some(one) = parts.first() else { return (0, vec![]) };
    if parts.iter().all(|other| one.tsid == other.tsid && one.check == other.check) {
        return (one.tsid.len(), vec![]);
    }
    let mut known = Known::default();
    let places = parts.iter().map(|part| known.number(part.tsid, part.check).0);
    let places: Vec<Vec<i64>> = places.map(|own| own.into_iter().map(i64::from).collect()).collect();
    (known.len(), places)
}
