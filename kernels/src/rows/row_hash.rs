//! `row_hash`: the 64-bit series id of every row.
//!
//! The id is xxh3-64, with the given seed, of the row's key: the frames of its tags (see `tag_frames`), in
//! ascending order of the columns' names by bytes. A null has no frame. Therefore
//!
//! - the order of the columns does not matter, and a column that is null in a row does not matter to that
//!   row: adding a tag column to a table keeps the id of every existing series;
//! - an empty string is a value and differs from null;
//! - a dictionary column and a plain column with the same strings have the same ids;
//! - without any tag, the key is empty and every row has the id of the empty key.
//!
//! Different series may in principle share an id; who stores ids compares the tags when it first meets one.
//!
//! Rows are taken in windows that keep the frames in the nearest cache. A row that repeats all tags of the
//! row before it takes its id from there.

use arrow_array::types::UInt64Type;
use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::prelude::*;
use twox_hash::XxHash3_64;

use crate::arrow_ffi::{Array, ArrowArray};
use crate::rows::tag_frames::TagFrames;

const WINDOW_ROWS: usize = 512;

#[pyfunction]
#[pyo3(signature = (columns, names, seed = 0, rows = None))]
pub fn row_hash(
    py: Python<'_>,
    columns: Vec<Array>,
    names: Vec<String>,
    seed: u64,
    rows: Option<usize>,
) -> PyResult<ArrowArray> {
    let rows = count_rows(&columns, &names, rows)?;
    let hashes = py.detach(|| hash_rows(open_tags(&columns, names)?, rows, seed))?;
    Ok(ArrowArray::from_values::<UInt64Type>(hashes))
}

fn count_rows(columns: &[Array], names: &[String], rows: Option<usize>) -> PyResult<usize> {
    if columns.len() != names.len() {
        return Err(PyValueError::new_err(format!("{} columns but {} names", columns.len(), names.len())));
    }
    let Some(rows) = rows.or(columns.first().map(|column| column.0.len())) else {
        return Err(PyValueError::new_err("without columns, `rows` must say how many rows there are"));
    };
    for (column, name) in columns.iter().zip(names) {
        if column.0.len() != rows {
            return Err(PyValueError::new_err(format!(
                "column {name:?} has {} rows, expected {rows}",
                column.0.len()
            )));
        }
    }
    Ok(rows)
}

/// The columns in the order of their names.
fn open_tags(columns: &[Array], names: Vec<String>) -> PyResult<Vec<TagFrames>> {
    let mut named: Vec<_> = names.into_iter().zip(columns).collect();
    named.sort_by(|(left, _), (right, _)| left.as_bytes().cmp(right.as_bytes()));
    if let Some(pair) = named.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(PyValueError::new_err(format!("column {:?} is given twice", pair[0].0)));
    }
    named.into_iter().map(|(name, column)| TagFrames::new(name, &column.0)).collect()
}

fn hash_rows(mut tags: Vec<TagFrames>, rows: usize, seed: u64) -> PyResult<Vec<u64>> {
    let mut hashes = Vec::new();
    hashes
        .try_reserve_exact(rows)
        .map_err(|_| PyMemoryError::new_err(format!("no memory for the ids of {rows} rows")))?;
    let mut key = Vec::new();
    let mut repeats = Vec::with_capacity(WINDOW_ROWS);
    for start in (0..rows).step_by(WINDOW_ROWS) {
        let end = rows.min(start + WINDOW_ROWS);
        for tag in &mut tags {
            tag.load(start..end)?;
        }
        mark_repeats(&tags, end - start, &mut repeats);
        let mut hash = 0;
        for (index, &repeats) in repeats.iter().enumerate() {
            if !repeats {
                key.clear();
                tags.iter().for_each(|tag| key.extend_from_slice(tag.frame(index)));
                hash = XxHash3_64::oneshot_with_seed(seed, &key);
            }
            hashes.push(hash);
        }
    }
    Ok(hashes)
}

/// Says for each row of the window whether it has the same tags as the row before it.
fn mark_repeats(tags: &[TagFrames], rows: usize, repeats: &mut Vec<bool>) {
    repeats.clear();
    repeats.resize(rows, true);
    repeats[0] = false;
    for tag in tags {
        for (repeats, pair) in repeats[1..].iter_mut().zip(tag.slots().windows(2)) {
            *repeats &= pair[0] == pair[1];
        }
    }
}
