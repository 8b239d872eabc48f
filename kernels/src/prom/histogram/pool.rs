//! `Histograms`: many histograms, found by number, that never change.
//!
//! Cells are numbers of histograms (int32), -1 where there is none. What is computed goes into a new pool; a method that
//! computes a histogram for each cell puts it there in the order of the cells, so their numbers are 0, 1, ….

use std::sync::Arc;

use arrow_array::types::{Float64Type, Int32Type, Int64Type, UInt8Type, UInt32Type};
use arrow_array::{Array as _, BinaryArray, LargeBinaryArray};
use arrow_schema::DataType;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::arrow_ffi::{Array, ArrowArray};
use crate::errors::MalformedInput;
use crate::prom::histogram::combine::{Mean, Mixed, Remark, Total, combined, is_equal, is_reset};
use crate::prom::histogram::extended::interpolated;
use crate::prom::histogram::range::{Extension, Samples, Steps, evaluate};
use crate::prom::histogram::value::{GAUGE, Histogram, NOT_RESET, RESET, UNKNOWN};
use crate::prom::histogram::window::{AGGREGATED, Hints, MIXED_SCHEMAS, mark};
use crate::prom::histogram::{quantile, stored, text, trim};

const IS_COLLISION: u8 = 1;
const IS_RECONCILED: u8 = 2;
const IS_MIXED: u8 = 4;

#[pyclass(frozen, module = "tsdb._kernels")]
pub struct Histograms {
    items: Vec<Arc<Histogram>>,
}

impl Histograms {
    pub fn get(&self, cell: i32) -> Option<&Histogram> {
        usize::try_from(cell).ok().and_then(|cell| self.items.get(cell)).map(Arc::as_ref)
    }

    /// Cells that are -1 or the number of a histogram.
    pub fn cells(&self, array: &Array) -> PyResult<Vec<i32>> {
        let cells = array.values::<Int32Type>("cells")?;
        match cells.iter().find(|&&cell| cell < -1 || cell >= self.items.len() as i32) {
            Some(cell) => Err(PyValueError::new_err(format!("cells: {cell} is the number of no histogram"))),
            None => Ok(cells.to_vec()),
        }
    }

    /// Cells that are all numbers of histograms, as many as there are `others`.
    fn full<'a>(&'a self, array: &Array, others: usize) -> PyResult<Vec<&'a Histogram>> {
        let found: Option<Vec<_>> = self.cells(array)?.into_iter().map(|cell| self.get(cell)).collect();
        match found {
            Some(found) if found.len() == others => Ok(found),
            Some(_) => Err(PyValueError::new_err("cells: there must be as many as of the other argument")),
            None => Err(PyValueError::new_err("cells: each must be the number of a histogram")),
        }
    }
}

fn blobs(array: &Array) -> PyResult<Vec<Option<Vec<u8>>>> {
    match array.0.data_type() {
        DataType::Binary => {
            Ok(BinaryArray::from(array.0.clone()).iter().map(|each| each.map(<[u8]>::to_vec)).collect())
        }
        DataType::LargeBinary => {
            Ok(LargeBinaryArray::from(array.0.clone()).iter().map(|each| each.map(<[u8]>::to_vec)).collect())
        }
        other => Err(PyTypeError::new_err(format!("blobs: expected an array of binary, received {other}"))),
    }
}

fn numbers(values: Vec<f64>) -> ArrowArray {
    ArrowArray::from_values::<Float64Type>(values)
}

fn of_items(items: Vec<Histogram>) -> Histograms {
    Histograms { items: items.into_iter().map(Arc::new).collect() }
}

/// A histogram for each cell where there is one, and what was remarkable about each.
fn of_results(results: Vec<Result<(Histogram, Remark), Mixed>>) -> (Histograms, ArrowArray, ArrowArray) {
    let (mut items, mut cells, mut flags) = (Vec::new(), Vec::new(), Vec::new());
    for result in results {
        match result {
            Ok((histogram, remark)) => {
                cells.push(items.len() as i32);
                items.push(Arc::new(histogram));
                let collision = if remark.is_collision { IS_COLLISION } else { 0 };
                flags.push(collision | if remark.is_reconciled { IS_RECONCILED } else { 0 });
            }
            Err(Mixed) => {
                cells.push(-1);
                flags.push(IS_MIXED);
            }
        }
    }
    let (cells, flags) =
        (ArrowArray::from_values::<Int32Type>(cells), ArrowArray::from_values::<UInt8Type>(flags));
    (Histograms { items }, cells, flags)
}

