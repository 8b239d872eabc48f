//! `merge_dedup`: which rows remain when rows with the same series and time are one.
//!
//! The rows come in an order by (series, ts, sequence), as `sort_keys` makes it; rows with equal series and
//! ts are a group, its history from oldest to newest. A row is a put (op 0) or a delete (op 1, a tombstone).
//! By mode:
//!
//! - `append`: there are no groups, every row remains.
//! - `last_row`: the newest row of a group remains.
//! - `last_non_null`: the newest row remains, and each field takes its newest value that is not null from the
//!   rows behind the last delete.
//!
//! If the newest row is a delete, the group vanishes, which is right when nothing older than these rows
//! exists elsewhere. Otherwise deletes must go on hiding what is older, and `keep_tombstones` lets them
//! remain: the newest row if it is a delete, and in mode `last_non_null` also a last delete further back,
//! ahead of the merged row, because that row may have nulls that an older value must not fill. A remaining
//! delete has no field values.
//!
//! `last_non_null` takes two steps: one pass finds the rows that remain and how far back each may look, then
//! every field looks for its values.

use std::ops::Range;

use arrow_array::types::{Int32Type, UInt8Type, UInt32Type};
use arrow_array::{BooleanArray, PrimitiveArray};
use arrow_buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use arrow_schema::DataType;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::arrow_ffi::{Array, ArrowArray, refuse_nulls};
use crate::rows::keys::{Series, SeriesId, check_length, check_rows_max, times, with_series};

const DELETE: u8 = 1;
const ABSENT: i32 = -1;
const BLOCK_ROWS: usize = 256;

type Answer = (ArrowArray, Option<Vec<ArrowArray>>);

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Append,
    LastRow,
    LastNonNull,
}

#[pyfunction]
#[pyo3(signature = (series, ts, op, order, *, mode, keep_tombstones = false, valid = vec![]))]
#[expect(clippy::too_many_arguments, reason = "they are the columns of a row and what to do with them")]
pub fn merge_dedup(
    py: Python<'_>,
    series: Array,
    ts: Array,
    op: Option<Array>,
    order: Array,
    mode: &str,
    keep_tombstones: bool,
    valid: Vec<Option<Array>>,
) -> PyResult<Answer> {
    let mode = parse_mode(mode)?;
    // The numbers of source rows are signed.
    let rows_max = if mode == Mode::LastNonNull { i32::MAX as usize } else { u32::MAX as usize };
    check_rows_max(&series, rows_max)?;
    check_length("ts", &ts, &series)?;
    let (ids, times) = (Series::new(&series)?, times(&ts)?);
    let ops = op.map(|op| operations(&op, &series)).transpose()?;
    let order = order.values::<UInt32Type>("order")?;
    let fields = validities(&valid, &series)?;
    py.detach(|| {
        check_order_bounds(&order, times.len())?;
        if mode == Mode::Append {
            return Ok((ArrowArray::new(PrimitiveArray::<UInt32Type>::new(order, None)), None));
        }
        with_series!(&ids, ids => {
            let rows = Rows { series: ids, ts: &times, ops: ops.as_deref() };
            match mode {
                Mode::LastNonNull => merge_fields(&rows, &order, keep_tombstones, &fields),
                _ => merge_rows(&rows, &order, keep_tombstones),
            }
        })
    })
}

fn parse_mode(mode: &str) -> PyResult<Mode> {
    match mode {
        "append" => Ok(Mode::Append),
        "last_row" => Ok(Mode::LastRow),
        "last_non_null" => Ok(Mode::LastNonNull),
        _ => Err(PyValueError::new_err(format!(
            "mode is {mode:?}, expected \"append\", \"last_row\" or \"last_non_null\""
        ))),
    }
}

fn operations(op: &Array, series: &Array) -> PyResult<ScalarBuffer<u8>> {
    check_length("op", op, series)?;
    let ops = op.values::<UInt8Type>("op")?;
    match ops.iter().position(|&op| op > DELETE) {
        Some(row) => Err(PyValueError::new_err(format!(
            "op: row {row} is {}, expected 0 (put) or 1 (delete)",
            ops[row]
        ))),
        None => Ok(ops),
    }
}

/// For each field the bits that say which rows have a value; `None` for a field without nulls.
fn validities(fields: &[Option<Array>], series: &Array) -> PyResult<Vec<Option<BooleanBuffer>>> {
    fields.iter().map(|field| field.as_ref().map(|field| validity(field, series)).transpose()).collect()
}

fn validity(field: &Array, series: &Array) -> PyResult<BooleanBuffer> {
    if *field.0.data_type() != DataType::Boolean {
        return Err(PyTypeError::new_err(format!(
            "valid: expected arrays of Boolean, received {}",
            field.0.data_type()
        )));
    }
    check_length("valid", field, series)?;
    refuse_nulls(&field.0, "valid")?;
    Ok(BooleanArray::from(field.0.clone()).values().clone())
}

