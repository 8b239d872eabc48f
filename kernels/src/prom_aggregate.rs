//! `prom_aggregate`: the rows of a matrix of series and steps, combined group by group.
//!
//! Matrices come row by row, with a byte for each cell that tells whether there is a value. `groups[i]` is the group of
//! row i, below `count`. Rows of a group are taken in their order. `param` has the quantile of each step.

use arrow_array::types::{Float64Type, Int64Type, UInt8Type};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrow_ffi::{Array, ArrowArray};
use crate::prom_sum::{Mean, Sum, quantile};

struct Matrix<'a> {
    values: &'a [f64],
    present: &'a [u8],
    groups: &'a [i64],
    count: usize,
    columns: usize,
}

#[pyfunction]
pub fn prom_aggregate(
    py: Python<'_>,
    op: &str,
    values: Array,
    present: Array,
    groups: Array,
    count: usize,
    param: Array,
) -> PyResult<(ArrowArray, ArrowArray)> {
    let (values, present) =
        (values.values::<Float64Type>("values")?, present.values::<UInt8Type>("present")?);
    let (groups, param) = (groups.values::<Int64Type>("groups")?, param.values::<Float64Type>("param")?);
    let columns = param.len();
    if values.len() != present.len() || values.len() != groups.len() * columns {
        return Err(PyValueError::new_err("values and present must have a cell for each row and step"));
    }
    if groups.iter().any(|&group| usize::try_from(group).map_or(true, |group| group >= count)) {
        return Err(PyValueError::new_err("groups: a group is not below count"));
    }
    let matrix = Matrix { values: &values, present: &present, groups: &groups, count, columns };
    let (result, has) = py
        .detach(|| aggregate(op, &matrix, &param))
        .ok_or_else(|| PyValueError::new_err(format!("op: {op} is not known")))?;
    Ok((ArrowArray::from_values::<Float64Type>(result), ArrowArray::from_values::<UInt8Type>(has)))
}

fn aggregate(op: &str, matrix: &Matrix, param: &[f64]) -> Option<(Vec<f64>, Vec<u8>)> {
    Some(match op {
        "sum" => fold(matrix, Sum::of, |sum, value| *sum = sum.add(value), |sum| sum.value + sum.lost),
        "avg" => fold(matrix, Mean::of, Mean::add, |mean| mean.result()),
        "min" => fold(matrix, |v| v, |old, new| keep(old, new, new < *old), |v| *v),
        "max" => fold(matrix, |v| v, |old, new| keep(old, new, new > *old), |v| *v),
        "count" => fold(matrix, |_| 1.0, |count, _| *count += 1.0, |v| *v),
        "group" => fold(matrix, |_| 1.0, |_, _| (), |v| *v),
        "stdvar" => fold(matrix, Spread::of, Spread::add, Spread::variance),
        "stddev" => fold(matrix, Spread::of, Spread::add, |spread| spread.variance().sqrt()),
        "quantile" => quantiles(matrix, param),
        _ => return None,
    })
}

fn keep(old: &mut f64, new: f64, is_better: bool) {
    if is_better || old.is_nan() {
        *old = new;
    }
}

#[derive(Clone, Copy)]
struct Spread {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Spread {
    fn of(value: f64) -> Self {
        Self { count: 1.0, mean: value, squares: if value.is_finite() { 0.0 } else { f64::NAN } }
    }

    fn add(&mut self, value: f64) {
        self.count += 1.0;
        let delta = value - self.mean;
        self.mean += delta / self.count;
        self.squares += delta * (value - self.mean);
    }

    fn variance(&self) -> f64 {
        self.squares / self.count
    }
}

fn fold<S: Clone>(
    matrix: &Matrix,
    first: impl Fn(f64) -> S,
    add: impl Fn(&mut S, f64),
    result: impl Fn(&S) -> f64,
) -> (Vec<f64>, Vec<u8>) {
    let mut states: Vec<Option<S>> = vec![None; matrix.count * matrix.columns];
    for (row, &group) in matrix.groups.iter().enumerate() {
        let target = &mut states[group as usize * matrix.columns..][..matrix.columns];
        let cells = row * matrix.columns..(row + 1) * matrix.columns;
        for ((state, &value), &has) in
            target.iter_mut().zip(&matrix.values[cells.clone()]).zip(&matrix.present[cells])
        {
            if has == 0 {
                continue;
            }
            match state {
                Some(state) => add(state, value),
                None => *state = Some(first(value)),
            }
        }
    }
    states.iter().map(|state| state.as_ref().map_or((0.0, 0), |state| (result(state), 1))).unzip()
}

fn quantiles(matrix: &Matrix, param: &[f64]) -> (Vec<f64>, Vec<u8>) {
    let mut rows: Vec<Vec<usize>> = vec![Vec::new(); matrix.count];
    for (row, &group) in matrix.groups.iter().enumerate() {
        rows[group as usize].push(row);
    }
    let mut scratch = Vec::new();
    let mut out = (Vec::with_capacity(matrix.count * matrix.columns), Vec::new());
    for members in rows {
        for (column, &q) in param.iter().enumerate() {
            let cells = members.iter().map(|row| row * matrix.columns + column);
            scratch.clear();
            scratch.extend(cells.filter(|&cell| matrix.present[cell] != 0).map(|cell| matrix.values[cell]));
            out.1.push(u8::from(!scratch.is_empty()));
            out.0.push(if scratch.is_empty() { 0.0 } else { quantile(q, &mut scratch) });
        }
    }
    out
}