#[pymethods]
impl Histograms {
    /// Reads the stored form; null has no histogram.
    #[staticmethod]
    fn decode(py: Python<'_>, array: Array) -> PyResult<(Self, ArrowArray)> {
        let blobs = blobs(&array)?;
        py.detach(|| {
            let (mut items, mut cells) = (Vec::new(), Vec::with_capacity(blobs.len()));
            for (row, blob) in blobs.iter().enumerate() {
                let Some(blob) = blob else {
                    cells.push(-1);
                    continue;
                };
                let Some(histogram) = stored::decode(blob) else {
                    return Err(MalformedInput::new_err(format!("blobs: row {row} is no histogram")));
                };
                cells.push(items.len() as i32);
                items.push(Arc::new(histogram));
            }
            Ok((Self { items }, ArrowArray::from_values::<Int32Type>(cells)))
        })
    }

    fn encode(&self, py: Python<'_>, cells: Array) -> PyResult<ArrowArray> {
        let cells = self.cells(&cells)?;
        let array: BinaryArray =
            py.detach(|| cells.iter().map(|&cell| self.get(cell).map(stored::encode)).collect());
        Ok(ArrowArray::from_data(array.into_data()))
    }

    #[staticmethod]
    fn concat(pools: Vec<Bound<'_, Histograms>>) -> Self {
        Self { items: pools.iter().flat_map(|pool| pool.get().items.iter().cloned()).collect() }
    }

    fn __len__(&self) -> usize {
        self.items.len()
    }

    /// The number of buckets of the largest.
    #[getter]
    fn width(&self) -> usize {
        self.items.iter().map(|each| each.width()).max().unwrap_or(0)
    }

    fn statistic(&self, py: Python<'_>, name: &str, cells: Array) -> PyResult<ArrowArray> {
        let compute: fn(&Histogram) -> f64 = match name {
            "count" => |each| each.count,
            "sum" => |each| each.sum,
            "avg" => |each| each.sum / each.count,
            "stdvar" => quantile::variance,
            "stddev" => |each| quantile::variance(each).sqrt(),
            _ => return Err(PyValueError::new_err(format!("name: {name} is not known"))),
        };
        let cells = self.cells(&cells)?;
        Ok(numbers(
            py.detach(|| cells.iter().map(|&cell| self.get(cell).map_or(f64::NAN, compute)).collect()),
        ))
    }

    /// Returns quantiles, and for each 1 where NaN was observed and is the result, 2 where the result is too high by it.
    fn quantile(&self, py: Python<'_>, cells: Array, quantiles: Array) -> PyResult<(ArrowArray, ArrowArray)> {
        let quantiles = quantiles.values::<Float64Type>("quantiles")?;
        let items = self.full(&cells, quantiles.len())?;
        let (values, flags) = py.detach(|| {
            items.iter().zip(quantiles.iter()).map(|(each, &q)| quantile::quantile(each, q)).unzip()
        });
        Ok((numbers(values), ArrowArray::from_values::<UInt8Type>(flags)))
    }

    /// Returns the shares of observations between two values, and for each whether NaN was observed.
    fn fraction(
        &self,
        py: Python<'_>,
        cells: Array,
        lower: Array,
        upper: Array,
    ) -> PyResult<(ArrowArray, ArrowArray)> {
        let (lower, upper) = (lower.values::<Float64Type>("lower")?, upper.values::<Float64Type>("upper")?);
        let items = self.full(&cells, lower.len())?;
        if upper.len() != lower.len() {
            return Err(PyValueError::new_err("lower and upper must have the same length"));
        }
        let (values, flags) = py.detach(|| {
            let edges = lower.iter().zip(upper.iter());
            items.iter().zip(edges).map(|(each, (&low, &high))| quantile::fraction(each, low, high)).unzip()
        });
        Ok((numbers(values), ArrowArray::from_values::<UInt8Type>(flags)))
    }