fn check_order_bounds(order: &[u32], rows: usize) -> PyResult<()> {
    if order.len() > rows {
        let message = format!("order has {} positions for {rows} rows", order.len());
        return Err(PyValueError::new_err(message));
    }
    match order.iter().max() {
        Some(&row) if row as usize >= rows => {
            Err(PyValueError::new_err(format!("order names row {row}, but there are {rows} rows")))
        }
        _ => Ok(()),
    }
}

fn merge_rows<S: SeriesId>(rows: &Rows<'_, S>, order: &[u32], keep_tombstones: bool) -> PyResult<Answer> {
    let mut winners: Vec<u32> = Vec::with_capacity(order.len());
    rows.for_each_group(order, |group| {
        if keep_tombstones || group.last_delete != Some(group.last) {
            winners.push(order[group.last]);
        }
    })?;
    Ok((ArrowArray::from_values::<UInt32Type>(winners), None))
}

fn merge_fields<S: SeriesId>(
    rows: &Rows<'_, S>,
    order: &[u32],
    keep_tombstones: bool,
    fields: &[Option<BooleanBuffer>],
) -> PyResult<Answer> {
    let mut winners: Vec<u32> = Vec::with_capacity(order.len());
    let mut histories: Vec<Range<u32>> = Vec::with_capacity(order.len());
    let mut push = |last: usize, history: Range<usize>| {
        winners.push(order[last]);
        histories.push(history.start as u32..history.end as u32);
    };
    rows.for_each_group(order, |group| {
        let visible = group.last_delete.map_or(group.first, |delete| delete + 1)..group.last + 1;
        if let (true, Some(delete)) = (keep_tombstones, group.last_delete) {
            push(delete, 0..0);
        }
        if !visible.is_empty() {
            push(group.last, visible);
        }
    })?;
    // Fields without nulls have the same sources, so they share one array.
    let shared = fields.contains(&None).then(|| field_sources(&histories, order, |_| true));
    let sources = fields.iter().map(|valid| match (valid, &shared) {
        (None, Some(shared)) => shared.clone(),
        (valid, _) => {
            field_sources(&histories, order, |row| valid.as_ref().is_none_or(|valid| valid.value(row)))
        }
    });
    let sources = sources.collect();
    Ok((ArrowArray::from_values::<UInt32Type>(winners), Some(sources)))
}

struct Rows<'a, S> {
    series: &'a [S],
    ts: &'a [i64],
    ops: Option<&'a [u8]>,
}

/// The rows of one series and time, as positions in the order.
struct Group {
    first: usize,
    last: usize,
    last_delete: Option<usize>,
}

impl<S: SeriesId> Rows<'_, S> {
    fn key(&self, row: u32) -> (S, i64) {
        (self.series[row as usize], self.ts[row as usize])
    }

    fn is_delete(&self, row: u32) -> bool {
        self.ops.is_some_and(|ops| ops[row as usize] == DELETE)
    }

    fn for_each_group(&self, order: &[u32], mut visit: impl FnMut(Group)) -> PyResult<()> {
        let Some(&first) = order.first() else {
            return Ok(());
        };
        let mut group_key = self.key(first);
        let mut group = Group { first: 0, last: 0, last_delete: None };
        let mut keys = Vec::with_capacity(BLOCK_ROWS);
        for (block, rows) in order.chunks(BLOCK_ROWS).enumerate() {
            // The rows are all over the memory; reading the keys of a block first lets the processor wait for
            // many of them at once.
            keys.clear();
            keys.extend(rows.iter().map(|&row| (self.key(row), self.is_delete(row))));
            for (index, &(key, is_delete)) in keys.iter().enumerate() {
                let position = block * BLOCK_ROWS + index;
                if key != group_key {
                    if key < group_key {
                        return Err(not_in_order(position));
                    }
                    visit(group);
                    group = Group { first: position, last: position, last_delete: None };
                    group_key = key;
                }
                group.last = position;
                group.last_delete = if is_delete { Some(position) } else { group.last_delete };
            }
        }
        visit(group);
        Ok(())
    }
}

fn not_in_order(position: usize) -> PyErr {
    PyValueError::new_err(format!(
        "order: position {position} has a lesser series and ts than the one before it; sort the rows first"
    ))
}

/// For each history, a range of the order, the newest row in which the field has a value; null, with `ABSENT`
/// in its slot, when there is none.
fn field_sources(histories: &[Range<u32>], order: &[u32], has_value: impl Fn(usize) -> bool) -> ArrowArray {
    let source = |history: &Range<u32>| {
        let rows = &order[history.start as usize..history.end as usize];
        rows.iter().rev().find(|&&row| has_value(row as usize)).map_or(ABSENT, |&row| row as i32)
    };
    let sources: Vec<i32> = histories.iter().map(source).collect();
    let nulls = sources.contains(&ABSENT).then(|| {
        NullBuffer::new(BooleanBuffer::collect_bool(sources.len(), |index| sources[index] != ABSENT))
    });
    ArrowArray::new(PrimitiveArray::<Int32Type>::new(sources.into(), nulls))
}
