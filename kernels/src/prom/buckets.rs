//! `prom_buckets`: quantiles and fractions of classic histograms, whose buckets are series of their own.
//!
//! `groups[i]` is the histogram of row i, below `count`, and `bounds[i]` the upper bound of its bucket. Values are
//! cumulative counts. `quantile` takes the quantile of each step in `first`; `fraction` the lower and the upper edge in
//! `first` and `second`. The last result has for each cell 1 where counts that fell had to be raised.

use arrow_array::types::{Float64Type, Int64Type, UInt8Type};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrow_ffi::{Array, ArrowArray};

/// Counts that differ by less than this, relative to their size, are equal.
const TOLERANCE: f64 = 1e-12;

#[pyfunction]
#[allow(clippy::too_many_arguments)]
pub fn prom_buckets(
    py: Python<'_>,
    function: &str,
    values: Array,
    present: Array,
    groups: Array,
    bounds: Array,
    count: usize,
    first: Array,
    second: Array,
) -> PyResult<(ArrowArray, ArrowArray, ArrowArray)> {
    let (values, present) =
        (values.values::<Float64Type>("values")?, present.values::<UInt8Type>("present")?);
    let (groups, bounds) = (groups.values::<Int64Type>("groups")?, bounds.values::<Float64Type>("bounds")?);
    let (first, second) = (first.values::<Float64Type>("first")?, second.values::<Float64Type>("second")?);
    let columns = first.len();
    if values.len() != present.len() || values.len() != groups.len() * columns || second.len() != columns {
        return Err(PyValueError::new_err("values and present must have a cell for each row and step"));
    }
    if groups.len() != bounds.len()
        || groups.iter().any(|&group| usize::try_from(group).map_or(true, |g| g >= count))
    {
        return Err(PyValueError::new_err("groups: each row must have a bound and a group below count"));
    }
    let apply: fn(&[(f64, f64)], f64, f64) -> f64 = match function {
        "quantile" => |buckets, q, _| quantile(buckets, q),
        "fraction" => fraction,
        _ => return Err(PyValueError::new_err(format!("function: {function} is not known"))),
    };
    let (result, has, raised) = py.detach(|| {
        let mut rows: Vec<Vec<usize>> = vec![Vec::new(); count];
        for (row, &group) in groups.iter().enumerate() {
            rows[group as usize].push(row);
        }
        let mut out = (Vec::with_capacity(count * columns), Vec::new(), Vec::new());
        let mut buckets = Vec::new();
        for members in &mut rows {
            members.sort_by(|&a, &b| bounds[a].total_cmp(&bounds[b]));
            for column in 0..columns {
                let cells = members.iter().map(|&row| (row, row * columns + column));
                buckets.clear();
                buckets.extend(
                    cells
                        .filter(|&(_, cell)| present[cell] != 0)
                        .map(|(row, cell)| (bounds[row], values[cell])),
                );
                let has = !buckets.is_empty();
                join_equal(&mut buckets);
                let is_raised = has && function == "quantile" && raise(&mut buckets);
                out.0.push(if has { apply(&buckets, first[column], second[column]) } else { 0.0 });
                out.1.push(u8::from(has));
                out.2.push(u8::from(is_raised));
            }
        }
        out
    });
    Ok((
        ArrowArray::from_values::<Float64Type>(result),
        ArrowArray::from_values::<UInt8Type>(has),
        ArrowArray::from_values::<UInt8Type>(raised),
    ))
}

/// Joins buckets of the same bound.
fn join_equal(buckets: &mut Vec<(f64, f64)>) {
    buckets.dedup_by(|next, kept| {
        let is_same = next.0 == kept.0;
        if is_same {
            kept.1 += next.1;
        }
        is_same
    });
}

/// Raises counts that fall; tells whether any fell by more than a rounding error.
fn raise(buckets: &mut [(f64, f64)]) -> bool {
    if buckets.last().is_none_or(|last| last.0 != f64::INFINITY) {
        return false;
    }
    let mut is_raised = false;
    let mut before = buckets[0].1;
    for bucket in &mut buckets[1..] {
        if bucket.1 == before {
            continue;
        }
        if is_almost_equal(before, bucket.1) {
            bucket.1 = before;
        } else if bucket.1 < before {
            bucket.1 = before;
            is_raised = true;
        } else {
            before = bucket.1;
        }
    }
    is_raised
}

fn is_almost_equal(a: f64, b: f64) -> bool {
    if a.is_nan() && b.is_nan() {
        return true;
    }
    let (sum, difference) = (a.abs() + b.abs(), (a - b).abs());
    if a == 0.0 || b == 0.0 || sum < f64::MIN_POSITIVE {
        return difference < TOLERANCE * f64::MIN_POSITIVE;
    }
    difference / sum.min(f64::MAX) < TOLERANCE
}

fn quantile(buckets: &[(f64, f64)], q: f64) -> f64 {
    if q.is_nan() {
        return f64::NAN;
    }
    if q < 0.0 {
        return f64::NEG_INFINITY;
    }
    if q > 1.0 {
        return f64::INFINITY;
    }
    let last = buckets.len() - 1;
    let total = buckets[last].1;
    if buckets[last].0 != f64::INFINITY || last == 0 || total == 0.0 {
        return f64::NAN;
    }
    let mut rank = q * total;
    let found = buckets[..last].partition_point(|bucket| bucket.1 < rank || bucket.1.is_nan());
    if found == last {
        return buckets[last - 1].0;
    }
    let (upper, mut count) = buckets[found];
    if found == 0 && upper <= 0.0 {
        return upper;
    }
    let mut lower = 0.0;
    if found > 0 {
        lower = buckets[found - 1].0;
        count -= buckets[found - 1].1;
        rank -= buckets[found - 1].1;
    }
    lower + (upper - lower) * (rank / count)
}

fn fraction(buckets: &[(f64, f64)], lower: f64, upper: f64) -> f64 {
    let last = buckets.len() - 1;
    let total = buckets[last].1;
    if buckets[last].0 != f64::INFINITY || total == 0.0 || lower.is_nan() || upper.is_nan() {
        return f64::NAN;
    }
    if lower >= upper {
        return 0.0;
    }
    (rank_of(buckets, upper).min(total) - rank_of(buckets, lower).min(total)) / total
}

/// How many observations are below a value.
fn rank_of(buckets: &[(f64, f64)], value: f64) -> f64 {
    let mut start = if buckets[0].0 > 0.0 { 0.0 } else { f64::NEG_INFINITY };
    let mut rank = 0.0;
    for &(end, count) in buckets {
        if start >= value {
            return rank;
        }
        if end > value {
            let share = if start == f64::NEG_INFINITY { 1.0 } else { (value - start) / (end - start) };
            return rank + (count - rank) * share;
        }
        (start, rank) = (end, count);
    }
    rank
}