    /// Multiplies each cell by a factor, or divides it.
    fn scale(&self, py: Python<'_>, cells: Array, factors: Array, is_division: bool) -> PyResult<Self> {
        let factors = factors.values::<Float64Type>("factors")?;
        let items = self.full(&cells, factors.len())?;
        let compute = if is_division { Histogram::divided } else { Histogram::scaled };
        Ok(of_items(py.detach(|| {
            items.iter().zip(factors.iter()).map(|(each, &factor)| compute(each, factor)).collect()
        })))
    }

    /// Keeps the observations below a value, or those above.
    fn trim(&self, py: Python<'_>, cells: Array, at: Array, keeps_below: bool) -> PyResult<Self> {
        let at = at.values::<Float64Type>("at")?;
        let items = self.full(&cells, at.len())?;
        Ok(of_items(py.detach(|| {
            items.iter().zip(at.iter()).map(|(each, &at)| trim::trimmed(each, at, keeps_below)).collect()
        })))
    }

    /// Adds cells of another pool to cells, or subtracts them; returns the new cells, -1 where they do not go together,
    /// and flags: 1 for hints that contradict each other, 2 for different custom bounds, 4 where there is no result.
    fn combine(
        &self,
        py: Python<'_>,
        cells: Array,
        other: &Histograms,
        other_cells: Array,
        is_subtraction: bool,
    ) -> PyResult<(Self, ArrowArray, ArrowArray)> {
        let right = other.full(&other_cells, other_cells.0.len())?;
        let left = self.full(&cells, right.len())?;
        Ok(py.detach(|| {
            let sign = if is_subtraction { -1.0 } else { 1.0 };
            let results = left.iter().zip(&right).map(|(left, right)| {
                let (mut result, remark) = combined(left, right, sign)?;
                if is_subtraction {
                    result.hint = GAUGE;
                }
                Ok((result, remark))
            });
            of_results(results.collect())
        }))
    }

    /// Tells for each pair of cells whether they are the same.
    fn equal(
        &self,
        py: Python<'_>,
        cells: Array,
        other: &Histograms,
        other_cells: Array,
    ) -> PyResult<ArrowArray> {
        let right = other.full(&other_cells, other_cells.0.len())?;
        let left = self.full(&cells, right.len())?;
        let same = py.detach(|| left.iter().zip(&right).map(|(a, b)| u8::from(is_equal(a, b))).collect());
        Ok(ArrowArray::from_values::<UInt8Type>(same))
    }

    /// The histograms at shares of the way from cells to others, which grow from nothing behind a counter reset. Returns
    /// the new cells, -1 where there is no way, and flags as `range`.
    fn interpolate(
        &self,
        py: Python<'_>,
        cells: Array,
        other_cells: Array,
        shares: Array,
    ) -> PyResult<(Self, ArrowArray, ArrowArray)> {
        let shares = shares.values::<Float64Type>("shares")?;
        let (left, right) = (self.full(&cells, shares.len())?, self.full(&other_cells, shares.len())?);
        let (items, cells, flags) = py.detach(|| {
            let (mut items, mut cells, mut flags) = (Vec::new(), Vec::new(), Vec::new());
            for ((before, after), &share) in left.iter().zip(&right).zip(shares.iter()) {
                let mut flag = 0;
                let is_counter = before.hint != GAUGE || after.hint != GAUGE;
                match interpolated(before, after, share, is_counter, &mut flag) {
                    Ok(found) => {
                        cells.push(items.len() as i32);
                        items.push(Arc::new(found));
                    }
                    Err(Mixed) => {
                        cells.push(-1);
                        flag = MIXED_SCHEMAS;
                    }
                }
                flags.push(flag);
            }
            (items, cells, flags)
        });
        let flags = ArrowArray::from_values::<UInt32Type>(flags);
        Ok((Self { items }, ArrowArray::from_values::<Int32Type>(cells), flags))
    }

