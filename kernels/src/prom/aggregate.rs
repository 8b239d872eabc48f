//! `prom_aggregate`: the rows of a matrix of series and steps, combined group by group. `prom_first`: the first of each.
//!
//! Matrices come row by row, with a byte for each cell that tells whether there is a value. `groups[i]` is the group of
//! row i, below `count`. Rows of a group are taken in their order. `param` has the quantile of each step.

use std::cmp::Ordering;

use arrow_array::types::{Float64Type, Int64Type, UInt8Type};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrow_ffi::{Array, ArrowArray};
use crate::prom::sum::{Mean, Sum, quantile};

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
    let matrix = check(&values, &present, &groups, count, param.len())?;
    let (result, has) = py
        .detach(|| aggregate(op, &matrix, &param))
        .ok_or_else(|| PyValueError::new_err(format!("op: {op} is not known")))?;
    Ok((ArrowArray::from_values::<Float64Type>(result), ArrowArray::from_values::<UInt8Type>(has)))
}

fn check<'a>(
    values: &'a [f64],
    present: &'a [u8],
    groups: &'a [i64],
    count: usize,
    columns: usize,
) -> PyResult<Matrix<'a>> {
    if values.len() != present.len() || values.len() != groups.len() * columns {
        return Err(PyValueError::new_err("values and present must have a cell for each row and step"));
    }
    if groups.iter().any(|&group| usize::try_from(group).map_or(true, |group| group >= count)) {
        return Err(PyValueError::new_err("groups: a group is not below count"));
    }
    Ok(Matrix { values, present, groups, count, columns })
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

/// Which cells of each group and step are among the first `limits[step]` of their kind: the largest for `topk`, the smallest
/// for `bottomk`, any for `limitk`. NaN comes last, and of equals the earlier row first.
#[pyfunction]
pub fn prom_first(
    py: Python<'_>,
    op: &str,
    values: Array,
    present: Array,
    groups: Array,
    count: usize,
    limits: Array,
) -> PyResult<ArrowArray> {
    let (values, present) =
        (values.values::<Float64Type>("values")?, present.values::<UInt8Type>("present")?);
    let (groups, limits) = (groups.values::<Int64Type>("groups")?, limits.values::<Int64Type>("limits")?);
    let columns = limits.len();
    let matrix = check(&values, &present, &groups, count, columns)?;
    let better: fn(f64, f64) -> Ordering = match op {
        "topk" => |one, other| other.partial_cmp(&one).unwrap_or_else(|| one.is_nan().cmp(&other.is_nan())),
        "bottomk" => {
            |one, other| one.partial_cmp(&other).unwrap_or_else(|| one.is_nan().cmp(&other.is_nan()))
        }
        "limitk" => |_, _| Ordering::Equal,
        _ => return Err(PyValueError::new_err(format!("op: {op} is not known"))),
    };
    Ok(ArrowArray::from_values::<UInt8Type>(py.detach(|| choose(&matrix, &limits, better))))
}

fn choose(matrix: &Matrix, limits: &[i64], better: fn(f64, f64) -> Ordering) -> Vec<u8> {
    let mut chosen = vec![0_u8; matrix.values.len()];
    let mut found: Vec<(f64, usize)> = Vec::new();
    for members in members(matrix) {
        for (column, &limit) in limits.iter().enumerate() {
            let limit = usize::try_from(limit).unwrap_or(0);
            if limit == 0 {
                continue;
            }
            let cells = members.iter().map(|row| row * matrix.columns + column);
            found.clear();
            found.extend(
                cells.filter(|&cell| matrix.present[cell] != 0).map(|cell| (matrix.values[cell], cell)),
            );
            if limit < found.len() {
                found.select_nth_unstable_by(limit - 1, |one, other| {
                    better(one.0, other.0).then(one.1.cmp(&other.1))
                });
                found.truncate(limit);
            }
            found.iter().for_each(|&(_, cell)| chosen[cell] = 1);
        }
    }
    chosen
}

/// The rows of each group.
fn members(matrix: &Matrix) -> Vec<Vec<usize>> {
    let mut rows: Vec<Vec<usize>> = vec![Vec::new(); matrix.count];
    for (row, &group) in matrix.groups.iter().enumerate() {
        rows[group as usize].push(row);
    }
    rows
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
    let mut scratch = Vec::new();
    let mut out = (Vec::with_capacity(matrix.count * matrix.columns), Vec::new());
    for members in members(matrix) {
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