    /// Combines the rows of a matrix of cells by groups, `sum` or `avg`. Returns for each group and column the new cell,
    /// flags, and the row at which exponential and custom histograms met, -1 without such.
    fn aggregate(
        &self,
        py: Python<'_>,
        op: &str,
        cells: Array,
        groups: Array,
        count: usize,
        columns: usize,
    ) -> PyResult<(Self, ArrowArray, ArrowArray, ArrowArray)> {
        let (cells, groups) = (self.cells(&cells)?, groups.values::<Int64Type>("groups")?);
        let is_group = |&group: &i64| usize::try_from(group).is_ok_and(|group| group < count);
        if cells.len() != groups.len() * columns || !groups.iter().all(is_group) {
            return Err(PyValueError::new_err(
                "groups: each row must have a cell for each column and a group",
            ));
        }
        let start: fn(&Histogram) -> Group = match op {
            "sum" => |each| Group::Sum(Total::of(each)),
            "avg" => |each| Group::Mean(Mean::of(each)),
            _ => return Err(PyValueError::new_err(format!("op: {op} is not known"))),
        };
        let (pool, cells, flags, culprits) = py.detach(|| {
            let mut states: Vec<GroupState> = (0..count * columns).map(|_| GroupState::default()).collect();
            for (row, &group) in groups.iter().enumerate() {
                for column in 0..columns {
                    if let Some(each) = self.get(cells[row * columns + column]) {
                        states[group as usize * columns + column].add(each, row, start);
                    }
                }
            }
            finish_groups(states)
        });
        Ok((
            pool,
            ArrowArray::from_values::<Int32Type>(cells),
            ArrowArray::from_values::<UInt32Type>(flags),
            ArrowArray::from_values::<Int32Type>(culprits),
        ))
    }

    /// Tells of each sample, from the one before it in its series, whether the counter was reset.
    fn watched(&self, py: Python<'_>, offsets: Array, cells: Array) -> PyResult<(Self, ArrowArray)> {
        let (cells, offsets) = (self.cells(&cells)?, offsets.values::<Int64Type>("offsets")?);
        check_offsets(&offsets, cells.len())?;
        let (items, cells) = py.detach(|| watch(self, &offsets, &cells));
        Ok((Self { items }, ArrowArray::from_values::<Int32Type>(cells)))
    }

    /// The same histograms without what they know of the samples before them.
    fn forgetful(&self) -> Self {
        let forget = |each: &Arc<Histogram>| match each.hint {
            RESET | NOT_RESET => Arc::new(each.with_hint(UNKNOWN)),
            _ => each.clone(),
        };
        Self { items: self.items.iter().map(forget).collect() }
    }

    fn texts(&self, cells: Array) -> PyResult<Vec<Option<String>>> {
        Ok(self.cells(&cells)?.into_iter().map(|cell| self.get(cell).map(text::text)).collect())
    }

    /// A function of PromQL over the windows of series, see `prom_range`; `cells` are those of the samples. Returns the
    /// pool of results, the matrices of values, presence and cells, and flags for each series.
    #[pyo3(signature = (function, offsets, times, values, cells, ends, ats, range_ms, first, second, extension = "", lookback_ms = 0))]
    #[allow(clippy::too_many_arguments, clippy::type_complexity)]
    fn range(
        &self,
        py: Python<'_>,
        function: &str,
        offsets: Array,
        times: Array,
        values: Array,
        cells: Array,
        ends: Array,
        ats: Array,
        range_ms: i64,
        first: Array,
        second: Array,
        extension: &str,
        lookback_ms: i64,
    ) -> PyResult<(Self, ArrowArray, ArrowArray, ArrowArray, ArrowArray)> {
        let (offsets, times) = (offsets.values::<Int64Type>("offsets")?, times.values::<Int64Type>("times")?);
        let (values, ends) = (values.values::<Float64Type>("values")?, ends.values::<Int64Type>("ends")?);
        let (cells, ats) = (self.cells(&cells)?, ats.values::<Int64Type>("ats")?);
        let (first, second) =
            (first.values::<Float64Type>("first")?, second.values::<Float64Type>("second")?);
        check_offsets(&offsets, times.len())?;
        if values.len() != times.len() || cells.len() != times.len() {
            return Err(PyValueError::new_err("times, values and cells must have the same length"));
        }
        if [ats.len(), first.len(), second.len()].iter().any(|&len| len != ends.len()) {
            return Err(PyValueError::new_err("ends, ats, first and second must have the same length"));
        }
        let samples =
            Samples { offsets: &offsets, times: &times, values: &values, cells: &cells, pool: &self.items };
        let steps = Steps {
            ends: &ends,
            ats: &ats,
            first: &first,
            second: &second,
            range: range_ms,
            lookback: lookback_ms,
        };
        let extension = match extension {
            "" => Extension::None,
            "anchored" => Extension::Anchored,
            "smoothed" => Extension::Smoothed,
            _ => return Err(PyValueError::new_err(format!("extension: {extension} is not known"))),
        };
        let matrix = py
            .detach(|| evaluate(function, &samples, &steps, extension))
            .ok_or_else(|| PyValueError::new_err(format!("function: {function} is not known")))?;
        Ok((
            Self { items: matrix.pool },
            numbers(matrix.values),
            ArrowArray::from_values::<UInt8Type>(matrix.present),
            ArrowArray::from_values::<Int32Type>(matrix.cells),
            ArrowArray::from_values::<UInt32Type>(matrix.flags),
        ))
    }
}

fn check_offsets(offsets: &[i64], samples: usize) -> PyResult<()> {
    let is_inside = |&offset: &i64| usize::try_from(offset).is_ok_and(|offset| offset <= samples);
    if offsets.is_sorted() && offsets.iter().all(is_inside) {
        return Ok(());
    }
    Err(PyValueError::new_err("offsets: they must ascend and lie inside of the samples"))
}

enum Group {
    Sum(Total),
    Mean(Mean),
}

#[derive(Default)]
struct GroupState {
    group: Option<Group>,
    hints: Hints,
    flags: u32,
    culprit: Option<usize>,
}

impl GroupState {
    fn add(&mut self, each: &Histogram, row: usize, start: fn(&Histogram) -> Group) {
        if self.culprit.is_some() {
            return;
        }
        self.hints.see(each.hint);
        let added = match &mut self.group {
            None => {
                self.group = Some(start(each));
                return;
            }
            Some(Group::Sum(total)) => total.add(each, 1.0),
            Some(Group::Mean(mean)) => mean.add(each),
        };
        match added {
            Ok(remark) => mark(&mut self.flags, remark, AGGREGATED),
            Err(Mixed) => self.culprit = Some(row),
        }
    }
}

fn finish_groups(states: Vec<GroupState>) -> (Histograms, Vec<i32>, Vec<u32>, Vec<i32>) {
    let (mut items, mut cells, mut flags, mut culprits) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for state in states {
        culprits.push(state.culprit.map_or(-1, |row| row as i32));
        if state.culprit.is_some() {
            cells.push(-1);
            flags.push(MIXED_SCHEMAS);
            continue;
        }
        let found = match state.group {
            Some(Group::Sum(total)) => total.finish(),
            Some(Group::Mean(mean)) => mean.finish(),
            None => {
                cells.push(-1);
                flags.push(0);
                continue;
            }
        };
        cells.push(items.len() as i32);
        items.push(Arc::new(found));
        flags.push(state.flags | state.hints.flag());
    }
    (Histograms { items }, cells, flags, culprits)
}

fn watch(pool: &Histograms, offsets: &[i64], cells: &[i32]) -> (Vec<Arc<Histogram>>, Vec<i32>) {
    let (mut items, mut out) = (Vec::new(), vec![-1; cells.len()]);
    for bounds in offsets.windows(2) {
        let mut before: Option<&Histogram> = None;
        for position in bounds[0] as usize..bounds[1] as usize {
            let Some(each) = pool.get(cells[position]) else {
                continue;
            };
            let hint = match (each.hint, before) {
                (UNKNOWN, Some(before)) if is_reset(before, each) => RESET,
                (UNKNOWN, Some(_)) => NOT_RESET,
                (hint, _) => hint,
            };
            out[position] = items.len() as i32;
            items.push(Arc::new(each.with_hint(hint)));
            before = Some(each);
        }
    }
    (items, out)
}
